/* SPDX-License-Identifier: MIT */
#include "stream/words.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 65536 };

int lm_words_init(struct lm_words *w, struct lm_in *in, struct lm_err *err)
{
    *w = (struct lm_words){.in = in, .last = LM_WORD_GOT};
    w->buf = malloc(BUFFER);
    return w->buf ? LM_OK : lm_fail_nomem(err);
}

void lm_words_release(struct lm_words *w)
{
    free(w->buf);
    w->buf = NULL;
}

/* Read what is there behind the bytes at hand, waiting if there is nothing.
 * Only called with room left in the buffer. */
static int refill(struct lm_words *w, struct lm_err *err)
{
    size_t got;
    if (w->pos) {
        memmove(w->buf, w->buf + w->pos, w->len - w->pos);
        w->len -= w->pos;
        w->pos = 0;
    }
    int s = lm_in_read_some(w->in, w->buf + w->len, BUFFER - w->len, &got, err);
    if (s)
        return s;
    w->len += got;
    w->eof = got == 0;
    return LM_OK;
}

/* Make sure there is a byte at pos: 1 yes, 0 end of input, below 0 a code. */
static int more(struct lm_words *w)
{
    if (w->pos < w->len)
        return 1;
    if (!w->eof) {
        int s = refill(w, &w->why);
        if (s)
            return s;
    }
    return w->pos < w->len;
}

static bool is_end(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Collect a word, of which at least one byte is there.  The byte after it stays. */
static int collect(struct lm_words *w)
{
    int s;
    w->word_len = 0;
    while ((s = more(w)) > 0 && !is_end(w->buf[w->pos])) {
        char c = w->buf[w->pos++];
        if (w->word_len < sizeof w->word - 1)
            w->word[w->word_len] = c;
        w->word_len++;
    }
    w->word[w->word_len < sizeof w->word - 1 ? w->word_len : sizeof w->word - 1] = 0;
    return s;
}

/* After '!': the rest of the line without leading blanks, or as much as fits.
 * NUL has no place in a message and becomes '?'. */
static void collect_text(struct lm_words *w)
{
    size_t n = 0;
    while (n < sizeof w->text - 1 && more(w) > 0 && w->buf[w->pos] != '\n') {
        char c = w->buf[w->pos++];
        if (n || !is_end(c))
            w->text[n++] = c ? c : '?';
    }
    w->text[n] = 0;
}

static enum lm_word_event finish(struct lm_words *w, enum lm_word_event e)
{
    return w->last = e;
}

static enum lm_word_event next(struct lm_words *w)
{
    int s;
    while ((s = more(w)) > 0) {
        char c = w->buf[w->pos];
        w->in_line = true;
        if (c == '\n') {
            w->pos++;
            w->in_line = false;
            w->line_done = true;
            return LM_WORD_LINE;
        }
        if (c == ' ' || c == '\t') {
            w->pos++;
            continue;
        }
        if (c == '!') {
            w->pos++;
            collect_text(w);
            return finish(w, LM_WORD_PEER);
        }
        if ((s = collect(w)) > 0)
            return LM_WORD_GOT;
        break;                          /* a word that nothing ends is no word */
    }
    if (s < 0)
        return finish(w, LM_WORD_FAILED);
    return finish(w, w->in_line ? LM_WORD_CUT : LM_WORD_END);
}

enum lm_word_event lm_words_next(struct lm_words *w, struct lm_err *err)
{
    enum lm_word_event e = w->last;
    if (e == LM_WORD_GOT) {
        if (w->line_done) {
            w->line++;
            w->line_done = false;
        }
        e = next(w);
    }
    if (e == LM_WORD_FAILED && err)
        *err = w->why;
    return e;
}

bool lm_words_ready(struct lm_words *w)
{
    for (;;) {
        if (w->last != LM_WORD_GOT || w->eof ||
            memchr(w->buf + w->pos, '\n', w->len - w->pos))
            return true;
        if (w->len - w->pos == BUFFER)
            return false;
        struct pollfd p = {.fd = lm_in_fd(w->in), .events = POLLIN};
        if (poll(&p, 1, 0) <= 0)
            return false;
        if (refill(w, &w->why)) {
            finish(w, LM_WORD_FAILED);
            return true;
        }
    }
}

bool lm_words_full(const struct lm_words *w)
{
    return w->len - w->pos == BUFFER;
}

enum lm_word_id lm_word_id(const struct lm_words *w, int32_t *id)
{
    size_t i = w->word[0] == '-', n = w->word_len;
    uint32_t v = 0;
    if (n >= sizeof w->word || i == n)
        return LM_WORD_OTHER;
    bool big = i;
    for (; i < n; i++) {
        char c = w->word[i];
        if (c < '0' || c > '9')
            return LM_WORD_OTHER;
        if (v > (INT32_MAX - (uint32_t)(c - '0')) / 10)
            big = true;
        else
            v = v * 10 + (uint32_t)(c - '0');
    }
    if (big)
        return LM_WORD_BEYOND;
    *id = (int32_t)v;
    return LM_WORD_ID;
}

bool lm_word_f32(const struct lm_words *w, float *out)
{
    char *end;
    if (w->word_len >= sizeof w->word || strspn(w->word, "0123456789.+-eE") != w->word_len)
        return false;
    *out = strtof(w->word, &end);
    return *end == 0 && isfinite(*out);
}

const char *lm_word_show(const struct lm_words *w, char out[LM_WORD_SHOWN])
{
    const size_t most = sizeof w->word - 1, n = w->word_len < most ? w->word_len : most;
    char *to = out;
    for (size_t i = 0; i < n; i++)
        if (w->word[i])
            *to++ = w->word[i];
        else
            to = stpcpy(to, "\\x00");
    strcpy(to, w->word_len > most ? "..." : "");
    return out;
}

bool lm_word_u32(const char *s, size_t len, uint32_t *out)
{
    uint32_t v = 0;
    if (!len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9' || v > (UINT32_MAX - (uint32_t)(s[i] - '0')) / 10)
            return false;
        v = v * 10 + (uint32_t)(s[i] - '0');
    }
    *out = v;
    return true;
}
