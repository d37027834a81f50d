/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_DRY_BREAKERS_H
#define LM_SAMPLE_DRY_BREAKERS_H

/*
 * Sequence breakers of the dry sampler: texts across which no repetition is looked for, as
 * sequences of tokens.
 */

#include <stddef.h>

#include "base/err.h"
#include "sample/sampler.h"
#include "vocab/vocab.h"

#define LM_BREAKER_BYTES 40      /* of a text; the rest is cut off */

/*
 * lm_breakers_add - append the sequences in which a text can occur.
 *
 * A token whose bytes contain the text is one by itself.  A token that ends in a proper
 * beginning of it is one together with the tokens of the rest, at most 20.  len is not 0.
 * LM_OK or LM_ENOMEM; *b is to be released in any case.
 */
int lm_breakers_add(struct lm_breakers *b, const struct lm_vocab *v, const char *text, size_t len,
                    struct lm_err *err);
void lm_breakers_release(struct lm_breakers *b);

#endif
