/* SPDX-License-Identifier: MIT */
/* K-EXAONE (LG AI Research, 2026): queries and keys normalized, experts chosen by sigmoids with a
 * preference added and one that all tokens share; only layers with a window rotate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEY_BASE("=1000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_EXPERT_GROUPS,
    LM_KEY_U32("expert_gating_func", 0, gating, "=2"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_WINDOW,
    { "attention.sliding_window_pattern", LM_GGUF_ARR, 0, LM_FROM_LOCAL_LAYERS, { NULL }, 0 },
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_count", 0, n_shared, "num_shared_experts"),
    { "expert_shared_feed_forward_length", LM_GGUF_U32, 0, LM_FROM_PRODUCT,
      { "moe_intermediate_size", "num_shared_experts" }, LM_FIELD(n_ff_shared) },
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"),
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_CONFIG, { "norm_topk_prob", "=true" },
      LM_FIELD(experts_norm) },
    { "leading_dense_block_count", LM_GGUF_U32, 0, LM_FROM_DENSE_FIRST,
      { "first_k_dense_replace" }, LM_FIELD(n_dense_first) },
    { "nextn_predict_layers", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(n_further) },
    { "rope.scaling.type", LM_GGUF_STR, 0, LM_FROM_CONFIG, { "=none" }, LM_FIELD(rope_scaling) },
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_PREFERENCE("mlp.e_score_correction_bias"),
    LM_T_END,
};

static const char *const classes[] = { "ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM", NULL };
static const char *const ignored[] = { "mtp.*", NULL };
static const struct lm_arch_need needs[] = {
    { "hidden_act", { "silu" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .all_every = 4,
    .all_unturned = true,
};

const struct lm_arch lm_arch_exaone_moe = {
    .name = "exaone-moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
