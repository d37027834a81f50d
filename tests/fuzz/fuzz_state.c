/* SPDX-License-Identifier: MIT */
/* Loading whatever claims to be a saved state, of a decoder or, where it says that there are layers
 * that look at an encoder's text, of a model with one, or, where its number begins so, of one with
 * a draft head or an adapter, where a sequence is there already.  The model's number and the sum at
 * the end are put right, which a mutation hardly ever does, except in inputs of odd size. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEQ = 1, LENGTH = 4 };

static struct {
    const char      *file;
    struct lm_model *model;
    bool             draft;
    uint8_t          number[8];         /* the model's */
    bool             adapted;
    struct lm_adapter *adapter;
} models[] = { { .file = "tests/data/m.gguf" }, { .file = "tests/data/encoders/t5.gguf" },
               { .file = "tests/fuzz/corpus/model/qwen35-draft", .draft = true },
               { .file = "tests/fuzz/corpus/model/qwen35-draft", .adapted = true } };

#define DRAFT 0xd4                      /* where its number begins so */
#define ADAPTED 0xad

static const int32_t ids[LENGTH] = { 3, 1, 2, 1 };

/* A context with a short sequence. */
static struct lm_ctx *context(int i)
{
    struct lm_ctx_options o = {
        .n_ctx = 128, .n_batch = 8, .n_ubatch = 4, .draft_head = models[i].draft,
    };
    struct lm_batch_token t[LENGTH];
    struct lm_ctx *c = lm_ctx_new(models[i].model, &o, NULL, NULL);
    for (uint32_t k = 0; k < LENGTH; k++)
        t[k] = (struct lm_batch_token){ ids[k], SEQ, k, false };
    const struct lm_adapted list = { .adapter = models[i].adapter, .scale = 1 };
    if (c && list.adapter && (lm_ctx_adapt(c, &list, 1, NULL) ||
                              lm_ctx_seq_set_scales(c, SEQ, &(float){ 0.5f }, 1, NULL)))
        abort();
    if (!c || (lm_ctx_has_encoder(c) && lm_ctx_encode(c, SEQ, ids, LENGTH, NULL)) ||
        lm_ctx_decode(c, t, LENGTH, NULL))
        abort();
    return c;
}

/* One of low rank for a weight of the last model, by way of a file. */
static struct lm_adapter *make_adapter(struct lm_model *m, const char *path)
{
    static const float ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_out *out = lm_out_open(path, NULL);
    if (!w || !out)
        abort();
    lm_gguf_set_str(w, "general.architecture", "qwen35", 6);
    lm_gguf_set_str(w, "adapter.type", "lora", 4);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "blk.0.ffn_down.weight.lora_b" : "blk.0.ffn_down.weight.lora_a";
        lm_gguf_add_tensor(w, name, strlen(name), 2, (uint64_t[]){ i ? 2 : 4, i ? 4 : 2 },
                           lm_type_by_id(LM_F32));
    }
    if (lm_gguf_write_head(w, out, NULL) || lm_out_write(out, ones, sizeof ones, NULL) ||
        lm_out_write(out, ones, sizeof ones, NULL) || lm_out_commit(out, NULL))
        abort();
    lm_gguf_writer_free(w);
    return lm_adapter_load(m, path, NULL);
}

/* Write a state to a file, and read the number from it. */
static void start(int i)
{
    char path[] = "/tmp/lmpipe-fuzz-state-XXXXXX";
    int fd = mkstemp(path);
    const struct lm_model_options mo = { .draft_head = models[i].draft };
    models[i].model = lm_model_load(models[i].file, &mo, NULL, NULL);
    if (models[i].adapted && models[i].model &&
        !(models[i].adapter = make_adapter(models[i].model, path)))
        abort();
    struct lm_ctx *c = models[i].model ? context(i) : NULL;
    struct lm_out *out = lm_out_open(path, NULL);
    if (!c || fd < 0 || !out || lm_ctx_save(c, NULL, out, NULL) || lm_out_commit(out, NULL))
        abort();
    close(fd);
    struct lm_in *in = lm_in_open(path, 0, NULL);
    if (!in || lm_in_pread(in, 8, models[i].number, sizeof models[i].number, NULL))
        abort();
    lm_in_close(in);
    unlink(path);
    lm_ctx_free(c);
}

static void mend(uint8_t *copy, size_t size, const uint8_t *number)
{
    struct lm_xxh64 x;
    memcpy(copy + 8, number, 8);
    lm_xxh64_init(&x);
    lm_xxh64_add(&x, copy, size - 8);
    uint64_t sum = lm_xxh64_digest(&x);
    for (int i = 0; i < 8; i++)
        copy[size - 8 + (size_t)i] = (uint8_t)(sum >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/lmpipe-fuzz-state-XXXXXX";
    uint8_t *copy = malloc(size + 1);
    const int i = size < 48 || data[4] != 2 ? 0 : data[44] ? 1
                  : data[8] == DRAFT ? 2 : data[8] == ADAPTED ? 3 : 0;
    int fd = mkstemp(path);
    if (!models[i].model)
        start(i);
    if (!copy || fd < 0)
        abort();
    memcpy(copy, data, size);
    if (size >= 48 && size % 2 == 0)
        mend(copy, size, models[i].number);
    struct lm_ctx *c = context(i);
    struct lm_in *in = NULL;
    if (write(fd, copy, size) == (ssize_t)size && (in = lm_in_open(path, 0, NULL)) &&
        lm_ctx_load(c, in, NULL)) {
        uint32_t id = 0;                /* a failure leaves what was there, and nothing else */
        if (lm_ctx_seqs(c, &id, 1) != 1 || id != SEQ || lm_ctx_seq_len(c, SEQ) != LENGTH)
            abort();
    }
    uint32_t seq = SEQ;                 /* what follows, of whatever is there now */
    struct lm_guessed g;
    if (models[i].draft && lm_ctx_seqs(c, &seq, 1))
        lm_ctx_draft(c, seq, lm_ctx_seq_len(c, seq), 1, 1, &g, NULL);
    if (models[i].adapted && lm_ctx_seqs(c, &seq, 1)) {
        const struct lm_batch_token t = { 1, seq, lm_ctx_seq_len(c, seq), true };
        (void)lm_ctx_decode(c, &t, 1, NULL);
    }
    lm_in_close(in);
    lm_ctx_free(c);
    close(fd);
    unlink(path);
    free(copy);
    return 0;
}
