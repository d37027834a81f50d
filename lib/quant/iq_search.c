/* SPDX-License-Identifier: MIT */
#include "quant/iq_search.h"

#include <float.h>
#include <pthread.h>

#include "quant/block.h"
#include "quant/iq_grids.h"

#define WORDS 6561               /* of eight digits below 3; of four below 8 there are fewer */

/* A codebook, and room for its lists: `near` is how many neighbours all words have together,
 * codewords included. */
#define BOOK(name, count, lanes, bits, digits, within, near)                                     \
    static uint16_t list_##name[(near) + WORDS + (count) + LM_IQ_PAST];                          \
    static uint32_t at_##name[WORDS];                                                            \
    static struct lm_iq_lists lists_##name = { .at = at_##name, .list = list_##name };           \
    const struct lm_iq_book lm_book_##name = { lm_grid_##name, count, lanes, bits, digits,       \
                                               within, &lists_##name };

BOOK(iq2xxs, 256, 8, 2, 3, 2, 113413)
BOOK(iq2xs, 512, 8, 2, 3, 2, 182233)
BOOK(iq2s, 1024, 8, 2, 3, 1, 45740)
BOOK(iq1s, 2048, 8, 2, 3, 3, 329769)
BOOK(iq3xxs, 256, 4, 3, 8, 2, 19241)
BOOK(iq3s, 512, 4, 3, 8, 3, 25245)

const float lm_iq1_values[2][3] = { { -0.875f, 0.125f, 1.125f }, { -1.125f, -0.125f, 0.875f } };

/* ---- neighbours ------------------------------------------------------------------- */

static int square(int a, int b)
{
    return (a - b) * (a - b);
}

/* Fill p for a codebook. */
static void lay_out(const struct lm_iq_book *book, struct lm_iq_planes *p)
{
    int field = book->bits == 2 ? 4 : 3, mask = (1 << field) - 1;
    p->book = book;
    for (int a = 0; a < 16; a++)
        for (int b = 0; b < 16; b++)
            p->square[a][b] = (uint8_t)(field == 3 ? square(a & 7, b & 7)
                                        : square(a & 3, b & 3) + square(a >> 2, b >> 2));
    for (int f = 0; f < 4; f++)
        for (int i = 0; i < book->count; i++)
            p->field[f][i] = (uint8_t)(book->words[i] >> field * f & mask);
}

static int look_up(const struct lm_iq_planes *p, unsigned word, uint16_t *near)
{
    uint8_t dist[LM_IQ_WORDS];
    const struct lm_iq_book *b = p->book;
    int field = b->bits == 2 ? 4 : 3, mask = (1 << field) - 1, n = 0;
    const uint8_t *sq[4];
    for (int f = 0; f < 4; f++)
        sq[f] = p->square[word >> field * f & (unsigned)mask];
    for (int i = 0; i < b->count; i++)
        dist[i] = (uint8_t)(sq[0][p->field[0][i]] + sq[1][p->field[1][i]] +
                            sq[2][p->field[2][i]] + sq[3][p->field[3][i]]);
    for (int k = 0, level = -1; k < b->within && level != 0; k++) {
        int next = 256;
        for (int i = 0; i < b->count; i++)
            if (dist[i] > level && dist[i] < next)
                next = dist[i];
        for (int i = 0; i < b->count; i++)
            if (dist[i] == next)
                near[n++] = b->words[i];
        level = next;
    }
    return n;
}

/* Word number k of all. */
static unsigned word_at(const struct lm_iq_book *b, unsigned k)
{
    unsigned word = 0;
    for (int i = 0; i < b->lanes; i++, k /= (unsigned)b->digits)
        word |= k % (unsigned)b->digits << b->bits * i;
    return word;
}

static void make_lists(const struct lm_iq_book *b, enum lm_isa isa)
{
    struct lm_iq_planes p;
    uint16_t near[LM_IQ_NEAR + LM_IQ_PAST], *list = b->lists->list;
    unsigned n_words = b->bits == 3 ? 4096 : WORDS;
    lay_out(b, &p);
    for (unsigned k = 0, number = 0; k < n_words; k++) {
        unsigned word = word_at(b, k);
        int n = lm_iq(isa)->look_up(&p, word, near);
        b->lists->at[k] = (uint32_t)(list - b->lists->list);
        *list++ = (uint16_t)n;
        memcpy(list, near, (size_t)n * sizeof *near);
        list += n;
        if (near[0] == word)
            *list++ = (uint16_t)number++;
    }
}

void lm_iq_prepare(const struct lm_iq_book *b, enum lm_isa isa)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    if (atomic_load_explicit(&b->lists->ready, memory_order_acquire))
        return;
    pthread_mutex_lock(&making);
    if (!atomic_load_explicit(&b->lists->ready, memory_order_relaxed)) {
        make_lists(b, isa);
        atomic_store_explicit(&b->lists->ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&making);
}

/* ---- iq2, iq3 --------------------------------------------------------------------- */

static unsigned digit(const struct lm_iq_book *b, unsigned word, int lane)
{
    return word >> b->bits * lane & ((1u << b->bits) - 1);
}

static float value(const struct lm_iq_book *b, unsigned word, int lane)
{
    return (float)(2 * digit(b, word, lane) + 1);
}

/* Digits of a vector for an inverse scale. */
static unsigned project(const struct lm_iq_book *b, float inv, const float *u)
{
    unsigned word = 0;
    for (int i = 0; i < b->lanes; i++) {
        int c = lm_q_clamp(lm_q_rne(0.5f * (inv * u[i] - 1)), 0, b->digits - 1);
        word |= (unsigned)c << b->bits * i;
    }
    return word;
}

/* The neighbour with the smallest error, the first of equals.  If no error is a number
 * below the largest, the first neighbour. */
static uint16_t closest(const struct lm_iq_book *b, const struct lm_iq_near *near, const float *u,
                        const float *root_w, float scale)
{
    uint16_t best = near->word[0];
    float least = FLT_MAX;
    for (int k = 0; k < near->n && near->n > 1; k++) {
        float e = 0;
        for (int i = 0; i < b->lanes; i++) {
            float t = scale * value(b, near->word[k], i) - u[i];
            e += root_w[i] * t * t;
        }
        if (e < least) {
            least = e;
            best = near->word[k];
        }
    }
    return best;
}

static void sums(const struct lm_iq_book *b, int n, const float *u, const float *w,
                 const uint16_t *word, float *sx, float *s2)
{
    *sx = *s2 = 0;
    for (int i = 0; i < n; i++) {
        float q = value(b, word[i / b->lanes], i % b->lanes);
        *sx += w[i] * u[i] * q;
        *s2 += w[i] * q * q;
    }
}

/* Codewords of a vector for n inverse scales. */
static void vector(const struct lm_iq_book *b, int n, const float *inv, const float *u,
                   const float *w, uint16_t (*word)[8], unsigned *off, int v)
{
    const struct lm_iq_near *near = NULL;
    float root_w[8];
    unsigned last = 0;
    for (int i = 0; i < b->lanes; i++)
        root_w[i] = sqrtf(w[i]);
    for (int k = 0; k < n; k++) {
        unsigned want = project(b, inv[k], u);
        if (k == 0 || want != last)
            near = lm_iq_neighbours(b, want);
        last = want;
        word[k][v] = closest(b, near, u, root_w, 1 / inv[k]);
        off[k] |= (unsigned)(word[k][v] != want) << v;
    }
}

static void search(const struct lm_iq_book *b, const struct lm_iq_tries *tries, float range,
                   int n, const float *u, const float *w, struct lm_iq_fit *fit)
{
    uint16_t word[LM_IQ_TRIES][8] = { { 0 } };
    unsigned off[LM_IQ_TRIES] = { 0 };
    float inv[LM_IQ_TRIES], best = 0;
    int lanes = b->lanes, count = 2 * tries->reach + 1;
    for (int k = 0; k < count; k++)
        inv[k] = (tries->first + (float)(k - tries->reach) * tries->step) / range;
    for (int v = 0; v < n / lanes; v++)
        vector(b, count, inv, u + v * lanes, w + v * lanes, word, off, v);
    for (int k = 0; k < count; k++) {
        float sx, s2;
        sums(b, n, u, w, word[k], &sx, &s2);
        if (s2 > 0 && sx * sx > best * s2) {
            fit->scale = sx / s2;
            best = fit->scale * sx;
            memcpy(fit->word, word[k], sizeof word[k]);
            fit->off = off[k];
        }
    }
}

static void refit(const struct lm_iq_book *b, unsigned which, int n, const float *u,
                  const float *w, struct lm_iq_fit *fit)
{
    int lanes = b->lanes;
    float inv = 1 / fit->scale, root_w[8], sx, s2;
    for (int v = 0; v < n / lanes; v++) {
        const float *uv = u + v * lanes;
        if (!(which >> v & 1))
            continue;
        for (int i = 0; i < lanes; i++)
            root_w[i] = sqrtf(w[v * lanes + i]);
        const struct lm_iq_near *near = lm_iq_neighbours(b, project(b, inv, uv));
        fit->word[v] = closest(b, near, uv, root_w, fit->scale);
    }
    sums(b, n, u, w, fit->word, &sx, &s2);
    if (s2 > 0)
        fit->scale = sx / s2;
}

unsigned lm_iq_take_signs(bool even, const float *x, const float *w, float *u)
{
    unsigned signs = 0;
    for (int i = 0; i < 8; i++) {
        bool negative = !(x[i] >= 0);
        u[i] = negative ? -x[i] : x[i];
        signs |= (unsigned)negative << i;
    }
    if (even && __builtin_parity(signs)) {
        int least = 0;
        for (int i = 1; i < 8; i++)
            if (w[i] * x[i] * x[i] < w[least] * x[least] * x[least])
                least = i;
        u[least] = -u[least];
        signs ^= 1u << least;
    }
    return signs;
}

int lm_iq_nibble(float inv, float scale)
{
    return lm_q_clamp(lm_q_rne(0.5f * (inv * scale - 1)), 0, 15);
}

/* ---- iq1 -------------------------------------------------------------------------- */

static unsigned nearest(const struct lm_iq_book *b, unsigned word, float cost[8][4])
{
    const struct lm_iq_near *near = lm_iq_neighbours(b, word);
    unsigned best = near->word[0];
    float least = FLT_MAX;
    for (int k = 0; k < near->n; k++) {
        float e = 0;
        for (int i = 0; i < 8; i++)
            e += cost[i][digit(b, near->word[k], i)];
        if (e < least) {
            least = e;
            best = near->word[k];
        }
    }
    return best;
}

static void order(int n, const float *x, uint8_t *at)
{
    uint8_t rank[32] = { 0 };
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            bool less = x[i] < x[j];
            rank[j] = (uint8_t)(rank[j] + less);
            rank[i] = (uint8_t)(rank[i] + !less);
        }
    for (int i = 0; i < n; i++)
        at[rank[i]] = (uint8_t)i;
}

/* Take a split if it lowers the error most so far; *best is what that is. */
static bool take(float sx, float s2, int low, int high, int shift, float *best,
                 struct lm_iq_split *s)
{
    if (!(s2 > 0 && sx * sx > *best * s2))
        return false;
    s->scale = sx / s2;
    *best = s->scale * sx;
    s->low = low;
    s->high = high;
    s->shift = shift;
    return true;
}

static bool split32(const float x[33], const float w[33], struct lm_iq_split *s)
{
    float best = -FLT_MAX;
    bool any = false;
    for (int i = 0; i <= 32; i++)
        for (int j = i; j <= 32; j++)
            for (int k = 0; k < 2; k++) {
                const float *t = lm_iq1_values[k];
                float sx = (x[i] - x[0]) * t[0] + (x[j] - x[i]) * t[1] + (x[32] - x[j]) * t[2];
                float s2 = (w[i] - w[0]) * t[0] * t[0] + (w[j] - w[i]) * t[1] * t[1] +
                           (w[32] - w[j]) * t[2] * t[2];
                any |= take(sx, s2, i, j, k, &best, s);
            }
    return any;
}

static bool split16(const float x[2][17], const float w[2][17], struct lm_iq_split *s)
{
    float best = -FLT_MAX;
    bool any = false;
    for (int i = 0; i <= 16; i++)
        for (int j = i; j <= 16; j++) {
            float sx[2][2], s2[2][2];           /* of each vector, shifted up or down */
            for (int h = 0; h < 2; h++) {
                float z = x[h][i] + x[h][j];
                sx[h][0] = x[h][16] * 1.125f - z;
                sx[h][1] = x[h][16] * 0.875f - z;
                s2[h][0] = w[h][16] * 1.125f * 1.125f + w[h][i] * 0.75f + w[h][j] * -1.25f;
                s2[h][1] = w[h][16] * 0.875f * 0.875f + w[h][i] * 1.25f + w[h][j] * -0.75f;
            }
            for (int k = 0; k < 4; k++)
                any |= take(sx[0][k >> 1] + sx[1][k & 1], s2[0][k >> 1] + s2[1][k & 1], i, j, k,
                            &best, s);
        }
    return any;
}

const struct lm_iq lm_iq_scalar = { look_up, search, refit, nearest, order, split32, split16 };

const struct lm_iq *lm_iq(enum lm_isa isa)
{
#if defined(__x86_64__)
    if (isa >= LM_ISA_AVX512)
        return &lm_iq_avx512;
    if (isa >= LM_ISA_AVX2)
        return &lm_iq_avx2;
#endif
    (void)isa;
    return &lm_iq_scalar;
}
