/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_PHILOX_H
#define LM_SAMPLE_PHILOX_H

/*
 * Random numbers without state: Philox4x32-10 (Salmon, Moraes, Dror and Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011) of a key, the seed, and a
 * counter that says what the number is for.  So no number depends on how many were
 * drawn before it.
 */

#include <stdint.h>

enum lm_purpose {
    LM_PURPOSE_DRAW = 1,
    LM_PURPOSE_XTC,
    LM_PURPOSE_MIROSTAT,
    LM_PURPOSE_ADAPTIVE_P,
    LM_PURPOSE_ACCEPT,           /* of a proposal            */
    LM_PURPOSE_RESIDUAL,         /* when it does not stay    */
};

/* out = Philox4x32-10 of counter and key. */
void lm_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The number in [0, 1), a multiple of 2^-53, for drawing the token at `pos` of
 * sequence `seq`. */
double lm_uniform(uint64_t seed, uint32_t pos, uint32_t seq, enum lm_purpose purpose);

/* A seed that no one can foretell: the system's random source, or, where there is
 * none, the clock and the process number. */
uint64_t lm_new_seed(void);

#endif
