/* SPDX-License-Identifier: MIT */
/*
 * Loading: what the architecture's rows ask for is found in the files and checked, then
 * room is made, then data is read.  Matrices take the form the device multiplies
 * fastest; vectors become floats; tables, and matrices whose form is the file's, stay
 * in the mapped file.
 */
#include "model/load_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/draft_head.h"
#include "base/buf.h"
#include "base/size.h"

/* What goes with a model may be taken for one: another command line would do. */
static int find_arch(struct lm_model *m, struct lm_err *err)
{
    struct lm_str name, type;
    if (lm_gguf_str(m->gguf, "general.type", &type, NULL) == LM_OK && strcmp(type.p, "model"))
        return lm_fail(err, LM_EUSE, "this is no model: its general.type is '%.64s'", type.p);
    int r = lm_gguf_str(m->gguf, "general.architecture", &name, err);
    if (r < 0)
        return r;
    if (r == LM_OK && strcmp(name.p, "controlvector") == 0)
        return lm_fail(err, LM_EUSE, "this is no model, but a control vector");
    if (r == 1)
        return lm_fail(err, LM_EDATA, "general.architecture: missing");
    m->arch = lm_arch_by_name(name.p);
    if (!m->arch)
        return lm_fail(err, LM_ENOSUP, "general.architecture: %.*s is not supported",
                       (int)(name.len < 64 ? name.len : 64), name.p);
    return LM_OK;
}

/* A tensor of the model by name, whatever file it is in; *file becomes its number. */
static const struct lm_gguf_tensor *tensor(const struct lm_model *m, const char *name,
                                           size_t *file)
{
    const struct lm_gguf_tensor *t = NULL;
    for (size_t i = 0; i < m->files->n_inputs && !t; i++)
        if ((t = lm_gguf_tensor(m->files->inputs[i].g, name)) && file)
            *file = i;
    return t;
}

static bool there(const void *m, const char *name)
{
    return tensor(m, name, NULL);
}

/* The vocabulary is as large as the output matrix, whatever the metadata say. */
static int find_vocab(struct lm_model *m, struct lm_err *err)
{
    const struct lm_gguf_tensor *out = NULL;
    const struct lm_arch_tensor *row = m->arch->tensors, *r;
    for (r = row; r->name && !out; r++)
        if (r->ne[1] == LM_DIM_VOCAB && r->flags & LM_TENSOR_MATRIX) {
            out = tensor(m, r->name, NULL);
            if (!out && r->instead)
                out = tensor(m, row[r->instead - 1].name, NULL);
            if (!out)
                return lm_fail(err, LM_EDATA, "%s: missing", r->name);
        }
    for (r = row; r->name && !out; r++)         /* an encoder has only the table */
        if (r->ne[1] == LM_DIM_VOCAB && r->flags & LM_TENSOR_TABLE)
            out = lm_gguf_tensor(m->gguf, r->name);
    if (!out)
        return LM_OK;
    if (out->ne[1] == 0 || out->ne[1] > INT32_MAX)
        return lm_fail(err, LM_EDATA, "%s: %llu rows", out->name.p,
                       (unsigned long long)out->ne[1]);
    m->h.n_vocab = (uint32_t)out->ne[1];
    return LM_OK;
}

/* As many labels as the classifier has rows; names for all of them, or none. */
static int find_labels(struct lm_model *m, struct lm_err *err)
{
    const struct lm_gguf_tensor *out = tensor(m, "cls.output.weight", NULL);
    char key[LM_ARCH_NAME];
    struct lm_gguf_arr names = {0};
    if (!out || !lm_arch_has(m->arch, LM_CLS_OUT))
        return LM_OK;
    if (out->ne[1] == 0 || out->ne[1] > LM_MAX_LABELS)
        return lm_fail(err, LM_EDATA, "cls.output.weight: %llu rows",
                       (unsigned long long)out->ne[1]);
    m->h.n_labels = (uint32_t)out->ne[1];
    snprintf(key, sizeof key, "%s.classifier.output_labels", m->arch->name);
    int r = lm_gguf_arr(m->gguf, key, LM_GGUF_STR, &names, err);
    if (r < 0)
        return r;
    if (r == LM_OK && names.n != m->h.n_labels)
        return lm_fail(err, LM_EDATA, "%s: %llu names, and the classifier has %u rows", key,
                       (unsigned long long)names.n, m->h.n_labels);
    m->labels = names.data;
    return LM_OK;
}

static int check_shape(const struct lm_model *m, const struct lm_gguf_tensor *f,
                       const struct lm_arch_tensor *row, uint32_t layer, struct lm_err *err)
{
    uint64_t ne[LM_GGUF_MAX_DIMS];
    if (!lm_arch_shape(row, m->arch, &m->h, layer, ne))
        return lm_fail(err, LM_EDATA, "%s: shape does not fit", f->name.p);
    for (int i = 0; i < LM_GGUF_MAX_DIMS; i++)
        if (f->ne[i] != ne[i])
            return lm_fail(err, LM_EDATA, "%s: shape is [%llu, %llu, %llu, %llu], the "
                           "metadata ask for [%llu, %llu, %llu, %llu]", f->name.p,
                           (unsigned long long)f->ne[0], (unsigned long long)f->ne[1],
                           (unsigned long long)f->ne[2], (unsigned long long)f->ne[3],
                           (unsigned long long)ne[0], (unsigned long long)ne[1],
                           (unsigned long long)ne[2], (unsigned long long)ne[3]);
    return LM_OK;
}

static int check_type(const struct lm_gguf_tensor *f, struct lm_err *err)
{
    uint64_t row, all;
    if (!f->type)
        return lm_fail(err, LM_ENOSUP, "%s: tensor type %u is not supported", f->name.p,
                       f->type_id);
    if (!f->type->decode)
        return lm_fail(err, LM_EDATA, "%s: weights of type %s", f->name.p, f->type->name);
    if (!lm_type_row_bytes(f->type, f->ne[0], &row) ||
        !lm_mul_u64(row, f->ne[1] * f->ne[2] * f->ne[3], &all) || all != f->bytes)
        return lm_fail(err, LM_EDATA, "%s: %llu columns: %s needs a multiple of %u", f->name.p,
                       (unsigned long long)f->ne[0], f->type->name, f->type->block);
    return LM_OK;
}

/* Can a device compute what the row's weight is for?  Vectors can be brought elsewhere. */
static bool serves(const struct lm_device *d, const struct lm_arch_tensor *row,
                   const struct lm_tensor *t)
{
    struct lm_graph g = {0};
    struct lm_tensor *w = lm_import(&g, t), *x, *y = NULL;
    size_t n = t->ne[0];
    if (row->flags & LM_TENSOR_HEADS) {
        y = lm_mul_mat_heads(&g, w, lm_new_tensor(&g, lm_type_by_id(LM_F32), 3,
                                                  (size_t[]){ n, t->ne[2], 1 }));
    } else if (row->flags & LM_TENSOR_EXPERTS) {
        x = lm_new_tensor(&g, lm_type_by_id(LM_F32), 3, (size_t[]){ n, 1, 1 });
        y = lm_mul_mat_id(&g, w, x, lm_new_tensor(&g, lm_type_by_id(LM_I32), 2,
                                                  (size_t[]){ 1, 1 }));
    } else if (row->flags & LM_TENSOR_MATRIX) {
        y = lm_mul_mat(&g, w, lm_new_tensor(&g, lm_type_by_id(LM_F32), 1, &n));
    }
    bool ok = !y || d->ops->supports_op(d, y);
    lm_graph_release(&g);
    return ok;
}

/* Where a weight is used: with its layer, or with the output; what is looked up in and what
 * all layers use, on the CPU. */
static size_t device_of(const struct lm_model *m, const struct lm_arch_tensor *row,
                        uint32_t layer)
{
    if (row->flags & LM_TENSOR_PER_LAYER)
        return m->layer_device[layer];
    bool output = row->role == LM_OUTPUT || row->role == LM_OUTPUT_B ||
                  row->role == LM_OUTPUT_NORM || row->role == LM_OUTPUT_NORM_B;
    return output ? m->layer_device[m->h.n_layer] : lm_model_cpu_index(m);
}

/* Another device for a tensor's weights, if there is one for its name. */
static int chosen_device(const struct lm_loader *l, const char *tensor, size_t *device,
                         struct lm_err *err)
{
    const struct lm_placement *p = l->o ? &l->o->placement : NULL;
    const char *name = p && p->choose ? p->choose(p->choose_arg, tensor) : NULL;
    if (!name)
        return LM_OK;
    for (size_t i = 0; i < l->m->n_devices; i++)
        if (strcmp(l->m->device[i]->ops->name(l->m->device[i]), name) == 0) {
            *device = i;
            return LM_OK;
        }
    return lm_fail(err, LM_EUSE, "%s: there is no device %s, or it is not used", tensor, name);
}

/* Do the rows of a weight stay in the file until they are wanted? */
static bool is_lazy(const struct lm_loader *l, const struct lm_arch_tensor *row,
                    const struct lm_tensor *t)
{
    const enum lm_lazy lazy = l->o ? l->o->lazy : LM_LAZY_AUTO;
    return row->role == LM_LAYERS_EMBD && lazy != LM_LAZY_OFF &&
           (lazy == LM_LAZY_ON || lm_tensor_bytes(t) > LM_LAZY_ABOVE);
}

static enum lm_weight_place choose(const struct lm_loader *l, const struct lm_arch_tensor *row,
                                   const struct lm_tensor *t, size_t device)
{
    const struct lm_device *d = l->m->device[device];
    bool map = (!l->o || l->o->load != LM_LOAD_READ || is_lazy(l, row, t)) &&
               d == lm_model_cpu(l->m);
    const unsigned stack = LM_TENSOR_EXPERTS | LM_TENSOR_HEADS;
    const struct lm_buft *b = d->ops->buft(d, LM_USE_MATRIX);
    if (row->flags & (LM_TENSOR_MATRIX | stack) && !(l->o && l->o->no_repack) &&
        b->ops->tensor_size(b, t) != SIZE_MAX)
        return map && b->ops->as_in_file(b, t) ? LM_AT_MAP : LM_AT_PACKED;
    if (row->flags & (LM_TENSOR_MATRIX | LM_TENSOR_TABLE | stack))
        return map ? LM_AT_MAP : LM_AT_PLAIN;
    return LM_AT_FLOATS;
}

/* NAME.scale beside NAME.weight, a number for each matrix that blocks of some types have no place
 * for. */
static int add_scale(struct lm_loader *l, struct lm_tensor *t, size_t device, struct lm_err *err)
{
    char name[LM_ARCH_NAME + 8];
    size_t file = 0, n = strlen(t->name);
    uint32_t layer;
    const size_t stem = n > 7 && !strcmp(t->name + n - 7, ".weight") ? n - 7 : 0;
    snprintf(name, sizeof name, "%.*s.scale", (int)stem, t->name);
    const struct lm_gguf_tensor *f = stem ? tensor(l->m, name, &file) : NULL;
    if (!f || lm_arch_row_of(l->m->arch, &l->m->h, name, &layer))
        return LM_OK;
    if (f->type_id != LM_F32 || f->bytes != f->ne[0] * sizeof(float) ||
        (f->ne[0] != 1 && f->ne[0] != t->ne[2]))
        return lm_fail(err, LM_EDATA, "%s: is no number for each matrix of %s", name, t->name);
    struct lm_tensor *s = lm_arena_alloc(&l->m->arena, sizeof *s);
    struct lm_graph maker = {0};
    n = (size_t)f->ne[0];
    const struct lm_tensor *made = lm_new_tensor(&maker, lm_type_by_id(LM_F32), 1, &n);
    if (s && made) {
        *s = *made;
        s->name = f->name.p;
        l->w[l->n++] = (struct lm_weight){
            .t = s, .from = f, .file = file, .place = LM_AT_FLOATS, .device = device };
        t->scale = s;
    }
    lm_graph_release(&maker);
    return t->scale ? LM_OK : lm_fail_nomem(err);
}

/* The tensor for one row of the architecture in one layer, if the file has it. */
static int add_weight(struct lm_loader *l, size_t row_index, uint32_t layer, struct lm_err *err)
{
    struct lm_model *m = l->m;
    const struct lm_arch_tensor *row = &m->arch->tensors[row_index];
    char name[LM_ARCH_NAME];
    lm_arch_expand(row->name, layer, name);
    size_t file = 0, device = device_of(m, row, layer);
    const struct lm_gguf_tensor *f = tensor(m, name, &file);
    if (!f && row->instead)
        f = tensor(m, m->arch->tensors[row->instead - 1].name, &file);
    if (!lm_arch_allows(row, m->arch, &m->h, layer))
        return LM_OK;
    if (!f)
        return lm_arch_needs(row, m->arch, &m->h, layer, there, m)
                   ? lm_fail(err, LM_EDATA, "%s: missing", name) : LM_OK;
    int r;
    if ((r = check_shape(m, f, row, layer, err)) || (r = check_type(f, err)) ||
        (r = chosen_device(l, name, &device, err)))
        return r;
    struct lm_graph maker = {0};        /* only for the tensor's strides */
    struct lm_tensor *t = lm_arena_alloc(&m->arena, sizeof *t), *made;
    size_t ne[LM_MAX_DIMS];
    for (int i = 0; i < LM_MAX_DIMS; i++)
        ne[i] = (size_t)f->ne[i];
    made = lm_new_tensor(&maker, f->type, LM_MAX_DIMS, ne);
    if (t && made) {
        *t = *made;
        t->name = f->name.p;
        if (device != lm_model_cpu_index(m) && !serves(m->device[device], row, t))
            device = lm_model_cpu_index(m);
        enum lm_weight_place place = choose(l, row, t, device);
        if (place == LM_AT_FLOATS) {
            t->type = lm_type_by_id(LM_F32);
            t->nb[0] = sizeof(float);
            t->nb[1] = t->nb[2] = t->nb[3] = ne[0] * sizeof(float);
        }
        l->w[l->n++] = (struct lm_weight){
            .t = t, .from = f, .file = file, .place = place, .device = device,
            .lazy = place == LM_AT_MAP && is_lazy(l, row, t) };
        m->weights[layer * m->n_weights + row_index] = t;
    }
    r = t && made ? add_scale(l, t, device, err) : lm_fail(err, LM_ENOMEM, "%s: out of memory",
                                                           name);
    lm_graph_release(&maker);
    return r;
}

static int add_weights(struct lm_loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    m->n_weights = lm_arch_n_tensors(m->arch);
    if (m->h.n_layer > m->files->n_tensors)
        return lm_fail(err, LM_EDATA, "%s.block_count: %u layers in %llu tensors",
                       m->arch->name, m->h.n_layer, (unsigned long long)m->files->n_tensors);
    m->n_blocks = m->h.n_layer + (l->o && l->o->draft_head);
    size_t most = m->n_weights * m->n_blocks;
    m->weights = lm_arena_array(&m->arena, most, sizeof *m->weights);
    l->w = lm_malloc_array(2 * most, sizeof *l->w);       /* each may have a scale */
    if (!m->weights || !l->w)
        return lm_fail_nomem(err);
    for (uint32_t layer = 0; layer < m->n_blocks; layer++)
        for (size_t i = 0; i < m->n_weights; i++) {
            bool per_layer = m->arch->tensors[i].flags & LM_TENSOR_PER_LAYER;
            int r = per_layer || layer == 0 ? add_weight(l, i, layer, err) : LM_OK;
            if (r)
                return r;
            if (layer == 0 && m->arch->tensors[i].flags & LM_TENSOR_TABLE && m->weights[i])
                m->n_embd_rows = (uint32_t)m->weights[i]->ne[1];
        }
    return LM_OK;
}

/* Tell once for each type that the device has no products of its own for it. */
static void note_slow(const struct lm_loader *l)
{
    bool told[256] = { false };         /* by type */
    for (size_t i = 0; i < l->n; i++) {
        const struct lm_weight *w = &l->w[i];
        const struct lm_device *d = l->m->device[w->device];
        uint32_t id = w->from->type_id;
        if (w->place == LM_AT_FLOATS || id >= 256 || told[id])
            continue;
        told[id] = true;
        if (d->ops->decodes_first(d, w->t))
            lm_note(l->env, LM_INFO, "%s: %s is decoded before it is multiplied", w->t->name,
                    w->from->type->name);
    }
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)*(const struct lm_gguf_tensor *const *)a;
    const uintptr_t y = (uintptr_t)*(const struct lm_gguf_tensor *const *)b;
    return (x > y) - (x < y);
}

/* Is a tensor one that good files have, though running does without: of layers that predict
 * further tokens, tables of rotations and scales of activations, what belongs to other rows, and
 * parts that take in pictures and sound? */
static bool is_known(const struct lm_model *m, const char *name)
{
    static const char *const parts[] = { ".nextn.", "attn_rot_embd", ".input_scale" };
    static const char *const starts[] = { "rope_freqs.weight", "rope_factors_long.weight",
                                          "rope_factors_short.weight", "v.", "a.", "mm." };
    uint32_t layer = 0;
    const struct lm_arch_tensor *row = lm_arch_row_of(m->arch, &m->h, name, &layer);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return row && (!(row->flags & LM_TENSOR_PER_LAYER) ||
                   layer < (uint64_t)m->h.n_layer + m->h.n_further);
}

/* A misspelt name would otherwise be a weight that is silently not there. */
static int note_unused(const struct lm_loader *l, struct lm_err *err)
{
    const struct lm_split *f = l->m->files;
    const struct lm_gguf_tensor **used = lm_malloc_array(l->n, sizeof *used);
    const char *first = NULL;
    uint64_t n = 0;
    if (!used)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < l->n; i++)
        used[i] = l->w[i].from;
    qsort(used, l->n, sizeof *used, by_address);
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct lm_gguf_tensor *t = f->tensors[i].t;
        if (bsearch(&t, used, l->n, sizeof *used, by_address) || is_known(l->m, t->name.p))
            continue;
        first = n++ ? first : t->name.p;
    }
    free(used);
    if (n)
        lm_note(l->env, LM_WARN, "%s: %llu %s of the file %s not used: %.100s%s",
                lm_in_name(l->m->in), (unsigned long long)n, n == 1 ? "tensor" : "tensors",
                n == 1 ? "is" : "are", first, n == 1 ? "" : " ...");
    return LM_OK;
}

/* Metadata to read instead; a key that begins with a dot has the architecture's name before it. */
static int override(struct lm_loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    const size_t n = l->o->n_overrides;
    struct lm_gguf_kv *kv = lm_arena_array(&m->arena, n, sizeof *kv);
    struct lm_str arch = { "", 0 };
    if (n && !kv)
        return lm_fail_nomem(err);
    for (int dots = 0; dots < 2; dots++) {      /* the architecture may be among the others */
        size_t k = 0;
        if (dots && lm_gguf_str(m->gguf, "general.architecture", &arch, err) < 0)
            return LM_EDATA;
        for (size_t i = 0; i < n; i++) {
            const struct lm_gguf_kv *from = &l->o->overrides[i];
            if ((from->key.len && from->key.p[0] == '.') != dots)
                continue;
            kv[k] = *from;
            if (dots) {
                kv[k].key.len += arch.len;
                char *key = lm_arena_alloc(&m->arena, kv[k].key.len + 1);
                if (!key)
                    return lm_fail_nomem(err);
                memcpy(key, arch.p, arch.len);
                memcpy(key + arch.len, from->key.p, from->key.len);
                kv[k].key.p = key;
            }
            k++;
        }
        int r = lm_gguf_override(m->gguf, kv, k, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* The first file, and those that belong to it; the metadata are the first's. */
static int open_files(struct lm_loader *l, const char *path, struct lm_err *err)
{
    struct lm_model *m = l->m;
    if (!(m->in = lm_in_open(path, LM_IN_RAW, err)))
        return LM_EIO;
    if (!lm_in_seekable(m->in))
        return lm_fail(err, LM_ENOSUP, "a model that runs must be a file that is not "
                       "compressed");
    const struct lm_model_options none = {0}, *o = l->o ? l->o : &none;
    m->files = lm_split_open_list(m->in, o->shards, o->n_shards, LM_IN_RAW, l->env, err);
    if (!m->files) {
        if (strstr(err->text, "zstd-compressed"))
            return lm_fail(err, LM_ENOSUP, "zstd-compressed: a model that runs must not be: "
                           "decompress it (zstd -d)");
        size_t n = strlen(path);                /* callers name the file that they named */
        if (strncmp(err->text, path, n) == 0 && strncmp(err->text + n, ": ", 2) == 0)
            memmove(err->text, err->text + n + 2, strlen(err->text + n + 2) + 1);
        return err->code;
    }
    m->gguf = m->files->inputs[0].g;
    for (size_t i = 0; i < m->files->n_inputs; i++)
        if (m->files->inputs[i].g->big_endian)
            return lm_fail(err, LM_ENOSUP, "big-endian files cannot be run");
    return l->o ? override(l, err) : LM_OK;
}

/* A value that an override gave and the model cannot have is the caller's mistake. */
static int read_numbers(struct lm_loader *l, struct lm_err *err)
{
    const int r = lm_arch_read(l->m->arch, l->m->gguf, &l->m->h, err);
    for (size_t i = 0; r == LM_EDATA && l->o && i < l->o->n_overrides; i++) {
        const struct lm_str key = l->o->overrides[i].key;
        const size_t from = key.len && key.p[0] == '.' ? strlen(l->m->arch->name) : 0;
        const char *text = strncmp(err->text, "key ", 4) ? err->text : err->text + 4;
        if (strlen(text) > from + key.len && text[from + key.len] == ':' &&
            memcmp(text + from, key.p, key.len) == 0)
            return err->code = LM_EUSE;
    }
    return r;
}

/* Has the file the draft head that is asked for? */
static int check_draft(const struct lm_loader *l, struct lm_err *err)
{
    const struct lm_model *m = l->m;
    char name[LM_ARCH_NAME];
    if (!l->o || !l->o->draft_head)
        return LM_OK;
    snprintf(name, sizeof name, "blk.%u.nextn.eh_proj.weight", m->h.n_layer);
    if (m->h.n_further && !lm_draft_supported(m->arch))
        return lm_fail(err, LM_ENOSUP, "draft heads of a %s model are not supported",
                       m->arch->name);
    return m->h.n_further && there(m, name)
               ? LM_OK : lm_fail(err, LM_ENOSUP, "the model has no draft head");
}

static int load(struct lm_loader *l, const char *path, struct lm_err *err)
{
    struct lm_model *m = l->m;
    int r;
    if ((r = open_files(l, path, err)) || (r = find_arch(m, err)) ||
        (r = read_numbers(l, err)) || (r = check_draft(l, err)) || (r = find_vocab(m, err)) ||
        (r = find_labels(m, err)) ||
        (r = lm_place_layers(m, l->o ? &l->o->placement : NULL, l->env, err)) ||
        (r = add_weights(l, err)) || (r = note_unused(l, err)))
        return r;
    note_slow(l);
    return lm_load_weights(l, err);
}

struct lm_model *lm_model_load(const char *path, const struct lm_model_options *o,
                               const struct lm_env *env, struct lm_err *err)
{
    struct lm_loader l = { .o = o, .env = env, .m = calloc(1, sizeof *l.m) };
    struct lm_err why = {0};
    if (!l.m) {
        lm_fail_nomem(err);
        return NULL;
    }
    int r = load(&l, path, &why);
    free(l.w);
    free(l.errs);
    free(l.scratch);
    if (r) {
        lm_model_free(l.m);
        if (err)
            *err = why;
        return NULL;
    }
    return l.m;
}

void lm_model_free(struct lm_model *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < LM_MAX_PLACES; i++) {
        if (m->plain[i])
            m->plain[i]->ops->free(m->plain[i]);
        if (m->packed[i])
            m->packed[i]->ops->free(m->packed[i]);
    }
    for (size_t i = 0; i < m->n_maps; i++)
        lm_map_close(&m->maps[i]);
    lm_split_free(m->files);
    lm_in_close(m->in);
    lm_devices_close(m->devices);
    lm_arena_release(&m->arena);
    free(m);
}

const struct lm_gguf *lm_model_gguf(const struct lm_model *m)
{
    return m->gguf;
}

const struct lm_gguf *lm_model_file(const struct lm_model *m, size_t i)
{
    return i < m->files->n_inputs ? m->files->inputs[i].g : NULL;
}

const char *lm_model_arch(const struct lm_model *m)
{
    return m->arch->name;
}

bool lm_model_reads(const struct lm_model *m, const char *name)
{
    return lm_arch_reads(m->arch, name);
}

bool lm_model_has_yarn(const struct lm_model *m)
{
    return m->h.rope_scaling == LM_ROPE_YARN;
}

bool lm_model_has_first_length(const struct lm_model *m)
{
    const struct lm_hparams *h = &m->h;
    return (h->rope_scaling != LM_ROPE_NONE && h->rope_scaling != LM_ROPE_LINEAR) ||
           (h->far_scale > 0 && !h->far_length);
}

uint32_t lm_model_n_vocab(const struct lm_model *m)
{
    return m->h.n_vocab;
}

uint32_t lm_model_n_layer(const struct lm_model *m)
{
    return m->h.n_layer;
}

uint32_t lm_model_n_embd(const struct lm_model *m)
{
    return m->h.n_embd;
}

uint32_t lm_model_n_ctx_train(const struct lm_model *m)
{
    return m->h.n_ctx_train;
}

bool lm_model_is_encoder(const struct lm_model *m)
{
    return m->h.no_causal;
}

bool lm_model_has_encoder(const struct lm_model *m)
{
    return m->arch->has_encoder;
}

int lm_model_decoder_start(const struct lm_model *m, int64_t *id, struct lm_err *err)
{
    struct lm_buf key = { 0 };
    lm_buf_printf(&key, "%s.decoder_start_token_id", lm_model_arch(m));
    int s = key.failed ? lm_fail_nomem(err) : lm_gguf_i64(m->gguf, key.data, id, err);
    if (s == LM_OK && (*id < 0 || *id >= m->n_embd_rows))
        s = lm_fail(err, LM_EDATA, "%s is %lld, out of range: the vocabulary has %u entries",
                    key.data, (long long)*id, m->n_embd_rows);
    lm_buf_release(&key);
    return s < 0 ? s : LM_OK;
}

uint32_t lm_model_embd_len(const struct lm_model *m)
{
    uint32_t n = m->h.n_embd;
    for (size_t i = 0; i < m->n_weights; i++) {
        const enum lm_role role = m->arch->tensors[i].role;
        if ((role == LM_DENSE_2 || role == LM_DENSE_3) && m->weights[i])
            n = (uint32_t)m->weights[i]->ne[1];
    }
    return n;
}

uint32_t lm_model_n_labels(const struct lm_model *m)
{
    return m->h.n_labels;
}

struct lm_str lm_model_label(const struct lm_model *m, uint32_t i)
{
    return m->labels && i < m->h.n_labels ? m->labels[i] : (struct lm_str){ "", 0 };
}

enum lm_pooling lm_model_class_pooling(const struct lm_model *m)
{
    return !m->arch->encoder                        ? LM_POOLING_LAST
           : m->h.class_pooling == LM_POOLING_MEAN ? LM_POOLING_MEAN : LM_POOLING_CLS;
}

enum lm_pooling lm_model_pooling(const struct lm_model *m)
{
    return (enum lm_pooling)m->h.pooling;
}

enum lm_pooling lm_model_pooling_default(const struct lm_model *m)
{
    const enum lm_pooling said = lm_model_pooling(m);
    return said != LM_POOLING_NONE   ? said
           : lm_model_is_encoder(m) ? LM_POOLING_MEAN : LM_POOLING_LAST;
}
