/* SPDX-License-Identifier: MIT */
#include "job/generate_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "stream/loop.h"

#define GRACE  10000         /* milliseconds a child in order gets to end after a failure */
#define HURRY  2000          /* and one that is not                                   */
#define SILENCE 10           /* seconds without a header after which that is told     */
#define AHEAD  256           /* lines begun before an earlier one is complete          */

/* Whose fault a failure is: it says how the child is brought to an end. */
enum blame {
    BLAME_NONE,
    BLAME_WORK,              /* prompts, logits, memory: the child is in order  */
    BLAME_DRAFT,             /* proposals: the child is in order, the draft not */
    BLAME_CHILD,             /* its stream is cut or makes no sense             */
    BLAME_OUTPUT,            /* our own output: the child's work is in vain     */
};

/* The output of a line that is not its turn. */
struct later {
    struct lm_buf text;
    bool          over;
};

struct run {
    const struct lm_generate *g;
    struct lm_err            *err;
    struct lm_talk            talk;
    struct lm_drafter         drafter;
    struct lm_chain          *chain;
    struct lm_machine        *machine;      /* the grammar's, or NULL               */
    enum blame                blame;
    bool                      reader_gone;  /* writing our output gave EPIPE        */
    bool                      fell_short;   /* a line has fewer ids than asked for  */
    bool                      told_cut;     /* that a line ends inside the grammar  */

    struct lm_token_reader   *prompts;
    const char               *from;         /* where prompts come from              */
    uint32_t                  n_lines;      /* prompts read                         */
    bool                      no_more;      /* all are read                         */

    struct lm_sequence       *seqs;         /* [g->parallel]                        */
    struct lm_buf             requests;     /* to the child; the first `sent` it has */
    size_t                    sent;

    uint32_t                  fault_line;   /* the first line that cannot be done: those before
                                               it are completed first; UINT32_MAX: none */
    struct lm_err             fault;        /* why                                  */
    bool                      fault_peer;   /* the prompts' producer failed there   */

    uint32_t                  front;        /* the line that is being written       */
    struct later              later[AHEAD]; /* line k at k % AHEAD                  */
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

/* Say which prompt the child complains of. */
static void at_prompt(struct run *r, uint32_t line, int s)
{
    lm_err_at(r->err, s, "%s: line %" PRIu64 ": %s", r->from, line + UINT64_C(1), name(r));
}

/* ---- output, in the order of lines ---- */

static int put(struct run *r, struct lm_buf *text)
{
    int s = text->failed ? lm_fail_nomem(r->err)
                         : lm_draw_put(&r->g->draw, text->data, text->len, r->err);
    lm_buf_clear(text);
    r->reader_gone |= s == LM_EIO && errno == EPIPE;
    return blame(r, s == LM_EIO ? BLAME_OUTPUT : BLAME_WORK, s);
}

/* Only once: others end there, too, for the same reason. */
static void tell_cut(struct run *r, const struct lm_sequence *q)
{
    if (q->over && q->cut && !r->told_cut)
        lm_note(r->g->draw.env, LM_WARN, "%s: line %" PRIu64 ": the answer ends %s before the "
                "grammar is complete", r->from, q->line + UINT64_C(1),
                q->fell_short ? "with the context" : "at -n");
    r->told_cut |= q->over && q->cut;
}

/* Write what a sequence has to say now, or keep it until it is its turn. */
static int deliver(struct run *r, struct lm_sequence *q)
{
    struct later *own = &r->later[q->line % AHEAD];
    int s = LM_OK;
    if (q->line == r->front) {
        s = put(r, &q->text);
    } else {
        lm_buf_add(&own->text, q->text.data, q->text.len);
        lm_buf_clear(&q->text);
    }
    own->over = q->over;
    tell_cut(r, q);
    for (struct later *l; s == LM_OK && (l = &r->later[r->front % AHEAD])->over; ) {
        l->over = false;
        r->front++;
        s = put(r, &r->later[r->front % AHEAD].text);
    }
    r->fell_short |= q->over && q->fell_short && r->g->n != LM_UNTIL_END;
    return s;
}

/* A line cannot be done for the reason in *err: it ends the output after the lines before it,
 * whose answers may still come.  LM_OK. */
static int fail_line(struct run *r, uint32_t line, bool peer)
{
    if (line < r->fault_line) {
        r->fault_line = line;
        r->fault = *r->err;
        r->fault_peer = peer;
    }
    r->no_more = true;
    return LM_OK;
}

/* ---- asking ---- */

/* Ask for what comes after the sequence's ids. */
static int ask(struct run *r, struct lm_sequence *q)
{
    const uint64_t made = q->n - q->n_prompt, left = r->g->n - made;
    const size_t len = q->base + q->n;
    size_t most = r->g->n_draft;
    if (left <= most)
        most = (size_t)left - 1;                  /* the last frame gives one more */
    if (len + most >= r->talk.head.n_ctx)
        most = len < r->talk.head.n_ctx ? r->talk.head.n_ctx - len - 1 : 0;
    if (r->g->draft_head) {
        int asked = lm_sequence_ask_head(q, most, &r->requests, r->err);
        return blame(r, BLAME_WORK, asked ? asked < 0 ? asked : LM_OK
                                          : lm_sequence_ask(q, &r->requests, r->err));
    }
    int s = blame(r, r->g->draft ? BLAME_DRAFT : BLAME_WORK,
                  lm_drafter_propose(&r->drafter, q, most, r->err));
    if (s == LM_OK)
        s = lm_sequence_ask(q, &r->requests, r->err);
    return blame(r, BLAME_WORK, s);
}

/* Read the next prompt into q and ask for its first frame: 1, 0 when there are no more. */
static int next_prompt(struct run *r, struct lm_sequence *q)
{
    q->n = 0;
    int s = lm_token_read_line(r->prompts, &q->ids, &q->n, &q->ids_cap, r->err);
    if (s < 0)
        lm_err_at(r->err, s, "%s", r->from);
    if (s > 0 && q->n == 0)
        s = lm_fail(r->err, LM_EDATA, "%s: line %" PRIu64 ": the prompt is empty", r->from,
                    r->n_lines + UINT64_C(1));
    if (s < 0)
        return fail_line(r, r->n_lines, lm_token_fault(r->prompts) == LM_TOKENS_PEER);
    if (s == 0)
        return s;
    s = lm_sequence_begin(q, r->g, &r->talk.head, r->n_lines++, r->err);
    if (s < 0)
        return blame(r, BLAME_WORK, s);
    s = q->over ? deliver(r, q) : ask(r, q);
    return s < 0 ? s : 1;
}

/* The sequence for the next line: each in turn first, since the child may know something of them,
 * then any that is idle; NULL: none is. */
static struct lm_sequence *idle(struct run *r)
{
    if (r->n_lines < r->g->parallel)
        return &r->seqs[r->n_lines];
    for (size_t i = 0; i < r->g->parallel; i++)
        if (r->seqs[i].over && r->seqs[i].answers == 0)
            return &r->seqs[i];
    return NULL;
}

static bool waiting(const struct run *r)
{
    for (size_t i = 0; i < r->g->parallel; i++)
        if (r->seqs[i].answers && r->seqs[i].line < r->fault_line)
            return true;
    return false;
}

/* Give idle sequences a prompt each, as long as there are some; those that are not there yet are
 * waited for when nothing else is to be done. */
static int fill(struct run *r)
{
    struct lm_sequence *q;
    while (!r->no_more && r->n_lines - r->front < AHEAD && (q = idle(r)) &&
           (lm_token_ready(r->prompts) || !waiting(r))) {
        int s = next_prompt(r, q);
        if (s < 0)
            return s;
        r->no_more = s == 0;
    }
    return LM_OK;
}

/* ---- answers ---- */

/* Whose answer a frame is; NULL: nobody asked for it. */
static struct lm_sequence *asker(struct run *r, const struct lm_frame *f)
{
    struct lm_sequence *q = f->seq < r->g->parallel ? &r->seqs[f->seq] : NULL;
    return q && q->answers ? q : NULL;
}

/* The child refuses: the end of a line whose context is full, else of everything.  With
 * proposals it may have been too much for it: ask again without. */
static int take_error(struct run *r, struct lm_sequence *q, const struct lm_frame *f,
                      const void *payload)
{
    const bool full = f->token == LM_LOOP_TRAINED_LENGTH || f->token == LM_LOOP_CONTEXT;
    const uint64_t made = q->n - q->n_prompt;
    if (q->guessing) {                            /* then there are no proposals */
        q->guessing = false;
        return lm_sequence_ask(q, &r->requests, r->err);
    }
    if (full && q->n_proposals)
        return lm_sequence_ask_less(q, &r->requests, r->err);
    if (f->token == LM_LOOP_UNSUPPORTED && q->back && !q->coarse)
        return lm_sequence_ask_again(q, &r->requests, r->err);
    int s = lm_draw_error_frame(f, payload, r->err);
    q->answers = 0;
    if (!full || made == 0) {
        at_prompt(r, q->line, s);
        return s;
    }
    lm_note(r->g->draw.env, r->g->n == LM_UNTIL_END ? LM_WARN : LM_FAULT,
            "%s: line %" PRIu64 ": the context of %" PRIu32 " tokens is full, %" PRIu64
            " generated", r->from, q->line + UINT64_C(1), r->talk.head.n_ctx,
            made);
    return lm_sequence_full(q, r->g, r->err);
}

/* What the child's draft head says becomes proposals, and they are asked about. */
static int take_guesses(struct run *r, struct lm_sequence *q, const struct lm_frame *f,
                        const void *payload)
{
    int s = f->kind == LM_FRAME_GUESS
                ? lm_sequence_take_head(q, &r->talk.head, f, payload, r->err)
                : lm_fail(r->err, LM_EDATA, "gives logits where guesses were asked for");
    return s < 0 ? blame_child(r, s)
                 : blame(r, BLAME_WORK, lm_sequence_ask(q, &r->requests, r->err));
}

/* Read a frame and do what follows from it. */
static int take_answer(struct run *r)
{
    struct lm_frame f;
    const void *payload;
    int s = lm_logits_read_frame(r->talk.frames, &f, &payload, r->err);
    if (s < 0)
        return blame_child(r, s);
    if (f.kind == LM_FRAME_END)
        return blame_child(r, lm_fail(r->err, LM_EDATA, "ends its stream before its answer"));
    struct lm_sequence *q = asker(r, &f);
    if (!q)
        return blame_child(r, lm_fail(r->err, LM_EDATA, "gives frames that were not asked for"));
    if (r->sent < q->asked_at)
        return blame_child(r, lm_fail(r->err, LM_EDATA, "answers before it is asked"));
    if (q->line >= r->fault_line) {               /* nobody needs it any more */
        q->answers = f.kind == LM_FRAME_ERROR ? 0 : q->answers - 1;
        return LM_OK;
    }
    if (f.kind != LM_FRAME_ERROR && q->guessing)
        return take_guesses(r, q, &f, payload);
    if (f.kind != LM_FRAME_ERROR && lm_sequence_check(q, &r->talk.head, &f, r->err) < 0)
        return blame_child(r, r->err->code);
    const bool was_over = q->over;
    if (f.kind == LM_FRAME_ERROR)
        s = take_error(r, q, &f, payload);
    else
        s = lm_sequence_take(q, r->g, &r->talk.head, &f, payload, r->err);
    if (s < 0)
        return fail_line(r, q->line, false);
    if (!was_over)
        s = deliver(r, q);
    if (s == LM_OK && q->answers == 0 && !q->over)
        s = ask(r, q);
    return s;
}

/* Send what there is to send, as far as the child takes it. */
static int send_requests(struct run *r)
{
    size_t taken = 0;
    if (r->sent < r->requests.len) {
        int s = lm_child_send(&r->talk.child, r->requests.data + r->sent,
                              r->requests.len - r->sent, &taken, r->err);
        if (s < 0)
            return blame_child(r, s);
        r->sent = s > 0 ? r->requests.len : r->sent + taken;
    }
    if (r->sent == r->requests.len) {
        for (size_t i = 0; i < r->g->parallel; i++)
            r->seqs[i].asked_at = 0;
        lm_buf_clear(&r->requests);
        r->sent = 0;
    }
    return LM_OK;
}

/* All prompts. */
static int generate_lines(struct run *r)
{
    int s = fill(r);
    while (s == LM_OK && waiting(r)) {
        s = send_requests(r);
        if (s == LM_OK)
            s = take_answer(r);
        if (s == LM_OK)
            s = fill(r);
    }
    if (s < 0 || r->fault_line == UINT32_MAX)
        return s;
    *r->err = r->fault;
    return blame(r, BLAME_WORK, r->fault.code);
}

/* ---- the child ---- */

/* Wait for a child's first byte; say so once if it does not come. */
static void wait_for(const struct lm_child *child, const char *name, const struct lm_env *env)
{
    struct pollfd from = { .fd = child->from, .events = POLLIN };
    int n;
    do
        n = poll(&from, 1, SILENCE * 1000);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        lm_note(env, LM_WARN, "%s: has written nothing for %d seconds; still waiting for it, as a "
                "large model takes long to load", name, SILENCE);
}

int lm_talk_start(struct lm_talk *t, char *const argv[], const struct lm_env *env,
                  struct lm_err *err)
{
    *t = (struct lm_talk){ .child = { .to = -1, .from = -1 } };
    int s = lm_child_start(&t->child, argv, err);
    if (s < 0)
        return s;
    t->answers = lm_in_from_fd(t->child.from, argv[0], LM_IN_RAW, err);
    if (!t->answers || !(t->frames = lm_logits_reader_new(t->answers, err)))
        return err->code;
    wait_for(&t->child, argv[0], env);
    s = lm_logits_read_head(t->frames, &t->head, err);
    return s == 0 ? lm_fail(err, LM_EDATA, "ends before its stream begins") : s > 0 ? LM_OK : s;
}

uint64_t lm_talk_rest(const struct lm_talk *t, size_t frames)
{
    const uint64_t other = 1 << 16;           /* what an error says, an end frame */
    return other + frames * (sizeof(struct lm_frame) + sizeof(float) * (uint64_t)t->head.n_vocab);
}

/* The exit status that says how it went when the child ended like this after the work with it ended
 * with code s: 2 for a signal or a program that could not be started, else the child's if it failed
 * of itself, which *err then says with its name; else that of s. */
static int status_of(const char *name, struct lm_child_end e, int s, struct lm_err *err)
{
    if (e.ours || e.status == 0)
        return s == LM_OK ? 0 : s == LM_EDATA ? 1 : 2;
    if (e.status < 0)
        lm_fail(err, LM_EIO, "%s: ended by signal %d (%s)", name, e.signal, strsignal(e.signal));
    else if (e.status == 126 || e.status == 127)
        lm_fail(err, LM_EIO, "%s: could not be started: exit status %d", name, e.status);
    else
        lm_fail(err, LM_EIO, "%s: exit status %d", name, e.status);
    return e.status < 0 || e.status == 126 || e.status == 127 ? 2 : e.status;
}

void lm_talk_release(struct lm_talk *t)
{
    lm_logits_head_release(&t->head);
    lm_logits_reader_free(t->frames);
    lm_in_close(t->answers);
}

/* A child that answers no request would be waited for in vain. */
static int check_head(struct run *r)
{
    if (!r->talk.head.loop)
        return blame(r, BLAME_WORK, lm_fail(r->err, LM_EUSE, "%s: answers no requests: it wants -i",
                                            name(r)));
    if (r->g->draft_head && !r->talk.head.draft_head)
        return blame(r, BLAME_WORK, lm_fail(r->err, LM_EUSE, "%s: has no draft head loaded: it "
                                            "wants --draft-head", name(r)));
    if (r->talk.head.decoder_start >= 0 && r->g->draft)
        return blame(r, BLAME_WORK, lm_fail(r->err, LM_EUSE, "--draft: %s is an encoder-decoder "
                     "model, for which nothing is drafted", r->talk.head.model));
    return LM_OK;
}

/* Ids of the command line must be the model's. */
static int check_ids(struct run *r, const char *option, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] >= r->talk.head.n_vocab)
            return lm_fail(r->err, LM_EUSE, "%s: id %" PRId32 " is outside the vocabulary of %"
                           PRIu32, option, ids[i], r->talk.head.n_vocab);
    return LM_OK;
}

static int check_all_ids(struct run *r)
{
    const struct lm_triggers *t = r->g->triggers;
    int s = check_ids(r, "--stop-ids", r->g->stop, r->g->n_stop);
    if (s == LM_OK && t)
        s = check_ids(r, "--grammar-trigger-id", t->ids, t->n_ids);
    return s == LM_OK && r->g->draw.replay
           ? lm_record_check(r->g->draw.replay, r->talk.head.n_vocab, r->err) : s;
}

static int prepare(struct run *r, struct lm_in *prompts)
{
    r->chain = lm_chain_new(r->g->draw.sampling, &r->talk.head, r->g->draw.env, r->err);
    if (!r->chain || check_all_ids(r) < 0)
        return r->err->code;
    if (!(r->prompts = lm_token_reader_new(prompts, r->err)))
        return r->err->code;
    const struct lm_logits_head *h = &r->talk.head;
    if (r->g->grammar && !(r->machine = lm_machine_new(r->g->grammar, r->g->watch.vocab, h->n_vocab,
                                                       h->eog, h->n_eog, r->err)))
        return r->err->code;
    r->seqs = calloc(r->g->parallel, sizeof *r->seqs);
    int s = r->seqs ? LM_OK : lm_fail_nomem(r->err);
    for (size_t i = 0; s == LM_OK && i < r->g->parallel; i++) {
        s = lm_sequence_init(&r->seqs[i], r->chain, r->machine, r->err);
        r->seqs[i].seq = (uint32_t)i;
    }
    if (s == LM_OK)
        s = blame(r, BLAME_DRAFT, lm_drafter_start(&r->drafter, r->g, &r->talk.head, r->err));
    return s;
}

/* After the last prompt: the child has to end its stream, and itself, in order. */
static int read_end(struct run *r)
{
    struct lm_logits_head more;
    struct lm_frame f;
    const void *payload;
    lm_child_close_input(&r->talk.child);
    int s = lm_logits_read_frame(r->talk.frames, &f, &payload, r->err);
    if (s == LM_OK && f.kind == LM_FRAME_ERROR)
        s = lm_draw_error_frame(&f, payload, r->err);
    else if (s == LM_OK && f.kind != LM_FRAME_END)
        s = lm_fail(r->err, LM_EDATA, "gives frames that were not asked for");
    if (s == LM_OK && (s = lm_logits_read_head(r->talk.frames, &more, r->err)) > 0) {
        lm_logits_head_release(&more);
        s = lm_fail(r->err, LM_EDATA, "goes on after its end frame");
    }
    return blame_child(r, s);
}

static void tell_proposals(const struct run *r)
{
    uint64_t made = 0, kept = 0;
    for (size_t i = 0; i < r->g->parallel; i++) {
        made += r->seqs[i].n_proposed;
        kept += r->seqs[i].n_kept;
    }
    if (r->g->n_draft)
        lm_note(r->g->draw.env, LM_INFO, "%s: %" PRIu64 " ids proposed, %" PRIu64 " of them kept",
                r->g->draft ? "--draft" : r->g->ngram ? "--draft-ngram" : "--draft-head", made,
                kept);
}

static int work(struct run *r, struct lm_in *prompts)
{
    int s = check_head(r);
    if (s == LM_OK)
        s = blame(r, BLAME_WORK, prepare(r, prompts));
    if (s == LM_OK)
        s = generate_lines(r);
    if (s == LM_OK) {
        tell_proposals(r);
        s = read_end(r);
    }

    /* What a failed producer said is passed on as it is. */
    if (r->blame == BLAME_WORK)
        lm_draw_give_up(&r->g->draw, r->fault_peer ? lm_token_peer_text(r->prompts) : r->err->text,
                        NULL);
    return s;
}

/* Answers that the child still owes. */
static size_t owed(const struct run *r)
{
    size_t n = 0;
    for (size_t i = 0; r->seqs && i < r->g->parallel; i++)
        n += r->seqs[i].answers;
    return n;
}

/* A child has ended like that: find the exit status, and say what failed; passes s on. */
static int judge(struct run *r, const char *child, struct lm_child_end e, int s,
                 struct lm_generate_end *end)
{
    end->status = status_of(child, e, s, r->err);
    if (end->status == 0)
        return s;
    lm_draw_give_up(&r->g->draw, r->err->text, NULL);
    return s < 0 ? s : LM_EIO;
}

/* Bring the children to their end and find the exit status. */
static int finish(struct run *r, int s, struct lm_generate_end *end)
{
    static const int grace[] = {
        [BLAME_NONE] = -1, [BLAME_WORK] = GRACE, [BLAME_DRAFT] = GRACE, [BLAME_CHILD] = HURRY,
        [BLAME_OUTPUT] = 0,
    };
    lm_child_close_input(&r->talk.child);
    if (r->blame != BLAME_NONE && r->blame != BLAME_OUTPUT)   /* let it end of itself */
        lm_child_drain(&r->talk.child, grace[r->blame], lm_talk_rest(&r->talk, owed(r)));
    struct lm_child_end e = lm_child_finish(&r->talk.child, grace[r->blame]);
    end->reader_gone = r->reader_gone;
    end->status = s == LM_OK ? 0 : s == LM_EDATA ? 1 : 2;
    if (r->blame == BLAME_NONE || r->blame == BLAME_CHILD)
        s = judge(r, name(r), e, s, end);
    e = lm_drafter_end(&r->drafter);
    if (s == LM_OK || r->blame == BLAME_DRAFT)
        s = judge(r, "--draft", e, s, end);
    if (s == LM_OK && r->fell_short)
        end->status = 2;
    return s;
}

static void release(struct run *r)
{
    for (size_t i = 0; r->seqs && i < r->g->parallel; i++)
        lm_sequence_release(&r->seqs[i]);
    free(r->seqs);
    for (size_t i = 0; i < AHEAD; i++)
        lm_buf_release(&r->later[i].text);
    lm_chain_free(r->chain);
    lm_machine_free(r->machine);
    lm_token_reader_free(r->prompts);
    lm_talk_release(&r->talk);
    lm_buf_release(&r->requests);
}

int lm_generate(const struct lm_generate *g, struct lm_in *prompts, struct lm_generate_end *end,
                struct lm_err *err)
{
    struct lm_err own = { 0 };
    struct run r = { .g = g, .err = &own, .from = lm_in_name(prompts), .fault_line = UINT32_MAX };
    *end = (struct lm_generate_end){ .status = 2 };
    int s = lm_talk_start(&r.talk, g->command, g->draw.env, &own);
    if (s < 0 && r.talk.child.pid == 0) {
        lm_draw_give_up(&g->draw, own.text, NULL);
    } else {
        s = s < 0 ? blame_child(&r, s) : work(&r, prompts);
        s = finish(&r, s, end);
    }
    release(&r);
    if (s < 0 && err)
        *err = own;
    return s;
}
