/* SPDX-License-Identifier: MIT */
/* A whole checkpoint in an archive: its index, configuration, tokenizer, card, weights, and the
 * conversion of what is accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "job/convert.h"

static void convert(const char *path, const char *type)
{
    const struct lm_convert_options o = { .type = type };
    struct lm_err err = {0};
    struct lm_hf_source *src = lm_hf_open(path, NULL, NULL, &err);
    struct lm_convert *c = src ? lm_convert_new(src, &o, NULL, &err) : NULL;
    if (!c && (err.code >= 0 || !err.text[0]))
        abort();                              /* failed without saying why */
    /* Sparse members can be as large as they like; what they hold is not the question. */
    if (c && lm_convert_size(c) < 1 << 22) {
        const uint64_t size = lm_convert_size(c);
        struct lm_out *out = lm_out_open("/dev/null", NULL);
        if (!out)
            abort();
        if (lm_convert_write(c, out, &err) == LM_OK && lm_out_pos(out) != size)
            abort();
        lm_out_abort(out);
    }
    lm_convert_free(c);
    lm_hf_close(src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *f;
    char path[32];
    if (!f && !(f = tmpfile()))
        abort();
    if (ftruncate(fileno(f), 0) || pwrite(fileno(f), data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(f));
    convert(path, NULL);
    convert(path, "q8_0");
    return 0;
}
