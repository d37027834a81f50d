/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_RUNESET_H
#define LM_VOCAB_RUNESET_H

/*
 * Sets of code points, as ascending ranges that do not touch.
 *
 * Zero-initialise one, add to it, release it.  A set that could not be made for lack of
 * memory has `failed` set, and so have those made of it: check once at the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vocab/pretok.h"

#define LM_RUNE_MAX 0x10FFFFu

struct lm_runeset {
    struct lm_range *r;          /* [n] */
    size_t           n, cap;
    bool             failed;
};

/* Give back its memory, and leave it empty. */
void lm_runeset_release(struct lm_runeset *s);

/* Add first .. last; any order is good, ascending order is fast. */
void lm_runeset_add(struct lm_runeset *s, uint32_t first, uint32_t last);
/* Add, take away or keep alone what is in t. */
void lm_runeset_union(struct lm_runeset *s, const struct lm_runeset *t);
void lm_runeset_intersect(struct lm_runeset *s, const struct lm_runeset *t);
/* All others. */
void lm_runeset_negate(struct lm_runeset *s);

/* Is it a member? */
bool lm_runeset_has(const struct lm_runeset *s, uint32_t rune);

/* Add what differs from a member only in case (simple folding: U+017F is an s, U+212A a k). */
void lm_runeset_fold(struct lm_runeset *s);

/*
 * Add a named property: a general category by its letters or name (L, Lu, Letter), Any, a
 * script of those in runeset.c (Han, Hiragana, ...), or a class of POSIX brackets (digit, space,
 * word, and ":punct" for punct), in the meaning that Oniguruma gives it.  Names are compared
 * without case, blanks, `_` and `-`.  False when it is not known; *s is untouched then.
 */
bool lm_runeset_property(struct lm_runeset *s, const char *name, size_t len);

#endif
