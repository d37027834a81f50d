/* SPDX-License-Identifier: MIT */
#include "job/generate_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/philox.h"

int lm_sequence_init(struct lm_sequence *q, struct lm_chain *chain, struct lm_machine *machine,
                     struct lm_err *err)
{
    *q = (struct lm_sequence){ .chain = lm_chain_clone(chain, err), .machine = machine,
                               .over = true };
    return q->chain ? LM_OK : LM_ENOMEM;
}

/* Of the chains kept from before each id held, keep the first n. */
static void keep_before(struct lm_sequence *q, size_t n)
{
    while (q->n_before > n)
        lm_chain_free(q->before[--q->n_before].chain);
}

void lm_sequence_release(struct lm_sequence *q)
{
    keep_before(q, 0);
    for (size_t i = 0; i < q->proposals_cap; i++)
        free(q->proposals[i].chances);
    lm_chain_free(q->chain);
    lm_hold_free(&q->hold);
    lm_buf_release(&q->text);
    lm_waiting_release(&q->waiting);
    lm_thinking_release(&q->thinking);
    lm_ids_release(&q->encoder);
    free(q->ids);
    free(q->proposals);
    free(q->before);
    free(q->barred);
    free(q->allowed);
    free(q->choices);
    *q = (struct lm_sequence){ 0 };
}

static size_t n_generated(const struct lm_sequence *q)
{
    return q->n - q->n_prompt;
}

/* ---- what may come next ---- */

static void bar(struct lm_sequence *q, const struct lm_logits_head *h, int64_t id)
{
    if (id >= 0 && id < h->n_vocab)
        q->allowed[id / 64] &= ~(UINT64_C(1) << id % 64);
}

static bool is_empty(const uint64_t *mask, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (mask[i])
            return false;
    return true;
}

/* Is there nothing in the mask but ids that end generation? */
static bool only_ends(const uint64_t *mask, size_t words, const struct lm_logits_head *h)
{
    for (size_t i = 0; i < words; i++)
        for (uint64_t left = mask[i]; left; left &= left - 1)
            if (!lm_is_end(h, (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(left)))
                return false;
    return true;
}

/* The grammar's mask: 1, or 0 when the text is complete and nothing can follow; an end that is
 * never chosen cannot. */
static int grammar_mask(struct lm_sequence *q, const struct lm_generate *g,
                        const struct lm_logits_head *h, size_t words, const uint64_t **mask,
                        struct lm_err *err)
{
    int s = lm_machine_mask(q->machine, q->state, mask, err);
    if (s == LM_OK && g->draw.sampling->ignore_eos && n_generated(q) >= g->min_n &&
        lm_machine_complete(q->machine, q->state) && only_ends(*mask, words, h))
        return 0;
    if (s == LM_OK && is_empty(*mask, words)) {
        if (lm_machine_complete(q->machine, q->state))
            return 0;
        s = lm_fail(err, LM_EDATA, "no token of the vocabulary goes on with the grammar");
    }
    return s < 0 ? lm_err_at(err, s, "%s", g->grammar_option) : 1;
}

/* Set the chain's mask for the next id: 1, or 0 when there is none because the line is
 * complete. */
static int set_mask(struct lm_sequence *q, const struct lm_generate *g,
                    const struct lm_logits_head *h, struct lm_err *err)
{
    const bool early = n_generated(q) < g->min_n;
    const size_t words = ((size_t)h->n_vocab + 63) / 64;
    const uint64_t *mask = NULL;
    size_t barred = 0;
    int s = q->machine && q->bound ? grammar_mask(q, g, h, words, &mask, err) : 1;
    for (size_t i = 0; i < q->n_barred; i++)
        barred += q->barred[i].pos == q->n;
    lm_chain_allow(q->chain, mask, g->grammar_option);
    if (s <= 0 || (!early && barred == 0))
        return s;
    if (!q->allowed && !(q->allowed = lm_malloc_array(words, sizeof *q->allowed)))
        return lm_fail_nomem(err);
    if (mask)
        memcpy(q->allowed, mask, words * sizeof *mask);
    else
        memset(q->allowed, 0xff, words * sizeof *q->allowed);
    for (size_t i = 0; early && i < h->n_eog; i++)
        bar(q, h, h->eog[i]);
    for (size_t i = 0; early && i < g->n_stop; i++)
        bar(q, h, g->stop[i]);
    for (size_t i = 0; i < q->n_barred; i++)
        if (q->barred[i].pos == q->n)
            bar(q, h, q->barred[i].id);
    lm_chain_allow(q->chain, q->allowed, barred ? "--banned-string" : "--min-tokens");
    return 1;
}

bool lm_is_end(const struct lm_logits_head *h, uint32_t id)
{
    for (size_t i = 0; i < h->n_eog; i++)
        if ((uint32_t)h->eog[i] == id)
            return true;
    return false;
}

/* Does the line end with this id?  One that ends generation does not where the grammar, which is
 * not at an end, asks for it by name. */
static bool ends_line(const struct lm_sequence *q, const struct lm_generate *g,
                      const struct lm_logits_head *h, uint32_t id)
{
    const bool named = q->machine && q->bound && !lm_machine_complete(q->machine, q->state);
    if (lm_is_end(h, id) && !named)
        return true;
    for (size_t i = 0; i < g->n_stop; i++)
        if ((uint32_t)g->stop[i] == id)
            return true;
    return false;
}

/* ---- output ---- */

/* Write the first n ids held. */
static void write_held(struct lm_sequence *q, const struct lm_generate *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lm_draw_id(&g->draw, (uint32_t)q->hold.ids[i], &q->text);
    if (n == 0)
        return;
    if (q->n_before) {
        for (size_t i = 0; i < n; i++)
            lm_chain_free(q->before[i].chain);
        q->n_before -= n;
        memmove(q->before, q->before + n, q->n_before * sizeof *q->before);
    }
    lm_hold_release(&q->hold, n);
}

static int finish(struct lm_sequence *q, const struct lm_generate *g, struct lm_err *err)
{
    write_held(q, g, q->hold.n);
    if (!g->draw.chances)
        lm_buf_byte(&q->text, '\n');
    q->over = true;
    return q->text.failed ? lm_fail_nomem(err)
                          : lm_draw_put_choices(&g->draw, q->choices, q->n_choices, err);
}

/* The line ends because nothing more may come. */
static int cut_off(struct lm_sequence *q, const struct lm_generate *g, struct lm_err *err)
{
    q->cut = q->machine && q->bound && !lm_machine_complete(q->machine, q->state);
    return finish(q, g, err);
}

/* A stop text begins `cut` bytes into held id number i: write what is before it. */
static int finish_before(struct lm_sequence *q, const struct lm_generate *g, size_t i, size_t cut,
                         struct lm_err *err)
{
    struct lm_ids rest = { 0 };
    int s = lm_hold_beginning(&q->hold, &g->watch, i, cut, &rest, err);
    keep_before(q, i);
    lm_hold_keep(&q->hold, i);
    write_held(q, g, i);
    for (size_t k = 0; k < rest.n; k++)
        lm_draw_id(&g->draw, (uint32_t)rest.id[k], &q->text);
    lm_ids_release(&rest);
    return s < 0 ? s : finish(q, g, err);
}

/* ---- taking back ---- */

/* Keep the chain as it is before the next id is accepted. */
static int remember(struct lm_sequence *q, struct lm_err *err)
{
    if (!lm_grow(&q->before, &q->before_cap, q->n_before + 1, sizeof *q->before))
        return lm_fail_nomem(err);
    struct lm_chain *copy = lm_chain_clone(q->chain, err);
    if (!copy)
        return LM_ENOMEM;
    q->before[q->n_before++] = (struct lm_before){ copy, q->state, q->bound,
                                                   q->waiting.text.len };
    return LM_OK;
}

/* Of the ids barred, keep those at positions from..to. */
static void keep_barred(struct lm_sequence *q, size_t from, size_t to)
{
    size_t m = 0;
    for (size_t i = 0; i < q->n_barred; i++)
        if (q->barred[i].pos >= from && q->barred[i].pos <= to)
            q->barred[m++] = q->barred[i];
    q->n_barred = m;
}

/* Go back to before held id number i, which may not come there again. */
static int take_back(struct lm_sequence *q, const struct lm_generate *g, size_t i,
                     struct lm_err *err)
{
    const size_t n = q->hold.n - i;
    if (!lm_grow(&q->barred, &q->barred_cap, q->n_barred + 1, sizeof *q->barred))
        return lm_fail_nomem(err);
    q->n -= n;
    keep_barred(q, 0, q->n);
    q->barred[q->n_barred++] = (struct lm_barred){ q->n, q->hold.ids[i] };
    lm_chain_free(q->chain);
    q->chain = q->before[i].chain;
    q->state = q->before[i].state;
    q->bound = q->before[i].bound;
    if (g->triggers)
        lm_waiting_cut(&q->waiting, g->triggers, q->before[i].waited);
    q->before[i].chain = NULL;
    keep_before(q, i);
    lm_hold_keep(&q->hold, i);
    q->n_choices -= q->n_choices < n ? q->n_choices : n;
    q->known = q->known < q->n ? q->known : q->n;
    return LM_OK;
}

/* ---- the grammar ---- */

/* The grammar takes the id in, or waits for the text that ends in it. */
static int grammar_take(struct lm_sequence *q, const struct lm_generate *g, uint32_t id,
                        struct lm_err *err)
{
    if (q->bound)
        return lm_machine_take(q->machine, &q->state, id, err);
    int s = lm_waiting_take(&q->waiting, g->triggers, g->watch.vocab, q->machine, &q->state, id,
                            err);
    q->bound = s > 0;
    return s < 0 ? lm_err_at(err, s, "%s", g->grammar_option) : LM_OK;
}

/* ---- choosing ---- */

/* The id is chosen and part of the sequence; texts are looked for. */
static int watch(struct lm_sequence *q, const struct lm_generate *g, struct lm_err *err)
{
    size_t n, cut;
    int s = lm_hold_add(&q->hold, &g->watch, q->ids[q->n - 1], &n, &cut, err);
    if (s == LM_HELD_BANNED)
        return take_back(q, g, n, err);
    if (s == LM_HELD_STOP)
        return finish_before(q, g, n, cut, err);
    if (s < 0)
        return s;
    write_held(q, g, n);
    keep_barred(q, q->n - q->hold.n, SIZE_MAX);
    return LM_OK;
}

static int add_choice(struct lm_sequence *q, const struct lm_choice *c, struct lm_err *err)
{
    if (!lm_grow(&q->choices, &q->choices_cap, q->n_choices + 1, sizeof *q->choices))
        return lm_fail_nomem(err);
    q->choices[q->n_choices++] = *c;
    return LM_OK;
}

/* Make the choice the next id of the sequence. */
static int append(struct lm_sequence *q, const struct lm_generate *g,
                  const struct lm_logits_head *h, const struct lm_choice *c, struct lm_err *err)
{
    const bool watched = g->watch.n_stop + g->watch.n_banned && n_generated(q) >= g->min_n;
    int s = g->draw.record ? add_choice(q, c, err) : LM_OK;
    if (s == LM_OK && !lm_grow(&q->ids, &q->ids_cap, q->n + 1, sizeof *q->ids))
        s = lm_fail_nomem(err);
    if (s < 0)
        return s;
    q->ids[q->n++] = (int32_t)c->id;
    if (ends_line(q, g, h, c->id)) {
        write_held(q, g, q->hold.n);
        lm_draw_id(&g->draw, c->id, &q->text);
        return finish(q, g, err);
    }
    if (watched && g->watch.n_banned)
        s = remember(q, err);
    if (s == LM_OK)
        s = lm_chain_accept(q->chain, c->id, err);
    if (s == LM_OK && q->machine)
        s = grammar_take(q, g, c->id, err);
    if (s == LM_OK && watched)
        s = watch(q, g, err);
    else if (s == LM_OK)
        lm_draw_id(&g->draw, c->id, &q->text);
    if (s == LM_OK && !q->over && n_generated(q) >= g->n)
        s = cut_off(q, g, err);
    return s;
}

/* Put in what ends the thinking. */
static int end_thinking(struct lm_sequence *q, const struct lm_generate *g,
                        const struct lm_logits_head *h, struct lm_err *err)
{
    const struct lm_ids *last = &g->reasoning->last;
    int s = LM_OK;
    q->thinking.ending = true;
    for (size_t i = 0; s == LM_OK && i < last->n && !q->over; i++) {
        const struct lm_choice c = { .seq = q->line, .pos = (uint32_t)(q->base + q->n),
                                     .id = (uint32_t)last->id[i], .p = 1 };
        s = append(q, g, h, &c, err);
        if (s == LM_OK)
            s = lm_thinking_add(&q->thinking, g->reasoning, c.id, false, err);
    }
    q->thinking.ending = q->thinking.inside = false;
    return s;
}

/* The id has become part of the line: is it time to stop thinking? */
static int think(struct lm_sequence *q, const struct lm_generate *g,
                 const struct lm_logits_head *h, uint32_t id, struct lm_err *err)
{
    int s = g->reasoning && !q->over
            ? lm_thinking_add(&q->thinking, g->reasoning, id, false, err) : LM_OK;
    return s > 0 ? end_thinking(q, g, h, err) : s;
}

/* The chance of an id among chances with ids ascending. */
static double chance_of(const struct lm_chance *c, size_t n, uint32_t id)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c[mid].id == id)
            return c[mid].p;
        if (c[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

int lm_chance_by_id(const void *a, const void *b)
{
    const struct lm_chance *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Choose by a proposal that was drawn with chances q: it stays with the chance p / q, else another
 * id is drawn in proportion to p - q where that is positive (Leviathan, Kalman and Matias 2023).
 */
static int choose_by(struct lm_sequence *q, const struct lm_generate *g,
                     const struct lm_proposal *x, struct lm_choice *c, struct lm_err *err)
{
    const uint64_t seed = g->draw.sampling->seed;
    size_t n;
    const struct lm_chance *left = lm_chain_chances(q->chain, 0, &n, err);
    struct lm_chance *p = left ? lm_malloc_array(n, sizeof *p) : NULL;
    double sum = 0, u = lm_uniform(seed, c->pos, c->seq, LM_PURPOSE_ACCEPT);
    if (!p)
        return lm_fail_nomem(err);
    memcpy(p, left, n * sizeof *p);
    qsort(p, n, sizeof *p, lm_chance_by_id);
    c->id = x->id;
    if (u * chance_of(x->chances, x->n, x->id) >= chance_of(p, n, x->id)) {
        for (size_t i = 0; i < n; i++) {
            const double more = p[i].p - chance_of(x->chances, x->n, p[i].id);
            p[i].p = more > 0 ? more : 0;
            sum += p[i].p;
        }
        double r = lm_uniform(seed, c->pos, c->seq, LM_PURPOSE_RESIDUAL) * sum;
        size_t i = 0;
        while (i + 1 < n && (r >= p[i].p || p[i].p == 0))
            r -= p[i++].p;
        while (i > 0 && p[i].p == 0)              /* rounding has run past the last one */
            i--;
        c->id = p[i].id;
    }
    free(p);
    lm_chain_chosen(q->chain, c->id);
    return g->draw.record ? lm_draw_judge(q->chain, c, err) : LM_OK;
}

/* Choose the next id from a frame. */
static int choose(struct lm_sequence *q, const struct lm_generate *g, const struct lm_frame *f,
                  const void *payload, const struct lm_proposal *x, struct lm_choice *c,
                  struct lm_err *err)
{
    struct lm_frame at = *f;
    at.pos = (uint32_t)(q->base + q->n - 1);
    int s = lm_draw_frame(&g->draw, q->chain, q->line, &at, payload, &q->text, c, err);
    return s == LM_OK && x && x->n ? choose_by(q, g, x, c, err) : s;
}

int lm_sequence_check(struct lm_sequence *q, const struct lm_logits_head *h,
                      const struct lm_frame *f, struct lm_err *err)
{
    const size_t first = q->sent - q->n_proposals - 1, k = q->n_proposals + 1 - q->answers;
    if (!q->met && f->pos >= first + k)
        q->base = f->pos - (first + k);
    else if (!q->met && first + k < h->n_ctx && f->pos >= h->n_ctx / 2)
        /* with what it had, more than the context has: it was shifted, and half is left */
        q->base = h->n_ctx - (first + k);
    q->met = true;
    const size_t pos = q->base + first + k;
    const uint32_t token = k ? q->proposals[k - 1].id : (uint32_t)q->ids[first];
    const bool shifted = pos >= h->n_ctx && f->pos < h->n_ctx;
    if ((f->pos == pos || shifted) && f->token == token)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "answers about token %" PRIu32 " at position %" PRIu32
                   ", and was asked about %" PRIu32 " at %zu", f->token, f->pos, token, pos);
}

int lm_sequence_take(struct lm_sequence *q, const struct lm_generate *g,
                     const struct lm_logits_head *h, const struct lm_frame *f,
                     const void *payload, struct lm_err *err)
{
    const struct lm_proposal *x =
        q->next_proposal < q->n_proposals ? &q->proposals[q->next_proposal] : NULL;
    struct lm_choice c;
    q->answers--;
    if (q->over || q->next_proposal > q->n_proposals)     /* after one that did not stay */
        return LM_OK;
    const size_t n = q->n;
    q->known = n;
    int s = set_mask(q, g, h, err);
    if (s == 0) {
        q->next_proposal = SIZE_MAX;
        return finish(q, g, err);
    }
    if (s > 0)
        s = choose(q, g, f, payload, x, &c, err);
    if (s == LM_OK)
        s = append(q, g, h, &c, err);
    if (s == LM_OK)
        s = think(q, g, h, c.id, err);
    const bool stays = s == LM_OK && x && x->id == c.id && q->n == n + 1;
    q->next_proposal = stays ? q->next_proposal + 1 : SIZE_MAX;
    q->n_kept += stays;
    return s;
}

/* ---- asking ---- */

/* The prompt goes to the encoder, and the sequence begins with the model's own first id. */
static int begin_decoder(struct lm_sequence *q, int32_t first, struct lm_err *err)
{
    if (!lm_grow(&q->encoder.id, &q->encoder.cap, q->n, sizeof *q->encoder.id))
        return lm_fail_nomem(err);
    memcpy(q->encoder.id, q->ids, q->n * sizeof *q->ids);
    q->encoder.n = q->n;
    q->ids[0] = first;
    q->n = 1;
    return LM_OK;
}

int lm_sequence_begin(struct lm_sequence *q, const struct lm_generate *g,
                      const struct lm_logits_head *h, uint32_t line, struct lm_err *err)
{
    int s = h->decoder_start >= 0 ? begin_decoder(q, (int32_t)h->decoder_start, err) : LM_OK;
    q->line = line;
    q->n_prompt = q->n;
    q->known = 0;
    if (q->met)
        q->base = 0;
    q->over = q->fell_short = q->cut = q->guessing = false;
    q->n_barred = q->n_choices = q->n_proposals = 0;
    q->bound = !g->triggers;
    if (g->triggers)
        lm_waiting_cut(&q->waiting, g->triggers, 0);
    lm_thinking_reset(&q->thinking);
    lm_chain_reset(q->chain);
    for (size_t i = 0; s == LM_OK && i < q->n; i++)
        s = lm_chain_accept(q->chain, (uint32_t)q->ids[i], err);
    for (size_t i = 0; s == LM_OK && g->reasoning && i < q->n; i++)
        s = lm_thinking_add(&q->thinking, g->reasoning, (uint32_t)q->ids[i], true, err);
    if (s == LM_OK && q->machine)
        s = lm_machine_start(q->machine, &q->state, err);
    if (s == LM_OK && g->n == 0)
        return finish(q, g, err);
    return s == LM_OK && q->thinking.inside && g->reasoning->most == 0
           ? end_thinking(q, g, h, err) : s;
}

int lm_sequence_room(struct lm_sequence *q, struct lm_err *err)
{
    const size_t old = q->proposals_cap;
    if (!lm_grow(&q->proposals, &q->proposals_cap, q->n_proposals + 1, sizeof *q->proposals))
        return lm_fail_nomem(err);
    memset(q->proposals + old, 0, (q->proposals_cap - old) * sizeof *q->proposals);
    q->proposals[q->n_proposals].n = 0;
    return LM_OK;
}

int lm_sequence_ask(struct lm_sequence *q, struct lm_buf *out, struct lm_err *err)
{
    size_t from = q->known < q->n - 1 ? q->known : q->n - 1;
    if (q->encoder.n) {
        lm_buf_printf(out, "%" PRIu32 ": e", q->seq);
        for (size_t i = 0; i < q->encoder.n; i++)
            lm_buf_printf(out, " %" PRId32, q->encoder.id[i]);
        lm_buf_byte(out, '\n');
        q->encoder.n = q->sent = 0;
    }
    q->back = q->sent > from;
    if (q->back && q->coarse)
        from = q->from <= from ? q->from : 0;
    if (q->seq)
        lm_buf_printf(out, "%" PRIu32 ": ", q->seq);
    if (q->back)
        lm_buf_printf(out, "@%zu ", q->base + from);
    if (q->n_proposals)
        lm_buf_printf(out, "+%zu ", q->n_proposals + 1);
    for (size_t i = from; i < q->n; i++)
        lm_buf_printf(out, "%s%" PRId32, i > from ? " " : "", q->ids[i]);
    for (size_t i = 0; i < q->n_proposals; i++)
        lm_buf_printf(out, " %" PRIu32, q->proposals[i].id);
    lm_buf_byte(out, '\n');
    q->from_before = q->from;
    q->from = from;
    q->had = q->sent;
    q->sent = q->n + q->n_proposals;
    q->answers = q->n_proposals + 1;
    q->n_proposed += q->n_proposals;
    q->next_proposal = 0;
    q->asked_at = out->len;
    return out->failed ? lm_fail_nomem(err) : LM_OK;
}

int lm_sequence_ask_less(struct lm_sequence *q, struct lm_buf *out, struct lm_err *err)
{
    q->sent = q->had;
    q->from = q->from_before;
    q->n_proposed -= q->n_proposals;
    q->n_proposals = 0;
    return lm_sequence_ask(q, out, err);
}

int lm_sequence_ask_again(struct lm_sequence *q, struct lm_buf *out, struct lm_err *err)
{
    q->sent = q->had;
    q->from = q->from_before;
    q->n_proposed -= q->n_proposals;
    q->coarse = true;
    return lm_sequence_ask(q, out, err);
}

int lm_sequence_full(struct lm_sequence *q, const struct lm_generate *g, struct lm_err *err)
{
    q->answers = 0;
    q->fell_short = true;
    return cut_off(q, g, err);
}
