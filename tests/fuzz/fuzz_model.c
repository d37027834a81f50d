/* SPDX-License-Identifier: MIT */
/* Loading and running whatever claims to be a model: a file, a context, three tokens; of an encoder
 * what becomes of them, and what a draft head guesses. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void classify(const struct lm_model *m, struct lm_ctx *c)
{
    float *out = malloc(lm_model_n_labels(m) * sizeof *out);
    if (out)
        lm_ctx_classify(c, lm_ctx_logits(c, 0), out, NULL);
    free(out);
}

static void guess(struct lm_ctx *c)
{
    struct lm_guessed g[2];
    if (lm_ctx_draft(c, 1, 2, 0, 2, g, NULL) == LM_OK &&
        (lm_ctx_seq_len(c, 1) != 2 || lm_ctx_draft(c, 1, 1, 1, 1, g, NULL)))
        abort();
}

static void run(struct lm_model *m, bool draft)
{
    const bool vectors = lm_model_is_encoder(m) || lm_model_n_labels(m);
    struct lm_ctx_options o = {
        .n_ctx = 8, .n_batch = 4, .n_ubatch = 2, .embed = vectors, .pairs = vectors,
        .draft_head = draft,
    };
    struct lm_batch_token t[3] = { { 0, 1, 0, true }, { 1, 1, 1, true }, { 0, 2, 0, false } };
    struct lm_ctx *c = lm_ctx_new(m, &o, NULL, NULL);
    if (c && lm_ctx_has_encoder(c))
        for (uint32_t seq = 1; seq < 3; seq++)
            if (lm_ctx_encode(c, seq, (const int32_t[]){ 1, 0 }, 2, NULL) == LM_OK &&
                lm_ctx_encoder_len(c, seq) != 2)
                abort();
    if (c && lm_ctx_decode(c, t, 3, NULL) == LM_OK) {
        if (!lm_ctx_logits(c, 0) || lm_ctx_logits(c, 2))
            abort();
        if (lm_model_n_labels(m))
            classify(m, c);
        if (draft)
            guess(c);
    }
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
        const bool further = m && lm_model_reads(m, "nextn_predict_layers");
        if (m)
            run(m, false);
        lm_model_free(m);
        o.draft_head = true;
        if (further && (m = lm_model_load(path, &o, NULL, &err))) {
            run(m, true);
            lm_model_free(m);
        }
    }
    close(fd);
    unlink(path);
    return 0;
}
