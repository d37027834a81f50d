/* SPDX-License-Identifier: MIT */
/* Command A+ (Cohere, 2026): Command R7B with experts in all but the first layers, and one that all
 * tokens share, whose mean with what the others give is taken; the first layers rotate whatever
 * they see.  Norms are of roots of mean squares where the file has a number for them. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "prefix_dense_intermediate_size",
               "intermediate_size"),
    LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEY_BASE("=10000"),
    LM_KEY_F32("attention.layer_norm_rms_epsilon", 0, norm_rms_eps, "rms_norm_eps"),
    LM_KEY_F32("attention.layer_norm_epsilon", 0, norm_eps, "layer_norm_eps", "=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    { "expert_gating_func", LM_GGUF_U32, 0, LM_FROM_GATING, { "expert_selection_fn" },
      LM_FIELD(gating) },
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    LM_KEY_F32("logit_scale", 0, logit_scale, "logit_scale", "=0.0625"),
    LM_KEY_U32("attention.sliding_window", 0, window, "sliding_window", "=4096"),
    LM_KEY_LOCAL_LAYERS,
    LM_KEY_VOCAB,
    LM_KEY_U32("expert_feed_forward_length", LM_KEY_REQUIRED, n_ff_expert, "intermediate_size"),
    LM_KEY_DENSE_FIRST,
    LM_KEY_EXPERTS_NORM_AS("norm_topk_prob", "=true"),
    { "expert_shared_count", LM_GGUF_U32, 0, LM_FROM_UNLESS, { "num_shared_experts", "=0" },
      LM_FIELD(n_shared) },
    LM_KEY_SHARED_FF("intermediate_size", "num_shared_experts"),
    LM_KEY_U32("rope.dimension_count", 0, n_rot, "head_dim", "=128"),
    LM_KEY_SCALING("=none"),
    LM_KEY_FURTHER_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_END,
};

/* Shares by softmax are of those that are used, whatever the file says of sigmoids. */
static void constants(struct lm_hparams *h)
{
    h->parallel = true;
    h->experts_norm = h->experts_norm || h->gating != 2;
}

static const char *const classes[] = { "Cohere2MoeForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "shared_expert_combination_strategy", { "average" }, NULL },
    { "prefix_dense_sliding_window_pattern", { "1" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .all_every = 4, .all_unturned = true,
    .first_turned = true, .mean_of_shared = true, .constants = constants,
};

const struct lm_arch lm_arch_cohere2moe = {
    .name = "cohere2moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense, .needs = needs,
};
