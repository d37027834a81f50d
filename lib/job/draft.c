/* SPDX-License-Identifier: MIT */
#include "job/generate_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "stream/loop.h"

#define GRACE 2000           /* milliseconds the child gets to end */

/* ---- what was there before ---- */

/* Propose what followed the latest earlier occurrence of the last n ids. */
static int propose_again(struct lm_sequence *q, size_t n, size_t most, struct lm_err *err)
{
    const int32_t *tail = q->ids + q->n - n;
    if (q->n <= n)
        return LM_OK;
    for (size_t end = q->n - 1; end >= n; end--) {
        if (memcmp(q->ids + end - n, tail, n * sizeof *tail))
            continue;
        for (size_t i = end; i < q->n && q->n_proposals < most; i++) {
            int s = lm_sequence_room(q, err);
            if (s < 0)
                return s;
            q->proposals[q->n_proposals++].id = (uint32_t)q->ids[i];
        }
        return LM_OK;
    }
    return LM_OK;
}

/* ---- the model's own head ---- */

int lm_sequence_ask_head(struct lm_sequence *q, size_t most, struct lm_buf *out,
                         struct lm_err *err)
{
    const size_t from = q->n - 1, pos = q->base + from;
    q->n_proposals = 0;
    if (most == 0 || pos == 0 || q->known < from || q->sent < from || q->encoder.n)
        return 0;
    if (q->seq)
        lm_buf_printf(out, "%" PRIu32 ": ", q->seq);
    if (q->sent > from)
        lm_buf_printf(out, "@%zu ", pos);
    lm_buf_printf(out, "?%zu %" PRId32 "\n", most, q->ids[from]);
    q->guessing = true;
    q->n_guesses = most;
    q->answers = 1;
    q->asked_at = out->len;
    return out->failed ? lm_fail_nomem(err) : 1;
}

int lm_sequence_take_head(struct lm_sequence *q, const struct lm_logits_head *h,
                          const struct lm_frame *f, const struct lm_guessed *g, struct lm_err *err)
{
    const size_t pos = q->base + q->n - 1;
    q->guessing = false;
    q->answers = 0;
    if (f->pos != pos || f->token != (uint32_t)q->ids[q->n - 1] || f->n > q->n_guesses)
        return lm_fail(err, LM_EDATA, "guesses %" PRIu32 " ids after token %" PRIu32
                       " at position %" PRIu32 ", and was asked for %zu after %" PRId32 " at %zu",
                       f->n, f->token, f->pos, q->n_guesses, q->ids[q->n - 1], pos);
    for (uint32_t i = 0; i < f->n; i++) {
        int s = lm_sequence_room(q, err);
        if (s < 0)
            return s;
        q->proposals[q->n_proposals++].id = g[i].id;
        if (lm_is_end(h, g[i].id))
            break;
    }
    return LM_OK;
}

/* ---- a model of its own ---- */

static int same_vocabulary(const struct lm_logits_head *a, const struct lm_logits_head *b,
                           struct lm_err *err)
{
    if (a->n_vocab != b->n_vocab)
        return lm_fail(err, LM_EUSE, "the vocabulary has %" PRIu32 " ids, the model's %" PRIu32,
                       a->n_vocab, b->n_vocab);
    if (a->bos != b->bos || a->eos != b->eos || a->n_eog != b->n_eog ||
        (a->n_eog && memcmp(a->eog, b->eog, a->n_eog * sizeof *a->eog)))
        return lm_fail(err, LM_EUSE, "the vocabulary has other special ids than the model's");
    return LM_OK;
}

int lm_drafter_start(struct lm_drafter *d, const struct lm_generate *g,
                     const struct lm_logits_head *h, struct lm_err *err)
{
    *d = (struct lm_drafter){ .g = g };
    if (!g->draft)
        return LM_OK;
    int s = lm_talk_start(&d->talk, g->draft, g->draw.env, err);
    d->started = d->talk.child.pid != 0;
    if (s == LM_OK)
        s = same_vocabulary(&d->talk.head, h, err);
    if (s == LM_OK && !d->talk.head.loop)
        s = lm_fail(err, LM_EUSE, "answers no requests: it wants -i");
    return s < 0 ? lm_err_at(err, s, "--draft") : LM_OK;
}

static struct lm_draft_state *state_of(struct lm_drafter *d, uint32_t seq)
{
    const size_t old = d->states_cap;
    if (!lm_grow(&d->states, &d->states_cap, (size_t)seq + 1, sizeof *d->states))
        return NULL;
    memset(d->states + old, 0, (d->states_cap - old) * sizeof *d->states);
    return &d->states[seq];
}

/* Let the child have ids [n], of which it may have some, and get its frame: 1, or 0 when its
 * context is full. */
static int evaluate(struct lm_drafter *d, uint32_t seq, const int32_t *ids, size_t n,
                    struct lm_frame *f, const void **payload, struct lm_err *err)
{
    struct lm_draft_state *t = state_of(d, seq);
    size_t from = 0, sent = 0;
    if (!t || !lm_grow(&t->ids, &t->cap, n, sizeof *t->ids))
        return lm_fail_nomem(err);
    while (from < t->n && from < n - 1 && t->ids[from] == ids[from])
        from++;
    lm_buf_clear(&d->request);
    lm_buf_printf(&d->request, "%" PRIu32 ": ", seq);
    if (from < t->n)
        lm_buf_printf(&d->request, "@%zu ", from);
    for (size_t i = from; i < n; i++)
        lm_buf_printf(&d->request, "%" PRId32 "%c", ids[i], i + 1 < n ? ' ' : '\n');
    if (d->request.failed)
        return lm_fail_nomem(err);
    int s = lm_child_send(&d->talk.child, d->request.data, d->request.len, &sent, err);
    if (s == 0)
        s = lm_fail(err, LM_EDATA, "answers before it is asked");
    if (s > 0)
        s = lm_logits_read_frame(d->talk.frames, f, payload, err);
    if (s == LM_OK && f->kind == LM_FRAME_ERROR) {
        if (f->token == LM_LOOP_CONTEXT || f->token == LM_LOOP_TRAINED_LENGTH)
            return 0;
        s = lm_draw_error_frame(f, *payload, err);
    } else if (s == LM_OK && f->kind == LM_FRAME_END) {
        s = lm_fail(err, LM_EDATA, "ends its stream before its answer");
    }
    if (s < 0)
        return s;
    memcpy(t->ids + from, ids + from, (n - from) * sizeof *ids);
    t->n = n;
    return 1;
}

/* Draw a proposal from a frame, and keep the chances it had. */
static int draw(struct lm_sequence *q, struct lm_chain *chain, uint32_t pos,
                const struct lm_frame *f, const void *payload, struct lm_err *err)
{
    size_t n;
    int s = lm_sequence_room(q, err);
    struct lm_proposal *x = s < 0 ? NULL : &q->proposals[q->n_proposals];
    if (s == LM_OK)
        s = lm_chain_apply(chain, f, payload, q->line, pos, err);
    if (s < 0)
        return s;
    x->id = lm_chain_draw(chain);
    if (lm_chain_is_random(chain)) {
        const struct lm_chance *c = lm_chain_chances(chain, 0, &n, err);
        if (!c || !lm_grow(&x->chances, &x->cap, n, sizeof *x->chances))
            return lm_fail_nomem(err);
        memcpy(x->chances, c, n * sizeof *c);
        qsort(x->chances, n, sizeof *c, lm_chance_by_id);
        x->n = n;
    }
    q->n_proposals++;
    return lm_chain_accept(chain, x->id, err);
}

static int propose_by_model(struct lm_drafter *d, struct lm_sequence *q, size_t most,
                            struct lm_err *err)
{
    struct lm_chain *chain = lm_chain_clone(q->chain, err);
    int32_t *ids = lm_malloc_array(q->n + most, sizeof *ids);
    int s = chain && ids ? LM_OK : lm_fail_nomem(err);
    if (ids)
        memcpy(ids, q->ids, q->n * sizeof *ids);
    if (chain)
        lm_chain_allow(chain, NULL, NULL);
    for (size_t n = q->n; s == LM_OK && q->n_proposals < most; n++) {
        struct lm_frame f;
        const void *payload;
        s = evaluate(d, q->seq, ids, n, &f, &payload, err);
        if (s == 0)
            break;
        if (s > 0)
            s = draw(q, chain, (uint32_t)(q->base + n), &f, payload, err);
        if (s == LM_OK)
            ids[n] = (int32_t)q->proposals[q->n_proposals - 1].id;
        if (s == LM_OK && lm_is_end(&d->talk.head, (uint32_t)ids[n]))
            break;
    }
    lm_chain_free(chain);
    free(ids);
    return s < 0 ? lm_err_at(err, s, "--draft") : LM_OK;
}

int lm_drafter_propose(struct lm_drafter *d, struct lm_sequence *q, size_t most,
                       struct lm_err *err)
{
    q->n_proposals = 0;
    if (most == 0)
        return LM_OK;
    if (d->g->draft)
        return propose_by_model(d, q, most, err);
    for (size_t n = d->g->ngram; n > 0 && q->n_proposals == 0; n--) {
        int s = propose_again(q, n, most, err);
        if (s < 0)
            return s;
    }
    return LM_OK;
}

struct lm_child_end lm_drafter_end(struct lm_drafter *d)
{
    struct lm_child_end e = { 0 };
    if (d->started) {
        lm_child_close_input(&d->talk.child);
        lm_child_drain(&d->talk.child, GRACE, lm_talk_rest(&d->talk, 0));
        e = lm_child_finish(&d->talk.child, GRACE);
        lm_talk_release(&d->talk);
    }
    for (size_t i = 0; i < d->states_cap; i++)
        free(d->states[i].ids);
    free(d->states);
    lm_buf_release(&d->request);
    return e;
}
