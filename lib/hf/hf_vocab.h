/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_VOCAB_H
#define LM_HF_VOCAB_H

/*
 * The tokenizer of a checkpoint, in the form in which GGUF metadata holds one:
 * byte-level BPE from tokenizer.json, or from vocab.json and merges.txt; SentencePiece BPE and
 * Unigram from tokenizer.model, spiece.model or sentencepiece.bpe.model; Unigram, WordPiece and
 * BPE with byte fallback from tokenizer.json alone; WordPiece from vocab.txt; byte strings from
 * tekken.json, tiktoken's files and RWKV's list.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "hf/source.h"

/* tokenizer.ggml.token_type */
enum lm_piece_type {
    LM_PIECE_NORMAL = 1, LM_PIECE_UNKNOWN, LM_PIECE_CONTROL, LM_PIECE_USER, LM_PIECE_UNUSED,
    LM_PIECE_BYTE
};

/* Two pieces that are joined, as a tokenizer.json has them. */
struct lm_hf_merge {
    const char *left, *right;
    uint32_t    left_len, right_len;
};

struct lm_hf_template {
    struct lm_str name;         /* "default" for the one without a name */
    const char   *file;         /* in which it is                       */
    struct lm_str text;
};

enum { LM_HF_MAX_IDS = 12, LM_HF_MAX_ADDS = 3 };

/* Everything lies in the arena. */
struct lm_hf_vocab {
    const char    *model;               /* tokenizer.ggml.model: "gpt2", "llama", "t5", "bert",
                                           "rwkv"                                          */
    const char    *pre;                 /* tokenizer.ggml.pre, or NULL: it has none        */
    uint32_t       n;                   /* pieces, padding included                        */
    struct lm_str *pieces;              /* [n]                                             */
    float         *scores;              /* [n], or NULL                                    */
    double        *scores64;            /* [n], those of a tokenizer.json, or NULL         */
    int32_t       *types;               /* [n] enum lm_piece_type                          */
    struct lm_str *merges;              /* "a b", first merge first; NULL for "llama"      */
    uint64_t       n_merges;
    /* Special ids and whether they are added, as keys of GGUF, in the order to write. */
    struct { const char *key; uint32_t id; } ids[LM_HF_MAX_IDS];
    struct { const char *key; bool add; } adds[LM_HF_MAX_ADDS];
    size_t         n_ids, n_adds;
    int            add_space_prefix;    /* 0, 1; -1 when nothing tells                     */
    int            extra_spaces;        /* remove_extra_whitespaces; likewise, as the next */
    int            lowercase, strip_accents;    /* "bert"                                  */
    bool           adds_around;         /* no file says so, but the tokenizer's class does */
    bool           by_ranks;            /* merges are made of the ranks that ids are       */
    bool           nfc, whole_words;    /* with by_ranks: text is normalized first, words that
                                           are pieces are not merged                       */
    bool           ids_first;           /* merges and special ids stand before the pieces  */
    int32_t        usual_bos, usual_eos, usual_unk;     /* where no file has one, by ranks or
                                           (not written) by a SentencePiece model; or -1   */
    int64_t        token_types;         /* token_type_count of an encoder, -1: no key      */
    struct lm_str  charsmap;            /* precompiled_charsmap, len 0: none               */
    struct lm_hf_template *templates;   /* chat templates, the default one first           */
    size_t         n_templates;
    struct lm_arena arena;
};

/*
 * lm_hf_vocab_load - read the tokenizer.
 *
 *   config, generation  config.json and generation_config.json (may be NULL)
 *   n_rows  rows of the embedding: the pieces are padded to it, more of them are
 *           LM_EDATA naming both numbers; 0 when there are no weights: config.json's
 *           vocab_size, if it has one
 *   pre     a pre-tokenizer's name to write instead of the one recognised, or NULL
 *
 * Sources of a special id, the first that has it: tekken.json and RWKV's list, which have their
 * own; the text in tokenizer_config.json, looked up among the tokenizer's added tokens (tiktoken's
 * have none: there it comes last); config.json; generation_config.json.  Further ends of a turn
 * that these files name become eot and eom ids.  LM_ENOSUP for kinds of tokenizers this
 * version cannot write, a pre-tokenizer without a name among them.
 */
int lm_hf_vocab_load(struct lm_hf_vocab *v, struct lm_hf_source *src,
                     const struct lm_jval *config, const struct lm_jval *generation,
                     uint32_t n_rows, const char *pre, const struct lm_env *env,
                     struct lm_err *err);
/* The vocabulary in the text of a vocab.txt alone, WordPiece, whose special pieces have BERT's
 * names; text is lower-cased if no piece has a capital letter. */
int lm_hf_vocab_txt(struct lm_hf_vocab *v, const char *data, size_t len, struct lm_err *err);
void lm_hf_vocab_release(struct lm_hf_vocab *v);

/*
 * lm_hf_pretok_name - the GGUF name of a tokenizer.json's pre-tokenizer, or NULL when none
 * does the same.  `pre_tokenizer` is that member; names that share its expressions differ
 * in whether the model ignores merges for words that are pieces.
 */
const char *lm_hf_pretok_name(const struct lm_jval *pre_tokenizer, bool ignore_merges);

/* The same of a pattern whose matches are words, and each of them bytes: as ranks are cut. */
const char *lm_hf_pattern_name(const char *pattern);

/*
 * The reference's way to such a name: lm_hf_pretok_hashed gives the one for the ids of
 * lm_hf_pretok_probe's text, *len bytes, with the start and end tokens that the tokenizer
 * adds; NULL when nobody has listed them.  (vocab/vocab.h: lm_vocab_hashed_pre.)
 */
const char *lm_hf_pretok_probe(size_t *len);
const char *lm_hf_pretok_hashed(const int32_t *ids, size_t n);

/* One piece of a SentencePiece model; text points into the file's bytes. */
struct lm_spm_piece {
    const char *text;
    size_t      len;
    float       score;
    int         type;           /* enum lm_piece_type */
};

struct lm_spm_model {
    struct lm_spm_piece *pieces;        /* malloc'ed */
    size_t               n, cap;
    int                  kind;          /* 1 unigram, 2 BPE, 3 word, 4 char */
    bool                 add_prefix;    /* a blank is put before the text    */
    bool                 suffix;        /* ... or, with this, behind it      */
    bool                 extra_spaces;  /* runs of blanks become one         */
    bool                 byte_fallback;
    struct lm_str        charsmap;      /* precompiled_charsmap, in the file */
    char                 bos[64], eos[64];      /* pieces that begin and end */
};

/* Parse a SentencePiece model file (protocol buffers, sentencepiece_model.proto). */
int lm_spm_model_parse(struct lm_spm_model *m, const char *data, size_t len, struct lm_err *err);
void lm_spm_model_release(struct lm_spm_model *m);

#endif
