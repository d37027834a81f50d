/* SPDX-License-Identifier: MIT */
/*
 * Merging a word: of all pairs of adjacent symbols that can be joined the one of lowest key,
 * leftmost among equals, is joined until none is left.  The key is the rank of a merge, or
 * stands for the score of the piece that the two make together.
 *
 * A short word is merged in place on the stack, a longer one with a list and a heap, and one
 * that is longer than a window in windows, so that memory stays what it is.
 */
#include <string.h>

#include "base/size.h"
#include "base/table.h"
#include "vocab/tokenizer.h"

#define N_SMALL  64                              /* bytes of a word merged on the stack   */
#define NONE     UINT32_MAX
#define MOST     ((size_t)1 << 31)               /* symbols of one word: their numbers fit */

/* What a pair becomes: its place among the merges, smallest first, and the symbol. */
struct join {
    uint32_t key, to;
};

static uint64_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t h = (left * 0x9E3779B97F4A7C15u ^ right) * 0xD6E8FEB86659FD93u;
    return (h ^ h >> 29) * 0x9E3779B97F4A7C15u;
}

/* ---- the table of merges ---------------------------------------------------- */

static size_t table_size(const struct lm_pairs *t)
{
    const size_t slots = (size_t)t->mask + 1;
    return slots + slots * sizeof *t->slot + t->n * sizeof *t->merge;
}

int lm_pairs_init(struct lm_pairs *t, uint32_t n, struct lm_err *err)
{
    uint64_t size = 64;
    while (size < n + (uint64_t)n / 2)
        size *= 2;
    t->n = n;
    t->mask = (uint32_t)(size - 1);
    while (t->number < n)
        t->number = 2 * t->number + 1;
    t->seen = lm_table_new(table_size(t));
    if (!t->seen)
        return lm_fail_nomem(err);
    t->slot = (uint32_t *)(t->seen + size / 8);      /* eight bits a slot */
    t->merge = (struct lm_merge *)(t->slot + size);
    return LM_OK;
}

void lm_pairs_release(struct lm_pairs *t)
{
    lm_table_free(t->seen, table_size(t));
    *t = (struct lm_pairs){ 0 };
}

static uint64_t seen_bit(const struct lm_pairs *t, uint64_t h)
{
    return (h >> 3) & ((uint64_t)t->mask << 3 | 7);
}

uint64_t lm_pairs_ask(const struct lm_pairs *t, uint32_t i)
{
    const uint64_t h = hash_pair(t->merge[i].left, t->merge[i].right);
    __builtin_prefetch(&t->slot[h >> 32 & t->mask], 1);
    __builtin_prefetch(&t->seen[seen_bit(t, h) >> 6], 1);
    return h;
}

/* The slot of a pair with this hash, or the empty one where that would be. */
static inline uint32_t find_slot(const struct lm_pairs *t, uint64_t h, uint32_t left,
                                 uint32_t right)
{
    const uint32_t bits = (uint32_t)(h >> 32);
    for (uint32_t i = bits & t->mask, s;; i = (i + 1) & t->mask)
        if (!(s = t->slot[i]))
            return i;
        else if (!((s ^ bits) & ~t->number)) {
            const struct lm_merge *m = &t->merge[(s & t->number) - 1];
            if (m->left == left && m->right == right)
                return i;
        }
}

void lm_pairs_add(struct lm_pairs *t, uint32_t i, uint64_t h)
{
    const struct lm_merge *m = &t->merge[i];
    const uint64_t bit = seen_bit(t, h);
    const uint32_t bits = (uint32_t)(h >> 32) & ~t->number;
    t->slot[find_slot(t, h, m->left, m->right)] = bits | (i + 1);
    t->seen[bit >> 6] |= (uint64_t)1 << (bit & 63);
}

static bool find_pair(const struct lm_pairs *t, uint32_t left, uint32_t right, struct join *j)
{
    const uint64_t h = hash_pair(left, right), bit = seen_bit(t, h);
    if (!(t->seen[bit >> 6] >> (bit & 63) & 1))
        return false;                            /* most pairs, and without a slow look */
    const uint32_t number = t->slot[find_slot(t, h, left, right)] & t->number;
    if (!number)
        return false;
    const uint32_t id = t->merge[number - 1].id;
    *j = (struct join){ t->by_id ? id : number - 1, id };
    return true;
}

/* ---- pieces with scores ------------------------------------------------------- */

/* A number that orders floats, the highest first; NONE is none of them. */
static uint32_t order_of(float f)
{
    uint32_t u;
    f += 0.0f;                                   /* -0 is 0 */
    memcpy(&u, &f, 4);
    u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return ~u;
}

/* The same where scores say nothing: pieces as they are numbered, which is how they were made.
 * Runs of spaces are not made from text but given to a model, and are below all of these. */
static uint32_t order_by_id(const char *text, size_t n, int32_t id)
{
    static const char mark[] = "\xE2\x96\x81";
    for (size_t i = 0; i < n; i++)
        if (text[i] != mark[i % 3])
            return (uint32_t)id;
    return (uint32_t)id | 0x80000000u;
}

/* A symbol is a piece, or a character that is none. */
#define NO_PIECE 0x80000000u

static size_t symbol_text(const struct lm_vocab *v, uint32_t id, char *to, size_t room)
{
    size_t len;
    if (id & NO_PIECE)
        return lm_symbol_bytes(id, to);
    const char *p = lm_pieces_get(&v->text, id, &len);
    if (len <= room)
        memcpy(to, p, len);
    return len;
}

/* The piece that two symbols make, looked up by its text. */
static bool find_joined(const struct lm_vocab *v, char *text, uint32_t left, uint32_t right,
                        struct join *j)
{
    size_t n = symbol_text(v, left, text, v->longest);
    n += symbol_text(v, right, text + n, v->longest);
    int32_t id = lm_vocab_find(v, text, n);
    if (id < 0 || !lm_scored(v, (uint32_t)id))
        return false;
    uint32_t key = v->by_id ? order_by_id(text, n, id) : order_of(v->score[id]);
    *j = (struct join){ key, (uint32_t)id };
    return true;
}

/* The same through a cache: pairs recur far more often than words. */
static bool find_scored(struct lm_encoder *e, uint32_t left, uint32_t right, struct join *j)
{
    struct lm_pair_memo *m = &e->pairs[hash_pair(left, right) >> 48 & (LM_PAIR_MEMOS - 1)];
    if (m->left != left || m->right_1 != right + 1) {
        struct join x = { 0, NONE };
        find_joined(e->v, e->joined, left, right, &x);
        *m = (struct lm_pair_memo){ left, right + 1, x.key, x.to };
    }
    *j = (struct join){ m->key, m->to };
    return j->to != NONE;
}

static inline bool find(struct lm_encoder *e, uint32_t left, uint32_t right, struct join *j)
{
    return e->v->by_score ? find_scored(e, left, right, j)
                         : find_pair(&e->v->pairs, left, right, j);
}

/* ---- words ---------------------------------------------------------------------- */

struct small {
    uint32_t id, len;                            /* of the symbol                         */
    uint32_t key, to;                            /* with the one behind it; to NONE: none */
};

static inline void pair_up(struct lm_encoder *e, struct small *s)
{
    struct join j = { 0, NONE };
    if (!find(e, s[0].id, s[1].id, &j))
        j = (struct join){ NONE, NONE };
    s->key = j.key;
    s->to = j.to;
}

/* A short word: look for the lowest key each time.  Key NONE is no score and no rank. */
static bool merge_small(struct lm_encoder *e, const char *p, size_t len, bool lead)
{
    struct small s[N_SMALL + 2];
    size_t n = 0;
    if (lead)
        s[n++] = (struct small){ e->v->mark_id, 0, NONE, NONE };
    for (const char *end = p + len; p < end; n++) {
        s[n].len = (uint32_t)lm_next_symbol(e->v, p, end, &s[n].id);
        p += s[n].len;
    }
    for (size_t i = 0; i + 1 < n; i++)
        pair_up(e, &s[i]);
    while (n > 1) {
        size_t best = 0;
        uint32_t low = s[0].key;
        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].key < low) {
                low = s[i].key;
                best = i;
            }
        if (low == NONE)
            break;
        s[best].id = s[best].to;
        s[best].len += s[best + 1].len;
        n--;
        for (size_t i = best + 1; i < n; i++)
            s[i] = s[i + 1];
        if (best)
            pair_up(e, &s[best - 1]);
        if (best + 1 < n)
            pair_up(e, &s[best]);
    }
    for (size_t i = 0; i < n; i++)
        if (!lm_put_symbol(e, s[i].id, s[i].len))
            return false;
    return true;
}

/* Queue the merge of the symbol at i with the next, if there is one. */
static bool queue(struct lm_encoder *e, uint32_t i)
{
    struct join j;
    const struct lm_sym *s = &e->sym[i];
    if (s->next == NONE || !find(e, s->id, e->sym[s->next].id, &j))
        return true;
    return lm_heap_push(e, (uint64_t)j.key << 32 | i, s->len + e->sym[s->next].len, j.to);
}

/* Merge n > 0 symbols that are in e->sym, a list from 0 on; none has length 0.  False: no
 * memory.  A pair in the heap is skipped if it is no longer what stands there: symbols only grow,
 * so the same length is the same pair. */
static bool merge_symbols(struct lm_encoder *e, uint32_t n)
{
    struct lm_sym *sym = e->sym;
    sym[n - 1].next = NONE;
    e->heap_n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!queue(e, i))
            return false;
    while (e->heap_n) {
        struct lm_heap_item it = lm_heap_pop(e);
        uint32_t i = (uint32_t)it.key, next = sym[i].next;
        if (!sym[i].there || next == NONE || sym[i].len + sym[next].len != it.size)
            continue;
        sym[i].id = it.to;
        sym[i].len += sym[next].len;
        sym[next].there = false;
        sym[i].next = sym[next].next;
        if (sym[i].next != NONE)
            sym[sym[i].next].prev = i;
        if (!queue(e, i) || (i > 0 && !queue(e, sym[i].prev)))
            return false;
    }
    return true;
}

/* Merge any word into e->sym, a list from 0 on. */
static bool merge_list(struct lm_encoder *e, const char *p, size_t len, bool lead)
{
    uint32_t n = 0;
    const char *end = p + len;
    if (!lm_grow(&e->sym, &e->sym_cap, 1, sizeof *e->sym))
        return false;
    if (lead)
        e->sym[n++] = (struct lm_sym){ e->v->mark_id, 0, NONE, 1, true };
    for (; p < end; n++) {
        if (!lm_grow(&e->sym, &e->sym_cap, (size_t)n + 1, sizeof *e->sym))
            return false;
        struct lm_sym *s = &e->sym[n];
        *s = (struct lm_sym){ .prev = n - 1, .next = n + 1, .there = true };
        s->len = (uint32_t)lm_next_symbol(e->v, p, end, &s->id);
        p += s->len;
    }
    return merge_symbols(e, n);
}

/* Append what merge_list left, up to the symbol at `stop`. */
static bool put_list(struct lm_encoder *e, uint32_t stop)
{
    for (uint32_t i = 0; i != stop; i = e->sym[i].next)
        if (!lm_put_symbol(e, e->sym[i].id, e->sym[i].len))
            return false;
    return true;
}

/* The begin of the character at or before at; in byte-level BPE any byte will do. */
static size_t char_start(const struct lm_vocab *v, const char *p, size_t at)
{
    for (int i = 0; v->chars && i < 3 && at > 0 && ((unsigned char)p[at] & 0xC0) == 0x80; i++)
        at--;
    return at;
}

/* The longest text of a token, in bytes. */
static size_t reach(const struct lm_vocab *v)
{
    return v->reach < 4 ? 4 : v->reach;
}

static size_t count_chars(const char *p, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xC0) != 0x80;
    return n;
}

void lm_merge_measure(struct lm_vocab *v)
{
    const struct lm_pieces *pieces = v->by_char || v->rules ? &v->text : &v->bytes;
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(pieces, i, &len);
        len = v->rules ? count_chars(p, len) : len;      /* symbols, see lm_merge_ids */
        if ((v->by_score ? lm_scored(v, i) : (v->attr[i] & LM_ATTR_MERGED) != 0) && len > v->reach)
            v->reach = (uint32_t)len;
    }
}

/*
 * Is the token boundary at c one of the whole text's, whatever follows p[0..w)?
 *
 * The whole text's tokens have a boundary less than the longest token before w, and up to
 * there they are what that much text gives alone.  So it is, if text from c to any such
 * place begins with the same token: tokens are those of a text as soon as each two
 * neighbours are those of their text, because the first merge across a boundary would
 * happen between the two alone as well.
 */
static bool settled(struct lm_encoder *e, const char *p, size_t c, size_t w, struct lm_sym first,
                    bool *ok)
{
    size_t from = w - reach(e->v) - 4;
    for (size_t i = w; *ok && i > from; i = char_start(e->v, p, i - 1)) {
        *ok = merge_list(e, p + c, i - c, false);
        if (*ok && (e->sym[0].id != first.id || e->sym[0].len != first.len))
            return false;
    }
    return *ok;
}

/*
 * Append the tokens at the begin of a word that are settled, from its first w bytes.
 * Returns how many bytes they are; 0 if none are, or *ok is false: no memory.
 */
static size_t merge_window(struct lm_encoder *e, const char *p, size_t w, bool lead, bool *ok)
{
    size_t c = 0, most = w - 4 * reach(e->v), n = e->ids->n, pos = e->pos;
    uint32_t stop = 0;
    w = char_start(e->v, p, w);
    if (!(*ok = merge_list(e, p, w, lead)))
        return 0;
    while (e->sym[stop].next != NONE && c + e->sym[stop].len <= most) {
        c += e->sym[stop].len;
        stop = e->sym[stop].next;
    }
    struct lm_sym first = e->sym[stop];
    *ok = put_list(e, stop);
    if (*ok && c && settled(e, p, c, w, first, ok))
        return c;
    e->ids->n = n;
    e->pos = pos;
    return 0;
}

size_t lm_merge_window(const struct lm_encoder *e)
{
    size_t l = reach(e->v), least = 8 * l * l;
    if (l > 2048 || (e->v->bonds.all && !e->v->rules))
        return SIZE_MAX;
    return least > e->window ? least : e->window;
}

int lm_merge_begin(struct lm_encoder *e, const char *p, size_t len, bool lead, size_t *done,
                   struct lm_err *err)
{
    enum { TRIES = 8 };                          /* of windows that end elsewhere */
    size_t least = lm_merge_window(e), w = least, tries = 0;
    bool ok = true;
    *done = 0;
    while (ok && w < SIZE_MAX / 2 && len - *done > w + w / 2) {
        size_t less = tries * (reach(e->v) / 2 + 1);
        size_t n = merge_window(e, p + *done, w - less, lead && !*done, &ok);
        int s = n ? lm_encoder_pass(e, err) : LM_OK;
        if (s != LM_OK)
            return s;
        tries = n || tries == TRIES ? 0 : tries + 1;
        w = n ? least : tries ? w : 2 * w;
        *done += n;
    }
    return ok ? LM_OK : lm_fail_nomem(err);
}

/* ---- symbols from elsewhere -------------------------------------------------------- */

static bool merge_ids(struct lm_encoder *e, const uint32_t *id, size_t n)
{
    if (!lm_grow(&e->sym, &e->sym_cap, n, sizeof *e->sym))
        return false;
    for (uint32_t i = 0; i < n; i++)
        e->sym[i] = (struct lm_sym){ id[i], 1, i - 1, i + 1, true };
    return merge_symbols(e, (uint32_t)n);
}

/* As settled, of symbols. */
static bool ids_settled(struct lm_encoder *e, const uint32_t *id, size_t c, size_t w,
                        struct lm_sym first, bool *ok)
{
    for (size_t i = w; *ok && i > w - reach(e->v); i--) {
        *ok = merge_ids(e, id + c, i - c);
        if (*ok && (e->sym[0].id != first.id || e->sym[0].len != first.len))
            return false;
    }
    return *ok;
}

/* As merge_window, of symbols. */
static size_t ids_window(struct lm_encoder *e, const uint32_t *id, size_t w, bool *ok)
{
    size_t c = 0, most = w - 4 * reach(e->v), n = e->ids->n, pos = e->pos;
    uint32_t stop = 0;
    if (!(*ok = merge_ids(e, id, w)))
        return 0;
    while (e->sym[stop].next != NONE && c + e->sym[stop].len <= most) {
        c += e->sym[stop].len;
        stop = e->sym[stop].next;
    }
    struct lm_sym first = e->sym[stop];
    *ok = put_list(e, stop);
    if (*ok && c && ids_settled(e, id, c, w, first, ok))
        return c;
    e->ids->n = n;
    e->pos = pos;
    return 0;
}

int lm_merge_ids(struct lm_encoder *e, const uint32_t *id, size_t n, bool more, size_t *done,
                 struct lm_err *err)
{
    size_t least = lm_merge_window(e), w = least;
    bool ok = true;
    *done = 0;
    while (ok && w < SIZE_MAX / 2 && n - *done > w + w / 2) {
        size_t c = ids_window(e, id + *done, w, &ok);
        int s = c ? lm_encoder_pass(e, err) : LM_OK;
        if (s != LM_OK)
            return s;
        *done += c;
        w = c ? least : 2 * w;
    }
    if (!ok)
        return lm_fail_nomem(err);
    if (more || *done == n)
        return LM_OK;
    if (n - *done >= MOST)
        return lm_fail(err, LM_ENOSUP, "a word of more than 2 GiB is not supported");
    return merge_ids(e, id + *done, n - *done) && put_list(e, NONE) ? LM_OK : lm_fail_nomem(err);
}

/* ---- words of any length ------------------------------------------------------------ */

static int merge_large(struct lm_encoder *e, const char *p, size_t len, bool lead,
                       struct lm_err *err)
{
    size_t done;
    int s = lm_merge_begin(e, p, len, lead, &done, err);
    if (s != LM_OK)
        return s;
    if (len - done >= MOST)
        return lm_fail(err, LM_ENOSUP, "a word of more than 2 GiB is not supported");
    return merge_list(e, p + done, len - done, lead && !done) && put_list(e, NONE)
               ? LM_OK : lm_fail_nomem(err);
}

int lm_merge(struct lm_encoder *e, const char *p, size_t len, bool lead, struct lm_err *err)
{
    if (len > N_SMALL)
        return merge_large(e, p, len, lead, err);
    return merge_small(e, p, len, lead) ? LM_OK : lm_fail_nomem(err);
}
