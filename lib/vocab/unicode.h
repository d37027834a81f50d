/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_UNICODE_H
#define LM_VOCAB_UNICODE_H

/*
 * Unicode as tokenizers see it: classes of characters and normalization.  utf8proc is the
 * one source of both; what is a space is written out, as it is a fixed set.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* What a character is: general category, and the sets patterns are made of. */
enum {
    LM_U_L     = 1 << 0,     /* \p{L}                                            */
    LM_U_N     = 1 << 1,     /* \p{N}                                            */
    LM_U_M     = 1 << 2,     /* \p{M}                                            */
    LM_U_P     = 1 << 3,     /* \p{P}                                            */
    LM_U_S     = 1 << 4,     /* \p{S}                                            */
    LM_U_SPACE = 1 << 5,     /* \s: White_Space                                  */
    LM_U_UPPER = 1 << 6,     /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]                  */
    LM_U_LOWER = 1 << 7,     /* [\p{Ll}\p{Lm}\p{Lo}\p{M}]                        */
    LM_U_ND    = 1 << 8,     /* \d: \p{Nd}                                       */
    LM_U_WORD  = 1 << 9,     /* \w: letters, marks, numbers, \p{Pc}               */
};

/* Was the library built with utf8proc?  Without it only ASCII has classes and
 * vocabularies that need them are refused. */
bool lm_uni_ready(void);

/* The LM_U_ bits of a code point; 0 for one that is unassigned or out of range. */
unsigned lm_uni_class_wide(uint32_t rune);

/* The same of an ASCII character. */
extern const uint16_t lm_uni_ascii[128];

static inline unsigned lm_uni_class(uint32_t rune)
{
    return rune < 128 ? lm_uni_ascii[rune] : lm_uni_class_wide(rune);
}

/* General categories, in utf8proc's order. */
enum lm_uni_category {
    LM_UC_CN, LM_UC_LU, LM_UC_LL, LM_UC_LT, LM_UC_LM, LM_UC_LO, LM_UC_MN, LM_UC_MC, LM_UC_ME,
    LM_UC_ND, LM_UC_NL, LM_UC_NO, LM_UC_PC, LM_UC_PD, LM_UC_PS, LM_UC_PE, LM_UC_PI, LM_UC_PF,
    LM_UC_PO, LM_UC_SM, LM_UC_SC, LM_UC_SK, LM_UC_SO, LM_UC_ZS, LM_UC_ZL, LM_UC_ZP, LM_UC_CC,
    LM_UC_CF, LM_UC_CS, LM_UC_CO,
};

/* That of any number: LM_UC_CN where no character has it. */
enum lm_uni_category lm_uni_category(uint32_t rune);

/* \w of Unicode's guidelines, without Join_Control: what is alphabetic, marks, \p{Nd} and
 * \p{Pc}. */
bool lm_uni_word(uint32_t rune);

/* What is the same for characters that differ only in case (simple folding). */
uint32_t lm_uni_fold(uint32_t rune);

/* Is it in the script Han (Scripts.txt, Unicode 15.0)?  And its ranges, first and last. */
enum { LM_HAN_RANGES = 21 };
extern const uint32_t lm_uni_han_ranges[LM_HAN_RANGES][2];
bool lm_uni_han(uint32_t rune);

/* The character at p (p < end) and its length in bytes; a byte that does not begin a
 * well-formed one is U+FFFD, length 1. */
static inline uint32_t lm_uni_next(const char *p, const char *end, int *len)
{
    uint32_t r = (unsigned char)*p;
    *len = 1;
    if (r < 128)
        return r;
    int k = lm_utf8_len(p, (size_t)(end - p), &r);
    if (!k)
        return 0xFFFD;
    *len = k;
    return r;
}

/* The length without the begin of a character at the end that text behind it may complete. */
size_t lm_whole_chars(const char *p, size_t len);

/* The end of the grapheme cluster (UAX #29, extended) that begins at p (p < end).  A byte that
 * is not UTF-8 is one by itself. */
const char *lm_uni_cluster(const char *p, const char *end);

/*
 * Where a changed text came from: at[i] of the new text is from[i] of the old one, in
 * ascending order; between two entries both advance a byte at a time, as far as the
 * next entry allows.
 */
struct lm_remap {
    struct lm_remap_at {
        size_t at, from;
    } *e;
    size_t n, cap, cursor;
};

/* Add an entry.  False when memory is short. */
bool lm_remap_add(struct lm_remap *m, size_t at, size_t from);
/* Forget entries before the one that was found last. */
void lm_remap_trim(struct lm_remap *m);
/* The old offset of a new one; asked for in ascending order this takes constant time. */
size_t lm_remap_find(struct lm_remap *m, size_t at);
/* The same for the end of a text: what became nothing between it and what follows is not in it. */
size_t lm_remap_end(struct lm_remap *m, size_t at);

/* What normalizing does. */
enum {
    LM_NORM_NFC  = 1,        /* normalization form C                                 */
    LM_NORM_FFFD = 2,        /* C0, C1 and F5 to FF, no part of any UTF-8, become
                                U+FFFD; other bytes that are not UTF-8 stay          */
};

/* May it change this text?  False for plain text in common scripts. */
bool lm_norm_needed(const char *p, size_t len, unsigned flags);

/* The length of the longest begin of the text that may be normalized by itself, whatever
 * follows len bytes. */
size_t lm_norm_settled(const char *p, size_t len, unsigned flags);

/*
 * lm_norm - append the text, normalized, to *out.
 *
 * map, if not NULL, is filled.  Memory and time are in proportion to len, whatever marks
 * follow each other.
 */
int lm_norm(const char *p, size_t len, unsigned flags, struct lm_buf *out, struct lm_remap *map,
            struct lm_err *err);

#endif
