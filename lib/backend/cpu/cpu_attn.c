/* SPDX-License-Identifier: MIT */
/* Attention as a node of a graph: which tokens and heads go together in a call of attn.h, and
 * the key/value cache that it reads. */
#include "backend/cpu/cpu_exec.h"

#include <math.h>
#include <string.h>

#include "tensor/hadamard.h"
#include "tensor/ops.h"

_Static_assert(LM_KV_PAGE == LM_ATTN_PAGE, "attention reads pages as the memory makes them");

/* Elements that are worth a job of their own. */
#define JOB_LEN 8192

/* Tokens, and query heads of a key/value head, that attention takes in one call. */
#define ATTN_TOKENS 16
#define ATTN_HEADS  8

static char *row(const struct lm_tensor *t, size_t i1, size_t i2)
{
    return (char *)t->data + i1 * t->nb[1] + i2 * t->nb[2];
}

static void store_row(const struct lm_cpu *c, const struct lm_type *type, size_t block, void *dst,
                      const float *src, size_t n, float *scratch)
{
    if (block) {
        memcpy(scratch, src, n * sizeof *src);
        lm_hadamard(scratch, n, block);
        src = scratch;
    }
    if (type->id == LM_F16)
        c->vec->to_f16(dst, src, n);
    else if (type->id == LM_F32)
        memcpy(dst, src, n * sizeof *src);
    else
        type->encode(c->isa, src, dst, n, NULL);
}

static uint8_t *const *page_list(const struct lm_tensor *pages, size_t token)
{
    int64_t address = ((const int64_t *)pages->data)[token];
    return (uint8_t *const *)(uintptr_t)address;
}

size_t lm_cpu_kv_count(const struct lm_tensor *t)
{
    return t->src[0]->ne[2];
}

/* A row that is transformed before it is stored. */
size_t lm_cpu_kv_scratch(const struct lm_tensor *t)
{
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    const size_t k = kv->k_block ? kv->head_k : 0, v = kv->v_block ? kv->head_v : 0;
    return (k > v ? k : v) * sizeof(float);
}

size_t lm_cpu_kv_per_job(const struct lm_tensor *t)
{
    size_t len = t->src[0]->ne[0] * t->src[0]->ne[1];
    return len >= JOB_LEN ? 1 : JOB_LEN / (len ? len : 1);
}

void lm_cpu_kv_store(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *k = t->src[0], *v = t->src[3];
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    const int32_t *pos = t->src[2]->data;
    size_t end = (job + 1) * s->per_job < k->ne[2] ? (job + 1) * s->per_job : k->ne[2];
    float *scratch = lm_exec_scratch(e, thread);
    for (size_t i = job * s->per_job; i < end; i++) {
        size_t p = (size_t)pos[i];
        uint8_t *page = page_list(t->src[1], i)[p / LM_KV_PAGE];
        for (size_t h = 0; h < kv->n_head_kv; h++) {
            size_t at = h * LM_KV_PAGE + p % LM_KV_PAGE;
            store_row(e->cpu, kv->k_type, kv->k_block, page + kv->k_off + at * kv->k_row,
                      (const float *)row(k, h, i), kv->head_k, scratch);
            if (v)
                store_row(e->cpu, kv->v_type, kv->v_block, page + kv->v_off + at * kv->v_row,
                          (const float *)row(v, h, i), kv->head_v, scratch);
        }
    }
}

/* Key/value heads, and the lengths of a key and a value, of either attention. */
static size_t heads_kv(const struct lm_tensor *t)
{
    return t->op == LM_OP_ATTN ? t->arg.attn.kv.n_head_kv : t->src[2]->ne[1];
}

static size_t len_v(const struct lm_tensor *t)
{
    return t->ne[0] / t->src[0]->ne[1];
}

/* A job is some heads, of one key/value head, for a tile of tokens. */
struct tile {
    size_t h, head, n_head;             /* key/value head; query heads                     */
    size_t first, end;                  /* tokens                                          */
};

/* Jobs that the heads of one key/value head are divided among. */
static size_t parts(const struct lm_tensor *t)
{
    return (t->src[0]->ne[1] / heads_kv(t) + ATTN_HEADS - 1) / ATTN_HEADS;
}

static struct tile tile_of(const struct lm_tensor *t, size_t job)
{
    const size_t n = parts(t), n_kv = heads_kv(t), group = t->src[0]->ne[1] / n_kv;
    const size_t part = job % n * ATTN_HEADS, h = job / n % n_kv, tokens = t->src[0]->ne[2];
    const size_t first = job / n / n_kv * ATTN_TOKENS;
    return (struct tile){
        .h = h, .head = h * group + part,
        .n_head = group - part < ATTN_HEADS ? group - part : ATTN_HEADS,
        .first = first, .end = first + ATTN_TOKENS < tokens ? first + ATTN_TOKENS : tokens,
    };
}

size_t lm_cpu_attn_count(const struct lm_tensor *t)
{
    size_t tiles = (t->src[0]->ne[2] + ATTN_TOKENS - 1) / ATTN_TOKENS;
    return tiles * heads_kv(t) * parts(t);
}

size_t lm_cpu_attn_scratch(const struct lm_tensor *t)
{
    const struct lm_tensor *q = t->src[0];
    const size_t group = q->ne[1] / heads_kv(t);
    return lm_attn_scratch(q->ne[2] < ATTN_TOKENS ? q->ne[2] : ATTN_TOKENS,
                           group < ATTN_HEADS ? group : ATTN_HEADS, q->ne[0], len_v(t));
}

/* What both attentions say of n tokens from `first` on. */
static struct lm_attn call(const struct lm_tensor *t, const struct tile *at, size_t first,
                           size_t n)
{
    const struct lm_tensor *q = t->src[0], *sinks = t->src[LM_SRC_SINKS];
    const struct lm_tensor *bias = t->src[LM_SRC_BIAS];
    const size_t d_v = len_v(t);
    struct lm_attn a = {
        .q = (const float *)(const void *)row(q, at->head, first),
        .q_tok = q->nb[2] / sizeof(float), .q_head = q->nb[1] / sizeof(float),
        .out = (float *)t->data + first * t->ne[0] + at->head * d_v,
        .out_tok = t->ne[0], .out_head = d_v,
        .n_tok = n, .n_head = at->n_head, .d_k = q->ne[0], .d_v = d_v,
        .window = t->arg.attn.window, .scale = t->arg.attn.scale,
        .softcap = t->arg.attn.softcap,
    };
    if (sinks)
        a.sinks = (const float *)sinks->data + at->head;
    if (bias) {
        a.bias = (const float *)(const void *)row(bias, at->head, 0);
        a.bias_head = bias->nb[1] / sizeof(float);
        a.reach = bias->ne[0] / 2;
    }
    return a;
}

/* Neighbours from `first` on that can go together: of the same sequence, at consecutive
 * positions, or all at the same one, as where they look at another sequence. */
static size_t neighbours(const struct lm_tensor *t, size_t first, size_t end)
{
    const struct lm_tensor *pages = t->src[1];
    const int32_t *pos = t->src[2]->data;
    size_t n = 1;
    if (first + 1 >= end)
        return n;
    const int32_t step = pos[first + 1] == pos[first] ? 0 : 1;
    while (first + n < end && page_list(pages, first + n) == page_list(pages, first) &&
           pos[first + n] == pos[first] + step * (int32_t)n)
        n++;
    return n;
}

/* Chunks of whole pages: what comes before the one that position `pos` is in is left out; *n tokens
 * from there on may be fewer. */
static size_t skip_chunks(uint32_t chunk, size_t pos, size_t *n)
{
    const size_t begin = chunk ? pos / chunk * chunk : 0;
    if (!chunk)
        return 0;
    *n = *n < begin + chunk - pos ? *n : begin + chunk - pos;
    if (begin % LM_KV_PAGE == 0)
        return begin;
    *n = 1;                             /* others have windows, each its own */
    return 0;
}

/* A token that does not see all positions up to its own: those that were chosen for it.  *n tokens
 * from there on may be fewer, as it goes alone, or with others that see all. */
static const int32_t *chosen_for(const struct lm_tensor *t, size_t token, size_t pos, size_t *n)
{
    const struct lm_tensor *chosen = t->src[LM_SRC_CHOSEN];
    const size_t best = chosen ? chosen->ne[0] : 0;
    if (!chosen || pos < best) {
        *n = chosen && *n > best - pos ? best - pos : *n;
        return NULL;
    }
    *n = 1;
    return (const int32_t *)chosen->data + token * best;
}

void lm_cpu_attn(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    const int32_t *pos = t->src[2]->data;
    const struct tile at = tile_of(t, job);
    for (size_t first = at.first, n; first < at.end; first += n) {
        const uint32_t chunk = t->arg.attn.chunk;
        n = neighbours(t, first, at.end);
        const size_t skip = skip_chunks(chunk, (size_t)pos[first], &n);
        const int32_t *chosen = chosen_for(t, first, (size_t)pos[first], &n);
        struct lm_attn a = call(t, &at, first, n);
        a.chosen = chosen;
        a.n_chosen = chosen ? t->src[LM_SRC_CHOSEN]->ne[0] : 0;
        a.pages = (const uint8_t *const *)page_list(t->src[1], first) + skip / LM_KV_PAGE;
        a.k_off = kv->k_off + at.h * LM_KV_PAGE * kv->k_row;
        a.v_off = kv->v_off + at.h * LM_KV_PAGE * kv->v_row;
        a.k_row = kv->k_row;
        a.v_row = kv->v_row;
        a.k_type = kv->k_type->id;
        a.v_type = kv->v_type->id;
        a.k_block = kv->k_block;
        a.v_block = kv->v_block;
        a.k_decode = kv->k_type->decode;
        a.v_decode = kv->v_type->decode;
        a.n_kv = (size_t)pos[first] + 1 - skip;
        if (chunk && !skip && (uint32_t)pos[first] >= chunk)
            a.window = (uint32_t)pos[first] % chunk + 1;
        if (n > 1 && pos[first + 1] == pos[first]) {
            a.whole = true;
            a.window = 0;
        }
        e->cpu->attn(&a, lm_exec_scratch(e, thread));
    }
}

void lm_cpu_attn_whole(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *k = t->src[2], *v = t->src[3];
    const struct tile at = tile_of(t, job);
    for (size_t first = at.first, n; first < at.end; first += n) {
        const int32_t *run = (const int32_t *)t->src[1]->data + 2 * first;
        const size_t begin = (size_t)run[0], stop = (size_t)run[1];
        n = (stop < at.end ? stop : at.end) - first;
        struct lm_attn a = call(t, &at, first, n);
        a.k = (const uint8_t *)row(k, at.h, begin);
        a.v = (const uint8_t *)row(v, at.h, begin);
        a.k_row = k->nb[2];
        a.v_row = v->nb[2];
        a.k_type = a.v_type = LM_F32;
        a.n_kv = stop - begin;
        a.whole = true;
        a.pos = first - begin;
        e->cpu->attn(&a, lm_exec_scratch(e, thread));
    }
}

/*
 * The bucket of a distance (Raffel et al., 2020): half of a side's buckets are for the near
 * distances, one each; the rest divide what is left, up to `reach`, by its logarithm.
 */
static size_t bucket(int64_t distance, size_t n, int64_t reach, bool both)
{
    size_t first = 0;
    int64_t d = distance < 0 ? -distance : distance;
    if (both) {
        n /= 2;
        first = distance > 0 ? n : 0;
    } else if (distance > 0) {
        d = 0;
    }
    const int64_t near = (int64_t)n / 2;
    if (d < near)
        return first + (size_t)d;
    const float part = logf((float)d / (float)near) / logf((float)reach / (float)near);
    const size_t far = (size_t)near + (size_t)(part * (float)((int64_t)n - near));
    return first + (far < n ? far : n - 1);
}

void lm_cpu_distance_bias(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *w = t->src[0];
    const int64_t reach = t->arg.distance.reach;
    float *scratch = lm_exec_scratch(e, thread);
    (void)job;
    for (int64_t d = -reach; d <= reach; d++) {
        const size_t b = bucket(d, w->ne[1], reach, t->arg.distance.both);
        w->type->decode(row(w, b, 0), scratch, w->ne[0]);
        for (size_t h = 0; h < w->ne[0]; h++)
            ((float *)(void *)row(t, h, 0))[d + reach] = scratch[h];
    }
}

size_t lm_cpu_distance_scratch(const struct lm_tensor *t)
{
    return t->src[0]->ne[0] * sizeof(float);
}
