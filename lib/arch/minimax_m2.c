/* SPDX-License-Identifier: MIT */
/* MiniMax-M2 (2025): experts in every layer, chosen by sigmoids with a preference added; queries
 * and keys normalized over all heads at once, and rotated in part. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=5000000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    { "expert_gating_func", LM_GGUF_U32, 0, LM_FROM_GATING, { "scoring_func" },
      LM_FIELD(gating) },
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_U32("expert_feed_forward_length", LM_KEY_REQUIRED, n_ff_expert, "intermediate_size"),
    LM_KEY_ROT("#rotary_dim", "partial_rotary_factor", "=1"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QK_NORM(LM_DIM_Q, LM_DIM_K, LM_AS_IS),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_ROUTER(LM_HF "block_sparse_moe.gate.weight"),
    LM_T_VECTOR(LM_EXPERT_PREFERENCE, "exp_probs_b.bias",
                LM_HF "block_sparse_moe.e_score_correction_bias", LM_DIM_EXPERTS, LM_AS_IS),
    LM_T_ALL_EXPERTS(LM_HF "block_sparse_moe.experts.{e}.", "w1.weight", "w3.weight",
                     "w2.weight"),
    LM_T_END,
};

static const char *const classes[] = { "MiniMaxM2ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .share_of_used = true,
};

const struct lm_arch lm_arch_minimax_m2 = {
    .name = "minimax-m2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense,
};
