/* SPDX-License-Identifier: MIT */
#include "stream/logits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "payloads are written as they lie in memory, little-endian"
#endif

_Static_assert(sizeof(struct lm_frame) == 32, "a frame's head is 32 bytes on disk");
_Static_assert(sizeof(struct lm_top) == 8, "a top-k pair is 8 bytes on disk");
_Static_assert(sizeof(struct lm_guessed) == 8, "a guess is 8 bytes on disk");

enum { HEAD_FIXED = 16, HEAD_ALIGN = 64, JSON_MAX = 1 << 24, CHUNK = 1 << 18 };

struct fixed_head {
    char     magic[4];
    uint32_t version, n_vocab, json_bytes;
};
_Static_assert(sizeof(struct fixed_head) == HEAD_FIXED, "the fixed part is 16 bytes on disk");

/* Writing */

static void text_member(struct lm_buf *b, const char *key, const char *text)
{
    lm_buf_printf(b, ",\"%s\":", key);
    lm_json_quote(b, text, strlen(text));
}

static void put_ids(struct lm_buf *b, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lm_buf_printf(b, "%s%" PRId32, i ? "," : "", id[i]);
}

int lm_logits_write_head(struct lm_out *out, const struct lm_logits_head *h,
                         const char *program, const char *version, struct lm_err *err)
{
    struct lm_buf b = {0};
    struct fixed_head f = {.magic = "LMLG", .version = 1, .n_vocab = h->n_vocab};
    lm_buf_str(&b, "{\"model\":");
    lm_json_quote(&b, h->model, strlen(h->model));
    text_member(&b, "arch", h->arch);
    lm_buf_printf(&b, ",\"n_vocab\":%" PRIu32 ",\"n_ctx\":%" PRIu32, h->n_vocab, h->n_ctx);
    lm_buf_printf(&b, ",\"bos\":%" PRId64 ",\"eos\":%" PRId64 ",\"eog\":[", h->bos, h->eos);
    put_ids(&b, h->eog, h->n_eog);
    if (h->n_suppress) {
        lm_buf_str(&b, "],\"suppress\":[");
        put_ids(&b, h->suppress, h->n_suppress);
    }
    lm_buf_printf(&b, "],\"add_bos\":%s,\"decoder_start\":%" PRId64,
                  h->add_bos ? "true" : "false", h->decoder_start);
    lm_buf_printf(&b, ",\"loop\":%s,", h->loop ? "true" : "false");
    if (h->draft_head)
        lm_buf_str(&b, "\"draft_head\":true,");
    lm_buf_printf(&b, "\"sampling\":%s", h->sampling);
    text_member(&b, "program", program);
    text_member(&b, "version", version);
    lm_buf_byte(&b, '}');
    while ((HEAD_FIXED + b.len) % HEAD_ALIGN && !b.failed)
        lm_buf_byte(&b, ' ');

    int s = b.failed ? lm_fail_nomem(err) : LM_OK;
    f.json_bytes = (uint32_t)b.len;
    if (!s && b.len > JSON_MAX)
        s = lm_fail(err, LM_EUSE, "a header of %zu bytes is too long", b.len);
    if (!s)
        s = lm_out_write(out, &f, sizeof f, err);
    if (!s)
        s = lm_out_write(out, b.data, b.len, err);
    lm_buf_release(&b);
    return s;
}

int lm_logits_write_frame(struct lm_out *out, const struct lm_frame *f, const void *payload,
                          struct lm_err *err)
{
    int s = lm_out_write(out, f, sizeof *f, err);
    return s || !f->bytes ? s : lm_out_write(out, payload, f->bytes, err);
}

/* Reading */

struct lm_logits_reader {
    struct lm_in *in;
    char         *buf;             /* [cap], from malloc: aligned to 16             */
    size_t        pos, len, cap;
    char         *apart;           /* a payload that lies badly in buf              */
    uint32_t     *met;             /* of check_once                                 */
    size_t        met_cap;
    size_t        apart_cap;
    bool          eof, in_stream;
    uint32_t      n_vocab;
    uint64_t      n_frames;        /* of this stream                                */
    bool          any_order;
    uint64_t      next;            /* the first place that a frame may have         */
};

struct lm_logits_reader *lm_logits_reader_new(struct lm_in *in, struct lm_err *err)
{
    struct lm_logits_reader *r = calloc(1, sizeof *r);
    if (r) {
        r->in = in;
        r->cap = CHUNK;
        r->buf = malloc(r->cap);
    }
    if (!r || !r->buf) {
        free(r);
        lm_fail_nomem(err);
        return NULL;
    }
    return r;
}

void lm_logits_reader_free(struct lm_logits_reader *r)
{
    if (r) {
        free(r->buf);
        free(r->apart);
        free(r->met);
    }
    free(r);
}

/* Make n bytes lie at pos: 1 yes, 0 the input ends before, below 0 a code.  The buffer
 * grows by what arrived. */
static int need(struct lm_logits_reader *r, size_t n, struct lm_err *err)
{
    if (r->pos == r->len)
        r->pos = r->len = 0;
    while (r->len - r->pos < n) {
        size_t got;
        if (r->eof)
            return 0;
        if (r->pos && r->cap - r->pos < n) {
            memmove(r->buf, r->buf + r->pos, r->len - r->pos);
            r->len -= r->pos;
            r->pos = 0;
        }
        if (r->len == r->cap) {
            size_t want = r->cap > n / 2 ? n : 2 * r->cap;
            char *p = realloc(r->buf, want);
            if (!p)
                return lm_fail_nomem(err);
            r->buf = p;
            r->cap = want;
        }
        int s = lm_in_read_some(r->in, r->buf + r->len, r->cap - r->len, &got, err);
        if (s)
            return s;
        r->len += got;
        r->eof = got == 0;
    }
    return 1;
}

static int cut(const struct lm_logits_reader *r, struct lm_err *err)
{
    return lm_fail(err, LM_EDATA, "the stream is cut short after %" PRIu64 " frames", r->n_frames);
}

void lm_logits_head_release(struct lm_logits_head *h)
{
    free(h->eog);
    free(h->suppress);
    free(h->model);
    free(h->arch);
    free(h->sampling);
    *h = (struct lm_logits_head){0};
}

/* Members of the header's JSON text and where they go. */
enum member_kind { M_TEXT, M_INT, M_BOOL, M_IDS, M_RAW };

struct member {
    const char      *key;
    enum member_kind kind;
    void            *to;           /* char **, int64_t *, bool *, int32_t ** */
    bool             optional;
    bool             seen;
    size_t          *n;            /* M_IDS: how many */
};

static int read_ids(struct lm_json *j, const struct member *m, struct lm_err *err)
{
    size_t cap = 0, n = 0;
    int32_t *id = NULL, **to = m->to;
    enum lm_json_kind k;
    int s = LM_OK;
    free(*to);
    *to = NULL;
    *m->n = 0;
    while ((k = lm_json_next(j)) == LM_JSON_NUMBER) {
        struct lm_jval v = {.kind = LM_JSON_NUMBER, .str = j->str, .len = j->str_len};
        int64_t x;
        if (!lm_jval_i64(&v, &x) || x < 0 || x > INT32_MAX)
            s = lm_fail(err, LM_EDATA, "%s: %s is no token id", m->key, j->str);
        else if (n && id[n - 1] >= x)
            s = lm_fail(err, LM_EDATA, "%s: ids do not ascend", m->key);
        else if (!lm_grow(&id, &cap, n + 1, sizeof *id))
            s = lm_fail_nomem(err);
        if (s != LM_OK)
            break;
        id[n++] = (int32_t)x;
    }
    if (s == LM_OK && k != LM_JSON_ARRAY_END)
        s = k == LM_JSON_ERROR ? LM_EDATA : lm_fail(err, LM_EDATA, "%s: not all numbers", m->key);
    *to = id;                                    /* released with the head, in any case */
    *m->n = n;
    return s;
}

static char *copy_text(const char *p, size_t n)
{
    char *s = malloc(n + 1);
    if (s) {
        memcpy(s, p, n);
        s[n] = 0;
    }
    return s;
}

/* The value whose first token is k, for m. */
static int read_member(struct lm_json *j, enum lm_json_kind k, struct member *m,
                       struct lm_err *err)
{
    struct lm_jval v = {.kind = k, .str = j->str, .len = j->str_len};
    size_t at = j->at;
    bool good = false, text = m->kind == M_TEXT || m->kind == M_RAW;
    m->seen = true;
    if (m->kind == M_IDS && k == LM_JSON_ARRAY)
        return read_ids(j, m, err);
    if (m->kind == M_INT)
        good = k == LM_JSON_NUMBER && lm_jval_i64(&v, m->to);
    else if (m->kind == M_BOOL)
        good = lm_jval_bool(&v, m->to);
    else if (m->kind == M_TEXT)
        good = k == LM_JSON_STRING;
    else if (m->kind == M_RAW)
        good = k == LM_JSON_OBJECT;
    if (!good)
        return lm_fail(err, LM_EDATA, "%s has a value of the wrong kind", m->key);
    if (!text)
        return LM_OK;

    char **to = m->to;
    if (m->kind == M_RAW && lm_json_skip(j, k))
        return LM_EDATA;
    free(*to);
    *to = m->kind == M_RAW ? copy_text(j->text + at, j->pos - at) : copy_text(v.str, v.len);
    return *to ? LM_OK : lm_fail_nomem(err);
}

static int read_members(struct lm_json *j, struct member *members, size_t n, struct lm_err *err)
{
    enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? LM_EDATA : lm_fail(err, LM_EDATA, "no JSON object");
    while ((k = lm_json_next(j)) == LM_JSON_KEY) {
        size_t i = 0;
        while (i < n && !lm_json_is(j, members[i].key))
            i++;
        k = lm_json_next(j);
        int s = k == LM_JSON_ERROR ? LM_EDATA
              : i < n ? read_member(j, k, &members[i], err) : lm_json_skip(j, k);
        if (s)
            return s;
    }
    if (k != LM_JSON_OBJECT_END)
        return LM_EDATA;
    if ((k = lm_json_next(j)) != LM_JSON_EOF)
        return k == LM_JSON_ERROR ? LM_EDATA : lm_fail(err, LM_EDATA, "more than one JSON value");
    for (size_t i = 0; i < n; i++)
        if (!members[i].seen && !members[i].optional)
            return lm_fail(err, LM_EDATA, "no %s", members[i].key);
    return LM_OK;
}

/* Do sizes agree, and are the ids that may be chosen or fed in the vocabulary's? */
static int check_members(const struct lm_logits_head *h, int64_t n_vocab, int64_t n_ctx,
                         struct lm_err *err)
{
    if (n_vocab != h->n_vocab)
        return lm_fail(err, LM_EDATA, "n_vocab is %" PRId64 ", but the vocabulary has %" PRIu32
                       " entries", n_vocab, h->n_vocab);
    if (n_ctx < 0 || n_ctx > UINT32_MAX)
        return lm_fail(err, LM_EDATA, "n_ctx is %" PRId64 ", which is no length", n_ctx);
    if (h->n_eog && (uint32_t)h->eog[h->n_eog - 1] >= h->n_vocab)
        return lm_fail(err, LM_EDATA, "eog: id %" PRId32 " is outside the vocabulary of %" PRIu32,
                       h->eog[h->n_eog - 1], h->n_vocab);
    if (h->decoder_start < -1 || h->decoder_start >= h->n_vocab)
        return lm_fail(err, LM_EDATA, "decoder_start: id %" PRId64 " is outside the vocabulary of "
                       "%" PRIu32, h->decoder_start, h->n_vocab);
    return LM_OK;
}

static int read_json(const char *text, size_t len, struct lm_logits_head *h, struct lm_err *err)
{
    int64_t n_vocab = 0, n_ctx = 0;
    struct member members[] = {
        {.key = "model", .kind = M_TEXT, .to = &h->model},
        {.key = "arch", .kind = M_TEXT, .to = &h->arch},
        {.key = "n_vocab", .kind = M_INT, .to = &n_vocab},
        {.key = "n_ctx", .kind = M_INT, .to = &n_ctx},
        {.key = "bos", .kind = M_INT, .to = &h->bos},
        {.key = "eos", .kind = M_INT, .to = &h->eos},
        {.key = "eog", .kind = M_IDS, .to = &h->eog, .n = &h->n_eog},
        {.key = "add_bos", .kind = M_BOOL, .to = &h->add_bos},
        {.key = "decoder_start", .kind = M_INT, .to = &h->decoder_start},
        {.key = "sampling", .kind = M_RAW, .to = &h->sampling},
        {.key = "suppress", .kind = M_IDS, .to = &h->suppress, .n = &h->n_suppress,
         .optional = true},
        {.key = "draft_head", .kind = M_BOOL, .to = &h->draft_head, .optional = true},
        {.key = "loop", .kind = M_BOOL, .to = &h->loop, .optional = true},
    };
    const size_t n = sizeof members / sizeof *members;
    struct lm_json j;
    lm_json_init(&j, text, len, err);
    int s = read_members(&j, members, n, err);
    lm_json_release(&j);
    if (!s)
        s = check_members(h, n_vocab, n_ctx, err);
    h->n_ctx = (uint32_t)n_ctx;
    h->loop_said = members[n - 1].seen;
    return s ? lm_err_at(err, s, "header") : LM_OK;
}

static int check_fixed(const struct fixed_head *f, struct lm_err *err)
{
    if (f->version != 1)
        return lm_fail(err, LM_ENOSUP, "a logits stream of version %" PRIu32 ", not 1", f->version);
    if (!f->n_vocab || f->n_vocab > LM_LOGITS_VOCAB_MAX)
        return lm_fail(err, LM_EDATA, "header: a vocabulary of %" PRIu32 " entries, not 1 to %d",
                       f->n_vocab, LM_LOGITS_VOCAB_MAX);
    if (f->json_bytes > JSON_MAX)
        return lm_fail(err, LM_EDATA, "header: %" PRIu32 " bytes of text, at most %d can be",
                       f->json_bytes, JSON_MAX);
    if ((f->json_bytes + sizeof *f) % HEAD_ALIGN)
        return lm_fail(err, LM_EDATA, "header: after %" PRIu32 " bytes of text the frames do not "
                       "begin at a multiple of %d", f->json_bytes, HEAD_ALIGN);
    return LM_OK;
}

int lm_logits_read_head(struct lm_logits_reader *r, struct lm_logits_head *h, struct lm_err *err)
{
    struct fixed_head f;
    *h = (struct lm_logits_head){.bos = -1, .eos = -1, .decoder_start = -1,
                                  .loop = true};
    int s = need(r, sizeof f.magic, err);
    if (s == 0 && r->pos == r->len)
        return 0;
    if (s < 0)
        return s;
    if (s == 0 || memcmp(r->buf + r->pos, "LMLG", sizeof f.magic) != 0)
        return lm_fail(err, LM_EDATA, "not a logits stream");
    if ((s = need(r, sizeof f, err)) <= 0)
        return s ? s : lm_fail(err, LM_EDATA, "the stream ends inside its header");
    memcpy(&f, r->buf + r->pos, sizeof f);
    if ((s = check_fixed(&f, err)))
        return s;
    if ((s = need(r, sizeof f + f.json_bytes, err)) <= 0)
        return s ? s : lm_fail(err, LM_EDATA, "the stream ends inside its header");

    h->n_vocab = f.n_vocab;
    s = read_json(r->buf + r->pos + sizeof f, f.json_bytes, h, err);
    if (s) {
        lm_logits_head_release(h);
        return s;
    }
    r->pos += sizeof f + f.json_bytes;
    r->n_vocab = f.n_vocab;
    r->n_frames = r->next = 0;
    r->any_order = h->loop;
    r->in_stream = true;
    return 1;
}

/* Does a frame's head make sense?  What kinds there are and what each promises. */
static int check_frame(const struct lm_logits_reader *r, const struct lm_frame *f,
                       struct lm_err *err)
{
    bool row = f->kind == LM_FRAME_DENSE || f->kind == LM_FRAME_TOP || f->kind == LM_FRAME_GUESS;
    uint64_t bytes = f->bytes;                      /* what should be there */
    if (f->kind == LM_FRAME_DENSE || f->kind == LM_FRAME_VECTOR)
        bytes = (uint64_t)f->n * sizeof(float);
    else if (f->kind == LM_FRAME_TOP)
        bytes = (uint64_t)f->n * sizeof(struct lm_top);
    else if (f->kind == LM_FRAME_GUESS)
        bytes = (uint64_t)f->n * sizeof(struct lm_guessed);
    else if (f->kind == LM_FRAME_END)
        bytes = 0;
    if (f->bytes != bytes)
        return lm_fail(err, LM_EDATA, "frame %" PRIu64 ": %" PRIu32 " bytes for %" PRIu32
                       " values of kind %" PRIu32, r->n_frames, f->bytes, f->n, f->kind);
    if (row && f->token >= r->n_vocab)
        return lm_fail(err, LM_EDATA, "frame %" PRIu64 ": token %" PRIu32
                       " is outside the vocabulary of %" PRIu32, r->n_frames, f->token,
                       r->n_vocab);
    if ((f->kind == LM_FRAME_DENSE && f->n != r->n_vocab) ||
        (f->kind == LM_FRAME_TOP && f->n > r->n_vocab))
        return lm_fail(err, LM_EDATA, "frame %" PRIu64 ": %" PRIu32
                       " values for a vocabulary of %" PRIu32, r->n_frames, f->n, r->n_vocab);
    if (f->kind == LM_FRAME_END && f->n != (uint32_t)r->n_frames)
        return lm_fail(err, LM_EDATA, "the end frame counts %" PRIu32 " frames, %" PRIu64
                       " came", f->n, r->n_frames);
    return LM_OK;
}

/* Does a frame that is about a token come after those before it? */
static int check_place(struct lm_logits_reader *r, const struct lm_frame *f, struct lm_err *err)
{
    const uint64_t place = (uint64_t)f->seq << 32 | f->pos;
    if (r->any_order || f->kind == LM_FRAME_ERROR || f->kind == LM_FRAME_END)
        return LM_OK;
    if (place < r->next)
        return lm_fail(err, LM_EDATA, "frame %" PRIu64 ": sequence %" PRIu32 ", position %" PRIu32
                       " is out of order", r->n_frames, f->seq, f->pos);
    r->next = place < UINT64_MAX ? place + 1 : place;
    return LM_OK;
}

/* No id of a top frame comes twice: they are put into a table with room for twice as many. */
static int check_once(struct lm_logits_reader *r, const struct lm_top *t, uint32_t n,
                      struct lm_err *err)
{
    size_t size = 2;
    while (size < 2 * (size_t)n)
        size *= 2;
    if (!lm_grow(&r->met, &r->met_cap, size, sizeof *r->met))
        return lm_fail_nomem(err);
    memset(r->met, 0, size * sizeof *r->met);     /* free; else a pair's number from 1 */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t mixed = t[i].id * UINT32_C(2654435769);
        size_t at = (mixed ^ mixed >> 16) & (size - 1);
        for (; r->met[at]; at = (at + 1) & (size - 1))
            if (t[r->met[at] - 1].id == t[i].id)
                return lm_fail(err, LM_EDATA, "frame %" PRIu64 ": id %" PRIu32 " is there twice",
                               r->n_frames, t[i].id);
        r->met[at] = i + 1;
    }
    return LM_OK;
}

static int check_id(const struct lm_logits_reader *r, uint32_t id, struct lm_err *err)
{
    return id < r->n_vocab ? LM_OK
                           : lm_fail(err, LM_EDATA, "frame %" PRIu64 ": id %" PRIu32 " is outside "
                                     "the vocabulary of %" PRIu32, r->n_frames, id, r->n_vocab);
}

static int check_guesses(const struct lm_logits_reader *r, const struct lm_guessed *g, uint32_t n,
                         struct lm_err *err)
{
    int s = LM_OK;
    for (uint32_t i = 0; i < n && !s; i++)
        s = check_id(r, g[i].id, err);
    return s;
}

static int check_top(struct lm_logits_reader *r, const struct lm_top *t, uint32_t n,
                     struct lm_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (check_id(r, t[i].id, err))
            return LM_EDATA;
        if (i && (t[i].logit > t[i - 1].logit ||
                  (t[i].logit == t[i - 1].logit && t[i].id <= t[i - 1].id)))
            return lm_fail(err, LM_EDATA, "frame %" PRIu64 ": pair %" PRIu32
                           " is out of order", r->n_frames, i);
    }
    return check_once(r, t, n, err);
}

/* The payload at pos, moved only if it lies badly, as after a text of odd length. */
static int take_payload(struct lm_logits_reader *r, size_t n, const void **payload,
                        struct lm_err *err)
{
    const char *p = n ? r->buf + r->pos : r->buf;
    if (n && r->pos % 16) {
        if (!lm_grow(&r->apart, &r->apart_cap, n, 1))
            return lm_fail_nomem(err);
        memcpy(r->apart, p, n);
        p = r->apart;
    }
    r->pos += n;
    *payload = p;
    return LM_OK;
}

/* Read over a payload of an unknown kind without keeping it. */
static int skip_payload(struct lm_logits_reader *r, size_t n, struct lm_err *err)
{
    while (n) {
        int s = need(r, 1, err);
        if (s <= 0)
            return s ? s : cut(r, err);
        size_t have = r->len - r->pos < n ? r->len - r->pos : n;
        r->pos += have;
        n -= have;
    }
    return LM_OK;
}

int lm_logits_read_frame(struct lm_logits_reader *r, struct lm_frame *f, const void **payload,
                         struct lm_err *err)
{
    if (!r->in_stream)
        return lm_fail(err, LM_EUSE, "no header was read");
    for (;;) {
        int s = need(r, sizeof *f, err);
        if (s <= 0)
            return s ? s : cut(r, err);
        memcpy(f, r->buf + r->pos, sizeof *f);
        if (f->kind > LM_FRAME_LAST && f->flags & LM_FRAME_CRITICAL)
            return lm_fail(err, LM_ENOSUP, "frame %" PRIu64 ": kind %" PRIu32 " is unknown",
                           r->n_frames, f->kind);
        if ((s = check_frame(r, f, err)))
            return s;
        if (f->kind <= LM_FRAME_LAST)
            break;
        r->pos += sizeof *f;
        if ((s = skip_payload(r, f->bytes, err)))
            return s;
        r->n_frames++;
    }
    /* head and payload together, so that a frame read whole into an empty buffer stays put */
    int s = need(r, sizeof *f + f->bytes, err);
    if (s <= 0)
        return s ? s : cut(r, err);
    r->pos += sizeof *f;
    if ((s = take_payload(r, f->bytes, payload, err)))
        return s;
    if (f->kind == LM_FRAME_TOP && (s = check_top(r, *payload, f->n, err)))
        return s;
    if (f->kind == LM_FRAME_GUESS && (s = check_guesses(r, *payload, f->n, err)))
        return s;
    if ((s = check_place(r, f, err)))
        return s;
    r->n_frames++;
    if (f->kind == LM_FRAME_END)
        r->in_stream = false;
    return LM_OK;
}
