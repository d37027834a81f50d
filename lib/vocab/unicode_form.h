/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_UNICODE_FORM_H
#define LM_VOCAB_UNICODE_FORM_H

/*
 * The four normalization forms (UAX #15), with each character's origin.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vocab/unicode.h"

enum lm_uni_form { LM_FORM_C, LM_FORM_D, LM_FORM_KC, LM_FORM_KD };

/*
 * lm_uni_form - the form of len bytes of text.
 *
 * put gets it in order: n bytes that the bytes at .. end of the old text became (for a
 * character joined of several, all of these), or a stretch that stays as it is.  A byte that is
 * not UTF-8 stays, and nothing is joined or reordered over it.  Time and memory are in
 * proportion to the longest run of characters that may join or change places.  False: memory
 * is short.
 */
bool lm_uni_form(const char *p, size_t len, enum lm_uni_form form,
                 void (*put)(void *to, const char *text, size_t n, size_t at, size_t end),
                 void *to);

/* The last place where a text may be cut, whatever follows it, and its parts normalized by
 * themselves.  0: none. */
size_t lm_uni_form_settled(const char *p, size_t len, enum lm_uni_form form);

/* The length without the blanks at the end. */
size_t lm_uni_trim(const char *p, size_t len);

/* A scalar value as UTF-8: its 1 to 4 bytes. */
size_t lm_rune_bytes(uint32_t rune, char to[4]);

#endif
