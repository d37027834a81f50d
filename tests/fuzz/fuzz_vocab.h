/* SPDX-License-Identifier: MIT */
#ifndef LM_FUZZ_VOCAB_H
#define LM_FUZZ_VOCAB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vocab/vocab.h"

/* What targets encode with a vocabulary that they loaded. */
static const char fuzz_text[] = "Ab <s> 12\xC3\xA9\xFF \xE2\x96\x81\n\n'll";

/*
 * Encode a text, and decode its ids.  Spans lie in the text and make no difference; with
 * `exact` the same bytes come back.
 */
static inline void use_vocab(const struct lm_vocab *v, const char *text, size_t len, bool exact)
{
    struct lm_ids ids = { 0 }, spans = { .want_spans = true };
    struct lm_buf out = { 0 };
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    struct lm_detok *d = lm_detok_new(v, true, NULL);
    if (!e || !d)
        abort();
    int s = lm_encoder_text(e, text, len, LM_ENCODE_DEFAULT, &ids, NULL);
    int t = lm_encoder_text(e, text, len, LM_ENCODE_DEFAULT, &spans, NULL);
    if (s != t || ids.n != spans.n)
        abort();
    lm_buf_add(&out, "", 0);
    for (size_t i = 0; i < ids.n; i++) {
        if (ids.id[i] != spans.id[i] || spans.span[i].at > len ||
            spans.span[i].len > len - spans.span[i].at)
            abort();
        if (lm_detok_id(d, ids.id[i], &out, NULL) != LM_OK)
            abort();
    }
    lm_detok_end(d, &out);
    if (exact && (out.len != len || memcmp(out.data, text, len) != 0))
        abort();
    lm_detok_free(d);
    lm_encoder_free(e);
    lm_buf_release(&out);
    lm_ids_release(&ids);
    lm_ids_release(&spans);
}

#endif
