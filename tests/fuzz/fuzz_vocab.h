/* SPDX-License-Identifier: MIT */
#ifndef LM_FUZZ_VOCAB_H
#define LM_FUZZ_VOCAB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vocab/tokenizer.h"

/* What targets encode with a vocabulary that they loaded. */
static const char fuzz_text[] = "Ab <s> 12\xC3\xA9\xFF \xE2\x96\x81\n\n'll";

/* The text in parts, whose lengths it says itself: the ids are those of the whole. */
static inline void use_parts(struct lm_encoder *e, const char *text, size_t len,
                             const struct lm_ids *want)
{
    struct lm_ids ids = { 0 };
    size_t at = 0;
    for (unsigned on = 0, more = LM_ENCODE_MORE; more; on = LM_ENCODE_ON) {
        size_t n = at < len ? 1 + (unsigned char)text[at] % 29u : 0;
        n = n < len - at ? n : len - at;
        more = at + n < len ? LM_ENCODE_MORE : 0;
        if (lm_encoder_text(e, text + at, n, LM_ENCODE_DEFAULT | on | more, &ids, NULL) != LM_OK)
            abort();
        at += n;
    }
    if (ids.n != want->n || (ids.n && memcmp(ids.id, want->id, ids.n * sizeof *ids.id) != 0))
        abort();
    lm_ids_release(&ids);
}

/*
 * Encode a text with e, and decode its ids.  Spans lie in the text and make no difference; with
 * `exact` the same bytes come back.
 */
static inline void use_encoder(struct lm_encoder *e, const struct lm_vocab *v, const char *text,
                               size_t len, bool exact)
{
    struct lm_ids ids = { 0 }, spans = { .want_spans = true };
    struct lm_buf out = { 0 };
    struct lm_detok *d = lm_detok_new(v, true, NULL);
    if (!d)
        abort();
    int s = lm_encoder_text(e, text, len, LM_ENCODE_DEFAULT, &ids, NULL);
    int t = lm_encoder_text(e, text, len, LM_ENCODE_DEFAULT, &spans, NULL);
    if (s != t || ids.n != spans.n)
        abort();
    if (s == LM_OK)
        use_parts(e, text, len, &ids);
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
    lm_buf_release(&out);
    lm_ids_release(&ids);
    lm_ids_release(&spans);
}

/* The same with an encoder of its own. */
static inline void use_vocab(const struct lm_vocab *v, const char *text, size_t len, bool exact)
{
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    if (!e)
        abort();
    e->window = 1;                               /* so that a text is long */
    use_encoder(e, v, text, len, exact);
    lm_encoder_free(e);
}

#endif
