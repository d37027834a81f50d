/* SPDX-License-Identifier: MIT */
/*
 * iq3_xxs, iq3_s: 256 weights in vectors of 4; a vector is a codeword of magnitudes
 * (iq_grids.h) with signs, times a 4-bit scale s in units of an f16 number.
 *
 * iq3_xxs  x = (d * (0.5 + s) * 0.5) * G * sign; codeword numbers are bytes; for each 32
 *          weights a 32-bit word has four 7-bit sign indices, one for 8 weights, and the
 *          scale in its top four bits
 * iq3_s    x = (d * (1 + 2 * s)) * G * sign; codeword numbers of nine bits, the ninth in
 *          h; all signs stored in z; a scale for each 32 weights
 */
#include "quant/block.h"
#include "quant/fit.h"
#include "quant/iq_grids.h"
#include "quant/iq_search.h"

#define QK_K 256

struct iq3_xxs {
    uint8_t d[2];
    uint8_t q[QK_K / 4];
    uint8_t w[QK_K / 32][4];
};
_Static_assert(sizeof(struct iq3_xxs) == 98, "iq3_xxs is 98 bytes on disk");

struct iq3_s {
    uint8_t d[2];
    uint8_t q[QK_K / 4];
    uint8_t h[QK_K / 32];
    uint8_t z[QK_K / 8];
    uint8_t sc[QK_K / 64];
};
_Static_assert(sizeof(struct iq3_s) == 110, "iq3_s is 110 bytes on disk");

/* Four weights: a codeword's magnitudes times scale, negative where signs has a bit. */
static void vector(unsigned word, const float magnitude[8], unsigned signs, float scale,
                   float *dst)
{
    for (int j = 0; j < 4; j++) {
        float x = scale * magnitude[word >> 3 * j & 7];
        dst[j] = signs >> j & 1 ? -x : x;
    }
}

static void decode_iq3_xxs(const void *src, float *dst, size_t n)
{
    static const float magnitude[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    const struct iq3_xxs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int u = 0; u < QK_K / 4; u++, dst += 4) {
            uint32_t w = lm_q_u32(b[i].w[u / 8]);
            unsigned signs = lm_iq_signs(w >> 7 * (u % 8 / 2) & 127);
            float scale = d * (0.5f + (float)(w >> 28)) * 0.5f;
            vector(lm_grid_iq3xxs[b[i].q[u]], magnitude, signs >> 4 * (u % 2), scale, dst);
        }
    }
}

static void decode_iq3_s(const void *src, float *dst, size_t n)
{
    static const float magnitude[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    const struct iq3_s *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int u = 0; u < QK_K / 4; u++, dst += 4) {
            unsigned c = b[i].q[u] | (unsigned)(b[i].h[u / 8] >> u % 8 & 1) << 8;
            float scale = d * (float)(1 + 2 * lm_q_nibble(b[i].sc, u / 8));
            vector(lm_grid_iq3s[c], magnitude, b[i].z[u / 2] >> 4 * (u % 2), scale, dst);
        }
    }
}

/* ---- encoding --------------------------------------------------------------------- */

/* What 32 weights became: codeword numbers of the vectors, and signs of each 8 weights. */
struct sub {
    float    scale;
    bool     skipped;           /* nothing there: scale and all else are 0 */
    unsigned code[8], signs[4];
};

static void count_weights(enum lm_isa isa, const float *x, const float *importance, float *w)
{
    if (importance)
        lm_fit(isa)->weights(QK_K, x, importance, 2 * lm_q_sum_sq(x, QK_K) / QK_K, w);
    else
        for (int i = 0; i < QK_K; i++)
            w[i] = x[i] * x[i];
}

static float largest(const float *u)
{
    float max = u[0];
    for (int i = 1; i < 32; i++)
        max = u[i] > max ? u[i] : max;
    return max;
}

/* A negative scale turns all signs around. */
static void finish(const struct lm_iq_book *book, const struct lm_iq_fit *f, struct sub *s)
{
    for (int v = 0; v < 8; v++)
        s->code[v] = lm_iq_number(book, f->word[v]);
    for (int k = 0; k < 4 && f->scale < 0; k++)
        s->signs[k] ^= 255;
    s->scale = f->scale < 0 ? -f->scale : f->scale;
}

static void fit_xxs(const struct lm_iq *iq, const struct lm_iq_book *book, const float *x,
                    const float *w, struct sub *s)
{
    static const struct lm_iq_tries tries = { 15, 0.2f, 15 };
    struct lm_iq_fit f = { 0 };
    float u[32];
    memset(s, 0, sizeof *s);
    for (int k = 0; k < 4; k++)
        s->signs[k] = lm_iq_take_signs(true, x + 8 * k, w + 8 * k, u + 8 * k);
    float max = largest(u);
    if (max < 1e-8f) {
        memset(s, 0, sizeof *s);
        return;
    }
    f.scale = max / 15;
    iq->search(book, &tries, max, 32, u, w, &f);
    if (f.off && f.scale > 0)
        iq->refit(book, f.off, 32, u, w, &f);
    finish(book, &f, s);
}

/* Unlike above, once any vector was no codeword, all are looked for again. */
static void fit_s(const struct lm_iq *iq, const struct lm_iq_book *book, const float *x,
                  const float *w, struct sub *s)
{
    static const struct lm_iq_tries tries = { 15, 0.2f, 9 };
    struct lm_iq_fit f = { .off = 255 };
    float u[32];
    memset(s, 0, sizeof *s);
    for (int k = 0; k < 4; k++)
        s->signs[k] = lm_iq_take_signs(false, x + 8 * k, w + 8 * k, u + 8 * k);
    float max = largest(u);
    if (max == 0) {
        memset(s, 0, sizeof *s);
        s->skipped = true;
        return;
    }
    f.scale = max / 15;
    iq->search(book, &tries, max, 32, u, w, &f);
    if (f.off && f.scale > 0)
        iq->refit(book, 255, 32, u, w, &f);
    finish(book, &f, s);
}

/* The largest scale, which d is made from. */
static float top_scale(const struct sub *s)
{
    float top = 0;
    for (int g = 0; g < 8; g++)
        top = top > s[g].scale ? top : s[g].scale;
    return top;
}

static void encode_iq3_xxs(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq3xxs;
    struct iq3_xxs *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[8];
        count_weights(isa, x, weights ? weights + i * QK_K : NULL, w);
        for (int g = 0; g < 8; g++)
            fit_xxs(lm_iq(isa), book, x + 32 * g, w + 32 * g, &s[g]);
        memset(b, 0, sizeof *b);
        float top = top_scale(s), d = top / 31, inv = 1 / d;
        if (top == 0)
            continue;
        lm_q_put_half(b->d, d * 1.0125f);
        for (int g = 0; g < 8; g++) {
            uint32_t word = (uint32_t)lm_iq_nibble(inv, s[g].scale) << 28;
            for (int k = 0; k < 4; k++)
                word |= (s[g].signs[k] & 127) << 7 * k;
            for (int v = 0; v < 8; v++)
                b->q[8 * g + v] = (uint8_t)s[g].code[v];
            lm_q_put_u32(b->w[g], word);
        }
    }
}

/* The format's reference writes codewords and signs without a gap for a group of zeros,
 * but their high bits and the scales where they belong; files are to be the same. */
static void encode_iq3_s(enum lm_isa isa, const float *x, void *dst, size_t n,
                  const float *weights)
{
    const struct lm_iq_book *book = &lm_book_iq3s;
    struct iq3_s *b = dst;
    lm_iq_prepare(book, isa);
    for (size_t i = 0; i < n / QK_K; i++, b++, x += QK_K) {
        float w[QK_K];
        struct sub s[8];
        count_weights(isa, x, weights ? weights + i * QK_K : NULL, w);
        memset(b, 0, sizeof *b);
        for (int g = 0, at = 0; g < 8; g++) {
            fit_s(lm_iq(isa), book, x + 32 * g, w + 32 * g, &s[g]);
            if (s[g].skipped)
                continue;
            for (int v = 0; v < 8; v++) {
                b->q[8 * at + v] = (uint8_t)s[g].code[v];
                b->h[g] |= (uint8_t)(s[g].code[v] >> 8 << v);
            }
            for (int k = 0; k < 4; k++)
                b->z[4 * at + k] = (uint8_t)s[g].signs[k];
            at++;
        }
        float top = top_scale(s), d = top / 31, inv = 1 / d;
        if (top == 0)
            continue;
        lm_q_put_half(b->d, d * 1.033f);
        for (int g = 0; g < 8; g++)
            b->sc[g / 2] |= (uint8_t)(lm_iq_nibble(inv, s[g].scale) << g % 2 * 4);
    }
}

static int64_t invalid_iq3_xxs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq3_xxs), 0);
}

static int64_t invalid_iq3_s(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq3_s), 0);
}

const struct lm_type lm_type_iq3_xxs = {
    .name = "iq3_xxs", .id = LM_IQ3_XXS, .block = QK_K, .bytes = sizeof(struct iq3_xxs),
    .in_files = true, .source = "GGUF tensor type 18",
    .end = LM_Q_HALF_END * 15.5f / 2 * 62,
    .decode = decode_iq3_xxs, .encode = encode_iq3_xxs, .invalid = invalid_iq3_xxs,
};

const struct lm_type lm_type_iq3_s = {
    .name = "iq3_s", .id = LM_IQ3_S, .block = QK_K, .bytes = sizeof(struct iq3_s),
    .in_files = true, .source = "GGUF tensor type 21",
    .end = LM_Q_HALF_END * 31 * 15,
    .decode = decode_iq3_s, .encode = encode_iq3_s, .invalid = invalid_iq3_s,
};
