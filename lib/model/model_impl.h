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
    struct lm_devices       *devices;      /* that there are                              */
    const struct lm_device  *device[LM_MAX_PLACES];     /* that are used, the CPU last    */
    size_t                   n_devices;
    struct lm_arena          arena;
    struct lm_tensor       **weights;      /* [n_layer][n_weights], see build.h           */
    size_t                   n_weights;
    uint32_t                 n_embd_rows;  /* ids that can be looked up                   */
    struct lm_map            map;
    struct lm_buffer        *plain;        /* small weights as floats, tables that are read */
    struct lm_buffer        *packed;       /* matrices in the device's form               */
};

static inline const struct lm_device *lm_model_cpu(const struct lm_model *m)
{
    return m->device[m->n_devices - 1];
}

#endif
