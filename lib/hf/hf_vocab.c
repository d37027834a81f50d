/* SPDX-License-Identifier: MIT */
/*
 * Tokenizer files to GGUF's keys.  The rules are those of the reference converter: which file
 * wins, how holes are filled, what counts as a control token.
 */

#include "hf/hf_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/hf_vocab_parts.h"

static const float ADDED_SCORE = -1000, PADDING_SCORE = -10000;

const char *lm_hf_copy(struct lm_hf_vocab *v, const char *p, size_t n, struct lm_str *out)
{
    out->p = lm_arena_copy(&v->arena, p, n);
    out->len = n;
    return out->p;
}

/* Does the text look like a control token, whatever a file says of it? */
static bool looks_special(const char *s, size_t n)
{
    static const char *const exact[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };
    static const struct { const char *begin, *end; } around[] = {
        { "<|", "|>" }, { "<\uff5c", "\uff5c>" }, { "<unused", ">" },
    };
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (n == strlen(exact[i]) && !memcmp(s, exact[i], n))
            return true;
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        const size_t b = strlen(around[i].begin), e = strlen(around[i].end);
        if (n >= b + e && !memcmp(s, around[i].begin, b) && !memcmp(s + n - e, around[i].end, e))
            return true;
    }
    return false;
}

/* "<0x00>" to "<0xFF>" */
static bool is_byte_piece(const struct lm_str *s)
{
    return s->len == 6 && !memcmp(s->p, "<0x", 3) && s->p[5] == '>' &&
           strspn(s->p + 3, "0123456789ABCDEFabcdef") == 2;
}

/* Every U+2581 becomes a blank: how user-defined pieces are stored. */
static int plain_blanks(struct lm_hf_vocab *v, struct lm_str *s, struct lm_err *err)
{
    char *p = lm_arena_copy(&v->arena, s->p, s->len);
    size_t n = 0;
    if (!p)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < s->len; i++)
        if (s->len - i >= 3 && !memcmp(s->p + i, "\u2581", 3)) {
            p[n++] = ' ';
            i += 2;
        } else {
            p[n++] = s->p[i];
        }
    p[n] = 0;
    *s = (struct lm_str){ p, n };
    return LM_OK;
}

/* Lay an added token over the piece of its id. */
static int add_token(struct lm_hf_vocab *v, uint32_t id, const struct lm_jval *content,
                     bool special, struct lm_err *err)
{
    struct lm_str s;
    if (!lm_hf_copy(v, content->str, content->len, &s))
        return lm_fail_nomem(err);
    special = special || looks_special(s.p, s.len);
    if (!special) {
        const int r = plain_blanks(v, &s, err);
        if (r)
            return r;
    }
    v->pieces[id] = s;
    v->types[id] = special ? LM_PIECE_CONTROL : LM_PIECE_USER;
    if (v->scores)
        v->scores[id] = ADDED_SCORE;
    return LM_OK;
}

/* added_tokens of tokenizer.json: a list of objects with id, content, special. */
int lm_hf_lay_added(struct lm_hf_vocab *v, const struct lm_jval *list, struct lm_err *err)
{
    for (const struct lm_jval *t = list ? list->first : NULL; t; t = t->next) {
        const struct lm_jval *content = lm_jval_get(t, "content");
        bool special = false;
        int64_t id = -1;
        lm_jval_bool(lm_jval_get(t, "special"), &special);
        if (!lm_jval_i64(lm_jval_get(t, "id"), &id) || !lm_jval_str(content) || id < 0 ||
            id >= v->n)
            return lm_fail(err, LM_EDATA, "added_tokens: an entry without a good id or content");
        const int r = add_token(v, (uint32_t)id, content, special, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* Ids that no file names. */
static int fill_holes(struct lm_hf_vocab *v, struct lm_err *err)
{
    for (uint32_t i = 0; i < v->n; i++) {
        char name[24];
        if (v->types[i])
            continue;
        const int n = snprintf(name, sizeof name, "[PAD%u]", i);
        if (!lm_hf_copy(v, name, (size_t)n, &v->pieces[i]))
            return lm_fail_nomem(err);
        v->types[i] = LM_PIECE_UNUSED;
        if (v->scores)
            v->scores[i] = PADDING_SCORE;
    }
    return LM_OK;
}

int lm_hf_room(struct lm_hf_vocab *v, uint64_t found, uint32_t n_rows, bool scores,
                struct lm_err *err)
{
    if (found > LM_HF_MAX_PIECES || n_rows > LM_HF_MAX_PIECES)
        return lm_fail(err, LM_ENOSUP, "more than %u pieces", LM_HF_MAX_PIECES);
    if (!found)
        return lm_fail(err, LM_EDATA, "has no pieces");
    if (n_rows && found > n_rows)
        return lm_fail(err, LM_EDATA, "the tokenizer has %llu pieces, but the embedding only "
                       "%u rows", (unsigned long long)found, n_rows);
    v->n = n_rows ? n_rows : (uint32_t)found;
    v->pieces = lm_arena_array(&v->arena, v->n, sizeof *v->pieces);
    v->types = lm_arena_array(&v->arena, v->n, sizeof *v->types);
    if (scores)
        v->scores = lm_arena_array(&v->arena, v->n, sizeof *v->scores);
    return v->pieces && v->types && (v->scores || !scores) ? LM_OK : lm_fail_nomem(err);
}

/* The number of ids that a list of {"ID": ...} (ids as keys) or {"TEXT": id} names. */
uint64_t lm_hf_ids_in(const struct lm_jval *list, bool keys, uint64_t n)
{
    for (const struct lm_jval *t = list ? list->first : NULL; t; t = t->next) {
        int64_t id = -1;
        if (keys)
            id = strtol(t->key, NULL, 10);
        else
            lm_jval_i64(t, &id);
        if (id >= 0 && id < INT32_MAX && (uint64_t)id >= n)
            n = (uint64_t)id + 1;
    }
    return n;
}

/* --- tokenizer.json ----------------------------------------------------------------- */

/* added_tokens.json beside tokenizer.json, from older versions: it names ids that the
 * tokenizer has not got itself. */
static int fill_from_file(struct lm_hf_vocab *v, const struct lm_jval *added, struct lm_err *err)
{
    for (const struct lm_jval *t = added ? added->first : NULL; t; t = t->next) {
        int64_t id = -1;
        if (!lm_jval_i64(t, &id) || id < 0 || id >= v->n)
            return lm_fail(err, LM_EDATA, "added_tokens.json: %s: bad id", t->key);
        if (v->types[id])
            continue;
        if (!lm_hf_copy(v, t->key, t->key_len, &v->pieces[id]))
            return lm_fail_nomem(err);
        v->types[id] = looks_special(t->key, t->key_len) ? LM_PIECE_CONTROL : LM_PIECE_USER;
        if (v->scores)
            v->scores[id] = ADDED_SCORE;
    }
    return LM_OK;
}

/* BPE with the byte alphabet, and BPE whose bytes are pieces. */
static int load_bpe(struct lm_hf_vocab *v, struct lm_tokenizer_json *t,
                    const struct lm_jval *added_file, uint32_t n_rows, const char *pre,
                    struct lm_err *err)
{
    const char *decoder = lm_jval_str(lm_jval_get(t->decoder, "type"));
    const bool by_bytes = decoder && !strcmp(decoder, "ByteLevel");
    if (t->type[0] && strcmp(t->type, "BPE"))
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%s': this version cannot convert it",
                       t->type);
    if (!by_bytes && !t->byte_fallback)
        return lm_fail(err, LM_ENOSUP, "neither byte-level BPE nor BPE with byte fallback: this "
                       "version cannot convert it");
    v->model = by_bytes ? "gpt2" : "llama";
    v->pre = pre;
    if (!pre)
        v->pre = by_bytes ? lm_hf_pretok_name(t->pre_tokenizer, t->ignore_merges) : "default";
    if (!v->pre)
        return lm_fail(err, LM_ENOSUP, "its pre_tokenizer has no known GGUF name: give one with "
                       "--pre NAME");
    if (by_bytes && !t->n_merges)
        return lm_fail(err, LM_EDATA, "has no merges, and there is no merges.txt");
    int r = lm_hf_room(v, lm_hf_ids_in(added_file, false, t->n_ids), n_rows, !by_bytes, err);
    if (!r)
        r = lm_tokenizer_json_pieces(v, t, err);
    for (uint32_t i = 0; !r && !by_bytes && i < v->n; i++) {
        v->scores[i] = ADDED_SCORE;
        if (v->types[i] && is_byte_piece(&v->pieces[i]))
            v->types[i] = LM_PIECE_BYTE;
    }
    if (!r)
        r = lm_hf_lay_added(v, t->added, err);
    if (!r)
        r = fill_from_file(v, added_file, err);
    return r ? r : lm_hf_check_merges(v, err);
}

/* Does a normalizer (or any step in its sequence) put a blank in front? */
static bool prepends(const struct lm_jval *step)
{
    const char *type = lm_jval_str(lm_jval_get(step, "type"));
    const char *scheme = lm_jval_str(lm_jval_get(step, "prepend_scheme"));
    if (type && (!strcmp(type, "Prepend") || (!strcmp(type, "Metaspace") &&
                                              (!scheme || strcmp(scheme, "never")))))
        return true;
    const struct lm_jval *list = lm_jval_get(step, "normalizers");
    list = list ? list : lm_jval_get(step, "pretokenizers");
    for (const struct lm_jval *s = list ? list->first : NULL; s; s = s->next)
        if (prepends(s))
            return true;
    return false;
}

/* --- tokenizer.model ---------------------------------------------------------------- */

int lm_hf_lay_spm(struct lm_hf_vocab *v, const struct lm_spm_model *m, struct lm_err *err)
{
    for (size_t i = 0; i < m->n; i++) {
        if (!lm_hf_copy(v, m->pieces[i].text, m->pieces[i].len, &v->pieces[i]))
            return lm_fail_nomem(err);
        v->scores[i] = m->pieces[i].score;
        v->types[i] = m->pieces[i].type;
    }
    return LM_OK;
}

/* added_tokens.json: {"TEXT": id}; they are user-defined. */
int lm_hf_lay_added_file(struct lm_hf_vocab *v, const struct lm_jval *added, struct lm_err *err)
{
    for (const struct lm_jval *t = added ? added->first : NULL; t; t = t->next) {
        int64_t id = -1;
        if (!lm_jval_i64(t, &id) || id < 0 || id >= v->n)
            return lm_fail(err, LM_EDATA, "added_tokens.json: %s: bad id", t->key);
        if (!lm_hf_copy(v, t->key, t->key_len, &v->pieces[id]))
            return lm_fail_nomem(err);
        v->types[id] = LM_PIECE_USER;
        if (v->scores)
            v->scores[id] = ADDED_SCORE;
    }
    return LM_OK;
}

/* added_tokens_decoder of tokenizer_config.json: {"ID": {content, special}}. */
int lm_hf_lay_decoder(struct lm_hf_vocab *v, const struct lm_jval *list, struct lm_err *err)
{
    for (const struct lm_jval *t = list ? list->first : NULL; t; t = t->next) {
        const struct lm_jval *content = lm_jval_get(t, "content");
        bool special = false;
        char *end;
        const unsigned long id = strtoul(t->key, &end, 10);
        lm_jval_bool(lm_jval_get(t, "special"), &special);
        if (*end || !*t->key || id >= v->n || !lm_jval_str(content))
            return lm_fail(err, LM_EDATA, "tokenizer_config.json: added_tokens_decoder: %s: "
                           "bad entry", t->key);
        const int r = add_token(v, (uint32_t)id, content, special, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* What lists ids by what they are called is an object, if it is there. */
static int check_decoder(const struct lm_jval *tokenizer_config, struct lm_err *err)
{
    const struct lm_jval *list = lm_jval_get(tokenizer_config, "added_tokens_decoder");
    if (!list || list->kind == LM_JSON_OBJECT || list->kind == LM_JSON_NULL)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "tokenizer_config.json: added_tokens_decoder is no object");
}

/* The files to look for. */
struct files {
    struct lm_hf_source      *src;
    struct lm_tokenizer_json *t;
    bool                      own;      /* Mistral's: no config.json, but params.json     */
    struct lm_hf_beside       beside;
};

static bool is_text(const struct lm_spm_piece *p, const char *text)
{
    return p->len == strlen(text) && !memcmp(p->text, text, p->len);
}

/* Mistral's own files have nothing else that says which pieces are special, and the reference
 * writes them in another order. */
static void own_spm_ids(struct lm_hf_vocab *v, const struct lm_spm_model *m)
{
    static const char *const keys[] = { "bos_token_id", "eos_token_id", "unknown_token_id",
                                        "padding_token_id" };
    int64_t ids[4] = { -1, -1, -1, -1 };
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_spm_piece *p = &m->pieces[i];
        if (p->type == LM_PIECE_UNKNOWN)
            ids[2] = (int64_t)i;
        else if (p->type == LM_PIECE_CONTROL && is_text(p, m->bos))
            ids[0] = (int64_t)i;
        else if (p->type == LM_PIECE_CONTROL && is_text(p, m->eos))
            ids[1] = ids[3] = (int64_t)i;
    }
    for (size_t k = 0; k < 4; k++)
        if (ids[k] >= 0) {
            v->ids[v->n_ids].key = keys[k];
            v->ids[v->n_ids++].id = (uint32_t)ids[k];
        }
    v->adds[0].key = "add_bos_token";
    v->adds[0].add = true;
    v->adds[1].key = "add_eos_token";
    v->n_adds = 2;
    v->ids_first = true;
    v->pre = NULL;
}

static int load_spm(struct lm_hf_vocab *v, const struct lm_spm_model *m, const struct files *f,
                    struct lm_err *err)
{
    const struct lm_jval *added = f->beside.added;
    const struct lm_jval *decoder = lm_jval_get(f->beside.tokenizer_config, "added_tokens_decoder");
    const uint64_t n = lm_hf_ids_in(decoder, true, lm_hf_ids_in(added, false, m->n));
    v->model = "llama";
    v->pre = "default";
    if (m->kind != 2)
        lm_note(f->beside.env, LM_WARN, "neither a BPE nor a Unigram model: the GGUF's tokenizer "
                "will cut text differently");
    int r = lm_hf_room(v, n, f->beside.n_rows, true, err);
    if (!r)
        r = lm_hf_lay_spm(v, m, err);
    if (!r && f->own)
        own_spm_ids(v, m);
    if (!r && !m->add_prefix)
        v->add_space_prefix = 0;
    if (!r)
        r = lm_hf_lay_added_file(v, added, err);
    return r ? r : lm_hf_lay_decoder(v, decoder, err);
}

/* --- all of it ---------------------------------------------------------------------- */

/* A file with the name of a SentencePiece model, which may be tiktoken's: left alone then where
 * there is a tokenizer.json. */
static int model_pieces(struct lm_hf_vocab *v, const struct files *f, const char *data,
                        size_t len, bool xlmr, struct lm_err *err)
{
    struct lm_spm_model m;
    if (lm_looks_like_ranks((const unsigned char *)data, len))
        return f->t->text ? 1 : lm_hf_load_ranks(v, lm_rank_tiktoken, data, len, &f->beside, err);
    int r = lm_spm_model_parse(&m, data, len, err);
    if (!r)
        r = m.kind == 1 ? lm_hf_load_unigram_spm(v, &m, xlmr, f->beside.added, f->beside.n_rows,
                                                 err)
                        : load_spm(v, &m, f, err);
    for (size_t i = 0; !r && !xlmr && i < m.n; i++)
        if (m.pieces[i].type == LM_PIECE_CONTROL) {
            v->usual_bos = is_text(&m.pieces[i], m.bos) ? (int32_t)i : v->usual_bos;
            v->usual_eos = is_text(&m.pieces[i], m.eos) ? (int32_t)i : v->usual_eos;
        }
    lm_spm_model_release(&m);
    return r;
}

/* tokenizer.model and its like; 1 when there is none. */
static int spm_pieces(struct lm_hf_vocab *v, const struct files *f, struct lm_err *err)
{
    static const char *const names[] = { "tokenizer.model", "spiece.model",
                                         "sentencepiece.bpe.model" };
    char *data = NULL;
    size_t len, i = 0;
    int r = 1;
    for (; i < sizeof names / sizeof *names; i++)
        if ((r = lm_hf_load(f->src, names[i], &data, &len, err)) <= 0)
            break;
    if (r)
        return r;
    r = model_pieces(v, f, data, len, i == 2, err);
    free(data);
    return r < 0 ? lm_err_at(err, r, "%s", names[i]) : r;
}

/* tekken.json, tiktoken's or RWKV's list; 1 when there is none. */
static int rank_pieces(struct lm_hf_vocab *v, const struct files *f, struct lm_err *err)
{
    lm_rank_reader *read;
    const char *name = lm_hf_rank_file(f->src, &read);
    char *data = NULL;
    size_t len;
    if (!name || (f->t->text && !(f->own && read == lm_rank_tekken)))
        return 1;
    int r = lm_hf_load(f->src, name, &data, &len, err);
    if (r)
        return r;
    r = lm_hf_load_ranks(v, read, data, len, &f->beside, err);
    free(data);
    return r ? lm_err_at(err, r, "%s", name) : LM_OK;
}

static int json_pieces(struct lm_hf_vocab *v, const struct files *f, struct lm_err *err)
{
    struct lm_tokenizer_json *t = f->t;
    int r;
    const struct lm_hf_beside *b = &f->beside;
    if (t->has_vocab && t->type[0] && t->scored != !strcmp(t->type, "Unigram"))
        return lm_fail(err, LM_EDATA, "vocab is %s, which that of a %s model is not",
                       t->scored ? "a list" : "an object", t->type);
    if (t->scored && !t->n_entries)
        return lm_fail(err, LM_EDATA, "vocab: no pieces");
    if (t->scored)
        return lm_hf_load_unigram_json(v, t, b->tokenizer_config, b->n_rows, err);
    if (!strcmp(t->type, "WordPiece"))
        return lm_hf_load_wordpiece(v, t, b->n_rows, b->pre, err);
    if (t->type[0] && strcmp(t->type, "BPE"))
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%s': GGUF has no such kind", t->type);
    if (!t->n_merges && (r = lm_tokenizer_merges_txt(t, f->src, err)) < 0)
        return r;
    r = load_bpe(v, t, b->added, b->n_rows, b->pre, err);
    if (!r && v->scores) {
        lm_note(b->env, LM_WARN, "no tokenizer.model: the pieces get no scores, and programs "
                "that go by these cut some words differently");
        if (!prepends(t->normalizer) && !prepends(t->pre_tokenizer))
            v->add_space_prefix = 0;
    }
    return r;
}

/* The pieces, from whichever file has them. */
static int load_pieces(struct lm_hf_vocab *v, struct files *f, struct lm_err *err)
{
    const struct lm_hf_beside *b = &f->beside;
    char *data = NULL;
    size_t len;
    int r = lm_hf_load_object(f->src, &v->arena, "added_tokens.json", &f->beside.added, err);
    if (!r)
        r = rank_pieces(v, f, err);
    if (r == 1)
        r = spm_pieces(v, f, err);
    if (r <= 0)
        return r;
    if (f->t->text) {
        r = json_pieces(v, f, err);
        return r ? lm_err_at(err, r, "tokenizer.json") : LM_OK;
    }
    r = lm_hf_load(f->src, "vocab.txt", &data, &len, err);
    if (r < 0)
        return r;
    if (r > 0) {
        r = lm_hf_load_vocab_json(v, f->t, f->src, b, err);
        return r > 0 ? lm_hf_missing(f->src, "tokenizer.json, tokenizer.model, vocab.txt, "
                                     "vocab.json or tekken.json", err) : r;
    }
    r = lm_hf_load_vocab_txt(v, data, len, b->tokenizer_config, b->n_rows, b->pre, err);
    free(data);
    return r ? lm_err_at(err, r, "vocab.txt") : LM_OK;
}

int lm_hf_vocab_load(struct lm_hf_vocab *v, struct lm_hf_source *src,
                     const struct lm_jval *config, const struct lm_jval *generation,
                     uint32_t n_rows, const char *pre, const struct lm_env *env,
                     struct lm_err *err)
{
    struct lm_tokenizer_json t = {0};
    struct lm_hf_special_files f = { .config = config, .generation_config = generation };
    struct files files = {
        .src = src, .t = &t, .beside = { .n_rows = n_rows, .pre = pre, .env = env },
        .own = lm_hf_find(src, "config.json") < 0 && lm_hf_find(src, "params.json") >= 0,
    };
    int64_t size = 0;
    bool prefix;
    *v = (struct lm_hf_vocab){ .add_space_prefix = -1, .extra_spaces = -1, .lowercase = -1,
                               .strip_accents = -1, .token_types = -1, .usual_bos = -1,
                               .usual_eos = -1, .usual_unk = -1 };
    if (!n_rows && lm_jval_i64(lm_jval_get(config, "vocab_size"), &size) && size > 0 &&
        size < INT32_MAX)
        files.beside.n_rows = (uint32_t)size;
    int r = lm_hf_load_object(src, &v->arena, "tokenizer_config.json", &f.tokenizer_config, err);
    if (!r)
        r = check_decoder(f.tokenizer_config, err);
    if (!r)
        r = lm_hf_load_object(src, &v->arena, "special_tokens_map.json", &f.special_map, err);
    if (!r)
        r = lm_tokenizer_json_open(&t, &v->arena, src, err);
    files.beside.tokenizer_config = f.tokenizer_config;
    files.beside.special_map = f.special_map;
    if (!r)
        r = load_pieces(v, &files, err);
    if (!r)
        r = fill_holes(v, err);
    f.no_json = !t.text;
    f.added = t.added;
    f.post_processor = t.post_processor;
    if (!r)
        r = lm_hf_special_ids(v, &f, env, err);
    if (!r)
        r = lm_hf_chat_templates(v, src, f.tokenizer_config, false, err);
    if (!r && lm_jval_bool(lm_jval_get(f.tokenizer_config, "add_prefix_space"), &prefix))
        v->add_space_prefix = prefix;
    if (!r && !strcmp(v->model, "bert")) {
        v->add_space_prefix = -1;
        r = lm_hf_spell_wordpiece(v, err);
    }
    if (!r && (!strcmp(v->model, "bert") || !strcmp(v->model, "t5")))
        lm_jval_i64(lm_jval_get(config, "type_vocab_size"), &v->token_types);
    lm_tokenizer_json_close(&t);
    if (r)
        lm_hf_vocab_release(v);
    return r;
}

void lm_hf_vocab_release(struct lm_hf_vocab *v)
{
    lm_arena_release(&v->arena);
    *v = (struct lm_hf_vocab){0};
}
