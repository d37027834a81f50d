/* SPDX-License-Identifier: MIT */
#ifndef LM_FOOTPRINT_H
#define LM_FOOTPRINT_H

/*
 * What memory a model takes to run: its weights, and the keys and values of positions.
 *
 *   a layer's keys and values = positions * n_head_kv * (head_k + head_v) * bytes
 *
 * bytes being 2 (f16).  A layer with a window needs no more positions than the window has;
 * a memory that keeps all positions of all layers takes `kv`, one that does not `kv_window`.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf.h"

struct lm_footprint {
    uint64_t weights;            /* bytes of the tensors' data                   */
    uint64_t n_ctx;              /* positions                                    */
    uint32_t n_layers, n_window_layers, window;
    uint64_t kv_position;        /* bytes for a position in one layer            */
    uint64_t kv, kv_window;      /* bytes in all                                 */
};

/*
 * lm_footprint_of - of the model in n files, metadata in the first.
 *
 *   n_ctx  0: what it was trained for
 *
 * LM_EDATA when metadata are missing or wrong; LM_ENOSUP for an architecture without a row.
 */
int lm_footprint_of(const struct lm_gguf *const *shards, size_t n, uint64_t n_ctx,
                    struct lm_footprint *out, struct lm_err *err);

#endif
