/* SPDX-License-Identifier: MIT */
#include "job/trigger.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/size.h"

#define STEPS 10000000           /* of a search that is given up after them */

static int add(struct lm_triggers *t, struct lm_trigger x, struct lm_err *err)
{
    if (!lm_grow(&t->list, &t->cap, t->n + 1, sizeof *t->list)) {
        pcre2_code_free(x.code);
        return lm_fail_nomem(err);
    }
    t->list[t->n++] = x;
    return LM_OK;
}

int lm_triggers_add(struct lm_triggers *t, enum lm_trigger_kind kind, const char *text,
                    struct lm_err *err)
{
    /* What ECMAScript has and Perl has not, and characters instead of bytes. */
    const uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_ALT_BSUX |
                             PCRE2_ALLOW_EMPTY_CLASS | PCRE2_MATCH_UNSET_BACKREF |
                             PCRE2_DOLLAR_ENDONLY;
    struct lm_trigger x = { .kind = kind, .text = text };
    int code;
    PCRE2_SIZE at;
    if (kind == LM_TRIGGER_TEXT)
        return add(t, x, err);
    x.code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);
    if (!x.code) {
        PCRE2_UCHAR why[200];
        pcre2_get_error_message(code, why, sizeof why);
        return code == PCRE2_ERROR_HEAP_FAILED ? lm_fail_nomem(err) :
               lm_fail(err, LM_EUSE, "'%s': byte %zu: %s", text, (size_t)at, (const char *)why);
    }
    return add(t, x, err);
}

int lm_triggers_add_id(struct lm_triggers *t, int32_t id, struct lm_err *err)
{
    if (!lm_grow(&t->ids, &t->ids_cap, t->n_ids + 1, sizeof *t->ids))
        return lm_fail_nomem(err);
    t->ids[t->n_ids++] = id;
    return LM_OK;
}

void lm_triggers_release(struct lm_triggers *t)
{
    for (size_t i = 0; i < t->n; i++)
        pcre2_code_free(t->list[i].code);
    free(t->list);
    free(t->ids);
    *t = (struct lm_triggers){ 0 };
}

/* ---- looking ---- */

static int find_text(const struct lm_buf *b, const char *text, size_t *from, size_t *at)
{
    const size_t len = strlen(text);
    for (; *from + len <= b->len; ++*from)
        if (!memcmp(b->data + *from, text, len)) {
            *at = *from;
            return 1;
        }
    return 0;
}

/* Where a character begins that is not complete at the end of b, or its end. */
static size_t last_whole(const struct lm_buf *b)
{
    for (size_t n = 1; n <= 3 && n <= b->len; n++) {
        const unsigned char c = (unsigned char)b->data[b->len - n];
        const size_t size = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        if ((c & 0xC0) != 0x80)
            return size > n ? b->len - n : b->len;
    }
    return b->len;
}

/* Where the first group begins that has any text, or the match. */
static size_t begins(const pcre2_match_data *m)
{
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer((pcre2_match_data *)m);
    for (uint32_t i = 1; i < pcre2_get_ovector_count((pcre2_match_data *)m); i++)
        if (v[2 * i] != PCRE2_UNSET && v[2 * i] < v[2 * i + 1])
            return v[2 * i];
    return v[0];
}

static int find_pattern(const struct lm_buf *b, const struct lm_trigger *x, size_t *from,
                        size_t *at, struct lm_err *err)
{
    const bool full = x->kind == LM_TRIGGER_FULL;
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(x->code, NULL);
    int found = PCRE2_ERROR_NOMEMORY;
    if (limits && m) {
        pcre2_set_match_limit(limits, STEPS);
        found = pcre2_match(x->code, (PCRE2_SPTR)b->data, b->len, full ? 0 : *from,
                            full ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : PCRE2_PARTIAL_SOFT, m,
                            limits);
    }
    if (found > 0)
        *at = begins(m);
    else if (found == PCRE2_ERROR_PARTIAL)
        *from = pcre2_get_ovector_pointer(m)[0];
    else if (found == PCRE2_ERROR_NOMATCH)
        *from = last_whole(b);
    pcre2_match_data_free(m);
    pcre2_match_context_free(limits);
    if (found > 0)
        return 1;
    if (found == PCRE2_ERROR_NOMATCH || found == PCRE2_ERROR_PARTIAL)
        return 0;
    return found == PCRE2_ERROR_NOMEMORY ? lm_fail_nomem(err) :
           lm_fail(err, LM_ENOSUP, "looking for '%s' takes too long", x->text);
}

/* Does the grammar begin with this id (*at AT_TOKEN), or at byte *at of the text? */
#define AT_TOKEN SIZE_MAX

static int find(struct lm_waiting *w, const struct lm_triggers *t, const struct lm_vocab *v,
                uint32_t id, size_t *at, struct lm_err *err)
{
    int s = 0;
    *at = AT_TOKEN;
    for (size_t i = 0; i < t->n_ids; i++)
        if ((uint32_t)t->ids[i] == id)
            return 1;
    if (id < lm_vocab_n(v) && lm_vocab_type(v, id) != LM_TOKEN_CONTROL) {
        const struct lm_str piece = lm_vocab_piece(v, id);
        lm_buf_add(&w->text, piece.p, piece.len);
    }
    if (!w->from && t->n)
        w->from = calloc(t->n, sizeof *w->from);
    if (w->text.failed || (t->n && !w->from))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < t->n && s == 0; i++)
        s = t->list[i].kind == LM_TRIGGER_TEXT
            ? find_text(&w->text, t->list[i].text, &w->from[i], at)
            : find_pattern(&w->text, &t->list[i], &w->from[i], at, err);
    return s;
}

/* ---- beginning ---- */

static int take_bytes(struct lm_machine *m, lm_state *s, const struct lm_str *text,
                      struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; r == LM_OK && i < text->len && *s != LM_STATE_DEAD; i++)
        r = lm_machine_byte(m, s, (unsigned char)text->p[i], err);
    return r;
}

int lm_waiting_take(struct lm_waiting *w, const struct lm_triggers *t, const struct lm_vocab *v,
                    struct lm_machine *m, lm_state *s, uint32_t id, struct lm_err *err)
{
    size_t at;
    struct lm_str text = { "", 0 };
    int r = find(w, t, v, id, &at, err);
    if (r <= 0)
        return r;
    if (at != AT_TOKEN)
        text = (struct lm_str){ w->text.data + at, w->text.len - at };
    else if (id < lm_vocab_n(v))
        text = lm_vocab_piece(v, id);
    r = lm_machine_start(m, s, err);
    if (r == LM_OK && at == AT_TOKEN) {
        r = lm_machine_take(m, s, id, err);
        if (r == LM_OK && *s != LM_STATE_DEAD)
            return 1;
        r = r < 0 ? r : lm_machine_start(m, s, err);
    }
    if (r == LM_OK)
        r = take_bytes(m, s, &text, err);
    if (r == LM_OK && *s == LM_STATE_DEAD) {
        struct lm_buf b = { 0 };
        lm_buf_escape(&b, text.p, text.len < 60 ? text.len : 60);
        r = lm_fail(err, LM_EDATA, "cannot begin with '%s', where it is triggered",
                    b.failed ? "..." : b.data);
        lm_buf_release(&b);
    }
    return r < 0 ? r : 1;
}

void lm_waiting_cut(struct lm_waiting *w, const struct lm_triggers *t, size_t len)
{
    if (len < w->text.len)
        w->text.len = len;
    for (size_t i = 0; w->from && i < t->n; i++)      /* a match may be possible again */
        w->from[i] = 0;
}

void lm_waiting_release(struct lm_waiting *w)
{
    lm_buf_release(&w->text);
    free(w->from);
    *w = (struct lm_waiting){ 0 };
}
