/* SPDX-License-Identifier: MIT */
#ifndef LM_LOAD_PARTS_H
#define LM_LOAD_PARTS_H

/* What load.c finds in the files and load_data.c brings to where it is used. */

#include "gguf/split.h"
#include "model/model_impl.h"

enum lm_weight_place {
    LM_AT_MAP,                  /* data is in the map                             */
    LM_AT_PLAIN,                /* read as it is                                  */
    LM_AT_FLOATS,               /* decoded                                        */
    LM_AT_PACKED                /* in the device's form                           */
};

struct lm_weight {
    struct lm_tensor            *t;
    const struct lm_gguf_tensor *from;
    size_t                       file;      /* which it is in                     */
    enum lm_weight_place         place;
    bool                         lazy;      /* in the map, and not to be kept in memory */
    size_t                       device;
};

struct lm_loader {
    struct lm_model               *m;
    const struct lm_model_options *o;
    const struct lm_env           *env;
    struct lm_weight              *w;
    size_t                         n;
    struct lm_err                 *errs;     /* [n] of each weight's reading       */
    char                         **scratch;  /* [threads] of a chunk and a bit     */
    size_t                         scratch_size;
    size_t                         done;
};

/* Room for all weights, then their data. */
int lm_load_weights(struct lm_loader *l, struct lm_err *err);

#endif
