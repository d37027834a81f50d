/* SPDX-License-Identifier: MIT */
/* Logits streams: what is read keeps its promises, and can be used as promised. */
#include "fuzz_memory.h"
#include "stream/logits.h"

static void check(const struct lm_frame *f, const void *payload, uint32_t n_vocab)
{
    const struct lm_top *top = payload;
    if ((uintptr_t)payload % 16)
        abort();
    if (f->kind == LM_FRAME_DENSE) {
        struct lm_top best[3];
        uint64_t work[1024];
        if (f->n != n_vocab)
            abort();
        (void)lm_logits_lse(payload, f->n);
        if (lm_logits_top_work(3, f->n) <= sizeof work)
            lm_logits_top(payload, f->n, 3, best, work);
    }
    for (uint32_t i = 0; f->kind == LM_FRAME_TOP && i < f->n; i++)
        if (top[i].id >= n_vocab)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_in *in = input_of(data, size);
    struct lm_err err;
    struct lm_logits_reader *r = lm_logits_reader_new(in, &err);
    struct lm_logits_head h;
    struct lm_frame f;
    const void *payload;
    int s;
    while ((s = lm_logits_read_head(r, &h, &err)) == 1) {
        uint32_t n_vocab = h.n_vocab;
        if (!h.model || !h.arch || !h.sampling)
            abort();
        lm_logits_head_release(&h);
        do {
            if ((s = lm_logits_read_frame(r, &f, &payload, &err)) != LM_OK)
                break;
            check(&f, payload, n_vocab);
        } while (f.kind != LM_FRAME_END);
        if (s)
            break;
    }
    lm_logits_reader_free(r);
    lm_in_close(in);
    return 0;
}
