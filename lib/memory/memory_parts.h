/* SPDX-License-Identifier: MIT */
#ifndef LM_MEMORY_PARTS_H
#define LM_MEMORY_PARTS_H

/* What memories are made of: blocks of one size with counted owners (blocks.c), the pages of a
 * sequence (pages.c), its recurrent state (states.c). */

#include "memory/memory.h"

/* --- blocks ----------------------------------------------------------------------------- */

struct lm_block {
    uint8_t         *data;
    uint32_t         owners;
    struct lm_block *next;              /* free ones                                       */
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
};

/* Make the page of position pos, which is the next one, the sequence's own. */
int  lm_pages_extend(struct lm_page_part *p, struct lm_page_list *l, uint32_t pos,
                     struct lm_err *err);
/* Pages beyond the first `length` positions are given back. */
void lm_pages_cut(struct lm_page_part *p, struct lm_page_list *l, uint32_t length);
/* Are the positions there that a sequence of that length still needs? */
bool lm_pages_reach(const struct lm_page_part *p, const struct lm_page_list *l, uint32_t length);
/* Give back pages that no window of a sequence of that length, or longer, reaches. */
void lm_pages_trim(struct lm_page_part *p, struct lm_page_list *l, uint32_t length);
/* An empty list shows the pages of another too. */
int  lm_pages_share(struct lm_page_list *dst, const struct lm_page_list *src, struct lm_err *err);
void lm_pages_release(struct lm_page_part *p, struct lm_page_list *l);
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

#endif
