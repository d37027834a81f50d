/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_TOKENIZER_H
#define LM_VOCAB_TOKENIZER_H

/*
 * The inside of a vocabulary, shared by the files of this folder.
 *
 * To add a tokenizer model (WordPiece, Unigram, ...): a file with its load and encode
 * functions and its row at the foot, the row's name in models.c.
 */

#include <string.h>

#include "hf/hf_named.h"
#include "vocab/pretok.h"
#include "vocab/trie.h"
#include "vocab/unicode.h"
#include "vocab/vocab.h"

/* Strings one after the other: string i is data[at[i]] .. data[at[i + 1]].  One block of malloc,
 * which begins at `at`. */
struct lm_pieces {
    char     *data;
    uint32_t *at;
};

/* How the texts of pieces are joined: the space in front of the first is dropped ... */
enum lm_join {
    LM_JOIN_PREFIX,          /* where one was added, also behind pieces of type user */
    LM_JOIN_WORDS,           /* at the begin of a sequence                           */
    LM_JOIN_MARKS,           /* likewise, all of them                                */
    LM_JOIN_ONE,             /* one, as SentencePiece does that puts one in front    */
    LM_JOIN_EACH,            /* of each piece until there is text, as it does where it
                                makes one space of many                              */
};

/* Left and right become id. */
struct lm_merge {
    uint32_t left, right, id;
};

/* The merges in their order, and where in that a pair is: open addressing over its number plus
 * 1, 0: empty, with bits of its hash above those that the number needs.  A few bits a slot tell
 * quickly of most pairs that they have none. */
struct lm_pairs {
    uint64_t        *seen;                       /* of the table that all lie in     */
    uint32_t        *slot;
    struct lm_merge *merge;                      /* [n]                              */
    uint32_t         n, mask, number;            /* number: those bits of a slot     */
    bool             by_id;                      /* ids are the order of the merges  */
};

/* Characters that stand beside each other in a piece (bonds.c). */
struct lm_bonds {
    uint64_t  ascii[128][2];
    uint64_t *wide;
    bool      all;                               /* nothing may be cut               */
};

/* Bytes behind texts that may be read, though they say nothing. */
enum { LM_SLACK = LM_GGUF_SLACK };

/* U+2581, in the place of a space in the pieces of some vocabularies. */
enum { LM_MARK = 0x2581 };

enum {
    LM_ATTR_LSTRIP = 1,      /* spaces before the piece go with it                   */
    LM_ATTR_RSTRIP = 2,      /* spaces behind it                                     */
    LM_ATTR_MERGED = 4,      /* a merge makes it                                     */
    LM_ATTR_WORD   = 8,      /* only where no letter, digit or mark stands beside it */
    LM_ATTR_NORMALIZED = 16, /* looked for in normalized text, by the rules          */
    LM_ATTR_ADDED  = 32,     /* no piece of the model: a word of its text is another */
};

/* Pieces that are recognised in text before it is cut (added.c).  Where spaces are marks, runs of
 * them that are pieces stand apart: that of n spaces is blank[n], or NONE. */
enum { LM_MOST_BLANKS = 64 };

struct lm_added {
    struct lm_pieces text;
    uint32_t        *id, n;
    size_t           longest;                    /* in bytes                         */
    struct lm_trie   trie;                       /* of them, each with its number here */
    struct lm_added_link {
        uint32_t depth;                          /* of a node                        */
        uint32_t fail;                           /* its longest end that begins a piece */
        uint32_t ends;                           /* the longest that is one, 0: none */
    } *link;                                     /* [trie.n]                         */
    uint32_t         blank[LM_MOST_BLANKS + 1];
    uint32_t         most_blanks;                /* the highest n, 0: there are none */
    bool             begins[256];                /* may a piece begin with this byte? */
};

/* Where a byte of normalized text came from: bytes from .. to of the fragment. */
struct lm_origin {
    size_t from, to;
};

struct lm_vocab {
    const struct lm_tok_model *model;
    struct lm_rules           *rules;            /* of its tokenizer.json; NULL: none needed */
    struct lm_pretok           pre;              /* how words are cut, in byte-level BPE */
    char                       pre_name[64];
    uint32_t                   n;
    struct lm_pieces           text, bytes;      /* as stored; what they stand for   */
    uint8_t                   *type, *attr;
    float                     *score;            /* NULL: none                       */
    uint32_t                   longest;          /* text of a piece, in bytes        */
    uint32_t                   reach;            /* of text that merges make one piece of */
    uint32_t                  *slots;            /* see lm_pairs: ids by their text's hash */
    uint32_t                   slot_mask, slot_id;   /* slot_id: the bits of a slot for that */

    int32_t                    bos, eos, eot, unk, sep, fim[LM_N_FIM];
    char                      *lacks[LM_N_NAMED];        /* why bos, eos, sep is not there */
    bool                       add_bos, add_eos, space_prefix;
    int32_t                   *eog;
    size_t                     n_eog;

    bool                       doubles;          /* of pieces with the same text the last counts,
                                                    else there must be none          */
    bool                       user_inside;      /* those of type user are left to the model */
    struct lm_added            added;
    int32_t                   *before, *after;   /* more ids in front and behind, next to the
                                                    start and end tokens             */
    size_t                     n_before, n_after;

    unsigned                   norm;             /* LM_NORM_: what text goes through */
    int32_t                    byte_id[256];     /* piece of a single byte, or -1    */
    uint32_t                   n_merges;
    enum lm_join               join;
    void                      *own;              /* the model's, see lm_tok_model        */
    struct lm_pairs            pairs;            /* what they join                   */
    bool                       by_lines;         /* no word and no special piece goes on from
                                                    a newline to a letter of ASCII   */
    bool                       lone_lines;       /* ... if no blank stands before it */

    /* models whose first symbols are characters */
    bool                       by_char, by_score;        /* keys of merges are scores */
    bool                       by_id;            /* the scores say nothing: ids stand for them */
    bool                       marks;            /* spaces are marks                 */
    bool                       chars, byte_fallback;     /* BPE of characters        */
    uint32_t                  *rune_id;          /* piece of a character below U+10000 */
    uint32_t                   mark_id;          /* symbol of a space                */
    struct lm_bonds            bonds;
};

/* How many words and how long the cache keeps them. */
enum { LM_MEMO_BYTES = 24, LM_MEMO_IDS = 9, LM_MEMO_SLOTS = 1 << 15 };

struct lm_memo {
    uint64_t text[3];                            /* zeros behind len bytes           */
    uint8_t  len, n;
    int32_t  id[LM_MEMO_IDS];
};

/* A word whose slot in the cache is being fetched from memory. */
enum { LM_AHEAD = 32 };

struct lm_word {
    const char *p;
    size_t      len;
    uint64_t    key[3];
    uint32_t    slot;
    bool        lead, keyed;                     /* a space before it; may be cached  */
};

/* A symbol of a word that is being merged: a doubly linked list in text order. */
struct lm_sym {
    uint32_t id, len, prev, next;
    bool     there;                              /* not joined to the one before it  */
};

struct lm_heap_item {
    uint64_t key;                                /* smallest first                   */
    uint32_t size, to;
};

/* A pair whose joined text was looked up: when it is merged, smallest first, and the id that it
 * becomes. */
enum { LM_PAIR_MEMOS = 1 << 14 };

struct lm_pair_memo {
    uint32_t left, right_1, key, to;             /* right_1 0: empty                 */
};

/* The best way through a word, as far as it is known (unigram.c, plamo2.c). */
struct lm_way {
    size_t done;                                 /* bytes before what is left        */
    size_t at, upto, wait;                       /* places from its begin            */
    size_t into;                                 /* length of the piece before that  */
    size_t unknown;                              /* bytes of a stretch not put out yet */
    size_t unknown_at;                           /* with spans: where it begins, if `early` */
    bool   in_unknown, begun, early;
};

/* The best way to a place: by piece id, -1 unknown text, which is back bytes long. */
struct lm_way_node {
    union {
        double   score;
        int64_t  cost;
        uint32_t forth;                          /* once the way is settled          */
    };
    uint32_t back;                               /* 0: no way yet                    */
    int32_t  id;
};

/* Where SentencePiece's normalization stands (spm_text.h). */
struct lm_spm_state {
    bool begun, after_space;
};

/* What a model keeps of a fragment that comes in parts. */
struct lm_model_parts {
    bool   started, begun, gap;                    /* see struct words in unigram.c    */
    struct lm_way way;
    size_t head;                                 /* of the text's begin: done, but still looked
                                                    at (bpe_parts.c)                 */
    bool   in_lines;                             /* in a run of newlines (bpe_utf8.c)  */
    struct lm_spm_state spm;
    bool   open;                                 /* the last id was unknown          */
    size_t normal_at, put;                       /* see struct words in unigram.c    */
};

/* A text that comes in parts (text_parts.c). */
struct lm_pick;
struct lm_parts {
    struct lm_buf raw;                           /* not looked through for special pieces */
    struct lm_pick *pick;                        /* where that stands                */
    size_t seen;                                 /* in raw, see new_line             */
    size_t before;                               /* bytes before raw                 */
    size_t raw_wait, text_wait, words_wait;      /* that much has to be there before it is
                                                    looked at again                  */
    bool   split;                                /* see text_parts.c                 */
    bool   started;                              /* some of the fragment was handed over */
    size_t text_done, words_done;                /* bytes of it taken from text, put in words */
    struct lm_remap map, normal;                 /* of a stretch; Unigram: of words  */
    size_t was;                                  /* see lm_parts_map                 */

    /* for the model */
    bool                  first;                 /* nothing was done since a special piece */
    struct lm_buf         text;                  /* of the fragment, not settled     */
    struct lm_buf         words;                 /* the same, normalized             */
    struct lm_model_parts model;
};

struct lm_encoder {
    const struct lm_vocab *v;
    const struct lm_env   *env;
    bool                   warned_bos, warned_eos;
    struct lm_memo        *words;
    struct lm_word         ahead[LM_AHEAD];
    size_t                 n_ahead;
    struct lm_sym         *sym;
    size_t                 sym_cap;
    struct lm_heap_item   *heap;
    size_t                 heap_n, heap_cap;
    struct lm_pair_memo   *pairs;                /* with v->by_score                 */
    char                  *joined;               /* room for two pieces              */
    struct lm_buf          norm;                 /* a fragment, normalized           */
    struct lm_buf          scratch;
    void                  *work;                 /* of the model, from lm_grow       */
    size_t                 work_cap;

    lm_take_ids           *take;                 /* see lm_encoder_to; NULL: nobody  */
    void                  *take_arg;

    /* of the text being encoded */
    bool                   taken;                /* ids were handed over             */
    bool                   passed;               /* there were ids                   */
    int32_t                first_id, last_id;    /* of those                         */
    size_t                 from;                 /* in ids, begin of what is left    */
    struct lm_ids         *ids;
    size_t                 base;                 /* where the fragment begins in it  */
    size_t                 pos;                  /* bytes of the normalized fragment done */
    const unsigned char   *guard;                /* see lm_encoder_guarded; NULL: none   */
    struct lm_remap        map;
    const struct lm_origin *origin;              /* of the word; NULL: map has it    */
    bool                   parse;                /* control tokens are recognised    */
    struct lm_rules_work  *rules;                /* see vocab_rules.h                */
    struct lm_parts       *parts;                /* NULL: no text came in parts      */
    size_t                 window;               /* bytes of a long word worked on at a time */
};

/* Not said by the source; -1 is "there is none". */
enum { LM_UNSAID = -2 };

/*
 * What a vocabulary is made of, whatever file that was in.  Zero-initialise with
 * LM_VOCAB_SRC; all is borrowed while lm_vocab_load runs.  Ids are in range.
 */
struct lm_vocab_src {
    struct lm_str        model, pre, name;   /* tokenizer model, pre-tokenizer, general.name */
    const struct lm_str *tokens;             /* [n]                                     */
    uint64_t             n;
    const int32_t       *types, *int_scores; /* [n] or NULL                             */
    const float         *scores;             /* [n] or NULL                             */
    const uint8_t       *attr;               /* [n] LM_ATTR_ bits, NULL: not known      */
    const struct lm_str *merges;             /* "left right", NULL: not there           */
    const struct lm_hf_merge *parts;         /* the same in two, instead                */
    uint64_t             n_merges;
    bool                 slack;              /* behind tokens and merges LM_SLACK bytes
                                                may be read                             */
    const struct lm_pretok *pretok;          /* its steps, instead of those by the name */
    struct lm_rules     *rules;              /* of a tokenizer.json; lm_vocab_load takes
                                                them over, whatever comes of it         */
    const int32_t       *before, *after;     /* see struct lm_vocab                     */
    size_t               n_before, n_after;
    int32_t              bos, eos, unk, eot, eom;
    const int32_t       *ends;               /* [n_ends] other ids that end a generation; those
                                                out of range are none                   */
    size_t               n_ends;
    const char          *lacks[LM_N_NAMED];  /* what messages say where bos, eos, sep is not
                                                there: which field of which file names none */
    int32_t              fim_1[LM_N_FIM];    /* plus 1; 0: not said                     */
    int                  add_bos, add_eos, space_prefix;    /* 0, 1, LM_UNSAID          */
    int                  nfc, whole_words;   /* 0, 1; LM_UNSAID: as the pre-tokenizer   */
    bool                 byte_fallback;      /* BPE of characters: unknown ones are bytes */
    bool                 by_ranks;           /* no merges: ids are ranks (ranks.c)      */
    bool                 words;              /* who asks normalizes and cuts text himself,
                                                only the model's word function is used  */

    /* Unigram, SentencePiece */
    const double        *scores64;           /* [n] or NULL; instead of scores          */
    struct lm_str        charsmap;           /* precompiled_charsmap, len 0: none       */
    int                  extra_spaces;       /* remove_extra_whitespaces                */
    bool                 sentencepiece;      /* by the rules of that library, not of
                                                Hugging Face's                          */
    bool                 space_suffix;       /* the added space stands behind           */

    /* WordPiece */
    const char          *go_on;              /* what pieces inside a word begin with, "##";
                                                NULL: U+2581 begins the others, as in GGUF */
    uint64_t             max_word;           /* longer ones are unknown, characters; 0: 100 */
    int                  lowercase, strip_accents;
    int32_t              sep;
};

#define LM_VOCAB_SRC { .model = { "", 0 }, .pre = { "", 0 }, .name = { "", 0 }, \
    .bos = LM_UNSAID, .eos = LM_UNSAID, .unk = LM_UNSAID, .eot = LM_UNSAID, .eom = LM_UNSAID, \
    .add_bos = LM_UNSAID, .add_eos = LM_UNSAID, .space_prefix = LM_UNSAID, \
    .nfc = LM_UNSAID, .whole_words = LM_UNSAID, .extra_spaces = LM_UNSAID, \
    .lowercase = LM_UNSAID, .strip_accents = LM_UNSAID, .sep = LM_UNSAID }

struct lm_vocab *lm_vocab_load(const struct lm_vocab_src *src, const struct lm_env *env,
                               struct lm_err *err);

/* Take the ids of special tokens that src does not say, and more ends of a generation, from what
 * other files name.  src->tokens is there; x has to live as long as src is used. */
void lm_take_named(struct lm_vocab_src *src, struct lm_hf_named *x);

/* The vocabulary in a tokenizer.json, whose len bytes of text are borrowed.  LM_ENOSUP,
 * naming it, for anything in it that this version would not do as the library does.  The other
 * one knows what the files beside it name (NULL: nothing). */
struct lm_vocab *lm_vocab_from_json(const char *text, size_t len, const struct lm_env *env,
                                    struct lm_err *err);
struct lm_vocab *lm_vocab_from_json_beside(const char *text, size_t len,
                                           struct lm_hf_named *beside, const struct lm_env *env,
                                           struct lm_err *err);

/* The vocabulary in a SentencePiece model file, BPE or Unigram, as that library has it: it adds
 * no start and end tokens.  LM_ENOSUP for words and characters. */
struct lm_vocab *lm_vocab_from_spm(const char *data, size_t len, const struct lm_env *env,
                                   struct lm_err *err);

/* The vocabulary of a directory without a tokenizer.json: a SentencePiece model, vocab.txt,
 * vocab.json and merges.txt, or a list of byte strings, with what stands beside them; that of a
 * vocab.txt alone. */
struct lm_vocab *lm_vocab_from_hf(const char *path, const struct lm_env *env, struct lm_err *err);
struct lm_vocab *lm_vocab_from_txt(const char *data, size_t len, const struct lm_env *env,
                                   struct lm_err *err);

/* tiktoken's ranks, Mistral's tekken.json, RWKV's list of pieces (hf/rank_files.h). */
struct lm_vocab *lm_vocab_from_ranks(const char *data, size_t len, const struct lm_env *env,
                                     struct lm_err *err);
struct lm_vocab *lm_vocab_from_tekken(const char *data, size_t len, const struct lm_env *env,
                                      struct lm_err *err);
struct lm_vocab *lm_vocab_from_rwkv(const char *data, size_t len, const struct lm_env *env,
                                    struct lm_err *err);

/* Do the first bytes of a file begin such a model?  With a piece and its text, that is. */
bool lm_looks_like_spm(const unsigned char *head, size_t len);

/* A kind of tokenizer: tokenizer.ggml.model. */
struct lm_tok_model {
    const char *name;
    int32_t     bos, eos, unk;                   /* when the file does not say; -1: none */
    bool        add_bos, add_eos;
    bool        adds_none;                       /* whatever the file says           */
    bool        json_only;                       /* no name in GGUF files            */

    /* Fill in what is the model's own; the pieces, their types and scores are there.
     * v->bytes is to be filled. */
    int (*load)(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err);

    /* Append the ids of a fragment without special pieces.  first: it begins the text
     * or follows a special piece. */
    int (*encode)(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err);

    /* The same for a fragment that comes in parts (text_parts.c): take from the begin of
     * e->parts->text what no text that follows can change, at the end, if not more, all.
     * NULL: a fragment has to be there as a whole. */
    int (*part)(struct lm_encoder *e, bool more, struct lm_err *err);

    /* Append the ids of one word, for models that call lm_encoder_word. */
    int (*encode_word)(struct lm_encoder *e, const char *p, size_t len, bool lead,
                       struct lm_err *err);

    /* Append the ids of one word, len > 0 bytes that are normalized and cut already; bytes
     * up to limit may be read.  NULL: the model has no such thing. */
    int (*word)(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                struct lm_err *err);
    /* The same for one that goes on (more): *done bytes of it are settled.  w is zero at first;
     * what it has of unknown text is not put out yet.  NULL: see most. */
    int (*word_part)(struct lm_encoder *e, struct lm_way *w, const char *p, size_t len, bool more,
                     size_t *done, struct lm_err *err);
    /* A word of more bytes than that is unknown. */
    uint64_t (*most)(const struct lm_vocab *v);

    /* Give back what v->own has; v->own may be NULL.  NULL: nothing to do. */
    void (*release)(struct lm_vocab *v);
};

extern const struct lm_tok_model lm_tok_gpt2, lm_tok_llama, lm_tok_chars, lm_tok_t5, lm_tok_bert,
    lm_tok_rwkv, lm_tok_plamo2, lm_tok_gemma4, lm_tok_rules;

/* The row of a model by name, or NULL. */
const struct lm_tok_model *lm_tok_model_find(const char *name, size_t len);

static inline const char *lm_pieces_get(const struct lm_pieces *p, uint32_t i, size_t *len)
{
    *len = p->at[i + 1] - p->at[i];
    return p->data + p->at[i];
}

/* Room for n strings of `size` bytes in all, and LM_SLACK behind them. */
bool lm_pieces_init(struct lm_pieces *p, uint32_t n, size_t size);
void lm_pieces_release(struct lm_pieces *p);

/* Collect and sort v->added: pieces of type control, user and unknown. */
int lm_vocab_sort_added(struct lm_vocab *v, struct lm_err *err);

/* The n texts, each with its id; empty ones are left out, of equal ones the first counts. */
int lm_added_init(struct lm_added *a, const struct lm_str *text, const uint32_t *id, uint32_t n,
                  struct lm_err *err);
void lm_added_release(struct lm_added *a);

/*
 * lm_added_match - the leftmost, then longest, added piece that begins in p[*seek..limit).
 *
 * parse: also those of type control and unknown, where no byte has guard[i] set (guard may
 * be NULL).  *id and where it stands, *at and *end, with the spaces that go with it; those in
 * front only from done on, where the last one ended.  False if there is none.  *seek is then
 * where to look for the next: its spaces may be part of that, which then begins, and may end,
 * before done.  limit: len, or less for text that goes on.
 */
bool lm_added_match(const struct lm_vocab *v, const struct lm_added *a, const char *p,
                    const unsigned char *guard, size_t *seek, size_t done, size_t len,
                    size_t limit, bool parse, uint32_t *id, size_t *at, size_t *end);

/* Merges of v from src (bpe.c).  meanwhile: what another thread may do at the same time, which
 * neither needs merges nor changes what finds pieces by their text; NULL: nothing. */
int lm_bpe_load(struct lm_vocab *v, const struct lm_vocab_src *src,
                void (*meanwhile)(struct lm_vocab *v), const struct lm_env *env,
                struct lm_err *err);

/* Byte-level BPE of text that comes in parts: part of struct lm_tok_model (bpe_parts.c). */
int lm_bpe_part(struct lm_encoder *e, bool more, struct lm_err *err);

/* The same without a list: whatever two pieces make a piece, by ids (ranks.c). */
int lm_ranks_load(struct lm_vocab *v, struct lm_err *err);

/* A table with room for n merges, to be filled in; ask fetches the place of number i and gives
 * the hash it is added with.  Of a pair that is added twice the later merge counts, as in the
 * reference (merge.c). */
int lm_pairs_init(struct lm_pairs *t, uint32_t n, struct lm_err *err);
void lm_pairs_release(struct lm_pairs *t);
uint64_t lm_pairs_ask(const struct lm_pairs *t, uint32_t i);
void lm_pairs_add(struct lm_pairs *t, uint32_t i, uint64_t hash);

/*
 * lm_merge - append the tokens that a word becomes by merging.
 *
 * Its symbols are v's, bytes or characters; lead: the mark of a space before them.  Time in
 * proportion to len, memory bounded.
 */
int lm_merge(struct lm_encoder *e, const char *p, size_t len, bool lead, struct lm_err *err);

/*
 * lm_merge_ids - append the tokens that the symbols id[0 .. n) become, each by lm_encoder_put with
 * the number of its symbols.  If more symbols may follow, *done of them are in the tokens, and what
 * is left is a word by itself; that takes at least three windows of symbols, else *done is 0.
 */
int lm_merge_ids(struct lm_encoder *e, const uint32_t *id, size_t n, bool more, size_t *done,
                 struct lm_err *err);

/*
 * lm_merge_begin - append the tokens at the begin of a word that are settled.
 *
 * len bytes of it are there, more may follow; *done of them are in the tokens, and what is left
 * is a word by itself.  A few windows are left, all if the word is not longer than that.
 */
int lm_merge_begin(struct lm_encoder *e, const char *p, size_t len, bool lead, size_t *done,
                   struct lm_err *err);
/* Fill in v->reach. */
void lm_merge_measure(struct lm_vocab *v);
/* The least that is worth a call; SIZE_MAX: words of this vocabulary are merged as a whole. */
size_t lm_merge_window(const struct lm_encoder *e);

/*
 * lm_best_way - the best way through a word, or, if more of it may follow p[0 .. len), as far as
 * that is settled: *done bytes, which are to be left out when it is called with the text again.
 *
 * extend takes the way to the place of p, where a character of k bytes stands, on to all places
 * that pieces there reach: node[n] is that of n bytes further.  put appends what the next len
 * bytes become.  w is zero at first.  False: no memory.
 */
struct lm_way_model {
    void (*extend)(struct lm_encoder *e, struct lm_way *w, const char *p, const char *end,
                   struct lm_way_node *node, int k, uint32_t rune);
    bool (*put)(struct lm_encoder *e, struct lm_way *w, const char *p, size_t len, int32_t id);
};

bool lm_best_way(struct lm_encoder *e, const struct lm_way_model *m, struct lm_way *w,
                 const char *p, size_t len, bool more, size_t *done);

/* Bonds between characters: those of a piece's text are added; where the word at p ends.
 * lead: a space stands before it. */
bool lm_bonds_init(struct lm_bonds *b);
void lm_bonds_release(struct lm_bonds *b);
void lm_bonds_add(struct lm_bonds *b, const char *p, size_t len);
/* Is there none between a newline and a letter of ASCII? */
bool lm_bonds_by_lines(const struct lm_bonds *b);
const char *lm_bonds_end(const struct lm_bonds *b, const char *p, const char *end, bool lead);

/*
 * Symbols (symbol.c).  lm_char_pieces makes v one whose first symbols are characters.
 * lm_next_symbol gives the symbol at p, and how many bytes it is: a piece; or, where there
 * is none, for scores a symbol that says the character, otherwise its bytes or the unknown id.
 * lm_symbol_bytes writes the character of a symbol that is no piece.
 * lm_scored: may text become this piece?  Not a control token, and not a byte by its name.
 */
int lm_char_pieces(struct lm_vocab *v, struct lm_err *err);
size_t lm_next_symbol(const struct lm_vocab *v, const char *p, const char *end, uint32_t *id);
size_t lm_symbol_bytes(uint32_t id, char to[4]);
bool lm_put_symbol(struct lm_encoder *e, uint32_t id, uint32_t len);
bool lm_scored(const struct lm_vocab *v, uint32_t id);

/*
 * Vocabularies that have the mark U+2581 in the place of a space (spm.c).
 */

/* Encode a fragment of such a vocabulary. */
int lm_marked_encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                     struct lm_err *err);
/* The same for one that comes in parts, see part in struct lm_tok_model; and of any text:
 * *done bytes of it are settled. */
int lm_marked_parts(struct lm_encoder *e, bool more, struct lm_err *err);
int lm_marked_part(struct lm_encoder *e, const char *p, size_t len, bool more, bool *first,
                   size_t *done, struct lm_err *err);
/* The bytes that piece i stands for: a byte, or text with spaces again; at most as many as
 * the piece has.  Returns their number. */
size_t lm_marked_bytes(const struct lm_vocab *v, uint32_t i, char *to);
/* Fill v->byte_id from the pieces <0x00> to <0xFF>; are all there? */
bool lm_find_bytes(struct lm_vocab *v);

/* In a vocabulary that has by_lines: does all begin anew at p[at], at > 0? */
bool lm_begins_anew(const struct lm_vocab *v, const char *p, size_t at);
/* Does no special piece, nor what it takes with it, go on from a newline to a letter? */
bool lm_added_by_lines(const struct lm_vocab *v);

/* For the models' encode functions: append an id made of the next `bytes` bytes of the
 * normalized fragment; id -1 appends nothing but counts the bytes.  False: no memory. */
bool lm_encoder_put(struct lm_encoder *e, int32_t id, size_t bytes);

/* The same for an id made of len bytes at `at` of the fragment. */
bool lm_encoder_put_at(struct lm_encoder *e, int32_t id, size_t at, size_t len);
/* All the bytes that len bytes of text with these origins were made of. */
struct lm_origin lm_origin_span(const struct lm_origin *o, size_t at, size_t len);

/* The end of a chunk of text that may be normalized by itself, at least 64 KiB and `least`
 * bytes long: before a space between ASCII characters, or `end`. */
const char *lm_chunk_end(const char *p, const char *end, size_t least);

/* The cache: the slot for a word, *hit whether it holds it.  NULL for one that is
 * too long to keep.  limit: bytes up to there may be read. */
struct lm_memo *lm_encoder_memo(struct lm_encoder *e, const char *p, size_t len,
                                const char *limit, bool *hit);
/*
 * The next word for the model's encode_word, through the cache.  Words are collected, so
 * that their slots arrive together: they stay where they are until lm_encoder_words, which
 * does what is left.  Bytes up to limit may be read.
 */
int lm_encoder_word(struct lm_encoder *e, const char *p, size_t len, const char *limit, bool lead,
                    struct lm_err *err);
int lm_encoder_words(struct lm_encoder *e, struct lm_err *err);
/* The same at once, for who has to see its ids. */
int lm_encoder_one_word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                        struct lm_err *err);

/* Keep ids[from ..] as what the word became, if they are few enough. */
void lm_encoder_keep(struct lm_encoder *e, struct lm_memo *w, size_t from);

/* A text, or the next stretch of one where all begins anew: `before` bytes came before it;
 * *first says whether they ended in a special piece, or were none, and then the same of it. */
int lm_encoder_whole(struct lm_encoder *e, const char *text, size_t len, size_t before, bool *first,
                     struct lm_err *err);

/* The next part of a text (text_parts.c): on, it is not the first; more, it is not the last. */
int lm_encoder_parts(struct lm_encoder *e, const char *text, size_t len, bool on, bool more,
                     struct lm_err *err);
void lm_parts_free(struct lm_parts *t);

/*
 * For models' part, where spans are wanted: text that is normalized from e->parts->text to the end
 * of e->parts->words between the two calls, `taken` bytes of it, is noted in *to, with places
 * counted from the begin of the fragment.  The first gives the map for it, or NULL; false: memory
 * is short.
 */
struct lm_remap *lm_parts_map(struct lm_encoder *e);
bool lm_parts_mapped(struct lm_encoder *e, struct lm_remap *to, size_t taken);

/* For models' part: what is left of b, which had `was` bytes, is looked at again when there are
 * *wait bytes, so that what stays as it is does not take more than linear time.  True: memory
 * was short. */
bool lm_parts_wait(const struct lm_encoder *e, const struct lm_buf *b, size_t was, size_t *wait);

/* Enough ids?  Hand them over to whoever takes them (lm_encoder_to). */
int lm_encoder_pass(struct lm_encoder *e, struct lm_err *err);

/* A binary heap, smallest key first; push false: no memory. */
bool lm_heap_push(struct lm_encoder *e, uint64_t key, uint32_t size, uint32_t to);
struct lm_heap_item lm_heap_pop(struct lm_encoder *e);

#endif
