/* SPDX-License-Identifier: MIT */
#include "job/footprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/size.h"

#define BATCH      512u
#define STATE_SIZE sizeof(float)

/* One layer's part. */
struct layer {
    uint32_t heads_kv, key, value;   /* 0 heads: it does not remember positions      */
    uint32_t window;                 /* 0: all positions                             */
    bool     recurrent;
};

struct sizing {
    const struct lm_gguf *const       *files;
    size_t                             n_files;
    const struct lm_gguf              *g;
    const struct lm_footprint_options *o;
    struct lm_footprint               *out;
    struct lm_err                     *err;
    const char                        *arch_name;
    const struct lm_arch              *arch;      /* with h read, or NULL            */
    struct lm_hparams                  h;
    uint32_t                           n_layer, n_embd, n_ff, n_head, n_vocab;
    uint32_t                           kv_rank, n_rot;
    bool                               has_layers;    /* tensors of layers are here  */
    bool                               cross;         /* and of an encoder's output  */
    bool                               remembers;
    uint64_t                           state;     /* numbers of a recurrent layer    */
};

/* ---- keys ------------------------------------------------------------------ */

static const struct lm_gguf_kv *entry(const struct sizing *s, const char *name)
{
    char key[LM_ARCH_NAME];
    snprintf(key, sizeof key, "%.60s.%s", s->arch_name, name);
    return lm_gguf_kv(s->g, key);
}

/* Element i of a number or an array of them, as an unsigned number; what is none, or
 * missing, is dflt. */
static uint32_t at(const struct lm_gguf_kv *kv, uint64_t i, uint32_t dflt)
{
    int64_t v = -1;
    if (!kv)
        return dflt;
    if (kv->kind == LM_GGUF_ARR) {
        const struct lm_gguf_arr *a = &kv->arr;
        if (i >= a->n)
            return dflt;
        switch (a->kind) {
        case LM_GGUF_BOOL: case LM_GGUF_U8: v = ((const uint8_t *)a->data)[i]; break;
        case LM_GGUF_I32: v = ((const int32_t *)a->data)[i]; break;
        case LM_GGUF_U32: v = ((const uint32_t *)a->data)[i]; break;
        default:          return dflt;
        }
    } else if (kv->kind == LM_GGUF_BOOL || kv->kind == LM_GGUF_U8 || kv->kind == LM_GGUF_U16 ||
               kv->kind == LM_GGUF_U32 || kv->kind == LM_GGUF_U64)
        v = kv->u <= UINT32_MAX ? (int64_t)kv->u : -1;
    else if (kv->kind != LM_GGUF_STR && kv->kind != LM_GGUF_F32 && kv->kind != LM_GGUF_F64)
        v = kv->i;
    return v >= 0 && v <= UINT32_MAX ? (uint32_t)v : dflt;
}

static uint32_t number(const struct sizing *s, const char *name, uint32_t dflt)
{
    return at(entry(s, name), 0, dflt);
}

/* The largest of a number, or of an array's first n_layer. */
static uint32_t largest(const struct sizing *s, const char *name)
{
    const struct lm_gguf_kv *kv = entry(s, name);
    uint32_t most = at(kv, 0, 0);
    for (uint32_t i = 1; kv && kv->kind == LM_GGUF_ARR && i < s->n_layer; i++)
        most = at(kv, i, 0) > most ? at(kv, i, 0) : most;
    return most;
}

/* ---- layers ---------------------------------------------------------------- */

/* Has layer i a tensor whose name goes on so? */
static bool has_tensor(const struct sizing *s, uint32_t i, const char *rest)
{
    char name[LM_ARCH_NAME];
    snprintf(name, sizeof name, "blk.%u.%s", i, rest);
    for (size_t k = 0; k < s->n_files; k++)
        if (lm_gguf_tensor(s->files[k], name))
            return true;
    return false;
}

/* Tensors that every recurrent layer of some kind has. */
static bool has_state_tensor(const struct sizing *s, uint32_t i)
{
    static const char *const names[] = { "ssm_a", "ssm_conv1d.weight", "shortconv.conv.weight",
                                         "time_mix_w1.weight", "time_mix_key.weight" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (has_tensor(s, i, names[k]))
            return true;
    return false;
}

/* Numbers of the state that a recurrent layer has; 0: the model has none.  False when it
 * does not fit. */
static bool read_state(struct sizing *s)
{
    const uint64_t inner = number(s, "ssm.inner_size", 0), size = number(s, "ssm.state_size", 0);
    const uint64_t kernel = number(s, "ssm.conv_kernel", 0), embd = s->n_embd;
    const uint64_t groups = number(s, "ssm.group_count", 0);
    const uint64_t cache = number(s, "shortconv.l_cache", 0);
    const uint64_t head = number(s, "wkv.head_size", 0);
    uint64_t width, conv;
    s->state = 0;
    if (inner && size)
        return lm_mul_u64(2 * groups, size, &width) && lm_add_u64(width, inner, &width) &&
               lm_mul_u64(kernel ? kernel - 1 : 0, width, &conv) &&
               lm_add_u64(conv, inner * size, &s->state);
    if (cache)
        s->state = (cache - 1) * embd;
    else if (head)
        return lm_add_u64(number(s, "token_shift_count", 2) * embd, embd * head, &s->state);
    return true;
}

/* Has layer i a state, and if so, *instead of attention, whatever heads it has?  Where metadata
 * have no word for it, the layer's tensors tell. */
static bool is_recurrent(const struct sizing *s, uint32_t i, uint32_t heads_kv, bool *instead)
{
    const struct lm_gguf_kv *list = entry(s, "attention.recurrent_layers");
    const uint32_t interval = number(s, "full_attention_interval", 0);
    *instead = false;
    if (!s->state)
        return false;
    if (list)
        *instead = at(list, i, 0);
    else if (interval)
        *instead = (i + 1) % interval != 0;
    if (list || interval)
        return *instead;
    if (s->has_layers)
        return has_state_tensor(s, i);
    const struct lm_gguf_kv *heads = entry(s, "attention.head_count_kv");
    return !heads_kv || !heads || heads->kind != LM_GGUF_ARR;    /* beside attention */
}

/* Positions that layer i sees, 0: all. */
static uint32_t window_of(const struct sizing *s, uint32_t i)
{
    /* Architectures that say the window, but not which layers have it: all but every so many. */
    static const struct { const char *arch; uint32_t every; } known[] = {
        { "gpt-oss", 2 }, { "gemma3n", 5 }, { "olmo3", 4 },
    };
    const struct lm_gguf_kv *pattern = entry(s, "attention.sliding_window_pattern");
    const uint32_t window = number(s, "attention.sliding_window", 0);
    uint32_t every = 0;
    if (s->arch)
        return lm_arch_window(s->arch, &s->h, i);
    if (pattern && pattern->kind == LM_GGUF_ARR)
        return at(pattern, i, 0) ? window : 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(known[k].arch, s->arch_name))
            every = known[k].every;
    every = at(pattern, 0, every);
    return every && (i + 1) % every == 0 ? 0 : window;
}

static struct layer layer_of(const struct sizing *s, uint32_t i)
{
    struct layer l = { 0 };
    bool instead;
    const uint32_t heads = at(entry(s, "attention.head_count"), i, 0);
    const uint32_t shared = number(s, "attention.shared_kv_layers", 0);
    l.heads_kv = at(entry(s, "attention.head_count_kv"), i, heads);
    l.recurrent = is_recurrent(s, i, l.heads_kv, &instead);
    if (instead || !s->remembers || (shared && shared < s->n_layer && i >= s->n_layer - shared))
        l.heads_kv = 0;
    if (!l.heads_kv)
        return l;
    l.window = window_of(s, i);
    const uint32_t head = heads ? s->n_embd / heads : 0;
    l.key = number(s, "attention.key_length", s->arch ? s->h.head_k : head);
    l.value = number(s, "attention.value_length", s->arch ? s->h.head_v : head);
    if (l.window) {
        l.key = number(s, "attention.key_length_swa", l.key);
        l.value = number(s, "attention.value_length_swa", l.value);
    }
    return l;
}

/* ---- the model ------------------------------------------------------------- */

static int read_numbers(struct sizing *s)
{
    struct lm_str name;
    struct lm_gguf_arr tokens;
    struct lm_err ignored;
    int r = lm_gguf_str(s->g, "general.architecture", &name, s->err);
    if (r)
        return r < 0 ? r : lm_fail(s->err, LM_EDATA, "key general.architecture: missing");
    s->arch_name = name.p;
    s->arch = lm_arch_by_name(name.p);
    if (s->arch && lm_arch_read(s->arch, s->g, &s->h, &ignored) != LM_OK)
        s->arch = NULL;
    s->n_layer = number(s, "block_count", 0);
    s->cross = entry(s, "decoder_block_count") != NULL;
    s->n_layer = number(s, "decoder_block_count", s->n_layer);
    if (!s->n_layer || s->n_layer > LM_MAX_LAYERS)
        return lm_fail(s->err, LM_EDATA, "key %.60s.block_count: %s", s->arch_name,
                       s->n_layer ? "too many layers" : "missing or no number of layers");
    s->n_embd = number(s, "embedding_length", 0);
    s->n_ff = largest(s, "feed_forward_length");
    const uint64_t experts = (uint64_t)largest(s, "expert_feed_forward_length") *
                             number(s, "expert_used_count", 1);
    if (experts > s->n_ff && experts <= UINT32_MAX)
        s->n_ff = (uint32_t)experts;
    s->n_head = largest(s, "attention.head_count");
    s->kv_rank = number(s, "attention.kv_lora_rank", 0);
    s->n_rot = number(s, "rope.dimension_count", 0);
    s->n_vocab = number(s, "vocab_size", 0);
    if (lm_gguf_arr(s->g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, NULL) == LM_OK)
        s->n_vocab = (uint32_t)tokens.n;
    s->remembers = at(entry(s, "attention.causal"), 0, 1);
    for (size_t k = 0; k < s->n_files; k++)
        for (uint64_t i = 0; i < s->files[k]->n_tensors && !s->has_layers; i++)
            s->has_layers = !strncmp(s->files[k]->tensors[i].name.p, "blk.", 4);
    return read_state(s) ? LM_OK : lm_fail(s->err, LM_EDATA, "the states do not fit 64 bits");
}

/* Bytes of a row of so many numbers as a cache keeps them. */
static int row_bytes(const struct sizing *s, const struct lm_type *type, uint64_t n,
                     uint64_t *bytes)
{
    if (lm_type_row_bytes(type, n, bytes))
        return LM_OK;
    return lm_fail(s->err, LM_EUSE, "rows of %llu numbers cannot be cached as %s: it needs a "
                   "multiple of %u", (unsigned long long)n, type->name, type->block);
}

/* n times bytes, added to sum. */
static bool add(uint64_t *sum, uint64_t n, uint64_t bytes)
{
    return lm_mul_u64(n, bytes, &bytes) && lm_add_u64(*sum, bytes, sum);
}

/* The keys that a layer chooses positions by. */
static int size_chooser(struct sizing *s, uint64_t *bytes)
{
    struct lm_footprint *f = s->out;
    uint64_t row;
    int r = row_bytes(s, f->k_type, s->h.index_len, &row);
    if (r == LM_OK && (!add(bytes, row, f->n_ctx) || !add(&f->chooser, row, f->n_ctx)))
        r = lm_fail(s->err, LM_EDATA, "the size of keys and values does not fit 64 bits");
    f->n_chooser++;
    return r;
}

/* Layer i's keys and values, and its state; *bytes is what it remembers in all. */
static int size_layer(struct sizing *s, uint32_t i, uint64_t *bytes)
{
    struct lm_footprint *f = s->out;
    const struct layer l = layer_of(s, i);
    const uint64_t n = s->cross ? 2 * f->n_ctx : f->n_ctx;
    uint64_t k = 0, v = 0, seen, position = 0;
    *bytes = 0;
    if (l.recurrent) {
        f->n_recurrent++;
        if (!add(bytes, s->state, STATE_SIZE) || !lm_add_u64(f->state, *bytes, &f->state))
            return lm_fail(s->err, LM_EDATA, "the states do not fit 64 bits");
    }
    if (!l.heads_kv)
        return LM_OK;
    int r = row_bytes(s, f->k_type, l.key, &k);
    if (r == LM_OK)
        r = row_bytes(s, f->v_type, l.value, &v);
    if (r == LM_OK && s->arch && lm_arch_chooses(&s->h, i))
        r = size_chooser(s, bytes);
    if (r != LM_OK)
        return r;
    seen = l.window && l.window < n ? l.window : n;
    f->n_window += l.window != 0;
    f->window = l.window > f->window ? l.window : f->window;
    if (!lm_add_u64(k, v, &position) || !lm_mul_u64(position, l.heads_kv, &position) ||
        !add(bytes, position, n) || !add(&f->kv, position, n) ||
        !add(&f->kv_window, position, seen) || !add(&f->kv_latent, f->latent_position, n))
        return lm_fail(s->err, LM_EDATA, "the size of keys and values does not fit 64 bits");
    f->uneven |= f->n_attention && position != f->kv_position / f->n_attention;
    f->kv_position += position;                  /* of all, until the end */
    f->n_attention++;
    return LM_OK;
}

/* ---- a device -------------------------------------------------------------- */

/* Is a tensor's data on the device that has the last layers from `first`? */
static bool on_device(const struct sizing *s, const struct lm_gguf_tensor *t, uint32_t first)
{
    uint32_t layer = 0;
    const char *rest = strncmp(t->name.p, "blk.", 4) ? NULL : t->name.p + 4;
    if (rest) {
        for (; *rest >= '0' && *rest <= '9' && layer <= s->n_layer; rest++)
            layer = layer * 10 + (uint32_t)(*rest - '0');
        return layer >= first;
    }
    return s->out->output_on_device && !strncmp(t->name.p, "output", 6);
}

static int size_weights(const struct sizing *s, uint32_t first)
{
    struct lm_footprint *f = s->out;
    for (size_t k = 0; k < s->n_files; k++)
        for (uint64_t i = 0; i < s->files[k]->n_tensors; i++) {
            const struct lm_gguf_tensor *t = &s->files[k]->tensors[i];
            if (!lm_add_u64(f->weights, t->bytes, &f->weights) ||
                (on_device(s, t, first) && !lm_add_u64(f->device, t->bytes, &f->device)))
                return lm_fail(s->err, LM_EDATA, "the size of the weights does not fit 64 bits");
        }
    return LM_OK;
}

/* All sums, the layers in order. */
static int size_all(struct sizing *s)
{
    struct lm_footprint *f = s->out;
    const uint32_t first = s->n_layer - f->n_device;
    const uint64_t head = s->n_head ? s->n_embd / s->n_head : 0;
    uint64_t bytes;
    int r = size_weights(s, first);
    for (uint32_t i = 0; i < s->n_layer && r == LM_OK; i++) {
        r = size_layer(s, i, &bytes);
        if (r == LM_OK && i >= first && !lm_add_u64(f->device, bytes, &f->device))
            r = lm_fail(s->err, LM_EDATA, "what the device holds does not fit 64 bits");
    }
    if (r != LM_OK)
        return r;
    if (f->n_attention && !f->uneven)
        f->kv_position /= f->n_attention;
    const uint64_t key = number(s, "attention.key_length", (uint32_t)head);
    const uint64_t value = number(s, "attention.value_length", (uint32_t)head);
    uint64_t numbers = 0;
    if (!add(&numbers, s->n_head, 2 * key + value) ||
        !lm_add_u64(numbers, 4 * (uint64_t)s->n_embd + 2 * (uint64_t)s->n_ff, &numbers) ||
        !lm_mul_u64(numbers, f->n_ubatch, &numbers) ||
        !lm_add_u64(numbers, s->n_vocab, &numbers) ||
        !lm_mul_u64(numbers, sizeof(float), &f->work) ||
        !lm_add_u64(f->weights, f->kv, &f->together) ||
        !lm_add_u64(f->together, f->chooser, &f->together) ||
        !lm_add_u64(f->together, f->state, &f->together) ||
        !lm_add_u64(f->together, f->work, &f->together))
        return lm_fail(s->err, LM_EDATA, "the memory it takes does not fit 64 bits");
    return LM_OK;
}

int lm_footprint_of(const struct lm_gguf *const *files, size_t n,
                    const struct lm_footprint_options *o, struct lm_footprint *out,
                    struct lm_err *err)
{
    struct sizing *s = calloc(1, sizeof *s);
    const struct lm_type *f16 = lm_type_by_id(LM_F16);
    if (!s)
        return lm_fail_nomem(err);
    *s = (struct sizing){ .files = files, .n_files = n, .g = files[0], .o = o, .out = out,
                          .err = err };
    int r = read_numbers(s);
    if (r == LM_OK) {
        *out = (struct lm_footprint){
            .n_ctx = o->n_ctx ? o->n_ctx : number(s, "context_length", 0),
            .n_ubatch = o->n_ubatch ? o->n_ubatch : BATCH,
            .k_type = o->cache_k ? o->cache_k : f16, .v_type = o->cache_v ? o->cache_v : f16,
            .n_device = o->n_device < s->n_layer ? o->n_device : s->n_layer,
            .output_on_device = o->n_device > s->n_layer,
        };
        if (!out->n_ctx)
            r = lm_fail(err, LM_EDATA, "key %.60s.context_length: missing", s->arch_name);
    }
    if (r == LM_OK && s->kv_rank && s->n_rot)
        r = row_bytes(s, out->k_type, (uint64_t)s->kv_rank + s->n_rot, &out->latent_position);
    if (r == LM_OK)
        r = size_all(s);
    free(s);
    return r;
}
