/* SPDX-License-Identifier: MIT */
/* A whole checkpoint in an archive: its index, configuration, tokenizer, card, weights, and the
 * conversion of what is accepted. */
#include "fuzz_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_archive a;
    const struct lm_convert_options o = { .type = NULL };
    const struct lm_convert_options q8_0 = { .type = "q8_0", .pre = "llama-bpe" };
    fuzz_archive_begin(&a);
    if (fwrite(data, 1, size, a.f) != size || fflush(a.f))
        abort();
    fuzz_convert(a.path, &o);
    fuzz_convert(a.path, &q8_0);
    return 0;
}
