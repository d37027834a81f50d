/* SPDX-License-Identifier: MIT */
#include "job/imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/thread.h"
#include "job/square_sums.h"
#include "stream/logits.h"

#define BATCH 512           /* most tokens evaluated at once */

/* The sums of one weight: a matrix, or a stack of them. */
struct column_sums {
    char   *weight;
    size_t  cols, n_mat;
    double *sum2;           /* [n_mat][cols]           */
    double *count;          /* [n_mat] rows            */
};

struct lm_imatrix {
    struct lm_imatrix_options o;
    const struct lm_env      *env;
    struct lm_ctx            *ctx;
    uint32_t                  n_vocab, batch;
    bool                      has_encoder;
    int32_t                   start;       /* what the decoder beside it begins with */
    int32_t                  *text;        /* [chunk] what the encoder gets          */
    struct column_sums       *sums;
    size_t                    n_sums, cap_sums, hint;
    char                    **names;       /* of inputs that gave a chunk */
    size_t                    n_names, cap_names;
    uint64_t                  seen, done, taken_over;
    double                    nll, nll2;   /* of n_nll tokens, and squared */
    uint64_t                  n_nll;
    struct lm_err             failed;      /* in an observation            */
    struct lm_batch_token    *tokens;      /* [batch]                      */
    struct lm_pool           *pool;        /* for the surprise             */
    const int32_t            *next;        /* [batch] tokens that followed */
    double                   *surprise;    /* [batch]                      */
};

static bool wanted(const struct lm_imatrix *im, const char *weight)
{
    const bool coder = !strncmp(weight, "enc.", 4) || !strncmp(weight, "dec.", 4);
    return !strncmp(weight + (coder ? 4 : 0), "blk.", 4) ||
           (im->o.process_output && !strcmp(weight, "output.weight"));
}

static struct column_sums *new_sums(struct lm_imatrix *im, const struct lm_observed *o)
{
    if (!lm_grow(&im->sums, &im->cap_sums, im->n_sums + 1, sizeof *im->sums))
        return NULL;
    struct column_sums *s = &im->sums[im->n_sums];
    *s = (struct column_sums){
        .weight = strdup(o->weight), .cols = o->cols, .n_mat = o->n_mat,
        .sum2 = calloc(o->n_mat * o->cols, sizeof *s->sum2),
        .count = calloc(o->n_mat, sizeof *s->count),
    };
    if (!s->weight || !s->sum2 || !s->count) {
        free(s->weight);
        free(s->sum2);
        free(s->count);
        return NULL;
    }
    im->n_sums++;
    return s;
}

/* The sums of a weight.  Weights come in the same order in each evaluation, so the search
 * starts behind the one found last. */
static struct column_sums *find_sums(struct lm_imatrix *im, const struct lm_observed *o)
{
    for (size_t k = 0; k < im->n_sums; k++) {
        size_t i = (im->hint + k) % im->n_sums;
        struct column_sums *s = &im->sums[i];
        if (!strcmp(s->weight, o->weight)) {
            im->hint = i + 1;
            if (s->cols != o->cols || s->n_mat != o->n_mat)
                lm_fail(&im->failed, LM_EDATA, "%s: sums of %zux%zu, but the model has %zux%zu",
                        o->weight, s->cols, s->n_mat, o->cols, o->n_mat);
            return s->cols == o->cols && s->n_mat == o->n_mat ? s : NULL;
        }
    }
    return new_sums(im, o);
}

#define ROWS 64             /* tokens whose columns are added together, at most */

static void observe(void *arg, const struct lm_observed *o)
{
    struct lm_imatrix *im = arg;
    if (im->failed.code || !wanted(im, o->weight))
        return;
    struct column_sums *s = find_sums(im, o);
    if (!s) {
        if (!im->failed.code)
            lm_fail_nomem(&im->failed);
        return;
    }
    const float *rows[ROWS];
    for (size_t t = 0, n; t < o->n; t += n) {
        size_t mat, next;
        rows[0] = lm_observed_row(o, t, &mat);
        for (n = 1; n < ROWS && t + n < o->n; n++) {
            rows[n] = lm_observed_row(o, t + n, &next);
            if (next != mat)
                break;
        }
        lm_square_sums(rows, n, s->cols, s->sum2 + mat * s->cols);
        s->count[mat] += (double)n;
    }
}

/* Encoders have no logits and see a chunk as a whole; a decoder beside an encoder is shown the
 * encoder's text, so its guesses say nothing. */
static int suit_model(struct lm_imatrix *im, const struct lm_model *model, struct lm_err *err)
{
    int64_t start = 0;
    const bool encoder = lm_model_is_encoder(model);
    im->has_encoder = lm_model_has_encoder(model);
    im->n_vocab = lm_model_n_vocab(model);
    im->batch = im->o.chunk < BATCH || encoder ? im->o.chunk : BATCH;
    im->o.no_ppl |= encoder || im->has_encoder;
    int s = im->has_encoder ? lm_model_decoder_start(model, &start, err) : LM_OK;
    if (s == LM_OK && (start < 0 || start >= im->n_vocab))
        s = lm_fail(err, LM_EDATA, "decoder_start_token_id %" PRId64 " is not in the vocabulary",
                    start);
    im->start = (int32_t)start;
    return s;
}

struct lm_imatrix *lm_imatrix_new(struct lm_model *model, const struct lm_imatrix_options *o,
                                  const struct lm_env *env, struct lm_err *err)
{
    struct lm_imatrix *im = calloc(1, sizeof *im);
    if (!im) {
        lm_fail_nomem(err);
        return NULL;
    }
    im->o = *o;
    im->env = env;
    if (suit_model(im, model, err) != LM_OK) {
        lm_imatrix_free(im);
        return NULL;
    }
    im->tokens = lm_malloc_array(im->batch, sizeof *im->tokens);
    im->text = lm_malloc_array(o->chunk, sizeof *im->text);
    const struct lm_ctx_options co = {
        .n_ctx = o->chunk, .n_batch = im->batch, .n_ubatch = im->batch,
        .cache_k = lm_type_by_id(LM_F32), .cache_v = lm_type_by_id(LM_F32),
        .embed = lm_model_is_encoder(model),
    };
    im->surprise = lm_malloc_array(im->batch, sizeof *im->surprise);
    im->pool = lm_pool_new(lm_env_threads(env), err);
    if (!im->pool) {
        lm_imatrix_free(im);
        return NULL;
    }
    if (!im->tokens || !im->text || !im->surprise)
        lm_fail_nomem(err);
    else
        im->ctx = lm_ctx_new(model, &co, env, err);
    if (!im->ctx) {
        lm_imatrix_free(im);
        return NULL;
    }
    lm_ctx_observe(im->ctx, observe, im);
    return im;
}

void lm_imatrix_free(struct lm_imatrix *im)
{
    if (!im)
        return;
    lm_ctx_free(im->ctx);
    for (size_t i = 0; i < im->n_sums; i++) {
        free(im->sums[i].weight);
        free(im->sums[i].sum2);
        free(im->sums[i].count);
    }
    for (size_t i = 0; i < im->n_names; i++)
        free(im->names[i]);
    free(im->sums);
    free(im->names);
    free(im->tokens);
    free(im->text);
    free(im->surprise);
    lm_pool_free(im->pool);
    free(im);
}

struct surprises {
    struct lm_imatrix *im;
    size_t             first;       /* token of the batch */
};

/* How surprising a token of the batch found the next one. */
static void find_surprise(void *arg, size_t k, int thread)
{
    const struct surprises *s = arg;
    const struct lm_imatrix *im = s->im;
    const size_t i = s->first + k;
    const float *logits = lm_ctx_logits(im->ctx, i);
    (void)thread;
    im->surprise[i] = lm_logits_lse(logits, im->n_vocab) - (double)logits[im->next[i]];
}

/* Count the surprise of n tokens of the batch from `first` on, which next follow: those of the
 * second half of a chunk, where there is context enough. */
static void count_nll(struct lm_imatrix *im, size_t first, size_t n, const int32_t *next)
{
    struct surprises from = { im, first };
    im->next = next;
    lm_pool_run(im->pool, find_surprise, &from, n);
    for (size_t i = first; i < first + n; i++) {
        im->nll += im->surprise[i];
        im->nll2 += im->surprise[i] * im->surprise[i];
        im->n_nll++;
    }
}

/* Are the logits of a token needed? */
static bool is_wanted(const struct lm_imatrix *im, uint32_t pos)
{
    return im->o.process_output || (!im->o.no_ppl && pos >= im->o.chunk / 2);
}

static int evaluate(struct lm_imatrix *im, const int32_t *chunk, struct lm_err *err)
{
    const uint32_t size = im->o.chunk;
    int32_t *ids = im->text;
    memcpy(ids, chunk, size * sizeof *ids);
    if (im->o.bos >= 0)
        ids[0] = im->o.bos;
    int s = im->has_encoder ? lm_ctx_encode(im->ctx, 0, ids, size, err) : LM_OK;
    if (im->has_encoder) {                   /* the decoder's text begins one later */
        memmove(ids + 1, ids, (size - 1) * sizeof *ids);
        ids[0] = im->start;
    }
    for (uint32_t at = 0; at < size && !s; at += im->batch) {
        uint32_t n = size - at < im->batch ? size - at : im->batch;
        for (uint32_t i = 0; i < n; i++) {
            im->tokens[i] = (struct lm_batch_token){ .id = ids[at + i], .pos = at + i,
                                                     .want = is_wanted(im, at + i) };
        }
        im->tokens[n - 1].want = true;       /* layers see all tokens if one is */
        s = lm_ctx_decode(im->ctx, im->tokens, n, err);
        const uint32_t half = size / 2 > at ? size / 2 - at : 0;
        const uint32_t end = at + n < size ? n : n - 1;          /* the last has no next */
        if (!s && !im->o.no_ppl && half < end)
            count_nll(im, half, end - half, ids + at + 1);
    }
    if (!s && im->failed.code)
        s = lm_fail(err, im->failed.code, "%s", im->failed.text);
    int r = lm_ctx_seq_remove(im->ctx, 0, 0, s ? NULL : err);
    return s ? s : r;
}

/* Once a value is not finite, its column's sum stays so. */
static int check_finite(const struct lm_imatrix *im, struct lm_err *err)
{
    for (size_t i = 0; i < im->n_sums; i++)
        for (size_t k = 0; k < im->sums[i].n_mat * im->sums[i].cols; k++)
            if (!isfinite(im->sums[i].sum2[k]))
                return lm_fail(err, LM_EDATA, "chunk %" PRIu64 ": %s: column %zu was multiplied "
                               "with a value that is not finite", im->seen, im->sums[i].weight,
                               k % im->sums[i].cols);
    return LM_OK;
}

static int keep_name(struct lm_imatrix *im, const char *name, struct lm_err *err)
{
    if (!lm_grow(&im->names, &im->cap_names, im->n_names + 1, sizeof *im->names) ||
        !(im->names[im->n_names] = strdup(name)))
        return lm_fail_nomem(err);
    im->n_names++;
    return LM_OK;
}

int lm_imatrix_add(struct lm_imatrix *im, const char *name, const int32_t *ids, size_t n,
                   struct lm_err *err)
{
    size_t size = im->o.chunk;
    bool named = im->n_names && !strcmp(im->names[im->n_names - 1], name);
    for (; n >= size && !lm_imatrix_full(im); n -= size, ids += size, im->seen++) {
        if (im->seen < im->o.from_chunk)
            continue;
        if (lm_stopped(im->env))
            return lm_fail(err, LM_ESTOP, "stopped");
        int s = named ? LM_OK : keep_name(im, name, err);
        named = true;
        if (s || (s = evaluate(im, ids, err)) || (s = check_finite(im, err)))
            return s;
        im->done++;
        lm_progress(im->env, "chunks", im->done, im->o.n_chunks);
        if (im->o.chunk_done && (s = im->o.chunk_done(im->o.arg, im->done, err)))
            return s;
    }
    if (n && !lm_imatrix_full(im))
        lm_note(im->env, LM_WARN, "%s: left out at the end: %zu of a chunk's %zu tokens", name, n,
                size);
    return LM_OK;
}

int lm_imatrix_continue(struct lm_imatrix *im, const struct lm_importance *m,
                        struct lm_err *err)
{
    if (m->chunk_size != im->o.chunk)
        return lm_fail(err, LM_EUSE, "chunks of %" PRIu32 " tokens, not of %" PRIu32,
                       m->chunk_size, im->o.chunk);
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_importance_entry *e = &m->entries[i];
        const struct lm_observed o = { .weight = e->name, .cols = (size_t)e->width,
                                       .n_mat = (size_t)e->n_mat };
        struct column_sums *s = new_sums(im, &o);
        if (!s)
            return lm_fail_nomem(err);
        for (size_t k = 0; k < s->n_mat * s->cols; k++)
            s->sum2[k] = e->sum2[k];
        for (size_t k = 0; k < s->n_mat; k++)
            s->count[k] = e->counts[k];
    }
    for (size_t i = 0; i < m->n_datasets; i++)
        if (keep_name(im, m->datasets[i], err))
            return err ? (int)err->code : LM_ENOMEM;
    im->o.from_chunk += m->chunk_count;
    im->done = im->taken_over = m->chunk_count;
    return LM_OK;
}

bool lm_imatrix_full(const struct lm_imatrix *im)
{
    return im->o.n_chunks && im->done >= im->o.n_chunks;
}

uint64_t lm_imatrix_seen(const struct lm_imatrix *im)
{
    return im->seen;
}

uint64_t lm_imatrix_done(const struct lm_imatrix *im)
{
    return im->done;
}

uint64_t lm_imatrix_measured(const struct lm_imatrix *im)
{
    return im->done - im->taken_over;
}

bool lm_imatrix_ppl(const struct lm_imatrix *im, double *ppl, double *error)
{
    if (!im->n_nll)
        return false;
    double n = (double)im->n_nll, mean = im->nll / n, var = im->nll2 / n - mean * mean;
    *ppl = exp(mean);
    *error = n > 1 && var > 0 ? sqrt(var / (n - 1)) * *ppl : 0;
    return true;
}

size_t lm_imatrix_unseen(const struct lm_imatrix *im, size_t *n_mat)
{
    size_t unseen = 0;
    *n_mat = 0;
    for (size_t i = 0; i < im->n_sums; i++)
        for (size_t k = 0; k < im->sums[i].n_mat && im->sums[i].n_mat > 1; k++) {
            unseen += im->sums[i].count[k] == 0;
            ++*n_mat;
        }
    return unseen;
}

struct lm_importance *lm_imatrix_result(const struct lm_imatrix *im, struct lm_err *err)
{
    struct lm_importance *m = lm_importance_new();
    if (!m || lm_importance_set_datasets(m, (const char *const *)im->names, im->n_names, err))
        goto nomem;
    m->chunk_count = (uint32_t)im->done;
    m->chunk_size = im->o.chunk;
    for (size_t i = 0; i < im->n_sums; i++) {
        const struct column_sums *s = &im->sums[i];
        struct lm_importance_entry *e = lm_importance_add(m, s->weight, s->cols, s->n_mat);
        if (!e)
            goto nomem;
        for (size_t k = 0; k < s->n_mat * s->cols; k++)
            e->sum2[k] = (float)s->sum2[k];
        for (size_t k = 0; k < s->n_mat; k++)
            e->counts[k] = (float)s->count[k];
    }
    return m;
nomem:
    lm_importance_free(m);
    lm_fail_nomem(err);
    return NULL;
}
