/* SPDX-License-Identifier: MIT */
#include "vocab/unicode_runs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/size.h"
#include "vocab/unicode.h"

#define RUNES 0x110000u

/* Case exists below this only, but for these scripts' last, at U+1E943. */
#define CASE_END 0x1E944u

/* Planes that have nothing: asking for each of their code points would take most of the time. */
static const struct {
    uint32_t first, end;
} nothing[] = { { 0x40000, 0xE0000 }, { 0xE1000, 0xF0000 } };

static bool fill_runs(struct lm_uni_runs *u)
{
    size_t cap = 0, k = 0;
    for (uint32_t r = 0; r < RUNES; r++) {
        const uint32_t category = (uint32_t)lm_uni_category(r);
        if (!u->n || u->run[u->n - 1].category != category) {
            if (!lm_grow(&u->run, &cap, u->n + 2, sizeof *u->run))
                return false;
            u->run[u->n++] = (struct lm_uni_run){ r, category };
        }
        if (k < sizeof nothing / sizeof *nothing && r == nothing[k].first)
            r = nothing[k++].end - 1;
    }
    u->run[u->n] = (struct lm_uni_run){ RUNES, 0 };
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct lm_uni_case *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->rune > y->rune) - (x->rune < y->rune);
}

static bool add_case(struct lm_uni_runs *u, size_t *cap, uint32_t key, uint32_t rune)
{
    if (!lm_grow(&u->cased, cap, u->n_cased + 1, sizeof *u->cased))
        return false;
    u->cased[u->n_cased++] = (struct lm_uni_case){ key, rune };
    return true;
}

/* Those that are not their own key, and then their keys. */
static bool fill_cases(struct lm_uni_runs *u)
{
    size_t cap = 0;
    for (uint32_t r = 0; r < CASE_END; r++)
        if (lm_uni_fold(r) != r && !add_case(u, &cap, lm_uni_fold(r), r))
            return false;
    if (!u->n_cased)
        return true;
    qsort(u->cased, u->n_cased, sizeof *u->cased, by_key);
    for (size_t i = 0, n = u->n_cased; i < n; i++) {
        const uint32_t key = u->cased[i].key;
        if ((i == 0 || u->cased[i - 1].key != key) && lm_uni_fold(key) == key &&
            !add_case(u, &cap, key, key))
            return false;
    }
    qsort(u->cased, u->n_cased, sizeof *u->cased, by_key);
    return true;
}

const struct lm_uni_runs *lm_uni_runs(void)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    static struct lm_uni_runs all;
    static atomic_bool ready;
    if (atomic_load_explicit(&ready, memory_order_acquire))
        return &all;
    pthread_mutex_lock(&making);
    bool ok = atomic_load_explicit(&ready, memory_order_relaxed);
    if (!ok) {
        ok = fill_runs(&all) && fill_cases(&all);
        if (!ok) {
            free(all.run);
            free(all.cased);
            all = (struct lm_uni_runs){ 0 };
        }
        atomic_store_explicit(&ready, ok, memory_order_release);
    }
    pthread_mutex_unlock(&making);
    return ok ? &all : NULL;
}
