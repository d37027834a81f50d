/* SPDX-License-Identifier: MIT */
#include "job/crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

enum { MAX_NOTES = 4, NOTE_SIZE = 160 };

struct notes {
    char   text[MAX_NOTES][NOTE_SIZE];
    size_t n;
};

/* What one thread has. */
struct member {
    struct lm_encoder *encoder;
    struct lm_ids      ids;
    struct lm_env      env;              /* its notes are kept in: */
    struct notes       notes;
    size_t             failed;           /* its first group that failed, or SIZE_MAX */
    struct lm_err      err;
};

struct lm_crew {
    const struct lm_vocab *v;
    const struct lm_env   *env;
    struct lm_pool        *pool;
    struct member         *members;
    int                    n;
    struct notes           told;
    lm_crew_work          *work;
    void                  *arg;
};

/* False: it is there, or there is no more room. */
static bool add_note(struct notes *notes, const char *text)
{
    for (size_t i = 0; i < notes->n; i++)
        if (strncmp(notes->text[i], text, NOTE_SIZE - 1) == 0)
            return false;
    if (notes->n == MAX_NOTES)
        return false;
    snprintf(notes->text[notes->n++], NOTE_SIZE, "%s", text);
    return true;
}

static void keep_warning(void *user, enum lm_level level, const char *text)
{
    if (level == LM_WARN)
        add_note(user, text);
}

struct lm_crew *lm_crew_new(const struct lm_vocab *v, const struct lm_env *env,
                            struct lm_err *err)
{
    struct lm_crew *c = calloc(1, sizeof *c);
    if (!c) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->v = v;
    c->env = env;
    c->n = lm_env_threads(env);
    c->members = calloc((size_t)c->n, sizeof *c->members);
    c->pool = c->members ? lm_pool_new(c->n, err) : NULL;
    if (!c->members)
        lm_fail_nomem(err);
    if (c->pool)
        return c;
    lm_crew_free(c);
    return NULL;
}

void lm_crew_free(struct lm_crew *c)
{
    if (!c)
        return;
    for (int i = 0; c->members && i < c->n; i++) {
        lm_encoder_free(c->members[i].encoder);
        lm_ids_release(&c->members[i].ids);
    }
    lm_pool_free(c->pool);
    free(c->members);
    free(c);
}

/* A thread takes groups in their order, so that the first it fails in is its lowest. */
static void work_on(void *arg, size_t group, int thread)
{
    struct lm_crew *c = arg;
    struct member *m = &c->members[thread];
    if (m->failed != SIZE_MAX)
        return;
    if (!m->encoder) {
        m->env = (struct lm_env){ .user = &m->notes, .note = keep_warning };
        m->encoder = lm_encoder_new(c->v, &m->env, &m->err);
    }
    m->ids.n = 0;
    if (!m->encoder || c->work(c->arg, group, m->encoder, &m->ids, &m->err) != LM_OK)
        m->failed = group;
}

int lm_crew_run(struct lm_crew *c, lm_crew_work *work, void *arg, size_t n, size_t *failed,
                struct lm_err *err)
{
    const struct member *first = NULL;
    c->work = work;
    c->arg = arg;
    for (int i = 0; i < c->n; i++)
        c->members[i].failed = SIZE_MAX;
    lm_pool_run(c->pool, work_on, c, n);
    for (int i = 0; i < c->n; i++) {
        const struct member *m = &c->members[i];
        for (size_t k = 0; k < m->notes.n; k++)
            if (add_note(&c->told, m->notes.text[k]))
                lm_note(c->env, LM_WARN, "%s", m->notes.text[k]);
        if (m->failed != SIZE_MAX && (!first || m->failed < first->failed))
            first = m;
    }
    if (!first)
        return LM_OK;
    *failed = first->failed;
    if (err)
        *err = first->err;
    return (int)first->err.code;
}
