/* SPDX-License-Identifier: MIT */
#ifndef LM_PATTERN_H
#define LM_PATTERN_H

/*
 * Patterns over tensor names: ECMAScript regular expressions, searched for anywhere
 * in the name, in which case does not matter.
 *
 * They are carried out by the system's POSIX regular expressions, to which all that
 * selects names can be rewritten; look-ahead and back references are refused.  So are patterns
 * that would take more than 10,000 characters or groups if all that is counted, as in (ab){9}, were
 * written out, and more than 100 groups in each other.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct lm_pattern;

/* LM_EUSE in *err when it is no pattern, or one that is not supported. */
struct lm_pattern *lm_pattern_new(const char *text, size_t len, struct lm_err *err);
void lm_pattern_free(struct lm_pattern *p);

/* Does it occur in name? */
bool lm_pattern_matches(const struct lm_pattern *p, const char *name);

#endif
