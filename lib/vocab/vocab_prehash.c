/* SPDX-License-Identifier: MIT */
/* The name of a pre-tokenizer by the ids of a probe, as the reference converter has it. */
#include <stdlib.h>
#include <string.h>

#include "hf/hf_vocab.h"
#include "vocab/tokenizer.h"

const char *lm_vocab_hashed_pre(const struct lm_vocab *v, int32_t bos)
{
    size_t len;
    const char *probe = lm_hf_pretok_probe(&len);
    struct lm_ids plain = { 0 }, with_bos = { 0 };
    const char *name = NULL;
    if (lm_vocab_encode(v, probe, len, LM_ENCODE_DEFAULT, &plain, NULL) == LM_OK) {
        /* older versions of the library put the start token in front, where the file does
         * not say so: rows of that kind tell more */
        bool has = plain.n && plain.id[0] == bos;
        with_bos.id = bos >= 0 && !has ? malloc((plain.n + 1) * sizeof *with_bos.id) : NULL;
        if (with_bos.id) {
            with_bos.id[0] = bos;
            if (plain.n)
                memcpy(with_bos.id + 1, plain.id, plain.n * sizeof *plain.id);
            name = lm_hf_pretok_hashed(with_bos.id, plain.n + 1);
        }
        name = name ? name : lm_hf_pretok_hashed(plain.id, plain.n);
    }
    lm_ids_release(&plain);
    free(with_bos.id);
    return name;
}

const char *lm_vocab_hashed_pre_of(struct lm_hf_source *src, int32_t bos)
{
    char *text = NULL;
    size_t len;
    const char *name = NULL;
    if (lm_hf_load(src, "tokenizer.json", &text, &len, NULL) != LM_OK)
        return NULL;
    struct lm_vocab *v = lm_vocab_from_json(text, len, NULL, NULL);
    if (v)
        name = lm_vocab_hashed_pre(v, bos);
    lm_vocab_free(v);
    free(text);
    return name;
}
