/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_RESTORE_PARTS_H
#define LM_JOB_RESTORE_PARTS_H

/* What restore.c (the pass over the data) shares with restore_plan.c (which tensors) and
 * restore_config.c (config.json). */

#include "base/buf.h"
#include "job/convert_parts.h"
#include "job/restore.h"

/* n elements of a checkpoint's tensor that lie in one piece in the model's tensor, from element
 * `from` on. */
struct lm_restore_run {
    uint64_t from, n;
};

/* A tensor of the checkpoint. */
struct lm_restore_tensor {
    const char                  *name;
    const struct lm_gguf_tensor *of;
    uint32_t                     n_dims;
    uint64_t                     shape[LM_GGUF_MAX_DIMS];   /* outermost first         */
    uint64_t                     n;                         /* elements                */
    struct lm_restore_run       *runs;                      /* in the checkpoint's order */
    size_t                       n_runs;
    bool                         less_one;                  /* of every weight         */
};

/* What config.json needs that the architecture's row does not say. */
struct lm_restore_family {
    const char *class, *model_type;
    bool        experts, window;        /* only of models that have these              */
    const char *attn_bias;  /* the flag for biases of queries, keys, values and the product after
                               them; "" when the first three always have them, NULL: never */
    const char *mlp_bias;               /* the same of the feed-forward, or NULL       */
    const char *qk_norm;                /* the flag for norms of queries and keys, or NULL */
    const char *names[2];               /* a name in the row, and the class's for it   */
    bool        scores;                 /* query_pre_attn_scalar                       */
};

struct lm_restore {
    struct lm_in                   *in;
    const struct lm_env            *env;
    struct lm_gguf                 *g;
    const struct lm_restore_family *family;
    const struct lm_arch           *arch;
    struct lm_hparams               h;          /* of the model                       */
    struct lm_convert               c;          /* reads what was made of it          */
    const struct lm_type           *type;
    struct lm_restore_tensor       *tensors;    /* in the model's order               */
    size_t                          n_tensors, cap;
    struct lm_buf                   config, head;       /* head: of model.safetensors */
};

/* The family of r->g: arch, family and h; LM_ENOSUP naming it. */
int lm_restore_find(struct lm_restore *r, struct lm_err *err);
/* The tensors of the checkpoint. */
int lm_restore_plan(struct lm_restore *r, struct lm_err *err);
/* config.json, read back as conversion reads it. */
int lm_restore_say(struct lm_restore *r, struct lm_err *err);
/* The values of a small tensor of the model, in r's arena; NULL when it has none of that name, or
 * with *err filled. */
const float *lm_restore_floats(struct lm_restore *r, const char *name, uint64_t n,
                               struct lm_err *err);

#endif
