/* SPDX-License-Identifier: MIT */
#ifndef LM_CLI_TOKENIZE_H
#define LM_CLI_TOKENIZE_H

/*
 * The parts of tokenize: what it reads becomes sequences, and these become what it prints.
 * Functions that return an int return an exit status, and have told of what went wrong.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/env.h"
#include "cli/report_table.h"
#include "job/chat.h"
#include "vocab/vocab.h"

/* What is printed of a sequence. */
enum cli_ids_form {
    CLI_IDS, CLI_IDS_COUNT, CLI_IDS_PIECES, CLI_IDS_OFFSETS, CLI_IDS_MASK, CLI_IDS_BINARY
};

struct cli_tokenize {
    const char            *model, *model_name;   /* its path; what messages call it          */
    struct lm_vocab       *vocab;
    const struct lm_env   *env;
    char                   form;         /* of a sequence's text: 'l' '0' 'j', or 0: all    */
    bool                   escape;       /* operands have backslash escapes                 */
    bool                   special;      /* control tokens are shown as text                */
    unsigned               flags;        /* LM_ENCODE_: of texts                            */
    enum cli_ids_form      ids;
    size_t                 window, stride;       /* ids of a window, 0: no windows; of it
                                                    those that the one before has, too      */
};

/* Texts to ids: the operands joined by spaces, or n files, or standard input. */
int cli_tokenize_text(const struct cli_tokenize *o, char *const *text, const char *const *files,
                      size_t n_files);

/* Conversations in files to ids, or with render to text; with no files, standard input's.
 * Loads the vocabulary if it has to. */
int cli_tokenize_chat(struct cli_tokenize *o, const struct lm_chat_options *chat, bool render,
                      char *const *files);

/* Token streams in files to text; with no files, standard input's. */
int cli_detokenize(const struct cli_tokenize *o, char *const *files);

/* The vocabulary as a table. */
int cli_list_vocab(const struct cli_tokenize *o);

/* Load o->vocab, or exit. */
void cli_load_vocab(struct cli_tokenize *o);

/*
 * struct cli_id_writer - prints sequences of ids.
 *
 * Zero-initialise but o, release.  What is to be printed is collected in out and handed over
 * when it is much, or with hold kept there.
 */
struct cli_id_writer {
    const struct cli_tokenize *o;
    bool          hold;
    struct lm_buf out;
    const char   *said;                  /* for CLI_IDS_MASK: see struct lm_marked_text     */
    struct lm_buf second;                /* of this sequence, what stands behind its ids ... */
    FILE         *spool;                 /* ... those before it, if they are many           */
    struct lm_ids kept;                  /* with windows: of this sequence, not printed     */
    struct lm_ids around;                /* with windows: what is put around a text ...     */
    size_t        n_front;               /* ... that many of it in front                    */
    uint64_t      n_sequences;           /* begun so far, this one not included             */
    uint64_t      n_ids;                 /* of this sequence                                */
};

/* A writer for o, whose encoder's texts get what e puts around an empty one.  An exit status. */
int cli_ids_begin(struct cli_id_writer *w, const struct cli_tokenize *o, struct lm_encoder *e);
void cli_ids_release(struct cli_id_writer *w);

/* Should ids have their spans? */
bool cli_ids_want_spans(const struct cli_tokenize *o);

/* More ids of this sequence; its end. */
void cli_ids_add(struct cli_id_writer *w, const struct lm_ids *ids);
void cli_ids_end(struct cli_id_writer *w);

/* Hand over what is in out, now at the latest if `now`. */
void cli_ids_print(struct cli_id_writer *w, bool now);

/* This sequence fails: a token stream that has begun says so in itself.  An exit status. */
int cli_ids_fail(struct cli_id_writer *w, const char *name, const struct lm_err *err);

/* May others follow a sequence that failed?  A token stream ends with it. */
bool cli_ids_go_on(const struct cli_tokenize *o);

/* The ids of a whole text of its own, or with LM_ENCODE_MORE and LM_ENCODE_ON in flags of a part
 * of one, through an encoder that hands its ids to w.  guard: see lm_encoder_guarded. */
int cli_ids_encode(struct cli_id_writer *w, struct lm_encoder *e, const char *text,
                   const unsigned char *guard, size_t len, unsigned flags, struct lm_err *err);

/* Say that memory is short, and exit with CLI_TROUBLE. */
_Noreturn void cli_out_of_memory(void);

/* cli_print, and if `now`, nothing stays in the stream's buffer. */
void cli_print_now(struct lm_buf *out, bool now);

/* Does a descriptor wait for somebody, so that answers must not? */
bool cli_interactive(int fd);

#endif
