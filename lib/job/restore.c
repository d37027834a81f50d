/* SPDX-License-Identifier: MIT */
/* The pass over a checkpoint's tensors: blocks are read where the model has them, decoded and
 * encoded by all threads, and written in order. */

#include "job/restore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/line.h"
#include "base/size.h"
#include "job/restore_parts.h"

/* Elements at a time, a multiple of every block; threads beyond which memory bandwidth is what
 * limits. */
enum { PIECE = 64 * 1024, MOST_THREADS = 16 };

bool lm_restore_knows_type(const char *name)
{
    static const char *const names[] = { "auto", "f32", "f16", "bf16" };
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcasecmp(name, names[i]))
        i++;
    return i < sizeof names / sizeof *names;
}

const float *lm_restore_floats(struct lm_restore *r, const char *name, uint64_t n,
                               struct lm_err *err)
{
    const struct lm_gguf_tensor *t = lm_gguf_tensor(r->g, name);
    if (!t)
        return NULL;
    if (t->n_dims != 1 || t->ne[0] != n || t->type->id != LM_F32) {
        lm_fail(err, LM_EDATA, "%s: not %llu values of type f32", name, (unsigned long long)n);
        return NULL;
    }
    float *v = lm_arena_array(&r->c.arena, (size_t)n, sizeof *v);
    if (!v)
        lm_fail_nomem(err);
    else if (lm_in_pread(r->in, r->g->data_offset + t->offset, v, (size_t)t->bytes, err))
        v = NULL;
    for (uint64_t i = 0; v && i < n; i++)
        if (!isfinite(v[i])) {
            lm_fail(err, LM_EDATA, "%s: value %llu is %g", name, (unsigned long long)i,
                    (double)v[i]);
            v = NULL;
        }
    return v;
}

/* The header of model.safetensors. */
static int make_head(struct lm_restore *r, struct lm_err *err)
{
    struct lm_buf *b = &r->head;
    uint64_t at = 0;
    lm_buf_add(b, "\0\0\0\0\0\0\0\0", 8);
    lm_buf_str(b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < r->n_tensors; i++) {
        const struct lm_restore_tensor *t = &r->tensors[i];
        uint64_t bytes;
        if (!lm_mul_u64(t->n, r->type->bytes, &bytes) || bytes > INT64_MAX - at)
            return lm_fail(err, LM_EDATA, "%s: a size beyond 64 bits", t->name);
        lm_buf_byte(b, ',');
        lm_json_quote(b, t->name, strlen(t->name));
        lm_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":",
                      r->type->id == LM_F32 ? "F32" : r->type->id == LM_F16 ? "F16" : "BF16");
        for (uint32_t d = 0; d < t->n_dims; d++)
            lm_buf_printf(b, "%c%llu", d ? ',' : '[', (unsigned long long)t->shape[d]);
        lm_buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                      (unsigned long long)(at + bytes));
        at += bytes;
    }
    lm_buf_byte(b, '}');
    lm_buf_spaces(b, (8 - b->len % 8) % 8);
    if (b->failed)
        return lm_fail_nomem(err);
    const uint64_t len = b->len - 8;
    if (len > LM_ST_MAX_HEADER)
        return lm_fail(err, LM_ENOSUP, "the header of model.safetensors would be too long");
    for (int i = 0; i < 8; i++)
        b->data[i] = (char)(len >> 8 * i & 255);
    return LM_OK;
}

static int open_model(struct lm_restore *r, const char *type, struct lm_err *err)
{
    if (!lm_in_seekable(r->in))
        return lm_fail(err, LM_EUSE, "cannot be read by ranges: give an uncompressed file");
    if (!(r->g = lm_gguf_read(r->in, true, err)))
        return err->code;
    if (r->g->big_endian)
        return lm_fail(err, LM_ENOSUP, "its numbers are big-endian");
    r->type = type && strcasecmp(type, "auto") ? lm_type_by_name(type) : NULL;
    int s = lm_restore_find(r, err);
    if (!s)
        s = lm_restore_plan(r, err);
    if (!s)
        s = lm_restore_say(r, err);
    return s ? s : make_head(r, err);
}

struct lm_restore *lm_restore_new(struct lm_in *in, const char *type, const struct lm_env *env,
                                  struct lm_err *err)
{
    struct lm_restore *r = calloc(1, sizeof *r);
    struct lm_err own = {0};
    err = err ? err : &own;
    if (!r) {
        lm_fail_nomem(err);
        return NULL;
    }
    r->in = in;
    r->env = r->c.env = env;
    if (open_model(r, type, err) == LM_OK)
        return r;
    lm_restore_free(r);
    return NULL;
}

void lm_restore_free(struct lm_restore *r)
{
    if (!r)
        return;
    lm_gguf_free(r->g);
    lm_arena_release(&r->c.arena);
    lm_buf_release(&r->config);
    lm_buf_release(&r->head);
    free(r->tensors);
    free(r);
}

const char *lm_restore_config(const struct lm_restore *r, size_t *len)
{
    *len = r->config.len;
    return r->config.data;
}

/* A block on its way. */
struct job {
    const struct lm_restore_tensor *t;
    uint64_t                        first;      /* element of t               */
    size_t                          n;
    uint8_t                        *raw, *dst;
    float                          *v;
    size_t                          raw_cap;
    struct lm_err                   err;
};

struct pass {
    struct lm_restore *r;
    struct lm_out     *out;
    struct job        *jobs;
    size_t             tensor, run;     /* that comes next                            */
    uint64_t           in_run, in_tensor;
    uint64_t           done, total;     /* elements                                   */
};

/* Bytes of n elements. */
static uint64_t bytes_of(const struct lm_type *type, uint64_t n)
{
    return n / type->block * type->bytes;
}

/* Read runs, or parts of them, into the job until it is full or the tensor is read. */
static int fill(struct pass *p, struct job *j)
{
    const struct lm_gguf_tensor *g = j->t->of;
    int s = LM_OK;
    while (!s && j->n < PIECE && p->run < j->t->n_runs) {
        const struct lm_restore_run *run = &j->t->runs[p->run];
        const uint64_t left = run->n - p->in_run;
        const uint64_t n = left < PIECE - j->n ? left : PIECE - j->n;
        s = lm_in_pread(p->r->in, p->r->g->data_offset + g->offset +
                                      bytes_of(g->type, run->from + p->in_run),
                        j->raw + bytes_of(g->type, j->n), (size_t)bytes_of(g->type, n), &j->err);
        j->n += (size_t)n;
        p->in_run += n;
        if (p->in_run == run->n) {
            p->run++;
            p->in_run = 0;
        }
    }
    p->in_tensor += j->n;
    return s ? lm_err_at(&j->err, s, "%s", lm_in_name(p->r->in)) : LM_OK;
}

static int take(void *arg, size_t slot)
{
    struct pass *p = arg;
    struct job *j = &p->jobs[slot];
    if (lm_stopped(p->r->env))
        return lm_fail(&j->err, LM_ESTOP, "stopped");
    if (p->tensor < p->r->n_tensors && p->run == p->r->tensors[p->tensor].n_runs) {
        p->tensor++;
        p->run = 0;
        p->in_tensor = 0;
    }
    if (p->tensor == p->r->n_tensors)
        return 0;
    j->t = &p->r->tensors[p->tensor];
    j->first = p->in_tensor;
    j->n = 0;
    if (!lm_grow(&j->raw, &j->raw_cap, (size_t)bytes_of(j->t->of->type, PIECE), 1))
        return lm_fail_nomem(&j->err);
    const int s = fill(p, j);
    return s ? s : 1;
}

/* Name the first weight that is none, or that the type cannot hold: v is what it is. */
static int bad_weight(const struct pass *p, struct job *j, size_t i)
{
    const double v = (double)j->v[i];
    const int code = isfinite(v) ? LM_EUSE : LM_EDATA;
    lm_fail(&j->err, code, "%s: for %s: element %llu is %.9g: %s%s", j->t->of->name.p, j->t->name,
            (unsigned long long)(j->first + i), v,
            isfinite(v) ? "beyond what can be held by " : "not a weight",
            isfinite(v) ? p->r->type->name : "");
    return lm_err_at(&j->err, code, "%s", lm_in_name(p->r->in));
}

static int work(void *arg, size_t slot, int thread)
{
    const struct pass *p = arg;
    struct job *j = &p->jobs[slot];
    const struct lm_type *to = p->r->type;
    (void)thread;
    j->t->of->type->decode(j->raw, j->v, j->n);
    for (size_t i = 0; j->t->less_one && i < j->n; i++)
        j->v[i] -= 1;
    for (size_t i = 0; i < j->n; i++)
        if (!isfinite(j->v[i]))
            return bad_weight(p, j, i);
    const int s = lm_type_encode(to, j->v, j->dst, 1, j->n, NULL, &j->err);
    const int64_t bad = !s && to->invalid ? to->invalid(j->dst, j->n) : -1;
    return s ? s : bad < 0 ? LM_OK : bad_weight(p, j, (size_t)bad);
}

static int put(void *arg, size_t slot)
{
    struct pass *p = arg;
    struct job *j = &p->jobs[slot];
    const int s = lm_out_write(p->out, j->dst, (size_t)bytes_of(p->r->type, j->n), &j->err);
    p->done += j->n;
    lm_progress(p->r->env, j->t->name, p->done, p->total);
    return s ? lm_err_at(&j->err, s, "%s", lm_out_name(p->out)) : LM_OK;
}

static int run(struct pass *p, int threads, struct lm_err *err)
{
    const size_t slots = (size_t)(threads > 1 ? threads + 2 : 1);
    const struct lm_line line = { threads, slots, p, take, work, put };
    size_t failed = slots;
    p->jobs = calloc(slots, sizeof *p->jobs);
    bool ok = p->jobs;
    for (size_t i = 0; ok && i < slots; i++) {
        p->jobs[i].v = lm_malloc_array(PIECE, sizeof(float));
        p->jobs[i].dst = lm_malloc_array(PIECE, sizeof(float));
        ok = p->jobs[i].v && p->jobs[i].dst;
    }
    const int s = ok ? lm_line_run(&line, &failed) : LM_ENOMEM;
    if (s && failed < slots)
        *err = p->jobs[failed].err;
    else if (s)
        lm_fail_nomem(err);
    for (size_t i = 0; p->jobs && i < slots; i++) {
        free(p->jobs[i].raw);
        free(p->jobs[i].dst);
        free(p->jobs[i].v);
    }
    free(p->jobs);
    return s;
}

int lm_restore_write(struct lm_restore *r, struct lm_out *out, struct lm_err *err)
{
    struct lm_err own = {0};
    const int threads = lm_env_threads(r->env);
    struct pass p = { .r = r, .out = out };
    err = err ? err : &own;
    for (size_t i = 0; i < r->n_tensors; i++)
        p.total += r->tensors[i].n;
    const int s = lm_out_write(out, r->head.data, r->head.len, err);
    if (s)
        return lm_err_at(err, s, "%s", lm_out_name(out));
    return run(&p, threads < MOST_THREADS ? threads : MOST_THREADS, err);
}
