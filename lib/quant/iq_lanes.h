/* SPDX-License-Identifier: MIT */
/*
 * The searches of iq_search.c: candidates (or splits, or codewords) of one sub-block side
 * by side in the lanes of vectors, each lane doing the same float operations in the same
 * order.  No include guard: iq_search_avx2.c and iq_search_avx512.c include this once
 * each, after vec_*.h.
 */

#include <float.h>

#define ROW 32                  /* candidates, and lanes that nobody looks at */
_Static_assert(LANES <= LM_IQ_PAST, "lists can be read in whole vectors");
_Static_assert(LM_IQ_TRIES <= ROW && ROW % LANES == 0, "candidates fill whole vectors");

/* ---- neighbours ------------------------------------------------------------------- */

/* The next distance above level, and in *n how many codewords are at level. */
static inline int next_level(const struct lm_iq_book *b, const uint8_t *dist, int level, int *n)
{
    vb here = b_set(level), above = b_set(level + 1), least = b_set(255);
    *n = 0;
    for (int i = 0; i < b->count; i += BYTES) {
        vb d = b_load(dist + i);
        least = b_min(least, b_sub(d, above));      /* what is not above becomes large */
        *n += __builtin_popcountll(b_bits_eq(d, here));
    }
    return level + 1 + b_least(least);
}

/* Codewords up to the distance last; begin[d] is where those at distance d go. */
static inline void collect(const struct lm_iq_book *b, const uint8_t *dist, int last,
                           uint16_t *begin, uint16_t *near)
{
    for (int i = 0; i < b->count; i += BYTES) {
        vb d = b_load(dist + i);
        for (uint64_t m = b_bits_eq(b_min(d, b_set(last)), d); m; m &= m - 1) {
            int at = i + __builtin_ctzll(m);
            near[begin[dist[at]]++] = b->words[at];
        }
    }
}

INLINE int look_up_of(const struct lm_iq_planes *p, int bits, unsigned word, uint16_t *near)
{
    ALIGNED uint8_t dist[LM_IQ_WORDS];
    uint16_t begin[256];
    const struct lm_iq_book *b = p->book;
    int field = bits == 2 ? 4 : 3;
    vb sq[4], least = b_set(255);
    for (int f = 0; f < 4; f++)
        sq[f] = b_table(p->square[word >> field * f & ((1u << field) - 1)]);
    for (int i = 0; i < b->count; i += BYTES) {
        vb d = b_look(sq[0], b_load(p->field[0] + i));
        d = b_add(d, b_look(sq[1], b_load(p->field[1] + i)));
        d = b_add(d, b_look(sq[2], b_load(p->field[2] + i)));
        d = b_add(d, b_look(sq[3], b_load(p->field[3] + i)));
        b_store(dist + i, d);
        least = b_min(least, d);
    }
    int level = b_least(least), next = level, n = 0;
    for (int k = 0; k < b->within && level > 0; k++) {
        int count;
        level = next;
        begin[level] = (uint16_t)n;
        next = next_level(b, dist, level, &count);
        n += count;
    }
    if (level == 0) {
        near[0] = (uint16_t)word;
        return 1;
    }
    collect(b, dist, level, begin, near);
    return n;
}

static int look_up(const struct lm_iq_planes *p, unsigned word, uint16_t *near)
{
    return p->book->bits == 2 ? look_up_of(p, 2, word, near) : look_up_of(p, 3, word, near);
}

/* The cheapest of near, the first of equals, with a neighbour in each lane; table[i] has
 * what the digits cost in lane i of a vector. */
INLINE unsigned cheapest(int lanes, int bits, const struct lm_iq_near *near, const vf *table)
{
    if (near->n == 1)
        return near->word[0];
    vf least = v_set(FLT_MAX);
    vi from = i_set(0);
    for (int k = 0; k < near->n; k += LANES) {
        vi words = i_words(near->word + k);
        vf e = v_look(table[0], words);
        UNROLL
        for (int i = 1; i < lanes; i++)
            e = v_add(e, v_look(table[i], i_shr(words, bits * i)));
        vm less = v_and(v_lt(e, least), i_lt(v_index(1, LANES), i_set(near->n - k)));
        least = v_pick(less, e, least);
        from = i_pick(less, i_set(k), from);
    }
    int group[LANES], at = near->n;
    i_store(group, from);
    for (unsigned m = v_bits(v_eq(least, v_set(v_reduce_min(least)))); m; m &= m - 1) {
        int k = __builtin_ctz(m);
        at = group[k] + k < at ? group[k] + k : at;
    }
    return near->word[at];
}

/* ---- iq2, iq3 --------------------------------------------------------------------- */

/* What digits stand for, over and over. */
INLINE vf digit_values(int bits)
{
    static const float value[2][8] = { { 1, 3, 5, 7, 1, 3, 5, 7 },
                                       { 1, 3, 5, 7, 9, 11, 13, 15 } };
    return v_eight(value[bits - 2]);
}

/* A vector of weights to be replaced by codewords. */
struct vector {
    const float *u, *root_w;
};

/* The codeword of a vector for one scale. */
INLINE unsigned exactly(const struct vector *x, int lanes, int bits,
                        const struct lm_iq_near *near, float scale)
{
    vf table[8], q = v_mul(v_set(scale), digit_values(bits));
    for (int i = 0; i < lanes; i++) {
        vf d = v_sub(q, v_set(x->u[i]));
        table[i] = v_mul(v_mul(v_set(x->root_w[i]), d), d);
    }
    return cheapest(lanes, bits, near, table);
}

/*
 * A short way to most answers.  With scale s and values q the error of a codeword is
 *
 *   sum root_w * (s * q - u)^2 = s * (s * a - b) + c    a = sum root_w * q^2
 *                                                       b = sum 2 * root_w * u * q
 *
 * whose a and b serve all scales.  Neither this nor the definition's sum is further than
 * 25 * 2^-24 * (s^2 * a + c) from the true one, so a codeword that is better by 1e-5 *
 * (s^2 * most + c), most >= a, than all others is the answer; where there is none, and where
 * numbers are so large or small that their products may not be plain ones, the definition is
 * followed.
 */
struct quick {
    vf    a[8], b[8];           /* of digits in each lane of the vector */
    float c, most;
    bool  usable;
};

#define QUICK_LISTS 4           /* longer lists of neighbours, in vectors, go the long way */

INLINE void begin_quick(const struct vector *x, int lanes, int bits, int digits,
                        float scale_first, float scale_last, struct quick *t)
{
    vf q = digit_values(bits), qq = v_mul(q, q);
    float sum_w = 0, top = (float)(2 * digits - 1);
    t->c = 0;
    UNROLL
    for (int i = 0; i < lanes; i++) {
        float wu = x->root_w[i] * x->u[i];
        t->a[i] = v_mul(v_set(x->root_w[i]), qq);
        t->b[i] = v_mul(v_set(2 * wu), q);
        t->c += wu * x->u[i];
        sum_w += x->root_w[i];
    }
    t->most = sum_w * top * top;
    t->usable = t->c > 1e-24f && t->c < 1e24f && scale_last > 1e-10f && scale_first < 1e10f;
}

/* Sums a and b of neighbours k to k + LANES - 1; past the end, what none can be worse than. */
INLINE void quick_sums(const struct quick *t, int lanes, int bits, const struct lm_iq_near *near,
                       int k, vf *a, vf *b)
{
    vi words = i_words(near->word + k);
    vf x = v_look(t->a[0], words), y = v_look(t->b[0], words);
    UNROLL
    for (int i = 1; i < lanes; i++) {
        vi digit = i_shr(words, bits * i);
        x = v_add(x, v_look(t->a[i], digit));
        y = v_add(y, v_look(t->b[i], digit));
    }
    *a = v_pick(i_lt(v_index(1, LANES), i_set(near->n - k)), x, v_set(INFINITY));
    *b = y;
}

/* The candidates of a search; registers are as many vectors as hold count. */
struct tries {
    int count, registers;
    ALIGNED float inv[ROW], scale[ROW];
    ALIGNED uint32_t want[8][ROW];              /* digits of each vector */
    ALIGNED uint32_t word[8][ROW];              /* codewords instead */
};

/* Digits of vector v for every candidate; codewords are the same until one is looked for. */
INLINE void project(struct tries *t, int lanes, int bits, int digits, const float *u, int v)
{
    for (int r = 0; r < t->registers * LANES; r += LANES) {
        vf inv = v_loadu(t->inv + r);
        vi all = i_set(0);
        UNROLL
        for (int i = 0; i < lanes; i++) {
            vf c = v_mul(v_set(0.5f), v_sub(v_mul(inv, v_set(u[i])), v_set(1)));
            all = i_or(all, i_shl(v_code(c, 0, digits - 1), bits * i));
        }
        i_store(t->want[v] + r, all);
        i_store(t->word[v] + r, all);
    }
}

/* The best of near for the candidates from..to-1. */
INLINE void closest(const struct tries *t, const struct vector *x, const struct quick *quick,
                    int lanes, int bits, const struct lm_iq_near *near, int from, int to,
                    uint32_t *word)
{
    vf a[QUICK_LISTS], b[QUICK_LISTS];
    int lists = (near->n + LANES - 1) / LANES;
    bool usable = quick->usable && lists <= QUICK_LISTS;
    for (int k = 0; k < lists && usable; k++)
        quick_sums(quick, lanes, bits, near, k * LANES, &a[k], &b[k]);
    for (int c = from; c < to; c++) {
        vf s = v_set(t->scale[c]), cost[QUICK_LISTS], least = v_set(INFINITY);
        int n = 0, at = 0;
        for (int k = 0; k < lists && usable; k++) {
            cost[k] = v_sub(v_mul(s, a[k]), b[k]);
            least = v_min(least, cost[k]);
        }
        vf limit = v_set(v_reduce_min(least) +
                         1e-5f * (t->scale[c] * quick->most + t->inv[c] * quick->c));
        for (int k = 0; k < lists && usable; k++) {
            unsigned here = v_bits(v_le(cost[k], limit));
            n += __builtin_popcount(here);
            at = here ? k * LANES + __builtin_ctz(here) : at;
        }
        word[c] = n == 1 ? near->word[at] : exactly(x, lanes, bits, near, t->scale[c]);
    }
}

/* Codewords of vector v for every candidate.  Candidates that lead to the same digits
 * follow each other, and share the neighbours. */
INLINE void vector(const struct lm_iq_book *b, struct tries *t, int lanes, int bits,
                   int digits, const struct vector *x, int v)
{
    const uint32_t *want = t->want[v];
    bool begun = false;
    struct quick quick;
    project(t, lanes, bits, digits, x->u, v);
    for (int from = 0, to; from < t->count; from = to) {
        for (to = from + 1; to < t->count && want[to] == want[from]; to++)
            ;
        const struct lm_iq_near *near = lm_iq_neighbours(b, want[from]);
        if (near->word[0] == want[from])
            continue;
        if (!begun)
            begin_quick(x, lanes, bits, digits, t->scale[0], t->scale[t->count - 1], &quick);
        begun = true;
        closest(t, x, &quick, lanes, bits, near, from, to, t->word[v]);
    }
}

/* Sums over w * u * q and w * q * q for every candidate; digits are looked up in a vector
 * of what each adds. */
INLINE void sums(const struct tries *t, int lanes, int bits, int n, const float *u,
                 const float *w, float *sx, float *s2)
{
    vf a[ROW / LANES], b[ROW / LANES], q = digit_values(bits);
    for (int r = 0; r < t->registers; r++)
        a[r] = b[r] = v_set(0);
    for (int v = 0; v < n / lanes; v++)
        UNROLL
        for (int i = 0; i < lanes; i++, u++, w++) {
            vf xq = v_mul(v_set(*w * *u), q), qq = v_mul(v_mul(v_set(*w), q), q);
            for (int r = 0; r < t->registers; r++) {
                vi c = i_shr(i_load(t->word[v] + r * LANES), bits * i);
                a[r] = v_add(a[r], v_look(xq, c));
                b[r] = v_add(b[r], v_look(qq, c));
            }
        }
    for (int r = 0; r < t->registers; r++) {
        v_storeu(sx + r * LANES, a[r]);
        v_storeu(s2 + r * LANES, b[r]);
    }
}

/* Square roots of n weights. */
INLINE void roots(int n, const float *w, float *root_w)
{
    for (int i = 0; i < n; i += LANES)
        v_storeu(root_w + i, v_sqrt(v_loadu(w + i)));
}

INLINE void search_of(const struct lm_iq_book *book, int lanes, int bits, int digits,
                      const struct lm_iq_tries *tries, float range, int n,
                      const float *u, const float *w, struct lm_iq_fit *fit)
{
    struct tries t;
    float sx[ROW], s2[ROW], root_w[32], best = 0;
    int chosen = -1;
    t.count = 2 * tries->reach + 1;
    t.registers = (t.count + LANES - 1) / LANES;
    for (int k = 0; k < t.registers * LANES; k++) {
        int at = k < t.count ? k : t.count - 1;
        t.inv[k] = (tries->first + (float)(at - tries->reach) * tries->step) / range;
        t.scale[k] = 1 / t.inv[k];
    }
    roots(n, w, root_w);
    for (int v = 0; v < n / lanes; v++) {
        const struct vector x = { u + v * lanes, root_w + v * lanes };
        vector(book, &t, lanes, bits, digits, &x, v);
    }
    sums(&t, lanes, bits, n, u, w, sx, s2);
    for (int k = 0; k < t.count; k++)
        if (s2[k] > 0 && sx[k] * sx[k] > best * s2[k]) {
            fit->scale = sx[k] / s2[k];
            best = fit->scale * sx[k];
            chosen = k;
        }
    if (chosen < 0)
        return;
    fit->off = 0;
    for (int v = 0; v < n / lanes; v++) {
        fit->word[v] = (uint16_t)t.word[v][chosen];
        fit->off |= (unsigned)(t.word[v][chosen] != t.want[v][chosen]) << v;
    }
}

static void search(const struct lm_iq_book *b, const struct lm_iq_tries *tries, float range,
                   int n, const float *u, const float *w, struct lm_iq_fit *fit)
{
    if (b->bits == 2)
        search_of(b, 8, 2, 3, tries, range, n, u, w, fit);
    else
        search_of(b, 4, 3, 8, tries, range, n, u, w, fit);
}

INLINE void refit_of(const struct lm_iq_book *b, int lanes, int bits, int digits,
                     unsigned which, int n, const float *u, const float *w,
                     struct lm_iq_fit *fit)
{
    float sx = 0, s2 = 0, inv = 1 / fit->scale, root_w[32];
    roots(n, w, root_w);
    for (int v = 0; v < n / lanes; v++) {
        const struct vector x = { u + v * lanes, root_w + v * lanes };
        unsigned want = 0;
        if (!(which >> v & 1))
            continue;
        for (int i = 0; i < lanes; i++) {
            int c = lm_q_clamp(lm_q_rne(0.5f * (inv * x.u[i] - 1)), 0, digits - 1);
            want |= (unsigned)c << bits * i;
        }
        fit->word[v] = (uint16_t)exactly(&x, lanes, bits, lm_iq_neighbours(b, want), fit->scale);
    }
    for (int i = 0; i < n; i++) {
        unsigned c = fit->word[i / lanes] >> bits * (i % lanes) & ((1u << bits) - 1);
        float q = (float)(2 * c + 1);
        sx += w[i] * u[i] * q;
        s2 += w[i] * q * q;
    }
    if (s2 > 0)
        fit->scale = sx / s2;
}

static void refit(const struct lm_iq_book *b, unsigned which, int n, const float *u,
                  const float *w, struct lm_iq_fit *fit)
{
    if (b->bits == 2)
        refit_of(b, 8, 2, 3, which, n, u, w, fit);
    else
        refit_of(b, 4, 3, 8, which, n, u, w, fit);
}

/* ---- iq1 -------------------------------------------------------------------------- */

static unsigned nearest(const struct lm_iq_book *b, unsigned word, float cost[8][4])
{
    vf table[8];
    for (int i = 0; i < 8; i++)
        table[i] = v_four(cost[i]);
    return cheapest(8, 2, lm_iq_neighbours(b, word), table);
}

static void order(int n, const float *x, uint8_t *at)
{
    for (int i = 0; i < n; i++) {
        unsigned less = 0, same = 0;
        for (int j = 0; j < n; j += LANES) {
            vf some = v_loadu(x + j);
            less |= v_bits(v_lt(some, v_set(x[i]))) << j;
            same |= v_bits(v_eq(some, v_set(x[i]))) << j;
        }
        same &= (1u << i) - 1;
        at[__builtin_popcount(less) + __builtin_popcount(same)] = (uint8_t)i;
    }
}

/* Lanes that may be better than the best so far. */
static inline unsigned better(vf sx, vf s2, float best)
{
    vm m = v_and(v_lt(v_set(0), s2), v_lt(v_mul(v_set(best), s2), v_mul(sx, sx)));
    return v_bits(m);
}

/* The best split so far. */
struct best {
    float gain, scale;
    int   low, high, shift;     /* low < 0: none */
};

/* n kinds of shift in LANES splits low, high..end-1: those that are better, in order. */
INLINE void take_lanes(int n, const vf *sx, const vf *s2, int low, int high, int end,
                       struct best *best)
{
    ALIGNED float x[4][LANES], w[4][LANES];
    unsigned some = 0;
    for (int k = 0; k < n; k++)
        some |= better(sx[k], s2[k], best->gain);
    if (end - high < LANES)
        some &= (1u << (end - high)) - 1;
    if (!some)
        return;
    for (int k = 0; k < n; k++) {
        v_store(x[k], sx[k]);
        v_store(w[k], s2[k]);
    }
    for (; some; some &= some - 1) {
        int at = __builtin_ctz(some);
        UNROLL
        for (int k = 0; k < n; k++)
            if (w[k][at] > 0 && x[k][at] * x[k][at] > best->gain * w[k][at]) {
                best->scale = x[k][at] / w[k][at];
                best->gain = best->scale * x[k][at];
                best->low = low;
                best->high = high + at;
                best->shift = k;
            }
    }
}

static inline bool give(const struct best *best, struct lm_iq_split *s)
{
    s->scale = best->scale;
    s->low = best->low;
    s->high = best->high;
    s->shift = best->shift;
    return best->low >= 0;
}

/* Splits of 32 weights: sums over the first i, and room to read past them. */
struct splits {
    float x[33 + LANES], w[33 + LANES];
};

/* The splits low = i, in order. */
static inline void try_row(const struct splits *p, int i, struct best *best)
{
    const float *x = p->x, *w = p->w;
    for (int j = i; j <= 32; j += LANES) {
        vf sx[2], s2[2], xj = v_loadu(x + j), wj = v_loadu(w + j);
        vf xm = v_sub(xj, v_set(x[i])), wm = v_sub(wj, v_set(w[i]));
        vf xe = v_sub(v_set(x[32]), xj), we = v_sub(v_set(w[32]), wj);
        for (int k = 0; k < 2; k++) {
            const float *t = lm_iq1_values[k];
            vf t1 = v_set(t[1]), t2 = v_set(t[2]);
            sx[k] = v_add(v_set((x[i] - x[0]) * t[0]), v_mul(xm, t1));
            sx[k] = v_add(sx[k], v_mul(xe, t2));
            s2[k] = v_add(v_set((w[i] - w[0]) * t[0] * t[0]), v_mul(v_mul(wm, t1), t1));
            s2[k] = v_add(s2[k], v_mul(v_mul(we, t2), t2));
        }
        take_lanes(2, sx, s2, i, j, 33, best);
    }
}

/* Weights that are positive and of a size at which the products below are plain numbers. */
static inline bool is_plain(const struct splits *p)
{
    float least = 0, size;
    unsigned falls = 0;
    for (int i = 0; i < 32; i += LANES) {
        vf some = v_loadu(p->x + i);
        float here = v_reduce_min(some);
        least = here < least ? here : least;
        falls |= ~v_bits(v_le(v_loadu(p->w + i), v_loadu(p->w + i + 1)));
    }
    size = p->x[32] - 2 * least;                  /* the sum of magnitudes, for they ascend */
    return !(falls & ((1u << (LANES - 1)) * 2 - 1)) && size > 1e-12f && size < 1e12f &&
           p->w[32] > 1e-12f && p->w[32] < 1e12f;
}

/*
 * About the largest gain of the splits low = i, in each lane, for all i.  Multiplied out,
 *
 *   sum of w * x * q = t2 * X - x[i] - x[j]
 *   sum of w * q * q = t2^2 * W + (t0^2 - t1^2) * w[i] + (t1^2 - t2^2) * w[j]
 *
 * so that what depends on j is prepared.  Returns the largest of all.
 */
static inline float gains(const struct splits *p, vf gain[33])
{
    float xj[2][32 + LANES * 2], wj[2][32 + LANES * 2];
    vf most = v_set(0);
    for (int j = 0; j < 32 + LANES * 2; j += LANES)
        for (int k = 0; k < 2; k++) {
            float t2 = k ? 0.875f : 1.125f;
            vm past = i_lt(i_set(32 - j), v_index(1, LANES));
            vf x = j > 32 ? v_set(0) : v_loadu(p->x + j), w = j > 32 ? x : v_loadu(p->w + j);
            x = v_sub(v_set(t2 * p->x[32]), x);
            w = v_sub(v_set(t2 * t2 * p->w[32]), v_mul(v_set(k ? 0.75f : 1.25f), w));
            v_storeu(xj[k] + j, x);
            v_storeu(wj[k] + j, v_pick(past, v_set(1e30f), w));     /* then no gain */
        }
    for (int i = 0; i <= 32; i++) {
        vf x = v_set(p->x[i]), w[2] = { v_set(0.75f * p->w[i]), v_set(1.25f * p->w[i]) };
        gain[i] = v_set(0);
        for (int j = i; j <= 32; j += LANES)
            for (int k = 0; k < 2; k++) {
                vf sx = v_sub(v_loadu(xj[k] + j), x), s2 = v_add(v_loadu(wj[k] + j), w[k]);
                gain[i] = v_max(gain[i], v_mul(v_mul(sx, sx), v_inverse(s2)));
            }
        most = v_max(most, gain[i]);
    }
    return v_reduce_max(most);
}

/*
 * Only splits whose gain is almost the largest are followed to the letter.  Of 1122 splits,
 * whose gains each decide to within 4 * 2^-24 of their size whether one takes the place of
 * another, none can lie within that of every number from 0.999 times the largest to it; from
 * such a gap on, the first above takes the place of any below, and none below ever that of one
 * above.  The largest gain has at least 0.6 of (sum of magnitudes)^2 / W, so sx^2 is no small
 * difference there, and `gains` is right to 5e-4: what lies above 0.999 is above 0.997 in it.
 */
static bool split32(const float sum_x[33], const float sum_w[33], struct lm_iq_split *s)
{
    struct splits p = { { 0 }, { 0 } };
    struct best best = { -FLT_MAX, 0, -1, 0, 0 };
    vf gain[33], limit = v_set(0);
    memcpy(p.x, sum_x, 33 * sizeof *sum_x);
    memcpy(p.w, sum_w, 33 * sizeof *sum_w);
    const bool plain = is_plain(&p);
    if (plain)
        limit = v_set(0.997f * gains(&p, gain));
    for (int i = 0; i <= 32; i++)
        if (!plain || v_bits(v_le(limit, gain[i])))
            try_row(&p, i, &best);
    return give(&best, s);
}

static bool split16(const float sum_x[2][17], const float sum_w[2][17], struct lm_iq_split *s)
{
    float x[2][17 + LANES] = { { 0 } }, w[2][17 + LANES] = { { 0 } };
    struct best best = { -FLT_MAX, 0, -1, 0, 0 };
    for (int h = 0; h < 2; h++) {
        memcpy(x[h], sum_x[h], 17 * sizeof **x);
        memcpy(w[h], sum_w[h], 17 * sizeof **w);
    }
    for (int i = 0; i <= 16; i++)
        for (int j = i; j <= 16; j += LANES) {
            vf hx[2][2], h2[2][2], sx[4], s2[4];
            for (int h = 0; h < 2; h++) {
                vf z = v_add(v_set(x[h][i]), v_loadu(x[h] + j)), wj = v_loadu(w[h] + j);
                hx[h][0] = v_sub(v_set(x[h][16] * 1.125f), z);
                hx[h][1] = v_sub(v_set(x[h][16] * 0.875f), z);
                h2[h][0] = v_add(v_set(w[h][16] * 1.125f * 1.125f + w[h][i] * 0.75f),
                                 v_mul(wj, v_set(-1.25f)));
                h2[h][1] = v_add(v_set(w[h][16] * 0.875f * 0.875f + w[h][i] * 1.25f),
                                 v_mul(wj, v_set(-0.75f)));
            }
            for (int k = 0; k < 4; k++) {
                sx[k] = v_add(hx[0][k >> 1], hx[1][k & 1]);
                s2[k] = v_add(h2[0][k >> 1], h2[1][k & 1]);
            }
            take_lanes(4, sx, s2, i, j, 17, &best);
        }
    return give(&best, s);
}
