/* SPDX-License-Identifier: MIT */
/*
 * DeepSeek-V2 and V3 (DeepSeek-AI, 2024), whose attention latent.h describes.  Experts are chosen
 * from the best groups of them, in V3 by a score with a preference added; one or more that all
 * tokens share are added.  The first layers have none.
 */
#include "arch/latent.h"

#include <math.h>

#define GATING_SAID \
    { "expert_gating_func", LM_GGUF_U32, 0, LM_FROM_GATING, { "scoring_func" }, LM_FIELD(gating) }
#define GATING_SIGMOID LM_KEY_GATING_SIGMOID

static const struct lm_arch_key keys[] = {
    LM_KEYS_LATENT(GATING_SAID, NULL),
    LM_KEY_FURTHER,
    LM_KEYS_END,
};

static const struct lm_arch_need needs[] = {
    { "rope_interleave", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_LATENT(0),
    LM_T_LATENT_FEED("mlp.", "gate_proj", "up_proj", "down_proj"),
    LM_T_DRAFT(LM_AS_IS),
    LM_T_END,
};

/* Values first .. first + len - 1 of each of n parts, `step` long, of every row of x. */
static struct lm_tensor *cut(struct lm_build *b, struct lm_tensor *x, size_t first, size_t len,
                             size_t step, size_t n)
{
    if (!x)
        return NULL;
    return lm_view(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens },
                   (size_t[]){ 4, 4 * step, x->nb[1] }, 4 * first);
}

static struct lm_tensor *turn(struct lm_build *b, struct lm_tensor *x, struct lm_tensor *table)
{
    return table ? lm_rope(b->graph, x, table) : x;
}

struct lm_tensor *lm_latent_norm(struct lm_build *b, uint32_t layer, enum lm_role w,
                                 struct lm_tensor *x)
{
    return lm_rms_norm(b->graph, x, lm_build_weight(b, layer, w), 1e-6f);
}

struct lm_tensor *lm_latent_query(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    return b->h->q_rank ? lm_latent_norm(b, layer, LM_ATTN_Q_A_NORM,
                                         lm_dense_linear(b, layer, LM_ATTN_Q_A, x)) : x;
}

void lm_latent_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                   struct lm_tensor *table, struct lm_tensor *out[4])
{
    lm_latent_qkv_of(b, layer, lm_latent_query(b, layer, x), x, table, out);
}

void lm_latent_qkv_of(struct lm_build *b, uint32_t layer, struct lm_tensor *query,
                      struct lm_tensor *x, struct lm_tensor *table, struct lm_tensor *out[4])
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t n = h->n_head, rot = h->n_rot, all = h->head_k_full, plain = all - rot;
    const size_t v = h->head_v_full;
    struct lm_tensor *q = lm_dense_linear(b, layer, LM_ATTN_Q, query);
    struct lm_tensor *kv = lm_dense_linear(b, layer, LM_ATTN_KV_A, x);
    struct lm_tensor *key = turn(b, cut(b, kv, h->kv_rank, rot, rot, 1), table);
    kv = kv ? lm_view(g, kv, 2, (size_t[]){ h->kv_rank, b->n_tokens },
                      (size_t[]){ 4, kv->nb[1] }, 0) : NULL;
    kv = lm_latent_norm(b, layer, LM_ATTN_KV_A_NORM, kv);
    struct lm_tensor *first = cut(b, q, 0, plain, all, n);
    if (h->latent) {
        first = lm_mul_mat_heads(g, lm_build_weight(b, layer, LM_LATENT_K), first);
        out[1] = lm_concat(g, cut(b, kv, 0, h->kv_rank, h->kv_rank, 1), key);
    } else {
        kv = lm_dense_linear(b, layer, LM_ATTN_KV_B, kv);
        out[1] = lm_concat(g, cut(b, kv, 0, plain, plain + v, n), key);
        out[2] = cut(b, kv, plain, v, plain + v, n);
    }
    out[0] = lm_concat(g, first, turn(b, cut(b, q, plain, rot, all, n), table));
    if (h->far_scale > 0)
        out[0] = lm_pos_scale(g, out[0], b->angle, h->far_scale,
                              (float)(h->far_length ? h->far_length : h->rope_orig_ctx), false);
}

struct lm_tensor *lm_latent_values(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    if (!h->latent || !x)
        return x;
    x = lm_reshape(b->graph, x, 3, (size_t[]){ h->kv_rank, h->n_head, x->ne[1] });
    x = lm_mul_mat_heads(b->graph, lm_build_weight(b, layer, LM_LATENT_V), x);
    return x ? lm_reshape(b->graph, x, 2,
                          (size_t[]){ (size_t)h->head_v_full * h->n_head, x->ne[2] }) : NULL;
}

void lm_latent_constants(struct lm_hparams *h)
{
    const float grown = 1 + h->yarn_log * logf(h->rope_factor);
    h->latent = h->head_k_full && h->head_v_full;
    if (!h->latent) {
        h->head_k_full = h->head_k;
        h->head_v_full = h->head_v;
    }
    if (h->head_k_full)
        h->attn_scale = 1 / sqrtf((float)h->head_k_full);
    if (h->rope_scaling == LM_ROPE_YARN)
        h->attn_scale *= grown * grown;
}

int lm_latent_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    const uint32_t most = 1 << 14;
    if (h->n_dense_first > LM_MAX_LAYERS)
        return lm_fail(err, LM_EDATA, "%s.leading_dense_block_count: %u", a->name,
                       h->n_dense_first);
    if (!(fabsf(h->yarn_log) < 100))
        return lm_fail(err, LM_EDATA, "%s.rope.scaling.yarn_log_multiplier: out of range",
                       a->name);
    int r = lm_dense_settle(a, h, err);
    if (r)
        return r;
    if (h->q_rank > 1 << 20 || !h->kv_rank || h->kv_rank > 1 << 20)
        return lm_fail(err, LM_EDATA, "%s.attention.*_lora_rank: must be 1 to %d", a->name,
                       1 << 20);
    if (h->head_k_full > most || h->head_v_full > most || h->n_rot >= h->head_k_full)
        return lm_fail(err, LM_EDATA, "%s.attention.key_length_mla: %u, of them %u rotated, "
                       "and values of %u", a->name, h->head_k_full, h->n_rot, h->head_v_full);
    if (h->latent ? h->n_head_kv != 1 || h->head_v != h->kv_rank ||
                    h->head_k != h->kv_rank + h->n_rot
                  : h->n_head_kv != h->n_head)
        return lm_fail(err, LM_EDATA, "%s: %u key/value heads of %u and %u do not go with a "
                       "short vector of %u", a->name, h->n_head_kv, h->head_k, h->head_v,
                       h->kv_rank);
    return LM_OK;
}

static const char *const classes[] = { "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = lm_latent_constants,
    .qkv = lm_latent_qkv, .values = lm_latent_values,
};

const struct lm_arch lm_arch_deepseek2 = {
    .name = "deepseek2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_latent_settle, .build = lm_dense_build,
    .dense = &dense, .needs = needs,
};

/* GLM-4.7-Flash (Z.ai, 2026) is the same; its files leave out what is always so. */
static const struct lm_arch_key lite_keys[] = {
    LM_KEYS_LATENT(GATING_SIGMOID, "=1"),
    LM_KEY_FURTHER,
    LM_KEYS_END,
};
static const char *const lite_classes[] = { "Glm4MoeLiteForCausalLM", NULL };

const struct lm_arch lm_arch_glm4_lite = {
    .name = "deepseek2", .hf_classes = lite_classes, .keys = lite_keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_latent_settle, .build = lm_dense_build,
    .dense = &dense, .needs = needs,
};

/* Youtu-LLM (Tencent, 2025) is the same without experts. */
static const struct lm_arch_key plain_keys[] = {
    LM_KEYS_LATENT_FIRST,
    LM_KEYS_LATENT_LENGTHS,
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "num_hidden_layers"),
    LM_KEYS_LATENT_RANKS,
    LM_KEY_U32("expert_feed_forward_length", 0, n_ff_expert, "intermediate_size"),
    LM_KEY_U32("expert_shared_count", 0, n_shared, "=0"),
    LM_KEYS_LATENT_LAST,
    LM_KEYS_END,
};
static const char *const plain_classes[] = { "YoutuForCausalLM", NULL };

const struct lm_arch lm_arch_youtu = {
    .name = "deepseek2", .hf_classes = plain_classes, .keys = plain_keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_latent_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
