/* SPDX-License-Identifier: MIT */
#ifndef LM_TEMPLATE_CHAT_FORMATS_H
#define LM_TEMPLATE_CHAT_FORMATS_H

/*
 * Chat templates by name, for models whose files have none: what stands around the text of each
 * role, as rows of a table, and one template that writes them.
 *
 * To add a format: a row in chat_formats.c, a line in tests/data/template/formats.tsv.
 */

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"

/* The template.  It takes the names of lm_chat_format, messages, add_generation_prompt, and
 * bos_token: the start token's text where the tokenizer adds one, else an empty text. */
extern const char lm_chat_frame[];

/* What makes lm_chat_frame the format of that name: an object in the arena, for a layer that is
 * not guarded.  NULL: there is no such format, or no memory. */
const struct lm_jval *lm_chat_format(const char *name, struct lm_arena *arena);

/* The names there are, in the order of the alphabet; NULL behind the last. */
const char *lm_chat_format_name(size_t i);

#endif
