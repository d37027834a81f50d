/* SPDX-License-Identifier: MIT */
/* Writing what sequences remember, and reading it again: lmpipe-state(5). */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "gguf/split.h"
#include "tensor/hadamard.h"

#define VERSION 1
#define MAGIC "LMST"

enum { HAS_STATE = 1, HAS_IDS = 2, IS_FAR = 4 };        /* flags of a sequence */

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* --- which model ------------------------------------------------------------------------- */

/* Some bytes from the start, the middle and the end of a tensor's data. */
static int add_samples(struct lm_xxh64 *x, struct lm_in *in, uint64_t at, uint64_t bytes,
                       struct lm_err *err)
{
    uint8_t part[256];
    for (uint64_t i = 0; i < 3; i++) {
        size_t n = bytes < sizeof part ? (size_t)bytes : sizeof part;
        int r = lm_in_pread(in, at + (bytes - n) / 2 * i, part, n, err);
        if (r)
            return r;
        lm_xxh64_add(x, part, n);
    }
    return LM_OK;
}

/* A number for the model: of its tensors' names, shapes, types and samples of their data, and
 * of what was added to it.  What has the same number remembers the same. */
static int fingerprint(const struct lm_ctx *c, uint64_t *out, struct lm_err *err)
{
    const struct lm_split *f = c->m->files;
    struct lm_xxh64 x;
    lm_xxh64_init(&x);
    lm_xxh64_add(&x, c->m->arch->name, strlen(c->m->arch->name));
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct lm_gguf_tensor *t = f->tensors[i].t;
        const struct lm_split_input *file = &f->inputs[f->tensors[i].input];
        uint8_t shape[8 * LM_GGUF_MAX_DIMS + 4];
        for (int k = 0; k < LM_GGUF_MAX_DIMS; k++)
            put64(shape + 8 * k, t->ne[k]);
        put32(shape + 8 * LM_GGUF_MAX_DIMS, t->type_id);
        lm_xxh64_add(&x, t->name.p, t->name.len);
        lm_xxh64_add(&x, shape, sizeof shape);
        int r = add_samples(&x, file->in, file->g->data_offset + t->offset, t->bytes, err);
        if (r)
            return r;
    }
    for (size_t i = 0; i < c->n_adapted; i++) {
        const struct lm_adapted *a = &c->adapted[i];
        uint8_t part[20];
        uint32_t scale;
        memcpy(&scale, &a->scale, sizeof scale);
        put64(part, lm_adapter_sum(a->adapter));
        put32(part + 8, scale);
        put32(part + 12, a->first);
        put32(part + 16, a->end);
        lm_xxh64_add(&x, part, a->first || a->end ? 20 : 12);
    }
    *out = lm_xxh64_digest(&x);
    return LM_OK;
}

/* --- writing ----------------------------------------------------------------------------- */

struct writer {
    const struct lm_ctx *c;
    struct lm_out       *out;
    struct lm_xxh64      sum;
};

static int put(struct writer *w, const void *p, size_t n, struct lm_err *err)
{
    lm_xxh64_add(&w->sum, p, n);
    return lm_out_write(w->out, p, n, err);
}

/* Where rows of a layer are put before they are written or changed: of a page's positions. */
static size_t page_bytes(const struct lm_kv_layout *kv)
{
    return LM_KV_PAGE * (kv->k_row > kv->v_row ? kv->k_row : kv->v_row);
}

/* Positions from `pos` on that are on one page, up to `end`. */
static uint32_t on_page(uint32_t pos, uint32_t end)
{
    const uint32_t n = LM_KV_PAGE - pos % LM_KV_PAGE;
    return n < end - pos ? n : end - pos;
}

/* The rows of one layer; those that a window has given back are left out. */
static int put_layer(struct writer *w, uint32_t seq, uint32_t layer, uint32_t length,
                     struct lm_err *err)
{
    const struct lm_kv_layout *kv = &w->c->places[layer].kv;
    const uint32_t first = lm_memory_first(w->c->memory, layer, seq);
    uint8_t number[4], *rows = malloc(page_bytes(kv));
    put32(number, first);
    int r = rows ? put(w, number, sizeof number, err) : lm_fail_nomem(err);
    for (int value = 0; value < (kv->v_in_k ? 1 : 2) && !r; value++)
        for (uint32_t h = 0; h < kv->n_head_kv && !r; h++)
            for (uint32_t pos = first, n; pos < length && !r; pos += n) {
                n = on_page(pos, length);
                r = lm_memory_read(w->c->memory, layer, seq, h, value, pos, n, rows, err);
                if (!r)
                    r = put(w, rows, n * (value ? kv->v_row : kv->k_row), err);
            }
    free(rows);
    return r;
}

static int put_state(struct writer *w, uint32_t seq, struct lm_err *err)
{
    const size_t bytes = lm_memory_state_bytes(w->c->memory);
    void *state = malloc(bytes);
    int r = state ? lm_memory_read_state(w->c->memory, seq, state, err) : lm_fail_nomem(err);
    if (!r)
        r = put(w, state, bytes, err);
    free(state);
    return r;
}

static int put_seq(struct writer *w, uint32_t seq, struct lm_err *err)
{
    struct lm_memory *m = w->c->memory;
    const uint32_t length = lm_memory_length(m, seq);
    const bool state = lm_memory_has_state(m, seq);
    bool far;
    const int32_t *ids = lm_history_ids(w->c, seq, length, &far);
    uint8_t head[12], id[4];
    put32(head, seq);
    put32(head + 4, length);
    put32(head + 8, (state ? HAS_STATE : 0) | (ids ? HAS_IDS : 0) | (far ? IS_FAR : 0));
    int r = put(w, head, sizeof head, err);
    for (uint32_t i = 0; ids && i < length && !r; i++) {
        put32(id, (uint32_t)ids[i]);
        r = put(w, id, sizeof id, err);
    }
    for (uint32_t i = 0; i < w->c->m->h.n_layer && !r; i++)
        if (w->c->places[i].kv.n_head_kv)
            r = put_layer(w, seq, i, length, err);
    return r || !state ? r : put_state(w, seq, err);
}

static int put_head(struct writer *w, uint32_t n_seqs, struct lm_err *err)
{
    const struct lm_ctx *c = w->c;
    uint8_t head[40], row[16];
    uint64_t model;
    int r = fingerprint(c, &model, err);
    if (r)
        return r;
    memcpy(head, MAGIC, 4);
    put32(head + 4, VERSION);
    put64(head + 8, model);
    put32(head + 16, c->m->h.n_layer);
    put32(head + 20, n_seqs);
    put32(head + 24, c->k_type->id);
    put32(head + 28, c->v_type->id);
    put64(head + 32, lm_memory_state_bytes(c->memory));
    r = put(w, head, sizeof head, err);
    for (uint32_t i = 0; i < c->m->h.n_layer && !r; i++) {
        const struct lm_kv_layout *kv = &c->places[i].kv;
        put32(row, kv->n_head_kv);
        put32(row + 4, kv->n_head_kv ? kv->head_k : 0);
        put32(row + 8, kv->n_head_kv && !kv->v_in_k ? kv->head_v : 0);
        put32(row + 12, (uint32_t)kv->k_block | (kv->v_in_k ? 0 : (uint32_t)kv->v_block << 16));
        r = put(w, row, sizeof row, err);
    }
    return r;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int lm_ctx_save(const struct lm_ctx *c, const uint32_t *only, struct lm_out *out,
                struct lm_err *err)
{
    struct writer w = { .c = c, .out = out };
    if (c->cross)
        return lm_fail(err, LM_ENOSUP, "the state of a model with an encoder cannot be saved");
    size_t n = only ? 1 : lm_memory_seqs(c->memory, NULL, 0);
    uint32_t *ids = lm_malloc_array(n, sizeof *ids);
    uint8_t sum[8];
    if (!ids)
        return lm_fail_nomem(err);
    if (only)
        n = lm_memory_length(c->memory, ids[0] = *only) ? 1 : 0;
    else
        lm_memory_seqs(c->memory, ids, n);
    qsort(ids, n, sizeof *ids, by_value);
    lm_xxh64_init(&w.sum);
    int r = put_head(&w, (uint32_t)n, err);
    for (size_t i = 0; i < n && !r; i++)
        r = put_seq(&w, ids[i], err);
    put64(sum, lm_xxh64_digest(&w.sum));
    free(ids);
    return r ? r : lm_out_write(out, sum, sizeof sum, err);
}

/* --- reading ----------------------------------------------------------------------------- */

/* What history.c knows of a sequence. */
struct known {
    int32_t *ids;                       /* NULL: not known                           */
    uint32_t n;
    bool     far;
};

struct reader {
    struct lm_ctx        *c;
    struct lm_in         *in;
    struct lm_xxh64       sum;
    const struct lm_type *type[2];      /* of the keys and values in the file        */
    uint32_t              n_seqs;
    uint32_t            (*moved)[2];    /* where a sequence is until all is read, and its number */
    struct known         *known;        /* [n_moved]                                  */
    uint32_t              n_moved;
    size_t              (*blocks)[2];   /* [n_layer] how keys and values are transformed */
    size_t                longest;      /* values of a head                          */
    uint8_t              *rows[2];      /* of a page's positions: as in the file, as stored */
    float                *floats;       /* one                                       */
};

static int get(struct reader *r, void *p, size_t n, struct lm_err *err)
{
    int s = lm_in_read_all(r->in, p, n, err);
    if (!s)
        lm_xxh64_add(&r->sum, p, n);
    return s;
}

static int read_type(uint32_t id, const struct lm_type **out, struct lm_err *err)
{
    *out = lm_type_by_id(id);
    return *out && (*out)->decode ? LM_OK
                                  : lm_fail(err, LM_EDATA, "cached values of type %u", id);
}

/* The transform of a layer's keys or values: of blocks that divide them. */
static int read_block(size_t block, uint32_t head, uint32_t layer, size_t *out, struct lm_err *err)
{
    *out = block;
    return !block || ((block & (block - 1)) == 0 && head % block == 0)
               ? LM_OK : lm_fail(err, LM_EDATA, "layer %u: heads of %u values in blocks of %zu",
                                 layer, head, block);
}

/* Does the file hold what this context's layers remember? */
static int check_layers(struct reader *r, struct lm_err *err)
{
    const struct lm_ctx *c = r->c;
    r->longest = 1;
    if (!(r->blocks = lm_malloc_array(c->m->h.n_layer, sizeof *r->blocks)))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < c->m->h.n_layer; i++) {
        const struct lm_kv_layout *kv = &c->places[i].kv;
        uint8_t row[16];
        uint64_t bytes;
        int s = get(r, row, sizeof row, err);
        if (s)
            return s;
        if (get32(row) != kv->n_head_kv ||
            (kv->n_head_kv && (get32(row + 4) != kv->head_k ||
                               get32(row + 8) != (kv->v_in_k ? 0 : kv->head_v))))
            return lm_fail(err, LM_EDATA, "layer %u has other heads than the model's", i);
        for (int v = 0; v < 2 && kv->n_head_kv; v++) {
            uint32_t head = v ? kv->head_v : kv->head_k;
            r->longest = head > r->longest ? head : r->longest;
            if (read_block(get32(row + 12) >> 16 * v & 0xffff, head, i, &r->blocks[i][v], err))
                return LM_EDATA;
            if (!(v && kv->v_in_k) && !lm_type_row_bytes(r->type[v], head, &bytes))
                return lm_fail(err, LM_EDATA, "layer %u: heads of %u values cannot be %s", i,
                               head, r->type[v]->name);
        }
    }
    for (int i = 0; i < 2; i++)
        r->rows[i] = lm_malloc_array(r->longest, LM_KV_PAGE * 2 * sizeof(double));
    r->floats = lm_malloc_array(r->longest, sizeof(float));
    return r->rows[0] && r->rows[1] && r->floats ? LM_OK : lm_fail_nomem(err);
}

static int read_head(struct reader *r, struct lm_err *err)
{
    const struct lm_ctx *c = r->c;
    uint8_t head[40];
    uint64_t model;
    int s = get(r, head, sizeof head, err);
    if (s)
        return s;
    if (memcmp(head, MAGIC, 4) != 0)
        return lm_fail(err, LM_EDATA, "this is no saved state");
    if (get32(head + 4) != VERSION)
        return lm_fail(err, LM_ENOSUP, "a saved state of version %u", get32(head + 4));
    if ((s = fingerprint(c, &model, err)))
        return s;
    if (get64(head + 8) != model || get32(head + 16) != c->m->h.n_layer)
        return lm_fail(err, LM_EDATA, "the saved state is another model's");
    r->n_seqs = get32(head + 20);
    if (get64(head + 32) != lm_memory_state_bytes(c->memory))
        return lm_fail(err, LM_EDATA, "the recurrent state has %llu bytes, the model's %zu",
                       (unsigned long long)get64(head + 32), lm_memory_state_bytes(c->memory));
    if ((s = read_type(get32(head + 24), &r->type[0], err)) ||
        (s = read_type(get32(head + 28), &r->type[1], err)))
        return s;
    return check_layers(r, err);
}

/* n rows of the file as the cache has them: where they are then. */
static int get_rows(struct reader *r, uint32_t layer, bool value, uint32_t n,
                    const uint8_t **out, struct lm_err *err)
{
    const struct lm_kv_layout *kv = &r->c->places[layer].kv;
    const struct lm_type *have = r->type[value], *want = value ? kv->v_type : kv->k_type;
    const size_t from = r->blocks[layer][value], to = value ? kv->v_block : kv->k_block;
    const uint32_t head = value ? kv->head_v : kv->head_k;
    const size_t bytes = head / have->block * have->bytes, row = value ? kv->v_row : kv->k_row;
    int s = get(r, r->rows[0], n * bytes, err);
    *out = r->rows[have != want || from != to];
    for (uint32_t i = 0; i < n && !s && *out == r->rows[1]; i++) {
        have->decode(r->rows[0] + i * bytes, r->floats, head);
        lm_hadamard(r->floats, head, from);
        lm_hadamard(r->floats, head, to);
        want->encode(lm_isa(), r->floats, r->rows[1] + i * row, head, NULL);
    }
    return s;
}

/* Those that the memory has no place for are left out. */
static int get_layer(struct reader *r, uint32_t seq, uint32_t layer, uint32_t length,
                     struct lm_err *err)
{
    const struct lm_kv_layout *kv = &r->c->places[layer].kv;
    struct lm_memory *m = r->c->memory;
    uint8_t number[4] = { 0 };
    const uint8_t *rows;
    int s = get(r, number, sizeof number, err);
    const uint32_t first = get32(number);
    if (!s && first > lm_memory_first(m, layer, seq))
        s = lm_memory_lack(m, seq, layer, first, err);
    const uint32_t there = lm_memory_first(m, layer, seq);
    for (int v = 0; v < (kv->v_in_k ? 1 : 2) && !s; v++)
        for (uint32_t h = 0; h < kv->n_head_kv && !s; h++)
            for (uint32_t pos = first, n; pos < length && !s; pos += n) {
                n = on_page(pos, pos < there ? there : length);
                s = get_rows(r, layer, v, n, &rows, err);
                if (!s && pos >= there)
                    s = lm_memory_write(m, layer, seq, h, v, pos, n, rows, err);
            }
    return s;
}

/* A number up to `from` that no sequence has. */
static uint32_t spare(const struct reader *r, uint32_t from)
{
    uint32_t id = from;
    while (lm_memory_length(r->c->memory, id))
        id--;
    return id;
}

/* Sequence i waits under a number that another of the file wants: give it one below them. */
static int make_way(struct reader *r, uint32_t i, struct lm_err *err)
{
    struct lm_memory *m = r->c->memory;
    bool wanted = false;
    for (uint32_t k = 0; k < r->n_moved; k++)
        wanted |= r->moved[k][1] == r->moved[i][0];
    uint32_t from = r->moved[i][0], to = from;
    while (wanted) {
        to = spare(r, to - 1);
        wanted = false;
        for (uint32_t k = 0; k < r->n_moved; k++)
            wanted |= r->moved[k][1] == to;
    }
    if (to == from)
        return LM_OK;
    int s = lm_memory_copy(m, to, from, err);
    if (!s)
        s = lm_memory_remove(m, from, 0, err);
    r->moved[i][0] = to;
    return s;
}

/* The state of a sequence, which may be zeros. */
static int get_state(struct reader *r, uint32_t seq, bool there, struct lm_err *err)
{
    const size_t bytes = lm_memory_state_bytes(r->c->memory);
    void *state = calloc(1, bytes);
    int s = !state ? lm_fail_nomem(err) : there ? get(r, state, bytes, err) : LM_OK;
    if (!s)
        s = lm_memory_write_state(r->c->memory, seq, state, err);
    free(state);
    return s;
}

static int get_ids(struct reader *r, struct known *k, struct lm_err *err)
{
    uint8_t id[4];
    int s = (k->ids = lm_malloc_array(k->n, sizeof *k->ids)) ? LM_OK : lm_fail_nomem(err);
    for (uint32_t i = 0; i < k->n && !s; i++)
        if (!(s = get(r, id, sizeof id, err))) {
            if (get32(id) >= lm_model_n_vocab(r->c->m))
                s = lm_fail(err, LM_EDATA, "id %u is outside the vocabulary", get32(id));
            k->ids[i] = (int32_t)get32(id);
        }
    return s;
}

static int get_seq(struct reader *r, struct lm_err *err)
{
    struct lm_memory *m = r->c->memory;
    uint8_t head[12];
    int s = get(r, head, sizeof head, err);
    if (s)
        return s;
    uint32_t id = get32(head), length = get32(head + 4), at = spare(r, UINT32_MAX);
    const uint32_t flags = get32(head + 8), known = HAS_STATE | HAS_IDS | IS_FAR;
    if (length == 0 || flags & ~known)
        return lm_fail(err, LM_EDATA, "sequence %u of %u tokens, flags %u", id, length, flags);
    for (uint32_t i = 0; i < r->n_moved; i++)
        if (r->moved[i][1] == id)
            return lm_fail(err, LM_EDATA, "sequence %u is there twice", id);
    if (length > r->c->n_ctx)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens, and the context %u", id, length,
                       r->c->n_ctx);
    uint32_t (*more)[2] = realloc(r->moved, (r->n_moved + 1) * sizeof *more);
    if (!more)
        return lm_fail_nomem(err);
    r->moved = more;
    struct known *all = realloc(r->known, (r->n_moved + 1) * sizeof *all);
    if (!all)
        return lm_fail_nomem(err);
    r->known = all;
    if ((s = lm_memory_restore(m, at, length, err)))
        return s;
    struct known *k = &all[r->n_moved];
    *k = (struct known){ .n = length, .far = flags & IS_FAR };
    r->moved[r->n_moved][0] = at;
    r->moved[r->n_moved++][1] = id;
    if (flags & HAS_IDS)
        s = get_ids(r, k, err);
    for (uint32_t i = 0; i < r->c->m->h.n_layer && !s; i++)
        if (r->c->places[i].kv.n_head_kv)
            s = get_layer(r, at, i, length, err);
    return s || !lm_memory_has_state(m, at) ? s : get_state(r, at, flags & HAS_STATE, err);
}

static int read_all(struct reader *r, struct lm_err *err)
{
    uint8_t sum[8];
    size_t more = 0;
    int s = read_head(r, err);
    for (uint32_t i = 0; i < r->n_seqs && !s; i++)
        s = get_seq(r, err);
    uint64_t want = lm_xxh64_digest(&r->sum);
    if (!s)
        s = lm_in_read_all(r->in, sum, sizeof sum, err);
    if (!s && get64(sum) != want)
        s = lm_fail(err, LM_EDATA, "the saved state is damaged: its sum is wrong");
    if (!s && !(s = lm_in_read(r->in, sum, 1, &more, err)) && more)
        s = lm_fail(err, LM_EDATA, "the saved state goes on behind its end");
    return s;
}

int lm_ctx_load(struct lm_ctx *c, struct lm_in *in, struct lm_err *err)
{
    struct reader r = { .c = c, .in = in };
    if (c->cross)
        return lm_fail(err, LM_ENOSUP, "the state of a model with an encoder cannot be loaded");
    lm_xxh64_init(&r.sum);
    int s = read_all(&r, err);
    for (uint32_t i = 0; i < r.n_moved && !s; i++)
        s = make_way(&r, i, err);
    for (uint32_t i = 0; i < r.n_moved && !s; i++)
        if (!(s = lm_memory_copy(c->memory, r.moved[i][1], r.moved[i][0], err))) {
            (void)lm_memory_remove(c->memory, r.moved[i][0], 0, NULL);
            s = c->far_from ? lm_history_set(c, r.moved[i][1], r.known[i].ids, r.known[i].n,
                                             r.known[i].far, err) : LM_OK;
        }
    for (uint32_t i = 0; i < r.n_moved && s; i++)
        (void)lm_memory_remove(c->memory, r.moved[i][0], 0, NULL);
    for (uint32_t i = 0; i < r.n_moved; i++)
        free(r.known[i].ids);
    free(r.known);
    free(r.moved);
    free(r.rows[0]);
    free(r.rows[1]);
    free(r.floats);
    free(r.blocks);
    return s;
}
