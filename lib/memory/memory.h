/* SPDX-License-Identifier: MIT */
#ifndef LM_MEMORY_H
#define LM_MEMORY_H

/*
 * What sequences remember between evaluations.
 *
 * One memory serves every kind of model; what its layers ask for says what it is made of:
 *
 *   keys and values      of all positions, in pages (pages.c)
 *   keys alone           the same, as layers of their own: what positions are chosen by
 *   a window's           the same, but pages that no window reaches any more are given back
 *   recurrent state      one block a sequence, with snapshots of earlier lengths (states.c)
 *   nothing              every batch is forgotten when it ends
 *
 * A model with windows in some layers has two lists of pages, a hybrid one pages and states.
 * Sequences share pages and states after a copy; whoever writes makes its own.
 *
 * A token's angle is the position that its key is rotated by: its own in the sequence, or less
 * once some were brought closer together (lm_memory_divide).  It is that of the token before it or
 * one more; tokens that follow a sequence go on one by one.
 *
 * Each layer remembers in the memory of the device that computes it, so all of these are there
 * once for each device's memory that has such layers.
 *
 * A batch is remembered in two steps: begin finds room for all its tokens, or changes
 * nothing; end keeps them, or takes everything back.  In between the evaluation writes what
 * it computes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "tensor/tensor.h"

struct lm_memory;

/* What one layer remembers. */
struct lm_memory_layer {
    uint32_t n_head_kv;         /* 0: no keys and values                                   */
    uint32_t head_k, head_v;    /* length of a key, of a value                             */
    bool     v_in_k;            /* the value is the first head_v items of the key, if any  */
    bool     f32;               /* both are F32, whatever the shape's types                */
    uint32_t window;            /* positions it looks back, its own included; 0: all       */
    size_t   conv, state;       /* floats: last inputs of a convolution, recurrent state   */
    uint32_t where;             /* which of the shape's memories it is in                  */
};

struct lm_memory_shape {
    const struct lm_buft *const  *bufts;            /* [n_bufts] memories, read by _new    */
    uint32_t                      n_bufts;          /* 1 .. LM_MAX_PLACES                  */
    uint32_t                      n_layer;
    const struct lm_memory_layer *layers;           /* [n_layer], read by _new and _places */
    const struct lm_type         *k_type, *v_type;  /* F32 F16 BF16 Q8_0 Q5_0 Q5_1 Q4_0 Q4_1
                                                       IQ4_NL                              */
    uint32_t                      n_ctx;            /* most tokens of a sequence           */
    uint32_t                      n_batch;          /* most tokens of a batch              */
    uint32_t                      n_snapshots;      /* kept of a recurrent state, at most
                                                       LM_MAX_SNAPSHOTS                    */
    bool                          keep_all;         /* windows keep all positions too      */
    bool                          no_hadamard;      /* round keys and values as they are   */
};

#define LM_MAX_SNAPSHOTS 8

/* Lists of pages: of memory w list 2 w of all positions, 2 w + 1 of a window. */
#define LM_MEMORY_LISTS (2 * LM_MAX_PLACES)

/* Where a layer finds what it remembers. */
struct lm_memory_place {
    struct lm_kv_layout kv;
    uint32_t            where;          /* which memory                                    */
    uint32_t            list;           /* of pages                                        */
    uint32_t            window;         /* as the layer's, if it has keys and values       */
    size_t              conv_off, state_off;    /* bytes from the start of a state there   */
    size_t              state_bytes;    /* of both, from conv_off on                       */
    size_t              whole_off;      /* where these are in the states of all layers,
                                           in order                                        */
};

/* Bytes for one sequence of n_ctx tokens in all memories: in whole pages, and one state. */
struct lm_memory_cost {
    uint64_t page[2];           /* of pages of all positions, of a window                  */
    uint64_t kv[2];             /* of n_ctx positions of each                              */
    uint64_t state;
};

struct lm_memory_token {
    uint32_t seq, pos;
};

/*
 * lm_memory_places - where the layers of such a memory lie: out [n_layer].
 * LM_ENOMEM when a size does not fit, LM_ENOSUP for types that cannot be cached.
 */
int lm_memory_places(const struct lm_memory_shape *s, struct lm_memory_place *out,
                     struct lm_err *err);

/* What a sequence of s->n_ctx tokens takes; errors as above. */
int lm_memory_cost(const struct lm_memory_shape *s, struct lm_memory_cost *out,
                   struct lm_err *err);

/*
 * lm_memory_new - an empty memory.  Pages and states are allocated as sequences grow, used
 * again when they are dropped, and given back to the system with the memory.
 */
struct lm_memory *lm_memory_new(const struct lm_memory_shape *s, struct lm_err *err);
void lm_memory_free(struct lm_memory *m);

/*
 * Transactions.
 *
 * lm_memory_begin: room for n tokens.  Each must continue its sequence: LM_EUSE otherwise, or
 * beyond the longest sequence or batch.  LM_ENOMEM when there is no room; everything is then as
 * before.  lm_memory_end: the batch is evaluated (keep) or has failed.
 */
int  lm_memory_begin(struct lm_memory *m, const struct lm_memory_token *t, size_t n,
                     struct lm_err *err);
void lm_memory_end(struct lm_memory *m, bool keep);

/*
 * For the graph's inputs, of tokens first .. first + n - 1 of the batch:
 * lm_memory_pages: the addresses of their lists of pages, as the list's memory knows them.
 * lm_memory_states: for each two addresses in memory `where`, of the state that it continues
 * (0: all zeros) and of the one to make: dst [2 n].
 */
void lm_memory_pages(const struct lm_memory *m, uint32_t list, size_t first, size_t n,
                     int64_t *dst);
/* The same address for a sequence whatever the batch is; 0 when it is unknown. */
int64_t lm_memory_pages_of(const struct lm_memory *m, uint32_t list, uint32_t seq);
void lm_memory_states(const struct lm_memory *m, uint32_t where, size_t first, size_t n,
                      int64_t *dst);
/* Their angles. */
void lm_memory_angles(const struct lm_memory *m, size_t first, size_t n, int32_t *dst);

/* Tokens of a sequence, 0 when it is unknown. */
uint32_t lm_memory_length(const struct lm_memory *m, uint32_t seq);
/* The angle of the token at a position, which may be beyond the last. */
uint32_t lm_memory_angle(const struct lm_memory *m, uint32_t seq, uint32_t pos);
/* The first position at which it can be cut, apart from 0 and its length. */
bool lm_memory_can_cut(const struct lm_memory *m, uint32_t seq, uint32_t pos);

/*
 * Operations on sequences, outside of a batch.  What fails changes nothing.
 *
 * lm_memory_remove: forget positions >= pos; pos 0 drops the sequence.  LM_EUSE beyond its
 *     length; LM_ENOSUP where a window or a state of that length is not there any more.
 * lm_memory_copy: dst becomes a copy of src, whatever it was; of an unknown one: is dropped.
 * lm_memory_keep: drop all sequences but seq.
 * lm_memory_shift: forget positions from .. to - 1 and move what follows down, angles too.  Keys
 *     are turned: turn(arg, layer, key, by) for each whose angle changes, as it is stored but in
 *     host memory, by being the change; turn may be NULL.  LM_ENOSUP with recurrent states,
 *     or when a window would need what it gave back.
 * lm_memory_divide: the angles of positions from .. to - 1 become by times as close: that of
 *     `from` stays, of the distances from it the whole part of a by-th is left, and what follows
 *     comes as much closer as the last of them.  Nothing moves; keys are turned as by a shift.
 *     LM_EUSE for by 0; LM_ENOSUP with recurrent states.
 * lm_memory_hold: see to it that seq can be cut back to its present length until
 *     lm_memory_release; a held sequence that is dropped or cut below is held no more.
 */
int  lm_memory_remove(struct lm_memory *m, uint32_t seq, uint32_t pos, struct lm_err *err);
int  lm_memory_copy(struct lm_memory *m, uint32_t dst, uint32_t src, struct lm_err *err);
void lm_memory_keep(struct lm_memory *m, uint32_t seq);
int  lm_memory_shift(struct lm_memory *m, uint32_t seq, uint32_t from, uint32_t to,
                     void (*turn)(void *arg, uint32_t layer, void *key, int32_t by), void *arg,
                     struct lm_err *err);
int  lm_memory_divide(struct lm_memory *m, uint32_t seq, uint32_t from, uint32_t to, uint32_t by,
                      void (*turn)(void *arg, uint32_t layer, void *key, int32_t by), void *arg,
                      struct lm_err *err);
void lm_memory_hold(struct lm_memory *m, uint32_t seq);
void lm_memory_release(struct lm_memory *m, uint32_t seq);

/* See to it that tokens t [n] will find room once seq is cut at pos, which is left to do;
 * LM_ENOMEM otherwise, LM_ENOSUP when it cannot be cut there. */
int lm_memory_room(struct lm_memory *m, uint32_t seq, uint32_t pos,
                   const struct lm_memory_token *t, size_t n, struct lm_err *err);

/*
 * Saving and loading.
 *
 * lm_memory_seqs: up to `most` ids of the sequences there are; returns how many there are.
 * lm_memory_first: the first position of which a layer with keys and values still has them.
 * lm_memory_read: keys (value false) or values of a head as they are stored, at positions
 *     pos .. pos + n - 1 that are there; lm_memory_write puts them.  dst, src: [n] rows of the
 *     layer's k_row or v_row bytes, in host memory.  LM_EUSE where they are not there.
 * lm_memory_has_state: is a sequence's state, of lm_memory_state_bytes, more than zeros?
 * lm_memory_read_state, lm_memory_write_state: that of all layers, in order, to and from host
 *     memory.
 * lm_memory_restore: seq is now a sequence of that length whose rows and state hold anything,
 *     for the caller to write through the above.
 * lm_memory_n_angles: so many first tokens of a sequence have an angle of their own; others follow
 *     one by one.  lm_memory_set_angles: those of a restored one, angles [n], read by it; LM_EDATA
 *     when there can be none like these.
 * lm_memory_lack: of a restored one, a layer's rows in front of position `first` will not be
 *     written.  LM_EDATA when it needs them.
 */
size_t   lm_memory_seqs(const struct lm_memory *m, uint32_t *ids, size_t most);
uint32_t lm_memory_first(const struct lm_memory *m, uint32_t layer, uint32_t seq);
int      lm_memory_read(const struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t head,
                        bool value, uint32_t pos, uint32_t n, void *dst, struct lm_err *err);
int      lm_memory_write(struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t head,
                         bool value, uint32_t pos, uint32_t n, const void *src,
                         struct lm_err *err);
bool     lm_memory_has_state(const struct lm_memory *m, uint32_t seq);
int      lm_memory_read_state(const struct lm_memory *m, uint32_t seq, void *dst,
                              struct lm_err *err);
int      lm_memory_write_state(struct lm_memory *m, uint32_t seq, const void *src,
                               struct lm_err *err);
size_t   lm_memory_state_bytes(const struct lm_memory *m);
int      lm_memory_restore(struct lm_memory *m, uint32_t seq, uint32_t length,
                           struct lm_err *err);
uint32_t lm_memory_n_angles(const struct lm_memory *m, uint32_t seq);
int      lm_memory_set_angles(struct lm_memory *m, uint32_t seq, const uint32_t *angles, uint32_t n,
                              struct lm_err *err);
int      lm_memory_lack(struct lm_memory *m, uint32_t seq, uint32_t layer, uint32_t first,
                        struct lm_err *err);

#endif
