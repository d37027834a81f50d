/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_GRAMMAR_PARTS_H
#define LM_SAMPLE_GRAMMAR_PARTS_H

/*
 * What the files of a grammar share: gbnf.c, grammar_regex.c and schema.c read text into trees,
 * grammar_facts.c checks these, compile.c makes states of them, machine.c and machine_mask.c run
 * the states, token_trie.c has a vocabulary's bytes in order.
 */

#include "base/arena.h"
#include "sample/grammar/grammar.h"

#define LM_MANY UINT32_MAX               /* no upper bound of a repetition */

/* ---- trees ---- */

struct lm_range {
    uint32_t lo, hi;                     /* code points, both included, no surrogates */
};

enum lm_node_kind {
    LM_NODE_SET,                         /* one character of ranges [n]            */
    LM_NODE_SEQUENCE,                    /* all of nodes [n]; n 0: the empty text  */
    LM_NODE_CHOICE,                      /* one of nodes [n]; n 0: nothing         */
    LM_NODE_REPEAT,                      /* nodes[0], min to max times; distinct: nodes[1] but
                                            for the first time, and each holds one LM_NODE_KEY,
                                            whose texts differ                     */
    LM_NODE_KEY,                         /* nodes[0]; endless: a string with its quotes, and each
                                            beginning of one has an end that is new */
    LM_NODE_RULE,                        /* rule number `rule`                     */
    LM_NODE_TOKEN,                       /* the token `rule`, or any but that      */
    LM_NODE_START,                       /* the empty text, at the start; not in a tree that is
                                            done                                   */
    LM_NODE_END,                         /* the empty text, at the end of the rule */
    LM_NODE_BYTES,                       /* one byte min to max                    */
    LM_NODE_TEXT,                        /* one character that JSON writes as it is: all but
                                            the quote, the backslash and U+0000 to U+001F */
    LM_NODE_LITERAL,                     /* the bytes text [n]                     */
    LM_NODE_GRAPH,                       /* a way through graph                    */
};

/* An automaton: from state 0 along edges, whose labels are nodes, to a final state. */
struct lm_graph {
    uint32_t n_states;
    bool    *final;                      /* [n_states]                             */
    struct lm_graph_edge {
        uint32_t        from, to;
        struct lm_node *label;           /* NULL: no text; else never the empty text */
    } *edges;                            /* [n]                                    */
    uint32_t n, cap;
    bool    *live;                       /* [n_states] leads to a final one; lm_tree_check's */
    uint32_t first_fact;                 /* lm_tree_check's                        */
};

struct lm_node {
    enum lm_node_kind kind;
    bool              negated, distinct, endless;
    bool              may_be_empty, productive;      /* lm_tree_check's            */
    uint32_t          fact;              /* its own, too                           */
    uint32_t          rule, min, max;
    uint32_t          size;              /* states it takes, about (compile.c)     */
    uint32_t          n, cap;
    uint64_t          rounds;            /* the counts of repetitions in one another, as
                                            a product                              */
    union {                              /* as the kind says                       */
        const char       *text;
        struct lm_range  *ranges;
        struct lm_node  **nodes;
        struct lm_graph  *graph;
    };
};

/* Has it nodes [n] below it? */
static inline bool lm_node_has_nodes(const struct lm_node *node)
{
    return node->kind == LM_NODE_SEQUENCE || node->kind == LM_NODE_CHOICE ||
           node->kind == LM_NODE_REPEAT || node->kind == LM_NODE_KEY;
}

struct lm_rule {
    const char     *name;
    struct lm_node *node;                /* NULL: used, not (yet) defined          */
    uint32_t        used_by;             /* a rule that uses it                    */
    bool            may_be_empty, productive;        /* lm_tree_check's            */
};

/* A grammar as read; rule 0 is where it starts. */
struct lm_tree {
    struct lm_arena arena;
    struct lm_rule *rules;               /* [n]                                    */
    size_t          n, cap;
};

/* In the arena; NULL when memory is short. */
struct lm_node *lm_node_new(struct lm_tree *t, enum lm_node_kind kind);
bool lm_node_add(struct lm_tree *t, struct lm_node *to, struct lm_node *node);
bool lm_node_add_range(struct lm_tree *t, struct lm_node *set, uint32_t lo, uint32_t hi);
/* A literal of text [n], which is not copied. */
struct lm_node *lm_node_literal(struct lm_tree *t, const char *text, size_t n);

/* Make a set's ranges ascending and apart, without surrogates, and turn it round if it is
 * negated; false when memory is short. */
bool lm_node_finish_set(struct lm_tree *t, struct lm_node *set);

/* A graph of n_states, none final, without edges; and one more edge. */
struct lm_node *lm_node_graph(struct lm_tree *t, uint32_t n_states);
bool lm_node_add_edge(struct lm_tree *t, struct lm_node *graph, uint32_t from, uint32_t to,
                      struct lm_node *label);

/* The value of a hexadecimal digit, or -1. */
static inline int lm_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
           c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Add a rule; LM_OK or LM_ENOMEM.  name is not copied. */
int lm_tree_add_rule(struct lm_tree *t, const char *name, struct lm_node *node,
                     struct lm_err *err);

/* Find out of each node and rule whether it may be empty and whether it can be completed; refuse
 * rules that are not defined or left-recursive, and a tree that can never be completed.  LM_OK, or
 * a code as of lm_grammar_gbnf. */
int lm_tree_check(struct lm_tree *t, struct lm_err *err);

/* Give back all nodes and rules. */
void lm_tree_release(struct lm_tree *t);

/* Read a regular expression into a node without START: the texts it matches as a whole or, if
 * search, those of which it matches a part. */
int lm_regex_read(const char *text, size_t len, bool search, struct lm_tree *t,
                  struct lm_node **out, struct lm_err *err);

/* ---- states ---- */

enum lm_op_kind {
    LM_OP_BYTES,                         /* a byte lo..hi, then a                  */
    LM_OP_TEXT,                          /* a character as LM_NODE_TEXT, then a; its bytes after
                                            the first are the LM_TEXT_OPS ops that follow */
    LM_OP_SPLIT,                         /* a or b                                 */
    LM_OP_CALL,                          /* rule a, then b                         */
    LM_OP_LOOP,                          /* rule a, min to max times, then b; distinct: rule
                                            a + 1 but for the first time           */
    LM_OP_KEY,                           /* rule a, whose text is one that the LM_OP_LOOP it is
                                            in has not met, then b                 */
    LM_OP_TOKEN,                         /* the token id a, then b                 */
    LM_OP_OTHER_TOKEN,                   /* any token but a, then b                */
    LM_OP_END,                           /* of a rule                              */
};

#define LM_TEXT_OPS 7

/* After the first byte of a LM_OP_TEXT: 0: its a comes next; 1 to LM_TEXT_OPS: the op so many
 * behind it; -1: not such a byte. */
int lm_text_step(unsigned char byte);

struct lm_op {
    uint8_t  kind, lo, hi;
    bool     may_be_empty;               /* LOOP: the rule's text                  */
    bool     distinct;                   /* LOOP                                   */
    bool     endless;                    /* KEY: as LM_NODE_KEY                    */
    bool     character;                  /* LOOP: the rule is a LM_OP_TEXT or an escape */
    uint32_t a, b, min, max;
};

struct lm_grammar {
    struct lm_op *ops;                   /* [n_ops]                                */
    size_t        n_ops, ops_cap;
    uint32_t     *entry;                 /* [n_rules] first op of a rule           */
    size_t        n_rules, entry_cap;
    bool          has_tokens;            /* some op takes a token whole            */
    bool          has_text;              /* there is a LM_OP_TEXT                  */
    bool          has_keys;              /* there is a LM_OP_KEY                   */
    bool          has_few_keys;          /* there is one that is not endless       */
};

/* Make states of a tree, which is checked: a rule that is not defined, that is left-recursive;
 * what can never be completed is left out.  NULL with *err as lm_grammar_gbnf. */
struct lm_grammar *lm_grammar_compile(struct lm_tree *t, struct lm_err *err);

/* The bytes that may follow a state that is not dead, as bits. */
void lm_machine_next(const struct lm_machine *m, lm_state s, uint64_t bytes[4]);
/* Do two bytes lead a state to the same one, whatever that is? */
bool lm_machine_alike(const struct lm_machine *m, lm_state s, unsigned char a, unsigned char b);
/* How many ops it has looked at so far. */
uint64_t lm_machine_work(const struct lm_machine *m);

/* ---- the vocabulary in order of bytes ---- */

/* A node stands for a beginning of tokens' bytes; its children follow it in memory. */
struct lm_token_node {
    uint32_t      next;                  /* the node after all below this one      */
    int32_t       first;                 /* a token that ends here, or -1          */
    uint32_t      order;                 /* of the first token here or below, in ids */
    unsigned char byte;
    unsigned char deep;                  /* bytes that a token has behind it, at most (255: more) */
    bool          text, alnum;           /* these are characters of LM_CLASS_TEXT, of
                                            LM_CLASS_ALNUM                         */
};

struct lm_token_trie {
    struct lm_token_node *nodes;          /* [n], without the root                  */
    size_t               n;
    int32_t             *more;           /* [n_vocab] another token with the same bytes, or -1 */
    uint32_t            *ids;            /* [n_ids] the tokens in order            */
    size_t               n_ids;
};

/* Of the first n_vocab tokens, those that have bytes and are not control tokens. */
int lm_token_trie_init(struct lm_token_trie *t, const struct lm_vocab *v, uint32_t n_vocab,
                 struct lm_err *err);
void lm_token_trie_release(struct lm_token_trie *t);

/*
 * Classes of characters that states often do not tell apart.  Where a state and those after it
 * take any character of a class alike, what tokens may come is known by how many of these they
 * begin with, and by the rest of them.
 */
enum lm_char_class {
    LM_CLASS_TEXT,                       /* of LM_NODE_TEXT                        */
    LM_CLASS_ALNUM,                      /* of ASCII, as the others                */
    LM_CLASS_LOWER,
    LM_CLASS_UPPER_DIGIT,
    LM_CLASSES
};

struct lm_token_class {
    uint32_t              max;           /* characters that a token begins with    */
    uint64_t            **whole;         /* [max + 1] masks: at most so many characters and
                                            nothing else; neighbours may be the same mask */
    struct lm_token_trie *rest;          /* [max + 1] of the tokens that begin with exactly so
                                            many, what is behind them; 0: only those that begin
                                            with a part of a character             */
    struct lm_token_trie  few;           /* of those that begin with 1 to LM_CLASS_FEW, what is
                                            behind these; LM_CLASS_TEXT only       */
    int32_t              *more, *few_more;           /* of the tries               */
    struct lm_long_token {
        uint32_t id, size, chars;        /* chars: 0 if it has anything else       */
    }                    *longs;         /* [n_longs] of more than LM_CLASS_LONG bytes, the
                                            longest first; LM_CLASS_TEXT only      */
    size_t                n_longs, longs_cap;
};

#define LM_CLASS_FEW  16
#define LM_CLASS_LONG 32

/* The bytes that a character of a class can begin with. */
bool lm_class_begins(enum lm_char_class c, unsigned char byte);

/* The tokens of lm_token_trie_init by a class; words: of a mask. */
int lm_token_class_init(struct lm_token_class *t, enum lm_char_class c, const struct lm_vocab *v,
                        uint32_t n_vocab, size_t words, struct lm_err *err);
void lm_token_class_release(struct lm_token_class *t);

#endif
