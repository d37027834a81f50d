/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_SAMPLER_H
#define LM_SAMPLE_SAMPLER_H

/*
 * Samplers: each cuts the set of candidates down or changes logits.
 *
 * To add one:
 *   1. write NAME.c with its apply function and, at its foot, its row (struct lm_sampler);
 *   2. declare the row and list it in samplers.c, at its place in the default order;
 *   3. add its cases to tests/data/sample, what these call its parameters to test_sample, and
 *      its options to man/sample.1.
 * Options, --help, --list-samplers and the order are read from the rows; test_sample runs the
 * cases, sample.t holds the page to the rows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sample/candidates.h"

#define LM_SAMPLER_PARAMS 4

/* A number that a sampler takes.  Samplers that share one name the same object. */
struct lm_param {
    const char *option;      /* long option, without dashes                           */
    const char *key;         /* in the `sampling` object of a logits header, or NULL  */
    double      min, max;    /* accepted values, both included                        */
    bool        above_min;   /* min itself is not accepted                            */
    bool        whole;       /* a whole number                                        */
    double      value;       /* default                                               */
    const char *arg;         /* what --help calls the value                           */
    const char *off;         /* values that do nothing, in words                      */
    const char *help;        /* one line of --help                                    */
};

struct lm_sampler {
    const char *name;
    char        letter;
    const char *alias;       /* a further name, or NULL                               */
    const struct lm_param *params[LM_SAMPLER_PARAMS + 1];   /* NULL-terminated        */
    bool        keeps_best;  /* the best candidate always stays, and stays the best   */

    /* Do these values (in the order of params) make it do nothing? */
    bool (*off)(const double *v);

    /* Work on c.  state is NULL unless there is new_state.  LM_OK or a code. */
    int (*apply)(struct lm_cands *c, const double *v, void *state, struct lm_err *err);

    /* Samplers with a memory, else NULL: make the state, take in a token (of the prompt too),
     * forget all, copy, free.  new_state and clone return NULL when memory is short. */
    void *(*new_state)(const double *v);
    int   (*accept)(void *state, uint32_t id, struct lm_err *err);
    void  (*reset)(void *state);
    void *(*clone)(const void *state);
    void  (*free_state)(void *state);
};

extern const struct lm_param lm_param_min_keep;     /* shared by those that cut */

/* The i-th sampler in the default order, NULL after the last one. */
const struct lm_sampler *lm_sampler_at(size_t i);

/* By name, alias or letter; case, '-' and '_' do not matter.  NULL: there is none. */
const struct lm_sampler *lm_sampler_find(const char *name, size_t len);

/* The i-th parameter of all samplers, each once; NULL after the last one. */
const struct lm_param *lm_param_at(size_t i);

/* Is v acceptable?  If not, LM_EUSE with the range in words. */
int lm_param_check(const struct lm_param *p, double v, struct lm_err *err);

#endif
