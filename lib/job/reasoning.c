/* SPDX-License-Identifier: MIT */
#include "job/reasoning.h"

#include <string.h>

/* Is tag at the end of the text, but for what the last n bytes have after it?  What comes up to
 * its end is dropped. */
static bool take_tag(struct lm_buf *b, size_t n, const char *tag)
{
    const size_t len = strlen(tag);
    size_t at = b->len > n + len - 1 ? b->len - n - len + 1 : 0;
    for (; at + len <= b->len; at++)
        if (!memcmp(b->data + at, tag, len)) {
            b->len -= at + len;
            memmove(b->data, b->data + at + len, b->len);
            return true;
        }
    return false;
}

int lm_thinking_add(struct lm_thinking *t, const struct lm_reasoning *r, uint32_t id, bool prompt,
                    struct lm_err *err)
{
    const struct lm_str piece = id < lm_vocab_n(r->vocab) ? lm_vocab_piece(r->vocab, id)
                                                          : (struct lm_str){ "", 0 };
    const size_t start = strlen(r->start), end = strlen(r->end), most = start > end ? start : end;
    bool was_inside = t->inside;
    lm_buf_add(&t->tail, piece.p, piece.len);
    if (t->tail.failed)
        return lm_fail_nomem(err);
    for (size_t n = piece.len; take_tag(&t->tail, n, t->inside ? r->end : r->start);
         n = t->tail.len)
        t->inside = !t->inside;
    if (t->tail.len > most) {
        memmove(t->tail.data, t->tail.data + t->tail.len - most, most);
        t->tail.len = most;
    }
    t->n += was_inside && t->inside && !prompt;
    return t->inside && !prompt && !t->ending && t->n >= r->most;
}

void lm_thinking_reset(struct lm_thinking *t)
{
    lm_buf_clear(&t->tail);
    t->n = 0;
    t->inside = t->ending = false;
}

void lm_thinking_release(struct lm_thinking *t)
{
    lm_buf_release(&t->tail);
}
