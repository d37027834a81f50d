/* SPDX-License-Identifier: MIT */
#ifndef LM_TEST_GRAMMAR_CASES_H
#define LM_TEST_GRAMMAR_CASES_H

/* What the tests of grammars and of triggers share: where reference values are, and SmolLM2.
 * cmocka's headers come first. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/json.h"
#include "io/input.h"
#include "vocab/vocab.h"

static const char *shared_dir(void)
{
    const char *shared = getenv("LMPIPE_SHARED");
    return shared ? shared : "../shared";
}

static const struct lm_jval *read_json(struct lm_arena *a, const char *path)
{
    char *text;
    size_t len;
    struct lm_err err;
    if (lm_read_file(path, 1 << 24, &text, &len, &err) < 0)
        return NULL;
    const struct lm_jval *v = lm_json_tree(a, text, len, &err);
    free(text);
    assert_non_null(v);
    return v;
}

/* SmolLM2's vocabulary, or NULL. */
static struct lm_vocab *smollm2(void)
{
    const char *model = getenv("LMPIPE_MODEL");
    char path[400];
    struct lm_err err;
    snprintf(path, sizeof path, "%s/.cache/lmpipe/SmolLM2-135M-Instruct.Q4_1.gguf",
             getenv("HOME") ? getenv("HOME") : "");
    return lm_vocab_open(model ? model : path, NULL, &err);
}

/* A mask has as many ids as the case says, with that hash. */
static void check_mask_ids(const uint64_t *mask, uint32_t n, const struct lm_jval *c,
                           const char *name)
{
    int64_t count = 0, want;
    uint32_t *ids = malloc(n * sizeof *ids);
    for (uint32_t id = 0; id < n; id++)
        if (mask[id / 64] >> id % 64 & 1)
            ids[count++] = id;
    assert_true(lm_jval_i64(lm_jval_get(c, "count"), &want));
    if (count != want)
        fail_msg("%s: %d ids, not %d", name, (int)count, (int)want);
    unsigned char digest[32];
    char hex[65];
    struct lm_sha256 sum;
    lm_sha256_init(&sum);
    lm_sha256_add(&sum, ids, (size_t)count * sizeof *ids);
    lm_sha256_digest(&sum, digest);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, lm_jval_str(lm_jval_get(c, "sha256")));
    free(ids);
}

#endif
