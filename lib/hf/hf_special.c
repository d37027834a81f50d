/* SPDX-License-Identifier: MIT */
/* Special ids, whether they are added to a text, and chat templates. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hf/hf_vocab_parts.h"

/* The kinds of special tokens, in the order in which files are asked for them. */
enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, EOT, EOM, N_SPECIAL };

static const struct {
    const char *text;           /* in tokenizer_config.json                           */
    const char *id;             /* in config.json                                     */
    const char *key;            /* in GGUF after "tokenizer.ggml."; NULL: not written */
    const char *add;            /* in tokenizer_config.json and GGUF; NULL: none      */
} specials[N_SPECIAL] = {
    [BOS]  = { "bos_token", "bos_token_id", "bos_token_id", "add_bos_token" },
    [EOS]  = { "eos_token", "eos_token_id", "eos_token_id", "add_eos_token" },
    [UNK]  = { "unk_token", "unk_token_id", "unknown_token_id", NULL },
    [SEP]  = { "sep_token", "sep_token_id", "seperator_token_id", "add_sep_token" },
    [PAD]  = { "pad_token", "pad_token_id", "padding_token_id", NULL },
    [CLS]  = { "cls_token", "cls_token_id", NULL, NULL },
    [MASK] = { "mask_token", "mask_token_id", "mask_token_id", NULL },
    [EOT]  = { NULL, NULL, "eot_token_id", NULL },
    [EOM]  = { NULL, NULL, "eom_token_id", NULL },
};

/* Pieces that readers take for the end of a turn by their text alone. */
static const char *const known_ends[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
};

struct state {
    struct lm_hf_vocab               *v;
    const struct lm_hf_special_files *f;
    const char                       *text[N_SPECIAL];      /* NULL: not named */
};

/* A token's text: a string, or an object with content. */
static const char *token_text(const struct lm_jval *t)
{
    const char *s = lm_jval_str(t);
    return s ? s : lm_jval_str(lm_jval_get(t, "content"));
}

static bool same(const char *a, const char *b)
{
    return a && b && !strcmp(a, b);
}

/* Setting one again keeps its place. */
static void set_add(struct lm_hf_vocab *v, int kind, bool add)
{
    size_t i = 0;
    while (i < v->n_adds && strcmp(v->adds[i].key, specials[kind].add))
        i++;
    v->adds[i].key = specials[kind].add;
    v->adds[i].add = add;
    if (i == v->n_adds)
        v->n_adds++;
}

static bool has_add(const struct lm_hf_vocab *v, int kind)
{
    for (size_t i = 0; i < v->n_adds; i++)
        if (!strcmp(v->adds[i].key, specials[kind].add))
            return true;
    return false;
}

static int64_t get_id(const struct lm_hf_vocab *v, const char *key)
{
    for (size_t i = 0; i < v->n_ids; i++)
        if (!strcmp(v->ids[i].key, key))
            return v->ids[i].id;
    return -1;
}

/* The first source that knows an id decides. */
static void set_id(struct lm_hf_vocab *v, const char *key, int64_t id)
{
    if (!key || id < 0 || id >= v->n || get_id(v, key) >= 0)
        return;
    v->ids[v->n_ids].key = key;
    v->ids[v->n_ids++].id = (uint32_t)id;
}

/* --- post-processors ---------------------------------------------------------------- */

enum { MAX_TEMPLATE = 16 };

/* The entries of a template: each is a special token, whose text goes to special, or a
 * sequence, whose name goes to seq; the other is NULL.  Returns how many there are. */
static size_t entries(const struct lm_jval *list, const char *special[], const char *seq[])
{
    size_t n = 0;
    for (const struct lm_jval *e = list ? list->first : NULL; e && n < MAX_TEMPLATE;
         e = e->next, n++) {
        special[n] = lm_jval_str(lm_jval_get(lm_jval_get(e, "SpecialToken"), "id"));
        seq[n] = lm_jval_str(lm_jval_get(lm_jval_get(e, "Sequence"), "id"));
    }
    return n;
}

/* Is one of the tokens between two texts the separator? */
static void template_pair(struct state *s, const struct lm_jval *pair, const char *first,
                          const char *last)
{
    const char *special[MAX_TEMPLATE], *seq[MAX_TEMPLATE];
    size_t n = entries(pair, special, seq), from = 0;
    if (n && first && same(special[0], first))
        from = 1;
    if (n > from && last && same(special[n - 1], last))
        n--;
    if (n < from + 3 || !same(seq[from], "A") || !same(seq[n - 1], "B"))
        return;
    const char **mid = special + from + 1;
    const size_t n_mid = n - from - 2;
    bool add = mid[0] && !last && (same(mid[0], s->text[SEP]) || same(mid[0], s->text[EOS]));
    if (n_mid == 2 && mid[1] && (same(mid[1], s->text[SEP]) || same(mid[1], s->text[EOS])))
        add = true;
    set_add(s->v, SEP, add);
    if (add && !s->text[SEP])
        s->text[SEP] = s->text[EOS];
}

/* What stands before and after a single text says which tokens are added. */
static void template_processing(struct state *s, const struct lm_jval *p)
{
    const char *special[MAX_TEMPLATE], *seq[MAX_TEMPLATE];
    const size_t n = entries(lm_jval_get(p, "single"), special, seq);
    const char *first = n > 1 ? special[0] : NULL, *last = n > 1 ? special[n - 1] : NULL;
    if (first) {
        if (!s->f->tokenizer_config)
            s->text[BOS] = first;
        set_add(s->v, BOS, same(first, s->text[BOS]) || same(first, s->text[CLS]));
    }
    if (last) {
        /* Another token than the named one ends a text: that is the end token then, and the
         * named one ends a turn. */
        if (s->f->tokenizer_config && s->text[EOS] && !same(last, s->text[EOS]))
            s->text[EOT] = s->text[EOS];
        s->text[EOS] = last;
        set_add(s->v, EOS, true);
    }
    template_pair(s, lm_jval_get(p, "pair"), first, last);
}

static void post_processor(struct state *s, const struct lm_jval *p)
{
    const char *type = lm_jval_str(lm_jval_get(p, "type"));
    if (same(type, "Sequence")) {
        const struct lm_jval *list = lm_jval_get(p, "processors");
        for (const struct lm_jval *q = list ? list->first : NULL; q; q = q->next)
            if (!same(lm_jval_str(lm_jval_get(q, "type")), "Sequence"))
                post_processor(s, q);
    } else if (same(type, "ByteLevel")) {
        if (!has_add(s->v, BOS))
            set_add(s->v, BOS, false);
        if (!has_add(s->v, EOS))
            set_add(s->v, EOS, false);
    } else if (same(type, "TemplateProcessing")) {
        template_processing(s, p);
    } else if (same(type, "RobertaProcessing")) {
        set_add(s->v, BOS, true);
        set_add(s->v, EOS, true);
        set_add(s->v, SEP, true);
    }
}

/* --- ids ---------------------------------------------------------------------------- */

static int64_t id_of_text(const struct state *s, const char *text)
{
    int64_t id = -1;
    for (const struct lm_jval *t = s->f->added ? s->f->added->first : NULL; t; t = t->next)
        if (same(lm_jval_str(lm_jval_get(t, "content")), text) &&
            lm_jval_i64(lm_jval_get(t, "id"), &id))
            return id;
    /* without tokenizer.json the pieces have them; a SentencePiece model's ids are config.json's */
    for (uint32_t i = 0; s->f->no_json && !s->v->scores && text && i < s->v->n; i++)
        if (s->v->pieces[i].len == strlen(text) &&
            !memcmp(s->v->pieces[i].p, text, s->v->pieces[i].len))
            return i;
    return -1;
}

/* What BERT's special pieces are called when only vocab.txt is there, and GPT-2's one; a file that
 * says null says that there is none. */
static void default_texts(struct state *s)
{
    static const char *const bert[N_SPECIAL] = {
        [UNK] = "[UNK]", [SEP] = "[SEP]", [PAD] = "[PAD]", [CLS] = "[CLS]", [MASK] = "[MASK]",
    };
    static const char end[] = "<|endoftext|>";
    const bool is_bert = !strcmp(s->v->model, "bert");
    if (!s->f->no_json || s->v->scores || s->v->by_ranks || !s->v->pre)
        return;
    for (int k = 0; k < N_SPECIAL; k++) {
        const char *name = specials[k].text;
        if (!s->text[k] && name && lm_jval_get(s->f->tokenizer_config, name))
            continue;
        if (!s->text[k] && name)
            s->text[k] = token_text(lm_jval_get(s->f->special_map, name));
        if (!s->text[k] && is_bert)
            s->text[k] = bert[k];
        if (!s->text[k] && !is_bert && !s->v->adds_around && (k == BOS || k == EOS))
            s->text[k] = end;
    }
    if (is_bert || s->v->adds_around) {
        set_add(s->v, BOS, true);
        set_add(s->v, EOS, true);
        set_add(s->v, SEP, !is_bert);
    }
}

/* The i-th number of a number or a list of them, -1 beyond. */
static int64_t nth_id(const struct lm_jval *v, size_t i)
{
    int64_t id = -1;
    if (v && v->kind == LM_JSON_ARRAY) {
        const struct lm_jval *e = v->first;
        while (e && i--)
            e = e->next;
        return e && lm_jval_i64(e, &id) ? id : -1;
    }
    return i == 0 && lm_jval_i64(v, &id) ? id : -1;
}

static void adds_of_tokenizer_config(struct state *s)
{
    bool add;
    for (int k = 0; k < N_SPECIAL; k++)
        if (specials[k].add &&
            lm_jval_bool(lm_jval_get(s->f->tokenizer_config, specials[k].add), &add))
            set_add(s->v, k, add);
}

static void ids_by_text(struct state *s)
{
    for (int k = 0; k < N_SPECIAL; k++)
        if (s->text[k])
            set_id(s->v, specials[k].key, id_of_text(s, s->text[k]));
}

static void from_config(struct state *s, const struct lm_jval *config)
{
    for (int k = 0; k < N_SPECIAL; k++)
        if (specials[k].id)
            set_id(s->v, specials[k].key, nth_id(lm_jval_get(config, specials[k].id), 0));
}

static bool ends_by_text(const struct lm_str *piece)
{
    for (size_t i = 0; i < sizeof known_ends / sizeof *known_ends; i++)
        if (piece->len == strlen(known_ends[i]) && !memcmp(piece->p, known_ends[i], piece->len))
            return true;
    return false;
}

/* Other ends that a file names: GGUF has room for two that their text does not tell. */
static void further_ends(struct state *s, const struct lm_jval *config, const char *file,
                         const struct lm_env *env)
{
    const struct lm_jval *ends = lm_jval_get(config, "eos_token_id");
    for (size_t i = 0; i < 64; i++) {
        const int64_t id = nth_id(ends, i);
        if (id < 0)
            return;
        if (id >= s->v->n || id == get_id(s->v, specials[EOS].key) ||
            id == get_id(s->v, specials[EOT].key) || id == get_id(s->v, specials[EOM].key) ||
            ends_by_text(&s->v->pieces[id]))
            continue;
        if (get_id(s->v, specials[EOT].key) < 0)
            set_id(s->v, specials[EOT].key, id);
        else if (get_id(s->v, specials[EOM].key) < 0)
            set_id(s->v, specials[EOM].key, id);
        else
            lm_note(env, LM_WARN, "%s: end token %u cannot be kept: GGUF has no key for more "
                    "than three", file, (unsigned)id);
    }
}

int lm_hf_special_ids(struct lm_hf_vocab *v, const struct lm_hf_special_files *f,
                      const struct lm_env *env, struct lm_err *err)
{
    struct state s = { .v = v, .f = f };
    for (int k = 0; k < N_SPECIAL; k++)
        if (specials[k].text)
            s.text[k] = token_text(lm_jval_get(f->tokenizer_config, specials[k].text));
    default_texts(&s);
    if (!s.text[BOS])
        s.text[BOS] = s.text[CLS];
    if (!s.text[EOS])
        s.text[EOS] = s.text[SEP];
    post_processor(&s, f->post_processor);
    adds_of_tokenizer_config(&s);
    if (!v->by_ranks)
        ids_by_text(&s);
    from_config(&s, f->config);
    from_config(&s, f->generation_config);
    if (v->by_ranks) {
        ids_by_text(&s);
        set_id(v, specials[BOS].key, v->usual_bos);
        set_id(v, specials[EOS].key, v->usual_eos);
        set_id(v, specials[UNK].key, v->usual_unk);
    }
    further_ends(&s, f->config, "config.json", env);
    further_ends(&s, f->generation_config, "generation_config.json", env);
    const int64_t eos = nth_id(lm_jval_get(f->config, "eos_token_id"), 0);
    if (eos >= (int64_t)v->n)
        return lm_fail(err, LM_EDATA, "config.json: eos_token_id %lld: the vocabulary has only "
                       "%u pieces", (long long)eos, v->n);
    return LM_OK;
}

/* --- chat templates ----------------------------------------------------------------- */

enum { MAX_TEMPLATES = 64 };

static int add_template(struct lm_hf_vocab *v, const char *file, const char *name,
                        size_t name_len, const char *text, size_t len, struct lm_err *err)
{
    if (v->n_templates == MAX_TEMPLATES)
        return lm_fail(err, LM_ENOSUP, "more than %d chat templates", MAX_TEMPLATES);
    struct lm_hf_template *t = &v->templates[v->n_templates];
    /* The name becomes part of a key. */
    char *clean = lm_arena_copy(&v->arena, name, name_len);
    t->file = lm_arena_copy(&v->arena, file, strlen(file));
    if (!clean || !t->file || !lm_hf_copy(v, text, len, &t->text))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < name_len; i++)
        if (!isalnum((unsigned char)clean[i]))
            clean[i] = '_';
    t->name = (struct lm_str){ clean, name_len };
    v->n_templates++;
    return LM_OK;
}

/* A string, or a list of {name, template}. */
static int templates_in(struct lm_hf_vocab *v, const char *file, const struct lm_jval *t,
                        struct lm_err *err)
{
    if (lm_jval_str(t))
        return add_template(v, file, "default", 7, t->str, t->len, err);
    for (const struct lm_jval *e = t && t->kind == LM_JSON_ARRAY ? t->first : NULL; e;
         e = e->next) {
        const struct lm_jval *name = lm_jval_get(e, "name"), *text = lm_jval_get(e, "template");
        if (!lm_jval_str(name) || !name->len || !lm_jval_str(text))
            return lm_fail(err, LM_EDATA, "%s: chat_template: an entry without name or template",
                           file);
        const int r = add_template(v, file, name->str, name->len, text->str, text->len, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* chat_template.jinja, and beside it additional_chat_templates/NAME.jinja. */
static int template_files(struct lm_hf_vocab *v, struct lm_hf_source *src, struct lm_err *err)
{
    static const char folder[] = "additional_chat_templates/", end[] = ".jinja";
    int r = LM_OK;
    for (size_t i = 0; !r && i < lm_hf_n_files(src); i++) {
        const char *file = lm_hf_name(src, i), *name = "default";
        size_t n = strlen(name), len;
        char *text = NULL;
        if (!strncmp(file, folder, sizeof folder - 1) &&
            strlen(file) > sizeof folder - 1 + sizeof end - 1) {
            name = file + sizeof folder - 1;
            n = strlen(name) - (sizeof end - 1);
            if (strcmp(name + n, end))
                continue;
        } else if (strcmp(file, "chat_template.jinja")) {
            continue;
        }
        r = lm_hf_load(src, file, &text, &len, err);
        if (!r)
            r = add_template(v, file, name, n, text, len, err);
        free(text);
    }
    return r;
}

int lm_hf_chat_templates(struct lm_hf_vocab *v, struct lm_hf_source *src,
                         const struct lm_jval *tokenizer_config, bool files_first,
                         struct lm_err *err)
{
    const struct lm_jval *t = lm_jval_get(tokenizer_config, "chat_template");
    v->templates = lm_arena_array(&v->arena, MAX_TEMPLATES, sizeof *v->templates);
    if (!v->templates)
        return lm_fail_nomem(err);
    int r = files_first ? template_files(v, src, err) : LM_OK;
    if (!r && !v->n_templates && t && t->kind != LM_JSON_NULL)
        return templates_in(v, "tokenizer_config.json", t, err);
    if (!r && !files_first)
        r = template_files(v, src, err);
    if (r || v->n_templates)
        return r;
    char *text = NULL;
    size_t len;
    r = lm_hf_load(src, "chat_template.json", &text, &len, err);
    if (r)
        return r > 0 ? LM_OK : r;
    const struct lm_jval *file = lm_json_tree(&v->arena, text, len, err);
    free(text);
    if (!file)
        return lm_err_at(err, LM_EDATA, "chat_template.json");
    return templates_in(v, "chat_template.json", lm_jval_get(file, "chat_template"), err);
}
