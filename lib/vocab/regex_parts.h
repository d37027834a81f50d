/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_REGEX_PARTS_H
#define LM_VOCAB_REGEX_PARTS_H

/* What regex.c and regex_syntax.c share. */

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

#endif
