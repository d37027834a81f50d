/* SPDX-License-Identifier: MIT */
/* The value of one key of the metadata, as config.json has it in one spelling or another. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch/dense.h"
#include "job/convert_parts.h"

/* The value in the place where keys of that kind have theirs. */
static const struct lm_jval *find_named(const struct lm_convert_config *g, enum lm_key_from from,
                                        const char *name)
{
    const bool yarn = !strcmp(g->rope_type, "yarn");
    const struct lm_jval *v;
    switch (from) {
    case LM_FROM_CONFIG: case LM_FROM_ROPE_LOCAL: case LM_FROM_GATING: case LM_FROM_IF_TRUE:
    case LM_FROM_POOLING_NAME: case LM_FROM_POSITIONS: case LM_FROM_EACH:
    case LM_FROM_DENSE_FIRST:
        return lm_convert_member(g->json, name);
    case LM_FROM_ROPE: case LM_FROM_ROPE_NTK:
        v = lm_convert_member(g->rope, name);
        return v ? v : lm_convert_member(g->json, name);
    case LM_FROM_ROPE_LINEAR:
        return yarn || !strcmp(g->rope_type, "linear") ? lm_convert_member(g->rope, name) : NULL;
    case LM_FROM_ROPE_YARN: case LM_FROM_YARN_LOG:
        return yarn ? lm_convert_member(g->rope, name) : NULL;
    default:
        return NULL;
    }
}

/* The value that a key comes from, NULL when there is none.  *text is set instead when it is
 * the default of the config class, which the row spells "=VALUE". */
static const struct lm_jval *find_value(const struct lm_convert_config *g,
                                        const struct lm_arch_key *k, const char **text)
{
    const struct lm_jval *local =
        lm_jval_get(lm_jval_get(g->json, "rope_parameters"), "sliding_attention");
    const struct lm_jval *v = k->from == LM_FROM_ROPE_LOCAL
                                  ? lm_convert_member(local, "rope_theta") : NULL;
    for (size_t i = 0; !v && i < sizeof k->config / sizeof *k->config && k->config[i]; i++) {
        const char *name = k->config[i];
        if (*name == '=')
            *text = name + 1;
        else
            v = find_named(g, k->from, name);
    }
    return v;
}

static int head_dim(const struct lm_convert_config *g, int64_t *out, struct lm_err *err)
{
    int64_t hidden, heads;
    const struct lm_jval *said = lm_convert_member(g->json, "head_dim");
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
        const struct lm_jval *v = lm_convert_member(g->rope, k->config[i]);
        if (*k->config[i] == '#' &&
            lm_jval_i64(lm_jval_get(g->json, k->config[i] + 1), out) && *out > 0)
            return LM_OK;
        v = v ? v : lm_convert_member(g->json, k->config[i]);
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
    const struct lm_jval *v = lm_convert_member(g->json, "original_max_position_embeddings");
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
    v = v ? v : lm_jval_get(g->rope, "original_max_position_embeddings");
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
    const bool scaled = lm_jval_f64(lm_convert_member(g->json, "block_ffn_dim_multiplier"), &times);
    lm_jval_i64(lm_jval_get(g->json, "block_multiple_of"), &of);
    if (of < 1 || of > UINT32_MAX || !(times > 0 && times < 1e6))
        return lm_fail(err, LM_EDATA, "config.json: block_multiple_of or "
                       "block_ffn_dim_multiplier is out of range");
    *out = 2 * *out / 3;
    if (scaled)
        *out = (int64_t)((double)*out * times);
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

int lm_convert_global(const struct lm_convert_config *g, const struct lm_arch_key *k, int64_t *out,
                     struct lm_err *err)
{
    const struct lm_jval *list = lm_convert_member(g->json, "per_layer_config");
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
        const struct lm_jval *v = lm_convert_member(g->json, k->config[n]);
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
    const struct lm_jval *v = lm_convert_member(g->rope, k->config[0]);
    double d = usual;
    bool flag = is;
    v = v ? v : lm_convert_member(g->json, k->config[0]);
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

/* Of a list, the number that all of it are. */
static int each(const struct lm_jval **v, const char *name, struct lm_err *err)
{
    double a, b;
    if (!*v || (*v)->kind != LM_JSON_ARRAY)
        return LM_OK;
    if (!(*v)->first)
        return lm_fail(err, LM_EDATA, "config.json: %s: a list of nothing", name);
    *v = (*v)->first;
    for (const struct lm_jval *m = *v; m; m = m->next)
        if (!lm_jval_f64(*v, &a) || !lm_jval_f64(m, &b) || a != b)
            return lm_fail(err, LM_ENOSUP, "config.json: %s: layers that differ cannot be "
                           "converted", name);
    return LM_OK;
}

/* How many layers come before those with experts, by a list that names the kind of each. */
static int dense_first(const struct lm_convert_config *g, int64_t *out, struct lm_err *err)
{
    const struct lm_jval *list = lm_convert_member(g->json, "mlp_layer_types");
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

/* A scale of scores that is not the family's. */
static int pre_attn(const struct lm_convert_config *g, const struct lm_arch_key *k, float *f,
                    struct lm_err *err)
{
    const struct lm_jval *v = lm_convert_member(g->json, k->config[0]);
    struct lm_hparams own = g->h;
    double d = 256;
    if (v && !(lm_jval_f64(v, &d) && d > 0))
        return lm_fail(err, LM_EDATA, "config.json: %s is no number above 0", k->config[0]);
    *f = 1 / sqrtf((float)d);
    own.attn_scale = 0;
    g->arch->dense->constants(&own);
    return *f == (own.attn_scale > 0 ? own.attn_scale : 1 / sqrtf((float)own.head_k));
}

/* An activation that is not the family's. */
static int activation(const struct lm_convert_config *g, const struct lm_arch_key *k, uint32_t *u,
                      const char **s, struct lm_err *err)
{
    const struct lm_jval *v = lm_convert_member(g->json, k->config[0]);
    const char *name = lm_jval_str(v), *usual = k->config[1] + 1;
    uint32_t family = 0;
    lm_arch_act(usual, strlen(usual), &family);
    if (!v)
        return 1;
    if (!name || !(*s = lm_arch_act(name, strlen(name), u)))
        return lm_convert_cannot(g, k->config[0], name, err);
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
    case LM_FROM_PRE_ATTN:
        return pre_attn(g, k, f, err);
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
        r = lm_convert_global(g, k, i, err);
    else if (is_computed(k->from))
        r = computed(g, k, i, err);
    else if (is_made(k->from))
        r = made_number(g, k, i, err);
    if (r || *i >= 0 || is_made(k->from))
        return r;
    *v = find_value(g, k, text);
    if (k->from == LM_FROM_EACH)
        r = each(v, k->config[0], err);
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
    if (k->from == LM_FROM_POSITIONS && i >= 0)
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
