/* SPDX-License-Identifier: MIT */
/* Unigram and WordPiece vocabularies, from whatever file has them. */

#include <string.h>

#include "hf/hf_vocab_parts.h"

static const char *type_of(const struct lm_jval *step)
{
    const char *s = lm_jval_str(lm_jval_get(step, "type"));
    return s ? s : "";
}

/* The step of a normalizer or pre-tokenizer, or of the sequence that it is, that is of a type;
 * NULL when there is none. */
static const struct lm_jval *find_step(const struct lm_jval *step, const char *type, int depth)
{
    if (!step || !strcmp(type_of(step), type))
        return step;
    const struct lm_jval *list = lm_jval_get(step, "normalizers"), *found = NULL;
    list = list ? list : lm_jval_get(step, "pretokenizers");
    for (const struct lm_jval *s = list && depth < 8 ? list->first : NULL; s && !found;
         s = s->next)
        found = find_step(s, type, depth + 1);
    return found;
}

/* --- Unigram ------------------------------------------------------------------------ */

static int copy_charsmap(struct lm_hf_vocab *v, const char *p, size_t n, struct lm_err *err)
{
    return !n || lm_hf_copy(v, p, n, &v->charsmap) ? LM_OK : lm_fail_nomem(err);
}

/* precompiled_charsmap of tokenizer.json: base64, or null. */
static int json_charsmap(struct lm_hf_vocab *v, const struct lm_jval *normalizer,
                         struct lm_err *err)
{
    const struct lm_jval *map = lm_jval_get(find_step(normalizer, "Precompiled", 0),
                                            "precompiled_charsmap");
    struct lm_buf b = {0};
    if (!map || map->kind == LM_JSON_NULL)
        return LM_OK;
    if (!lm_jval_str(map) || !lm_buf_base64(&b, map->str, map->len)) {
        lm_buf_release(&b);
        return lm_fail(err, LM_EDATA, "precompiled_charsmap: not base64");
    }
    const int r = b.failed ? lm_fail_nomem(err) : copy_charsmap(v, b.data, b.len, err);
    lm_buf_release(&b);
    return r;
}

/* Is a run of blanks one? */
static bool joins_blanks(const struct lm_tokenizer_json *t, const struct lm_jval *tc)
{
    bool clean = false;
    const struct lm_jval *replace = find_step(t->normalizer, "Replace", 0);
    const char *pattern = lm_jval_str(lm_jval_get(lm_jval_get(replace, "pattern"), "Regex"));
    if (find_step(t->pre_tokenizer, "WhitespaceSplit", 0) || (pattern && !strcmp(pattern, " {2,}")))
        return true;
    lm_jval_bool(lm_jval_get(tc, "clean_up_tokenization_spaces"), &clean);
    return clean;
}

/* The id of the piece that the configuration names as unknown, or that the model does. */
static int64_t unknown_id(const struct lm_tokenizer_json *t, const struct lm_jval *tc)
{
    const struct lm_jval *unk = lm_jval_get(tc, "unk_token");
    const char *text = lm_jval_str(unk) ? lm_jval_str(unk)
                                        : lm_jval_str(lm_jval_get(unk, "content"));
    int64_t id;
    for (const struct lm_jval *a = text && t->added ? t->added->first : NULL; a; a = a->next) {
        const char *content = lm_jval_str(lm_jval_get(a, "content"));
        if (content && !strcmp(content, text) && lm_jval_i64(lm_jval_get(a, "id"), &id))
            return id;
    }
    return t->unk_id;
}

int lm_hf_load_unigram_json(struct lm_hf_vocab *v, struct lm_tokenizer_json *t,
                            const struct lm_jval *tc, uint32_t n_rows, struct lm_err *err)
{
    v->model = "t5";
    v->pre = "default";
    int r = lm_hf_room(v, t->n_ids, n_rows, true, err);
    if (!r)
        r = lm_tokenizer_json_pieces(v, t, err);
    if (!r)
        r = lm_hf_lay_added(v, t->added, err);
    if (!r)
        r = json_charsmap(v, t->normalizer, err);
    if (r)
        return r;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->types[i])
            v->scores[i] = (float)v->scores64[i];
    const int64_t unk = unknown_id(t, tc);
    if (unk >= 0 && unk < v->n && v->types[unk])
        v->types[unk] = LM_PIECE_UNKNOWN;
    const struct lm_jval *space = find_step(t->pre_tokenizer, "Metaspace", 0);
    const char *scheme = lm_jval_str(lm_jval_get(space, "prepend_scheme"));
    bool prefix = space && !(scheme && !strcmp(scheme, "never"));
    if (!scheme)                                    /* as older files have it */
        lm_jval_bool(lm_jval_get(space, "add_prefix_space"), &prefix);
    v->add_space_prefix = prefix;
    v->extra_spaces = joins_blanks(t, tc);
    return LM_OK;
}

/*
 * XLM-R's files: the ids of its own special pieces come first, the model's own follow from the
 * fourth, and the mask stands behind all.
 */
static int realign(struct lm_hf_vocab *v, const struct lm_spm_model *m, struct lm_err *err)
{
    static const char *const own[] = { "<s>", "<pad>", "</s>", "<unk>" };
    if (v->n < m->n + 1 || m->n < 3)
        return lm_fail(err, LM_EDATA, "%zu pieces and <mask> do not fit %u ids", m->n, v->n);
    for (size_t i = m->n; i > 3; i--) {
        v->pieces[i] = v->pieces[i - 1];
        v->scores[i] = v->scores[i - 1];
        v->types[i] = v->types[i - 1];
    }
    for (size_t i = 0; i < 4; i++) {
        v->pieces[i] = (struct lm_str){ own[i], strlen(own[i]) };
        v->scores[i] = 0;
        v->types[i] = i == 3 ? LM_PIECE_UNKNOWN : LM_PIECE_CONTROL;
    }
    if (v->n > m->n + 1) {
        v->pieces[m->n + 1] = (struct lm_str){ "<mask>", 6 };
        v->scores[m->n + 1] = 0;
        v->types[m->n + 1] = LM_PIECE_CONTROL;
    }
    return LM_OK;
}

int lm_hf_load_unigram_spm(struct lm_hf_vocab *v, const struct lm_spm_model *m, bool xlmr,
                           const struct lm_jval *added, uint32_t n_rows, struct lm_err *err)
{
    v->model = "t5";
    v->pre = "default";
    int r = lm_hf_room(v, lm_hf_ids_in(added, false, m->n + (xlmr ? 2 : 0)), n_rows, true, err);
    if (!r)
        r = lm_hf_lay_spm(v, m, err);
    if (!r && xlmr)
        r = realign(v, m, err);
    if (!r)
        r = lm_hf_lay_added_file(v, added, err);
    v->add_space_prefix = m->add_prefix;
    v->extra_spaces = m->extra_spaces;
    return r ? r : copy_charsmap(v, m->charsmap.p, m->charsmap.len, err);
}

/* --- WordPiece ---------------------------------------------------------------------- */

int lm_hf_load_wordpiece(struct lm_hf_vocab *v, struct lm_tokenizer_json *t, uint32_t n_rows,
                         const char *pre, struct lm_err *err)
{
    if (t->go_on[0] && strcmp(t->go_on, "##"))
        return lm_fail(err, LM_ENOSUP, "WordPiece whose pieces go on with '%s': GGUF has no way "
                       "to say so", t->go_on);
    v->model = "bert";
    v->pre = pre ? pre : "jina-v2-en";              /* says nothing for this model */
    int r = lm_hf_room(v, t->n_ids, n_rows, false, err);
    if (!r)
        r = lm_tokenizer_json_pieces(v, t, err);
    if (!r)
        r = lm_hf_lay_added(v, t->added, err);
    const struct lm_jval *bert = find_step(t->normalizer, "BertNormalizer", 0);
    bool flag = find_step(t->normalizer, "Lowercase", 0) != NULL;
    lm_jval_bool(lm_jval_get(bert, "lowercase"), &flag);
    v->lowercase = flag;
    if (lm_jval_bool(lm_jval_get(bert, "strip_accents"), &flag) && flag != (v->lowercase != 0))
        v->strip_accents = flag;
    return r;
}

/* The lines of vocab.txt; *n of them if v is NULL, else they become pieces. */
static int read_lines(struct lm_hf_vocab *v, const char *data, size_t len, uint64_t *n,
                      struct lm_err *err)
{
    uint64_t id = 0, blank = 0;                 /* the line from 1 that is blank; 0: none yet */
    for (size_t i = 0; i < len; id++) {
        const char *nl = memchr(data + i, '\n', len - i);
        size_t k = nl ? (size_t)(nl - data) - i : len - i;
        const size_t next = i + k + (nl != NULL);
        k -= k && data[i + k - 1] == '\r';
        if (!k && blank)                        /* two pieces of the same text */
            return lm_fail(err, LM_EDATA, "lines %llu and %llu are both blank",
                           (unsigned long long)blank, (unsigned long long)id + 1);
        blank = k ? blank : id + 1;
        if (v && !lm_hf_copy(v, data + i, k, &v->pieces[id]))
            return lm_fail_nomem(err);
        if (v)
            v->types[id] = LM_PIECE_NORMAL;
        i = next;
    }
    *n = id;
    return LM_OK;
}

/* The special pieces that a vocab.txt has by their names. */
static void name_specials(struct lm_hf_vocab *v)
{
    static const char *const names[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    for (uint32_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (v->pieces[i].len == strlen(names[k]) &&
                !memcmp(v->pieces[i].p, names[k], v->pieces[i].len))
                v->types[i] = LM_PIECE_CONTROL;
}

int lm_hf_load_vocab_txt(struct lm_hf_vocab *v, const char *data, size_t len,
                         const struct lm_jval *tc, uint32_t n_rows, const char *pre,
                         struct lm_err *err)
{
    uint64_t n;
    bool lower = true, strip;
    v->model = "bert";
    v->pre = pre ? pre : "jina-v2-en";
    int r = read_lines(NULL, data, len, &n, err);
    if (!r)
        r = lm_hf_room(v, n, n_rows, false, err);
    if (!r)
        r = read_lines(v, data, len, &n, err);
    if (r)
        return r;
    name_specials(v);
    lm_jval_bool(lm_jval_get(tc, "do_lower_case"), &lower);
    v->lowercase = lower;
    if (lm_jval_bool(lm_jval_get(tc, "strip_accents"), &strip) && strip != lower)
        v->strip_accents = strip;
    return LM_OK;
}

/* "##x" becomes "x", others get U+2581: how GGUF spells them.  Control pieces stay. */
int lm_hf_spell_wordpiece(struct lm_hf_vocab *v, struct lm_err *err)
{
    for (uint32_t i = 0; i < v->n; i++) {
        struct lm_str *s = &v->pieces[i];
        if (v->types[i] == LM_PIECE_CONTROL)
            continue;
        if (s->len >= 2 && !memcmp(s->p, "##", 2)) {
            s->p += 2;
            s->len -= 2;
            continue;
        }
        char *p = lm_arena_alloc(&v->arena, s->len + 4);
        if (!p)
            return lm_fail_nomem(err);
        memcpy(p, "\u2581", 3);
        memcpy(p + 3, s->p, s->len);
        *s = (struct lm_str){ p, s->len + 3 };
    }
    return LM_OK;
}
