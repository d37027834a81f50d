/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_CHAIN_H
#define LM_SAMPLE_CHAIN_H

/*
 * A chain of samplers: from a row of logits to a token.
 *
 *   lm_chain_new      settings and the model's header make a chain
 *   lm_chain_accept   every token of the sequence, for samplers with a memory
 *   lm_chain_apply    logit bias, then the samplers in order: candidates are left
 *   lm_chain_draw     one of them
 *   lm_chain_reset    before another sequence
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "sample/sampler.h"
#include "stream/logits.h"

struct lm_bias {
    uint32_t id;
    double   add;                /* -inf: never this id                            */
};

/* What the user asked for.  Zero-initialise, fill, release. */
struct lm_sampling {
    const char     *samplers;    /* names separated by ';' or ','; NULL: the default order */
    bool            ignore_eos;  /* never an end-of-generation id                  */
    bool            greedy;      /* temperature 0, also if the list has no temperature */
    uint64_t        seed;
    struct lm_bias *bias;        /* [n_bias]                                       */
    size_t          n_bias, bias_cap;
    const struct lm_vocab   *vocab;      /* of the model, or NULL: for infill      */
    const char              *vocab_name; /* what messages call it                  */
    const struct lm_breakers *breakers;  /* of dry, or NULL: none                  */
    struct lm_param_value {
        const struct lm_param *param;
        double                 value;
    } values[LM_PARAMS_MAX];
    size_t          n_values;
};

/* Give a parameter a value; the last one counts.  LM_OK, or LM_EUSE with the range. */
int lm_sampling_set(struct lm_sampling *s, const struct lm_param *p, double v,
                    struct lm_err *err);

/* Check a list of sampler names; LM_EUSE names the unknown one and those there are. */
int lm_sampling_check_order(const char *samplers, struct lm_err *err);

/* Does a list that was checked name the sampler? */
bool lm_sampling_names(const char *samplers, const struct lm_sampler *sampler);

/* Add `add` to the logit of an id; an id named twice gets both. */
int lm_sampling_bias(struct lm_sampling *s, uint32_t id, double add, struct lm_err *err);

/* Give back what was added, and leave it zeroed. */
void lm_sampling_release(struct lm_sampling *s);

struct lm_chain;

/*
 * lm_chain_new - a chain for the model that wrote header h.
 *
 * A parameter's value is the user's, else the one in h->sampling, else the sampler's
 * default.  Neither s nor h is needed afterwards.  Notes: a value given for a sampler that
 * is not in the list, and what h->sampling asks for in vain (warnings); the chain (info).
 *
 * NULL with *err: LM_EUSE (a biased id outside the vocabulary; s->vocab is another model's, as it
 * has more ids of text, or both know an end of texts and neither is one to the other), LM_EDATA
 * (h->sampling makes no sense), LM_ENOMEM.
 */
struct lm_chain *lm_chain_new(const struct lm_sampling *s, const struct lm_logits_head *h,
                              const struct lm_env *env, struct lm_err *err);
void lm_chain_free(struct lm_chain *c);

/*
 * lm_chain_clone - a chain in the same state; NULL when memory is short.
 *
 * It works on the same candidates: what apply leaves in one is gone after apply in the other.
 * Clones of one chain belong to one thread.
 */
struct lm_chain *lm_chain_clone(struct lm_chain *c, struct lm_err *err);

/* Does drawing need random numbers, that is, does the seed matter? */
bool lm_chain_is_random(const struct lm_chain *c);

/* Take in the next token of the sequence, drawn or given.  LM_OK or LM_ENOMEM. */
int lm_chain_accept(struct lm_chain *c, uint32_t id, struct lm_err *err);

/* Forget the sequence. */
void lm_chain_reset(struct lm_chain *c);

/*
 * lm_chain_allow - only ids whose bit is set (id % 64 of word id / 64) are candidates from now on.
 *
 * allowed [n_vocab / 64, rounded up] is borrowed until the next call; NULL: all are.  who names it
 * when it leaves none.
 */
void lm_chain_allow(struct lm_chain *c, const uint64_t *allowed, const char *who);

/*
 * lm_chain_apply - run the samplers on a frame (dense or top-k) of the header's stream, for the
 * token at position pos of sequence seq.
 *
 * The payload is borrowed until the next call.  LM_EDATA: another kind of frame, a NaN logit,
 * an id outside the vocabulary, or no candidate left, with the sampler that removed the
 * last one.  LM_EUSE: a sampler cannot work on so many candidates.
 */
int lm_chain_apply(struct lm_chain *c, const struct lm_frame *f, const void *payload,
                   uint32_t seq, uint32_t pos, struct lm_err *err);

/* The same for a row of logits [n_vocab of the header] as lm_ctx_logits gives it; it is borrowed
 * until the next call, too. */
int lm_chain_apply_row(struct lm_chain *c, const float *logits, uint32_t seq, uint32_t pos,
                       struct lm_err *err);

/* Draw the token from what the last apply, which succeeded, has left: always the same one. */
uint32_t lm_chain_draw(struct lm_chain *c);

/* The token was chosen from there in another way: samplers that learn from choices are told. */
void lm_chain_chosen(struct lm_chain *c, uint32_t id);

struct lm_chance {
    uint32_t id;
    double   p;
};

/* The k best of what the last apply has left, best first, with their probabilities among all
 * that is left; k 0: all.  Valid until the next call; *n says how many. */
const struct lm_chance *lm_chain_chances(struct lm_chain *c, size_t k, size_t *n,
                                         struct lm_err *err);

#endif
