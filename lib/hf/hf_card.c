/* SPDX-License-Identifier: MIT */
/* The general.* keys, collected from their sources and written in the reference's order. */

#include "hf/hf_card.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/front_matter.h"

#define HUB "https://huggingface.co/"

/* Texts, in the order to write.  Names in model cards: the first that is there. */
enum {
    NAME, AUTHOR, VERSION, ORGANIZATION, FINETUNE, BASENAME, DESCRIPTION, QUANTIZED_BY,
    SIZE_LABEL, LICENSE, LICENSE_NAME, LICENSE_LINK, URL, DOI, UUID, REPO_URL, SOURCE_URL,
    SOURCE_DOI, SOURCE_UUID, SOURCE_REPO_URL, N_TEXTS
};

static const struct {
    const char *key, *card[3];
} texts[N_TEXTS] = {
    [NAME]            = { "general.name", { "name", "model_name" } },
    [AUTHOR]          = { "general.author", { "author", "model_author", "model_creator" } },
    [VERSION]         = { "general.version", { "version", "model_version" } },
    [ORGANIZATION]    = { "general.organization", { "organization", "model_organization" } },
    [FINETUNE]        = { "general.finetune", { "finetune", "model_finetune" } },
    [BASENAME]        = { "general.basename", { "basename", "model_basename", "model_type" } },
    [DESCRIPTION]     = { "general.description", { "description", "model_description" } },
    [QUANTIZED_BY]    = { "general.quantized_by", { NULL } },
    [SIZE_LABEL]      = { "general.size_label", { "size_label", "model_size_label" } },
    [LICENSE]         = { "general.license", { "license" } },
    [LICENSE_NAME]    = { "general.license.name", { "license_name" } },
    [LICENSE_LINK]    = { "general.license.link", { "license_link" } },
    [URL]             = { "general.url", { NULL } },
    [DOI]             = { "general.doi", { NULL } },
    [UUID]            = { "general.uuid", { NULL } },
    [REPO_URL]        = { "general.repo_url", { NULL } },
    [SOURCE_URL]      = { "general.source.url", { "url", "model_url" } },
    [SOURCE_DOI]      = { "general.source.doi", { "doi", "model_doi" } },
    [SOURCE_UUID]     = { "general.source.uuid", { "uuid", "model_uuid" } },
    [SOURCE_REPO_URL] = { "general.source.repo_url", { "repo_url", "model_repo_url" } },
};

/* What the model's makers advise for sampling; generation_config.json's names. */
static const struct {
    const char       *key, *generation;
    enum lm_gguf_kind kind;
} samplings[] = {
    { "general.sampling.sequence", "sequence", LM_GGUF_STR },
    { "general.sampling.top_k", "top_k", LM_GGUF_I32 },
    { "general.sampling.top_p", "top_p", LM_GGUF_F32 },
    { "general.sampling.min_p", "min_p", LM_GGUF_F32 },
    { "general.sampling.xtc_probability", "xtc_probability", LM_GGUF_F32 },
    { "general.sampling.xtc_threshold", "xtc_threshold", LM_GGUF_F32 },
    { "general.sampling.temp", "temperature", LM_GGUF_F32 },
    { "general.sampling.penalty_last_n", "penalty_last_n", LM_GGUF_I32 },
    { "general.sampling.penalty_repeat", "penalty_repeat", LM_GGUF_F32 },
    { "general.sampling.mirostat", "mirostat", LM_GGUF_I32 },
    { "general.sampling.mirostat_tau", "mirostat_tau", LM_GGUF_F32 },
    { "general.sampling.mirostat_eta", "mirostat_eta", LM_GGUF_F32 },
};

/* Lists of texts, written last. */
static const struct {
    const char *key, *card[2];
} lists[] = {
    { "general.tags", { "tags", "pipeline_tag" } },
    { "general.languages", { "languages", "language" } },
};

/* Lists of models or datasets: general.WHAT.count, general.WHAT.0.name, ... */
static const struct {
    const char *what, *metadata, *card[3];
} parents[] = {
    { "base_model", "general.base_models", { "base_model", "base_models", "base_model_sources" } },
    { "dataset", "general.datasets", { "datasets", "dataset", "dataset_sources" } },
};

struct card {
    struct lm_gguf_writer *w;
    struct lm_arena        a;
    struct lm_yaml         yaml;
    const struct lm_jval  *user;            /* --metadata */
    const char            *text[N_TEXTS];
    uint64_t               n_weights, n_in_experts;
    uint32_t               n_expert;
};

static int load_card(struct card *c, struct lm_hf_source *src, struct lm_err *err)
{
    char *data = NULL;
    size_t len;
    int r = lm_hf_load(src, "README.md", &data, &len, err);
    if (r)
        return r > 0 ? LM_OK : r;
    r = lm_front_matter(&c->yaml, &c->a, data, len, err);
    free(data);
    return r;
}

/* Every element of a list is of the kind. */
static bool all_are(const struct lm_jval *list, enum lm_json_kind kind)
{
    const struct lm_jval *v = list->kind == LM_JSON_ARRAY ? list->first : NULL;
    while (v && v->kind == kind)
        v = v->next;
    return list->kind == LM_JSON_ARRAY && !v;
}

/* What the value of a member has to be, "" if it is that; NULL: no such key is written. */
static const char *wanted(const struct lm_jval *m)
{
    int64_t n;
    double d;
    for (size_t i = 0; i < N_TEXTS; i++)
        if (!strcmp(m->key, texts[i].key))
            return lm_jval_str(m) ? "" : "a text";
    for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++) {
        if (strcmp(m->key, samplings[i].key))
            continue;
        if (samplings[i].kind == LM_GGUF_STR)
            return lm_jval_str(m) ? "" : "a text";
        if (samplings[i].kind == LM_GGUF_F32)
            return lm_jval_f64(m, &d) ? "" : "a number";
        return lm_jval_i64(m, &n) && n >= INT32_MIN && n <= INT32_MAX ? ""
                                                                      : "a whole number of 32 bits";
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!strcmp(m->key, lists[i].key))
            return all_are(m, LM_JSON_STRING) ? "" : "a list of texts";
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        if (!strcmp(m->key, parents[i].metadata))
            return all_are(m, LM_JSON_OBJECT) ? "" : "a list of objects";
    return NULL;
}

/* The user's keys must be ones that are written: a misspelt one should not pass unseen. */
static const struct lm_jval *read_user(struct lm_arena *a, const char *text, size_t n,
                                       struct lm_err *err)
{
    const struct lm_jval *user = lm_json_tree(a, text, n, err);
    if (user && user->kind != LM_JSON_OBJECT) {
        lm_fail(err, LM_EDATA, "is no JSON object");
        return NULL;
    }
    for (const struct lm_jval *m = user ? user->first : NULL; m; m = m->next) {
        const char *want = wanted(m);
        if (want && !*want)
            continue;
        if (want)
            lm_fail(err, LM_EDATA, "%.80s: wants %s", m->key, want);
        else
            lm_fail(err, LM_EDATA, "%.80s: is no key that can be set", m->key);
        return NULL;
    }
    return user;
}

int lm_hf_check_metadata(const char *text, size_t n, struct lm_err *err)
{
    struct lm_arena a = {0};
    struct lm_err own = {0};
    err = err ? err : &own;
    const int r = read_user(&a, text, n, err) ? LM_OK : (int)err->code;
    lm_arena_release(&a);
    return r;
}

static void set_once(const char **slot, const char *value)
{
    if (!*slot && value && *value)
        *slot = value;
}

static void from_card(struct card *c)
{
    for (int i = 0; i < N_TEXTS; i++)
        for (size_t k = 0; k < 3 && texts[i].card[k]; k++) {
            const struct lm_yaml_item *it = lm_yaml_get(&c->yaml, texts[i].card[k]);
            if (it && (!it->list || i == LICENSE))
                set_once(&c->text[i], it->values[0].p);
        }
}

static int from_name(struct card *c, const char *id, struct lm_err *err)
{
    struct lm_hf_name n;
    const int r = lm_hf_name_parse(&n, &c->a, id, c->n_weights, err);
    if (r)
        return r;
    set_once(&c->text[NAME], lm_hf_name_title(&c->a, n.full));
    if (n.organization)
        set_once(&c->text[ORGANIZATION], lm_hf_name_title(&c->a, n.organization));
    set_once(&c->text[BASENAME], n.basename);
    set_once(&c->text[FINETUNE], n.finetune);
    set_once(&c->text[VERSION], n.version);
    set_once(&c->text[SIZE_LABEL], n.size_label);
    return LM_OK;
}

/* 291K, 1.5B: two digits at least. */
static const char *size_label(struct card *c)
{
    static const struct { double unit; const char *name; } units[] = {
        { 1e12, "T" }, { 1e9, "B" }, { 1e6, "M" }, { 1e3, "K" },
    };
    const double n = (double)c->n_weights - (double)c->n_in_experts * (c->n_expert > 1) +
                     (c->n_expert > 1 ? (double)(c->n_in_experts / c->n_expert) : 0);
    char count[16] = "";
    size_t u = 0;
    char text[32];
    while (u < 3 && !(n > units[u].unit))
        u++;
    const double v = n * (1 / units[u].unit);
    const double whole = nearbyint(v);
    const int digits = whole >= 10 ? 0 : whole >= 1 ? 1 : 2;
    if (c->n_expert > 1)
        snprintf(count, sizeof count, "%ux", c->n_expert);
    snprintf(text, sizeof text, "%s%.*f%s", count, digits, v, units[u].name);
    return lm_arena_copy(&c->a, text, strlen(text));
}

static void write_sampling(struct card *c, const struct lm_jval *generation)
{
    for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++) {
        const struct lm_jval *v = lm_jval_get(c->user, samplings[i].key);
        int64_t n;
        double d;
        if (!v)
            v = lm_jval_get(generation, samplings[i].generation);
        if (samplings[i].kind == LM_GGUF_STR && lm_jval_str(v))
            lm_gguf_set_str(c->w, samplings[i].key, v->str, v->len);
        else if (samplings[i].kind == LM_GGUF_I32 && lm_jval_i64(v, &n) && n >= INT32_MIN &&
                 n <= INT32_MAX)
            lm_gguf_set_i32(c->w, samplings[i].key, (int32_t)n);
        else if (samplings[i].kind == LM_GGUF_F32 && lm_jval_f64(v, &d))
            lm_gguf_set_f32(c->w, samplings[i].key, (float)d);
    }
}

static void write_texts(struct card *c)
{
    for (int i = 0; i < N_TEXTS; i++) {
        const struct lm_jval *v = lm_jval_get(c->user, texts[i].key);
        if (v)
            lm_gguf_set_str(c->w, texts[i].key, v->str, v->len);
        else if (c->text[i])
            lm_gguf_set_str(c->w, texts[i].key, c->text[i], strlen(c->text[i]));
    }
}

static void set_parent(struct card *c, const char *what, size_t i, const char *field,
                       const char *value)
{
    char key[96];
    snprintf(key, sizeof key, "general.%s.%zu.%s", what, i, field);
    if (value)
        lm_gguf_set_str(c->w, key, value, strlen(value));
}

/* "ORGANIZATION/NAME" on the Hub, or an address. */
static int parent_from_id(struct card *c, const char *what, size_t i, const char *id,
                          struct lm_err *err)
{
    struct lm_hf_name n = {0};
    const char *name = id, *url = NULL;
    if (!strncmp(id, "http://", 7) || !strncmp(id, "https://", 8) || !strncmp(id, "ssh://", 6)) {
        url = id;
        name = !strncmp(id, HUB, sizeof HUB - 1) ? id + sizeof HUB - 1 : NULL;
        const char *slash = name ? strchr(name, '/') : NULL;
        if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/'))
            name = NULL;
    }
    const int r = name ? lm_hf_name_parse(&n, &c->a, name, c->n_weights, err) : LM_OK;
    if (r)
        return r;
    if (!url && n.organization && n.full) {
        struct lm_buf b = {0};
        lm_buf_printf(&b, HUB "%s/%s", n.organization, n.full);
        url = b.failed ? NULL : lm_arena_copy(&c->a, b.data, b.len);
        lm_buf_release(&b);
    }
    if (n.full)
        set_parent(c, what, i, "name", lm_hf_name_title(&c->a, n.full));
    set_parent(c, what, i, "version", n.version);
    if (n.organization)
        set_parent(c, what, i, "organization", lm_hf_name_title(&c->a, n.organization));
    set_parent(c, what, i, "repo_url", url);
    return LM_OK;
}

/* The user's list of objects. */
static void parents_from_user(struct card *c, const char *what, const struct lm_jval *list)
{
    static const char *const fields[] = {
        "name", "author", "version", "organization", "description", "url", "doi", "uuid",
        "repo_url",
    };
    size_t i = 0;
    for (const struct lm_jval *e = list->first; e; e = e->next, i++)
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
            set_parent(c, what, i, fields[k], lm_jval_str(lm_jval_get(e, fields[k])));
}

static int write_parents(struct card *c, struct lm_err *err)
{
    for (size_t p = 0; p < sizeof parents / sizeof *parents; p++) {
        const struct lm_jval *user = lm_jval_get(c->user, parents[p].metadata);
        const struct lm_yaml_item *it = NULL;
        char key[64];
        for (size_t k = 0; !it && k < 3; k++)
            it = lm_yaml_get(&c->yaml, parents[p].card[k]);
        if (!user && !it)
            continue;
        snprintf(key, sizeof key, "general.%s.count", parents[p].what);
        lm_gguf_set_u32(c->w, key, (uint32_t)(user ? user->len : it->n));
        if (user) {
            parents_from_user(c, parents[p].what, user);
            continue;
        }
        for (size_t i = 0; i < it->n; i++) {
            const int r = parent_from_id(c, parents[p].what, i, it->values[i].p, err);
            if (r)
                return r;
        }
    }
    return LM_OK;
}

static int write_lists(struct card *c, struct lm_err *err)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct lm_jval *user = lm_jval_get(c->user, lists[i].key);
        size_t n = 0, cap = user ? user->len : 0;
        for (size_t k = 0; k < 2; k++) {
            const struct lm_yaml_item *it = lm_yaml_get(&c->yaml, lists[i].card[k]);
            cap += it ? it->n : 0;
        }
        struct lm_str *all = lm_arena_array(&c->a, cap + 1, sizeof *all);
        if (!all)
            return lm_fail_nomem(err);
        for (const struct lm_jval *e = user ? user->first : NULL; e; e = e->next)
            if (lm_jval_str(e))
                all[n++] = (struct lm_str){ e->str, e->len };
        for (size_t k = 0; !user && k < 2; k++) {
            const struct lm_yaml_item *it = lm_yaml_get(&c->yaml, lists[i].card[k]);
            for (size_t j = 0; it && j < it->n; j++)
                all[n++] = it->values[j];
        }
        if (n)
            lm_gguf_set_arr(c->w, lists[i].key, LM_GGUF_STR, all, n);
    }
    return LM_OK;
}

static int collect(struct card *c, struct lm_hf_source *src, const struct lm_jval *config,
                   const struct lm_hf_card_options *o, struct lm_err *err)
{
    int r = LM_OK;
    if (o->metadata) {
        c->user = read_user(&c->a, o->metadata, o->metadata_len, err);
        if (!c->user)
            r = lm_err_at(err, err->code, "metadata");
    }
    if (!r)
        r = load_card(c, src, err);
    if (r)
        return r;
    from_card(c);
    /* A name with two slashes or more is some computer's path. */
    const char *id = lm_jval_str(lm_jval_get(config, "_name_or_path"));
    const char *slash = id ? strchr(id, '/') : NULL;
    if (id && *id && !(slash && strchr(slash + 1, '/')))
        r = from_name(c, id, err);
    if (!r && *o->title)
        r = from_name(c, o->title, err);
    if (!c->text[SIZE_LABEL] && c->n_weights)
        c->text[SIZE_LABEL] = size_label(c);
    if (o->model_name)
        c->text[NAME] = o->model_name;
    return r;
}

int lm_hf_card_write(struct lm_gguf_writer *w, struct lm_hf_source *src,
                     const struct lm_jval *config, const struct lm_jval *generation_config,
                     const struct lm_hf_card_options *o, const struct lm_env *env,
                     struct lm_err *err)
{
    struct card c = { .w = w, .n_weights = o->n_weights,
                      .n_in_experts = o->n_in_experts, .n_expert = o->n_expert };
    int r = collect(&c, src, config, o, err);
    if (!r) {
        write_sampling(&c, generation_config);
        write_texts(&c);
        if (o->model_name)
            lm_gguf_set_str(w, texts[NAME].key, o->model_name, strlen(o->model_name));
        if (!c.text[NAME] && !lm_jval_get(c.user, texts[NAME].key))
            lm_note(env, LM_WARN, "nothing tells the model's name: give one with --model-name");
        r = write_parents(&c, err);
    }
    if (!r)
        r = write_lists(&c, err);
    lm_arena_release(&c.a);
    return r;
}
