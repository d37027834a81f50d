/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_DENSE_H
#define LM_ARCH_DENSE_H

/*
 * Decoders and encoders whose layers are attention and feed-forward, and what varies between
 * their families.  For each layer, x being [n_embd] a token and scale the residual scale:
 *
 *   one after the other              side by side (parallel)
 *   h = norm(x, attn_norm)           h = norm(x, attn_norm)
 *   a = attention(h)                 a = attention(norm(x, attn_norm_2), or h without one)
 *   x = x + scale post(a)            f = feed_forward(norm(x, ffn_norm), or h without one)
 *   h = norm(x, ffn_norm)            x = x + scale (a + f)
 *   x = x + scale post(feed_forward(h))
 *
 *   attention      q, k, v = Wq h, Wk h, Wv h, or one product cut in three; q and k normalized
 *                  if there are weights for it, and rotated; Wo of the weighted values
 *   feed_forward   Wdown (act(Wgate h) * (Wup h)), or Wdown act(Wup h) without a gate; a gate
 *                  may be the first half of Wup's rows
 *                  with experts: a router's logits choose those of a token, their results
 *                  are summed by its softmax; one that all tokens share is added
 *                  before the last product of either a norm, if there is a weight for it; the
 *                  weighted values times the sigmoid of Wgate h, if there is one for that
 *   post           a norm if there is a weight for it
 *
 * With weights for it, what follows an addition is normalized instead of what goes in (the
 * original order, Vaswani et al., 2017): x = norm(x + a, attn_out_norm), x = norm(x +
 * feed_forward(x), layer_out_norm).  With weights for that too, the first is added to x once more:
 * x = norm(x + norm(x + a, attn_out_norm), attn_again_norm).
 *
 * Recurrent layers (recurrent.h) have something else in attention's place, or beside it.
 *
 * logits = Woutput norm(x, output_norm).  A norm without its weight leaves x as it is, a
 * product without its bias adds none: what there is is said by the tensor rows.
 */

#include "arch/build.h"

enum lm_norm { LM_NORM_RMS, LM_NORM_LAYER };

struct lm_dense {
    enum lm_norm norm;
    enum lm_act  act;               /* unless a key says another                             */
    bool         rope_halves;       /* rotated pairs are halves of a head, else neighbours   */
    bool         learned_positions; /* position_embd instead of rotation                     */
    float        alibi;             /* struct lm_hparams' alibi, unless a key says it        */
    uint32_t     all_every;         /* with a window: every n-th layer sees everything; 0:
                                       the window is every layer's                           */
    bool         local_plain;       /* the rotation of layers with a window is not stretched */
    bool         in_chunks;         /* windows are chunks (lm_attn_chunk)                    */
    uint32_t     usual_window;      /* where no key says another                             */
    bool         bare_norms;        /* norms before attention and feed-forward, and the last, have
                                       no weights                                            */
    bool         plain_norms;       /* with qk_norms, heads of queries and keys that turned are
                                       normalized without weights                            */
    bool         far_unturned;      /* far_scale is for layers without rotation only, and counts
                                       positions from 1                                      */
    bool         weigh_inputs;      /* shares of experts multiply what comes in, not out     */
    bool         norm_turned;       /* queries and keys are normalized after they turned     */
    bool         all_unturned;      /* with a window: layers that see everything have no
                                       rotation                                              */
    bool         first_turned;      /* but the first layers, without experts, do             */
    uint32_t     unturned_every;    /* every n-th layer has no rotation; 0: all have one     */
    bool         share_of_used;     /* experts' shares are of those that are used, else of
                                       all                                                   */
    float        near_experts;      /* above 0: struct lm_routing's near                     */
    bool         mean_of_shared;    /* what experts give and what a shared one does are
                                       halved                                                */
    bool         divide_logits;     /* by logit_scale, else multiply                         */
    /* What the family's runtime knows beside the file's keys, before lm_dense_settle's
     * checks; or NULL. */
    void       (*constants)(struct lm_hparams *h);
    /* Queries, keys and values of a layer from its input, rotated; NULL: as above.  What a
     * family sets out[3] to, [n_head * head_v, n], multiplies the weighted values. */
    void       (*qkv)(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                      struct lm_tensor *table, struct lm_tensor *out[4]);
    /* What becomes of the weighted values [n_head * head_v, n] before the last product; NULL: they
     * stay as they are. */
    struct lm_tensor *(*values)(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
    /* What recurrent layers (lm_arch_recurrent) do with their input instead of attention, or
     * with `both` beside it, up to the last product, LM_SSM_OUT; or NULL. */
    struct lm_tensor *(*recurrent)(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
    bool         both;
    /* What a family adds to the above, each of them or NULL.  begin: before the first layer, from
     * its input.  feed: instead of the feed-forward, x being what comes in and y its norm.
     * after: what becomes of a layer's result. */
    void       (*begin)(struct lm_build *b, struct lm_tensor *x);
    struct lm_tensor *(*feed)(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                              struct lm_tensor *y);
    struct lm_tensor *(*after)(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
};

/* For struct lm_arch: defaults and checks; the graph. */
int lm_dense_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);
int lm_dense_build(struct lm_build *b);

/* For struct lm_dense's constants: attention and feed-forward are side by side; the embedding is
 * scaled by the root of its length; the rotation of layers with a window has that base where no
 * key gives it another than that of the others. */
void lm_dense_parallel(struct lm_hparams *h);
void lm_dense_scale_embd(struct lm_hparams *h);
void lm_dense_local_base(struct lm_hparams *h, float base);

/*
 * lm_dense_classify - what the classifier says of pooled hidden states x [n_embd, n]: F32
 * [n_labels, n], or NULL with the graph failed.
 *
 * y = Wout h + bout; h is x, or tanh(W x + b) where there is a W (BERT's pooler), or with
 * class_relu max(W x + b, 0) (DistilBERT), or with a norm for it norm(gelu(W x)) (ModernBERT).
 */
struct lm_tensor *lm_dense_classify(struct lm_build *b, struct lm_tensor *x);

/* lm_dense_project - W3 (W2 x), what an embedding becomes of pooled hidden states x [n_embd, n]; x
 * itself where there are no weights.  NULL with the graph failed, also where x does not fit. */
struct lm_tensor *lm_dense_project(struct lm_build *b, struct lm_tensor *x);

/* A count that memory is sized by must be 1 .. max: LM_EDATA naming the key. */
int lm_dense_need(const struct lm_arch *a, const char *key, uint32_t v, uint32_t max,
                  struct lm_err *err);

/* W x, plus its bias if there is one. */
struct lm_tensor *lm_dense_linear(struct lm_build *b, uint32_t layer, enum lm_role w,
                                  struct lm_tensor *x);
/* The family's norm of rows of x, or x if there is no weight. */
struct lm_tensor *lm_dense_norm(struct lm_build *b, uint32_t layer, enum lm_role w,
                                struct lm_tensor *x);
/* Rows of x divided by the root of their mean square. */
struct lm_tensor *lm_dense_plain_norm(struct lm_build *b, struct lm_tensor *x);
/* The family's activation of gate, times up. */
struct lm_tensor *lm_dense_gated(struct lm_build *b, struct lm_tensor *gate, struct lm_tensor *up);
/* Tables of rotation, [0] of layers without a window, [1] of layers with one; that of a layer,
 * NULL where nothing turns. */
void lm_dense_tables(struct lm_build *b, struct lm_tensor *tables[2]);
struct lm_tensor *lm_dense_table_of(const struct lm_build *b, uint32_t layer,
                                    struct lm_tensor *const tables[2]);
/* The input of the first layer; a layer's attention of normalized x, its last product included,
 * NULL with only_store; logits of the last layer's result x [n_embd, n_out], or a code. */
struct lm_tensor *lm_dense_embed(struct lm_build *b);
struct lm_tensor *lm_dense_attend(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                  struct lm_tensor *table, bool only_store);
int lm_dense_head(struct lm_build *b, struct lm_tensor *x);
/* The last product alone, with a layer's weight w: x is normalized. */
int lm_dense_logits(struct lm_build *b, uint32_t layer, enum lm_role w, struct lm_tensor *x);
/* One layer, of input x [n_embd, n_tokens] and its table of rotation; NULL after the last when
 * nothing is wanted, where there are only the wanted rows. */
struct lm_tensor *lm_dense_layer(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                 struct lm_tensor *table);
/* A layer's feed-forward without experts. */
struct lm_tensor *lm_dense_feed(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
/* Half of every row of x [2 n, ..]. */
struct lm_tensor *lm_dense_half(struct lm_build *b, struct lm_tensor *x, size_t which);

#endif
