/* SPDX-License-Identifier: MIT */
/*
 * PEFT's LoRA adapters.  An adapter changes a weight W to W + s B A, with A [rank][in] and B
 * [out][rank]; a GGUF has both under the name of W's tensor with ".lora_a" and ".lora_b", and
 * adapter.lora.alpha, from which readers make s = alpha / rank.  What reorders the rows of W
 * reorders those of B.
 *
 *   s = lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora; alpha_pattern and the ranks of
 *   single weights change alpha and r there.  Where that is not adapter.lora.alpha / rank, the
 *   difference goes into B.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "hf/hf_card.h"
#include "job/convert_parts.h"
#include "job/pattern.h"

static const char config_name[] = "adapter_config.json";

/* How tensors are called behind the name of what they are for. */
enum part { PART_A, PART_B, PART_EMBD_A, PART_EMBD_B, PART_NONE };

static const struct {
    const char *end;
    enum part   part;
} ends[] = {
    { ".lora_A.weight", PART_A }, { ".lora_B.weight", PART_B },
    { ".lora_A.default.weight", PART_A }, { ".lora_B.default.weight", PART_B },
    { ".lora_embedding_A", PART_EMBD_A }, { ".lora_embedding_B", PART_EMBD_B },
    { ".lora_embedding_A.default", PART_EMBD_A }, { ".lora_embedding_B.default", PART_EMBD_B },
};

/* Both tensors of a weight. */
struct pair {
    const char                *weight;      /* "model.layers.0.mlp.up_proj.weight"      */
    const char                *module;      /* the same without ".weight"               */
    const struct lm_st_tensor *a, *b;
    bool                       embedding;
    double                     alpha;       /* s times the rank                         */
};

struct lora {
    struct lm_convert    *c;
    const struct lm_jval *json;
    struct pair          *pairs;
    size_t                n, cap;
};

static const char *part_of(const char *name, enum part *part)
{
    const size_t n = strlen(name);
    *part = PART_NONE;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i].end);
        if (n > m && !strcmp(name + n - m, ends[i].end)) {
            *part = ends[i].part;
            return name + n - m;
        }
    }
    return NULL;
}

/* The name in the model, without what PEFT puts before it. */
static const char *in_model(const char *name)
{
    static const char prefix[] = "base_model.model.";
    return strncmp(name, prefix, sizeof prefix - 1) ? name : name + sizeof prefix - 1;
}

/* --- adapter_config.json ---------------------------------------------------------------- */

static int load_config(struct lora *l, struct lm_err *err)
{
    char *data = NULL;
    size_t len;
    const int r = lm_hf_load(l->c->src, config_name, &data, &len, err);
    if (r)
        return r > 0 ? lm_hf_missing(l->c->src, config_name, err) : r;
    l->json = lm_json_tree(&l->c->arena, data, len, err);
    free(data);
    if (!l->json)
        return lm_err_at(err, LM_EDATA, "%s", config_name);
    return LM_OK;
}

/* Adapters that are no pairs of matrices. */
static int check_kind(const struct lora *l, struct lm_err *err)
{
    static const char *const unlike[] = { "use_dora", "use_qalora", "use_bdlora" };
    const char *type = lm_jval_str(lm_jval_get(l->json, "peft_type"));
    const struct lm_jval *copies = lm_jval_get(l->json, "layer_replication");
    if (!type || strcmp(type, "LORA"))
        return lm_fail(err, LM_ENOSUP, "%s: an adapter of type %.60s cannot be converted, only "
                       "LORA", config_name, type ? type : "unknown");
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        bool on = false;
        if (lm_jval_bool(lm_jval_get(l->json, unlike[i]), &on) && on)
            return lm_fail(err, LM_ENOSUP, "%s: %s: such an adapter is more than two matrices: "
                           "merge it into the model, then convert that", config_name, unlike[i]);
    }
    if (copies && copies->kind == LM_JSON_ARRAY && copies->len)
        return lm_fail(err, LM_ENOSUP, "%s: layer_replication: merge the adapter into the model, "
                       "then convert that", config_name);
    return LM_OK;
}

/* The number of the first pattern that names the module, else `other`. */
static int by_pattern(const struct lora *l, const char *key, const char *module, double other,
                      double *out, struct lm_err *err)
{
    const struct lm_jval *list = lm_jval_get(l->json, key);
    *out = other;
    if (list && list->kind != LM_JSON_OBJECT && list->kind != LM_JSON_NULL)
        return lm_fail(err, LM_EDATA, "%s: %s is no object", config_name, key);
    for (const struct lm_jval *p = list ? list->first : NULL; p; p = p->next) {
        struct lm_buf b = {0};
        lm_buf_printf(&b, "^(.*\\.)?(%s)$", p->key[0] == '^' ? p->key + 1 : p->key);
        struct lm_pattern *pattern = b.failed ? NULL : lm_pattern_new(b.data, b.len, err);
        lm_buf_release(&b);
        if (!pattern)
            return lm_err_at(err, LM_EDATA, "%s: %s", config_name, key);
        const bool hit = lm_pattern_matches(pattern, module);
        lm_pattern_free(pattern);
        if (!hit)
            continue;
        if (!lm_jval_f64(p, out))
            return lm_fail(err, LM_EDATA, "%s: %s: %s: no number", config_name, key, p->key);
        return LM_OK;
    }
    return LM_OK;
}

/* --- pairs ------------------------------------------------------------------------------ */

/* A weight that is no part of a pair. */
static int refuse_whole(const struct lora *l, const struct lm_st_tensor *t, struct lm_err *err)
{
    static const char what[] = "merge the adapter into the model, then convert that";
    const char *name = in_model(t->name);
    int64_t vocab = -1;
    lm_jval_i64(lm_jval_get(l->c->cfg.json, "vocab_size"), &vocab);
    if (strstr(name, ".lora_"))
        return lm_fail(err, LM_ENOSUP, "%s: is neither matrix of a pair: %s", t->name, what);
    const bool table = strstr(name, "lm_head") || strstr(name, "embed");
    if (table && t->n_dims == 2 && vocab > 0 && t->shape[0] > (uint64_t)vocab)
        return lm_fail(err, LM_ENOSUP, "%s: %llu rows: the vocabulary was extended by %llu: %s",
                       t->name, (unsigned long long)t->shape[0],
                       (unsigned long long)(t->shape[0] - (uint64_t)vocab), what);
    return lm_fail(err, LM_ENOSUP, "%s: is a whole weight, and an adapter's GGUF holds pairs of "
                   "matrices only: %s", t->name, what);
}

static struct pair *pair_of(struct lora *l, const char *tensor, const char *end,
                            struct lm_err *err)
{
    const char *name = in_model(tensor);
    const size_t n = (size_t)(end - name);
    for (size_t i = l->n; i-- > 0;)
        if (strlen(l->pairs[i].module) == n && !memcmp(l->pairs[i].module, name, n))
            return &l->pairs[i];
    char *weight = lm_arena_array(&l->c->arena, n + sizeof ".weight", 1);
    const char *module = lm_arena_copy(&l->c->arena, name, n);
    if (!weight || !module || !lm_grow(&l->pairs, &l->cap, l->n + 1, sizeof *l->pairs)) {
        lm_fail_nomem(err);
        return NULL;
    }
    memcpy(weight, name, n);
    strcpy(weight + n, ".weight");
    l->pairs[l->n] = (struct pair){ .weight = weight, .module = module };
    return &l->pairs[l->n++];
}

static int collect(struct lora *l, struct lm_err *err)
{
    const struct lm_safetensors *st = &l->c->shards[0].st;
    for (size_t i = 0; i < st->n_tensors; i++) {
        const struct lm_st_tensor *t = &st->tensors[i];
        enum part part;
        const char *end = part_of(t->name, &part);
        if (part == PART_NONE)
            return refuse_whole(l, t, err);
        struct pair *p = pair_of(l, t->name, end, err);
        if (!p)
            return err->code;
        const struct lm_st_tensor **slot = part == PART_A || part == PART_EMBD_A ? &p->a : &p->b;
        if (*slot)
            return lm_fail(err, LM_EDATA, "%s: is there twice, also as %s", t->name,
                           (*slot)->name);
        p->embedding = part == PART_EMBD_A || part == PART_EMBD_B;
        *slot = t;
    }
    return l->n ? LM_OK : lm_fail(err, LM_EDATA, "has no tensors");
}

static int check_pair(const struct pair *p, struct lm_err *err)
{
    const struct lm_st_tensor *one = p->a ? p->a : p->b;
    if (!p->a || !p->b)
        return lm_fail(err, LM_EDATA, "%s: the other matrix of the pair, lora_%s%s, is missing",
                       one->name, p->embedding ? "embedding_" : "", p->a ? "B" : "A");
    if (p->a->n_dims != 2 || p->b->n_dims != 2 || p->a->shape[0] != p->b->shape[1] ||
        !p->a->shape[0])
        return lm_fail(err, LM_EDATA, "%s and %s: are no [rank, in] and [out, rank]", p->a->name,
                       p->b->name);
    return LM_OK;
}

/* The rank is that of the matrices: another one in the configuration would be another scale. */
static int check_rank(const struct lora *l, const struct pair *p, struct lm_err *err)
{
    const struct lm_jval *json = lm_jval_get(l->json, "r");
    double general = (double)p->a->shape[0], rank;
    if (json && !lm_jval_f64(json, &general))
        return lm_fail(err, LM_EDATA, "%s: r: no number", config_name);
    const int r = by_pattern(l, "rank_pattern", p->module, general, &rank, err);
    if (!r && rank != (double)p->a->shape[0])
        return lm_fail(err, LM_EDATA, "%s: a rank of %.15g, but %s has %llu", config_name, rank,
                       p->a->name, (unsigned long long)p->a->shape[0]);
    return r;
}

/* alpha / rank and the like, as alpha for readers that divide by the rank. */
static int set_alpha(const struct lora *l, struct pair *p, struct lm_err *err)
{
    double alpha = 8;
    bool rank_stable = false;
    lm_jval_bool(lm_jval_get(l->json, "use_rslora"), &rank_stable);
    if (!lm_jval_f64(lm_jval_get(l->json, "lora_alpha"), &alpha))
        return lm_fail(err, LM_EDATA, "%s: no lora_alpha", config_name);
    const int r = by_pattern(l, "alpha_pattern", p->module, alpha, &p->alpha, err);
    if (rank_stable)
        p->alpha *= sqrt((double)p->a->shape[0]);
    if (!r && !(isfinite(p->alpha) && p->alpha != 0))
        return lm_fail(err, LM_EDATA, "%s: an alpha of 0 or none", config_name);
    return r;
}

/* --- items ------------------------------------------------------------------------------ */

/* The sources of a stack's items, while they gather: it becomes items with its last part. */
struct stack {
    const struct lm_arch_tensor *row;
    uint32_t                     layer;
    struct lm_convert_source    *a, *b;
    uint64_t                     n;
};

static void set_shape(struct lm_convert_item *it, uint64_t n0, uint64_t n1, uint64_t n2)
{
    it->t.n_dims = n2 > 1 ? 3 : 2;
    it->t.ne[0] = n0;
    it->t.ne[1] = n1;
    it->t.ne[2] = n2;
    it->t.ne[3] = 1;
}

/* Both items of a row; n parts each. */
static int add_items(struct lora *l, const struct pair *p, const struct lm_arch_tensor *row,
                     uint32_t layer, struct lm_convert_source *a, struct lm_convert_source *b,
                     uint64_t n, struct lm_err *err)
{
    uint64_t ne[LM_GGUF_MAX_DIMS];
    struct lm_convert *c = l->c;
    const uint64_t rank = p->a->shape[0];
    if (!lm_arch_shape(row, c->cfg.arch, &c->cfg.h, layer, ne))
        return lm_fail(err, LM_EDATA, "config.json: sizes beyond 64 bits");
    for (int k = 0; k < 2; k++) {
        struct lm_convert_item *it =
            lm_convert_new_item(c, row, layer, k ? ".lora_b" : ".lora_a", err);
        if (!it)
            return err->code;
        /* Readers look a token's row up in A; what a weight is turned for does not turn them. */
        const bool turn = p->embedding && !k, columns = row->transform == LM_TILE_COLUMNS;
        const bool whole = !k || row->transform == LM_TRANSPOSE || columns;
        if (turn)
            it->transform = LM_TRANSPOSE;
        else if (columns && !k)
            it->transform = LM_TILE_COLUMNS;        /* A has the columns, B the rows */
        else if (whole)
            it->transform = n > 1 ? LM_STACK : LM_AS_IS;
        if (turn)
            set_shape(it, rank, ne[1], 1);
        else if (k)
            set_shape(it, rank, p->embedding ? ne[0] : ne[1], n);
        else
            set_shape(it, ne[0], rank, n);
        it->sources = k ? b : a;
        it->n_sources = (size_t)n;
        for (size_t i = 0; i < n; i++)
            lm_convert_set_source(c, it, i, &it->sources[i]);
        it->factor = k ? (float)(p->alpha / l->pairs[0].alpha) : 0;
        it->factor = it->factor == 1 ? 0 : it->factor;
        const int r = lm_convert_check_shapes(c, it, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* A pair for one part of a stack: kept until all are there. */
static int add_part(struct lora *l, const struct pair *p, const struct lm_arch_tensor *row,
                    uint32_t layer, uint32_t part, struct stack *s, struct lm_err *err)
{
    uint64_t ne[LM_GGUF_MAX_DIMS];
    const uint32_t n_dims = lm_arch_shape(row, l->c->cfg.arch, &l->c->cfg.h, layer, ne);
    const uint64_t n = n_dims ? ne[n_dims - 1] : 0;
    if (s->row != row || s->layer != layer) {
        if (s->n)
            return lm_fail(err, LM_EDATA, "%s: not every expert before it has a pair", p->weight);
        *s = (struct stack){ .row = row, .layer = layer };
        s->a = n > 1 << 20 ? NULL : lm_arena_array(&l->c->arena, (size_t)n, sizeof *s->a);
        s->b = n > 1 << 20 ? NULL : lm_arena_array(&l->c->arena, (size_t)n, sizeof *s->b);
        if (!s->a || !s->b)
            return lm_fail_nomem(err);
        memset(s->a, 0, (size_t)n * sizeof *s->a);
    }
    if (part >= n || s->a[part].st)
        return lm_fail(err, LM_EDATA, "%s: config.json says there are %llu of them", p->weight,
                       (unsigned long long)n);
    s->a[part] = (struct lm_convert_source){ 0, p->a->name, p->a };
    s->b[part] = (struct lm_convert_source){ 0, p->b->name, p->b };
    if (++s->n < n)
        return LM_OK;
    s->n = 0;
    s->row = NULL;
    return add_items(l, p, row, layer, s->a, s->b, n, err);
}

static int add_pair(struct lora *l, const struct pair *p, struct stack *stacks, size_t n_stacks,
                    struct lm_err *err)
{
    const struct lm_arch *arch = l->c->cfg.arch;
    char own[LM_ARCH_NAME];
    const char *weight = lm_convert_text_name(l->c, p->weight, own, sizeof own);
    uint32_t layer, part;
    bool found = false;
    int r = LM_OK;
    weight = weight ? lm_convert_row_name(l->c, weight) : NULL;
    if (!weight)
        return lm_fail(err, LM_ENOSUP, "%s: adapts another part than the language model",
                       p->a->name);
    for (size_t i = 0; !r && arch->tensors[i].name; i++) {
        const struct lm_arch_tensor *row = &arch->tensors[i];
        if (!lm_convert_is_row_of(row, weight, &layer, &part))
            continue;
        found = true;
        if (row->flags & LM_TENSOR_PER_LAYER && layer >= l->c->cfg.h.n_layer)
            return lm_fail(err, LM_EDATA, "%s: config.json says %u layers", p->weight,
                           l->c->cfg.h.n_layer);
        if (row->transform == LM_STACK) {
            r = add_part(l, p, row, layer, part, &stacks[i % n_stacks], err);
            continue;
        }
        struct lm_convert_source *s = lm_arena_array(&l->c->arena, 2, sizeof *s);
        if (!s)
            return lm_fail_nomem(err);
        s[0] = (struct lm_convert_source){ 0, p->a->name, p->a };
        s[1] = (struct lm_convert_source){ 0, p->b->name, p->b };
        r = add_items(l, p, row, layer, s, s + 1, 1, err);
    }
    return found ? r : lm_fail(err, LM_ENOSUP, "%s: no tensor of a %s model", p->a->name,
                               arch->name);
}

static int add_all(struct lora *l, struct lm_err *err)
{
    const size_t n_rows = lm_arch_n_tensors(l->c->cfg.arch);
    struct stack *stacks = calloc(n_rows, sizeof *stacks);
    int r = stacks ? LM_OK : lm_fail_nomem(err);
    for (size_t i = 0; !r && i < l->n; i++) {
        r = check_pair(&l->pairs[i], err);
        if (!r)
            r = check_rank(l, &l->pairs[i], err);
        if (!r)
            r = set_alpha(l, &l->pairs[i], err);
        if (!r)
            r = add_pair(l, &l->pairs[i], stacks, n_rows, err);
    }
    for (size_t i = 0; !r && i < n_rows; i++)
        if (stacks[i].n)
            r = lm_fail(err, LM_EDATA, "%s: layer %u: not every expert has a pair",
                        stacks[i].row->name, stacks[i].layer);
    free(stacks);
    return r;
}

/* --- the model -------------------------------------------------------------------------- */

/* Where the adapter's model is: what it says, relative to the adapter's folder. */
static char *base_path(const struct lora *l, struct lm_err *err)
{
    const char *name = lm_jval_str(lm_jval_get(l->json, "base_model_name_or_path"));
    const char *here = lm_hf_folder(l->c->src);
    if (!name || !*name || !here) {
        lm_fail(err, LM_EUSE, "%s: nothing tells where the model is: give --base", config_name);
        return NULL;
    }
    const size_t n = strlen(here) + strlen(name) + 2;
    char *path = malloc(n);
    if (!path)
        lm_fail_nomem(err);
    else if (*name == '/')
        strcpy(path, name);
    else
        snprintf(path, n, "%s/%s", here, name);
    return path;
}

/* The sizes of the model come from its config.json. */
static int read_base(struct lora *l, const struct lm_convert_options *o, struct lm_err *err)
{
    struct lm_convert *c = l->c;
    struct lm_hf_source *base = o->base;
    int r = LM_OK;
    if (!base) {
        char *path = base_path(l, err);
        if (!path)
            return err->code;
        c->base = lm_hf_open(path, NULL, c->outer, err);
        if (!c->base)
            r = lm_err_at(err, LM_EIO, "%s: its model %.200s: give --base", config_name, path);
        free(path);
        base = c->base;
    }
    if (!r)
        r = lm_convert_read_config(c, base, err);
    if (!r)
        r = lm_convert_hparams(c, err);
    if (r && base)
        return lm_err_at(err, r, "its model %s", lm_hf_path(base));
    int64_t vocab = 0;
    if (lm_jval_i64(lm_jval_get(c->cfg.json, "vocab_size"), &vocab) && vocab > 0 &&
        vocab <= INT32_MAX)
        c->cfg.h.n_vocab = (uint32_t)vocab;
    return r;
}

/* --- keys ------------------------------------------------------------------------------- */

static int set_tokens(const struct lora *l, struct lm_err *err)
{
    const struct lm_jval *list = lm_jval_get(l->json, "alora_invocation_tokens");
    if (!list || list->kind != LM_JSON_ARRAY || !list->len)
        return LM_OK;
    uint32_t *ids = lm_malloc_array(list->len, sizeof *ids);
    size_t n = 0;
    int r = ids ? LM_OK : lm_fail_nomem(err);
    for (const struct lm_jval *v = list->first; !r && v; v = v->next) {
        int64_t id;
        if (!lm_jval_i64(v, &id) || id < 0 || id > UINT32_MAX)
            r = lm_fail(err, LM_EDATA, "%s: alora_invocation_tokens: no list of ids", config_name);
        else
            ids[n++] = (uint32_t)id;
    }
    if (!r)
        lm_gguf_set_arr(l->c->w, "adapter.alora.invocation_tokens", LM_GGUF_U32, ids, n);
    free(ids);
    return r;
}

static int set_keys(const struct lora *l, const struct lm_convert_options *o, struct lm_err *err)
{
    struct lm_convert *c = l->c;
    const struct lm_hf_card_options card = {
        .title = lm_hf_title(c->src), .model_name = o->model_name, .metadata = o->metadata,
        .metadata_len = o->metadata_len,
    };
    lm_gguf_set_str(c->w, "general.architecture", c->cfg.arch->name, strlen(c->cfg.arch->name));
    lm_gguf_set_str(c->w, "general.type", "adapter", 7);
    lm_gguf_set_str(c->w, "adapter.type", "lora", 4);
    int r = lm_hf_card_write(c->w, c->src, NULL, NULL, &card, c->env, err);
    lm_gguf_set_f32(c->w, "adapter.lora.alpha", (float)l->pairs[0].alpha);
    if (!r)
        r = set_tokens(l, err);
    lm_gguf_set_u32(c->w, "general.quantization_version", 2);
    if (o->provenance)
        lm_gguf_set_str(c->w, o->provenance_key, o->provenance, strlen(o->provenance));
    for (size_t i = 0; !r && i < c->n_items; i++) {
        const struct lm_convert_tensor *t = &c->items[i].t;
        lm_gguf_add_tensor(c->w, t->name, strlen(t->name), t->n_dims, t->ne, t->type);
    }
    return r;
}

int lm_convert_lora(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err)
{
    static const char *const files[] = { "adapter_model.safetensors", "adapter_model.bin" };
    struct lora l = { .c = c };
    size_t file = 0;
    int r = load_config(&l, err);
    if (!r)
        r = check_kind(&l, err);
    if (!r)
        r = read_base(&l, o, err);
    if (!r && !lm_hf_random(c->src))
        r = lm_fail(err, LM_ENOSUP, "an adapter in an archive that streams: give --spool DIR");
    while (file < 2 && lm_hf_find(c->src, files[file]) < 0)
        file++;
    if (!r)
        r = file == 2 ? lm_hf_missing(c->src, files[0], err)
                      : lm_convert_add_file(c, files[file], err);
    if (!r && (r = collect(&l, err)))
        lm_err_at(err, r, "%s", files[file]);
    if (!r)
        r = add_all(&l, err);
    if (!r)
        r = lm_convert_pair_types(c, o->type, err);
    if (!r)
        r = set_keys(&l, o, err);
    free(l.pairs);
    return r;
}
