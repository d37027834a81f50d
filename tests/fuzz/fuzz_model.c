/* SPDX-License-Identifier: MIT */
/* Loading and running whatever claims to be a model: a file, a context, two tokens. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(struct lm_model *m)
{
    struct lm_ctx_options o = { .n_ctx = 8, .n_batch = 4, .n_ubatch = 2 };
    struct lm_batch_token t[3] = { { 0, 1, 0, true }, { 1, 1, 1, true }, { 0, 2, 0, false } };
    struct lm_ctx *c = lm_ctx_new(m, &o, NULL, NULL);
    if (c && lm_ctx_decode(c, t, 3, NULL) == LM_OK &&
        (!lm_ctx_logits(c, 0) || lm_ctx_logits(c, 2)))
        abort();
    lm_ctx_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/lmpipe-fuzz-model-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size) {
        struct lm_model_options o = { .load = size % 2 ? LM_LOAD_READ : LM_LOAD_MMAP };
        struct lm_err err;
        struct lm_model *m = lm_model_load(path, &o, NULL, &err);
        if (m)
            run(m);
        lm_model_free(m);
    }
    close(fd);
    unlink(path);
    return 0;
}
