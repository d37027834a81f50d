/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_BUILD_H
#define LM_ARCH_BUILD_H

/* What a graph builder works with: the model's numbers and weights, and the inputs of
 * one evaluation of n_tokens tokens, of which n_out are wanted. */

#include "arch/arch.h"
#include "memory/memory.h"
#include "tensor/tensor.h"

struct lm_build {
    const struct lm_arch    *arch;
    const struct lm_hparams *h;
    struct lm_graph         *graph;
    /* [n_layer][n_weights], indexed as the architecture's tensor rows; NULL: missing.
     * Those that are not per layer stand in layer 0. */
    struct lm_tensor *const *weights;
    size_t                   n_weights;
    const struct lm_memory_place *places;       /* [lm_arch_n_memory] in what is remembered */
    size_t                   n_tokens, n_out;
    uint32_t                 n_ctx;      /* most tokens of a sequence                     */
    bool                     every_row;  /* no layer leaves out tokens that are not wanted */
    bool                     embed;      /* hidden states are wanted, not logits          */
    bool                     keep_hidden;       /* see draft_head.h; places[n_layer] is theirs */
    bool                     draft;      /* the graph of the draft head, places[n_layer] its */
    struct lm_tensor        *id_values;  /* keep_hidden: F32 [n_tokens], the ids           */
    struct lm_tensor        *before;     /* draft: F32 [n_embd, n_tokens] what was kept of the
                                            token before                                  */
    struct lm_tensor        *hidden;     /* draft: set by the builder: F32 [n_embd, n_out], what
                                            `before` is for the next token                */
    struct lm_tensor        *ids;        /* I32 [n_tokens]                                */
    struct lm_tensor        *pos;        /* I32 [n_tokens]: where they are remembered     */
    struct lm_tensor        *angle;      /* I32 [n_tokens]: the positions they are rotated by,
                                            which are the same but for sequences that were
                                            divided                                       */
    /* Where a token's sequence is remembered, in each of the memories that places name (others:
     * NULL): I64 [n_tokens] lists of pages; I64 [2, n_tokens] states to read, to make; I64
     * [n_tokens] lists of what is remembered of the encoder. */
    struct lm_tensor        *pages[LM_MEMORY_LISTS], *states[LM_MAX_PLACES];
    struct lm_tensor        *cross_pages[LM_MEMORY_LISTS];
    struct lm_tensor        *lengths;    /* I32 [n_tokens]: what the token's sequence will
                                            have at the end of the batch; NULL: not used  */
    struct lm_tensor        *texts;      /* I32 [n_tokens]: which text of a pair a token is
                                            of; NULL: all are of the first                */
    struct lm_tensor        *wanted;     /* I32 [n_out] indices of tokens; NULL: n_out 0  */
    const float *const      *steer;      /* [n_layer] [n_embd] or NULL, see below; or NULL */
    bool                     encode;     /* of a model with both: the encoder's graph     */
    const struct lm_memory_place *cross; /* [n_layer_dec] in what is remembered of it     */
    struct lm_tensor        *cross_last; /* I32 [n_tokens]: its last position; decoder    */
    struct lm_tensor        *runs;       /* I32 [2, n_tokens], see lm_attn_whole          */
    struct lm_tensor        *layer_inputs;      /* set by builders of families that have them: F32
                                            [n_embd_layer, n_layer, n_tokens]             */
    struct lm_tensor        *distances;  /* likewise: what distances add to scores, F32 [.., n_head]
                                            as lm_attn_adjust takes it                    */
    struct lm_tensor        *chosen;     /* likewise: the positions that the layer looks at, I32 as
                                            lm_choose makes them; NULL: all               */
    struct lm_tensor        *index_table;        /* likewise: what turns the queries and keys that
                                            choose, NULL: the layer's own                 */
    struct lm_tensor        *logits;     /* set by the builder: F32 [n_vocab, n_out], or, for
                                            embed, [n_embd, n_out] hidden states          */
};

/* A weight as a leaf of the graph, or NULL.  Those that are not per layer: layer 0. */
struct lm_tensor *lm_build_weight(const struct lm_build *b, uint32_t layer, enum lm_role role);

/* The graph fails for want of a weight. */
void lm_build_missing(const struct lm_build *b, uint32_t layer, enum lm_role role);

/* The pages that hold a layer's keys and values. */
static inline struct lm_tensor *lm_build_pages(const struct lm_build *b, uint32_t layer)
{
    return b->pages[b->places[layer].list];
}

static inline struct lm_tensor *lm_build_cross_pages(const struct lm_build *b, uint32_t layer)
{
    return b->cross_pages[b->cross[layer].list];
}

/* The states that a layer's are part of. */
static inline struct lm_tensor *lm_build_states(const struct lm_build *b, uint32_t layer)
{
    return b->states[b->places[layer].where];
}

/* The result of a layer, with what a control vector adds to it; its name becomes "layer N".
 * Builders pass that of every layer through here. */
struct lm_tensor *lm_build_steer(const struct lm_build *b, uint32_t layer, struct lm_tensor *x);

/* The activation of the model's feed-forwards. */
enum lm_act lm_build_act(const struct lm_build *b);

/* The rope scaling that the model's numbers ask for, in a context as long as the builder's. */
struct lm_rope lm_build_rope(const struct lm_build *b);

#endif
