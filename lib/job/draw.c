/* SPDX-License-Identifier: MIT */
#include "job/draw.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "stream/logits.h"
#include "stream/loop.h"

static int put(const struct lm_draw *d, const void *p, size_t n, struct lm_err *err)
{
    int s = lm_out_write(d->out, p, n, err);
    if (s == LM_OK)
        s = lm_out_flush(d->out, err);
    return s < 0 ? lm_err_at(err, s, "%s", lm_out_name(d->out)) : LM_OK;
}

static int put_buf(const struct lm_draw *d, struct lm_buf *b, struct lm_err *err)
{
    int s = b->failed ? lm_fail_nomem(err) : put(d, b->data, b->len, err);
    lm_buf_release(b);
    return s;
}

static int put_id(const struct lm_draw *d, uint32_t id, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    lm_buf_printf(&b, "%" PRIu32 " ", id);
    return put_buf(d, &b, err);
}

static int put_chances(const struct lm_draw *d, struct lm_chain *chain, uint32_t seq,
                       uint32_t pos, struct lm_err *err)
{
    size_t n;
    const struct lm_chance *c = lm_chain_chances(chain, d->n_chances, &n, err);
    struct lm_buf b = { 0 };
    if (!c)
        return LM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        lm_buf_printf(&b, "%" PRIu32 "\t%" PRIu32 "\t%zu\t%" PRIu32 "\t", seq, pos, i, c[i].id);
        lm_json_f64(&b, c[i].p);
        lm_buf_byte(&b, '\n');
    }
    return put_buf(d, &b, err);
}

int lm_draw_newline(const struct lm_draw *d, struct lm_err *err)
{
    return d->chances ? LM_OK : put(d, "\n", 1, err);
}

int lm_draw_give_up(const struct lm_draw *d, const char *text, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    lm_buf_str(&b, "! ");
    lm_buf_escape(&b, text, strlen(text));
    lm_buf_byte(&b, '\n');
    return put_buf(d, &b, err);
}

int lm_draw_frame(const struct lm_draw *d, struct lm_chain *chain, uint32_t seq,
                  const struct lm_frame *f, const void *payload, uint32_t *id,
                  struct lm_err *err)
{
    int s = lm_chain_apply(chain, f, payload, seq, f->pos + 1, err);
    if (s < 0)
        return lm_err_at(err, s, "sequence %" PRIu32 ", position %" PRIu32, seq, f->pos);
    if (d->chances)
        s = put_chances(d, chain, seq, f->pos, err);
    if (id && d->tell_seed && *d->tell_seed && lm_chain_is_random(chain)) {
        lm_note(d->env, LM_WARN, "seed %" PRIu64, d->sampling->seed);
        *d->tell_seed = false;
    }
    if (id)
        *id = lm_chain_draw(chain);
    if (id && !d->chances)
        s = put_id(d, *id, err);
    return s;
}

int lm_draw_error_frame(const struct lm_frame *f, const void *payload, struct lm_err *err)
{
    return lm_fail(err, lm_loop_status(f->token) == 1 ? LM_EDATA : LM_ENOSUP, "%.*s",
                   (int)(f->bytes < 400 ? f->bytes : 400), (const char *)payload);
}

/* ---- the filter ---- */

/* Where one logits stream stands. */
struct place {
    uint32_t seq;            /* the sequence whose line is open: lines complete so far */
    bool     any;            /* it has frames                                          */
};

/* Complete the lines of all sequences before seq. */
static int go_to(const struct lm_draw *d, struct lm_chain *chain, struct place *at, uint32_t seq,
                 struct lm_err *err)
{
    int s = LM_OK;
    if (at->seq < seq)
        lm_chain_reset(chain);
    for (; s == LM_OK && at->seq < seq; at->seq++, at->any = false)
        s = lm_draw_newline(d, err);
    return s;
}

static int take_frame(const struct lm_draw *d, struct lm_chain *chain, struct place *at,
                      const struct lm_frame *f, const void *payload, struct lm_err *err)
{
    uint32_t id;
    if (f->seq < at->seq)
        return lm_fail(err, LM_EDATA, "sequence %" PRIu32 ", position %" PRIu32
                       ": the frame is out of order", f->seq, f->pos);
    int s = go_to(d, chain, at, f->seq, err);
    if (s == LM_OK)
        s = lm_chain_accept(chain, f->token, err);
    if (s == LM_OK)
        s = lm_draw_frame(d, chain, f->seq, f, payload, d->chances ? NULL : &id, err);
    at->any = true;
    return s;
}

/* A failure of the input, or in it, gets its name; one of the output has its own. */
static int name_it(struct lm_in *in, int s, struct lm_err *err)
{
    return s < 0 ? lm_err_at(err, s, "%s", lm_in_name(in)) : s;
}

/* One stream after its header. */
static int draw_one(const struct lm_draw *d, struct lm_in *in, struct lm_logits_reader *r,
                    struct lm_chain *chain, struct lm_err *err)
{
    struct place at = { 0 };
    struct lm_frame f;
    const void *payload;
    for (;;) {
        int s = lm_logits_read_frame(r, &f, &payload, err);
        if (s == LM_OK && f.kind == LM_FRAME_ERROR)
            s = lm_draw_error_frame(&f, payload, err);
        if (s < 0)
            return name_it(in, s, err);
        if (f.kind == LM_FRAME_END)
            return go_to(d, chain, &at, f.seq > at.seq + at.any ? f.seq : at.seq + at.any, err);
        s = take_frame(d, chain, &at, &f, payload, err);
        if (s < 0)
            return s == LM_EIO ? s : name_it(in, s, err);
    }
}

static int draw_all(const struct lm_draw *d, struct lm_in *in, struct lm_logits_reader *r,
                    struct lm_err *err)
{
    struct lm_logits_head h;
    int s, n = 0;
    for (; (s = lm_logits_read_head(r, &h, err)) > 0; n++) {
        struct lm_chain *chain = lm_chain_new(d->sampling, &h, d->env, err);
        s = chain ? draw_one(d, in, r, chain, err) : name_it(in, err->code, err);
        lm_chain_free(chain);
        lm_logits_head_release(&h);
        if (s < 0)
            return s;
    }
    if (s == 0 && n == 0)
        s = lm_fail(err, LM_EDATA, "holds no logits stream");
    return name_it(in, s, err);
}

int lm_draw_stream(const struct lm_draw *d, struct lm_in *in, struct lm_err *err)
{
    struct lm_err own;
    struct lm_logits_reader *r = lm_logits_reader_new(in, &own);
    int s = r ? draw_all(d, in, r, &own) : own.code;
    lm_logits_reader_free(r);
    if (s < 0) {
        lm_draw_give_up(d, own.text, NULL);
        if (err)
            *err = own;
    }
    return s;
}
