/* SPDX-License-Identifier: MIT */
/* Loading whatever claims to be a saved state.  The model's number and the sum at the end are
 * put right, which a mutation hardly ever does, except in inputs of odd size. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lm_model *model;
static uint8_t number[8];               /* the model's */

/* Write a state to a file, and read the number from it. */
static void start(void)
{
    char path[] = "/tmp/lmpipe-fuzz-state-XXXXXX";
    struct lm_ctx_options o = { .n_ctx = 128, .n_batch = 8, .n_ubatch = 4 };
    int fd = mkstemp(path);
    model = lm_model_load("tests/data/m.gguf", NULL, NULL, NULL);
    struct lm_ctx *c = model ? lm_ctx_new(model, &o, NULL, NULL) : NULL;
    struct lm_out *out = lm_out_open(path, NULL);
    if (!c || fd < 0 || !out || lm_ctx_save(c, NULL, out, NULL) || lm_out_commit(out, NULL))
        abort();
    close(fd);
    struct lm_in *in = lm_in_open(path, 0, NULL);
    if (!in || lm_in_pread(in, 8, number, sizeof number, NULL))
        abort();
    lm_in_close(in);
    unlink(path);
    lm_ctx_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/lmpipe-fuzz-state-XXXXXX";
    struct lm_ctx_options o = { .n_ctx = 128, .n_batch = 8, .n_ubatch = 4 };
    uint8_t *copy = malloc(size + 1);
    int fd = mkstemp(path);
    if (!model)
        start();
    if (!copy || fd < 0)
        abort();
    memcpy(copy, data, size);
    if (size >= 48 && size % 2 == 0) {
        struct lm_xxh64 x;
        memcpy(copy + 8, number, sizeof number);
        lm_xxh64_init(&x);
        lm_xxh64_add(&x, copy, size - 8);
        uint64_t sum = lm_xxh64_digest(&x);
        for (int i = 0; i < 8; i++)
            copy[size - 8 + (size_t)i] = (uint8_t)(sum >> 8 * i);
    }
    struct lm_ctx *c = lm_ctx_new(model, &o, NULL, NULL);
    struct lm_in *in = NULL;
    if (c && write(fd, copy, size) == (ssize_t)size && (in = lm_in_open(path, 0, NULL))) {
        uint32_t id;
        int r = lm_ctx_load(c, in, NULL);
        if (r && lm_ctx_seqs(c, &id, 1))
            abort();                    /* a failure leaves nothing behind */
    }
    lm_in_close(in);
    lm_ctx_free(c);
    close(fd);
    unlink(path);
    free(copy);
    return 0;
}
