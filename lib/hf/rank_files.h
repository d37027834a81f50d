/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_RANK_FILES_H
#define LM_HF_RANK_FILES_H

/*
 * Vocabularies in files that are lists of byte strings and their ids:
 *
 *   tiktoken    a line a piece: its bytes in base64, a space, its rank, which is its id.  How
 *               words are cut and what control tokens there are the file does not say; its
 *               size tells the known ones.
 *   tekken.json Mistral's: an object with config, vocab, a list of {rank, token_bytes}, and
 *               special_tokens; special tokens come first, ids are ranks plus their number.
 *   RWKV        a line a piece: its id, its text as Python writes it, its length in bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "hf/source.h"

/* Bytes of a piece that can be parted into two in all ways: longer ones would take long. */
enum { LM_RANK_PIECE = 1024 };

/* Zero-initialised, filled by a reader, released whatever came of it. */
struct lm_rank_file {
    const char    *model;       /* tokenizer.ggml.model: "gpt2" or "rwkv"                  */
    const char    *pre;         /* tokenizer.ggml.pre; NULL: not known, or there is none   */
    bool           nfc;         /* text is normalized first                                */
    bool           whole;       /* a word that is a piece is not merged                    */
    bool           add_bos;
    int32_t        bos, eos, unk, pad, eot;     /* -1: none                                */
    struct lm_str *text;        /* [n] as GGUF spells pieces                               */
    int32_t       *type;        /* [n] tokenizer.ggml.token_type; 5, with an empty text, where
                                   no piece has that id                                    */
    size_t         n;
    uint64_t       n_ranks;     /* pieces that are no control tokens                       */
    /* private */
    size_t          text_cap, type_cap;
    struct lm_arena arena;
    struct lm_buf   bytes, runes;
};

/* Read len bytes of such a file, which are not referred to afterwards.  LM_EDATA naming the line
 * or the entry that is wrong. */
typedef int lm_rank_reader(struct lm_rank_file *f, const char *data, size_t len,
                           struct lm_err *err);
lm_rank_reader lm_rank_tiktoken, lm_rank_tekken, lm_rank_rwkv;

/* Give back what a reader filled, and leave it zeroed. */
void lm_rank_release(struct lm_rank_file *f);

/* Do these bytes begin a file of tiktoken's, of RWKV's? */
bool lm_looks_like_ranks(const unsigned char *head, size_t len);
bool lm_looks_like_rwkv(const unsigned char *head, size_t len);

/* Which file of a checkpoint is such a list by its name, and its reader; NULL: none.  A
 * tokenizer.model may be one too. */
const char *lm_hf_rank_file(const struct lm_hf_source *src, lm_rank_reader **read);

#endif
