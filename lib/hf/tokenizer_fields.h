/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_TOKENIZER_FIELDS_H
#define LM_HF_TOKENIZER_FIELDS_H

/*
 * What the members of a tokenizer.json are, all that are read of it but vocab and merges, as a
 * table: a member of another type is refused by its name and not taken for one that is not there.
 * What a member may be is what the tokenizers library (0.23) takes, which is strict, too.
 */

#include "base/json.h"

/*
 * lm_tokenizer_fields - check the members of v, of which a member that is not in the table may
 * be anything.
 *
 *   part  "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "added_tokens"; of
 *         a template, "token" is a part of it, "special" what a special token in it is, and
 *         "ids" what special_tokens has for one
 *   type  which of these v is; "" if there is only one
 *
 * LM_OK, or LM_EDATA that says which member is wrong: "KEY is WHAT, not WHAT" or "has no KEY", or
 * of v itself "is WHAT, not an object".
 */
int lm_tokenizer_fields(const char *part, const char *type, const struct lm_jval *v,
                        struct lm_err *err);

/* Is the member of that name, len bytes, in the table of the part, whatever its type? */
bool lm_tokenizer_reads(const char *part, const char *key, size_t len);

/* The value's member "type", "" without. */
const char *lm_tokenizer_type(const struct lm_jval *v);

/* Is there a value, and not null? */
static inline bool lm_tokenizer_has(const struct lm_jval *v)
{
    return v && v->kind != LM_JSON_NULL;
}

#endif
