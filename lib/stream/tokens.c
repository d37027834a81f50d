/* SPDX-License-Identifier: MIT */
#include "stream/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "stream/words.h"

struct lm_token_reader {
    struct lm_words     words;
    uint32_t            n_vocab;
    enum lm_token_fault fault;
    struct lm_err       why;            /* given again once there was a fault */
};

struct lm_token_reader *lm_token_reader_new(struct lm_in *in, struct lm_err *err)
{
    struct lm_token_reader *r = calloc(1, sizeof *r);
    if (!r || lm_words_init(&r->words, in, err)) {
        free(r);
        lm_fail_nomem(err);
        return NULL;
    }
    return r;
}

void lm_token_reader_free(struct lm_token_reader *r)
{
    if (r)
        lm_words_release(&r->words);
    free(r);
}

void lm_token_set_vocab(struct lm_token_reader *r, uint32_t n_vocab)
{
    r->n_vocab = n_vocab;
}

bool lm_token_ready(struct lm_token_reader *r)
{
    return r->fault || lm_words_ready(&r->words) || lm_words_full(&r->words);
}

uint64_t lm_token_line(const struct lm_token_reader *r)
{
    return r->words.line;
}

enum lm_token_fault lm_token_fault(const struct lm_token_reader *r)
{
    return r->fault;
}

const char *lm_token_peer_text(const struct lm_token_reader *r)
{
    return r->words.text;
}

/* More zeros than may stray into a text, as in ids that are numbers of four bytes. */
static bool is_binary(const struct lm_words *w)
{
    size_t zeros = 0;
    for (size_t i = 0; i < w->word_len && i < LM_WORD_MAX - 1; i++)
        zeros += w->word[i] == 0;
    return zeros > 1;
}

static const char binary[] = "binary data, not token ids in decimal (those of tokenize --binary "
                             "are for other readers)";

/* Messages count lines from 1, as editors do. */
static enum lm_token_event faulty(struct lm_token_reader *r, enum lm_token_fault fault)
{
    const struct lm_words *w = &r->words;
    unsigned long long line = w->line + 1;
    char shown[LM_WORD_SHOWN];
    struct lm_err *e = &r->why;
    r->fault = fault;
    switch (fault) {
    case LM_TOKENS_RANGE:
        if (r->n_vocab)
            lm_fail(e, LM_EDATA, "line %llu: id %s is outside the vocabulary of %u", line,
                    w->word, r->n_vocab);
        else
            lm_fail(e, LM_EDATA, "line %llu: %s is no token id, 0 to %d", line, w->word,
                    INT32_MAX);
        break;
    case LM_TOKENS_CUT:
        if (is_binary(w))
            lm_fail(e, LM_EDATA, "%s", binary);
        else
            lm_fail(e, LM_EDATA, "line %llu: the input ends inside the line", line);
        break;
    case LM_TOKENS_PEER:
        lm_fail(e, LM_EDATA, "line %llu: its producer failed: %s", line, w->text);
        break;
    case LM_TOKENS_READ:
        break;
    default:
        if (strncmp(w->word, "LMLG", 4) == 0)
            lm_fail(e, LM_EDATA, "a logits stream, not token ids: sample chooses these from it");
        else if (is_binary(w))
            lm_fail(e, LM_EDATA, "%s", binary);
        else if (r->n_vocab)
            lm_fail(e, LM_EDATA, "line %llu: '%s' is no token id, in a vocabulary of %u", line,
                    lm_word_show(w, shown), r->n_vocab);
        else
            lm_fail(e, LM_EDATA, "line %llu: '%s' is no token id", line,
                    lm_word_show(w, shown));
    }
    return LM_TOKEN_ERROR;
}

static enum lm_token_event next(struct lm_token_reader *r, int32_t *id)
{
    switch (lm_words_next(&r->words, &r->why)) {
    case LM_WORD_END:
        return LM_TOKEN_END;
    case LM_WORD_LINE:
        return LM_TOKEN_LINE;
    case LM_WORD_CUT:
        return faulty(r, LM_TOKENS_CUT);
    case LM_WORD_PEER:
        return faulty(r, LM_TOKENS_PEER);
    case LM_WORD_FAILED:
        return faulty(r, LM_TOKENS_READ);
    case LM_WORD_GOT:
        break;
    }
    switch (lm_word_id(&r->words, id)) {
    case LM_WORD_ID:
        if (!r->n_vocab || (uint32_t)*id < r->n_vocab)
            return LM_TOKEN_ID;
        return faulty(r, LM_TOKENS_RANGE);
    case LM_WORD_BEYOND:
        return faulty(r, LM_TOKENS_RANGE);
    default:
        return faulty(r, LM_TOKENS_MALFORMED);
    }
}

enum lm_token_event lm_token_next(struct lm_token_reader *r, int32_t *id, struct lm_err *err)
{
    int32_t v;
    enum lm_token_event e = r->fault ? LM_TOKEN_ERROR : next(r, &v);
    if (e == LM_TOKEN_ID)
        *id = v;
    if (e == LM_TOKEN_ERROR && err)
        *err = r->why;
    return e;
}

int lm_token_read_line(struct lm_token_reader *r, int32_t **ids, size_t *n, size_t *cap,
                       struct lm_err *err)
{
    for (;;) {
        int32_t id;
        struct lm_err e;
        switch (lm_token_next(r, &id, &e)) {
        case LM_TOKEN_ERROR:
            if (err)
                *err = e;
            return e.code;
        case LM_TOKEN_END:
            return 0;
        case LM_TOKEN_LINE:
            return 1;
        case LM_TOKEN_ID:
            if (!lm_grow(ids, cap, *n + 1, sizeof **ids))
                return lm_fail_nomem(err);
            (*ids)[(*n)++] = id;
        }
    }
}
