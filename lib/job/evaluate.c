/* SPDX-License-Identifier: MIT */
#include "job/evaluate.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/size.h"
#include "job/answers.h"
#include "stream/tokens.h"

/*
 * Tokens wait in `t` until a batch is full.  A token joins them only when what follows it
 * is known (`held` until then): whether its row is wanted depends on that.
 *
 * In chunks (options.chunk), the context's sequences are the chunks, and a chunk joins
 * the batch when it is complete.  So do lines where results depend on what a sequence is at its
 * end (lm_ctx_by_length), unless they are shifted.
 */
struct batch {
    struct lm_eval         *e;
    struct lm_in           *in;
    struct lm_token_reader *reader;
    struct lm_batch_token  *t;          /* [n_batch] */
    struct lm_place        *place;      /* [n_batch] */
    bool                   *ends;       /* [n_batch] the last token of the context's sequence */
    size_t                  n;
    uint64_t                done;       /* tokens evaluated, for the progress */
    uint64_t                line;
    uint32_t                pos;        /* tokens of the line so far, the held one included */
    uint32_t                at;         /* where the context's sequence goes on            */
    bool                    encoded;    /* the line's text for the encoder has been read   */
    bool                    has_held;
    int32_t                 held;
    bool                    whole;      /* lines join when they are complete: */
    int32_t                *ids;        /* [n_ids] the line's so far */
    size_t                  n_ids, cap_ids;
    int32_t                *chunk;      /* [options.chunk], n_chunk of them there */
    uint32_t                n_chunk, chunk_no;
    /* of a failure: */
    enum lm_loop_code       code;       /* for the error frame; none: nothing to tell */
    bool                    input;      /* it is the input that is at fault */
    bool                    text;       /* it is the encoder's */
    bool                    together;   /* it is of all the tokens that wait */
    struct lm_place         first;      /* then the first of them */
};

static void release(struct batch *b)
{
    lm_token_reader_free(b->reader);
    free(b->t);
    free(b->place);
    free(b->ends);
    free(b->chunk);
    free(b->ids);
}

/* A line's sequence may be there already. */
static void begin_line(struct batch *b)
{
    b->pos = b->at = b->e->options.keep ? lm_ctx_seq_len(b->e->ctx, (uint32_t)b->line) : 0;
    b->encoded = b->has_held = false;
    b->n_ids = 0;
    b->n_chunk = 0;
}

static int init(struct batch *b, struct lm_eval *e, struct lm_in *in, struct lm_err *err)
{
    *b = (struct batch){.e = e, .in = in, .reader = lm_token_reader_new(in, err)};
    b->t = lm_malloc_array(e->n_batch, sizeof *b->t);
    b->place = lm_malloc_array(e->n_batch, sizeof *b->place);
    b->ends = lm_malloc_array(e->n_batch, sizeof *b->ends);
    b->chunk = lm_malloc_array(e->options.chunk, sizeof *b->chunk);
    if (!b->reader || !b->t || !b->place || !b->ends || !b->chunk)
        return lm_fail_nomem(err);
    lm_token_set_vocab(b->reader, e->head.n_vocab);
    b->whole = lm_ctx_by_length(e->ctx) && !e->options.chunk && !e->options.shift;
    begin_line(b);
    return LM_OK;
}

/* Answer a batch that was evaluated, and forget the sequences that ended. */
static int answer(struct batch *b, struct lm_err *err)
{
    struct lm_eval *e = b->e;
    int s = LM_OK;
    for (size_t i = 0; i < b->n && !s; i++)
        if (b->t[i].want)
            s = lm_answer_row(e, &b->place[i], lm_ctx_logits(e->ctx, i), err);
    for (size_t i = 0; i < b->n && !s && !e->options.keep; i++)
        if (b->ends[i] && !(s = lm_ctx_seq_remove(e->ctx, b->t[i].seq, 0, err)) && e->encoder)
            s = lm_ctx_encode(e->ctx, b->t[i].seq, NULL, 0, err);
    return s ? s : lm_answer_flush(e, err);
}

/* Evaluate and answer what waits. */
static int flush(struct batch *b, struct lm_err *err)
{
    if (lm_stopped(b->e->env))
        return lm_fail(err, LM_ESTOP, "stopped");
    int s = b->n ? lm_ctx_decode(b->e->ctx, b->t, b->n, err) : LM_OK;
    if (s) {
        b->code = lm_answer_code(s);
        b->together = true;
        b->first = b->place[0];
    } else if (b->n) {
        s = answer(b, err);
    }
    b->done += b->n;
    b->n = 0;
    if (!s)
        lm_progress(b->e->env, "tokens", b->done, 0);
    return s;
}

/* The line's token at `pos`, which `next` follows (-1: nothing, or not known). */
static int push(struct batch *b, uint32_t pos, int32_t id, int32_t next, bool ends,
                struct lm_err *err)
{
    const struct lm_eval_options *o = &b->e->options;
    while (lm_eval_pauses(b->e) && lm_eval_room(b->e, (uint32_t)b->line, b->at) == 0) {
        int s = flush(b, err);
        if (s || (s = lm_eval_make_room(b->e, (uint32_t)b->line, err)))
            return s;
        b->at = lm_ctx_seq_len(b->e->ctx, (uint32_t)b->line);
    }
    size_t i = b->n++;
    b->place[i] = (struct lm_place){(uint32_t)b->line, pos, id, next};
    b->ends[i] = ends;
    b->t[i] = (struct lm_batch_token){
        .id = id, .seq = (uint32_t)b->line, .pos = b->at++,
        .want = o->form == LM_EVAL_NLL || o->form == LM_EVAL_KL ? next >= 0 : o->all || ends,
    };
    return b->n == b->e->n_batch ? flush(b, err) : LM_OK;
}

/* The ids of a line; `complete`: with all that it will have. */
static int push_whole(struct batch *b, bool complete, struct lm_err *err)
{
    const size_t n = b->n_ids;
    const uint32_t first = b->pos - (uint32_t)n;
    int s = lm_ctx_expect(b->e->ctx, (uint32_t)b->line, b->ids, n, err);
    for (size_t i = 0; i < n && !s; i++) {
        const bool last = i + 1 == n;
        s = push(b, first + (uint32_t)i, b->ids[i], last ? -1 : b->ids[i + 1], last && complete,
                 err);
    }
    return s;
}

/* A complete chunk, the last token of which is at b->pos - 1. */
static int push_chunk(struct batch *b, struct lm_err *err)
{
    const struct lm_logits_head *h = &b->e->head;
    uint32_t n = b->e->options.chunk, first = b->pos - n;
    if (h->add_bos && h->bos >= 0)
        b->chunk[0] = (int32_t)h->bos;
    int expected = lm_ctx_expect(b->e->ctx, b->chunk_no, b->chunk, n, err);
    if (expected)
        return expected;
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = b->chunk[i];
        size_t at = b->n++;
        bool last = i + 1 == n;
        b->place[at] = (struct lm_place){(uint32_t)b->line, first + i, id,
                                         last ? -1 : b->chunk[i + 1]};
        b->ends[at] = last;
        b->t[at] = (struct lm_batch_token){.id = id, .seq = b->chunk_no, .pos = i, .want = !last};
        int s = b->n == b->e->n_batch ? flush(b, err) : LM_OK;
        if (s)
            return s;
    }
    b->chunk_no++;
    b->n_chunk = 0;
    return LM_OK;
}

/* A sequence has more tokens than the context: count on, to tell whether it is more than
 * the model was trained for (the input is at fault) or less (another -c would do). */
static int too_long(struct batch *b, struct lm_err *err)
{
    uint32_t n = b->pos + 1, train = b->e->n_train;
    int32_t id;
    while (n <= train && lm_token_next(b->reader, &id, NULL) == LM_TOKEN_ID)
        n++;
    b->input = true;
    b->code = n > train ? LM_LOOP_TRAINED_LENGTH : LM_LOOP_CONTEXT;
    if (n > train)
        return lm_fail(err, LM_EDATA, "line %" PRIu64 ": %" PRIu32 " tokens or more, and the"
                       " model was trained for %" PRIu32, b->line + 1, n, train);
    return lm_fail(err, LM_EUSE, "line %" PRIu64 ": %" PRIu32 " tokens, and the context has %"
                   PRIu32, b->line + 1, n, b->e->n_ctx);
}

/* What the decoder of the line that begins looks at. */
static int encode(struct batch *b, bool skip, struct lm_err *err)
{
    int s = lm_eval_encode_line(b->e, b->line, (uint32_t)b->line, skip, err);
    b->text = s != LM_OK;
    if (s)
        b->code = s == LM_EDATA ? LM_LOOP_MALFORMED : lm_answer_code(s);
    return s;
}

static int take_id(struct batch *b, int32_t id, struct lm_err *err)
{
    int s = LM_OK;
    if (b->e->options.chunk) {
        if (b->pos == UINT32_MAX)
            return lm_fail(err, LM_EDATA, "line %" PRIu64 ": too long", b->line + 1);
        b->chunk[b->n_chunk++] = id;
        b->pos++;
        return b->n_chunk == b->e->options.chunk ? push_chunk(b, err) : LM_OK;
    }
    if (b->pos == (b->e->options.shift ? UINT32_MAX : b->e->n_ctx))
        return too_long(b, err);
    if (!b->encoded && (s = encode(b, false, err)))
        return s;
    b->encoded = true;
    if (b->whole) {
        if (!lm_grow(&b->ids, &b->cap_ids, b->n_ids + 1, sizeof *b->ids))
            return lm_fail_nomem(err);
        b->ids[b->n_ids++] = id;
        b->pos++;
        return LM_OK;
    }
    if (b->has_held)
        s = push(b, b->pos - 1, b->held, id, false, err);
    b->has_held = true;
    b->held = id;
    b->pos++;
    return s;
}

static int take_line(struct batch *b, struct lm_err *err)
{
    int s = LM_OK;
    if (b->n_ids)
        s = push_whole(b, true, err);
    else if (b->has_held)
        s = push(b, b->pos - 1, b->held, -1, true, err);
    else if (!b->encoded)
        s = encode(b, true, err);
    if (b->n_chunk)
        lm_note(b->e->env, LM_WARN, "%s: line %" PRIu64 ": the last %" PRIu32
                " tokens are less than a chunk and left out", lm_in_name(b->in), b->line + 1,
                b->n_chunk);
    b->line++;
    begin_line(b);
    return s;
}

static int input_fault(struct batch *b, int s)
{
    b->input = true;
    b->code = lm_token_fault(b->reader) == LM_TOKENS_RANGE ? LM_LOOP_ID
              : s == LM_EDATA                              ? LM_LOOP_MALFORMED
                                                           : LM_LOOP_FINE;
    return s;
}

static int finish(struct batch *b, struct lm_err *err)
{
    int s = flush(b, err);
    if (!s && b->e->options.chunk && !b->chunk_no) {
        b->input = true;
        s = lm_fail(err, LM_EDATA, "no line has the %" PRIu32 " tokens of a chunk",
                    b->e->options.chunk);
    }
    if (!s && b->e->options.ref)
        s = lm_divergence_end(b->e->options.ref, b->line, err);
    if (!s && b->e->encoder)
        s = lm_eval_encoder_end(b->e, b->line, err);
    if (!s)
        s = lm_answer_end(b->e, b->line, err);
    return s ? s : lm_answer_flush(b->e, err);
}

static int run(struct batch *b, struct lm_err *err)
{
    for (;;) {
        int32_t id;
        int s = LM_OK;
        switch (lm_token_next(b->reader, &id, err)) {
        case LM_TOKEN_ID:
            s = take_id(b, id, err);
            break;
        case LM_TOKEN_LINE:
            s = take_line(b, err);
            break;
        case LM_TOKEN_END:
            return finish(b, err);
        case LM_TOKEN_ERROR:
            return input_fault(b, err->code);
        }
        if (s)
            return s;
    }
}

/* The input is at fault: answer what was complete before.  With `all` every token stands
 * for itself; else those of an incomplete sequence go unanswered. */
static int rescue(struct batch *b, struct lm_err *err)
{
    int s = LM_OK;
    if (b->has_held && b->e->options.all)
        s = push(b, b->pos - 1, b->held, -1, false, err);
    else if (b->n_ids && b->e->options.all)
        s = push_whole(b, false, err);
    while (b->n && !b->t[b->n - 1].want)
        b->n--;
    return s ? s : flush(b, err);
}

/* Failure `why`: write what can still be written, and return the code that counts. */
static int give_up(struct batch *b, const struct lm_err *why, struct lm_err *err)
{
    struct lm_err bad;
    enum lm_loop_code code = b->code;
    int s = b->input || b->text ? rescue(b, &bad) : LM_OK;
    const uint32_t seq = b->together ? b->first.seq : (uint32_t)b->line;
    if (!s && code)
        s = lm_answer_error(b->e, seq, b->together ? b->first.pos : b->pos, seq, code, why->text,
                            &bad);
    if (!s && code)
        s = lm_answer_flush(b->e, &bad);
    if (err)
        *err = s ? bad : *why;
    return !s && b->input ? lm_err_at(err, why->code, "%s", lm_in_name(b->in))
                          : s ? s : (int)why->code;
}

int lm_eval_batch(struct lm_eval *e, struct lm_in *in, struct lm_err *err)
{
    struct batch b;
    struct lm_err why;
    int s = init(&b, e, in, &why);
    if (!s)
        s = run(&b, &why);
    if (s)
        s = give_up(&b, &why, err);
    release(&b);
    return s;
}
