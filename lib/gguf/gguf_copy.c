/* SPDX-License-Identifier: MIT */
/* Tensor data from one file to another, in blocks. */
#include "gguf/gguf_internal.h"

int lm_gguf_copy_data(struct lm_in *in, uint64_t at, const struct lm_gguf_tensor *t,
                      uint8_t *block, size_t size, struct lm_out *out,
                      const struct lm_env *env, struct lm_err *err)
{
    int s = lm_in_skip(in, at - lm_in_pos(in), err);
    for (uint64_t left = t->bytes; left && s == LM_OK;) {
        const size_t n = left < size ? (size_t)left : size;
        s = lm_in_read_all(in, block, n, err);
        if (s != LM_OK)
            break;
        s = lm_out_write(out, block, n, err);
        if (s != LM_OK)
            return lm_err_at(err, s, "%s", lm_out_name(out));
        if (lm_stopped(env))
            return lm_fail(err, LM_ESTOP, "stopped");
        left -= n;
    }
    if (s == LM_OK)
        return s;
    lm_err_at(err, s, "tensor %.*s", LM_NAME_ARG(t->name));
    return lm_err_at(err, s, "%s", lm_in_name(in));
}

int lm_gguf_drain(struct lm_in *in, struct lm_err *err)
{
    char waste[4096];
    size_t got = 1;
    int s = LM_OK;
    while (s == LM_OK && got && !lm_in_seekable(in))
        s = lm_in_read(in, waste, sizeof waste, &got, err);
    return s;
}
