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

/* With a dry run a note, else a failure. */
static int refuse(const struct lm_weights *w, const struct lm_env *env, const char *what,
                  struct lm_err *err)
{
    if (!w->dry_run)
        return lm_fail(err, LM_EUSE, "%s", what);
    lm_note(env, LM_WARN, "%s", what);
    return LM_OK;
}

/* All faults are told before the last word, which says how many. */
int lm_weights_check(const struct lm_weights *w, const struct lm_mix_tensor *list, size_t n,
                     const struct lm_env *env, struct lm_err *err)
{
    uint64_t n_wrong = 0, n_missing = 0, n_plain = 0;
    char first[256] = "", plain[128] = "", what[256], all[320];
    for (size_t i = 0; i < n; i++) {
        const struct lm_mix_tensor *t = &list[i];
        bool wrong, needs = t->needs_weights || t->target->needs_weights;
        if (t->target == t->source || t->target->block == 1)
            continue;
        const struct lm_importance_entry *e = lm_weights_of(w, t, &wrong);
        if (e)
            continue;
        if (wrong) {
            e = lm_importance_find(w->importance, t->name);
            snprintf(what, sizeof what, "tensor %.*s: importance of %" PRIu64 " values, wanted %"
                     PRIu64, 100, t->name, e->width * e->n_mat, t->ne[0] * t->ne[2]);
        } else if (needs)
            snprintf(what, sizeof what, "tensor %.*s: no importance, which %s needs", 100, t->name,
                     t->target->name);
        else {
            if (!is_exempt(t->name) && !n_plain++)
                snprintf(plain, sizeof plain, "%.*s", 100, t->name);
            continue;
        }
        if (!n_wrong++)
            memcpy(first, what, sizeof first);
        else
            lm_note(env, LM_WARN, "%s", what);
        n_missing += !wrong;
    }
    if (n_plain && w->importance)
        lm_note(env, LM_WARN, "no importance for %" PRIu64 " tensors, the first: %s", n_plain,
                plain);
    if (!n_wrong)
        return LM_OK;
    snprintf(all, sizeof all, n_wrong > 1 ? "%s (and %" PRIu64 " more like it)" : "%s", first,
             n_wrong - 1);
    return n_missing == n_wrong ? refuse(w, env, all, err)
                                : lm_fail(err, LM_EDATA, "%s", all);
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
