/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_VEC_H
#define LM_CPU_VEC_H

/*
 * Operations on rows of floats: the inner loops of everything but products and
 * attention.  One table an instruction set; the scalar one defines the results, the
 * others agree with it within a few units in the last place.  What a function makes
 * of a row depends on the row alone.
 *
 * Destinations may be the same array as a source, but may not overlap otherwise.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

struct lm_vec {
    void (*add)(float *d, const float *a, const float *b, size_t n);
    void (*sub)(float *d, const float *a, const float *b, size_t n);
    void (*mul)(float *d, const float *a, const float *b, size_t n);
    void (*div)(float *d, const float *a, const float *b, size_t n);
    void (*scale)(float *d, const float *a, float s, size_t n);
    /* At least lo and at most hi; a NaN stays one. */
    void (*clamp)(float *d, const float *a, float lo, float hi, size_t n);
    void (*silu)(float *d, const float *a, size_t n);                     /* a / (1 + exp(-a)) */
    void (*swiglu)(float *d, const float *a, const float *b, size_t n);   /* silu(a) b         */
    void (*gelu)(float *d, const float *a, size_t n);                     /* tanh form         */
    void (*gelu_erf)(float *d, const float *a, size_t n);                 /* a (1 + erf) / 2   */
    void (*gelu_quick)(float *d, const float *a, size_t n);          /* a / (1 + exp(-1.702 a)) */
    void (*relu2)(float *d, const float *a, size_t n);                    /* max(a, 0)^2       */
    void (*reglu)(float *d, const float *a, const float *b, size_t n);    /* max(a, 0) b       */
    void (*geglu)(float *d, const float *a, const float *b, size_t n);    /* gelu(a) b         */
    void (*geglu_erf)(float *d, const float *a, const float *b, size_t n);
    /* a at most limit, b in -limit .. limit: a / (1 + exp(-slope a)) (b + plus) */
    void (*swiglu_clamp)(float *d, const float *a, const float *b, size_t n, float limit,
                         float slope, float plus);
    void (*soft_max)(float *d, const float *a, size_t n);      /* exp(a) / their sum, n > 0 */
    /* s tanh(a / s); versions agree within 1e-6 s */
    void (*softcap)(float *d, const float *a, float s, size_t n);
    /* d = x w / sqrt(mean(x^2) + eps) */
    void (*rms_norm)(float *d, const float *x, const float *w, size_t n, float eps);
    /* d = (x - mean) w / sqrt(variance + eps) + b; w, b: or NULL */
    void (*layer_norm)(float *d, const float *x, const float *w, const float *b, size_t n,
                       float eps);
    /* Neighbouring pairs turned: d = x c + swapped(x) s; n even. */
    void (*rope)(float *d, const float *x, const float *c, const float *s, size_t n);
    /* The same for pairs i and i + n / 2. */
    void (*rope_halves)(float *d, const float *x, const float *c, const float *s, size_t n);
    /* Rounded to binary16, to nearest even. */
    void (*to_f16)(uint16_t *d, const float *a, size_t n);
};

/* The fastest table that needs at most isa. */
const struct lm_vec *lm_vec_find(enum lm_isa isa);

/* For vec.c alone. */
extern const struct lm_vec lm_vec_scalar, lm_vec_avx2, lm_vec_avx512;

#endif
