/* SPDX-License-Identifier: MIT */
#include "job/evaluate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "job/answers.h"

/* A request of a group, and what becomes of it. */
struct entry {
    struct lm_request q;
    bool              pauses;       /* it has to be shifted or divided to go on; alone in its
                                       group                                         */
    uint32_t          len;          /* of its sequence, before it (and after @POS)   */
    size_t            first, n;     /* its tokens in the batch                       */
    struct lm_guessed *guesses;     /* [q.want] that answer it, NULL: it wants none  */
};

/*
 * Requests that wait together form a group: their tokens are one batch, or, where one
 * request has more tokens than a batch, several.  Sequences are cut and dropped when
 * the group is made up, so a request that does this to a sequence with tokens in the
 * group waits for the next one.
 */
struct loop {
    struct lm_eval           *e;
    struct lm_request_reader *reader;
    struct entry             *group;        /* [n_batch + 1], n of them there */
    size_t                    n;
    struct lm_batch_token    *t;            /* [n_batch] */
    size_t                    n_tokens;
    uint64_t                  n_requests;
    uint64_t                  bad_line;     /* of the line at which the input failed, */
    uint32_t                  bad_seq;      /* and its sequence as far as it was read */
};

__attribute__((format(printf, 3, 4)))
static void refuse(struct lm_request *q, enum lm_loop_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    q->fault = code;
    vsnprintf(q->why, sizeof q->why, fmt, ap);
    va_end(ap);
}

/* A library error as a request's fault. */
static void refuse_for(struct lm_request *q, const struct lm_err *why)
{
    refuse(q, lm_answer_code(why->code), "%s", why->text);
}

/* Length of a sequence with the group's tokens before entry `end`. */
static uint32_t length(const struct loop *l, uint32_t seq, size_t end)
{
    while (end-- > 0) {
        const struct entry *x = &l->group[end];
        if (x->q.seq == seq && x->n)
            return x->len + (uint32_t)x->n;
    }
    return lm_ctx_seq_len(l->e->ctx, seq);
}

/* Is a sequence of so many tokens refused for its length? */
static bool too_long(const struct loop *l, struct lm_request *q, uint64_t total)
{
    if (total > l->e->n_train)
        refuse(q, LM_LOOP_TRAINED_LENGTH, "%" PRIu64 " tokens, and the model was trained for %"
               PRIu32, total, l->e->n_train);
    else if (total > l->e->n_ctx)
        refuse(q, LM_LOOP_CONTEXT, "%" PRIu64 " tokens, and the context has %" PRIu32, total,
               l->e->n_ctx);
    return total > l->e->n_train || total > l->e->n_ctx;
}

/* What an append may be refused for before anything is changed. */
static void check_append(const struct loop *l, struct lm_request *q, uint32_t len)
{
    if (q->has_pos && q->pos > len)
        refuse(q, LM_LOOP_MALFORMED, "@%" PRIu32 " is beyond the %" PRIu32
               " tokens of the sequence", q->pos, len);
    else if (!l->e->options.shift)
        too_long(l, q, (uint64_t)(q->has_pos ? q->pos : len) + q->n_ids);
}

/* Tokens from .. from + n - 1 of a request whose sequence has `len`, as batch tokens. */
static void load(const struct lm_request *q, uint32_t len, size_t from, size_t n,
                 struct lm_batch_token *t)
{
    for (size_t i = from; i < from + n; i++)
        *t++ = (struct lm_batch_token){
            .id = q->ids[i], .seq = q->seq, .pos = len + (uint32_t)i,
            .want = i + q->want >= q->n_ids,
        };
}

/* Cut a sequence, unless there will be no memory for what the request and those before it
 * in the group append: a request that fails leaves its sequence as it was. */
static int cut(struct loop *l, const struct lm_request *q, struct lm_err *why)
{
    size_t n = l->n_tokens + q->n_ids;
    struct lm_batch_token *t = lm_malloc_array(n, sizeof *t);
    if (!t)
        return lm_fail_nomem(why);
    memcpy(t, l->t, l->n_tokens * sizeof *t);
    load(q, q->pos, 0, q->n_ids, t + l->n_tokens);
    int s = lm_ctx_room(l->e->ctx, q->seq, q->pos, t, n, why);
    free(t);
    return s ? s : lm_ctx_seq_remove(l->e->ctx, q->seq, q->pos, why);
}

/* Will the sequence have to be shifted or divided? */
static bool pauses(const struct loop *l, const struct lm_request *q, uint32_t len)
{
    return lm_eval_pauses(l->e) && q->kind == LM_REQ_APPEND &&
           q->n_ids > lm_eval_room(l->e, q->seq, q->has_pos && q->pos < len ? q->pos : len);
}

/* What a sequence's decoder looks at. */
static void encode(struct loop *l, struct lm_request *q)
{
    struct lm_err why;
    if (lm_ctx_has_encoder(l->e->ctx) && q->n_ids > l->e->n_train)
        refuse(q, LM_LOOP_TRAINED_LENGTH, "%zu tokens, and the model was trained for %" PRIu32,
               q->n_ids, l->e->n_train);
    else if (lm_ctx_encode(l->e->ctx, q->seq, q->ids, q->n_ids, &why))
        refuse_for(q, &why);
}

/* Guesses, which leave the sequence as it is. */
static void guess(struct loop *l, struct entry *x)
{
    struct lm_request *q = &x->q;
    const uint32_t pos = q->has_pos ? q->pos : x->len;
    struct lm_err why;
    if (!lm_ctx_has_draft(l->e->ctx))
        refuse(q, LM_LOOP_UNSUPPORTED, "no draft head is loaded");
    else if (pos == 0 || pos > x->len)
        refuse(q, LM_LOOP_MALFORMED, "the sequence has %" PRIu32 " tokens: none in front of %"
               PRIu32, x->len, pos);
    else if (too_long(l, q, (uint64_t)pos + q->want))
        return;
    else if (!(x->guesses = lm_malloc_array(q->want, sizeof *x->guesses)))
        refuse(q, LM_LOOP_MEMORY, "out of memory");
    else if (lm_ctx_draft(l->e->ctx, q->seq, pos, q->next, q->want, x->guesses, &why))
        refuse_for(q, &why);
}

static int answer_guesses(struct loop *l, struct entry *x, struct lm_err *err)
{
    const struct lm_place p = { x->q.seq, x->q.has_pos ? x->q.pos : x->len, x->q.next, -1 };
    const int s = x->guesses && !x->q.fault
                      ? lm_answer_guesses(l->e, &p, x->guesses, x->q.want, err) : LM_OK;
    free(x->guesses);
    x->guesses = NULL;
    return s;
}

static void scale(struct loop *l, struct lm_request *q)
{
    const size_t n = lm_ctx_n_scales(l->e->ctx);
    struct lm_err why;
    if (q->n_scales && n && q->n_scales != n)
        refuse(q, LM_LOOP_MALFORMED, "%zu scales for %zu adapters of low rank", q->n_scales, n);
    else if (lm_ctx_seq_set_scales(l->e->ctx, q->seq, q->scales, q->n_scales, &why))
        refuse_for(q, &why);
}

/* A sequence as if it had never been. */
static int drop(struct lm_ctx *c, uint32_t seq, struct lm_err *why)
{
    int s = lm_ctx_seq_remove(c, seq, 0, why);
    if (!s && lm_ctx_has_encoder(c))
        (void)lm_ctx_encode(c, seq, NULL, 0, NULL);
    if (!s)
        (void)lm_ctx_seq_set_scales(c, seq, NULL, 0, NULL);
    return s;
}

/* Do or refuse what needs no evaluation.  Afterwards x->n tokens are to be evaluated. */
static void begin(struct loop *l, size_t i)
{
    struct entry *x = &l->group[i];
    struct lm_request *q = &x->q;
    struct lm_err why;
    x->n = 0;
    x->first = l->n_tokens;
    x->len = length(l, q->seq, i);
    if (q->fault)
        return;
    if (q->kind == LM_REQ_ENCODE) {
        encode(l, q);
        return;
    }
    if (q->kind == LM_REQ_GUESS) {
        guess(l, x);
        return;
    }
    if (q->kind == LM_REQ_SCALES) {
        scale(l, q);
        return;
    }
    if (q->kind == LM_REQ_DROP || q->kind == LM_REQ_COPY) {
        if (q->kind == LM_REQ_DROP ? drop(l->e->ctx, q->seq, &why)
                                   : lm_ctx_seq_copy(l->e->ctx, q->seq, q->other, &why))
            refuse_for(q, &why);
        return;
    }
    if (lm_ctx_has_encoder(l->e->ctx) && q->n_ids && !lm_ctx_encoder_len(l->e->ctx, q->seq))
        refuse(q, LM_LOOP_MALFORMED, "the sequence has no text of the encoder");
    else
        check_append(l, q, x->len);
    x->pauses = !q->fault && pauses(l, q, x->len);
    if (!q->fault && !x->pauses && q->has_pos && q->pos < x->len) {
        if (cut(l, q, &why))
            refuse_for(q, &why);
        else
            x->len = q->pos;
    }
    if (!q->fault)
        x->n = q->n_ids;
}

/* Rows of n evaluated tokens from `first` of the batch on. */
static int answer_tokens(struct loop *l, size_t first, size_t n, struct lm_err *err)
{
    for (size_t i = first; i < first + n; i++) {
        const struct lm_batch_token *t = &l->t[i];
        struct lm_place p = {t->seq, t->pos, t->id, -1};
        int s = t->want ? lm_answer_row(l->e, &p, lm_ctx_logits(l->e->ctx, i), err) : LM_OK;
        if (s)
            return s;
    }
    return LM_OK;
}

static int answer_fault(struct loop *l, const struct entry *x, struct lm_err *err)
{
    const struct lm_request *q = &x->q;
    return lm_answer_error(l->e, q->seq, x->len, q->line, q->fault, q->why, err);
}

/* A sequence that no request of the group speaks of and that is not there. */
static uint32_t spare(const struct loop *l)
{
    uint32_t seq = UINT32_MAX;
    while (lm_ctx_seq_len(l->e->ctx, seq) || lm_ctx_seq_scales(l->e->ctx, seq) ||
           l->group[0].q.seq == seq)
        seq--;
    return seq;
}

/* Append by pieces, with shifts or divisions in between; a copy brings back what was, if need
 * be. */
static int append_pausing(struct loop *l, struct entry *x, struct lm_err *why)
{
    struct lm_eval *e = l->e;
    const struct lm_request *q = &x->q;
    int s = q->has_pos && q->pos < x->len ? lm_ctx_seq_remove(e->ctx, q->seq, q->pos, why) : LM_OK;
    for (size_t at = 0, n; at < x->n && !s; ) {
        uint32_t len = lm_ctx_seq_len(e->ctx, q->seq), room = lm_eval_room(e, q->seq, len);
        if (room == 0) {
            s = lm_eval_make_room(e, q->seq, why);
            continue;
        }
        n = x->n - at < e->n_batch ? x->n - at : e->n_batch;
        n = n < room ? n : room;
        load(q, len, 0, n, l->t);
        for (size_t i = 0; i < n; i++) {
            l->t[i].id = q->ids[at + i];
            l->t[i].want = at + i + q->want >= q->n_ids;
        }
        s = lm_ctx_decode(e->ctx, l->t, n, why);
        if (!s && (s = answer_tokens(l, 0, n, why)))
            return s;
        at += n;
    }
    return s;
}

static int run_pausing(struct loop *l, struct entry *x, struct lm_err *err)
{
    struct lm_err why = {0};
    struct lm_ctx *c = l->e->ctx;
    uint32_t backup = spare(l);
    if (lm_ctx_seq_copy(c, backup, x->q.seq, &why)) {
        refuse_for(&x->q, &why);
        return LM_OK;
    }
    int s = append_pausing(l, x, &why);
    if (s && why.code == LM_EIO) {
        *err = why;
        return s;
    }
    if (s) {
        refuse_for(&x->q, &why);
        if (lm_ctx_seq_copy(c, x->q.seq, backup, &why))
            refuse_for(&x->q, &why);
    }
    (void)drop(c, backup, NULL);
    return LM_OK;
}

/* Evaluate one request by itself, in as many batches as it takes. */
static int run_batches(struct loop *l, struct entry *x, struct lm_err *err)
{
    struct lm_err why;
    if (lm_ctx_expect(l->e->ctx, x->q.seq, x->q.ids, x->n, &why)) {
        refuse_for(&x->q, &why);
        return LM_OK;
    }
    for (size_t at = 0, n; at < x->n; at += n) {
        n = x->n - at < l->e->n_batch ? x->n - at : l->e->n_batch;
        load(&x->q, x->len, at, n, l->t);
        if (lm_ctx_decode(l->e->ctx, l->t, n, &why)) {
            struct lm_err worse;
            refuse_for(&x->q, &why);
            (void)lm_ctx_expect(l->e->ctx, x->q.seq, NULL, 0, NULL);
            if (at && lm_ctx_seq_remove(l->e->ctx, x->q.seq, x->len, &worse))
                refuse_for(&x->q, &worse);
            return LM_OK;
        }
        int s = answer_tokens(l, 0, n, err);
        if (s)
            return s;
    }
    return LM_OK;
}

static int run_alone(struct loop *l, struct entry *x, struct lm_err *err)
{
    if (x->pauses)
        return run_pausing(l, x, err);
    lm_ctx_seq_hold(l->e->ctx, x->q.seq, true);
    int s = run_batches(l, x, err);
    lm_ctx_seq_hold(l->e->ctx, x->q.seq, false);
    return s;
}

/* Are tokens of the entry's sequence in front of it in the group? */
static bool goes_on(const struct loop *l, size_t entry)
{
    for (size_t i = 0; i < entry; i++)
        if (l->group[i].n && l->group[i].q.seq == l->group[entry].q.seq)
            return true;
    return false;
}

/* Answer a group whose requests are evaluated one after the other: there is only one, or
 * together they did not fit in memory.  Lengths behind others' tokens are looked up again, as
 * a request that fails leaves its sequence shorter than those after it expected; what others
 * are is as it was, though the sequence may be another by now. */
static int run_apart(struct loop *l, struct lm_err *err)
{
    for (size_t i = 0; i < l->n; i++) {
        struct entry *x = &l->group[i];
        if (goes_on(l, i))
            x->len = lm_ctx_seq_len(l->e->ctx, x->q.seq);
        int s = x->q.kind == LM_REQ_GUESS ? answer_guesses(l, x, err) : run_alone(l, x, err);
        if (!s && x->q.fault)
            s = answer_fault(l, x, err);
        if (s)
            return s;
    }
    return LM_OK;
}

static int run_together(struct loop *l, struct lm_err *err)
{
    for (size_t i = 0; i < l->n; i++) {
        struct entry *x = &l->group[i];
        int s = x->q.fault ? answer_fault(l, x, err) : answer_tokens(l, x->first, x->n, err);
        s = s ? s : answer_guesses(l, x, err);
        if (s)
            return s;
    }
    return LM_OK;
}

/* Evaluate and answer the group. */
static int run_group(struct loop *l, struct lm_err *err)
{
    struct lm_err why;
    size_t total = 0, n_active = 0;
    l->n_tokens = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct entry *x = &l->group[i];
        begin(l, i);
        total += x->n;
        n_active += x->n > 0;
        if (total <= l->e->n_batch) {
            load(&x->q, x->len, 0, x->n, l->t + l->n_tokens);
            l->n_tokens += x->n;
        }
    }
    bool apart = total > l->e->n_batch || l->group[0].pauses;
    if (total && !apart && lm_ctx_decode(l->e->ctx, l->t, l->n_tokens, &why)) {
        apart = n_active > 1;
        for (size_t i = 0; i < l->n && !apart; i++)
            if (l->group[i].n)
                refuse_for(&l->group[i].q, &why);
    }
    int s = apart ? run_apart(l, err) : run_together(l, err);
    l->n = 0;
    return s ? s : lm_answer_flush(l->e, err);
}

/* Tokens that a request appends. */
static size_t appends(const struct lm_request *q)
{
    return q->fault || q->kind != LM_REQ_APPEND ? 0 : q->n_ids;
}

/* Can the last entry join those before it? */
static bool can_join(const struct loop *l)
{
    const struct lm_request *q = &l->group[l->n - 1].q;
    size_t total = appends(q);
    uint32_t len = lm_ctx_seq_len(l->e->ctx, q->seq);
    bool breaks = !q->fault && (q->has_pos || q->kind != LM_REQ_APPEND ||
                                lm_ctx_by_length(l->e->ctx));
    for (size_t i = 0; i + 1 < l->n; i++) {
        const struct lm_request *o = &l->group[i].q;
        total += appends(o);
        if (breaks && o->n_ids &&
            (o->seq == q->seq || (q->kind == LM_REQ_COPY && o->seq == q->other)))
            return false;
        if (lm_eval_pauses(l->e) && o->kind == LM_REQ_COPY && o->seq == q->seq)
            return false;                       /* its length is not known before */
        len += o->fault || o->seq != q->seq ? 0 : (uint32_t)o->n_ids;
    }
    uint32_t first = lm_ctx_seq_len(l->e->ctx, l->group[0].q.seq);
    if (l->n > 1 && (pauses(l, &l->group[0].q, first) || (!q->fault && pauses(l, q, len))))
        return false;
    return l->n == 1 || total <= l->e->n_batch;
}

/* Read a request behind the group: 1, 0 or a code as lm_request_next. */
static int read_one(struct loop *l, struct lm_err *err)
{
    struct lm_request *q = &l->group[l->n].q;
    int s = lm_request_next(l->reader, q, err);
    if (s == 1) {
        l->n++;
        l->n_requests++;
    } else {
        l->bad_line = q->line;
        l->bad_seq = q->seq;
    }
    return s;
}

/* Run all but the last entry, which becomes the first of a new group. */
static int run_before_last(struct loop *l, struct lm_err *err)
{
    size_t last = l->n - 1;
    l->n = last;
    int s = run_group(l, err);
    struct entry x = l->group[0];
    l->group[0] = l->group[last];
    l->group[last] = x;
    l->n = 1;
    return s;
}

/* One group, beginning with a request that is waited for, then those that wait already.
 * 1 go on, or how the input ended, as lm_request_next says; *broken: it is the input
 * that failed, not the answering. */
static int turn(struct loop *l, bool *broken, struct lm_err *err)
{
    struct lm_err why;
    *broken = false;
    if (lm_stopped(l->e->env))
        return lm_fail(err, LM_ESTOP, "stopped");
    int s, got = l->n ? 1 : read_one(l, err);
    while (got == 1 && l->n < l->e->n_batch && lm_request_ready(l->reader)) {
        got = read_one(l, err);
        if (got == 1 && !can_join(l))
            return (s = run_before_last(l, err)) ? s : 1;
    }
    *broken = got < 0;
    if (l->n && (s = run_group(l, &why))) {
        *broken = false;
        *err = why;
        return s;
    }
    return got;
}

/* The input was cut, or could not be read: an error frame says so, then comes the end. */
static int end_broken(struct loop *l, struct lm_in *in, struct lm_err *why, struct lm_err *err)
{
    struct lm_err bad;
    int s = LM_OK;
    if (why->code == LM_EDATA) {
        uint32_t len = lm_ctx_seq_len(l->e->ctx, l->bad_seq);
        s = lm_answer_error(l->e, l->bad_seq, len, l->bad_line, LM_LOOP_MALFORMED, why->text,
                            &bad);
        if (!s)
            s = lm_answer_end(l->e, l->n_requests, &bad);
    }
    if (!s)
        s = lm_answer_flush(l->e, &bad);
    if (err)
        *err = s ? bad : *why;
    return s ? s : lm_err_at(err, why->code, "%s", lm_in_name(in));
}

static int run(struct loop *l, struct lm_in *in, struct lm_err *err)
{
    struct lm_err why;
    bool broken = false;
    int s;
    while ((s = turn(l, &broken, &why)) == 1)
        ;
    if (s < 0 && broken)
        return end_broken(l, in, &why, err);
    if (s < 0) {
        if (err)
            *err = why;
        return s;
    }
    s = lm_answer_end(l->e, l->n_requests, err);
    return s ? s : lm_answer_flush(l->e, err);
}

int lm_eval_loop(struct lm_eval *e, struct lm_in *in, struct lm_err *err)
{
    struct loop l = {.e = e};
    int s;
    l.reader = lm_request_reader_new(in, e->head.n_vocab, e->n_train, err);
    l.t = lm_malloc_array(e->n_batch, sizeof *l.t);
    l.group = calloc((size_t)e->n_batch + 1, sizeof *l.group);
    s = l.reader && l.t && l.group ? run(&l, in, err) : lm_fail_nomem(err);
    for (size_t i = 0; l.group && i <= e->n_batch; i++) {
        lm_request_release(&l.group[i].q);
        free(l.group[i].guesses);
    }
    free(l.group);
    free(l.t);
    lm_request_reader_free(l.reader);
    return s;
}
