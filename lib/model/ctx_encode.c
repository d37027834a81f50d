/* SPDX-License-Identifier: MIT */
/* Models with an encoder beside their decoder: what the encoder makes of a text is remembered for
 * a sequence, as keys and values of each of the decoder's layers. */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

bool lm_ctx_has_encoder(const struct lm_ctx *c)
{
    return c->m->arch->has_encoder;
}

uint32_t lm_ctx_encoder_len(const struct lm_ctx *c, uint32_t seq)
{
    return c->cross ? lm_memory_length(c->cross, seq) : 0;
}

int lm_ctx_check_cross(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                       struct lm_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!lm_memory_length(c->cross, t[i].seq))
            return lm_fail(err, LM_EUSE, "sequence %u has no text of the encoder", t[i].seq);
    return LM_OK;
}

/* Evaluate the encoder for the n tokens that memory has begun of a sequence. */
static int run(struct lm_ctx *c, uint32_t seq, const int32_t *ids, size_t n, struct lm_err *err)
{
    struct lm_ready r;
    int code = lm_ctx_encoder_graph(c, &r, n, err);
    if (!code && !(code = lm_sched_begin(c->sched, r.plan, err))) {
        int32_t *pos = r.b.pos->data, *runs = r.b.runs->data;
        memcpy(r.b.ids->data, ids, n * sizeof *ids);
        for (size_t i = 0; i < n; i++) {
            pos[i] = (int32_t)i;
            runs[2 * i] = 0;
            runs[2 * i + 1] = (int32_t)n;
        }
        for (size_t k = 0; k < c->n_adapted; k++) {
            float *weights = lm_ctx_weights(&r, k);
            for (size_t i = 0; weights && i < n; i++)
                weights[i] = lm_scale_at(c, lm_scales_of(c, seq), 0, k);
        }
        for (uint32_t i = 0; i < 2 * c->m->n_devices; i++)
            if (r.b.cross_pages[i]->seen)
                lm_memory_pages(c->cross, i, 0, n, r.b.cross_pages[i]->data);
        code = lm_sched_run(c->sched, r.plan, c->observe ? lm_ctx_seen : NULL, c, err);
    }
    int late = lm_sched_wait(c->sched, code ? NULL : err);
    lm_ctx_drop_graph(c, &r);
    return code ? code : late;
}

int lm_ctx_encode(struct lm_ctx *c, uint32_t seq, const int32_t *ids, size_t n,
                  struct lm_err *err)
{
    struct lm_err mine = {0};
    err = err ? err : &mine;
    if (!c->cross)
        return lm_fail(err, LM_ENOSUP, "the model has no encoder");
    if (n > c->n_ctx)
        return lm_fail(err, LM_EUSE, "%zu tokens for the encoder, and the context has %u", n,
                       c->n_ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= c->m->n_embd_rows)
            return lm_fail(err, LM_EDATA, "token %d is not in the vocabulary of %u", ids[i],
                           c->m->n_embd_rows);
    struct lm_memory_token *t = lm_malloc_array(n, sizeof *t);
    if (!t)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        t[i] = (struct lm_memory_token){ seq, (uint32_t)i };
    int r = lm_memory_remove(c->cross, seq, 0, err);
    if (!r)             /* what was made of it depends on the text before */
        r = lm_memory_remove(c->memory, seq, 0, err);
    if (!r)
        lm_scales_cut(c, seq, 0);
    if (!r && n && !(r = lm_memory_begin(c->cross, t, n, err))) {
        r = run(c, seq, ids, n, err);
        lm_memory_end(c->cross, r == LM_OK);
    }
    free(t);
    return r;
}
