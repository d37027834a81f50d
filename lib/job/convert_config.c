/* SPDX-License-Identifier: MIT */
/* config.json: both spellings of it, read by the architecture's row. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "arch/dense.h"
#include "job/convert_parts.h"

static const struct lm_jval *present(const struct lm_jval *v)
{
    return v && v->kind != LM_JSON_NULL ? v : NULL;
}

/* A member, or with dots in the name one of objects inside. */
static const struct lm_jval *member(const struct lm_jval *json, const char *name)
{
    for (const char *dot; json && (dot = strchr(name, '.')); name = dot + 1) {
        char outer[64];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
        json = present(lm_jval_get(json, outer));
    }
    return present(lm_jval_get(json, name));
}

/* Where the scaling of rotary positions stands: transformers 5 has rope_parameters (split
 * by kinds of layers where they differ), files before it rope_scaling. */
static const struct lm_jval *find_rope(const struct lm_jval *config)
{
    const struct lm_jval *p = present(lm_jval_get(config, "rope_parameters"));
    const struct lm_jval *full = present(lm_jval_get(p, "full_attention"));
    return full ? full : p ? p : present(lm_jval_get(config, "rope_scaling"));
}

/* Can the family's files say this scaling? */
static bool can_scale(const struct lm_arch *a, const char *type)
{
    const struct lm_arch_key *k = a->keys;
    const struct lm_arch_tensor *t = a->tensors;
    while (t->name && t->role != LM_ROPE_FREQS)
        t++;
    if (!strcmp(type, "llama3") || !strcmp(type, "proportional"))
        return t->name && (t->transform == LM_MAKE_ROPE_PART) == !strcmp(type, "proportional");
    if (!strcmp(type, "longrope"))
        return lm_arch_has(a, LM_ROPE_LONG_FACTORS);
    while (k->name && k->from != LM_FROM_ROPE_LINEAR)
        k++;
    return k->name;
}

static bool knows_ntk(const struct lm_arch *a)
{
    const struct lm_arch_key *k = a->keys;
    while (k->name && k->from != LM_FROM_ROPE_NTK)
        k++;
    return k->name;
}

/* Files of families whose scores grow with the stretching have one number for two: by how much
 * these do, and, inversely, cosine and sine. */
static int check_growth(const struct lm_convert_config *g, struct lm_err *err)
{
    const struct lm_arch_key *k = g->arch->keys;
    double own = 0, all = 0;
    while (k->name && k->from != LM_FROM_YARN_LOG)
        k++;
    lm_jval_f64(lm_jval_get(g->rope, "mscale"), &own);
    lm_jval_f64(lm_jval_get(g->rope, "mscale_all_dim"), &all);
    if (k->name && all != 0 && own != all)
        return lm_fail(err, LM_ENOSUP, "config.json: rope_scaling yarn: mscale %g and "
                       "mscale_all_dim %g: a %s model in which they differ cannot be converted",
                       own, all, g->arch->name);
    return LM_OK;
}

/* The scalings that this version's files can say; "dynamic" only acts beyond the training
 * length. */
static int read_rope(struct lm_convert *c, struct lm_err *err)
{
    static const char *const known[] = { "linear", "yarn", "llama3", "longrope", "proportional" };
    struct lm_convert_config *g = &c->cfg;
    g->rope = find_rope(g->json);
    const struct lm_jval *t = lm_jval_get(g->rope, "rope_type");
    t = present(t ? t : lm_jval_get(g->rope, "type"));
    const char *type = lm_jval_str(t);
    g->rope_type = "";
    if ((g->rope && g->rope->kind != LM_JSON_OBJECT) || (t && !type))
        return lm_fail(err, LM_EDATA, "config.json: rope_scaling is no object with a rope_type");
    if (!type || !strcmp(type, "default") || !strcmp(type, "mrope"))
        return LM_OK;                       /* several positions: those of text are equal */
    if (!strcmp(type, "su"))
        type = "longrope";                  /* its first name */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(type, known[i]) && can_scale(g->arch, type))
            g->rope_type = known[i];
    if (!strcmp(type, "dynamic") && present(lm_jval_get(g->rope, "alpha")) && knows_ntk(g->arch))
        return LM_OK;
    if (!strcmp(type, "dynamic"))
        lm_note(c->env, LM_WARN, "config.json: rope_scaling dynamic is left out: it acts beyond "
                "the training length only, for which decode has --rope-scaling=dynamic");
    else if (!*g->rope_type)
        return lm_fail(err, LM_ENOSUP, "config.json: rope_scaling of type %.60s cannot be "
                       "converted in a %s model", type, g->arch->name);
    double factor = 0;
    const bool stretched = !strcmp(g->rope_type, "linear") || !strcmp(g->rope_type, "yarn");
    if (stretched && !(lm_jval_f64(lm_jval_get(g->rope, "factor"), &factor) && factor > 0))
        return lm_fail(err, LM_EDATA, "config.json: rope_scaling %s: factor is no number above 0",
                       g->rope_type);
    return strcmp(g->rope_type, "yarn") ? LM_OK : check_growth(g, err);
}

int lm_convert_load_json(struct lm_convert *c, const char *name, const struct lm_jval **out,
                         struct lm_err *err)
{
    *out = NULL;
    return lm_hf_load_tree(c->src, &c->arena, name, out, err);
}

/* Numbers of params.json, in which Mistral's own files say what config.json says elsewhere; the
 * last ones where the file may not have them, as Mistral's models were converted. */
static const struct {
    const char *own, *inner, *name, *other;
} params[] = {
    { "dim", NULL, "hidden_size", NULL }, { "n_layers", NULL, "num_hidden_layers", NULL },
    { "n_heads", NULL, "num_attention_heads", NULL },
    { "n_kv_heads", NULL, "num_key_value_heads", NULL }, { "head_dim", NULL, "head_dim", NULL },
    { "hidden_dim", NULL, "intermediate_size", NULL }, { "norm_eps", NULL, "rms_norm_eps", NULL },
    { "vocab_size", NULL, "vocab_size", NULL }, { "sliding_window", NULL, "sliding_window", NULL },
    { "tied_embeddings", NULL, "tie_word_embeddings", NULL },
    { "moe", "num_experts", "num_local_experts", NULL },
    { "moe", "num_experts_per_tok", "num_experts_per_tok", NULL },
    { "rope_theta", NULL, "rope_theta", "10000" },
    { "max_seq_len", NULL, "max_position_embeddings", "32768" },
};

/* config.json made of params.json: NULL with *err filled, or when there is none (*found). */
static const struct lm_jval *from_params(struct lm_convert *c, struct lm_hf_source *src,
                                         bool *found, struct lm_err *err)
{
    static const char name[] = "params.json";
    char *data = NULL;
    size_t len;
    const int r = lm_hf_load(src, name, &data, &len, err);
    *found = r <= 0;
    if (r)
        return NULL;
    const struct lm_jval *p = lm_json_tree(&c->arena, data, len, err), *made = NULL;
    free(data);
    if (!p) {
        lm_err_at(err, LM_EDATA, "%s", name);
        return NULL;
    }
    struct lm_buf b = {0};
    lm_buf_printf(&b, "{\"architectures\":[\"%s\"]", name);
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        const struct lm_jval *v = lm_jval_get(p, params[i].own);
        bool flag;
        v = present(params[i].inner ? lm_jval_get(v, params[i].inner) : v);
        if (v && v->kind == LM_JSON_NUMBER)
            lm_buf_printf(&b, ",\"%s\":%s", params[i].name, v->str);
        else if (lm_jval_bool(v, &flag))
            lm_buf_printf(&b, ",\"%s\":%s", params[i].name, flag ? "true" : "false");
        else if (params[i].other)
            lm_buf_printf(&b, ",\"%s\":%s", params[i].name, params[i].other);
    }
    lm_buf_byte(&b, '}');
    if (b.failed)
        lm_fail_nomem(err);
    else
        made = lm_json_tree(&c->arena, b.data, b.len, err);
    lm_buf_release(&b);
    return made;
}

/* config.json, or what stands for it. */
static int load_config(struct lm_convert *c, struct lm_hf_source *src, struct lm_err *err)
{
    char *data = NULL;
    size_t len;
    int r = lm_hf_load(src, "config.json", &data, &len, err);
    if (r > 0 && lm_hf_find(src, "adapter_config.json") >= 0)
        return lm_fail(err, LM_EUSE, "no config.json, but adapter_config.json: this is an "
                       "adapter, not a model: convert it with --lora");
    if (r > 0) {
        c->cfg.json = from_params(c, src, &c->cfg.own, err);
        return c->cfg.json ? LM_OK : c->cfg.own ? (int)err->code
                                                : lm_hf_missing(src, "config.json", err);
    }
    if (r)
        return r;
    c->cfg.json = lm_json_tree(&c->arena, data, len, err);
    free(data);
    return c->cfg.json ? LM_OK : lm_err_at(err, LM_EDATA, "config.json");
}

/* What layer i is, as Nemotron-H's files say it: M recurrent, * attention, - a feed-forward, E
 * experts; 0: they do not. */
static char kind_of(const struct lm_convert *c, int64_t i)
{
    static const struct { const char *name; char kind; } names[] = {
        { "mamba", 'M' }, { "linear_attention", 'M' }, { "attention", '*' },
        { "full_attention", '*' }, { "mlp", '-' }, { "moe", 'E' },
    };
    const struct lm_jval *text = lm_jval_get(c->cfg.json, "hybrid_override_pattern");
    const struct lm_jval *list = present(lm_jval_get(c->cfg.json, "layers_block_type"));
    if (lm_jval_str(text))
        return i >= 0 && (size_t)i < text->len ? text->str[i] : 0;
    const struct lm_jval *m = list ? list->first : NULL;
    for (int64_t at = 0; m && at < i; at++)
        m = m->next;
    for (size_t k = 0; lm_jval_str(m) && k < sizeof names / sizeof *names; k++)
        if (!strcmp(names[k].name, lm_jval_str(m)))
            return names[k].kind;
    return 0;
}

/* Does config.json say of `need` what the family can be run with? */
static int check_need(const struct lm_convert *c, const struct lm_arch_need *need,
                      struct lm_err *err)
{
    const struct lm_jval *v = member(c->cfg.json, need->name);
    const char *text = lm_jval_str(v);
    bool flag = true, ok = !v;
    if (need->when && !(lm_jval_bool(lm_jval_get(c->cfg.json, need->when), &flag) && flag))
        return LM_OK;
    if (lm_jval_bool(v, &flag))
        text = flag ? "true" : "false";
    else if (v && v->kind == LM_JSON_NUMBER)
        text = v->str;
    for (size_t i = 0; text && !ok && i < 3 && need->values[i]; i++)
        ok = !strcmp(need->values[i], text);
    return ok ? LM_OK
              : lm_fail(err, LM_ENOSUP, "config.json: %s is %.60s: a %s model with that cannot be "
                        "converted", need->name, text ? text : "something else",
                        c->cfg.arch->name);
}

/* Which of the rows of a class is it, by the kinds of its layers? */
static void choose_row(struct lm_convert *c)
{
    const struct lm_jval *list = present(lm_jval_get(c->cfg.json, "layer_types"));
    int64_t n;
    bool plain = c->cfg.arch->plain && list && list->kind == LM_JSON_ARRAY && list->len;
    for (int64_t i = 0; c->cfg.arch->mixed && kind_of(c, i); i++)
        if (kind_of(c, i) == 'E')
            c->cfg.arch = c->cfg.arch->mixed;
    if (c->cfg.arch->mixed && lm_jval_i64(lm_jval_get(c->cfg.json, "moe_every_n_layers"), &n) &&
        n > 0)
        c->cfg.arch = c->cfg.arch->mixed;
    for (const struct lm_jval *t = plain ? list->first : NULL; t; t = t->next) {
        const char *s = lm_jval_str(t);
        plain = plain && s && (!strcmp(s, "attention") || !strcmp(s, "full_attention"));
    }
    if (!plain)
        return;
    c->cfg.arch = c->cfg.arch->plain;
    if (lm_jval_i64(lm_jval_get(c->cfg.json, "num_local_experts"), &n) && n > 0 &&
        c->cfg.arch->mixed)
        c->cfg.arch = c->cfg.arch->mixed;
}

/* The row of cfg.class, and what config.json says beside its keys. */
static int take_class(struct lm_convert *c, struct lm_err *err)
{
    int r;
    c->cfg.arch = lm_arch_by_class(c->cfg.class);
    if (!c->cfg.arch)
        return lm_fail(err, LM_ENOSUP, "config.json: architecture %.60s cannot be converted "
                       "(--list names those that can)", c->cfg.class);
    choose_row(c);
    for (const struct lm_arch_need *n = c->cfg.arch->needs; n && n->name; n++)
        if ((r = check_need(c, n, err)))
            return r;
    c->cfg.quant = present(lm_jval_get(c->cfg.json, "quantization_config"));
    r = c->cfg.quant ? lm_convert_check_quant(c->cfg.quant, err) : LM_OK;
    if (r)
        return lm_err_at(err, r, "config.json: quantization_config");
    const struct lm_jval *tied = present(lm_jval_get(c->cfg.json, "tie_word_embeddings"));
    if (tied && !lm_jval_bool(tied, &c->cfg.tied))
        return lm_fail(err, LM_EDATA, "config.json: tie_word_embeddings is neither true nor false");
    return LM_OK;
}

int lm_convert_use_config(struct lm_convert *c, struct lm_err *err)
{
    const int r = take_class(c, err);
    return r ? r : read_rope(c, err);
}

int lm_convert_read_config(struct lm_convert *c, struct lm_hf_source *src, struct lm_err *err)
{
    int r = load_config(c, src, err);
    if (r)
        return r;
    const struct lm_jval *list = lm_jval_get(c->cfg.json, "architectures");
    const char *name = lm_jval_str(list && list->kind == LM_JSON_ARRAY ? list->first : NULL);
    if (!name)
        return lm_fail(err, LM_EDATA, "config.json: no architectures: cannot tell what model "
                       "this is");
    c->cfg.class = name;
    if ((r = lm_convert_unwrap(c, err)))
        return r;
    /* Nothing but the model's card tells a reranker from the model that it is made of. */
    if (!strcmp(c->cfg.class, "Qwen3ForCausalLM") &&
        lm_hf_contains(src, "README.md", "# Qwen3-Reranker"))
        c->cfg.class = "Qwen3-Reranker";
    /* Version 3 of Jina's encoders has a class of its own, in code beside the weights. */
    if (!strcmp(c->cfg.class, "XLMRobertaModel") &&
        present(lm_jval_get(c->cfg.json, "lora_adaptations")))
        c->cfg.class = "XLMRobertaLoRA";
    if ((r = take_class(c, err)))
        return r;
    r = lm_convert_read_modules(c, err);
    return r ? r : read_rope(c, err);
}

/* The value that a key comes from, NULL when there is none.  *text is set instead when it is
 * the default of the config class, which the row spells "=VALUE". */
static const struct lm_jval *find_value(const struct lm_convert_config *g,
                                        const struct lm_arch_key *k, const char **text)
{
    const struct lm_jval *local =
        lm_jval_get(lm_jval_get(g->json, "rope_parameters"), "sliding_attention");
    const struct lm_jval *v = k->from == LM_FROM_ROPE_LOCAL
                                  ? present(lm_jval_get(local, "rope_theta")) : NULL;
    const bool linear = !strcmp(g->rope_type, "linear"), yarn = !strcmp(g->rope_type, "yarn");
    for (size_t i = 0; !v && i < sizeof k->config / sizeof *k->config && k->config[i]; i++) {
        const char *name = k->config[i];
        if (*name == '=')
            *text = name + 1;
        else if (k->from == LM_FROM_CONFIG || k->from == LM_FROM_ROPE_LOCAL ||
                 k->from == LM_FROM_GATING || k->from == LM_FROM_IF_TRUE ||
                 k->from == LM_FROM_POOLING_NAME || k->from == LM_FROM_POSITIONS)
            v = member(g->json, name);
        else if (k->from == LM_FROM_EACH || k->from == LM_FROM_DENSE_FIRST)
            v = present(lm_jval_get(g->json, name));
        else if ((k->from == LM_FROM_ROPE || k->from == LM_FROM_ROPE_NTK) &&
                 !(v = present(lm_jval_get(g->rope, name))))
            v = present(lm_jval_get(g->json, name));
        else if ((k->from == LM_FROM_ROPE_LINEAR && (linear || yarn)) ||
                 ((k->from == LM_FROM_ROPE_YARN || k->from == LM_FROM_YARN_LOG) && yarn))
            v = present(lm_jval_get(g->rope, name));
    }
    return v;
}

static int head_dim(const struct lm_convert_config *g, int64_t *out, struct lm_err *err)
{
    int64_t hidden, heads;
    const struct lm_jval *said = present(lm_jval_get(g->json, "head_dim"));
    if (said)
        return lm_jval_i64(said, out) && *out > 0
                   ? LM_OK : lm_fail(err, LM_EDATA, "config.json: head_dim is no number that fits");
    if (!lm_jval_i64(lm_jval_get(g->json, "hidden_size"), &hidden) ||
        !lm_jval_i64(lm_jval_get(g->json, "num_attention_heads"), &heads) || heads <= 0)
        return lm_fail(err, LM_EDATA, "config.json: no hidden_size or num_attention_heads");
    *out = hidden / heads;
    return LM_OK;
}

/* head_dim times the rotated part of it, cut to a whole number. */
static int rot_dim(const struct lm_convert_config *g, const struct lm_arch_key *k, int64_t *out,
                   struct lm_err *err)
{
    double factor = 1;
    const int r = head_dim(g, out, err);
    for (size_t i = 0; i < sizeof k->config / sizeof *k->config && k->config[i]; i++) {
        const struct lm_jval *v = present(lm_jval_get(g->rope, k->config[i]));
        if (*k->config[i] == '#' &&
            lm_jval_i64(lm_jval_get(g->json, k->config[i] + 1), out) && *out > 0)
            return LM_OK;
        v = v ? v : present(lm_jval_get(g->json, k->config[i]));
        if (*k->config[i] == '=')
            factor = strtod(k->config[i] + 1, NULL);
        if (*k->config[i] == '=' || lm_jval_f64(v, &factor))
            break;
    }
    if (!(factor > 0 && factor <= 1))
        return lm_fail(err, LM_EDATA, "config.json: %s: %g: must be above 0 and at most 1",
                       k->config[0], factor);
    *out = r ? 0 : (int64_t)((double)*out * factor);
    return r;
}

/* Every how many layers one sees everything: a number, or, as transformers 5 writes it, the kind
 * of each layer. */
static int global_every(const struct lm_convert_config *g, const struct lm_arch_key *k,
                        int64_t *out, struct lm_err *err)
{
    const struct lm_jval *list = lm_jval_get(g->json, "layer_types");
    int64_t i = 0, every = 0;
    *out = -1;
    if (lm_jval_i64(lm_jval_get(g->json, k->config[0]), out) || !list ||
        list->kind != LM_JSON_ARRAY || !list->len)
        return LM_OK;
    for (int check = 0; check < 2; check++) {
        i = 0;
        for (const struct lm_jval *t = list->first; t; t = t->next, i++) {
            const char *kind = lm_jval_str(t);
            const bool full = kind && !strcmp(kind, "full_attention");
            if (check && full != (i % every == 0))
                return lm_fail(err, LM_ENOSUP, "config.json: layer_types: not every %lld-th layer "
                               "is full_attention: cannot be converted", (long long)every);
            if (full && i && !every)
                every = i;
        }
        every = every ? every : i;
    }
    *out = every;
    return LM_OK;
}

/* Made from several numbers: *out is -1 where one is missing. */
static int made_number(const struct lm_convert_config *g, const struct lm_arch_key *k,
                       int64_t *out, struct lm_err *err)
{
    int64_t v, sum = 0;
    bool multi = false, fresh = false;
    *out = -1;
    if (k->from == LM_FROM_HEAD_DIM)
        return head_dim(g, out, err);
    if (k->from == LM_FROM_ROT_DIM)
        return rot_dim(g, k, out, err);
    if (k->from == LM_FROM_GLOBAL_EVERY)
        return global_every(g, k, out, err);
    lm_jval_bool(lm_jval_get(g->json, "multi_query"), &multi);
    lm_jval_bool(lm_jval_get(g->json, "new_decoder_architecture"), &fresh);
    if (k->from == LM_FROM_KV_HEADS && multi && !fresh)
        *out = 1;
    for (size_t i = 0; i < sizeof k->config / sizeof *k->config && k->config[i] && *out < 0; i++) {
        const bool ok = lm_jval_i64(lm_jval_get(g->json, k->config[i]), &v) && v >= 0 &&
                        v <= UINT32_MAX;
        if (k->from == LM_FROM_SUM && !ok)
            return LM_OK;
        sum += ok ? v : 0;
        if (ok && k->from != LM_FROM_SUM)
            *out = k->from == LM_FROM_4_TIMES ? 4 * v
                 : k->from == LM_FROM_8_THIRDS ? (8 * v / 3 + 255) / 256 * 256
                 : k->from == LM_FROM_2_THIRDS ? (2 * v / 3 + 7) / 8 * 8 : v;
    }
    if (k->from == LM_FROM_SUM)
        *out = sum;
    if (k->from == LM_FROM_KV_HEADS && *out < 0)
        *out = 1;
    return LM_OK;
}

/* Longer contexts make cosine and sine grow by sqrt(1 + ln(stretch) / ln(original)). */
static int rope_attn(const struct lm_convert_config *g, float *f, struct lm_err *err)
{
    double most = 0, orig = 0, factor;
    const struct lm_jval *v = lm_jval_get(g->json, "original_max_position_embeddings");
    if (strcmp(g->rope_type, "longrope"))
        return 1;
    const struct lm_jval *said = lm_jval_get(g->rope, "attention_factor");
    double other;
    if (lm_jval_f64(lm_jval_get(g->rope, "long_mscale"), &factor) &&
        lm_jval_f64(said = lm_jval_get(g->rope, "short_mscale"), &other) && factor != other)
        return lm_fail(err, LM_ENOSUP, "config.json: rope_scaling longrope: short_mscale and "
                       "long_mscale that differ cannot be converted");
    if (lm_jval_f64(said, &factor)) {
        if (!(factor > 0))
            return lm_fail(err, LM_EDATA, "config.json: rope_scaling longrope: attention_factor "
                           "is no number above 0");
        *f = (float)factor;
        return LM_OK;
    }
    v = present(v) ? v : lm_jval_get(g->rope, "original_max_position_embeddings");
    if (!lm_jval_f64(lm_jval_get(g->json, "max_position_embeddings"), &most) ||
        !lm_jval_f64(v, &orig) || !(orig > 1))
        return lm_fail(err, LM_EDATA, "config.json: longrope needs max_position_embeddings and "
                       "original_max_position_embeddings");
    *f = most > orig ? (float)sqrt(1 + log(most / orig) / log(orig)) : 1;
    return LM_OK;
}

/* RoBERTa's positions begin behind that of the padding token. */
uint64_t lm_convert_padding_rows(const struct lm_convert *c)
{
    int64_t pad;
    return lm_jval_i64(lm_jval_get(c->cfg.json, "pad_token_id"), &pad) && pad >= 0 &&
           pad < UINT32_MAX ? (uint64_t)pad + 1 : 0;
}

static int pooling_by_name(const char *name, int64_t *out)
{
    static const char *const names[] = { "none", "mean", "cls", "last" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            *out = (int64_t)i;
            return 1;
        }
    return 0;
}

/* Whole numbers of config[], multiplied and divided. */
static int product(const struct lm_convert_config *g, const struct lm_arch_key *k, int64_t *out,
                   struct lm_err *err)
{
    double all = 1;
    for (size_t i = 0; i < sizeof k->config / sizeof *k->config && k->config[i]; i++) {
        const bool divide = *k->config[i] == '/';
        const char *name = k->config[i] + divide;
        double v;
        if (!lm_jval_f64(lm_jval_get(g->json, name), &v) || !(v > 0 && v <= UINT32_MAX))
            return k->flags & LM_KEY_REQUIRED
                       ? lm_fail(err, LM_EDATA, "config.json: no %s", name) : LM_OK;
        all = divide ? all / v : all * v;
    }
    if (!(all >= 0 && all <= UINT32_MAX) || all != floor(all))
        return lm_fail(err, LM_EDATA, "config.json: %s and what belongs to it make no whole number",
                       k->config[0]);
    *out = (int64_t)all;
    return LM_OK;
}

/* LFM2's feed-forward length: two thirds, times a factor, rounded up. */
static int adjusted(const struct lm_convert_config *g, int64_t *out, struct lm_err *err)
{
    bool adjust = false;
    int64_t of = 256;
    double times = 1;
    lm_jval_bool(lm_jval_get(g->json, "block_auto_adjust_ff_dim"), &adjust);
    if (!adjust)
        return LM_OK;
    *out = 2 * *out / 3;
    if (lm_jval_f64(present(lm_jval_get(g->json, "block_ffn_dim_multiplier")), &times))
        *out = (int64_t)((double)*out * times);
    lm_jval_i64(lm_jval_get(g->json, "block_multiple_of"), &of);
    if (of < 1 || of > UINT32_MAX || !(times > 0 && times < 1e6))
        return lm_fail(err, LM_EDATA, "config.json: block_multiple_of or "
                       "block_ffn_dim_multiplier is out of range");
    *out = (*out + of - 1) / of * of;
    return LM_OK;
}

/* A number that is computed: as made_number. */
static int computed(const struct lm_convert_config *g, const struct lm_arch_key *k, int64_t *out,
                    struct lm_err *err)
{
    int64_t v;
    *out = -1;
    if (k->from == LM_FROM_PRODUCT)
        return product(g, k, out, err);
    if (k->from == LM_FROM_16TH) {
        if (!lm_jval_i64(lm_jval_get(g->json, k->config[0]), out) &&
            lm_jval_i64(lm_jval_get(g->json, k->config[1]), &v) && v > 0 && v <= UINT32_MAX)
            *out = (v + 15) / 16;
        return LM_OK;
    }
    for (size_t i = 0; i < sizeof k->config / sizeof *k->config && k->config[i] && *out < 0; i++)
        if (lm_jval_i64(lm_jval_get(g->json, k->config[i]), &v) && v > 0 && v <= UINT32_MAX)
            *out = v;
    return *out < 0 ? LM_OK : adjusted(g, out, err);
}

static bool is_computed(enum lm_key_from from)
{
    return from == LM_FROM_PRODUCT || from == LM_FROM_16TH || from == LM_FROM_FF_ADJUSTED;
}

static bool is_made(enum lm_key_from from)
{
    return from == LM_FROM_HEAD_DIM || from == LM_FROM_ROT_DIM || from == LM_FROM_SUM ||
           from == LM_FROM_4_TIMES || from == LM_FROM_8_THIRDS || from == LM_FROM_2_THIRDS ||
           from == LM_FROM_KV_HEADS || from == LM_FROM_GLOBAL_EVERY || is_computed(from);
}

/* Has layer i attention, by one of the ways to say so? */
static bool attends(const struct lm_convert *c, int64_t i)
{
    const struct lm_jval *json = c->cfg.json, *types = present(lm_jval_get(json, "layer_types"));
    const struct lm_jval *list = present(lm_jval_get(json, "full_attn_idxs"));
    list = list ? list : present(lm_jval_get(json, "attn_layer_indices"));
    const struct lm_jval *from_1 = member(json, "linear_attn_config.full_attn_layers");
    if (kind_of(c, i))
        return kind_of(c, i) == '*';
    int64_t period = 0, offset = 0, at = 0, v;
    for (const struct lm_jval *t = types ? types->first : NULL; t; t = t->next, at++) {
        const char *s = lm_jval_str(t);
        if (at == i)
            return s && (!strcmp(s, "attention") || !strcmp(s, "full_attention"));
    }
    for (const struct lm_jval *t = list ? list->first : NULL; t; t = t->next)
        if (lm_jval_i64(t, &v) && v == i)
            return true;
    for (const struct lm_jval *t = from_1 ? from_1->first : NULL; t; t = t->next)
        if (lm_jval_i64(t, &v) && v == i + 1)
            return true;
    if (lm_jval_i64(lm_jval_get(json, "attn_layer_period"), &period) && period > 0) {
        lm_jval_i64(lm_jval_get(json, "attn_layer_offset"), &offset);
        return i >= offset && (i - offset) % period == 0;
    }
    if (types || list || from_1)
        return false;
    period = 4;
    lm_jval_i64(lm_jval_get(json, "full_attention_interval"), &period);
    return period > 0 && (i + 1) % period == 0;
}

/* A number of the layers without a window, where these have their own; *out is -1 without. */
static int of_global(const struct lm_convert_config *g, const struct lm_arch_key *k, int64_t *out,
                     struct lm_err *err)
{
    const struct lm_jval *list = present(lm_jval_get(g->json, "per_layer_config"));
    int64_t v;
    *out = -1;
    lm_jval_i64(lm_jval_get(g->json, k->config[0]), out);
    if (list && !list->first)                   /* layers that differ in nothing */
        lm_jval_i64(lm_jval_get(g->json, k->config[1]), out);
    for (const struct lm_jval *m = list ? list->first : NULL; m; m = m->next) {
        if (!lm_jval_i64(lm_jval_get(m, k->config[1]), &v))
            continue;
        if (*out >= 0 && v != *out)
            return lm_fail(err, LM_ENOSUP, "config.json: per_layer_config: layers with %s of %lld "
                           "and %lld cannot be converted", k->config[1], (long long)*out,
                           (long long)v);
        *out = v;
    }
    return LM_OK;
}

/* Heads of every layer, by which of them have a window. */
static int heads_by_window(const struct lm_convert *c, const struct lm_arch_key *k,
                           int32_t *values, size_t max, size_t *n, struct lm_err *err)
{
    const struct lm_jval *json = c->cfg.json;
    bool own = present(lm_jval_get(json, "per_layer_config"));
    int64_t near = 0, far;
    const int r = of_global(&c->cfg, k, &far, err);
    if (r)
        return r;
    lm_jval_bool(lm_jval_get(json, "attention_k_eq_v"), &own);
    lm_jval_i64(lm_jval_get(json, k->config[2]), &near);
    far = own && far >= 0 ? far : near;
    if (near < 1 || far < 1 || near > 1 << 16 || far > 1 << 16)
        return lm_fail(err, LM_EDATA, "config.json: no %s", k->config[2]);
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n)
        values[*n] = (int32_t)(lm_arch_window(c->cfg.arch, &c->cfg.h, (uint32_t)*n) ? near : far);
    return LM_OK;
}

/* Inner lengths of layers that are nothing else; dense ones and experts are not mixed. */
static int lengths_of_kinds(const struct lm_convert *c, const struct lm_arch_key *k,
                            int32_t *values, size_t max, size_t *n, struct lm_err *err)
{
    int64_t one = 0;
    const char feeds = lm_arch_has(c->cfg.arch, LM_ROUTER) ? 'E' : '-';
    if (!lm_jval_i64(lm_jval_get(c->cfg.json, k->config[0]), &one) || one < 1 || one > 1 << 24)
        return lm_fail(err, LM_EDATA, "config.json: no %s", k->config[0]);
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n) {
        const char kind = kind_of(c, (int64_t)*n);
        if (kind != 'M' && kind != '*' && kind != feeds)
            return lm_fail(err, LM_ENOSUP, "config.json: layer %zu of kind %c cannot be converted "
                           "in a %s model", *n, kind ? kind : '?', c->cfg.arch->name);
        values[*n] = kind == feeds ? (int32_t)one : 0;
    }
    return LM_OK;
}

/* Inner lengths of every layer: a list, or a number that is doubled where layers share keys. */
static int lengths(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                   size_t max, size_t *n, struct lm_err *err)
{
    const struct lm_jval *v = present(lm_jval_get(c->cfg.json, k->config[0]));
    const uint32_t n_layer = c->cfg.h.n_layer;
    const bool list = v && v->kind == LM_JSON_ARRAY;
    bool wide = false;
    int64_t one = 0;
    if (k->config[1])
        lm_jval_bool(lm_jval_get(c->cfg.json, k->config[1]), &wide);
    const struct lm_jval *m = list ? v->first : v;
    for (*n = 0; m && *n < n_layer && *n < max; ++*n) {
        if (!lm_jval_i64(m, &one) || one < 0 || one > 1 << 24)
            break;
        values[*n] = (int32_t)(wide && *n >= n_layer - c->cfg.h.n_shared_kv ? 2 * one : one);
        m = list ? m->next : m;
    }
    if (*n < n_layer || (list && m))
        return lm_fail(err, LM_EDATA, "config.json: %s: no length for each of %u layers",
                       k->config[0], n_layer);
    return LM_OK;
}

/* Heads or a flag for every layer, by which of them have attention. */
static int by_attention(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                        size_t max, size_t *n, struct lm_err *err)
{
    const bool fixed = k->config[0] && *k->config[0] == '=';
    int64_t heads = fixed ? strtoll(k->config[0] + 1, NULL, 10) : 0;
    if (k->from == LM_FROM_KV_OF_LAYERS && !fixed &&
        (!lm_jval_i64(lm_jval_get(c->cfg.json, k->config[0]), &heads) || heads < 1 ||
         heads > 1 << 16))
        return lm_fail(err, LM_EDATA, "config.json: no %s", k->config[0]);
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n)
        values[*n] = k->from == LM_FROM_KV_OF_LAYERS
                         ? (attends(c, (int64_t)*n) ? (int32_t)heads : 0)
                         : !attends(c, (int64_t)*n);
    return LM_OK;
}

/* Parts of a head for each kind of position, zeros after them. */
static int sections(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                    size_t *n, struct lm_err *err)
{
    static const int32_t usual[4] = { 11, 11, 10, 0 };
    const struct lm_jval *list = present(lm_jval_get(c->cfg.rope, k->config[0]));
    int64_t v;
    memcpy(values, usual, sizeof usual);
    *n = 4;
    if (!list)
        return k->from == LM_FROM_SECTIONS_SAID;
    memset(values, 0, sizeof usual);
    *n = 0;
    for (const struct lm_jval *t = list->first; t; t = t->next) {
        if (!lm_jval_i64(t, &v) || v < 0 || v > INT32_MAX || *n == 4)
            return lm_fail(err, LM_EDATA, "config.json: %s: bad entry", k->config[0]);
        values[(*n)++] = (int32_t)v;
    }
    *n = 4;
    return LM_OK;
}

/* Which layers choose the positions that they look at: a list of kinds, or a text of their letters;
 * or every so many, from the first few on.  Nothing is written of those where nothing is said and
 * readers take all for such that do. */
static int choosing_layers(const struct lm_convert *c, int32_t *values, size_t max, size_t *n,
                           struct lm_err *err)
{
    const struct lm_jval *types = present(lm_jval_get(c->cfg.json, "indexer_types"));
    const struct lm_jval *every = present(lm_jval_get(c->cfg.json, "index_topk_freq"));
    int64_t freq = 1, offset = 2;
    types = types ? types : present(lm_jval_get(c->cfg.json, "index_topk_pattern"));
    const char *text = lm_jval_str(types), *kind;
    const struct lm_jval *t = types && !text ? types->first : NULL;
    if (!types && !every && c->cfg.h.n_ctx_train < 1 << 20)
        return 1;
    lm_jval_i64(every, &freq);
    lm_jval_i64(lm_jval_get(c->cfg.json, "index_skip_topk_offset"), &offset);
    freq = freq < 1 ? 1 : freq;
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n) {
        const int64_t behind = (int64_t)*n - offset + 1;
        values[*n] = (behind > 0 ? behind : 0) % freq == 0;
        if (!types)
            continue;
        kind = text ? text + *n : t ? lm_jval_str(t) : NULL;
        if (!kind || (text ? *kind != 'F' && *kind != 'S'
                           : strcmp(kind, "full") != 0 && strcmp(kind, "shared") != 0))
            return lm_fail(err, LM_EDATA, "config.json: no kind of indexer for layer %zu", *n);
        values[*n] = *kind == (text ? 'F' : 'f');
        t = t ? t->next : NULL;
    }
    return LM_OK;
}

int lm_convert_layers(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                      size_t max, size_t *n, struct lm_err *err)
{
    const struct lm_jval *types = present(lm_jval_get(c->cfg.json, "layer_types"));
    *n = 0;
    if (k->from == LM_FROM_KV_OF_LAYERS || k->from == LM_FROM_RECURRENT_LAYERS)
        return by_attention(c, k, values, max, n, err);
    if (k->from == LM_FROM_INDEXED_LAYERS)
        return choosing_layers(c, values, max, n, err);
    if (k->from == LM_FROM_SECTIONS || k->from == LM_FROM_SECTIONS_SAID)
        return sections(c, k, values, n, err);
    if (k->from == LM_FROM_KV_BY_WINDOW)
        return heads_by_window(c, k, values, max, n, err);
    if (k->from == LM_FROM_FF_OF_KINDS)
        return lengths_of_kinds(c, k, values, max, n, err);
    if (k->from == LM_FROM_FF_OF_LAYERS)
        return lengths(c, k, values, max, n, err);
    if (k->from != LM_FROM_LOCAL_LAYERS || !types || !c->cfg.h.window)
        return 1;
    for (const struct lm_jval *t = types->first; t; t = t->next) {
        const char *s = lm_jval_str(t);
        if (!s || *n == max)
            return lm_fail(err, LM_EDATA, "config.json: layer_types: bad entry");
        values[(*n)++] = !strcmp(s, "sliding_attention");
    }
    return LM_OK;
}

/* Lists, as reading the file would find them. */
static int take_list(struct lm_convert *c, const struct lm_arch_key *k, struct lm_err *err)
{
    int32_t values[LM_MAX_LAYERS];
    size_t n;
    int r = lm_convert_layers(c, k, values, LM_MAX_LAYERS, &n, err);
    if (r)
        return r < 0 ? r : LM_OK;
    r = lm_arch_set_list(k, k->name, values, n, &c->cfg.h, err);
    return r ? lm_err_at(err, r, "config.json") : LM_OK;
}

/* The quantile of the normal distribution at p, as the family's code has it: in float32, from the
 * inverse of the error function, which is found by Newton's way. */
static float quantile(double p)
{
    const float y = 2 * (float)p - 1;
    double x = 0;
    if (!(y > -1 && y < 1))
        return y < 0 ? -INFINITY : INFINITY;
    for (int i = 0; i < 100; i++)
        x -= (erf(x) - (double)y) * 0.886226925452758 * exp(x * x);
    return (float)x * 1.41421356f;
}

int lm_convert_sparse(const struct lm_convert *c, const struct lm_arch_key *k, float *values,
                      size_t *n, struct lm_err *err)
{
    const struct lm_jval *v = present(lm_jval_get(c->cfg.json, k->config[0]));
    double share = 0;
    const bool list = v && v->kind == LM_JSON_ARRAY;
    const struct lm_jval *m = list ? v->first : v;
    for (*n = 0; m && *n < c->cfg.h.n_layer && *n < LM_MAX_LAYERS; ++*n) {
        if (!lm_jval_f64(m, &share) || !(share >= 0 && share < 1))
            return lm_fail(err, LM_EDATA, "config.json: %s: bad entry", k->config[0]);
        values[*n] = quantile(share);
        m = list ? m->next : m;
    }
    if (*n < c->cfg.h.n_layer || (list && m))
        return lm_fail(err, LM_EDATA, "config.json: %s: not a number for each of %u layers",
                       k->config[0], c->cfg.h.n_layer);
    return LM_OK;
}

static int take_sparse(struct lm_convert *c, const struct lm_arch_key *k, struct lm_err *err)
{
    float values[LM_MAX_LAYERS];
    size_t n;
    int r = lm_convert_sparse(c, k, values, &n, err);
    if (r)
        return r;
    r = lm_arch_set_sparse(k->name, values, n, &c->cfg.h, err);
    return r ? lm_err_at(err, r, "config.json") : LM_OK;
}

static int take_lists(struct lm_convert *c, struct lm_err *err)
{
    int r = LM_OK;
    for (int others = 0; others < 2; others++)
        for (const struct lm_arch_key *k = c->cfg.arch->keys; !r && k->name; k++)
            if (k->kind == LM_GGUF_ARR && !(k->flags & LM_KEY_UNUSED) &&
                (k->from != LM_FROM_LOCAL_LAYERS) == others)
                r = k->from == LM_FROM_SPARSE_LAYERS ? take_sparse(c, k, err)
                                                     : take_list(c, k, err);
    return r;
}

/* Numbers that would make every weight or angle nothing, or divide by nothing: files that say 0
 * do not mean it, and readers would take a default for it. */
static bool is_never_zero(const struct lm_arch_key *k)
{
    static const size_t fields[] = {
        offsetof(struct lm_hparams, norm_eps), offsetof(struct lm_hparams, rope_base),
        offsetof(struct lm_hparams, rope_base_local), offsetof(struct lm_hparams, rope_factor),
        offsetof(struct lm_hparams, rope_orig_ctx), offsetof(struct lm_hparams, rope_attn),
        offsetof(struct lm_hparams, attn_scale), offsetof(struct lm_hparams, embd_scale),
        offsetof(struct lm_hparams, residual_scale), offsetof(struct lm_hparams, logit_scale),
        offsetof(struct lm_hparams, yarn_attn),
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (k->field == fields[i] && !(k->flags & LM_KEY_UNUSED))
            return true;
    return false;
}

static int64_t layer_count(const struct lm_convert_config *g, const struct lm_arch_key *k)
{
    int64_t i = -1;
    for (size_t n = 0; n < sizeof k->config / sizeof *k->config && k->config[n] && i < 0; n++) {
        const struct lm_jval *v = present(lm_jval_get(g->json, k->config[n]));
        if (v && (v->kind == LM_JSON_ARRAY || lm_jval_str(v)))
            i = (int64_t)v->len;
        else
            lm_jval_i64(v, &i);
    }
    return i;
}

/* A number that is not written where it is what readers take for it. */
static int unless(const struct lm_convert_config *g, const struct lm_arch_key *k, uint32_t *u,
                  float *f, struct lm_err *err)
{
    const bool is = !strcmp(k->config[1], "=true");
    const double usual = is ? 1 : strtod(k->config[1] + 1, NULL);
    const struct lm_jval *v = present(lm_jval_get(g->rope, k->config[0]));
    double d = usual;
    bool flag = is;
    v = v ? v : present(lm_jval_get(g->json, k->config[0]));
    if (k->kind == LM_GGUF_BOOL && v) {
        *u = flag = lm_jval_bool(v, &flag) && flag;
        return flag == is;
    }
    if (v && (!lm_jval_f64(v, &d) ||
              (k->kind == LM_GGUF_U32 && (d != floor(d) || d < 0 || d > UINT32_MAX))))
        return lm_fail(err, LM_EDATA, "config.json: %s is no number that fits", k->config[0]);
    if (k->kind == LM_GGUF_F32)
        *f = (float)d;
    else
        *u = (uint32_t)d;
    return d == usual;
}

/* How a constant alpha stretches the base of rotation (bloc97, "NTK-aware scaled RoPE", 2023). */
static double ntk(const struct lm_convert_config *g, struct lm_err *err)
{
    const struct lm_jval *t = lm_jval_get(g->rope, "rope_type");
    const char *type = lm_jval_str(t ? t : lm_jval_get(g->rope, "type"));
    double alpha = 0;
    int64_t d;
    if (!type || strcmp(type, "dynamic") ||
        !lm_jval_f64(lm_jval_get(g->rope, "alpha"), &alpha) || !(alpha > 0) ||
        head_dim(g, &d, err) || d < 3)
        return 1;
    return pow(alpha, (double)d / (double)(d - 2));
}

/* The number that all of a list are. */
static const struct lm_jval *each(const struct lm_jval *v, const char *name, struct lm_err *err)
{
    double a, b;
    if (!v || v->kind != LM_JSON_ARRAY)
        return v;
    for (const struct lm_jval *m = v->first; m; m = m->next)
        if (!lm_jval_f64(v->first, &a) || !lm_jval_f64(m, &b) || a != b) {
            lm_fail(err, LM_ENOSUP, "config.json: %s: layers that differ cannot be converted",
                    name);
            return NULL;
        }
    return v->first;
}

/* How many layers come before those with experts, by a list that names the kind of each. */
static int dense_first(const struct lm_convert_config *g, int64_t *out, struct lm_err *err)
{
    const struct lm_jval *list = present(lm_jval_get(g->json, "mlp_layer_types"));
    int64_t n = 0, at = 0;
    if (!list)
        return LM_OK;
    for (const struct lm_jval *m = list->first; m; m = m->next, at++) {
        const char *s = lm_jval_str(m);
        if (s && !strcmp(s, "dense") && n == at)
            n++;
        else if (!s || strcmp(s, "sparse"))
            return lm_fail(err, LM_ENOSUP, "config.json: mlp_layer_types: layer %lld cannot be "
                           "converted", (long long)at);
    }
    *out = n;
    return LM_OK;
}

/* config[0] divided by config[1] or its root. */
static int ratio(const struct lm_convert_config *g, const struct lm_arch_key *k, float *f,
                 struct lm_err *err)
{
    double a, b;
    if (!lm_jval_f64(lm_jval_get(g->json, k->config[0]), &a) ||
        !lm_jval_f64(lm_jval_get(g->json, k->config[1]), &b) || !(a > 0 && b > 0))
        return lm_fail(err, LM_EDATA, "config.json: %s and %s: no numbers above 0", k->config[0],
                       k->config[1]);
    *f = (float)(a / (k->from == LM_FROM_RATIO ? b : sqrt(b)));
    return LM_OK;
}

/* An activation that is not the family's. */
static int activation(const struct lm_convert_config *g, const struct lm_arch_key *k, uint32_t *u,
                      const char **s, struct lm_err *err)
{
    const struct lm_jval *v = member(g->json, k->config[0]);
    const char *name = lm_jval_str(v), *usual = k->config[1] + 1;
    uint32_t family = 0;
    lm_arch_act(usual, strlen(usual), &family);
    if (!v)
        return 1;
    if (!name || !(*s = lm_arch_act(name, strlen(name), u)))
        return lm_fail(err, LM_ENOSUP, "config.json: %s is %.60s: a %s model with that cannot be "
                       "converted", k->config[0], name ? name : "something else", g->arch->name);
    return *u == family;
}

/* Keys whose values are known without looking for them: 2 for the others. */
static int given(const struct lm_convert *c, const struct lm_arch_key *k, uint32_t *u, float *f,
                 const char **s, struct lm_err *err)
{
    const struct lm_convert_config *g = &c->cfg;
    const bool stretched = !strcmp(g->rope_type, "linear") || !strcmp(g->rope_type, "yarn");
    const struct lm_jval *list;
    switch (k->from) {
    case LM_FROM_NOTHING:
        return 1;
    case LM_FROM_ROPE_TYPE:
        *s = g->rope_type;
        return stretched ? LM_OK : 1;
    case LM_FROM_ROPE_OR_NONE:
        *s = stretched ? g->rope_type : "none";
        return LM_OK;
    case LM_FROM_ROPE_ATTN:
        return rope_attn(g, f, err);
    case LM_FROM_IS_CLASS:
        *u = !strcmp(g->class, k->config[0]);
        return LM_OK;
    case LM_FROM_COUNT:
        list = lm_jval_get(lm_jval_get(g->json, k->config[0]), k->config[1]);
        *u = list && list->kind == LM_JSON_ARRAY ? (uint32_t)list->len : 0;
        return LM_OK;
    case LM_FROM_FILE_TYPE:
        *u = c->file_type;
        return LM_OK;
    case LM_FROM_FURTHER:
        *u = g->h.n_further;
        return *u ? LM_OK : 1;
    case LM_FROM_POOLING:
        *u = g->pooling || !k->config[0] ? g->pooling
                                         : (uint32_t)strtoul(k->config[0] + 1, NULL, 10);
        return *u ? LM_OK : 1;
    case LM_FROM_MODULES:
        memcpy(u, (const char *)&g->h + k->field, sizeof *u);
        return *u ? LM_OK : 1;
    case LM_FROM_RATIO:
    case LM_FROM_ROOT_RATIO:
        return ratio(g, k, f, err);
    case LM_FROM_ACT:
        return activation(g, k, u, s, err);
    case LM_FROM_UNLESS:
        return unless(g, k, u, f, err);
    default:
        return 2;
    }
}

/* Where a key's value is: in *v, or *text for a default, or *i where it is made (else -1). */
static int look_up(const struct lm_convert_config *g, const struct lm_arch_key *k,
                   const struct lm_jval **v, const char **text, int64_t *i, struct lm_err *err)
{
    int r = LM_OK;
    *v = NULL;
    *text = NULL;
    *i = -1;
    if (k->from == LM_FROM_LAYER_COUNT)
        *i = layer_count(g, k);
    else if (k->from == LM_FROM_GLOBAL)
        r = of_global(g, k, i, err);
    else if (is_computed(k->from))
        r = computed(g, k, i, err);
    else if (is_made(k->from))
        r = made_number(g, k, i, err);
    if (r || *i >= 0 || is_made(k->from))
        return r;
    *v = find_value(g, k, text);
    if (k->from == LM_FROM_EACH && *v && !(*v = each(*v, k->config[0], err)))
        return err->code;
    if (k->from == LM_FROM_DENSE_FIRST && !*v)
        r = dense_first(g, i, err);
    *text = *i >= 0 ? NULL : *text;
    return r;
}

/* A value as a whole number. */
static bool whole(const struct lm_convert *c, const struct lm_arch_key *k,
                  const struct lm_jval *v, const char *text, int64_t i, uint32_t *u)
{
    const char *name = lm_jval_str(v);
    bool ok = true;
    i = text ? strtoll(text, NULL, 10) : i;
    if (k->from == LM_FROM_GATING)
        ok = name && (i = !strcmp(name, "softmax") ? 1 : !strcmp(name, "sigmoid") ? 2
                          : 4 * !strcmp(name, "sqrtsoftplus")) > 0;
    else if (k->from == LM_FROM_POOLING_NAME)
        ok = name && pooling_by_name(name, &i);
    else
        ok = text || i >= 0 || lm_jval_i64(v, &i);
    if (k->from == LM_FROM_POSITIONS)
        i -= (int64_t)lm_convert_padding_rows(c);
    *u = (uint32_t)i;
    return ok && i >= 0 && i <= UINT32_MAX;
}

int lm_convert_key(const struct lm_convert *c, const struct lm_arch_key *k, uint32_t *u,
                   float *f, const char **s, struct lm_err *err)
{
    const struct lm_convert_config *g = &c->cfg;
    const struct lm_jval *v;
    const char *text;
    int64_t i;
    double d = 0;
    bool ok, flag;
    int r = given(c, k, u, f, s, err);
    if (r != 2 || (r = look_up(g, k, &v, &text, &i, err)))
        return r;
    if (!v && !text && i < 0)
        return k->flags & LM_KEY_REQUIRED
                   ? lm_fail(err, LM_EDATA, "config.json: no %s", k->config[0]) : 1;
    if (lm_jval_f64(v, &d) && d == 0 && is_never_zero(k))
        return lm_fail(err, LM_EDATA, "config.json: %s is 0", k->config[0]);
    if (k->kind == LM_GGUF_STR) {
        *s = text ? text : lm_jval_str(v);
        ok = *s != NULL;
    } else if (k->kind == LM_GGUF_BOOL) {
        flag = text && !strcmp(text, "true");
        ok = text || lm_jval_bool(v, &flag);
        *u = flag;
        if (ok && !flag && k->from == LM_FROM_IF_TRUE)
            return 1;
    } else if (k->kind == LM_GGUF_F32) {
        d = text ? strtod(text, NULL) : 0;
        ok = text || lm_jval_f64(v, &d);
        d *= k->from == LM_FROM_ROPE_NTK ? ntk(g, err) : k->from == LM_FROM_YARN_LOG ? 0.1 : 1;
        *f = (float)d;
    } else {
        ok = whole(c, k, v, text, i, u);
    }
    return ok ? LM_OK : lm_fail(err, LM_EDATA, "config.json: %s is no number that fits",
                                k->config[0] ? k->config[0] : "head_dim");
}

int lm_convert_hparams(struct lm_convert *c, struct lm_err *err)
{
    c->cfg.h.qk_norms = true;
    c->cfg.h.window = c->cfg.arch->dense ? c->cfg.arch->dense->usual_window : 0;
    for (const struct lm_arch_key *k = c->cfg.arch->keys; k->name; k++) {
        uint32_t u = 0;
        float f = 0;
        const char *s = NULL;
        if (k->flags & LM_KEY_UNUSED || k->kind == LM_GGUF_ARR)
            continue;
        const int r = lm_convert_key(c, k, &u, &f, &s, err);
        if (r < 0)
            return r;
        char *field = (char *)&c->cfg.h + k->field;
        if (r == 0 && k->kind == LM_GGUF_U32)
            memcpy(field, &u, sizeof u);
        else if (r == 0 && k->kind == LM_GGUF_F32)
            memcpy(field, &f, sizeof f);
        else if (r == 0 && k->kind == LM_GGUF_BOOL)
            *(bool *)field = u;
    }
    int r = take_lists(c, err);
    if (r)
        return r;
    r = c->cfg.arch->settle(c->cfg.arch, &c->cfg.h, err);
    return r ? lm_err_at(err, r, "config.json") : LM_OK;
}
