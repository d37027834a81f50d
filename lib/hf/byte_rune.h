/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_BYTE_RUNE_H
#define LM_HF_BYTE_RUNE_H

#include <stdint.h>

/* The alphabet in which byte-level BPE spells bytes: those that are printable in Latin-1 are
 * themselves, the others, in order, U+0100 and what follows.  The character of a byte, and back,
 * -1: none (vocab/bpe.c has the same for its words). */
uint32_t lm_byte_rune(unsigned byte);
int lm_rune_byte(uint32_t rune);

#endif
