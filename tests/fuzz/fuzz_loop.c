/* SPDX-License-Identifier: MIT */
/* Requests of the loop protocol: the first byte chooses the vocabulary and how many ids
 * are kept, the rest is the stream. */
#include <math.h>

#include "fuzz_memory.h"
#include "stream/loop.h"

static void check(const struct lm_request *q, uint32_t n_vocab, size_t max)
{
    if (q->fault) {
        if (!*q->why)
            abort();
        return;
    }
    if (q->kind == LM_REQ_GUESS) {
        if (!q->want || q->n_ids || q->next < 0 || (n_vocab && (uint32_t)q->next >= n_vocab))
            abort();
        return;
    }
    for (size_t i = 0; i < q->n_scales; i++)
        if (q->kind != LM_REQ_SCALES || q->n_ids || !isfinite(q->scales[i]))
            abort();
    if (q->want > q->n_ids || (q->kind != LM_REQ_APPEND && q->want))
        abort();
    for (size_t i = 0; i < q->n_ids && i < max; i++)
        if (q->ids[i] < 0 || (n_vocab && (uint32_t)q->ids[i] >= n_vocab))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct lm_in *in = input_of(data + 1, size - 1);
    struct lm_err err;
    size_t max = *data / 16;
    struct lm_request_reader *r = lm_request_reader_new(in, *data, max, &err);
    struct lm_request q = {0};
    uint64_t lines = 0;
    while (lm_request_ready(r), lm_request_next(r, &q, &err) == 1) {
        if (q.line != lines++)
            abort();
        check(&q, *data, max);
    }
    lm_request_release(&q);
    lm_request_reader_free(r);
    lm_in_close(in);
    return 0;
}
