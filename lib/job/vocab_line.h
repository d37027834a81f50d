/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_LINE_H
#define LM_VOCAB_LINE_H

#include "base/buf.h"
#include "gguf/gguf.h"

/*
 * lm_vocab_line - one token of a file's vocabulary as a line of text, whether or not the
 * vocabulary can be used: id, type, score and text (escaped) between tabs, and after one
 * more tab what keys tokenizer.ggml.NAME_token_id name it, if any do.  "-" is for what the
 * file does not have.
 *
 *   tokens  tokenizer.ggml.tokens, strings, id < n
 */
void lm_vocab_line(struct lm_buf *out, const struct lm_gguf *g, const struct lm_gguf_arr *tokens,
                   uint64_t id);

/* The same as a JSON object: id, type, score, text and uses, without what the file does not
 * have. */
void lm_vocab_json(struct lm_buf *out, const struct lm_gguf *g, const struct lm_gguf_arr *tokens,
                   uint64_t id);

#endif
