/* SPDX-License-Identifier: MIT */
/*
 * Embeddings: the hidden states of a sequence's tokens, or one vector made of them.
 *
 * Tokens wait in `t` until the next does not fit.  An encoder's sequences are then evaluated as
 * far as they are whole; of the others all but the last token, of which it is not known yet
 * whether it ends its line.  Vectors come in the order of the tokens, so that a sequence's are
 * gathered as they come.
 *
 * A pooled vector becomes what the model's products behind the pooling make of it, and so does
 * every token's where the model is not for pooling, or with ranks what its classifier says of it,
 * a number a label.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "job/answers.h"
#include "stream/tokens.h"

struct embed {
    struct lm_eval         *e;
    struct lm_in           *in;
    struct lm_token_reader *reader;
    enum lm_pooling         pooling;
    bool                    whole;      /* sequences are evaluated as a whole              */
    struct lm_batch_token  *t;          /* [n_batch + 1]                                   */
    bool                   *ends;       /* [n_batch + 1] the last token of its line        */
    size_t                  n, first;   /* tokens; where the line that is read begins      */
    uint64_t                line, done; /* lines read and tokens evaluated                 */
    uint32_t                pos;        /* tokens of the line so far                       */
    int32_t                *ids;        /* [n_ids] them, where results depend on the whole line */
    size_t                  n_ids, cap_ids;
    size_t                  len;        /* of a vector                                     */
    double                 *sum;        /* [len]                                           */
    float                  *vector;     /* [len]                                           */
    bool                    rank;       /* the classifier is asked                         */
    bool                    as_is;      /* vectors are not what products make of them      */
    float                  *out;        /* [n_out] what is answered                        */
    size_t                  n_out;
    size_t                  n_summed;
    uint64_t                answered;   /* lines                                           */
};

static void release(struct embed *b)
{
    lm_token_reader_free(b->reader);
    free(b->t);
    free(b->ends);
    free(b->sum);
    free(b->vector);
    free(b->out);
    free(b->ids);
}

static int init(struct embed *b, struct lm_eval *e, struct lm_in *in, struct lm_err *err)
{
    *b = (struct embed){
        .e = e, .in = in, .reader = lm_token_reader_new(in, err), .pooling = e->options.pooling,
        .whole = lm_model_is_encoder(e->model), .len = lm_ctx_row_len(e->ctx),
    };
    b->t = lm_malloc_array((size_t)e->n_batch + 1, sizeof *b->t);
    b->ends = lm_malloc_array((size_t)e->n_batch + 1, sizeof *b->ends);
    b->sum = lm_malloc_array(b->len, sizeof *b->sum);
    b->vector = lm_malloc_array(b->len, sizeof *b->vector);
    b->rank = b->pooling == LM_POOLING_RANK;
    b->as_is = b->pooling == LM_POOLING_NONE && lm_model_pooling(e->model) != LM_POOLING_NONE;
    b->n_out = b->rank                           ? lm_model_n_labels(e->model)
               : b->as_is                       ? b->len : lm_model_embd_len(e->model);
    b->pooling = b->rank ? lm_model_class_pooling(e->model) : b->pooling;
    b->out = lm_malloc_array(b->n_out, sizeof *b->out);
    if (!b->reader || !b->t || !b->ends || !b->sum || !b->vector || !b->out)
        return lm_fail_nomem(err);
    memset(b->sum, 0, b->len * sizeof *b->sum);
    lm_token_set_vocab(b->reader, e->head.n_vocab);
    return LM_OK;
}

static void normalize(float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    const double f = sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] * f);
}

/* One vector, which stands for the token t or its sequence. */
static int put(struct embed *b, const struct lm_batch_token *t, struct lm_err *err)
{
    struct lm_eval *e = b->e;
    int s = LM_OK;
    if (e->options.form == LM_EVAL_NOTHING)
        return LM_OK;
    if (b->rank)
        s = lm_ctx_classify(e->ctx, b->vector, b->out, err);
    else if (!b->as_is)
        s = lm_ctx_project(e->ctx, b->vector, b->out, err);
    else
        memcpy(b->out, b->vector, b->len * sizeof *b->out);
    if (s)
        return s;
    if (e->options.normalize)
        normalize(b->out, b->n_out);
    if (e->options.frames)
        return lm_answer_vector(e, t->seq, t->pos, t->id, b->out, b->n_out, err);
    for (size_t i = 0; i < b->n_out; i++) {
        lm_buf_byte(&e->text, i ? ',' : '[');
        lm_json_f32(&e->text, b->out[i]);
    }
    lm_buf_str(&e->text, "]\n");
    return lm_answer_text(e, err);
}

/* The hidden state of token t. */
static int take_row(struct embed *b, const struct lm_batch_token *t, bool ends, const float *row,
                    struct lm_err *err)
{
    if (b->pooling != LM_POOLING_MEAN) {
        memcpy(b->vector, row, b->len * sizeof *row);
        return put(b, t, err);
    }
    for (size_t i = 0; i < b->len; i++)
        b->sum[i] += (double)row[i];
    b->n_summed++;
    if (!ends)
        return LM_OK;
    for (size_t i = 0; i < b->len; i++)
        b->vector[i] = (float)(b->sum[i] / (double)b->n_summed);
    memset(b->sum, 0, b->len * sizeof *b->sum);
    b->n_summed = 0;
    return put(b, t, err);
}

/* Lines without tokens have no vector, but a line where lines are written. */
static int fill_lines(struct embed *b, uint64_t to, struct lm_err *err)
{
    for (; b->answered < to; b->answered++)
        if (!b->e->options.frames && b->pooling != LM_POOLING_NONE &&
            b->e->options.form == LM_EVAL_EMBED)
            lm_buf_str(&b->e->text, "[]\n");
    return b->e->text.len ? lm_answer_text(b->e, err) : LM_OK;
}

/* Evaluate and answer the first n tokens. */
static int flush(struct embed *b, size_t n, struct lm_err *err)
{
    struct lm_eval *e = b->e;
    if (lm_stopped(e->env))
        return lm_fail(err, LM_ESTOP, "stopped");
    int s = n ? lm_ctx_decode(e->ctx, b->t, n, err) : LM_OK;
    for (size_t i = 0; i < n && !s; i++) {
        const bool want = b->t[i].want;
        if (want && (b->ends[i] || b->pooling == LM_POOLING_CLS))
            s = fill_lines(b, b->t[i].seq, err);
        if (!s && want)
            s = take_row(b, &b->t[i], b->ends[i], lm_ctx_logits(e->ctx, i), err);
        if (!s && b->ends[i]) {
            b->answered = (uint64_t)b->t[i].seq + 1;
            s = lm_ctx_seq_remove(e->ctx, b->t[i].seq, 0, err);
        }
    }
    if (s)
        return s;
    memmove(b->t, b->t + n, (b->n - n) * sizeof *b->t);
    memmove(b->ends, b->ends + n, (b->n - n) * sizeof *b->ends);
    b->n -= n;
    b->first = b->first > n ? b->first - n : 0;
    b->done += n;
    lm_progress(e->env, "tokens", b->done, 0);
    return lm_answer_flush(e, err);
}

/* More tokens than the context has, or the model was trained for. */
static int too_long(struct embed *b, struct lm_err *err)
{
    const uint32_t train = b->e->n_train;
    uint32_t n = b->pos + (uint32_t)b->n_ids + 1;
    int32_t id;
    while (n <= train && lm_token_next(b->reader, &id, NULL) == LM_TOKEN_ID)
        n++;
    if (n > train)
        return lm_fail(err, LM_EDATA, "line %" PRIu64 ": %" PRIu32 " tokens or more, and the"
                       " model was trained for %" PRIu32, b->line + 1, n, train);
    return lm_fail(err, LM_EUSE, "line %" PRIu64 ": %" PRIu32 " tokens, and the context has %"
                   PRIu32, b->line + 1, n, b->e->n_ctx);
}

static int add(struct embed *b, int32_t id, struct lm_err *err)
{
    const bool want = b->pooling == LM_POOLING_NONE || b->pooling == LM_POOLING_MEAN ||
                      (b->pooling == LM_POOLING_CLS && b->pos == 0);
    b->ends[b->n] = false;
    b->t[b->n++] = (struct lm_batch_token){
        .id = id, .seq = (uint32_t)b->line, .pos = b->pos++, .want = want,
    };
    if (b->n <= b->e->n_batch)
        return LM_OK;
    return flush(b, b->whole ? b->first : b->n - 1, err);
}

static int take_id(struct embed *b, int32_t id, struct lm_err *err)
{
    if (b->pos + b->n_ids == b->e->n_ctx)
        return too_long(b, err);
    if (!lm_ctx_by_length(b->e->ctx))
        return add(b, id, err);
    if (!lm_grow(&b->ids, &b->cap_ids, b->n_ids + 1, sizeof *b->ids))
        return lm_fail_nomem(err);
    b->ids[b->n_ids++] = id;
    return LM_OK;
}

static int take_line(struct embed *b, struct lm_err *err)
{
    int s = lm_ctx_expect(b->e->ctx, (uint32_t)b->line, b->ids, b->n_ids, err);
    for (size_t i = 0; i < b->n_ids && !s; i++)
        s = add(b, b->ids[i], err);
    if (s)
        return s;
    b->n_ids = 0;
    if (b->pos) {
        b->ends[b->n - 1] = true;
        b->t[b->n - 1].want |= b->pooling == LM_POOLING_LAST;
    }
    b->first = b->n;
    b->pos = 0;
    b->line++;
    return b->n == b->e->n_batch ? flush(b, b->n, err) : LM_OK;
}

static int finish(struct embed *b, struct lm_err *err)
{
    int s = flush(b, b->n, err);
    if (!s)
        s = fill_lines(b, b->line, err);
    if (!s && b->e->options.frames)
        s = lm_answer_end(b->e, b->line, err);
    return s ? s : lm_answer_flush(b->e, err);
}

static int run(struct embed *b, struct lm_err *err)
{
    for (;;) {
        int32_t id;
        int s = LM_OK;
        switch (lm_token_next(b->reader, &id, err)) {
        case LM_TOKEN_ID:    s = take_id(b, id, err); break;
        case LM_TOKEN_LINE:  s = take_line(b, err); break;
        case LM_TOKEN_END:   return finish(b, err);
        case LM_TOKEN_ERROR: return err->code;
        }
        if (s)
            return s;
    }
}

/* What was whole before the fault is answered, then comes an error frame. */
static int give_up(struct embed *b, const struct lm_err *why, bool input, struct lm_err *err)
{
    struct lm_err bad;
    int s = input ? flush(b, b->first, &bad) : LM_OK;
    const bool together = !input && b->n;       /* then it is of all that wait */
    const uint32_t seq = together ? b->t[0].seq : (uint32_t)b->line;
    if (!s && b->e->options.frames)
        s = lm_answer_error(b->e, seq, together ? b->t[0].pos : b->pos, seq,
                            why->code == LM_EDATA ? LM_LOOP_MALFORMED : lm_answer_code(why->code),
                            why->text, &bad);
    if (!s)
        s = lm_answer_flush(b->e, &bad);
    *err = s ? bad : *why;
    return s ? s : input ? lm_err_at(err, why->code, "%s", lm_in_name(b->in)) : (int)why->code;
}

int lm_eval_embed(struct lm_eval *e, struct lm_in *in, struct lm_err *err)
{
    struct embed b;
    struct lm_err why = {0}, own;
    int s = init(&b, e, in, &why);
    if (!s)
        s = run(&b, &why);
    if (s)
        s = give_up(&b, &why, s == LM_EDATA || s == LM_EUSE, err ? err : &own);
    release(&b);
    return s;
}
