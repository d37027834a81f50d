/* SPDX-License-Identifier: MIT */
/* GPT-2 (Radford et al., 2019): learned positions, layer norms, plain GELU, biases everywhere; its
 * checkpoints hold matrices on their side. */
#include "arch/dense.h"
#include "arch/rows.h"

#define GPT "transformer.h.{i}."

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_FF_4,
    LM_KEY_HEADS,
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ACT("activation_function", "=gelu_new"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("transformer.ln_f.bias"),
    { "position_embd.weight", "transformer.wpe.weight", { LM_DIM_EMBD, LM_DIM_CTX }, 0, LM_AS_IS, 0,
      LM_POS_EMBD, NULL },
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", GPT "ln_1.weight"),
    LM_T_MAYBE(LM_ATTN_NORM_B, "attn_norm.bias", GPT "ln_1.bias", LM_DIM_EMBD, LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", GPT "ln_2.weight"),
    LM_T_MAYBE(LM_FFN_NORM_B, "ffn_norm.bias", GPT "ln_2.bias", LM_DIM_EMBD, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", GPT "attn.c_attn.weight",
                LM_DIM_EMBD, LM_DIM_QKV, LM_TRANSPOSE),
    LM_T_MAYBE(LM_ATTN_QKV_B, "attn_qkv.bias", GPT "attn.c_attn.bias", LM_DIM_QKV,
               LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", GPT "attn.c_proj.weight",
                LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_TRANSPOSE),
    LM_T_MAYBE(LM_ATTN_OUT_B, "attn_output.bias", GPT "attn.c_proj.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", GPT "mlp.c_fc.weight",
                LM_DIM_EMBD, LM_DIM_FF, LM_TRANSPOSE),
    LM_T_MAYBE(LM_FFN_UP_B, "ffn_up.bias", GPT "mlp.c_fc.bias", LM_DIM_FF,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", GPT "mlp.c_proj.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_TRANSPOSE),
    LM_T_MAYBE(LM_FFN_DOWN_B, "ffn_down.bias", GPT "mlp.c_proj.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "GPT2LMHeadModel", NULL };
static const char *const ignored[] = { GPT "attn.bias", GPT "attn.masked_bias", NULL };
static const struct lm_arch_need needs[] = {
    { "scale_attn_weights", { "true" }, NULL },
    { "scale_attn_by_inverse_layer_idx", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU, .learned_positions = true,
};

const struct lm_arch lm_arch_gpt2 = {
    .name = "gpt2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
