/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CHAT_PARTS_H
#define LM_JOB_CHAT_PARTS_H

#include "gguf/gguf.h"
#include "job/chat.h"

struct lm_chat_template {
    struct lm_str name, text;        /* "default": the one without a name */
    const char   *file, *key;        /* where it is from; key "": all of the file */
};

struct lm_chat {
    struct lm_arena          arena;
    const char              *path;           /* of the model */
    const struct lm_env     *env;
    bool                     noted;          /* that a template does without what is there */
    struct lm_chat_template *templates;
    size_t                   n, cap;
    struct lm_jval           special;        /* an object: bos_token, eos_token, ... */
    struct lm_jval          *last_special;
};

/* The template of that name, or NULL. */
const struct lm_chat_template *lm_chat_find(const struct lm_chat *c, const char *name);

#endif
