/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_CANDIDATES_PARTS_H
#define LM_SAMPLE_CANDIDATES_PARTS_H

/* What candidates.c, which holds the set, and candidates_cut.c, which cuts it, share. */

#include "sample/candidates.h"
#include "sample/chunk_ops.h"

/* Does a come before b in rank? */
static inline bool lm_cand_before(const struct lm_cand *a, const struct lm_cand *b)
{
    return a->l > b->l || (a->l == b->l && a->id < b->id);
}

/* The same for qsort. */
int lm_cand_by_rank(const void *a, const void *b);

/* A walk over the logits of a set, a chunk at a time.  Chunks of a row come in its order, those
 * without candidates are left out; then the changed logits. */
struct lm_cands_walk {
    const struct lm_cands *c;
    size_t                 at;       /* entries done                            */
    bool                   tail;     /* the row is done: now the changed logits */
};

/* The next logits into l [LM_CHUNK], -inf where there is no candidate; false at the end. */
bool lm_cands_next(struct lm_cands_walk *w, double *l);

/* The logits of the row's ids first .. first + LM_CHUNK - 1 (a multiple of it) into l. */
void lm_cands_load(const struct lm_cands *c, size_t first, double *l);

/* The smallest finite entry of a row whose logit is at least l; infinite if there is none. */
float lm_cands_entry(const struct lm_cands *c, double l);

/* Which entries of block b of the row are candidates from `least` to `most`: a bit each. */
uint32_t lm_cands_block(const struct lm_cands *c, size_t b, float least, float most);

/* The row is now the copy, whose blocks' best ones are known; every finite entry is a
 * candidate. */
void lm_cands_use_copy(struct lm_cands *c);

/* Entries of the row from `least` to `most` that are candidates, and all changed logits, into
 * work; their number. */
size_t lm_cands_peek(struct lm_cands *c, float least, float most);

/* Of a row: entries below `least`, and those equal to it of ids above `last`, are no candidates
 * any more.  A short rest becomes a list. */
void lm_cands_raise(struct lm_cands *c, float least, uint32_t last);

#endif
