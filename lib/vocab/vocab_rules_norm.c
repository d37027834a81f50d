/* SPDX-License-Identifier: MIT */
/*
 * Normalizers.  Each goes once over the text and writes another one; with origins each byte
 * of it knows which bytes of the first text it was made of.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

void lm_traced_release(struct lm_traced *t)
{
    lm_buf_release(&t->text);
    free(t->origin);
    *t = (struct lm_traced){ 0 };
}

/* A text being rewritten. */
struct job {
    const struct lm_norm_part *part;
    const char                *p;
    size_t                     len;
    const struct lm_origin    *from;     /* [len], or NULL */
    struct lm_traced          *out;
    bool                       ok;
    struct lm_err             *err;
};

/* All the bytes that p[at .. end) was made of; for an empty range, the place. */
static struct lm_origin origin_of(const struct job *j, size_t at, size_t end)
{
    struct lm_origin o;
    if (at == end) {
        o.from = !j->len ? 0 : at < j->len ? j->from[at].from : j->from[at - 1].to;
        o.to = o.from;
        return o;
    }
    o = j->from[at];
    for (size_t i = at + 1; i < end; i++) {
        o.from = j->from[i].from < o.from ? j->from[i].from : o.from;
        o.to = j->from[i].to > o.to ? j->from[i].to : o.to;
    }
    return o;
}

/* Append n bytes made of p[at .. end). */
static void put(struct job *j, const char *text, size_t n, size_t at, size_t end)
{
    struct lm_traced *out = j->out;
    size_t was = out->text.len;
    lm_buf_add(&out->text, text, n);
    if (out->text.failed)
        j->ok = false;
    if (!j->from || !j->ok || !n)
        return;
    if (!lm_grow(&out->origin, &out->cap, was + n, sizeof *out->origin)) {
        j->ok = false;
        return;
    }
    struct lm_origin o = origin_of(j, at, end);
    for (size_t i = 0; i < n; i++)
        out->origin[was + i] = o;
}

/* Append p[at .. end) as it is. */
static void copy(struct job *j, size_t at, size_t end)
{
    struct lm_traced *out = j->out;
    size_t was = out->text.len;
    lm_buf_add(&out->text, j->p + at, end - at);
    if (out->text.failed ||
        (j->from && !lm_grow(&out->origin, &out->cap, was + (end - at), sizeof *out->origin)))
        j->ok = false;
    else if (j->from && end > at)
        memcpy(out->origin + was, j->from + at, (end - at) * sizeof *out->origin);
}

static void put_rune(struct job *j, uint32_t rune, size_t at, size_t end)
{
    char c[4];
    put(j, c, lm_rune_bytes(rune, c), at, end);
}

/* ---- characters one by one ----------------------------------------------------- */

/* What becomes of a character: *to and true, false if it goes.  A byte that is no UTF-8 is
 * not asked about. */
typedef bool rune_map(uint32_t r, uint32_t *to);

static bool nmt(uint32_t r, uint32_t *to)
{
    if ((r >= 1 && r <= 8) || r == 0xB || (r >= 0xE && r <= 0x1F) || r == 0x7F || r == 0x8F ||
        r == 0x9F)
        return false;
    if (r == 9 || r == 0xA || r == 0xC || r == 0xD || r == 0x1680 || (r >= 0x200B && r <= 0x200F) ||
        r == 0x2028 || r == 0x2029 || r == 0x2581 || r == 0xFEFF || r == 0xFFFD)
        *to = ' ';
    return true;
}

static bool without_accents(uint32_t r, uint32_t *to)
{
    (void)to;
    return !(lm_uni_class(r) & LM_U_M);
}

static void map_runes(struct job *j, rune_map *map)
{
    size_t done = 0;
    for (size_t i = 0; i < j->len && j->ok;) {
        int k;
        uint32_t r = lm_uni_next(j->p + i, j->p + j->len, &k), to = r;
        bool stays = (r == 0xFFFD && k == 1) || map(r, &to);
        if (!stays || to != r) {
            copy(j, done, i);
            if (stays)
                put_rune(j, to, i, i + (size_t)k);
            done = i + (size_t)k;
        }
        i += (size_t)k;
    }
    copy(j, done, j->len);
}

static void lower(struct job *j)
{
    size_t done = 0;
    for (size_t i = 0; i < j->len && j->ok;) {
        int k;
        uint32_t r = lm_uni_next(j->p + i, j->p + j->len, &k), to[3];
        int n = r == 0xFFFD ? 1 : lm_rune_lower(r, to);
        if (r != 0xFFFD && (n != 1 || to[0] != r)) {
            copy(j, done, i);
            for (int x = 0; x < n; x++)
                put_rune(j, to[x], i, i + (size_t)k);
            done = i + (size_t)k;
        }
        i += (size_t)k;
    }
    copy(j, done, j->len);
}

/* Bytes as the characters of byte-level BPE's alphabet. */
static void bytes(struct job *j)
{
    for (size_t i = 0; i < j->len && j->ok; i++)
        put_rune(j, lm_byte_rune((unsigned char)j->p[i]), i, i + 1);
}

/* ---- ends ------------------------------------------------------------------------- */

static void strip(struct job *j)
{
    size_t at = 0, end = j->len;
    while (j->part->left && at < end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(j->p + at, j->p + end, &k)) & LM_U_SPACE))
            break;
        at += (size_t)k;
    }
    if (j->part->right)
        end = at + lm_uni_trim(j->p + at, end - at);
    copy(j, at, end);
}

static void prepend(struct job *j)
{
    if (j->len)
        put(j, j->part->text.p, j->part->text.len, 0, 0);
    copy(j, 0, j->len);
}

/* ---- patterns ------------------------------------------------------------------------ */

/* Where the last character of p[at .. end) begins: the library lets what replaces a match stand
 * for that one, and asks there whether a text begins with it. */
static size_t last_char(const char *p, size_t at, size_t end)
{
    size_t last = end > at ? end - 1 : at;
    while (last > at && ((unsigned char)p[last] & 0xC0) == 0x80)
        last--;
    return last;
}

static int replace(struct job *j)
{
    struct lm_regex_scan scan = { 0 };
    size_t done = 0, at, end;
    int s = lm_regex_start(&scan, j->part->pattern, j->p, j->len, j->err);
    while (s == LM_OK && j->ok && (s = lm_regex_next(&scan, &at, &end, j->err)) > 0) {
        copy(j, done, at);
        done = end;
        put(j, j->part->text.p, j->part->text.len, last_char(j->p, at, end), end);
        s = LM_OK;
    }
    copy(j, done, j->len);
    lm_regex_scan_release(&scan);
    return s;
}

/* ---- by way of others ----------------------------------------------------------------- */

/* The rest of what lm_remap knows as origins. */
static void take_map(struct job *j, struct lm_remap *map)
{
    struct lm_traced *out = j->out;
    if (!lm_grow(&out->origin, &out->cap, out->text.len + 1, sizeof *out->origin)) {
        j->ok = false;
        return;
    }
    size_t at = lm_remap_find(map, 0);
    for (size_t i = 0; i < out->text.len; i++) {
        size_t next = lm_remap_find(map, i + 1);
        next = next < j->len ? next : j->len;
        out->origin[i] = origin_of(j, at, next > at ? next : at);
        at = next > at ? next : at;
    }
}

static int with_map(struct job *j)
{
    struct lm_remap map = { 0 }, *m = j->from ? &map : NULL;
    int s = j->part->kind == LM_NK_BERT
                ? lm_bert_normalize(j->p, j->len, j->part->bert, &j->out->text, m, j->err)
                : lm_charsmap_apply(&j->part->map, j->p, j->len, &j->out->text, m, j->err);
    if (s == LM_OK && m)
        take_map(j, m);
    free(map.e);
    return s;
}

static void put_form(void *to, const char *text, size_t n, size_t at, size_t end)
{
    struct job *j = to;
    if (end - at == n && memcmp(j->p + at, text, n) == 0)
        copy(j, at, end);
    else
        put(j, text, n, at, end);
}

static int form(struct job *j)
{
    static const enum lm_uni_form forms[] = {
        [LM_NK_NFC] = LM_FORM_C, [LM_NK_NFD] = LM_FORM_D,
        [LM_NK_NFKC] = LM_FORM_KC, [LM_NK_NFKD] = LM_FORM_KD,
    };
    return lm_uni_form(j->p, j->len, forms[j->part->kind], put_form, j) ? LM_OK
                                                                        : lm_fail_nomem(j->err);
}

static int apply(struct job *j)
{
    int s = LM_OK;
    switch (j->part->kind) {
    case LM_NK_NFC: case LM_NK_NFD: case LM_NK_NFKC: case LM_NK_NFKD: s = form(j); break;
    case LM_NK_LOWER: lower(j); break;
    case LM_NK_STRIP: strip(j); break;
    case LM_NK_ACCENTS: map_runes(j, without_accents); break;
    case LM_NK_REPLACE: s = replace(j); break;
    case LM_NK_PREPEND: prepend(j); break;
    case LM_NK_CHARSMAP: case LM_NK_BERT: s = with_map(j); break;
    case LM_NK_NMT: map_runes(j, nmt); break;
    case LM_NK_BYTES: bytes(j); break;
    }
    return s == LM_OK && !j->ok ? lm_fail_nomem(j->err) : s;
}

int lm_rules_normalize(const struct lm_rules *r, const char *p, size_t len, bool with_origin,
                       struct lm_traced *out, struct lm_traced *tmp, struct lm_err *err)
{
    struct job first = { .p = p, .len = len, .out = out, .ok = true, .err = err };
    lm_buf_clear(&out->text);
    lm_buf_add(&out->text, p, len);
    if (out->text.failed ||
        (with_origin && !lm_grow(&out->origin, &out->cap, len + 1, sizeof *out->origin)))
        return lm_fail_nomem(first.err);
    for (size_t i = 0; with_origin && i < len; i++)
        out->origin[i] = (struct lm_origin){ (uint32_t)i, (uint32_t)i + 1 };
    for (size_t i = 0; i < r->n_norm; i++) {
        struct lm_traced was = *out;
        *out = *tmp;
        *tmp = was;
        lm_buf_clear(&out->text);
        lm_buf_add(&out->text, "", 0);
        struct job j = { .part = &r->norm[i], .p = was.text.data, .len = was.text.len,
                         .from = with_origin ? was.origin : NULL, .out = out, .ok = true,
                         .err = err };
        int s = apply(&j);
        if (s != LM_OK)
            return s;
    }
    return LM_OK;
}
