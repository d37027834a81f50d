/* SPDX-License-Identifier: MIT */
#include "arch/build.h"
#include "arch/recurrent.h"
#include "arch/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

extern const struct lm_arch
    lm_arch_llama, lm_arch_mistral_own, lm_arch_qwen2, lm_arch_qwen3, lm_arch_qwen2moe,
    lm_arch_qwen3moe, lm_arch_smollm3, lm_arch_granite, lm_arch_granitemoe,
    lm_arch_gemma, lm_arch_gemma2, lm_arch_gemma3, lm_arch_phi2, lm_arch_phi3, lm_arch_olmo2,
    lm_arch_starcoder2, lm_arch_stablelm, lm_arch_command_r, lm_arch_cohere2, lm_arch_exaone4,
    lm_arch_glm4, lm_arch_ernie4_5, lm_arch_nemotron, lm_arch_gpt2, lm_arch_gptneox,
    lm_arch_falcon, lm_arch_minicpm3, lm_arch_bert, lm_arch_roberta, lm_arch_nomic_bert,
    lm_arch_modern_bert, lm_arch_bert_class, lm_arch_roberta_class,
    lm_arch_qwen3_rank, lm_arch_modern_bert_class, lm_arch_deepseek2, lm_arch_gpt_oss,
    lm_arch_mamba, lm_arch_mamba2,
    lm_arch_jamba, lm_arch_falcon_h1, lm_arch_lfm2, lm_arch_granitehybrid, lm_arch_qwen3next,
    lm_arch_qwen35, lm_arch_qwen35moe, lm_arch_lfm2moe, lm_arch_t5, lm_arch_olmoe,
    lm_arch_seed_oss, lm_arch_minimax_m2, lm_arch_ernie4_5_moe, lm_arch_glm4moe,
    lm_arch_gemma_embedding, lm_arch_mistral3, lm_arch_qwen2vl, lm_arch_qwen3vl,
    lm_arch_qwen3vlmoe, lm_arch_gemma4, lm_arch_gemma3n, lm_arch_glm4_lite,
    lm_arch_solar_open, lm_arch_hunyuan_dense, lm_arch_hunyuan_moe, lm_arch_arcee,
    lm_arch_nemotron_h, lm_arch_nemotron_h_moe, lm_arch_llama4,
    lm_arch_glm_dsa, lm_arch_deepseek32, lm_arch_kimi_linear, lm_arch_kormo, lm_arch_glm4v,
    lm_arch_glm4v_moe, lm_arch_phimoe, lm_arch_youtu, lm_arch_mistral4, lm_arch_bamba,
    lm_arch_cohere2moe, lm_arch_distilbert, lm_arch_distilbert_class, lm_arch_lfm2_both,
    lm_arch_nomic_bert_moe, lm_arch_jina_bert_v2, lm_arch_jina_bert_v3, lm_arch_rwkv6,
    lm_arch_rwkv7, lm_arch_rwkv6qwen2, lm_arch_arwkv7,
    lm_arch_olmo, lm_arch_mpt, lm_arch_bloom, lm_arch_starcoder, lm_arch_codeshell,
    lm_arch_dbrx, lm_arch_apertus, lm_arch_exaone, lm_arch_internlm2, lm_arch_xverse,
    lm_arch_baichuan, lm_arch_orion, lm_arch_qwen, lm_arch_minicpm, lm_arch_refact,
    lm_arch_chatglm, lm_arch_bitnet, lm_arch_dots1,
    lm_arch_afmoe, lm_arch_exaone_moe, lm_arch_hy_v3, lm_arch_mellum, lm_arch_jais2,
    lm_arch_deepseek, lm_arch_bailingmoe, lm_arch_bailingmoe2, lm_arch_eurobert,
    lm_arch_llama_embed, lm_arch_t5encoder, lm_arch_pangu, lm_arch_neo_bert, lm_arch_neo_bert_class;

const struct lm_arch *const lm_archs[] = {
    &lm_arch_llama, &lm_arch_mistral_own, &lm_arch_qwen2, &lm_arch_qwen3, &lm_arch_qwen2moe,
    &lm_arch_qwen3moe, &lm_arch_smollm3, &lm_arch_granite, &lm_arch_granitemoe,
    &lm_arch_gemma, &lm_arch_gemma2, &lm_arch_gemma3, &lm_arch_phi2, &lm_arch_phi3,
    &lm_arch_olmo2, &lm_arch_starcoder2, &lm_arch_stablelm, &lm_arch_command_r,
    &lm_arch_cohere2, &lm_arch_exaone4, &lm_arch_glm4, &lm_arch_ernie4_5, &lm_arch_nemotron,
    &lm_arch_gpt2, &lm_arch_gptneox, &lm_arch_falcon, &lm_arch_minicpm3,
    &lm_arch_bert, &lm_arch_roberta, &lm_arch_nomic_bert, &lm_arch_modern_bert,
    &lm_arch_qwen3_rank, &lm_arch_bert_class, &lm_arch_roberta_class, &lm_arch_modern_bert_class,
    &lm_arch_deepseek2, &lm_arch_gpt_oss,
    &lm_arch_mamba, &lm_arch_mamba2, &lm_arch_jamba, &lm_arch_falcon_h1, &lm_arch_lfm2,
    &lm_arch_granitehybrid, &lm_arch_qwen3next, &lm_arch_qwen35,
    &lm_arch_qwen35moe, &lm_arch_lfm2moe, &lm_arch_t5, &lm_arch_olmoe,
    &lm_arch_seed_oss, &lm_arch_minimax_m2, &lm_arch_ernie4_5_moe, &lm_arch_glm4moe,
    &lm_arch_gemma_embedding, &lm_arch_mistral3, &lm_arch_qwen2vl, &lm_arch_qwen3vl,
    &lm_arch_qwen3vlmoe, &lm_arch_gemma4, &lm_arch_gemma3n,
    &lm_arch_glm4_lite, &lm_arch_solar_open, &lm_arch_hunyuan_dense, &lm_arch_hunyuan_moe,
    &lm_arch_arcee, &lm_arch_nemotron_h, &lm_arch_nemotron_h_moe,
    &lm_arch_llama4, &lm_arch_glm_dsa, &lm_arch_deepseek32, &lm_arch_kimi_linear,
    &lm_arch_kormo, &lm_arch_glm4v, &lm_arch_glm4v_moe, &lm_arch_phimoe, &lm_arch_youtu,
    &lm_arch_mistral4, &lm_arch_bamba, &lm_arch_cohere2moe, &lm_arch_distilbert,
    &lm_arch_distilbert_class, &lm_arch_lfm2_both, &lm_arch_nomic_bert_moe,
    &lm_arch_jina_bert_v2, &lm_arch_jina_bert_v3, &lm_arch_rwkv6, &lm_arch_rwkv7,
    &lm_arch_rwkv6qwen2, &lm_arch_arwkv7,
    &lm_arch_olmo, &lm_arch_mpt, &lm_arch_bloom, &lm_arch_starcoder, &lm_arch_codeshell,
    &lm_arch_dbrx, &lm_arch_apertus, &lm_arch_exaone, &lm_arch_internlm2, &lm_arch_xverse,
    &lm_arch_baichuan, &lm_arch_orion, &lm_arch_qwen, &lm_arch_minicpm, &lm_arch_refact,
    &lm_arch_chatglm, &lm_arch_bitnet, &lm_arch_dots1,
    &lm_arch_afmoe, &lm_arch_exaone_moe, &lm_arch_hy_v3, &lm_arch_mellum, &lm_arch_jais2,
    &lm_arch_deepseek, &lm_arch_bailingmoe, &lm_arch_bailingmoe2, &lm_arch_eurobert,
    &lm_arch_llama_embed, &lm_arch_t5encoder, &lm_arch_pangu, &lm_arch_neo_bert,
    &lm_arch_neo_bert_class,
    NULL
};

const struct lm_arch_token lm_arch_no_space[] = {
    { "add_space_prefix", NULL, 0 },
    { NULL, NULL, 0 },
};

const struct lm_arch *lm_arch_by_name(const char *name)
{
    for (size_t i = 0; lm_archs[i]; i++)
        if (strcmp(lm_archs[i]->name, name) == 0)
            return lm_archs[i];
    return NULL;
}

const struct lm_arch *lm_arch_by_class(const char *name)
{
    for (size_t i = 0; lm_archs[i]; i++)
        for (const char *const *c = lm_archs[i]->hf_classes; *c; c++)
            if (strcmp(*c, name) == 0)
                return lm_archs[i];
    return NULL;
}

void lm_arch_key_name(const struct lm_arch *a, const struct lm_arch_key *k, char *dst)
{
    if (strncmp(k->name, "general.", 8) == 0 || strncmp(k->name, "tokenizer.", 10) == 0 ||
        strncmp(k->name, "xielu.", 6) == 0)
        snprintf(dst, LM_ARCH_NAME, "%s", k->name);
    else
        snprintf(dst, LM_ARCH_NAME, "%s.%s", a->name, k->name);
}

void lm_arch_expand(const char *pattern, uint32_t layer, char *dst)
{
    const char *hole = strstr(pattern, "{i}");
    if (hole)
        snprintf(dst, LM_ARCH_NAME, "%.*s%u%s", (int)(hole - pattern), pattern, layer, hole + 3);
    else
        snprintf(dst, LM_ARCH_NAME, "%s", pattern);
}

/* Plain decimal digits at s: how many, 0 when there is no number below 2^32. */
static size_t number(const char *s, uint32_t *out)
{
    uint64_t v = 0;
    size_t n = 0;
    while (s[n] >= '0' && s[n] <= '9') {
        v = v * 10 + (uint64_t)(s[n++] - '0');
        if (v > UINT32_MAX)
            return 0;
    }
    if (n > 1 && s[0] == '0')
        return 0;
    *out = (uint32_t)v;
    return n;
}

bool lm_arch_match(const char *pattern, const char *name, uint32_t *layer, uint32_t *part)
{
    *layer = 0;
    if (part)
        *part = 0;
    for (uint32_t v; *pattern; pattern++) {
        if (pattern[0] == '*' && !pattern[1])
            return true;
        if (pattern[0] != '{') {
            if (*pattern != *name++)
                return false;
            continue;
        }
        size_t n = number(name, &v);
        if (!n)
            return false;
        if (pattern[1] == 'i')
            *layer = v;
        else if (part)
            *part = v;
        name += n;
        pattern += 2;                   /* to the brace */
    }
    return !*name;
}

/* Has a layer experts? */
static bool mixed(const struct lm_hparams *h, uint32_t layer)
{
    const uint32_t every = h->mixed_every ? h->mixed_every : 1;
    return h->n_expert && layer >= h->n_dense_first && (layer + 1) % every == 0;
}

static bool bit(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

bool lm_arch_recurrent(const struct lm_hparams *h, uint32_t layer)
{
    return bit(h->recurrent, layer);
}

bool lm_arch_chooses(const struct lm_hparams *h, uint32_t layer)
{
    return bit(h->indexed, layer);
}

bool lm_arch_feeds(const struct lm_hparams *h, uint32_t layer)
{
    return !h->has_fed || bit(h->fed, layer);
}

bool lm_arch_attends(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer)
{
    if (h->has_fed && lm_arch_feeds(h, layer))
        return false;
    return !lm_arch_recurrent(h, layer) || (a->dense && a->dense->both);
}

bool lm_arch_allows(const struct lm_arch_tensor *t, const struct lm_arch *a,
                    const struct lm_hparams *h, uint32_t layer)
{
    unsigned not = mixed(h, layer) ? LM_TENSOR_IF_DENSE : LM_TENSOR_IF_MIXED;
    if (layer < h->n_layer)
        not |= LM_TENSOR_OF_DRAFT;
    not |= h->q_rank ? LM_TENSOR_NO_Q_RANK : LM_TENSOR_IF_Q_RANK;
    not |= h->latent ? LM_TENSOR_NO_LATENT : LM_TENSOR_IF_LATENT;
    if (!h->n_ff_shared)
        not |= LM_TENSOR_IF_SHARED;
    not |= layer == 0 ? LM_TENSOR_NOT_FIRST : LM_TENSOR_ONLY_FIRST;
    if (!h->n_embd_layer)
        not |= LM_TENSOR_IF_LAYER_INPUT;
    if (!lm_arch_feeds(h, layer))
        not |= LM_TENSOR_IF_FED;
    if (!h->n_latent)
        not |= LM_TENSOR_IF_EXPERT_IN;
    if (!lm_arch_recurrent(h, layer))
        not |= LM_TENSOR_IF_RECURRENT;
    if (!lm_arch_attends(a, h, layer))
        not |= LM_TENSOR_IF_ATTN;
    if (a->has_encoder && layer >= h->n_layer_enc)
        not |= LM_TENSOR_OF_ENCODER;
    if (a->has_encoder && layer >= h->n_layer_dec)
        not |= LM_TENSOR_OF_DECODER;
    return !(t->flags & not);
}

/* Is a tensor for the row there in a layer? */
static bool is_there(const struct lm_arch_tensor *t, uint32_t layer,
                     bool (*there)(const void *arg, const char *name), const void *arg)
{
    char name[LM_ARCH_NAME];
    lm_arch_expand(t->name, layer, name);
    return there(arg, name);
}

/* Is the row's tensor missing beside others, though it may be as such? */
static bool completes(const struct lm_arch_tensor *t, const struct lm_arch *a,
                      const struct lm_hparams *h, uint32_t layer,
                      bool (*there)(const void *arg, const char *name), const void *arg)
{
    const unsigned routed = LM_TENSOR_IF_ROUTER | LM_TENSOR_NO_ROUTER;
    bool needed = t->flags & LM_TENSOR_IN_FIRST && layer == 0;
    for (uint32_t i = 0; i < h->n_layer && t->flags & LM_TENSOR_ALL_OR_NONE && !needed; i++)
        needed = is_there(t, i, there, arg);
    for (const struct lm_arch_tensor *r = a->tensors; r->name && t->flags & routed; r++)
        if (r->role == LM_ROUTER)
            return is_there(r, layer, there, arg) == !(t->flags & LM_TENSOR_NO_ROUTER);
    return needed;
}

const struct lm_arch_tensor *lm_arch_row_of(const struct lm_arch *a, const struct lm_hparams *h,
                                            const char *name, uint32_t *layer)
{
    const struct lm_arch_tensor *other = NULL;
    for (const struct lm_arch_tensor *r = a->tensors; r->name; r++) {
        if (!lm_arch_match(r->name, name, layer, NULL))
            continue;
        if (*layer >= LM_MAX_LAYERS || lm_arch_allows(r, a, h, *layer))
            return r;
        other = other ? other : r;
    }
    if (other)
        lm_arch_match(other->name, name, layer, NULL);
    return other;
}

bool lm_arch_needs(const struct lm_arch_tensor *t, const struct lm_arch *a,
                   const struct lm_hparams *h, uint32_t layer,
                   bool (*there)(const void *arg, const char *name), const void *arg)
{
    if (t->flags & LM_TENSOR_OWN_KV && lm_arch_kv_layer(a, h, layer) != layer)
        return false;
    if (t->flags & LM_TENSOR_OWN_CHOICE && !lm_arch_chooses(h, layer))
        return false;
    return lm_arch_allows(t, a, h, layer) &&
           (!(t->flags & LM_TENSOR_OPTIONAL) || completes(t, a, h, layer, there, arg));
}

bool lm_arch_has(const struct lm_arch *a, enum lm_role role)
{
    const struct lm_arch_tensor *t = a->tensors;
    while (t->name && t->role != role)
        t++;
    return t->name;
}

size_t lm_arch_n_tensors(const struct lm_arch *a)
{
    size_t n = 0;
    while (a->tensors[n].name)
        n++;
    return n;
}

/* Scaling names that files use. */
static int read_scaling(const char *key, struct lm_str s, enum lm_rope_scaling *out,
                        struct lm_err *err)
{
    static const struct { const char *name; enum lm_rope_scaling value; } names[] = {
        { "none", LM_ROPE_NONE }, { "linear", LM_ROPE_LINEAR }, { "yarn", LM_ROPE_YARN },
        { "longrope", LM_ROPE_LONG }, { "su", LM_ROPE_LONG },
        { "dynamic", LM_ROPE_DYNAMIC },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == s.len && memcmp(names[i].name, s.p, s.len) == 0) {
            *out = names[i].value;
            return LM_OK;
        }
    return lm_fail(err, LM_ENOSUP, "%s: %.*s is not supported", key,
                   (int)(s.len < 64 ? s.len : 64), s.p);
}

/* Activations as configurations call them, the first name of each as files do. */
static const struct { const char *name; enum lm_act act; } acts[] = {
    { "silu", LM_ACT_SILU }, { "swish", LM_ACT_SILU },
    { "gelu_pytorch_tanh", LM_ACT_GELU }, { "gelu_new", LM_ACT_GELU },
    { "gelu_fast", LM_ACT_GELU }, { "gelu", LM_ACT_GELU_ERF }, { "relu2", LM_ACT_RELU2 },
};

const char *lm_arch_act(const char *name, size_t len, uint32_t *act)
{
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strlen(acts[i].name) != len || memcmp(acts[i].name, name, len) != 0)
            continue;
        *act = 1 + (uint32_t)acts[i].act;
        while (i && acts[i - 1].act == acts[i].act)
            i--;
        return acts[i].name;
    }
    return NULL;
}

static int too_many(const char *key, uint64_t n, struct lm_err *err)
{
    return lm_fail(err, LM_EDATA, "%s: %llu layers", key, (unsigned long long)n);
}

/* Of each layer one; those that predict further tokens may be left out. */
static int check_length(const char *key, uint64_t n, const struct lm_hparams *h,
                        struct lm_err *err)
{
    if (n == h->n_layer || n + h->n_further == h->n_layer)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "%s: %llu values for %u layers", key, (unsigned long long)n,
                   h->n_layer);
}

static void set_bits(uint64_t *bits, const int32_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (values[i])
            bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* Heads of each layer, where 0 says that it is recurrent; or one number for all. */
static int set_heads(const char *name, const int32_t *values, size_t n, struct lm_hparams *h,
                     struct lm_err *err)
{
    h->has_recurrent = n > 1;
    for (size_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)values[i];
        if (v && h->n_head_kv && v != h->n_head_kv)
            return lm_fail(err, LM_ENOSUP, "%s: %u heads in layer %zu", name, v, i);
        if (v)
            h->n_head_kv = v;
        else if (n > 1)
            h->recurrent[i / 64] |= UINT64_C(1) << i % 64;
    }
    return LM_OK;
}

/* Two numbers of heads, of layers with a window and without. */
static int set_heads_by_window(const char *name, const int32_t *values, size_t n,
                               struct lm_hparams *h, struct lm_err *err)
{
    if (n == 1)
        h->n_head_kv = h->n_head_kv_local = (uint32_t)values[0];
    for (size_t i = 0; n > 1 && i < n; i++) {
        uint32_t *of = bit(h->local, i) ? &h->n_head_kv_local : &h->n_head_kv;
        if (*of && (uint32_t)values[i] != *of)
            return lm_fail(err, LM_ENOSUP, "%s: %d heads in layer %zu", name, values[i], i);
        *of = (uint32_t)values[i];
    }
    h->n_head_kv = h->n_head_kv ? h->n_head_kv : h->n_head_kv_local;
    return LM_OK;
}

/* The same everywhere, or twice that or nothing in some layers. */
static int set_lengths(const char *name, const int32_t *values, size_t n, struct lm_hparams *h,
                       struct lm_err *err)
{
    size_t first = 0;
    while (first + 1 < n && !values[first])
        first++;
    h->n_ff = n ? (uint32_t)values[first] : 0;
    for (size_t i = 0; i < n; i++)
        h->has_fed = h->has_fed || (n > 1 && !values[i]);
    if (h->has_fed)
        set_bits(h->fed, values, n);
    for (size_t i = 0; i < n; i++)
        if (h->has_fed && !values[i])
            continue;
        else if ((uint32_t)values[i] == 2 * (uint64_t)h->n_ff)
            h->wide[i / 64] |= UINT64_C(1) << i % 64;
        else if ((uint32_t)values[i] != h->n_ff)
            return lm_fail(err, LM_ENOSUP, "%s: %d in layer %zu", name, values[i], i);
    return LM_OK;
}

int lm_arch_set_list(const struct lm_arch_key *k, const char *name, const int32_t *values, size_t n,
                     struct lm_hparams *h, struct lm_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] < 0)
            return lm_fail(err, LM_EDATA, "%s: %d in layer %zu", name, values[i], i);
    switch (k->from) {
    case LM_FROM_KV_OF_LAYERS:
        return set_heads(name, values, n, h, err);
    case LM_FROM_KV_BY_WINDOW:
        return set_heads_by_window(name, values, n, h, err);
    case LM_FROM_FF_OF_LAYERS:
    case LM_FROM_FF_OF_KINDS:
        return set_lengths(name, values, n, h, err);
    case LM_FROM_SECTIONS:
    case LM_FROM_SECTIONS_SAID:
        for (size_t i = 0; i < n; i++)
            h->rope_halves = h->rope_halves || values[i];
        return LM_OK;
    case LM_FROM_RECURRENT_LAYERS:
        h->has_recurrent = true;
        set_bits(h->recurrent, values, n);
        return LM_OK;
    case LM_FROM_INDEXED_LAYERS:
        h->has_indexed = true;
        set_bits(h->indexed, values, n);
        return LM_OK;
    default:
        h->has_pattern = true;
        set_bits(h->local, values, n);
        return LM_OK;
    }
}

static bool of_flags(enum lm_key_from from)
{
    return from == LM_FROM_LOCAL_LAYERS || from == LM_FROM_RECURRENT_LAYERS ||
           from == LM_FROM_INDEXED_LAYERS;
}

static bool of_sections(enum lm_key_from from)
{
    return from == LM_FROM_SECTIONS || from == LM_FROM_SECTIONS_SAID;
}

/* A list that says something of every layer, or, of numbers, one for all. */
static int read_list(const struct lm_gguf *g, const char *key, const struct lm_arch_key *k,
                     struct lm_hparams *h, struct lm_err *err)
{
    int32_t values[LM_MAX_LAYERS];
    struct lm_gguf_arr a;
    uint32_t one;
    int r = of_flags(k->from) ? 1 : lm_gguf_u32(g, key, &one, NULL);
    if (r == LM_OK && !of_flags(k->from) && one <= INT32_MAX)
        return lm_arch_set_list(k, key, (int32_t[]){ (int32_t)one }, 1, h, err);
    if (of_flags(k->from))
        r = lm_gguf_arr(g, key, LM_GGUF_BOOL, &a, err);
    else if ((r = lm_gguf_arr(g, key, LM_GGUF_I32, &a, err)) < 0)
        r = lm_gguf_arr(g, key, LM_GGUF_U32, &a, err);
    if (r)
        return r;
    if (a.n > LM_MAX_LAYERS)
        return too_many(key, a.n, err);
    if (!of_sections(k->from) && (r = check_length(key, a.n, h, err)))
        return r;
    for (size_t i = 0; i < a.n && of_flags(k->from); i++)
        values[i] = ((const uint8_t *)a.data)[i] != 0;
    if (!of_flags(k->from) && a.n)
        memcpy(values, a.data, a.n * sizeof *values);
    return lm_arch_set_list(k, key, values, a.n, h, err);
}

int lm_arch_set_sparse(const char *name, const float *values, size_t n, struct lm_hparams *h,
                       struct lm_err *err)
{
    h->has_sparse = true;
    for (size_t i = 0; i < n && i < LM_MAX_LAYERS; i++) {
        if (!isfinite(values[i]))
            continue;
        if (h->sparse_above != 0 && values[i] != h->sparse_above)
            return lm_fail(err, LM_ENOSUP, "%s: %g in layer %zu", name, (double)values[i], i);
        h->sparse_above = values[i];
        h->sparse[i / 64] |= UINT64_C(1) << i % 64;
    }
    return LM_OK;
}

static int read_sparse(const struct lm_gguf *g, const char *key, struct lm_hparams *h,
                       struct lm_err *err)
{
    struct lm_gguf_arr a;
    float values[LM_MAX_LAYERS];
    int r = lm_gguf_arr(g, key, LM_GGUF_F32, &a, err);
    if (r)
        return r;
    if (a.n > LM_MAX_LAYERS)
        return too_many(key, a.n, err);
    if ((r = check_length(key, a.n, h, err)))
        return r;
    if (a.n)
        memcpy(values, a.data, a.n * sizeof *values);
    return lm_arch_set_sparse(key, values, a.n, h, err);
}

/* A number of each layer, or one for all; `field` is that of the first. */
static int read_each(const struct lm_gguf *g, const char *key, struct lm_xielu *first,
                     size_t field, const struct lm_hparams *h, struct lm_err *err)
{
    struct lm_gguf_arr a;
    float one = 0;
    const bool all = lm_gguf_f32(g, key, &one, NULL) == LM_OK;
    int r = all ? LM_OK : lm_gguf_arr(g, key, LM_GGUF_F32, &a, err);
    if (!r && h->n_layer > LM_MAX_XIELU)
        r = lm_fail(err, LM_ENOSUP, "%s: %u layers are not supported", key, h->n_layer);
    if (!r && !all)
        r = check_length(key, a.n, h, err);
    for (uint32_t i = 0; !r && i < h->n_layer && (all || i < a.n); i++)
        memcpy((char *)(first + i) + field, all ? &one : (const float *)a.data + i, sizeof one);
    return r;
}

/* Numbers of layers that are all the same, as some files have them instead of one. */
static int read_equal(const struct lm_gguf *g, const char *key, const struct lm_hparams *h,
                      uint32_t *out, struct lm_err *err)
{
    struct lm_gguf_arr a;
    int r = lm_gguf_arr(g, key, LM_GGUF_I32, &a, NULL);
    r = r < 0 ? lm_gguf_arr(g, key, LM_GGUF_U32, &a, NULL) : r;
    if (r || !a.n)
        return 1;
    for (size_t i = 1; i < a.n; i++)
        if (memcmp((const char *)a.data + 4 * i, a.data, 4) != 0)
            return lm_fail(err, LM_ENOSUP, "%s: layers that differ are not supported", key);
    if (h->n_layer && (r = check_length(key, a.n, h, err)))
        return r;
    memcpy(out, a.data, sizeof *out);
    return LM_OK;
}

/* Some files have whole numbers as floats, some one for every layer. */
static int read_u32(const struct lm_gguf *g, const char *key, const struct lm_hparams *h,
                    uint32_t *out, struct lm_err *err)
{
    int r = lm_gguf_u32(g, key, out, err), list;
    float f;
    if (r < 0 && (list = read_equal(g, key, h, out, err)) <= 0)
        return list;
    if (r >= 0 || lm_gguf_f32(g, key, &f, NULL) != LM_OK || !(f >= 0 && f < 1 << 24) ||
        f != floorf(f))
        return r;
    *out = (uint32_t)f;
    return LM_OK;
}

static int read_key(const struct lm_gguf *g, const char *key, const struct lm_arch_key *k,
                    struct lm_hparams *h, struct lm_err *err)
{
    void *field = (char *)h + k->field;
    struct lm_str s;
    int r;
    switch (k->kind) {
    case LM_GGUF_ARR:
        if (k->from == LM_FROM_EACH_LAYER)
            return read_each(g, key, h->xielu, k->field, h, err);
        return k->from == LM_FROM_SPARSE_LAYERS ? read_sparse(g, key, h, err)
                                                : read_list(g, key, k, h, err);
    case LM_GGUF_BOOL:
        return lm_gguf_bool(g, key, field, err);
    case LM_GGUF_U32:
        return read_u32(g, key, h, field, err);
    case LM_GGUF_F32:
        return lm_gguf_f32(g, key, field, err);
    default:
        r = lm_gguf_str(g, key, &s, err);
        if (r == LM_OK && k->from == LM_FROM_ACT)
            return lm_arch_act(s.p, s.len, field)
                       ? LM_OK : lm_fail(err, LM_ENOSUP, "%s: %.*s is not supported", key,
                                         (int)(s.len < 64 ? s.len : 64), s.p);
        return r == LM_OK ? read_scaling(key, s, field, err) : r;
    }
}

/* Which list refers to what others say comes after them. */
static int turn_of(const struct lm_arch_key *k)
{
    return k->kind != LM_GGUF_ARR ? 0 : k->from == LM_FROM_LOCAL_LAYERS ? 1 : 2;
}

/* Decoders whose tokens may see their whole sequence: nothing else may say what they see. */
static int settle_causal(const struct lm_arch *a, const struct lm_gguf *g, struct lm_hparams *h,
                         struct lm_err *err)
{
    char key[LM_ARCH_NAME];
    bool causal = !a->encoder;
    snprintf(key, sizeof key, "%s.attention.causal", a->name);
    if (lm_gguf_bool(g, key, &causal, err) < 0)
        return LM_EDATA;
    h->no_causal = !causal;
    const bool whole = a->dense && a->dense->recurrent == lm_recurrent_conv && h->conv % 2;
    const bool scans = a->dense && a->dense->recurrent && !whole;
    const bool other = a->build != lm_dense_build || scans || a->dense->values || h->window ||
                       h->attn_cap > 0 || h->latent || h->n_shared_kv;
    if (a->encoder ? causal : h->no_causal && other)
        return lm_fail(err, LM_ENOSUP, "%s: %s is not supported", key, causal ? "true" : "false");
    return LM_OK;
}

bool lm_arch_reads(const struct lm_arch *a, const char *name)
{
    const struct lm_arch_key *k = a->keys;
    while (k->name && (strcmp(k->name, name) != 0 || k->flags & LM_KEY_UNUSED))
        k++;
    return k->name;
}

/* A factor without a method, under its present name or the old one, is a linear one. */
static int read_linear(const struct lm_arch *a, const struct lm_gguf *g, struct lm_hparams *h,
                       struct lm_err *err)
{
    char key[LM_ARCH_NAME];
    snprintf(key, sizeof key, "%s.rope.scale_linear", a->name);
    if (!lm_arch_reads(a, "rope.scaling.factor"))
        return LM_OK;
    if (h->rope_factor == 0 && lm_gguf_f32(g, key, &h->rope_factor, err) < 0)
        return LM_EDATA;
    snprintf(key, sizeof key, "%s.rope.scaling.type", a->name);
    if (h->rope_factor != 0 && !lm_gguf_kv(g, key))
        h->rope_scaling = LM_ROPE_LINEAR;
    return LM_OK;
}

int lm_arch_read(const struct lm_arch *a, const struct lm_gguf *g, struct lm_hparams *h,
                 struct lm_err *err)
{
    memset(h, 0, sizeof *h);
    h->yarn_ext = h->yarn_attn = -1;
    h->window = a->dense ? a->dense->usual_window : 0;
    h->qk_norms = h->yarn_truncate = true;
    h->experts_norm = a->dense && a->dense->share_of_used;
    for (int turn = 0; turn < 3; turn++)
        for (const struct lm_arch_key *k = a->keys; k->name; k++) {
            char key[LM_ARCH_NAME];
            if (k->flags & LM_KEY_UNUSED || turn_of(k) != turn)
                continue;
            lm_arch_key_name(a, k, key);
            int r = read_key(g, key, k, h, err);
            if (r < 0)
                return r;
            if (r == 1 && k->flags & LM_KEY_REQUIRED)
                return lm_fail(err, LM_EDATA, "%s: missing", key);
        }
    int r = read_linear(a, g, h, err);
    if (!r)
        r = a->settle(a, h, err);
    return r ? r : settle_causal(a, g, h, err);
}

uint32_t lm_arch_window(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer)
{
    const uint32_t every = a->dense ? a->dense->all_every : 0;
    if (h->global_every && layer % h->global_every == 0)
        return 0;
    if (h->has_pattern)
        return bit(h->local, layer) ? h->window : 0;
    return every && layer % every == every - 1 ? 0 : h->window;
}

const struct lm_hparams *lm_arch_layer(const struct lm_arch *a, const struct lm_hparams *h,
                                       uint32_t layer, struct lm_hparams *room)
{
    const bool near = lm_arch_window(a, h, layer) && h->head_k_local;
    if (!near && !bit(h->wide, layer))
        return h;
    *room = *h;
    if (bit(h->wide, layer))
        room->n_ff *= 2;
    if (near) {
        room->head_k = h->head_k_local;
        room->head_v = h->head_v_local;
        room->n_rot = h->n_rot_local;
        room->n_head_kv = h->n_head_kv_local;
    }
    return room;
}

uint32_t lm_arch_kv_layer(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer)
{
    const uint32_t own = h->n_layer - h->n_shared_kv;
    const bool near = lm_arch_window(a, h, layer) != 0;
    if (layer < own || layer >= h->n_layer)
        return layer;
    for (uint32_t i = own; i-- > 0;)
        if ((lm_arch_window(a, h, i) != 0) == near)
            return i;
    return layer;
}

uint32_t lm_arch_n_memory(const struct lm_hparams *h)
{
    return h->index_len ? 2 * h->n_layer : h->n_layer;
}

void lm_arch_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                    struct lm_memory_layer *out)
{
    struct lm_hparams room;
    if (layer >= h->n_layer && h->index_len) {
        const bool there = lm_arch_chooses(h, layer - h->n_layer);
        *out = (struct lm_memory_layer){ .n_head_kv = there, .head_k = h->index_len,
                                         .v_in_k = true };
        return;
    }
    const bool own = lm_arch_kv_layer(a, h, layer) == layer;
    h = lm_arch_layer(a, h, layer, &room);
    *out = (struct lm_memory_layer){
        .n_head_kv = own ? h->n_head_kv : 0, .head_k = h->head_k, .head_v = h->head_v,
        .v_in_k = h->latent, .window = lm_arch_window(a, h, layer),
    };
    if (h->no_causal || (a->has_encoder && layer >= h->n_layer_dec))
        *out = (struct lm_memory_layer){0};
    if (a->memory)
        a->memory(a, h, layer, out);
}

/* Sizes that are numbers of the model as they are, or where that is 0, n_embd in some. */
#define FIELD(name) offsetof(struct lm_hparams, name)
static const size_t fields[] = {
    [LM_DIM_EMBD] = FIELD(n_embd), [LM_DIM_VOCAB] = FIELD(n_vocab), [LM_DIM_FF] = FIELD(n_ff),
    [LM_DIM_HEAD_K] = FIELD(head_k), [LM_DIM_HEADS] = FIELD(n_head),
    [LM_DIM_HEADS_KV] = FIELD(n_head_kv), [LM_DIM_CTX] = FIELD(n_ctx_train),
    [LM_DIM_Q_RANK] = FIELD(q_rank), [LM_DIM_KV_RANK] = FIELD(kv_rank),
    [LM_DIM_TYPES] = FIELD(n_types), [LM_DIM_BUCKETS] = FIELD(n_buckets),
    [LM_DIM_V_FULL] = FIELD(head_v_full), [LM_DIM_EXPERTS] = FIELD(n_expert),
    [LM_DIM_FF_EXPERT] = FIELD(n_ff_expert), [LM_DIM_FF_SHARED] = FIELD(n_ff_shared),
    [LM_DIM_CONV] = FIELD(conv), [LM_DIM_SSM_INNER] = FIELD(ssm_inner),
    [LM_DIM_SSM_STATE] = FIELD(ssm_state), [LM_DIM_SSM_RANK] = FIELD(ssm_rank),
    [LM_DIM_SSM_GROUPS] = FIELD(ssm_groups), [LM_DIM_STREAMS] = FIELD(n_streams),
    [LM_DIM_LAUREL] = FIELD(laurel_rank), [LM_DIM_EXPERT_IN] = FIELD(n_latent),
    [LM_DIM_EMBD_LAYER] = FIELD(n_embd_layer), [LM_DIM_INDEX] = FIELD(index_len),
    [LM_DIM_INDEX_HEADS] = FIELD(index_heads), [LM_DIM_MIXES] = FIELD(n_mix),
    [LM_DIM_MIX_RANK] = FIELD(mix_rank), [LM_DIM_DECAY_RANK] = FIELD(decay_rank),
    [LM_DIM_RATE_RANK] = FIELD(rate_rank), [LM_DIM_VALUE_RANK] = FIELD(value_rank),
    [LM_DIM_GATE_RANK] = FIELD(gate_rank), [LM_DIM_LABELS] = FIELD(n_labels),
    [LM_DIM_DENSE_2_IN] = FIELD(dense_2_in), [LM_DIM_DENSE_2_OUT] = FIELD(dense_2_out),
    [LM_DIM_DENSE_3_IN] = FIELD(dense_3_in), [LM_DIM_DENSE_3_OUT] = FIELD(dense_3_out),
};

/* false: it is beyond 64 bits, or below 0. */
static bool dim(enum lm_dim d, const struct lm_hparams *h, uint64_t *out)
{
    const size_t at = d < sizeof fields / sizeof *fields ? fields[d] : 0;
    const uint32_t number = at ? *(const uint32_t *)(const void *)((const char *)h + at) : 1;
    switch (d) {
    case LM_DIM_Q:         return lm_mul_u64(h->n_head, h->head_k, out);
    case LM_DIM_K:         return lm_mul_u64(h->n_head_kv, h->head_k, out);
    case LM_DIM_V:         return lm_mul_u64(h->n_head_kv, h->head_v, out);
    case LM_DIM_HEADS_OUT: return lm_mul_u64(h->n_head, h->head_v, out);
    case LM_DIM_ROT_PAIRS: *out = h->n_rot / 2; return true;
    case LM_DIM_QKV:
        return lm_mul_u64((uint64_t)h->n_head + h->n_head_kv, h->head_k, out) &&
               lm_add_u64(*out, (uint64_t)h->n_head_kv * h->head_v, out);
    case LM_DIM_2_FF:      return lm_mul_u64(h->n_ff, 2, out);
    case LM_DIM_KV_RANK_ROT: *out = (uint64_t)h->kv_rank + h->n_rot; return true;
    case LM_DIM_KV_INNER:
        return h->n_rot <= h->head_k &&
               lm_mul_u64(h->n_head, (uint64_t)h->head_k - h->n_rot + h->head_v, out);
    case LM_DIM_PLAIN:
        *out = (uint64_t)h->head_k_full - h->n_rot;
        return h->n_rot <= h->head_k_full;
    case LM_DIM_Q_FULL:    return lm_mul_u64(h->n_head, h->head_k_full, out);
    case LM_DIM_OUT_FULL:  return lm_mul_u64(h->n_head, h->head_v_full, out);
    case LM_DIM_2_Q:       return lm_mul_u64(2 * (uint64_t)h->n_head, h->head_k, out);
    case LM_DIM_2_EMBD:    *out = 2 * (uint64_t)h->n_embd; return true;
    case LM_DIM_3_EMBD:    *out = 3 * (uint64_t)h->n_embd; return true;
    case LM_DIM_SSM_2_INNER: *out = 2 * (uint64_t)h->ssm_inner; return true;
    case LM_DIM_SSM_2_RANK: *out = 2 * (uint64_t)h->ssm_rank; return true;
    case LM_DIM_SSM_STEP:  *out = h->ssm_rank + 2 * (uint64_t)h->ssm_state; return true;
    case LM_DIM_SSM_CHANNELS:
        *out = h->ssm_inner + 2 * (uint64_t)h->ssm_groups * h->ssm_state;
        return true;
    case LM_DIM_SSM_ALL:
        *out = 2 * ((uint64_t)h->ssm_inner + (uint64_t)h->ssm_groups * h->ssm_state) + h->ssm_rank;
        return true;
    case LM_DIM_SSM_OF_GROUP: *out = h->ssm_groups ? h->ssm_inner / h->ssm_groups : 0; return true;
    case LM_DIM_SSM_OF_HEAD: *out = h->ssm_rank ? h->ssm_inner / h->ssm_rank : 0; return true;
    case LM_DIM_FURTHER_STREAMS: *out = h->n_streams ? h->n_streams - 1 : 0; return true;
    case LM_DIM_STREAM_PAIRS: *out = (uint64_t)h->n_streams * h->n_streams; return true;
    case LM_DIM_2_FF_EXPERT: *out = 2 * (uint64_t)h->n_ff_expert; return true;
    case LM_DIM_EMBD_LAYERS: return lm_mul_u64(h->n_layer, h->n_embd_layer, out);
    case LM_DIM_INDEX_ALL: return lm_mul_u64(h->index_heads, h->index_len, out);
    case LM_DIM_MIX_ALL:   return lm_mul_u64(h->n_mix, h->mix_rank, out);
    case LM_DIM_EXPERT_IN:
    case LM_DIM_DENSE_2_IN: case LM_DIM_DENSE_2_OUT:
    case LM_DIM_DENSE_3_IN: case LM_DIM_DENSE_3_OUT:
        *out = number ? number : h->n_embd;
        return true;
    default:
        *out = number;
        return true;
    }
}

uint32_t lm_arch_shape(const struct lm_arch_tensor *t, const struct lm_arch *a,
                       const struct lm_hparams *h, uint32_t layer,
                       uint64_t ne[LM_GGUF_MAX_DIMS])
{
    struct lm_hparams room;
    uint32_t n = 0;
    if (t->flags & LM_TENSOR_PER_LAYER && layer < LM_MAX_LAYERS)
        h = lm_arch_layer(a, h, layer, &room);
    for (uint32_t i = 0; i < LM_GGUF_MAX_DIMS; i++) {
        if (!dim(t->ne[i], h, &ne[i]))
            return 0;
        if (t->ne[i] != LM_DIM_END)
            n = i + 1;
    }
    return n;
}

struct lm_tensor *lm_build_weight(const struct lm_build *b, uint32_t layer, enum lm_role role)
{
    for (size_t i = 0; i < b->n_weights; i++)
        if (b->arch->tensors[i].role == role && b->weights[layer * b->n_weights + i])
            return lm_import(b->graph, b->weights[layer * b->n_weights + i]);
    return NULL;
}

struct lm_tensor *lm_build_steer(const struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const size_t n = b->h->n_embd;
    char name[32];
    const int len = snprintf(name, sizeof name, "layer %u", layer);
    if (x && b->steer && b->steer[layer]) {
        struct lm_tensor *v = lm_new_tensor(b->graph, lm_type_by_id(LM_F32), 1, &n);
        if (v)
            v->data = (void *)(uintptr_t)b->steer[layer];       /* only read */
        x = lm_add(b->graph, x, v);
    }
    if (x && x->op != LM_OP_NONE)
        x->name = lm_arena_copy(&b->graph->arena, name, (size_t)len + 1);
    return x;
}

void lm_build_missing(const struct lm_build *b, uint32_t layer, enum lm_role role)
{
    char name[LM_ARCH_NAME] = "a weight";
    for (const struct lm_arch_tensor *t = b->arch->tensors; t->name; t++)
        if (t->role == role)
            lm_arch_expand(t->name, layer, name);
    if (!b->graph->err.code)
        lm_fail(&b->graph->err, LM_EDATA, "%s: missing", name);
}

enum lm_act lm_build_act(const struct lm_build *b)
{
    return b->h->act ? (enum lm_act)(b->h->act - 1) : b->arch->dense->act;
}

/* A base for sequences as long as the context (bloc97 and emozilla, "Dynamically scaled RoPE",
 * 2023). */
static float dynamic_base(const struct lm_hparams *h, uint32_t n_ctx)
{
    const double n = n_ctx > h->rope_orig_ctx ? n_ctx : h->rope_orig_ctx;
    const double more = (double)h->rope_factor * (n / h->rope_orig_ctx - 1);
    return (float)((double)h->rope_base * pow(1 + more, h->n_rot / (h->n_rot - 2.0)));
}

struct lm_rope lm_build_rope(const struct lm_build *b)
{
    const struct lm_hparams *h = b->h;
    struct lm_rope r = { .n_rot = h->n_rot, .base = h->rope_base, .factor = 1 };
    r.attn = h->rope_attn;
    if (h->rope_scaling == LM_ROPE_NONE)
        return r;
    if (h->rope_scaling == LM_ROPE_LONG)
        return r;
    if (h->rope_scaling == LM_ROPE_DYNAMIC) {
        r.base = dynamic_base(h, b->n_ctx);
        return r;
    }
    r.factor = h->rope_factor;
    if (h->rope_scaling == LM_ROPE_YARN) {
        r.yarn = true;
        r.between = !h->yarn_truncate;
        r.orig_ctx = h->rope_orig_ctx;
        r.ext = h->yarn_ext;
        r.attn = h->yarn_log != 0 ? 0 : h->yarn_attn;
        r.beta_fast = h->yarn_beta_fast;
        r.beta_slow = h->yarn_beta_slow;
    }
    return r;
}
