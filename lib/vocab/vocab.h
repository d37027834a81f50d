/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_H
#define LM_VOCAB_H

/*
 * A vocabulary: text to token ids and back.
 *
 *   struct lm_vocab *v = lm_vocab_open("m.gguf", env, &err);
 *   struct lm_encoder *e = lm_encoder_new(v, env, &err);
 *   lm_encoder_text(e, text, len, LM_ENCODE_DEFAULT, &ids, &err);
 *   struct lm_detok *d = lm_detok_new(v, false, &err);
 *   lm_detok_id(d, id, &buf, &err);              for each id, as it comes
 *   lm_detok_end(d, &buf);                       after the last of a sequence
 *
 * A vocabulary is read-only once loaded and may be used by several threads; an
 * encoder or detokenizer belongs to one thread at a time.
 *
 * Text is bytes with a length.  NUL is a byte as any other.  A byte that is not
 * part of well-formed UTF-8 counts as the character U+FFFD where characters are
 * classified, and stays the byte it is: vocabularies that have all bytes give it
 * back.  Byte-level BPE that lacks some of those bytes that no UTF-8 has (C0, C1, F5 to
 * FF) takes all of these for U+FFFD, and leaves out other bytes it has no piece for, as
 * the reference library does (SmolLM2 has no NUL); SPM without byte pieces has its
 * unknown id.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"

struct lm_vocab;

/* tokenizer.ggml.token_type */
enum lm_token_type {
    LM_TOKEN_NORMAL = 1,
    LM_TOKEN_UNKNOWN,
    LM_TOKEN_CONTROL,
    LM_TOKEN_USER,
    LM_TOKEN_UNUSED,
    LM_TOKEN_BYTE,
};

/*
 * lm_vocab_from_gguf - the vocabulary in a file's metadata.
 *
 * Nothing of g is referred to afterwards.  LM_EDATA when the keys are not a
 * vocabulary (wrong type or count, an id out of range, a piece twice);
 * LM_ENOSUP, naming it, for a tokenizer model or pre-tokenizer that this version
 * does not know.  NULL with *err filled.
 */
struct lm_vocab *lm_vocab_from_gguf(const struct lm_gguf *g, const struct lm_env *env,
                                    struct lm_err *err);
/* Does the file say that it has no vocabulary, or nothing of one?  (LM_EDATA above.) */
bool lm_vocab_absent(const struct lm_gguf *g);

/*
 * lm_vocab_open - the vocabulary of a file or a directory.
 *
 * path: a file, "-" for standard input, a pipe; zstd-compressed or not.  What it is, its name
 * tells (*.json, *.tiktoken, *.model, *.txt, *.gguf, a .zst behind it left out), or else its first
 * bytes; vocab.json and merges.txt stand for their directory.  A directory: its tokenizer.json, or
 * else one of the others.  Files beside a tokenizer.json say which of its tokens begin and end a
 * text (hf/hf_named.h).  The text of *err does not name path.
 */
struct lm_vocab *lm_vocab_open(const char *path, const struct lm_env *env, struct lm_err *err);
/* Does lm_vocab_open take it for a GGUF file?  Also true of what cannot be read. */
bool lm_vocab_is_gguf(const char *path);
void lm_vocab_free(struct lm_vocab *v);

/*
 * lm_vocab_hashed_pre - the name that tokenizer.ggml.pre has for this tokenizer, by the ids
 * that it makes of a probe (hf/hf_vocab.h); NULL when nobody has listed them.
 *
 * bos: the start token, also where the tokenizer does not add it; -1: none.  The other one
 * loads the checkpoint's tokenizer.json for it; NULL also when that cannot be.
 */
struct lm_hf_source;
const char *lm_vocab_hashed_pre(const struct lm_vocab *v, int32_t bos);
const char *lm_vocab_hashed_pre_of(struct lm_hf_source *src, int32_t bos);

/* Number of ids. */
uint32_t lm_vocab_n(const struct lm_vocab *v);

/* Of id 0 .. n-1: the text as stored; the bytes it stands for (a control token's are its
 * text); its type; its score, 0 where the file has none.  Valid until lm_vocab_free. */
struct lm_str lm_vocab_text(const struct lm_vocab *v, uint32_t id);
struct lm_str lm_vocab_piece(const struct lm_vocab *v, uint32_t id);
enum lm_token_type lm_vocab_type(const struct lm_vocab *v, uint32_t id);
float lm_vocab_score(const struct lm_vocab *v, uint32_t id);

/* What stands in a prompt that asks for the middle of a text: before its begin, its end, the gap;
 * where there is none; before a repository's name, a file's. */
enum lm_fim {
    LM_FIM_PRE, LM_FIM_SUF, LM_FIM_MID, LM_FIM_PAD, LM_FIM_REP, LM_FIM_SEP, LM_N_FIM
};

/* What else is special of a piece: it ends a generation; blanks before it, behind it go with
 * it; it is found only where no letter stands beside it; it is looked for in normalized text; it is
 * for filling in. */
enum {
    LM_TRAIT_EOG = 1, LM_TRAIT_LSTRIP = 2, LM_TRAIT_RSTRIP = 4, LM_TRAIT_WORD = 8,
    LM_TRAIT_NORMALIZED = 16, LM_TRAIT_FIM = 32,     /* << one of enum lm_fim */
};
unsigned lm_vocab_traits(const struct lm_vocab *v, uint32_t id);

/* "normal", "unknown", "control", "user", "unused", "byte". */
const char *lm_token_type_name(enum lm_token_type t);

/* The id whose stored text is exactly these bytes, or -1. */
int32_t lm_vocab_find(const struct lm_vocab *v, const void *text, size_t len);

/* Special ids, -1 where there is none. */
int32_t lm_vocab_bos(const struct lm_vocab *v);
int32_t lm_vocab_eos(const struct lm_vocab *v);
int32_t lm_vocab_eot(const struct lm_vocab *v);      /* end of a turn */
/* Does encoding put the start token in front? */
bool lm_vocab_add_bos(const struct lm_vocab *v);

/*
 * lm_vocab_eog - the ids that end a generation, ascending, *n of them.
 *
 * The file's eos, eot and eom ids, and the pieces that models are known to end a
 * turn with (`<|im_end|>`, `<end_of_turn>`, ...).
 */
const int32_t *lm_vocab_eog(const struct lm_vocab *v, size_t *n);
bool lm_vocab_is_eog(const struct lm_vocab *v, int32_t id);

/* Ids that grow.  Zero-initialise, release.  With want_spans set, span[i] says which
 * bytes of the text id[i] was made of (len 0: of none, as a start token); where
 * normalization changed the text, to the nearest character. */
struct lm_span {
    size_t at, len;
};

struct lm_ids {
    int32_t        *id;
    size_t          n, cap;
    bool            want_spans;
    struct lm_span *span;
    size_t          span_cap;
};

/* Give back its memory, and leave it empty. */
void lm_ids_release(struct lm_ids *ids);

enum {
    LM_ENCODE_SPECIAL = 1,   /* add the start and end tokens the vocabulary wants       */
    LM_ENCODE_PARSE   = 2,   /* text of control tokens becomes the control token; pieces
                                of type user are always recognised                     */
    LM_ENCODE_MORE    = 4,   /* the text goes on in the next call                        */
    LM_ENCODE_ON      = 8,   /* it goes on from the last call of this encoder            */
    LM_ENCODE_NO_BOS  = 16,  /* but no start token                                       */
    LM_ENCODE_EOS     = 32,  /* an end token, whatever the vocabulary wants              */
    LM_ENCODE_SEP     = 64,  /* a separator behind all                                   */
    LM_ENCODE_DEFAULT = LM_ENCODE_SPECIAL | LM_ENCODE_PARSE,
};

/* Scratch memory and a cache of words, both kept between texts.  v and env (may be
 * NULL: silent) are borrowed. */
struct lm_encoder;
struct lm_encoder *lm_encoder_new(const struct lm_vocab *v, const struct lm_env *env,
                                  struct lm_err *err);
void lm_encoder_free(struct lm_encoder *e);

/*
 * lm_encoder_text - append the ids of len bytes of text to *ids.
 *
 * Takes time in proportion to len (times its logarithm for one very long word) and
 * never recurses on it.  Notes once if the text itself begins with the start token that
 * is put in front, or ends in the end token.  LM_EDATA when a token is to be added that the
 * vocabulary has not got; *ids is unchanged on failure.
 *
 * A text may come in parts, cut anywhere: all but the last with LM_ENCODE_MORE, all but the
 * first with LM_ENCODE_ON, nothing else in between, and the ids are those of the whole.  They
 * are appended as soon as no text that follows can change them; what waits is kept here, and is
 * little but where tokenize(1) says otherwise.  Spans are in the whole text; with them more is
 * kept.
 */
int lm_encoder_text(struct lm_encoder *e, const char *text, size_t len, unsigned flags,
                    struct lm_ids *ids, struct lm_err *err);

/*
 * lm_encoder_to - hand ids over as they come, so that memory stays what it is.
 *
 * take (NULL: nobody) is called from within lm_encoder_text when *ids holds enough of a text
 * to be worth it, and empties it; what is left in the end is the caller's as usual.  It
 * returns LM_OK or the error that ends the encoding; ids that were taken are not given back
 * on failure.
 */
typedef int lm_take_ids(void *arg, struct lm_ids *ids, struct lm_err *err);
void lm_encoder_to(struct lm_encoder *e, lm_take_ids *take, void *arg);

/* The same for text that is partly somebody else's: a byte with guard[i] set (len of them;
 * NULL: none) is never part of a control token, whatever the flags. */
int lm_encoder_guarded(struct lm_encoder *e, const char *text, const unsigned char *guard,
                       size_t len, unsigned flags, struct lm_ids *ids, struct lm_err *err);

/* One text, with an encoder that lives only for it. */
int lm_vocab_encode(const struct lm_vocab *v, const char *text, size_t len, unsigned flags,
                    struct lm_ids *ids, struct lm_err *err);

/*
 * struct lm_detok - ids to text, a piece at a time.
 *
 * Bytes come out as soon as they complete a character or cannot be part of one.
 * Control and unknown tokens give no text unless `special`.  Where the encoder puts a
 * space in front of text, it is taken off again.  v is borrowed.
 */
struct lm_detok;
struct lm_detok *lm_detok_new(const struct lm_vocab *v, bool special, struct lm_err *err);
void lm_detok_free(struct lm_detok *d);

/* Append the text that id completes to *out; LM_EDATA, naming id and size, when it is
 * not in the vocabulary. */
int lm_detok_id(struct lm_detok *d, int32_t id, struct lm_buf *out, struct lm_err *err);
/* End of a sequence: append what is held back, be ready for the next. */
void lm_detok_end(struct lm_detok *d, struct lm_buf *out);

#endif
