/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_UNICODE_RUNS_H
#define LM_VOCAB_UNICODE_RUNS_H

/*
 * All of Unicode at once, for sets of characters: asking for each of a million code points
 * takes a millisecond, and a pattern has many sets.
 */

#include <stddef.h>
#include <stdint.h>

struct lm_uni_runs {
    /* code points first .. next run's first - 1 have this category (unicode.h); ends with a
     * run that begins behind the last */
    struct lm_uni_run {
        uint32_t first, category;
    } *run;
    size_t n;

    /* characters that differ only in case: those with the same key, which stand together */
    struct lm_uni_case {
        uint32_t key, rune;
    } *cased;
    size_t n_cased;
};

/* The same for all, made when it is first asked for and kept; any thread may ask.  NULL: memory
 * is short. */
const struct lm_uni_runs *lm_uni_runs(void);

#endif
