/* SPDX-License-Identifier: MIT */
#ifndef LM_SCHED_IMPL_H
#define LM_SCHED_IMPL_H

/* What sched_cut.c makes and sched.c runs. */

#include "backend/sched.h"
#include "base/arena.h"

/* Bytes that a piece needs in its backend's memory. */
struct lm_copy_in {
    struct lm_tensor       *from, *to;
    const struct lm_tensor *ids;        /* of a stack of experts: those that are used        */
};

struct lm_piece {
    size_t           backend;
    size_t           first, n_nodes;    /* of the graph's nodes                              */
    size_t           first_copy, n_copies;
    struct lm_graph  view;              /* its nodes as a graph, for compiling               */
    struct lm_exec  *exec;
};

struct lm_output {
    struct lm_tensor *t;
    void             *dst;
    bool              direct;           /* computed where it goes                            */
};

struct lm_plan {
    struct lm_graph   *g;
    struct lm_piece   *pieces;
    size_t             n_pieces, cap_pieces;
    struct lm_copy_in *copies;
    size_t             n_copies, cap_copies;
    struct lm_output  *outputs;
    size_t             n_outputs, cap_outputs;
    struct lm_tensor **inputs;          /* leaves that are filled, then views of them        */
    size_t             n_inputs, cap_inputs;
    struct lm_buffer  *turns;           /* inputs, once for each turn; NULL: planned ones    */
    size_t             turn_size;
    size_t             turn;
    struct lm_event   *events[LM_SCHED_COPIES][LM_MAX_PLACES];  /* of a turn: all done       */
};

struct lm_sched {
    struct lm_backend *backend[LM_MAX_PLACES];
    size_t             n, cpu;
    struct lm_buffer  *buffer[LM_MAX_PLACES];
    struct lm_event   *event[LM_MAX_PLACES];     /* what was last waited for                 */
    bool               reading[LM_MAX_PLACES];   /* reads memory that the CPU may write      */
    struct lm_buffer  *stage;                    /* host memory between two devices          */
    uint64_t           experts_copied, experts_whole;
};

/* Memory of intermediates of a backend. */
const struct lm_buft *lm_sched_buft(const struct lm_sched *s, size_t backend);

/* Backends for the nodes of p->g; then pieces and copies, in a new order of nodes. */
int lm_sched_cut(const struct lm_sched *s, struct lm_plan *p, struct lm_err *err);

#endif
