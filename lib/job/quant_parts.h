/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_QUANT_PARTS_H
#define LM_JOB_QUANT_PARTS_H

/* What the files of quantizing share; nothing for others. */

#include "job/quant_job.h"

/* ---- layers that are left out (quant_prune.c) ----------------------------- */

struct lm_prune {
    const uint32_t *layers;                  /* ascending, each once                 */
    size_t          n;
};

/*
 * The name that a tensor has without those layers, in *to: its own (name) if it lies in
 * none, or before them all.  to->p is NULL when it is left out.  LM_ENOMEM.
 */
int lm_prune_name(const struct lm_prune *p, const struct lm_str *name, struct lm_arena *arena,
                  struct lm_str *to);

/* An entry of metadata with one value for each of n_layers layers, without those of the layers
 * left out; others stay as they are.  Arrays are made in the arena. */
int lm_prune_kv(const struct lm_prune *p, uint32_t n_layers, struct lm_gguf_kv *kv,
                struct lm_arena *arena);

/* Importance under the names that tensors have without the layers; numbers are borrowed from m.
 * NULL when memory is short. */
struct lm_importance *lm_prune_importance(const struct lm_prune *p,
                                          const struct lm_importance *m);

/* ---- a size instead of a type (quant_target.c) ---------------------------- */

struct lm_target {
    const struct lm_quantize                *q;       /* rows, parallel to mix        */
    struct lm_mix_tensor                    *mix;     /* targets are decided anew     */
    const struct lm_importance_entry *const *weights; /* [q->n_rows], entries or NULL */
    const bool                              *fixed;   /* [q->n_rows]: not to be chosen */
    uint64_t                                 budget;  /* bytes of all data, with padding */
    uint64_t                                 alignment;
};

/* LM_EUSE when even the smallest types do not fit; as lm_quantize_run for faulty data. */
int lm_target_choose(const struct lm_target *t, const struct lm_env *env, struct lm_err *err);

/* ---- what is lost (quant_error.c) ----------------------------------------- */

/* Add the squares of differences of rows x and y [rows][cols], plain and weighted; weights
 * [cols], or NULL: 1. */
void lm_quantize_add_error(const float *x, const float *y, size_t rows, size_t cols,
                           const float *weights, struct lm_quantize_error *sum);

#endif
