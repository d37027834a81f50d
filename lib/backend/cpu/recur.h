/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_RECUR_H
#define LM_CPU_RECUR_H

/*
 * One step of a recurrent layer, on the CPU: the inner loops of cpu_states.c.  The scalar
 * table defines the results; the others agree with it within a few units in the last
 * place of the largest term.  States are worked on where they lie.
 */

#include <stddef.h>

#include "base/cpu.h"

struct lm_recur {
    /* y[c] = bias[c] + sum_j w[j n + c] x[j][c] for n channels; bias: or NULL. */
    void (*conv)(float *y, const float *const *x, const float *w, size_t k, const float *bias,
                 size_t n);
    /* Rows s[r] of a state, `size` long, that share decay and step:
     * s[r] = decay s[r] + dt x[r] b;  y[r] = s[r] . c */
    void (*scan)(float *s, size_t rows, size_t size, float decay, float dt, const float *x,
                 const float *b, const float *c, float *y);
    /* Rows with their own dt[r] and a[r], `size` long:
     * s[r] = exp(dt[r] a[r]) s[r] + dt[r] x[r] b;  y[r] = s[r] . c */
    void (*scan_each)(float *s, size_t rows, size_t size, const float *dt, const float *a,
                      const float *x, const float *b, const float *c, float *y);
    /* s[r] = decay s[r];  s[r] += beta (v[r] - s[r] . k) k;  y[r] = s[r] . q */
    void (*delta)(float *s, size_t rows, size_t size, float decay, float beta, const float *v,
                  const float *k, const float *q, float *y);
    /* The same with s[r][i] = exp(rate decay[i]) s[r][i]. */
    void (*delta_each)(float *s, size_t rows, size_t size, float rate, const float *decay,
                       float beta, const float *v, const float *k, const float *q, float *y);
    /* y[r] = s[r] . q + v[r] bonus;  s[r][i] = decay[i] s[r][i] + v[r] k[i] */
    void (*wkv6)(float *s, size_t rows, size_t size, const float *decay, float bonus,
                 const float *v, const float *k, const float *q, float *y);
    /* s[r][i] = decay[i] s[r][i] + v[r] k[i] + (s[r] . a) b[i];  y[r] = s[r] . q */
    void (*wkv7)(float *s, size_t rows, size_t size, const float *decay, const float *a,
                 const float *b, const float *v, const float *k, const float *q, float *y);
    /* s[r][i] = decay[i] s[r][i] + v[r] k[i];  y[r] = s[r] . q */
    void (*gla)(float *s, size_t rows, size_t size, const float *decay, const float *v,
                const float *k, const float *q, float *y);
};

/* The fastest table that needs at most isa. */
const struct lm_recur *lm_recur_find(enum lm_isa isa);

/* For recur.c alone. */
extern const struct lm_recur lm_recur_avx2, lm_recur_avx512;

#endif
