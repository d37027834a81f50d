/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_H
#define LM_ARCH_H

/*
 * Architectures: what a model of one kind consists of.
 *
 * A row says everything: the name in GGUF files, the metadata keys with their
 * sources in config.json, the tensors with their shapes and their names in a
 * checkpoint, and how the graph is built.  Inspecting, converting and running
 * read the same row.
 *
 * To add an architecture:
 *   1. a file lib/arch/NAME.c with its keys, tensors and row (rows.h has those that many share),
 *      and what its graph does otherwise than others (dense.h), or a graph builder;
 *   2. its place in archs.c;
 *   3. a checkpoint with its outputs in the lists of tests/cli/reference.t; for an operation
 *      of its own a test in tests/unit/test_backend.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf.h"
#include "tensor/tensor.h"

/* How rotary frequencies are stretched beyond the training length. */
enum lm_rope_scaling { LM_ROPE_NONE, LM_ROPE_LINEAR, LM_ROPE_YARN, LM_ROPE_LONG, LM_ROPE_DYNAMIC };

/* What a feed-forward has between its products. */
enum lm_act {
    LM_ACT_SILU, LM_ACT_GELU, LM_ACT_GELU_ERF, LM_ACT_RELU2, LM_ACT_XIELU, LM_ACT_SWIGLU_CLAMP
};

#define LM_MAX_LAYERS 4096
#define LM_MAX_LABELS 65536
#define LM_MAX_XIELU 256

/* The numbers of a model.  Zero where the file has no such key, until the
 * architecture's `settle` puts the defaults in and checks them. */
struct lm_hparams {
    uint32_t n_layer, n_ctx_train, n_embd, n_ff;
    uint32_t n_head, n_head_kv;
    uint32_t head_k, head_v;          /* length of a key and of a value of one head     */
    /* The same of layers with a window; 0: as in the others. */
    uint32_t n_head_kv_local, head_k_local, head_v_local, n_rot_local;
    uint32_t n_shared_kv;             /* so many last layers have no keys and values of their
                                         own, but those of the last one before them that has or
                                         has not a window as they                       */
    uint32_t n_embd_layer;            /* length of what a token gives to each layer      */
    uint32_t n_streams, active;       /* hidden states of a token, and which a layer reads */
    uint32_t laurel_rank;             /* inner length of a second way around attention    */
    bool     has_sparse;              /* sparse[] says which layers keep only what is above
                                         sparse_above standard deviations of their gates  */
    float    sparse_above;
    uint64_t sparse[LM_MAX_LAYERS / 64];         /* bit i: layer i                        */
    uint64_t wide[LM_MAX_LAYERS / 64];           /* bit i: n_ff is twice that in layer i  */
    uint32_t n_rot;                   /* leading values of a head that are rotated       */
    uint32_t n_vocab;                 /* rows of the output matrix, set by the loader    */
    uint32_t window;                  /* positions a token sees, itself included; 0: all */
    uint32_t n_expert, n_expert_used; /* experts of a layer, and of a token              */
    uint32_t n_ff_expert, n_ff_shared;
    uint32_t n_layer_enc, n_layer_dec;       /* of an encoder and a decoder; n_layer is the more */
    uint32_t n_buckets;               /* of distances that scores depend on              */
    uint32_t max_distance;            /* beyond it all distances are the same; 0: 128     */
    uint32_t n_shared;                /* experts that all tokens have                    */
    uint32_t mixed_every;             /* after these every n-th layer has; 0: every      */
    uint32_t n_further;               /* layers behind the last, for further tokens; counted
                                         among n_layer until `settle`                    */
    uint32_t n_dense_first;           /* so many first layers have no experts            */
    uint32_t gating;                  /* of experts: 1 softmax, 2 sigmoid, 3 softmax of the
                                         chosen, 4 sqrt(softplus); 0: not said           */
    uint32_t n_group, n_group_used;   /* groups of experts, and those chosen from        */
    bool     experts_norm;            /* their shares are made to sum to 1; what the family
                                         does where no key says it                       */
    float    experts_scale;           /* which multiplies their sum; 0: not              */
    uint32_t q_rank, kv_rank;         /* inner lengths of factored projections           */
    bool     latent;                  /* what is remembered is the short vector and the rotated
                                         part of a key; head_k and head_v are its         */
    uint32_t head_k_full, head_v_full;       /* latent: a key and a value of one head      */
    uint32_t max_ctx;                 /* positions there are; 0: no end                  */
    uint32_t index_heads, index_len;  /* what chooses the positions that a token sees    */
    uint32_t index_top;               /* at most so many                                 */
    uint32_t act;                     /* 1 + enum lm_act where a key says it; 0: the family's */
    bool     has_indexed;             /* indexed[] says which layers choose; others look where
                                         the one before them does                        */
    uint64_t indexed[LM_MAX_LAYERS / 64];        /* bit i: layer i                        */
    uint32_t n_types;                 /* kinds of segments a token can be in              */
    uint32_t pooling;                 /* enum lm_pooling of an encoder's vectors          */
    uint32_t class_pooling;           /* the same of what a classifier judges             */
    uint32_t n_labels;                /* rows of the classifier, set by the loader        */
    bool     class_relu;              /* which has max(x, 0) instead of tanh              */
    uint32_t dense_2_in, dense_2_out; /* of products behind the pooling; 0: n_embd        */
    uint32_t dense_3_in, dense_3_out;
    uint32_t global_every;            /* with a window: layer 0 and every n-th after it
                                         see everything; 0: not                           */
    uint32_t conv;                    /* inputs that a convolution over time looks at     */
    uint32_t ssm_inner, ssm_state;    /* recurrent layers: width, and length of a state's row */
    uint32_t ssm_rank, ssm_groups;    /* heads or rank of the steps; groups or key heads  */
    uint32_t n_mix;                   /* RWKV: mixtures of a token and the one before     */
    uint32_t mix_rank, decay_rank;    /* inner lengths of what makes them, decays,        */
    uint32_t rate_rank, value_rank;   /* rates of learning, shares of the first values,   */
    uint32_t gate_rank;               /* and gates; 0: none                               */
    uint32_t rescale_every;           /* every n-th layer's result is halved; 0: none     */
    uint32_t attn_every;              /* every n-th layer is attention where no list says */
    float    ssm_step_least;          /* steps of a scan are not less                     */
    bool     ssm_norms;               /* inputs of a scan are normalized without weights  */
    bool     no_rope;                 /* no layer rotates                                 */
    bool     no_causal;               /* tokens see later ones, and nothing is remembered;
                                         of encoders always                               */
    bool     rope_switch;             /* what a key says that no_rope is made from        */
    bool     rope_halves;             /* positions are of several kinds, and rotated pairs are
                                         halves of a head whatever the family's are       */
    bool     has_recurrent;           /* recurrent[] says which layers are               */
    uint64_t recurrent[LM_MAX_LAYERS / 64];      /* bit i: layer i                       */
    bool     has_fed;                 /* a layer is nothing but a feed-forward where fed[] says
                                         so, or has none                                  */
    uint64_t fed[LM_MAX_LAYERS / 64];            /* bit i: layer i                        */
    uint32_t n_latent;                /* length of what experts get and give; 0: n_embd  */
    struct lm_xielu xielu[LM_MAX_XIELU];         /* of each layer, see lm_xielu            */
    bool     parallel;                /* attention and feed-forward of the same input    */
    bool     has_pattern;             /* local[] says which layers the window is for     */
    uint64_t local[LM_MAX_LAYERS / 64];          /* bit i: layer i                       */
    float    alibi;                   /* distances lower scores instead of rotation, the largest
                                         slope being 2^(-alibi / heads); 0: not              */
    float    norm_eps;
    float    norm_rms_eps;            /* above 0: that, and norms are of the root of the mean
                                         square whatever the family's are                 */
    float    attn_scale, embd_scale, residual_scale, logit_scale;
    float    attn_cap, logit_cap;     /* soft caps; 0: none                              */
    float    clamp_qkv;               /* queries, keys and values are clipped to that size
                                         before they turn; 0: not                        */
    float    rope_base;
    float    rope_base_local;         /* of layers with a window; 0: the same            */
    float    rope_attn;               /* longrope: scales cosine and sine; 0: unchanged  */
    enum lm_rope_scaling rope_scaling;
    float    rope_factor;
    uint32_t rope_orig_ctx;           /* training length before the stretching (yarn, dynamic) */
    float    yarn_ext, yarn_attn;     /* below 0 where the file has no such key          */
    float    yarn_beta_fast, yarn_beta_slow;
    bool     yarn_truncate;           /* the mix begins and ends at whole pairs; true where no
                                         key says it                                    */
    bool     qk_norms;                /* heads are normalized without weights, in families
                                         of which some are; true where no key says it     */
    uint32_t far_length;              /* positions for it; 0: rope_orig_ctx              */
    float    far_scale;               /* queries grow with their position, by ln of the
                                         training lengths before it; 0: not              */
    float    yarn_log;                /* instead of cosine and sine, scores grow, by
                                         (1 + yarn_log ln(factor))^2; 0: not              */
};

/* How the vectors of a sequence's tokens become one, as files number it. */
enum lm_pooling {
    LM_POOLING_NONE, LM_POOLING_MEAN, LM_POOLING_CLS, LM_POOLING_LAST, LM_POOLING_RANK,
    LM_N_POOLING
};

/* Where a key's value comes from in a checkpoint. */
enum lm_key_from {
    LM_FROM_NOTHING,        /* never written by conversion                                */
    LM_FROM_CONFIG,         /* first of config[] that config.json has                     */
    LM_FROM_HEAD_DIM,       /* head_dim, else hidden_size / num_attention_heads           */
    LM_FROM_ROT_DIM,        /* that times config[], in rope_parameters or config.json; one
                               that begins with # is the number itself                   */
    LM_FROM_SUM,            /* of all config[]                                            */
    LM_FROM_4_TIMES,        /* 4 times the first of config[] that config.json has         */
    LM_FROM_8_THIRDS,       /* 8 / 3 of it, cut to a whole number and up to a multiple of 256 */
    LM_FROM_2_THIRDS,       /* 2 / 3 of it, cut to a whole number and up to a multiple of 8 */
    LM_FROM_RATIO,          /* f32: config[0] / config[1]                                 */
    LM_FROM_ROOT_RATIO,     /* f32: config[0] / the root of config[1]                     */
    LM_FROM_PRE_ATTN,       /* f32: 1 / the root of config[0], else of 256; not written where it
                               is what the family makes of the keys before it             */
    LM_FROM_ACT,            /* str: the activation config[0]; not written where it is the one that
                               the row's "=NAME" is, which is the family's               */
    LM_FROM_KV_HEADS,       /* config[], but 1 with multi_query and the old falcon layout */
    LM_FROM_PRODUCT,        /* of all config[]; those that begin with / divide            */
    LM_FROM_IS_CLASS,       /* bool: is config[0] the class in config.json                */
    LM_FROM_16TH,           /* config[0], else config[1] divided by 16, rounded up        */
    LM_FROM_FF_ADJUSTED,    /* config[], cut by LFM2's rule                               */
    LM_FROM_GLOBAL,         /* config[0], else config[1] of what per_layer_config says, the
                               same in all its layers, else the rest of config[]          */
    LM_FROM_ROPE_NTK,       /* as ROPE; with dynamic scaling by a constant alpha, times
                               alpha^(d / (d - 2)), d being head_dim                      */
    LM_FROM_EACH,           /* the first of config[] there is, a number or a list of equal ones */
    LM_FROM_DENSE_FIRST,    /* config[0], else the first layers that mlp_layer_types calls
                               dense, the others being sparse                             */
    LM_FROM_UNLESS,         /* config[0] in rope_parameters or config.json itself, but the
                               default is not written                                    */
    LM_FROM_EACH_LAYER,     /* f32 array: the tensor config[0] of each layer, one number; `field`
                               is an offset in struct lm_xielu                           */
    LM_FROM_SPARSE_LAYERS,  /* f32 array: the quantile of the normal distribution at every
                               share of the list config[0]                                */
    LM_FROM_KV_BY_WINDOW,   /* i32 array: config[2] in layers with a window, else as GLOBAL;
                               a u32 where all are equal                                  */
    LM_FROM_FF_OF_LAYERS,   /* i32 array, or a u32 where all are equal: config[0], which may
                               be a list; twice that in the last n_shared_kv layers if config[1] */
    LM_FROM_FF_OF_KINDS,    /* i32 array: config[0] in layers that are a feed-forward or experts,
                               else 0                                                     */
    LM_FROM_LAYER_COUNT,    /* the first of config[] there is, a number, or a list or text with a
                               member for each layer                                      */
    LM_FROM_KV_OF_LAYERS,   /* i32 array: config[0], or "=N", in layers with attention, else 0 */
    LM_FROM_RECURRENT_LAYERS, /* bool array: layer i is recurrent                         */
    LM_FROM_INDEXED_LAYERS, /* bool array: layer i chooses positions, as indexer_types, a pattern
                               of them, or a number of layers that share a choice says    */
    LM_FROM_SECTIONS,       /* i32 array of 4: mrope_section                              */
    LM_FROM_SECTIONS_SAID,  /* the same, not written without                              */
    LM_FROM_COUNT,          /* members of the list config[1] of the object config[0]      */
    LM_FROM_LOCAL_LAYERS,   /* layer_types[i] is "sliding_attention"; with a window only  */
    LM_FROM_ROPE_LOCAL,     /* rope_theta of sliding_attention, else config[]             */
    LM_FROM_ROPE_ATTN,      /* longrope's factor of cosine and sine                       */
    LM_FROM_ROPE_OR_NONE,   /* the scaling's name, "none" without                         */
    LM_FROM_ROPE,           /* config[] in rope_parameters or config.json itself          */
    LM_FROM_ROPE_TYPE,      /* the scaling's name: "linear", "yarn"; else not written     */
    LM_FROM_ROPE_LINEAR,    /* config[] in rope_scaling, when it is linear or yarn        */
    LM_FROM_ROPE_YARN,      /* config[] in rope_scaling, when it is yarn                  */
    LM_FROM_GATING,         /* config[]: "softmax" is 1, "sigmoid" 2, "sqrtsoftplus" 4    */
    LM_FROM_IF_TRUE,        /* config[], but false is not written                         */
    LM_FROM_YARN_LOG,       /* config[] / 10 in rope_scaling, when it is yarn             */
    LM_FROM_POOLING,        /* the pooling of modules.json and the folder it names, or "=N"
                               where they say nothing                                     */
    LM_FROM_MODULES,        /* what modules.json names behind the pooling: the field says it    */
    LM_FROM_GLOBAL_EVERY,   /* config[0], else what layer_types, full_attention in layer 0 and
                               every n-th after it, makes it                              */
    LM_FROM_LABELS,         /* str array: the object config[0] by its numbers, unless it is what
                               a config without has; or "=LABEL" ..                       */
    LM_FROM_POOLING_NAME,   /* config[] is "mean", "cls" or "last"                        */
    LM_FROM_POSITIONS,      /* config[], less pad_token_id + 1 rows that are never used   */
    LM_FROM_FURTHER,        /* layers behind the last that the checkpoint has; none: not written */
    LM_FROM_FILE_TYPE       /* the number of the file's main type                         */
};

enum {
    LM_KEY_REQUIRED = 1,    /* a file without it cannot be run, nor written               */
    LM_KEY_UNUSED   = 2,    /* not read for running: `field` says nothing                 */
    LM_KEY_OR_NUMBER = 8,   /* a list of equal numbers is written as one                  */
    LM_KEY_EARLY = 16,      /* written before general.type                                */
    LM_KEY_OF_VOCAB = 4     /* written among the tokenizer's keys                         */
};

/* A metadata key; rows stand in the order in which conversion writes them. */
struct lm_arch_key {
    const char       *name;         /* after "ARCH.", unless it begins with "general.",
                                       "tokenizer." or "xielu."                            */
    enum lm_gguf_kind kind;         /* as written; U32, F32, BOOL, STR or (BOOL) ARR      */
    unsigned          flags;
    enum lm_key_from  from;
    const char       *config[6];    /* names in config.json, NULL after the last; "=V": the
                                       value where the config's class has a default       */
    size_t            field;        /* offset in struct lm_hparams of the u32, f32, bool or
                                       (STR: the scaling's name) enum it sets; ARR: local */
};

/* A size that a tensor's shape is made of. */
enum lm_dim {
    LM_DIM_END,             /* no further dimension                                       */
    LM_DIM_EMBD,            /* n_embd                                                     */
    LM_DIM_VOCAB,           /* n_vocab                                                    */
    LM_DIM_FF,              /* n_ff                                                       */
    LM_DIM_Q,               /* n_head * head_k                                            */
    LM_DIM_K,               /* n_head_kv * head_k                                         */
    LM_DIM_V,               /* n_head_kv * head_v                                         */
    LM_DIM_HEADS_OUT,       /* n_head * head_v                                            */
    LM_DIM_ROT_PAIRS,       /* n_rot / 2                                                  */
    LM_DIM_QKV,             /* all rows of queries, keys and values                       */
    LM_DIM_2_FF,            /* 2 n_ff                                                     */
    LM_DIM_HEAD_K,          /* head_k                                                     */
    LM_DIM_HEADS,           /* n_head                                                     */
    LM_DIM_HEADS_KV,        /* n_head_kv                                                  */
    LM_DIM_CTX,             /* n_ctx_train                                                */
    LM_DIM_Q_RANK,          /* q_rank                                                     */
    LM_DIM_KV_RANK,         /* kv_rank                                                    */
    LM_DIM_KV_RANK_ROT,     /* kv_rank + n_rot                                            */
    LM_DIM_1,
    LM_DIM_EXPERTS,         /* n_expert                                                   */
    LM_DIM_FF_EXPERT,       /* n_ff_expert                                                */
    LM_DIM_FF_SHARED,       /* n_ff_shared                                                */
    LM_DIM_KV_INNER,        /* n_head * (head_k - n_rot + head_v)                         */
    LM_DIM_TYPES,           /* n_types                                                    */
    LM_DIM_BUCKETS,         /* n_buckets                                                  */
    LM_DIM_PLAIN,           /* head_k_full - n_rot                                        */
    LM_DIM_V_FULL,          /* head_v_full                                                */
    LM_DIM_Q_FULL,          /* n_head * head_k_full                                       */
    LM_DIM_OUT_FULL,        /* n_head * head_v_full                                       */
    LM_DIM_2_Q,             /* 2 n_head * head_k                                          */
    LM_DIM_2_EMBD,          /* 2 n_embd                                                   */
    LM_DIM_3_EMBD,          /* 3 n_embd                                                   */
    LM_DIM_CONV,            /* conv                                                       */
    LM_DIM_SSM_INNER,       /* ssm_inner                                                  */
    LM_DIM_SSM_2_INNER,     /* 2 ssm_inner                                                */
    LM_DIM_SSM_STATE,       /* ssm_state                                                  */
    LM_DIM_SSM_RANK,        /* ssm_rank                                                   */
    LM_DIM_SSM_2_RANK,      /* 2 ssm_rank                                                 */
    LM_DIM_SSM_STEP,        /* ssm_rank + 2 ssm_state                                     */
    LM_DIM_SSM_CHANNELS,    /* ssm_inner + 2 ssm_groups * ssm_state                       */
    LM_DIM_SSM_ALL,         /* 2 ssm_inner + 2 ssm_groups * ssm_state + ssm_rank          */
    LM_DIM_SSM_GROUPS,      /* ssm_groups                                                 */
    LM_DIM_SSM_OF_GROUP,    /* ssm_inner / ssm_groups                                     */
    LM_DIM_STREAMS,         /* n_streams                                                  */
    LM_DIM_FURTHER_STREAMS, /* n_streams - 1                                              */
    LM_DIM_STREAM_PAIRS,    /* n_streams n_streams                                        */
    LM_DIM_LAUREL,          /* laurel_rank                                                */
    LM_DIM_EXPERT_IN,       /* n_latent, or n_embd                                        */
    LM_DIM_2_FF_EXPERT,     /* 2 n_ff_expert                                              */
    LM_DIM_EMBD_LAYER,      /* n_embd_layer                                               */
    LM_DIM_EMBD_LAYERS,     /* n_layer n_embd_layer                                       */
    LM_DIM_SSM_OF_HEAD,     /* ssm_inner / ssm_rank                                       */
    LM_DIM_MIXES,           /* n_mix                                                      */
    LM_DIM_MIX_RANK,        /* mix_rank                                                   */
    LM_DIM_MIX_ALL,         /* n_mix mix_rank                                             */
    LM_DIM_DECAY_RANK, LM_DIM_RATE_RANK, LM_DIM_VALUE_RANK, LM_DIM_GATE_RANK,
    LM_DIM_LABELS,          /* n_labels                                                   */
    LM_DIM_INDEX,           /* index_len                                                  */
    LM_DIM_INDEX_HEADS,     /* index_heads                                                */
    LM_DIM_INDEX_ALL,       /* index_heads index_len                                      */
    LM_DIM_DENSE_2_IN, LM_DIM_DENSE_2_OUT,       /* dense_2_in .. dense_3_out, or n_embd  */
    LM_DIM_DENSE_3_IN, LM_DIM_DENSE_3_OUT
};

/* What conversion does to a tensor. */
enum lm_transform {
    LM_AS_IS,
    LM_PAIR_Q_ROWS,         /* rows of each of n_head heads from two halves to neighbouring
                               pairs: reshape(H, 2, d/2, cols), swap axes 1 and 2          */
    LM_PAIR_K_ROWS,         /* the same for n_head_kv heads                               */
    LM_PAIR_TURNED_Q_ROWS,  /* the same for the first n_rot rows of a head, others as they are */
    LM_PAIR_TURNED_K_ROWS,
    LM_HALVE_Q_ROWS,        /* of those rows neighbouring pairs become two halves; only where
                               rope_halves says that it wants them so                     */
    LM_HALVE_K_ROWS,
    LM_ADD_ONE,             /* every weight plus 1                                        */
    LM_TRANSPOSE,           /* columns become rows                                        */
    LM_SPLIT_QKV_ROWS,      /* rows in n_head_kv groups of queries, key, value become all
                               queries, all keys, all values                              */
    /* From one source with n_head_kv groups of queries, a key and a value: all queries, all keys,
     * both as PAIR_Q_ROWS has them, or all values. */
    LM_GROUPED_Q, LM_GROUPED_K, LM_GROUPED_V,
    /* The same from all queries, then all keys, then all values. */
    LM_PACKED_Q, LM_PACKED_K, LM_PACKED_V,
    LM_STACK,               /* {h} in the source counts tensors that lie one behind the other
                               along the last axis; experts may also be one tensor, with
                               gates and their partners in another                        */
    LM_FIRST_HALVES,        /* of each matrix of a stack, the first half of the rows; the
                               next row of the table has the second                       */
    LM_SECOND_HALVES,       /* a source of the turned shape is transposed, here and in the
                               next                                                       */
    LM_STACK_AS_FITS,
    LM_FIRST_HALVES_TURNED, /* the source is transposed whatever its shape                */
    LM_SECOND_HALVES_TURNED,
    LM_SWAP_SECOND,         /* where the source is the second, the second half of its rows first */
    LM_STACKED_ROWS,        /* the source is one matrix, the stack's one behind the other */
    LM_STACKED_ROWS_TURNED, /* the same, each of them transposed                          */
    LM_LATENT_KEYS,         /* of each head of kv_b's rows those for keys, transposed     */
    LM_LATENT_VALUES,       /* those for values                                           */
    LM_EVEN_ROWS,           /* of each matrix of a stack, rows 0, 2, ..; where the source is no
                               block type it is transposed as well                        */
    LM_ODD_ROWS,
    LM_STACK_TURNED,        /* a stack, transposed unless the source is a block type      */
    LM_REPEAT_FIRST_ROW,    /* a table with fewer rows than there are tokens: those that are
                               missing are the first                                      */
    LM_SKIP_PADDING_ROWS,   /* without the first rows, which are for padding              */
    LM_FLAT,                /* the source has one axis                                    */
    LM_NEG_EXP,             /* -exp of every weight                                       */
    LM_DELTA_QKV,           /* rows of ssm_groups key heads, each with a query, a key, its
                               values and their gates: all queries, all keys, all values  */
    LM_DELTA_GATE,          /* of the same, all gates                                     */
    LM_TILE_ROWS,           /* rows, of ssm_rank heads that neighbour others of their key
                               head: the first of every key head, the second ..           */
    LM_TILE_ROWS_NEG_EXP,
    LM_TILE_COLUMNS,        /* the same for columns                                       */
    LM_TILE_LAST_ROWS,      /* the same for rows after those of queries and keys          */
    LM_TIMES,               /* every weight times the family's factors, one by one       */
    LM_TIMES_ROWS,          /* times the first, then the rows of gate, x, b, c, dt times those
                               of a list                                                  */
    LM_PICK_ROWS,           /* of the output matrix, or of the embedding where these are
                               tied, the rows of the pieces that the labels are           */
    LM_MAKE_ROPE_FREQS,     /* made, not read: llama3 frequency factors; only when
                               rope_scaling is of type llama3                             */
    LM_MAKE_ROPE_PART,      /* 1 for the first pairs, which turn, and 1e30 for the others; only
                               for proportional                                           */
    LM_MAKE_ROPE_LONG,      /* long_factor of rope_scaling; only for longrope             */
    LM_MAKE_ROPE_SHORT      /* short_factor, likewise                                     */
};

enum {
    LM_TENSOR_OPTIONAL  = 1,    /* may be missing                                         */
    LM_TENSOR_PER_LAYER = 2,    /* {i} stands for the layer                               */
    LM_TENSOR_MATRIX    = 4,    /* multiplied with: may be repacked for it                */
    LM_TENSOR_TABLE     = 8,    /* rows are looked up                                     */
    LM_TENSOR_EXPERTS   = 16,   /* a matrix for each expert                               */
    LM_TENSOR_IF_DENSE  = 32,   /* only in models without experts                         */
    LM_TENSOR_IF_MIXED  = 64,   /* only in models with experts                            */
    LM_TENSOR_IF_ATTN   = 128,  /* only in layers with attention                          */
    LM_TENSOR_IF_RECURRENT = 256,       /* only in recurrent layers                       */
    LM_TENSOR_OF_DRAFT  = 512,  /* only in layers behind the last (n_further), which have
                                   those of other layers too                              */
    LM_TENSOR_OWN_CHOICE = 1024 /* may be missing in layers that look where another does  */
};

/* More of these: */
enum {
    LM_TENSOR_IF_Q_RANK = 1 << 12,      /* only in models that factor queries             */
    LM_TENSOR_NO_Q_RANK = 1 << 13,
    LM_TENSOR_IF_LATENT = 1 << 14,      /* only where the latent vector is remembered     */
    LM_TENSOR_NO_LATENT = 1 << 15,
    LM_TENSOR_IF_SHARED = 1 << 16,      /* only with shared experts                       */
    LM_TENSOR_NOT_FIRST = 1 << 17,      /* not in layer 0                                 */
    LM_TENSOR_HEADS     = 1 << 18,      /* a matrix for each head                         */
    LM_TENSOR_OF_ENCODER = 1 << 19,     /* in the encoder's layers of a model with both   */
    LM_TENSOR_OF_DECODER = 1 << 20,
    LM_TENSOR_IF_LAYER_INPUT = 1 << 21, /* only where layers have inputs of their own     */
    LM_TENSOR_IF_FED    = 1 << 23,      /* only in layers with a feed-forward             */
    LM_TENSOR_IF_EXPERT_IN = 1 << 24,   /* only where experts have inputs of another length */
    LM_TENSOR_OWN_KV    = 1 << 22,      /* may be missing in layers that have another's keys
                                           and values                                     */
    /* What may be missing, but not: */
    LM_TENSOR_IN_FIRST  = 1 << 25,      /* in layer 0                                     */
    LM_TENSOR_ALL_OR_NONE = 1 << 26,    /* in some layers only                            */
    LM_TENSOR_IF_ROUTER = 1 << 27,      /* in layers that have a router's                 */
    LM_TENSOR_NO_ROUTER = 1 << 28,      /* in others                                      */
    LM_TENSOR_UNLESS_ZERO = 1 << 29,    /* left out by conversion where it is all zeros   */
    LM_TENSOR_ONLY_FIRST = 1 << 30      /* in layer 0 only                                */
};

/* What a tensor is for; a bias follows its weight. */
enum lm_role {
    LM_TOKEN_EMBD, LM_POS_EMBD, LM_TYPE_EMBD, LM_EMBD_NORM, LM_EMBD_NORM_B, LM_ROPE_FREQS,
    LM_ROPE_LONG_FACTORS, LM_ROPE_SHORT_FACTORS,
    LM_OUTPUT, LM_OUTPUT_B, LM_OUTPUT_NORM, LM_OUTPUT_NORM_B,
    LM_ATTN_NORM, LM_ATTN_NORM_B, LM_ATTN_NORM_2, LM_ATTN_NORM_2_B,
    LM_ATTN_Q, LM_ATTN_Q_B, LM_ATTN_K, LM_ATTN_K_B, LM_ATTN_V, LM_ATTN_V_B,
    LM_ATTN_QKV, LM_ATTN_QKV_B, LM_ATTN_SUB_NORM, LM_ATTN_SUB_NORM_B, LM_ATTN_OUT, LM_ATTN_OUT_B,
    LM_ATTN_GATE, LM_ATTN_GATE_B,
    LM_ATTN_Q_NORM, LM_ATTN_Q_NORM_B, LM_ATTN_K_NORM, LM_ATTN_K_NORM_B,
    LM_ATTN_Q_A, LM_ATTN_Q_A_B, LM_ATTN_Q_A_NORM, LM_ATTN_Q_A_NORM_B,
    LM_ATTN_KV_A, LM_ATTN_KV_A_B, LM_ATTN_KV_A_NORM, LM_ATTN_KV_A_NORM_B,
    LM_ATTN_KV_B, LM_ATTN_KV_B_B, LM_ATTN_OUT_NORM, LM_ATTN_OUT_NORM_B, LM_LAYER_OUT_NORM,
    LM_LAYER_OUT_NORM_B, LM_CLS, LM_CLS_B, LM_CLS_NORM, LM_CLS_NORM_B, LM_CLS_OUT,
    LM_CLS_OUT_B, LM_DENSE_2, LM_DENSE_2_B, LM_DENSE_3, LM_DENSE_3_B, LM_ATTN_SINKS,
    LM_LATENT_K, LM_LATENT_V, LM_EXPERT_PREFERENCE,
    LM_GATE_EXPERTS_B, LM_UP_EXPERTS_B, LM_DOWN_EXPERTS_B,
    LM_ATTN_BIAS, LM_CROSS_NORM, LM_CROSS_Q, LM_CROSS_K, LM_CROSS_V, LM_CROSS_OUT,
    LM_ENC_NORM, LM_ENC_Q, LM_ENC_K, LM_ENC_V, LM_ENC_OUT, LM_ENC_BIAS, LM_ENC_FFN_NORM,
    LM_ENC_FFN_GATE, LM_ENC_FFN_UP, LM_ENC_FFN_DOWN, LM_ENC_OUTPUT_NORM,
    LM_POST_ATTN_NORM, LM_POST_ATTN_NORM_B,
    LM_FFN_NORM, LM_FFN_NORM_B, LM_FFN_GATE, LM_FFN_GATE_B, LM_FFN_UP, LM_FFN_UP_B,
    LM_FFN_SUB_NORM, LM_FFN_SUB_NORM_B, LM_FFN_DOWN, LM_FFN_DOWN_B, LM_POST_FFN_NORM,
    LM_POST_FFN_NORM_B,
    LM_ROUTER, LM_ROUTER_B, LM_GATE_EXPERTS, LM_UP_EXPERTS, LM_DOWN_EXPERTS,
    LM_ROUTER_SHARED, LM_ROUTER_SHARED_B, LM_GATE_SHARED, LM_GATE_SHARED_B,
    LM_UP_SHARED, LM_UP_SHARED_B, LM_DOWN_SHARED, LM_DOWN_SHARED_B,
    LM_SSM_IN, LM_SSM_IN_B, LM_SSM_CONV, LM_SSM_CONV_B, LM_SSM_X, LM_SSM_X_B, LM_SSM_DT,
    LM_SSM_DT_B, LM_SSM_A, LM_SSM_D, LM_SSM_DT_NORM, LM_SSM_B_NORM, LM_SSM_C_NORM, LM_SSM_NORM,
    LM_SSM_OUT, LM_SSM_OUT_B, LM_SSM_GATE, LM_SSM_GATE_B, LM_SSM_BA, LM_SSM_BA_B, LM_SSM_ALPHA,
    LM_SSM_ALPHA_B, LM_SSM_BETA, LM_SSM_BETA_B,
    LM_LAYERS_EMBD, LM_LAYERS_PROJ, LM_LAYERS_PROJ_B, LM_LAYERS_NORM, LM_LAYERS_NORM_B,
    LM_LAYER_GATE, LM_LAYER_GATE_B, LM_LAYER_PROJ, LM_LAYER_PROJ_B, LM_LAYER_NORM, LM_LAYER_NORM_B,
    LM_STREAM_PROJ, LM_STREAM_UNPROJ, LM_STREAM_NORM, LM_STREAM_NORM_B, LM_STREAM_ROUTER,
    LM_STREAM_ROUTER_B, LM_STREAM_PREDICT, LM_STREAM_PREDICT_B, LM_STREAM_CORRECT,
    LM_STREAM_CORRECT_B, LM_STREAM_SCALE, LM_LAUREL_L, LM_LAUREL_L_B, LM_LAUREL_R, LM_LAUREL_R_B,
    LM_LAUREL_NORM, LM_LAUREL_NORM_B, LM_EXPERTS_IN, LM_EXPERTS_IN_B,
    LM_EXPERTS_OUT, LM_EXPERTS_OUT_B, LM_LAYER_SCALE, LM_BOTH_ROUTER, LM_BOTH_ROUTER_B,
    LM_ROUTER_SCALE, LM_EXPERT_SCALE,
    LM_GATE_UP_EXPERTS, LM_GATE_UP_EXPERTS_B, LM_FFN_NORM_2, LM_FFN_NORM_2_B, LM_POST_FFN_NORM_1,
    LM_POST_FFN_NORM_1_B, LM_POST_FFN_NORM_2, LM_POST_FFN_NORM_2_B,
    LM_ATTN_AGAIN_NORM, LM_ATTN_AGAIN_NORM_B, LM_EXPERTS_SUM_B,
    LM_INDEX_NORM, LM_INDEX_NORM_B, LM_INDEX_SHARES, LM_INDEX_SHARES_B, LM_INDEX_K, LM_INDEX_K_B,
    LM_INDEX_Q, LM_INDEX_Q_B,
    LM_KDA_CONV_Q, LM_KDA_CONV_K, LM_KDA_CONV_V, LM_KDA_F_A, LM_KDA_F_A_B, LM_KDA_F_B,
    LM_KDA_F_B_B, LM_KDA_G_A, LM_KDA_G_A_B, LM_KDA_G_B, LM_KDA_G_B_B,
    LM_RWKV_LERP, LM_RWKV_LERP_X, LM_RWKV_LERP_W, LM_RWKV_LERP_K, LM_RWKV_LERP_V, LM_RWKV_LERP_R,
    LM_RWKV_LERP_G, LM_RWKV_MIX_A, LM_RWKV_MIX_A_B, LM_RWKV_MIX_B, LM_RWKV_DECAY_A,
    LM_RWKV_DECAY_A_B, LM_RWKV_DECAY_B, LM_RWKV_DECAY_B_B, LM_RWKV_RATE_A, LM_RWKV_RATE_A_B,
    LM_RWKV_RATE_B, LM_RWKV_RATE_B_B, LM_RWKV_VALUE_A, LM_RWKV_VALUE_A_B, LM_RWKV_VALUE_B,
    LM_RWKV_VALUE_B_B, LM_RWKV_GATE_A, LM_RWKV_GATE_A_B, LM_RWKV_GATE_B, LM_RWKV_GATE_B_B,
    LM_RWKV_GATE, LM_RWKV_GATE_BIAS, LM_RWKV_BONUS, LM_RWKV_KEY_UNIT, LM_RWKV_KEY_RATE,
    LM_RWKV_NORM, LM_RWKV_NORM_B, LM_RWKV_FEED_K, LM_RWKV_FEED_R, LM_RWKV_FEED_GATE,
    LM_RWKV_FEED_GATE_B,
    LM_DRAFT_EMBD, LM_DRAFT_EMBD_NORM, LM_DRAFT_EMBD_NORM_B, LM_DRAFT_HIDDEN_NORM,
    LM_DRAFT_HIDDEN_NORM_B, LM_DRAFT_JOIN, LM_DRAFT_JOIN_B, LM_DRAFT_OUTPUT, LM_DRAFT_OUTPUT_B,
    LM_DRAFT_OUTPUT_NORM, LM_DRAFT_OUTPUT_NORM_B,
    LM_N_ROLES
};

struct lm_arch_tensor {
    const char       *name;         /* "blk.{i}.attn_q.weight"                            */
    const char       *source;       /* "model.layers.{i}.self_attn.q_proj.weight"; NULL:
                                       not in checkpoints                                 */
    enum lm_dim       ne[LM_GGUF_MAX_DIMS];     /* innermost first                        */
    unsigned          flags;
    enum lm_transform transform;
    int               instead;      /* index + 1 of the tensor that takes its place when it
                                       is missing (tied output); 0: none                  */
    enum lm_role      role;
    const char       *source_2;     /* another name of the source, or NULL                */
};

/* What LM_TIMES and LM_TIMES_ROWS multiply a tensor by. */
struct lm_arch_factor {
    enum lm_role role;              /* LM_N_ROLES ends the list                           */
    const char  *names[2];          /* of numbers, "NAME.i" of an entry of a list, or
                                       (TIMES_ROWS, the second) of a list of five         */
};

/* What config.json may say, where a family can otherwise not be run: the values that `name` may
 * have as JSON writes them, null and silence among them. */
struct lm_arch_need {
    const char *name;               /* NULL ends the list                                 */
    const char *values[3];          /* NULL after the last                                */
    const char *when;               /* it only counts when this is true; or NULL          */
};

struct lm_build;                    /* build.h: what a graph builder works with           */

/* What the tokenizer of a family is, whatever a checkpoint's files say. */
struct lm_arch_token {
    const char *key;            /* after "tokenizer.ggml."                                */
    const char *text;           /* the piece whose id it is; written among the other ids  */
    uint32_t    id;             /* without a text: the id, or for "add_space_prefix" 0 or 1;
                                   written last                                           */
};

struct lm_dense;                    /* dense.h                                            */
struct lm_memory_layer;             /* memory/memory.h                                    */

struct lm_arch {
    const char                  *name;          /* general.architecture                   */
    const char *const           *hf_classes;    /* architectures[0] of config.json,
                                                   NULL-terminated; where checkpoints of
                                                   one architecture differ there are several
                                                   rows of its name, the same but for names
                                                   and transformations                    */
    const struct lm_arch_key    *keys;          /* ends with a NULL name                  */
    const struct lm_arch_tensor *tensors;       /* ends with a NULL name                  */
    const char *const           *ignored;       /* checkpoint tensors that are dropped,
                                                   NULL-terminated                        */
    const char *const           *prefixes;      /* before names in some checkpoints, which
                                                   the table does not have; NULL-terminated,
                                                   or NULL                                */
    bool                         more_layers;   /* checkpoints have layers behind the last, to
                                                   predict further tokens; dropped, but for those
                                                   of a family with LM_T_DRAFT (rows.h)   */
    const char *const           *draft_names;   /* checkpoints have the first of them under other
                                                   names: pairs of how these begin, and what is
                                                   behind "model.layers.N." instead;
                                                   NULL-terminated, or NULL               */
    bool                         has_encoder;   /* an encoder beside the decoder           */
    bool                         encoder;       /* tokens see those after them too: sequences
                                                   are evaluated whole and not remembered */
    /* Defaults for what the keys left at zero, and every check that makes the numbers safe
     * to size memory with.  LM_EDATA or LM_ENOSUP naming the key. */
    int (*settle)(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);
    /* What a layer remembers; NULL: keys and values of n_head_kv heads. */
    void (*memory)(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                   struct lm_memory_layer *out);
    /* Append the nodes of one evaluation to the graph. */
    int (*build)(struct lm_build *b);
    const struct lm_dense       *dense;         /* what its builder varies                */
    /* The family's name for a pre-tokenizer that several names share: pairs of the name
     * that its expressions are recognised by and the family's own; NULL-terminated, or NULL. */
    const char *const           *pre_names;
    const struct lm_arch_token  *tokens;        /* ends with a NULL key; or NULL          */
    bool                         adds_first;    /* whether a token is added at the beginning
                                                   or end stands before the tokens' keys  */
    const struct lm_arch_factor *factors;       /* or NULL                                */
    const struct lm_arch_need   *needs;         /* or NULL                                */
    const char                  *rerank;        /* text that a pair of texts is put in to be
                                                   judged, for {query} and {document}; or NULL */
    const struct lm_arch        *mixed;         /* the row of checkpoints of the same classes some
                                                   of whose layers are experts, or NULL   */
    const struct lm_arch        *plain;         /* the row of those none of whose layers are
                                                   recurrent, or NULL                     */
};

extern const struct lm_arch *const lm_archs[];      /* NULL-terminated */

/* The row of a general.architecture, or NULL. */
const struct lm_arch *lm_arch_by_name(const char *name);

/* The row of a class that the architectures of a config.json name, or NULL. */
const struct lm_arch *lm_arch_by_class(const char *name);

#define LM_ARCH_NAME 128        /* bytes that a key's or a tensor's name takes with its NUL */

/* "ARCH.name", or the name itself when it begins with "general." or "tokenizer.".  dst holds
 * LM_ARCH_NAME. */
void lm_arch_key_name(const struct lm_arch *a, const struct lm_arch_key *k, char *dst);

/* A pattern with {i} replaced by the layer.  dst holds LM_ARCH_NAME. */
void lm_arch_expand(const char *pattern, uint32_t layer, char *dst);

/*
 * lm_arch_match - does `name` fit the pattern?  *layer becomes the number that stands
 * for {i} (plain decimal, no leading zeros; 0 without one), *part, if not NULL, that for
 * another letter.  A pattern that ends with * fits whatever follows.
 */
bool lm_arch_match(const char *pattern, const char *name, uint32_t *layer, uint32_t *part);

/* The row that a tensor of a file belongs to, and its layer, or NULL; of several the one that the
 * layer can have. */
const struct lm_arch_tensor *lm_arch_row_of(const struct lm_arch *a, const struct lm_hparams *h,
                                            const char *name, uint32_t *layer);

/* Can, must a model of these numbers have a tensor for the row in a layer?  there: has it one
 * of that name? */
bool lm_arch_allows(const struct lm_arch_tensor *t, const struct lm_arch *a,
                    const struct lm_hparams *h, uint32_t layer);
bool lm_arch_needs(const struct lm_arch_tensor *t, const struct lm_arch *a,
                   const struct lm_hparams *h, uint32_t layer,
                   bool (*there)(const void *arg, const char *name), const void *arg);

/* Is a layer recurrent; has it a feed-forward or experts; has it attention? */
bool lm_arch_recurrent(const struct lm_hparams *h, uint32_t layer);
bool lm_arch_feeds(const struct lm_hparams *h, uint32_t layer);
bool lm_arch_attends(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer);

/* Does a layer choose the positions that its tokens look at? */
bool lm_arch_chooses(const struct lm_hparams *h, uint32_t layer);

/* Has the family's table a tensor of that role? */
bool lm_arch_has(const struct lm_arch *a, enum lm_role role);

/* Number of tensor rows. */
size_t lm_arch_n_tensors(const struct lm_arch *a);

/* Does a model of the family read the key ARCH.name? */
bool lm_arch_reads(const struct lm_arch *a, const char *name);

/*
 * lm_arch_read - the numbers of a model from its metadata, defaults put in and all
 * of them checked.  n_vocab is left for the caller, who knows the output matrix.
 *
 * LM_EDATA naming the key when one is missing, of another type or out of range;
 * LM_ENOSUP when it asks for what cannot be run.
 */
int lm_arch_read(const struct lm_arch *a, const struct lm_gguf *g, struct lm_hparams *h,
                 struct lm_err *err);

/* Values of a list that says something of every layer (a flag is 1 or 0), n of them, or one that is
 * for all: into h.  Those of LM_FROM_LOCAL_LAYERS come before others.  LM_EDATA or LM_ENOSUP
 * naming the key, which is called `name`. */
int lm_arch_set_list(const struct lm_arch_key *k, const char *name, const int32_t *values, size_t n,
                     struct lm_hparams *h, struct lm_err *err);

/* What an activation of that name is, 1 + enum lm_act, in *act; returns the name that files use for
 * it, or NULL when it is unknown. */
const char *lm_arch_act(const char *name, size_t len, uint32_t *act);

/* The same for LM_FROM_SPARSE_LAYERS, whose values are floats. */
int lm_arch_set_sparse(const char *name, const float *values, size_t n, struct lm_hparams *h,
                       struct lm_err *err);

/* The numbers of one layer: h itself, or *room filled with a copy of it in which those that differ
 * between layers are the layer's. */
const struct lm_hparams *lm_arch_layer(const struct lm_arch *a, const struct lm_hparams *h,
                                       uint32_t layer, struct lm_hparams *room);

/* The layer whose keys and values a layer looks at: itself, or another. */
uint32_t lm_arch_kv_layer(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer);

/* How many positions a layer sees; 0: all. */
uint32_t lm_arch_window(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer);

/*
 * What is remembered between evaluations: lm_arch_memory of each of lm_arch_n_memory, its layers
 * and, where layers choose the positions that they look at, as many times again what layer
 * i - n_layer does it by.
 */
uint32_t lm_arch_n_memory(const struct lm_hparams *h);
void lm_arch_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                    struct lm_memory_layer *out);

/* The shape of a tensor of a layer: fills ne (1 beyond the last), returns the number of
 * dimensions, 0 when a product does not fit. */
uint32_t lm_arch_shape(const struct lm_arch_tensor *t, const struct lm_arch *a,
                       const struct lm_hparams *h, uint32_t layer,
                       uint64_t ne[LM_GGUF_MAX_DIMS]);

#endif
