/* SPDX-License-Identifier: MIT */
/*
 * iq2_xxs, iq2_xs, iq2_s: 256 weights in vectors of 8; a vector is a codeword of
 * magnitudes (iq_grids.h) with signs, times a 4-bit scale s in units of an f16 number:
 *
 *   x = (d * (0.5 + s) * 0.25) * G * sign
 *
 * iq2_xxs  for each 32 weights four codeword bytes and a 32-bit word: 7-bit sign indices
 *          of the four vectors, the scale in the top four bits
 * iq2_xs   a vector is 16 bits: codeword number in the low nine, sign index in the rest;
 *          a scale for each 16 weights
 * iq2_s    codeword numbers of ten bits, the upper two in h; all eight signs stored in z;
 *          a scale for each 16 weights
 */
#include "quant/block.h"
#include "quant/fit.h"
#include "quant/iq_grids.h"
#include "quant/iq_search.h"

#define QK_K 256

struct iq2_xxs {
    uint8_t d[2];
    struct {
        uint8_t q[4];
        uint8_t w[4];
    } g[QK_K / 32];
};
_Static_assert(sizeof(struct iq2_xxs) == 66, "iq2_xxs is 66 bytes on disk");

struct iq2_xs {
    uint8_t d[2];
    uint8_t c[QK_K / 8][2];
    uint8_t sc[QK_K / 32];
};
_Static_assert(sizeof(struct iq2_xs) == 74, "iq2_xs is 74 bytes on disk");

struct iq2_s {
    uint8_t d[2];
    uint8_t q[QK_K / 8];
    uint8_t z[QK_K / 8];
    uint8_t h[QK_K / 32];
    uint8_t sc[QK_K / 32];
};
_Static_assert(sizeof(struct iq2_s) == 82, "iq2_s is 82 bytes on disk");

/* Eight weights: a codeword's magnitudes times scale, negative where signs has a bit. */
static void vector(unsigned word, unsigned signs, float scale, float *dst)
{
    static const float magnitude[4] = { 8, 25, 43, 0 };
    for (int j = 0; j < 8; j++) {
        float x = scale * magnitude[word >> 2 * j & 3];
        dst[j] = signs >> j & 1 ? -x : x;
    }
}

static void decode_iq2_xxs(const void *src, float *dst, size_t n)
{
    const struct iq2_xxs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int g = 0; g < QK_K / 32; g++) {
            uint32_t w = lm_q_u32(b[i].g[g].w);
            float scale = d * (0.5f + (float)(w >> 28)) * 0.25f;
            for (int v = 0; v < 4; v++, dst += 8)
                vector(lm_grid_iq2xxs[b[i].g[g].q[v]], lm_iq_signs(w >> 7 * v & 127), scale,
                       dst);
        }
    }
}

static void decode_iq2_xs(const void *src, float *dst, size_t n)
{
    const struct iq2_xs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned c = lm_q_u16(b[i].c[v]);
            float scale = d * (0.5f + (float)lm_q_nibble(b[i].sc, v / 2)) * 0.25f;
            vector(lm_grid_iq2xs[c & 511], lm_iq_signs(c >> 9), scale, dst);
        }
    }
}

static void decode_iq2_s(const void *src, float *dst, size_t n)
{
    const struct iq2_s *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned c = b[i].q[v] | (unsigned)(b[i].h[v / 4] >> 2 * (v % 4) & 3) << 8;
            float scale = d * (0.5f + (float)lm_q_nibble(b[i].sc, v / 2)) * 0.25f;
            vector(lm_grid_iq2s[c], b[i].z[v], scale, dst);
        }
    }
}

/* ---- encoding --------------------------------------------------------------------- */

/* What a sub-block became: codeword numbers and signs of its vectors. */
struct sub {
    float    scale;
    unsigned code[4], signs[4];
};

/* Weights count importance * sqrt(sigma2 + x^2); iq2_s can do without importance. */
static void count_weights(enum lm_isa isa, const float *x, const float *importance,
                          float sigma2, float *w)
{
    if (importance)
        lm_fit(isa)->weights(QK_K, x, importance, sigma2, w);
    else
        for (int i = 0; i < QK_K; i++)
            w[i] = 0.25f * sigma2 + x[i] * x[i];
}

static float largest(int n, const float *u)
{
    float max = u[0];
    for (int i = 1; i < n; i++)
        max = u[i] > max ? u[i] : max;
    return max;
}

/* Numbers of the codewords; a negative scale turns all signs around. */
static void finish(const struct lm_iq_book *book, struct lm_iq_fit *f, int n, struct sub *s)
{
    for (int v = 0; v < n; v++) {
        s->code[v] = lm_iq_number(book, f->word[v]);
        if (f->scale < 0)
            s->signs[v] ^= 255;
    }
    s->scale = f->scale < 0 ? -f->scale : f->scale;
}

/* The groups of 32 weights of an iq2_xxs block: the search for a scale starts from a fit to
 * codes of any kind. */
static void fit_xxs(enum lm_isa isa, const struct lm_iq_book *book, const float *x,
                    const float *w, struct sub *s)
{
    static const struct lm_iq_tries tries = { 5, 0.1f, 6 };
    const struct lm_iq *iq = lm_iq(isa);
    float u[QK_K], scale[8];
    uint8_t codes[QK_K];
    memset(s, 0, 8 * sizeof *s);
    for (int v = 0; v < 32; v++)
        s[v / 4].signs[v % 4] = lm_iq_take_signs(true, x + 8 * v, w + 8 * v, u + 8 * v);
    lm_fit(isa)->positive(32, 4, 8, u, w, scale, codes);
    for (int g = 0; g < 8; g++, s++) {
        struct lm_iq_fit f = { .scale = scale[g] };
        float range = f.scale * 3;
        if (range <= 0) {
            memset(s, 0, sizeof *s);
            continue;
        }
        iq->search(book, &tries, range, 32, u + 32 * g, w + 32 * g, &f);
        if (f.scale > 0)
            iq->refit(book, 15, 32, u + 32 * g, w + 32 * g, &f);
        finish(book, &f, 4, s);
    }
}

/* 16 weights of iq2_xs and iq2_s. */
static void fit_16(enum lm_isa isa, const struct lm_iq_book *book, bool even, float tiny,
                   const float *x, const float *w, struct sub *s)
{
    static const struct lm_iq_tries tries = { 5, 0.1f, 9 };
    const struct lm_iq *iq = lm_iq(isa);
    struct lm_iq_fit f = { 0 };
    float u[16];
    memset(s, 0, sizeof *s);
    for (int v = 0; v < 2; v++)
        s->signs[v] = lm_iq_take_signs(even, x + 8 * v, w + 8 * v, u + 8 * v);
    float max = largest(16, u);
    if (max < tiny) {
        memset(s, 0, sizeof *s);
        return;
    }
    f.scale = max / 5;
    iq->search(book, &tries, max, 16, u, w, &f);
    if (f.off && f.scale > 0)
        iq->refit(book, f.off, 16, u, w, &f);
    finish(book, &f, 2, s);
}

/* The largest scale, which d is made from. */
static float top_scale(const struct sub *s, int n)
{
    float top = 0;
    for (int i = 0; i < n; i++)
        top = top > s[i].scale ? top : s[i].scale;
    return top;
}

static void encode_iq2_xxs(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq2xxs;
    struct iq2_xxs *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[8];
        count_weights(isa, x, weights + i * QK_K, lm_q_sum_sq(x, QK_K) / QK_K, w);
        fit_xxs(isa, book, x, w, s);
        memset(b, 0, sizeof *b);
        float top = top_scale(s, 8), d = top / 31, inv = 1 / d;
        if (top == 0)
            continue;
        lm_q_put_half(b->d, d);
        for (int g = 0; g < 8; g++) {
            uint32_t word = (uint32_t)lm_iq_nibble(inv, s[g].scale) << 28;
            for (int v = 0; v < 4; v++) {
                b->g[g].q[v] = (uint8_t)s[g].code[v];
                word |= (s[g].signs[v] & 127) << 7 * v;
            }
            lm_q_put_u32(b->g[g].w, word);
        }
    }
}

static void encode_iq2_xs(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq2xs;
    struct iq2_xs *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[16];
        count_weights(isa, x, weights + i * QK_K, lm_q_sum_sq(x, QK_K) / QK_K, w);
        for (int g = 0; g < 16; g++)
            fit_16(isa, book, true, 1e-15f, x + 16 * g, w + 16 * g, &s[g]);
        memset(b, 0, sizeof *b);
        float top = top_scale(s, 16), d = top / 31, inv = 1 / d;
        if (top == 0)
            continue;
        lm_q_put_half(b->d, d);
        for (int g = 0; g < 16; g++) {
            b->sc[g / 2] |= (uint8_t)(lm_iq_nibble(inv, s[g].scale) << g % 2 * 4);
            for (int v = 0; v < 2; v++)
                lm_q_put_u16(b->c[2 * g + v],
                             (uint16_t)(s[g].code[v] | (s[g].signs[v] & 127) << 9));
        }
    }
}

/* Codewords and signs are stored even where every scale is 0. */
static void encode_iq2_s(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq2s;
    struct iq2_s *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[16];
        count_weights(isa, x, weights ? weights + i * QK_K : NULL, 2 * lm_q_sum_sq(x, QK_K) / QK_K,
                      w);
        memset(b, 0, sizeof *b);
        for (int g = 0; g < 16; g++) {
            fit_16(isa, book, false, 1e-8f, x + 16 * g, w + 16 * g, &s[g]);
            for (int v = 0; v < 2; v++) {
                b->q[2 * g + v] = (uint8_t)s[g].code[v];
                b->h[g / 2] |= (uint8_t)(s[g].code[v] >> 8 << (2 * (2 * g + v) & 6));
                b->z[2 * g + v] = (uint8_t)s[g].signs[v];
            }
        }
        float top = top_scale(s, 16), d = top / 31, inv = 1 / d;
        if (top == 0)
            continue;
        lm_q_put_half(b->d, d * 0.9875f);
        for (int g = 0; g < 16; g++)
            b->sc[g / 2] |= (uint8_t)(lm_iq_nibble(inv, s[g].scale) << g % 2 * 4);
    }
}

static int64_t invalid_iq2_xxs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq2_xxs), 0);
}

static int64_t invalid_iq2_xs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq2_xs), 0);
}

static int64_t invalid_iq2_s(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq2_s), 0);
}

const struct lm_type lm_type_iq2_xxs = {
    .name = "iq2_xxs", .id = LM_IQ2_XXS, .block = QK_K, .bytes = sizeof(struct iq2_xxs),
    .in_files = true, .needs_weights = true, .source = "GGUF tensor type 16",
    .end = LM_Q_HALF_END * 15.5f / 4 * 43,
    .decode = decode_iq2_xxs, .encode = encode_iq2_xxs, .invalid = invalid_iq2_xxs,
};

const struct lm_type lm_type_iq2_xs = {
    .name = "iq2_xs", .id = LM_IQ2_XS, .block = QK_K, .bytes = sizeof(struct iq2_xs),
    .in_files = true, .needs_weights = true, .source = "GGUF tensor type 17",
    .end = LM_Q_HALF_END * 15.5f / 4 * 43,
    .decode = decode_iq2_xs, .encode = encode_iq2_xs, .invalid = invalid_iq2_xs,
};

const struct lm_type lm_type_iq2_s = {
    .name = "iq2_s", .id = LM_IQ2_S, .block = QK_K, .bytes = sizeof(struct iq2_s),
    .in_files = true, .source = "GGUF tensor type 22",
    .end = LM_Q_HALF_END * 15.5f / 4 * 43,
    .decode = decode_iq2_s, .encode = encode_iq2_s, .invalid = invalid_iq2_s,
};
