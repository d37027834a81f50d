/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_SCHEMA_PARTS_H
#define LM_SAMPLE_SCHEMA_PARTS_H

/*
 * What the files of JSON Schema share.
 *
 *   schema.c           the text is checked, references are followed, errors name a place
 *   schema_index.c     what the text holds, found by hash
 *   schema_expand.c    what must hold at one place becomes a list of alternatives, each a flat
 *                      list of demands (atoms) in the order of the text
 *   schema_instance.c  is a given value valid? for enum and const, names, and what follows
 *   schema_decimal.c   numbers: exact decimals, and automata over their digits
 *   schema_string.c    strings: automata over their bytes, and how JSON spells them
 *   schema_format.c    formats as regular expressions
 *   schema_dfa.c       the automata of both
 *   schema_array.c, schema_object.c   rules for arrays and objects
 *   schema_value.c     rules for values: all of these together
 *
 * A place is described by a conjunction: schemas that must all hold, or must not.  It has one
 * rule, however often it is met, so that recursive schemas come to an end.
 */

#include "base/json.h"
#include "sample/grammar/grammar_parts.h"

/* ---- limits ---- */

#define LM_SCHEMA_WAYS    1000       /* alternatives of one place                        */
#define LM_SCHEMA_RULES   20000      /* different places                                 */
#define LM_SCHEMA_WORK    1000000    /* demands looked at                                */
#define LM_SCHEMA_STATES  50000      /* of automata, all together                        */
#define LM_SCHEMA_STEPS   20000000   /* ops looked at to make them                       */
#define LM_SCHEMA_NESTING 64         /* arrays and objects in a value that may be any    */
#define LM_SCHEMA_DIGITS  16         /* of a number before and after the point           */
#define LM_SCHEMA_FACTOR  10000      /* digits of multipleOf, as a number                */
#define LM_SCHEMA_CLASSES 8          /* patterns of names in one object                  */
#define LM_SCHEMA_DEPTH   200        /* schemas in one another                           */

/* ---- demands ---- */

/* A schema that must hold, or must not. */
struct lm_literal {
    const struct lm_jval *schema;
    bool                  negated;
};

struct lm_conj {
    size_t             n, cap;
    struct lm_literal *list;         /* [n], no two alike                                */
};

enum lm_schema_type {
    LM_TYPE_NULL = 1, LM_TYPE_BOOL = 2, LM_TYPE_INTEGER = 4, LM_TYPE_FRACTION = 8,
    LM_TYPE_STRING = 16, LM_TYPE_ARRAY = 32, LM_TYPE_OBJECT = 64, LM_TYPE_ALL = 127,
    LM_TYPE_NUMBER = LM_TYPE_INTEGER | LM_TYPE_FRACTION,
};

enum lm_atom_kind {
    LM_ATOM_NOT_VALUE,               /* value                                            */
    LM_ATOM_MIN_LENGTH,              /* n characters                                     */
    LM_ATOM_MAX_LENGTH,
    LM_ATOM_PATTERN,                 /* value; or not                                    */
    LM_ATOM_FORMAT,                  /* value; or not                                    */
    LM_ATOM_MIN,                     /* value; strict: exclusive                         */
    LM_ATOM_MAX,
    LM_ATOM_MULTIPLE,                /* value; or not                                    */
    LM_ATOM_ITEMS,                   /* prefixItems and items of schema; negated here and
                                        below: unevaluated keywords do not count it      */
    LM_ATOM_ITEM,                    /* item number n: literal                           */
    LM_ATOM_MIN_ITEMS,               /* n                                                */
    LM_ATOM_MAX_ITEMS,
    LM_ATOM_UNIQUE,
    LM_ATOM_CONTAINS,                /* literal, n to max times                          */
    LM_ATOM_OTHER_ITEMS,             /* unevaluatedItems of schema; atoms first to n     */
    LM_ATOM_PROPERTIES,              /* properties, patternProperties and
                                        additionalProperties of schema                   */
    LM_ATOM_OTHER_NAMES,             /* unevaluatedProperties of schema; atoms first to n */
    LM_ATOM_NAMES,                   /* every name: literal                              */
    LM_ATOM_REQUIRED,                /* a name                                           */
    LM_ATOM_ABSENT,                  /* a name                                           */
    LM_ATOM_MEMBER,                  /* a name, if there: literal                        */
    LM_ATOM_UNDECLARED,              /* some member is none of schema's properties, and breaks
                                        its additionalProperties                         */
    LM_ATOM_MIN_MEMBERS,             /* n                                                */
    LM_ATOM_MAX_MEMBERS,
    LM_ATOM_CANNOT,                  /* what keeps this from being expressed             */
};

struct lm_name {
    const char *p;
    size_t      len;
};

struct lm_atom {
    enum lm_atom_kind     kind;
    unsigned              types;     /* that it is about                                 */
    bool                  negated, strict;
    const struct lm_jval *at;        /* the keyword, for messages                        */
    const struct lm_jval *value;
    const struct lm_jval *schema;
    struct lm_literal     literal;
    struct lm_name        name;
    uint64_t              n, max;
    size_t                first;
    const char           *why;
};

/* One way to satisfy a conjunction. */
struct lm_way {
    unsigned              types;
    const struct lm_jval *values;    /* of enum (ARRAY) or const, or NULL                */
    bool                  one_value; /* const                                            */
    size_t                n, cap;
    struct lm_atom       *atoms;     /* [n]                                              */
};

struct lm_ways {
    size_t         n, cap;
    struct lm_way *list;
};

/* ---- tables ---- */

/* Items by a hash; items with the same one have to be told apart by who looks for them. */
struct lm_lookup {
    size_t n, n_slots;
    struct {
        uint64_t    hash;
        const void *item;            /* NULL: free                                       */
    } *slots;                        /* [n_slots]                                        */
};

/* Of a name that belongs to owner. */
uint64_t lm_lookup_hash(const void *owner, struct lm_name name);
/* false when memory is short. */
bool lm_lookup_add(struct lm_lookup *t, uint64_t hash, const void *item);
/* The next item with a hash, NULL: no more; *at: SIZE_MAX before the first. */
const void *lm_lookup_next(const struct lm_lookup *t, uint64_t hash, size_t *at);
void lm_lookup_release(struct lm_lookup *t);

/* ---- the compiler ---- */

struct lm_place;

struct lm_schema {
    const struct lm_schema_options *options;
    const struct lm_jval           *root;
    struct lm_tree                  tree;
    struct lm_arena                *arena;       /* the tree's                           */
    struct lm_buf                  *notes;       /* may be NULL                          */
    struct lm_err                  *err;
    int                             failed;      /* LM_OK, or the first failure's code   */
    uint64_t                        work;        /* demands looked at                    */
    uint64_t                        n_steps;     /* ops looked at for automata           */
    uint32_t                        n_states;    /* of automata                          */
    struct lm_lookup                members, elements;   /* of large objects and arrays  */
    struct lm_lookup                named, bases;    /* schemas and references           */
    struct lm_place               **places;      /* what has a rule                      */
    size_t                          n_places, places_cap;
    struct lm_lookup                place_table;
    uint32_t                        shared[LM_SCHEMA_NESTING + 8];   /* rules, 0: none   */
    struct lm_lookup                checked;     /* schemas that references have led to  */
    struct lm_matcher             **matchers;    /* of patterns and formats              */
    size_t                          n_matchers, matchers_cap;
    struct lm_lookup                matcher_table;
    struct lm_lookup                declared;    /* members of objects being made        */
    struct lm_lookup                numbers;     /* rules of numbers, by what is asked   */
    struct lm_node                 *escapes[128];        /* of one character; NULL: not made */
    size_t                          n_escapes;           /* used                         */
    const struct lm_jval           *listed;      /* an enum whose values are gone through ... */
    const struct lm_jval           *listed_value;    /* ... and where                    */
    int                             depth;       /* schemas in one another at one place  */
    int                             in_negated;  /* how many of these must not hold      */
    int                             building;    /* rules of places in one another       */
    int                             probing;     /* lm_conj_empty in one another         */
};

/* Note the first failure; at: a value of the schema's text, whose pointer is named.  Returns its
 * code. */
int lm_schema_fail(struct lm_schema *s, const struct lm_jval *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int lm_schema_nomem(struct lm_schema *s);
/* Count so many steps; false when it is too much, or something has failed. */
bool lm_schema_spend(struct lm_schema *s, uint64_t steps, const struct lm_jval *at);
/* The same of states of automata, and of ops that were looked at to find these. */
bool lm_schema_spend_states(struct lm_schema *s, uint32_t n, const struct lm_jval *at);
bool lm_schema_spend_steps(struct lm_schema *s, uint64_t n, const struct lm_jval *at);

/* The schema that a $ref or $dynamicRef names; NULL when there is none. */
const struct lm_jval *lm_schema_target(struct lm_schema *s, const struct lm_jval *ref);

/* The prefix of array items, [n] from the first on, and what the others must be; either NULL. */
void lm_schema_items(const struct lm_jval *schema, const struct lm_jval **prefix,
                     const struct lm_jval **rest);

/* Go over the text for what follows; refuses names that are twice in an object. */
int lm_schema_scan(struct lm_schema *s);
/* A member of an object of the text by its name, which may hold NUL. */
const struct lm_jval *lm_schema_member(const struct lm_schema *s, const struct lm_jval *object,
                                       struct lm_name name);
/* An element of an array of the text; NULL: it has not so many, or is NULL. */
const struct lm_jval *lm_schema_element(const struct lm_schema *s, const struct lm_jval *array,
                                        uint64_t i);
bool lm_same_name(struct lm_name a, struct lm_name b);
/* The schema below document whose $id, $anchor or $dynamicAnchor is name; *n counts them. */
const struct lm_jval *lm_schema_named(const struct lm_schema *s, const struct lm_jval *document,
                                      const char *keyword, struct lm_name name, int *n);
/* The schema with an $id, or the root, that a $ref or $dynamicRef is relative to. */
const struct lm_jval *lm_schema_base(const struct lm_schema *s, const struct lm_jval *ref);
/* Is the value of a member of a schema schemas by name, or no schema whatever is in it? */
bool lm_keyword_is_map(const struct lm_jval *m);
bool lm_keyword_is_value(const struct lm_jval *m);

/* The name of a member. */
static inline struct lm_name lm_key_of(const struct lm_jval *m)
{
    return (struct lm_name){ m->key, m->key_len };
}

/* A number's whole part, at most 2^62; 0 where v is none, or NULL. */
uint64_t lm_schema_count(const struct lm_jval *v);

/* ---- conjunctions and ways ---- */

/* Add l to c, once; false when memory is short. */
bool lm_conj_add(struct lm_schema *s, struct lm_conj *c, struct lm_literal l);
/* Every way to satisfy c; false after a failure. */
bool lm_schema_ways(struct lm_schema *s, const struct lm_conj *c, struct lm_ways *out);

/* Can nothing satisfy all of c?  false also when that is not known. */
bool lm_conj_empty(struct lm_schema *s, const struct lm_conj *c);

/* ---- values ---- */

/* Is v valid against all of c?  1 or 0; -1 after a failure. */
int lm_schema_valid(struct lm_schema *s, const struct lm_jval *v, const struct lm_conj *c);
/* The same for a name, as a string. */
int lm_schema_valid_name(struct lm_schema *s, struct lm_name name, const struct lm_conj *c);
/* As JSON Schema compares: 1 and 1.0 are the same number, the order of members does not matter. */
bool lm_jval_same(struct lm_schema *s, const struct lm_jval *a, const struct lm_jval *b);

/* ---- decimals ---- */

/* digits as an integer, times 10^exponent; no zeros at either end, n 0: zero. */
struct lm_decimal {
    bool        negative;
    const char *digits;              /* [n]                                              */
    int32_t     n, exponent;
};

#define LM_DECIMAL_DIGITS 400        /* on either side of the point                      */

/* Read a JSON number; false when memory is short or it has too many digits. */
bool lm_decimal_read(struct lm_arena *a, const char *text, struct lm_decimal *d);
int  lm_decimal_cmp(const struct lm_decimal *a, const struct lm_decimal *b);
bool lm_decimal_whole(const struct lm_decimal *d);
/* Is a a multiple of b?  1 or 0; -1: b's digits are more than LM_SCHEMA_FACTOR. */
int  lm_decimal_multiple(const struct lm_decimal *a, const struct lm_decimal *b);
/* A number of the schema's text; fails at it. */
bool lm_schema_decimal(struct lm_schema *s, const struct lm_jval *v, struct lm_decimal *d);

/* ---- automata ---- */

/* Deterministic, over symbols that are ranges of bytes; state 0 is the start. */
struct lm_dfa {
    size_t    n_symbols;
    uint8_t   lo[256], hi[256];      /* [n_symbols]                                      */
    uint32_t  n, cap;                /* states                                           */
    uint32_t *to;                    /* [n * n_symbols] LM_MANY: nowhere                 */
    bool     *final;                 /* [n]                                              */
    size_t    to_cap, final_cap;
};

/* Give back its memory. */
void lm_dfa_release(struct lm_dfa *d);
/* Leave out states that lead to no final one, and make equal ones one; false when memory is
 * short.  No state is left when the language is empty. */
bool lm_dfa_reduce(struct lm_dfa *d);
/* The strings of a reduced one, LM_MANY: as many or more, LM_ENDLESS: so many that each beginning
 * has always another end. */
#define LM_ENDLESS UINT64_MAX
uint64_t lm_dfa_count(struct lm_schema *s, const struct lm_dfa *d);
/* A graph for it; json: bytes are those of a string, and are spelt as JSON does. */
struct lm_node *lm_dfa_node(struct lm_schema *s, const struct lm_dfa *d, bool json);

/* The special characters of JSON among these (bits of the codes below 128), escaped; NULL when
 * there are none. */
struct lm_node *lm_schema_escapes(struct lm_schema *s, const uint64_t bits[2]);
/* Is it one of them: the quote, the backslash, a control character?  And that one, escaped. */
bool lm_json_special(unsigned c);
struct lm_node *lm_schema_escape(struct lm_schema *s, unsigned char c);

/* Sets of numbers [words] that a search has met, in the order of meeting them. */
struct lm_met {
    size_t    words, n, cap, n_slots;
    uint32_t *keys;                  /* [n * words]                                      */
    uint32_t *slots;
};

/* The number of a key, which is new if it is the old m->n; LM_MANY: memory is short. */
uint32_t lm_met_add(struct lm_met *m, const uint32_t *key);
void lm_met_release(struct lm_met *m);

/* ---- strings ---- */

/* A regular expression that runs. */
struct lm_matcher {
    const struct lm_jval *at;            /* where it was met first                       */
    size_t                number;
    struct lm_name        text;
    bool                  search;
    uint32_t              rule;          /* for the strings that match; 0: none yet      */
    uint64_t              n;             /* of these, as lm_dfa_count                    */
    struct lm_grammar    *grammar;
    struct lm_machine    *machine;
};

/* The pattern of a string value, or its format (NULL: an unknown one, or failed); kept. */
struct lm_matcher *lm_pattern_matcher(struct lm_schema *s, const struct lm_jval *pattern);
struct lm_matcher *lm_format_matcher(struct lm_schema *s, const struct lm_jval *format);
bool lm_format_known(const struct lm_jval *format);
/* What its strings match as a whole, or NULL. */
const char *lm_format_expression(const struct lm_jval *format);
/* 1 or 0; -1 after a failure. */
int lm_matches(struct lm_schema *s, struct lm_matcher *m, const char *p, size_t len);

/* What a string must be. */
struct lm_string_part {
    struct lm_matcher *matcher;
    bool               negated;
};

struct lm_string {
    const struct lm_jval  *at;       /* for messages                                     */
    uint64_t               min, max; /* characters; UINT64_MAX: no limit                 */
    size_t                 n, cap;
    struct lm_string_part *parts;    /* [n]                                              */
    size_t                 n_not, not_cap;
    struct lm_name        *not;      /* [n_not] strings that it is not                   */
};

/* Add a pattern that must match, or must not, and a string that it is not. */
bool lm_string_add_part(struct lm_schema *s, struct lm_string *str, const struct lm_jval *pattern,
                        bool negated);
bool lm_string_add_not(struct lm_schema *s, struct lm_string *str, struct lm_name name);

/* Add what the way asks of strings. */
bool lm_string_of(struct lm_schema *s, const struct lm_way *w, struct lm_string *out);
/* The strings with their quotes; a choice of nothing when there are none, NULL after a failure.
 * n: how many, as lm_dfa_count; may be NULL. */
struct lm_node *lm_string_node(struct lm_schema *s, const struct lm_string *str, uint64_t *n);
/* One string with its quotes. */
struct lm_node *lm_string_literal(struct lm_schema *s, struct lm_name text);

/* ---- nodes; all give NULL, or do nothing, after a failure ---- */

/* An empty node of that kind; put node behind the last of `to`; an edge of a graph. */
struct lm_node *lm_schema_node(struct lm_schema *s, enum lm_node_kind kind);
void lm_schema_add(struct lm_schema *s, struct lm_node *to, struct lm_node *node);
void lm_schema_edge(struct lm_schema *s, struct lm_node *graph, uint32_t from, uint32_t to,
                    struct lm_node *label);
/* The bytes of text, which is not copied. */
struct lm_node *lm_schema_text(struct lm_schema *s, const char *text);
/* One byte of a range. */
struct lm_node *lm_schema_bytes(struct lm_schema *s, unsigned lo, unsigned hi);
struct lm_node *lm_schema_repeat(struct lm_schema *s, struct lm_node *node, uint64_t min,
                                 uint64_t max);
/* A value that differs from those before it; endless: see LM_NODE_KEY. */
struct lm_node *lm_schema_key(struct lm_schema *s, struct lm_node *text, bool endless);
/* a b c, up to the first NULL. */
struct lm_node *lm_schema_sequence(struct lm_schema *s, ...);

/* The use of a rule, and of a new one for a node. */
struct lm_node *lm_schema_use(struct lm_schema *s, uint32_t rule);
struct lm_node *lm_schema_rule(struct lm_schema *s, struct lm_node *node);
/* A choice of nothing, and is a node that? */
struct lm_node *lm_schema_nothing(struct lm_schema *s);
bool lm_schema_is_nothing(const struct lm_node *node);

/* White space that may stand here; after: behind a comma or colon. */
struct lm_node *lm_schema_gap(struct lm_schema *s, bool after);
/* Comma, gap and node. */
struct lm_node *lm_schema_next(struct lm_schema *s, struct lm_node *node);
struct lm_node *lm_schema_any_string(struct lm_schema *s);
/* One character of a string. */
struct lm_node *lm_schema_character(struct lm_schema *s);

/* What a way asks of numbers (n: how many, LM_MANY: as many or more; may be NULL), of arrays, of
 * objects. */
struct lm_node *lm_number_node(struct lm_schema *s, const struct lm_way *w, uint64_t *n);
struct lm_node *lm_array_node(struct lm_schema *s, const struct lm_way *w);
struct lm_node *lm_object_node(struct lm_schema *s, const struct lm_way *w);
/* Is there none?  false also when that is not known. */
bool lm_array_empty(struct lm_schema *s, const struct lm_way *w);
bool lm_object_empty(struct lm_schema *s, const struct lm_way *w);

/* A schema that nothing satisfies. */
extern const struct lm_jval lm_schema_false;

/* A value that satisfies c. */
struct lm_node *lm_value_node(struct lm_schema *s, const struct lm_conj *c);
/* Are all values that satisfy c null, true, false, strings or whole numbers, each with one spelling
 * but for escapes?  n: how many, as lm_dfa_count. */
bool lm_value_spelt_once(struct lm_schema *s, const struct lm_conj *c, uint64_t *n);
/* Make the rules that lm_value_node has put off. */
void lm_schema_finish(struct lm_schema *s);
/* One value, with gaps. */
struct lm_node *lm_literal_node(struct lm_schema *s, const struct lm_jval *v);
/* The values that satisfy c, when they are few: a list of at most n, each once; -1: not few. */
int lm_few_values(struct lm_schema *s, const struct lm_conj *c, const struct lm_jval **list,
                  int most);

#endif
