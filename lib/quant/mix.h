/* SPDX-License-Identifier: MIT */
#ifndef LM_MIX_H
#define LM_MIX_H

/*
 * Mixes: which tensor of a model gets which type.
 *
 * A file type such as Q4_K_M names a default tensor type and rules that give
 * some tensors another one, by name, shape, place in the model and a few numbers
 * of the model.  This part knows no file; the rules are those of llama.cpp's
 * quantize program.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "quant/quant.h"

/* Values of general.file_type, for the rules that are about one. */
enum lm_file_type_id {
    LM_FT_F32 = 0, LM_FT_F16 = 1, LM_FT_Q4_0 = 2, LM_FT_Q4_1 = 3, LM_FT_Q8_0 = 7,
    LM_FT_Q5_0 = 8, LM_FT_Q5_1 = 9, LM_FT_Q2_K = 10, LM_FT_Q3_K_S = 11, LM_FT_Q3_K_M = 12,
    LM_FT_Q3_K_L = 13, LM_FT_Q4_K_S = 14, LM_FT_Q4_K_M = 15, LM_FT_Q5_K_S = 16,
    LM_FT_Q5_K_M = 17, LM_FT_Q6_K = 18, LM_FT_IQ2_XXS = 19, LM_FT_IQ2_XS = 20,
    LM_FT_Q2_K_S = 21, LM_FT_IQ3_XS = 22, LM_FT_IQ3_XXS = 23, LM_FT_IQ1_S = 24,
    LM_FT_IQ4_NL = 25, LM_FT_IQ3_S = 26, LM_FT_IQ3_M = 27, LM_FT_IQ2_S = 28,
    LM_FT_IQ2_M = 29, LM_FT_IQ4_XS = 30, LM_FT_IQ1_M = 31, LM_FT_BF16 = 32,
    LM_FT_TQ1_0 = 36, LM_FT_TQ2_0 = 37, LM_FT_MXFP4_MOE = 38, LM_FT_NVFP4 = 39,
    LM_FT_Q1_0 = 40, LM_FT_Q2_0 = 41,
    LM_FT_COPY = -1
};

/* Flag in general.file_type: guessed from the tensors. */
#define LM_FT_GUESSED 1024

struct lm_file_type {
    const char          *name, *alias;    /* as command lines spell it; alias or NULL */
    enum lm_file_type_id id;
    enum lm_type_id      type;            /* default tensor type (COPY: none)         */
};

/* Every choice, COPY last; ended by a row without name. */
extern const struct lm_file_type lm_file_types[];

/* By name or alias, any case, or by number in decimal; NULL if there is none. */
const struct lm_file_type *lm_file_type_by_name(const char *s);

struct lm_mix_tensor {
    const char           *name;
    uint64_t              ne[4];          /* innermost first, 1 where there is none   */
    const struct lm_type *source;
    /* what lm_mix_choose decides */
    const struct lm_type *target;         /* == source: the bytes are copied          */
    const struct lm_type *wanted;         /* the target before the row length forced
                                             another one on it                        */
    bool                  needs_weights;  /* the rules ask for importance             */
    bool                  convertible;    /* not one of those that are always copied  */
};

struct lm_mix {
    const struct lm_file_type *file_type;
    const char *arch;                     /* general.architecture, "" if unknown      */
    uint32_t    n_layers;                 /* block_count; 0: by the tensors' names    */
    uint32_t    n_experts;
    uint32_t    n_heads, n_heads_kv;      /* of layer 0                               */
    bool        have_weights;             /* importance is there                      */
    bool        in_order;                 /* the rules see tensors as they are given  */
    bool        pure;                     /* the default type for all, no rules       */
    bool        leave_output;             /* output.weight stays as it is             */
    const struct lm_type *output_type;    /* for output.weight, or NULL               */
    const struct lm_type *embedding_type; /* for the token embeddings, or NULL        */
    /* The type that the user wants for a tensor, or NULL; may itself be NULL. */
    const struct lm_type *(*by_user)(void *arg, const char *name);
    void       *by_user_arg;
};

/*
 * lm_mix_choose - decide the target of each of n tensors, given in any order unless m says
 * that it is the order of the rules.
 *
 * LM_EUSE when a type asked for does not suit a tensor and no other is defined
 * for that; LM_EDATA when an expert tensor's name does not say its layer.
 */
int lm_mix_choose(const struct lm_mix *m, struct lm_mix_tensor *t, size_t n, struct lm_err *err);

/*
 * lm_mix_order - the order in which the rules see tensors, and in which llama.cpp
 * writes them: those outside layers, then by layer, each by name.
 *
 *   order  [n] indexes into t; the caller's
 */
int lm_mix_order(const struct lm_mix_tensor *t, size_t n, size_t *order, struct lm_err *err);

/* general.file_type of a file with these tensors that does not state it: the type
 * that most of them have, with LM_FT_GUESSED; order as lm_mix_order gives it. */
uint32_t lm_mix_guess(const struct lm_mix_tensor *t, size_t n, const size_t *order);

#endif
