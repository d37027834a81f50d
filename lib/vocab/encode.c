/* SPDX-License-Identifier: MIT */
/* From text to ids: special pieces, the fragments between them, and what the tokenizer
 * models share while they work on a fragment. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/table.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

#define PASS   ((size_t)1 << 16)                 /* ids handed over at a time */
#define WINDOW ((size_t)1 << 16)                 /* see struct lm_encoder */

void lm_ids_release(struct lm_ids *ids)
{
    free(ids->id);
    free(ids->span);
    *ids = (struct lm_ids){ 0 };
}

static bool push(struct lm_ids *ids, int32_t id, size_t at, size_t len)
{
    if (!lm_grow(&ids->id, &ids->cap, ids->n + 1, sizeof *ids->id))
        return false;
    if (ids->want_spans) {
        if (!lm_grow(&ids->span, &ids->span_cap, ids->n + 1, sizeof *ids->span))
            return false;
        ids->span[ids->n] = (struct lm_span){ at, len };
    }
    ids->id[ids->n++] = id;
    return true;
}

bool lm_encoder_put_at(struct lm_encoder *e, int32_t id, size_t at, size_t len)
{
    return push(e->ids, id, e->base + at, len);
}

struct lm_origin lm_origin_span(const struct lm_origin *o, size_t at, size_t len)
{
    struct lm_origin s = { 0, 0 };
    if (len)
        s = o[at];
    else if (at)
        s.from = s.to = o[at - 1].to;
    for (size_t i = 1; i < len; i++) {           /* marks may have changed places */
        s.from = o[at + i].from < s.from ? o[at + i].from : s.from;
        s.to = o[at + i].to > s.to ? o[at + i].to : s.to;
    }
    return s;
}

bool lm_encoder_put(struct lm_encoder *e, int32_t id, size_t bytes)
{
    size_t at = 0, len = 0;
    if (e->ids->want_spans && e->origin) {
        struct lm_origin o = lm_origin_span(e->origin, e->pos, bytes);
        e->pos += bytes;
        at = o.from;
        len = o.to - o.from;
    } else if (e->ids->want_spans) {
        at = lm_remap_find(&e->map, e->pos);
        e->pos += bytes;
        size_t end = lm_remap_end(&e->map, e->pos);
        len = end > at ? end - at : 0;
    }
    return id < 0 || push(e->ids, id, e->base + at, len);
}

/* The word, padded with zeros: what the cache compares. */
static void word_key(uint64_t key[3], const char *p, size_t len, const char *limit)
{
    static const unsigned char ones[2 * LM_MEMO_BYTES] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    };
    uint64_t mask[3];
    if (limit - p < LM_MEMO_BYTES) {
        memset(key, 0, LM_MEMO_BYTES);
        memcpy(key, p, len);
        return;
    }
    memcpy(key, p, LM_MEMO_BYTES);               /* a fixed size is three loads */
    memcpy(mask, ones + LM_MEMO_BYTES - len, LM_MEMO_BYTES);
    for (int i = 0; i < 3; i++)
        key[i] &= mask[i];
}

static bool room_for_memo(struct lm_ids *ids)
{
    return ids->cap - ids->n >= LM_MEMO_IDS ||
           lm_grow(&ids->id, &ids->cap, ids->n + LM_MEMO_IDS, sizeof *ids->id);
}

/* The slot of a word. */
static uint32_t memo_slot(const uint64_t key[3], size_t len)
{
    uint64_t h = (key[0] ^ len) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 29 ^ key[1]) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32 ^ key[2]) * 0x9E3779B97F4A7C15u;
    _Static_assert(LM_MEMO_SLOTS == 1 << 15, "the upper 15 bits choose the slot");
    return (uint32_t)(h >> 49);
}

/* Append what the word in this slot became, if it is this word; else take the slot for it. */
static bool memo_hit(struct lm_encoder *e, struct lm_memo *w, const uint64_t key[3], size_t len)
{
    if (w->len == len && w->text[0] == key[0] && w->text[1] == key[1] &&
        w->text[2] == key[2] && room_for_memo(e->ids)) {
        memcpy(e->ids->id + e->ids->n, w->id, sizeof w->id);
        e->ids->n += w->n;
        return true;
    }
    memcpy(w->text, key, sizeof w->text);
    w->len = (uint8_t)len;
    w->n = 0;
    return false;
}

struct lm_memo *lm_encoder_memo(struct lm_encoder *e, const char *p, size_t len,
                                const char *limit, bool *hit)
{
    *hit = false;
    if (len > LM_MEMO_BYTES || e->ids->want_spans)
        return NULL;
    uint64_t key[3];
    word_key(key, p, len, limit);
    struct lm_memo *w = &e->words[memo_slot(key, len)];
    *hit = memo_hit(e, w, key, len);
    return w;
}

static int encode_word(struct lm_encoder *e, const struct lm_word *w, struct lm_err *err)
{
    struct lm_memo *m = w->keyed ? &e->words[w->slot] : NULL;
    if (m && memo_hit(e, m, w->key, w->len + w->lead))
        return LM_OK;
    size_t from = e->ids->n;
    int s = e->v->model->encode_word(e, w->p, w->len, w->lead, err);
    if (s == LM_OK && m)
        lm_encoder_keep(e, m, from);
    return s;
}

int lm_encoder_words(struct lm_encoder *e, struct lm_err *err)
{
    int s = LM_OK;
    for (size_t i = 0; i < e->n_ahead && s == LM_OK; i++)
        s = encode_word(e, &e->ahead[i], err);
    e->n_ahead = 0;
    return s == LM_OK ? lm_encoder_pass(e, err) : s;
}

/* Fill in *w; its slot is on its way from memory then. */
static void ask_word(struct lm_encoder *e, struct lm_word *w, const char *p, size_t len,
                     const char *limit, bool lead)
{
    w->p = p;
    w->len = len;
    w->lead = lead;
    w->keyed = len + lead <= LM_MEMO_BYTES && !e->ids->want_spans;
    if (w->keyed) {
        if (lead) {                              /* kept as what it is with its space */
            char text[LM_MEMO_BYTES];
            text[0] = ' ';
            memcpy(text + 1, p, len);
            word_key(w->key, text, len + 1, text + len + 1);
        } else {
            word_key(w->key, p, len, limit);
        }
        w->slot = memo_slot(w->key, len + lead);
        __builtin_prefetch(&e->words[w->slot]);
    }
}

int lm_encoder_word(struct lm_encoder *e, const char *p, size_t len, const char *limit, bool lead,
                    struct lm_err *err)
{
    ask_word(e, &e->ahead[e->n_ahead++], p, len, limit, lead);
    return e->n_ahead < LM_AHEAD ? LM_OK : lm_encoder_words(e, err);
}

int lm_encoder_one_word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                        struct lm_err *err)
{
    struct lm_word w;
    ask_word(e, &w, p, len, limit, false);
    return encode_word(e, &w, err);
}

void lm_encoder_keep(struct lm_encoder *e, struct lm_memo *w, size_t from)
{
    size_t n = e->ids->n - from;
    if (n > LM_MEMO_IDS) {
        w->len = 0;                              /* no word: nothing is that short */
        return;
    }
    w->n = (uint8_t)n;
    if (n)                                       /* there may be no ids yet */
        memcpy(w->id, e->ids->id + from, n * sizeof *w->id);
}

const char *lm_chunk_end(const char *p, const char *end, size_t least)
{
    enum { CHUNK = 1 << 16 };
    least = least > CHUNK ? least : CHUNK;
    if ((size_t)(end - p) <= least)
        return end;
    for (p += least; end - p > 2; p++)
        if (p[1] == ' ' && (unsigned char)p[0] < 128 && (unsigned char)p[2] < 128)
            return p + 1;
    return end;
}

bool lm_heap_push(struct lm_encoder *e, uint64_t key, uint32_t size, uint32_t to)
{
    if (!lm_grow(&e->heap, &e->heap_cap, e->heap_n + 1, sizeof *e->heap))
        return false;
    size_t i = e->heap_n++;
    while (i > 0 && e->heap[(i - 1) / 2].key > key) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = (struct lm_heap_item){ key, size, to };
    return true;
}

struct lm_heap_item lm_heap_pop(struct lm_encoder *e)
{
    struct lm_heap_item top = e->heap[0], last = e->heap[--e->heap_n];
    size_t i = 0, n = e->heap_n;
    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && e->heap[k + 1].key < e->heap[k].key)
            k++;
        if (e->heap[k].key >= last.key)
            break;
        e->heap[i] = e->heap[k];
    }
    e->heap[i] = last;
    return top;
}

struct lm_encoder *lm_encoder_new(const struct lm_vocab *v, const struct lm_env *env,
                                  struct lm_err *err)
{
    struct lm_encoder *e = calloc(1, sizeof *e);
    if (e)                                       /* a slot is a line of the cache */
        e->words = lm_table_new(LM_MEMO_SLOTS * sizeof *e->words);
    if (e && v->by_score) {
        e->pairs = calloc(LM_PAIR_MEMOS, sizeof *e->pairs);
        e->joined = malloc(2 * ((size_t)v->longest + 4));
    }
    if (!e || !e->words || (v->by_score && (!e->pairs || !e->joined))) {
        lm_encoder_free(e);
        lm_fail_nomem(err);
        return NULL;
    }
    e->v = v;
    e->env = env;
    e->window = WINDOW;
    return e;
}

void lm_encoder_free(struct lm_encoder *e)
{
    if (!e)
        return;
    lm_table_free(e->words, LM_MEMO_SLOTS * sizeof *e->words);
    free(e->sym);
    free(e->heap);
    free(e->pairs);
    free(e->joined);
    free(e->map.e);
    lm_rules_work_free(e->rules);
    lm_parts_free(e->parts);
    lm_buf_release(&e->norm);
    lm_buf_release(&e->scratch);
    free(e->work);
    free(e);
}

/* The first and the last id of a text, as far as it has come. */
static void note_ids(struct lm_encoder *e)
{
    const struct lm_ids *ids = e->ids;
    if (ids->n == e->from)
        return;
    if (!e->passed)
        e->first_id = ids->id[e->from];
    e->last_id = ids->id[ids->n - 1];
    e->passed = true;
}

int lm_encoder_pass(struct lm_encoder *e, struct lm_err *err)
{
    struct lm_ids *ids = e->ids;
    if (ids->n < PASS || !e->take)
        return LM_OK;
    note_ids(e);
    e->from = 0;
    e->taken = true;
    int s = e->take(e->take_arg, ids, err);
    ids->n = 0;
    return s;
}

void lm_encoder_to(struct lm_encoder *e, lm_take_ids *take, void *arg)
{
    e->take = take;
    e->take_arg = arg;
}

/* A start or end token, at the end of what is there. */
static int add_special(struct lm_encoder *e, enum lm_named kind, size_t at, struct lm_err *err)
{
    static const char *const names[LM_N_NAMED] = { "start token", "end token", "separator" };
    const struct lm_vocab *v = e->v;
    const int32_t id = kind == LM_NAMED_BOS ? v->bos : kind == LM_NAMED_EOS ? v->eos : v->sep;
    if (id < 0)
        return lm_fail(err, LM_EDATA, "there is no %s to add: %s", names[kind], v->lacks[kind]);
    return push(e->ids, id, at, 0) ? LM_OK : lm_fail_nomem(err);
}

/* What else the vocabulary wants in front or behind. */
static int add_more(struct lm_encoder *e, const int32_t *id, size_t n, size_t at,
                    struct lm_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!push(e->ids, id[i], at, 0))
            return lm_fail_nomem(err);
    return LM_OK;
}

int lm_encoder_whole(struct lm_encoder *e, const char *text, size_t len, size_t before, bool *first,
                     struct lm_err *err)
{
    for (size_t done = 0, seek = 0; done < len || seek < len;) {
        uint32_t id;
        size_t at, end;
        bool found = lm_added_match(e->v, &e->v->added, text, e->guard, &seek, done, len, len,
                                    e->parse, &id, &at, &end);
        size_t stop = found ? at : len, n = stop > done ? stop - done : 0;
        if (n) {
            e->base = before + done;
            e->pos = 0;
            e->map.n = e->map.cursor = 0;
            int s = e->v->rules ? lm_rules_encode(e, text + done, n, err)
                                : e->v->model->encode(e, text + done, n, *first, err);
            *first = false;
            if (s != LM_OK)
                return s;
        }
        if (!found)
            break;
        if (!push(e->ids, (int32_t)id, before + at, end - at))
            return lm_fail_nomem(err);
        int s = lm_encoder_pass(e, err);
        if (s != LM_OK)
            return s;
        done = end;
        *first = true;
    }
    return LM_OK;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool lm_begins_anew(const struct lm_vocab *v, const char *p, size_t at)
{
    return is_letter(p[at]) && p[at - 1] == '\n' &&
           (!v->lone_lines || lm_uni_trim(p, at - 1) == at - 1);
}

bool lm_added_by_lines(const struct lm_vocab *v)
{
    bool blank = false, rstrip = false;
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        if (!len || (v->type[i] != LM_TOKEN_CONTROL && v->type[i] != LM_TOKEN_USER &&
                     v->type[i] != LM_TOKEN_UNKNOWN))
            continue;
        if (v->attr[i] & (LM_ATTR_WORD | LM_ATTR_NORMALIZED) ||
            (v->attr[i] & LM_ATTR_LSTRIP && is_letter(*p)))
            return false;
        for (size_t k = 1; k < len; k++)
            if (p[k - 1] == '\n' && is_letter(p[k]))
                return false;
        int k;
        blank |= (lm_uni_class(lm_uni_next(p, p + len, &k)) & LM_U_SPACE) != 0;
        rstrip |= (v->attr[i] & LM_ATTR_RSTRIP) != 0;
    }
    return !(blank && rstrip);                   /* blanks that one takes are another's */
}

/* The text brings what was put beside it: as the reference has it, but worth a word. */
static void note_doubled(struct lm_encoder *e, bool *warned, const char *which)
{
    if (!*warned)
        lm_note(e->env, LM_WARN, "the text has the %s token that is added to it as well: "
                "it is there twice", which);
    *warned = true;
}

static int encode(struct lm_encoder *e, const char *text, size_t len, unsigned flags,
                  struct lm_err *err)
{
    const struct lm_vocab *v = e->v;
    struct lm_ids *ids = e->ids;
    bool begins = flags & LM_ENCODE_SPECIAL && !(flags & LM_ENCODE_ON);
    bool ends = flags & LM_ENCODE_SPECIAL && !(flags & LM_ENCODE_MORE);
    bool adds_bos = v->add_bos && !(flags & LM_ENCODE_NO_BOS);
    bool last = !(flags & LM_ENCODE_MORE), bos = begins && adds_bos;
    bool eos = (ends && v->add_eos) || (last && flags & LM_ENCODE_EOS);
    bool on = flags & LM_ENCODE_ON, goes_on = flags & LM_ENCODE_MORE, first = true;
    int s;
    if ((bos && (s = add_special(e, LM_NAMED_BOS, 0, err))) ||
        (begins && (s = add_more(e, v->before, v->n_before, 0, err))))
        return s;
    e->from = ids->n;
    e->passed &= on;
    e->parse = flags & LM_ENCODE_PARSE;
    s = on || goes_on ? lm_encoder_parts(e, text, len, on, goes_on, err)
                      : lm_encoder_whole(e, text, len, 0, &first, err);
    if (s != LM_OK)
        return s;
    note_ids(e);
    if (flags & LM_ENCODE_SPECIAL && adds_bos && e->passed && e->first_id == v->bos)
        note_doubled(e, &e->warned_bos, "start");
    if (eos && e->passed && e->last_id == v->eos)
        note_doubled(e, &e->warned_eos, "end");
    size_t end = on ? e->parts->before + e->parts->raw.len : len;
    if (ends && (s = add_more(e, v->after, v->n_after, end, err)))
        return s;
    if (eos && (s = add_special(e, LM_NAMED_EOS, end, err)))
        return s;
    return last && flags & LM_ENCODE_SEP ? add_special(e, LM_NAMED_SEP, end, err) : LM_OK;
}

int lm_encoder_text(struct lm_encoder *e, const char *text, size_t len, unsigned flags,
                    struct lm_ids *ids, struct lm_err *err)
{
    size_t n = ids->n;
    e->ids = ids;
    e->taken = false;
    int s = encode(e, text, len, flags, err);
    if (s != LM_OK)
        ids->n = e->taken ? 0 : n;
    e->n_ahead = 0;
    return s;
}

int lm_encoder_guarded(struct lm_encoder *e, const char *text, const unsigned char *guard,
                       size_t len, unsigned flags, struct lm_ids *ids, struct lm_err *err)
{
    e->guard = guard;
    int s = lm_encoder_text(e, text, len, flags, ids, err);
    e->guard = NULL;
    return s;
}

int lm_vocab_encode(const struct lm_vocab *v, const char *text, size_t len, unsigned flags,
                    struct lm_ids *ids, struct lm_err *err)
{
    struct lm_encoder *e = lm_encoder_new(v, NULL, err);
    if (!e)
        return err ? (int)err->code : LM_ENOMEM;
    int s = lm_encoder_text(e, text, len, flags, ids, err);
    lm_encoder_free(e);
    return s;
}
