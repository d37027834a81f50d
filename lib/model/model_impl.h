/* SPDX-License-Identifier: MIT */
#ifndef LM_MODEL_IMPL_H
#define LM_MODEL_IMPL_H

/* What load.c makes and ctx.c uses. */

#include "arch/build.h"
#include "backend/backend.h"
#include "io/map.h"
#include "model/model.h"

struct lm_model {
    struct lm_gguf          *gguf;
    const struct lm_arch    *arch;
    struct lm_hparams        h;
    const struct lm_device  *device;
    struct lm_arena          arena;
    struct lm_tensor       **weights;      /* [n_layer][n_weights], see build.h           */
    size_t                   n_weights;
    uint32_t                 n_embd_rows;  /* ids that can be looked up                   */
    struct lm_map            map;
    struct lm_buffer        *plain;        /* small weights as floats, tables that are read */
    struct lm_buffer        *packed;       /* matrices in the device's form               */
};

#endif
