/* SPDX-License-Identifier: MIT */
#include "job/hold.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Where text first occurs in h, or SIZE_MAX. */
static size_t find(const struct lm_buf *h, const char *text)
{
    const size_t len = strlen(text);
    for (size_t at = 0; at + len <= h->len; at++)
        if (!memcmp(h->data + at, text, len))
            return at;
    return SIZE_MAX;
}

/* How many bytes at the end of h may be the beginning of text. */
static size_t beginning(const struct lm_buf *h, const char *text)
{
    size_t n = strlen(text) - 1;
    n = n < h->len ? n : h->len;
    while (n && memcmp(h->data + h->len - n, text, n))
        n--;
    return n;
}

/* The first occurrence of any of the texts. */
static size_t find_first(const struct lm_buf *h, const char *const *texts, size_t n)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const size_t at = find(h, texts[i]);
        first = at < first ? at : first;
    }
    return first;
}

/* Where the text that must be held back begins. */
static size_t first_held(const struct lm_buf *h, const struct lm_watch *w)
{
    size_t most = 0;
    for (size_t i = 0; i < w->n_stop + w->n_banned; i++) {
        const char *text = i < w->n_stop ? w->stop[i] : w->banned[i - w->n_stop];
        const size_t n = beginning(h, text);
        most = n > most ? n : most;
    }
    return h->len - most;
}

static size_t start_of(const struct lm_hold *h, size_t i)
{
    return i ? h->ends[i - 1] : 0;
}

static int append(struct lm_hold *h, const struct lm_watch *w, int32_t id, struct lm_err *err)
{
    const struct lm_str piece = lm_vocab_piece(w->vocab, (uint32_t)id);
    if (!lm_grow(&h->ids, &h->ids_cap, h->n + 1, sizeof *h->ids) ||
        !lm_grow(&h->ends, &h->ends_cap, h->n + 1, sizeof *h->ends))
        return lm_fail_nomem(err);
    if (lm_vocab_type(w->vocab, (uint32_t)id) != LM_TOKEN_CONTROL)
        lm_buf_add(&h->text, piece.p, piece.len);
    if (h->text.failed)
        return lm_fail_nomem(err);
    h->ids[h->n] = id;
    h->ends[h->n++] = h->text.len;
    return LM_OK;
}

int lm_hold_add(struct lm_hold *h, const struct lm_watch *w, int32_t id, size_t *n, size_t *cut,
                struct lm_err *err)
{
    if (id < 0 || (uint32_t)id >= lm_vocab_n(w->vocab))
        return lm_fail(err, LM_EDATA, "id %d is outside the vocabulary of -m", (int)id);
    int s = append(h, w, id, err);
    if (s < 0)
        return s;
    const size_t stop = find_first(&h->text, w->stop, w->n_stop);
    const size_t banned = find_first(&h->text, w->banned, w->n_banned);
    const size_t found = stop < banned ? stop : banned;
    const size_t at = found < SIZE_MAX ? found : first_held(&h->text, w);
    *n = 0;
    while (*n < h->n && h->ends[*n] <= at)
        ++*n;
    if (found == SIZE_MAX)
        return LM_HELD_FREE;
    *cut = at - start_of(h, *n);
    return stop < banned ? LM_HELD_STOP : LM_HELD_BANNED;
}

void lm_hold_release(struct lm_hold *h, size_t n)
{
    const size_t bytes = start_of(h, n);
    memmove(h->ids, h->ids + n, (h->n - n) * sizeof *h->ids);
    for (size_t i = n; i < h->n; i++)
        h->ends[i - n] = h->ends[i] - bytes;
    h->n -= n;
    memmove(h->text.data, h->text.data + bytes, h->text.len - bytes);
    h->text.len -= bytes;
}

void lm_hold_keep(struct lm_hold *h, size_t n)
{
    h->text.len = start_of(h, n);
    h->n = n;
}

/* The piece that is the longest beginning of text [len], or -1. */
static int32_t longest_piece(const struct lm_vocab *v, const char *text, size_t len, size_t *used)
{
    int32_t best = -1;
    *used = 0;
    for (uint32_t id = 0; id < lm_vocab_n(v); id++) {
        const struct lm_str p = lm_vocab_piece(v, id);
        const enum lm_token_type type = lm_vocab_type(v, id);
        if (p.len > *used && p.len <= len && !memcmp(p.p, text, p.len) &&
            (type == LM_TOKEN_NORMAL || type == LM_TOKEN_BYTE)) {
            best = (int32_t)id;
            *used = p.len;
        }
    }
    return best;
}

int lm_hold_beginning(const struct lm_hold *h, const struct lm_watch *w, size_t i, size_t cut,
                      struct lm_ids *out, struct lm_err *err)
{
    const char *text = h->text.data + start_of(h, i);
    while (cut) {
        size_t used;
        const int32_t id = longest_piece(w->vocab, text, cut, &used);
        if (id < 0)
            break;
        if (!lm_grow(&out->id, &out->cap, out->n + 1, sizeof *out->id))
            return lm_fail_nomem(err);
        out->id[out->n++] = id;
        text += used;
        cut -= used;
    }
    return LM_OK;
}

void lm_hold_free(struct lm_hold *h)
{
    free(h->ids);
    free(h->ends);
    lm_buf_release(&h->text);
    *h = (struct lm_hold){ 0 };
}
