/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_MACHINE_PARTS_H
#define LM_SAMPLE_MACHINE_PARTS_H

/* What machine.c, which makes states, and machine_mask.c, which makes masks of them, share. */

#include <stdlib.h>

#include "sample/grammar/grammar_parts.h"

#define LM_STACK_BOTTOM  0           /* the stack of what was called by nobody          */
#define LM_STACK_UNKNOWN 1           /* a stack that is not known: see struct part      */
#define LM_MACHINE_MASKS 16          /* kept                                            */
#define LM_BY_CLASS      256         /* an edge by this and a class of characters       */
#define LM_COUNT_FREE    UINT32_MAX  /* the round of a LOOP that may go on and end as it likes */

struct way {
    uint32_t op, stack;
};

/* A rule that was called: where it returns to. */
struct stack {
    uint32_t op, count;              /* the CALL or LOOP, and which round of a LOOP     */
    uint32_t depth;
    uint32_t below, n;               /* its links: links[below .. below + n - 1]        */
    uint32_t returned;               /* the state after returning, once it is known     */
};

struct state {
    uint32_t ways, n;                /* ways[ways .. ways + n - 1], by stack and op     */
    uint32_t part;                   /* of a state on LM_STACK_UNKNOWN: its part, once known     */
    bool     complete;               /* the text may end here                           */
    bool     open;                   /* LM_STACK_UNKNOWN is returned to                          */
};

/* A table of numbers, found by a hash of what they stand for. */
struct table {
    uint32_t *slots;                 /* [n] number + 1; 0: free                         */
    size_t    n, used;
};

struct edge {
    uint32_t from, to;
    uint16_t by;                     /* a byte, or LM_BY_CLASS + a class               */
};


/* What the ops of a state on LM_STACK_UNKNOWN allow, whatever is below. */
struct part {
    uint64_t *mask;                  /* [words] tokens that stay above                  */
    struct place {
        const struct lm_token_trie *trie;
        uint32_t                    at;
    }        *returns;               /* [n] trie nodes where LM_STACK_UNKNOWN is returned to     */
    size_t    n, cap;
};

/* A node of the step being made. */
struct temp {
    uint32_t  op, count;
    uint32_t *below;                 /* [n] stacks, or temporary ones                   */
    size_t    n, cap;
    uint32_t *slot;                  /* where it is found                               */
    bool      left;                  /* its rule has ended in this step                 */
    uint32_t  final;                 /* the node it becomes, or LM_STACK_BOTTOM: not yet known   */
};

struct lm_machine {
    const struct lm_grammar *g;
    const struct lm_vocab   *v;
    struct lm_token_trie     trie;
    struct lm_token_class    classes[LM_CLASSES];
    uint64_t                 text_bytes[4];      /* that a LM_OP_TEXT can begin with     */
    uint32_t                *chain;  /* of states, as long as a token has characters    */
    size_t                   words;  /* of a mask                                       */
    uint64_t                *eog;    /* [words] ids that end a generation               */
    uint64_t                *plain;  /* [words] ids that are none of these              */
    uint32_t                 n_vocab;

    struct stack *stacks;
    struct state *states;
    struct way   *ways;
    uint32_t     *links;
    struct edge  *edges;
    struct part  *parts;
    size_t        n_stacks, n_states, n_ways, n_links, n_edges, n_parts;
    size_t        stacks_cap, states_cap, ways_cap, links_cap, edges_cap, parts_cap;
    struct table  stack_table, state_table, edge_table;

    /* The step being made. */
    uint64_t     *todo;              /* [n_todo] ways, the stack above the op: read as they
                                        are written, in one piece                       */
    struct way   *found;
    size_t        n_todo, n_found, todo_cap, found_cap;
    struct way   *seen;              /* [n_seen_slots] with the step's number           */
    uint32_t     *seen_step;
    size_t        n_seen_slots, n_seen;
    uint32_t      step;
    struct temp  *temps;
    size_t        n_temps, temps_cap, n_temp_slots;
    uint32_t     *temp_slots;        /* [n_temp_slots] number + 1 by hash               */
    uint64_t      work;              /* steps so far                                    */
    bool          complete, open;
    int           failed;
    struct lm_err *err;

    struct { lm_state state; uint64_t *mask; } masks[LM_MACHINE_MASKS];
    unsigned      next_mask;
    struct frame {
        uint32_t end;
        lm_state state;
        uint64_t bytes[4];           /* that it takes                                   */
        bool     any_text;           /* see takes_any_text                              */
    } *frames;                       /* of a walk                                       */
};

/* How much there is of everything. */
struct mark {
    size_t stacks, states, ways, links, edges;
};

/* ---- sets of ids ---- */

static inline bool lm_mask_has(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> id % 64 & 1;
}

static inline void lm_mask_put(uint64_t *mask, uint32_t id)
{
    mask[id / 64] |= UINT64_C(1) << id % 64;
}

/* None of the vocabulary's; NULL when memory is short. */
static inline uint64_t *lm_mask_new(const struct lm_machine *m)
{
    return calloc(m->words ? m->words : 1, sizeof(uint64_t));
}

/* ---- a step: begin, add ops on stacks, finish ---- */

void lm_step_begin(struct lm_machine *m, struct lm_err *err);
/* Go on from op with that stack, unless the step has been there. */
void lm_step_add(struct lm_machine *m, uint32_t op, uint32_t stack);
/* Go on from where a stack's rule returns to. */
void lm_step_leave(struct lm_machine *m, uint32_t stack);
/* Make a state of what the step has found; LM_STATE_DEAD for nothing. */
int lm_step_finish(struct lm_machine *m, lm_state *s);

/* The state in which counters of characters that need not go on and may for *room or more do not
 * count, at least LM_CLASS_LONG; s itself if there are none. */
int lm_machine_relax(struct lm_machine *m, lm_state s, lm_state *to, uint32_t *room,
                     struct lm_err *err);

/* The number of an edge, or UINT32_MAX; and a new one. */
uint32_t lm_machine_find_edge(const struct lm_machine *m, uint32_t from, uint16_t by);
int lm_machine_add_edge(struct lm_machine *m, lm_state from, lm_state to, uint16_t by,
                        struct lm_err *err);

/* Does the op take the token whole? */
bool lm_op_takes(const struct lm_machine *m, const struct lm_op *o, uint32_t id);

/* How much there is now; and forget what was made after that, which nothing older needs. */
struct mark lm_machine_mark(const struct lm_machine *m);
void lm_machine_forget(struct lm_machine *m, const struct mark *to);

#endif
