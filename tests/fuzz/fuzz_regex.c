/* SPDX-License-Identifier: MIT */
/* A regular expression, up to a NUL, and a text that it follows.  A state that is not dead has something
 * that may come next, or is complete. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample/grammar/grammar.h"

/* Can any byte follow? */
static bool goes_on(struct lm_machine *m, lm_state s)
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

static void follow(const struct lm_grammar *g, const uint8_t *text, size_t len, bool tokens)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    const size_t len = nul ? (size_t)(nul - data) : size;
    struct lm_err err;
    struct lm_grammar *g = lm_grammar_regex((const char *)data, len, &err);
    if (g)
        follow(g, nul ? nul + 1 : data, nul ? size - len - 1 : 0, memchr(data, '<', len) != NULL);
    lm_grammar_free(g);
    return 0;
}
