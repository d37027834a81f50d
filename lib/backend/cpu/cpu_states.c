/* SPDX-License-Identifier: MIT */
/*
 * Recurrent layers as nodes of a graph.  A job is a part of the channels or of a head's rows,
 * for all tokens in their order: with each it continues where the token's sequence was.  So
 * a token's result does not depend on what else is evaluated, and a state stays near the core
 * while tokens of one sequence follow each other.
 */
#include "backend/cpu/cpu_exec.h"
#include "backend/cpu/recur.h"

#include <math.h>
#include <string.h>

#include "tensor/ops.h"

#define CHANNELS  256           /* of a convolution in one job                     */
#define JOB_STATE 4096          /* floats of a state that are worth a job          */

static float *at(const struct lm_tensor *t, size_t i1, size_t i2)
{
    return (float *)(void *)((char *)t->data + i1 * t->nb[1] + i2 * t->nb[2]);
}

/* Where token i's state lies after it. */
static float *made(const struct lm_tensor *t, size_t i)
{
    int64_t address = ((const int64_t *)t->src[1]->data)[2 * i + 1];
    return (float *)((uintptr_t)address + t->arg.state.off);
}

/* How many tokens from i on continue each other: those up to the next of another sequence. */
static size_t run_from(const struct lm_tensor *t, size_t i, size_t n)
{
    size_t end = i + 1;
    while (end < n && made(t, end) == made(t, i))
        end++;
    return end - i;
}

/* Bring floats first .. first + n - 1 of the state before token i to dst. */
static void fetch(const struct lm_tensor *t, size_t i, size_t first, size_t n, float *dst)
{
    int64_t address = ((const int64_t *)t->src[1]->data)[2 * i];
    if (!address) {
        memset(dst, 0, n * sizeof *dst);
        return;
    }
    const float *src = (const float *)((uintptr_t)address + t->arg.state.off) + first;
    if (src != dst)
        memcpy(dst, src, n * sizeof *dst);
}

/* --- convolution ------------------------------------------------------------------------ */

size_t lm_cpu_conv_count(const struct lm_tensor *t)
{
    return (t->ne[0] + CHANNELS - 1) / CHANNELS;
}

/* The inputs from before a run, and the job's weights, a row for each input. */
size_t lm_cpu_conv_scratch(const struct lm_tensor *t)
{
    return (2 * t->src[2]->ne[0] - 1) * CHANNELS * sizeof(float);
}

/* Channels c .. c + n - 1 of `tokens` tokens of one sequence, from i on. */
static void conv_run(const struct lm_recur *f, const struct lm_tensor *t, size_t c, size_t n,
                     size_t i, size_t tokens, float *before, const float *w)
{
    const struct lm_tensor *x = t->src[0];
    const size_t k = t->src[2]->ne[0], keep = k - 1;
    const float *bias = t->src[3] ? (const float *)t->src[3]->data + c : NULL;
    const float *rows[LM_MAX_CONV];
    for (size_t j = 0; j < keep; j++) {
        fetch(t, i, j * t->ne[0] + c, n, before + j * n);
        rows[j] = before + j * n;
    }
    for (size_t r = 0; r < tokens; r++) {
        rows[keep] = at(x, i + r, 0) + c;
        f->conv(at(t, i + r, 0) + c, rows, w, k, bias, n);
        memmove(rows, rows + 1, keep * sizeof *rows);
    }
    for (size_t j = 0; j < keep; j++)
        memcpy(made(t, i) + j * t->ne[0] + c, rows[j], n * sizeof **rows);
}

/* k weights of each of n channels become a row for each input. */
static void turn_weights(const float *all, size_t k, size_t n, float *w)
{
    for (size_t j = 0; j < k; j++)
        for (size_t i = 0; i < n; i++)
            w[j * n + i] = all[i * k + j];
}

void lm_cpu_state_conv(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const size_t k = t->src[2]->ne[0], c = job * CHANNELS, tokens = t->ne[1];
    const size_t n = t->ne[0] - c < CHANNELS ? t->ne[0] - c : CHANNELS;
    float *before = lm_exec_scratch(e, thread), *w = before + (k - 1) * n;
    const float *all = (const float *)t->src[2]->data + c * k;
    turn_weights(all, k, n, w);
    for (size_t i = 0, run; i < tokens; i += run) {
        run = run_from(t, i, tokens);
        conv_run(e->cpu->recur, t, c, n, i, run, before, w);
    }
}

size_t lm_cpu_conv_whole_scratch(const struct lm_tensor *t)
{
    return (t->src[2]->ne[0] + 1) * CHANNELS * sizeof(float);
}

void lm_cpu_conv_whole(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *x = t->src[0];
    const int32_t *runs = t->src[1]->data;
    const size_t k = t->src[2]->ne[0], c = job * CHANNELS, half = (k - 1) / 2;
    const size_t n = t->ne[0] - c < CHANNELS ? t->ne[0] - c : CHANNELS;
    const float *all = (const float *)t->src[2]->data + c * k, *rows[LM_MAX_CONV];
    const float *bias = t->src[3] ? (const float *)t->src[3]->data + c : NULL;
    float *none = lm_exec_scratch(e, thread), *w = none + n;
    memset(none, 0, n * sizeof *none);
    turn_weights(all, k, n, w);
    for (size_t i = 0; i < t->ne[1]; i++) {
        const size_t from = (size_t)runs[2 * i], to = (size_t)runs[2 * i + 1];
        for (size_t j = 0; j < k; j++)
            rows[j] = i + j >= from + half && i + j < to + half ? at(x, i + j - half, 0) + c : none;
        e->cpu->recur->conv(at(t, i, 0) + c, rows, w, k, bias, n);
    }
}

/* --- token shift ------------------------------------------------------------------------ */

size_t lm_cpu_shift_scratch(const struct lm_tensor *t)
{
    (void)t;
    return CHANNELS * sizeof(float);
}

void lm_cpu_state_shift(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *x = t->src[0];
    const size_t c = job * CHANNELS, n = t->ne[0] - c < CHANNELS ? t->ne[0] - c : CHANNELS;
    for (size_t i = 0, end; i < t->ne[1]; i = end) {
        const float *last = lm_exec_scratch(e, thread);
        fetch(t, i, c, n, lm_exec_scratch(e, thread));
        for (end = i + run_from(t, i, t->ne[1]); i < end; i++) {
            const float *now = at(x, i, 0) + c;
            for (size_t j = 0; j < n; j++)
                at(t, i, 0)[c + j] = last[j] - now[j];
            last = now;
        }
        memcpy(made(t, end - 1) + c, last, n * sizeof *last);
    }
}

/* --- scans ------------------------------------------------------------------------------ */

/* Rows of a state: all heads' one after the other.  Those of a head stay together, but
 * for large heads; heads of one row are taken many at a time. */
static size_t rows_of_job(const struct lm_tensor *t, size_t size)
{
    size_t rows = t->ne[0];
    if (rows == 1)
        return JOB_STATE / (size ? size : 1) + 1;
    while (rows % 2 == 0 && rows * size > 2 * JOB_STATE)
        rows /= 2;
    return rows;
}

static size_t count_rows(const struct lm_tensor *t, size_t size)
{
    size_t all = t->ne[0] * t->ne[1], per_job = rows_of_job(t, size);
    return (all + per_job - 1) / per_job;
}

size_t lm_cpu_scan_count(const struct lm_tensor *t)
{
    return count_rows(t, t->src[4]->ne[0]);
}

size_t lm_cpu_delta_count(const struct lm_tensor *t)
{
    return count_rows(t, t->src[3]->ne[0]);
}

/* Heads of one row each, h .. h + n - 1, of one group. */
static void scan_channels(const struct lm_recur *f, const struct lm_tensor *t, size_t i, size_t h,
                          size_t n, float *state)
{
    const struct lm_tensor *b = t->src[4];
    const size_t size = b->ne[0], group = h / (t->ne[1] / b->ne[1]);
    const float *x = at(t->src[0], h, i), *dt = at(t->src[2], i, 0) + h;
    const float *a = at(t->src[3], h, 0);
    float *y = at(t, h, i);
    f->scan_each(state, n, size, dt, a, x, at(b, group, i), at(t->src[5], group, i), y);
}

/* Rows first .. first + n - 1 of head h. */
static void scan_head(const struct lm_recur *f, const struct lm_tensor *t, size_t i, size_t h,
                      size_t first, size_t n, float *state)
{
    const struct lm_tensor *b = t->src[4], *a = t->src[3];
    const size_t size = b->ne[0], group = h / (t->ne[1] / b->ne[1]);
    const float *x = at(t->src[0], h, i) + first, dt = at(t->src[2], i, 0)[h];
    const float *vb = at(b, group, i), *vc = at(t->src[5], group, i), *va = at(a, h, 0);
    float *y = at(t, h, i) + first;
    if (a->ne[0] == 1) {
        f->scan(state, n, size, expf(dt * va[0]), dt, x, vb, vc, y);
        return;
    }
    for (size_t r = 0; r < n; r++)
        f->scan_each(state + r * size, 1, size, &dt, va, x + r, vb, vc, y + r);
}

/* y += d x, for the rows of a job. */
static void add_input(const struct lm_tensor *t, size_t i, size_t first, size_t n)
{
    const float *d = t->src[6] ? t->src[6]->data : NULL;
    for (size_t r = first; d && r < first + n; r++) {
        size_t h = r / t->ne[0], k = r % t->ne[0];
        at(t, h, i)[k] += d[h] * at(t->src[0], h, i)[k];
    }
}

/* Can rows of several heads of one row each be taken as one? */
static bool channels(const struct lm_tensor *t)
{
    return t->ne[0] == 1 && t->src[0]->nb[1] == sizeof(float) &&
           t->src[3]->ne[0] == t->src[4]->ne[0] && t->src[4]->ne[1] == 1;
}

void lm_cpu_state_scan(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lm_recur *f = e->cpu->recur;
    const size_t size = t->src[4]->ne[0], all = t->ne[0] * t->ne[1], len = t->ne[0];
    const size_t per_job = rows_of_job(t, size), first = job * per_job;
    const size_t n = all - first < per_job ? all - first : per_job;
    (void)thread;
    for (size_t i = 0; i < t->ne[2]; i++) {
        float *state = made(t, i) + first * size;
        fetch(t, i, first * size, n * size, state);
        if (channels(t))
            scan_channels(f, t, i, first, n, state);
        else if (len == 1)
            for (size_t r = 0; r < n; r++)
                scan_head(f, t, i, first + r, 0, 1, state + r * size);
        else
            scan_head(f, t, i, first / len, first % len, n, state);
        add_input(t, i, first, n);
    }
}

void lm_cpu_state_delta(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *v = t->src[0], *q = t->src[2], *k = t->src[3];
    const struct lm_recur *f = e->cpu->recur;
    const float *rate = t->src[6] ? t->src[6]->data : NULL;
    const size_t size = k->ne[0], all = t->ne[0] * t->ne[1], len = t->ne[0];
    const size_t per_job = rows_of_job(t, size), first = job * per_job;
    const size_t end = all - first < per_job ? all : first + per_job;
    (void)thread;
    for (size_t i = 0; i < t->ne[2]; i++) {
        float *state = made(t, i) + first * size;
        fetch(t, i, first * size, (end - first) * size, state);
        for (size_t r = first, n; r < end; r += n, state += n * size) {
            const size_t h = r / len, in = r % len;
            const size_t kh = t->arg.state.tiled ? h % k->ne[1] : h / (v->ne[1] / k->ne[1]);
            n = len - in < end - r ? len - in : end - r;
            const float beta = at(t->src[5], i, 0)[h];
            if (rate)
                f->delta_each(state, n, size, rate[h], at(t->src[4], h, i), beta,
                              at(v, h, i) + in, at(k, kh, i), at(q, kh, i), at(t, h, i) + in);
            else
                f->delta(state, n, size, expf(at(t->src[4], i, 0)[h]), beta, at(v, h, i) + in,
                         at(k, kh, i), at(q, kh, i), at(t, h, i) + in);
        }
    }
}

/* Rows in .. in + n - 1 of head h. */
static void wkv_head(const struct lm_recur *f, const struct lm_tensor *t, size_t i, size_t h,
                     size_t in, size_t n, float *state)
{
    const size_t size = t->src[3]->ne[0];
    const float *v = at(t->src[0], h, i) + in, *r = at(t->src[2], h, i), *k = at(t->src[3], h, i);
    const float *decay = at(t->src[4], h, i);
    float *y = at(t, h, i) + in, now = 0;
    if (t->op == LM_OP_STATE_WKV7) {
        f->wkv7(state, n, size, decay, at(t->src[5], h, i), at(t->src[6], h, i), v, k, r, y);
        return;
    }
    if (t->op == LM_OP_STATE_GLA) {
        f->gla(state, n, size, decay, v, k, r, y);
        return;
    }
    const float *bonus = (const float *)t->src[5]->data + h * size;
    for (size_t j = 0; j < size; j++)
        now += r[j] * bonus[j] * k[j];
    f->wkv6(state, n, size, decay, now, v, k, r, y);
}

void lm_cpu_state_wkv(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const size_t size = t->src[3]->ne[0], all = t->ne[0] * t->ne[1], len = t->ne[0];
    const size_t per_job = rows_of_job(t, size), first = job * per_job;
    const size_t end = all - first < per_job ? all : first + per_job;
    (void)thread;
    for (size_t i = 0; i < t->ne[2]; i++) {
        float *state = made(t, i) + first * size;
        fetch(t, i, first * size, (end - first) * size, state);
        for (size_t r = first, n; r < end; r += n, state += n * size) {
            n = len - r % len < end - r ? len - r % len : end - r;
            wkv_head(e->cpu->recur, t, i, r / len, r % len, n, state);
        }
    }
}
