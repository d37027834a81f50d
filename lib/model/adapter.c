/* SPDX-License-Identifier: MIT */
/*
 * Adapters: what is added to a model's products, or between its layers, while it runs.
 *
 *   low rank (Hu et al., 2021)   W x becomes W x + s B (A x); with an invocation only for the
 *                                tokens from where that begins (Greenewald et al., 2025)
 *   control vector               the result of a layer becomes x + s v
 */
#include "model/ctx_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "gguf/split.h"

struct pair {
    struct lm_tensor *a, *b;
    size_t            len;              /* of the weight's name, which a's begins with  */
    bool              table;            /* of one that is looked up in                  */
};

struct lm_adapter {
    struct lm_arena   arena;
    struct lm_gguf   *gguf;
    struct lm_buffer *buffer;           /* in the CPU's memory                          */
    struct pair      *pairs;            /* of low rank                                  */
    size_t            n_pairs;
    float             alpha;
    int32_t          *tokens;           /* [n_tokens] its invocation; NULL: it has none */
    uint32_t          n_tokens;
    float           **vectors;          /* [n_layer] [n_embd] or NULL: a control vector */
    uint64_t          sum;              /* over its tensors                             */
};

static const char suffix[2][8] = { ".lora_a", ".lora_b" };

/* Is it the a or b (0, 1) of a pair?  -1: neither. */
static int side(const struct lm_str *name)
{
    for (int i = 0; i < 2; i++)
        if (name->len > 7 && memcmp(name->p + name->len - 7, suffix[i], 7) == 0)
            return i;
    return -1;
}

static struct lm_tensor *tensor_of(struct lm_adapter *a, const struct lm_gguf_tensor *f)
{
    struct lm_graph maker = {0};
    size_t ne[LM_MAX_DIMS];
    for (int i = 0; i < LM_MAX_DIMS; i++)
        ne[i] = (size_t)f->ne[i];
    struct lm_tensor *made = lm_new_tensor(&maker, f->type, LM_MAX_DIMS, ne);
    struct lm_tensor *t = made ? lm_arena_alloc(&a->arena, sizeof *t) : NULL;
    if (t) {
        *t = *made;
        t->name = f->name.p;
    }
    lm_graph_release(&maker);
    return t;
}

static const struct lm_gguf_tensor *weight_of(const struct lm_model *m, const char *name,
                                              size_t len)
{
    const struct lm_split *f = m->files;
    for (uint64_t i = 0; i < f->n_tensors; i++)
        if (f->tensors[i].t->name.len == len && memcmp(f->tensors[i].t->name.p, name, len) == 0)
            return f->tensors[i].t;
    return NULL;
}

/* Does the pair suit the weight: as a product, or (*table) as a table, if it is one? */
static bool suits(const struct lm_model *m, const struct lm_gguf_tensor *w,
                  const struct lm_tensor *a, const struct lm_tensor *b, bool *table)
{
    uint32_t layer;
    const struct lm_arch_tensor *row = lm_arch_row_of(m->arch, &m->h, w->name.p, &layer);
    *table = row && row->flags & LM_TENSOR_TABLE && a->ne[1] == w->ne[1] &&
             b->ne[1] == w->ne[0] && a->ne[0] == b->ne[0] && a->ne[0] != w->ne[0];
    bool product = a->ne[0] == w->ne[0] && b->ne[1] == w->ne[1] && a->ne[1] == b->ne[0];
    return (product || *table) && a->ne[2] == w->ne[2] && b->ne[2] == w->ne[2] &&
           a->ne[3] == 1 && b->ne[3] == 1;
}

static int add_pair(struct lm_adapter *a, const struct lm_model *m,
                    const struct lm_gguf_tensor *first, struct lm_err *err)
{
    struct pair *p = &a->pairs[a->n_pairs];
    char name[LM_ARCH_NAME + 8];
    p->len = first->name.len - 7;
    if (first->name.len >= sizeof name)
        return lm_fail(err, LM_EDATA, "a tensor's name has %zu bytes", first->name.len);
    memcpy(name, first->name.p, first->name.len + 1);
    name[first->name.len - 1] = 'b';
    const struct lm_gguf_tensor *second = lm_gguf_tensor(a->gguf, name);
    const struct lm_gguf_tensor *w = weight_of(m, first->name.p, p->len);
    if (!second)
        return lm_fail(err, LM_EDATA, "%s: %s is missing", first->name.p, name);
    if (!w)
        return lm_fail(err, LM_EDATA, "%s: the model has no such weight", first->name.p);
    if (!first->type || !first->type->decode || !second->type || !second->type->decode)
        return lm_fail(err, LM_ENOSUP, "%s: tensor type is not supported", first->name.p);
    p->a = tensor_of(a, first);
    p->b = tensor_of(a, second);
    if (!p->a || !p->b)
        return lm_fail_nomem(err);
    if (!suits(m, w, p->a, p->b, &p->table))
        return lm_fail(err, LM_EDATA, "%s: [%zu, %zu] and [%zu, %zu] do not suit the weight of "
                       "[%llu, %llu]", first->name.p, p->a->ne[0], p->a->ne[1], p->b->ne[0],
                       p->b->ne[1], (unsigned long long)w->ne[0], (unsigned long long)w->ne[1]);
    a->n_pairs++;
    return LM_OK;
}

/* The ids that an activated adapter waits for. */
static int read_invocation(struct lm_adapter *a, const struct lm_model *m, struct lm_xxh64 *sum,
                           struct lm_err *err)
{
    static const char key[] = "adapter.alora.invocation_tokens";
    struct lm_gguf_arr list;
    if (!lm_gguf_kv(a->gguf, key))
        return LM_OK;
    if (lm_gguf_arr(a->gguf, key, LM_GGUF_U32, &list, NULL) &&
        lm_gguf_arr(a->gguf, key, LM_GGUF_I32, &list, err))
        return LM_EDATA;
    if (m->arch->has_encoder || m->h.no_causal)
        return lm_fail(err, LM_ENOSUP, "%s: is not supported for %s", key, m->arch->name);
    if (!list.n || list.n > INT32_MAX)
        return lm_fail(err, LM_EDATA, "%s: %llu tokens", key, (unsigned long long)list.n);
    a->n_tokens = (uint32_t)list.n;
    if (!(a->tokens = lm_arena_array(&a->arena, a->n_tokens, sizeof *a->tokens)))
        return lm_fail_nomem(err);
    memcpy(a->tokens, list.data, a->n_tokens * sizeof *a->tokens);
    for (uint32_t i = 0; i < a->n_tokens; i++)
        if (a->tokens[i] < 0 || (uint32_t)a->tokens[i] >= m->n_embd_rows)
            return lm_fail(err, LM_EDATA, "%s: token %d is not in the vocabulary of %u", key,
                           a->tokens[i], m->n_embd_rows);
    lm_xxh64_add(sum, a->tokens, a->n_tokens * sizeof *a->tokens);
    return LM_OK;
}

static int find_pairs(struct lm_adapter *a, const struct lm_model *m, struct lm_err *err)
{
    const struct lm_gguf *g = a->gguf;
    struct lm_str arch = { "", 0 };
    int r = lm_gguf_str(g, "general.architecture", &arch, err);
    if (r < 0)
        return r;
    if (strcmp(arch.p, m->arch->name) != 0)
        return lm_fail(err, LM_EDATA, "general.architecture: %.*s, and the model's is %s",
                       (int)(arch.len < 64 ? arch.len : 64), arch.p, m->arch->name);
    if ((r = lm_gguf_f32(g, "adapter.lora.alpha", &a->alpha, err)) < 0)
        return r;
    if (!isfinite(a->alpha))
        return lm_fail(err, LM_EDATA, "adapter.lora.alpha: not finite");
    if (!(a->pairs = lm_arena_array(&a->arena, (size_t)g->n_tensors, sizeof *a->pairs)))
        return lm_fail_nomem(err);
    for (uint64_t i = 0; i < g->n_tensors && r >= 0; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        char other[LM_ARCH_NAME + 8];
        switch (side(&t->name)) {
        case 0:
            r = add_pair(a, m, t, err);
            break;
        case 1:
            if (t->name.len >= sizeof other)
                return lm_fail(err, LM_EDATA, "a tensor's name has %zu bytes", t->name.len);
            memcpy(other, t->name.p, t->name.len + 1);
            other[t->name.len - 1] = 'a';
            if (!lm_gguf_tensor(g, other))
                r = lm_fail(err, LM_EDATA, "%s: %s is missing", t->name.p, other);
            break;
        default:
            r = lm_fail(err, LM_ENOSUP, "%s: only pairs of low rank are supported", t->name.p);
        }
    }
    if (r >= 0 && a->n_pairs == 0)
        r = lm_fail(err, LM_EDATA, "an adapter without tensors");
    return r < 0 ? r : LM_OK;
}

static int read_pairs(struct lm_adapter *a, const struct lm_model *m, struct lm_in *in,
                      struct lm_xxh64 *sum, struct lm_err *err)
{
    const struct lm_device *d = lm_model_cpu(m);
    const struct lm_buft *type = d->ops->buft(d, LM_USE_WEIGHT);
    size_t size = 0, used = 0;
    for (size_t i = 0; i < 2 * a->n_pairs; i++)
        if (!lm_buft_add(type, i % 2 ? a->pairs[i / 2].b : a->pairs[i / 2].a, &size))
            return lm_fail_nomem(err);
    if (!(a->buffer = type->ops->alloc(type, size, err)))
        return LM_ENOMEM;
    a->buffer->use = LM_USE_WEIGHT;
    for (size_t i = 0; i < 2 * a->n_pairs; i++) {
        struct lm_tensor *t = i % 2 ? a->pairs[i / 2].b : a->pairs[i / 2].a;
        const struct lm_gguf_tensor *f = lm_gguf_tensor(a->gguf, t->name);
        int r = lm_buffer_place(a->buffer, t, &used, err);
        if (!r)
            r = lm_in_pread(in, a->gguf->data_offset + f->offset, t->data, (size_t)f->bytes, err);
        if (!r && t->type->invalid && t->type->invalid(t->data, lm_tensor_len(t)) >= 0)
            r = lm_fail(err, LM_EDATA, "not finite");
        if (r)
            return lm_err_at(err, r, "%s", t->name);
        lm_xxh64_add(sum, t->name, strlen(t->name));
        lm_xxh64_add(sum, t->data, (size_t)f->bytes);
    }
    return LM_OK;
}

/* direction.N is added to the result of layer N, counted from 0. */
static int read_vectors(struct lm_adapter *a, const struct lm_model *m, struct lm_in *in,
                        struct lm_xxh64 *sum, struct lm_err *err)
{
    const struct lm_gguf *g = a->gguf;
    if (!(a->vectors = lm_arena_array(&a->arena, m->h.n_layer, sizeof *a->vectors)))
        return lm_fail_nomem(err);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        uint32_t layer;
        if (!lm_arch_match("direction.{i}", t->name.p, &layer, NULL) || layer == 0)
            return lm_fail(err, LM_EDATA, "%.64s: no direction of a layer", t->name.p);
        if (!t->type || t->type->id != LM_F32 || t->n_dims != 1)
            return lm_fail(err, LM_EDATA, "%s: no row of f32", t->name.p);
        if (t->ne[0] != m->h.n_embd)
            return lm_fail(err, LM_EDATA, "%s: %llu values, and the model's layers give %u",
                           t->name.p, (unsigned long long)t->ne[0], m->h.n_embd);
        if (layer >= m->h.n_layer)
            return lm_fail(err, LM_EDATA, "%s: the model has %u layers", t->name.p, m->h.n_layer);
        float *v = lm_arena_array(&a->arena, m->h.n_embd, sizeof *v);
        if (!v)
            return lm_fail_nomem(err);
        int r = lm_in_pread(in, g->data_offset + t->offset, v, (size_t)t->bytes, err);
        if (!r && t->type->invalid && t->type->invalid(v, m->h.n_embd) >= 0)
            r = lm_fail(err, LM_EDATA, "not finite");
        if (r)
            return lm_err_at(err, r, "%s", t->name.p);
        a->vectors[layer] = v;
        lm_xxh64_add(sum, t->name.p, t->name.len);
        lm_xxh64_add(sum, v, (size_t)t->bytes);
    }
    return LM_OK;
}

static int load(struct lm_adapter *a, const struct lm_model *m, struct lm_in *in,
                struct lm_err *err)
{
    struct lm_str arch = { "", 0 }, kind = { "", 0 };
    struct lm_xxh64 sum;
    lm_xxh64_init(&sum);
    if (!lm_in_seekable(in))
        return lm_fail(err, LM_ENOSUP, "an adapter must be a file that is not compressed");
    if (!(a->gguf = lm_gguf_read(in, true, err)))
        return err->code;
    if (a->gguf->big_endian)
        return lm_fail(err, LM_ENOSUP, "big-endian files cannot be run");
    int r = lm_gguf_str(a->gguf, "general.architecture", &arch, err);
    if (r >= 0)
        r = lm_gguf_str(a->gguf, "adapter.type", &kind, err);
    if (r < 0)
        return r;
    if (strcmp(arch.p, "controlvector") == 0)
        r = read_vectors(a, m, in, &sum, err);
    else if (strcmp(kind.p, "lora") == 0)
        r = (r = find_pairs(a, m, err)) || (r = read_pairs(a, m, in, &sum, err))
                ? r : read_invocation(a, m, &sum, err);
    else
        r = lm_fail(err, LM_EDATA, "this is neither an adapter of low rank nor a control vector");
    a->sum = lm_xxh64_digest(&sum);
    return r;
}

struct lm_adapter *lm_adapter_load(struct lm_model *m, const char *path, struct lm_err *err)
{
    struct lm_err mine = {0};
    struct lm_adapter *a = calloc(1, sizeof *a);
    struct lm_in *in = a ? lm_in_open(path, LM_IN_RAW, &mine) : NULL;
    int r = !a ? lm_fail_nomem(&mine) : in ? load(a, m, in, &mine) : LM_EIO;
    lm_in_close(in);
    if (!r)
        return a;
    lm_adapter_free(a);
    if (err)
        *err = mine;
    return NULL;
}

void lm_adapter_free(struct lm_adapter *a)
{
    if (!a)
        return;
    if (a->buffer)
        a->buffer->ops->free(a->buffer);
    lm_gguf_free(a->gguf);
    lm_arena_release(&a->arena);
    free(a);
}

bool lm_adapter_is_vector(const struct lm_adapter *a)
{
    return a->vectors != NULL;
}

/* --- in a context ------------------------------------------------------------------------- */

uint64_t lm_adapter_sum(const struct lm_adapter *a)
{
    return a->sum;
}

/* What is added to the rows of node t, y, times `ratio` and the weight of each row's token.  Rows
 * are of all tokens, several of each, or of those that are wanted. */
static struct lm_tensor *weigh(const struct lm_ready *r, struct lm_weights *w, float ratio,
                               struct lm_graph *g, const struct lm_tensor *t,
                               struct lm_tensor *y)
{
    const bool several = t->op == LM_OP_MUL_MAT_ID || t->ne[2] > 1;
    const size_t n = r->n_tokens == 1 ? 1 : several ? t->ne[2] : t->ne[1];
    const bool all = n == r->n_tokens;
    if (!y || (!all && n != r->n_out)) {
        lm_fail(&g->err, LM_ENOSUP, "%s: cannot be told which tokens it is for", t->src[0]->name);
        return NULL;
    }
    if (!w->rows[0] || w->ratio != ratio)
        *w = (struct lm_weights){ w->given, ratio, { lm_scale(g, w->given, ratio), NULL } };
    if (!all && !w->rows[1])
        w->rows[1] = lm_get_rows(g, w->rows[0], r->b.wanted);
    y = lm_reshape(g, y, 3, (size_t[]){ lm_tensor_len(y) / n, 1, n });
    return lm_reshape(g, lm_weighted_sum(g, y, w->rows[!all]), LM_MAX_DIMS, t->ne);
}

/* What adapter number `at` adds to a node, or NULL. */
static struct lm_tensor *addition(const struct lm_ready *r, size_t at, struct lm_graph *g,
                                  const struct lm_tensor *t)
{
    const struct lm_adapted *d = &r->ctx->adapted[at];
    const struct lm_adapter *a = d->adapter;
    const char *name = t->src[0]->name;
    const bool table = t->op == LM_OP_GET_ROWS;
    size_t len = strlen(name);
    for (size_t i = 0; i < a->n_pairs; i++) {
        const struct pair *p = &a->pairs[i];
        if (p->len != len || memcmp(p->a->name, name, len) != 0 || p->table != table)
            continue;
        struct lm_tensor *down = lm_import(g, p->a), *up = lm_import(g, p->b), *x = t->src[1];
        const float ratio = a->alpha != 0 ? a->alpha / (float)p->b->ne[0] : 1;
        struct lm_tensor *y = table ? lm_mul_mat(g, up, lm_get_rows(g, down, x))
                              : t->op == LM_OP_MUL_MAT_ID
                                  ? lm_mul_mat_id(g, up, lm_mul_mat_id(g, down, x, t->src[2]),
                                                  t->src[2])
                                  : lm_mul_mat(g, up, lm_mul_mat(g, down, x));
        return r->weights && r->weights[at].given ? weigh(r, &r->weights[at], ratio, g, t, y)
                                                  : lm_scale(g, y, d->scale * ratio);
    }
    return NULL;
}

/* The graph's hook: y, which node t became, with what all adapters add. */
static struct lm_tensor *adapt(void *arg, struct lm_graph *g, struct lm_tensor *t,
                               struct lm_tensor *y)
{
    const struct lm_ready *r = arg;
    const struct lm_ctx *c = r->ctx;
    if (!t->src[0]->name || t->src[0]->op != LM_OP_NONE)
        return y;
    for (size_t i = 0; i < c->n_adapted && y; i++) {
        size_t had = g->err.code;
        struct lm_tensor *more = addition(r, i, g, t);
        if (!more && g->err.code != (enum lm_code)had)
            return NULL;
        y = more ? lm_add(g, y, more) : y;
    }
    return y;
}

void lm_ctx_hook(const struct lm_ctx *c, struct lm_ready *r)
{
    struct lm_graph *g = &r->graph;
    g->adapt = c->n_low_rank ? adapt : NULL;
    g->adapt_arg = r;
    r->ctx = c;
    if (!c->n_waiting && !c->by_token)
        return;
    if (!(r->weights = lm_arena_array(&g->arena, c->n_adapted, sizeof *r->weights))) {
        lm_fail_nomem(&g->err);
        return;
    }
    for (size_t i = 0; i < c->n_adapted; i++) {
        const struct lm_adapter *a = c->adapted[i].adapter;
        const bool weighs = a->tokens || (c->by_token && !a->vectors);
        struct lm_tensor *given = weighs ? lm_new_tensor(g, lm_type_by_id(LM_F32), 2,
                                                         (size_t[]){ 1, r->n_tokens }) : NULL;
        r->weights[i] = (struct lm_weights){ .given = given };
        if (given)
            given->flags |= LM_TENSOR_INPUT;
    }
}

float *lm_ctx_weights(const struct lm_ready *r, size_t i)
{
    const struct lm_tensor *given = r->weights ? r->weights[i].given : NULL;
    return given && given->seen ? given->data : NULL;
}

void lm_ctx_weigh(const struct lm_ctx *c, struct lm_ready *r, const struct lm_batch_token *t)
{
    for (size_t i = 0; i < c->n_adapted; i++) {
        float *out = lm_ctx_weights(r, i);
        const struct lm_scales *s = NULL;
        for (size_t k = 0; out && k < r->n_tokens; k++) {
            s = k && t[k].seq == t[k - 1].seq ? s : lm_scales_of(c, t[k].seq);
            out[k] = lm_scale_at(c, s, t[k].pos, i);
        }
    }
    for (size_t i = 0; i < c->n_waiting; i++) {
        float *out = lm_ctx_weights(r, c->waiting[i].at);
        if (out)
            lm_history_active(c, t, r->n_tokens, i, out);
    }
}

/* List the adapters that wait for their tokens, and count those of low rank. */
static int make_waiting(struct lm_ctx *c, struct lm_err *err)
{
    free(c->waiting);
    c->n_waiting = c->n_low_rank = 0;
    if (!(c->waiting = lm_malloc_array(c->n_adapted, sizeof *c->waiting)))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < c->n_adapted; i++) {
        const struct lm_adapter *a = c->adapted[i].adapter;
        c->n_low_rank += !a->vectors;
        if (a->tokens)
            c->waiting[c->n_waiting++] = (struct lm_waiting){ i, a->tokens, a->n_tokens };
    }
    lm_history_forget_adapters(c);
    if (!lm_ctx_by_length(c))
        lm_history_free(c);
    return LM_OK;
}

/* The sums of the control vectors of each layer. */
static int make_steer(struct lm_ctx *c, struct lm_err *err)
{
    const struct lm_hparams *h = &c->m->h;
    for (uint32_t l = 0; c->steer && l < h->n_layer; l++)
        free(c->steer[l]);
    free(c->steer);
    c->steer = NULL;
    for (size_t i = 0; i < c->n_adapted; i++) {
        float *const *v = c->adapted[i].adapter->vectors;
        if (!v)
            continue;
        if (!c->steer && !(c->steer = calloc(h->n_layer, sizeof *c->steer)))
            return lm_fail_nomem(err);
        const struct lm_adapted *d = &c->adapted[i];
        for (uint32_t l = d->first; l < h->n_layer && (!d->end || l < d->end); l++) {
            if (!v[l])
                continue;
            if (!c->steer[l] && !(c->steer[l] = calloc(h->n_embd, sizeof(float))))
                return lm_fail_nomem(err);
            for (uint32_t k = 0; k < h->n_embd; k++)
                c->steer[l][k] += c->adapted[i].scale * v[l][k];
        }
    }
    return LM_OK;
}

/* Is a tensor of the adapter, or a control vector's data, in the graph? */
static bool used(const struct lm_graph *g, const void *data)
{
    for (size_t i = 0; i < g->n_leaves; i++)
        if (g->leaves[i]->data == data)
            return true;
    return false;
}

/* Everything that was asked for must be in the graph, or in that of the draft head: of a few
 * tokens, so that rows of them and of what is wanted are told apart. */
static int check_used(struct lm_ctx *c, struct lm_err *err)
{
    const size_t n = c->n_ubatch < 3 ? c->n_ubatch : 3;
    struct lm_ready r, head = { 0 };
    int code = lm_ctx_build(c, &r, n, (n + 1) / 2, err);
    c->drafting = c->draft && !code;
    if (c->drafting)
        code = lm_ctx_build(c, &head, n, 1, err);
    c->drafting = false;
    for (size_t i = 0; i < c->n_adapted && !code; i++) {
        const struct lm_adapter *a = c->adapted[i].adapter;
        for (size_t k = 0; k < a->n_pairs && !code; k++)
            if (!used(&r.graph, a->pairs[k].a->data) &&
                !used(&head.graph, a->pairs[k].a->data))
                code = lm_fail(err, LM_ENOSUP, "%s: cannot be added where the weight is used",
                               a->pairs[k].a->name);
    }
    for (uint32_t l = 0; c->steer && l < c->m->h.n_layer && !code; l++)
        if (c->steer[l] && !used(&r.graph, c->steer[l]))
            code = lm_fail(err, LM_ENOSUP, "control vectors are not supported for %s",
                           c->m->arch->name);
    lm_ctx_drop_graph(c, &r);
    lm_ctx_drop_graph(c, &head);
    return code;
}

static void drop_graphs(struct lm_ctx *c)
{
    for (int i = 0; i < LM_ALL_KEPT; i++)
        lm_ctx_drop_graph(c, &c->ready[i]);
}

int lm_ctx_adapt(struct lm_ctx *c, const struct lm_adapted *list, size_t n, struct lm_err *err)
{
    struct lm_adapted *copy = lm_copy_array(list, n, sizeof *copy);
    if (!copy)
        return lm_fail_nomem(err);
    drop_graphs(c);
    lm_scales_free(c);
    c->by_token = false;
    free(c->adapted);
    c->adapted = copy;
    c->n_adapted = n;
    int r = make_steer(c, err);
    if (!r)
        r = make_waiting(c, err);
    if (!r)
        r = check_used(c, err);
    if (r) {
        c->n_adapted = c->n_waiting = c->n_low_rank = 0;
        (void)make_steer(c, NULL);
    }
    return r;
}

int lm_ctx_weigh_tokens(struct lm_ctx *c, struct lm_err *err)
{
    if (c->by_token)
        return LM_OK;
    c->by_token = true;
    int r = check_used(c, err);
    if (r)
        c->by_token = false;
    else
        drop_graphs(c);
    return r;
}
