/* SPDX-License-Identifier: MIT */
#include "job/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/draft_head.h"
#include "base/size.h"
#include "base/text.h"
#include "template/template.h"
#include "vocab/vocab.h"

#define NAME "%.120s"         /* of a name from a file, in a message */

struct check {
    const struct lm_gguf *const *shards;
    size_t                       n_shards;
    const struct lm_gguf        *g;            /* the first: its metadata count          */
    bool                         whole;        /* all shards are here                    */
    const struct lm_check_to    *to;
    const struct lm_arch        *arch;         /* row of the architecture, or NULL       */
    struct lm_hparams            h;            /* its numbers                            */
    uint64_t                     n;
};

static void found(struct check *c, size_t shard, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void found(struct check *c, size_t shard, uint64_t offset, const char *fmt, ...)
{
    char what[sizeof ((struct lm_err *)0)->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    c->n++;
    c->to->fault(c->to->arg, shard, offset, what);
}

/* Where a key is, 0 if it is not there. */
static uint64_t place(const struct check *c, const char *key)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(c->g, key);
    return kv ? kv->offset : 0;
}

/* A tensor in any shard. */
static const struct lm_gguf_tensor *tensor(const struct check *c, const char *name, size_t *shard)
{
    for (size_t i = 0; i < c->n_shards; i++) {
        const struct lm_gguf_tensor *t = lm_gguf_tensor(c->shards[i], name);
        if (t) {
            *shard = i;
            return t;
        }
    }
    return NULL;
}

static bool there(const void *c, const char *name)
{
    size_t shard;
    return tensor(c, name, &shard);
}

static uint64_t n_tensors(const struct check *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->n_shards; i++)
        n += c->shards[i]->n_tensors;
    return n;
}

static bool text_is(const struct check *c, const char *key, const char *want)
{
    struct lm_str s;
    return lm_gguf_str(c->g, key, &s, NULL) == LM_OK && s.len == strlen(want) &&
           memcmp(s.p, want, s.len) == 0;
}

/* ---- shards -------------------------------------------------------------- */

static void check_shards(struct check *c)
{
    uint32_t count = 1, no, total;
    struct lm_err err;
    c->whole = true;
    if (lm_gguf_u32(c->g, "split.count", &count, &err) < 0)
        found(c, 0, place(c, "split.count"), "%s", err.text);
    if (count < 2)
        return;
    c->whole = c->n_shards == count;
    if (!c->whole)
        lm_note(c->to->env, LM_WARN, "%u shards make the model: whether tensors are missing was "
                "not checked", count);
    for (size_t i = 0; i < c->n_shards && c->whole; i++)
        if (lm_gguf_u32(c->shards[i], "split.no", &no, NULL) != LM_OK || no != i)
            found(c, i, 0, "key split.no: is not %zu, as the file's name says", i);
    if (c->whole && lm_gguf_u32(c->g, "split.tensors.count", &total, NULL) == LM_OK &&
        total != n_tensors(c))
        found(c, 0, place(c, "split.tensors.count"), "key split.tensors.count: %u, but the shards "
              "have %llu", total, (unsigned long long)n_tensors(c));
}

/* ---- places of the data -------------------------------------------------- */

/* What the format allows, but not every reader: data in another order than the list, with
 * room between, or something behind the last. */
static void check_layout(const struct check *c, size_t shard)
{
    const struct lm_gguf *g = c->shards[shard];
    uint64_t end = 0, last = 0, n = 0, file_end;
    const char *first = NULL;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        if (!t->bytes)
            return;                     /* of an unknown type or shape: nothing follows */
        if (t->offset != end && !n++)
            first = t->name.p;
        if (!lm_add_u64(t->offset, t->bytes, &end) || !lm_align_u64(end, g->alignment, &end))
            return;
        last = end > last ? end : last;
    }
    if (n)
        lm_note(c->to->env, LM_WARN, "the data of %llu tensors, " NAME " the first, does not "
                "follow that of the tensor before in the list: some readers refuse that",
                (unsigned long long)n, first);
    if (g->file_size != LM_SIZE_UNKNOWN && g->n_tensors &&
        lm_add_u64(g->data_offset, last, &file_end) && g->file_size > file_end)
        lm_note(c->to->env, LM_WARN, "%llu bytes follow the data of the last tensor",
                (unsigned long long)(g->file_size - file_end));
}

/* ---- vocabulary ---------------------------------------------------------- */

/* Arrays with an element for each token. */
static void check_column(struct check *c, const char *key, uint64_t n)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(c->g, key);
    if (!kv)
        return;
    if (kv->kind != LM_GGUF_ARR)
        found(c, 0, kv->offset, "key %s: is %s, an array is wanted", key,
              lm_gguf_kind_name(kv->kind));
    else if (kv->arr.kind != LM_GGUF_I32 && kv->arr.kind != LM_GGUF_F32)
        found(c, 0, kv->offset, "key %s: an array of %s, i32 or f32 is wanted", key,
              lm_gguf_kind_name(kv->arr.kind));
    else if (kv->arr.n != n)
        found(c, 0, kv->offset, "key %s: has %llu elements, the vocabulary %llu", key,
              (unsigned long long)kv->arr.n, (unsigned long long)n);
}

static bool is_id_key(const struct lm_str *key)
{
    static const char head[] = "tokenizer.ggml.", tail[] = "_token_id";
    return key->len > sizeof head + sizeof tail && !memcmp(key->p, head, sizeof head - 1) &&
           !memcmp(key->p + key->len - (sizeof tail - 1), tail, sizeof tail - 1);
}

static void check_ids(struct check *c, uint64_t n)
{
    for (uint64_t i = 0; i < c->g->n_kv; i++) {
        const struct lm_gguf_kv *kv = &c->g->kv[i];
        int64_t id = 0;
        struct lm_err err;
        if (!is_id_key(&kv->key))
            continue;
        if (lm_gguf_i64(c->g, kv->key.p, &id, &err) < 0)
            found(c, 0, kv->offset, "%s", err.text);
        else if (id < 0 || (uint64_t)id >= n)
            found(c, 0, kv->offset, "key " NAME ": %lld is out of range: the vocabulary has %llu "
                  "entries", kv->key.p, (long long)id, (unsigned long long)n);
    }
}

/* Rows of the matrices that have one for each token. */
static void check_rows(struct check *c, uint64_t n)
{
    static const char *const names[] = { "token_embd.weight", "output.weight" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t shard;
        const struct lm_gguf_tensor *t = tensor(c, names[i], &shard);
        if (t && t->ne[1] != n)
            found(c, shard, t->info_offset, "tensor %s: has %llu rows, the vocabulary %llu "
                  "entries", names[i], (unsigned long long)t->ne[1], (unsigned long long)n);
    }
}

/* Are there the tokens that texts are to begin and end with? */
static void check_ends(struct check *c, const struct lm_vocab *v)
{
    static const char add_bos[] = "tokenizer.ggml.add_bos_token",
                      add_eos[] = "tokenizer.ggml.add_eos_token";
    bool wanted = false;
    if (lm_vocab_add_bos(v) && lm_vocab_bos(v) < 0)
        found(c, 0, place(c, add_bos), "key %s: texts are to begin with a token, but there is no "
              "tokenizer.ggml.bos_token_id", add_bos);
    if (lm_vocab_eos(v) >= 0)
        return;
    if (lm_gguf_bool(c->g, add_eos, &wanted, NULL) == LM_OK && wanted)
        found(c, 0, place(c, add_eos), "key %s: texts are to end with a token, but there is no "
              "tokenizer.ggml.eos_token_id", add_eos);
    else
        lm_note(c->to->env, LM_WARN, "there is no key tokenizer.ggml.eos_token_id: nothing says "
                "where a generated text ends");
}

static void check_vocab(struct check *c)
{
    struct lm_gguf_arr tokens;
    struct lm_err err;
    uint64_t before = c->n;
    int r = lm_gguf_arr(c->g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, &err);
    if (r < 0)
        found(c, 0, place(c, "tokenizer.ggml.tokens"), "%s", err.text);
    if (r == 1 && lm_gguf_kv(c->g, "tokenizer.ggml.model") &&
        !text_is(c, "tokenizer.ggml.model", "none"))
        found(c, 0, 0, "key tokenizer.ggml.tokens: missing");
    if (r != LM_OK)
        return;
    check_column(c, "tokenizer.ggml.scores", tokens.n);
    check_column(c, "tokenizer.ggml.token_type", tokens.n);
    check_ids(c, tokens.n);
    bool sound = c->n == before;
    check_rows(c, tokens.n);
    if (!lm_gguf_kv(c->g, "tokenizer.ggml.model")) {
        found(c, 0, 0, "key tokenizer.ggml.model: missing");
        return;
    }
    sound = sound && !lm_vocab_absent(c->g);
    struct lm_vocab *v = sound ? lm_vocab_from_gguf(c->g, c->to->env, &err) : NULL;
    if (sound && !v && err.code == LM_EDATA)
        found(c, 0, place(c, "tokenizer.ggml.tokens"), "%s", err.text);
    else if (sound && !v)
        lm_note(c->to->env, LM_WARN, "the vocabulary was not checked further: %s", err.text);
    if (v)
        check_ends(c, v);
    lm_vocab_free(v);
}

/* ---- templates ----------------------------------------------------------- */

static void check_templates(struct check *c)
{
    static const char head[] = "tokenizer.chat_template";
    for (uint64_t i = 0; i < c->g->n_kv; i++) {
        const struct lm_gguf_kv *kv = &c->g->kv[i];
        struct lm_err err;
        size_t n = sizeof head - 1;
        if (kv->kind != LM_GGUF_STR || kv->key.len < n || memcmp(kv->key.p, head, n) ||
            (kv->key.len > n && kv->key.p[n] != '.'))
            continue;
        struct lm_template *t = lm_template_parse(kv->str.p, kv->str.len, &err);
        if (!t)
            found(c, 0, kv->offset, "key " NAME ": %s", kv->key.p, err.text);
        lm_template_free(t);
    }
}

/* ---- the architecture's row ---------------------------------------------- */

/* Keys that are missing or of another type, then what the architecture says of the
 * numbers.  False when c->h is of no use. */
static bool check_keys(struct check *c)
{
    uint64_t before = c->n;
    struct lm_err err;
    for (const struct lm_arch_key *k = c->arch->keys; k->name; k++) {
        char key[LM_ARCH_NAME];
        uint32_t u;
        float f;
        bool b;
        struct lm_str s;
        int r = LM_OK;
        if (k->flags & LM_KEY_UNUSED)
            continue;
        lm_arch_key_name(c->arch, k, key);
        const struct lm_gguf_kv *kv = lm_gguf_kv(c->g, key);
        if (kv && kv->kind == LM_GGUF_ARR)
            continue;                  /* judged by lm_arch_read below */
        switch (k->kind) {
        case LM_GGUF_U32:  r = lm_gguf_u32(c->g, key, &u, &err); break;
        case LM_GGUF_F32:  r = lm_gguf_f32(c->g, key, &f, &err); break;
        case LM_GGUF_STR:  r = lm_gguf_str(c->g, key, &s, &err); break;
        case LM_GGUF_BOOL: r = lm_gguf_bool(c->g, key, &b, &err); break;
        default:           break;
        }
        if (r < 0)
            found(c, 0, place(c, key), "%s", err.text);
        else if (r == 1 && k->flags & LM_KEY_REQUIRED)
            found(c, 0, 0, "key %s: missing", key);
    }
    if (c->n > before)
        return false;
    int r = lm_arch_read(c->arch, c->g, &c->h, &err);
    if (r == LM_EDATA)
        found(c, 0, 0, "%s", err.text);
    else if (r != LM_OK)
        lm_note(c->to->env, LM_WARN, "shapes were not checked: %s", err.text);
    return r == LM_OK;
}

static void shape_text(char *dst, size_t size, const uint64_t ne[LM_GGUF_MAX_DIMS])
{
    int n = LM_GGUF_MAX_DIMS, at = 0;
    while (n > 1 && ne[n - 1] == 1)
        n--;
    for (int i = 0; i < n; i++)
        at += snprintf(dst + at, size - (size_t)at, "%s%llu", i ? "x" : "",
                       (unsigned long long)ne[i]);
}

static void check_shape(struct check *c, size_t shard, const struct lm_gguf_tensor *t,
                        const struct lm_arch_tensor *row, uint32_t layer)
{
    uint64_t want[LM_GGUF_MAX_DIMS];
    char has[96], wanted[96];
    if (!lm_arch_shape(row, c->arch, &c->h, layer, want) || !memcmp(want, t->ne, sizeof want))
        return;
    shape_text(has, sizeof has, t->ne);
    shape_text(wanted, sizeof wanted, want);
    found(c, shard, t->info_offset, "tensor " NAME ": shape is %s, the metadata ask for %s",
          t->name.p, has, wanted);
}

/* Is it a number for each matrix of a weight, NAME.scale, or of what comes to it? */
static bool is_scale(const struct check *c, const struct lm_gguf_tensor *t)
{
    static const char *const ends[] = { ".scale", ".input_scale" };
    char name[LM_ARCH_NAME];
    uint32_t layer = 0;
    uint64_t ne[LM_GGUF_MAX_DIMS] = { 0 };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t stem = t->name.len - strlen(ends[i]);
        if (!lm_ends_with(t->name.p, ends[i]) || stem > sizeof name - sizeof ".weight")
            continue;
        snprintf(name, sizeof name, "%.*s.weight", (int)stem, t->name.p);
        const struct lm_arch_tensor *row = lm_arch_row_of(c->arch, &c->h, name, &layer);
        if (row && row->flags & LM_TENSOR_EXPERTS)
            lm_arch_shape(row, c->arch, &c->h, layer, ne);
        if (row && row->flags & (LM_TENSOR_MATRIX | LM_TENSOR_EXPERTS | LM_TENSOR_HEADS) &&
            t->type_id == LM_F32 && (t->ne[0] == 1 || t->ne[0] == ne[2]) && t->ne[1] == 1)
            return true;
    }
    return false;
}

/* Tensors that there are. */
static void check_present(struct check *c)
{
    for (size_t i = 0; i < c->n_shards; i++)
        for (uint64_t k = 0; k < c->shards[i]->n_tensors; k++) {
            const struct lm_gguf_tensor *t = &c->shards[i]->tensors[k];
            uint32_t layer = 0;
            const struct lm_arch_tensor *row = lm_arch_row_of(c->arch, &c->h, t->name.p,
                                                                      &layer);
            if (!row && is_scale(c, t))
                continue;
            if (!row)
                found(c, i, t->info_offset, "tensor " NAME ": %s has none of this name",
                      t->name.p, c->arch->name);
            else if (row->flags & LM_TENSOR_PER_LAYER && layer >= c->h.n_layer + c->h.n_further)
                found(c, i, t->info_offset, "tensor " NAME ": %s.block_count is %u, layers are "
                      "counted from 0", t->name.p, c->arch->name,
                      c->h.n_layer + c->h.n_further);
            else
                check_shape(c, i, t, row, layer);
        }
}

/* Tensors that are missing from one layer, or from those outside of layers; one behind the last may
 * be left out as a whole. */
static void check_missing(struct check *c, bool per_layer, uint32_t layer)
{
    size_t n_there = 0, n_missing = 0;
    char name[LM_ARCH_NAME];
    for (int pass = 0; pass < 2; pass++)
        for (const struct lm_arch_tensor *r = c->arch->tensors; r->name; r++) {
            if (!(r->flags & LM_TENSOR_PER_LAYER) == per_layer ||
                !lm_arch_needs(r, c->arch, &c->h, layer, there, c))
                continue;
            lm_arch_expand(r->name, layer, name);
            bool has = there(c, name);
            if (pass == 0) {
                n_there += has;
                n_missing += !has;
            } else if (!has && (n_there || !per_layer))
                found(c, 0, 0, "tensor %s: missing", name);
        }
    if (per_layer && n_missing && !n_there && layer < c->h.n_layer)
        found(c, 0, 0, "layer %u: has no tensors, %s.block_count is %u", layer, c->arch->name,
              c->h.n_layer);
}

/* A classifier has as many rows as labels, if metadata name these. */
static void set_labels(struct check *c)
{
    char key[LM_ARCH_NAME];
    struct lm_gguf_arr names;
    size_t shard;
    const struct lm_gguf_tensor *t = tensor(c, "cls.output.weight", &shard);
    snprintf(key, sizeof key, "%s.classifier.output_labels", c->arch->name);
    if (lm_gguf_arr(c->g, key, LM_GGUF_STR, &names, NULL) == LM_OK && names.n <= UINT32_MAX)
        c->h.n_labels = (uint32_t)names.n;
    else if (t && t->ne[1] <= UINT32_MAX)
        c->h.n_labels = (uint32_t)t->ne[1];
}

/* The vocabulary is as large as the embedding, if metadata say nothing else. */
static void set_vocab(struct check *c)
{
    struct lm_gguf_arr tokens;
    size_t shard;
    const struct lm_gguf_tensor *t = tensor(c, "token_embd.weight", &shard);
    if (lm_gguf_arr(c->g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, NULL) == LM_OK &&
        !(t && t->ne[1] != tokens.n && t->ne[1] <= INT32_MAX))
        c->h.n_vocab = (uint32_t)tokens.n;
    else if (t && t->ne[1] <= INT32_MAX)
        c->h.n_vocab = (uint32_t)t->ne[1];      /* check_rows has told if they differ */
}

/* Does the file say any number of this architecture?  A file that says none is a bag of
 * tensors, sound as such: there is nothing to hold them against. */
static bool says_numbers(const struct check *c)
{
    size_t n = strlen(c->arch->name);
    for (uint64_t i = 0; i < c->g->n_kv; i++) {
        const struct lm_str *key = &c->g->kv[i].key;
        if (key->len > n && !memcmp(key->p, c->arch->name, n) && key->p[n] == '.')
            return true;
    }
    return false;
}

static void check_arch(struct check *c)
{
    if (!says_numbers(c)) {
        lm_note(c->to->env, LM_WARN, "there is no key %s.*: the tensors were not checked against "
                "metadata, and the model cannot be run", c->arch->name);
        return;
    }
    if (!check_keys(c))
        return;
    set_vocab(c);
    set_labels(c);
    check_present(c);
    const uint32_t further = lm_draft_supported(c->arch) ? c->h.n_further : 0;
    for (uint32_t i = 0; c->whole && i <= c->h.n_layer + further; i++)
        check_missing(c, i > 0, i ? i - 1 : 0);
}

/* ---- architectures without a row ----------------------------------------- */

/* A number of the architecture, 0 where the file has none. */
static uint32_t arch_number(const struct check *c, const char *arch, const char *name)
{
    char key[LM_ARCH_NAME];
    uint32_t n = 0;
    snprintf(key, sizeof key, "%.60s.%s", arch, name);
    return lm_gguf_u32(c->g, key, &n, NULL) == LM_OK ? n : 0;
}

/* Layers are counted from 0 without gaps, as many as metadata say. */
static void check_layers(struct check *c, const char *arch)
{
    bool *there = calloc(LM_MAX_LAYERS, sizeof *there);
    uint32_t n = 0, layer = 0, said = arch_number(c, arch, "block_count");
    for (size_t i = 0; i < c->n_shards && there; i++)
        for (uint64_t k = 0; k < c->shards[i]->n_tensors; k++) {
            const char *name = c->shards[i]->tensors[k].name.p;
            if (sscanf(name, "blk.%5u.", &layer) != 1 || layer >= LM_MAX_LAYERS)
                continue;
            there[layer] = true;
            n = layer >= n ? layer + 1 : n;
        }
    for (uint32_t i = 0; i < n && there; i++)
        if (!there[i])
            found(c, 0, 0, "layer %u: has no tensors, but layer %u has", i, n - 1);
    if (n && said && n > said)
        found(c, 0, 0, "layer %u: has tensors, but %.60s.block_count is %u", n - 1, arch, said);
    else if (n && said > n && said - n > arch_number(c, arch, "nextn_predict_layers"))
        found(c, 0, 0, "layer %u: has no tensors, %.60s.block_count is %u", n, arch, said);
    free(there);
}

/* What holds for every architecture that has such keys. */
static void check_unknown(struct check *c, const char *arch)
{
    const uint32_t embd = arch_number(c, arch, "embedding_length");
    const uint32_t heads = arch_number(c, arch, "attention.head_count");
    const uint32_t heads_kv = arch_number(c, arch, "attention.head_count_kv");
    size_t shard;
    const struct lm_gguf_tensor *t = tensor(c, "token_embd.weight", &shard);
    if (t && embd && t->ne[0] != embd)
        found(c, shard, t->info_offset, "tensor token_embd.weight: has rows of %llu, "
              "%.60s.embedding_length is %u", (unsigned long long)t->ne[0], arch, embd);
    if (heads && embd % heads && !arch_number(c, arch, "attention.key_length"))
        found(c, 0, 0, "key %.60s.attention.head_count: %u heads do not divide a width of %u",
              arch, heads, embd);
    if (heads_kv && heads % heads_kv)
        found(c, 0, 0, "key %.60s.attention.head_count_kv: %u do not divide %u heads", arch,
              heads_kv, heads);
    if (c->whole)
        check_layers(c, arch);
}

/* The name without `tail`, in dst, or false. */
static bool stem(const struct lm_str *name, const char *tail, char *dst, size_t size)
{
    size_t n = strlen(tail);
    if (name->len <= n || name->len - n >= size || memcmp(name->p + name->len - n, tail, n))
        return false;
    memcpy(dst, name->p, name->len - n);
    dst[name->len - n] = '\0';
    return true;
}

/* ---- adapters ------------------------------------------------------------ */

/* A weight's change is the product of two matrices, [in, rank] and [rank, out]. */
static void check_factor(struct check *c, const struct lm_gguf_tensor *t)
{
    char base[1024], other[1100];
    const bool first = stem(&t->name, ".lora_a", base, sizeof base);
    if (!first && !stem(&t->name, ".lora_b", base, sizeof base)) {
        if (!stem(&t->name, "_norm.weight", base, sizeof base))
            found(c, 0, t->info_offset, "tensor " NAME ": neither lora_a nor lora_b of a weight",
                  t->name.p);
        return;
    }
    snprintf(other, sizeof other, "%s%s", base, first ? ".lora_b" : ".lora_a");
    const struct lm_gguf_tensor *o = lm_gguf_tensor(c->g, other);
    if (!o)
        found(c, 0, t->info_offset, "tensor " NAME ": there is no " NAME, t->name.p, other);
    else if (first && t->ne[1] != o->ne[0])
        found(c, 0, o->info_offset, "tensor " NAME ": has rows of %llu, but " NAME " has %llu "
              "rows", other, (unsigned long long)o->ne[0], t->name.p,
              (unsigned long long)t->ne[1]);
}

static void check_adapter(struct check *c)
{
    struct lm_err err;
    float alpha;
    if (!text_is(c, "adapter.type", "lora")) {
        lm_note(c->to->env, LM_WARN, "an adapter whose adapter.type is not lora: its tensors were "
                "not checked");
        return;
    }
    int r = lm_gguf_f32(c->g, "adapter.lora.alpha", &alpha, &err);
    if (r)
        found(c, 0, place(c, "adapter.lora.alpha"), "%s",
              r < 0 ? err.text : "key adapter.lora.alpha: missing");
    for (uint64_t i = 0; i < c->g->n_tensors; i++)
        check_factor(c, &c->g->tensors[i]);
}

/* ---- importance matrices ------------------------------------------------- */

static void check_pair(struct check *c, const struct lm_gguf_tensor *t)
{
    char base[1024], other[1100];
    bool sums = stem(&t->name, ".in_sum2", base, sizeof base);
    if (!sums && !stem(&t->name, ".counts", base, sizeof base)) {
        found(c, 0, t->info_offset, "tensor " NAME ": neither in_sum2 nor counts of a weight",
              t->name.p);
        return;
    }
    if (t->type_id != LM_F32)
        found(c, 0, t->info_offset, "tensor " NAME ": type is %s, f32 is wanted", t->name.p,
              t->type ? t->type->name : "unknown");
    snprintf(other, sizeof other, "%s%s", base, sums ? ".counts" : ".in_sum2");
    const struct lm_gguf_tensor *o = lm_gguf_tensor(c->g, other);
    if (!o)
        found(c, 0, t->info_offset, "tensor " NAME ": there is no " NAME, t->name.p, other);
    else if (sums && (o->ne[0] != 1 || o->ne[1] * o->ne[2] * o->ne[3] !=
                                       t->ne[1] * t->ne[2] * t->ne[3]))
        found(c, 0, o->info_offset, "tensor " NAME ": has not one count for each matrix of "
              NAME, other, t->name.p);
}

static void check_importance(struct check *c)
{
    static const char *const keys[] = { "imatrix.chunk_count", "imatrix.chunk_size" };
    struct lm_gguf_arr sets;
    struct lm_err err;
    uint32_t u;
    int r = lm_gguf_arr(c->g, "imatrix.datasets", LM_GGUF_STR, &sets, &err);
    if (r)
        found(c, 0, place(c, "imatrix.datasets"), "%s",
              r < 0 ? err.text : "key imatrix.datasets: missing");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if ((r = lm_gguf_u32(c->g, keys[i], &u, &err)) < 0)
            found(c, 0, place(c, keys[i]), "%s", err.text);
        else if (r)
            found(c, 0, 0, "key %s: missing", keys[i]);
    for (uint64_t i = 0; i < c->g->n_tensors; i++)
        check_pair(c, &c->g->tensors[i]);
}

uint64_t lm_check_model(const struct lm_gguf *const *shards, size_t n,
                        const struct lm_check_to *to)
{
    struct check c = { .shards = shards, .n_shards = n, .g = shards[0], .to = to };
    struct lm_str name, type;
    struct lm_err err;
    uint32_t no = 0;
    if (text_is(&c, "general.type", "imatrix")) {
        check_importance(&c);
        return c.n;
    }
    for (size_t i = 0; i < n; i++)
        check_layout(&c, i);
    check_shards(&c);
    if (n == 1 && lm_gguf_u32(c.g, "split.no", &no, NULL) == LM_OK && no > 0)
        return c.n;                     /* metadata is in the first shard */
    int r = lm_gguf_str(c.g, "general.architecture", &name, &err);
    if (r < 0) {
        found(&c, 0, place(&c, "general.architecture"), "%s", err.text);
        return c.n;
    }
    if (r) {
        lm_note(to->env, LM_WARN, "there is no key general.architecture: the tensors were not "
                "checked against metadata, and the model cannot be run");
        return c.n;
    }
    check_vocab(&c);
    check_templates(&c);
    if (text_is(&c, "general.type", "adapter")) {
        check_adapter(&c);
        return c.n;
    }
    if (lm_gguf_str(c.g, "general.type", &type, NULL) == LM_OK && strcmp(type.p, "model")) {
        lm_note(to->env, LM_WARN, "a file of type " NAME ": its tensors were not checked against "
                "its metadata", type.p);
        return c.n;
    }
    c.arch = lm_arch_by_name(name.p);
    if (!n_tensors(&c))
        lm_note(to->env, LM_WARN, "there are no tensors: only a vocabulary was checked");
    else if (c.arch)
        check_arch(&c);
    else {
        lm_note(to->env, LM_WARN, "architecture " NAME " is not known: its shapes were not "
                "checked", name.p);
        check_unknown(&c, name.p);
    }
    return c.n;
}
