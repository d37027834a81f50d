/* SPDX-License-Identifier: MIT */
/*
 * Contexts: batches cut into pieces that are evaluated at once.
 *
 * A graph belongs to a number of tokens and a number of wanted tokens; the last two are
 * kept, so that generating after a prompt builds nothing.  All graphs share the scheduler's
 * memory, made for the largest.
 */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"

static struct lm_tensor *input(struct lm_ready *r, uint32_t type, size_t n, size_t rows)
{
    struct lm_tensor *t = lm_new_tensor(&r->graph, lm_type_by_id(type), 2,
                                        (size_t[]){ n, rows });
    if (t)
        t->flags |= LM_TENSOR_INPUT;
    return t;
}

/* Addresses in one of the devices' memories for what sequences remember. */
static struct lm_tensor *addresses(const struct lm_ctx *c, struct lm_ready *r, size_t device,
                                   size_t n, size_t rows)
{
    struct lm_tensor *t = input(r, LM_I64, n, rows);
    if (t)
        t->state = lm_ctx_state_buft(c, device);
    return t;
}

static void add_memories(const struct lm_ctx *c, struct lm_ready *r, size_t n)
{
    for (size_t i = 0; i < c->m->n_devices; i++) {
        for (size_t list = 2 * i; list < 2 * i + 2; list++) {
            r->b.pages[list] = addresses(c, r, i, n, 1);
            r->b.cross_pages[list] = c->cross_places ? addresses(c, r, i, n, 1) : NULL;
        }
        r->b.states[i] = addresses(c, r, i, 2, n);
    }
}

/* The graph for n tokens, n_out of them wanted. */
int lm_ctx_build(struct lm_ctx *c, struct lm_ready *r, size_t n, size_t n_out, struct lm_err *err)
{
    memset(r, 0, sizeof *r);
    r->n_tokens = n;
    r->n_out = n_out;
    r->b = (struct lm_build){
        .arch = c->m->arch, .h = &c->m->h, .graph = &r->graph, .weights = c->m->weights,
        .n_weights = c->m->n_weights, .places = c->drafting ? *lm_draft_places(c) : c->places,
        .n_tokens = n, .n_out = n_out, .draft = c->drafting,
        .keep_hidden = c->draft && !c->drafting,
        .n_ctx = c->n_ctx, .ids = input(r, LM_I32, n, 1), .pos = input(r, LM_I32, n, 1),
        .angle = input(r, LM_I32, n, 1), .lengths = input(r, LM_I32, n, 1),
        .runs = input(r, LM_I32, 2, n), .embed = c->embed, .encode = c->encoding,
        .cross = c->cross_places, .cross_last = input(r, LM_I32, n, 1),
        .steer = (const float *const *)c->steer,
        .every_row = c->observe != NULL,
        .texts = c->pairs ? input(r, LM_I32, n, 1) : NULL,
        .wanted = n_out ? input(r, LM_I32, n_out, 1) : NULL,
    };
    add_memories(c, r, n);
    lm_ctx_hook(c, r);
    if (r->b.keep_hidden)
        r->b.id_values = input(r, LM_F32, n, 1);
    if (r->b.draft)
        r->b.before = input(r, LM_F32, c->m->h.n_embd, n);
    if (c->m->arch->build(&r->b) == LM_OK && r->b.logits)
        r->b.logits->data = c->logits;           /* they go where the caller reads them */
    if (r->b.hidden)
        r->b.hidden->data = lm_draft_hidden(c);
    if (r->graph.err.code)
        return lm_fail(err, r->graph.err.code, "%s", r->graph.err.text);
    return LM_OK;
}

void lm_ctx_drop_graph(struct lm_ctx *c, struct lm_ready *r)
{
    lm_sched_release(c->sched, r->plan);
    lm_graph_release(&r->graph);
    memset(r, 0, sizeof *r);
}

/* Memory that moved takes the addresses from the graphs there are. */
static void drop_others(struct lm_ctx *c, const struct lm_ready *r)
{
    for (int i = 0; i < LM_ALL_KEPT; i++)
        if (&c->ready[i] != r && c->ready[i].plan)
            lm_ctx_drop_graph(c, &c->ready[i]);
}

int lm_ctx_plan_graph(struct lm_ctx *c, struct lm_ready *r, struct lm_err *err)
{
    bool moved;
    r->plan = lm_sched_plan(c->sched, &r->graph, false, &moved, err);
    if (moved)
        drop_others(c, r);
    return r->plan ? LM_OK : err && err->code ? (int)err->code : LM_ENOMEM;
}

static int prepare(struct lm_ctx *c, struct lm_ready *r, size_t n, size_t n_out,
                   struct lm_err *err)
{
    int code = lm_ctx_build(c, r, n, n_out, err);
    return code ? code : lm_ctx_plan_graph(c, r, err);
}

int lm_ctx_encoder_graph(struct lm_ctx *c, struct lm_ready *r, size_t n, struct lm_err *err)
{
    c->encoding = true;
    int code = prepare(c, r, n, 0, err);
    c->encoding = false;
    return code;
}

/* In the place of the one that has not run for longest, if it is not there. */
struct lm_ready *lm_ctx_graph_for(struct lm_ctx *c, size_t n, size_t n_out, struct lm_err *err)
{
    struct lm_ready *r = &c->ready[c->drafting ? LM_CTX_KEPT : 0];
    struct lm_ready *const end = &c->ready[c->drafting ? LM_ALL_KEPT : LM_CTX_KEPT];
    for (struct lm_ready *k = r; k < end; k++) {
        if (k->plan && k->n_tokens == n && k->n_out == n_out) {
            k->used = ++c->clock;
            c->counts.reused++;
            return k;
        }
        if (k->used < r->used)
            r = k;
    }
    lm_ctx_drop_graph(c, r);
    if (prepare(c, r, n, n_out, err)) {
        lm_ctx_drop_graph(c, r);
        return NULL;
    }
    r->used = ++c->clock;
    c->counts.built++;
    return r;
}

int lm_ctx_plan(struct lm_ctx *c, size_t n, size_t n_out,
                void (*fn)(void *arg, const struct lm_graph *g, const struct lm_plan *p),
                void *arg, struct lm_err *err)
{
    struct lm_ready r;
    bool moved;
    struct lm_err mine = {0};
    if (!err)
        err = &mine;
    int code = lm_ctx_build(c, &r, n, n_out, err);
    if (!code && !(r.plan = lm_sched_plan(c->sched, &r.graph, true, &moved, err)))
        code = err->code ? (int)err->code : LM_ENOMEM;
    if (!code)
        fn(arg, &r.graph, r.plan);
    lm_ctx_drop_graph(c, &r);
    return code;
}

/* arg: the most that any graph needed so far in each place. */
static void enlarge(void *arg, const struct lm_graph *g, const struct lm_plan *p)
{
    size_t *size = arg;
    (void)p;
    for (size_t i = 0; i < LM_MAX_PLACES; i++)
        size[i] = g->planned[i] > size[i] ? g->planned[i] : size[i];
}

/* Memory for the largest graphs, all tokens of a piece with all, some or none wanted, of the
 * draft head with one or none; then the graph of one token, which is what generating asks for. */
static int reserve(struct lm_ctx *c, struct lm_err *err)
{
    size_t outs[] = { 0, 1, c->n_ubatch }, size[LM_MAX_PLACES] = {0};
    bool moved;
    int code = LM_OK;
    for (size_t i = 0; i < sizeof outs / sizeof *outs && !code; i++)
        code = lm_ctx_plan(c, c->n_ubatch, outs[i], enlarge, size, err);
    c->drafting = c->draft;
    for (size_t i = 0; i < 2 && c->draft && !code; i++)
        code = lm_ctx_plan(c, c->n_ubatch, outs[i], enlarge, size, err);
    c->drafting = false;
    if (code || (code = lm_sched_reserve(c->sched, size, &moved, err)) ||
        (lm_ctx_graph_for(c, c->n_ubatch, c->n_ubatch, err) && lm_ctx_graph_for(c, 1, 1, err)))
        return code;
    return err && err->code ? (int)err->code : LM_ENOMEM;
}

bool lm_ctx_rows_for(struct lm_ctx *c, size_t n)
{
    uint64_t bytes;
    if (n <= c->cap_rows)
        return true;
    if (!lm_mul_u64(n, (uint64_t)c->row_len * sizeof(float), &bytes) || bytes > SIZE_MAX / 2)
        return false;
    void *p;
    if (posix_memalign(&p, 64, (size_t)bytes))
        return false;
    free(c->logits);
    c->logits = p;
    c->cap_rows = n;
    return true;
}

static int open_backends(struct lm_ctx *c, const struct lm_env *env, struct lm_err *err)
{
    for (size_t i = 0; i < c->m->n_devices; i++) {
        const struct lm_device *d = c->m->device[i];
        if (!(c->backend[i] = d->ops->open(d, env, err)))
            return lm_err_at(err, LM_ENOMEM, "%s", d->ops->name(d));
    }
    c->sched = lm_sched_new(c->backend, c->m->n_devices, err);
    return c->sched ? LM_OK : LM_ENOMEM;
}

static int start(struct lm_ctx *c, const struct lm_ctx_options *o, const struct lm_env *env,
                 struct lm_err *err)
{
    c->n_ctx = o && o->n_ctx ? o->n_ctx : c->m->h.n_ctx_train;
    c->n_batch = o && o->n_batch ? o->n_batch : 2048;
    c->n_ubatch = o && o->n_ubatch ? o->n_ubatch : 512;
    c->embed = o && o->embed;
    c->pairs = o && o->pairs && c->m->arch->encoder;
    c->separator = -1;
    if (lm_gguf_i64(c->m->gguf, "tokenizer.ggml.seperator_token_id", &c->separator, err) < 0)
        return LM_EDATA;
    c->row_len = c->embed ? c->m->h.n_embd : c->m->h.n_vocab;
    if (c->m->arch->encoder && !c->embed)
        return lm_fail(err, LM_ENOSUP, "a %s model has no logits, only embeddings",
                       c->m->arch->name);
    if (c->m->h.no_causal && !c->embed)
        return lm_fail(err, LM_ENOSUP, "without causal attention there are no logits, only "
                       "embeddings");
    if (c->m->h.no_causal && c->n_ubatch < c->n_ctx)
        c->n_ubatch = c->n_ctx;             /* sequences are evaluated whole */
    if (c->m->h.no_causal && c->n_batch < c->n_ctx)
        c->n_batch = c->n_ctx;
    if (c->n_ubatch > c->n_batch)
        c->n_ubatch = c->n_batch;
    if (c->m->h.max_ctx && c->n_ctx > c->m->h.max_ctx)
        return lm_fail(err, LM_EUSE, "a context of %u tokens: the model has %u positions",
                       c->n_ctx, c->m->h.max_ctx);
    if (o && o->draft_head && (c->m->n_blocks == c->m->h.n_layer || c->embed))
        return lm_fail(err, LM_EUSE, "a context with a draft head is one of logits, of a model "
                       "that was loaded with the head");
    if (c->n_ctx > INT32_MAX || c->n_batch > INT32_MAX)
        return lm_fail(err, LM_EUSE, "context or batch is too large");
    c->row = lm_malloc_array(c->n_batch, sizeof *c->row);
    c->tokens = lm_malloc_array(c->n_batch, sizeof *c->tokens);
    if (!c->row || !c->tokens || !lm_ctx_rows_for(c, 1))
        return lm_fail_nomem(err);
    int r = open_backends(c, env, err);
    if (!r)
        r = lm_ctx_make_memory(c, o, err);
    if (!r)
        r = reserve(c, err);
    for (int i = 0; i < LM_CTX_KEPT && !r; i++)
        if (c->ready[i].plan && c->ready[i].b.lengths->seen)
            c->far_from = c->m->h.rope_orig_ctx;
    c->counts = (struct lm_counts){ 0 };        /* graphs of the start are for later */
    return r;
}

struct lm_ctx *lm_ctx_new(struct lm_model *m, const struct lm_ctx_options *o,
                          const struct lm_env *env, struct lm_err *err)
{
    struct lm_ctx *c = calloc(1, sizeof *c);
    if (!c) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->m = m;
    c->env = env ? *env : (struct lm_env){ 0 };
    if (start(c, o, env, err)) {
        lm_ctx_free(c);
        return NULL;
    }
    return c;
}

void lm_ctx_free(struct lm_ctx *c)
{
    if (!c)
        return;
    for (int i = 0; i < LM_ALL_KEPT; i++)
        lm_ctx_drop_graph(c, &c->ready[i]);
    lm_history_free(c);
    lm_scales_free(c);
    lm_draft_free(c);
    lm_memory_free(c->memory);
    lm_memory_free(c->cross);
    lm_sched_free(c->sched);
    for (size_t i = 0; i < LM_MAX_PLACES; i++)
        if (c->backend[i])
            c->backend[i]->ops->free(c->backend[i]);
    for (uint32_t i = 0; c->steer && i < c->m->h.n_layer; i++)
        free(c->steer[i]);
    free(c->steer);
    free(c->adapted);
    free(c->waiting);
    free(c->places);
    free(c->cross_places);
    free(c->logits);
    free(c->row);
    free(c->tokens);
    free(c);
}

uint32_t lm_ctx_n_ctx(const struct lm_ctx *c)
{
    return c->n_ctx;
}

uint32_t lm_ctx_row_len(const struct lm_ctx *c)
{
    return (uint32_t)c->row_len;
}

uint32_t lm_ctx_n_batch(const struct lm_ctx *c)
{
    return c->n_batch;
}

uint32_t lm_ctx_n_ubatch(const struct lm_ctx *c)
{
    return c->n_ubatch;
}

const char *lm_ctx_device(const struct lm_ctx *c, size_t i)
{
    return i < c->m->n_devices ? c->m->device[i]->ops->name(c->m->device[i]) : NULL;
}

void lm_ctx_seen(void *arg, const struct lm_tensor *node)
{
    struct lm_ctx *c = arg;
    if (c->watch)
        c->watch(c->watch_arg, node);
    if (!c->observe)
        return;
    const bool stack = node->op == LM_OP_MUL_MAT_ID || node->op == LM_OP_MUL_MAT_HEADS;
    if (!stack && node->op != LM_OP_MUL_MAT)
        return;
    const struct lm_observed o = {
        .weight = node->src[0]->name, .n_mat = stack ? node->src[0]->ne[2] : 1,
        .n = lm_tensor_rows(node), .cols = node->src[1]->ne[0], .node = node,
    };
    if (o.weight)                       /* not a product of two intermediates */
        c->observe(c->observe_arg, &o);
}

const float *lm_observed_row(const struct lm_observed *o, size_t i, size_t *mat)
{
    const struct lm_tensor *t = o->node, *x = t->src[1];
    *mat = t->op == LM_OP_MUL_MAT_ID      ? (size_t)((const int32_t *)t->src[2]->data)[i]
           : t->op == LM_OP_MUL_MAT_HEADS ? i % t->ne[1]
                                          : 0;
    /* A row of a token may go to several experts. */
    const size_t r = x->ne[1] == t->ne[1] ? i : i / t->ne[1];
    const size_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
    return (const float *)(const void *)((const char *)x->data + i1 * x->nb[1] + i2 * x->nb[2] +
                                         i3 * x->nb[3]);
}

/* Where the sequence of each of n tokens begins and ends among them. */
static void fill_runs(const struct lm_batch_token *t, size_t n, int32_t *runs)
{
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && t[to].seq == t[from].seq; to++)
            ;
        for (size_t i = from; i < to; i++) {
            runs[2 * i] = (int32_t)from;
            runs[2 * i + 1] = (int32_t)to;
        }
    }
}

/* Which text of its sequence each of n tokens is of, of as many as the model knows. */
static void fill_texts(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                       int32_t *texts)
{
    uint32_t text = 0;
    for (size_t i = 0; i < n; i++) {
        if (t[i].pos == 0)
            text = 0;
        texts[i] = (int32_t)text;
        if (t[i].id == c->separator && text + 1 < c->m->h.n_types)
            text++;
    }
}

static void fill_memories(struct lm_ctx *c, struct lm_ready *r, const struct lm_batch_token *t,
                          size_t first)
{
    const size_t n = r->n_tokens;
    for (uint32_t i = 0; i < 2 * c->m->n_devices; i++) {
        const struct lm_tensor *pages = r->b.pages[i], *cross = r->b.cross_pages[i];
        if (pages->seen)
            lm_memory_pages(c->memory, i, first, n, pages->data);
        for (size_t k = 0; cross && cross->seen && k < n; k++)
            ((int64_t *)cross->data)[k] = lm_memory_pages_of(c->cross, i, t[first + k].seq);
    }
    for (uint32_t i = 0; i < c->m->n_devices; i++)
        if (r->b.states[i]->seen)
            lm_memory_states(c->memory, i, first, n, r->b.states[i]->data);
    for (size_t k = 0; r->b.cross_last->seen && k < n; k++)
        ((int32_t *)r->b.cross_last->data)[k] =
            (int32_t)lm_memory_length(c->cross, t[first + k].seq) - 1;
}

/* Fill the inputs for tokens first .. first + n - 1 of the batch. */
static void fill(struct lm_ctx *c, struct lm_ready *r, const struct lm_batch_token *t, size_t first)
{
    int32_t *ids = r->b.ids->data, *pos = r->b.pos->data;
    int32_t *wanted = r->b.wanted ? r->b.wanted->data : NULL;
    for (size_t i = 0; i < r->n_tokens; i++) {
        ids[i] = t[first + i].id;
        if (r->b.pos->seen)
            pos[i] = (int32_t)t[first + i].pos;
        if (wanted && t[first + i].want)
            *wanted++ = (int32_t)i;
    }
    if (r->b.angle->seen)
        lm_memory_angles(c->memory, first, r->n_tokens, r->b.angle->data);
    fill_memories(c, r, t, first);
    for (size_t i = 0; r->b.id_values && i < r->n_tokens; i++)
        ((float *)r->b.id_values->data)[i] = (float)t[first + i].id;
    if (r->b.runs->seen)
        fill_runs(t + first, r->n_tokens, r->b.runs->data);
    if (r->b.texts && r->b.texts->seen)
        fill_texts(c, t + first, r->n_tokens, r->b.texts->data);
    if (r->b.lengths->seen)
        lm_history_lengths(c, t + first, r->n_tokens, r->b.lengths->data);
    lm_ctx_weigh(c, r, t + first);
}

static int evaluate(struct lm_ctx *c, const struct lm_batch_token *t, size_t first, size_t n,
                    size_t *rows, struct lm_err *err)
{
    size_t n_out = 0;
    for (size_t i = first; i < first + n; i++)
        c->row[i] = t[i].want ? *rows + n_out++ : NO_ROW;
    struct lm_ready *r = lm_ctx_graph_for(c, n, n_out, err);
    if (!r)
        return err && err->code ? (int)err->code : LM_ENOMEM;
    int code = lm_sched_begin(c->sched, r->plan, err);
    if (code)
        return code;
    fill(c, r, t, first);
    if (r->b.logits)
        lm_sched_output(r->plan, r->b.logits, c->logits + *rows * c->row_len);
    *rows += n_out;
    if (c->watch)
        c->watch(c->watch_arg, NULL);
    return lm_sched_run(c->sched, r->plan, c->observe || c->watch ? lm_ctx_seen : NULL, c, err);
}

static int check_batch(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                       size_t *n_out, struct lm_err *err)
{
    if (n == 0 || n > c->n_batch)
        return lm_fail(err, LM_EUSE, "a batch of %zu tokens: must be 1 to %u", n, c->n_batch);
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        if (t[i].id < 0 || (uint32_t)t[i].id >= c->m->n_embd_rows)
            return lm_fail(err, LM_EDATA, "token %d is not in the vocabulary of %u", t[i].id,
                           c->m->n_embd_rows);
        *n_out += t[i].want;
    }
    return LM_OK;
}

/* Tokens that are evaluated at once, of n that are left: for an encoder whole sequences, each
 * of which fits. */
static size_t piece(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n)
{
    size_t len = n < c->n_ubatch ? n : c->n_ubatch;
    if (len == n || !c->m->h.no_causal)
        return len;
    while (len > 1 && t[len].pos != 0)
        len--;
    return len;
}

/* An encoder's sequences must be there as a whole, one behind the other. */
static int check_whole(const struct lm_batch_token *t, size_t n, struct lm_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (i ? t[i].seq != t[i - 1].seq && t[i].pos != 0 : t[i].pos != 0)
            return lm_fail(err, LM_EUSE, "sequence %u is not whole in its batch", t[i].seq);
    return LM_OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void lm_ctx_counts(const struct lm_ctx *c, struct lm_counts *out)
{
    *out = c->counts;
}

int lm_ctx_evaluate(struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                    struct lm_err *err)
{
    const double from = now();
    size_t n_out = 0, rows = 0;
    struct lm_err mine = {0};
    if (!err)
        err = &mine;
    int r = check_batch(c, t, n, &n_out, err);
    if (!r && c->m->h.no_causal)
        r = check_whole(t, n, err);
    if (!r && c->cross)
        r = lm_ctx_check_cross(c, t, n, err);
    if (r)
        return r;
    c->n = 0;
    if (!lm_ctx_rows_for(c, n_out))
        return lm_fail(err, LM_ENOMEM, "out of memory for the logits of %zu tokens", n_out);
    for (size_t i = 0; i < n; i++)
        c->tokens[i] = (struct lm_memory_token){ t[i].seq, t[i].pos };
    if ((r = lm_memory_begin(c->memory, c->tokens, n, err)))
        return r;
    for (size_t i = 0, len; i < n && !r; i += len) {
        len = piece(c, t + i, n - i);
        r = lm_stopped(&c->env) ? lm_fail(err, LM_ESTOP, "stopped")
                                : evaluate(c, t, i, len, &rows, err);
    }
    int late = lm_sched_wait(c->sched, r ? NULL : err);
    r = r ? r : late;
    lm_memory_end(c->memory, r == LM_OK);
    c->n = r ? 0 : n;
    c->counts.tokens[n > 1] += c->n;
    c->counts.seconds[n > 1] += now() - from;
    return r;
}

int lm_ctx_decode(struct lm_ctx *c, const struct lm_batch_token *t, size_t n, struct lm_err *err)
{
    const bool by_length = lm_ctx_by_length(c);
    int r = by_length ? lm_history_before(c, t, n, err) : LM_OK;
    if (!r)
        r = lm_ctx_evaluate(c, t, n, err);
    if (!r && by_length)
        lm_history_after(c, t, n);
    return r;
}

const float *lm_ctx_logits(const struct lm_ctx *c, size_t i)
{
    if (i >= c->n || c->row[i] == NO_ROW)
        return NULL;
    return c->logits + c->row[i] * c->row_len;
}

void lm_ctx_observe(struct lm_ctx *c, void (*fn)(void *arg, const struct lm_observed *o),
                    void *arg)
{
    c->observe = fn;
    c->observe_arg = arg;
}

void lm_ctx_watch(struct lm_ctx *c, void (*fn)(void *arg, const struct lm_tensor *node),
                  void *arg)
{
    c->watch = fn;
    c->watch_arg = arg;
}
