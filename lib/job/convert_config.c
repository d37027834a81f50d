/* SPDX-License-Identifier: MIT */
/* config.json: which model it is, and the numbers that the architecture's row reads from it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/dense.h"
#include "job/convert_parts.h"

static const struct lm_jval *present(const struct lm_jval *v)
{
    return v && v->kind != LM_JSON_NULL ? v : NULL;
}

const struct lm_jval *lm_convert_member(const struct lm_jval *json, const char *name)
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
    const struct lm_jval *p = lm_convert_member(config, "rope_parameters");
    const struct lm_jval *full = lm_convert_member(p, "full_attention");
    return full ? full : p ? p : lm_convert_member(config, "rope_scaling");
}

/* Have the family's files a key that comes from there? */
static bool has_key(const struct lm_arch *a, enum lm_key_from from)
{
    const struct lm_arch_key *k = a->keys;
    while (k->name && k->from != from)
        k++;
    return k->name;
}

/* Can the family's files say this scaling? */
static bool can_scale(const struct lm_arch *a, const char *type)
{
    const struct lm_arch_tensor *t = a->tensors;
    while (t->name && t->role != LM_ROPE_FREQS)
        t++;
    if (!strcmp(type, "llama3") || !strcmp(type, "proportional"))
        return t->name && (t->transform == LM_MAKE_ROPE_PART) == !strcmp(type, "proportional");
    if (!strcmp(type, "longrope"))
        return lm_arch_has(a, LM_ROPE_LONG_FACTORS);
    return has_key(a, LM_FROM_ROPE_LINEAR);
}

/* Files of families whose scores grow with the stretching have one number for two: by how much
 * these do, and, inversely, cosine and sine. */
static int check_growth(const struct lm_convert_config *g, struct lm_err *err)
{
    double own = 0, all = 0;
    lm_jval_f64(lm_jval_get(g->rope, "mscale"), &own);
    lm_jval_f64(lm_jval_get(g->rope, "mscale_all_dim"), &all);
    if (has_key(g->arch, LM_FROM_YARN_LOG) && all != 0 && own != all)
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
    if (!strcmp(type, "dynamic") && lm_convert_member(g->rope, "alpha") &&
        has_key(g->arch, LM_FROM_ROPE_NTK))
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

char lm_convert_layer_kind(const struct lm_convert *c, int64_t i)
{
    static const struct { const char *name; char kind; } names[] = {
        { "mamba", 'M' }, { "linear_attention", 'M' }, { "attention", '*' },
        { "full_attention", '*' }, { "mlp", '-' }, { "moe", 'E' },
    };
    const struct lm_jval *text = lm_jval_get(c->cfg.json, "hybrid_override_pattern");
    const struct lm_jval *list = lm_convert_member(c->cfg.json, "layers_block_type");
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

int lm_convert_cannot(const struct lm_convert_config *g, const char *name, const char *text,
                      struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "config.json: %s is %.60s: a %s model with that cannot be "
                   "converted", name, text ? text : "something else", g->arch->name);
}

/* Does config.json say of `need` what the family can be run with? */
static int check_need(const struct lm_convert *c, const struct lm_arch_need *need,
                      struct lm_err *err)
{
    const struct lm_jval *v = lm_convert_member(c->cfg.json, need->name);
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
    return ok ? LM_OK : lm_convert_cannot(&c->cfg, need->name, text, err);
}

/* Has the family a key or a need of its own for that member? */
static bool looks_at(const struct lm_arch *a, const char *name)
{
    for (const struct lm_arch_key *k = a->keys; k->name; k++)
        if (k->from == LM_FROM_ACT && !strcmp(k->config[0], name))
            return true;
    for (const struct lm_arch_need *n = a->needs; n && n->name; n++)
        if (!strcmp(n->name, name))
            return true;
    return false;
}

/* Is the activation of that name the family's?  Configurations call GELU's two forms alike. */
static bool is_act(const struct lm_arch *a, const char *name)
{
    const enum lm_act own = a->dense->act;
    uint32_t said = 0;
    if (!name || !lm_arch_act(name, strlen(name), &said))
        return name && own == LM_ACT_RELU2 && !strcmp(name, "sqrelu");
    const enum lm_act act = (enum lm_act)(said - 1);
    return act == own || (own == LM_ACT_SWIGLU_CLAMP && act == LM_ACT_SILU) ||
           (own == LM_ACT_GELU && act == LM_ACT_GELU_ERF) ||
           (own == LM_ACT_GELU_ERF && act == LM_ACT_GELU);
}

/* Files of families without a key for it cannot say that a model has another activation. */
static int check_act(const struct lm_convert *c, struct lm_err *err)
{
    static const char *const names[] = { "hidden_act", "hidden_activation" };
    for (size_t i = 0; c->cfg.arch->dense && i < sizeof names / sizeof *names; i++) {
        const struct lm_jval *v = lm_convert_member(c->cfg.json, names[i]);
        if (v && !looks_at(c->cfg.arch, names[i]) && !is_act(c->cfg.arch, lm_jval_str(v)))
            return lm_convert_cannot(&c->cfg, names[i], lm_jval_str(v), err);
    }
    return LM_OK;
}

/* Which of the rows of a class is it, by the kinds of its layers? */
static void choose_row(struct lm_convert *c)
{
    const struct lm_jval *list = lm_convert_member(c->cfg.json, "layer_types");
    int64_t n;
    bool plain = c->cfg.arch->plain && list && list->kind == LM_JSON_ARRAY && list->len;
    for (int64_t i = 0; c->cfg.arch->mixed && i < LM_MAX_LAYERS && lm_convert_layer_kind(c, i); i++)
        if (lm_convert_layer_kind(c, i) == 'E')
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
    if ((r = check_act(c, err)))
        return r;
    c->cfg.quant = lm_convert_member(c->cfg.json, "quantization_config");
    r = c->cfg.quant ? lm_convert_check_quant(c->cfg.quant, err) : LM_OK;
    if (r)
        return lm_err_at(err, r, "config.json: quantization_config");
    const struct lm_jval *tied = lm_convert_member(c->cfg.json, "tie_word_embeddings");
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
        lm_convert_member(c->cfg.json, "lora_adaptations"))
        c->cfg.class = "XLMRobertaLoRA";
    if ((r = take_class(c, err)))
        return r;
    r = lm_convert_read_modules(c, err);
    return r ? r : read_rope(c, err);
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

/* Which layers have a window, and which do not turn, where the family's files do not say it. */
static int check_layers(const struct lm_convert *c, struct lm_err *err)
{
    const struct lm_arch *a = c->cfg.arch;
    const uint32_t every = a->dense ? a->dense->unturned_every : 0;
    const bool fixed = a->dense && a->dense->all_every && c->cfg.h.window && !c->cfg.h.has_pattern;
    const struct lm_jval *types = lm_convert_member(c->cfg.json, "layer_types");
    const struct lm_jval *turns = lm_convert_member(c->cfg.json, "no_rope_layers");
    const struct lm_jval *t = types && fixed ? types->first : NULL;
    int64_t turned;
    for (uint32_t i = 0; t; t = t->next, i++) {
        const char *s = lm_jval_str(t);
        if (s && (lm_arch_window(a, &c->cfg.h, i) ? !strcmp(s, "full_attention")
                                                  : strstr(s, "sliding") || strstr(s, "chunked")))
            return lm_convert_cannot(&c->cfg, "layer_types", "another pattern", err);
    }
    t = turns && every > 1 ? turns->first : NULL;
    for (uint32_t i = 0; t; t = t->next, i++)
        if (lm_jval_i64(t, &turned) && (turned == 0) != (i % every == every - 1))
            return lm_convert_cannot(&c->cfg, "no_rope_layers", "another pattern", err);
    return LM_OK;
}

/* Windows of Qwen's configurations are nothing that its files can say, unless none of the layers
 * has one, or it reaches as far as the context. */
static int check_window(const struct lm_convert *c, struct lm_err *err)
{
    const struct lm_jval *json = c->cfg.json, *types = lm_convert_member(json, "layer_types");
    const struct lm_hparams *h = &c->cfg.h;
    int64_t window, full = 28;                   /* transformers' max_window_layers */
    bool used;
    if (h->window || !lm_jval_bool(lm_convert_member(json, "use_sliding_window"), &used) || !used ||
        !lm_jval_i64(lm_convert_member(json, "sliding_window"), &window) ||
        window >= (int64_t)h->n_ctx_train)
        return LM_OK;
    (void)lm_jval_i64(lm_convert_member(json, "max_window_layers"), &full);
    bool some = !types && full < (int64_t)h->n_layer;
    for (const struct lm_jval *t = types ? types->first : NULL; t; t = t->next)
        some |= lm_jval_str(t) && strcmp(lm_jval_str(t), "sliding_attention") == 0;
    return some ? lm_convert_cannot(&c->cfg, "use_sliding_window", "true", err) : LM_OK;
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
    if (r)
        return lm_err_at(err, r, "config.json");
    r = check_layers(c, err);
    return r ? r : check_window(c, err);
}
