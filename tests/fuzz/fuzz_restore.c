/* SPDX-License-Identifier: MIT */
/* A checkpoint of whatever the bytes are, if they are a model that has one. */
#include "job/restore.h"
#include "fuzz_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_err err = { 0 };
    struct lm_in *in = input_of(data, size);
    struct lm_restore *r = lm_restore_new(in, NULL, NULL, &err);
    size_t len = 0;
    if (!r && err.code >= 0)
        abort();                              /* failed without saying why */
    struct lm_out *out = r ? lm_out_open("/dev/null", &err) : NULL;
    if (out) {
        if (!lm_restore_config(r, &len) || !len)
            abort();
        if (lm_restore_write(r, out, &err) && err.code >= 0)
            abort();
        lm_out_abort(out);
    }
    lm_restore_free(r);
    lm_in_close(in);
    return 0;
}
