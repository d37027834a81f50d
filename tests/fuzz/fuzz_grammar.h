/* SPDX-License-Identifier: MIT */
#ifndef FUZZ_GRAMMAR_H
#define FUZZ_GRAMMAR_H

/* What the fuzz targets of grammars share: a grammar's text up to a NUL, and a text that the
 * grammar follows.  A state that is not dead has something that may come next, or is
 * complete. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample/grammar/grammar.h"

/* Can any byte follow? */
static inline bool goes_on(struct lm_machine *m, lm_state s)
{
    struct lm_err err;
    for (unsigned byte = 0; byte < 256; byte++) {
        lm_state next = s;
        if (lm_machine_byte(m, &next, (unsigned char)byte, &err) < 0)
            return true;
        if (next != LM_STATE_DEAD)
            return true;
    }
    return false;
}

static inline void follow(const struct lm_grammar *g, const uint8_t *text, size_t len, bool tokens)
{
    struct lm_err err;
    lm_state s;
    struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
    if (!m)
        abort();
    int r = lm_machine_start(m, &s, &err);
    for (size_t i = 0; r == LM_OK && s != LM_STATE_DEAD && i < len; i++) {
        if (!tokens && !lm_machine_complete(m, s) && !goes_on(m, s))
            abort();
        char *words = lm_machine_expected(m, s, &err);
        free(words);
        r = lm_machine_byte(m, &s, text[i], &err);
    }
    lm_machine_free(m);
}

/* Follow what is behind the grammar's text, len bytes, in the input; g may be NULL. */
static inline void use_grammar(const struct lm_grammar *g, const uint8_t *data, size_t size,
                               size_t len)
{
    const size_t from = len < size ? len + 1 : size;
    if (g)
        follow(g, data + from, size - from, memchr(data, '<', len) != NULL);
}

/* How long the grammar's text is. */
static inline size_t grammar_length(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    return nul ? (size_t)(nul - data) : size;
}

#endif
