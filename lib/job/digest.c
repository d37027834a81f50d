/* SPDX-License-Identifier: MIT */
#include "job/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "base/thread.h"
#include "job/sweep.h"

#define CHUNK (256u << 10)       /* bytes read at once: they stay in the nearer caches */

struct state {
    enum lm_digest_kind kind;
    struct lm_xxh64     xxh64;
    struct lm_sha256    sha256;
};

static void start(struct state *s, enum lm_digest_kind kind)
{
    s->kind = kind;
    if (kind == LM_DIGEST_XXH64)
        lm_xxh64_init(&s->xxh64);
    else
        lm_sha256_init(&s->sha256);
}

static void add(struct state *s, const void *p, size_t n)
{
    if (s->kind == LM_DIGEST_XXH64)
        lm_xxh64_add(&s->xxh64, p, n);
    else
        lm_sha256_add(&s->sha256, p, n);
}

static void finish(const struct state *s, char hex[LM_DIGEST_HEX])
{
    uint8_t bytes[LM_SHA256_SIZE];
    if (s->kind == LM_DIGEST_XXH64) {
        snprintf(hex, LM_DIGEST_HEX, "%016llx", (unsigned long long)lm_xxh64_digest(&s->xxh64));
        return;
    }
    lm_sha256_digest(&s->sha256, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

void lm_digest_bytes(const void *p, size_t n, enum lm_digest_kind kind, char hex[LM_DIGEST_HEX])
{
    struct state s;
    start(&s, kind);
    add(&s, p, n);
    finish(&s, hex);
}

int lm_digest_rest(struct lm_in *in, enum lm_digest_kind kind, char hex[LM_DIGEST_HEX],
                   const struct lm_env *env, struct lm_err *err)
{
    struct state s;
    size_t n = CHUNK;
    int r = LM_OK;
    uint64_t size = lm_in_size(in);
    uint8_t *buf = malloc(CHUNK);
    if (!buf)
        return lm_fail_nomem(err);
    start(&s, kind);
    while (n == CHUNK && (r = lm_in_read(in, buf, CHUNK, &n, err)) == LM_OK) {
        add(&s, buf, n);
        lm_progress(env, "reading", lm_in_pos(in), size == LM_SIZE_UNKNOWN ? 0 : size);
        if (lm_stopped(env)) {
            r = lm_fail(err, LM_ESTOP, "stopped");
            break;
        }
    }
    free(buf);
    if (r == LM_OK)
        finish(&s, hex);
    return r;
}

/* ---- in order, from a pipe ----------------------------------------------- */

struct in_order {
    const struct lm_gguf *g;
    struct state          s;
    enum lm_digest_kind   kind;
    char                (*hex)[LM_DIGEST_HEX];
};

static int take(void *arg, const struct lm_piece *p, const void *result, struct lm_err *err)
{
    struct in_order *o = arg;
    (void)result, (void)err;
    if (p->first == 0)
        start(&o->s, o->kind);
    add(&o->s, p->data, p->bytes);
    if (p->first / p->t->type->block * p->t->type->bytes + p->bytes == p->t->bytes)
        finish(&o->s, o->hex[p->t - o->g->tensors]);
    return LM_OK;
}

/* ---- each tensor on a thread --------------------------------------------- */

struct by_tensor {
    struct lm_in                 *in;
    const struct lm_gguf         *g;
    const struct lm_env          *env;
    enum lm_digest_kind           kind;
    const struct lm_gguf_tensor **order;     /* largest first, so that threads end together */
    uint8_t                      *bufs;      /* [threads][CHUNK] */
    uint64_t                      done, total;
    char                        (*hex)[LM_DIGEST_HEX];
    struct lm_err                *errs;      /* [n_tensors], code LM_OK: none */
};

static int by_size(const void *x, const void *y)
{
    const struct lm_gguf_tensor *a, *b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes)
                                : (a > b) - (a < b);
}

static void digest_one(void *arg, size_t i, int thread)
{
    struct by_tensor *w = arg;
    const struct lm_gguf_tensor *t = w->order[i];
    size_t index = (size_t)(t - w->g->tensors);
    uint8_t *buf = w->bufs + (size_t)thread * CHUNK;
    struct state s;
    start(&s, w->kind);
    for (uint64_t at = 0, n; at < t->bytes; at += n) {
        n = t->bytes - at < CHUNK ? t->bytes - at : CHUNK;
        if (lm_stopped(w->env)) {
            lm_fail(&w->errs[index], LM_ESTOP, "stopped");
            return;
        }
        if (lm_in_pread(w->in, w->g->data_offset + t->offset + at, buf, (size_t)n,
                        &w->errs[index]) != LM_OK)
            return;
        add(&s, buf, (size_t)n);
        uint64_t done = __atomic_add_fetch(&w->done, n, __ATOMIC_RELAXED);
        if (thread == 0)
            lm_progress(w->env, "reading", done, w->total);
    }
    finish(&s, w->hex[index]);
}

static int digest_all(struct by_tensor *w, struct lm_err *err)
{
    size_t n = (size_t)w->g->n_tensors;
    struct lm_pool *pool = lm_pool_new(lm_env_threads(w->env), err);
    if (!pool)
        return err->code;
    w->order = lm_malloc_array(n + 1, sizeof *w->order);
    w->errs = calloc(n + 1, sizeof *w->errs);
    w->bufs = lm_malloc_array((size_t)lm_pool_threads(pool), CHUNK);
    int r = w->order && w->errs && w->bufs ? LM_OK : lm_fail_nomem(err);
    for (size_t i = 0; i < n && r == LM_OK; i++) {
        w->order[i] = &w->g->tensors[i];
        w->total += w->g->tensors[i].bytes;
    }
    if (r == LM_OK) {
        qsort(w->order, n, sizeof *w->order, by_size);
        lm_pool_run(pool, digest_one, w, n);
    }
    for (size_t i = 0; i < n && r == LM_OK; i++)
        if (w->errs[i].code != LM_OK)
            r = lm_fail(err, w->errs[i].code, "tensor %.120s: %s", w->g->tensors[i].name.p,
                        w->errs[i].text);
    lm_pool_free(pool);
    free(w->order);
    free(w->errs);
    free(w->bufs);
    return r;
}

int lm_digest_tensors(struct lm_in *in, const struct lm_gguf *g, enum lm_digest_kind kind,
                      char (*hex)[LM_DIGEST_HEX], const struct lm_env *env, struct lm_err *err)
{
    struct lm_err own;
    err = err ? err : &own;
    int r = lm_gguf_strict(g, err);
    if (r != LM_OK)
        return r;
    if (lm_in_seekable(in)) {
        struct by_tensor w = { .in = in, .g = g, .env = env, .kind = kind, .hex = hex };
        return digest_all(&w, err);
    }
    struct in_order o = { .g = g, .kind = kind, .hex = hex };
    const struct lm_sweep s = { .arg = &o, .take = take };
    return lm_sweep(in, g, &s, env, err);
}
