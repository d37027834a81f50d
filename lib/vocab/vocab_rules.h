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

/* ---- how much longer text can become ----------------------------------------- */

enum {
    LM_RULES_GROWTH = 4096,              /* bytes that one byte of text may become            */
    LM_RULES_TEXT = 1 << 28,             /* bytes that all pieces may become, or added tokens */
};

/* No text becomes longer than by[] of its bytes and `more` together. */
struct lm_growth {
    double by[256], more;
};

/* Bytes that text of len bytes can become at the most. */
double lm_growth_of(const struct lm_growth *g, const char *p, size_t len);

/* ---- text that remembers where it came from ---------------------------------- */

struct lm_traced {
    struct lm_buf     text;
    struct lm_origin *origin;            /* [text.len], NULL when nobody asks */
    size_t            cap;
};

/* Give back its memory. */
void lm_traced_release(struct lm_traced *t);
/* Append n bytes with their origins, NULL: nobody asks.  False: memory is short. */
bool lm_traced_add(struct lm_traced *t, const char *p, size_t n, const struct lm_origin *origin);
/* Take the first n bytes away. */
void lm_traced_drop(struct lm_traced *t, size_t n, bool traced);

/* ---- normalizers ------------------------------------------------------------- */

enum lm_norm_kind {
    LM_NK_NFC, LM_NK_NFD, LM_NK_NFKC, LM_NK_NFKD, LM_NK_LOWER, LM_NK_STRIP, LM_NK_ACCENTS,
    LM_NK_REPLACE, LM_NK_PREPEND, LM_NK_CHARSMAP, LM_NK_BERT, LM_NK_NMT, LM_NK_BYTES,
};

struct lm_norm_part {
    enum lm_norm_kind  kind;
    const char        *name;             /* where it stands in the file, for messages */
    double             growth;           /* bytes that it makes of one at most        */
    bool               left, right;      /* STRIP                                     */
    struct lm_str      text;             /* REPLACE: the new text; PREPEND            */
    struct lm_regex   *pattern;          /* REPLACE                                   */
    struct lm_str      from;             /* REPLACE: what the pattern is, if one text */
    struct lm_charsmap map;              /* CHARSMAP                                  */
    unsigned           bert;             /* BERT: LM_BERT_ bits                       */
};

/* Where a normalizer stands in a text; zero-initialise, begin anew for each text, release. */
struct lm_norm_state {
    bool                 begun;
    size_t               gone, seen;     /* of the text: dealt with, looked at        */
    size_t               at;             /* REPLACE: all before it is put             */
    struct lm_regex_walk walk;           /* REPLACE; or, by PCRE2:                    */
    struct lm_regex_scan scan;
    char                 blank[4];       /* STRIP: this, n_blanks times, is put before the
                                            next that is none                         */
    size_t               blank_len;
    struct lm_origin     from;           /* of the first of them                      */
    uint64_t             n_blanks;
    size_t               slice;
};

/* slice: some bytes, what is put at a time is not much longer. */
void lm_norm_begin(struct lm_norm_state *st, size_t slice);
void lm_norm_release(struct lm_norm_state *st);

/*
 * lm_norm_step - one normalizer's share of a text: what it can do of *in is appended to *out and
 * taken from *in; all, if no more follows.  *again: call it again when *out is dealt with, there
 * is more to put.  traced: both have origins.
 */
int lm_norm_step(const struct lm_norm_part *part, struct lm_norm_state *st, struct lm_traced *in,
                 bool traced, bool more, struct lm_traced *out, bool *again, struct lm_err *err);

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
    const char         *name;            /* as a normalizer's                          */
    enum lm_cut_how     how;
    bool                invert;
    enum lm_prefix_when when;            /* MARK                                       */
    struct lm_str       text;            /* PREFIX, MARK                               */
    struct lm_regex    *pattern;         /* REGEX; of HAND, see lm_rules_ready         */
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
    const char      *name;               /* as a normalizer's                          */
    struct lm_str    from, to;           /* MARK, SUFFIX, WORDPIECE, STRIP: from; REPLACE: from
                                            of a pattern that is one text              */
    bool             clean;              /* WORDPIECE: cleanup; MARK: the first's go   */
    size_t           start, stop;        /* STRIP                                      */
    struct lm_regex *pattern;            /* REPLACE                                    */
};

/* ---- all of them --------------------------------------------------------------- */

enum lm_word_kind { LM_WK_BPE, LM_WK_LEVEL, LM_WK_MODEL };

struct lm_rules_work;

struct lm_rules {
    struct lm_arena     arena;           /* the texts of the parts                     */
    const char         *part;            /* name of the one that is read               */
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
    struct lm_growth    grown, shown;    /* by what makes words of text; by the decoders */
};

/* Of a vocabulary that has them; NULL is fine. */
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

/* What the rules run on that the families with ways of their own do not need: patterns, and how
 * much longer text can become, of which LM_ENOSUP names the step that exceeds LM_RULES_GROWTH.
 * Call it once when all parts are read. */
int lm_rules_ready(struct lm_rules *r, struct lm_err *err);

/* Fill in grown, shown and growth; LM_ENOSUP as above (vocab_rules_growth.c). */
int lm_rules_growth(struct lm_rules *r, struct lm_err *err);

/* A short text, normalized, into *out, which is in w. */
int lm_rules_normalize(struct lm_rules_work *w, const char *p, size_t len, struct lm_str *out,
                       struct lm_err *err);

/* What an encoder keeps for its rules (vocab_rules.c). */
struct lm_rules_work *lm_rules_work_new(const struct lm_rules *r);
void lm_rules_work_free(struct lm_rules_work *w);

/* The fragments between added tokens that are not normalized (see lm_tok_model.encode), and
 * those that come in parts (lm_tok_model.part). */
int lm_rules_encode(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err);
int lm_rules_part(struct lm_encoder *e, bool more, struct lm_err *err);

/*
 * struct lm_cuts - the pre-tokenizers on their way through a text (vocab_rules_pre.c).
 *
 * A text is a piece, which the first step cuts into pieces for the second, and so on; those of
 * the last are words.  Pieces come in parts: lm_cuts_push hands over n bytes more of a piece for
 * the first step, `last` says that it ends there, first that it begins the text; a piece has at
 * least a byte.  Words go to `word` of the encoder's lm_rules_words, likewise in parts.
 */
struct lm_cuts;
struct lm_cuts *lm_cuts_new(const struct lm_rules *r);
void lm_cuts_free(struct lm_cuts *c);
/* Forget what is left of a text that failed. */
void lm_cuts_reset(struct lm_cuts *c);
int lm_cuts_push(struct lm_cuts *c, struct lm_encoder *e, const char *p, size_t n,
                 const struct lm_origin *origin, bool first, bool last, struct lm_err *err);

/*
 * struct lm_words - words on their way through the model (vocab_rules_word.c): n bytes more of
 * one, last if it ends there.  A word has at least a byte.
 */
struct lm_words;
struct lm_words *lm_words_new(void);
void lm_words_free(struct lm_words *w);
void lm_words_reset(struct lm_words *w);
int lm_words_push(struct lm_words *w, struct lm_encoder *e, const char *p, size_t n,
                  const struct lm_origin *origin, bool last, struct lm_err *err);
struct lm_words *lm_rules_words(struct lm_encoder *e);

/* ---- ids to text ------------------------------------------------------------------ */

struct lm_rules_detok;
/* At the start of a sequence, for the caller to free; r is borrowed.  NULL when memory is short. */
struct lm_rules_detok *lm_rules_detok_new(const struct lm_rules *r);
void lm_rules_detok_free(struct lm_rules_detok *d);
/* The text of a token comes next; what is certain by now is appended to *out. */
int lm_rules_detok_add(struct lm_rules_detok *d, struct lm_str token, struct lm_buf *out,
                       struct lm_err *err);
/* No more tokens; ready for the next sequence. */
int lm_rules_detok_end(struct lm_rules_detok *d, struct lm_buf *out, struct lm_err *err);
/* The text of a piece that decoders get: of an added token that is looked for in normalized
 * text, what it is there. */
struct lm_str lm_rules_shown(const struct lm_vocab *v, uint32_t id);
/* Fill v->bytes with what each becomes. */
int lm_rules_load_bytes(struct lm_vocab *v, struct lm_err *err);

#endif
