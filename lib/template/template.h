/* SPDX-License-Identifier: MIT */
#ifndef LM_TEMPLATE_H
#define LM_TEMPLATE_H

/*
 * Chat templates: Jinja as Jinja2 3.1 renders it in the environment that transformers sets up
 * (immutable sandbox, trim_blocks, lstrip_blocks, loop controls, generation blocks).
 *
 *   struct lm_template *t = lm_template_parse(text, len, &err);
 *   lm_template_render(t, layers, n, NULL, NULL, &out, &err);
 *
 * A template is read-only once parsed and may be rendered by several threads.  Each value
 * remembers which of its bytes came from a guarded layer, through every operation.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct lm_template;

/*
 * lm_template_parse - read a template; src is not referred to afterwards.
 *
 * LM_EDATA, with line and column, for what is not Jinja or not UTF-8; LM_ENOSUP for what is, but
 * not done here.  NULL with *err filled.
 */
struct lm_template *lm_template_parse(const char *src, size_t len, struct lm_err *err);
void lm_template_free(struct lm_template *t);

/* Are there generation blocks in it, which tell what the assistant said? */
bool lm_template_tells_said(const struct lm_template *t);

/*
 * Names for a template to use: the members of a JSON object; a later layer hides an earlier
 * one's.  With `guarded` its strings are somebody else's text, and what is made of them is
 * marked.  The one exception is a member called "role" whose value is made of letters,
 * digits, '_' and '-' alone: templates build control tokens of it.
 */
struct lm_template_layer {
    const struct lm_jval *vars;
    bool                  guarded;
};

/* What a rendering may use, so that no template can hang or fill the machine. */
struct lm_template_limits {
    uint64_t steps;              /* expressions, statements, values, 16 bytes of text read */
    size_t   memory;             /* bytes, the output included                           */
    int      depth;              /* of calls, of nested expressions, of nested values    */
};

/* Enough for every real template: 50 million steps, 1 GiB, depth 1000. */
extern const struct lm_template_limits lm_template_limits;

/* guard.data[i] is 1 where text.data[i] came from a guarded layer, said.data[i] where it stands
 * in a generation block, else 0; all have the same length.  Zero-initialise, release. */
struct lm_marked_text {
    struct lm_buf text, guard, said;
};

/* Give back its memory. */
void lm_marked_text_release(struct lm_marked_text *m);
/* Drop what is behind the first len bytes. */
void lm_marked_text_cut(struct lm_marked_text *m, size_t len);

/* White space, as templates strip it: str.isspace of Python. */
bool lm_jspace(uint32_t rune);

/*
 * lm_template_render - append the rendered text to *out.
 *
 *   now     for strftime_now; NULL: a template that asks for the time fails
 *   limits  NULL: lm_template_limits
 *
 * LM_EDATA with line, column and the words Jinja2 has for it when the template fails (for
 * raise_exception its argument) or exceeds a limit, LM_ENOSUP for what is not done here; *out is
 * unchanged then.
 */
int lm_template_render(const struct lm_template *t, const struct lm_template_layer *layers,
                       size_t n_layers, const struct tm *now,
                       const struct lm_template_limits *limits, struct lm_marked_text *out,
                       struct lm_err *err);

#endif
