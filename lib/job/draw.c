/* SPDX-License-Identifier: MIT */
#include "job/draw.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "sample/fixed_math.h"
#include "stream/logits.h"
#include "stream/loop.h"

int lm_draw_put(const struct lm_draw *d, const void *text, size_t n, struct lm_err *err)
{
    int s = n ? lm_out_write(d->out, text, n, err) : LM_OK;
    if (s == LM_OK && n)
        s = lm_out_flush(d->out, err);
    return s < 0 ? lm_err_at(err, s, "%s", lm_out_name(d->out)) : LM_OK;
}

int lm_draw_give_up(const struct lm_draw *d, const char *text, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    lm_buf_str(&b, "! ");
    lm_buf_escape(&b, text, strlen(text));
    lm_buf_byte(&b, '\n');
    int s = b.failed ? lm_fail_nomem(err) : lm_draw_put(d, b.data, b.len, err);
    lm_buf_release(&b);
    return s;
}

void lm_draw_id(const struct lm_draw *d, uint32_t id, struct lm_buf *text)
{
    if (!d->chances)
        lm_buf_printf(text, "%" PRIu32 " ", id);
}

static int add_chances(const struct lm_draw *d, struct lm_chain *chain, uint32_t seq,
                       uint32_t pos, struct lm_buf *text, struct lm_err *err)
{
    size_t n;
    const struct lm_chance *c = lm_chain_chances(chain, d->n_chances, &n, err);
    if (!c)
        return LM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        lm_buf_printf(text, "%" PRIu32 "\t%" PRIu32 "\t%zu\t%" PRIu32 "\t", seq, pos, i, c[i].id);
        lm_json_f64(text, c[i].p);
        lm_buf_byte(text, '\n');
    }
    return text->failed ? lm_fail_nomem(err) : LM_OK;
}

/* ---- records ---- */

int lm_draw_put_choices(const struct lm_draw *d, const struct lm_choice *c, size_t n,
                        struct lm_err *err)
{
    struct lm_buf b = { 0 };
    if (!d->record)
        return LM_OK;
    for (size_t i = 0; i < n; i++) {
        lm_buf_printf(&b, "%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t", c[i].seq, c[i].pos, c[i].id);
        lm_json_f64(&b, c[i].p);
        lm_buf_printf(&b, "\t%zu\t", c[i].rank);
        lm_json_f64(&b, c[i].entropy);
        lm_buf_byte(&b, '\n');
    }
    int s = b.failed ? lm_fail_nomem(err) : lm_out_write(d->record, b.data, b.len, err);
    lm_buf_release(&b);
    return s < 0 ? lm_err_at(err, s, "%s", lm_out_name(d->record)) : LM_OK;
}

int lm_draw_judge(struct lm_chain *chain, struct lm_choice *choice, struct lm_err *err)
{
    size_t n;
    const struct lm_chance *c = lm_chain_chances(chain, 0, &n, err);
    if (!c)
        return LM_ENOMEM;
    choice->p = choice->entropy = 0;
    choice->rank = n;
    for (size_t i = 0; i < n; i++) {
        choice->entropy -= c[i].p > 0 ? c[i].p * lm_ln(c[i].p) : 0;
        if (c[i].id == choice->id) {
            choice->rank = i;
            choice->p = c[i].p;
        }
    }
    return LM_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct lm_choice *x = a, *y = b;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return x->pos < y->pos ? -1 : x->pos > y->pos;
}

/* The number at *p, which a tab or the end follows; *p moved behind it. */
static bool take_number(const char **p, const char *end, uint32_t *v)
{
    uint64_t x = 0;
    const char *at = *p;
    while (at < end && *at >= '0' && *at <= '9' && x <= UINT32_MAX)
        x = x * 10 + (uint64_t)(*at++ - '0');
    if (at == *p || x > UINT32_MAX || (at < end && *at != '\t'))
        return false;
    *p = at < end ? at + 1 : at;
    *v = (uint32_t)x;
    return true;
}

static int take_line(struct lm_record *r, const char *line, const char *end, struct lm_err *err)
{
    struct lm_choice c = { 0 };
    if (!take_number(&line, end, &c.seq) || !take_number(&line, end, &c.pos) ||
        !take_number(&line, end, &c.id))
        return lm_fail(err, LM_EDATA, "not sequence, position and id, separated by tabs");
    if (!lm_grow(&r->choices, &r->cap, r->n + 1, sizeof *r->choices))
        return lm_fail_nomem(err);
    r->choices[r->n++] = c;
    return LM_OK;
}

/* The whole lines in text, *number of them so far; how many bytes they are, or a code. */
static int64_t take_lines(struct lm_record *r, const char *text, size_t n, bool last,
                          uint64_t *number, struct lm_err *err)
{
    const char *at = text, *const end = text + n, *newline;
    while (at < end && ((newline = memchr(at, '\n', (size_t)(end - at))) || last)) {
        int s = take_line(r, at, newline ? newline : end, err);
        if (s < 0)
            return s;
        at = newline ? newline + 1 : end;
        ++*number;
    }
    return at - text;
}

static int read_lines(struct lm_record *r, struct lm_in *in, uint64_t *number,
                      struct lm_err *err)
{
    char text[LM_RECORD_LINE];
    size_t n = 0, got;
    do {
        int s = lm_in_read(in, text + n, sizeof text - n, &got, err);
        if (s < 0)
            return s;
        n += got;
        const int64_t taken = take_lines(r, text, n, n < sizeof text, number, err);
        if (taken < 0)
            return (int)taken;
        if (taken == 0 && n == sizeof text)
            return lm_fail(err, LM_EDATA, "longer than a line can be");
        n -= (size_t)taken;
        memmove(text, text + taken, n);
    } while (got);
    return LM_OK;
}

int lm_record_read(struct lm_record *r, struct lm_in *in, struct lm_err *err)
{
    uint64_t number = 0;
    int s = read_lines(r, in, &number, err);
    if (s < 0)
        return lm_err_at(err, s, "line %" PRIu64, number + 1);
    if (r->n)
        qsort(r->choices, r->n, sizeof *r->choices, by_place);
    for (size_t i = 1; i < r->n; i++)
        if (by_place(&r->choices[i - 1], &r->choices[i]) == 0)
            return lm_fail(err, LM_EDATA, "sequence %" PRIu32 ", position %" PRIu32 " occurs twice",
                           r->choices[i].seq, r->choices[i].pos);
    return LM_OK;
}

int lm_record_check(const struct lm_record *r, uint32_t n_vocab, struct lm_err *err)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->choices[i].id >= n_vocab)
            return lm_fail(err, LM_EDATA, "--replay: sequence %" PRIu32 ", position %" PRIu32
                           ": id %" PRIu32 " is outside the vocabulary of %" PRIu32,
                           r->choices[i].seq, r->choices[i].pos, r->choices[i].id, n_vocab);
    return LM_OK;
}

void lm_record_release(struct lm_record *r)
{
    free(r->choices);
    *r = (struct lm_record){ 0 };
}

/* The id a record has for that place. */
static int replay(const struct lm_record *r, struct lm_choice *choice, struct lm_err *err)
{
    const struct lm_choice *c = r->n ? bsearch(choice, r->choices, r->n, sizeof *c, by_place)
                                     : NULL;
    if (!c)
        return lm_fail(err, LM_EDATA, "the record has no token that follows");
    choice->id = c->id;
    return LM_OK;
}

/* ---- choosing ---- */

static int choose(const struct lm_draw *d, struct lm_chain *chain, struct lm_choice *choice,
                  struct lm_err *err)
{
    if (!d->replay && d->tell_seed && *d->tell_seed && lm_chain_is_random(chain)) {
        lm_note(d->env, LM_WARN, "seed %" PRIu64, d->sampling->seed);
        *d->tell_seed = false;
    }
    int s = LM_OK;
    if (!d->replay)
        choice->id = lm_chain_draw(chain);
    else if ((s = replay(d->replay, choice, err)) == LM_OK)
        lm_chain_chosen(chain, choice->id);
    return s == LM_OK && d->record ? lm_draw_judge(chain, choice, err) : s;
}

int lm_draw_frame(const struct lm_draw *d, struct lm_chain *chain, uint32_t seq,
                  const struct lm_frame *f, const void *payload, struct lm_buf *text,
                  struct lm_choice *choice, struct lm_err *err)
{
    int s = lm_chain_apply(chain, f, payload, seq, f->pos + 1, err);
    if (s == LM_OK && d->chances)
        s = add_chances(d, chain, seq, f->pos, text, err);
    if (s == LM_OK && choice) {
        *choice = (struct lm_choice){ .seq = seq, .pos = f->pos + 1 };
        s = choose(d, chain, choice, err);
    }
    return s < 0 ? lm_err_at(err, s, "sequence %" PRIu32 ", position %" PRIu32, seq, f->pos)
                 : LM_OK;
}

int lm_draw_error_frame(const struct lm_frame *f, const void *payload, struct lm_err *err)
{
    const int code = lm_loop_status(f->token) == 1 ? LM_EDATA : LM_ENOSUP;
    if (f->bytes == 0 || !*(const char *)payload)
        return lm_fail(err, code, "an error frame that does not say why");
    return lm_fail(err, code, "%.*s", (int)(f->bytes < 400 ? f->bytes : 400),
                   (const char *)payload);
}

/* ---- the filter ---- */

/* Where one logits stream stands. */
struct place {
    uint32_t seq;            /* the sequence whose line is open: lines complete so far */
    bool     any;            /* it has frames                                          */
    uint32_t pos;            /* of the last of them                                    */
    bool     loop;           /* frames are said to follow requests                     */
};

/* Lines without tokens between two with, at most: a number in a frame makes more. */
#define GAP_MAX (UINT32_C(1) << 24)

/* Complete the lines of all sequences before seq. */
static int go_to(const struct lm_draw *d, struct lm_chain *chain, struct place *at, uint32_t seq,
                 struct lm_err *err)
{
    int s = LM_OK;
    if (seq > at->seq && seq - at->seq > GAP_MAX)
        return lm_fail(err, LM_EDATA, "sequence %" PRIu32 ": %" PRIu32 " sequences without tokens "
                       "before it make no sense", seq, seq - at->seq);
    if (at->seq < seq)
        lm_chain_reset(chain);
    for (; s == LM_OK && at->seq < seq; at->seq++, at->any = false)
        s = d->chances ? LM_OK : lm_draw_put(d, "\n", 1, err);
    return s;
}

/* The line of one frame: what is chosen, or the chances. */
static int draw_frame(const struct lm_draw *d, struct lm_chain *chain, const struct lm_frame *f,
                      const void *payload, struct lm_buf *text, struct lm_err *err)
{
    struct lm_choice choice;
    const bool chosen = !d->chances || d->record;
    int s = lm_draw_frame(d, chain, f->seq, f, payload, text, chosen ? &choice : NULL, err);
    if (s == LM_OK && chosen) {
        lm_draw_id(d, choice.id, text);
        s = lm_draw_put_choices(d, &choice, 1, err);
    }
    return s == LM_OK && text->failed ? lm_fail_nomem(err) : s;
}

static int take_frame(const struct lm_draw *d, struct lm_chain *chain, struct place *at,
                      const struct lm_frame *f, const void *payload, struct lm_err *err)
{
    struct lm_buf text = { 0 };
    const bool back = f->seq == at->seq && at->any && f->pos <= at->pos;
    if (f->seq < at->seq || (back && !at->loop))
        return lm_fail(err, LM_EDATA, "sequence %" PRIu32 ", position %" PRIu32
                       ": the frame is out of order", f->seq, f->pos);
    if (back)                                     /* a request has begun it anew */
        lm_chain_reset(chain);
    int s = go_to(d, chain, at, f->seq, err);
    if (s == LM_OK)
        s = lm_chain_accept(chain, f->token, err);
    if (s == LM_OK)
        s = draw_frame(d, chain, f, payload, &text, err);
    if (s == LM_OK)
        s = lm_draw_put(d, text.data, text.len, err);
    lm_buf_release(&text);
    at->any = true;
    at->pos = f->pos;
    return s;
}

/* The lines of sequences after the last frame. */
static int take_end(const struct lm_draw *d, struct lm_chain *chain, struct place *at,
                    const struct lm_frame *f, struct lm_err *err)
{
    const uint32_t least = at->seq + at->any;
    if (f->seq < least && !at->loop)
        return lm_fail(err, LM_EDATA, "the end frame counts %" PRIu32 " sequences, but number %"
                       PRIu32 " was there", f->seq, at->seq);
    return go_to(d, chain, at, f->seq > least ? f->seq : least, err);
}

/* A failure of the input, or in it, gets its name; one of the output has its own. */
static int name_it(struct lm_in *in, int s, struct lm_err *err)
{
    return s < 0 ? lm_err_at(err, s, "%s", lm_in_name(in)) : s;
}

/* One stream after its header. */
static int draw_one(const struct lm_draw *d, struct lm_in *in, struct lm_logits_reader *r,
                    const struct lm_logits_head *h, struct lm_chain *chain, struct lm_err *err)
{
    struct place at = { .loop = h->loop && h->loop_said };
    struct lm_frame f;
    const void *payload;
    for (;;) {
        int s = lm_logits_read_frame(r, &f, &payload, err);
        if (s == LM_OK && f.kind == LM_FRAME_ERROR)
            s = lm_draw_error_frame(&f, payload, err);
        if (s < 0)
            return name_it(in, s, err);
        s = f.kind == LM_FRAME_END ? take_end(d, chain, &at, &f, err)
                                   : take_frame(d, chain, &at, &f, payload, err);
        if (s < 0)
            return s == LM_EIO ? s : name_it(in, s, err);
        if (f.kind == LM_FRAME_END)
            return LM_OK;
    }
}

static int draw_all(const struct lm_draw *d, struct lm_in *in, struct lm_logits_reader *r,
                    struct lm_err *err)
{
    struct lm_logits_head h;
    int s, n = 0;
    for (; (s = lm_logits_read_head(r, &h, err)) > 0; n++) {
        struct lm_chain *chain = lm_chain_new(d->sampling, &h, d->env, err);
        s = chain ? LM_OK : name_it(in, err->code, err);
        if (s == LM_OK && d->replay)
            s = lm_record_check(d->replay, h.n_vocab, err);
        if (s == LM_OK)
            s = draw_one(d, in, r, &h, chain, err);
        lm_chain_free(chain);
        lm_logits_head_release(&h);
        if (s < 0)
            return s;
    }
    if (s == 0 && n == 0)
        s = lm_fail(err, LM_EDATA, "holds no logits stream");
    return name_it(in, s, err);
}

/* A token stream is for the loop. */
static int refuse_tokens(struct lm_in *in, struct lm_err *err)
{
    char begin[5] = "";
    size_t n;
    int s = lm_in_peek(in, begin, sizeof begin - 1, &n, err);
    if (s == LM_OK && strspn(begin, "0123456789") && strspn(begin, "0123456789 \n") == n)
        s = lm_fail(err, LM_EDATA, "these look like tokens, not logits: to generate, a command is "
                    "needed: -- decode -i -m MODEL");
    return name_it(in, s, err);
}

int lm_draw_stream(const struct lm_draw *d, struct lm_in *in, struct lm_err *err)
{
    struct lm_err own;
    struct lm_logits_reader *r = NULL;
    int s = refuse_tokens(in, &own);
    if (s == LM_OK)
        s = (r = lm_logits_reader_new(in, &own)) ? draw_all(d, in, r, &own) : own.code;
    lm_logits_reader_free(r);
    if (s < 0) {
        lm_draw_give_up(d, own.text, NULL);
        if (err)
            *err = own;
    }
    return s;
}
