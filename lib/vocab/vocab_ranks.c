/* SPDX-License-Identifier: MIT */
/* Vocabularies in files that are lists of byte strings (hf/rank_files.h), by themselves. */

#include <string.h>

#include "hf/rank_files.h"
#include "vocab/tokenizer.h"

/* What messages say where a file has no start token, end token, separator. */
#define UNKNOWN "ranks name no special tokens, and none is known for this number of them"
static const char *const ranks_lack[LM_N_NAMED] = { UNKNOWN, UNKNOWN, UNKNOWN };
static const char *const tekken_lacks[LM_N_NAMED] = {
    "special_tokens has no <s>", "special_tokens has no </s>", "special_tokens has no [SEP]",
};
static const char *const rwkv_lacks[LM_N_NAMED] = {
    "the list has none", "the list has none", "the list has none, and no piece [SEP]",
};

static struct lm_vocab *load(lm_rank_reader *read, const char *const lacks[], const char *data,
                             size_t len, const struct lm_env *env, struct lm_err *err)
{
    struct lm_rank_file f = { 0 };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    struct lm_vocab *v = NULL;
    if (read(&f, data, len, err) == LM_OK) {
        const bool bpe = !strcmp(f.model, "gpt2");
        if (bpe && !f.pre)
            lm_note(env, LM_WARN, "%llu ranks, a size that is not known: words are cut as by "
                    "cl100k_base ('llama-bpe' in GGUF), and there are no control tokens",
                    (unsigned long long)f.n_ranks);
        const char *pre = f.pre ? f.pre : bpe ? "llama-bpe" : "";
        src.model = (struct lm_str){ f.model, strlen(f.model) };
        src.pre = (struct lm_str){ pre, strlen(pre) };
        src.tokens = f.text;
        src.types = f.type;
        src.n = f.n;
        src.by_ranks = bpe;
        if (f.whole) {
            src.nfc = f.nfc;
            src.whole_words = 1;
        }
        src.bos = f.bos;
        src.eos = f.eos;
        src.unk = f.unk;
        memcpy(src.lacks, lacks, sizeof src.lacks);
        if (bpe) {
            src.add_bos = f.add_bos;
            src.add_eos = 0;
        }
        v = lm_vocab_load(&src, env, err);
    }
    lm_rank_release(&f);
    return v;
}

struct lm_vocab *lm_vocab_from_ranks(const char *data, size_t len, const struct lm_env *env,
                                     struct lm_err *err)
{
    return load(lm_rank_tiktoken, ranks_lack, data, len, env, err);
}

struct lm_vocab *lm_vocab_from_tekken(const char *data, size_t len, const struct lm_env *env,
                                      struct lm_err *err)
{
    return load(lm_rank_tekken, tekken_lacks, data, len, env, err);
}

struct lm_vocab *lm_vocab_from_rwkv(const char *data, size_t len, const struct lm_env *env,
                                    struct lm_err *err)
{
    return load(lm_rank_rwkv, rwkv_lacks, data, len, env, err);
}
