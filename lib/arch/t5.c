/* SPDX-License-Identifier: MIT */
/*
 * T5 (Raffel et al., 2020), its version 1.1, mT5 (Xue et al., 2021) and UMT5 (Chung et al., 2023):
 * an encoder of one text, which may be alone, and a decoder of another that looks at its result.
 * Positions are known by what their distance adds to a score, learned for each head; scores are not
 * scaled.
 *
 *   encoder   x = x + attention(norm(x));  x = x + feed_forward(norm(x)), everything seen by all
 *   decoder   the same, seeing what came before, with cross attention in between: queries of
 *             norm(x), keys and values of the encoder's result
 *
 * Keys and values of the encoder's result are made once for each decoder layer and remembered.
 * Where the embedding is the output matrix too, its input is scaled by n_embd^-1/2.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#include <math.h>
#include <string.h>

#define FIRST_KEYS \
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "n_positions", "=512"), \
    LM_KEY_EMBD, \
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "d_ff"), \
    LM_KEY_U32("block_count", LM_KEY_REQUIRED, n_layer_enc, "num_layers")
#define HEAD_KEYS \
    LM_KEY_U32("attention.head_count", LM_KEY_REQUIRED, n_head, "num_heads"), \
    LM_KEY_U32("attention.key_length", LM_KEY_REQUIRED, head_k, "d_kv"), \
    LM_KEY_U32("attention.value_length", LM_KEY_REQUIRED, head_v, "d_kv"), \
    { "attention.layer_norm_epsilon", LM_GGUF_F32, LM_KEY_UNUSED, LM_FROM_CONFIG, \
      { "layer_norm_epsilon", "=1e-6" }, 0 }, \
    LM_KEY_U32("attention.relative_buckets_count", LM_KEY_REQUIRED, n_buckets, \
               "relative_attention_num_buckets", "=32"), \
    { "attention.relative_max_distance", LM_GGUF_U32, 0, LM_FROM_UNLESS, \
      { "relative_attention_max_distance", "=128" }, LM_FIELD(max_distance) }, \
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps, \
               "layer_norm_epsilon", "=1e-6")

static const struct lm_arch_key keys[] = {
    FIRST_KEYS,
    LM_KEY_U32("decoder_block_count", 0, n_layer_dec, "num_decoder_layers", "num_layers"),
    HEAD_KEYS,
    { "decoder_start_token_id", LM_GGUF_U32, LM_KEY_UNUSED, LM_FROM_CONFIG,
      { "decoder_start_token_id", "=0" }, 0 },
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

#define T(side, role, name, source, cols, rows, flags) \
    { name ".weight", source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_##side | flags, LM_AS_IS, 0, role, NULL }
#define E(role, name, source, cols, rows, flags) \
    T(OF_ENCODER, role, "enc.blk.{i}." name, "encoder.block.{i}.layer." source, cols, rows, flags)
#define D(role, name, source, cols, rows, flags) \
    T(OF_DECODER, role, "dec.blk.{i}." name, "decoder.block.{i}.layer." source, cols, rows, flags)

#define MATRIX LM_TENSOR_MATRIX
#define ATTENTION(X, role, name, source) \
    X(role##_Q, name "_q", source ".q", LM_DIM_EMBD, LM_DIM_Q, MATRIX), \
    X(role##_K, name "_k", source ".k", LM_DIM_EMBD, LM_DIM_K, MATRIX), \
    X(role##_V, name "_v", source ".v", LM_DIM_EMBD, LM_DIM_V, MATRIX), \
    X(role##_OUT, name "_o", source ".o", LM_DIM_HEADS_OUT, LM_DIM_EMBD, MATRIX)
/* The form without a gate has one input matrix of another name. */
#define UP(side, role, name, source) \
    { name ".weight", source ".wi_1.weight", { LM_DIM_EMBD, LM_DIM_FF }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_##side | MATRIX, LM_AS_IS, 0, role, source ".wi.weight" }

#define ENCODER \
    LM_T_ONE(LM_ENC_OUTPUT_NORM, "enc.output_norm.weight", "encoder.final_layer_norm.weight", \
             LM_DIM_EMBD), \
    E(LM_ENC_NORM, "attn_norm", "0.layer_norm", LM_DIM_EMBD, LM_DIM_END, 0), \
    ATTENTION(E, LM_ENC, "attn", "0.SelfAttention"), \
    E(LM_ENC_BIAS, "attn_rel_b", "0.SelfAttention.relative_attention_bias", LM_DIM_HEADS, \
      LM_DIM_BUCKETS, LM_TENSOR_OPTIONAL | LM_TENSOR_IN_FIRST), \
    E(LM_ENC_FFN_NORM, "ffn_norm", "1.layer_norm", LM_DIM_EMBD, LM_DIM_END, 0), \
    E(LM_ENC_FFN_GATE, "ffn_gate", "1.DenseReluDense.wi_0", LM_DIM_EMBD, LM_DIM_FF, \
      MATRIX | LM_TENSOR_OPTIONAL | LM_TENSOR_ALL_OR_NONE), \
    UP(OF_ENCODER, LM_ENC_FFN_UP, "enc.blk.{i}.ffn_up", \
       "encoder.block.{i}.layer.1.DenseReluDense"), \
    E(LM_ENC_FFN_DOWN, "ffn_down", "1.DenseReluDense.wo", LM_DIM_FF, LM_DIM_EMBD, MATRIX)

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("shared.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_ONE(LM_OUTPUT_NORM, "dec.output_norm.weight", "decoder.final_layer_norm.weight",
             LM_DIM_EMBD),
    ENCODER,
    D(LM_ATTN_NORM, "attn_norm", "0.layer_norm", LM_DIM_EMBD, LM_DIM_END, 0),
    ATTENTION(D, LM_ATTN, "attn", "0.SelfAttention"),
    D(LM_ATTN_BIAS, "attn_rel_b", "0.SelfAttention.relative_attention_bias", LM_DIM_HEADS,
      LM_DIM_BUCKETS, LM_TENSOR_OPTIONAL | LM_TENSOR_IN_FIRST),
    D(LM_CROSS_NORM, "cross_attn_norm", "1.layer_norm", LM_DIM_EMBD, LM_DIM_END, 0),
    ATTENTION(D, LM_CROSS, "cross_attn", "1.EncDecAttention"),
    D(LM_FFN_NORM, "ffn_norm", "2.layer_norm", LM_DIM_EMBD, LM_DIM_END, 0),
    D(LM_FFN_GATE, "ffn_gate", "2.DenseReluDense.wi_0", LM_DIM_EMBD, LM_DIM_FF,
      MATRIX | LM_TENSOR_OPTIONAL | LM_TENSOR_ALL_OR_NONE),
    UP(OF_DECODER, LM_FFN_UP, "dec.blk.{i}.ffn_up", "decoder.block.{i}.layer.2.DenseReluDense"),
    D(LM_FFN_DOWN, "ffn_down", "2.DenseReluDense.wo", LM_DIM_FF, LM_DIM_EMBD, MATRIX),
    LM_T_END,
};

/* --- graphs ------------------------------------------------------------------------------ */

static struct lm_tensor *mul(struct lm_build *b, uint32_t layer, enum lm_role w,
                             struct lm_tensor *x)
{
    return lm_mul_mat(b->graph, lm_build_weight(b, layer, w), x);
}

static struct lm_tensor *norm(struct lm_build *b, uint32_t layer, enum lm_role w,
                              struct lm_tensor *x)
{
    return lm_rms_norm(b->graph, x, lm_build_weight(b, layer, w), b->h->norm_eps);
}

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x, size_t len)
{
    return x ? lm_reshape(b->graph, x, 3, (size_t[]){ len, b->h->n_head, x->ne[1] }) : NULL;
}

/* What distances add to scores: a layer's own, or that of the first, made before. */
static struct lm_tensor *distances(struct lm_build *b, uint32_t layer, enum lm_role w, bool both,
                                   struct lm_tensor *before)
{
    struct lm_tensor *own = lm_build_weight(b, layer, w);
    return own ? lm_distance_bias(b->graph, own, b->h->max_distance, both) : before;
}

static struct lm_tensor *feed_forward(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                      enum lm_role gate, enum lm_role up, enum lm_role down)
{
    struct lm_tensor *g = lm_build_weight(b, layer, gate), *y = mul(b, layer, up, x);
    y = g ? lm_mul(b->graph, lm_gelu(b->graph, lm_mul_mat(b->graph, g, x)), y)
          : lm_relu(b->graph, y);
    return mul(b, layer, down, y);
}

static struct lm_tensor *embed(struct lm_build *b)
{
    return lm_get_rows(b->graph, lm_build_weight(b, 0, LM_TOKEN_EMBD), b->ids);
}

/* What the encoder makes of a text. */
static struct lm_tensor *encoded(struct lm_build *b)
{
    struct lm_graph *g = b->graph;
    const struct lm_hparams *h = b->h;
    struct lm_tensor *x = embed(b), *bias = NULL;
    for (uint32_t i = 0; i < h->n_layer_enc; i++) {
        struct lm_tensor *n = norm(b, i, LM_ENC_NORM, x);
        bias = distances(b, i, LM_ENC_BIAS, true, bias);
        struct lm_tensor *a = lm_attn_whole(g, heads(b, mul(b, i, LM_ENC_Q, n), h->head_k),
                                            heads(b, mul(b, i, LM_ENC_K, n), h->head_k),
                                            heads(b, mul(b, i, LM_ENC_V, n), h->head_v),
                                            b->runs, 1, 0);
        x = lm_add(g, x, mul(b, i, LM_ENC_OUT, lm_attn_adjust(a, NULL, bias)));
        n = norm(b, i, LM_ENC_FFN_NORM, x);
        x = lm_add(g, x, feed_forward(b, i, n, LM_ENC_FFN_GATE, LM_ENC_FFN_UP,
                                      LM_ENC_FFN_DOWN));
    }
    return norm(b, 0, LM_ENC_OUTPUT_NORM, x);
}

/* The encoder, up to keys and values of its result for each layer of the decoder. */
static int encode(struct lm_build *b)
{
    struct lm_graph *g = b->graph;
    const struct lm_hparams *h = b->h;
    struct lm_tensor *x = encoded(b);
    for (uint32_t i = 0; i < h->n_layer_dec; i++)
        lm_graph_expand(g, lm_kv_store(g, heads(b, mul(b, i, LM_CROSS_K, x), h->head_k),
                                       heads(b, mul(b, i, LM_CROSS_V, x), h->head_v),
                                       lm_build_cross_pages(b, i), b->pos, &b->cross[i].kv));
    return g->err.code;
}

static struct lm_tensor *self_attention(struct lm_build *b, uint32_t i, struct lm_tensor *x,
                                        struct lm_tensor *bias)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    struct lm_tensor *n = norm(b, i, LM_ATTN_NORM, x), *pages = lm_build_pages(b, i);
    struct lm_tensor *stored = lm_kv_store(g, heads(b, mul(b, i, LM_ATTN_K, n), h->head_k),
                                           heads(b, mul(b, i, LM_ATTN_V, n), h->head_v), pages,
                                           b->pos, &b->places[i].kv);
    struct lm_tensor *a = lm_attn(g, heads(b, mul(b, i, LM_ATTN_Q, n), h->head_k), pages, b->pos,
                                  stored, &b->places[i].kv, 1, 0, 0);
    return lm_add(g, x, mul(b, i, LM_ATTN_OUT, lm_attn_adjust(a, NULL, bias)));
}

static struct lm_tensor *cross_attention(struct lm_build *b, uint32_t i, struct lm_tensor *x)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *q = mul(b, i, LM_CROSS_Q, norm(b, i, LM_CROSS_NORM, x));
    struct lm_tensor *a = lm_attn(g, heads(b, q, b->h->head_k), lm_build_cross_pages(b, i),
                                  b->cross_last, NULL, &b->cross[i].kv, 1, 0, 0);
    return lm_add(g, x, mul(b, i, LM_CROSS_OUT, a));
}

static int build(struct lm_build *b)
{
    struct lm_graph *g = b->graph;
    const struct lm_hparams *h = b->h;
    if (b->encode)
        return encode(b);
    struct lm_tensor *x = embed(b), *bias = NULL;
    for (uint32_t i = 0; i < h->n_layer_dec; i++) {
        bias = distances(b, i, LM_ATTN_BIAS, false, bias);
        x = cross_attention(b, i, self_attention(b, i, x, bias));
        struct lm_tensor *n = norm(b, i, LM_FFN_NORM, x);
        x = lm_add(g, x, feed_forward(b, i, n, LM_FFN_GATE, LM_FFN_UP, LM_FFN_DOWN));
        x = lm_build_steer(b, i, x);
    }
    if (b->n_out == 0)
        return lm_graph_expand(g, x);
    x = norm(b, 0, LM_OUTPUT_NORM, lm_get_rows(g, x, b->wanted));
    if (!b->embed) {
        struct lm_tensor *w = lm_build_weight(b, 0, LM_OUTPUT);
        if (w && w->name && !strcmp(w->name, tensors[0].name))
            x = lm_scale(g, x, 1 / sqrtf((float)h->n_embd));
        x = lm_mul_mat(g, w, x);
    }
    b->logits = x;
    if (x)
        x->flags |= LM_TENSOR_OUTPUT;
    return lm_graph_expand(g, x);
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    if (!h->n_layer_dec && a->has_encoder)
        h->n_layer_dec = h->n_layer_enc;
    h->n_layer = h->n_layer_enc > h->n_layer_dec ? h->n_layer_enc : h->n_layer_dec;
    if (!h->n_layer_enc)
        return lm_fail(err, LM_EDATA, "%s.block_count: must be at least 1", a->name);
    if (!h->max_distance)
        h->max_distance = 128;
    if (h->n_buckets < 4 || h->n_buckets % 4 || h->n_buckets > h->max_distance ||
        h->max_distance > 1 << 20)
        return lm_fail(err, LM_EDATA, "%s.attention.relative_buckets_count: %u: must be a "
                       "multiple of 4, at most the distance %u", a->name, h->n_buckets,
                       h->max_distance);
    return lm_dense_settle(a, h, err);
}

static const char *const classes[] = {
    "T5ForConditionalGeneration", "T5WithLMHeadModel", "MT5ForConditionalGeneration",
    "UMT5ForConditionalGeneration", NULL
};
static const char *const ignored[] = {
    "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", NULL
};
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_GELU };

const struct lm_arch lm_arch_t5 = {
    .name = "t5", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .has_encoder = true, .settle = settle, .build = build, .dense = &dense,
};

/* --- an encoder alone -------------------------------------------------------------------- */

static const struct lm_arch_key encoder_keys[] = {
    FIRST_KEYS, HEAD_KEYS, LM_KEY_FILE_TYPE, LM_KEY_POOLING, LM_KEYS_END
};
static const struct lm_arch_tensor encoder_tensors[] = {
    LM_T_EMBD("shared.weight"), ENCODER, LM_T_END
};

static int build_encoder(struct lm_build *b)
{
    struct lm_tensor *x = encoded(b);
    if (b->n_out == 0)
        return lm_graph_expand(b->graph, x);
    if (!b->embed) {
        lm_build_missing(b, 0, LM_OUTPUT);
        return b->graph->err.code;
    }
    b->logits = b->n_out < b->n_tokens ? lm_get_rows(b->graph, x, b->wanted) : x;
    if (b->logits)
        b->logits->flags |= LM_TENSOR_OUTPUT;
    return lm_graph_expand(b->graph, b->logits);
}

static const char *const encoder_classes[] = { "T5EncoderModel", NULL };
static const char *const encoder_ignored[] = { "encoder.embed_tokens.weight", NULL };

const struct lm_arch lm_arch_t5encoder = {
    .name = "t5encoder", .hf_classes = encoder_classes, .keys = encoder_keys,
    .tensors = encoder_tensors, .ignored = encoder_ignored, .encoder = true, .settle = settle,
    .build = build_encoder, .dense = &dense,
};
