/* SPDX-License-Identifier: MIT */
/*
 * MiniCPM3 (Hu et al., 2024): queries, keys and values by way of short vectors (DeepSeek-AI,
 * "DeepSeek-V2", 2024), which are normalized.  The rotated part of a key is one for all heads.
 * Embedding, what a layer adds, and logits are scaled by constants of the family.
 */
#include "arch/latent.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEY_FILE_TYPE,
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_LAYERS,
    LM_KEY_FF,
    LM_KEY_HEADS,
    LM_KEY_HEADS_KV,
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEY_VOCAB,
    LM_KEY_U32("attention.q_lora_rank", LM_KEY_REQUIRED, q_rank, "q_lora_rank"),
    LM_KEY_U32("attention.kv_lora_rank", LM_KEY_REQUIRED, kv_rank, "kv_lora_rank"),
    { "attention.key_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_SUM,
      { "qk_nope_head_dim", "qk_rope_head_dim" }, LM_FIELD(head_k) },
    LM_KEY_U32("rope.dimension_count", LM_KEY_REQUIRED, n_rot, "qk_rope_head_dim"),
    LM_KEY_BASE_UNUSUAL,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_LONG,
    LM_T_TWO_NORMS,
    LM_T_MATRIX(LM_ATTN_Q_A, "attn_q_a", LM_HF "self_attn.q_a_proj.weight", LM_DIM_EMBD,
                LM_DIM_Q_RANK, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_Q_A_NORM, "attn_q_a_norm.weight", LM_HF "self_attn.q_a_layernorm.weight",
                LM_DIM_Q_RANK, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_Q, "attn_q_b", LM_HF "self_attn.q_b_proj.weight", LM_DIM_Q_RANK,
                LM_DIM_Q, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_KV_A, "attn_kv_a_mqa", LM_HF "self_attn.kv_a_proj_with_mqa.weight",
                LM_DIM_EMBD, LM_DIM_KV_RANK_ROT, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_KV_A_NORM, "attn_kv_a_norm.weight",
                LM_HF "self_attn.kv_a_layernorm.weight", LM_DIM_KV_RANK, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_KV_B, "attn_kv_b", LM_HF "self_attn.kv_b_proj.weight", LM_DIM_KV_RANK,
                LM_DIM_KV_INNER, LM_AS_IS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static void constants(struct lm_hparams *h)
{
    h->embd_scale = 12;
    h->residual_scale = 1.4f / sqrtf((float)h->n_layer);
    h->logit_scale = 256.0f / (float)h->n_embd;
}

/* Values first .. first + len - 1 of each of n parts, `step` long, of every row of x. */
static struct lm_tensor *cut(struct lm_build *b, struct lm_tensor *x, size_t first, size_t len,
                             size_t step, size_t n)
{
    if (!x)
        return NULL;
    return lm_view(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens },
                   (size_t[]){ 4, 4 * step, x->nb[1] }, 4 * first);
}

static void qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor *table,
                struct lm_tensor *out[3])
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t n = h->n_head, rot = h->n_rot, plain = h->head_k - rot, v = h->head_v;
    struct lm_tensor *q = lm_dense_linear(b, layer, LM_ATTN_Q_A, x);
    struct lm_tensor *kv = lm_dense_linear(b, layer, LM_ATTN_KV_A, x);
    struct lm_tensor *key = cut(b, kv, h->kv_rank, rot, rot, 1);
    kv = kv ? lm_view(g, kv, 2, (size_t[]){ h->kv_rank, b->n_tokens },
                      (size_t[]){ 4, kv->nb[1] }, 0) : NULL;
    q = lm_dense_linear(b, layer, LM_ATTN_Q, lm_latent_norm(b, layer, LM_ATTN_Q_A_NORM, q));
    kv = lm_dense_linear(b, layer, LM_ATTN_KV_B,
                         lm_latent_norm(b, layer, LM_ATTN_KV_A_NORM, kv));
    out[0] = lm_concat(g, cut(b, q, 0, plain, h->head_k, n),
                       lm_rope(g, cut(b, q, plain, rot, h->head_k, n), table));
    out[1] = lm_concat(g, cut(b, kv, 0, plain, plain + v, n), lm_rope(g, key, table));
    out[2] = cut(b, kv, plain, v, plain + v, n);
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r = lm_dense_settle(a, h, err);
    if (r)
        return r;
    if (h->n_rot >= h->head_k || h->n_head_kv != h->n_head)
        return lm_fail(err, LM_EDATA, "minicpm3: %u heads of %u values, %u of them rotated, and "
                       "%u key/value heads do not go together", h->n_head, h->head_k, h->n_rot,
                       h->n_head_kv);
    if (!h->q_rank || h->q_rank > 1 << 20 || !h->kv_rank || h->kv_rank > 1 << 20)
        return lm_fail(err, LM_EDATA, "minicpm3.attention.*_lora_rank: must be 1 to %d", 1 << 20);
    return LM_OK;
}

static const char *const classes[] = { "MiniCPM3ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .constants = constants,
    .qkv = qkv,
};

const struct lm_arch lm_arch_minicpm3 = {
    .name = "minicpm3", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .build = lm_dense_build, .dense = &dense,
};
