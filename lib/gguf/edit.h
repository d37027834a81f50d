/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_EDIT_H
#define LM_GGUF_EDIT_H

/*
 * A GGUF with other metadata: the header is written anew, the data copied.
 *
 *   struct lm_editor *e = lm_editor_open(in, &err);
 *   lm_editor_apply(e, &edit, env, &err);           as often as need be, in order
 *   lm_editor_check(e, env, &err);
 *   lm_editor_write(e, out, env, &err);
 *
 * Version, byte order, and everything that no edit names stay as they are, also
 * tensors of unknown types and what lies between and behind them; so an edit and its
 * opposite give the first bytes back.  Only another general.alignment moves the data:
 * it is then laid out afresh, in its order, without gaps.  The input may be a pipe;
 * memory holds the metadata and a block of data.
 */

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"
#include "io/output.h"

enum lm_edit_what {
    LM_EDIT_SET,       /* text is KEY=TYPE:VALUE as in kv_arg.h; key is not used          */
    LM_EDIT_FILE,      /* text is a new value for key: of an array its elements as JSON, an
                          array or one after the other; else the string itself            */
    LM_EDIT_DELETE,    /* every entry called key                                          */
    LM_EDIT_RENAME,    /* the entry called key; text is its new name                      */
    LM_EDIT_COPY,      /* what `from` has for key, or, if it ends in *, for all keys that
                          begin so: entries that match and are not there are removed      */
    LM_EDIT_TOKEN      /* tokenizer.ggml.KEY_token_id: the id of the token that is text   */
};

/* What an edit points to must live as long as the editor. */
struct lm_edit {
    enum lm_edit_what what;
    struct lm_str     key, text;       /* text: with a NUL after it                       */
    const struct lm_gguf *from;        /* COPY                                            */
};

struct lm_editor;

/* Read the header of `in`, which is borrowed until lm_editor_free.  NULL with *err
 * filled: LM_EDATA for what is no readable GGUF. */
struct lm_editor *lm_editor_open(struct lm_in *in, struct lm_err *err);
void lm_editor_free(struct lm_editor *e);

/* The metadata as it stands. */
const struct lm_gguf *lm_editor_gguf(const struct lm_editor *e);

/*
 * Make one edit.  An entry that is there keeps its place, and, if it is an array, the
 * type of its elements wherever the new ones allow it; a new one goes to the end; doubled
 * ones become one.  env's note hears of a type that changes.
 *
 * LM_EDATA for a key or a token that should be there and is not, or text that is no JSON of
 * the elements' type; LM_EUSE for a value that makes no sense, or a new name that is taken.
 * The metadata is then as before.
 */
int lm_editor_apply(struct lm_editor *e, const struct lm_edit *edit, const struct lm_env *env,
                    struct lm_err *err);

/* Everything that can be refused without the data: what a strict reader minds in the
 * edited file (LM_EDATA), an alignment that is none (LM_EUSE), data that cannot be moved
 * because a type is not known (LM_ENOSUP). */
int lm_editor_check(struct lm_editor *e, const struct lm_env *env, struct lm_err *err);

/* Write the edited file; once, after the check.  Failures name the file. */
int lm_editor_write(struct lm_editor *e, struct lm_out *out, const struct lm_env *env,
                    struct lm_err *err);

#endif
