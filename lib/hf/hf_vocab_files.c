/* SPDX-License-Identifier: MIT */
/* Byte-level BPE in two files, vocab.json and merges.txt, and WordPiece in vocab.txt alone. */

#include <string.h>

#include "hf/hf_vocab_parts.h"

/* How the classes of such tokenizers cut words, and whether they put tokens around a text; the
 * files do not say. */
static const struct {
    const char *tokenizer_class, *pre;
    bool        adds;
} classes[] = {
    { "GPT2Tokenizer", "gpt-2", false },         { "CodeGenTokenizer", "gpt-2", false },
    { "GPTNeoXTokenizer", "gpt-2", false },      { "Qwen2Tokenizer", "qwen2", false },
    { "RobertaTokenizer", "roberta-bpe", true }, { "BartTokenizer", "roberta-bpe", true },
    { "LongformerTokenizer", "roberta-bpe", true },
};

/* The row of a class, whose name may end in Fast. */
static size_t class_of(const struct lm_jval *tc)
{
    const char *s = lm_jval_str(lm_jval_get(tc, "tokenizer_class"));
    size_t i = 0;
    for (; s && i < sizeof classes / sizeof *classes; i++) {
        const size_t n = strlen(classes[i].tokenizer_class);
        if (!strncmp(s, classes[i].tokenizer_class, n) && (!s[n] || !strcmp(s + n, "Fast")))
            break;
    }
    return s ? i : sizeof classes / sizeof *classes;
}

/* A special piece that a file names by its text becomes a control token. */
static void make_control(struct lm_hf_vocab *v, const struct lm_jval *token)
{
    const struct lm_jval *text = lm_jval_str(token) ? token : lm_jval_get(token, "content");
    if (!lm_jval_str(text))
        return;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->pieces[i].p && v->pieces[i].len == text->len &&
            !memcmp(v->pieces[i].p, text->str, text->len))
            v->types[i] = LM_PIECE_CONTROL;
}

static void control_tokens(struct lm_hf_vocab *v, const struct lm_jval *file)
{
    static const char *const keys[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        make_control(v, lm_jval_get(file, keys[i]));
    const struct lm_jval *more = lm_jval_get(file, "additional_special_tokens");
    for (const struct lm_jval *t = more && more->kind == LM_JSON_ARRAY ? more->first : NULL; t;
         t = t->next)
        make_control(v, t);
}

int lm_hf_load_vocab_json(struct lm_hf_vocab *v, struct lm_tokenizer_json *t,
                          struct lm_hf_source *src, const struct lm_hf_beside *f,
                          struct lm_err *err)
{
    const size_t row = class_of(f->tokenizer_config);
    const bool known = row < sizeof classes / sizeof *classes;
    int r = lm_tokenizer_vocab_json(t, &v->arena, src, err);
    if (r)
        return r;
    if ((r = lm_tokenizer_merges_txt(t, src, err)))
        return r > 0 ? lm_hf_missing(src, "merges.txt", err) : r;
    v->model = "gpt2";
    v->pre = f->pre ? f->pre : known ? classes[row].pre : "gpt-2";
    const struct lm_jval *decoder = lm_jval_get(f->tokenizer_config, "added_tokens_decoder");
    r = lm_hf_room(v, lm_hf_ids_in(decoder, true, lm_hf_ids_in(f->added, false, t->n_ids)),
                   f->n_rows, false, err);
    if (!r)
        r = lm_tokenizer_json_pieces(v, t, err);
    if (!r)
        r = lm_hf_lay_added_file(v, f->added, err);
    if (!r)
        r = lm_hf_lay_decoder(v, decoder, err);
    if (!r)
        r = lm_hf_check_merges(v, err);
    if (r)
        return r;
    if (!known && !f->pre)
        lm_note(f->env, LM_WARN, "tokenizer_config.json names no class that says how words "
                "are cut: they are cut as GPT-2's");
    static const char end[] = "<|endoftext|>";
    struct lm_jval text = { .kind = LM_JSON_STRING, .str = (char *)end, .len = sizeof end - 1 };
    make_control(v, &text);
    control_tokens(v, f->tokenizer_config);
    control_tokens(v, f->special_map);
    v->adds_around = known && classes[row].adds;
    return LM_OK;
}

/* Has a piece a capital letter? */
static bool is_cased(const struct lm_hf_vocab *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        for (size_t k = 0; v->types[i] == LM_PIECE_NORMAL && k < v->pieces[i].len; k++)
            if (v->pieces[i].p[k] >= 'A' && v->pieces[i].p[k] <= 'Z' && v->pieces[i].p[0] != '[')
                return true;
    return false;
}

int lm_hf_vocab_txt(struct lm_hf_vocab *v, const char *data, size_t len, struct lm_err *err)
{
    const struct lm_hf_special_files none = { .no_json = true };
    *v = (struct lm_hf_vocab){ .add_space_prefix = -1, .extra_spaces = -1, .strip_accents = -1,
                               .token_types = -1 };
    int r = lm_hf_load_vocab_txt(v, data, len, NULL, 0, NULL, err);
    if (!r)
        r = lm_hf_special_ids(v, &none, NULL, err);
    if (!r) {
        v->lowercase = !is_cased(v);
        r = lm_hf_spell_wordpiece(v, err);
    }
    if (r)
        lm_hf_vocab_release(v);
    return r;
}
