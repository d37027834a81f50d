/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_PRETOK_H
#define LM_VOCAB_PRETOK_H

/*
 * Pre-tokenizers: how text is cut into words before byte-level BPE.
 *
 * A pre-tokenizer is a few steps; each cuts every piece that the step before left into
 * matches of its pattern and what stands between them.  The patterns are regular
 * expressions in their sources; here each is a matcher by hand, which takes time in
 * proportion to the text and needs no stack.
 *
 * To add a pre-tokenizer: a row in pretok.c; if its pattern is none of the shapes in
 * presteps.c, a function there.  tests/unit/test_vocab.c compares every row with the
 * words that the pattern itself gives (tests/data/vocab/words.tsv).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Position in one piece.  A matcher that has to look far ahead notes how far it saw, so
 * that it does not look again from every position. */
struct lm_scan {
    const char *begin, *end;
    const char *mark;            /* private to the matcher; begin at first */
    bool        good;
    const char *far;             /* the text up to here was looked at, if that is more than
                                    a few bytes behind a match; begin at first */
};

struct lm_range {
    uint32_t first, last;
};

struct lm_prestep {
    /* Length in bytes of the pattern's match at p (p < s->end), 0 if there is none. */
    size_t                (*match)(const struct lm_prestep *t, struct lm_scan *s, const char *p);
    unsigned               opt;      /* what the matcher's function says             */
    const struct lm_range *set;      /* ascending, ends with { 0, 0 }                */
};

enum { LM_PRE_STEPS = 6 };

enum {
    LM_PRE_WHOLE = 1,    /* a word that is a piece is that piece, whatever the merges say */
    LM_PRE_BOS   = 2,    /* the start token is added unless the file says otherwise       */
    LM_PRE_NFC   = 4,    /* text is normalized first                                      */
    LM_PRE_SPANS = 8,    /* a word may go on from a newline to a letter                   */
};

struct lm_pretok {
    const char       *names;         /* tokenizer.ggml.pre, separated by blanks      */
    unsigned          flags;
    struct lm_prestep steps[LM_PRE_STEPS];
};

/* All of them, ending with names NULL. */
extern const struct lm_pretok lm_pretoks[];

/* The row for a name of len bytes, or NULL. */
const struct lm_pretok *lm_pretok_find(const char *name, size_t len);

/*
 * The matcher for a pattern as tokenizer.json files have it, or NULL: its pattern is not
 * known, which says nothing against it (regex.h).  n-th of the table, and NULL behind it: for
 * the test that holds each against its pattern.
 */
const struct lm_prestep *lm_pretok_by_pattern(const char *pattern, size_t len);
const struct lm_prestep *lm_pretok_pattern(size_t n, const char **pattern);
/* The pattern of a matcher, or NULL: it is none of those. */
const char *lm_pretok_text(const struct lm_prestep *t);

/* Is every text nothing but matches of it, none of which has a newline before a letter? */
bool lm_pretok_covers(const struct lm_prestep *t);

/* Do blanks before a letter end a word with their last newline?  Else the last of them is one. */
bool lm_pretok_lines(const struct lm_pretok *pre);

/*
 * struct lm_cut - a walk over the words of a text.
 *
 * lm_cut_next gives the end of the word that begins where the last one ended; the end
 * of the text last, and NULL after that.
 */
struct lm_cut {
    const struct lm_pretok *pre;
    int                     n_steps, depth;
    struct lm_cut_level {
        struct lm_scan s;
        const char    *at;           /* where the next piece begins                  */
        const char    *next;         /* a match seen beyond a gap: where, how long   */
        size_t         next_len;
        bool           next_sure;
        const char    *edge;         /* the text goes on from here; NULL: it does not */
    } level[LM_PRE_STEPS];
};

/* Begin with len bytes at p, which are borrowed; nothing is to be released. */
void lm_cut_init(struct lm_cut *w, const struct lm_pretok *pre, const char *p, size_t len);
const char *lm_cut_next(struct lm_cut *w);

/*
 * The same of a text that may go on behind its len bytes (more), which end between characters.
 *
 * lm_cut_settled gives the end of the next word, which no text that follows can change, or
 * NULL: then the next word reaches at least to *sure, which is its begin if nothing is known of
 * it.  A new walk may begin where any word ends.
 */
void lm_cut_part(struct lm_cut *w, const struct lm_pretok *pre, const char *p, size_t len,
                 bool more);
const char *lm_cut_settled(struct lm_cut *w, const char **sure);

/* How many bytes at p are one match of the pattern (or of what is cut as if it were one),
 * whatever text follows end: 0 if that cannot be known. */
size_t lm_pre_sure(const struct lm_prestep *t, const char *p, const char *end);

/* In which of the pattern's sets the character is, from 1 on; 0: in none. */
unsigned lm_pre_set_of(const struct lm_prestep *t, uint32_t rune);

/* The shapes of patterns; opt and set as each says in presteps.c. */
typedef size_t lm_prestep_match(const struct lm_prestep *t, struct lm_scan *s, const char *p);

lm_prestep_match lm_pre_gpt2, lm_pre_tiktoken, lm_pre_cased, lm_pre_deepseek3, lm_pre_class,
    lm_pre_set, lm_pre_spaced, lm_pre_trailing, lm_pre_ascii3, lm_pre_lines, lm_pre_right3,
    lm_pre_before3, lm_pre_bloom, lm_pre_sentinel, lm_pre_image, lm_pre_blanks, lm_pre_sets;

/* opt of lm_pre_tiktoken and lm_pre_cased */
enum {
    LM_TT_DIGITS_1    = 1,       /* \p{N}                                            */
    LM_TT_DIGITS_3    = 3,       /* \p{N}{1,3}                                       */
    LM_TT_DIGITS_ANY  = 0,       /* \p{N}+                                           */
    LM_TT_DIGITS      = 3,       /* mask of these                                    */
    LM_TT_SHORT       = 1 << 2,  /* contractions                                     */
    LM_TT_MARKS       = 1 << 3,  /* \p{M} belongs to letters                         */
    LM_TT_PHRASE      = 1 << 4,  /* letters with marks, joined by single spaces      */
    LM_TT_TAIL        = 1 << 5,  /* symbols take [\r\n]* behind them                 */
    LM_TT_TAIL_SLASH  = 1 << 6,  /* ... and the slash                                */
    LM_TT_TAIL_ONE    = 1 << 7,  /* ... at most one                                  */
    LM_TT_POWERS      = 1 << 8,  /* spaces in powers of two                          */
    LM_TT_HAN         = 1 << 9,  /* \p{Han}+ is a word, and in no other              */
    LM_TT_LINE_SINGLE = 1 << 10, /* [\r\n] in place of \s*[\r\n]+                    */
};

/* opt of lm_pre_class: the class bits of LM_U_, and */
enum {
    LM_CLASS_ONE  = 1 << 16,     /* one character                                    */
    LM_CLASS_3    = 1 << 17,     /* one to three                                     */
    LM_CLASS_SIGN = 1 << 18,     /* also ASCII symbols                               */
};

#endif
