/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CHECK_TEXT_H
#define LM_JOB_CHECK_TEXT_H

/* Is a text in the language of a grammar? */

#include "base/err.h"
#include "io/input.h"
#include "sample/grammar/grammar.h"

/*
 * lm_check_text - read `in` to its end and follow it through the grammar.
 *
 * LM_OK if it is in the language as it stands or without a newline at its end.  LM_EDATA if not:
 * *err names byte offset, line and column of the first byte that cannot follow and what could, or
 * says that the text ends too early.  A token terminal is met by no text.  Other codes as reading
 * and the machine have.
 */
int lm_check_text(const struct lm_grammar *g, struct lm_in *in, struct lm_err *err);

#endif
