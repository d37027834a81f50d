/* SPDX-License-Identifier: MIT */
#include "sample/dry_breakers.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define TAIL 20              /* most tokens behind the first one */

/* Is text [len] somewhere in s? */
static bool contains(struct lm_str s, const char *text, size_t len)
{
    while (s.len >= len) {
        const char *p = memchr(s.p, text[0], s.len - len + 1);
        if (!p)
            return false;
        if (!memcmp(p, text, len))
            return true;
        s.len -= (size_t)(p + 1 - s.p);
        s.p = p + 1;
    }
    return false;
}

/* Append the sequence: head, then tail [n]. */
static int append(struct lm_breakers *b, uint32_t head, const int32_t *tail, size_t n,
                  struct lm_err *err)
{
    const size_t used = b->n ? b->ends[b->n - 1] : 0;
    if (!lm_grow(&b->ids, &b->ids_cap, used + 1 + n, sizeof *b->ids) ||
        !lm_grow(&b->ends, &b->ends_cap, b->n + 1, sizeof *b->ends))
        return lm_fail_nomem(err);
    b->ids[used] = head;
    for (size_t i = 0; i < n; i++)
        b->ids[used + 1 + i] = (uint32_t)tail[i];
    b->ends[b->n++] = used + 1 + n;
    return LM_OK;
}

/* Sequences that begin with token id: for each beginning of the text that its bytes end in. */
static int append_heads(struct lm_breakers *b, uint32_t id, struct lm_str piece, const char *text,
                        size_t len, const struct lm_ids *tails, struct lm_err *err)
{
    for (size_t k = len - 1; k > 0; k--) {
        if (piece.len < k || memcmp(piece.p + piece.len - k, text, k))
            continue;
        const size_t n = tails[k].n < TAIL ? tails[k].n : TAIL;
        int s = append(b, id, tails[k].id, n, err);
        if (s < 0)
            return s;
    }
    return LM_OK;
}

int lm_breakers_add(struct lm_breakers *b, const struct lm_vocab *v, const char *text, size_t len,
                    struct lm_err *err)
{
    struct lm_ids tails[LM_BREAKER_BYTES] = { 0 };     /* of the text from byte k on */
    int s = LM_OK;
    len = len < LM_BREAKER_BYTES ? len : LM_BREAKER_BYTES;
    for (size_t k = 1; s == LM_OK && k < len; k++)
        s = lm_vocab_encode(v, text + k, len - k, 0, &tails[k], err);
    for (uint32_t id = 0; s == LM_OK && id < lm_vocab_n(v); id++) {
        const struct lm_str piece = lm_vocab_piece(v, id);
        if (contains(piece, text, len))
            s = append(b, id, NULL, 0, err);
        else
            s = append_heads(b, id, piece, text, len, tails, err);
    }
    for (size_t k = 1; k < len; k++)
        lm_ids_release(&tails[k]);
    return s;
}

void lm_breakers_release(struct lm_breakers *b)
{
    free(b->ids);
    free(b->ends);
    *b = (struct lm_breakers){ 0 };
}
