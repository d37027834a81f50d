/* SPDX-License-Identifier: MIT */
/* The vocabulary in a SentencePiece model file. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "hf/hf_vocab.h"
#include "vocab/tokenizer.h"

/* The columns of lm_vocab_src, from the pieces. */
struct columns {
    struct lm_str *text;
    float         *score;
    int32_t       *type;
};

static int32_t find(const struct lm_spm_model *m, int type, const char *text)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->pieces[i].type == type && (!text || (m->pieces[i].len == strlen(text) &&
                                                    !memcmp(m->pieces[i].text, text,
                                                            m->pieces[i].len))))
            return (int32_t)i;
    return -1;
}

static int fill(struct lm_vocab_src *src, const struct lm_spm_model *m, struct columns *c,
                struct lm_err *err)
{
    if (m->kind != 1 && m->kind != 2)
        return lm_fail(err, LM_ENOSUP, "a SentencePiece model of %s is not supported",
                       m->kind == 3 ? "words" : m->kind == 4 ? "characters" : "an unknown kind");
    if (m->n > INT32_MAX - 1)
        return lm_fail(err, LM_ENOSUP, "so many pieces are not supported: %zu", m->n);
    c->text = lm_malloc_array(m->n, sizeof *c->text);
    c->score = lm_malloc_array(m->n, sizeof *c->score);
    c->type = lm_malloc_array(m->n, sizeof *c->type);
    if (!c->text || !c->score || !c->type)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < m->n; i++) {
        c->text[i] = (struct lm_str){ m->pieces[i].text, m->pieces[i].len };
        c->score[i] = m->pieces[i].score;
        c->type[i] = m->pieces[i].type;
    }
    src->model = m->kind == 1 ? (struct lm_str){ "t5", 2 } : (struct lm_str){ "llama", 5 };
    src->tokens = c->text;
    src->scores = c->score;
    src->types = c->type;
    src->n = m->n;
    src->bos = find(m, LM_PIECE_CONTROL, m->bos);
    src->eos = find(m, LM_PIECE_CONTROL, m->eos);
    src->unk = find(m, LM_PIECE_UNKNOWN, NULL);
    src->lacks[LM_NAMED_BOS] = "the bos_piece of trainer_spec is no control piece";
    src->lacks[LM_NAMED_EOS] = "the eos_piece of trainer_spec is no control piece";
    src->lacks[LM_NAMED_SEP] = "a SentencePiece model names none, and this has no piece [SEP]";
    src->add_bos = src->add_eos = 0;
    src->space_prefix = m->add_prefix;
    src->space_suffix = m->suffix;
    src->extra_spaces = m->extra_spaces;
    src->byte_fallback = m->byte_fallback;
    src->charsmap = m->charsmap;
    src->sentencepiece = true;
    return LM_OK;
}

bool lm_looks_like_spm(const unsigned char *head, size_t len)
{
    return len >= 4 && head[0] == 0x0A && head[1] >= 2 && head[2] == 0x0A && head[3] < head[1];
}

struct lm_vocab *lm_vocab_from_spm(const char *data, size_t len, const struct lm_env *env,
                                   struct lm_err *err)
{
    struct lm_spm_model m;
    struct lm_vocab_src src = LM_VOCAB_SRC;
    struct columns c = { 0 };
    struct lm_vocab *v = NULL;
    if (lm_spm_model_parse(&m, data, len, err) == LM_OK && fill(&src, &m, &c, err) == LM_OK)
        v = lm_vocab_load(&src, env, err);
    lm_spm_model_release(&m);
    free(c.text);
    free(c.score);
    free(c.type);
    return v;
}
