/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_EXEC_H
#define LM_CPU_EXEC_H

/*
 * How the CPU runs a graph.  Compiling turns the nodes into steps; a step is a kernel
 * and a number of jobs, cut by shape alone, that any threads may take in any order.
 * Steps of one job are run by the first thread, several in a row without the others.
 *
 * Neighbouring products with the same activations become one step, after one that
 * brings the activations into the form the weights want.
 */

#include "backend/backend.h"
#include "backend/cpu/attn.h"
#include "backend/cpu/choose.h"
#include "backend/cpu/mulmat.h"
#include "backend/cpu/recur.h"
#include "backend/cpu/vec.h"
#include "base/arena.h"
#include "base/thread.h"

struct lm_step;

/* Do job 0 .. n_jobs - 1 of a step on a thread: writes that part of the step's nodes, or the
 * activations of lm_exec_act, and uses lm_exec_scratch; cannot fail.  Jobs of a step may run in any
 * order, at the same time. */
typedef void lm_kernel(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread);

/* One product of a step that has several. */
struct lm_product {
    const struct lm_tensor     *t;
    const struct lm_cpu_mulmat *mm;
    size_t                      panel_bytes, n_panels;
    size_t                      panels_per_job, first_job;
};

struct lm_step {
    const struct lm_tensor  *t;            /* the node; of products the first           */
    lm_kernel               *run;
    size_t                   n_jobs;
    size_t                   per_job;      /* rows, tokens or activations of a job      */
    const struct lm_product *products;
    size_t                   n_products, chunks;     /* jobs for one tile of activations */
    const struct lm_cpu_mulmat *mm;        /* activations: their form                   */
    size_t                   act_bytes;
    size_t                   lists_at;     /* cpu_experts.c's lists, from the activations on */
};

struct lm_cpu {
    struct lm_backend    base;
    struct lm_pool      *pool;
    int                  n_threads, n_batch;         /* for one token; for several      */
    enum lm_isa          isa;
    const struct lm_vec *vec;
    lm_attn_fn          *attn;
    lm_scoring_fn       *scoring;
    const struct lm_recur *recur;
    void                *work;             /* activations, then each thread's scratch   */
    size_t               work_size;
    struct lm_env        env;              /* only asked whether to stop              */
    struct lm_barrier    barrier;
};

struct lm_exec {
    struct lm_cpu   *cpu;
    int              n_threads;
    struct lm_arena  arena;
    struct lm_step  *steps;
    size_t           n_steps;
    size_t          *next;                 /* [n_steps] first job not yet taken          */
    size_t           stop_after;           /* the step after which all threads leave     */
    size_t           act_size, scratch_size;
    void           (*seen)(void *arg, const struct lm_tensor *node);
    void            *seen_arg;
};

/* The activations of the current step, and a thread's scratch; aligned to 64. */
static inline void *lm_exec_act(const struct lm_exec *e)
{
    return e->cpu->work;
}

static inline void *lm_exec_scratch(const struct lm_exec *e, int thread)
{
    return (char *)e->cpu->work + e->act_size + (size_t)thread * e->scratch_size;
}

/* A row for each operation that is computed. */
struct lm_cpu_op {
    lm_kernel *run;
    /* Rows (or whatever run counts) in all, bytes of scratch a thread needs, and how many rows
     * make a job; from the node's shape and that of its sources alone. */
    size_t   (*count)(const struct lm_tensor *t);
    size_t   (*scratch)(const struct lm_tensor *t);      /* NULL: none                   */
    size_t   (*per_job)(const struct lm_tensor *t);
};

/* The row, or NULL when the operation is not computed by a kernel of its own. */
const struct lm_cpu_op *lm_cpu_op(enum lm_op op);

/* Can the kernels compute this node as its sources lie in memory? */
bool lm_cpu_supports(const struct lm_tensor *t);

/* Kernels of products, for cpu_exec.c: activations into the form that the weights want, then the
 * products; of a stack of matrices, first which rows are whose. */
lm_kernel lm_cpu_activate, lm_cpu_products;
lm_kernel lm_cpu_sort_rows, lm_cpu_activate_sorted, lm_cpu_stack_products;
/* Bytes of the lists of a product with a stack of matrices. */
size_t lm_cpu_lists_size(const struct lm_tensor *t);

/*
 * Kernels that have files of their own, for the table of cpu_ops.c, each named after its operation.
 * With them go, where a row of struct lm_cpu_op has no function that serves several:
 *
 *   lm_cpu_X_count     what the kernel counts, as said
 *   lm_cpu_X_scratch   bytes of scratch a thread needs
 *   lm_cpu_X_per_job   how many of them make a job
 */

/* cpu_experts.c counts rows. */
lm_kernel lm_cpu_select, lm_cpu_gate, lm_cpu_weighted_sum, lm_cpu_add_id;
size_t lm_cpu_select_scratch(const struct lm_tensor *t);

/* cpu_attn.c: a store counts tokens, attention tiles of tokens times heads of keys times the parts
 * that positions are cut into. */
lm_kernel lm_cpu_kv_store, lm_cpu_attn, lm_cpu_attn_whole, lm_cpu_distance_bias;
size_t lm_cpu_kv_count(const struct lm_tensor *t);
size_t lm_cpu_kv_scratch(const struct lm_tensor *t);
size_t lm_cpu_kv_per_job(const struct lm_tensor *t);
size_t lm_cpu_attn_count(const struct lm_tensor *t);
size_t lm_cpu_attn_scratch(const struct lm_tensor *t);
size_t lm_cpu_distance_scratch(const struct lm_tensor *t);

/* cpu_choose.c counts tokens.  Where lm_cpu_choose_parts is not 0, lm_cpu_choose_scores comes
 * first, in so many jobs a token, and leaves lm_cpu_choose_shared bytes of scores in the
 * activations. */
lm_kernel lm_cpu_choose_scores, lm_cpu_choose;
size_t lm_cpu_choose_parts(const struct lm_tensor *t);
size_t lm_cpu_choose_shared(const struct lm_tensor *t);
size_t lm_cpu_choose_scratch(const struct lm_tensor *t);

/* cpu_states.c: convolutions and shifts count pieces of the channels, the others groups of rows of
 * the state. */
lm_kernel lm_cpu_conv_whole, lm_cpu_state_conv, lm_cpu_state_scan, lm_cpu_state_delta;
lm_kernel lm_cpu_state_shift, lm_cpu_state_wkv;
size_t lm_cpu_conv_count(const struct lm_tensor *t);
size_t lm_cpu_conv_scratch(const struct lm_tensor *t);
size_t lm_cpu_conv_whole_scratch(const struct lm_tensor *t);
size_t lm_cpu_shift_scratch(const struct lm_tensor *t);
size_t lm_cpu_scan_count(const struct lm_tensor *t);
size_t lm_cpu_delta_count(const struct lm_tensor *t);

/* The functions of the backend table (backend.h).  What lm_cpu_compile returns is freed by
 * lm_cpu_release; NULL with *err filled: LM_ENOSUP naming a node that no kernel computes,
 * LM_ENOMEM.  lm_cpu_run is done on return and cannot fail. */
struct lm_exec *lm_cpu_compile(struct lm_backend *b, const struct lm_graph *g,
                               struct lm_err *err);
void lm_cpu_release(struct lm_backend *b, struct lm_exec *e);
int lm_cpu_run(struct lm_backend *b, struct lm_exec *e,
               void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
               struct lm_err *err);

#endif
