/* SPDX-License-Identifier: MIT */
/* From ids to text, a piece at a time. */
#include <stdlib.h>
#include <string.h>

#include "vocab/vocab_rules.h"

struct lm_detok {
    const struct lm_vocab *v;
    bool                   special;
    bool                   strip;        /* the next text begins with an added space */
    bool                   begun;        /* a piece was there in this sequence       */
    char                   held[4];      /* the begin of a character                 */
    size_t                 n_held;
    struct lm_rules_detok *rules;        /* NULL: the pieces' bytes follow each other */
    struct lm_buf          text;         /* what a token became by them              */
};

struct lm_detok *lm_detok_new(const struct lm_vocab *v, bool special, struct lm_err *err)
{
    struct lm_detok *d = calloc(1, sizeof *d);
    if (!d) {
        lm_fail_nomem(err);
        return NULL;
    }
    d->v = v;
    d->special = special;
    d->strip = v->space_prefix;
    if (v->rules && !(d->rules = lm_rules_detok_new(v->rules))) {
        free(d);
        lm_fail_nomem(err);
        return NULL;
    }
    return d;
}

void lm_detok_free(struct lm_detok *d)
{
    if (!d)
        return;
    lm_rules_detok_free(d->rules);
    lm_buf_release(&d->text);
    free(d);
}

/* How many bytes at the end of p[0..len) begin a well-formed character that goes on. */
static size_t open_tail(const char *p, size_t len)
{
    for (size_t k = 1; k <= 3 && k <= len; k++) {
        unsigned char c = (unsigned char)p[len - k];
        if ((c & 0xC0) == 0x80)
            continue;
        if (c < 0xC2 || c > 0xF4)
            return 0;
        size_t need = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        if (k >= need)
            return 0;
        unsigned char second = k > 1 ? (unsigned char)p[len - k + 1] : 0x90;
        bool bad = (c == 0xE0 && second < 0xA0 && k > 1) || (c == 0xED && second > 0x9F) ||
                   (c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F && k > 1);
        return bad ? 0 : k;
    }
    return 0;
}

/* Without spaces in front, at most n of them. */
static struct lm_str without_spaces(struct lm_str s, size_t n)
{
    for (; n && s.len && *s.p == ' '; n--) {
        s.p++;
        s.len--;
    }
    return s;
}

/* What a piece that is shown is in the text: its bytes, but for spaces that were put in front. */
static struct lm_str joined(struct lm_detok *d, int32_t id, enum lm_token_type type)
{
    const struct lm_vocab *v = d->v;
    struct lm_str s = lm_vocab_piece(v, (uint32_t)id);
    size_t len = s.len;
    bool begun = d->begun;
    d->begun = true;
    switch (v->join) {
    case LM_JOIN_PREFIX:
        if (type == LM_TOKEN_NORMAL && d->strip)
            s = without_spaces(s, 1);
        d->strip = v->space_prefix && type == LM_TOKEN_USER;
        break;
    case LM_JOIN_WORDS:
        s = without_spaces(s, begun ? 0 : 1);
        break;
    case LM_JOIN_MARKS:
        s = without_spaces(s, begun || !v->space_prefix ? 0 : SIZE_MAX);
        break;
    case LM_JOIN_ONE:
        s = without_spaces(s, begun ? 0 : 1);
        d->begun = begun || len > 0;
        break;
    case LM_JOIN_EACH:
        s = without_spaces(s, begun ? 0 : 1);
        d->begun = begun || s.len > 0;
        break;
    }
    return s;
}

/* Append text, but hold back the begin of a character. */
static int put(struct lm_detok *d, struct lm_str s, struct lm_buf *out, struct lm_err *err)
{
    size_t from = out->len;
    lm_buf_add(out, d->held, d->n_held);
    lm_buf_add(out, s.p, s.len);
    if (out->failed)
        return lm_fail_nomem(err);
    d->n_held = open_tail(out->data + from, out->len - from);
    out->len -= d->n_held;
    memcpy(d->held, out->data + out->len, d->n_held);
    out->data[out->len] = 0;
    return LM_OK;
}

int lm_detok_id(struct lm_detok *d, int32_t id, struct lm_buf *out, struct lm_err *err)
{
    const struct lm_vocab *v = d->v;
    if (id < 0 || (uint32_t)id >= v->n)
        return lm_fail(err, LM_EDATA, "id %d is not in the vocabulary, which has %u entries",
                       (int)id, v->n);
    enum lm_token_type type = (enum lm_token_type)v->type[id];
    bool control = type == LM_TOKEN_CONTROL || type == LM_TOKEN_UNKNOWN;
    if (d->rules) {
        if (control && !d->special)
            return LM_OK;
        lm_buf_clear(&d->text);
        lm_buf_add(&d->text, "", 0);
        int r = lm_rules_detok_add(d->rules, lm_rules_shown(v, (uint32_t)id), &d->text, err);
        return r == LM_OK ? put(d, (struct lm_str){ d->text.data, d->text.len }, out, err) : r;
    }
    return control && !d->special ? LM_OK : put(d, joined(d, id, type), out, err);
}

void lm_detok_end(struct lm_detok *d, struct lm_buf *out)
{
    if (d->rules) {
        lm_buf_clear(&d->text);
        lm_buf_add(&d->text, "", 0);
        if (lm_rules_detok_end(d->rules, &d->text, NULL) != LM_OK)
            out->failed = true;
        put(d, (struct lm_str){ d->text.data, d->text.len }, out, NULL);
    }
    lm_buf_add(out, d->held, d->n_held);
    d->n_held = 0;
    d->strip = d->v->space_prefix;
    d->begun = false;
}
