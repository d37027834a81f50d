/* SPDX-License-Identifier: MIT */
/*
 * The rules of the mixes.  They are a long list of exceptions that grew over
 * years; here each category of tensor has one function, and the counters that the
 * rules share live in struct state.
 */
#include "quant/mix.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"

const struct lm_file_type lm_file_types[] = {
    { "F32",       NULL,   LM_FT_F32,       LM_F32 },
    { "F16",       NULL,   LM_FT_F16,       LM_F16 },
    { "BF16",      NULL,   LM_FT_BF16,      LM_BF16 },
    { "Q8_0",      NULL,   LM_FT_Q8_0,      LM_Q8_0 },
    { "Q4_0",      NULL,   LM_FT_Q4_0,      LM_Q4_0 },
    { "Q4_1",      NULL,   LM_FT_Q4_1,      LM_Q4_1 },
    { "Q5_0",      NULL,   LM_FT_Q5_0,      LM_Q5_0 },
    { "Q5_1",      NULL,   LM_FT_Q5_1,      LM_Q5_1 },
    { "Q2_K",      NULL,   LM_FT_Q2_K,      LM_Q2_K },
    { "Q2_K_S",    NULL,   LM_FT_Q2_K_S,    LM_Q2_K },
    { "Q3_K_S",    NULL,   LM_FT_Q3_K_S,    LM_Q3_K },
    { "Q3_K_M",    "Q3_K", LM_FT_Q3_K_M,    LM_Q3_K },
    { "Q3_K_L",    NULL,   LM_FT_Q3_K_L,    LM_Q3_K },
    { "Q4_K_S",    NULL,   LM_FT_Q4_K_S,    LM_Q4_K },
    { "Q4_K_M",    "Q4_K", LM_FT_Q4_K_M,    LM_Q4_K },
    { "Q5_K_S",    NULL,   LM_FT_Q5_K_S,    LM_Q5_K },
    { "Q5_K_M",    "Q5_K", LM_FT_Q5_K_M,    LM_Q5_K },
    { "Q6_K",      NULL,   LM_FT_Q6_K,      LM_Q6_K },
    { "IQ1_S",     NULL,   LM_FT_IQ1_S,     LM_IQ1_S },
    { "IQ1_M",     NULL,   LM_FT_IQ1_M,     LM_IQ1_M },
    { "IQ2_XXS",   NULL,   LM_FT_IQ2_XXS,   LM_IQ2_XXS },
    { "IQ2_XS",    NULL,   LM_FT_IQ2_XS,    LM_IQ2_XS },
    { "IQ2_S",     NULL,   LM_FT_IQ2_S,     LM_IQ2_XS },
    { "IQ2_M",     NULL,   LM_FT_IQ2_M,     LM_IQ2_S },
    { "IQ3_XXS",   NULL,   LM_FT_IQ3_XXS,   LM_IQ3_XXS },
    { "IQ3_XS",    NULL,   LM_FT_IQ3_XS,    LM_IQ3_S },
    { "IQ3_S",     NULL,   LM_FT_IQ3_S,     LM_IQ3_S },
    { "IQ3_M",     NULL,   LM_FT_IQ3_M,     LM_IQ3_S },
    { "IQ4_NL",    NULL,   LM_FT_IQ4_NL,    LM_IQ4_NL },
    { "IQ4_XS",    NULL,   LM_FT_IQ4_XS,    LM_IQ4_XS },
    { "TQ1_0",     NULL,   LM_FT_TQ1_0,     LM_TQ1_0 },
    { "TQ2_0",     NULL,   LM_FT_TQ2_0,     LM_TQ2_0 },
    { "MXFP4_MOE", NULL,   LM_FT_MXFP4_MOE, LM_MXFP4 },
    { "Q1_0",      NULL,   LM_FT_Q1_0,      LM_Q1_0 },
    { "Q2_0",      NULL,   LM_FT_Q2_0,      LM_Q2_0 },
    { "COPY",      NULL,   LM_FT_COPY,      LM_F32 },
    { 0 }
};

const struct lm_file_type *lm_file_type_by_name(const char *s)
{
    char *end;
    long id = *s >= '0' && *s <= '9' ? strtol(s, &end, 10) : -1;
    if (id >= 0 && *end)
        id = -1;
    for (const struct lm_file_type *f = lm_file_types; f->name; f++)
        if (!strcasecmp(f->name, s) || (f->alias && !strcasecmp(f->alias, s)) ||
            (id >= 0 && id == (long)f->id))
            return f;
    return NULL;
}

/* ---- names --------------------------------------------------------------- */

enum category { OUTPUT, EMBD, QKV, KVB, V, K, Q, ATTN_OUT, UP, GATE, DOWN, OTHER };

static bool is(const char *name, const char *s)
{
    return !strcmp(name, s);
}

static bool has(const char *name, const char *s)
{
    return strstr(name, s) != NULL;
}

static bool ends(const char *name, const char *s)
{
    size_t n = strlen(name), k = strlen(s);
    return n >= k && !strcmp(name + n - k, s);
}

static bool is_embedding(const char *name)
{
    return is(name, "token_embd.weight") || is(name, "per_layer_token_embd.weight");
}

static enum category category(const char *name)
{
    static const struct {
        const char   *part;
        enum category c;
    } parts[] = {
        { "attn_qkv.weight", QKV }, { "attn_kv_b.weight", KVB }, { "attn_v.weight", V },
        { "attn_k.weight", K }, { "attn_q.weight", Q }, { "attn_output.weight", ATTN_OUT },
        { "ffn_up", UP }, { "ffn_gate", GATE }, { "ffn_down", DOWN },
    };
    if (is(name, "output.weight"))
        return OUTPUT;
    if (is_embedding(name))
        return EMBD;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (has(name, parts[i].part))
            return parts[i].c;
    return OTHER;
}

static bool is_v_like(enum category c)
{
    return c == V || c == QKV || c == KVB;
}

/* N of a leading "blk.N.", or -1. */
static int64_t layer_of(const char *name)
{
    int64_t n = 0;
    const char *p = name + 4;
    if (strncmp(name, "blk.", 4) || *p < '0' || *p > '9')
        return -1;
    for (; *p >= '0' && *p <= '9' && n < INT32_MAX; p++)
        n = n * 10 + (*p - '0');
    return *p == '.' ? n : -1;
}

/* Parts of names whose tensors are never converted. */
static const char *const kept[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel",
    "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight",
    "indexer.q_proj.weight", "attn_rel_b.weight", ".position_embd", "sam.pos_embd", "sam.neck.",
    "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd",
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
    "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight",
    "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
    "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
};

static const char *const kept_glm5_next[] = {
    "hc_", "indexer.attn_q_b", "indexer.attn_k", "indexer.proj", "indexer_compressor_gate",
    "indexer_compressor_ape", "ssm_f_a.weight", "ssm_f_b.weight", "ssm_g_a.weight",
    "ssm_g_b.weight", "ssm_beta.weight", "attn_kv_a_mqa.weight", "attn_k_b.weight",
    "attn_v_b.weight",
};

static bool has_any(const char *name, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has(name, parts[i]))
            return true;
    return false;
}

static bool is_convertible(const struct lm_mix *m, const struct lm_mix_tensor *t)
{
    bool matrix = t->ne[1] > 1 || t->ne[2] > 1 || t->ne[3] > 1;
    if (m->file_type->id == LM_FT_COPY || !matrix || !ends(t->name, "weight") ||
        has_any(t->name, kept, sizeof kept / sizeof *kept) ||
        is(t->name, "position_embd.weight") || is(t->name, "token_types.weight"))
        return false;
    if (m->leave_output && is(t->name, "output.weight"))
        return false;
    return !is(m->arch, "glm5-next") ||
           !has_any(t->name, kept_glm5_next, sizeof kept_glm5_next / sizeof *kept_glm5_next);
}

/* ---- order --------------------------------------------------------------- */

struct key {
    int64_t     layer;
    const char *name;
    size_t      i;
};

static int by_layer_and_name(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    int c = strcmp(a->name, b->name);
    return c ? c : (a->i > b->i) - (a->i < b->i);
}

int lm_mix_order(const struct lm_mix_tensor *t, size_t n, size_t *order, struct lm_err *err)
{
    struct key *keys = lm_malloc_array(n, sizeof *keys);
    if (!keys)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        keys[i] = (struct key){ layer_of(t[i].name), t[i].name, i };
    if (n)
        qsort(keys, n, sizeof *keys, by_layer_and_name);
    for (size_t i = 0; i < n; i++)
        order[i] = keys[i].i;
    free(keys);
    return LM_OK;
}

uint32_t lm_mix_guess(const struct lm_mix_tensor *t, size_t n, const size_t *order)
{
    /* The file type that a file mostly of one tensor type is called. */
    static const struct {
        enum lm_type_id      type;
        enum lm_file_type_id id;
    } names[] = {
        { LM_F16, LM_FT_F16 }, { LM_Q4_0, LM_FT_Q4_0 }, { LM_Q4_1, LM_FT_Q4_1 },
        { LM_Q8_0, LM_FT_Q8_0 }, { LM_Q5_0, LM_FT_Q5_0 }, { LM_Q5_1, LM_FT_Q5_1 },
        { LM_Q2_K, LM_FT_Q2_K }, { LM_Q3_K, LM_FT_Q3_K_M }, { LM_Q4_K, LM_FT_Q4_K_M },
        { LM_Q5_K, LM_FT_Q5_K_M }, { LM_Q6_K, LM_FT_Q6_K }, { LM_IQ2_XXS, LM_FT_IQ2_XXS },
        { LM_IQ2_XS, LM_FT_IQ2_XS }, { LM_IQ3_XXS, LM_FT_IQ3_XXS }, { LM_IQ1_S, LM_FT_IQ1_S },
        { LM_IQ4_NL, LM_FT_IQ4_NL }, { LM_IQ3_S, LM_FT_IQ3_S }, { LM_IQ2_S, LM_FT_IQ2_S },
        { LM_IQ4_XS, LM_FT_IQ4_XS }, { LM_IQ1_M, LM_FT_IQ1_M }, { LM_BF16, LM_FT_BF16 },
        { LM_TQ1_0, LM_FT_TQ1_0 }, { LM_TQ2_0, LM_FT_TQ2_0 }, { LM_NVFP4, LM_FT_NVFP4 },
        { LM_Q1_0, LM_FT_Q1_0 }, { LM_Q2_0, LM_FT_Q2_0 },
    };
    size_t counts[64] = { 0 }, best = 0;
    uint32_t type = LM_F32;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = t[order[i]].source->id;
        if (id < 64 && ++counts[id] > best) {
            best = counts[id];
            type = id;
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((uint32_t)names[i].type == type)
            return LM_FT_GUESSED + (uint32_t)names[i].id;
    return LM_FT_GUESSED + LM_FT_F32;
}

/* ---- rules --------------------------------------------------------------- */

struct state {
    const struct lm_mix *m;
    enum lm_file_type_id ft;
    enum lm_type_id      dflt;
    bool                 tied;           /* no tensor output.weight               */
    int64_t              nl;             /* layers                                */
    int64_t              nv;             /* V-like tensors                        */
    uint32_t             gqa;            /* heads for each key head               */
    bool                 falcon, is_70b;
    int64_t              i_v, i_down;    /* tensors of a kind decided so far      */
    int64_t              i_gate, i_up;
};

/* Is ft one of a list that ends with -2? */
static bool one_of(enum lm_file_type_id ft, const int *list)
{
    while (*list != -2 && *list != (int)ft)
        list++;
    return *list != -2;
}

#define ONE_OF(ft, ...) one_of(ft, (const int[]){ __VA_ARGS__, -2 })

/* The layers at both ends, and every third between. */
static bool more(int64_t i, int64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static bool below_3_bits(enum lm_file_type_id ft)
{
    return ONE_OF(ft, LM_FT_IQ2_XXS, LM_FT_IQ2_XS, LM_FT_IQ2_S, LM_FT_IQ2_M, LM_FT_IQ1_S,
                  LM_FT_IQ1_M);
}

static enum lm_type_id rule_output(const struct state *s, const struct lm_mix_tensor *t)
{
    const struct lm_type *dflt = lm_type_by_id(s->dflt);
    if (s->m->output_type)
        return s->m->output_type->id;
    if (s->ft == LM_FT_MXFP4_MOE || s->falcon || t->ne[0] % dflt->block)
        return LM_Q8_0;
    if (below_3_bits(s->ft) || s->ft == LM_FT_IQ3_XXS)
        return LM_Q5_K;
    return s->dflt == LM_Q8_0 ? LM_Q8_0 : LM_Q6_K;
}

static enum lm_type_id rule_mxfp4(const struct state *s, const struct lm_mix_tensor *t,
                                  enum category c)
{
    bool experts = t->ne[2] > 1;
    if (is(s->m->arch, "bailingmoe3"))
        experts = experts && (c == UP || c == GATE || c == DOWN);
    return experts ? LM_MXFP4 : LM_Q8_0;
}

static enum lm_type_id rule_embedding(const struct state *s)
{
    if (ONE_OF(s->ft, LM_FT_IQ2_XXS, LM_FT_IQ2_XS, LM_FT_IQ1_S, LM_FT_IQ1_M))
        return LM_Q2_K;
    if (ONE_OF(s->ft, LM_FT_IQ2_S, LM_FT_IQ2_M, LM_FT_IQ3_XXS))
        return LM_IQ3_S;
    if (ONE_OF(s->ft, LM_FT_TQ1_0, LM_FT_TQ2_0, LM_FT_Q2_0))
        return LM_Q4_K;
    return s->dflt;
}

/* File types below three bits have rules of their own for all layers. */
static enum lm_type_id rule_low(struct state *s, enum category c)
{
    const bool roomy = ONE_OF(s->ft, LM_FT_IQ2_S, LM_FT_IQ2_M);
    const enum lm_type_id better = roomy ? LM_IQ3_S : LM_Q2_K;
    if (is_v_like(c)) {
        s->i_v++;
        return s->gqa >= 4 || s->m->n_experts >= 4 ? LM_Q4_K : better;
    }
    if (c == K && s->m->n_experts == 8)
        return LM_Q4_K;
    if (c == DOWN)
        return s->i_down++ < s->nl / 8 ? better : s->dflt;
    if (c == ATTN_OUT) {
        if (s->m->n_experts == 8)
            return LM_Q5_K;
        if (ONE_OF(s->ft, LM_FT_IQ1_S, LM_FT_IQ1_M))
            return LM_IQ2_XXS;
        if (roomy)
            return LM_IQ3_S;
    }
    return s->dflt;
}

static enum lm_type_id v_by_file_type(const struct state *s)
{
    const bool shared = s->gqa >= 4;
    switch (s->ft) {
    case LM_FT_Q2_K:    return shared ? LM_Q4_K : LM_Q3_K;
    case LM_FT_Q2_K_S:  return shared ? LM_Q4_K : s->dflt;
    case LM_FT_IQ3_XXS: return shared ? LM_Q4_K : s->m->have_weights ? LM_IQ3_XXS : LM_IQ3_S;
    case LM_FT_IQ3_XS:
    case LM_FT_IQ3_S:   return shared ? LM_Q4_K : s->dflt;
    case LM_FT_IQ3_M:   return LM_Q4_K;
    case LM_FT_Q3_K_M:  return s->i_v < 2 ? LM_Q5_K : LM_Q4_K;
    case LM_FT_Q3_K_L:  return LM_Q5_K;
    case LM_FT_IQ4_NL:
    case LM_FT_IQ4_XS:  return shared ? LM_Q5_K : s->dflt;
    case LM_FT_Q4_K_M:
    case LM_FT_Q5_K_M:  return more(s->i_v, s->nv) ? LM_Q6_K : s->dflt;
    case LM_FT_Q4_K_S:  return s->i_v < 4 ? LM_Q5_K : s->dflt;
    default:            return s->dflt;
    }
}

static enum lm_type_id rule_v(struct state *s)
{
    enum lm_type_id type = v_by_file_type(s);
    if (s->is_70b && (type == LM_Q3_K || type == LM_Q4_K))
        type = LM_Q5_K;
    if (s->m->n_experts == 8)
        type = LM_Q8_0;
    s->i_v++;
    return type;
}

static enum lm_type_id rule_k_or_q(const struct state *s, enum category c)
{
    if (c == K && s->m->n_experts == 8)
        return LM_Q8_0;
    return s->ft == LM_FT_IQ3_XS ? LM_IQ3_XXS : s->ft == LM_FT_IQ3_XXS ? LM_IQ2_S : s->dflt;
}

static enum lm_type_id rule_attn_out(const struct state *s)
{
    if (s->falcon)
        return s->ft == LM_FT_Q3_K_L ? LM_Q4_K : s->dflt;
    if (s->m->n_experts == 8)
        return ONE_OF(s->ft, LM_FT_Q2_K, LM_FT_IQ3_XS, LM_FT_IQ3_XXS, LM_FT_Q3_K_S, LM_FT_Q3_K_M,
                      LM_FT_IQ4_NL, LM_FT_Q4_K_S, LM_FT_Q4_K_M, LM_FT_IQ3_S, LM_FT_IQ3_M,
                      LM_FT_IQ4_XS) ? LM_Q5_K : s->dflt;
    switch (s->ft) {
    case LM_FT_Q2_K:    return LM_Q3_K;
    case LM_FT_IQ3_XXS: return LM_IQ3_S;
    case LM_FT_Q3_K_M:  return LM_Q4_K;
    case LM_FT_Q3_K_L:  return LM_Q5_K;
    case LM_FT_IQ3_M:   return LM_Q4_K;
    default:            return s->dflt;
    }
}

/* l of n: the layer, or the count of such tensors, that the rules go by. */
static enum lm_type_id rule_down(const struct state *s, int64_t l, int64_t n)
{
    const bool early = l < n / 8, weights = s->m->have_weights;
    switch (s->ft) {
    case LM_FT_Q2_K:    return LM_Q3_K;
    case LM_FT_Q2_K_S:  return early ? LM_Q4_K : s->dflt;
    case LM_FT_IQ3_XXS: return weights ? s->dflt : early ? LM_Q4_K : LM_Q3_K;
    case LM_FT_Q3_K_M:
        if (l < n / 16)
            return LM_Q5_K;
        return !s->falcon || more(l, n) ? LM_Q4_K : LM_Q3_K;
    case LM_FT_IQ3_M:
        return early || (s->m->n_experts == 8 && more(l, n)) ? LM_Q4_K : s->dflt;
    case LM_FT_Q3_K_L:  return s->falcon ? LM_Q4_K : LM_Q5_K;
    case LM_FT_Q4_K_M:
        if (s->falcon)
            return l < n / 16 ? LM_Q6_K : more(l, n) ? LM_Q5_K : LM_Q4_K;
        return more(l, n) ? LM_Q6_K : s->dflt;
    case LM_FT_IQ4_NL:
    case LM_FT_IQ4_XS:  return early && !weights ? LM_Q5_K : s->dflt;
    case LM_FT_Q5_K_M:  return more(l, n) ? LM_Q6_K : s->dflt;
    case LM_FT_Q4_K_S:  return early && !s->falcon ? LM_Q5_K : s->dflt;
    case LM_FT_Q4_0:    return early && weights ? LM_Q4_1 : s->dflt;
    case LM_FT_Q5_0:    return early && weights ? LM_Q5_1 : s->dflt;
    default:            return s->dflt;
    }
}

/* DOWN, GATE and UP.  With experts the layer counts, which the name tells. */
static int rule_ffn(struct state *s, const struct lm_mix_tensor *t, enum category c,
                    enum lm_type_id *type, struct lm_err *err)
{
    int64_t *counter = c == DOWN ? &s->i_down : c == GATE ? &s->i_gate : &s->i_up;
    int64_t l = (*counter)++, n = s->nl;
    if (s->m->n_experts > 1) {
        l = layer_of(t->name);
        if (l < 0 || l >= n)
            return lm_fail(err, LM_EDATA, "tensor %s: its name says no layer from 0 to %lld",
                           t->name, (long long)n - 1);
    }
    if (c == DOWN)
        *type = rule_down(s, l, n);
    else
        *type = s->ft == LM_FT_IQ3_XS && l >= n / 8 && l < 7 * n / 8 ? LM_IQ3_XXS : s->dflt;
    return LM_OK;
}

static int by_rules(struct state *s, const struct lm_mix_tensor *t, enum lm_type_id *type,
                    struct lm_err *err)
{
    enum category c = category(t->name);
    *type = s->dflt;
    if (is(s->m->arch, "glm5-next") && (has(t->name, "attn_q_a") || has(t->name, "attn_q_b") ||
                                        has(t->name, "nextn.eh_proj")))
        *type = LM_Q8_0;
    else if (c == OUTPUT || (c == EMBD && s->tied))
        *type = rule_output(s, t);
    else if (s->ft == LM_FT_MXFP4_MOE)
        *type = rule_mxfp4(s, t, c);
    else if (c == EMBD)
        *type = rule_embedding(s);
    else if (below_3_bits(s->ft))
        *type = rule_low(s, c);
    else if (is_v_like(c))
        *type = rule_v(s);
    else if (c == K || c == Q)
        *type = rule_k_or_q(s, c);
    else if (c == ATTN_OUT)
        *type = rule_attn_out(s);
    else if (c == DOWN || c == GATE || c == UP)
        return rule_ffn(s, t, c, type, err);
    return LM_OK;
}

/* ---- shapes -------------------------------------------------------------- */

/* What takes the place of a type whose blocks do not divide a row. */
static int fall_back(const struct lm_mix_tensor *t, enum lm_type_id *type, struct lm_err *err)
{
    static const struct {
        enum lm_type_id from, to;
    } others[] = {
        { LM_IQ1_S, LM_IQ4_NL }, { LM_IQ1_M, LM_IQ4_NL }, { LM_IQ2_XXS, LM_IQ4_NL },
        { LM_IQ2_XS, LM_IQ4_NL }, { LM_IQ2_S, LM_IQ4_NL }, { LM_IQ3_XXS, LM_IQ4_NL },
        { LM_IQ3_S, LM_IQ4_NL }, { LM_IQ4_XS, LM_IQ4_NL },
        { LM_Q2_0, LM_Q4_0 }, { LM_Q2_K, LM_Q4_0 }, { LM_Q3_K, LM_Q4_0 },
        { LM_TQ1_0, LM_Q4_0 }, { LM_TQ2_0, LM_Q4_0 },
        { LM_Q4_K, LM_Q5_0 }, { LM_Q5_K, LM_Q5_1 }, { LM_Q6_K, LM_Q8_0 },
    };
    const struct lm_type *row = lm_type_by_id(*type);
    if (t->ne[0] % row->block == 0)
        return LM_OK;
    bool found = row->block <= 32;
    for (size_t i = 0; i < sizeof others / sizeof *others && !found; i++)
        if (others[i].from == *type) {
            *type = others[i].to;
            found = true;
        }
    if (!found)
        return lm_fail(err, LM_EUSE, "tensor %s: rows of %llu weights: %s needs a multiple of %u, "
                       "and no other type is defined in its place", t->name,
                       (unsigned long long)t->ne[0], row->name, row->block);
    if (t->ne[0] % lm_type_by_id(*type)->block)
        *type = LM_F16;
    return LM_OK;
}

/* A type given for one tensor by name has nothing to fall back to. */
static int exactly(struct lm_mix_tensor *t, const struct lm_type *type, struct lm_err *err)
{
    if (t->ne[0] % type->block)
        return lm_fail(err, LM_EUSE, "tensor %s: rows of %llu weights: %s needs a multiple of %u",
                       t->name, (unsigned long long)t->ne[0], type->name, type->block);
    t->target = t->wanted = type;
    return LM_OK;
}

/* ---- all of it ----------------------------------------------------------- */

static int choose(struct state *s, struct lm_mix_tensor *t, struct lm_err *err)
{
    const struct lm_mix *m = s->m;
    const struct lm_type *user = m->by_user ? m->by_user(m->by_user_arg, t->name) : NULL;
    bool is_float = s->dflt == LM_F32 || s->dflt == LM_F16 || s->dflt == LM_BF16;
    enum lm_type_id type = s->dflt;

    if (m->embedding_type && is_embedding(t->name) &&
        (is(t->name, "token_embd.weight") || !user))
        return exactly(t, m->embedding_type, err);
    if (m->output_type && is(t->name, "output.weight"))
        return exactly(t, m->output_type, err);
    if (is_float)
        return exactly(t, lm_type_by_id(s->dflt), err);
    if (user)
        type = user->id;
    else if (!m->pure) {
        int r = by_rules(s, t, &type, err);
        if (r != LM_OK)
            return r;
    }
    t->wanted = lm_type_by_id(type);
    int r = fall_back(t, &type, err);
    t->target = lm_type_by_id(type);
    return r;
}

static bool needs_weights(const struct state *s, const struct lm_mix_tensor *t)
{
    if (is_embedding(t->name) || is(t->name, "output.weight"))
        return false;
    switch (t->target->id) {
    case LM_IQ1_S: case LM_IQ1_M: case LM_IQ2_XXS: case LM_IQ2_XS: case LM_IQ2_S:
    case LM_IQ3_XXS:
        return true;
    case LM_Q2_K:
        return s->ft == LM_FT_Q2_K_S;
    default:
        return false;
    }
}

static void prepare(struct state *s, const struct lm_mix *m, const struct lm_mix_tensor *t,
                    size_t n)
{
    *s = (struct state){ .m = m, .ft = m->file_type->id, .dflt = m->file_type->type,
                         .tied = true, .nl = m->n_layers };
    for (size_t i = 0; i < n; i++) {
        s->tied &= !is(t[i].name, "output.weight");
        s->nv += is_v_like(category(t[i].name));
        if (!m->n_layers && layer_of(t[i].name) >= s->nl)
            s->nl = layer_of(t[i].name) + 1;
    }
    s->gqa = m->n_heads_kv ? m->n_heads / m->n_heads_kv : 0;
    s->falcon = is(m->arch, "falcon");
    s->is_70b = (s->nl == 80 && is(m->arch, "llama") && m->n_heads != m->n_heads_kv) ||
                (s->nl == 80 && (is(m->arch, "deci") || is(m->arch, "olmo") ||
                                 is(m->arch, "qwen2"))) ||
                (s->nl == 68 && is(m->arch, "jais2"));
}

int lm_mix_choose(const struct lm_mix *m, struct lm_mix_tensor *t, size_t n, struct lm_err *err)
{
    struct state s;
    size_t *order = lm_malloc_array(n, sizeof *order);
    if (!order)
        return lm_fail_nomem(err);
    int r = lm_mix_order(t, n, order, err);
    prepare(&s, m, t, n);
    for (size_t i = 0; i < n && r == LM_OK; i++) {
        struct lm_mix_tensor *x = &t[m->in_order ? i : order[i]];
        x->target = x->wanted = x->source;
        x->needs_weights = false;
        x->convertible = is_convertible(m, x);
        if (x->convertible) {
            r = choose(&s, x, err);
            x->needs_weights = r == LM_OK && needs_weights(&s, x);
        }
    }
    free(order);
    return r;
}
