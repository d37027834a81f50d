/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_RULES_H
#define LM_VOCAB_RULES_H

/*
 * Tokenizers by the rules of their tokenizer.json, whatever these are:
 *
 *   text -- added tokens that are not normalized -- normalizers -- added tokens that are
 *   -- pre-tokenizers -- the model, a word at a time -- ids -- decoders -- text
 *
 * The common families do not come here: vocab_json.c knows them by the same rules and has
 * faster ways for them.  What a part does is what the Hugging Face library does; tests/golden/
 * make-rules shows how that was checked.
 *
 * To add a part: a value of its enum, its reader in the table of vocab_json_parts.c, its case
 * in vocab_rules_norm.c, vocab_rules_pre.c or vocab_rules_detok.c, and a file for it in
 * tests/golden/make-rules.
 */

#include "base/json.h"
#include "hf/byte_rune.h"
#include "vocab/bert_text.h"
#include "vocab/charsmap.h"
#include "vocab/pretok.h"
#include "vocab/regex.h"
#include "vocab/tokenizer.h"

enum { LM_RULES_MAX = 24 };              /* parts of a sequence */

/* ---- text that remembers where it came from ---------------------------------- */

struct lm_traced {
    struct lm_buf     text;
    struct lm_origin *origin;            /* [text.len], NULL when nobody asks */
    size_t            cap;
};

void lm_traced_release(struct lm_traced *t);

/* ---- normalizers ------------------------------------------------------------- */

enum lm_norm_kind {
    LM_NK_NFC, LM_NK_NFD, LM_NK_NFKC, LM_NK_NFKD, LM_NK_LOWER, LM_NK_STRIP, LM_NK_ACCENTS,
    LM_NK_REPLACE, LM_NK_PREPEND, LM_NK_CHARSMAP, LM_NK_BERT, LM_NK_NMT, LM_NK_BYTES,
};

struct lm_norm_part {
    enum lm_norm_kind  kind;
    bool               left, right;      /* STRIP                                     */
    struct lm_str      text;             /* REPLACE: the new text; PREPEND            */
    struct lm_regex   *pattern;          /* REPLACE                                   */
    struct lm_charsmap map;              /* CHARSMAP                                  */
    unsigned           bert;             /* BERT: LM_BERT_ bits                       */
};

/* ---- pre-tokenizers ---------------------------------------------------------- */

enum lm_pre_kind {
    LM_PK_PREFIX,        /* the text in front, unless it begins with it                */
    LM_PK_BYTES,         /* bytes become their characters                              */
    LM_PK_MARK,          /* spaces become the text, which is put in front, too         */
    /* those that cut */
    LM_PK_REGEX, LM_PK_HAND, LM_PK_RUNE, LM_PK_SPACE, LM_PK_DIGIT, LM_PK_PUNCT, LM_PK_WORDS,
    LM_PK_LENGTH,
};

enum lm_cut_how {
    LM_CUT_ISOLATED, LM_CUT_REMOVED, LM_CUT_CONTIGUOUS, LM_CUT_PREVIOUS, LM_CUT_NEXT,
};

enum lm_prefix_when { LM_PREFIX_ALWAYS, LM_PREFIX_FIRST, LM_PREFIX_NEVER };

struct lm_pre_part {
    enum lm_pre_kind    kind;
    enum lm_cut_how     how;
    bool                invert;
    enum lm_prefix_when when;            /* MARK                                       */
    struct lm_str       text;            /* PREFIX, MARK                               */
    struct lm_regex    *pattern;         /* REGEX                                      */
    struct lm_prestep   hand;            /* HAND                                       */
    uint32_t            rune;            /* RUNE                                       */
    size_t              length;          /* LENGTH, characters                         */
};

/* ---- decoders ---------------------------------------------------------------- */

enum lm_dec_kind {
    LM_DK_BYTES, LM_DK_FALLBACK, LM_DK_MARK, LM_DK_WORDPIECE, LM_DK_SUFFIX, LM_DK_FUSE,
    LM_DK_STRIP, LM_DK_REPLACE, LM_DK_JOIN,
};

struct lm_dec_part {
    enum lm_dec_kind kind;
    struct lm_str    from, to;           /* MARK, SUFFIX, WORDPIECE, STRIP: from       */
    bool             clean;              /* WORDPIECE: cleanup; MARK: the first's go   */
    size_t           start, stop;        /* STRIP                                      */
    struct lm_regex *pattern;            /* REPLACE                                    */
};

/* ---- all of them --------------------------------------------------------------- */

enum lm_word_kind { LM_WK_BPE, LM_WK_LEVEL, LM_WK_MODEL };

struct lm_rules {
    struct lm_arena     arena;           /* the texts of the parts                     */
    struct lm_norm_part norm[LM_RULES_MAX];
    struct lm_pre_part  pre[LM_RULES_MAX];
    struct lm_dec_part  dec[LM_RULES_MAX];
    size_t              n_norm, n_pre, n_dec;
    struct lm_added     added;           /* tokens looked for after normalizing        */
    enum lm_word_kind   words;
    const struct lm_tok_model *model;    /* MODEL: whose word function                 */
    bool                whole, byte_fallback, fuse_unk;  /* BPE                        */
    struct lm_str       go_on, last;     /* BPE: continuing_subword_prefix, end_of_word_suffix */
    bool                asks_first;      /* something depends on where the text begins */
};

void lm_rules_free(struct lm_rules *r);

/*
 * Fill in the parts from a tokenizer.json's members, any of which may be NULL.  LM_ENOSUP
 * naming the first that is not known (vocab_json_parts.c).
 */
int lm_rules_read_normalizer(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err);
int lm_rules_read_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err);
int lm_rules_read_decoder(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err);

/*
 * The rules of the few pre-tokenizers in GGUF files that are not for bytes: *out stays NULL
 * for any other name.  lowercase: tokenizer.ggml.normalizer.lowercase.
 */
int lm_rules_named(const char *pre, size_t len, bool lowercase, struct lm_rules **out,
                   struct lm_err *err);

/* len bytes at p, normalized, into *out; with_origin: where each byte came from is kept.
 * tmp: another one, for steps in between. */
int lm_rules_normalize(const struct lm_rules *r, const char *p, size_t len, bool with_origin,
                       struct lm_traced *out, struct lm_traced *tmp, struct lm_err *err);

/* What an encoder keeps for its rules. */
struct lm_rules_work;
struct lm_rules_work *lm_rules_work_new(const struct lm_rules *r);
void lm_rules_work_free(struct lm_rules_work *w);

/* Two texts, for the fragment and a step on its way. */
struct lm_traced *lm_rules_text(struct lm_rules_work *w);
struct lm_traced *lm_rules_tmp(struct lm_rules_work *w);

/* A walk over the words of a text: begin, then next until it gives 0.  first: the text's first
 * byte is the first of all.  Next gives 1 and a word with its origins (NULL without), which
 * last until the next call. */
int lm_rules_begin(struct lm_rules_work *w, const char *p, size_t len,
                   const struct lm_origin *origin, bool first, struct lm_err *err);
int lm_rules_next(struct lm_rules_work *w, const char **p, size_t *len,
                  const struct lm_origin **origin, struct lm_err *err);

/* The fragments between added tokens that are not normalized (see lm_tok_model.encode). */
int lm_rules_encode(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err);

/* ---- ids to text ------------------------------------------------------------------ */

struct lm_rules_detok;
struct lm_rules_detok *lm_rules_detok_new(const struct lm_rules *r);
void lm_rules_detok_free(struct lm_rules_detok *d);
/* The text of a token comes next; what is certain by now is appended to *out. */
int lm_rules_detok_add(struct lm_rules_detok *d, struct lm_str token, struct lm_buf *out,
                       struct lm_err *err);
/* No more tokens; ready for the next sequence. */
int lm_rules_detok_end(struct lm_rules_detok *d, struct lm_buf *out, struct lm_err *err);
/* What one token in the middle of a text becomes; d is used for nothing else. */
int lm_rules_token_text(struct lm_rules_detok *d, struct lm_str token, struct lm_buf *out,
                        struct lm_err *err);
/* The text of a piece that decoders get: of an added token that is looked for in normalized
 * text, what it is there. */
struct lm_str lm_rules_shown(const struct lm_vocab *v, uint32_t id);
/* Fill v->bytes with what each becomes. */
int lm_rules_load_bytes(struct lm_vocab *v, struct lm_err *err);

#endif
