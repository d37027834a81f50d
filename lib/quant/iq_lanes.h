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
                           uint16_t *begin, struct lm_iq_near *near)
{
    for (int i = 0; i < b->count; i += BYTES) {
        vb d = b_load(dist + i);
        for (uint64_t m = b_bits_eq(b_min(d, b_set(last)), d); m; m &= m - 1) {
            int at = i + __builtin_ctzll(m);
            near->word[begin[dist[at]]++] = b->words[at];
        }
    }
}

INLINE void look_up(const struct lm_iq_planes *p, int bits, unsigned word,
                    struct lm_iq_near *near)
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
        near->n = 1;
        near->word[0] = (uint16_t)word;
        return;
    }
    near->n = (uint16_t)n;
    collect(b, dist, level, begin, near);
}

/* The neighbours of a word, kept or in *room. */
static inline const struct lm_iq_near *neighbours(const struct lm_iq_planes *p, int bits,
                                                  unsigned word, struct lm_iq_near *room)
{
    const struct lm_iq_near *kept = lm_iq_recall(p, word);
    if (kept)
        return kept;
    look_up(p, bits, word, room);
    lm_iq_remember(p, word, room);
    return room;
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

/* cost[(i << bits) + c]: what digit c costs in lane i of the vector, for every candidate. */
INLINE void costs(const struct tries *t, int lanes, int bits, int digits, const float *u,
                  const float *w, float cost[][ROW])
{
    for (int i = 0; i < lanes; i++) {
        vf root_w = v_sqrt(v_set(w[i])), x = v_set(u[i]);
        UNROLL
        for (int c = 0; c < digits; c++)
            for (int r = 0; r < t->registers * LANES; r += LANES) {
                vf d = v_sub(v_mul(v_loadu(t->scale + r), v_set((float)(2 * c + 1))), x);
                v_store(cost[(i << bits) + c] + r, v_mul(v_mul(root_w, d), d));
            }
    }
}

/* The best of near for the candidates from..to-1, at most LANES. */
INLINE void closest(const struct tries *t, int lanes, int bits, const struct lm_iq_near *near,
                    const float cost[][ROW], int from, int to, uint32_t *word)
{
    int last = (t->registers - 1) * LANES, at = from < last ? from : last;
    vf least = v_set(FLT_MAX);
    vi best = i_set(near->word[0]);
    for (int k = 0; k < near->n; k++) {
        unsigned g = near->word[k], mask = (1u << bits) - 1;
        vf e = v_loadu(cost[g & mask] + at);
        UNROLL
        for (int i = 1; i < lanes; i++)
            e = v_add(e, v_loadu(cost[(unsigned)(i << bits) + (g >> bits * i & mask)] + at));
        vm better = v_lt(e, least);
        least = v_pick(better, e, least);
        best = i_pick(better, i_set((int)g), best);
    }
    i_store_lanes(word + at, best, from - at, to - at);
}

/* Codewords of vector v for every candidate.  Candidates that lead to the same digits
 * follow each other, and share the neighbours. */
INLINE void vector(const struct lm_iq_planes *p, struct tries *t, int lanes, int bits,
                   int digits, const float *u, const float *w, int v)
{
    ALIGNED float cost[32][ROW];
    const uint32_t *want = t->want[v];
    bool have_costs = false;
    struct lm_iq_near room;
    project(t, lanes, bits, digits, u, v);
    for (int from = 0, to; from < t->count; from = to) {
        for (to = from + 1; to < t->count && want[to] == want[from]; to++)
            ;
        const struct lm_iq_near *near = neighbours(p, bits, want[from], &room);
        if (near->word[0] == want[from])
            continue;
        if (!have_costs)
            costs(t, lanes, bits, digits, u, w, cost);
        have_costs = true;
        for (int k = from; k < to; k += LANES)
            closest(t, lanes, bits, near, cost, k, to < k + LANES ? to : k + LANES,
                    t->word[v]);
    }
}

/* Sums over w * u * q and w * q * q for every candidate. */
INLINE void sums(const struct tries *t, int lanes, int bits, int n, const float *u,
                 const float *w, float *sx, float *s2)
{
    for (int r = 0; r < t->registers * LANES; r += LANES) {
        vf a = v_set(0), b = v_set(0);
        for (int v = 0; v < n / lanes; v++, u += lanes, w += lanes) {
            vi word = i_load(t->word[v] + r);
            UNROLL
            for (int i = 0; i < lanes; i++) {
                vi c = i_and(i_shr(word, bits * i), i_set((1 << bits) - 1));
                vf q = v_float(i_or(i_shl(c, 1), i_set(1)));
                a = v_add(a, v_mul(v_set(w[i] * u[i]), q));
                b = v_add(b, v_mul(v_mul(v_set(w[i]), q), q));
            }
        }
        u -= n;
        w -= n;
        v_storeu(sx + r, a);
        v_storeu(s2 + r, b);
    }
}

INLINE void search_of(const struct lm_iq_planes *p, int lanes, int bits, int digits,
                      const struct lm_iq_tries *tries, float range, int n,
                      const float *u, const float *w, struct lm_iq_fit *fit)
{
    struct tries t;
    float sx[ROW], s2[ROW], best = 0;
    int chosen = -1;
    t.count = 2 * tries->reach + 1;
    t.registers = (t.count + LANES - 1) / LANES;
    for (int k = 0; k < t.registers * LANES; k++) {
        int at = k < t.count ? k : t.count - 1;
        t.inv[k] = (tries->first + (float)(at - tries->reach) * tries->step) / range;
        t.scale[k] = 1 / t.inv[k];
    }
    for (int v = 0; v < n / lanes; v++)
        vector(p, &t, lanes, bits, digits, u + v * lanes, w + v * lanes, v);
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

static void search(const struct lm_iq_planes *p, const struct lm_iq_tries *tries, float range,
                   int n, const float *u, const float *w, struct lm_iq_fit *fit)
{
    if (p->book->bits == 2)
        search_of(p, 8, 2, 3, tries, range, n, u, w, fit);
    else
        search_of(p, 4, 3, 8, tries, range, n, u, w, fit);
}

/* The codeword of one vector for one scale. */
INLINE unsigned reproject(const struct lm_iq_planes *p, int lanes, int bits, int digits,
                          float scale, const float *u, const float *w)
{
    static const float value[2][8] = { { 1, 3, 5, 7, 1, 3, 5, 7 },
                                       { 1, 3, 5, 7, 9, 11, 13, 15 } };
    struct lm_iq_near room;
    vf table[8], q = v_eight(value[bits - 2]);
    float inv = 1 / scale;
    unsigned want = 0;
    for (int i = 0; i < lanes; i++) {
        int c = lm_q_clamp(lm_q_rne(0.5f * (inv * u[i] - 1)), 0, digits - 1);
        vf d = v_sub(v_mul(v_set(scale), q), v_set(u[i]));
        want |= (unsigned)c << bits * i;
        table[i] = v_mul(v_mul(v_sqrt(v_set(w[i])), d), d);
    }
    return cheapest(lanes, bits, neighbours(p, bits, want, &room), table);
}

INLINE void refit_of(const struct lm_iq_planes *p, int lanes, int bits, int digits,
                     unsigned which, int n, const float *u, const float *w,
                     struct lm_iq_fit *fit)
{
    float sx = 0, s2 = 0;
    for (int v = 0; v < n / lanes; v++)
        if (which >> v & 1)
            fit->word[v] = (uint16_t)reproject(p, lanes, bits, digits, fit->scale, u + v * lanes,
                                               w + v * lanes);
    for (int i = 0; i < n; i++) {
        unsigned c = fit->word[i / lanes] >> bits * (i % lanes) & ((1u << bits) - 1);
        float q = (float)(2 * c + 1);
        sx += w[i] * u[i] * q;
        s2 += w[i] * q * q;
    }
    if (s2 > 0)
        fit->scale = sx / s2;
}

static void refit(const struct lm_iq_planes *p, unsigned which, int n, const float *u,
                  const float *w, struct lm_iq_fit *fit)
{
    if (p->book->bits == 2)
        refit_of(p, 8, 2, 3, which, n, u, w, fit);
    else
        refit_of(p, 4, 3, 8, which, n, u, w, fit);
}

/* ---- iq1 -------------------------------------------------------------------------- */

static unsigned nearest(const struct lm_iq_planes *p, unsigned word, float cost[8][4])
{
    struct lm_iq_near room;
    vf table[8];
    for (int i = 0; i < 8; i++)
        table[i] = v_four(cost[i]);
    return cheapest(8, 2, neighbours(p, 2, word, &room), table);
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

static bool split32(const float sum_x[33], const float sum_w[33], struct lm_iq_split *s)
{
    float x[33 + LANES] = { 0 }, w[33 + LANES] = { 0 };
    struct best best = { -FLT_MAX, 0, -1, 0, 0 };
    memcpy(x, sum_x, 33 * sizeof *x);
    memcpy(w, sum_w, 33 * sizeof *w);
    for (int i = 0; i <= 32; i++)
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
            take_lanes(2, sx, s2, i, j, 33, &best);
        }
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
