/* SPDX-License-Identifier: MIT */
#include "stream/loop.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "stream/words.h"

struct lm_request_reader {
    struct lm_words words;
    uint32_t        n_vocab;
    size_t          max_ids;
};

int lm_loop_status(uint32_t code)
{
    return code >= LM_LOOP_MALFORMED && code <= LM_LOOP_TRAINED_LENGTH ? 1 : 2;
}

struct lm_request_reader *lm_request_reader_new(struct lm_in *in, uint32_t n_vocab,
                                                size_t max_ids, struct lm_err *err)
{
    struct lm_request_reader *r = calloc(1, sizeof *r);
    if (!r || lm_words_init(&r->words, in, err)) {
        free(r);
        lm_fail_nomem(err);
        return NULL;
    }
    r->n_vocab = n_vocab;
    r->max_ids = max_ids;
    return r;
}

void lm_request_reader_free(struct lm_request_reader *r)
{
    if (r)
        lm_words_release(&r->words);
    free(r);
}

bool lm_request_ready(struct lm_request_reader *r)
{
    return lm_words_ready(&r->words);
}

void lm_request_release(struct lm_request *q)
{
    free(q->ids);
    free(q->scales);
    *q = (struct lm_request){0};
}

/* What may still come in a line. */
enum state { ANY, AFTER_SEQ, AFTER_POS, IDS, SCALES, NOTHING };

/* A line under way. */
struct parse {
    struct lm_request *q;
    enum state         state;
    bool               has_want;
};

/* The first fault counts; the rest of the line is read over. */
__attribute__((format(printf, 3, 4)))
static void fault(struct lm_request *q, enum lm_loop_code code, const char *fmt, ...)
{
    va_list ap;
    if (q->fault)
        return;
    q->fault = code;
    va_start(ap, fmt);
    vsnprintf(q->why, sizeof q->why, fmt, ap);
    va_end(ap);
}

static void add_id(struct lm_request_reader *r, struct lm_request *q)
{
    int32_t id = 0;
    char shown[LM_WORD_SHOWN];
    switch (lm_word_id(&r->words, &id)) {
    case LM_WORD_OTHER:
        fault(q, LM_LOOP_MALFORMED, "'%s' is no token id", lm_word_show(&r->words, shown));
        return;
    case LM_WORD_ID:
        if (!r->n_vocab || (uint32_t)id < r->n_vocab)
            break;
        /* fall through */
    case LM_WORD_BEYOND:
        if (r->n_vocab)
            fault(q, LM_LOOP_ID, "id %s is outside the vocabulary of %u", r->words.word,
                  r->n_vocab);
        else
            fault(q, LM_LOOP_ID, "%s is no token id, 0 to %d", r->words.word, INT32_MAX);
        return;
    }
    q->next = q->kind == LM_REQ_GUESS ? id : 0;
    if (q->n_ids < r->max_ids) {
        if (!lm_grow(&q->ids, &q->cap, q->n_ids + 1, sizeof *q->ids)) {
            fault(q, LM_LOOP_MEMORY, "out of memory");
            return;
        }
        q->ids[q->n_ids] = id;
    }
    q->n_ids++;
}

static void add_scale(struct lm_request_reader *r, struct lm_request *q)
{
    char shown[LM_WORD_SHOWN];
    float x;
    if (!lm_word_f32(&r->words, &x))
        fault(q, LM_LOOP_MALFORMED, "'%s' is no scale", lm_word_show(&r->words, shown));
    else if (q->n_scales == LM_REQUEST_SCALES)
        fault(q, LM_LOOP_MALFORMED, "more than %d scales", LM_REQUEST_SCALES);
    else if (!lm_grow(&q->scales, &q->scales_cap, q->n_scales + 1, sizeof *q->scales))
        fault(q, LM_LOOP_MEMORY, "out of memory");
    else
        q->scales[q->n_scales++] = x;
}

/* A word that is no id, at the places where one may stand; false: an id. */
static bool special(const struct lm_words *w, struct parse *p)
{
    struct lm_request *q = p->q;
    const char *s = w->word;
    size_t n = w->word_len;
    if (n >= sizeof w->word)
        return false;
    if (p->state == ANY && s[n - 1] == ':' && lm_word_u32(s, n - 1, &q->seq)) {
        p->state = AFTER_SEQ;
        return true;
    }
    if (p->state == AFTER_SEQ && n == 1 && (*s == 'x' || *s == 'e')) {
        q->kind = *s == 'x' ? LM_REQ_DROP : LM_REQ_ENCODE;
        p->state = *s == 'x' ? NOTHING : IDS;
        return true;
    }
    if (p->state == AFTER_SEQ && n == 1 && *s == 's') {
        q->kind = LM_REQ_SCALES;
        p->state = SCALES;
        return true;
    }
    if (p->state == AFTER_SEQ && *s == '<' && lm_word_u32(s + 1, n - 1, &q->other)) {
        q->kind = LM_REQ_COPY;
        p->state = NOTHING;
        return true;
    }
    if (p->state <= AFTER_SEQ && *s == '@' && lm_word_u32(s + 1, n - 1, &q->pos)) {
        q->has_pos = true;
        p->state = AFTER_POS;
        return true;
    }
    if (p->state <= AFTER_POS && *s == '?' && lm_word_u32(s + 1, n - 1, &q->want)) {
        q->kind = LM_REQ_GUESS;
        p->state = IDS;
        return true;
    }
    if (p->state <= AFTER_POS && *s == '+' && lm_word_u32(s + 1, n - 1, &q->want)) {
        p->has_want = true;
        p->state = IDS;
        return true;
    }
    return false;
}

static void add_word(struct lm_request_reader *r, struct parse *p)
{
    if (p->q->fault || special(&r->words, p))
        return;
    if (p->state == NOTHING) {
        fault(p->q, LM_LOOP_MALFORMED, "nothing may follow a copy or a drop");
        return;
    }
    if (p->state == SCALES) {
        add_scale(r, p->q);
        return;
    }
    p->state = IDS;
    add_id(r, p->q);
}

/* A guess is about one id, which is not appended. */
static void complete_guess(struct lm_request *q)
{
    if (q->n_ids != 1)
        fault(q, LM_LOOP_MALFORMED, "?%u asks what follows one id, not %zu", q->want, q->n_ids);
    else if (q->want == 0)
        fault(q, LM_LOOP_MALFORMED, "?0 asks for nothing");
    q->n_ids = 0;
}

/* The newline came. */
static void complete(struct parse *p)
{
    struct lm_request *q = p->q;
    if (p->state == ANY)                        /* an empty line */
        q->kind = LM_REQ_DROP;
    else if (q->kind == LM_REQ_GUESS)
        complete_guess(q);
    else if (!p->has_want)
        q->want = q->kind == LM_REQ_APPEND && q->n_ids;
    else if (q->want > q->n_ids)
        fault(q, LM_LOOP_MALFORMED, "+%u wants more frames than the line has ids, %zu", q->want,
              q->n_ids);
}

int lm_request_next(struct lm_request_reader *r, struct lm_request *q, struct lm_err *err)
{
    struct parse p = {.q = q, .state = ANY};
    *q = (struct lm_request){
        .ids = q->ids, .cap = q->cap, .scales = q->scales, .scales_cap = q->scales_cap,
    };
    for (;;) {
        struct lm_err e;
        enum lm_word_event event = lm_words_next(&r->words, &e);
        unsigned long long line = q->line = r->words.line;
        switch (event) {
        case LM_WORD_GOT:
            add_word(r, &p);
            break;
        case LM_WORD_LINE:
            complete(&p);
            return 1;
        case LM_WORD_END:
            return 0;
        case LM_WORD_CUT:
            return lm_fail(err, LM_EDATA, "line %llu: the input ends inside the line", line + 1);
        case LM_WORD_PEER:
            return lm_fail(err, LM_EDATA, "line %llu: its producer failed: %s", line + 1,
                           r->words.text);
        case LM_WORD_FAILED:
            if (err)
                *err = e;
            return e.code;
        }
    }
}
