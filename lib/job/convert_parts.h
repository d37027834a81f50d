/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CONVERT_PARTS_H
#define LM_JOB_CONVERT_PARTS_H

/* What convert.c (the pass over the data) shares with convert_plan.c (which tensors) and
 * convert_keys.c (which metadata). */

#include "arch/arch.h"
#include "base/arena.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "hf/hf_vocab.h"
#include "hf/safetensors.h"
#include "job/convert.h"

struct lm_convert_shard {
    const char           *name;
    int                   file;         /* in the source, -1: not come yet            */
    bool                  read;         /* st is filled                               */
    struct lm_safetensors st;
};

struct lm_convert_item {
    const struct lm_arch_tensor *row;
    uint32_t                     layer;
    struct lm_convert_tensor     t;
    size_t                       shard;
    const struct lm_st_tensor   *st;    /* NULL: made, or its file has not come yet   */
    float                       *made;  /* [ne[0]] or NULL                            */
    struct lm_convert_item      *parts; /* tensors that lie one behind the other, or NULL */
    uint64_t                     n_parts;
};

/* The numbers of config.json that conversion works with. */
struct lm_convert_config {
    const struct lm_jval *json;
    const struct lm_arch *arch;
    struct lm_hparams     h;
    const struct lm_jval *rope;         /* rope_parameters or rope_scaling, or NULL   */
    const char           *rope_type;    /* "", "linear", "yarn", "llama3", "longrope" */
    bool                  tied;
};

/* What the index says: the file that a tensor is in. */
struct lm_convert_where {
    const char *tensor, *file;
};

struct lm_convert {
    struct lm_hf_source      *src;
    const struct lm_env      *outer;    /* the caller's                               */
    struct lm_env             named;    /* the same, but notes name the source        */
    const struct lm_env      *env;      /* &named                                     */
    struct lm_convert_config  cfg;
    struct lm_convert_shard  *shards;   /* sorted by name                             */
    size_t                    n_shards;
    struct lm_convert_where  *index;    /* of the index, by tensor; NULL: no index    */
    size_t                    n_index;
    const struct lm_jval     *generation;       /* generation_config.json, or NULL    */
    struct lm_convert_item   *items;    /* in the order to write                      */
    size_t                    n_items, cap;
    struct lm_convert_item  **stacks;   /* items whose parts are not all found yet    */
    size_t                    n_stacks, cap_stacks;
    const struct lm_type     *type;     /* of the file                                */
    uint32_t                  file_type;
    bool                      mixed;    /* types are those of quantize                */
    struct lm_gguf_writer    *w;
    struct lm_arena           arena;
};

/* Read config.json: architecture and rotary scaling. */
int lm_convert_read_config(struct lm_convert *c, struct lm_err *err);

/*
 * One key of the architecture as config.json has it.  1 when it has none and the key is not
 * written.  *u, *f or *s is set by the key's kind.
 */
int lm_convert_key(const struct lm_convert *c, const struct lm_arch_key *k, uint32_t *u,
                   float *f, const char **s, struct lm_err *err);

/*
 * The key that says of each layer whether it has a window: local[i] is 1 or 0, *n layers of at
 * most max.  1 when it is not written.
 */
int lm_convert_layers(const struct lm_convert *c, const struct lm_arch_key *k, uint8_t *local,
                      size_t max, size_t *n, struct lm_err *err);

/* Fill cfg.h from config.json (n_vocab aside). */
int lm_convert_hparams(struct lm_convert *c, struct lm_err *err);

/* Find the weight files and read the headers that are there. */
int lm_convert_shards(struct lm_convert *c, struct lm_err *err);
/* Read one file's header; errors name it. */
int lm_convert_read_shard(struct lm_convert *c, size_t i, struct lm_err *err);
/* The file that the index gives a tensor, or NULL. */
const char *lm_convert_index(const struct lm_convert *c, const char *tensor);
/* From headers and the index to items; sets cfg.h.n_vocab. */
int lm_convert_items(struct lm_convert *c, const char *type, struct lm_err *err);
/* Settle the file's type when there are no tensors. */
int lm_convert_no_items(struct lm_convert *c, const char *type, struct lm_err *err);
/* Join the items of a file that has just come with what its header says. */
int lm_convert_link(struct lm_convert *c, size_t shard, struct lm_err *err);

/* All keys and tensor infos into c->w. */
int lm_convert_keys(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err);

#endif
