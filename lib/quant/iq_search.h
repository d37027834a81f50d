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
 * first with the smallest weighted error is taken.  The neighbours of all words of a
 * codebook are looked up when it is first used, and kept.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#define LM_IQ_WORDS 2048        /* most codewords of a codebook */
#define LM_IQ_TRIES 31          /* most candidates of a search */

/* Neighbours of all words.  Lists lie one after the other, each with its length first;
 * after the list of a codeword, which is itself alone, stands its number in the codebook. */
struct lm_iq_lists {
    atomic_bool ready;
    uint32_t   *at;             /* where the list of a word begins, by lm_iq_key   */
    uint16_t   *list;
};

struct lm_iq_book {
    const uint16_t *words;      /* codewords as digits, ascending; [0] has only zeros */
    int count;
    int lanes, bits, digits;    /* digits in a word, bits of one, values it can have */
    int within;                 /* how many distances are near */
    struct lm_iq_lists *lists;
};

extern const struct lm_iq_book lm_book_iq2xxs, lm_book_iq2xs, lm_book_iq2s, lm_book_iq1s,
                               lm_book_iq3xxs, lm_book_iq3s;

#define LM_IQ_PAST 16           /* numbers that may be read past the end of a list */

/* The longest list of neighbours of any word. */
#define LM_IQ_NEAR 292

/* Neighbours in order; of a codeword, itself. */
struct lm_iq_near {
    uint16_t n;
    uint16_t word[];
};

/* A codebook laid out for looking up neighbours.  A word is four fields, of two digits
 * (iq1, iq2) or one (iq3). */
struct lm_iq_planes {
    const struct lm_iq_book *book;
    uint8_t square[16][16];                 /* squared distance of two fields */
    uint8_t field[4][LM_IQ_WORDS];          /* field of each codeword */
};

/* The number of a word among all: of digits below 3 by twos, then fours, then all eight. */
static inline unsigned lm_iq_key(int bits, unsigned word)
{
    if (bits == 3)
        return word;
    word = (word & 0x3333) + 3 * (word >> 2 & 0x3333);
    word = (word & 0x0f0f) + 9 * (word >> 4 & 0x0f0f);
    return (word & 255) + 81 * (word >> 8);
}

/* The neighbours of a word; lm_iq_prepare has run for the book. */
static inline const struct lm_iq_near *lm_iq_neighbours(const struct lm_iq_book *b, unsigned word)
{
    const uint16_t *list = b->lists->list + b->lists->at[lm_iq_key(b->bits, word)];
    return (const struct lm_iq_near *)(const void *)list;
}

/* Number of a codeword in its codebook, as above. */
static inline unsigned lm_iq_number(const struct lm_iq_book *b, unsigned word)
{
    return lm_iq_neighbours(b, word)->word[1];
}

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
    /* How many neighbours a word has, and in word[] which; LM_IQ_NEAR fit. */
    int (*look_up)(const struct lm_iq_planes *p, unsigned word, uint16_t *near);
    /* Of the candidates, the one that lowers the error most goes to fit, which stays as
     * it is if none does. */
    void (*search)(const struct lm_iq_book *b, const struct lm_iq_tries *tries, float range,
                   int n, const float *u, const float *w, struct lm_iq_fit *fit);
    /* Codewords anew for fit->scale, of the vectors whose bits are set in which; then the
     * best scale for all. */
    void (*refit)(const struct lm_iq_book *b, unsigned which, int n, const float *u,
                  const float *w, struct lm_iq_fit *fit);
    /* The codeword for a word of 8 digits, where digit c of lane i costs cost[i][c]. */
    unsigned (*nearest)(const struct lm_iq_book *b, unsigned word, float cost[8][4]);
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

/* Make the lists of a codebook, unless they are there: before any use of it. */
void lm_iq_prepare(const struct lm_iq_book *b, enum lm_isa isa);

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
