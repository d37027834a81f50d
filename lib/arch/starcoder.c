/* SPDX-License-Identifier: MIT */
/* StarCoder (Li et al., 2023): GPT-2 whose heads share one key and one value.  CodeShell (Xie et
 * al., 2024) is the same with rotation, and groups of heads. */
#include "arch/dense.h"
#include "arch/rows.h"

#define GPT "transformer.h.{i}."

#define KEYS(kv_heads) \
    LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF_4, LM_KEY_LAYERS, LM_KEY_HEADS, \
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, kv_heads), \
    LM_KEY_NORM_EPS("=1e-5"), \
    LM_KEY_FILE_TYPE
#define ACT LM_KEY_ACT("activation_function", "=gelu_pytorch_tanh")

#define TENSORS \
    LM_T_EMBD("transformer.wte.weight"), \
    LM_T_OUTPUT("lm_head.weight"), \
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS), \
    LM_T_OUTPUT_NORM_B("transformer.ln_f.bias"), \
    LM_T_LAYER_NORM(LM_ATTN_NORM, "attn_norm", GPT "ln_1"), \
    LM_T_MATRIX_B(LM_ATTN_QKV, "attn_qkv", GPT "attn.c_attn", LM_DIM_EMBD, LM_DIM_QKV, \
                  LM_AS_IS), \
    LM_T_MATRIX_B(LM_ATTN_OUT, "attn_output", GPT "attn.c_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD, \
                  LM_AS_IS), \
    LM_T_LAYER_NORM(LM_FFN_NORM, "ffn_norm", GPT "ln_2"), \
    LM_T_MATRIX_B(LM_FFN_UP, "ffn_up", GPT "mlp.c_fc", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS), \
    LM_T_MATRIX_B(LM_FFN_DOWN, "ffn_down", GPT "mlp.c_proj", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS)

static const char *const ignored[] = {
    GPT "attn.bias", GPT "attn.masked_bias", GPT "attn.rotary_emb.inv_freq", NULL
};

/* --- StarCoder --------------------------------------------------------------------------- */

static const struct lm_arch_key keys[] = { KEYS("=1"), ACT, LM_KEYS_END };

static const struct lm_arch_tensor tensors[] = {
    TENSORS,
    { "position_embd.weight", "transformer.wpe.weight", { LM_DIM_EMBD, LM_DIM_CTX }, 0, LM_AS_IS, 0,
      LM_POS_EMBD, NULL },
    LM_T_END,
};

static const char *const classes[] = { "GPTBigCodeForCausalLM", NULL };
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

/* --- CodeShell --------------------------------------------------------------------------- */

static const struct lm_arch_key shell_keys[] = {
    KEYS("num_query_groups"),
    LM_KEY_F32("rope.freq_base", 0, rope_base, "=10000"),
    LM_KEY_SCALING("=linear"),
    LM_KEY_F32("rope.scaling.factor", 0, rope_factor, "=1"),
    ACT,
    LM_KEYS_END,
};

static const struct lm_arch_tensor shell_tensors[] = { TENSORS, LM_T_END };

static const char *const shell_classes[] = { "CodeShellForCausalLM", NULL };
static const struct lm_arch_need shell_needs[] = {
    { "group_query_attention", { "true" }, NULL },
    { "position_embedding_type", { "rope" }, NULL },
    { "rope_scaling", { NULL }, NULL },
    { "scale_attn_weights", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const shell_pre_names[] = { "smollm", "codeshell", NULL };
static const struct lm_dense shell_dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU, .rope_halves = true,
};

const struct lm_arch lm_arch_codeshell = {
    .name = "codeshell", .hf_classes = shell_classes, .keys = shell_keys,
    .tensors = shell_tensors, .ignored = ignored, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &shell_dense, .needs = shell_needs,
    .pre_names = shell_pre_names,
};
