/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_FOREIGN_H
#define LM_GGUF_FOREIGN_H

/* What people hand to a reader by mistake, told by its first bytes, up to LM_FOREIGN_SIZE. */

#include <stddef.h>
#include <stdint.h>

#define LM_FOREIGN_SIZE 264

/* What a file that begins with these n bytes is, in words that follow "it is"; NULL: nothing that
 * is known.  The first one knows of no texts but those that no tokenizer's file is: a Git LFS
 * pointer, a web page. */
const char *lm_foreign_file(const uint8_t *p, size_t n);
const char *lm_gguf_foreign(const uint8_t *p, size_t n);

#endif
