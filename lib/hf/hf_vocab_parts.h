/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_VOCAB_PARTS_H
#define LM_HF_VOCAB_PARTS_H

/* What hf_vocab.c is put together from. */

#include "hf/hf_vocab.h"
#include "hf/rank_files.h"

/* Holes are filled with pieces of their own, so ids must stay in reason. */
#define LM_HF_MAX_PIECES (1u << 22)

/* Copy bytes into the vocabulary's arena; NULL when memory is short. */
const char *lm_hf_copy(struct lm_hf_vocab *v, const char *p, size_t n, struct lm_str *out);

/* A piece of a tokenizer.json's model. */
struct lm_hf_entry {
    const char *p;
    uint32_t    len, id;
};

/*
 * tokenizer.json, read once: small members as trees, pieces and merges as lists, whose texts
 * are where the file has them.
 */
struct lm_tokenizer_json {
    char                 *text;         /* NULL: there is no such file                  */
    size_t                len;
    const struct lm_jval *added, *normalizer, *pre_tokenizer, *post_processor, *decoder;
    char                  type[24], unk[256];    /* model.type, model.unk_token; "" without */
    char                  go_on[64];    /* model.continuing_subword_prefix              */
    char                  last[64];     /* model.end_of_word_suffix                     */
    bool                  has_unk;      /* unk_token is there                           */
    double                dropout;      /* model.dropout                                */
    int64_t               unk_id, max_word;     /* model.unk_id, .max_input_chars_per_word; -1 */
    bool                  byte_fallback, ignore_merges, fuse_unk;
    bool                  affixes;      /* pieces are marked as parts of words          */
    bool                  scored;       /* vocab is a list of [text, score]: Unigram    */
    bool                  has_vocab;
    struct lm_hf_entry   *entries;              /* model.vocab, in the order of the file */
    double               *scores;               /* [n_entries], if scored               */
    struct lm_hf_merge   *merges;               /* NULL: there is no list               */
    size_t                n_entries, n_merges, entries_cap, scores_cap, merges_cap;
    uint64_t              n_ids;                /* highest id, added ones included, + 1 */
    char                 *vocab_json;           /* vocab.json, when there is nothing else */
    char                 *merges_txt;           /* merges.txt, when the model has none  */
};

/* Trees go to the arena.  LM_OK with text NULL when there is no tokenizer.json. */
int lm_tokenizer_json_open(struct lm_tokenizer_json *t, struct lm_arena *a,
                           struct lm_hf_source *src, struct lm_err *err);
/* The same for text and len that the caller has put there, and takes back himself when he has
 * released the lists, whatever came of it. */
int lm_tokenizer_json_parse(struct lm_tokenizer_json *t, struct lm_arena *a, struct lm_err *err);
void lm_tokenizer_json_release(struct lm_tokenizer_json *t);
void lm_tokenizer_json_close(struct lm_tokenizer_json *t);
/* Take the merges from merges.txt; 1 when there is none. */
int lm_tokenizer_merges_txt(struct lm_tokenizer_json *t, struct lm_hf_source *src,
                            struct lm_err *err);
/* Take the pieces from vocab.json, as if they were a tokenizer.json's; 1 when there is none. */
int lm_tokenizer_vocab_json(struct lm_tokenizer_json *t, struct lm_arena *a,
                            struct lm_hf_source *src, struct lm_err *err);
/* Pieces (as type NORMAL) and scores64 where the file has scores into v, whose arrays for
 * pieces and types are made; the texts stay where they are. */
int lm_tokenizer_json_lay(struct lm_hf_vocab *v, const struct lm_tokenizer_json *t,
                          struct lm_err *err);
/* The same with copies of the texts, and, for "gpt2", merges as "a b". */
int lm_tokenizer_json_pieces(struct lm_hf_vocab *v, const struct lm_tokenizer_json *t,
                             struct lm_err *err);

/*
 * How pieces are laid out, for the kinds of vocabularies.  lm_hf_room makes the arrays for
 * `found` ids, padded to n_rows; the lists lay tokens over them; added is added_tokens.json.
 */
int lm_hf_room(struct lm_hf_vocab *v, uint64_t found, uint32_t n_rows, bool scores,
               struct lm_err *err);
/* The number of ids that a list of {"ID": ...} (ids as keys) or {"TEXT": id} names, or n. */
uint64_t lm_hf_ids_in(const struct lm_jval *list, bool keys, uint64_t n);
int lm_hf_lay_spm(struct lm_hf_vocab *v, const struct lm_spm_model *m, struct lm_err *err);
int lm_hf_lay_added_file(struct lm_hf_vocab *v, const struct lm_jval *added, struct lm_err *err);
int lm_hf_lay_added(struct lm_hf_vocab *v, const struct lm_jval *list, struct lm_err *err);

/* The kinds (hf_vocab_kinds.c).  tc is tokenizer_config.json, or NULL; xlmr: the ids are
 * XLM-R's. */
int lm_hf_load_unigram_json(struct lm_hf_vocab *v, struct lm_tokenizer_json *t,
                            const struct lm_jval *tc, uint32_t n_rows, struct lm_err *err);
int lm_hf_load_unigram_spm(struct lm_hf_vocab *v, const struct lm_spm_model *m, bool xlmr,
                           const struct lm_jval *added, uint32_t n_rows, struct lm_err *err);
int lm_hf_load_wordpiece(struct lm_hf_vocab *v, struct lm_tokenizer_json *t, uint32_t n_rows,
                         const char *pre, struct lm_err *err);
int lm_hf_load_vocab_txt(struct lm_hf_vocab *v, const char *data, size_t len,
                         const struct lm_jval *tc, uint32_t n_rows, const char *pre,
                         struct lm_err *err);
int lm_hf_lay_decoder(struct lm_hf_vocab *v, const struct lm_jval *list, struct lm_err *err);

/* What beside a vocabulary without a tokenizer.json tells of it; any may be NULL. */
struct lm_hf_beside {
    const struct lm_jval *tokenizer_config, *special_map, *added;
    uint32_t              n_rows;
    const char           *pre;
    const struct lm_env  *env;
};

/* 1 when there is no vocab.json. */
int lm_hf_load_vocab_json(struct lm_hf_vocab *v, struct lm_tokenizer_json *t,
                          struct lm_hf_source *src, const struct lm_hf_beside *f,
                          struct lm_err *err);

/*
 * The vocabulary in a file that is a list of byte strings (hf_vocab_ranks.c).  GGUF wants merges:
 * tiktoken's are the two parts that a piece last is by merging, Mistral's are all the ways to
 * part a piece.  LM_ENOSUP when nothing says how words are cut.
 */
int lm_hf_load_ranks(struct lm_hf_vocab *v, lm_rank_reader *read, const char *data, size_t len,
                     const struct lm_hf_beside *f, struct lm_err *err);

/* After all: pieces of WordPiece as GGUF spells them. */
int lm_hf_spell_wordpiece(struct lm_hf_vocab *v, struct lm_err *err);

/* The pieces by their text: open addressing, id + 1 in a slot, 0 when it is empty. */
struct lm_hf_index {
    const struct lm_hf_vocab *v;
    uint32_t                 *slots;
    uint32_t                  mask;
};

/* An index of the pieces of a type, 0: all; of those with the same text the last one counts. */
int lm_hf_index_make(struct lm_hf_index *x, const struct lm_hf_vocab *v, int type,
                     struct lm_err *err);
/* The id of n bytes of text, or -1. */
int64_t lm_hf_index_find(const struct lm_hf_index *x, const char *p, size_t n);
void lm_hf_index_release(struct lm_hf_index *x);

/* LM_EDATA naming the first merge whose parts, or what they make, are no pieces. */
int lm_hf_check_merges(const struct lm_hf_vocab *v, struct lm_err *err);

/* Where special ids come from; any may be NULL. */
struct lm_hf_special_files {
    const struct lm_jval *config, *tokenizer_config, *generation_config;
    const struct lm_jval *special_map;                  /* special_tokens_map.json   */
    bool                  no_json;                      /* there is no tokenizer.json */
    const struct lm_jval *added, *post_processor;       /* members of tokenizer.json */
};

/* Fill v->ids and v->adds. */
int lm_hf_special_ids(struct lm_hf_vocab *v, const struct lm_hf_special_files *f,
                      const struct lm_env *env, struct lm_err *err);

/* Fill v->templates: with files_first those in files of their own hide tokenizer_config.json's, as
 * transformers has it; else it is the other way round, as the reference converter does. */
int lm_hf_chat_templates(struct lm_hf_vocab *v, struct lm_hf_source *src,
                         const struct lm_jval *tokenizer_config, bool files_first,
                         struct lm_err *err);

#endif
