/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_RECURRENT_H
#define LM_ARCH_RECURRENT_H

/*
 * Recurrent layers, for struct lm_dense's `recurrent`.  Each takes a layer's input [n_embd, n]
 * and gives what its last matrix, LM_SSM_OUT, is multiplied with.
 *
 *   mamba     x, z = Win h;  x = silu(conv(x));  r, b, c = Wx x;  dt = softplus(Wdt r)
 *             y = scan(x, dt, a, b, c, d) silu(z)            (Gu and Dao, 2023)
 *             r, b, c normalized where there are weights for it, or ssm_norms says so
 *   mamba2    z, xbc, dt = Win h;  x, b, c = silu(conv(xbc));  dt = softplus(dt + its bias)
 *             y = norm(scan(x, dt, a, b, c, d) silu(z))      (Dao and Gu, 2024)
 *   delta     q, k, v = silu(conv(Wqkv h));  y = norm(delta(q / |q|, k / |k|, v)) silu(Wgate h)
 *                                                            (Yang et al., 2024)
 *   conv      b, c, x = Win h;  y = c conv(b x)              (Liquid AI, "LFM2", 2025)
 */

#include "arch/dense.h"

struct lm_tensor *lm_recurrent_mamba(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
struct lm_tensor *lm_recurrent_mamba2(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
struct lm_tensor *lm_recurrent_delta(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
/* The same for value heads in the order of LM_TILE_ROWS. */
struct lm_tensor *lm_recurrent_delta_tiled(struct lm_build *b, uint32_t layer,
                                           struct lm_tensor *x);
struct lm_tensor *lm_recurrent_conv(struct lm_build *b, uint32_t layer, struct lm_tensor *x);

/* For struct lm_arch's `memory`. */
void lm_recurrent_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                         struct lm_memory_layer *out);

/* Which layers are recurrent, where no key says it; and checks of the numbers of these. */
int lm_recurrent_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);

#endif
