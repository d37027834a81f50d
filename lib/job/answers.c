/* SPDX-License-Identifier: MIT */
#include "job/answers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "stream/tokens.h"

static int named(const struct lm_eval *e, int s, struct lm_err *err)
{
    return s ? lm_err_at(err, s, "%s", lm_out_name(e->out)) : LM_OK;
}

static bool writes_frames(const struct lm_eval_options *o)
{
    return o->form == LM_EVAL_FRAMES || (o->form == LM_EVAL_EMBED && o->frames);
}

static int write_frame(struct lm_eval *e, const struct lm_frame *f, const void *payload,
                       struct lm_err *err)
{
    e->n_frames++;
    return named(e, lm_logits_write_frame(e->out, f, payload, err), err);
}

static int row_frame(struct lm_eval *e, const struct lm_place *p, const float *logits,
                     struct lm_err *err)
{
    uint32_t n = e->head.n_vocab;
    const void *payload = logits;
    struct lm_frame f = {
        .kind = LM_FRAME_DENSE, .seq = p->seq, .pos = p->pos, .token = (uint32_t)p->token,
        .n = n, .bytes = (uint32_t)(n * sizeof *logits), .lse = (float)lm_logits_lse(logits, n),
    };
    if (e->options.top) {
        f.kind = LM_FRAME_TOP;
        f.n = (uint32_t)lm_logits_top(logits, n, e->options.top, e->top, e->work);
        f.bytes = (uint32_t)(f.n * sizeof *e->top);
        payload = e->top;
    }
    return write_frame(e, &f, payload, err);
}

/* Shortest digits that read back to the same float; nan, inf, -inf as strtof reads them. */
static void add_float(struct lm_buf *b, double v)
{
    if (isfinite(v))
        lm_json_f32(b, (float)v);
    else
        lm_buf_str(b, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

int lm_answer_text(struct lm_eval *e, struct lm_err *err)
{
    int s = e->text.failed ? lm_fail_nomem(err)
                           : named(e, lm_out_write(e->out, e->text.data, e->text.len, err), err);
    lm_buf_clear(&e->text);
    return s;
}

static int row_text(struct lm_eval *e, const struct lm_place *p, const float *logits,
                    struct lm_err *err)
{
    uint32_t n = e->head.n_vocab;
    size_t k = lm_logits_top(logits, n, e->options.top ? e->options.top : n, e->top, e->work);
    double lse = lm_logits_lse(logits, n);
    for (size_t i = 0; i < k; i++) {
        lm_buf_printf(&e->text, "%" PRIu32 "\t%" PRIu32 "\t%" PRId32 "\t%zu\t%" PRIu32 "\t",
                      p->seq, p->pos, p->token, i, e->top[i].id);
        add_float(&e->text, e->top[i].logit);
        lm_buf_byte(&e->text, '\t');
        add_float(&e->text, e->top[i].logit - lse);
        lm_buf_byte(&e->text, '\n');
    }
    return k ? lm_answer_text(e, err) : LM_OK;
}

static int row_nll(struct lm_eval *e, const struct lm_place *p, const float *logits,
                   struct lm_err *err)
{
    double lse = lm_logits_lse(logits, e->head.n_vocab);
    lm_buf_printf(&e->text, "%" PRIu32 "\t%" PRIu32 "\t%" PRId32 "\t", p->seq, p->pos + 1, p->next);
    add_float(&e->text, lse - logits[p->next]);
    lm_buf_byte(&e->text, '\n');
    return lm_answer_text(e, err);
}

static int row_kl(struct lm_eval *e, const struct lm_place *p, const float *logits,
                  struct lm_err *err)
{
    double kl;
    int s = lm_divergence_of(e->options.ref, p->seq, p->pos, p->token, p->next, logits, &kl, err);
    if (s)
        return s;
    lm_buf_printf(&e->text, "%" PRIu32 "\t%" PRIu32 "\t%" PRId32 "\t", p->seq, p->pos + 1, p->next);
    add_float(&e->text, kl);
    lm_buf_byte(&e->text, '\n');
    return lm_answer_text(e, err);
}

int lm_answer_row(struct lm_eval *e, const struct lm_place *p, const float *logits,
                  struct lm_err *err)
{
    switch (e->options.form) {
    case LM_EVAL_TEXT:
        return row_text(e, p, logits, err);
    case LM_EVAL_NLL:
        return row_nll(e, p, logits, err);
    case LM_EVAL_KL:
        return row_kl(e, p, logits, err);
    case LM_EVAL_NOTHING:
        return LM_OK;
    default:
        return row_frame(e, p, logits, err);
    }
}

int lm_answer_vector(struct lm_eval *e, uint32_t seq, uint32_t pos, int32_t token,
                     const float *v, size_t n, struct lm_err *err)
{
    const struct lm_frame f = {
        .kind = LM_FRAME_VECTOR, .seq = seq, .pos = pos, .token = (uint32_t)token,
        .n = (uint32_t)n, .bytes = (uint32_t)(n * sizeof *v),
    };
    return write_frame(e, &f, v, err);
}

int lm_answer_guesses(struct lm_eval *e, const struct lm_place *p, const struct lm_guessed *g,
                      size_t n, struct lm_err *err)
{
    const struct lm_frame f = {
        .kind = LM_FRAME_GUESS, .seq = p->seq, .pos = p->pos, .token = (uint32_t)p->token,
        .n = (uint32_t)n, .bytes = (uint32_t)(n * sizeof *g),
    };
    return write_frame(e, &f, g, err);
}

enum lm_loop_code lm_answer_code(int code)
{
    return code == LM_ENOMEM  ? LM_LOOP_MEMORY
           : code == LM_EDATA ? LM_LOOP_ID
           : code == LM_EUSE  ? LM_LOOP_CONTEXT
                              : LM_LOOP_UNSUPPORTED;
}

int lm_answer_error(struct lm_eval *e, uint32_t seq, uint32_t pos, uint64_t line,
                    enum lm_loop_code code, const char *text, struct lm_err *err)
{
    struct lm_frame f = {
        .kind = LM_FRAME_ERROR, .seq = seq, .pos = pos, .token = code, .n = (uint32_t)line,
    };
    if (!writes_frames(&e->options))
        return LM_OK;
    lm_buf_clear(&e->text);
    for (const char *p = text; *p;) {           /* a frame's text is UTF-8, whatever came */
        int n = lm_utf8_len(p, strlen(p), NULL);
        if (n)
            lm_buf_add(&e->text, p, (size_t)n);
        else
            lm_buf_rune(&e->text, 0xfffd);
        p += n ? n : 1;
    }
    f.bytes = (uint32_t)e->text.len;
    return e->text.failed ? lm_fail_nomem(err) : write_frame(e, &f, e->text.data, err);
}

int lm_answer_end(struct lm_eval *e, uint64_t n_sequences, struct lm_err *err)
{
    struct lm_frame f = {
        .kind = LM_FRAME_END, .seq = (uint32_t)n_sequences, .n = (uint32_t)e->n_frames,
    };
    return writes_frames(&e->options) ? write_frame(e, &f, NULL, err) : LM_OK;
}

int lm_answer_flush(struct lm_eval *e, struct lm_err *err)
{
    return named(e, lm_out_flush(e->out, err), err);
}

/* The names of a classifier's numbers, as an array like theirs. */
static int write_labels(struct lm_eval *e, struct lm_err *err)
{
    const uint32_t n = lm_model_n_labels(e->model);
    for (uint32_t i = 0; i < n; i++) {
        const struct lm_str s = lm_model_label(e->model, i);
        lm_buf_byte(&e->text, i ? ',' : '[');
        lm_json_quote(&e->text, s.p, s.len);
    }
    lm_buf_str(&e->text, "]\n");
    return lm_answer_text(e, err);
}

int lm_eval_head(struct lm_eval *e, struct lm_err *err)
{
    static const char *const headings[] = {
        [LM_EVAL_TEXT] = "sequence\tposition\ttoken\trank\tid\tlogit\tlogprob\n",
        [LM_EVAL_NLL]  = "sequence\tposition\ttoken\tnll\n",
        [LM_EVAL_KL]   = "sequence\tposition\ttoken\tkl\n",
        [LM_EVAL_NOTHING] = NULL, [LM_EVAL_EMBED] = NULL,
    };
    const struct lm_eval_options *o = &e->options;
    int s = LM_OK;
    e->head.loop = o->loop;
    e->head.draft_head = o->loop && lm_ctx_has_draft(e->ctx);
    if (writes_frames(o))
        s = lm_logits_write_head(e->out, &e->head, o->program, o->version, err);
    else if (o->heading && headings[o->form])
        s = lm_out_write(e->out, headings[o->form], strlen(headings[o->form]), err);
    s = named(e, s, err);
    if (!s && o->heading && o->form == LM_EVAL_EMBED && o->pooling == LM_POOLING_RANK)
        s = write_labels(e, err);
    return s ? s : lm_answer_flush(e, err);
}

static int prepare(struct lm_eval *e, const char *name, struct lm_err *err)
{
    const struct lm_eval_options *o = &e->options;
    uint32_t n = lm_model_n_vocab(e->model), k = o->top && o->top < n ? o->top : n;
    int s = lm_model_head(e->model, name, e->env, &e->head, err);
    if (s)
        return s;
    e->head.n_vocab = n;
    e->head.n_ctx = e->n_ctx;
    if (o->form == LM_EVAL_NLL && o->chunk && (o->chunk < 2 || o->chunk > e->n_ctx))
        return lm_fail(err, LM_EUSE, "chunks of %" PRIu32 " tokens: it takes 2 to %" PRIu32
                       ", the context", o->chunk, e->n_ctx);
    if (o->n_keep && o->n_keep > e->n_ctx - 1)
        return lm_fail(err, LM_EUSE, "%" PRIu32 " tokens to keep, and the context has %" PRIu32
                       ": nothing could follow", o->n_keep, e->n_ctx);
    if (o->top || o->form == LM_EVAL_TEXT) {
        e->top = lm_malloc_array(k, sizeof *e->top);
        e->work = malloc(lm_logits_top_work(k, n));
        if (!e->top || !e->work)
            return lm_fail_nomem(err);
    }
    return LM_OK;
}

bool lm_eval_pauses(const struct lm_eval *e)
{
    return e->options.shift || e->options.divide;
}

/* Tokens of a sequence of that length behind what was divided. */
static uint32_t undivided(const struct lm_eval *e, uint32_t seq, uint32_t length)
{
    const uint32_t end = lm_ctx_seq_divided(e->ctx, seq);
    return end < length ? length - end : 0;
}

uint32_t lm_eval_room(const struct lm_eval *e, uint32_t seq, uint32_t length)
{
    const uint32_t room = length < e->n_ctx ? e->n_ctx - length : 0;
    if (!e->options.divide)
        return room;
    const uint32_t had = undivided(e, seq, length), group = e->options.group;
    return had >= group ? 0 : room < group - had ? room : group - had;
}

static int shift(struct lm_eval *e, uint32_t seq, struct lm_err *err)
{
    uint32_t length = lm_ctx_seq_len(e->ctx, seq), keep = e->head.add_bos && length > 1;
    if (e->options.n_keep > keep && e->options.n_keep < length)
        keep = e->options.n_keep;
    uint32_t gone = (length - keep + 1) / 2;
    return lm_ctx_seq_shift(e->ctx, seq, keep, keep + gone, err);
}

int lm_eval_make_room(struct lm_eval *e, uint32_t seq, struct lm_err *err)
{
    if (e->options.shift)
        return shift(e, seq, err);
    const uint32_t from = lm_ctx_seq_divided(e->ctx, seq);
    return lm_ctx_seq_divide(e->ctx, seq, from, from + e->options.group, e->options.divide, err);
}

/* How long a sequence may be: of all groups but the last, each takes as many positions as are left
 * when it is divided. */
static int extend(struct lm_eval *e, struct lm_err *err)
{
    const struct lm_eval_options *o = &e->options;
    if (!o->divide)
        return LM_OK;
    if (o->divide < 2 || o->group == 0 || o->group >= e->n_train)
        return lm_fail(err, LM_EUSE, "groups of %" PRIu32 " tokens, divided by %" PRIu32
                       ": it takes 1 to %" PRIu32 ", less than the model was trained for, and 2 or "
                       "more", o->group, o->divide, e->n_train - 1);
    const uint32_t each = (o->group - 1) / o->divide + 1;
    const uint64_t most = ((uint64_t)(e->n_train - o->group) / each + 1) * o->group;
    e->n_train = most < INT32_MAX ? (uint32_t)most : INT32_MAX;
    return lm_ctx_can_divide(e->ctx, err);
}

struct lm_eval *lm_eval_new(struct lm_model *m, struct lm_ctx *c, const char *name,
                            const struct lm_eval_options *o, struct lm_out *out,
                            const struct lm_env *env, struct lm_err *err)
{
    struct lm_eval *e = calloc(1, sizeof *e);
    if (!e) {
        lm_fail_nomem(err);
        return NULL;
    }
    *e = (struct lm_eval){.model = m, .ctx = c, .out = out, .env = env, .options = *o,
                          .n_train = lm_model_n_ctx_train(m), .n_batch = lm_ctx_n_batch(c)};
    int r = extend(e, err);
    if (!r && o->divide && lm_ctx_n_ctx(c) > e->n_train)
        lm_note(env, LM_WARN, "%s: a context of %" PRIu32 " tokens: divided groups reach %" PRIu32
                ", which is the most", name, lm_ctx_n_ctx(c), e->n_train);
    e->n_ctx = lm_ctx_n_ctx(c) < e->n_train ? lm_ctx_n_ctx(c) : e->n_train;
    if (r || prepare(e, name, err) || (o->shift && lm_ctx_can_shift(c, err))) {
        lm_eval_free(e);
        return NULL;
    }
    return e;
}

void lm_eval_free(struct lm_eval *e)
{
    if (!e)
        return;
    lm_logits_head_release(&e->head);
    lm_buf_release(&e->text);
    lm_token_reader_free(e->encoder);
    free(e->top);
    free(e->work);
    free(e);
}
