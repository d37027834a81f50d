/* SPDX-License-Identifier: MIT */
#include "job/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool contains_one(const char *name, const char *const *parts)
{
    for (; parts && *parts; parts++)
        if (strstr(name, *parts))
            return true;
    return false;
}

static bool is_included(const struct lm_weights *w, const char *name)
{
    return (!w->include || contains_one(name, w->include)) && !contains_one(name, w->exclude);
}

const struct lm_importance_entry *lm_weights_of(const struct lm_weights *w,
                                                const struct lm_mix_tensor *t, bool *wrong)
{
    const struct lm_importance_entry *e =
        w->importance && is_included(w, t->name)
            ? lm_importance_find(w->importance, t->name) : NULL;
    *wrong = e && e->width * e->n_mat != t->ne[0] * t->ne[2];
    if (!*wrong)
        return e;
    if (!strcmp(t->name, "token_embd.weight") || !strcmp(t->name, "per_layer_token_embd.weight"))
        *wrong = false;                        /* such entries count something else */
    return NULL;
}

static bool is_exempt(const char *name)
{
    return !strcmp(name, "output.weight") || !strcmp(name, "token_embd.weight") ||
           !strcmp(name, "per_layer_token_embd.weight");
}

enum { N_TOLD = 100 };                         /* more faults than that are read by nobody */

/* What a look at the tensors finds. */
struct found {
    uint64_t n_missing, n_wrong;               /* faults, and those of another size         */
    uint64_t n_plain;                          /* without importance, and without need      */
    char     fault[256], plain[128];           /* the latest; the first                     */
};

/* Is t at fault?  Then in f->fault. */
static bool look(const struct lm_weights *w, const struct lm_mix_tensor *t, struct found *f)
{
    bool wrong;
    if (t->target == t->source || t->target->block == 1 || lm_weights_of(w, t, &wrong))
        return false;
    const uint64_t wanted = t->ne[0] * t->ne[2];
    if (wrong) {
        const struct lm_importance_entry *e = lm_importance_find(w->importance, t->name);
        snprintf(f->fault, sizeof f->fault, "tensor %.*s: importance of %" PRIu64 " values, "
                 "wanted %" PRIu64, 100, t->name, e->width * e->n_mat, wanted);
        f->n_wrong++;
        return true;
    }
    if (t->needs_weights || t->target->needs_weights) {
        snprintf(f->fault, sizeof f->fault, "tensor %.*s: no importance, wanted %" PRIu64
                 " values for %s", 100, t->name, wanted, t->target->name);
        f->n_missing++;
        return true;
    }
    if (!is_exempt(t->name) && !f->n_plain++)
        snprintf(f->plain, sizeof f->plain, "%.*s", 100, t->name);
    return false;
}

/* The last word on faults. */
static int judge(const struct found *f, struct lm_err *err)
{
    const uint64_t n = f->n_missing + f->n_wrong;
    char what[256];
    if (!n)
        return LM_OK;
    int len = n == 1 ? snprintf(what, sizeof what, "%s", f->fault)
                     : snprintf(what, sizeof what, "importance is missing for %" PRIu64
                                " tensors, of another size for %" PRIu64, f->n_missing,
                                f->n_wrong);
    if (n > N_TOLD)
        snprintf(what + len, sizeof what - (size_t)len, " (-v names those after the first %d)",
                 N_TOLD);
    return lm_fail(err, f->n_wrong ? LM_EDATA : LM_EUSE, "%s", what);
}

int lm_weights_check(const struct lm_weights *w, const struct lm_mix_tensor *list, size_t n,
                     const struct lm_env *env, struct lm_err *err)
{
    struct found f = { 0 }, told = { 0 };
    for (size_t i = 0; i < n; i++)
        look(w, &list[i], &f);
    for (size_t i = 0; i < n && f.n_missing + f.n_wrong > 1; i++)
        if (look(w, &list[i], &told))
            lm_note(env, told.n_missing + told.n_wrong > N_TOLD ? LM_INFO : LM_FAULT, "%s",
                    told.fault);
    if (f.n_plain && w->importance)
        lm_note(env, LM_WARN, "no importance for %" PRIu64 " tensors, the first: %s", f.n_plain,
                f.plain);
    return judge(&f, err);
}

static void set_cut_str(struct lm_gguf_writer *w, const char *key, const char *s)
{
    size_t n = strlen(s);
    lm_gguf_unset(w, key);
    lm_gguf_set_str(w, key, s, n < 127 ? n : 127);       /* what the reference keeps */
}

static void set_last_u32(struct lm_gguf_writer *w, const char *key, uint32_t v)
{
    lm_gguf_unset(w, key);
    lm_gguf_set_u32(w, key, v);
}

void lm_weights_keys(const struct lm_weights *w, struct lm_gguf_writer *out)
{
    const struct lm_importance *m = w->importance;
    uint32_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += is_included(w, m->entries[i].name);
    set_cut_str(out, "quantize.imatrix.file", w->name);
    if (m->n_datasets)
        set_cut_str(out, "quantize.imatrix.dataset", m->datasets[0]);
    set_last_u32(out, "quantize.imatrix.entries_count", n);
    if (m->chunk_count)
        set_last_u32(out, "quantize.imatrix.chunks_count", m->chunk_count);
}
