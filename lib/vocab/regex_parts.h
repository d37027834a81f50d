/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_REGEX_PARTS_H
#define LM_VOCAB_REGEX_PARTS_H

/* What regex.c, regex_syntax.c, regex_program.c and regex_walk.c share. */

#include "vocab/regex.h"
#include "vocab/runeset.h"

/* A piece of the pattern: a set of characters, or text that PCRE2 gets as it is. */
struct lm_regex_item {
    int32_t set;                         /* -1: text */
    char    text[28];
};

struct lm_regex_parsed {
    struct lm_regex_item *item;
    size_t                n, cap;
    struct lm_runeset    *set;           /* all different */
    size_t                n_sets, sets_cap;
};

/* Parse a pattern.  LM_ENOSUP for what is refused, LM_EDATA for what is wrong. */
int lm_regex_parse(struct lm_regex_parsed *out, const char *pattern, size_t len,
                   struct lm_err *err);
/* A pattern that is this text. */
int lm_regex_parse_literal(struct lm_regex_parsed *out, const char *text, size_t len,
                           struct lm_err *err);
void lm_regex_parsed_release(struct lm_regex_parsed *x);

/* Some sorts of characters, and the edge of the text, which is numbered behind the last sort. */
struct lm_regex_mask {
    uint64_t bits[4];
};

static inline bool lm_regex_mask_has(const struct lm_regex_mask *m, unsigned sort)
{
    return m->bits[sort >> 6] >> (sort & 63) & 1;
}

/*
 * A pattern as a program that reads a text once: it forks instead of going back.  A fork's first
 * way is the one that is preferred.
 */
struct lm_regex_op {
    enum { LM_RX_CHAR, LM_RX_AHEAD, LM_RX_BEHIND, LM_RX_FORK, LM_RX_JUMP, LM_RX_MATCH } kind;
    uint16_t to, other;                  /* FORK, JUMP: where it goes on                */
    struct lm_regex_mask mask;           /* CHAR: takes one of these; AHEAD, BEHIND: one of
                                            them is next, was before                    */
};

struct lm_regex_program {
    struct lm_regex_op *op;              /* NULL: the pattern needs PCRE2               */
    size_t              n, cap;
    bool                looks_behind;
};

enum { LM_REGEX_PAGES = 0x110000 >> 8, LM_REGEX_SORTS = 255 };

struct lm_regex {
    uint16_t  page[LM_REGEX_PAGES];      /* sort of r: sorts[page[r >> 8]][r & 255] */
    uint8_t (*sorts)[256];
    size_t    n_pages, pages_cap;
    unsigned  n_sorts;
    size_t    least;                     /* characters that a match has at least    */
    void     *code;
    char     *pattern;                   /* what PCRE2 got */
    struct lm_regex_program program;
};

/*
 * lm_regex_compile - the program of what was parsed, into r->program, and r->least; both stay
 * empty for patterns that need more than a look at one character before or behind: atomic groups,
 * possessive repeats of anything but one set, longer look-around, repeats without end of what may
 * be empty.
 *
 * which: sort k belongs to set i if bit i of the `words` words from which + k * words on is set.
 * LM_ENOMEM, or LM_OK.
 */
int lm_regex_compile(struct lm_regex *r, const struct lm_regex_parsed *x, const uint64_t *which,
                     size_t words, struct lm_err *err);

#endif
