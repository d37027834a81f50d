/* SPDX-License-Identifier: MIT */
/*
 * Llama and Mistral: pre-norm decoder, RMS norm, rotary positions, grouped-query
 * attention, SiLU-gated feed-forward.  For each layer, x being [n_embd] a token:
 *
 *   h = norm(x, attn_norm)
 *   q, k, v = Wq h, Wk h, Wv h       q and k are rotated by position
 *   x = x + Wo attention(q, k, v)
 *   h = norm(x, ffn_norm)
 *   x = x + Wdown (silu(Wgate h) * (Wup h))
 *
 * logits = Woutput norm(x, output_norm).  GGUF files hold the rows of Wq and Wk in
 * the order that rotates neighbouring pairs.
 */
#include "arch/build.h"

#include <math.h>

#define FIELD(f) offsetof(struct lm_hparams, f)

static const struct lm_arch_key keys[] = {
    { "block_count", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_CONFIG,
      { "num_hidden_layers", "n_layer", "n_layers", "num_layers" }, FIELD(n_layer) },
    { "context_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_CONFIG,
      { "max_position_embeddings", "n_positions", "n_ctx" }, FIELD(n_ctx_train) },
    { "embedding_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_CONFIG,
      { "hidden_size", "n_embd", "d_model" }, FIELD(n_embd) },
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_CONFIG,
      { "intermediate_size", "n_inner" }, FIELD(n_ff) },
    { "attention.head_count", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_CONFIG,
      { "num_attention_heads", "n_head" }, FIELD(n_head) },
    { "attention.head_count_kv", LM_GGUF_U32, 0, LM_FROM_CONFIG,
      { "num_key_value_heads", "num_attention_heads", "n_head" }, FIELD(n_head_kv) },
    { "rope.scaling.type", LM_GGUF_STR, 0, LM_FROM_ROPE_TYPE, { NULL }, FIELD(rope_scaling) },
    { "rope.scaling.factor", LM_GGUF_F32, 0, LM_FROM_ROPE_LINEAR,
      { "factor" }, FIELD(rope_factor) },
    { "rope.scaling.original_context_length", LM_GGUF_U32, 0, LM_FROM_ROPE_YARN,
      { "original_max_position_embeddings" }, FIELD(rope_orig_ctx) },
    { "rope.scaling.yarn_ext_factor", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN,
      { "extrapolation_factor" }, FIELD(yarn_ext) },
    { "rope.scaling.yarn_attn_factor", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN,
      { "attention_factor" }, FIELD(yarn_attn) },
    { "rope.scaling.yarn_beta_fast", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN,
      { "beta_fast" }, FIELD(yarn_beta_fast) },
    { "rope.scaling.yarn_beta_slow", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN,
      { "beta_slow" }, FIELD(yarn_beta_slow) },
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE,
      { "rope_theta", "=10000" }, FIELD(rope_base) },
    { "attention.layer_norm_rms_epsilon", LM_GGUF_F32, LM_KEY_REQUIRED, LM_FROM_CONFIG,
      { "rms_norm_eps", "norm_eps", "=1e-6" }, FIELD(norm_eps) },
    { "expert_count", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, FIELD(n_expert) },
    { "attention.key_length", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, FIELD(head_k) },
    { "attention.value_length", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, FIELD(head_v) },
    { "attention.sliding_window", LM_GGUF_U32, 0, LM_FROM_CONFIG,
      { "sliding_window" }, FIELD(window) },
    { "general.file_type", LM_GGUF_U32, LM_KEY_UNUSED, LM_FROM_FILE_TYPE, { NULL }, 0 },
    { "vocab_size", LM_GGUF_U32, LM_KEY_UNUSED, LM_FROM_CONFIG, { "vocab_size" }, 0 },
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, FIELD(n_rot) },
    { NULL, LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, 0 },
};

/* Indices of the rows below. */
enum {
    TOKEN_EMBD, OUTPUT, OUTPUT_NORM, ROPE_FREQS,
    ATTN_NORM, ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT, ATTN_Q_B, ATTN_K_B, ATTN_V_B, ATTN_OUT_B,
    FFN_NORM, FFN_GATE, FFN_UP, FFN_DOWN, FFN_GATE_B, FFN_UP_B, FFN_DOWN_B, N_TENSORS
};

#define LAYER   LM_TENSOR_PER_LAYER
#define MATRIX  (LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX)
#define BIAS    (LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL)
#define HF      "model.layers.{i}."

static const struct lm_arch_tensor tensors[] = {
    [TOKEN_EMBD]  = { "token_embd.weight", "model.embed_tokens.weight",
                      { LM_DIM_EMBD, LM_DIM_VOCAB }, LM_TENSOR_TABLE, LM_AS_IS, 0 },
    [OUTPUT]      = { "output.weight", "lm_head.weight", { LM_DIM_EMBD, LM_DIM_VOCAB },
                      LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_AS_IS, TOKEN_EMBD + 1 },
    [OUTPUT_NORM] = { "output_norm.weight", "model.norm.weight", { LM_DIM_EMBD },
                      0, LM_AS_IS, 0 },
    [ROPE_FREQS]  = { "rope_freqs.weight", NULL, { LM_DIM_ROT_PAIRS },
                      LM_TENSOR_OPTIONAL, LM_MAKE_ROPE_FREQS, 0 },
    [ATTN_NORM]   = { "blk.{i}.attn_norm.weight", HF "input_layernorm.weight",
                      { LM_DIM_EMBD }, LAYER, LM_AS_IS, 0 },
    [ATTN_Q]      = { "blk.{i}.attn_q.weight", HF "self_attn.q_proj.weight",
                      { LM_DIM_EMBD, LM_DIM_Q }, MATRIX, LM_PAIR_Q_ROWS, 0 },
    [ATTN_K]      = { "blk.{i}.attn_k.weight", HF "self_attn.k_proj.weight",
                      { LM_DIM_EMBD, LM_DIM_K }, MATRIX, LM_PAIR_K_ROWS, 0 },
    [ATTN_V]      = { "blk.{i}.attn_v.weight", HF "self_attn.v_proj.weight",
                      { LM_DIM_EMBD, LM_DIM_V }, MATRIX, LM_AS_IS, 0 },
    [ATTN_OUT]    = { "blk.{i}.attn_output.weight", HF "self_attn.o_proj.weight",
                      { LM_DIM_HEADS_OUT, LM_DIM_EMBD }, MATRIX, LM_AS_IS, 0 },
    [ATTN_Q_B]    = { "blk.{i}.attn_q.bias", HF "self_attn.q_proj.bias",
                      { LM_DIM_Q }, BIAS, LM_PAIR_Q_ROWS, 0 },
    [ATTN_K_B]    = { "blk.{i}.attn_k.bias", HF "self_attn.k_proj.bias",
                      { LM_DIM_K }, BIAS, LM_PAIR_K_ROWS, 0 },
    [ATTN_V_B]    = { "blk.{i}.attn_v.bias", HF "self_attn.v_proj.bias",
                      { LM_DIM_V }, BIAS, LM_AS_IS, 0 },
    [ATTN_OUT_B]  = { "blk.{i}.attn_output.bias", HF "self_attn.o_proj.bias",
                      { LM_DIM_EMBD }, BIAS, LM_AS_IS, 0 },
    [FFN_NORM]    = { "blk.{i}.ffn_norm.weight", HF "post_attention_layernorm.weight",
                      { LM_DIM_EMBD }, LAYER, LM_AS_IS, 0 },
    [FFN_GATE]    = { "blk.{i}.ffn_gate.weight", HF "mlp.gate_proj.weight",
                      { LM_DIM_EMBD, LM_DIM_FF }, MATRIX, LM_AS_IS, 0 },
    [FFN_UP]      = { "blk.{i}.ffn_up.weight", HF "mlp.up_proj.weight",
                      { LM_DIM_EMBD, LM_DIM_FF }, MATRIX, LM_AS_IS, 0 },
    [FFN_DOWN]    = { "blk.{i}.ffn_down.weight", HF "mlp.down_proj.weight",
                      { LM_DIM_FF, LM_DIM_EMBD }, MATRIX, LM_AS_IS, 0 },
    [FFN_GATE_B]  = { "blk.{i}.ffn_gate.bias", HF "mlp.gate_proj.bias",
                      { LM_DIM_FF }, BIAS, LM_AS_IS, 0 },
    [FFN_UP_B]    = { "blk.{i}.ffn_up.bias", HF "mlp.up_proj.bias",
                      { LM_DIM_FF }, BIAS, LM_AS_IS, 0 },
    [FFN_DOWN_B]  = { "blk.{i}.ffn_down.bias", HF "mlp.down_proj.bias",
                      { LM_DIM_EMBD }, BIAS, LM_AS_IS, 0 },
    [N_TENSORS]   = { NULL, NULL, { LM_DIM_END }, 0, LM_AS_IS, 0 },
};

static const char *const classes[] = { "LlamaForCausalLM", "MistralForCausalLM", NULL };
static const char *const ignored[] = { HF "self_attn.rotary_emb.inv_freq", NULL };

/* A count that memory is sized by: 1 .. max. */
static int need(const char *key, uint32_t v, uint32_t max, struct lm_err *err)
{
    if (v >= 1 && v <= max)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "llama.%s: %u: must be 1 to %u", key, v, max);
}

static int check_counts(const struct lm_hparams *h, struct lm_err *err)
{
    int r;
    if ((r = need("block_count", h->n_layer, 1 << 12, err)) ||
        (r = need("context_length", h->n_ctx_train, 1 << 30, err)) ||
        (r = need("embedding_length", h->n_embd, 1 << 20, err)) ||
        (r = need("feed_forward_length", h->n_ff, 1 << 24, err)) ||
        (r = need("attention.head_count", h->n_head, 1 << 16, err)) ||
        (r = need("attention.head_count_kv", h->n_head_kv, 1 << 16, err)) ||
        (r = need("attention.key_length", h->head_k, 1 << 14, err)) ||
        (r = need("attention.value_length", h->head_v, 1 << 14, err)) ||
        (r = need("rope.dimension_count", h->n_rot, h->head_k, err)))
        return r;
    if (h->n_head % h->n_head_kv)
        return lm_fail(err, LM_EDATA, "llama.attention.head_count_kv: %u does not divide "
                       "the %u heads", h->n_head_kv, h->n_head);
    if (h->n_rot % 2)
        return lm_fail(err, LM_EDATA, "llama.rope.dimension_count: %u is odd", h->n_rot);
    return LM_OK;
}

static int check_rope(const struct lm_hparams *h, struct lm_err *err)
{
    if (!(h->norm_eps >= 0 && h->norm_eps < 1))
        return lm_fail(err, LM_EDATA, "llama.attention.layer_norm_rms_epsilon: %g: must be "
                       "0 to 1", (double)h->norm_eps);
    if (!(h->rope_base >= 1 && h->rope_base < 1e30f))
        return lm_fail(err, LM_EDATA, "llama.rope.freq_base: %g: must be 1 to 1e30",
                       (double)h->rope_base);
    if (!(h->rope_factor > 0 && h->rope_factor < 1e9f))
        return lm_fail(err, LM_EDATA, "llama.rope.scaling.factor: %g: must be above 0",
                       (double)h->rope_factor);
    if (!(h->yarn_ext <= 1 && h->yarn_attn < 1e9f))
        return lm_fail(err, LM_EDATA, "llama.rope.scaling.yarn_*_factor: out of range");
    if (!(h->yarn_beta_fast > 0 && h->yarn_beta_slow > 0 && h->yarn_beta_fast < 1e9f))
        return lm_fail(err, LM_EDATA, "llama.rope.scaling.yarn_beta_*: must be above 0");
    return LM_OK;
}

/* The defaults of the method's authors: cosine and sine grow by 0.1 ln(factor). */
static void settle_yarn(struct lm_hparams *h)
{
    if (h->rope_orig_ctx == 0)
        h->rope_orig_ctx = h->n_ctx_train;
    if (h->yarn_ext < 0)
        h->yarn_ext = 1;
    if (h->yarn_attn < 0)
        h->yarn_attn = h->rope_factor > 1 ? 0.1f * logf(h->rope_factor) + 1 : 1;
    if (h->yarn_beta_fast == 0)
        h->yarn_beta_fast = 32;
    if (h->yarn_beta_slow == 0)
        h->yarn_beta_slow = 1;
}

static int settle(struct lm_hparams *h, struct lm_err *err)
{
    if (h->n_expert)
        return lm_fail(err, LM_ENOSUP, "llama.expert_count: %u: models with experts are not "
                       "supported", h->n_expert);
    if (h->n_head == 0)
        return need("attention.head_count", 0, 1 << 16, err);
    if (h->n_head_kv == 0)
        h->n_head_kv = h->n_head;
    if (h->head_k == 0)
        h->head_k = h->n_embd / h->n_head;
    if (h->head_v == 0)
        h->head_v = h->n_embd / h->n_head;
    if (h->n_rot == 0)
        h->n_rot = h->head_k;
    if (h->rope_base == 0)
        h->rope_base = 10000;
    if (h->rope_factor == 0)
        h->rope_factor = 1;
    settle_yarn(h);
    int r = check_counts(h, err);
    return r ? r : check_rope(h, err);
}

/* W x + b, the bias if there is one. */
static struct lm_tensor *linear(struct lm_build *b, uint32_t layer, size_t w, size_t bias,
                                struct lm_tensor *x)
{
    struct lm_tensor *y = lm_mul_mat(b->graph, lm_build_weight(b, layer, w), x);
    struct lm_tensor *add = lm_build_weight(b, layer, bias);
    return add ? lm_add(b->graph, y, add) : y;
}

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x, size_t len, size_t n)
{
    return lm_reshape(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens });
}

/* Products of the same input, one after the other, so that they can be taken together. */
static void together(struct lm_build *b, struct lm_tensor *const t[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        lm_graph_expand(b->graph, t[i]);
}

/* Remember k and v of this layer; NULL for the last layer's result when nothing is wanted. */
static struct lm_tensor *attention(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                   struct lm_tensor *table, bool only_store)
{
    const struct lm_hparams *h = b->h;
    const struct lm_kv_layout *kv = &b->kv[layer];
    struct lm_tensor *n = lm_rms_norm(b->graph, x, lm_build_weight(b, layer, ATTN_NORM),
                                      h->norm_eps);
    struct lm_tensor *q = linear(b, layer, ATTN_Q, ATTN_Q_B, n);
    struct lm_tensor *k = linear(b, layer, ATTN_K, ATTN_K_B, n);
    struct lm_tensor *v = linear(b, layer, ATTN_V, ATTN_V_B, n);
    together(b, only_store ? (struct lm_tensor *[]){ k, v } : (struct lm_tensor *[]){ q, k, v },
             only_store ? 2 : 3);
    k = lm_rope(b->graph, heads(b, k, h->head_k, h->n_head_kv), table);
    struct lm_tensor *stored = lm_kv_store(b->graph, k, heads(b, v, h->head_v, h->n_head_kv),
                                           b->pages, b->pos, kv);
    if (only_store) {
        lm_graph_expand(b->graph, stored);
        return NULL;
    }
    q = lm_rope(b->graph, heads(b, q, h->head_k, h->n_head), table);
    return lm_attn(b->graph, q, b->pages, b->pos, stored, kv,
                   1.0f / sqrtf((float)h->head_k), h->window);
}

static struct lm_tensor *feed_forward(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_tensor *n = lm_rms_norm(b->graph, x, lm_build_weight(b, layer, FFN_NORM),
                                      b->h->norm_eps);
    struct lm_tensor *gate = linear(b, layer, FFN_GATE, FFN_GATE_B, n);
    struct lm_tensor *up = linear(b, layer, FFN_UP, FFN_UP_B, n);
    together(b, (struct lm_tensor *[]){ gate, up }, 2);
    n = linear(b, layer, FFN_DOWN, FFN_DOWN_B, lm_swiglu(b->graph, gate, up));
    return lm_add(b->graph, x, n);
}

static int build(struct lm_build *b)
{
    struct lm_graph *g = b->graph;
    struct lm_rope rope = lm_build_rope(b->h);
    struct lm_tensor *x = lm_get_rows(g, lm_build_weight(b, 0, TOKEN_EMBD), b->ids);
    struct lm_tensor *table = lm_rope_table(g, b->pos, lm_build_weight(b, 0, ROPE_FREQS), &rope);
    for (uint32_t i = 0; i < b->h->n_layer; i++) {
        bool last = i + 1 == b->h->n_layer;
        struct lm_tensor *a = attention(b, i, x, table, last && b->n_out == 0);
        if (last && b->n_out == 0)
            return g->err.code;
        if (last && b->n_out < b->n_tokens) {
            a = lm_get_rows(g, a, b->wanted);
            x = lm_get_rows(g, x, b->wanted);
        }
        x = lm_add(g, x, linear(b, i, ATTN_OUT, ATTN_OUT_B, a));
        x = feed_forward(b, i, x);
    }
    x = lm_rms_norm(g, x, lm_build_weight(b, 0, OUTPUT_NORM), b->h->norm_eps);
    b->logits = lm_mul_mat(g, lm_build_weight(b, 0, OUTPUT), x);
    if (b->logits)
        b->logits->flags |= LM_TENSOR_OUTPUT;
    return lm_graph_expand(g, b->logits);
}

const struct lm_arch lm_arch_llama = {
    .name       = "llama",
    .hf_classes = classes,
    .keys       = keys,
    .tensors    = tensors,
    .ignored    = ignored,
    .settle     = settle,
    .build      = build,
};
