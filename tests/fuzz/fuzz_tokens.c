/* SPDX-License-Identifier: MIT */
/* Token streams: the first byte chooses the vocabulary, the rest is the stream. */
#include "fuzz_memory.h"
#include "stream/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct lm_in *in = input_of(data + 1, size - 1);
    struct lm_err err;
    struct lm_token_reader *r = lm_token_reader_new(in, &err);
    enum lm_token_event e;
    int32_t id;
    uint64_t lines = 0;
    lm_token_set_vocab(r, *data);
    while ((e = lm_token_next(r, &id, &err)) > 0) {
        if (e == LM_TOKEN_ID && (id < 0 || (*data && id >= *data)))
            abort();
        lines += e == LM_TOKEN_LINE;
    }
    if (e == LM_TOKEN_END && size > 1 && data[size - 1] != '\n')
        abort();
    if (e == LM_TOKEN_ERROR && (lm_token_fault(r) == LM_TOKENS_GOOD || !*err.text))
        abort();
    if (lm_token_line(r) != lines && lm_token_line(r) + 1 != lines)
        abort();
    lm_token_reader_free(r);
    lm_in_close(in);
    return 0;
}
