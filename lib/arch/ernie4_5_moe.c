/* SPDX-License-Identifier: MIT */
/* ERNIE 4.5 with experts (Baidu, 2025): chosen by their softmax with a preference added; the first
 * layers have none. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=500000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_U32("expert_count", LM_KEY_REQUIRED, n_expert, "moe_num_experts"),
    LM_KEY_U32("expert_used_count", LM_KEY_REQUIRED, n_expert_used, "moe_k"),
    LM_KEY_U32("interleave_moe_layer_step", 0, mixed_every, "moe_layer_interval", "=1"),
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "moe_layer_start_index", "=1"),
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_count", 0, n_shared, "moe_num_shared_experts"),
    LM_KEY_SHARED_FF("moe_intermediate_size", "moe_num_shared_experts"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_PREFERENCE("mlp.moe_statics.e_score_correction_bias"),
    LM_T_END,
};

static void constants(struct lm_hparams *h)
{
    h->gating = 1;
}

static const char *const classes[] = { "Ernie4_5_MoeForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .share_of_used = true, .constants = constants,
};

const struct lm_arch lm_arch_ernie4_5_moe = {
    .name = "ernie4_5-moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense,
};
