/* SPDX-License-Identifier: MIT */
#ifndef LM_MEMORY_PARTS_H
#define LM_MEMORY_PARTS_H

/* What memories are made of: blocks of one size with counted owners (blocks.c), the pages of a
 * sequence (pages.c), its recurrent state (states.c); and what the files share that work on
 * sequences: memory.c, memory_shift.c, memory_rows.c. */

#include "memory/memory.h"

/* --- blocks ----------------------------------------------------------------------------- */

struct lm_block {
    uint8_t          *data;             /* in the buffer, which may not be the host's      */
    struct lm_buffer *buffer;
    uint32_t          owners;
    struct lm_block  *next;             /* free ones                                       */
};

struct lm_slab {
    struct lm_buffer *buffer;
    struct lm_block  *blocks;
};

struct lm_blocks {
    const struct lm_buft *buft;
    size_t                size;         /* of a block; 0: there are none                   */
    struct lm_block      *free;
    size_t                n_free, n_all;
    struct lm_slab       *slabs;
    size_t                n_slabs, cap_slabs;
};

/* See to it that n are free. */
int  lm_blocks_reserve(struct lm_blocks *b, size_t n, struct lm_err *err);
/* A block with one owner that holds anything, or NULL. */
struct lm_block *lm_blocks_get(struct lm_blocks *b, struct lm_err *err);
/* One owner less. */
void lm_blocks_put(struct lm_blocks *b, struct lm_block *block);
/* Can the host read and write their data in place? */
bool lm_blocks_in_host(const struct lm_blocks *b);
void lm_blocks_free(struct lm_blocks *b);

/* --- pages of a sequence ---------------------------------------------------------------- */

struct lm_page_part {
    struct lm_blocks blocks;
    uint32_t         window;            /* the longest; 0: all positions are kept          */
};

struct lm_page_list {
    uint8_t         **data;             /* [n], NULL where all positions are gone          */
    struct lm_block **block;
    size_t            cap_data, cap_block;
    uint32_t          n, gone;          /* pages; positions that are not there any more    */
    struct lm_buffer *there;            /* data as the device has it; NULL: it reads ours  */
    uint32_t          cap_there, synced;        /* entries; the first ones that are as ours */
};

/* Make the page of position pos, which is the next one, the sequence's own. */
int  lm_pages_extend(struct lm_page_part *p, struct lm_page_list *l, uint32_t pos,
                     struct lm_err *err);
/* Pages beyond the first `length` positions are given back. */
void lm_pages_cut(struct lm_page_part *p, struct lm_page_list *l, uint32_t length);
/* The first position that the next token of a sequence of that length sees. */
uint32_t lm_pages_seen(const struct lm_page_part *p, uint32_t length);
/* Are the positions there that a sequence of that length still needs? */
bool lm_pages_reach(const struct lm_page_part *p, const struct lm_page_list *l, uint32_t length);
/* Give back pages that no window of a sequence of that length, or longer, reaches. */
void lm_pages_trim(struct lm_page_part *p, struct lm_page_list *l, uint32_t length);
/* An empty list shows the pages of another too. */
int  lm_pages_share(struct lm_page_list *dst, const struct lm_page_list *src, struct lm_err *err);
void lm_pages_release(struct lm_page_part *p, struct lm_page_list *l);
/* The same, and of the list itself. */
void lm_pages_free(struct lm_page_part *p, struct lm_page_list *l);
/* See to it that the pages' device knows what the list says now; where it finds that. */
int  lm_pages_sync(const struct lm_page_part *p, struct lm_page_list *l, struct lm_err *err);
int64_t lm_pages_address(const struct lm_page_list *l);
/* Pages that cutting at a length gives back. */
size_t lm_pages_back(const struct lm_page_list *l, uint32_t length);

/* --- states of a sequence --------------------------------------------------------------- */

struct lm_state_part {
    struct lm_blocks blocks;
    uint32_t         n_snapshots;
};

struct lm_state_at {
    struct lm_block *block;
    uint32_t         pos;               /* tokens it has seen                              */
};

struct lm_state_list {
    struct lm_block   *now;             /* NULL: all zeros                                 */
    struct lm_block   *next;            /* of the current batch                            */
    struct lm_state_at old[LM_MAX_SNAPSHOTS + 1];   /* snapshots, the shortest first       */
    uint32_t           n_old;
};

/* A block for the state that the batch makes. */
int  lm_states_extend(struct lm_state_part *p, struct lm_state_list *l, struct lm_err *err);
/* The batch is over: the state of `length` tokens becomes a snapshot, or stays; that of
 * `held` tokens is kept in any case. */
void lm_states_end(struct lm_state_part *p, struct lm_state_list *l, uint32_t length,
                   uint32_t held, bool keep);
/* Is there a state of pos tokens, the sequence having `length`; take it. */
bool lm_states_reach(const struct lm_state_list *l, uint32_t pos, uint32_t length);
void lm_states_cut(struct lm_state_part *p, struct lm_state_list *l, uint32_t pos,
                   uint32_t length);
void lm_states_share(struct lm_state_list *dst, const struct lm_state_list *src);
void lm_states_release(struct lm_state_part *p, struct lm_state_list *l);

/* --- sequences --------------------------------------------------------------------------- */

#define LM_NOT_HELD UINT32_MAX

/* Those of the first tokens that have one of their own. */
struct lm_angles {
    uint32_t *of;                       /* [n]                                             */
    uint32_t  n;
};

static inline uint32_t lm_angle(const struct lm_angles *a, uint32_t pos)
{
    return pos < a->n ? a->of[pos] : a->n ? a->of[a->n - 1] + 1 + (pos - a->n) : pos;
}

/* A copy of angles [n] in place of what a sequence had. */
int lm_angles_set(struct lm_angles *a, const uint32_t *angles, uint32_t n, struct lm_err *err);

struct lm_memory_seq {
    struct lm_memory_seq *next;         /* of the same hash, or idle                       */
    uint32_t              id, length;
    uint32_t              pending;      /* length when the current batch is kept           */
    uint32_t              held;         /* length to which it can be cut back              */
    uint32_t              lacking;      /* keep_all: windows have nothing in front of that */
    bool                  fresh;        /* made by the current batch                       */
    struct lm_angles      angles;
    struct lm_page_list   pages[LM_MEMORY_LISTS];       /* n_lists of them are used        */
    struct lm_state_list  states[LM_MAX_PLACES];        /* n_where                         */
};

struct lm_memory {
    struct lm_memory_shape  shape;
    struct lm_memory_place *places;     /* [n_layer]                                       */
    uint32_t                n_where, n_lists;
    struct lm_page_part     pages[LM_MEMORY_LISTS];
    struct lm_state_part    states[LM_MAX_PLACES];
    struct lm_page_part     wide;       /* keep_all: as if windows had a list of their own */
    size_t                  state_bytes;        /* of all layers                           */
    struct lm_memory_seq  **table;      /* by hash of the id                               */
    size_t                  mask, n_seqs;
    struct lm_memory_seq   *idle;       /* dropped sequences                               */
    struct lm_memory_seq  **batch;      /* [n_batch] sequence of each token                */
    struct lm_memory_token *copies;     /* [n_batch] the batch                             */
    size_t                  n;
    bool                    nothing;    /* no layer remembers anything                     */
};

/* The sequence of that number, or NULL: it has no tokens. */
struct lm_memory_seq *lm_memory_find(const struct lm_memory *m, uint32_t id);

/* Bytes that a page of each list, and a state in each memory, take. */
struct lm_memory_sizes {
    size_t page[LM_MEMORY_LISTS], state[LM_MAX_PLACES], whole;
};

/* lm_memory_places, which may be NULL here, and the sizes that come of them. */
int lm_memory_place_all(const struct lm_memory_shape *s, struct lm_memory_place *places,
                        struct lm_memory_sizes *size, struct lm_err *err);

#endif
