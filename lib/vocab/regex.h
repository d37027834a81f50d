/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_REGEX_H
#define LM_VOCAB_REGEX_H

/*
 * Regular expressions of tokenizer.json: Oniguruma's syntax (as Ruby has it), run by PCRE2.
 *
 * PCRE2 sees neither the characters nor their properties.  The sets of characters that a
 * pattern tells apart are worked out from Unicode's data here (runeset.h); characters that
 * belong to the same ones are the same to it, and there are rarely more than a few dozen such
 * sorts.  The text becomes a string of sorts, a byte a character, and the pattern one of
 * classes of bytes.  So one version of Unicode rules, a byte that is not UTF-8 is U+FFFD, and
 * matching is as fast as with bytes.
 *
 * Time is in proportion to the text, but for short ones: a match that tries more than
 * REGEX_STEPS (regex.c) ways for each character ahead of it, or a search that looks ahead more
 * than REGEX_AHEAD times the text in all and more than REGEX_LEAST characters, is an error,
 * LM_ENOSUP; the text cannot be cut then, it is not cut elsewhere.
 *
 * Refused by name: what needs the characters themselves (back references, \X), calls,
 * conditions, absent groups, properties that runeset.h does not have, look-behind of no fixed
 * length, and patterns that tell more than 255 sorts apart.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct lm_regex;

/* Compile len bytes of pattern; NULL with *err filled.  May be used by several threads. */
struct lm_regex *lm_regex_new(const char *pattern, size_t len, struct lm_err *err);
/* One that matches these bytes of text. */
struct lm_regex *lm_regex_literal(const char *text, size_t len, struct lm_err *err);
void lm_regex_free(struct lm_regex *r);

/* So many characters has each match at least; 0: it may be empty, or nothing is known. */
size_t lm_regex_least(const struct lm_regex *r);

/*
 * struct lm_regex_walk - a search in a text that comes in parts, without PCRE2.
 *
 * Most patterns can be followed a character at a time: lm_regex_ways_new gives what remembers how
 * for one of them, for one thread, NULL for others or when memory is short (lm_regex_walks tells
 * which).  The walk borrows it.
 *
 * lm_regex_walk_next goes on in p[0 .. len), the text that was not dropped yet, of which more may
 * follow: 1, p[at .. end) is a match, and the search goes on behind it; 0, no more matches, only
 * if there is no more text; 2, that takes more text: no match begins before `at`, and if end is
 * not SIZE_MAX and behind `at`, p[at .. end) is the begin of one for certain.  Negative: an error.
 *
 * lm_regex_walk_drop says that the first n bytes are gone: no more than `at`, or, of a match that
 * is certain, `end`.
 */
struct lm_regex_ways;
struct lm_regex_walk {
    struct lm_regex_ways *ways;
    size_t   at, end;
    bool     begun;                      /* text of this match was dropped               */
    /* private */
    size_t   pos;                        /* of the attempt that began at `at`            */
    unsigned state, before, last, end_sort;      /* sorts before at, pos and end         */
    bool     running, found, no_empty;
    uint64_t looked, taken, wasted, total;       /* characters                           */
};

/* See above. */
bool lm_regex_walks(const struct lm_regex *r);
struct lm_regex_ways *lm_regex_ways_new(const struct lm_regex *r);
void lm_regex_ways_free(struct lm_regex_ways *w);
/* A new text; only w->ways counts of what was in *w. */
void lm_regex_walk_start(struct lm_regex_walk *w);
int lm_regex_walk_next(struct lm_regex_walk *w, const char *p, size_t len, bool more,
                       struct lm_err *err);
void lm_regex_walk_drop(struct lm_regex_walk *w, size_t n);

/* A search; zero-initialise, release.  It may be started again and again. */
struct lm_regex_scan {
    bool                   slow;         /* by PCRE2 in any case, for tests              */
    struct lm_regex_walk   walk;         /* else, where it can be                        */
    const struct lm_regex *r;
    const char            *p;
    size_t                 len;
    struct lm_buf          sorts;        /* the text's characters                        */
    size_t                 from;         /* where the search goes on, in characters      */
    size_t                 last;         /* end of the last match, SIZE_MAX: none yet    */
    size_t                 rune, byte;   /* the same place, counted both ways            */
    uint64_t               ahead;        /* looked at beyond where the match began       */
    void                  *match, *context, *stack;      /* PCRE2's                      */
};

/* Begin at p, which is borrowed until the last lm_regex_next. */
int lm_regex_start(struct lm_regex_scan *s, const struct lm_regex *r, const char *p, size_t len,
                   struct lm_err *err);
/*
 * The next match, leftmost and as the pattern prefers, in bytes: 1, or 0 when there is none.
 * Matches may be empty, but not where the one before ended.  Negative: an error.
 */
int lm_regex_next(struct lm_regex_scan *s, size_t *at, size_t *end, struct lm_err *err);
void lm_regex_scan_release(struct lm_regex_scan *s);

#endif
