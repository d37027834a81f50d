/* SPDX-License-Identifier: MIT */
#ifndef LM_FOOTPRINT_H
#define LM_FOOTPRINT_H

/*
 * What memory a model takes to run: its weights, what it remembers of a text, and room to
 * work in.  Reckoned from metadata, also for architectures that cannot be run here.  For
 * each layer, with n positions:
 *
 *   keys and values  n * heads_kv * (key_length + value_length), of the types cached
 *   in a window      the same, with n no more than the window has
 *   folded           n * (kv_lora_rank + rope.dimension_count), of the keys' type: what
 *                    latent attention can do with
 *   keys to choose by  n * attention.indexer.key_length, of the keys' type, where a layer of an
 *                    architecture that can be run chooses the positions it looks at
 *   a state          mamba    (ssm.conv_kernel - 1) * (ssm.inner_size + 2 ssm.group_count *
 *                             ssm.state_size) + ssm.inner_size * ssm.state_size
 *                    short convolution  (shortconv.l_cache - 1) * embedding_length
 *                    wkv      token_shift_count * embedding_length + embedding_length *
 *                             wkv.head_size
 *                    in 32-bit floats, whatever n is
 *
 * Which layers have attention and which a state: head_count_kv, attention.recurrent_layers or
 * full_attention_interval say so, and the layer's tensors.  An encoder that is not causal
 * remembers nothing; the decoder of an encoder-decoder has keys and values of both.  Room to
 * work in, for a batch of u positions: u * (4 embedding_length + 2 feed-forward length + heads
 * * (2 key_length + value_length)) + vocabulary, in 32-bit floats: an estimate.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf.h"

struct lm_footprint_options {
    uint64_t n_ctx;                          /* 0: what it was trained for             */
    uint32_t n_ubatch;                       /* 0: 512                                 */
    const struct lm_type *cache_k, *cache_v; /* NULL: f16                              */
    uint32_t n_device;                       /* layers on a device, the last ones; more
                                                than there are: the output too         */
};

struct lm_footprint {
    uint64_t weights;            /* bytes of the tensors' data                         */
    uint64_t n_ctx;              /* positions                                          */
    uint32_t n_ubatch;
    const struct lm_type *k_type, *v_type;
    uint32_t n_attention;        /* layers that remember positions                     */
    uint64_t kv_position;        /* bytes for a position in each of them, or all ...   */
    bool     uneven;             /* ... where they are not alike                       */
    uint64_t kv;                 /* bytes of keys and values of all positions          */
    uint32_t n_window, window;   /* layers with a window, and its positions            */
    uint64_t kv_window;          /* kv, if these keep no more than their window        */
    uint64_t latent_position, kv_latent;         /* folded: a position, and in all; 0  */
    uint32_t n_chooser;          /* layers with keys to choose by                      */
    uint64_t chooser;            /* bytes of these                                     */
    uint32_t n_recurrent;        /* layers with a state                                */
    uint64_t state;              /* bytes of all states                                */
    uint64_t work;               /* bytes to work in                                   */
    uint64_t together;           /* weights, kv, chooser, state and work               */
    uint32_t n_device;           /* layers on the device                               */
    bool     output_on_device;
    uint64_t device;             /* bytes there: all but work of these layers          */
};

/*
 * lm_footprint_of - of the model in n files, metadata in the first.
 *
 * LM_EDATA when metadata are missing, wrong or too large for 64 bits; LM_EUSE when rows of
 * keys or values are no whole blocks of a cache type.
 */
int lm_footprint_of(const struct lm_gguf *const *files, size_t n,
                    const struct lm_footprint_options *o, struct lm_footprint *out,
                    struct lm_err *err);

#endif
