/* SPDX-License-Identifier: MIT */
/* DeepSeek's first mixture of experts (Dai et al., 2024): llama with many small experts, some that
 * all tokens share, and a first layer without. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT("=1"),
    LM_KEY_SCALING("=none"),
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "first_k_dense_replace", "=0"),
    LM_KEY_VOCAB,
    LM_KEY_EXPERT_FF,
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "=1"),
    LM_KEY_U32("expert_shared_count", 0, n_shared, "n_shared_experts"),
    LM_KEY_EXPERTS_NORM("=false"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_END,
};

static const char *const classes[] = { "DeepseekForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "moe_layer_freq", { "1" }, NULL },
    { "rope_scaling", { NULL }, NULL },
    { "scoring_func", { "softmax" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_deepseek = {
    .name = "deepseek", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
