/* SPDX-License-Identifier: MIT */
/*
 * The smaller forms of vocabularies; the first byte says which, the rest is the file: t tiktoken,
 * k tekken.json, r RWKV, w vocab.txt; c a precompiled charsmap, and b text for BERT's
 * normalization, whose flags are the second byte.
 */
#include "fuzz_vocab.h"
#include "vocab/bert_text.h"
#include "vocab/charsmap.h"
#include "vocab/tokenizer.h"

typedef struct lm_vocab *reader(const char *data, size_t len, const struct lm_env *env,
                                struct lm_err *err);

static void charsmap(const char *data, size_t size)
{
    static const char text[] = "\xEF\xAC\x81 e\xCC\x81 \xEF\xBC\xA1\r\n\xE2\x80\xA6\xFF";
    struct lm_charsmap m;
    struct lm_buf out = { 0 };
    struct lm_remap map = { 0 };
    struct lm_str to;
    if (lm_charsmap_init(&m, data, size, NULL) == LM_OK) {
        if (lm_charsmap_apply(&m, text, sizeof text, &out, &map, NULL) != LM_OK)
            abort();
        for (size_t i = 0; i < sizeof text; i++)
            lm_charsmap_longest(&m, text + i, text + sizeof text, &to, NULL);
    }
    lm_charsmap_release(&m);
    lm_buf_release(&out);
    free(map.e);
}

static void bert(const char *data, size_t size)
{
    struct lm_buf out = { 0 }, same = { 0 };
    struct lm_remap map = { 0 };
    unsigned opts = size ? (unsigned char)data[0] & 15u : 0;
    size_t n = size ? size - 1 : 0;
    if (lm_bert_normalize(data + (size > 0), n, opts, &out, &map, NULL) != LM_OK ||
        lm_bert_normalize(data + (size > 0), n, opts, &same, NULL, NULL) != LM_OK)
        abort();
    if (out.len != same.len || (out.len && memcmp(out.data, same.data, out.len) != 0))
        abort();
    for (size_t i = 0, at = 0; i <= out.len; i++) {
        size_t from = lm_remap_find(&map, i);
        if (from < at || from > n)
            abort();
        at = from;
    }
    lm_buf_release(&out);
    lm_buf_release(&same);
    free(map.e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data + 1;
    if (size < 1)
        return 0;
    if (data[0] == 'c')
        charsmap(p, size - 1);
    else if (data[0] == 'b')
        bert(p, size - 1);
    reader *read = data[0] == 't'   ? lm_vocab_from_ranks
                   : data[0] == 'k' ? lm_vocab_from_tekken
                   : data[0] == 'r' ? lm_vocab_from_rwkv
                   : data[0] == 'w' ? lm_vocab_from_txt
                                    : NULL;
    struct lm_vocab *v = read ? read(p, size - 1, NULL, NULL) : NULL;
    if (v)
        use_vocab(v, fuzz_text, sizeof fuzz_text, false);
    lm_vocab_free(v);
    return 0;
}
