/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_IQ_SEARCH_H
#define LM_QUANT_IQ_SEARCH_H

/*
 * The searches behind iq1, iq2 and iq3, whose vectors of 8 or 4 weights are codewords of
 * a codebook (iq_grids.h).  As in fit.h every rounding counts, and versions for wider
 * instructions do the same operations in the same order.
 *
 * A word of digits that is no codeword is replaced by one of its neighbours: the
 * codewords at the smallest, second smallest, ... squared distance from it (as many
 * distances as the codebook says), in the order of (distance, number).  Of these the
 * first with the smallest weighted error is taken.  Neighbours are looked up when they
 * are needed, by a pass over the codebook, and kept for the next time where there is
 * memory for it: those of all words would make a megabyte of tables.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#define LM_IQ_WORDS 2048        /* most codewords of a codebook */
#define LM_IQ_TRIES 31          /* most candidates of a search */

struct lm_iq_book {
    const uint16_t *words;      /* codewords as digits, ascending; [0] has only zeros */
    int count;
    int lanes, bits, digits;    /* digits in a word, bits of one, values it can have */
    int within;                 /* how many distances are near */
    int n_near;                 /* neighbours of all words together, codewords included */
};

extern const struct lm_iq_book lm_book_iq2xxs, lm_book_iq2xs, lm_book_iq2s, lm_book_iq1s,
                               lm_book_iq3xxs, lm_book_iq3s;

/* The longest list of neighbours of any word. */
#define LM_IQ_NEAR 292

#define LM_IQ_PAST 16           /* words that may be read past the end of one */

/* Neighbours in order; of a codeword, itself. */
struct lm_iq_near {
    uint16_t n;
    uint16_t word[LM_IQ_NEAR + LM_IQ_PAST];
};

/* Neighbours kept: lists lie one after the other, each with its length first; at[key] is
 * where that of a word begins, 0 where it is not known yet. */
struct lm_iq_kept {
    uint32_t  at[6561];
    uint32_t  used;
    uint16_t  list[];
};

/* A codebook laid out for looking up neighbours.  A word is four fields, of two digits
 * (iq1, iq2) or one (iq3). */
struct lm_iq_planes {
    const struct lm_iq_book *book;
    struct lm_iq_kept *kept;                /* neighbours looked up before; NULL: none */
    uint8_t key[256];                       /* of four digits below 3: without gaps */
    uint8_t square[16][16];                 /* squared distance of two fields */
    uint8_t field[4][LM_IQ_WORDS];          /* field of each codeword */
};

static inline unsigned lm_iq_key(const struct lm_iq_planes *p, unsigned word)
{
    return p->book->bits == 3 ? word : p->key[word & 255] + 81u * p->key[word >> 8];
}

/* Neighbours of a word that are kept, or NULL. */
static inline const struct lm_iq_near *lm_iq_recall(const struct lm_iq_planes *p, unsigned word)
{
    uint32_t at = p->kept ? p->kept->at[lm_iq_key(p, word)] : 0;
    return at ? (const struct lm_iq_near *)(const void *)(p->kept->list + at) : NULL;
}

/* Keep some, if p does. */
static inline void lm_iq_remember(const struct lm_iq_planes *p, unsigned word,
                                  const struct lm_iq_near *near)
{
    struct lm_iq_kept *k = p->kept;
    if (!k)
        return;
    k->at[lm_iq_key(p, word)] = k->used;
    memcpy(k->list + k->used, near, (near->n + 1u) * sizeof *k->list);
    k->used += near->n + 1u;
}

/* Number of a codeword in its codebook. */
unsigned lm_iq_number(const struct lm_iq_book *book, unsigned word);

/* A sub-block as scale * (2 * digit + 1). */
struct lm_iq_fit {
    float    scale;
    uint16_t word[8];           /* codeword of each vector */
    unsigned off;               /* bit v: vector v was no codeword before it was replaced */
};

/* Inverse scales (first + k * step) / range for k = -reach..reach. */
struct lm_iq_tries {
    float first, step;
    int   reach;
};

/* The split of sorted weights into digits 0 (below low), 1 and 2 (from high on). */
struct lm_iq_split {
    float scale;
    int   low, high;
    int   shift;                /* which shifts, see the functions */
};

/* u and w are n = 16 or 32 magnitudes and their weights, all in whole vectors. */
struct lm_iq {
    /* Of the candidates, the one that lowers the error most goes to fit, which stays as
     * it is if none does. */
    void (*search)(const struct lm_iq_planes *p, const struct lm_iq_tries *tries, float range,
                   int n, const float *u, const float *w, struct lm_iq_fit *fit);
    /* Codewords anew for fit->scale, of the vectors whose bits are set in which; then the
     * best scale for all. */
    void (*refit)(const struct lm_iq_planes *p, unsigned which, int n, const float *u,
                  const float *w, struct lm_iq_fit *fit);
    /* The codeword for a word of 8 digits, where digit c of lane i costs cost[i][c]. */
    unsigned (*nearest)(const struct lm_iq_planes *p, unsigned word, float cost[8][4]);
    /* Numbers of n = 16 or 32 weights when they ascend; equal ones stay in order. */
    void (*order)(int n, const float *x, uint8_t *at);
    /* Splits of 32 sorted weights: x[i], w[i] are the sums over the first i weights.
     * shift is 0 for the values lm_iq1_values[0], 1 for [1].  False: none. */
    bool (*split32)(const float x[33], const float w[33], struct lm_iq_split *best);
    /* Splits of 16 sorted weights of two vectors: the sums over those among the first i
     * that are of vector h.  shift has bit 1 for the first vector, bit 0 for the second. */
    bool (*split16)(const float x[2][17], const float w[2][17], struct lm_iq_split *best);
};

/* What digits 0, 1, 2 of iq1 stand for: shifted up, shifted down. */
extern const float lm_iq1_values[2][3];

/* The functions for an instruction set; scalar ones are the definition. */
const struct lm_iq *lm_iq(enum lm_isa isa);

/* Encode a row of n weights, whole blocks, with a codebook laid out in p. */
typedef void lm_iq_encoder(enum lm_isa isa, const struct lm_iq_planes *p, const float *src,
                           void *dst, size_t n, const float *weights);

/* Rows of a type, one by one; from the second on with what was looked up for those before. */
void lm_iq_encode_rows(const struct lm_iq_book *book, lm_iq_encoder *encode, enum lm_isa isa,
                       const float *src, void *dst, size_t rows, size_t row_bytes, size_t n,
                       const float *weights);

/* Magnitudes of 8 weights to u, their signs as bits.  even: of an odd number of negative
 * ones, the weight that matters least (by w * x^2) changes sign, so that its u is
 * negative. */
unsigned lm_iq_take_signs(bool even, const float *x, const float *w, float *u);

/* A scale in the four bits of iq2 and iq3: nearest s of (1 + 2 * s) = inv * scale. */
int lm_iq_nibble(float inv, float scale);

extern const struct lm_iq lm_iq_scalar;
#if defined(__x86_64__)
extern const struct lm_iq lm_iq_avx2, lm_iq_avx512;
#endif

#endif
