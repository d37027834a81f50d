/* SPDX-License-Identifier: MIT */
#include "job/generate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "io/child.h"
#include "stream/logits.h"
#include "stream/loop.h"
#include "stream/tokens.h"

#define GRACE  10000         /* milliseconds a child in order gets to end after a failure */
#define HURRY  2000          /* and one that is not                                   */

/* Whose fault a failure is: it says how the child is brought to an end. */
enum blame {
    BLAME_NONE,
    BLAME_WORK,              /* prompts, logits, memory: the child is in order  */
    BLAME_CHILD,             /* its stream is cut or makes no sense             */
    BLAME_OUTPUT,            /* our own output: the child's work is in vain     */
};

struct run {
    const struct lm_generate *g;
    struct lm_err            *err;
    struct lm_child           child;
    struct lm_in             *answers;
    struct lm_logits_reader  *frames;
    struct lm_logits_head     head;
    struct lm_chain          *chain;
    enum blame                blame;
    bool                      reader_gone;  /* writing our output gave EPIPE        */
    bool                      fell_short;   /* a line has fewer ids than asked for  */
    const char               *from;         /* where prompts come from              */
    uint32_t                  line;         /* number of the prompt, from 0         */
    int32_t                  *ids;          /* the prompt                           */
    size_t                    n_ids, ids_cap;
    struct lm_buf             request;
};

static const char *name(const struct run *r)
{
    return r->g->command[0];
}

/* Remember whose fault code s is; passes it on. */
static int blame(struct run *r, enum blame who, int s)
{
    if (s < 0 && r->blame == BLAME_NONE)
        r->blame = who;
    return s;
}

static int blame_child(struct run *r, int s)
{
    if (s < 0)
        lm_err_at(r->err, s, "%s", name(r));
    return blame(r, BLAME_CHILD, s);
}

/* Our output failed, or what was to be written did. */
static int blame_draw(struct run *r, int s)
{
    r->reader_gone |= s == LM_EIO && errno == EPIPE;
    return blame(r, s == LM_EIO ? BLAME_OUTPUT : BLAME_WORK, s);
}

/* Say which prompt the child complains of. */
static void at_prompt(struct run *r, int s)
{
    lm_err_at(r->err, s, "%s: line %" PRIu64 ": %s", r->from, r->line + UINT64_C(1), name(r));
}

/*
 * Send the request and read its answer: 1 a frame to draw from, 0 the sequence would be
 * longer than it may be (*f is the error frame), below 0 a code.
 */
static int ask(struct run *r, struct lm_frame *f, const void **payload)
{
    int whole = lm_child_send(&r->child, r->request.data, r->request.len, r->err);
    if (whole < 0)
        return blame_child(r, whole);
    int s = lm_logits_read_frame(r->frames, f, payload, r->err);
    if (s < 0)
        return blame_child(r, s);
    if (f->kind == LM_FRAME_ERROR) {
        s = lm_draw_error_frame(f, *payload, r->err);
        if (f->token == LM_LOOP_TRAINED_LENGTH || f->token == LM_LOOP_CONTEXT)
            return 0;
        at_prompt(r, s);
        return blame(r, BLAME_WORK, s);
    }
    if (f->kind == LM_FRAME_END)
        return blame_child(r, lm_fail(r->err, LM_EDATA, "ends its stream before its answer"));
    if (!whole)
        return blame_child(r, lm_fail(r->err, LM_EDATA, "answers before it is asked"));
    return 1;
}

static int prompt_request(struct run *r)
{
    lm_buf_clear(&r->request);
    if (r->line)
        lm_buf_str(&r->request, "@0 ");
    for (size_t i = 0; i < r->n_ids; i++)
        lm_buf_printf(&r->request, "%" PRId32 "%c", r->ids[i], i + 1 < r->n_ids ? ' ' : '\n');
    return r->request.failed ? lm_fail_nomem(r->err) : LM_OK;
}

static int id_request(struct run *r, uint32_t id)
{
    lm_buf_clear(&r->request);
    lm_buf_printf(&r->request, "%" PRIu32 "\n", id);
    return r->request.failed ? lm_fail_nomem(r->err) : LM_OK;
}

static bool ends(const struct run *r, uint32_t id)
{
    for (size_t i = 0; i < r->head.n_eog; i++)
        if ((uint32_t)r->head.eog[i] == id)
            return true;
    for (size_t i = 0; i < r->g->n_stop; i++)
        if ((uint32_t)r->g->stop[i] == id)
            return true;
    return false;
}

/* The context is full: the end of the line if it has an id, else the prompt is too long. */
static int full(struct run *r, uint64_t n_generated)
{
    if (n_generated == 0) {
        at_prompt(r, LM_EDATA);
        return blame(r, BLAME_WORK, r->err->code);
    }
    lm_note(r->g->draw.env, LM_WARN, "%s: line %" PRIu64 ": the context of %" PRIu32 " tokens "
            "is full, %" PRIu64 " generated", r->from, r->line + UINT64_C(1), r->head.n_ctx,
            n_generated);
    r->fell_short |= r->g->n != LM_UNTIL_END;
    return LM_OK;
}

/* One prompt, which is in r->ids, and its line. */
static int generate_line(struct run *r)
{
    struct lm_frame f;
    const void *payload;
    int s = LM_OK;
    if (r->n_ids == 0)
        return blame(r, BLAME_WORK, lm_fail(r->err, LM_EDATA, "%s: line %" PRIu64 ": the prompt is "
                                            "empty", r->from, r->line + UINT64_C(1)));
    lm_chain_reset(r->chain);
    for (size_t i = 0; s == LM_OK && i < r->n_ids; i++)
        s = lm_chain_accept(r->chain, (uint32_t)r->ids[i], r->err);
    if (s == LM_OK)
        s = prompt_request(r);
    for (uint64_t n = 0; s == LM_OK && n < r->g->n; n++) {
        uint32_t id;
        int got = ask(r, &f, &payload);
        if (got < 0)
            return got;
        if (got == 0) {
            s = full(r, n);
            break;
        }
        f.pos = (uint32_t)(r->n_ids + n - 1);
        s = lm_draw_frame(&r->g->draw, r->chain, r->line, &f, payload, &id, r->err);
        if (s < 0 || ends(r, id))
            break;
        s = lm_chain_accept(r->chain, id, r->err);
        if (s == LM_OK)
            s = id_request(r, id);
    }
    if (s == LM_OK)
        s = lm_draw_newline(&r->g->draw, r->err);
    return blame_draw(r, s);
}

/* All prompts. */
static int generate_lines(struct run *r, struct lm_token_reader *prompts)
{
    for (; ; r->line++) {
        r->n_ids = 0;
        int s = lm_token_read_line(prompts, &r->ids, &r->n_ids, &r->ids_cap, r->err);
        if (s < 0)
            lm_err_at(r->err, s, "%s", r->from);
        if (s <= 0)
            return blame(r, BLAME_WORK, s);
        s = generate_line(r);
        if (s < 0)
            return s;
    }
}

/* A child that answers no request would be waited for in vain. */
static int read_head(struct run *r)
{
    int s = lm_logits_read_head(r->frames, &r->head, r->err);
    if (s == 0)
        s = lm_fail(r->err, LM_EDATA, "ends before its stream begins");
    if (s < 0)
        return blame_child(r, s);
    if (!r->head.loop)
        return blame(r, BLAME_WORK, lm_fail(r->err, LM_EUSE, "%s: answers no requests: it wants -i",
                                            name(r)));
    if (r->head.decoder_start >= 0)
        return blame(r, BLAME_WORK, lm_fail(r->err, LM_ENOSUP, "%s: %s is an encoder-decoder "
                     "model, which this version cannot drive", name(r), r->head.model));
    r->chain = lm_chain_new(r->g->draw.sampling, &r->head, r->g->draw.env, r->err);
    return r->chain ? LM_OK : blame(r, BLAME_WORK, r->err->code);
}

/* After the last prompt: the child has to end its stream, and itself, in order. */
static int read_end(struct run *r)
{
    struct lm_logits_head more;
    struct lm_frame f;
    const void *payload;
    lm_child_close_input(&r->child);
    int s = lm_logits_read_frame(r->frames, &f, &payload, r->err);
    if (s == LM_OK && f.kind == LM_FRAME_ERROR)
        s = lm_draw_error_frame(&f, payload, r->err);
    else if (s == LM_OK && f.kind != LM_FRAME_END)
        s = lm_fail(r->err, LM_EDATA, "gives frames that were not asked for");
    if (s == LM_OK && (s = lm_logits_read_head(r->frames, &more, r->err)) > 0) {
        lm_logits_head_release(&more);
        s = lm_fail(r->err, LM_EDATA, "goes on after its end frame");
    }
    return blame_child(r, s);
}

static int work(struct run *r, struct lm_in *prompts)
{
    struct lm_token_reader *tokens = NULL;
    int s = LM_OK;
    r->answers = lm_in_from_fd(r->child.from, name(r), LM_IN_RAW, r->err);
    if (!r->answers || !(r->frames = lm_logits_reader_new(r->answers, r->err)) ||
        !(tokens = lm_token_reader_new(prompts, r->err)))
        s = blame(r, BLAME_WORK, r->err->code);
    if (s == LM_OK)
        s = read_head(r);
    if (s == LM_OK)
        s = generate_lines(r, tokens);
    if (s == LM_OK)
        s = read_end(r);

    /* What a failed producer said is passed on as it is. */
    if (r->blame == BLAME_WORK)
        lm_draw_give_up(&r->g->draw, tokens && lm_token_fault(tokens) == LM_TOKENS_PEER ?
                        lm_token_peer_text(tokens) : r->err->text, NULL);
    lm_token_reader_free(tokens);
    return s;
}

/* The exit status after the child has ended; if it failed of itself, *err says so. */
static int judge(struct run *r, struct lm_child_end e, int s)
{
    if (e.status < 0 && !e.ours) {
        lm_fail(r->err, LM_EIO, "%s: ended by signal %d (%s)", name(r), e.signal,
                strsignal(e.signal));
        return 2;
    }
    if (e.status == 126 || e.status == 127) {
        lm_fail(r->err, LM_EIO, "%s: could not be started: exit status %d", name(r), e.status);
        return 2;
    }
    if (e.status > 0) {
        lm_fail(r->err, LM_EIO, "%s: exit status %d", name(r), e.status);
        return e.status;
    }
    return s == LM_OK ? 0 : s == LM_EDATA ? 1 : 2;
}

/* Bring the child to its end and find the exit status. */
static int finish(struct run *r, int s, struct lm_generate_end *end)
{
    static const int grace[] = {
        [BLAME_NONE] = -1, [BLAME_WORK] = GRACE, [BLAME_CHILD] = HURRY, [BLAME_OUTPUT] = 0,
    };
    lm_child_close_input(&r->child);
    if (r->blame == BLAME_WORK)
        lm_child_drain(&r->child, GRACE);
    struct lm_child_end e = lm_child_finish(&r->child, grace[r->blame]);
    end->reader_gone = r->reader_gone;
    end->status = s == LM_OK ? 0 : s == LM_EDATA ? 1 : 2;
    if (r->blame == BLAME_NONE || r->blame == BLAME_CHILD) {
        end->status = judge(r, e, s);
        if (end->status) {
            s = s < 0 ? s : LM_EIO;
            lm_draw_give_up(&r->g->draw, r->err->text, NULL);
        }
    }
    if (s == LM_OK && r->fell_short)
        end->status = 2;
    return s;
}

int lm_generate(const struct lm_generate *g, struct lm_in *prompts, struct lm_generate_end *end,
                struct lm_err *err)
{
    struct lm_err own = { 0 };
    struct run r = { .g = g, .err = &own, .from = lm_in_name(prompts) };
    *end = (struct lm_generate_end){ .status = 2 };
    int s = lm_child_start(&r.child, g->command, &own);
    if (s < 0) {
        lm_draw_give_up(&g->draw, own.text, NULL);
    } else {
        s = work(&r, prompts);
        s = finish(&r, s, end);
    }
    lm_chain_free(r.chain);
    lm_logits_head_release(&r.head);
    lm_logits_reader_free(r.frames);
    lm_in_close(r.answers);
    lm_buf_release(&r.request);
    free(r.ids);
    if (s < 0 && err)
        *err = own;
    return s;
}
