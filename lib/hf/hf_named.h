/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_NAMED_H
#define LM_HF_NAMED_H

/*
 * Special tokens by the small files of a checkpoint, for a vocabulary that does not say itself
 * which they are: a tokenizer.json knows tokens, but not which of them ends a text.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"

enum lm_named { LM_NAMED_BOS, LM_NAMED_EOS, LM_NAMED_SEP, LM_N_NAMED };

enum { LM_MAX_NAMED_ENDS = 64 };

/* Zero-initialised, filled by lm_hf_named_read, released whatever came of it. */
struct lm_hf_named {
    struct {
        const char *text;            /* NULL: none names it                       */
        size_t      len;
        const char *file;            /* that has text                             */
        int64_t     id;              /* by config.json, then generation_config.json; -1 */
    } token[LM_N_NAMED];
    int32_t ends[LM_MAX_NAMED_ENDS]; /* all eos_token_id of these two, in range or not */
    size_t  n_ends;
    char    lacks[LM_N_NAMED][240];  /* room for who looks tokens up: why one is not there */
    struct lm_arena arena;
};

/* The member that names a token by its text: "bos_token", "eos_token", "sep_token". */
const char *lm_hf_named_member(enum lm_named k);

/*
 * lm_hf_named_read - what the files of a folder name.
 *
 * A text is that of tokenizer_config.json, a string or an object with content; null says that
 * there is none.  As in transformers, special_tokens_map.json has the first word where
 * tokenizer_config.json lists no added_tokens_decoder; else it only fills in what that file
 * does not mention.  LM_EDATA naming which of these two is no JSON, LM_EIO which cannot be read; of
 * the other two files there is only a note then.
 */
int lm_hf_named_read(struct lm_hf_named *x, const char *folder, const struct lm_env *env,
                     struct lm_err *err);
void lm_hf_named_release(struct lm_hf_named *x);

#endif
