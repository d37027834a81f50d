/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_TOKENIZER_H
#define LM_VOCAB_TOKENIZER_H

/*
 * The inside of a vocabulary, shared by the files of this folder.
 *
 * To add a tokenizer model (WordPiece, Unigram, ...): a file with its load and encode
 * functions and its row at the foot, the row's name in models.c.
 */

#include "vocab/pretok.h"
#include "vocab/unicode.h"
#include "vocab/vocab.h"

/* Strings one after the other: string i is data[at[i]] .. data[at[i + 1]]. */
struct lm_pool {
    char     *data;
    uint32_t *at;
};

/* Open addressing over the strings of a pool; id 0 is stored as 1. */
struct lm_text_slot {
    uint32_t hash, id_1;
};

/* Merge `rank`: left and right become id. */
struct lm_merge {
    uint32_t left, right, id;
};

struct lm_pair_slot {
    uint32_t left, right, id, rank_1;            /* rank_1 0: empty */
};

enum {
    LM_ATTR_LSTRIP = 1,      /* spaces before the piece go with it                   */
    LM_ATTR_RSTRIP = 2,      /* spaces behind it                                     */
    LM_ATTR_MERGED = 4,      /* a merge makes it                                     */
};

struct lm_vocab {
    const struct lm_tok_model *model;
    const struct lm_pretok    *pre;              /* NULL: the model cuts no words    */
    char                       pre_name[64];
    uint32_t                   n;
    struct lm_pool             text, bytes;      /* as stored; what they stand for   */
    uint8_t                   *type, *attr;
    float                     *score;            /* NULL: none                       */
    uint32_t                   longest;          /* text of a piece, in bytes        */
    struct lm_text_slot       *slots;
    uint32_t                   slot_mask;

    int32_t                    bos, eos, unk;
    bool                       add_bos, add_eos, space_prefix;
    int32_t                   *eog;
    size_t                     n_eog;

    /* pieces that are recognised in text before it is cut: ids in the order of their
     * text; those that begin with byte b are added[added_at[b]] .. added[added_at[b+1]] */
    uint32_t                  *added;
    uint32_t                   added_at[257];

    unsigned                   norm;             /* LM_NORM_: what text goes through */
    int32_t                    byte_id[256];     /* piece of a single byte, or -1    */
    struct lm_merge           *merges;           /* byte-level BPE                   */
    uint32_t                   n_merges;
    struct lm_pair_slot       *pairs;
    uint32_t                   pair_mask;
    bool                       space_starts;     /* SPM: no piece goes on over a space */
};

/* How many words and how long the cache keeps them. */
enum { LM_MEMO_BYTES = 24, LM_MEMO_IDS = 9, LM_MEMO_SLOTS = 1 << 15 };

struct lm_memo {
    uint64_t text[3];                            /* zeros behind len bytes           */
    uint8_t  len, n;
    int32_t  id[LM_MEMO_IDS];
};

/* A symbol of a word that is being merged: a doubly linked list in text order. */
struct lm_sym {
    uint32_t id, len, prev, next;
};

struct lm_heap_item {
    uint64_t key;                                /* smallest first                   */
    uint32_t size;
};

struct lm_encoder {
    const struct lm_vocab *v;
    const struct lm_env   *env;
    bool                   warned_bos, warned_eos;
    struct lm_memo        *words;
    struct lm_sym         *sym;
    size_t                 sym_cap;
    struct lm_heap_item   *heap;
    size_t                 heap_n, heap_cap;
    struct lm_buf          norm;                 /* a fragment, normalized           */
    struct lm_buf          scratch;

    /* of the text being encoded */
    struct lm_ids         *ids;
    size_t                 base;                 /* where the fragment begins in it  */
    size_t                 pos;                  /* bytes of the normalized fragment done */
    const unsigned char   *guard;                /* see lm_encoder_guarded; NULL: none   */
    struct lm_remap        map;
};

/* A kind of tokenizer: tokenizer.ggml.model. */
struct lm_tok_model {
    const char *name;
    int32_t     bos, eos, unk;                   /* when the file does not say; -1: none */
    bool        add_bos;

    /* Fill in what is the model's own; the pieces, their types and scores are there.
     * v->bytes is to be filled. */
    int (*load)(struct lm_vocab *v, const struct lm_gguf *g, const struct lm_env *env,
                struct lm_err *err);

    /* Append the ids of a fragment without special pieces.  first: it begins the text
     * or follows a special piece. */
    int (*encode)(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err);
};

extern const struct lm_tok_model lm_tok_gpt2, lm_tok_llama;

/* The row of a model by name, or NULL. */
const struct lm_tok_model *lm_tok_model_find(const char *name, size_t len);

static inline const char *lm_pool_get(const struct lm_pool *p, uint32_t i, size_t *len)
{
    *len = p->at[i + 1] - p->at[i];
    return p->data + p->at[i];
}

/* Room for n strings of `size` bytes in all. */
bool lm_pool_init(struct lm_pool *p, uint32_t n, size_t size);
void lm_pool_release(struct lm_pool *p);

/* Build v->slots from v->text; LM_EDATA when a text is there twice. */
int lm_vocab_index(struct lm_vocab *v, struct lm_err *err);

/* Collect and sort v->added: pieces of type control, user and unknown. */
int lm_vocab_sort_added(struct lm_vocab *v, struct lm_err *err);

/*
 * lm_vocab_match - the leftmost, then longest, special piece in p[0..len).
 *
 * parse: also those of type control and unknown, where no byte has guard[i] set (guard may
 * be NULL).  *id and where it stands, *at and *end, with the spaces that go with it; false
 * if there is none.
 */
bool lm_vocab_match(const struct lm_vocab *v, const char *p, const unsigned char *guard,
                    size_t len, bool parse, uint32_t *id, size_t *at, size_t *end);

/* For the models' encode functions: append an id made of the next `bytes` bytes of the
 * normalized fragment; id -1 appends nothing but counts the bytes.  False: no memory. */
bool lm_encoder_put(struct lm_encoder *e, int32_t id, size_t bytes);

/* The cache: the slot for a word, *hit whether it holds it.  NULL for one that is
 * too long to keep.  limit: bytes up to there may be read. */
struct lm_memo *lm_encoder_memo(struct lm_encoder *e, const char *p, size_t len,
                                const char *limit, bool *hit);
/* Keep ids[from ..] as what the word became, if they are few enough. */
void lm_encoder_keep(struct lm_encoder *e, struct lm_memo *w, size_t from);

/* A binary heap, smallest key first; push false: no memory. */
bool lm_heap_push(struct lm_encoder *e, uint64_t key, uint32_t size);
struct lm_heap_item lm_heap_pop(struct lm_encoder *e);

#endif
