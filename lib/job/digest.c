/* SPDX-License-Identifier: MIT */
#include "job/digest.h"

#include <stdio.h>
#include <stdlib.h>

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

/* ---- by ranges, on threads ----------------------------------------------- */

/*
 * A digest goes through a tensor front to back, so each tensor is one thread's, the largest
 * first.  A model may well have one that is most of it: a thread that has nothing left shares
 * what is not done yet, reading a chunk while the other adds the one before.
 */
struct share {
    const struct lm_gguf_tensor *t;
    struct state                 s;
    size_t                       next;       /* chunk that nobody has taken        */
    size_t                       turn;       /* chunk to be added                  */
    struct lm_err                err;        /* code LM_OK: none                   */
};

struct by_tensor {
    struct lm_in         *in;
    const struct lm_gguf *g;
    const struct lm_env  *env;
    struct share         *shares;            /* [n_tensors], largest first         */
    uint8_t              *bufs;              /* [threads][CHUNK]                   */
    uint64_t              done, total;
    char                (*hex)[LM_DIGEST_HEX];
};

static int by_size(const void *x, const void *y)
{
    const struct lm_gguf_tensor *a = ((const struct share *)x)->t;
    const struct lm_gguf_tensor *b = ((const struct share *)y)->t;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes)
                                : (a > b) - (a < b);
}

static int read_chunk(struct by_tensor *w, const struct lm_gguf_tensor *t, uint64_t at,
                      uint8_t *buf, size_t n, struct lm_err *err)
{
    if (lm_stopped(w->env))
        return lm_fail(err, LM_ESTOP, "stopped");
    return lm_in_pread(w->in, w->g->data_offset + t->offset + at, buf, n, err);
}

/* Every tensor is called for twice: the second time is for what is left to share. */
static void digest_one(void *arg, size_t i, int thread)
{
    struct by_tensor *w = arg;
    struct share *s = &w->shares[i % w->g->n_tensors];
    const struct lm_gguf_tensor *t = s->t;
    uint8_t *buf = w->bufs + (size_t)thread * CHUNK;
    const uint64_t chunks = t->bytes / CHUNK + (t->bytes % CHUNK != 0);
    for (size_t c; (c = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < chunks; ) {
        struct lm_err err = { 0 };
        const uint64_t at = (uint64_t)c * CHUNK;
        const size_t n = t->bytes - at < CHUNK ? (size_t)(t->bytes - at) : CHUNK;
        const int r = read_chunk(w, t, at, buf, n, &err);
        lm_turn_wait(&s->turn, c);
        if (r != LM_OK && s->err.code == LM_OK)
            s->err = err;
        if (s->err.code == LM_OK)
            add(&s->s, buf, n);
        lm_turn_pass(&s->turn);
        const uint64_t done = __atomic_add_fetch(&w->done, n, __ATOMIC_RELAXED);
        if (thread == 0)
            lm_progress(w->env, "reading", done, w->total);
    }
}

static int digest_shares(struct by_tensor *w, struct lm_pool *pool, struct lm_err *err)
{
    const size_t n = (size_t)w->g->n_tensors;
    qsort(w->shares, n, sizeof *w->shares, by_size);
    lm_pool_run(pool, digest_one, w, 2 * n);
    for (size_t i = 0; i < n; i++) {
        const struct share *s = &w->shares[i];
        if (s->err.code != LM_OK)
            return lm_fail(err, s->err.code, "tensor %.120s: %s", s->t->name.p, s->err.text);
        finish(&s->s, w->hex[s->t - w->g->tensors]);
    }
    return LM_OK;
}

static int digest_all(struct by_tensor *w, enum lm_digest_kind kind, struct lm_err *err)
{
    const size_t n = (size_t)w->g->n_tensors;
    struct lm_pool *pool = lm_pool_new(lm_env_threads(w->env), err);
    if (!pool)
        return err->code;
    w->shares = calloc(n + 1, sizeof *w->shares);
    w->bufs = lm_malloc_array((size_t)lm_pool_threads(pool), CHUNK);
    for (size_t i = 0; i < n && w->shares; i++) {
        w->shares[i].t = &w->g->tensors[i];
        start(&w->shares[i].s, kind);
        w->total += w->g->tensors[i].bytes;
    }
    int r = w->shares && w->bufs ? digest_shares(w, pool, err) : lm_fail_nomem(err);
    lm_pool_free(pool);
    free(w->shares);
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
        struct by_tensor w = { .in = in, .g = g, .env = env, .hex = hex };
        return digest_all(&w, kind, err);
    }
    struct in_order o = { .g = g, .kind = kind, .hex = hex };
    const struct lm_sweep s = { .arg = &o, .take = take };
    return lm_sweep(in, g, &s, env, err);
}
