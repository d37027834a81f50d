/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_GRAMMAR_H
#define LM_SAMPLE_GRAMMAR_H

/*
 * Grammars that constrain what is generated.
 *
 *   lm_grammar_gbnf, lm_grammar_regex, lm_grammar_schema, lm_grammar_choice
 *                                       text to a grammar: rules over bytes and tokens
 *   lm_machine_new                      what runs it over a vocabulary
 *   lm_machine_mask                     which ids may come next in a state
 *   lm_machine_take                     the state after one of them
 *
 * A grammar is a pushdown automaton over bytes: characters are split into the bytes of
 * UTF-8 when it is made, so that a token may end inside one.  A state stands for everything
 * that the text so far may be the beginning of, so that taking a byte costs the same however
 * ambiguous the grammar is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "vocab/vocab.h"

struct lm_grammar;

/* The byte order mark in UTF-8, with which files of Windows begin: it is skipped there. */
#define LM_GRAMMAR_MARK "\xEF\xBB\xBF"

#define LM_GRAMMAR_TEXT  (8 << 20)       /* bytes of a grammar                             */
#define LM_GRAMMAR_ITEMS 1000000         /* states after small repetitions are written out */
#define LM_GRAMMAR_ROUNDS 10000000       /* product of counts of repetitions in repetitions */
#define LM_GRAMMAR_DEPTH 1000            /* parentheses in parentheses                     */
#define LM_GRAMMAR_STACK 100000          /* rules in rules at run time                     */
#define LM_GRAMMAR_WAYS  10000           /* ways at once in which the text can be read     */
#define LM_GRAMMAR_STEPS 100000          /* looks at ops for a byte ...                    */
#define LM_GRAMMAR_MASK  50000000        /* ... and for a mask                             */
#define LM_GRAMMAR_ROOM  30000000        /* ways in all states together                    */

/*
 * lm_grammar_gbnf - read a grammar; see lmpipe-grammar(7).
 *
 *   v  the vocabulary that <text> tokens are looked up in; NULL: <text> is an error
 *
 * NULL with *err: LM_EUSE, naming line and column or rule, or LM_ENOMEM.
 */
struct lm_grammar *lm_grammar_gbnf(const char *text, size_t len, const struct lm_vocab *v,
                                   struct lm_err *err);

/* lm_grammar_regex - the texts that a regular expression matches as a whole: the syntax of
 * ECMAScript with flag u, as far as it is regular.  The same errors. */
struct lm_grammar *lm_grammar_regex(const char *text, size_t len, struct lm_err *err);

/* lm_grammar_choice - one of texts [n]. */
struct lm_grammar *lm_grammar_choice(const char *const *texts, size_t n, struct lm_err *err);

/* White space between the parts of arrays and objects. */
enum lm_schema_gap {
    LM_GAP_FREE,                         /* none, a space, or one or two newlines and then at
                                            most 20 blanks                          */
    LM_GAP_ONE,                          /* a space after each , and :              */
    LM_GAP_NONE,
};

struct lm_schema_options {
    bool               strict;           /* an unknown keyword is an error          */
    bool               open;             /* properties alone does not close objects */
    enum lm_schema_gap gap;
};

/*
 * lm_grammar_schema - JSON texts that are valid against a JSON Schema (2020-12), formats asserted;
 * see lmpipe-grammar(7).
 *
 *   o      NULL: all zero
 *   notes  a line is appended for each keyword and format that is not known; may be NULL
 *
 * NULL with *err: LM_EUSE, naming the JSON pointer of a keyword that is wrong, that cannot be
 * enforced or that leads beyond a limit, or LM_ENOMEM.
 */
struct lm_grammar *lm_grammar_schema(const char *text, size_t len,
                                     const struct lm_schema_options *o, struct lm_buf *notes,
                                     struct lm_err *err);

/* Give it back; machines for it must be gone. */
void lm_grammar_free(struct lm_grammar *g);

/* ---- running it ---- */

struct lm_machine;

/* A state of a machine; LM_STATE_DEAD: the text can never be completed. */
typedef uint32_t lm_state;
#define LM_STATE_DEAD UINT32_MAX

/*
 * lm_machine_new - a machine for g over the ids of v (NULL: only texts, no tokens).
 *
 *   n_vocab  rows of the logits, at least the vocabulary's ids; ids beyond these are never
 *            allowed
 *   eog      [n_eog] ids that end a generation
 *
 * g and v are borrowed.  NULL when memory is short.  Used by one thread at a time.
 */
struct lm_machine *lm_machine_new(const struct lm_grammar *g, const struct lm_vocab *v,
                                  uint32_t n_vocab, const int32_t *eog, size_t n_eog,
                                  struct lm_err *err);
void lm_machine_free(struct lm_machine *m);

/* Before any text.  LM_OK, or a code as below. */
int lm_machine_start(struct lm_machine *m, lm_state *s, struct lm_err *err);

/* Is the text so far in the language? */
bool lm_machine_complete(const struct lm_machine *m, lm_state s);

/* After one more byte: *s changes, to LM_STATE_DEAD if nothing begins like that.  LM_ENOMEM, or
 * LM_ENOSUP when one of the limits above is met. */
int lm_machine_byte(struct lm_machine *m, lm_state *s, unsigned char byte, struct lm_err *err);

/* After a token: its bytes, unless it is a control token, or a terminal that takes it whole.  An
 * end-of-generation id is taken only by a terminal.  Codes as above; LM_EDATA for an id outside the
 * vocabulary. */
int lm_machine_take(struct lm_machine *m, lm_state *s, uint32_t id, struct lm_err *err);

/* The ids that may come next, a bit each [n_vocab / 64, rounded up]: the machine's, until the next
 * call.  An end-of-generation id may when the text is complete.  Codes as above. */
int lm_machine_mask(struct lm_machine *m, lm_state s, const uint64_t **mask, struct lm_err *err);

/* What may come next in words, for messages: at most ten kinds of bytes and tokens.  NULL when
 * memory is short; to be freed. */
char *lm_machine_expected(struct lm_machine *m, lm_state s, struct lm_err *err);

#endif
