/* SPDX-License-Identifier: MIT */
/* Grammars, and texts that they follow. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t len = grammar_length(data, size);
    struct lm_err err;
    struct lm_grammar *g = lm_grammar_gbnf((const char *)data, len, NULL, &err);
    use_grammar(g, data, size, len);
    lm_grammar_free(g);
    return 0;
}
