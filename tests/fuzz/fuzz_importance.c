/* SPDX-License-Identifier: MIT */
/* The reader of importance matrices in both forms, and what uses its result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/imatrix.h"
#include "fuzz_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct lm_importance *m)
{
    static const char *const names[2] = { "a", "b" };
    const struct lm_importance *const two[2] = { m, m };
    struct lm_imatrix_stats s;
    struct lm_err err;
    for (size_t i = 0; i < m->n; i++) {
        if (lm_importance_find(m, m->entries[i].name) != &m->entries[i])
            abort();
        lm_imatrix_entry_stats(m, i, &s, &err);
    }
    struct lm_importance *sum = lm_imatrix_merge(two, names, NULL, 2, &err);
    struct lm_out *out = lm_out_open("/dev/null", &err);
    if (!out || (m->legacy && sum))
        abort();
    if (sum && (sum->n != m->n || lm_importance_write(sum, out, &err)))
        abort();
    lm_out_abort(out);
    lm_importance_free(sum);
}

/* Where sums stay in the file, there are the same. */
static void leave(const uint8_t *data, size_t size, const struct lm_importance *m)
{
    struct lm_err err;
    struct lm_in *in = input_of(data, size);
    struct lm_importance *o = lm_importance_open(in, &err);
    if (!m != !o || (m && m->n != o->n))
        abort();
    for (size_t i = 0; m && i < m->n; i++) {
        const size_t n = (size_t)(m->entries[i].width * m->entries[i].n_mat);
        float *a = malloc(2 * n * sizeof *a);
        if (!a || lm_importance_means(&m->entries[i], a, &err) ||
            lm_importance_means(&o->entries[i], a + n, &err) || memcmp(a, a + n, n * sizeof *a))
            abort();
        free(a);
    }
    lm_importance_free(o);
    lm_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_err err;
    struct lm_in *in = input_of(data, size);
    struct lm_importance *m = lm_importance_read(in, &err);
    leave(data, size, m);
    if (m)
        use(m);
    lm_importance_free(m);
    lm_in_close(in);
    return 0;
}
