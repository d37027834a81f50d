/* SPDX-License-Identifier: MIT */
/* What torch.save writes: as a pickle, and as the zip file around one.  What is accepted must be
 * safe to read by. */
#include <stdlib.h>
#include <string.h>

#include "hf/packed.h"
#include "hf/pickle.h"
#include "hf/torch_file.h"

struct bytes {
    const uint8_t *p;
    size_t         n;
};

static int read_bytes(void *user, uint64_t off, void *dst, size_t n, struct lm_err *err)
{
    const struct bytes *b = user;
    if (off > b->n || n > b->n - off)
        return lm_fail(err, LM_EDATA, "ends");
    if (n)
        memcpy(dst, b->p + off, n);
    return LM_OK;
}

static int read_part(void *user, size_t file, const struct lm_st_tensor *t, uint64_t off,
                     void *dst, size_t n, struct lm_err *err)
{
    (void)file;
    if (read_bytes(user, t->begin + off, dst, n, err))
        abort();                              /* a tensor beyond its file */
    return LM_OK;
}

/* The first values of a tensor, and the last. */
static void look(struct bytes *b, const struct lm_st_tensor *t)
{
    struct lm_packed_reader r = { .read = read_part, .user = b };
    uint64_t n = 1;
    uint8_t value[8];
    for (uint32_t d = 0; d < t->n_dims; d++)
        n *= t->shape[d];
    if (t->packed && n)
        for (int k = 0; k < 2; k++)
            if (lm_packed_values(&r, t->packed, k ? n - 1 : 0, 1, value, NULL))
                abort();
    if (!t->packed && (t->begin > b->n || t->bytes > b->n - t->begin))
        abort();
    lm_packed_reader_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_arena a = {0};
    struct lm_err err = {0};
    struct lm_pickle_tensor *list;
    struct lm_safetensors st;
    size_t n;
    struct bytes b = { data, size };
    const struct lm_zip_bytes file = { size, read_bytes, &b };
    if (lm_pickle_read(&a, data, size, &list, &n, &err) && (err.code >= 0 || !err.text[0]))
        abort();                              /* failed without saying why */
    err = (struct lm_err){0};
    if (lm_torch_read(&st, &a, &file, 0, &err) == LM_OK)
        for (size_t i = 0; i < st.n_tensors; i++)
            look(&b, &st.tensors[i]);
    else if (err.code >= 0 || !err.text[0])
        abort();
    lm_arena_release(&a);
    return 0;
}
