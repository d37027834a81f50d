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
#include "sample/philox.h"
#include "vocab/vocab.h"

#define LM_SAMPLER_PARAMS 4          /* most parameters of one sampler  */
#define LM_PARAMS_MAX     64         /* and of all                      */

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

/* The token that is about to be chosen: what random numbers depend on. */
struct lm_step {
    uint64_t seed;
    uint32_t seq, pos;
};

/* Sequences of tokens, one after another; see dry_breakers.h. */
struct lm_breakers {
    uint32_t *ids;           /* all of them                                           */
    size_t   *ends;          /* [n] where each ends among the ids                     */
    size_t    n;
    size_t    ids_cap, ends_cap;
};

/* What samplers may need to know beside their parameters. */
struct lm_setup {
    uint32_t                  n_vocab;
    const int32_t            *eog;           /* [n_eog] end-of-generation ids         */
    size_t                    n_eog;
    const struct lm_breakers *breakers;      /* of dry; NULL: none                    */
    const struct lm_vocab    *vocab;         /* NULL: not known                       */
};

struct lm_sampler {
    const char *name;
    char        letter;      /* 0: never in a list                                    */
    const char *aliases[3];  /* further names, NULL-terminated                        */
    const struct lm_param *params[LM_SAMPLER_PARAMS + 1];   /* NULL-terminated        */
    bool        keeps_best;  /* the best candidate always stays, and stays the best   */
    bool        on_request;  /* runs only when a list names it                        */
    enum lm_purpose purpose; /* it stands last and makes the choice its own: what the
                                random number of the draw is for; 0: it does not      */

    /* Do these values (in the order of params) make it do nothing? */
    bool (*off)(const double *v);

    /* Work on c, which is not empty.  state is NULL unless there is new_state.  LM_OK or a
     * code. */
    int (*apply)(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err);

    /* Samplers with a memory, else NULL: make the state (NULL with *err: LM_ENOMEM, or LM_EUSE
     * for what the setup lacks), take in a token (of the prompt too), forget all, copy (NULL
     * when memory is short), free. */
    void *(*new_state)(const double *v, const struct lm_setup *setup, struct lm_err *err);
    int   (*accept)(void *state, uint32_t id, struct lm_err *err);
    void  (*reset)(void *state);
    void *(*clone)(const void *state);
    void  (*free_state)(void *state);

    /* With a purpose: id was drawn from c, as apply left it.  Should it be accepted next, the
     * sampler learns from it. */
    void  (*drawn)(void *state, const struct lm_cands *c, uint32_t id);
};

extern const struct lm_param lm_param_min_keep;     /* shared by those that cut */
extern const struct lm_sampler lm_mirostat;         /* which is asked for by its values */

/* The i-th sampler in the default order (those on request after all others), NULL after the
 * last one. */
const struct lm_sampler *lm_sampler_at(size_t i);

/* By name, alias or letter; case, '-' and '_' do not matter.  NULL: there is none. */
const struct lm_sampler *lm_sampler_find(const char *name, size_t len);

/* The i-th parameter of all samplers, each once; NULL after the last one. */
const struct lm_param *lm_param_at(size_t i);
/* The one of that option ("temp", "top-k", ...); NULL: there is none. */
const struct lm_param *lm_param_find(const char *option);

/* Is v acceptable?  If not, LM_EUSE with the range in words. */
int lm_param_check(const struct lm_param *p, double v, struct lm_err *err);
/* Read a value from text; LM_EUSE if it is none that is acceptable. */
int lm_param_read(const struct lm_param *p, const char *text, double *v, struct lm_err *err);

#endif
