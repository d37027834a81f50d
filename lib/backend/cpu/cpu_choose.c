/* SPDX-License-Identifier: MIT */
/*
 * Choosing positions as a node of a graph (lm_choose).  The scores of a token are made and looked
 * through by one job, which has room for them; where there are few tokens, jobs make the scores of
 * some positions each, and others look through them when all are there.
 */
#include "backend/cpu/cpu_exec.h"

/* As many tokens are enough for a job each. */
#define FEW_TOKENS 8

/* Positions of a job, in whole pages. */
#define JOB_PAGES 16

static size_t pages_of(const struct lm_tensor *t)
{
    return ((size_t)t->arg.attn.n_ctx + LM_KV_PAGE - 1) / LM_KV_PAGE;
}

/* Scores of one token, in bytes that are a multiple of 64. */
static size_t scores_size(const struct lm_tensor *t)
{
    return pages_of(t) * LM_KV_PAGE * sizeof(float);
}

size_t lm_cpu_choose_parts(const struct lm_tensor *t)
{
    return t->ne[1] > FEW_TOKENS ? 0 : (pages_of(t) + JOB_PAGES - 1) / JOB_PAGES;
}

size_t lm_cpu_choose_shared(const struct lm_tensor *t)
{
    return lm_cpu_choose_parts(t) ? t->ne[1] * scores_size(t) : 0;
}

size_t lm_cpu_choose_scratch(const struct lm_tensor *t)
{
    return lm_scoring_scratch(t->src[0]->ne[1], t->src[0]->ne[0]) +
           (lm_cpu_choose_parts(t) ? 0 : scores_size(t));
}

/* Where jobs that make some of a token's scores leave them. */
static float *shared_scores(const struct lm_exec *e, const struct lm_tensor *t, size_t token)
{
    return (float *)(void *)((char *)lm_exec_act(e) + token * scores_size(t));
}

static size_t seen_by(const struct lm_tensor *t, size_t token)
{
    return (size_t)((const int32_t *)t->src[2]->data)[token] + 1;
}

/* What positions first .. end - 1 score for a token. */
static void score(const struct lm_exec *e, const struct lm_tensor *t, size_t token, size_t first,
                  size_t end, float *scores, void *scratch)
{
    const struct lm_tensor *q = t->src[0], *shares = t->src[4];
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    const int64_t address = ((const int64_t *)t->src[1]->data)[token];
    const struct lm_scoring s = {
        .q = (const float *)(const void *)((const char *)q->data + token * q->nb[2]),
        .q_head = q->nb[1] / sizeof(float),
        .shares = (const float *)(const void *)((const char *)shares->data +
                                                token * shares->nb[1]),
        .n_head = q->ne[1], .d = q->ne[0],
        .pages = (const uint8_t *const *)(uintptr_t)address, .k_off = kv->k_off,
        .k_row = kv->k_row, .k_type = kv->k_type->id, .k_decode = kv->k_type->decode,
        .k_block = kv->k_block, .first = first, .end = end, .out = scores,
    };
    e->cpu->scoring(&s, scratch);
}

void lm_cpu_choose_scores(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const size_t parts = lm_cpu_choose_parts(t), token = job / parts, seen = seen_by(t, token);
    const size_t first = job % parts * JOB_PAGES * LM_KV_PAGE;
    const size_t end = first + JOB_PAGES * LM_KV_PAGE;
    if (seen > t->arg.attn.best && first < seen)
        score(e, t, token, first, end < seen ? end : seen, shared_scores(e, t, token),
              lm_exec_scratch(e, thread));
}

void lm_cpu_choose(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const size_t best = t->arg.attn.best, seen = seen_by(t, job);
    int32_t *out = (int32_t *)t->data + job * best;
    for (size_t i = 0; i < best && seen <= best; i++)
        out[i] = i < seen ? (int32_t)i : -1;
    if (seen <= best)
        return;
    if (lm_cpu_choose_parts(t)) {
        lm_choose_best(shared_scores(e, t, job), seen, best, out);
        return;
    }
    float *scores = lm_exec_scratch(e, thread);
    score(e, t, job, 0, seen, scores, (char *)scores + scores_size(t));
    lm_choose_best(scores, seen, best, out);
}
