/* SPDX-License-Identifier: MIT */
/* The metadata of the file, in the reference's order: general, architecture, tokenizer. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/hf_card.h"
#include "job/convert_parts.h"
#include "vocab/vocab.h"

/* A list of numbers, or of flags. */
static void set_layers(struct lm_gguf_writer *w, const char *name, enum lm_key_from from,
                       const int32_t *values, size_t n)
{
    uint8_t flags[LM_MAX_LAYERS];
    if (from != LM_FROM_LOCAL_LAYERS && from != LM_FROM_RECURRENT_LAYERS &&
        from != LM_FROM_INDEXED_LAYERS) {
        lm_gguf_set_arr(w, name, LM_GGUF_I32, values, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        flags[i] = values[i] != 0;
    lm_gguf_set_arr(w, name, LM_GGUF_BOOL, flags, n);
}

static bool all_equal(const int32_t *values, size_t n)
{
    size_t i = 1;
    while (i < n && values[i] == values[0])
        i++;
    return n && i >= n;
}

/* Those that all models of the kind have. */
static void fixed_labels(struct lm_convert *c, const struct lm_arch_key *k, const char *name)
{
    struct lm_str labels[sizeof k->config / sizeof *k->config];
    size_t n = 0;
    for (; n < sizeof k->config / sizeof *k->config && k->config[n]; n++)
        labels[n] = (struct lm_str){ k->config[n] + 1, strlen(k->config[n] + 1) };
    lm_gguf_set_arr(c->w, name, LM_GGUF_STR, labels, n);
}

/* What the outputs of a classifier are called, by their numbers: id2label.  A config that says
 * nothing of them has LABEL_0 and LABEL_1, which are no names. */
static int label_key(struct lm_convert *c, const struct lm_arch_key *k, struct lm_err *err)
{
    const struct lm_jval *list = lm_jval_get(c->cfg.json, k->config[0]);
    const size_t n = list && list->kind == LM_JSON_OBJECT ? list->len : 0;
    struct lm_str *labels = n ? calloc(n, sizeof *labels) : NULL;
    char name[LM_ARCH_NAME];
    lm_arch_key_name(c->cfg.arch, k, name);
    if (*k->config[0] == '=')
        fixed_labels(c, k, name);
    if (!n || n > LM_MAX_LABELS || !labels) {
        free(labels);
        return !n ? LM_OK : n > LM_MAX_LABELS
                        ? lm_fail(err, LM_ENOSUP, "config.json: id2label: %zu labels", n)
                        : lm_fail_nomem(err);
    }
    int r = LM_OK;
    for (const struct lm_jval *t = list->first; t && !r; t = t->next) {
        char *end;
        const unsigned long i = strtoul(t->key, &end, 10);
        if (*end || !*t->key || i >= n || labels[i].p || !lm_jval_str(t))
            r = lm_fail(err, LM_EDATA, "config.json: id2label: %.60s: is no label of %zu", t->key,
                        n);
        else
            labels[i] = (struct lm_str){ t->str, t->len };
    }
    if (!r && !(n == 2 && !strcmp(labels[0].p, "LABEL_0")))
        lm_gguf_set_arr(c->w, name, LM_GGUF_STR, labels, n);
    free(labels);
    return r;
}

static int arch_keys(struct lm_convert *c, struct lm_err *err)
{
    for (const struct lm_arch_key *k = c->cfg.arch->keys; k->name; k++) {
        if (k->from == LM_FROM_LABELS) {
            const int s = label_key(c, k, err);
            if (s)
                return s;
            continue;
        }
        char name[LM_ARCH_NAME];
        uint32_t u = 0;
        float f = 0;
        const char *s = NULL;
        int32_t values[LM_MAX_LAYERS];
        float floats[LM_MAX_LAYERS];
        size_t n;
        const int r = k->from == LM_FROM_SPARSE_LAYERS ? lm_convert_sparse(c, k, floats, &n, err)
                    : k->kind == LM_GGUF_ARR
                          ? lm_convert_layers(c, k, values, LM_MAX_LAYERS, &n, err)
                          : lm_convert_key(c, k, &u, &f, &s, err);
        if (r < 0)
            return r;
        if (r)
            continue;
        if (k->flags & LM_KEY_OF_VOCAB)
            continue;
        if (!strcmp(k->name, "block_count"))
            u += c->cfg.h.n_further;
        for (uint32_t i = 0; k->from == LM_FROM_RECURRENT_LAYERS && i < c->cfg.h.n_further &&
                             n < LM_MAX_LAYERS; i++)
            values[n++] = 0;            /* those behind the last attend */
        lm_arch_key_name(c->cfg.arch, k, name);
        if (k->from == LM_FROM_SPARSE_LAYERS) {
            lm_gguf_set_arr(c->w, name, LM_GGUF_F32, floats, n);
            continue;
        }
        if (k->flags & LM_KEY_OR_NUMBER && all_equal(values, n)) {
            lm_gguf_set_u32(c->w, name, (uint32_t)values[0]);
            continue;
        }
        if (!strcmp(k->name, "vocab_size") && c->cfg.h.n_vocab)
            u = c->cfg.h.n_vocab;
        if (k->kind == LM_GGUF_STR)
            lm_gguf_set_str(c->w, name, s, strlen(s));
        else if (k->kind == LM_GGUF_F32)
            lm_gguf_set_f32(c->w, name, f);
        else if (k->kind == LM_GGUF_BOOL)
            lm_gguf_set_bool(c->w, name, u);
        else if (k->kind == LM_GGUF_ARR)
            set_layers(c->w, name, k->from, values, n);
        else
            lm_gguf_set_u32(c->w, name, u);
    }
    return LM_OK;
}

/* The family's own ids that are pieces take their place among the others, or follow them. */
static int family_ids(struct lm_hf_vocab *v, const struct lm_arch_token *t, struct lm_err *err)
{
    for (; t && t->key; t++) {
        size_t k = 0, i = 0;
        if (!t->text)
            continue;
        while (i < v->n && strcmp(v->pieces[i].p, t->text))
            i++;
        while (k < v->n_ids && strcmp(v->ids[k].key, t->key))
            k++;
        if (i == v->n || k == LM_HF_MAX_IDS)
            return lm_fail(err, LM_EDATA, "the tokenizer has no piece %s", t->text);
        v->ids[k].key = t->key;
        v->ids[k].id = (uint32_t)i;
        v->n_ids += k == v->n_ids;
    }
    return LM_OK;
}

/* Those that are numbers come last. */
static void family_keys(struct lm_gguf_writer *w, const struct lm_hf_vocab *v,
                        const struct lm_arch_token *t)
{
    char key[64];
    for (; t && t->key; t++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", t->key);
        if (!strcmp(t->key, "add_space_prefix"))
            lm_gguf_set_bool(w, key, t->id);
        else if (!t->text && t->id < v->n)
            lm_gguf_set_u32(w, key, t->id);
    }
}

static bool has_prefix_rule(const struct lm_arch_token *t)
{
    while (t && t->key && strcmp(t->key, "add_space_prefix"))
        t++;
    return t && t->key;
}

/* Numbers that are tensors in the checkpoint. */
static int number_key(struct lm_convert *c, const struct lm_arch_key *k, struct lm_err *err)
{
    float values[LM_MAX_LAYERS];
    char name[LM_ARCH_NAME];
    const int r = lm_convert_each_layer(c, k, values, err);
    lm_arch_key_name(c->cfg.arch, k, name);
    if (!r)
        lm_gguf_set_arr(c->w, name, LM_GGUF_F32, values, c->cfg.h.n_layer);
    return r;
}

/* What the reference finds out while it makes tensors stands before the rest. */
static int early_keys(struct lm_convert *c, struct lm_err *err)
{
    for (const struct lm_arch_key *k = c->cfg.arch->keys; k->name; k++) {
        char name[LM_ARCH_NAME];
        float f = 0;
        if (k->from == LM_FROM_EACH_LAYER) {
            const int s = number_key(c, k, err);
            if (s)
                return s;
            continue;
        }
        uint32_t u = 0;
        const bool early = k->flags & LM_KEY_EARLY;
        const int r = early || k->from == LM_FROM_ROPE_ATTN
                          ? lm_convert_key(c, k, &u, &f, NULL, err) : 1;
        if (r < 0)
            return r;
        if (r)
            continue;
        lm_arch_key_name(c->cfg.arch, k, name);
        if (early)
            lm_gguf_set_u32(c->w, name, u);
        else
            lm_gguf_set_f32(c->w, name, f);
    }
    return LM_OK;
}

/* Whether special tokens are added. */
static void add_keys(struct lm_gguf_writer *w, const struct lm_hf_vocab *v)
{
    char key[64];
    for (size_t i = 0; i < v->n_adds; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", v->adds[i].key);
        lm_gguf_set_bool(w, key, v->adds[i].add);
    }
}

static void flag_key(struct lm_gguf_writer *w, const char *key, int flag)
{
    if (flag >= 0)
        lm_gguf_set_bool(w, key, flag);
}

/* Which of them stands where depends on the kind, as the reference has it. */
static void space_keys(struct lm_gguf_writer *w, const struct lm_hf_vocab *v)
{
    flag_key(w, "tokenizer.ggml.add_space_prefix", v->add_space_prefix);
    if (strcmp(v->model, "t5"))
        return;
    if (v->token_types >= 0)
        lm_gguf_set_u32(w, "tokenizer.ggml.token_type_count", (uint32_t)v->token_types);
    flag_key(w, "tokenizer.ggml.remove_extra_whitespaces", v->extra_spaces);
    if (v->charsmap.len)
        lm_gguf_set_arr(w, "tokenizer.ggml.precompiled_charsmap", LM_GGUF_U8, v->charsmap.p,
                        v->charsmap.len);
}

static void merges_and_ids(struct lm_gguf_writer *w, const struct lm_hf_vocab *v)
{
    char key[64];
    if (v->merges)
        lm_gguf_set_arr(w, "tokenizer.ggml.merges", LM_GGUF_STR, v->merges, v->n_merges);
    for (size_t i = 0; i < v->n_ids; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", v->ids[i].key);
        lm_gguf_set_u32(w, key, v->ids[i].id);
    }
}

static void token_keys(struct lm_gguf_writer *w, const struct lm_hf_vocab *v)
{
    const bool unigram = !strcmp(v->model, "t5");
    if (!unigram && v->token_types >= 0)
        lm_gguf_set_u32(w, "tokenizer.ggml.token_type_count", (uint32_t)v->token_types);
    if (!unigram)
        space_keys(w, v);
    lm_gguf_set_str(w, "tokenizer.ggml.model", v->model, strlen(v->model));
    if (v->pre)
        lm_gguf_set_str(w, "tokenizer.ggml.pre", v->pre, strlen(v->pre));
    if (v->ids_first)
        merges_and_ids(w, v);
    lm_gguf_set_arr(w, "tokenizer.ggml.tokens", LM_GGUF_STR, v->pieces, v->n);
    if (v->scores)
        lm_gguf_set_arr(w, "tokenizer.ggml.scores", LM_GGUF_F32, v->scores, v->n);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, v->types, v->n);
    if (unigram)
        space_keys(w, v);
    if (!v->ids_first)
        merges_and_ids(w, v);
    add_keys(w, v);
    flag_key(w, "tokenizer.ggml.normalizer.lowercase", v->lowercase);
    flag_key(w, "tokenizer.ggml.normalizer.strip_accents", v->strip_accents);
}

/* How a pair of texts is judged stands with the architecture's keys, as a named template. */
static void rerank_keys(struct lm_gguf_writer *w, const char *text)
{
    static const struct lm_str names[] = { { "rerank", 6 } };
    lm_gguf_set_str(w, "tokenizer.chat_template.rerank", text, strlen(text));
    lm_gguf_set_arr(w, "tokenizer.chat_templates", LM_GGUF_STR, names, 1);
}

/* Named templates, their names, then the one without a name. */
static int template_keys(struct lm_convert *c, const struct lm_hf_vocab *v,
                         const struct lm_convert_options *o, struct lm_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    struct lm_str *names = malloc((v->n_templates + 1) * sizeof *names);
    const struct lm_hf_template *main = NULL;
    size_t n = 0;
    if (!names)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < v->n_templates; i++) {
        const struct lm_hf_template *t = &v->templates[i];
        struct lm_buf name = {0};
        if (t->name.len == 7 && !memcmp(t->name.p, "default", 7)) {
            main = t;
            continue;
        }
        names[n++] = t->name;
        lm_buf_printf(&name, "%s.%s", key, t->name.p);
        if (!name.failed)
            lm_gguf_set_str(c->w, name.data, t->text.p, t->text.len);
        lm_buf_release(&name);
    }
    if (n)
        lm_gguf_set_arr(c->w, "tokenizer.chat_templates", LM_GGUF_STR, names, n);
    free(names);
    if (o->chat_template)
        lm_gguf_set_str(c->w, key, o->chat_template, o->chat_template_len);
    else if (main)
        lm_gguf_set_str(c->w, key, main->text.p, main->text.len);
    else if (!strcmp(v->model, "rwkv"))         /* by the name of a form that readers know */
        lm_gguf_set_str(c->w, key, "rwkv-world", 10);
    else if (!n && !c->cfg.arch->encoder)
        lm_note(c->env, LM_WARN, "no chat template: the checkpoint has none");
    return LM_OK;
}

/* Vocabularies of this size are those of code models whose tokenizers add no start token; the
 * reference says so where no file does. */
enum { SIZE_WITHOUT_BOS = 49152 };

/* The tokenizer; its pre-tokenizer by its rules, or else by what it makes of a probe. */
static int load_vocab(struct lm_hf_vocab *v, struct lm_convert *c,
                      const struct lm_convert_options *o, struct lm_err *err)
{
    struct lm_err second;
    int32_t bos = -1;
    int r = lm_hf_vocab_load(v, c->src, c->cfg.json, c->generation, c->cfg.h.n_vocab, o->pre,
                             c->env, err);
    if (r != LM_ENOSUP || o->pre ||
        lm_hf_vocab_load(v, c->src, c->cfg.json, c->generation, c->cfg.h.n_vocab, "default",
                         c->env, &second))
        return r;
    for (size_t i = 0; i < v->n_ids; i++)
        if (!strcmp(v->ids[i].key, "bos_token_id"))
            bos = (int32_t)v->ids[i].id;
    v->pre = lm_vocab_hashed_pre_of(c->src, bos);
    if (v->pre)
        return LM_OK;
    lm_hf_vocab_release(v);
    return r;
}

static void note_no_end(const struct lm_convert *c, const struct lm_hf_vocab *v)
{
    for (size_t i = 0; i < v->n_ids; i++)
        if (!strcmp(v->ids[i].key, "eos_token_id"))
            return;
    lm_note(c->env, LM_WARN, "no file names an end token");
}

static int vocab_keys(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err)
{
    struct lm_hf_vocab v;
    bool says_bos = false;
    int r = load_vocab(&v, c, o, err);
    if (r)
        return r;
    note_no_end(c, &v);
    for (const char *const *p = c->cfg.arch->pre_names; p && *p && v.pre && !o->pre; p += 2)
        if (!strcmp(v.pre, *p)) {
            v.pre = p[1];
            break;
        }
    if (has_prefix_rule(c->cfg.arch->tokens))
        v.add_space_prefix = -1;
    r = family_ids(&v, c->cfg.arch->tokens, err);
    if (!r)
        r = lm_convert_pick_rows(c, &v, err);
    if (c->cfg.arch->adds_first)
        add_keys(c->w, &v);             /* the first place of a key is kept */
    token_keys(c->w, &v);
    if (!r)
        r = template_keys(c, &v, o, err);
    for (size_t i = 0; i < v.n_adds; i++)
        says_bos = says_bos || !strcmp(v.adds[i].key, "add_bos_token");
    if (v.n == SIZE_WITHOUT_BOS && !says_bos)
        lm_gguf_set_bool(c->w, "tokenizer.ggml.add_bos_token", false);
    family_keys(c->w, &v, c->cfg.arch->tokens);
    lm_hf_vocab_release(&v);
    return r;
}

/* generation_config.json may be missing; a broken one is known to occur, and is not needed. */
static int load_generation(struct lm_convert *c, struct lm_err *err)
{
    static const char name[] = "generation_config.json";
    char *data = NULL;
    size_t len;
    struct lm_err e = {0};
    const int r = lm_hf_load(c->src, name, &data, &len, err);
    if (r)
        return r < 0 ? r : LM_OK;
    c->generation = lm_json_tree(&c->arena, data, len, &e);
    free(data);
    if (!c->generation)
        lm_note(c->env, LM_WARN, "%s: left out: %s", name, e.text);
    return LM_OK;
}

int lm_convert_keys(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err)
{
    struct lm_hf_card_options card = {
        .title = lm_hf_title(c->src), .model_name = o->model_name, .metadata = o->metadata,
        .metadata_len = o->metadata_len, .n_expert = c->cfg.h.n_expert,
    };
    for (size_t i = 0; i < c->n_items; i++) {
        uint64_t n = 1;
        for (uint32_t d = 0; d < c->items[i].t.n_dims; d++)
            n *= c->items[i].t.ne[d];
        card.n_weights += n;
        if (c->items[i].row->flags & LM_TENSOR_EXPERTS)
            card.n_in_experts += n;
    }
    lm_gguf_set_str(c->w, "general.architecture", c->cfg.arch->name, strlen(c->cfg.arch->name));
    int r = early_keys(c, err);
    lm_gguf_set_str(c->w, "general.type", "model", 5);
    if (!r)
        r = load_generation(c, err);
    if (!r)
        r = lm_hf_card_write(c->w, c->src, c->cfg.json, c->generation, &card, c->env, err);
    if (!r)
        r = arch_keys(c, err);
    if (c->cfg.arch->rerank)
        rerank_keys(c->w, c->cfg.arch->rerank);
    lm_gguf_set_u32(c->w, "general.quantization_version", 2);
    if (!r)
        r = vocab_keys(c, o, err);
    if (c->mixed) {                         /* where quantize puts them */
        lm_gguf_unset(c->w, "general.quantization_version");
        lm_gguf_unset(c->w, "general.file_type");
        lm_gguf_set_u32(c->w, "general.quantization_version", 2);
        lm_gguf_set_u32(c->w, "general.file_type", c->file_type);
    }
    if (o->weights.importance)
        lm_weights_keys(&o->weights, c->w);
    if (o->provenance)
        lm_gguf_set_str(c->w, o->provenance_key, o->provenance, strlen(o->provenance));
    for (size_t i = 0; !r && i < c->n_items; i++) {
        const struct lm_convert_tensor *t = &c->items[i].t;
        lm_gguf_add_tensor(c->w, t->name, strlen(t->name), t->n_dims, t->ne, t->type);
    }
    return r;
}
