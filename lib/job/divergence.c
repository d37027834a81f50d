/* SPDX-License-Identifier: MIT */
#include "job/divergence.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "stream/logits.h"

struct lm_divergence {
    struct lm_in             *in;
    struct lm_logits_reader  *reader;
    uint32_t                  n_vocab;
    struct lm_frame           frame;        /* the one that was read last            */
    const void               *payload;
    bool                      have;         /* a frame was read                      */
    bool                      ended;
    uint32_t                  seq, pos;     /* the place that was compared last      */
    uint64_t                  surplus;      /* rows of places that were never asked for */
    struct lm_divergence_sum  sum;          /* sums where the result has means       */
};

struct lm_divergence *lm_divergence_open(struct lm_in *in, uint32_t n_vocab, struct lm_err *err)
{
    struct lm_divergence *d = calloc(1, sizeof *d);
    struct lm_logits_head head;
    if (!d || !(d->reader = lm_logits_reader_new(in, err))) {
        free(d);
        lm_fail_nomem(err);
        return NULL;
    }
    d->in = in;
    d->n_vocab = n_vocab;
    int r = lm_logits_read_head(d->reader, &head, err);
    if (r == 1 && head.n_vocab != n_vocab)
        r = lm_fail(err, LM_EDATA, "its vocabulary has %" PRIu32 " ids, and the model's %" PRIu32,
                    head.n_vocab, n_vocab);
    else if (r == 0)
        r = lm_fail(err, LM_EDATA, "is empty");
    if (r < 0) {
        lm_err_at(err, r, "%s", lm_in_name(in));
        lm_divergence_close(d);
        return NULL;
    }
    lm_logits_head_release(&head);
    return d;
}

void lm_divergence_close(struct lm_divergence *d)
{
    if (!d)
        return;
    lm_logits_reader_free(d->reader);
    free(d);
}

/* -1, 0, 1: is the frame before, at, or behind a place? */
static int way(const struct lm_frame *f, uint32_t seq, uint32_t pos)
{
    if (f->seq != seq)
        return f->seq < seq ? -1 : 1;
    return f->pos == pos ? 0 : f->pos < pos ? -1 : 1;
}

static bool is_row(const struct lm_frame *f)
{
    return f->kind == LM_FRAME_DENSE || f->kind == LM_FRAME_TOP;
}

/* The next frame; rows behind the last that its sequence had belong to nothing. */
static int next_frame(struct lm_divergence *d, struct lm_err *err)
{
    int r = lm_logits_read_frame(d->reader, &d->frame, &d->payload, err);
    if (r)
        return lm_err_at(err, r, "%s", lm_in_name(d->in));
    d->have = is_row(&d->frame);
    d->ended = d->frame.kind == LM_FRAME_END || d->frame.kind == LM_FRAME_ERROR;
    if (d->frame.kind == LM_FRAME_ERROR)
        return lm_fail(err, LM_EDATA, "%s: ends with an error: %.*s", lm_in_name(d->in),
                       (int)(d->frame.bytes < 200 ? d->frame.bytes : 200),
                       (const char *)d->payload);
    return LM_OK;
}

/* Is it a row behind the token that ends the sequence compared last?  That one has a row, and
 * none follows it that could be asked for. */
static bool is_behind(const struct lm_divergence *d)
{
    return d->have && d->sum.n && d->frame.seq == d->seq && d->frame.pos > d->pos + 1;
}

/* Read on to the frame of a token. */
static int find(struct lm_divergence *d, uint32_t seq, uint32_t pos, int32_t token,
                struct lm_err *err)
{
    while (!d->ended && (!d->have || way(&d->frame, seq, pos) < 0)) {
        int r = next_frame(d, err);
        if (r)
            return r;
        d->surplus += is_behind(d) && way(&d->frame, seq, pos) < 0;
    }
    if (d->ended || way(&d->frame, seq, pos) != 0)
        return lm_fail(err, LM_EDATA, "%s: has no logits after position %" PRIu32
                       " of sequence %" PRIu32, lm_in_name(d->in), pos, seq);
    if ((int32_t)d->frame.token != token)
        return lm_fail(err, LM_EDATA, "%s: position %" PRIu32 " of sequence %" PRIu32
                       " is token %" PRIu32 ", not %" PRId32, lm_in_name(d->in), pos, seq,
                       d->frame.token, token);
    return LM_OK;
}

/* p (ln p - ln q); nothing where p is 0. */
static double term(double log_p, double log_q)
{
    double p = exp(log_p);
    return p > 0 ? p * (log_p - log_q) : 0;
}

static double of_all(const struct lm_divergence *d, const float *x, double lse)
{
    const float *ref = d->payload;
    double ref_lse = lm_logits_lse(ref, d->n_vocab), kl = 0;
    for (uint32_t i = 0; i < d->n_vocab; i++)
        kl += term(ref[i] - ref_lse, x[i] - lse);
    return kl;
}

static double of_best(const struct lm_divergence *d, const float *x, double lse)
{
    const struct lm_top *top = d->payload;
    double kl = 0, p = 0, q = 0;
    for (uint32_t i = 0; i < d->frame.n; i++) {
        double log_p = (double)top[i].logit - d->frame.lse, log_q = x[top[i].id] - lse;
        kl += term(log_p, log_q);
        p += exp(log_p);
        q += exp(log_q);
    }
    return p < 1 && q < 1 ? kl + term(log1p(-p), log1p(-q)) : kl;
}

static uint32_t best_of(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* Are all values of the reference's frame numbers, or -inf? */
static bool is_sound(const struct lm_divergence *d)
{
    const struct lm_top *top = d->payload;
    if (d->frame.kind == LM_FRAME_DENSE)
        return isfinite(lm_logits_lse(d->payload, d->n_vocab));
    for (uint32_t i = 0; i < d->frame.n; i++)
        if (isnan(top[i].logit))
            return false;
    return d->frame.n && isfinite(d->frame.lse);
}

/* The reference's negative log-likelihood of an id, NaN if it does not say. */
static double ref_nll(const struct lm_divergence *d, int32_t id)
{
    const struct lm_top *top = d->payload;
    if (d->frame.kind == LM_FRAME_DENSE)
        return lm_logits_lse(d->payload, d->n_vocab) - ((const float *)d->payload)[id];
    for (uint32_t i = 0; i < d->frame.n; i++)
        if (top[i].id == (uint32_t)id)
            return (double)d->frame.lse - top[i].logit;
    return NAN;
}

int lm_divergence_of(struct lm_divergence *d, uint32_t seq, uint32_t pos, int32_t token,
                     int32_t next, const float *logits, double *kl, struct lm_err *err)
{
    int r = find(d, seq, pos, token, err);
    if (r)
        return r;
    const bool dense = d->frame.kind == LM_FRAME_DENSE;
    const double lse = lm_logits_lse(logits, d->n_vocab);
    if (!is_sound(d))
        return lm_fail(err, LM_EDATA, "%s: position %" PRIu32 " of sequence %" PRIu32
                       ": logits that are no numbers", lm_in_name(d->in), pos, seq);
    if (!isfinite(lse))
        return lm_fail(err, LM_EDATA, "position %" PRIu32 " of sequence %" PRIu32
                       ": the model's logits are no numbers", pos, seq);
    *kl = dense ? of_all(d, logits, lse) : of_best(d, logits, lse);
    uint32_t best = dense ? best_of(d->payload, d->n_vocab)
                          : ((const struct lm_top *)d->payload)[0].id;
    d->sum.n++;
    d->sum.mean += *kl;
    d->sum.most = *kl > d->sum.most ? *kl : d->sum.most;
    d->sum.same_best += best == best_of(logits, d->n_vocab);
    d->sum.nll += lse - logits[next];
    const double ref = ref_nll(d, next);
    d->sum.n_ref += !isnan(ref);
    d->sum.ref_nll += isnan(ref) ? 0 : ref;
    d->seq = seq;
    d->pos = pos;
    return LM_OK;
}

int lm_divergence_end(struct lm_divergence *d, uint64_t n_sequences, struct lm_err *err)
{
    struct lm_logits_head head;
    int r = LM_OK;
    d->surplus += d->have && !d->ended && d->frame.seq >= n_sequences;
    while (!d->ended && !(r = next_frame(d, err)))
        d->surplus += d->have && (is_behind(d) || d->frame.seq >= n_sequences);
    if (!r && d->surplus)
        r = lm_fail(err, LM_EDATA, "%s: %" PRIu64 " frames are of tokens that are not compared",
                    lm_in_name(d->in), d->surplus);
    if (r)
        return r;
    if ((r = lm_logits_read_head(d->reader, &head, err)) == 0)
        return LM_OK;
    if (r == 1) {
        lm_logits_head_release(&head);
        r = lm_fail(err, LM_EDATA, "another stream follows");
    }
    return lm_err_at(err, r, "%s", lm_in_name(d->in));
}

void lm_divergence_sum(const struct lm_divergence *d, struct lm_divergence_sum *out)
{
    double n = d->sum.n ? (double)d->sum.n : 1;
    *out = d->sum;
    out->mean /= n;
    out->nll /= n;
    out->ref_nll /= d->sum.n_ref ? (double)d->sum.n_ref : 1;
}
