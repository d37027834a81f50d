/* SPDX-License-Identifier: MIT */
/* Writing what sequences remember, and reading it again: lmpipe-state(5). */
#include "model/ctx_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "gguf/split.h"
#include "tensor/hadamard.h"

#define VERSION 2
#define MAGIC "LMST"

enum { IS_PART = 1 };                   /* flags of a file */
enum {                                  /* flags of a sequence */
    HAS_STATE = 1, HAS_IDS = 2, IS_FAR = 4, HAS_ADAPTERS = 8, HAS_KEPT = 16,
    HAS_SCALES = 32, HAS_ANGLES = 64, KNOWN_FLAGS = 127
};

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

/* Layers that remember in one memory: the model's own, and what its decoder has of an encoder. */
struct part {
    struct lm_memory             *memory;
    const struct lm_memory_place *places;       /* [n_layer] */
    uint32_t                      n_layer;
};

/* How many there are: the second's n_layer is 0 without an encoder. */
enum { OWN, CROSS, N_PARTS };

static void parts_of(const struct lm_ctx *c, struct part parts[N_PARTS])
{
    parts[OWN] = (struct part){ c->memory, c->places, c->n_places };
    parts[CROSS] = (struct part){ c->cross, c->cross_places,
                                  c->cross ? c->m->h.n_layer_dec : 0 };
}

/* Tokens that a sequence has in a part. */
static uint32_t length_in(const struct part *p, uint32_t seq)
{
    return p->memory ? lm_memory_length(p->memory, seq) : 0;
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

/* How keys were rotated. */
static void add_rotation(struct lm_xxh64 *x, const struct lm_ctx *c)
{
    const struct lm_hparams *h = &c->m->h;
    const float numbers[] = {
        h->rope_base, h->rope_base_local, h->rope_factor, h->rope_attn, h->yarn_ext, h->yarn_attn,
        h->yarn_beta_fast, h->yarn_beta_slow, h->yarn_log,
    };
    uint8_t part[4];
    const uint32_t more[] = {
        (uint32_t)h->rope_scaling, h->n_rot, h->rope_orig_ctx,
        h->rope_scaling == LM_ROPE_DYNAMIC ? c->n_ctx : 0,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        put32(part, bits);
        lm_xxh64_add(x, part, sizeof part);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        put32(part, more[i]);
        lm_xxh64_add(x, part, sizeof part);
    }
}

/* A number for the model: of its tensors' names, shapes, types and samples of their data, how it
 * rotates, and what was added to it.  What has the same number remembers the same. */
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
    add_rotation(&x, c);
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
    struct part          parts[N_PARTS];
    bool                 only_part;     /* what cannot be cut back                    */
};

static int put(struct writer *w, const void *p, size_t n, struct lm_err *err)
{
    lm_xxh64_add(&w->sum, p, n);
    return lm_out_write(w->out, p, n, err);
}

static int put_u32(struct writer *w, uint32_t v, struct lm_err *err)
{
    uint8_t bytes[4];
    put32(bytes, v);
    return put(w, bytes, sizeof bytes, err);
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
static int put_layer(struct writer *w, const struct part *p, uint32_t seq, uint32_t layer,
                     struct lm_err *err)
{
    const struct lm_kv_layout *kv = &p->places[layer].kv;
    const uint32_t first = lm_memory_first(p->memory, layer, seq);
    const uint32_t length = lm_memory_length(p->memory, seq);
    uint8_t *rows = malloc(page_bytes(kv));
    int r = rows ? put_u32(w, first, err) : lm_fail_nomem(err);
    for (int value = 0; value < (kv->v_in_k ? 1 : 2) && !r; value++)
        for (uint32_t h = 0; h < kv->n_head_kv && !r; h++)
            for (uint32_t pos = first, n; pos < length && !r; pos += n) {
                n = on_page(pos, length);
                r = lm_memory_read(p->memory, layer, seq, h, value, pos, n, rows, err);
                if (!r)
                    r = put(w, rows, n * (value ? kv->v_row : kv->k_row), err);
            }
    free(rows);
    return r;
}

/* Are a layer's keys and values in a file of that kind? */
static bool holds(const struct part *p, uint32_t layer, bool only_part)
{
    const struct lm_memory_place *at = &p->places[layer];
    return at->kv.n_head_kv && (at->window || !only_part);
}

static int put_layers(struct writer *w, const struct part *p, uint32_t seq, struct lm_err *err)
{
    int r = LM_OK;
    for (uint32_t i = 0; i < p->n_layer && !r; i++)
        if (holds(p, i, w->only_part))
            r = put_layer(w, p, seq, i, err);
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

/* What a draft head needs of the tokens. */
static int put_kept(struct writer *w, uint32_t seq, uint32_t length, struct lm_err *err)
{
    const uint32_t layer = w->c->m->h.n_layer;
    const size_t row = w->c->places[layer].kv.k_row;
    void *rows = lm_malloc_array(LM_KV_PAGE, row);
    int r = rows ? LM_OK : lm_fail_nomem(err);
    for (uint32_t pos = 0, n; pos < length && !r; pos += n) {
        n = on_page(pos, length);
        r = lm_memory_read(w->c->memory, layer, seq, 0, false, pos, n, rows, err);
        if (!r)
            r = put(w, rows, n * row, err);
    }
    free(rows);
    return r;
}

/* Scales of a sequence's own. */
static int put_scales(struct writer *w, const struct lm_scales *s, struct lm_err *err)
{
    const size_t width = w->c->n_low_rank;
    int r = put_u32(w, (uint32_t)s->n, err);
    for (size_t i = 0; i < s->n && !r; i++) {
        r = put_u32(w, s->from[i], err);
        for (size_t k = 0; k < width && !r; k++) {
            uint32_t bits;
            memcpy(&bits, &s->values[i * width + k], sizeof bits);
            r = put_u32(w, bits, err);
        }
    }
    return r;
}

static int put_angles(struct writer *w, uint32_t seq, uint32_t n, struct lm_err *err)
{
    int r = put_u32(w, n, err);
    for (uint32_t pos = 0; pos < n && !r; pos++)
        r = put_u32(w, lm_memory_angle(w->c->memory, seq, pos), err);
    return r;
}

static int put_seq(struct writer *w, uint32_t seq, struct lm_err *err)
{
    struct lm_memory *m = w->c->memory;
    const uint32_t length = lm_memory_length(m, seq);
    const bool state = lm_memory_has_state(m, seq);
    const bool kept = !w->only_part && lm_draft_known(w->c, seq);
    const struct lm_scales *scales = lm_scales_of(w->c, seq);
    struct lm_known known;
    lm_history_known(w->c, seq, length, &known);
    const uint32_t n_ids = known.ids ? length : 0, n_from = known.from ? w->c->n_waiting : 0;
    const uint32_t n_angles = lm_memory_n_angles(m, seq);
    uint8_t head[12];
    put32(head, seq);
    put32(head + 4, length);
    put32(head + 8, (state ? HAS_STATE : 0) | (known.ids ? HAS_IDS : 0) |
                    (known.far ? IS_FAR : 0) | (known.from ? HAS_ADAPTERS : 0) |
                    (kept ? HAS_KEPT : 0) | (scales ? HAS_SCALES : 0) |
                    (n_angles ? HAS_ANGLES : 0));
    int r = put(w, head, sizeof head, err);
    for (uint32_t i = 0; i < n_ids && !r; i++)
        r = put_u32(w, (uint32_t)known.ids[i], err);
    for (uint32_t i = 0; i < n_from && !r; i++)
        r = put_u32(w, known.from[i], err);
    if (!r && n_angles)
        r = put_angles(w, seq, n_angles, err);
    if (!r && scales)
        r = put_scales(w, scales, err);
    if (!r && length)
        r = put_layers(w, &w->parts[OWN], seq, err);
    if (!r && state)
        r = put_state(w, seq, err);
    if (!r && kept)
        r = put_kept(w, seq, length, err);
    if (r || !w->c->cross || w->only_part)
        return r;
    r = put_u32(w, length_in(&w->parts[CROSS], seq), err);
    return r ? r : put_layers(w, &w->parts[CROSS], seq, err);
}

static int put_head(struct writer *w, uint32_t n_seqs, struct lm_err *err)
{
    const struct lm_ctx *c = w->c;
    uint8_t head[48], row[16];
    uint64_t model;
    int r = fingerprint(c, &model, err);
    if (r)
        return r;
    memcpy(head, MAGIC, 4);
    put32(head + 4, VERSION);
    put64(head + 8, model);
    put32(head + 16, c->n_places);
    put32(head + 20, n_seqs);
    put32(head + 24, c->k_type->id);
    put32(head + 28, c->v_type->id);
    put64(head + 32, lm_memory_state_bytes(c->memory));
    put32(head + 40, w->only_part ? IS_PART : 0);
    put32(head + 44, w->parts[CROSS].n_layer);
    r = put(w, head, sizeof head, err);
    for (int k = 0; k < N_PARTS; k++)
        for (uint32_t i = 0; i < w->parts[k].n_layer && !r; i++) {
            const struct lm_kv_layout *kv = &w->parts[k].places[i].kv;
            put32(row, kv->n_head_kv);
            put32(row + 4, kv->n_head_kv ? kv->head_k : 0);
            put32(row + 8, kv->n_head_kv && !kv->v_in_k ? kv->head_v : 0);
            put32(row + 12, (uint32_t)kv->k_block |
                            (kv->v_in_k ? 0 : (uint32_t)kv->v_block << 16));
            r = put(w, row, sizeof row, err);
        }
    return r;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The sequences there are in any part, in order: *n of them. */
static uint32_t *all_seqs(const struct part parts[N_PARTS], size_t *n)
{
    size_t in[N_PARTS] = { 0 }, all = 0;
    for (int k = 0; k < N_PARTS; k++)
        all += in[k] = parts[k].memory ? lm_memory_seqs(parts[k].memory, NULL, 0) : 0;
    uint32_t *ids = lm_malloc_array(all, sizeof *ids);
    *n = 0;
    if (!ids)
        return NULL;
    for (int k = 0; k < N_PARTS; k++)
        if (in[k])
            lm_memory_seqs(parts[k].memory, ids + (k ? in[0] : 0), in[k]);
    qsort(ids, all, sizeof *ids, by_value);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[(*n)++] = ids[i];
    return ids;
}

static int save(struct writer *w, const uint32_t *ids, size_t n, struct lm_err *err)
{
    uint8_t sum[8];
    lm_xxh64_init(&w->sum);
    int r = put_head(w, (uint32_t)n, err);
    for (size_t i = 0; i < n && !r; i++)
        r = put_seq(w, ids[i], err);
    put64(sum, lm_xxh64_digest(&w->sum));
    return r ? r : lm_out_write(w->out, sum, sizeof sum, err);
}

int lm_ctx_save(const struct lm_ctx *c, const uint32_t *only, struct lm_out *out,
                struct lm_err *err)
{
    struct writer w = { .c = c, .out = out };
    size_t n;
    parts_of(c, w.parts);
    if (only)
        return save(&w, only, length_in(&w.parts[OWN], *only) || length_in(&w.parts[CROSS], *only),
                    err);
    uint32_t *ids = all_seqs(w.parts, &n);
    int r = ids ? save(&w, ids, n, err) : lm_fail_nomem(err);
    free(ids);
    return r;
}

int lm_ctx_save_part(const struct lm_ctx *c, uint32_t seq, struct lm_out *out, struct lm_err *err)
{
    struct writer w = { .c = c, .out = out, .only_part = true };
    parts_of(c, w.parts);
    return save(&w, &seq, length_in(&w.parts[OWN], seq) != 0, err);
}

/* --- reading ----------------------------------------------------------------------------- */

/* A sequence that is read. */
struct moved {
    uint32_t        at, to;             /* where it is until all is read, and its number */
    struct lm_known known;              /* of its tokens, lists being ours              */
    int32_t        *ids;
    uint32_t       *from;
    struct lm_scales *scales;           /* of its own, or NULL                          */
    uint32_t       *angles, n_angles;
};

struct reader {
    struct lm_ctx        *c;
    struct lm_in         *in;
    struct lm_xxh64       sum;
    struct part           parts[N_PARTS];
    const struct lm_type *type[2];      /* of the keys and values in the file        */
    uint32_t              n_seqs;
    bool                  only_part;
    struct moved         *moved;
    uint32_t              n_moved;
    size_t              (*blocks[N_PARTS])[2];  /* [n_layer] how keys and values are transformed */
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

static int get_u32(struct reader *r, uint32_t *out, struct lm_err *err)
{
    uint8_t bytes[4] = { 0 };
    int s = get(r, bytes, sizeof bytes, err);
    *out = get32(bytes);
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

/* Does the file hold what a part's layers remember? */
static int check_layers(struct reader *r, int part, struct lm_err *err)
{
    const struct part *p = &r->parts[part];
    if (!(r->blocks[part] = lm_malloc_array(p->n_layer, sizeof **r->blocks)))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < p->n_layer; i++) {
        const struct lm_kv_layout *kv = &p->places[i].kv;
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
            if (read_block(get32(row + 12) >> 16 * v & 0xffff, head, i, &r->blocks[part][i][v],
                           err))
                return LM_EDATA;
            if (!(v && kv->v_in_k) && !lm_type_row_bytes(r->type[v], head, &bytes))
                return lm_fail(err, LM_EDATA, "layer %u: heads of %u values cannot be %s", i,
                               head, r->type[v]->name);
        }
    }
    return LM_OK;
}

static int make_room(struct reader *r, struct lm_err *err)
{
    for (int i = 0; i < 2; i++)
        r->rows[i] = lm_malloc_array(r->longest, LM_KV_PAGE * 2 * sizeof(double));
    r->floats = lm_malloc_array(r->longest, sizeof(float));
    return r->rows[0] && r->rows[1] && r->floats ? LM_OK : lm_fail_nomem(err);
}

static int read_head(struct reader *r, struct lm_err *err)
{
    const struct lm_ctx *c = r->c;
    uint8_t head[48];
    uint64_t model;
    int s = get(r, head, 8, err);
    if (s)
        return s;
    if (memcmp(head, MAGIC, 4) != 0)
        return lm_fail(err, LM_EDATA, "this is no saved state");
    if (get32(head + 4) != VERSION)
        return lm_fail(err, LM_ENOSUP, "a saved state of version %u", get32(head + 4));
    if ((s = get(r, head + 8, sizeof head - 8, err)))
        return s;
    if ((s = fingerprint(c, &model, err)))
        return s;
    if (get64(head + 8) != model || get32(head + 16) != c->n_places)
        return lm_fail(err, LM_EDATA, "the saved state is another model's");
    r->n_seqs = get32(head + 20);
    if (get64(head + 32) != lm_memory_state_bytes(c->memory))
        return lm_fail(err, LM_EDATA, "the recurrent state has %llu bytes, the model's %zu",
                       (unsigned long long)get64(head + 32), lm_memory_state_bytes(c->memory));
    if (get32(head + 40) & ~(uint32_t)IS_PART)
        return lm_fail(err, LM_EDATA, "flags %u", get32(head + 40));
    r->only_part = get32(head + 40) & IS_PART;
    if (get32(head + 44) != r->parts[CROSS].n_layer)
        return lm_fail(err, LM_EDATA, "%u layers of an encoder, and the model has %u",
                       get32(head + 44), r->parts[CROSS].n_layer);
    if ((s = read_type(get32(head + 24), &r->type[0], err)) ||
        (s = read_type(get32(head + 28), &r->type[1], err)))
        return s;
    r->longest = 1;
    for (int k = 0; k < N_PARTS && !s; k++)
        s = check_layers(r, k, err);
    return s ? s : make_room(r, err);
}

/* n rows of the file as the cache has them: where they are then. */
static int get_rows(struct reader *r, int part, uint32_t layer, bool value, uint32_t n,
                    const uint8_t **out, struct lm_err *err)
{
    const struct lm_kv_layout *kv = &r->parts[part].places[layer].kv;
    const struct lm_type *have = r->type[value], *want = value ? kv->v_type : kv->k_type;
    const size_t from = r->blocks[part][layer][value], to = value ? kv->v_block : kv->k_block;
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
static int get_layer(struct reader *r, int part, uint32_t seq, uint32_t layer, uint32_t length,
                     struct lm_err *err)
{
    struct lm_memory *m = r->parts[part].memory;
    const struct lm_kv_layout *kv = &r->parts[part].places[layer].kv;
    const uint8_t *rows;
    uint32_t first;
    int s = get_u32(r, &first, err);
    if (!s && first > lm_memory_first(m, layer, seq))
        s = lm_memory_lack(m, seq, layer, first, err);
    const uint32_t there = lm_memory_first(m, layer, seq);
    for (int v = 0; v < (kv->v_in_k ? 1 : 2) && !s; v++)
        for (uint32_t h = 0; h < kv->n_head_kv && !s; h++)
            for (uint32_t pos = first, n; pos < length && !s; pos += n) {
                n = on_page(pos, pos < there ? there : length);
                s = get_rows(r, part, layer, v, n, &rows, err);
                if (!s && pos >= there)
                    s = lm_memory_write(m, layer, seq, h, v, pos, n, rows, err);
            }
    return s;
}

/* The rows of a layer that the file does not hold, of the sequence that it is a part of. */
static int take_layer(struct reader *r, uint32_t from, uint32_t to, uint32_t layer,
                      uint32_t length, struct lm_err *err)
{
    struct lm_memory *m = r->parts[OWN].memory;
    const struct lm_kv_layout *kv = &r->parts[OWN].places[layer].kv;
    int s = LM_OK;
    for (int v = 0; v < (kv->v_in_k ? 1 : 2) && !s; v++)
        for (uint32_t h = 0; h < kv->n_head_kv && !s; h++)
            for (uint32_t pos = 0, n; pos < length && !s; pos += n) {
                n = on_page(pos, length);
                s = lm_memory_read(m, layer, from, h, v, pos, n, r->rows[0], err);
                if (!s)
                    s = lm_memory_write(m, layer, to, h, v, pos, n, r->rows[0], err);
            }
    return s;
}

/* Those of the sequence that a part is of must be the same, for what the part lacks is taken from
 * there. */
static int set_angles(struct reader *r, const struct moved *q, uint32_t length, struct lm_err *err)
{
    struct lm_memory *m = r->parts[OWN].memory;
    int s = lm_memory_set_angles(m, q->at, q->angles, q->n_angles, err);
    for (uint32_t pos = 0; pos < length && r->only_part && !s; pos++)
        if (lm_memory_angle(m, q->at, pos) != lm_memory_angle(m, q->to, pos))
            s = lm_fail(err, LM_EUSE, "a part of sequence %u, whose positions have been divided "
                        "otherwise", q->to);
    return s;
}

/* Make a sequence of that length in a part, and read its rows. */
static int get_part(struct reader *r, int part, const struct moved *q, uint32_t length,
                    struct lm_err *err)
{
    const struct part *p = &r->parts[part];
    int s = length ? lm_memory_restore(p->memory, q->at, length, err) : LM_OK;
    if (length && part == OWN && !s)
        s = set_angles(r, q, length, err);
    for (uint32_t i = 0; i < p->n_layer && length && !s; i++)
        if (holds(p, i, r->only_part))
            s = get_layer(r, part, q->at, i, length, err);
        else if (p->places[i].kv.n_head_kv)
            s = take_layer(r, q->to, q->at, i, length, err);
    return s;
}

/* A number up to `from` that no sequence has. */
static uint32_t spare(const struct reader *r, uint32_t from)
{
    uint32_t id = from;
    while (length_in(&r->parts[OWN], id) || length_in(&r->parts[CROSS], id))
        id--;
    return id;
}

/* A sequence gets another number, in place of one that may have it, and leaves its own. */
static int move(struct reader *r, uint32_t to, uint32_t from, struct lm_err *err)
{
    int s = LM_OK;
    for (int k = N_PARTS - 1; k >= 0 && !s; k--) {
        struct lm_memory *m = r->parts[k].memory;
        if (!m || (k == CROSS && r->only_part))
            continue;
        if (!(s = lm_memory_copy(m, to, from, err)))
            (void)lm_memory_remove(m, from, 0, NULL);
    }
    return s;
}

/* Sequence i waits under a number that another of the file wants: give it one below them. */
static int make_way(struct reader *r, uint32_t i, struct lm_err *err)
{
    bool wanted = false;
    for (uint32_t k = 0; k < r->n_moved; k++)
        wanted |= r->moved[k].to == r->moved[i].at;
    uint32_t from = r->moved[i].at, to = from;
    while (wanted) {
        to = spare(r, to - 1);
        wanted = false;
        for (uint32_t k = 0; k < r->n_moved; k++)
            wanted |= r->moved[k].to == to;
    }
    r->moved[i].at = to;
    return to == from ? LM_OK : move(r, to, from, err);
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

/* What was kept for a draft head: where there is one, it is for that; where the file has none, that
 * is marked.  Of a part, it is that of the sequence. */
static int get_kept(struct reader *r, const struct moved *q, uint32_t length, bool there,
                    struct lm_err *err)
{
    struct lm_ctx *c = r->c;
    const uint32_t n = c->m->h.n_embd, layer = c->m->h.n_layer;
    float *row = lm_malloc_array((size_t)n + 1, sizeof *row);
    int s = row ? LM_OK : lm_fail_nomem(err);
    for (uint32_t pos = 0; pos < length && there && !s; pos++) {
        if ((s = get(r, row, (n + (size_t)1) * sizeof *row, err)))
            break;
        if (!(row[n] >= 0 && row[n] < (float)lm_model_n_vocab(c->m) && row[n] == floorf(row[n])))
            s = lm_fail(err, LM_EDATA, "%g is no id of the vocabulary", (double)row[n]);
        else if (c->draft)
            s = lm_memory_write(c->memory, layer, q->at, 0, false, pos, 1, row, err);
    }
    for (uint32_t pos = 0; pos < length && r->only_part && c->draft && !s; pos++)
        if (!(s = lm_memory_read(c->memory, layer, q->to, 0, false, pos, 1, row, err)))
            s = lm_memory_write(c->memory, layer, q->at, 0, false, pos, 1, row, err);
    free(row);
    return s || there || r->only_part || !c->draft ? s : lm_draft_mark(c, q->at, err);
}

static int get_angles(struct reader *r, struct moved *q, uint32_t length, struct lm_err *err)
{
    int s = get_u32(r, &q->n_angles, err);
    if (!s && (q->n_angles == 0 || q->n_angles > length))
        s = lm_fail(err, LM_EDATA, "sequence %u: positions to rotate %u of %u tokens by", q->to,
                    q->n_angles, length);
    if (!s && !(q->angles = lm_malloc_array(q->n_angles, sizeof *q->angles)))
        s = lm_fail_nomem(err);
    for (uint32_t i = 0; i < q->n_angles && !s; i++)
        s = get_u32(r, &q->angles[i], err);
    return s;
}

/* What the file says of a sequence's tokens. */
static int get_known(struct reader *r, struct moved *q, uint32_t length, uint32_t flags,
                     struct lm_err *err)
{
    const size_t n_from = flags & HAS_ADAPTERS ? r->c->n_waiting : 0;
    uint32_t id;
    int s = LM_OK;
    if (flags & HAS_IDS && !(q->ids = lm_malloc_array(length, sizeof *q->ids)))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; q->ids && i < length && !s; i++)
        if (!(s = get_u32(r, &id, err))) {
            if (id >= lm_model_n_vocab(r->c->m))
                s = lm_fail(err, LM_EDATA, "id %u is outside the vocabulary", id);
            q->ids[i] = (int32_t)id;
        }
    if (n_from && !(q->from = lm_malloc_array(n_from, sizeof *q->from)))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n_from && !s; i++)
        s = get_u32(r, &q->from[i], err);
    q->known = (struct lm_known){ q->ids, length, flags & IS_FAR, q->from };
    return s || !(flags & HAS_ANGLES) ? s : get_angles(r, q, length, err);
}

/* The scales of a sequence: from ascending positions, at most its length, on. */
static int get_scales(struct reader *r, struct moved *q, uint32_t length, struct lm_err *err)
{
    const size_t width = r->c->n_low_rank;
    float *row = lm_malloc_array(width, sizeof *row);
    uint32_t n, from, bits;
    int s = row ? lm_ctx_weigh_tokens(r->c, err) : lm_fail_nomem(err);
    if (!s && !(s = get_u32(r, &n, err)) && !n)
        s = lm_fail(err, LM_EDATA, "sequence %u: no scales", q->to);
    for (uint32_t i = 0; !s && i < n; i++) {
        const uint32_t least = i ? q->scales->from[i - 1] + 1 : 0;
        s = get_u32(r, &from, err);
        for (size_t k = 0; k < width && !s; k++) {
            s = get_u32(r, &bits, err);
            memcpy(&row[k], &bits, sizeof bits);
            if (!s && !isfinite(row[k]))
                s = lm_fail(err, LM_EDATA, "sequence %u: a scale is not finite", q->to);
        }
        if (!s && (from < least || from > length))
            s = lm_fail(err, LM_EDATA, "sequence %u of %u tokens: scales from %u on", q->to,
                        length, from);
        s = s ? s : lm_scales_add(r->c, &q->scales, from, row, err);
    }
    free(row);
    return s;
}

/* Could a sequence of the file be one of the context? */
static int check_seq(const struct reader *r, uint32_t id, uint32_t length, uint32_t flags,
                     struct lm_err *err)
{
    if ((length == 0 && !r->c->cross) || flags & ~(uint32_t)KNOWN_FLAGS ||
        (flags & HAS_ADAPTERS && !r->c->n_waiting) || (flags & HAS_KEPT && r->only_part) ||
        (flags & HAS_SCALES && !r->c->n_low_rank))
        return lm_fail(err, LM_EDATA, "sequence %u of %u tokens, flags %u", id, length, flags);
    for (uint32_t i = 0; i < r->n_moved; i++)
        if (r->moved[i].to == id)
            return lm_fail(err, LM_EDATA, "sequence %u is there twice", id);
    if (length > r->c->n_ctx)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens, and the context %u", id, length,
                       r->c->n_ctx);
    if (r->only_part && length_in(&r->parts[OWN], id) < length)
        return lm_fail(err, LM_EUSE, "a part of sequence %u of %u tokens, which has %u", id,
                       length, length_in(&r->parts[OWN], id));
    return LM_OK;
}

/* What the decoder of a sequence looks at. */
static int get_cross(struct reader *r, const struct moved *q, uint32_t length, struct lm_err *err)
{
    uint32_t n;
    int s = get_u32(r, &n, err);
    if (!s && !n)
        s = lm_fail(err, LM_EDATA, "sequence %u of %u tokens has no text of the encoder", q->to,
                    length);
    if (!s && n > r->c->n_ctx)
        s = lm_fail(err, LM_EUSE, "sequence %u has %u tokens for the encoder, and the context %u",
                    q->to, n, r->c->n_ctx);
    return s ? s : get_part(r, CROSS, q, n, err);
}

static int get_seq(struct reader *r, struct lm_err *err)
{
    struct lm_memory *m = r->c->memory;
    uint8_t head[12];
    int s = get(r, head, sizeof head, err);
    if (s)
        return s;
    const uint32_t id = get32(head), length = get32(head + 4), flags = get32(head + 8);
    if ((s = check_seq(r, id, length, flags, err)))
        return s;
    struct moved *more = realloc(r->moved, (r->n_moved + 1) * sizeof *more);
    if (!more)
        return lm_fail_nomem(err);
    r->moved = more;
    struct moved *q = &more[r->n_moved++];
    *q = (struct moved){ .at = spare(r, UINT32_MAX), .to = id };
    if ((s = get_known(r, q, length, flags, err)) ||
        (flags & HAS_SCALES && (s = get_scales(r, q, length, err))) ||
        (s = get_part(r, OWN, q, length, err)))
        return s;
    if (length && lm_memory_has_state(m, q->at))
        s = get_state(r, q->at, flags & HAS_STATE, err);
    if (!s)
        s = get_kept(r, q, length, flags & HAS_KEPT, err);
    return s || !r->c->cross || r->only_part ? s : get_cross(r, q, length, err);
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

static void release(struct reader *r)
{
    for (uint32_t i = 0; i < r->n_moved; i++) {
        free(r->moved[i].ids);
        free(r->moved[i].from);
        lm_scales_drop(r->moved[i].scales);
        free(r->moved[i].angles);
    }
    free(r->moved);
    free(r->rows[0]);
    free(r->rows[1]);
    free(r->floats);
    for (int k = 0; k < N_PARTS; k++)
        free(r->blocks[k]);
}

int lm_ctx_load(struct lm_ctx *c, struct lm_in *in, struct lm_err *err)
{
    struct reader r = { .c = c, .in = in };
    parts_of(c, r.parts);
    lm_xxh64_init(&r.sum);
    int s = read_all(&r, err);
    for (uint32_t i = 0; i < r.n_moved && !s; i++)
        s = make_way(&r, i, err);
    for (uint32_t i = 0; i < r.n_moved && !s; i++) {
        s = move(&r, r.moved[i].to, r.moved[i].at, err);
        if (s)
            break;
        lm_draft_forget(c, r.moved[i].to, 0);
        lm_scales_put(c, r.moved[i].to, r.moved[i].scales);
        r.moved[i].scales = NULL;
        if (lm_ctx_by_length(c))
            s = lm_history_set(c, r.moved[i].to, &r.moved[i].known, err);
    }
    for (uint32_t i = 0; i < r.n_moved && s; i++)
        for (int k = 0; k < N_PARTS; k++)
            if (r.parts[k].memory)
                (void)lm_memory_remove(r.parts[k].memory, r.moved[i].at, 0, NULL);
    release(&r);
    return s;
}
