/* SPDX-License-Identifier: MIT */
/* SentencePiece model files: a protocol buffer with a vocabulary, which is used on a fixed text,
 * and maybe a precompiled charsmap. */
#include "fuzz_vocab.h"
#include "vocab/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char more[] = "\xEF\xAC\x81 e\xCC\x81 \xEF\xBC\xA1  [TOOL]x \xE2\x80\xA6";
    struct lm_vocab *v = lm_vocab_from_spm((const char *)data, size, NULL, NULL);
    if (v) {
        use_vocab(v, fuzz_text, sizeof fuzz_text, false);
        use_vocab(v, more, sizeof more, false);
    }
    lm_vocab_free(v);
    return 0;
}
