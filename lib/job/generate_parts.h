/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_GENERATE_PARTS_H
#define LM_JOB_GENERATE_PARTS_H

/* What the files of generate share: sequence.c, one line of output in the making; draft.c, where
 * proposals for its next ids come from; generate.c, the child, and lines in their order. */

#include "io/child.h"
#include "job/generate.h"
#include "stream/logits.h"
#include "stream/tokens.h"

/* A child and what comes from it. */
struct lm_talk {
    struct lm_child          child;
    struct lm_in            *answers;
    struct lm_logits_reader *frames;
    struct lm_logits_head    head;
};

/* Start it and read its header; LM_OK or a code, *t to be ended in any case.  One that is silent
 * for long is warned of. */
int lm_talk_start(struct lm_talk *t, char *const argv[], const struct lm_env *env,
                  struct lm_err *err);
/* The most bytes a child in order still has to say when `frames` answers are to come. */
uint64_t lm_talk_rest(const struct lm_talk *t, size_t frames);
/* Free all but the child, which must be finished. */
void lm_talk_release(struct lm_talk *t);

/* An id proposed, and the chances it was drawn by (ids ascending); none: it is a guess. */
struct lm_proposal {
    uint32_t          id;
    struct lm_chance *chances;   /* [n] */
    size_t            n, cap;
};

/* Order of chances by id, for qsort. */
int lm_chance_by_id(const void *a, const void *b);

/* Is it one of the model's end-of-generation ids? */
bool lm_is_end(const struct lm_logits_head *h, uint32_t id);

/* One line: the ids of its prompt and those generated. */
struct lm_sequence {
    uint32_t          line;          /* its number, from 0: the sequence of random numbers  */
    uint32_t          seq;           /* its number with the child                           */
    int32_t          *ids;           /* [n], n_prompt of them the prompt's                  */
    size_t            n, n_prompt, ids_cap;
    struct lm_ids     encoder;       /* what goes to an encoder before the next request     */
    struct lm_chain  *chain;         /* has accepted all ids                                */
    struct lm_machine *machine;      /* the grammar's, borrowed; or NULL                    */
    lm_state          state;         /* after the ids generated                             */
    bool              bound;         /* by the grammar, which waits no more                 */
    struct lm_waiting waiting;       /* until then                                          */
    struct lm_thinking thinking;
    struct lm_buf     text;          /* output that nobody has taken yet                    */
    bool              over;          /* the line is complete                                */
    bool              fell_short;    /* it ended because the context is full                */
    bool              cut;           /* it ended inside the grammar, for want of room       */

    size_t            base;          /* tokens that the child had of the sequence before its
                                        first line, as from a saved state, which goes on; after
                                        a shift, so many that the context is full            */
    bool              met;           /* its first answer, which says so, is here            */
    size_t            known;         /* ids that the child has, as far as they are right    */
    size_t            sent;          /* ids that it has                                     */
    size_t            had;           /* ids that it had before it was asked last            */
    size_t            from;          /* where the ids of its last request begin,            */
    size_t            from_before;   /* and those of the one before                         */
    bool              back;          /* the last request forgot some                        */
    bool              coarse;        /* it can only go back to where a request begins       */
    bool              guessing;      /* its draft head was asked, for at most               */
    size_t            n_guesses;     /* so many proposals                                   */
    size_t            answers;       /* frames still to come for what was asked             */
    size_t            asked_at;      /* where its request ends among those being sent       */
    struct lm_proposal *proposals;   /* [n_proposals] asked about, one frame each           */
    size_t            n_proposals, proposals_cap, next_proposal;
    uint64_t          n_proposed, n_kept;       /* in all lines                             */

    struct lm_hold    hold;          /* the last ids, while they may be part of a text      */
    struct lm_before {               /* [n_before] before each of them, if they may be taken
                                        back                                                */
        struct lm_chain *chain;
        lm_state         state;
        bool             bound;
        size_t           waited;     /* bytes of waiting.text                               */
    }                *before;
    size_t            n_before, before_cap;
    struct lm_barred {
        size_t  pos;
        int32_t id;                  /* may not come there                                  */
    }                *barred;
    size_t            n_barred, barred_cap;
    uint64_t         *allowed;       /* [n_vocab / 64] what may come next; NULL: all        */

    struct lm_choice *choices;       /* [n_choices] for the record                          */
    size_t            n_choices, choices_cap;
};

/* A sequence whose chain begins as `chain`, with a grammar's machine or NULL. */
int lm_sequence_init(struct lm_sequence *q, struct lm_chain *chain, struct lm_machine *machine,
                     struct lm_err *err);
void lm_sequence_release(struct lm_sequence *q);

/* Begin a line with the prompt that is in q->ids. */
int lm_sequence_begin(struct lm_sequence *q, const struct lm_generate *g,
                      const struct lm_logits_head *h, uint32_t line, struct lm_err *err);

/* Append the request for the next frames to *out: what the child does not have yet, then the
 * proposals. */
int lm_sequence_ask(struct lm_sequence *q, struct lm_buf *out, struct lm_err *err);

/* The last request was refused: make it again without proposals; or, as the child cannot go back
 * to every place, from where the request before it began. */
int lm_sequence_ask_less(struct lm_sequence *q, struct lm_buf *out, struct lm_err *err);
int lm_sequence_ask_again(struct lm_sequence *q, struct lm_buf *out, struct lm_err *err);

/* Ask the child's draft head for at most `most` proposals: 1, or 0 if it cannot be asked, as the
 * child lacks more than the last id. */
int lm_sequence_ask_head(struct lm_sequence *q, size_t most, struct lm_buf *out,
                         struct lm_err *err);
/* Its answer becomes proposals.  LM_OK, or LM_EDATA where it is about something else. */
int lm_sequence_take_head(struct lm_sequence *q, const struct lm_logits_head *h,
                          const struct lm_frame *f, const struct lm_guessed *g,
                          struct lm_err *err);

/* Is it about the token that the next frame was asked for, in its place?  The first answer may be
 * further on, by what the child had already; after a shift of a full context places are nearer to
 * the start.  LM_OK or LM_EDATA. */
int lm_sequence_check(struct lm_sequence *q, const struct lm_logits_head *h,
                      const struct lm_frame *f, struct lm_err *err);

/* Take the next frame that was asked for: choose an id, or pass the frame over.  May end the
 * line. */
int lm_sequence_take(struct lm_sequence *q, const struct lm_generate *g,
                     const struct lm_logits_head *h, const struct lm_frame *f,
                     const void *payload, struct lm_err *err);

/* The context is full: the end of the line. */
int lm_sequence_full(struct lm_sequence *q, const struct lm_generate *g, struct lm_err *err);

/* Room for one more proposal at q->proposals[q->n_proposals]; LM_OK or LM_ENOMEM. */
int lm_sequence_room(struct lm_sequence *q, struct lm_err *err);

/* ---- drafts ---- */

/* Where proposals come from: a child with a model of its own, or what was there before. */
struct lm_drafter {
    const struct lm_generate *g;
    struct lm_talk            talk;          /* with a draft                                */
    bool                      started;
    struct lm_draft_state {                  /* [states_cap] by the sequence's seq          */
        int32_t *ids;                        /* [n] what the child has                      */
        size_t   n, cap;
    }                        *states;
    size_t                    states_cap;
    struct lm_buf             request;
};

/* LM_OK, or a code with *d to be ended in any case; LM_EUSE: the draft's vocabulary is not that of
 * the model with header h. */
int lm_drafter_start(struct lm_drafter *d, const struct lm_generate *g,
                     const struct lm_logits_head *h, struct lm_err *err);

/* Make at most `most` proposals for what follows the sequence. */
int lm_drafter_propose(struct lm_drafter *d, struct lm_sequence *q, size_t most,
                       struct lm_err *err);

/* Bring its child, if there is one, to its end and free all; how it ended. */
struct lm_child_end lm_drafter_end(struct lm_drafter *d);

#endif
