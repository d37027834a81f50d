/* SPDX-License-Identifier: MIT */
#ifndef LM_CTX_IMPL_H
#define LM_CTX_IMPL_H

/* A context, for the files that share it: ctx.c evaluates, ctx_seq.c works on sequences. */

#include "backend/sched.h"
#include "memory/memory.h"
#include "model/model_impl.h"

#define LM_CTX_KEPT 2                  /* graphs */
#define LM_DRAFT_KEPT 4                /* those of a draft head, behind the others */
#define LM_ALL_KEPT (LM_CTX_KEPT + LM_DRAFT_KEPT)

/* An adapter that is for the tokens from where these ids begin for the last time. */
struct lm_waiting {
    size_t                   at;        /* in the context's list                    */
    const int32_t           *ids;       /* [n] the adapter's                        */
    uint32_t                 n;
};

/* What an adapter of low rank is multiplied by in a graph where that is not the same for all
 * tokens. */
struct lm_weights {
    struct lm_tensor *given;            /* input F32 [1, tokens]; NULL: it is the same   */
    float             ratio;            /* and times this they are those                 */
    struct lm_tensor *rows[2];          /* of all tokens, and of those that are wanted; or NULL */
};

/* Scales that a sequence has of its own. */
struct lm_scales {
    struct lm_scales *next;
    uint32_t          seq;
    size_t            n;                /* at least 1 where a sequence has it            */
    uint32_t         *from;             /* [n] ascending: lm_ctx_adapt's, then from here on */
    float            *values;           /* [n][n_low_rank] these                         */
    size_t            from_cap, values_cap;
};

/* A graph that is ready to run. */
struct lm_ready {
    struct lm_graph   graph;
    const struct lm_ctx *ctx;
    struct lm_weights *weights; /* [n_adapted], or NULL where there are none     */
    struct lm_plan   *plan;
    size_t            n_tokens, n_out;
    struct lm_build   b;
    uint64_t          used;     /* when it ran last                              */
};

struct lm_ctx {
    struct lm_model        *m;
    struct lm_backend      *backend[LM_MAX_PLACES];      /* [m->n_devices] */
    struct lm_sched        *sched;
    struct lm_env           env;         /* only asked whether to stop            */
    struct lm_memory       *memory;
    struct lm_memory_place *places;      /* [n_places], one more with a draft head */
    uint32_t                n_places;    /* lm_arch_n_memory                      */
    struct lm_memory       *cross;       /* of the encoder's texts; NULL: there is no encoder */
    struct lm_memory_place *cross_places;        /* [n_layer_dec]                   */
    const struct lm_type   *k_type, *v_type;
    uint32_t                n_ctx, n_batch, n_ubatch;
    struct lm_ready         ready[LM_ALL_KEPT];
    uint64_t                clock;
    float                  *logits;      /* [cap_rows][row_len]                   */
    size_t                  row_len;     /* n_vocab, or n_embd for hidden states  */
    bool                    embed;
    bool                    pairs;       /* tokens say which text of a pair they are of  */
    int64_t                 separator;   /* between the texts of a pair, or -1    */
    bool                    encoding;    /* graphs are the encoder's              */
    size_t                  cap_rows;
    size_t                 *row;         /* [n_batch] of logits, or NO_ROW        */
    struct lm_memory_token *tokens;      /* [n_batch]                             */
    size_t                  n;           /* tokens of the last batch              */
    uint32_t                far_from;    /* rotation depends on a sequence's length being
                                            greater than this; 0: it does not     */
    struct lm_counts        counts;
    struct lm_history      *histories;   /* history.c                             */
    struct lm_draft        *draft;       /* ctx_draft.c, or NULL                  */
    bool                    drafting;    /* graphs are the draft head's           */
    struct lm_adapted      *adapted;     /* [n_adapted]                           */
    size_t                  n_adapted;
    struct lm_waiting      *waiting;     /* [n_waiting] those of them that wait           */
    size_t                  n_waiting;
    size_t                  n_low_rank;  /* of those adapters                     */
    struct lm_scales       *scales;      /* ctx_scales.c                          */
    bool                    by_token;    /* graphs take each token's scales       */
    float                 **steer;       /* [n_layer] [n_embd] or NULL            */
    void                  (*observe)(void *, const struct lm_observed *);
    void                   *observe_arg;
    void                  (*watch)(void *, const struct lm_tensor *);
    void                   *watch_arg;
};

#define NO_ROW SIZE_MAX

/* The graph for n tokens, n_out of them wanted; not planned. */
int lm_ctx_build(struct lm_ctx *c, struct lm_ready *r, size_t n, size_t n_out,
                 struct lm_err *err);
/* Make a graph that was built ready to run. */
int lm_ctx_plan_graph(struct lm_ctx *c, struct lm_ready *r, struct lm_err *err);
void lm_ctx_drop_graph(struct lm_ctx *c, struct lm_ready *r);
/* The graph for n tokens, n_out of them wanted, ready to run: kept from before, or made.  NULL
 * with *err filled. */
struct lm_ready *lm_ctx_graph_for(struct lm_ctx *c, size_t n, size_t n_out, struct lm_err *err);

/* lm_ctx_decode without history.c's part. */
int lm_ctx_evaluate(struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                    struct lm_err *err);

/* For contexts of which lm_ctx_by_length is true: before and after a batch; what becomes of a
 * sequence.  lm_history_before fails with nothing remembered otherwise than before. */
int lm_history_before(struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                      struct lm_err *err);
void lm_history_after(struct lm_ctx *c, const struct lm_batch_token *t, size_t n);
int lm_history_copy(struct lm_ctx *c, uint32_t dst, uint32_t src, struct lm_err *err);
void lm_history_cut(struct lm_ctx *c, uint32_t seq, uint32_t pos);
void lm_history_keep(struct lm_ctx *c, uint32_t seq);
void lm_history_free(struct lm_ctx *c);
/* The context's adapters are others from now on. */
void lm_history_forget_adapters(struct lm_ctx *c);

/* What is known of a sequence of n tokens. */
struct lm_known {
    const int32_t  *ids;                /* [n], or NULL                              */
    uint32_t        n;
    bool            far;                /* it was made with the factors for great lengths */
    const uint32_t *from;               /* [n_waiting] and with adapters from there on, a position
                                           behind the last meaning none; NULL: none  */
};

/* Borrowed until the next evaluation; and a sequence gets this, copied, in the place of what was
 * known of it: LM_OK or LM_ENOMEM. */
void lm_history_known(const struct lm_ctx *c, uint32_t seq, uint32_t n, struct lm_known *out);
int lm_history_set(struct lm_ctx *c, uint32_t seq, const struct lm_known *known,
                   struct lm_err *err);

/* Inputs of a graph, for n tokens of a batch that lm_history_before has seen: the lengths that
 * results depend on; 0 in the place of what an adapter that waits is multiplied by where it is not
 * for them. */
void lm_history_lengths(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                        int32_t *out);
void lm_history_active(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                       size_t waiting, float *out);

/*
 * Scales that sequences have of their own, ctx_scales.c.
 *
 * lm_scales_of - a sequence's, or NULL.
 * lm_scale_at - what counts for a token of a sequence that has s, which may be NULL, and adapter
 * number i of the context's list, which is of low rank.
 *
 * lm_scales_add - from a position on, behind those before, `values` [n_low_rank]; *s is made where
 * it is NULL.  LM_OK or LM_ENOMEM; *s is the caller's in any case.
 * lm_scales_copy - *out becomes a copy of a sequence's, NULL if it has none.
 * lm_scales_put - a sequence has s from now on, which may be NULL; it belongs to the context.
 * lm_scales_drop - give back what is not put, or NULL.
 *
 * lm_scales_cut, lm_scales_shift, lm_scales_keep - what becomes of them when a sequence is cut at
 * pos, loses from .. to - 1, or is the only one that stays; lm_scales_free: of all.
 */
const struct lm_scales *lm_scales_of(const struct lm_ctx *c, uint32_t seq);
float lm_scale_at(const struct lm_ctx *c, const struct lm_scales *s, uint32_t pos, size_t i);
int  lm_scales_add(const struct lm_ctx *c, struct lm_scales **s, uint32_t from,
                   const float *values, struct lm_err *err);
int  lm_scales_copy(const struct lm_ctx *c, uint32_t seq, struct lm_scales **out,
                    struct lm_err *err);
void lm_scales_put(struct lm_ctx *c, uint32_t seq, struct lm_scales *s);
void lm_scales_drop(struct lm_scales *s);
void lm_scales_cut(struct lm_ctx *c, uint32_t seq, uint32_t pos);
void lm_scales_shift(struct lm_ctx *c, uint32_t seq, uint32_t from, uint32_t to);
void lm_scales_keep(struct lm_ctx *c, uint32_t seq);
void lm_scales_free(struct lm_ctx *c);

/* Have graphs multiply what adapters of low rank add by the scales of each token.  LM_ENOSUP where
 * that cannot be done, and nothing has changed. */
int lm_ctx_weigh_tokens(struct lm_ctx *c, struct lm_err *err);
/* The graph's input for adapter number i, [n_tokens] to be filled, or NULL where there is none. */
float *lm_ctx_weights(const struct lm_ready *r, size_t i);
/* Fill those for the tokens of a batch that lm_history_before has seen. */
void lm_ctx_weigh(const struct lm_ctx *c, struct lm_ready *r, const struct lm_batch_token *t);

/* Have a graph that is to be built add what the context's adapters add; r->ctx and what is wanted
 * are there. */
void lm_ctx_hook(const struct lm_ctx *c, struct lm_ready *r);
/* A sum over an adapter's tensors. */
uint64_t lm_adapter_sum(const struct lm_adapter *a);

/* The encoder's graph for n tokens, planned; drop it in any case. */
int lm_ctx_encoder_graph(struct lm_ctx *c, struct lm_ready *r, size_t n, struct lm_err *err);

/* c->memory and, for a model with an encoder, c->cross; where their layers are: on the device
 * of the weights that make what a layer remembers, if that can compute with it there. */
int lm_ctx_make_memory(struct lm_ctx *c, const struct lm_ctx_options *o, struct lm_err *err);
/* The kind of memory in which a device of the model remembers. */
const struct lm_buft *lm_ctx_state_buft(const struct lm_ctx *c, size_t device);
/* Does a node read or write what a layer remembers at a place, in the memories whose addresses
 * are pages and states, or NULL? */
bool lm_ctx_remembers(const struct lm_tensor *t, const struct lm_memory_place *place,
                      struct lm_tensor *const *pages, struct lm_tensor *const *states);
/* Has every token's sequence a text of the encoder? */
int lm_ctx_check_cross(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                       struct lm_err *err);
/*
 * The draft head of a context, which has its own cache, ctx_draft.c.  That is never needed: what
 * is not in it is made again of what the context remembers of the tokens.
 *
 * lm_draft_new: c->draft.  lm_draft_places: where its layers are, [n_layer + 1], of which the last
 * remembers: made by the caller.  lm_draft_remember: the cache.  lm_draft_hidden: [n_embd], where
 * its graph's `hidden` goes.
 *
 * lm_draft_forget: the tokens of a sequence from pos on are others, or gone; lm_draft_copied: dst
 * has become a copy of src; lm_draft_kept: all others are dropped.
 * lm_draft_mark: the tokens come from a state without what the head needs; lm_draft_known: they do
 * not.
 */
int  lm_draft_new(struct lm_ctx *c, struct lm_err *err);
struct lm_memory_place **lm_draft_places(struct lm_ctx *c);
int  lm_draft_remember(struct lm_ctx *c, const struct lm_memory_shape *s, struct lm_err *err);
float *lm_draft_hidden(const struct lm_ctx *c);
void lm_draft_free(struct lm_ctx *c);
void lm_draft_forget(struct lm_ctx *c, uint32_t seq, uint32_t pos);
void lm_draft_copied(struct lm_ctx *c, uint32_t dst, uint32_t src);
void lm_draft_kept(struct lm_ctx *c, uint32_t seq);
int  lm_draft_mark(struct lm_ctx *c, uint32_t seq, struct lm_err *err);
bool lm_draft_known(const struct lm_ctx *c, uint32_t seq);

/* Memory for n rows of results. */
bool lm_ctx_rows_for(struct lm_ctx *c, size_t n);
/* What lm_sched_run calls for each node, with the context, when somebody watches or observes. */
void lm_ctx_seen(void *ctx, const struct lm_tensor *node);

/*
 * How the keys of a layer follow when their positions change: values `off` .. `off` + n_rot - 1
 * of each turn by the angles of as many positions.
 */
struct lm_turn {
    bool             rotates;
    size_t           off;
    struct lm_rope   rope;
    struct lm_tensor factors;           /* weights F32 [n_rot / 2]: of the frequencies, where
                                           there is data                                    */
    const void      *table;             /* the same where places turn alike                 */
};

/*
 * lm_ctx_turns - of every place [n_places], read off the graph.  LM_ENOSUP where positions
 * come into it otherwise, so that what is cached belongs to its position.
 */
int lm_ctx_turns(struct lm_ctx *c, struct lm_turn *turns, struct lm_err *err);

#endif
