/* SPDX-License-Identifier: MIT */
#ifndef LM_DIGEST_LIST_H
#define LM_DIGEST_LIST_H

/*
 * Lists of digests, as text.  A line for each tensor: hex digits, two spaces, the name
 * (escaped; one that begins with "(" as \x28); then a line called "(all)", the digest of
 * all lines above it.
 */

#include "base/buf.h"
#include "job/digest.h"

/* Append the lines of one file; see lm_digest_tensors. */
int lm_digest_list_add(struct lm_buf *list, struct lm_in *in, const struct lm_gguf *g,
                       enum lm_digest_kind kind, const struct lm_env *env, struct lm_err *err);

/* Append the last line. */
void lm_digest_list_end(struct lm_buf *list, enum lm_digest_kind kind);

/* What kind of digests a list's lines have, judged by the first; LM_EDATA if it is none. */
int lm_digest_list_kind(const char *text, size_t len, enum lm_digest_kind *kind,
                        struct lm_err *err);

/*
 * lm_digest_list_compare - where a list says something else than `have` does.
 *
 *   want, have  texts; both are cut to pieces
 *   differs     called with a name and "differs", "missing" or "not in the list"
 *
 * 0: nowhere; 1: somewhere; LM_EDATA naming the line of `want` that is none; LM_ENOMEM.
 */
int lm_digest_list_compare(char *want, char *have,
                           void (*differs)(void *arg, const char *name, const char *how),
                           void *arg, struct lm_err *err);

#endif
