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
    bool     keyed;                  /* it, or one below it, is a LM_OP_KEY's           */
};

struct state {
    uint32_t ways, n;                /* ways[ways .. ways + n - 1], by stack and op     */
    uint32_t part;                   /* of a state on LM_STACK_UNKNOWN: its part, once known     */
    bool     complete;               /* the text may end here                           */
    bool     open;                   /* LM_STACK_UNKNOWN is returned to                          */
    bool     ended;                  /* a key has ended in this step                    */
    uint32_t text;                   /* since a key began, if one is open: see struct lm_keys */
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

struct lm_keys;

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
    size_t        n_seen_slots, n_seen, n_steps;
    uint32_t      step;
    struct temp  *temps;
    size_t        n_temps, temps_cap, n_temp_slots;
    uint32_t     *temp_slots;        /* [n_temp_slots] number + 1 by hash               */
    uint64_t      work;              /* steps before this one                           */
    uint64_t      most_work;         /* when a mask takes too long                      */
    bool          complete, open, ended;
    int           failed;
    struct lm_err *err;

    /* Keys that differ: see machine_keys.c. */
    struct lm_keys    *keys;         /* of a machine that tells keys apart              */
    uint32_t           text;         /* of the state that is being made                 */
    struct lm_machine *exact;        /* such a machine beside one that does not         */
    struct both       *both;         /* [n_both] a state of each                        */
    size_t             n_both, both_cap;
    struct table       both_table;
    struct been {
        uint32_t search, times;      /* it was last met in that one, so often           */
    }                 *been;         /* [been_cap] of a state                           */
    size_t             been_cap;
    uint32_t           search;
    struct special {
        uint32_t id;
        uint8_t  quotes;             /* that it holds, 2: or more                       */
        bool     comma, backslash;
    }                 *special;      /* [n_special] tokens with any of these            */
    size_t             n_special, special_cap;
    uint64_t          *both_mask;    /* [words]                                         */

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
    size_t stacks, states, ways, links, edges, keys;
    size_t slots[3];                 /* of the tables of stacks, states and edges       */
};

/* A state of both machines. */
struct both {
    lm_state plain, exact;
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

/* A new step, whose failure goes to err. */
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

/* Is a state in a key, or before one that may come next?  Of a machine that tells keys apart. */
bool lm_step_is_keyed(const struct lm_machine *m, lm_state s);
/* The number of the pair that is the same as m->both[i], which is kept if there is none. */
uint32_t lm_machine_intern_both(struct lm_machine *m, uint32_t i);

/* The number of an edge, or UINT32_MAX; and a new one. */
uint32_t lm_machine_find_edge(const struct lm_machine *m, uint32_t from, uint16_t by);
int lm_machine_add_edge(struct lm_machine *m, lm_state from, lm_state to, uint16_t by,
                        struct lm_err *err);

/* The functions of grammar.h for a machine by itself. */
int lm_step_start(struct lm_machine *m, lm_state *s, struct lm_err *err);
int lm_step_byte(struct lm_machine *m, lm_state *s, unsigned char byte, struct lm_err *err);
int lm_step_take(struct lm_machine *m, lm_state *s, uint32_t id, struct lm_err *err);
int lm_step_mask(struct lm_machine *m, lm_state s, const uint64_t **mask, struct lm_err *err);
char *lm_step_expected(struct lm_machine *m, lm_state s, struct lm_err *err);

/* ---- keys that differ ---- */

#define LM_KEYS_TWICE UINT32_MAX     /* no set: the key is there                        */

/* Make or free the machine beside m that tells keys apart; false when memory is short. */
bool lm_machine_watch_keys(struct lm_machine *m);
void lm_machine_release_keys(struct lm_machine *m);

/* Texts and sets of keys are numbers: 0 is the empty one, any other is one with a byte or a key
 * more.  How many of these it has; and with one byte more, UINT32_MAX: memory is short. */
uint32_t lm_keys_size(const struct lm_keys *k, uint32_t one);
uint32_t lm_keys_push(struct lm_keys *k, uint32_t text, unsigned char byte);
/* Add to a set what a text has behind its first `from` bytes, a JSON string; LM_KEYS_TWICE: it is
 * there.  false: memory is short. */
bool lm_keys_add(struct lm_keys *k, uint32_t text, uint32_t from, uint32_t *set);
/* How many there are, and forget those made after that; k may be NULL. */
size_t lm_keys_mark(const struct lm_keys *k);
void lm_keys_forget(struct lm_keys *k, size_t mark);

/* Does the op take the token whole? */
bool lm_op_takes(const struct lm_machine *m, const struct lm_op *o, uint32_t id);

/* How much there is now; and forget what was made after that, which nothing older needs. */
struct mark lm_machine_mark(const struct lm_machine *m);
void lm_machine_forget(struct lm_machine *m, const struct mark *to);

#endif
