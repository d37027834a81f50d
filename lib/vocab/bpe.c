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
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/thread.h"
#include "hf/hf_vocab.h"
#include "vocab/text_find.h"

#define N_AHEAD 64                               /* merges looked up together           */
#define MERGES  4096u                            /* looked up by one thread at a time   */
#define MOST_THREADS 8                           /* more only wait for memory           */
#define NONE    UINT32_MAX
#define BLOCK   ((size_t)1 << 16)                /* of text worked on at a time         */

/* The character of a byte. */
static uint16_t rune_of(unsigned b)
{
    if (b <= 0x20)
        return (uint16_t)(256 + b);
    if (b >= 0x7F && b <= 0xA0)
        return (uint16_t)(256 + 33 + (b - 0x7F));
    return b == 0xAD ? 256 + 67 : (uint16_t)b;
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

/* How many of the 8 bytes in x, the first lowest, are printable ASCII before one that is not. */
static size_t plain_bytes(uint64_t x)
{
    const uint64_t ones = UINT64_MAX / 255, high = ones << 7;
    const uint64_t others = (x | (x + ones) | (x - ones * 0x21)) & high;
    return others ? (size_t)__builtin_ctzll(others) / 8 : 8;
}

/* The bytes of characters that UTF-8 writes in two, C2 80 to C5 BF; -1: none. */
enum { FIRST_LEAD = 0xC2, N_LEADS = 4 };

struct alphabet {
    int16_t byte[N_LEADS][64];
};

static void fill_alphabet(struct alphabet *a)
{
    memset(a, 0xFF, sizeof *a);
    for (int b = 0; b < 256; b++) {
        const uint16_t r = rune_of((unsigned)b);
        if (r >= 0x80)
            a->byte[(r >> 6) - (FIRST_LEAD & 0x1F)][r & 63] = (int16_t)b;
    }
}

/* The byte of the two at p; -1: they are no such character. */
static inline int byte_at(const struct alphabet *a, const char *p)
{
    const unsigned lead = (unsigned char)p[0] - (unsigned)FIRST_LEAD, next = (unsigned char)p[1];
    return lead < N_LEADS && next >> 6 == 2 ? a->byte[lead][next & 63] : -1;
}

/*
 * The bytes that a piece stands for; a piece not written in the alphabet is itself.  Behind it
 * LM_SLACK bytes may be read, behind what is written that many may be spoilt.
 */
static size_t decode_piece(const struct alphabet *a, const char *p, size_t len, char *to)
{
    const char *q = p, *end = p + len;
    size_t n = 0;
    while (q < end) {
        int b = byte_at(a, q);
        if (b >= 0 && end - q >= 2) {
            to[n++] = (char)b;
            q += 2;
            continue;
        }
        const size_t plain = plain_bytes(lm_load_8(q)), left = (size_t)(end - q);
        if (!plain) {
            memcpy(to, p, len);
            return len;
        }
        memcpy(to + n, q, 8);
        n += plain < left ? plain : left;
        q += plain < left ? plain : left;
    }
    return n;
}

/* Fill v->bytes, which has room. */
static void decode_pieces(struct lm_vocab *v)
{
    struct alphabet a;
    fill_alphabet(&a);
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        char *to = v->bytes.data + v->bytes.at[i];
        unsigned t = v->type[i];
        if (t == LM_TOKEN_CONTROL || t == LM_TOKEN_USER || t == LM_TOKEN_UNKNOWN)
            memcpy(to, p, len);
        else
            len = decode_piece(&a, p, len, to);
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

/* What looks the merges up, in blocks that do not depend on each other.  Those that are none have
 * NONE as id. */
struct lookup {
    struct lm_vocab           *v;
    const struct lm_vocab_src *src;
    void                     (*meanwhile)(struct lm_vocab *v);
    char                      *joined;           /* of each thread: room for two pieces */
    size_t                     room, skip;
};

static const char no_text[LM_SLACK] = "";

/* The number of the first space among the 8 bytes in x, the first lowest; 8: there is none. */
static size_t first_space(uint64_t x)
{
    const uint64_t ones = UINT64_MAX / 255;
    x ^= ones * ' ';
    x = (x - ones) & ~x & ones << 7;
    return x ? (size_t)__builtin_ctzll(x) / 8 : 8;
}

/* Entry i of the merges.  In "left right" the separator is the first space that is not the
 * first byte; false: there is none. */
static bool parts_of(const struct lm_vocab_src *src, uint64_t i, struct lm_hf_merge *m)
{
    if (src->parts) {
        *m = src->parts[i];
        return true;
    }
    const struct lm_str s = src->merges[i];
    size_t left = src->slack && s.len > 1 ? 1 + first_space(lm_load_8(s.p + 1)) : 1;
    if (left == 1 || left == 9) {                /* not there, or it was not looked for */
        const char *sep = s.len > left && s.len <= UINT32_MAX
                              ? memchr(s.p + left, ' ', s.len - left) : NULL;
        left = sep ? (size_t)(sep - s.p) : s.len;
    }
    if (left >= s.len)
        return false;
    *m = (struct lm_hf_merge){ s.p, s.p + left + 1, (uint32_t)left, (uint32_t)(s.len - left - 1) };
    return true;
}

/* The piece that the parts make, which are short: first where the last merge's piece was, as most
 * vocabularies have them in order. */
static int32_t find_short(const struct lm_vocab *v, uint32_t guess, const struct lm_asked *left,
                          const struct lm_asked *right)
{
    struct lm_asked a = { .len = left->len + right->len };
    a.key = lm_join_keys(left->key, left->len, right->key);
    for (uint32_t id = guess; id < v->n && id < guess + 2; id++)
        if (lm_is_asked(v, id, &a))
            return (int32_t)id;
    a.hash = lm_hash_text(NULL, a.len, a.key);
    a.slot = a.hash & v->slot_mask;
    return lm_find_asked(v, &a);
}

/*
 * The piece that the parts make, -1 if there is none.  What marks the right one as going on, its
 * first `skip` bytes, is not in what they make.  joined has room for the longest piece.
 */
static int32_t find_joined(const struct lm_vocab *v, uint32_t guess, const struct lm_asked *left,
                           const struct lm_asked *right, size_t skip, char *joined)
{
    skip = skip < right->len ? skip : right->len;
    size_t l = left->len, r = right->len - skip;
    if (!skip && l && l + r <= 16)
        return find_short(v, guess, left, right);
    if (l + r > v->longest)
        return -1;
    memcpy(joined, left->p, l);
    memcpy(joined + l, right->p + skip, r);
    return lm_vocab_find(v, joined, l + r);
}

/*
 * Merges i .. end, fewer than N_AHEAD + 1: look up their parts, all at once.  The tables are
 * larger than the caches; waiting for each place in turn would be most of the time that
 * loading takes.  *last is the id of the merge before.
 */
static void look_up(const struct lookup *x, uint32_t i, uint32_t end, char *joined, uint32_t *last)
{
    struct lm_asked left[N_AHEAD], right[N_AHEAD];
    const struct lm_vocab *v = x->v;
    struct lm_merge *to = v->pairs.merge + i;
    const bool slack = x->src->slack;
    uint32_t n = end - i;
    for (uint32_t k = 0; k < n; k++) {
        struct lm_hf_merge m;
        if (!parts_of(x->src, i + k, &m))
            m = (struct lm_hf_merge){ no_text, no_text, 0, 0 };  /* which no piece is */
        left[k] = lm_ask(v, m.left, m.left_len, slack);
        right[k] = lm_ask(v, m.right, m.right_len, slack);
    }
    for (uint32_t k = 0; k < n; k++) {
        lm_ask_text(v, &left[k]);
        lm_ask_text(v, &right[k]);
    }
    for (uint32_t k = 0; k < n; k++) {
        int32_t l = lm_find_asked(v, &left[k]), r = lm_find_asked(v, &right[k]);
        int32_t id = l < 0 || r < 0 ? -1 : find_joined(v, *last, &left[k], &right[k], x->skip,
                                                       joined);
        to[k] = (struct lm_merge){ (uint32_t)l, (uint32_t)r, (uint32_t)id };
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
    const bool bytes = memchr(v->type, LM_TOKEN_BYTE, v->n) != NULL;
    uint64_t hash[N_AHEAD];
    for (uint32_t i = 0; i < v->n_merges; i++) {
        const struct lm_merge *m = &v->pairs.merge[i];
        for (uint32_t k = i; i % N_AHEAD == 0 && k < v->n_merges && k - i < N_AHEAD; k++)
            hash[k - i] = lm_pairs_ask(&v->pairs, k);
        if (m->id == NONE)
            return no_merge(x, i, err);
        if (!reachable(v, m->id))
            continue;
        v->attr[m->id] |= LM_ATTR_MERGED;
        if (bytes)
            v->bonds.all |= v->type[m->left] == LM_TOKEN_BYTE ||
                            v->type[m->right] == LM_TOKEN_BYTE;
        lm_pairs_add(&v->pairs, i, hash[i % N_AHEAD]);
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
    x.joined = lm_malloc_array((size_t)threads, x.room);
    if (pool && !x.joined)
        s = lm_fail_nomem(err);
    if (s == LM_OK) {
        lm_pool_run(pool, look_up_block, &x, 1 + blocks);
        s = add_merges(v, &x, err);
    }
    lm_pool_free(pool);
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
    int s = lm_pairs_init(&v->pairs, (uint32_t)n, err);
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
    const bool unnamed = !*name && !src->pretok;
    if (unnamed)
        name = "default";
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
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    int s = lm_bpe_load(v, src, decode_pieces, env, err);
    if (s == LM_OK && unnamed)
        lm_note(env, LM_WARN, "the vocabulary names no pre-tokenizer: taken as 'default'");
    return s;
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
