/* SPDX-License-Identifier: MIT */
/* The reader of importance matrices in both forms, and what uses its result. */
#include <stdint.h>
#include <stdlib.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_err err;
    struct lm_in *in = input_of(data, size);
    struct lm_importance *m = lm_importance_read(in, &err);
    if (m)
        use(m);
    lm_importance_free(m);
    lm_in_close(in);
    return 0;
}
