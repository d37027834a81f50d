/* SPDX-License-Identifier: MIT */
/* Compiling graphs into steps, and running them on the threads. */
#include "backend/cpu/cpu_exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Weight bytes that are worth a job; bytes of activations that stay near the core while
 * panels pass by, but at least so many tokens that unpacking a panel for them pays. */
#define JOB_BYTES   (64 * 1024)
#define TILE_BYTES  (64 * 1024)
#define TILE_TOKENS 32

static const struct lm_cpu_mulmat *kernel_for(const struct lm_cpu *c, const struct lm_tensor *w)
{
    return w->layout ? w->layout : lm_cpu_mulmat_find(w->type, w->ne[0], c->isa, 1);
}

static struct lm_step *new_step(struct lm_exec *e)
{
    return &e->steps[e->n_steps++];
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Activation rows that a job takes at once. */
static size_t tile_tokens(size_t act_bytes)
{
    size_t n = TILE_BYTES / act_bytes & ~(size_t)7;
    return n < TILE_TOKENS ? TILE_TOKENS : n;
}

static void need_act(struct lm_exec *e, size_t size)
{
    size = (size + 63) & ~(size_t)63;
    e->act_size = size > e->act_size ? size : e->act_size;
}

static void need_scratch(struct lm_exec *e, size_t size)
{
    size = (size + 63) & ~(size_t)63;
    e->scratch_size = size > e->scratch_size ? size : e->scratch_size;
}

/* Do its bytes stay while the graph is evaluated?  Those of an intermediate, such as weights
 * copied from other memory, belong to a later node once their last reader is done. */
static bool stays(const struct lm_tensor *w)
{
    return (w->root ? w->root : w)->op == LM_OP_NONE;
}

/* How many of the nodes from i on are products with the same activations in the same
 * form, which can be computed at the same time; views between them do not matter. */
static size_t group(const struct lm_cpu *c, const struct lm_graph *g, size_t i, size_t *end)
{
    const struct lm_tensor *t = g->nodes[i];
    const struct lm_cpu_mulmat *mm = kernel_for(c, t->src[0]);
    size_t n = 0;
    for (*end = i; i < g->n_nodes; i++) {
        const struct lm_tensor *u = g->nodes[i];
        if (u->op == LM_OP_VIEW)
            continue;
        if (u->op != LM_OP_MUL_MAT || u->src[1] != t->src[1] ||
            kernel_for(c, u->src[0])->act != mm->act || (n && !stays(u->src[0])))
            break;
        n++;
        *end = i + 1;
        if (!stays(u->src[0]))
            break;
    }
    return n;
}

static void fill_product(struct lm_product *p, const struct lm_cpu *c, const struct lm_tensor *t,
                         size_t *jobs)
{
    const struct lm_tensor *w = t->src[0];
    p->t = t;
    p->mm = kernel_for(c, w);
    p->panel_bytes = p->mm->panel_bytes(w->type, w->ne[0]);
    p->n_panels = divide_up(w->ne[1], p->mm->rows);
    p->panels_per_job = p->panel_bytes >= JOB_BYTES ? 1 : JOB_BYTES / p->panel_bytes;
    p->first_job = *jobs;
    *jobs += divide_up(p->n_panels, p->panels_per_job);
}

/* Two steps: activations, then all products of the group.  Returns the next node. */
static size_t add_products(struct lm_exec *e, const struct lm_graph *g, size_t i)
{
    size_t end, n = group(e->cpu, g, i, &end), rows = lm_tensor_rows(g->nodes[i]);
    struct lm_product *p = lm_arena_array(&e->arena, n, sizeof *p);
    if (!p)
        return 0;
    struct lm_step *act = new_step(e), *mul = new_step(e);
    act->t = mul->t = g->nodes[i];
    act->mm = kernel_for(e->cpu, g->nodes[i]->src[0]);
    act->act_bytes = mul->act_bytes = act->mm->act_bytes(g->nodes[i]->src[0]->ne[0]);
    act->run = lm_cpu_activate;
    act->per_job = 8;
    act->n_jobs = divide_up(rows, act->per_job);

    size_t chunks = 0;
    for (size_t k = 0; i < end; i++)
        if (g->nodes[i]->op == LM_OP_MUL_MAT)
            fill_product(&p[k++], e->cpu, g->nodes[i], &chunks);
    mul->products = p;
    mul->n_products = n;
    mul->chunks = chunks;
    mul->run = lm_cpu_products;
    mul->per_job = tile_tokens(mul->act_bytes);
    mul->n_jobs = chunks * divide_up(rows, mul->per_job);
    need_act(e, rows * mul->act_bytes);
    return end;
}

/* How many of the nodes from i on are products of the same rows with stacks of as many
 * matrices. */
static size_t stack_group(const struct lm_cpu *c, const struct lm_graph *g, size_t i, size_t *end)
{
    const struct lm_tensor *t = g->nodes[i];
    const struct lm_cpu_mulmat *mm = kernel_for(c, t->src[0]);
    size_t n = 0;
    for (*end = i; i < g->n_nodes; i++) {
        const struct lm_tensor *u = g->nodes[i];
        if (u->op == LM_OP_VIEW)
            continue;
        if (u->op != t->op || u->src[1] != t->src[1] || u->src[2] != t->src[2] ||
            u->src[0]->ne[2] != t->src[0]->ne[2] || kernel_for(c, u->src[0])->act != mm->act)
            break;
        n++;
        *end = i + 1;
        if (!stays(u->src[0]))
            break;
    }
    return n;
}

/* Three steps: rows sorted by matrix, their activations, then panels of every matrix in use.
 * Returns the next node. */
static size_t add_stack_products(struct lm_exec *e, const struct lm_graph *g, size_t i)
{
    size_t end, n = stack_group(e->cpu, g, i, &end), chunks = 0;
    const struct lm_tensor *t = g->nodes[i];
    const size_t rows = t->ne[1] * t->ne[2], n_mat = t->src[0]->ne[2];
    struct lm_product *p = lm_arena_array(&e->arena, n, sizeof *p);
    if (!p)
        return 0;
    struct lm_step *sort = new_step(e), *act = new_step(e), *mul = new_step(e);
    for (size_t k = 0; i < end; i++)
        if (g->nodes[i]->op == t->op)
            fill_product(&p[k++], e->cpu, g->nodes[i], &chunks);
    size_t act_bytes = p->mm->act_bytes(t->src[0]->ne[0]), most = 0;
    sort->t = act->t = mul->t = t;
    act->mm = p->mm;
    act->act_bytes = mul->act_bytes = act_bytes;
    sort->lists_at = act->lists_at = mul->lists_at = rows * act_bytes;
    sort->run = lm_cpu_sort_rows;
    sort->n_jobs = 1;
    act->run = lm_cpu_activate_sorted;
    act->per_job = 8;
    act->n_jobs = divide_up(lm_tensor_rows(t->src[1]), act->per_job);
    mul->products = p;
    mul->n_products = n;
    mul->chunks = chunks;
    mul->run = lm_cpu_stack_products;
    mul->per_job = tile_tokens(act_bytes);
    mul->n_jobs = chunks * (rows < n_mat ? rows : n_mat);
    for (size_t k = 0; k < n; k++)
        most = p[k].mm->rows > most ? p[k].mm->rows : most;
    need_scratch(e, mul->per_job * most * sizeof(float));
    need_act(e, rows * act_bytes + lm_cpu_lists_size(t));
    return end;
}

static void add_op(struct lm_exec *e, const struct lm_tensor *t)
{
    const struct lm_cpu_op *op = lm_cpu_op(t->op);
    struct lm_step *s = new_step(e);
    s->t = t;
    s->run = op->run;
    s->per_job = op->per_job(t);
    s->n_jobs = divide_up(op->count(t), s->per_job);
    need_scratch(e, op->scratch ? op->scratch(t) : 0);
}

/* Two steps where few tokens choose: scores, then the best of them. */
static void add_choice(struct lm_exec *e, const struct lm_tensor *t)
{
    const size_t parts = lm_cpu_choose_parts(t);
    if (parts) {
        struct lm_step *s = new_step(e);
        s->t = t;
        s->run = lm_cpu_choose_scores;
        s->n_jobs = parts * t->ne[1];
        need_act(e, lm_cpu_choose_shared(t));
    }
    add_op(e, t);
}

/* The work memory is the backend's, so that a graph as large as any before it, or
 * smaller, needs no more. */
static int reserve(struct lm_exec *e, struct lm_err *err)
{
    struct lm_cpu *c = e->cpu;
    uint64_t need;
    if (!lm_mul_u64(e->scratch_size, (uint64_t)e->n_threads, &need) ||
        !lm_add_u64(need, e->act_size, &need) || !lm_align_u64(need, 64, &need))
        return lm_fail_nomem(err);
    if (need <= c->work_size)
        return LM_OK;
    void *work;
    if (posix_memalign(&work, 64, (size_t)need))
        return lm_fail_nomem(err);
    free(c->work);
    c->work = work;
    c->work_size = (size_t)need;
    return LM_OK;
}

static int add_nodes(struct lm_exec *e, const struct lm_graph *g, struct lm_err *err)
{
    for (size_t i = 0; i < g->n_nodes; ) {
        const struct lm_tensor *t = g->nodes[i];
        if (!lm_cpu_supports(t))
            return lm_fail(err, LM_ENOSUP, "the cpu cannot compute this %s",
                           t->name ? t->name : "node");
        const bool stack = t->op == LM_OP_MUL_MAT_ID || t->op == LM_OP_MUL_MAT_HEADS;
        if (stack || t->op == LM_OP_MUL_MAT) {
            i = stack ? add_stack_products(e, g, i) : add_products(e, g, i);
            if (i == 0)
                return lm_fail_nomem(err);
            continue;
        }
        if (t->op == LM_OP_CHOOSE)
            add_choice(e, t);
        else if (t->op != LM_OP_VIEW)
            add_op(e, t);
        i++;
    }
    return LM_OK;
}

/* Is a matrix multiplied with several vectors? */
static bool has_batch(const struct lm_graph *g)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        const struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_MUL_MAT && lm_tensor_rows(t->src[1]) > 1)
            return true;
    }
    return false;
}

struct lm_exec *lm_cpu_compile(struct lm_backend *b, const struct lm_graph *g,
                               struct lm_err *err)
{
    struct lm_exec *e = calloc(1, sizeof *e);
    if (!e) {
        lm_fail_nomem(err);
        return NULL;
    }
    e->cpu = (struct lm_cpu *)b;
    e->n_threads = has_batch(g) ? e->cpu->n_batch : e->cpu->n_threads;
    e->steps = lm_arena_array(&e->arena, 3 * g->n_nodes + 1, sizeof *e->steps);
    e->next = lm_arena_array(&e->arena, 3 * g->n_nodes + 1, sizeof *e->next);
    int r = e->steps && e->next ? add_nodes(e, g, err) : lm_fail_nomem(err);
    if (r || (r = reserve(e, err))) {
        lm_cpu_release(b, e);
        return NULL;
    }
    return e;
}

void lm_cpu_release(struct lm_backend *b, struct lm_exec *e)
{
    (void)b;
    if (!e)
        return;
    lm_arena_release(&e->arena);
    free(e);
}

static void show(const struct lm_exec *e, const struct lm_step *s)
{
    /* Some only prepare what comes next. */
    if (!e->seen || s->run == lm_cpu_activate || s->run == lm_cpu_sort_rows ||
        s->run == lm_cpu_activate_sorted || s->run == lm_cpu_choose_scores)
        return;
    for (size_t i = 0; i < s->n_products; i++)
        e->seen(e->seen_arg, s->products[i].t);
    if (s->n_products == 0)
        e->seen(e->seen_arg, s->t);
}

/* The caller may ask to stop before any step that several threads work on.  The first one says so
 * before the barrier behind that step, so that behind it all have seen it, and nobody before. */
static void ask_to_stop(struct lm_exec *e, size_t step)
{
    if (lm_stopped(&e->cpu->env))
        __atomic_store_n(&e->stop_after, step, __ATOMIC_RELAXED);
}

static bool stops_after(const struct lm_exec *e, size_t step)
{
    return step >= __atomic_load_n(&e->stop_after, __ATOMIC_RELAXED);
}

/* As many threads as there are indices walk through the steps and take jobs; they meet after each
 * step that several worked on, and before such a step when one alone worked before it. */
static void walk(void *arg, size_t index, int of_pool)
{
    struct lm_exec *e = arg;
    const bool all = e->n_threads == lm_pool_threads(e->cpu->pool);
    const int thread = all ? of_pool : (int)index;      /* 0 is the caller's own, if all come */
    for (size_t i = 0; i < e->n_steps; i++) {
        const struct lm_step *s = &e->steps[i];
        bool alone = s->n_jobs == 1;
        if (!alone) {
            size_t job;
            if (thread == 0)
                ask_to_stop(e, i);
            while ((job = __atomic_fetch_add(&e->next[i], 1, __ATOMIC_RELAXED)) < s->n_jobs)
                s->run(e, s, job, thread);
            lm_barrier_wait(&e->cpu->barrier);
            if (stops_after(e, i))
                break;
        } else if (thread == 0) {
            s->run(e, s, 0, thread);
        }
        if (thread == 0)
            show(e, s);
        bool meet = alone || e->seen;
        if (meet && i + 1 < e->n_steps && e->steps[i + 1].n_jobs > 1)
            lm_barrier_wait(&e->cpu->barrier);
    }
    /* Nobody leaves before all are here, or a thread could come for a second walk. */
    lm_barrier_wait(&e->cpu->barrier);
}

static void run_alone(struct lm_exec *e)
{
    for (size_t i = 0; i < e->n_steps && !stops_after(e, i); i++) {
        const struct lm_step *s = &e->steps[i];
        if (s->n_jobs > 1)
            ask_to_stop(e, i);
        for (size_t job = 0; job < s->n_jobs; job++)
            s->run(e, s, job, 0);
        show(e, s);
    }
}

int lm_cpu_run(struct lm_backend *b, struct lm_exec *e,
               void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
               struct lm_err *err)
{
    struct lm_cpu *c = (struct lm_cpu *)b;
    e->seen = seen;
    e->seen_arg = arg;
    e->stop_after = SIZE_MAX;
    if (e->n_threads == 1) {
        run_alone(e);
    } else {
        memset(e->next, 0, e->n_steps * sizeof *e->next);
        lm_barrier_init(&c->barrier, e->n_threads);
        lm_pool_run(c->pool, walk, e, (size_t)e->n_threads);
    }
    return e->stop_after == SIZE_MAX ? LM_OK : lm_fail(err, LM_ESTOP, "stopped");
}
