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
#include "base/table.h"
#include "base/thread.h"
#include "hf/hf_vocab.h"
#include "vocab/tokenizer.h"

#define N_AHEAD 32                               /* merges looked up together           */
#define MERGES  4096u                            /* looked up by one thread at a time   */
#define MOST_THREADS 8                           /* more only wait for memory           */
#define NONE    UINT32_MAX
#define BLOCK   ((size_t)1 << 16)                /* of text worked on at a time         */

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
        if (*q > 0x20 && *q < 0x7F) {            /* most of them */
            to[n++] = *q++;
            continue;
        }
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

/* Fill v->bytes, which has room. */
static void decode_pieces(struct lm_vocab *v)
{
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
}

static void find_bytes(struct lm_vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char s[2];
        v->byte_id[b] = lm_vocab_find(v, s, put_rune(s, rune_of((unsigned)b)));
    }
}

/* Left and right become id; NONE as id: they are no pieces, or make none. */
struct merge {
    uint32_t left, right, id;
};

/* Parts of a merge that are being looked up. */
struct asked {
    struct lm_hf_merge part;
    uint32_t           left_hash, right_hash;
};

/* What looks the merges up, in blocks that do not depend on each other. */
struct lookup {
    struct lm_vocab           *v;
    const struct lm_vocab_src *src;
    void                     (*meanwhile)(struct lm_vocab *v);
    struct merge              *merges;
    char                      *joined;           /* of each thread: room for two pieces */
    size_t                     room, skip;
};

/* Entry i of the merges.  In "left right" the separator is the first space that is not the
 * first byte; false: there is none. */
static bool parts_of(const struct lm_vocab_src *src, uint64_t i, struct lm_hf_merge *m)
{
    if (src->parts) {
        *m = src->parts[i];
        return true;
    }
    struct lm_str s = src->merges[i];
    const char *sep = s.len > 1 && s.len <= UINT32_MAX ? memchr(s.p + 1, ' ', s.len - 1) : NULL;
    if (!sep)
        return false;
    size_t left = (size_t)(sep - s.p);
    *m = (struct lm_hf_merge){ s.p, sep + 1, (uint32_t)left, (uint32_t)(s.len - left - 1) };
    return true;
}

/*
 * The piece that the parts make, -1 if there is none: first where the last merge's piece
 * was, as most vocabularies have them in order.  What marks the right one as going on, its
 * first `skip` bytes, is not in what they make.  joined has room for the longest piece.
 */
static int32_t find_joined(const struct lm_vocab *v, uint32_t guess, const struct lm_hf_merge *m,
                           size_t skip, char *joined)
{
    skip = skip < m->right_len ? skip : m->right_len;
    const char *right = m->right + skip;
    size_t l = m->left_len, r = m->right_len - skip;
    for (uint32_t id = guess; id < v->n && id < guess + 2; id++) {
        size_t n;
        const char *t = lm_pieces_get(&v->text, id, &n);
        if (n == l + r && lm_same(t, m->left, l) && lm_same(t + l, right, r))
            return (int32_t)id;
    }
    if (l + r > v->longest)
        return -1;
    memcpy(joined, m->left, l);
    memcpy(joined + l, right, r);
    return lm_vocab_find(v, joined, l + r);
}

/*
 * Merges i .. end, fewer than N_AHEAD + 1: look up their parts, all at once.  The tables are
 * larger than the caches; waiting for each place in turn would be most of the time that
 * loading takes.  *last is the id of the merge before.
 */
static void look_up(const struct lookup *x, uint32_t i, uint32_t end, char *joined, uint32_t *last)
{
    struct asked a[N_AHEAD];
    const struct lm_vocab *v = x->v;
    struct merge *to = x->merges + i;
    uint32_t n = end - i;
    for (uint32_t k = 0; k < n; k++) {
        if (!parts_of(x->src, i + k, &a[k].part))
            a[k].part = (struct lm_hf_merge){ "", "", 0, 0 };    /* which no piece is */
        a[k].left_hash = lm_vocab_ask(v, a[k].part.left, a[k].part.left_len);
        a[k].right_hash = lm_vocab_ask(v, a[k].part.right, a[k].part.right_len);
    }
    for (uint32_t k = 0; k < n; k++) {
        lm_vocab_ask_text(v, a[k].left_hash);
        lm_vocab_ask_text(v, a[k].right_hash);
    }
    for (uint32_t k = 0; k < n; k++) {
        const struct lm_hf_merge *m = &a[k].part;
        int32_t left = lm_vocab_find_hashed(v, m->left, m->left_len, a[k].left_hash);
        int32_t right = lm_vocab_find_hashed(v, m->right, m->right_len, a[k].right_hash);
        int32_t id = left < 0 || right < 0 ? -1 : find_joined(v, *last, m, x->skip, joined);
        to[k] = (struct merge){ (uint32_t)left, (uint32_t)right, (uint32_t)id };
        *last = id < 0 ? *last : (uint32_t)id;
    }
}

/* The first index is what goes on meanwhile, the others are blocks. */
static void look_up_block(void *arg, size_t index, int thread)
{
    const struct lookup *x = arg;
    if (!index && x->meanwhile)
        x->meanwhile(x->v);
    if (!index)
        return;
    uint32_t last = 0, i = (uint32_t)(index - 1) * MERGES, end = x->v->n_merges;
    end = end - i > MERGES ? i + MERGES : end;
    for (uint32_t k; i < end; i = k) {
        k = end - i > N_AHEAD ? i + N_AHEAD : end;
        look_up(x, i, k, x->joined + (size_t)thread * x->room, &last);
    }
}

/* What is wrong with merge i. */
static int no_merge(const struct lookup *x, uint64_t i, struct lm_err *err)
{
    struct lm_hf_merge m;
    if (!parts_of(x->src, i, &m))
        return lm_fail(err, LM_EDATA, "merge %llu has no space", (unsigned long long)i);
    bool left = lm_vocab_find(x->v, m.left, m.left_len) >= 0;
    bool right = lm_vocab_find(x->v, m.right, m.right_len) >= 0;
    const char *p = left && !right ? m.right : m.left;
    size_t n = !left ? m.left_len : m.right_len;
    int l = (int)(n < 64 ? n : 64);
    if (left && right)
        return lm_fail(err, LM_EDATA, "merge %llu: what '%.*s' and '%.*s' make is not in the "
                       "vocabulary", (unsigned long long)i,
                       (int)(m.left_len < 64 ? m.left_len : 64), m.left, l, m.right);
    return lm_fail(err, LM_EDATA, "merge %llu: '%.*s' is not in the vocabulary",
                   (unsigned long long)i, l, p);
}

/* May text become this piece by merging?  Never a control token. */
static bool reachable(const struct lm_vocab *v, uint32_t id)
{
    return v->type[id] != LM_TOKEN_CONTROL && v->type[id] != LM_TOKEN_UNKNOWN &&
           !(v->attr[id] & LM_ATTR_ADDED);
}

/* All merges are looked up: into the table of pairs, in their order. */
static int add_merges(struct lm_vocab *v, const struct lookup *x, struct lm_err *err)
{
    for (uint32_t i = 0; i < v->n_merges; i++) {
        const struct merge *m = &x->merges[i];
        if (v->n_merges - i > N_AHEAD)
            lm_pairs_ask(&v->pairs, m[N_AHEAD].left, m[N_AHEAD].right);
        if (m->id == NONE)
            return no_merge(x, i, err);
        if (!reachable(v, m->id))
            continue;
        v->attr[m->id] |= LM_ATTR_MERGED;
        v->bonds.all |= v->type[m->left] == LM_TOKEN_BYTE || v->type[m->right] == LM_TOKEN_BYTE;
        lm_pairs_add(&v->pairs, m->left, m->right, m->id, i);
    }
    return LM_OK;
}

static int load_merges(struct lm_vocab *v, const struct lm_vocab_src *src,
                       void (*meanwhile)(struct lm_vocab *v), const struct lm_env *env,
                       struct lm_err *err)
{
    size_t blocks = (v->n_merges + (size_t)MERGES - 1) / MERGES;
    size_t most = blocks < MOST_THREADS ? blocks : MOST_THREADS, wanted = lm_env_threads(env);
    int threads = (int)(wanted < most ? wanted : most ? most : 1);
    struct lm_pool *pool = lm_pool_new(threads, err);
    struct lookup x = { v, src, meanwhile, .room = 2 * (size_t)v->longest + 64 };
    int s = pool ? LM_OK : err ? (int)err->code : LM_ENOMEM;
    x.skip = v->rules && src->go_on ? strlen(src->go_on) : 0;
    x.merges = lm_malloc_array(v->n_merges, sizeof *x.merges);
    x.joined = lm_malloc_array((size_t)threads, x.room);
    if (pool && (!x.merges || !x.joined))
        s = lm_fail_nomem(err);
    if (s == LM_OK) {
        lm_use_all(x.merges, v->n_merges * sizeof *x.merges);
        lm_pool_run(pool, look_up_block, &x, 1 + blocks);
        s = add_merges(v, &x, err);
    }
    lm_pool_free(pool);
    free(x.merges);
    free(x.joined);
    return s;
}

int lm_bpe_load(struct lm_vocab *v, const struct lm_vocab_src *src,
                void (*meanwhile)(struct lm_vocab *v), const struct lm_env *env,
                struct lm_err *err)
{
    uint64_t n = src->n_merges;
    if (src->by_ranks) {
        if (meanwhile)
            meanwhile(v);
        return lm_ranks_load(v, err);
    }
    if (!src->merges && !src->parts)
        return lm_fail(err, LM_EDATA, "the merges of the vocabulary are missing");
    if (n > INT32_MAX)
        return lm_fail(err, LM_EDATA, "the vocabulary has %llu merges", (unsigned long long)n);
    int s = lm_pairs_init(&v->pairs, n, err);
    v->n_merges = (uint32_t)n;
    return s == LM_OK ? load_merges(v, src, meanwhile, env, err) : s;
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
    if (!*name && !src->pretok) {
        lm_note(env, LM_WARN, "the vocabulary names no pre-tokenizer: taken as 'default'");
        name = "default";
    }
    row = src->pretok ? src->pretok : lm_pretok_find(name, strlen(name));
    if (!row)
        return lm_fail(err, LM_ENOSUP, "pre-tokenizer '%s' is not supported", name);
    v->pre = *row;
    v->by_lines = !(row->flags & LM_PRE_SPANS);
    v->lone_lines = !lm_pretok_lines(row);
    set_flag(&v->pre.flags, LM_PRE_NFC, src->nfc);
    set_flag(&v->pre.flags, LM_PRE_WHOLE, src->whole_words);
    v->add_bos = v->pre.flags & LM_PRE_BOS;
    find_bytes(v);
    v->norm = v->pre.flags & LM_PRE_NFC ? LM_NORM_NFC : 0;
    for (int b = 0xC0; b < 256; b++)
        if ((b < 0xC2 || b > 0xF4) && v->byte_id[b] < 0)
            v->norm |= LM_NORM_FFFD;
    return lm_pieces_init(&v->bytes, v->n, v->text.at[v->n])
               ? lm_bpe_load(v, src, decode_pieces, env, err) : lm_fail_nomem(err);
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

static int encode_word(struct lm_encoder *e, const char *p, size_t len, bool lead,
                       struct lm_err *err)
{
    int32_t id = e->v->pre.flags & LM_PRE_WHOLE ? whole_word(e, p, len) : -1;
    if (id < 0)
        return lm_merge(e, p, len, lead, err);
    return lm_encoder_put(e, id, len) ? LM_OK : lm_fail_nomem(err);
}

/* Words of text whose normalization is done or not needed. */
static int encode_words(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    struct lm_cut words;
    const char *limit = p + len;
    lm_cut_init(&words, &e->v->pre, p, len);
    for (const char *end; (end = lm_cut_next(&words)); p = end) {
        int s = lm_encoder_word(e, p, (size_t)(end - p), limit, false, err);
        if (s != LM_OK)
            return s;
    }
    return lm_encoder_words(e, err);
}

static int encode_block(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    if (!lm_norm_needed(p, len, e->v->norm))
        return encode_words(e, p, len, err);
    lm_buf_clear(&e->norm);
    int s = lm_norm(p, len, e->v->norm, &e->norm, e->ids->want_spans ? &e->map : NULL, err);
    return s == LM_OK ? encode_words(e, e->norm.data, e->norm.len, err) : s;
}

/* Where a block of the text may end: behind a newline that a letter follows, at which every
 * pattern that has by_lines cuts and no normalization joins. */
static size_t block_size(const struct lm_vocab *v, const char *p, size_t len)
{
    size_t i = BLOCK;
    while (i < len) {
        const char *nl = memchr(p + i, '\n', len - i - 1);
        if (!nl)
            return len;
        i = (size_t)(nl - p) + 1;
        if (lm_begins_anew(v, p, i))
            return i;
    }
    return len;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    (void)first;
    int s = LM_OK;
    for (size_t n; len && s == LM_OK; p += n, len -= n) {
        n = e->v->by_lines ? block_size(e->v, p, len) : len;
        e->pos = 0;
        e->map.n = e->map.cursor = 0;
        s = encode_block(e, p, n, err);
        e->base += n;
    }
    return s;
}

const struct lm_tok_model lm_tok_gpt2 = {
    .name = "gpt2", .bos = -1, .eos = -1, .unk = -1, .load = load, .encode = encode,
    .part = lm_bpe_part, .encode_word = encode_word,
};
