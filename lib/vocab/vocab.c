/* SPDX-License-Identifier: MIT */
/* Loading what all tokenizer models have in common, pieces, types, special ids, and what
 * is asked of a loaded vocabulary. */
#include "vocab/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/table.h"
#include "vocab/text_find.h"
#include "vocab/vocab_rules.h"

/* Pieces that end a turn, whatever the file says of them. */
static const char *const turn_ends[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    ("<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"), "[e~[",
};

/* Pieces of fill-in-the-middle prompts: control tokens too, but they end nothing. */
static const char *const fill_in[LM_N_FIM][8] = {
    [LM_FIM_PRE] = { "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<|code_prefix|>",
                     "<|prefix|>", "<PRE>",
                     ("<\xEF\xBD\x9C" "fim\xE2\x96\x81" "begin\xEF\xBD\x9C>") },
    [LM_FIM_SUF] = { "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<|code_suffix|>",
                     "<|suffix|>", "<SUF>",
                     ("<\xEF\xBD\x9C" "fim\xE2\x96\x81hole\xEF\xBD\x9C>") },
    [LM_FIM_MID] = { "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<|code_middle|>",
                     "<|middle|>", "<MID>",
                     ("<\xEF\xBD\x9C" "fim\xE2\x96\x81" "end\xEF\xBD\x9C>") },
    [LM_FIM_PAD] = { "<|fim_pad|>", "<fim-pad>", "<fim_pad>" },
    [LM_FIM_REP] = { "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>" },
    [LM_FIM_SEP] = { "<|file_sep|>" },
};

static const char *const type_names[] = {
    "?", "normal", "unknown", "control", "user", "unused", "byte",
};

bool lm_pieces_init(struct lm_pieces *p, uint32_t n, size_t size)
{
    const size_t places = ((size_t)n + 1) * sizeof *p->at + LM_SLACK;
    p->at = size < SIZE_MAX - places ? lm_malloc_large(places + size) : NULL;
    if (!p->at)
        return false;
    p->data = (char *)&p->at[(size_t)n + 1];
    p->at[0] = 0;
    return true;
}

void lm_pieces_release(struct lm_pieces *p)
{
    free(p->at);
    *p = (struct lm_pieces){ 0 };
}

enum { N_ASKED = 32 };                           /* places fetched from memory at once */

static inline bool same_text(const struct lm_vocab *v, uint32_t id, const char *p, size_t len)
{
    size_t n;
    const char *t = lm_pieces_get(&v->text, id, &n);
    return n == len && memcmp(t, p, len) == 0;
}

static int same_piece(const struct lm_vocab *v, uint32_t a, uint32_t b, struct lm_err *err)
{
    size_t n;
    const char *p = lm_pieces_get(&v->text, a, &n);
    return lm_fail(err, LM_EDATA, "ids %u and %u are the same piece: '%.*s'", a, b,
                   (int)(n < 80 ? n : 80), p);
}

/* Build v->slots from v->text; LM_EDATA when a text is there twice. */
static int make_index(struct lm_vocab *v, struct lm_err *err)
{
    uint64_t size = 64;
    while (size < 2 * (uint64_t)v->n)
        size *= 2;
    v->slots = lm_table_new(size * sizeof *v->slots);
    if (!v->slots)
        return lm_fail_nomem(err);
    v->slot_mask = (uint32_t)(size - 1);
    while (v->slot_id < v->n)
        v->slot_id = 2 * v->slot_id + 1;
    struct lm_asked a[N_ASKED];
    for (uint32_t id = 0; id < v->n; id++) {
        for (uint32_t k = id; id % N_ASKED == 0 && k < v->n && k < id + N_ASKED; k++) {
            size_t len;
            const char *p = lm_pieces_get(&v->text, k, &len);
            a[k - id] = lm_ask(v, p, len, true);
        }
        const uint32_t i = lm_asked_slot(v, &a[id % N_ASKED]);
        if (v->slots[i] && !v->doubles)
            return same_piece(v, (v->slots[i] & v->slot_id) - 1, id, err);
        v->slots[i] = (a[id % N_ASKED].hash & ~v->slot_id) | (id + 1);
    }
    return LM_OK;
}

int32_t lm_vocab_find(const struct lm_vocab *v, const void *text, size_t len)
{
    if (len > v->longest)
        return -1;
    const struct lm_asked a = lm_ask(v, text, len, false);
    return lm_find_asked(v, &a);
}

static int32_t find_str(const struct lm_vocab *v, const char *s)
{
    return lm_vocab_find(v, s, strlen(s));
}

/* The pieces.  An empty one gets a name, so that it never matches. */
static int load_texts(struct lm_vocab *v, const struct lm_str *str, uint64_t n, bool slack,
                      struct lm_err *err)
{
    if (n == 0 || n > INT32_MAX - 1)
        return lm_fail(err, LM_EDATA, "the vocabulary has %llu entries", (unsigned long long)n);
    size_t size = 0;
    for (uint64_t i = 0; i < n; i++)
        size += str[i].len ? str[i].len : 24;
    if (size >= UINT32_MAX)
        return lm_fail(err, LM_ENOSUP, "the vocabulary has more than 4 GiB of text");
    v->n = (uint32_t)n;
    if (!lm_pieces_init(&v->text, v->n, size))
        return lm_fail_nomem(err);
    char *to = v->text.data;
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len = str[i].len;
        if (slack && len && len <= LM_SLACK)
            memcpy(to, str[i].p, LM_SLACK);      /* a constant is copied without a call */
        else if (len)
            memcpy(to, str[i].p, len);
        else
            len = (size_t)snprintf(to, 24, "[EMPTY_%u]", i);
        to += len;
        v->text.at[i + 1] = (uint32_t)(to - v->text.data);
        v->longest = len > v->longest ? (uint32_t)len : v->longest;
    }
    return make_index(v, err);
}

static int load_types(struct lm_vocab *v, const int32_t *t, struct lm_err *err)
{
    v->type = malloc(v->n);
    v->attr = calloc(v->n, 1);
    if (!v->type || !v->attr)
        return lm_fail_nomem(err);
    memset(v->type, LM_TOKEN_NORMAL, v->n);
    for (uint32_t i = 0; t && i < v->n; i++) {
        if (t[i] < 0 || t[i] > LM_TOKEN_BYTE)
            return lm_fail(err, LM_EDATA, "the token type of id %u is %d: 0 to %d are known", i,
                           (int)t[i], (int)LM_TOKEN_BYTE);
        if (t[i])                                /* 0 says nothing */
            v->type[i] = (uint8_t)t[i];
    }
    return LM_OK;
}

static int load_scores(struct lm_vocab *v, const struct lm_vocab_src *src, struct lm_err *err)
{
    if (!src->scores && !src->int_scores)
        return LM_OK;
    v->score = lm_malloc_array(v->n, sizeof *v->score);
    if (!v->score)
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        v->score[i] = src->scores ? src->scores[i] : (float)src->int_scores[i];
        if (v->score[i] != v->score[i])
            return lm_fail(err, LM_EDATA, "the score of id %u is not a number", i);
    }
    return LM_OK;
}

/* An id the source names, or the model's own default if that exists. */
static int32_t id_or(const struct lm_vocab *v, int32_t id, int32_t otherwise)
{
    return id != LM_UNSAID ? id : otherwise < (int32_t)v->n ? otherwise : -1;
}

static bool listed(const struct lm_vocab *v, int32_t id, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (same_text(v, (uint32_t)id, list[i], strlen(list[i])))
            return true;
    return false;
}

/*
 * A listed piece is a control token, also where a converter wrote something else: of type
 * user, or normal when no merge can make it.  One that text can become (`</s>` in Qwen's
 * vocabulary, or in Gemma's, where it ends a struck-out passage) stays text.
 */
static bool make_control(struct lm_vocab *v, int32_t id)
{
    uint8_t *t = &v->type[id];
    if (*t == LM_TOKEN_CONTROL)
        return true;
    if (same_text(v, (uint32_t)id, "</s>", 4))
        return false;
    if (*t == LM_TOKEN_USER ||
        (*t == LM_TOKEN_NORMAL && v->n_merges && !(v->attr[id] & LM_ATTR_MERGED))) {
        *t = LM_TOKEN_CONTROL;
        return true;
    }
    return false;
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* What stands around a gap in a text: as the source says, or else the first piece listed. */
static void load_fill_in(struct lm_vocab *v, const struct lm_vocab_src *src)
{
    for (size_t k = 0; k < LM_N_FIM; k++) {
        v->fim[k] = -1;
        for (size_t i = 0; i < sizeof fill_in[k] / sizeof *fill_in[k] && fill_in[k][i]; i++) {
            int32_t id = find_str(v, fill_in[k][i]);
            if (id >= 0 && make_control(v, id) && v->fim[k] < 0)
                v->fim[k] = id;
        }
        if (src->fim_1[k])
            v->fim[k] = src->fim_1[k] - 1;
    }
}

/* The ids that end a generation: the listed pieces, and the three the source names. */
static int load_ends(struct lm_vocab *v, const struct lm_vocab_src *src, struct lm_err *err)
{
    size_t n_list = sizeof turn_ends / sizeof *turn_ends;
    const int32_t named[3] = { v->eos, id_or(v, src->eot, -1), id_or(v, src->eom, -1) };
    v->eot = named[1];
    v->eog = lm_malloc_array(n_list + 3 + src->n_ends, sizeof *v->eog);
    if (!v->eog)
        return lm_fail_nomem(err);

    load_fill_in(v, src);
    /* gpt-oss: <|end|> ends a message, not the answer; likewise in Solar */
    bool inner = find_str(v, "<|end|>") >= 0 &&
                 ((find_str(v, "<|return|>") >= 0 && find_str(v, "<|call|>") >= 0) ||
                  (find_str(v, "<|calls|>") >= 0 && find_str(v, "<|flush|>") >= 0));
    bool no_s = find_str(v, "<|tool_response>") >= 0 || find_str(v, "<|plamo:eos|>") >= 0;
    for (size_t i = 0; i < n_list; i++) {
        int32_t id = find_str(v, turn_ends[i]);
        if (id < 0 || !make_control(v, id) || (inner && strcmp(turn_ends[i], "<|end|>") == 0) ||
            (no_s && strcmp(turn_ends[i], "</s>") == 0))
            continue;
        v->eog[v->n_eog++] = id;
    }
    for (int i = 0; i < 3; i++)
        if (named[i] >= 0 && !listed(v, named[i], turn_ends, n_list))
            v->eog[v->n_eog++] = named[i];
    for (int i = 0; i < 3; i++)                  /* listed, but left out above */
        if (named[i] >= 0 && !lm_vocab_is_eog(v, named[i]))
            v->eog[v->n_eog++] = named[i];
    for (size_t i = 0; i < src->n_ends; i++)
        if (src->ends[i] >= 0 && (uint32_t)src->ends[i] < v->n)
            v->eog[v->n_eog++] = src->ends[i];
    qsort(v->eog, v->n_eog, sizeof *v->eog, by_value);
    size_t k = 0;
    for (size_t i = 0; i < v->n_eog; i++)
        if (!k || v->eog[k - 1] != v->eog[i])
            v->eog[k++] = v->eog[i];
    v->n_eog = k;
    return LM_OK;
}

/* Spaces that go with special pieces; in a GGUF file only names tell. */
static void guess_strips(struct lm_vocab *v, struct lm_str name)
{
    char low[128];
    size_t n = name.len < sizeof low - 1 ? name.len : sizeof low - 1;
    for (size_t i = 0; i < n; i++)
        low[i] = name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char)(name.p[i] + 32)
                 : name.p[i] ? name.p[i] : ' ';
    low[n] = 0;
    if (strstr(low, "phi-3") || strstr(low, "phi3"))
        for (uint32_t i = 0; i < v->n; i++)
            if ((v->type[i] == LM_TOKEN_CONTROL || v->type[i] == LM_TOKEN_USER ||
                 v->type[i] == LM_TOKEN_UNKNOWN) &&
                !same_text(v, i, "<unk>", 5) && !same_text(v, i, "<s>", 3) &&
                !same_text(v, i, "<|endoftext|>", 13))
                v->attr[i] |= LM_ATTR_RSTRIP;
    int32_t mask = -1;
    if (strcmp(v->pre_name, "modern-bert") == 0)
        mask = find_str(v, "[MASK]");
    else if (strstr(v->pre_name, "jina-v2-de") || strstr(v->pre_name, "jina-v2-es") ||
             strstr(v->pre_name, "jina-v2-code"))
        mask = find_str(v, "<mask>");
    if (mask >= 0)
        v->attr[mask] |= LM_ATTR_LSTRIP;
}

/* Why special tokens are not there, for messages. */
static int copy_lacks(struct lm_vocab *v, const struct lm_vocab_src *src, struct lm_err *err)
{
    for (size_t k = 0; k < LM_N_NAMED; k++)
        if (!(v->lacks[k] = strdup(src->lacks[k] ? src->lacks[k] : "the file names none")))
            return lm_fail_nomem(err);
    return LM_OK;
}

/* The ids around a text, besides the start and end tokens. */
static int copy_ids(struct lm_vocab *v, const struct lm_vocab_src *src, struct lm_err *err)
{
    v->before = lm_malloc_array(src->n_before + 1, sizeof *v->before);
    v->after = lm_malloc_array(src->n_after + 1, sizeof *v->after);
    if (!v->before || !v->after)
        return lm_fail_nomem(err);
    v->n_before = src->n_before;
    v->n_after = src->n_after;
    if (src->n_before)
        memcpy(v->before, src->before, src->n_before * sizeof *v->before);
    if (src->n_after)
        memcpy(v->after, src->after, src->n_after * sizeof *v->after);
    return LM_OK;
}

/* Which tokens begin and end a text, and whether they are added. */
static void note_special(const struct lm_vocab *v, const struct lm_env *env)
{
    const int32_t ids[] = { v->bos, v->eos };
    const bool added[] = { v->add_bos, v->add_eos };
    for (size_t i = 0; i < 2; i++) {
        size_t len = 0;
        const char *what = i ? "end token" : "start token";
        const char *p = ids[i] < 0 ? "" : lm_pieces_get(&v->text, (uint32_t)ids[i], &len);
        if (ids[i] >= 0)
            lm_note(env, LM_INFO, "%s: %d '%.*s', %s", what, (int)ids[i],
                    (int)(len < 80 ? len : 80), p, added[i] ? "added to a text" : "not added");
        else
            lm_note(env, LM_INFO, "%s: none", what);
    }
}

/* What it is.  Only byte-level BPE cuts words by its pre-tokenizer's name, which other files
 * have as well. */
static void note_kind(const struct lm_vocab *v, const struct lm_env *env)
{
    const bool cuts = v->model == &lm_tok_gpt2 && *v->pre_name;
    lm_note(env, LM_INFO, "vocabulary: %s%s%s%s, %u entries, %u merges",
            v->model->name, cuts ? ", pre-tokenizer '" : "", cuts ? v->pre_name : "",
            cuts ? "'" : "", v->n, v->n_merges);
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    int s;
    v->rules = src->rules;
    v->model = lm_tok_model_find(src->model.p, src->model.len);
    if (!v->model)
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%s' is not supported", src->model.p);
    if (src->pre.len >= sizeof v->pre_name || memchr(src->pre.p, 0, src->pre.len))
        return lm_fail(err, LM_ENOSUP, "pre-tokenizer '%.60s...' is not supported", src->pre.p);
    memcpy(v->pre_name, src->pre.p, src->pre.len);
    v->doubles = src->scores64 != NULL;          /* the library's Unigram has them */
    if ((s = load_texts(v, src->tokens, src->n, src->slack, err)) ||
        (s = load_types(v, src->types, err)) || (s = load_scores(v, src, err)))
        return s;
    if (src->attr)
        memcpy(v->attr, src->attr, v->n);
    v->bos = id_or(v, src->bos, v->model->bos);
    v->eos = id_or(v, src->eos, v->model->eos);
    v->unk = id_or(v, src->unk, v->model->unk);
    v->sep = src->sep >= 0 ? src->sep : find_str(v, "[SEP]");
    v->add_bos = v->model->add_bos;
    v->add_eos = v->model->add_eos;
    v->user_inside = src->sentencepiece;
    if ((s = v->model->load(v, src, env, err)) || (s = copy_ids(v, src, err)) ||
        (s = copy_lacks(v, src, err)) ||
        (v->rules && (s = lm_rules_load_bytes(v, err))))
        return s;
    if (src->add_bos >= 0)
        v->add_bos = src->add_bos;
    if (src->add_eos >= 0)
        v->add_eos = src->add_eos;
    if (v->model->adds_none)
        v->add_bos = v->add_eos = false;
    if ((s = load_ends(v, src, err)))
        return s;
    if (!src->attr)
        guess_strips(v, src->name);
    v->by_lines = v->by_lines && !v->rules && !v->user_inside && lm_added_by_lines(v);
    lm_merge_measure(v);
    note_special(v, env);
    note_kind(v, env);
    return lm_vocab_sort_added(v, err);
}

struct lm_vocab *lm_vocab_load(const struct lm_vocab_src *src, const struct lm_env *env,
                               struct lm_err *err)
{
    struct lm_vocab *v = calloc(1, sizeof *v);
    if (!v) {
        lm_rules_free(src->rules);
        lm_fail_nomem(err);
        return NULL;
    }
    if (load(v, src, env, err) != LM_OK) {
        lm_vocab_free(v);
        return NULL;
    }
    return v;
}

void lm_vocab_free(struct lm_vocab *v)
{
    if (!v)
        return;
    lm_pieces_release(&v->text);
    lm_pieces_release(&v->bytes);
    free(v->type);
    free(v->attr);
    free(v->score);
    lm_table_free(v->slots, ((size_t)v->slot_mask + 1) * sizeof *v->slots);
    free(v->eog);
    lm_added_release(&v->added);
    lm_rules_free(v->rules);
    free(v->before);
    free(v->after);
    for (size_t k = 0; k < LM_N_NAMED; k++)
        free(v->lacks[k]);
    if (v->model && v->model->release)
        v->model->release(v);
    free(v->rune_id);
    lm_pairs_release(&v->pairs);
    lm_bonds_release(&v->bonds);
    free(v);
}

uint32_t lm_vocab_n(const struct lm_vocab *v)
{
    return v->n;
}

struct lm_str lm_vocab_text(const struct lm_vocab *v, uint32_t id)
{
    struct lm_str s;
    s.p = lm_pieces_get(&v->text, id, &s.len);
    return s;
}

struct lm_str lm_vocab_piece(const struct lm_vocab *v, uint32_t id)
{
    struct lm_str s;
    s.p = lm_pieces_get(&v->bytes, id, &s.len);
    return s;
}

enum lm_token_type lm_vocab_type(const struct lm_vocab *v, uint32_t id)
{
    return (enum lm_token_type)v->type[id];
}

unsigned lm_vocab_traits(const struct lm_vocab *v, uint32_t id)
{
    static const struct { unsigned attr, trait; } of[] = {
        { LM_ATTR_LSTRIP, LM_TRAIT_LSTRIP }, { LM_ATTR_RSTRIP, LM_TRAIT_RSTRIP },
        { LM_ATTR_WORD, LM_TRAIT_WORD }, { LM_ATTR_NORMALIZED, LM_TRAIT_NORMALIZED },
    };
    unsigned traits = lm_vocab_is_eog(v, (int32_t)id) ? LM_TRAIT_EOG : 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        traits |= v->attr[id] & of[i].attr ? of[i].trait : 0;
    for (unsigned k = 0; k < LM_N_FIM; k++)
        traits |= v->fim[k] == (int32_t)id ? (unsigned)LM_TRAIT_FIM << k : 0;
    return traits;
}

float lm_vocab_score(const struct lm_vocab *v, uint32_t id)
{
    return v->score ? v->score[id] : 0;
}

const char *lm_token_type_name(enum lm_token_type t)
{
    return type_names[(unsigned)t <= LM_TOKEN_BYTE ? t : 0];
}

int32_t lm_vocab_bos(const struct lm_vocab *v)
{
    return v->bos;
}

int32_t lm_vocab_eos(const struct lm_vocab *v)
{
    return v->eos;
}

int32_t lm_vocab_eot(const struct lm_vocab *v)
{
    return v->eot;
}

bool lm_vocab_add_bos(const struct lm_vocab *v)
{
    return v->add_bos;
}

const int32_t *lm_vocab_eog(const struct lm_vocab *v, size_t *n)
{
    *n = v->n_eog;
    return v->eog;
}

bool lm_vocab_is_eog(const struct lm_vocab *v, int32_t id)
{
    for (size_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] == id)
            return true;
    return false;
}
