/* SPDX-License-Identifier: MIT */
/*
 * iq1_s, iq1_m: 256 weights in vectors of 8; a vector is a codeword G of -1, 0, 1
 * (iq_grids.h) plus a shift t of 1/8 up or down, times a 3-bit scale s in units of an
 * f16 number:  x = (d * (2 * s + 1)) * (G + t).
 *
 * iq1_s  for each 32 weights 16 bits: upper three bits of the four codeword numbers, the
 *        scale in bits 12 to 14, and bit 15 for a shift down
 * iq1_m  for each vector four bits: upper three of the codeword number, and one for a
 *        shift down; scales of 16 weights in 3-bit fields of four 16-bit words, whose
 *        top four bits together are d
 */
#include "quant/block.h"
#include "quant/fit.h"
#include "quant/iq_grids.h"
#include "quant/iq_search.h"

#define QK_K 256

struct iq1_s {
    uint8_t d[2];
    uint8_t q[QK_K / 8];
    uint8_t h[QK_K / 32][2];
};
_Static_assert(sizeof(struct iq1_s) == 50, "iq1_s is 50 bytes on disk");

struct iq1_m {
    uint8_t q[QK_K / 8];
    uint8_t h[QK_K / 16];
    uint8_t c[4][2];
};
_Static_assert(sizeof(struct iq1_m) == 56, "iq1_m is 56 bytes on disk");

static void vector(unsigned word, bool down, float scale, float *dst)
{
    float shift = down ? -0.125f : 0.125f;
    for (int j = 0; j < 8; j++)
        dst[j] = scale * ((float)((int)(word >> 2 * j & 3) - 1) + shift);
}

static void decode_iq1_s(const void *src, float *dst, size_t n)
{
    const struct iq1_s *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned h = lm_q_u16(b[i].h[v / 4]);
            unsigned c = b[i].q[v] | (h >> 3 * (v % 4) & 7) << 8;
            vector(lm_grid_iq1s[c], h >> 15, d * (float)(2 * (h >> 12 & 7) + 1), dst);
        }
    }
}

/* The f16 whose bits are spread over the top quarters of four words. */
static uint16_t iq1_m_d(const struct iq1_m *b)
{
    unsigned d = 0;
    for (int k = 0; k < 4; k++)
        d |= (unsigned)lm_q_u16(b->c[k]) >> 12 << 4 * k;
    return (uint16_t)d;
}

static void decode_iq1_m(const void *src, float *dst, size_t n)
{
    const struct iq1_m *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_f16_load(iq1_m_d(&b[i]));
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned x = (unsigned)lm_q_nibble(b[i].h, v), p = (unsigned)v / 2;
            unsigned s = lm_q_u16(b[i].c[p / 4]) >> 3 * (p % 4) & 7;
            vector(lm_grid_iq1s[b[i].q[v] | (x & 7) << 8], x & 8, d * (float)(2 * s + 1), dst);
        }
    }
}

/* ---- encoding --------------------------------------------------------------------- */

/* What a sub-block became; shift as in struct lm_iq_split. */
struct sub {
    float    scale;
    int      shift;
    unsigned code[4];
};

static void count_weights(enum lm_isa isa, const float *x, const float *importance, float *w)
{
    if (importance)
        lm_fit(isa)->weights(QK_K, x, importance, 2 * lm_q_sum_sq(x, QK_K) / QK_K, w);
    else
        for (int i = 0; i < QK_K; i++)
            w[i] = x[i] * x[i];
}

/* Digits of n weights from a split of their order; a negative scale mirrors digits. */
static void split_digits(int n, const uint8_t *order, struct lm_iq_split *s, uint8_t *digit)
{
    for (int i = 0; i < n; i++) {
        int c = i < s->low ? 0 : i < s->high ? 1 : 2;
        digit[order[i]] = (uint8_t)(s->scale < 0 ? 2 - c : c);
    }
}

/* Codewords of n / 8 vectors, and where one is not what digits say, a new scale; values
 * are those of each vector. */
static void take_codewords(const struct lm_iq *iq, const struct lm_iq_book *book, int n,
                           const float *x, const float *w, const uint8_t *digit,
                           const float *const values[4], struct sub *s)
{
    bool off = false;
    unsigned word[4];
    for (int v = 0; v < n / 8; v++) {
        float cost[8][4];
        unsigned want = 0;
        for (int i = 0; i < 8; i++) {
            want |= (unsigned)digit[8 * v + i] << 2 * i;
            for (int c = 0; c < 3; c++) {
                float t = s->scale * values[v][c] - x[8 * v + i];
                cost[i][c] = w[8 * v + i] * t * t;
            }
        }
        word[v] = iq->nearest(book, want, cost);
        s->code[v] = lm_iq_number(book, word[v]);
        off |= word[v] != want;
    }
    float sx = 0, s2 = 0;
    for (int i = 0; i < n && off; i++) {
        float q = values[i / 8][word[i / 8] >> 2 * (i % 8) & 3];
        sx += w[i] * q * x[i];
        s2 += w[i] * q * q;
    }
    if (sx > 0 && s2 > 0)
        s->scale = sx / s2;
}

static void fit_iq1_s(const struct lm_iq *iq, const struct lm_iq_book *book, const float *x,
                      const float *w, struct sub *s)
{
    uint8_t order[32], digit[32];
    float sum_x[33] = { 0 }, sum_w[33] = { 0 };
    struct lm_iq_split split;
    memset(s, 0, sizeof *s);
    if (lm_q_abs(lm_q_max_abs(x, 32)) < 1e-12f)
        return;
    iq->order(32, x, order);
    for (int i = 0; i < 32; i++) {
        sum_x[i + 1] = sum_x[i] + w[order[i]] * x[order[i]];
        sum_w[i + 1] = sum_w[i] + w[order[i]];
    }
    if (!iq->split32(sum_x, sum_w, &split))
        return;
    split_digits(32, order, &split, digit);
    s->shift = split.scale < 0 ? !split.shift : split.shift;
    s->scale = split.scale < 0 ? -split.scale : split.scale;
    const float *t = lm_iq1_values[s->shift];
    take_codewords(iq, book, 32, x, w, digit, (const float *const[4]){ t, t, t, t }, s);
}

static void fit_iq1_m(const struct lm_iq *iq, const struct lm_iq_book *book, const float *x,
                      const float *w, struct sub *s)
{
    uint8_t order[16], digit[16];
    float sum_x[2][17] = { { 0 } }, sum_w[2][17] = { { 0 } };
    struct lm_iq_split split;
    memset(s, 0, sizeof *s);
    if (lm_q_abs(lm_q_max_abs(x, 16)) < 1e-7f)
        return;
    iq->order(16, x, order);
    for (int i = 0; i < 16; i++) {
        int h = order[i] / 8;
        sum_x[h][i + 1] = sum_x[h][i] + w[order[i]] * x[order[i]];
        sum_w[h][i + 1] = sum_w[h][i] + w[order[i]];
        sum_x[!h][i + 1] = sum_x[!h][i];
        sum_w[!h][i + 1] = sum_w[!h][i];
    }
    if (!iq->split16(sum_x, sum_w, &split))
        return;
    split_digits(16, order, &split, digit);
    s->shift = split.scale < 0 ? 3 - split.shift : split.shift;
    s->scale = split.scale < 0 ? -split.scale : split.scale;
    const float *const values[4] = { lm_iq1_values[s->shift >> 1], lm_iq1_values[s->shift & 1] };
    take_codewords(iq, book, 16, x, w, digit, values, s);
}

/* The largest scale, which d is made from. */
static float top_scale(const struct sub *s, int n)
{
    float top = 0;
    for (int i = 0; i < n; i++)
        top = top > s[i].scale ? top : s[i].scale;
    return top;
}

static int three_bits(float inv, float scale)
{
    return lm_q_clamp(lm_q_rne(0.5f * (inv * scale - 1)), 0, 7);
}

/* Codewords are stored even where every scale is 0. */
static void encode_iq1_s(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq1s;
    struct iq1_s *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[8];
        unsigned h[8] = { 0 };
        count_weights(isa, x, weights + i * QK_K, w);
        memset(b, 0, sizeof *b);
        for (int g = 0; g < 8; g++) {
            fit_iq1_s(lm_iq(isa), book, x + 32 * g, w + 32 * g, &s[g]);
            for (int v = 0; v < 4; v++) {
                b->q[4 * g + v] = (uint8_t)s[g].code[v];
                h[g] |= s[g].code[v] >> 8 << 3 * v;
            }
        }
        float top = top_scale(s, 8), d = top / 15, inv = 1 / d;
        if (top != 0)
            lm_q_put_half(b->d, d * 1.125f);
        for (int g = 0; g < 8; g++) {
            if (top != 0)
                h[g] |= (unsigned)(three_bits(inv, s[g].scale) | s[g].shift << 3) << 12;
            lm_q_put_u16(b->h[g], (uint16_t)h[g]);
        }
    }
}

/* The scale that suits best what the sub-blocks became, with their scales in three bits;
 * d if there is none. */
static float rescale_iq1_m(const struct sub *s, const int *three, const float *x,
                           const float *w, float d)
{
    float sx = 0, s2 = 0;
    for (int i = 0; i < QK_K; i++) {
        const struct sub *b = &s[i / 16];
        int v = i % 16 / 8, shift = v ? b->shift & 1 : b->shift >> 1;
        unsigned digit = lm_grid_iq1s[b->code[v]] >> 2 * (i % 8) & 3;
        float q = lm_iq1_values[shift][digit] * (float)(2 * three[i / 16] + 1);
        sx += w[i] * q * x[i];
        s2 += w[i] * q * q;
    }
    return s2 > 0 ? sx / s2 : d;
}

static void put_iq1_m_scales(struct iq1_m *b, const struct sub *s, const float *x,
                             const float *w, float d)
{
    static const uint8_t shift_bits[4] = { 0, 0x80, 0x08, 0x88 };
    unsigned c[4] = { 0 };
    int three[16];
    float inv = 1 / d;
    for (int g = 0; g < 16; g++) {
        three[g] = three_bits(inv, s[g].scale);
        c[g / 4] |= (unsigned)three[g] << 3 * (g % 4);
        b->h[g] |= shift_bits[s[g].shift];
    }
    unsigned half = lm_f16_store(rescale_iq1_m(s, three, x, w, d) * 1.1125f);
    for (int k = 0; k < 4; k++)
        lm_q_put_u16(b->c[k], (uint16_t)(c[k] | (half >> 4 * k & 15) << 12));
}

/* As above: codewords are stored in any case. */
static void encode_iq1_m(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq1s;
    struct iq1_m *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[16];
        count_weights(isa, x, weights ? weights + i * QK_K : NULL, w);
        memset(b, 0, sizeof *b);
        for (int g = 0; g < 16; g++) {
            fit_iq1_m(lm_iq(isa), book, x + 16 * g, w + 16 * g, &s[g]);
            b->q[2 * g] = (uint8_t)s[g].code[0];
            b->q[2 * g + 1] = (uint8_t)s[g].code[1];
            b->h[g] = (uint8_t)(s[g].code[0] >> 8 | s[g].code[1] >> 8 << 4);
        }
        float top = top_scale(s, 16);
        if (top != 0)
            put_iq1_m_scales(b, s, x, w, top / 15);
    }
}

static int64_t invalid_iq1_s(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq1_s), 0);
}

static int64_t invalid_iq1_m(const void *src, size_t n)
{
    const struct iq1_m *b = src;
    for (size_t i = 0; i < n / QK_K; i++)
        if ((iq1_m_d(&b[i]) & 0x7c00) == 0x7c00)
            return (int64_t)i;
    return -1;
}

const struct lm_type lm_type_iq1_s = {
    .name = "iq1_s", .id = LM_IQ1_S, .block = QK_K, .bytes = sizeof(struct iq1_s),
    .in_files = true, .needs_weights = true, .source = "GGUF tensor type 19",
    .end = LM_Q_HALF_END * 15 * 1.125f,
    .decode = decode_iq1_s, .encode = encode_iq1_s, .invalid = invalid_iq1_s,
};

const struct lm_type lm_type_iq1_m = {
    .name = "iq1_m", .id = LM_IQ1_M, .block = QK_K, .bytes = sizeof(struct iq1_m),
    .in_files = true, .source = "GGUF tensor type 29",
    .end = LM_Q_HALF_END * 15 * 1.125f,
    .decode = decode_iq1_m, .encode = encode_iq1_m, .invalid = invalid_iq1_m,
};
