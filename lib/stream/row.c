/* SPDX-License-Identifier: MIT */
/*
 * A row of logits: its log-sum-exp and its best entries.
 *
 * A frame a token carries these, so they have to cost little beside the token: for a
 * vocabulary of 50000 the C library's exp alone would take a third of a millisecond.
 */
#include "stream/logits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Vectors of the compilers' own kind (gcc, clang): the same result on every CPU. */
typedef float    f4 __attribute__((vector_size(16)));
typedef int32_t  i4 __attribute__((vector_size(16)));
typedef uint32_t u4 __attribute__((vector_size(16)));

static inline f4 load4(const float *x)
{
    f4 v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline f4 all4(float x)
{
    return (f4){x, x, x, x};
}

/* a where the mask is set, else b */
static inline f4 pick4(i4 mask, f4 a, f4 b)
{
    return (f4)((mask & (i4)a) | (~mask & (i4)b));
}

static float greatest(const float *x, size_t n)
{
    f4 m[4];
    size_t i = 0;
    float best = -INFINITY;
    for (int j = 0; j < 4; j++)
        m[j] = all4(best);
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 4; j++) {
            f4 v = load4(x + i + 4 * j);
            m[j] = pick4(v > m[j], v, m[j]);
        }
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    for (int j = 0; j < 16; j++)
        best = m[j / 4][j % 4] > best ? m[j / 4][j % 4] : best;
    return best;
}

/*
 * exp(d) for d <= 0.  d = k ln 2 + r, |r| <= ln 2 / 2, exp(d) = 2^k exp(r); the series
 * of exp(r) up to r^7/7! is exact to 6e-9.  ln 2 is split so that k times its high part
 * is exact.  Below -87, where floats end, d counts as -87.  NaN stays NaN.
 */
static inline f4 exp4(f4 d)
{
    const f4 round = all4(12582912.0f);     /* 1.5 * 2^23: adding it rounds to a whole */
    d = pick4(d < all4(-87.0f), all4(-87.0f), d);
    f4 big = d * all4(1.44269504f) + round; /* number, which its low bits hold */
    f4 k = big - round;
    f4 r = d - k * all4(0.693359375f) + k * all4(2.12194440e-4f);
    f4 p = all4(1.0f / 5040) * r + all4(1.0f / 720);
    p = p * r + all4(1.0f / 120);
    p = p * r + all4(1.0f / 24);
    p = p * r + all4(1.0f / 6);
    p = p * r + all4(0.5f);
    p = p * r + all4(1.0f);
    p = p * r + all4(1.0f);
    return p * (f4)(((u4)big + 127) << 23);
}

double lm_logits_lse(const float *x, size_t n)
{
    float max = greatest(x, n);
    double sum[4] = {0};
    if (isinf(max)) {                       /* nothing to subtract from */
        for (size_t i = 0; i < n; i++)
            if (isnan(x[i]))
                return NAN;
        return max;
    }
    for (size_t i = 0; i < n; i += 4) {
        float last[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        if (n - i < 4)
            memcpy(last, x + i, (n - i) * sizeof *x);
        f4 e = exp4(load4(n - i < 4 ? last : x + i) - all4(max));
        for (int j = 0; j < 4; j++)
            sum[j] += (double)e[j];
    }
    return (double)max + log(sum[0] + sum[1] + sum[2] + sum[3]);
}

/* Order of (logit, id) as one number: greater is better.  id < 2^32. */
static uint64_t rank_of(float logit, size_t id)
{
    uint32_t u = 0;
    if (!isnan(logit)) {
        logit += 0.0f;                              /* -0 becomes 0 */
        memcpy(&u, &logit, 4);
        u = u & 0x80000000u ? ~u : u | 0x80000000u;
    }
    return (uint64_t)u << 32 | (uint32_t)~id;
}

static int better_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Bring the k greatest of n distinct numbers to the front, in any order; 0 < k < n. */
static void select_front(uint64_t *v, size_t n, size_t k)
{
    size_t lo = 0, hi = n;
    while (hi - lo > 1) {
        uint64_t a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi - 1];
        uint64_t pivot = a > b ? (b > c ? b : a > c ? c : a) : (a > c ? a : b > c ? c : b);
        size_t i = lo, j = hi - 1;
        for (;;) {
            while (v[i] > pivot)
                i++;
            while (v[j] < pivot)
                j--;
            if (i >= j)
                break;
            uint64_t t = v[i];
            v[i] = v[j];
            v[j] = t;
        }
        /* v[lo..i-1] > v[i] == pivot > v[i+1..hi-1] */
        if (i == k || i + 1 == k)
            return;
        if (i > k)
            hi = i;
        else
            lo = i + 1;
    }
}

static size_t room(size_t k, size_t n)
{
    size_t two = k > SIZE_MAX / 2 ? SIZE_MAX : 2 * k;
    size_t want = two < 256 ? 256 : two;
    return want < n ? want : n;
}

size_t lm_logits_top_work(size_t k, size_t n)
{
    return room(k, n) * sizeof(uint64_t);
}

/* Candidates gather in `work`; whenever it is full, all but the k best are dropped
 * and the k-th becomes the bar for those to come.  Twice k candidates a time make
 * the dropping linear in all. */
size_t lm_logits_top(const float *x, size_t n, size_t k, struct lm_top *top, void *work)
{
    uint64_t *v = work, bar = 0;
    float bar_logit = NAN;
    size_t cap = room(k, n), m = 0;
    k = k < n ? k : n;
    if (!k)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] <= bar_logit)                      /* ids ascend: an equal one is worse */
            continue;
        uint64_t r = rank_of(x[i], i);
        if (r < bar)
            continue;
        if (m == cap) {
            select_front(v, m, k);
            m = k;
            bar = v[0];
            for (size_t j = 1; j < k; j++)
                bar = v[j] < bar ? v[j] : bar;
            bar_logit = x[~(uint32_t)bar];
            if (r < bar)
                continue;
        }
        v[m++] = r;
    }
    if (m > k)
        select_front(v, m, k);
    qsort(v, k, sizeof *v, better_first);
    for (size_t j = 0; j < k; j++) {
        uint32_t id = ~(uint32_t)v[j];
        top[j] = (struct lm_top){id, x[id]};
    }
    return k;
}
