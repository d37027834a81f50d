/* SPDX-License-Identifier: MIT */
/*
 * config.json of a model's metadata: the architecture's keys, each under the name that conversion
 * reads it by.  What comes out is read again, and must say of the model what its file says.
 */

#include <math.h>
#include <string.h>

#include "arch/dense.h"
#include "job/restore_parts.h"

/* Families whose checkpoints are made, the first that suits; others are refused. */
static const struct lm_restore_family families[] = {
    { .class = "MixtralForCausalLM", .model_type = "mixtral", .experts = true },
    { .class = "MistralForCausalLM", .model_type = "mistral", .window = true },
    { .class = "LlamaForCausalLM", .model_type = "llama", .attn_bias = "attention_bias",
      .mlp_bias = "mlp_bias" },
    { .class = "Qwen2ForCausalLM", .model_type = "qwen2", .attn_bias = "" },
    { .class = "Qwen2MoeForCausalLM", .model_type = "qwen2_moe", .attn_bias = "",
      .names = { "num_local_experts", "num_experts" } },
    { .class = "Qwen3ForCausalLM", .model_type = "qwen3", .attn_bias = "attention_bias" },
    { .class = "Qwen3MoeForCausalLM", .model_type = "qwen3_moe", .attn_bias = "attention_bias",
      .names = { "num_local_experts", "num_experts" } },
    { .class = "OlmoeForCausalLM", .model_type = "olmoe",
      .names = { "num_local_experts", "num_experts" } },
    { .class = "GemmaForCausalLM", .model_type = "gemma" },
    { .class = "Gemma2ForCausalLM", .model_type = "gemma2", .scores = true },
    { .class = "Gemma3ForCausalLM", .model_type = "gemma3_text", .scores = true },
    { .class = "Phi3ForCausalLM", .model_type = "phi3" },
    { .class = "Olmo3ForCausalLM", .model_type = "olmo3", .window = true },
    { .class = "Olmo2ForCausalLM", .model_type = "olmo2" },
    { .class = "GraniteForCausalLM", .model_type = "granite", .attn_bias = "attention_bias",
      .mlp_bias = "mlp_bias" },
    { .class = "SmolLM3ForCausalLM", .model_type = "smollm3", .attn_bias = "attention_bias",
      .mlp_bias = "mlp_bias" },
    { .class = "Starcoder2ForCausalLM", .model_type = "starcoder2", .attn_bias = "use_bias",
      .mlp_bias = "use_bias", .names = { "layer_norm_eps", "norm_epsilon" } },
    { .class = "ArceeForCausalLM", .model_type = "arcee", .attn_bias = "attention_bias" },
    { .class = "Exaone4ForCausalLM", .model_type = "exaone4" },
    { .class = "Glm4ForCausalLM", .model_type = "glm4", .attn_bias = "attention_bias" },
    { .class = "Ernie4_5ForCausalLM", .model_type = "ernie4_5", .attn_bias = "use_bias",
      .mlp_bias = "use_bias" },
    { .class = "CohereForCausalLM", .model_type = "cohere", .qk_norm = "use_qk_norm" },
    { .class = "Cohere2ForCausalLM", .model_type = "cohere2" },
    { .class = "StableLmForCausalLM", .model_type = "stablelm", .attn_bias = "use_qkv_bias",
      .qk_norm = "qk_layernorm" },
    { .class = "NemotronForCausalLM", .model_type = "nemotron", .attn_bias = "attention_bias",
      .mlp_bias = "mlp_bias", .names = { "layer_norm_eps", "norm_eps" } },
    { .class = "OlmoForCausalLM", .model_type = "olmo" },
    { .class = "Dots1ForCausalLM", .model_type = "dots1" },
    { .class = "Jais2ForCausalLM", .model_type = "jais2", .attn_bias = "attention_bias",
      .mlp_bias = "mlp_bias" },
};

int lm_restore_find(struct lm_restore *r, struct lm_err *err)
{
    struct lm_str name = { "", 0 };
    uint32_t parts = 0;
    int s = lm_gguf_str(r->g, "general.architecture", &name, err);
    if (s)
        return s < 0 ? s : lm_fail(err, LM_EDATA, "general.architecture: missing");
    if ((s = lm_gguf_u32(r->g, "split.count", &parts, err)) < 0)
        return s;
    if (parts > 1)
        return lm_fail(err, LM_ENOSUP, "is one of %u files: gguf-split --merge makes one of them",
                       parts);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct lm_restore_family *f = &families[i];
        const struct lm_arch *a = lm_arch_by_class(f->class);
        if (!a || strcmp(a->name, name.p))
            continue;
        r->arch = a;
        r->family = f;
        if ((s = lm_arch_read(a, r->g, &r->h, err)))
            return s;
        if ((!f->experts || r->h.n_expert) && (!f->window || r->h.window))
            break;
        r->arch = NULL;
    }
    if (!r->arch)
        return lm_fail(err, LM_ENOSUP, "a %.60s model cannot be made a checkpoint", name.p);
    const struct lm_gguf_tensor *t = lm_gguf_tensor(r->g, "token_embd.weight");
    if (!t || t->n_dims != 2 || t->ne[1] > INT32_MAX)
        return lm_fail(err, LM_EDATA, "token_embd.weight: no table of embeddings");
    r->h.n_vocab = (uint32_t)t->ne[1];
    return LM_OK;
}

/* --- writing ------------------------------------------------------------------------------ */

/* An object on its way. */
struct object {
    struct lm_buf b;
    const char   *indent;
    const char   *names[96];
    size_t        n;
};

/* Begin a member, unless there is one of that name. */
static bool member(struct object *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (!strcmp(o->names[i], name))
            return false;
    if (o->n == sizeof o->names / sizeof *o->names) {
        o->b.failed = true;
        return false;
    }
    lm_buf_printf(&o->b, "%s\n%s", o->n ? "," : "{", o->indent);
    o->names[o->n++] = name;
    lm_json_quote(&o->b, name, strlen(name));
    lm_buf_str(&o->b, ": ");
    return true;
}

static void add_text(struct object *o, const char *name, const char *text, size_t len)
{
    if (member(o, name))
        lm_json_quote(&o->b, text, len);
}

static void add_u32(struct object *o, const char *name, uint64_t v)
{
    if (member(o, name))
        lm_buf_u64(&o->b, v);
}

/* With a point or exponent, which transformers wants to see where it expects such a number. */
static void put_f32(struct lm_buf *b, float v)
{
    const size_t at = b->len;
    lm_json_f32(b, v);
    if (!b->failed && !strpbrk(b->data + at, ".eE"))
        lm_buf_str(b, ".0");
}

static void add_f32(struct object *o, const char *name, float v)
{
    if (member(o, name))
        put_f32(&o->b, v);
}

static void add_word(struct object *o, const char *name, const char *word)
{
    if (member(o, name))
        lm_buf_str(&o->b, word);
}

static void add_bool(struct object *o, const char *name, bool v)
{
    add_word(o, name, v ? "true" : "false");
}

/* Numbers that a class has of its own where config.json does not say that there is none. */
static bool null_without(const struct lm_arch_key *k)
{
    return k->from == LM_FROM_CONFIG && !(k->flags & LM_KEY_UNUSED) &&
           (k->field == offsetof(struct lm_hparams, attn_cap) ||
            k->field == offsetof(struct lm_hparams, logit_cap) ||
            k->field == offsetof(struct lm_hparams, window));
}

/* The key's value as the file has it, under a name of config.json.  A switch that is not there,
 * because it is as usual, is what the row calls so. */
static int add_key(const struct lm_restore *r, struct object *o, const struct lm_arch_key *k,
                   const char *name, struct lm_err *err)
{
    char key[LM_ARCH_NAME];
    uint32_t u = 0;
    float f = 0;
    bool flag = k->from == LM_FROM_UNLESS && !strcmp(k->config[1], "=true");
    struct lm_str text;
    int s = 1;
    lm_arch_key_name(r->arch, k, key);
    switch (k->kind) {
    case LM_GGUF_U32:
        s = lm_gguf_u32(r->g, key, &u, err);
        if (s == LM_OK && (u || !null_without(k)))
            add_u32(o, name, u);
        break;
    case LM_GGUF_F32:
        s = lm_gguf_f32(r->g, key, &f, err);
        if (s == LM_OK && !isfinite(f))
            return lm_fail(err, LM_EDATA, "%s: is no number", key);
        if (s == LM_OK)
            add_f32(o, name, f);
        break;
    case LM_GGUF_STR:
        s = lm_gguf_str(r->g, key, &text, err);
        if (s == LM_OK)
            add_text(o, name, text.p, text.len);
        break;
    case LM_GGUF_BOOL:
        s = lm_gguf_bool(r->g, key, &flag, err);
        if (s == LM_OK || (s > 0 && k->from == LM_FROM_UNLESS))
            add_bool(o, name, flag);
        break;
    default:
        break;
    }
    if (s >= 0 && null_without(k))
        add_word(o, name, "null");              /* unless it is there now */
    return s < 0 ? s : LM_OK;
}

/* Which layers have the window. */
static void add_kinds(const struct lm_restore *r, struct object *o)
{
    if (!member(o, "layer_types"))
        return;
    for (uint32_t i = 0; i < r->h.n_layer; i++)
        lm_buf_printf(&o->b, "%s\"%s\"", i ? ", " : "[",
                      lm_arch_window(r->arch, &r->h, i) ? "sliding_attention" : "full_attention");
    lm_buf_byte(&o->b, ']');
}

/* One row of the keys: of the model, or of its scaling of rotations. */
static int add_row(const struct lm_restore *r, struct object *top, struct object *rope,
                   const struct lm_arch_key *k, struct lm_err *err)
{
    const char *name = k->config[0];
    const bool yarn = r->h.rope_scaling == LM_ROPE_YARN;
    switch (k->from) {
    case LM_FROM_HEAD_DIM:
        return add_key(r, top, k, "head_dim", err);
    case LM_FROM_ROT_DIM:
        if (r->h.n_rot != r->h.head_k && *name != '=')
            add_f32(top, name, (float)r->h.n_rot / (float)r->h.head_k);
        return LM_OK;
    case LM_FROM_LOCAL_LAYERS:
        add_kinds(r, top);
        return LM_OK;
    case LM_FROM_ROPE_TYPE:
        return r->h.rope_scaling == LM_ROPE_NONE ? LM_OK : add_key(r, rope, k, "rope_type", err);
    case LM_FROM_ROPE_LINEAR:
        return r->h.rope_scaling == LM_ROPE_NONE ? LM_OK : add_key(r, rope, k, name, err);
    case LM_FROM_ROPE_YARN:
        return yarn ? add_key(r, rope, k, name, err) : LM_OK;
    case LM_FROM_UNLESS:
        if (strcmp(name, "truncate"))
            return add_key(r, top, k, name, err);
        return yarn ? add_key(r, rope, k, name, err) : LM_OK;
    case LM_FROM_CONFIG:
    case LM_FROM_ROPE:
    case LM_FROM_ROPE_LOCAL:
        if (*name == '=' || strchr(name, '.'))
            return LM_OK;
        if (r->family->names[0] && !strcmp(name, r->family->names[0]))
            name = r->family->names[1];
        return add_key(r, top, k, name, err);
    default:
        return LM_OK;
    }
}

/* Llama 3's scaling, of which a file has the factors that it makes (convert_plan.c).  They grow
 * from 1 to the whole factor between two wavelengths, in all models so far the training length
 * and a quarter of it; a factor in between tells that length. */
static int add_llama3(struct lm_restore *r, struct object *rope, struct lm_err *err)
{
    const uint32_t n = r->h.n_rot / 2;
    const float *v = lm_restore_floats(r, "rope_freqs.weight", n, err);
    double most = 1, length = 0;
    if (!v)
        return err->code;
    for (uint32_t i = 0; i < n; i++)
        most = v[i] > (float)most ? (double)v[i] : most;
    for (uint32_t i = 0; i < n && length == 0; i++) {
        const double wave = 2 * 3.141592653589793 *
                            pow((double)r->h.rope_base, 2.0 * i / r->h.n_rot);
        if (v[i] > 1 && (double)v[i] < most)
            length = rint(wave * (3 * (1 / (double)v[i] - 1 / most) / (1 - 1 / most) + 1));
    }
    if (!(length >= 1 && length <= INT32_MAX))
        return lm_fail(err, LM_ENOSUP, "rope_freqs.weight: no scaling of Llama 3 makes it");
    add_text(rope, "rope_type", "llama3", 6);
    add_f32(rope, "factor", (float)most);
    add_f32(rope, "low_freq_factor", 1);
    add_f32(rope, "high_freq_factor", 4);
    add_u32(rope, "original_max_position_embeddings", (uint64_t)length);
    return LM_OK;
}

static int add_factors(struct lm_restore *r, struct object *rope, const char *name,
                       const char *tensor, struct lm_err *err)
{
    const float *v = lm_restore_floats(r, tensor, r->h.n_rot / 2, err);
    if (!v)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "%s: missing", tensor);
    if (!member(rope, name))
        return LM_OK;
    for (uint32_t i = 0; i < r->h.n_rot / 2; i++) {
        lm_buf_str(&rope->b, i ? ", " : "[");
        put_f32(&rope->b, v[i]);
    }
    lm_buf_byte(&rope->b, ']');
    return LM_OK;
}

/* Two lists of factors, and how cosine and sine grow where that is not what lengths make it. */
static int add_longrope(struct lm_restore *r, struct object *rope, struct lm_err *err)
{
    const double stretch = (double)r->h.n_ctx_train / (r->h.rope_orig_ctx ? r->h.rope_orig_ctx : 1);
    const double usual = stretch > 1 ? sqrt(1 + log(stretch) / log(r->h.rope_orig_ctx)) : 1;
    add_text(rope, "rope_type", "longrope", 8);
    if (r->h.rope_attn > 0 && r->h.rope_attn != (float)usual)
        add_f32(rope, "attention_factor", r->h.rope_attn);
    const int s = add_factors(r, rope, "long_factor", "rope_factors_long.weight", err);
    return s ? s : add_factors(r, rope, "short_factor", "rope_factors_short.weight", err);
}

/* How many layers have a tensor of that role. */
static uint32_t layers_with(const struct lm_restore *r, enum lm_role role)
{
    char name[LM_ARCH_NAME];
    uint32_t n = 0;
    for (const struct lm_arch_tensor *t = r->arch->tensors; t->name; t++)
        for (uint32_t i = 0; t->role == role && i < r->h.n_layer; i++) {
            lm_arch_expand(t->name, i, name);
            n += lm_gguf_tensor(r->g, name) != NULL;
        }
    return n;
}

/* A flag says of all layers whether products have a bias, each of the roles that the family's rows
 * have; "" those of queries, keys and values always have one. */
static int add_biases(const struct lm_restore *r, struct object *top, const char *flag,
                      const enum lm_role *roles, size_t n, struct lm_err *err)
{
    const bool always = flag && !*flag;
    const uint32_t first = layers_with(r, roles[0]);
    const uint32_t all = always ? r->h.n_layer : !flag ? 0 : first ? r->h.n_layer : 0;
    for (size_t i = 0; i < n; i++)
        if (lm_arch_has(r->arch, roles[i]) && layers_with(r, roles[i]) != all)
            return lm_fail(err, LM_ENOSUP, "its layers have not the biases that a %s has",
                           r->family->class);
    if (flag && *flag)
        add_bool(top, flag, all);
    return LM_OK;
}

static int add_bias_flags(const struct lm_restore *r, struct object *top, struct lm_err *err)
{
    static const enum lm_role attn[] = { LM_ATTN_Q_B, LM_ATTN_K_B, LM_ATTN_V_B, LM_ATTN_OUT_B };
    static const enum lm_role mlp[] = { LM_FFN_UP_B, LM_FFN_GATE_B, LM_FFN_DOWN_B };
    const struct lm_restore_family *f = r->family;
    if (f->qk_norm)
        add_bool(top, f->qk_norm, layers_with(r, LM_ATTN_Q_NORM));
    const int s = add_biases(r, top, f->attn_bias, attn, 4, err);
    return s ? s : add_biases(r, top, f->mlp_bias, mlp, 3, err);
}

/* Ids that transformers would have a number of its own for. */
static void add_ids(const struct lm_restore *r, struct object *top)
{
    static const char *const ids[][2] = {
        { "bos_token_id", "tokenizer.ggml.bos_token_id" },
        { "eos_token_id", "tokenizer.ggml.eos_token_id" },
        { "pad_token_id", "tokenizer.ggml.padding_token_id" },
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        uint32_t id = UINT32_MAX;
        lm_gguf_u32(r->g, ids[i][1], &id, NULL);
        if (id < r->h.n_vocab)
            add_u32(top, ids[i][0], id);
        else
            add_word(top, ids[i][0], "null");
    }
}

/* What no key says. */
static int add_rest(const struct lm_restore *r, struct object *top, struct lm_err *err)
{
    const struct lm_hparams *h = &r->h;
    static const char *const types[][2] = {
        { "f32", "float32" }, { "f16", "float16" }, { "bf16", "bfloat16" },
    };
    add_u32(top, "vocab_size", h->n_vocab);
    add_bool(top, "tie_word_embeddings", !lm_gguf_tensor(r->g, "output.weight"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(r->type->name, types[i][0]))
            add_text(top, "torch_dtype", types[i][1], strlen(types[i][1]));
    if (r->family->scores)
        add_u32(top, "query_pre_attn_scalar",
                h->attn_scale > 0 ? (uint64_t)rintf(1 / (h->attn_scale * h->attn_scale))
                                  : h->head_k);
    add_ids(r, top);
    return add_bias_flags(r, top, err);
}

static int add_all(struct lm_restore *r, struct object *top, struct object *rope,
                   struct lm_err *err)
{
    int s = LM_OK;
    if (member(top, "architectures")) {
        lm_buf_str(&top->b, "[");
        lm_json_quote(&top->b, r->family->class, strlen(r->family->class));
        lm_buf_str(&top->b, "]");
    }
    add_text(top, "model_type", r->family->model_type, strlen(r->family->model_type));
    for (const struct lm_arch_key *k = r->arch->keys; !s && k->name; k++)
        s = add_row(r, top, rope, k, err);
    if (!s)
        s = add_rest(r, top, err);
    if (!s && lm_gguf_tensor(r->g, "rope_freqs.weight"))
        s = add_llama3(r, rope, err);
    if (!s && lm_gguf_tensor(r->g, "rope_factors_long.weight"))
        s = add_longrope(r, rope, err);
    if (!s && rope->n && member(top, "rope_scaling")) {
        lm_buf_str(&rope->b, "\n  }");
        lm_buf_add(&top->b, rope->b.data, rope->b.len);
    }
    lm_buf_str(&top->b, "\n}\n");
    return s ? s : top->b.failed || rope->b.failed ? lm_fail_nomem(err) : LM_OK;
}

/* --- and reading again -------------------------------------------------------------------- */

/* Has the file the same text for a key that conversion would write? */
static bool same_text(const struct lm_restore *r, const struct lm_arch_key *k, const char *key,
                      struct lm_err *err)
{
    const char *made = NULL;
    struct lm_str said = { "none", 4 };
    const int s = lm_convert_key(&r->c, k, NULL, NULL, &made, err);
    if (s < 0 || lm_gguf_str(r->g, key, &said, err) < 0)
        return false;
    made = s ? "none" : made;
    return strlen(made) == said.len && !memcmp(made, said.p, said.len);
}

static bool same_windows(const struct lm_restore *r)
{
    uint32_t i = 0;
    while (i < r->h.n_layer &&
           lm_arch_window(r->arch, &r->h, i) == lm_arch_window(r->arch, &r->c.cfg.h, i))
        i++;
    return i == r->h.n_layer;
}

/* Does what was written say what the file says? */
static int compare(const struct lm_restore *r, struct lm_err *err)
{
    const struct lm_hparams *a = &r->h, *b = &r->c.cfg.h;
    for (const struct lm_arch_key *k = r->arch->keys; k->name; k++) {
        char key[LM_ARCH_NAME];
        struct lm_err why = {0};
        if (k->flags & LM_KEY_UNUSED || k->from == LM_FROM_FILE_TYPE)
            continue;
        lm_arch_key_name(r->arch, k, key);
        const bool same =
            k->kind == LM_GGUF_STR ? same_text(r, k, key, &why)
            : k->kind == LM_GGUF_ARR
                  ? same_windows(r)
                  : !memcmp((const char *)a + k->field, (const char *)b + k->field,
                            k->kind == LM_GGUF_BOOL ? sizeof(bool) : 4);
        if (!same)
            return lm_fail(err, LM_ENOSUP, "%s: cannot be said in the config.json of a %s%s%s",
                           key, r->family->class, why.code ? ": " : "", why.code ? why.text : "");
    }
    return LM_OK;
}

/* Factors that conversion would make of what was written. */
static int compare_freqs(struct lm_restore *r, struct lm_err *err)
{
    const struct lm_arch_tensor *row = r->arch->tensors;
    const uint32_t n = r->h.n_rot / 2;
    while (row->name && row->role != LM_ROPE_FREQS)
        row++;
    const float *v = row->name ? lm_restore_floats(r, row->name, n, err) : NULL;
    if (!v)
        return err->code;
    struct lm_convert_item it = { .row = row, .transform = row->transform };
    it.t.name = row->name;
    it.t.n_dims = 1;
    it.t.ne[0] = n;
    const int s = lm_convert_make(&r->c, &it, err);
    if (s)
        return s;
    return it.made && !memcmp(it.made, v, n * sizeof *v)
               ? LM_OK : lm_fail(err, LM_ENOSUP, "%s: no scaling of Llama 3 makes it", row->name);
}

static int read_back(struct lm_restore *r, struct lm_err *err)
{
    struct lm_convert_config *g = &r->c.cfg;
    *g = (struct lm_convert_config){
        .json = lm_json_tree(&r->c.arena, r->config.data, r->config.len, err),
        .class = r->family->class,
    };
    if (!g->json)
        return err->code;
    g->h.yarn_ext = g->h.yarn_attn = -1;        /* as where files do not say them */
    g->h.yarn_truncate = true;
    g->h.experts_norm = r->arch->dense && r->arch->dense->share_of_used;
    g->h.rope_scaling = r->h.rope_scaling;
    g->h.n_vocab = r->h.n_vocab;
    int s = lm_convert_use_config(&r->c, err);
    if (!s)
        s = lm_convert_hparams(&r->c, err);
    if (!s)
        s = compare(r, err);
    return s ? s : compare_freqs(r, err);
}

int lm_restore_say(struct lm_restore *r, struct lm_err *err)
{
    struct object top = { .indent = "  " }, rope = { .indent = "    " };
    int s = add_all(r, &top, &rope, err);
    lm_buf_release(&rope.b);
    r->config = top.b;
    return s ? s : read_back(r, err);
}
