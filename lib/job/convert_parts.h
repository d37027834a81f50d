/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CONVERT_PARTS_H
#define LM_JOB_CONVERT_PARTS_H

/* What the files of a conversion share: convert.c is the pass over the data, convert_plan.c says
 * which tensors there are, convert_config.c which model it is, convert_keys.c which metadata. */

#include "arch/arch.h"
#include "base/arena.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "hf/hf_vocab.h"
#include "hf/packed.h"
#include "hf/safetensors.h"
#include "job/convert.h"

struct lm_convert_shard {
    const char           *name;
    const struct lm_arch_tensor *row;   /* NULL: the model's weights; else what the only
                                           tensor of this file, linear.weight, is for */
    int                   file;         /* in the source, -1: not come yet            */
    bool                  read;         /* st is filled                               */
    struct lm_safetensors st;
};

/* A tensor of the checkpoint. */
struct lm_convert_source {
    size_t                     shard;
    const char                *name;
    const struct lm_st_tensor *st;      /* NULL: its file has not come yet            */
};

/*
 * Part of a source in another order: element (i0, i1, ..), outermost first, is the source's
 * element start + i0 * axis[0].stride + i1 * axis[1].stride + ..  Every reordering of weights
 * - permuting, transposing, splitting, stacking - is a list of views, one behind the other.
 */
enum { LM_VIEW_AXES = 6 };

struct lm_convert_axis {
    uint64_t n, stride;                 /* stride in elements                         */
};

struct lm_convert_view {
    uint32_t               source;      /* index in the item's sources                */
    uint32_t               n_axes;
    uint64_t               start;
    struct lm_convert_axis axis[LM_VIEW_AXES];
    float                  times[2];    /* every value by these, one after the other; 0: not */
};

struct lm_convert_item {
    const struct lm_arch_tensor *row;
    uint32_t                     layer;
    enum lm_transform            transform;     /* the row's; adapters have fewer     */
    float                        factor;        /* of every value; 0: none            */
    struct lm_convert_tensor     t;
    struct lm_convert_source    *sources;       /* none: it is made                   */
    size_t                       n_sources;     /* LM_STACK: one a part               */
    struct lm_convert_view      *views;
    size_t                       n_views;
    uint64_t                     source_rows;   /* of the whole source, where the
                                                   transform takes some of them       */
    float                       *made;  /* [elements] or NULL                         */
    const struct lm_importance_entry *weights;  /* to encode with, or NULL            */
};

/* The numbers of config.json that conversion works with. */
struct lm_convert_config {
    const struct lm_jval *json;
    const char           *class;        /* architectures[0]                           */
    const struct lm_arch *arch;
    struct lm_hparams     h;
    const struct lm_jval *rope;         /* rope_parameters or rope_scaling, or NULL   */
    const char           *rope_type;    /* "", "linear", "yarn", "llama3", "longrope" */
    bool                  tied;
    bool                  own;          /* Mistral's own files: json is made of params.json */
    bool                  wrapped;      /* a language model inside another: json has its
                                           numbers before those of the whole          */
    const char           *own_names;    /* then what its tensors' names begin with, or NULL */
    uint32_t              pooling;      /* of modules.json; 0: it has none            */
    struct {
        const struct lm_arch_tensor *row;
        const char                  *file;
    } dense[2];                         /* products behind the pooling; file NULL: none */
    const struct lm_jval *quant;        /* quantization_config, or NULL               */
};

/* What the index says: the file that a tensor is in. */
struct lm_convert_where {
    const char *tensor, *file;
};

/* A part of a source in memory, because a stream cannot go back in it. */
struct lm_convert_held {
    const struct lm_st_tensor *st;
    uint64_t                   at, len;         /* bytes of it                        */
    void                      *data;
    size_t                     cap;
};

struct lm_convert {
    struct lm_hf_source      *src;
    struct lm_hf_source      *base;     /* an adapter's model, if it was opened here  */
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
    struct lm_convert_held    held;     /* of a stream                                */
    struct lm_packed_reader   unpack;
    size_t                    reading;  /* the file whose directory is read           */
    size_t                    n_others; /* tensors of a wrapped model's other parts   */
    struct lm_arena           arena;
};

/* Read config.json of `src` (not always c->src: an adapter's is its model's): architecture and
 * rotary scaling. */
int lm_convert_read_config(struct lm_convert *c, struct lm_hf_source *src, struct lm_err *err);
/* The same of what is in cfg.json and cfg.class already. */
int lm_convert_use_config(struct lm_convert *c, struct lm_err *err);

/* A member of an object, or with dots in the name one of objects inside; NULL where there is none,
 * or it is null. */
const struct lm_jval *lm_convert_member(const struct lm_jval *json, const char *name);

/* LM_ENOSUP: the family's files cannot say that member `name` is `text`, NULL: no text. */
int lm_convert_cannot(const struct lm_convert_config *g, const char *name, const char *text,
                      struct lm_err *err);

/* What layer i is, as Nemotron-H's files say it: M recurrent, * attention, - a feed-forward, E
 * experts; 0: they do not. */
char lm_convert_layer_kind(const struct lm_convert *c, int64_t i);

/* A small JSON file of the source, if it is there: *out is NULL without. */
int lm_convert_load_json(struct lm_convert *c, const char *name, const struct lm_jval **out,
                         struct lm_err *err);

/* Read modules.json, where the family can have what it names: cfg.pooling, cfg.dense and their
 * sizes in cfg.h. */
int lm_convert_read_modules(struct lm_convert *c, struct lm_err *err);

/*
 * Models with a language model inside (vision, audio): put its class and numbers in the place of
 * those of the whole.  LM_ENOSUP naming it when it is of no known family.
 */
int lm_convert_unwrap(struct lm_convert *c, struct lm_err *err);

/* The name that a checkpoint's tensor has in the language model alone, in dst or name itself;
 * NULL: it belongs to another part. */
const char *lm_convert_text_name(const struct lm_convert *c, const char *name, char *dst,
                                 size_t size);

/*
 * One key of the architecture as config.json has it (convert_value.c).  1 when it has none and the
 * key is not written.  *u, *f or *s is set by the key's kind.
 */
int lm_convert_key(const struct lm_convert *c, const struct lm_arch_key *k, uint32_t *u,
                   float *f, const char **s, struct lm_err *err);

/* LM_FROM_GLOBAL: a number of the layers without a window, where these have their own; *out is -1
 * without. */
int lm_convert_global(const struct lm_convert_config *g, const struct lm_arch_key *k, int64_t *out,
                      struct lm_err *err);

/*
 * A key that is a list, mostly saying something of each layer (convert_layers.c): *n values of at
 * most max; flags are 1 or 0.  1 when it is not written.
 */
int lm_convert_layers(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                      size_t max, size_t *n, struct lm_err *err);

/* LM_FROM_SPARSE_LAYERS: a float for each layer, room for LM_MAX_LAYERS. */
int lm_convert_sparse(const struct lm_convert *c, const struct lm_arch_key *k, float *values,
                      size_t *n, struct lm_err *err);

/* LM_FROM_EACH_LAYER: a float for each layer, room for LM_MAX_LAYERS, read from the checkpoint. */
int lm_convert_each_layer(struct lm_convert *c, const struct lm_arch_key *k, float *values,
                          struct lm_err *err);

/*
 * Layers behind the last (convert_draft.c).
 *
 * lm_convert_draft_name: the name that a tensor of the first of them has as if it were the
 * model's, in dst or name itself.
 * lm_convert_count_further: those that the checkpoint has and the family can run: cfg.h.n_further.
 * lm_convert_is_further: is the name of a layer that is left out?
 */
const char *lm_convert_draft_name(const struct lm_convert *c, const char *name, char *dst,
                                  size_t size);
void lm_convert_count_further(struct lm_convert *c);
bool lm_convert_is_further(const struct lm_convert *c, const char *name);

/* Rows at the beginning of a table of positions that are for padding. */
uint64_t lm_convert_padding_rows(const struct lm_convert *c);

/* Fill cfg.h from config.json (n_vocab aside). */
int lm_convert_hparams(struct lm_convert *c, struct lm_err *err);

/* Find the weight files and read the headers that are there. */
int lm_convert_shards(struct lm_convert *c, struct lm_err *err);
/* Read one file's header; errors name it. */
int lm_convert_read_shard(struct lm_convert *c, size_t i, struct lm_err *err);
/* Does a file hold the tensors that the index says, all of them and no others?  LM_OK without an
 * index. */
int lm_convert_check_index(const struct lm_convert *c, size_t shard, struct lm_err *err);
/*
 * Put one plain tensor in place of those that quantized weights consist of, in every header, and
 * compare headers with the index before.  LM_ENOSUP for ways of quantizing that are not known.
 */
int lm_convert_unpack(struct lm_convert *c, struct lm_err *err);
/* Items behind those of blocks that stay what they are, for what these have no place for. */
int lm_convert_add_scales(struct lm_convert *c, struct lm_err *err);
/* Can the quantization_config be dealt with? */
int lm_convert_check_quant(const struct lm_jval *quant, struct lm_err *err);
/* From headers and the index to items; sets cfg.h.n_vocab. */
int lm_convert_items(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err);
/* Settle the file's type and those of the tensors, of which there may be none, and their bytes. */
int lm_convert_types(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err);
/* The type of weights that are blocks in the checkpoint and stay what they are, or NULL. */
const struct lm_type *lm_convert_kept_type(const struct lm_convert_item *it);
/* Plan the conversion of an adapter instead of a model. */
int lm_convert_lora(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err);
/* Settle types and bytes of an adapter's items. */
int lm_convert_pair_types(struct lm_convert *c, const char *type, struct lm_err *err);
/* A new item of a row, its name made; NULL with *err filled. */
struct lm_convert_item *lm_convert_new_item(struct lm_convert *c,
                                            const struct lm_arch_tensor *row, uint32_t layer,
                                            const char *suffix, struct lm_err *err);
/* Set the item's source i, which its list has room for. */
void lm_convert_set_source(struct lm_convert *c, struct lm_convert_item *it, size_t i,
                           const struct lm_convert_source *src);
/* A checkpoint's name as the table has it: without what some have before it. */
const char *lm_convert_row_name(const struct lm_convert *c, const char *name);
/* Is the row made of checkpoint tensors of that name? */
bool lm_convert_is_row_of(const struct lm_arch_tensor *t, const char *name, uint32_t *layer,
                          uint32_t *part);
/* Read the header of a weight file that has one tensor list for itself. */
int lm_convert_add_file(struct lm_convert *c, const char *name, struct lm_err *err);
/* The values of a tensor that no file has, whose shape is set: it->made. */
int lm_convert_make(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err);
/* Views of every item, and its sources' shapes against them. */
int lm_convert_check_shapes(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err);
/* Join the items of a file that has just come with what its header says. */
int lm_convert_link(struct lm_convert *c, size_t shard, struct lm_err *err);

/* --- views ------------------------------------------------------------------------------ */

/*
 * Fill the item's views from its row's transform and the model's sizes.  A new transform has
 * its case here, and in lm_convert_source_shape if the source's shape is not the tensor's.
 */
int lm_convert_views(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err);

/* LM_PICK_ROWS: the rows of the pieces that the architecture's labels are. */
int lm_convert_pick_rows(struct lm_convert *c, const struct lm_hf_vocab *v, struct lm_err *err);

/* The shape that each source of the item must have, outermost first; axes of length 1 do
 * not count.  Returns the number of axes. */
uint32_t lm_convert_source_shape(const struct lm_convert *c, const struct lm_convert_item *it,
                                 uint64_t shape[LM_GGUF_MAX_DIMS]);

/* What is done to each value of a view once it is a float; is there anything? */
void lm_convert_values(const struct lm_convert_item *it, const struct lm_convert_view *view,
                       const struct lm_type *from, float *v, size_t n);
bool lm_convert_has_values(const struct lm_convert_item *it);

/* The type that a source's values have when they are read, or NULL: no weights. */
const struct lm_type *lm_convert_value_type(const struct lm_st_tensor *st);

/* --- blocks ----------------------------------------------------------------------------- */

/* A run of an item's elements that is read, converted and written at once: part of one
 * view. */
struct lm_convert_block {
    size_t                 item, view;
    uint64_t               first, n;    /* elements of the item                       */
    struct lm_convert_view box;         /* where they are in the source               */
};

/* Walks through all blocks in the order to write. */
struct lm_convert_walk {
    struct lm_convert *c;
    size_t             item, view;
    uint64_t           done;            /* elements of the view                       */
    uint64_t           base;            /* elements of the item's views before it     */
};

/* The next block; 1, 0 after the last, or a code. */
int lm_convert_next(struct lm_convert_walk *w, struct lm_convert_block *b, struct lm_err *err);

/* Memory for blocks; all zero to begin with. */
struct lm_convert_room {
    void  *raw, *ordered;
    size_t raw_cap, ordered_cap;
};

/*
 * Read what a block is made of into room->raw, in the order in which it lies in the source.
 * Calls must be in the blocks' order and not overlap.
 */
int lm_convert_fetch(struct lm_convert *c, const struct lm_convert_block *b,
                     struct lm_convert_room *room, struct lm_err *err);

/* The block's values in its own order, of lm_convert_value_type: in raw, or put in order in
 * room->ordered.  NULL when memory is short. */
const void *lm_convert_arrange(const struct lm_convert *c, const struct lm_convert_block *b,
                               struct lm_convert_room *room);

/* The element of the source that element i of the block is. */
uint64_t lm_convert_origin(const struct lm_convert_block *b, uint64_t i);

/* n bytes of a tensor from byte `off` on, as they lie in its file.  The first argument is the
 * conversion (lm_packed_reader's). */
int lm_convert_read_plain(void *convert, size_t shard, const struct lm_st_tensor *st,
                          uint64_t off, void *dst, size_t n, struct lm_err *err);

/* --- streams (convert_stream.c) ---------------------------------------------------------- */

/* Keep what the block and those after it would have to go back for. */
int lm_convert_hold(struct lm_convert *c, const struct lm_convert_block *b, struct lm_err *err);
/* Do weights come in an order that suits, and in pieces that can be kept?  LM_ENOSUP saying what
 * room --spool needs.  Files that have not come yet are not looked at. */
int lm_convert_check_stream(struct lm_convert *c, struct lm_err *err);
/* Warn of many passes through a compressed archive. */
void lm_convert_tell_passes(const struct lm_convert *c);

/* All keys and tensor infos into c->w. */
int lm_convert_keys(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err);

#endif
