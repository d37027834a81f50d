/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CHAT_H
#define LM_JOB_CHAT_H

/*
 * Conversations as a model wants to read them: its chat template, rendered as
 * apply_chat_template of transformers does it.
 *
 *   struct lm_chat *c = lm_chat_open("m.gguf", NULL, &err);
 *   lm_chat_render(c, json, len, &options, &text, &at, &err);
 *   lm_encoder_guarded(e, text.text.data, (const unsigned char *)text.guard.data,
 *                      text.text.len, LM_ENCODE_PARSE, &ids, &err);
 *   lm_marked_text_release(&text);
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/env.h"
#include "base/err.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "template/template.h"

struct lm_chat;

/*
 * lm_chat_open - the templates and special tokens that belong to a model: those of a GGUF
 * file, of a directory with a tokenizer_config.json, or of the directory in which another file
 * lies.
 *
 * Templates are read when they are rendered: one that is bad stands in nobody's way.  A
 * model without any is fine as long as lm_chat_render is told which to use.  env is kept until
 * lm_chat_free.  NULL with *err filled; the text does not name path.
 */
struct lm_chat *lm_chat_open(const char *path, const struct lm_env *env, struct lm_err *err);
void lm_chat_free(struct lm_chat *c);

struct lm_chat_options {
    const char           *template_name;     /* NULL; the name of one of the model's, or of
                                                one that is built in; a file                  */
    bool                  no_generation_prompt;
    bool                  continue_final;    /* leave the last message open                   */
    bool                  want_said;         /* the template has to tell what the assistant
                                                said                                          */
    const struct lm_jval *kwargs;            /* NULL, or an object: names for the template    */
    const struct tm      *now;               /* for strftime_now                              */
    struct lm_str         start;             /* what a built-in template begins with          */
};

/*
 * lm_chat_render - append a conversation as text.
 *
 * json: an object with messages and, if wanted, tools, documents, add_generation_prompt,
 * continue_final_message and chat_template_kwargs; or the array of messages alone.  Members
 * of other names are ignored.  Everything in it is guarded text, except roles that are plain
 * words; o->kwargs and the model's own special tokens are not.
 *
 * Without o->template_name: the model's "tool_use" when there are tools and it has that, else
 * its default.  LM_EDATA when json or the template is at fault, LM_EUSE when there is no such
 * template or the options exclude each other.  *at is set to the file that is at fault when
 * that is not json; *err names the template's file when it may be either.  A note is given,
 * once, when there are tools, documents or other names that the template does not speak of.
 */
int lm_chat_render(struct lm_chat *c, const char *json, size_t len,
                   const struct lm_chat_options *o, struct lm_marked_text *out, const char **at,
                   struct lm_err *err);

/* Does this name stand for a built-in template (template/chat_formats.h)?  Not if the model has
 * one of that name. */
bool lm_chat_built_in(const struct lm_chat *c, const char *name);

/* A time as --now has it: YYYY-MM-DD, or with THH:MM or THH:MM:SS behind it.  False when it
 * is none. */
bool lm_chat_time(const char *text, struct tm *out);

#endif
