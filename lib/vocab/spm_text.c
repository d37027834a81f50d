/* SPDX-License-Identifier: MIT */
#include "vocab/spm_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static const char mark[] = "\xE2\x96\x81";       /* U+2581 */

static bool mark_at(const char *p, const char *end)
{
    return end - p >= 3 && memcmp(p, mark, 3) == 0;
}

/* A copy with spaces for marks; `to` has room for as many bytes. */
static struct lm_str spaced(struct lm_str s, char *to)
{
    const char *p = s.p, *end = p + s.len;
    char *q = to;
    while (p < end)
        if (mark_at(p, end)) {
            *q++ = ' ';
            p += 3;
        } else {
            *q++ = *p++;
        }
    return (struct lm_str){ to, (size_t)(q - to) };
}

/* What the model looks for has marks for all spaces: a piece with a space of its own is kept
 * through normalization, and not found there. */
static int load_user(struct lm_spm_text *t, const struct lm_vocab *v, struct lm_err *err)
{
    size_t size = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->type[i] == LM_TOKEN_USER) {
            size += lm_vocab_text(v, i).len;
            n++;
        }
    struct lm_str *text = lm_malloc_array(2 * (size_t)n + 1, sizeof *text), *found;
    uint32_t *id = lm_malloc_array(2 * (size_t)n + 1, sizeof *id), *found_id;
    char *copy = malloc(size + 1), *to = copy;
    int s = text && id && copy ? LM_OK : lm_fail_nomem(err);
    uint32_t k = 0, m = 0;
    found = text ? text + n : NULL;
    found_id = id ? id + n : NULL;
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++)
        if (v->type[i] == LM_TOKEN_USER) {
            text[k] = lm_vocab_text(v, i);
            t->begins[(unsigned char)*text[k].p] = true;
            if (!memchr(text[k].p, ' ', text[k].len)) {
                found[m] = spaced(text[k], to);
                to += found[m].len;
                t->begins[(unsigned char)*found[m].p] = true;
                found_id[m++] = i;
            }
            id[k++] = i;
        }
    t->has_user = n > 0;
    if (s == LM_OK)
        s = lm_trie_build(&t->user, text, id, n, err);
    if (s == LM_OK)
        s = lm_trie_build(&t->user_spaced, found, found_id, m, err);
    free(text);
    free(id);
    free(copy);
    return s;
}

enum lm_join lm_spm_join(const struct lm_vocab_src *src)
{
    if (src->extra_spaces > 0)
        return LM_JOIN_EACH;
    return src->space_prefix > 0 ? LM_JOIN_ONE : LM_JOIN_PREFIX;
}

struct lm_spm_text *lm_spm_text_new(const struct lm_vocab *v, const struct lm_vocab_src *src,
                                    struct lm_err *err)
{
    struct lm_spm_text *t = calloc(1, sizeof *t);
    if (!t) {
        lm_fail_nomem(err);
        return NULL;
    }
    t->prefix = src->space_prefix > 0 && !src->space_suffix;
    t->suffix = src->space_prefix > 0 && src->space_suffix;
    t->extra_spaces = src->extra_spaces > 0;
    t->has_map = src->charsmap.len > 0;
    t->keep_bytes = src->byte_fallback;
    if ((t->has_map &&
         lm_charsmap_init(&t->map, src->charsmap.p, src->charsmap.len, err) != LM_OK) ||
        load_user(t, v, err) != LM_OK) {
        lm_spm_text_free(t);
        return NULL;
    }
    return t;
}

void lm_spm_text_free(struct lm_spm_text *t)
{
    if (!t)
        return;
    lm_charsmap_release(&t->map);
    lm_trie_release(&t->user);
    lm_trie_release(&t->user_spaced);
    free(t);
}

static size_t longest(const struct lm_trie *t, const char *p, const char *end, int32_t *id,
                      bool *open)
{
    size_t n = 0;
    uint32_t node = 0;
    for (const char *q = p; q < end;) {
        node = lm_trie_step(t, node, (unsigned char)*q++);
        if (!node)
            return n;
        if (t->unit[node].id >= 0) {
            n = (size_t)(q - p);
            *id = t->unit[node].id;
        }
    }
    if (open)
        *open = true;
    return n;
}

size_t lm_spm_text_user(const struct lm_spm_text *t, const char *p, const char *end, int32_t *id,
                        bool *open)
{
    return t->begins[(unsigned char)*p] ? longest(&t->user_spaced, p, end, id, open) : 0;
}

/* What stands at p (p < end), and how much of the text that was; *open is set if text behind end
 * might make a difference. */
static size_t take(const struct lm_spm_text *t, const char *p, const char *end, struct lm_str *to,
                   bool *open)
{
    int32_t id;
    size_t n = t->begins[(unsigned char)*p] ? longest(&t->user, p, end, &id, open) : 0;
    if (n) {
        *to = (struct lm_str){ p, n };
        return n;
    }
    if (t->has_map && (n = lm_charsmap_longest(&t->map, p, end, to, open)))
        return n;
    int k;
    bool bad = lm_uni_next(p, end, &k) == 0xFFFD && k == 1 && !t->keep_bytes;
    if (end - p < 4 && !lm_whole_chars(p, (size_t)(end - p)))
        *open = true;
    *to = bad ? (struct lm_str){ "\xEF\xBF\xBD", 3 } : (struct lm_str){ p, (size_t)k };
    return (size_t)k;
}

/* Append s; its spaces and marks are written as asked for. */
static void put(struct lm_buf *out, struct lm_str s, bool marks)
{
    const char *p = s.p, *end = p + s.len;
    while (p < end) {
        if (*p == ' ' && marks) {
            lm_buf_add(out, mark, 3);
            p++;
        } else if (!marks && *p == mark[0] && mark_at(p, end)) {
            lm_buf_byte(out, ' ');
            p += 3;
        } else {
            lm_buf_byte(out, *p++);
        }
    }
}

size_t lm_spm_text_trim(const struct lm_spm_text *t, const struct lm_buf *b, bool marks)
{
    const char *space = marks ? mark : " ";
    size_t n = strlen(space), len = b->len;
    while (t->extra_spaces && len >= n && memcmp(b->data + len - n, space, n) == 0)
        len -= n;
    return len;
}

static bool note(struct lm_remap *map, size_t at, size_t from)
{
    return !map || lm_remap_add(map, at, from);
}

int lm_spm_text_part(const struct lm_spm_text *t, struct lm_spm_state *st, const char *p,
                     size_t len, bool more, bool marks, size_t *done, struct lm_buf *out,
                     struct lm_remap *map, struct lm_err *err)
{
    const char *begin = p, *end = p + len;
    bool ok = true, open = false;
    while (ok && p < end) {
        struct lm_str s;
        size_t n = take(t, p, end, &s, &open);
        if (open && more)
            break;
        if (!st->begun && t->extra_spaces && s.len == 1 && *s.p == ' ') {
            p += n;
            continue;
        }
        if (!st->begun) {
            ok = note(map, out->len, (size_t)(p - begin));
            if (t->prefix)
                put(out, (struct lm_str){ " ", 1 }, marks);
            st->after_space = t->extra_spaces;
            st->begun = true;
        }
        while (st->after_space && s.len && *s.p == ' ') {
            s.p++;
            s.len--;
        }
        ok = ok && note(map, out->len, (size_t)(p - begin));
        put(out, s, marks);
        if (s.len)
            st->after_space = t->extra_spaces && s.p[s.len - 1] == ' ';
        p += n;
        ok = ok && note(map, out->len, (size_t)(p - begin));
    }
    *done = (size_t)(p - begin);
    if (st->begun && !more && !out->failed) {
        const size_t was = out->len;
        out->len = lm_spm_text_trim(t, out, marks);
        if (t->suffix)                           /* the first of those spaces, or of no text */
            put(out, (struct lm_str){ " ", 1 }, marks);
        if (out->len > was)
            ok = ok && note(map, out->len, (size_t)(p - begin));
    }
    return ok && !out->failed ? LM_OK : lm_fail_nomem(err);
}

int lm_spm_text_apply(const struct lm_spm_text *t, const char *p, size_t len, bool marks,
                      struct lm_buf *out, struct lm_remap *map, struct lm_err *err)
{
    struct lm_spm_state st = { 0 };
    size_t done;
    return lm_spm_text_part(t, &st, p, len, false, marks, &done, out, map, err);
}
