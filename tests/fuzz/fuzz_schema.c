/* SPDX-License-Identifier: MIT */
/* JSON Schemas, and texts that they describe. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t len = grammar_length(data, size);
    struct lm_err err;
    struct lm_buf notes = { 0 };
    const struct lm_schema_options options = { .open = len % 2, .gap = len % 3 };
    struct lm_grammar *g = lm_grammar_schema((const char *)data, len, &options, &notes, &err);
    use_grammar(g, data, size, len);
    lm_grammar_free(g);
    lm_buf_release(&notes);
    return 0;
}
