/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE, tokenizer model "gpt2".
 *
 * Text is cut into words by the pre-tokenizer; a word begins as its bytes, and of all
 * adjacent pairs that have a merge the one of lowest rank, leftmost among equals, is joined
 * until none is left.  Pieces are stored in an alphabet that shows every byte as a printable
 * character: 21-7E, A1-AC and AE-FF stand for themselves, the other 68 bytes, ascending, for
 * U+0100 and on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/tokenizer.h"

#define N_SMALL 64                               /* bytes of a word merged on the stack */
#define NO_ID   UINT32_MAX

#define N_AHEAD 32                               /* merges looked up together           */

/* The character of a byte, and back; -1: none. */
static uint16_t rune_of(unsigned b)
{
    if (b <= 0x20)
        return (uint16_t)(256 + b);
    if (b >= 0x7F && b <= 0xA0)
        return (uint16_t)(256 + 33 + (b - 0x7F));
    return b == 0xAD ? 256 + 67 : (uint16_t)b;
}

static int byte_of(uint32_t r)
{
    if (r >= 256)
        return r < 256 + 33   ? (int)r - 256
               : r < 256 + 67 ? (int)r - 256 - 33 + 0x7F
               : r == 256 + 67 ? 0xAD
                              : -1;
    return rune_of(r) == r ? (int)r : -1;
}

/* Write a byte's character: 1 or 2 bytes. */
static size_t put_rune(char *to, uint16_t r)
{
    if (r < 0x80) {
        to[0] = (char)r;
        return 1;
    }
    to[0] = (char)(0xC0 | r >> 6);
    to[1] = (char)(0x80 | (r & 63));
    return 2;
}

/* The bytes that a piece stands for; a piece not written in the alphabet is itself. */
static size_t decode_piece(const char *p, size_t len, char *to)
{
    const char *end = p + len;
    size_t n = 0;
    for (const char *q = p; q < end;) {
        int k;
        int b = byte_of(lm_uni_next(q, end, &k));
        if (b < 0) {
            memcpy(to, p, len);
            return len;
        }
        to[n++] = (char)b;
        q += k;
    }
    return n;
}

static int decode_pieces(struct lm_vocab *v, struct lm_err *err)
{
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        char *to = v->bytes.data + v->bytes.at[i];
        unsigned t = v->type[i];
        if (t == LM_TOKEN_CONTROL || t == LM_TOKEN_USER || t == LM_TOKEN_UNKNOWN)
            memcpy(to, p, len);
        else
            len = decode_piece(p, len, to);
        v->bytes.at[i + 1] = v->bytes.at[i] + (uint32_t)len;
    }
    for (int b = 0; b < 256; b++) {
        char s[2];
        v->byte_id[b] = lm_vocab_find(v, s, put_rune(s, rune_of((unsigned)b)));
    }
    return LM_OK;
}

static uint32_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t h = (left * 0x9E3779B97F4A7C15u ^ right) * 0xD6E8FEB86659FD93u;
    return (uint32_t)((h ^ h >> 29) * 0x9E3779B97F4A7C15u >> 32);
}

/* The merge of two symbols: its rank plus one, 0 if there is none. */
static inline uint32_t find_pair(const struct lm_vocab *v, uint32_t left, uint32_t right,
                                 uint32_t *id)
{
    uint32_t i = hash_pair(left, right) & v->pair_mask;
    for (; v->pairs[i].rank_1; i = (i + 1) & v->pair_mask)
        if (v->pairs[i].left == left && v->pairs[i].right == right) {
            *id = v->pairs[i].id;
            return v->pairs[i].rank_1;
        }
    return 0;
}

/* Of a pair that is there twice the later rank counts, as in the reference. */
static void add_pair(struct lm_vocab *v, const struct lm_merge *m, uint32_t rank)
{
    uint32_t i = hash_pair(m->left, m->right) & v->pair_mask;
    while (v->pairs[i].rank_1 && (v->pairs[i].left != m->left || v->pairs[i].right != m->right))
        i = (i + 1) & v->pair_mask;
    v->pairs[i] = (struct lm_pair_slot){ m->left, m->right, m->id, rank + 1 };
}

static int no_piece(uint64_t i, const char *p, size_t len, struct lm_err *err)
{
    return lm_fail(err, LM_EDATA, "merge %llu: '%.*s' is not in the vocabulary",
                   (unsigned long long)i, (int)(len < 64 ? len : 64), p);
}

/* lm_vocab_find, looking first where the last merge's piece was: most vocabularies have
 * them in order. */
static int32_t find_near(const struct lm_vocab *v, uint32_t guess, const char *p, size_t len)
{
    for (uint32_t id = guess; id < v->n && id < guess + 2; id++) {
        size_t n;
        const char *t = lm_pieces_get(&v->text, id, &n);
        if (n == len && memcmp(t, p, n) == 0)
            return (int32_t)id;
    }
    return lm_vocab_find(v, p, len);
}

/* Parts of a merge that are being looked up. */
struct asked {
    const char *left, *right;
    size_t      l, r;
    uint32_t    left_hash, right_hash;
};

/* Entry i of merges, "left right": the separator is the first space that is not the first
 * byte. */
static int ask_parts(const struct lm_vocab *v, uint64_t i, struct lm_str s, struct asked *a,
                     struct lm_err *err)
{
    const char *sep = s.len > 1 ? memchr(s.p + 1, ' ', s.len - 1) : NULL;
    if (!sep)
        return lm_fail(err, LM_EDATA, "merge %llu has no space", (unsigned long long)i);
    a->left = s.p;
    a->l = (size_t)(sep - s.p);
    a->right = sep + 1;
    a->r = s.len - a->l - 1;
    a->left_hash = lm_vocab_ask(v, a->left, a->l);
    a->right_hash = lm_vocab_ask(v, a->right, a->r);
    return LM_OK;
}

/* Its ids; m->id is that of the merge before.  joined has room for the longest piece. */
static int find_parts(const struct lm_vocab *v, uint64_t i, const struct asked *a, char *joined,
                      struct lm_merge *m, struct lm_err *err)
{
    int32_t left = lm_vocab_find_hashed(v, a->left, a->l, a->left_hash);
    if (left < 0)
        return no_piece(i, a->left, a->l, err);
    int32_t right = lm_vocab_find_hashed(v, a->right, a->r, a->right_hash);
    if (right < 0)
        return no_piece(i, a->right, a->r, err);
    if (a->l + a->r > v->longest)
        return no_piece(i, a->left, a->l + 1 + a->r, err);
    memcpy(joined, a->left, a->l);
    memcpy(joined + a->l, a->right, a->r);
    int32_t id = find_near(v, m->id, joined, a->l + a->r);
    if (id < 0)
        return no_piece(i, joined, a->l + a->r, err);
    *m = (struct lm_merge){ (uint32_t)left, (uint32_t)right, (uint32_t)id };
    __builtin_prefetch(&v->pairs[hash_pair(m->left, m->right) & v->pair_mask], 1);
    return LM_OK;
}

/* May text become this piece by merging?  Never a control token. */
static bool reachable(const struct lm_vocab *v, uint32_t id)
{
    return v->type[id] != LM_TOKEN_CONTROL && v->type[id] != LM_TOKEN_UNKNOWN;
}

/*
 * Merges i .. end: look up their parts, all at once, then their pairs' places, all at once.
 * The tables are larger than the caches; waiting for each place in turn would be most of
 * the time that loading takes.
 */
static int load_block(struct lm_vocab *v, const struct lm_str *merges, uint32_t i, uint32_t end,
                      char *joined, struct lm_err *err)
{
    struct asked a[N_AHEAD];
    int s = LM_OK;
    for (uint32_t k = i; k < end && s == LM_OK; k++)
        s = ask_parts(v, k, merges[k], &a[k - i], err);
    for (uint32_t k = i; k < end && s == LM_OK; k++) {
        v->merges[k].id = k ? v->merges[k - 1].id : 0;
        s = find_parts(v, k, &a[k - i], joined, &v->merges[k], err);
    }
    for (uint32_t k = i; k < end && s == LM_OK; k++)
        if (reachable(v, v->merges[k].id)) {
            v->attr[v->merges[k].id] |= LM_ATTR_MERGED;
            add_pair(v, &v->merges[k], k);
        }
    return s;
}

int lm_bpe_load(struct lm_vocab *v, const struct lm_vocab_src *src, struct lm_err *err)
{
    uint64_t n = src->n_merges, size = 64;
    if (!src->merges)
        return lm_fail(err, LM_EDATA, "the merges of the vocabulary are missing");
    if (n > INT32_MAX)
        return lm_fail(err, LM_EDATA, "the vocabulary has %llu merges", (unsigned long long)n);
    while (size < n + n / 2)
        size *= 2;
    v->pairs = calloc(size, sizeof *v->pairs);
    v->merges = lm_malloc_array(n + 1, sizeof *v->merges);
    char *joined = malloc((size_t)v->longest + 1);
    if (!v->pairs || !v->merges || !joined) {
        free(joined);
        return lm_fail_nomem(err);
    }
    v->pair_mask = (uint32_t)(size - 1);
    v->n_merges = (uint32_t)n;
    int s = LM_OK;
    for (uint32_t i = 0, k; i < v->n_merges && s == LM_OK; i = k) {
        k = v->n_merges - i > N_AHEAD ? i + N_AHEAD : v->n_merges;
        s = load_block(v, src->merges, i, k, joined, err);
    }
    free(joined);
    return s;
}

static void set_flag(unsigned *flags, unsigned flag, int how)
{
    if (how != LM_UNSAID)
        *flags = how ? *flags | flag : *flags & ~flag;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    const struct lm_pretok *row;
    const char *name = v->pre_name;
    if (!lm_uni_ready())
        return lm_fail(err, LM_ENOSUP, "byte-level BPE: built without utf8proc");
    if (!*name) {
        lm_note(env, LM_WARN, "the vocabulary names no pre-tokenizer: taken as 'default'");
        name = "default";
    }
    row = lm_pretok_find(name, strlen(name));
    if (!row)
        return lm_fail(err, LM_ENOSUP, "pre-tokenizer '%s' is not supported", name);
    v->pre = *row;
    set_flag(&v->pre.flags, LM_PRE_NFC, src->nfc);
    set_flag(&v->pre.flags, LM_PRE_WHOLE, src->whole_words);
    v->add_bos = v->pre.flags & LM_PRE_BOS;
    int s = decode_pieces(v, err);
    v->norm = v->pre.flags & LM_PRE_NFC ? LM_NORM_NFC : 0;
    for (int b = 0xC0; b < 256; b++)
        if ((b < 0xC2 || b > 0xF4) && v->byte_id[b] < 0)
            v->norm |= LM_NORM_FFFD;
    return s == LM_OK ? lm_bpe_load(v, src, err) : s;
}

/* The piece that a whole word is, or -1. */
static int32_t whole_word(struct lm_encoder *e, const char *p, size_t len)
{
    const struct lm_vocab *v = e->v;
    if (len > v->longest)
        return -1;
    lm_buf_clear(&e->scratch);
    char *to = lm_buf_room(&e->scratch, 2 * len);
    if (!to)
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += put_rune(to + n, rune_of((unsigned char)p[i]));
    int32_t id = lm_vocab_find(v, to, n);
    return id >= 0 && reachable(v, (uint32_t)id) ? id : -1;
}

/* A byte without a piece is left out.  The file's unknown id is not for it: byte-level
 * models have none, it names a control token. */
static bool put_sym(struct lm_encoder *e, uint32_t id, uint32_t len)
{
    return lm_encoder_put(e, id == NO_ID ? -1 : (int32_t)id, len);
}

/* The first symbols of a word: bytes, or with v->chars characters.  One that is no piece
 * becomes its bytes, or the unknown id, where neighbours may be one. */
static size_t next_symbol(const struct lm_vocab *v, const char *p, const char *end, uint32_t *id)
{
    int32_t x = -1;
    int k = 1;
    if (!v->chars) {
        x = v->byte_id[(unsigned char)*p];
        *id = x < 0 ? NO_ID : (uint32_t)x;
        return 1;
    }
    lm_uni_next(p, end, &k);
    if ((x = lm_vocab_find(v, p, (size_t)k)) < 0 && v->byte_fallback) {
        x = v->byte_id[(unsigned char)*p];
        k = 1;
    } else if (x < 0) {
        const char *q = p + k;
        for (x = v->unk; v->fuse_unk && q < end; q += k) {
            lm_uni_next(q, end, &k);
            if (lm_vocab_find(v, q, (size_t)k) >= 0)
                break;
        }
        *id = x < 0 ? NO_ID : (uint32_t)x;
        return v->fuse_unk ? (size_t)(q - p) : (size_t)k;
    }
    *id = (uint32_t)x;
    return (size_t)k;
}

/* A short word: look for the lowest rank each time, in arrays on the stack. */
static bool merge_small(struct lm_encoder *e, const char *p, size_t len)
{
    const struct lm_vocab *v = e->v;
    uint32_t id[N_SMALL + 1], size[N_SMALL + 1];
    uint32_t rank[N_SMALL + 1], to[N_SMALL + 1]; /* of the pair i, i + 1; rank 0: none */
    size_t n = 0;

    for (const char *end = p + len; p < end; n++) {
        size[n] = (uint32_t)next_symbol(v, p, end, &id[n]);
        p += size[n];
    }
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = find_pair(v, id[i], id[i + 1], &to[i]);
    for (;;) {
        size_t best = 0;
        uint32_t low = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++)
            if (rank[i] && rank[i] < low) {
                low = rank[i];
                best = i;
            }
        if (low == UINT32_MAX)
            break;
        id[best] = to[best];
        size[best] += size[best + 1];
        size_t tail = n - best - 2;
        memmove(id + best + 1, id + best + 2, tail * sizeof *id);
        memmove(size + best + 1, size + best + 2, tail * sizeof *size);
        memmove(rank + best + 1, rank + best + 2, tail * sizeof *rank);
        memmove(to + best + 1, to + best + 2, tail * sizeof *to);
        n--;
        if (best)
            rank[best - 1] = find_pair(v, id[best - 1], id[best], &to[best - 1]);
        if (best + 1 < n)
            rank[best] = find_pair(v, id[best], id[best + 1], &to[best]);
    }
    for (size_t i = 0; i < n; i++)
        if (!put_sym(e, id[i], size[i]))
            return false;
    return true;
}

/* Queue the merge of the symbol at i with the next, if there is one. */
static bool queue(struct lm_encoder *e, uint32_t i)
{
    uint32_t to, next = e->sym[i].next;
    if (next == NO_ID)
        return true;
    uint32_t rank_1 = find_pair(e->v, e->sym[i].id, e->sym[next].id, &to);
    return !rank_1 || lm_heap_push(e, (uint64_t)(rank_1 - 1) << 32 | i, 0);
}

/* Any word, with a list of symbols and a heap of pairs.  A pair in the heap that is no
 * longer what stands there is skipped. */
static bool merge_large(struct lm_encoder *e, const char *p, size_t len)
{
    const struct lm_vocab *v = e->v;
    uint32_t n = 0;
    for (const char *end = p + len; p < end; n++) {
        if (!lm_grow(&e->sym, &e->sym_cap, (size_t)n + 1, sizeof *e->sym))
            return false;
        struct lm_sym *s = &e->sym[n];
        s->prev = n - 1;
        s->next = n + 1;
        s->len = (uint32_t)next_symbol(v, p, end, &s->id);
        p += s->len;
    }
    struct lm_sym *sym = e->sym;
    sym[n - 1].next = NO_ID;
    e->heap_n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!queue(e, i))
            return false;
    while (e->heap_n) {
        uint64_t key = lm_heap_pop(e).key;
        uint32_t i = (uint32_t)key, next = sym[i].next;
        const struct lm_merge *m = &v->merges[key >> 32];
        if (!sym[i].len || next == NO_ID || sym[i].id != m->left || sym[next].id != m->right)
            continue;
        sym[i].id = m->id;
        sym[i].len += sym[next].len;
        sym[next].len = 0;
        sym[i].next = sym[next].next;
        if (sym[i].next != NO_ID)
            sym[sym[i].next].prev = i;
        if (!queue(e, i) || (i > 0 && !queue(e, sym[i].prev)))
            return false;
    }
    for (uint32_t i = 0; i != NO_ID; i = sym[i].next)
        if (!put_sym(e, sym[i].id, sym[i].len))
            return false;
    return true;
}

bool lm_bpe_merge(struct lm_encoder *e, const char *p, size_t len)
{
    return len <= N_SMALL ? merge_small(e, p, len) : merge_large(e, p, len);
}

static bool encode_word(struct lm_encoder *e, const char *p, size_t len, const char *limit)
{
    bool hit;
    struct lm_memo *w = lm_encoder_memo(e, p, len, limit, &hit);
    if (hit)
        return true;
    size_t from = e->ids->n;
    int32_t id = e->v->pre.flags & LM_PRE_WHOLE ? whole_word(e, p, len) : -1;
    bool ok = id >= 0 ? lm_encoder_put(e, id, len) : lm_bpe_merge(e, p, len);
    if (ok && w)
        lm_encoder_keep(e, w, from);
    return ok;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    (void)first;
    struct lm_cut words;
    if (lm_norm_needed(p, len, e->v->norm)) {
        lm_buf_clear(&e->norm);
        int s = lm_norm(p, len, e->v->norm, &e->norm, e->ids->want_spans ? &e->map : NULL, err);
        if (s != LM_OK)
            return s;
        p = e->norm.data;
        len = e->norm.len;
    }
    const char *limit = p + len;
    lm_cut_init(&words, &e->v->pre, p, len);
    for (const char *end; (end = lm_cut_next(&words)); p = end) {
        if ((size_t)(end - p) >= UINT32_MAX - 1)
            return lm_fail(err, LM_ENOSUP, "a word of more than 4 GiB");
        if (!encode_word(e, p, (size_t)(end - p), limit))
            return lm_fail_nomem(err);
    }
    return LM_OK;
}

const struct lm_tok_model lm_tok_gpt2 = {
    .name = "gpt2", .bos = -1, .eos = -1, .unk = -1, .load = load, .encode = encode,
};
