/* SPDX-License-Identifier: MIT */
/* StarCoder (Li et al., 2023): GPT-2 whose heads share one key and one value. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_FF_4,
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, "=1"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ACT("activation_function", "=gelu_pytorch_tanh"),
    LM_KEYS_END,
};

#define PART(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, "transformer.h.{i}." source ".weight", cols, rows, LM_AS_IS), \
    LM_T_VECTOR(role##_B, name ".bias", "transformer.h.{i}." source ".bias", rows, LM_AS_IS)
#define NORM(role, name, source) \
    LM_T_NORM(role, name, "transformer.h.{i}." source ".weight"), \
    LM_T_VECTOR(role##_B, name ".bias", "transformer.h.{i}." source ".bias", LM_DIM_EMBD, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("transformer.ln_f.bias"),
    { "position_embd.weight", "transformer.wpe.weight", { LM_DIM_EMBD, LM_DIM_CTX }, 0, LM_AS_IS, 0,
      LM_POS_EMBD, NULL },
    NORM(LM_ATTN_NORM, "attn_norm", "ln_1"),
    PART(LM_ATTN_QKV, "attn_qkv", "attn.c_attn", LM_DIM_EMBD, LM_DIM_QKV),
    PART(LM_ATTN_OUT, "attn_output", "attn.c_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    NORM(LM_FFN_NORM, "ffn_norm", "ln_2"),
    PART(LM_FFN_UP, "ffn_up", "mlp.c_fc", LM_DIM_EMBD, LM_DIM_FF),
    PART(LM_FFN_DOWN, "ffn_down", "mlp.c_proj", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_END,
};

static const char *const classes[] = { "GPTBigCodeForCausalLM", NULL };
static const char *const ignored[] = {
    "transformer.h.{i}.attn.bias", "transformer.h.{i}.attn.masked_bias", NULL
};
static const struct lm_arch_need needs[] = {
    { "multi_query", { "true" }, NULL },
    { "scale_attn_weights", { "true" }, NULL },
    { "add_cross_attention", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "smollm", "starcoder", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU, .learned_positions = true,
};

const struct lm_arch lm_arch_starcoder = {
    .name = "starcoder", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .pre_names = pre_names,
};
