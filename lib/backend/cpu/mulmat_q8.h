/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_MULMAT_Q8_H
#define LM_CPU_MULMAT_Q8_H

#include <stdint.h>

/*
 * Activations for quantized weights: blocks of 32 as 8-bit integers and a scale, x = d * q,
 * with the sums that weights with an offset are multiplied with.
 */
struct lm_q8_act {
    int8_t q[32];          /* -127 .. 127                                          */
    float  d;              /* largest magnitude / 127; 0 with all q 0 when tiny    */
    float  s;              /* d * sum of q[0..31]                                  */
    float  s_half[2];      /* d * sum of q[0..15], of q[16..31]                    */
};

_Static_assert(sizeof(struct lm_q8_act) == 48, "three to a pair of cache lines and a half");

#endif
