/* SPDX-License-Identifier: MIT */
#ifndef LM_MODEL_IMPL_H
#define LM_MODEL_IMPL_H

/* What load.c makes and ctx.c uses. */

#include "arch/build.h"
#include "backend/backend.h"
#include "io/map.h"
#include "model/model.h"

struct lm_model {
    struct lm_gguf          *gguf;         /* the metadata                                */
    struct lm_split         *files;        /* that hold the tensors                       */
    struct lm_in            *in;           /* the first of them                           */
    const struct lm_arch    *arch;
    struct lm_hparams        h;
    struct lm_devices       *devices;      /* that there are                              */
    const struct lm_device  *device[LM_MAX_PLACES];     /* that are used, the CPU last    */
    size_t                   n_devices;
    uint8_t                 *layer_device; /* [n_layer + 1] which, the output's last      */
    struct lm_arena          arena;
    struct lm_tensor       **weights;      /* [n_blocks][n_weights], see build.h          */
    uint32_t                 n_blocks;     /* n_layer, and one more with a draft head     */
    size_t                   n_weights;
    uint32_t                 n_embd_rows;  /* ids that can be looked up                   */
    const struct lm_str     *labels;       /* [h.n_labels] the file's, or NULL            */
    struct lm_map           *maps;         /* [n_maps] of the files, zero: not mapped     */
    size_t                   n_maps;
    /* Of each device: small weights as floats and tables that are read; matrices in the
     * device's form. */
    struct lm_buffer        *plain[LM_MAX_PLACES], *packed[LM_MAX_PLACES];
};

/* The index of the CPU in device[]. */
static inline size_t lm_model_cpu_index(const struct lm_model *m)
{
    return m->n_devices - 1;
}

static inline const struct lm_device *lm_model_cpu(const struct lm_model *m)
{
    return m->device[lm_model_cpu_index(m)];
}

/*
 * lm_place_layers - fill m->devices, device[], and layer_device for m->h.n_layer layers.
 * LM_EUSE for an unknown device or one named twice.
 */
int lm_place_layers(struct lm_model *m, const struct lm_placement *p, const struct lm_env *env,
                    struct lm_err *err);

#endif
