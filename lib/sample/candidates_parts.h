/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_CANDIDATES_PARTS_H
#define LM_SAMPLE_CANDIDATES_PARTS_H

/* What candidates.c, which holds the set, and candidates_cut.c, which cuts it, share. */

#include "sample/candidates.h"

#define LM_CANDS_CHUNK 64        /* logits looked at together; whole blocks of a row */

/* Does a come before b in rank? */
static inline bool lm_cand_before(const struct lm_cand *a, const struct lm_cand *b)
{
    return a->l > b->l || (a->l == b->l && a->id < b->id);
}

/* The same for qsort. */
int lm_cand_by_rank(const void *a, const void *b);

/* A walk over the logits of a set in chunks, as cheap as they come: an entry of a row that
 * is no candidate is passed over as -inf. */
struct lm_cands_walk {
    const struct lm_cands *c;
    size_t                 at;       /* entries done                            */
    bool                   tail;     /* the row is done: now the changed logits */
};

/* The next logits into l [LM_CANDS_CHUNK]; how many, 0 at the end. */
size_t lm_cands_next(struct lm_cands_walk *w, double *l);

/* From row to list: the candidates of logit >= l, in order of ids.  A list stays. */
void lm_cands_gather(struct lm_cands *c, double l);

/* The candidates of a row with logit >= l, and possibly others, into work; their number. */
size_t lm_cands_peek(struct lm_cands *c, double l);

#endif
