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

/* A walk over the falls of a set from max, a chunk at a time.  Chunks of a row come in its order,
 * those without candidates are left out; then the changed logits. */
struct lm_cands_walk {
    const struct lm_cands *c;
    double                 max;
    size_t                 at;       /* entries done                            */
    bool                   tail;     /* the row is done: now the changed logits */
};

/* The next falls into fall [LM_CHUNK], -inf where there is no candidate; false at the end. */
bool lm_cands_next(struct lm_cands_walk *w, float *fall);

/* The entropy -sum p ln p in nats from what weigh has summed: ln W - ln 2 sum w f / W with w the
 * weight at the fall f, W their sum. */
double lm_entropy(uint64_t total, const double *lane);

/* The smallest finite entry of a row whose logit is at least l; infinite if there is none. */
float lm_cands_entry(const struct lm_cands *c, double l);

/* Give n candidates their weights; returns the sum. */
uint64_t lm_cands_weigh_list(const struct lm_cands *c, struct lm_cand *list, size_t n, double max);

/* The candidates of the row from `least` to `most` into the copy, -inf for the others.  An id is
 * no candidate in the copy.  Both keep the blocks' best ones. */
void lm_cands_select(struct lm_cands *c, float least, float most);
void lm_cands_drop(struct lm_cands *c, uint32_t id);

/* The row is now the copy; every finite entry is a candidate. */
void lm_cands_use_copy(struct lm_cands *c);

/* Entries of the row from `least` to `most` that are candidates into work from its n-th place on,
 * and all changed logits; the number of places filled. */
size_t lm_cands_peek(struct lm_cands *c, float least, float most, size_t n);
size_t lm_cands_peek_changed(struct lm_cands *c, size_t n);

/* Of a row: entries below `least`, and those equal to it of ids above `last`, are no candidates
 * any more.  A short rest becomes a list. */
void lm_cands_raise(struct lm_cands *c, float least, uint32_t last);

/* Nor are entries above `most`. */
void lm_cands_lower(struct lm_cands *c, float most);

#endif
