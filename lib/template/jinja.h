/* SPDX-License-Identifier: MIT */
#ifndef LM_TEMPLATE_JINJA_H
#define LM_TEMPLATE_JINJA_H

/*
 * The inside of lib/template: syntax tree, values, and one rendering.
 *
 * Everything of a rendering lies in one arena, and its first failure leaves it by longjmp to
 * lm_template_render (lm_jfail): nothing here holds another resource.  The parser does the
 * same with its own.
 */

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "template/template.h"

/* ---- source and tree ----------------------------------------------------------- */

struct jpos {
    uint32_t line, col;
};

/* What is marked of a byte: that it came from a guarded layer; that it stands in a generation
 * block. */
enum { LM_JMARK_GUARD = 1, LM_JMARK_SAID = 2 };

/* Bytes, with the marks of each; mark NULL: none has any. */
struct jstr {
    const char          *p;
    const unsigned char *mark;
    size_t               len;
};

enum jtoken_kind {
    JT_DATA, JT_VAR_BEGIN, JT_VAR_END, JT_BLOCK_BEGIN, JT_BLOCK_END,
    JT_NAME, JT_STRING, JT_INT, JT_FLOAT, JT_OP, JT_EOF,
};

struct jtoken {
    enum jtoken_kind kind;
    struct jpos      pos;
    struct jstr      text;           /* DATA, STRING: the text; else as written         */
};

enum jnode_kind {
    /* expressions */
    JN_CONST, JN_NAME, JN_ATTR, JN_ITEM, JN_SLICE, JN_CALL, JN_FILTER, JN_TEST, JN_LIST, JN_TUPLE,
    JN_DICT, JN_BINARY, JN_UNARY, JN_NOT, JN_AND, JN_OR, JN_COMPARE, JN_COND, JN_CONCAT,
    /* arguments: *x, **x, name=x */
    JN_STAR, JN_STAR2, JN_KEYWORD,
    /* statements */
    JN_TEXT, JN_PRINT, JN_IF, JN_FOR, JN_SET, JN_SET_BLOCK, JN_MACRO, JN_CALL_BLOCK,
    JN_FILTER_BLOCK, JN_WITH, JN_GENERATION, JN_BREAK, JN_CONTINUE, JN_NO_LOADER,
};

struct jv;

/*
 * a, b, c and list by kind:
 *   ATTR str, a of; ITEM a[b]; SLICE a:b:c; CALL a(list); FILTER a|str(list); TEST a is
 *   str(list); LIST, TUPLE, CONCAT list; DICT list of key, value, ...; BINARY a op b; UNARY op
 *   a; COMPARE a, then list of BINARY nodes with op and b; COND b if a else c; KEYWORD str=a;
 *   PRINT a; IF a: list, else other; FOR a in b if c: list, else other, op 1: recursive;
 *   SET a = b; SET_BLOCK a, b a filter on it or NULL; MACRO str(params, a of each its default
 *   or NULL) list;
 *   CALL_BLOCK a: call, params, list; FILTER_BLOCK a: filter without operand, list; WITH
 *   params = defaults, list; BLOCK list, in a scope of its own; NO_LOADER what wants another
 *   template.
 * A FILTER's a is NULL where the operand is what a block rendered.
 */
struct jnode {
    enum jnode_kind  kind;
    int              op;             /* see enum jop; TEST: 1 for "is not" */
    struct jpos      pos;
    struct jstr      str;
    const struct jv *value;          /* CONST */
    struct jnode    *a, *b, *c;
    struct jnode    *list, *other;   /* first of a chain */
    struct jnode    *params, *defaults;
    struct jnode    *next;
};

/* What a macro's body speaks of decides what it may be called with: in op of MACRO and
 * CALL_BLOCK. */
enum jmention { JM_CALLER = 1, JM_VARARGS = 2, JM_KWARGS = 4 };

enum jop {
    JO_ADD, JO_SUB, JO_MUL, JO_DIV, JO_FLOORDIV, JO_MOD, JO_POW,
    JO_EQ, JO_NE, JO_LT, JO_LE, JO_GT, JO_GE, JO_IN, JO_NOT_IN, JO_POS, JO_NEG,
};

struct lm_template {
    struct lm_arena arena;
    struct jnode   *body;
    bool            generation;      /* it has blocks of that name                   */
};

/* The lexer's and the parser's state. */
struct jparse {
    struct lm_arena *arena;
    struct lm_err   *err;
    jmp_buf          out;
    const char      *src;            /* newlines made \n */
    size_t           len, at;
    struct jpos      pos;            /* of `at` */
    int              mode;           /* inside data, a variable or a block */
    size_t           brackets;       /* that are open there */
    bool             after_newline, generation;  /* generation: there is such a block */
    struct jtoken    tok;            /* the one that is looked at */
    struct jtoken    peek;
    bool             peeked;
    int              depth, loops, conditions;
    struct {                         /* the first filter or test that nobody knows: an error
                                        at the end, as Jinja2 has it when it compiles */
        struct jpos pos;             /* line 0: none */
        const char *what;
        struct jstr name;
    } unknown;
    int              mentions;       /* enum jmention, of the macro that is being read */
};

/* Fail at a place. */
_Noreturn void lm_jparse_fail(struct jparse *p, struct jpos pos, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what Jinja2 would do: LM_ENOSUP.  what: followed by "is not supported". */
_Noreturn void lm_jparse_unsupported(struct jparse *p, struct jpos pos, const char *what);
/* Zeroed memory of the template. */
void *lm_jparse_alloc(struct jparse *p, size_t size);

/* jinja_lex.c: the next token into p->tok; the one behind it. */
void lm_jlex_next(struct jparse *p);
const struct jtoken *lm_jlex_peek(struct jparse *p);
/* Is it of that kind and text? */
bool lm_jtok_is(const struct jtoken *t, enum jtoken_kind kind, const char *text);
/* What a token is called in messages. */
const char *lm_jtok_name(const struct jtoken *t, char buf[64]);

/* jinja_expr.c: a node with nothing below it. */
struct jnode *lm_jnode(struct jparse *p, enum jnode_kind kind, struct jpos pos);
/* One expression; with_cond: `a if b else c` too. */
struct jnode *lm_jparse_expr(struct jparse *p, bool with_cond);
/* One expression, or several with commas as a tuple; `end` (may be NULL): a name that ends
 * it. */
struct jnode *lm_jparse_tuple(struct jparse *p, bool with_cond, const char *end, bool parens);
/* What can be assigned to: a name, with_tuple several of them, with_ns members of namespaces. */
struct jnode *lm_jparse_target(struct jparse *p, bool with_tuple, bool with_ns);
/* The filters and tests behind an operand; start_inline: the first one stands without its bar. */
struct jnode *lm_jparse_filters(struct jparse *p, struct jnode *operand, bool start_inline);
/* Go on behind the token if it is that operator or name: was it?  Or fail if it is not. */
bool lm_jskip_op(struct jparse *p, const char *op);
bool lm_jskip_name(struct jparse *p, const char *name);
void lm_jexpect_op(struct jparse *p, const char *op);
/* Before what may nest, p->depth being lowered behind it: fails when too deep. */
void lm_jenter(struct jparse *p);

/* ---- values --------------------------------------------------------------------- */

enum jkind {
    J_UNDEF, J_NONE, J_BOOL, J_INT, J_BIG, J_FLOAT, J_STR, J_BYTES, J_LIST, J_TUPLE,
    J_GEN,                           /* what map, select, ... give: read once    */
    J_DICT, J_VIEW, J_RANGE, J_NS, J_LOOP, J_MACRO, J_FUNC, J_METHOD, J_CYCLER, J_JOINER, J_SELF,
};

struct jlist;
struct jdict;

struct jv {
    enum jkind kind;
    int        sub;                  /* STR: 1 for markup; VIEW: 0 keys, 1 values, 2 items */
    union {
        bool                 b;
        int64_t              i;
        double               f;
        const struct jstr   *s;
        struct jlist        *l;
        struct jdict        *d;
        const struct jbig   *big;
        const struct jundef *u;
        struct jrange       *r;
        struct jloop        *loop;
        struct jmacro       *macro;
        const struct jfunc  *func;
        struct jmethod      *method;
        struct jcycler      *cycler;
    };
};

struct jlist {
    struct jv *v;
    size_t     n, cap;
};

struct jpair {
    struct jv key, value;
    uint64_t  hash;
};

/* In order of insertion; slots: open addressing by hash, index + 1. */
struct jdict {
    struct jpair *e;
    uint32_t     *slots;
    size_t        n, cap, n_slots;
};

struct jundef {
    bool        has_of, unsafe;
    struct jv   of, name;            /* what has no such member; or only a name */
};

struct jrange {
    int64_t    start, stop, step, n;
    struct jv *items;                /* once somebody went through them */
};

struct jbig {
    bool     neg;
    size_t   n;                      /* words, the highest not 0 */
    uint32_t w[];
};

/* Variables: each scope sees those it stands in. */
struct jscope {
    struct jscope *up;
    struct jdict   vars;
    bool           kept;             /* a macro sees it: it may not be used again */
};

struct jloop {
    size_t              i, n;
    const struct jv    *items;
    int                 depth;
    bool                changed_set;
    struct jlist        changed;
    const struct jnode *node;        /* when recursive: what to call again */
    struct jscope      *scope;
};

struct jmacro {
    const struct jnode *node;        /* MACRO or CALL_BLOCK */
    struct jscope      *scope;
};

struct jcycler {
    struct jlist items;
    size_t       i;
};

struct jrun;

/* Arguments of a call. */
struct jargs {
    struct jv   *pos;
    size_t       n;
    struct jdict kw;
};

struct jfunc {
    const char *name;
    struct jv (*call)(struct jrun *r, struct jargs *a);
};

struct jmethod {
    struct jv             self;
    const struct jmethod_row *row;
};

struct jmethod_row {
    const char *name;
    struct jv (*call)(struct jrun *r, struct jv self, struct jargs *a);
    bool        unsafe;              /* would change its object */
};

struct jsb;

struct jrun {
    struct lm_arena                  arena;
    const struct lm_template        *t;
    const struct lm_template_limits *limits;
    const struct tm                 *now;
    struct lm_err                   *err;
    jmp_buf                          out;
    struct jpos                      pos;
    uint64_t                         steps, random;
    int                              depth, calls;       /* calls: of depth              */
    enum { JR_GO, JR_BREAK, JR_CONTINUE } flow;
    struct jscope                    globals, *scope;
    struct jsb                      *sink;
};

/* Fail where the rendering is. */
_Noreturn void lm_jfail(struct jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for what Jinja2 would do: LM_ENOSUP.  what: followed by "is not supported". */
_Noreturn void lm_junsupported(struct jrun *r, const char *what);
/* Zeroed memory of the rendering. */
void *lm_jalloc(struct jrun *r, size_t count, size_t size);
/* n steps more: fails beyond the limit. */
void lm_jstep(struct jrun *r, uint64_t n);
/* The steps of looking once through what v is, where that is text: every filter, test and
 * method is charged them, whatever it does. */
void lm_jread(struct jrun *r, struct jv v);
/* Around what may nest: fails when too deep. */
void lm_jdeeper(struct jrun *r);

/* jinja_value.c: values of C's; bytes with their marks (NULL: none), which are borrowed; a copy
 * of a C string; bytes from .. to - 1 of a string, borrowed too. */
extern const struct jv lm_jnone, lm_jtrue, lm_jfalse, lm_jundef;
struct jv lm_jbool(bool b);
struct jv lm_jint(int64_t i);
struct jv lm_jfloat(double f);
struct jv lm_jstr(struct jrun *r, const char *p, const unsigned char *mark, size_t len);
struct jv lm_jcstr(struct jrun *r, const char *s);
struct jv lm_jslice(struct jrun *r, const struct jstr *s, size_t from, size_t to);
/* A copy of n bytes that are made of a string as a whole (NULL: of none): each has all the marks
 * that any byte of that has. */
struct jv lm_jmade_of(struct jrun *r, const struct jstr *of, const char *text, size_t n);
/* An empty list, tuple or generator; one more at the end of it; a tuple of two. */
struct jv lm_jlist(struct jrun *r, enum jkind kind);
void lm_jpush(struct jrun *r, struct jlist *l, struct jv v);
struct jv lm_jpair_of(struct jrun *r, struct jv a, struct jv b);
/* The undefined value that a member which `of` has not is. */
struct jv lm_jundef_of(struct jrun *r, struct jv of, struct jv name);
/* Python's name of the type. */
const char *lm_jtype(struct jv v);
/* bool(v), and a == b, as Python has them. */
bool lm_jtruth(struct jrun *r, struct jv v);
bool lm_jequal(struct jrun *r, struct jv a, struct jv b);
/* a < b: -1, a == b: 0, a > b: 1; fails for kinds without an order, naming op. */
int lm_jorder(struct jrun *r, struct jv a, struct jv b, const char *op);
/* x in `in`; fails where Python does. */
bool lm_jcontains(struct jrun *r, struct jv in, struct jv x);
/* Everything in v, in order; fails when it is not iterable. */
struct jlist *lm_jiter(struct jrun *r, struct jv v);
/* Would lm_jiter not fail? */
bool lm_jiterable(struct jv v);
/* len(v), or fails. */
int64_t lm_jlen(struct jrun *r, struct jv v);
/* Number i of a range, i < g->n. */
struct jv lm_jrange_at(const struct jrange *g, int64_t i);
/* The error an undefined value gives when it is used. */
_Noreturn void lm_jundef_fail(struct jrun *r, struct jv v);
/* Is it a number, bools included?  Is a string that text? */
bool lm_jis_num(struct jv v);
bool lm_jstr_is(const struct jstr *s, const char *text);
/* The number as a double; fails when it is none or too large. */
double lm_jnumber(struct jrun *r, struct jv v);
/* An argument that must be a whole number in range. */
int64_t lm_jindex(struct jrun *r, struct jv v, const char *what);
/* One that must be a string; `what` begins the message. */
const struct jstr *lm_jneed_str(struct jrun *r, struct jv v, const char *what);
/* Sort items [n] by their keys [n], which go with them; equal ones stay in order. */
void lm_jsort(struct jrun *r, struct jv *items, struct jv *keys, size_t n, bool reverse);

/* jinja_dict.c: an empty one. */
struct jv lm_jdict(struct jrun *r);
/* The value of a key, or NULL; fails for a key that cannot be one. */
struct jv *lm_jdict_get(struct jrun *r, const struct jdict *d, struct jv key);
/* The value of a key that is this string, or NULL: one by one, for arguments. */
struct jv *lm_jdict_find(const struct jdict *d, const char *name);
/* Set the value of a key, which keeps its place; fails for a key that cannot be one. */
void lm_jdict_put(struct jrun *r, struct jdict *d, struct jv key, struct jv value);

/* jinja_text.c: strings that grow, and values as text. */
struct jsb {
    struct jrun   *r;
    char          *p;
    unsigned char *mark;             /* NULL until a marked byte is there */
    size_t         len, cap;
};

/* Append bytes with their marks, NULL: none; a string; one of C's, without marks; bytes from ..
 * to - 1 of a string, n times. */
void lm_jsb_add(struct jsb *b, const char *p, const unsigned char *mark, size_t len);
void lm_jsb_str(struct jsb *b, const struct jstr *s);
void lm_jsb_lit(struct jsb *b, const char *s);
void lm_jsb_fill(struct jsb *b, const struct jstr *s, size_t from, size_t to, int64_t n);
/* A character, with its marks. */
void lm_jsb_rune(struct jsb *b, uint32_t rune, unsigned char mark);
/* All from byte `from` on get one more. */
void lm_jsb_mark(struct jsb *b, size_t from, unsigned char mark);
/* The string that it is; not added to afterwards. */
struct jv lm_jsb_value(struct jsb *b);
/* Append str(v), nothing for an undefined value, or repr(v); str(v) as a value. */
void lm_jprint(struct jsb *b, struct jv v);
void lm_jrepr(struct jsb *b, struct jv v);
struct jv lm_jto_str(struct jrun *r, struct jv v);
/* The shortest digits that give f back, laid out as Python does. */
void lm_jfloat_text(char out[40], double f);
/* Append a string with what HTML gives a meaning escaped. */
void lm_jescape(struct jsb *b, const struct jstr *s);
/* An empty one. */
#define JSB(run) { .r = (run) }

/* Characters in a string: how many; the offset of the n-th (len if there are fewer). */
size_t lm_jchars(const struct jstr *s);
size_t lm_jchar_at(const struct jstr *s, size_t n);
/* The character at a byte, and its length. */
uint32_t lm_jrune(const struct jstr *s, size_t at, int *len);
/* \w of Python's patterns. */
bool lm_jword(uint32_t rune);

/* jinja_big.c: whole numbers of any size (up to 64 Ki bits).  Results that fit are J_INT. */
struct jv lm_jbig_parse(struct jrun *r, const char *digits, size_t n, unsigned base);
/* a op b, both whole numbers of any kind; below 0, 0, above 0 as a is less, equal, more. */
struct jv lm_jbig_op(struct jrun *r, enum jop op, struct jv a, struct jv b);
int lm_jbig_cmp(struct jrun *r, struct jv a, struct jv b);
/* The nearest double, perhaps infinite; decimal digits; bits of the magnitude. */
double lm_jbig_f64(const struct jbig *b);
void lm_jbig_text(struct jsb *out, const struct jbig *b);
size_t lm_jbig_bits(const struct jbig *b);

/* jinja_ops.c: a op b, op a; fail where Python does. */
struct jv lm_jbinary(struct jrun *r, enum jop op, struct jv a, struct jv b);
struct jv lm_junary(struct jrun *r, enum jop op, struct jv a);
/* of.name looks for an attribute first, of[key] for an item; undefined where neither is there. */
struct jv lm_jattr(struct jrun *r, struct jv of, struct jv name);
struct jv lm_jitem(struct jrun *r, struct jv of, struct jv key);
/* of[from:to:step], each of which may be none. */
struct jv lm_jsubscript(struct jrun *r, struct jv of, struct jv from, struct jv to, struct jv step);

/* jinja_eval.c: evaluate the whole template, its text going to r->sink. */
void lm_jrun_template(struct jrun *r);

/* jinja_args.c: parameters by place or name, in the order of `names` (a list with spaces
 * between); missing ones are NULL in out.  Fails for arguments too many. */
void lm_jtake(struct jrun *r, const char *what, struct jargs *a, const char *names,
              struct jv *out[]);

/* Filters, tests, and methods of a kind of value, by name; NULL: there is none. */
typedef struct jv jfilter(struct jrun *r, struct jv v, struct jargs *a);
typedef bool jtest(struct jrun *r, struct jv v, struct jargs *a);
jfilter *lm_jfilter_find(const struct jstr *name);
jtest *lm_jtest_find(const struct jstr *name);
const struct jmethod_row *lm_jmethod_find(struct jv of, const struct jstr *name);
const struct jmethod_row *lm_jstr_method(const struct jstr *name);
/* Put the functions that every template has into r->globals. */
void lm_jadd_globals(struct jrun *r);
/* self.name(a), for a filter that is one of its methods. */
struct jv lm_jcall_method(struct jrun *r, struct jv self, const char *name, struct jargs *a);

struct jfilter_row {
    const char *name;
    jfilter    *call;
};
extern const struct jfilter_row lm_jfilters_text[];

/* jinja_format.c: text % args; text.format(args). */
struct jv lm_jpercent(struct jrun *r, const struct jstr *fmt, struct jv args);
struct jv lm_jformat(struct jrun *r, const struct jstr *fmt, struct jargs *a);

/* jinja_json.c: the filter tojson. */
struct jv lm_jtojson(struct jrun *r, struct jv v, struct jargs *a);

/* jinja_str.c: what filters share with methods: the first place of needle in hay[from .. to), or
 * the last; -1. */
int64_t lm_jsearch(struct jrun *r, const struct jstr *hay, const struct jstr *needle, size_t from,
                   size_t to, bool last);
/* Without chars (NULL: white space) at the left (1), the right (2) or both sides (3). */
struct jv lm_jstr_strip(struct jrun *r, const struct jstr *s, const struct jstr *chars, int sides);
/* The first count places of from as to; -1: all. */
struct jv lm_jstr_replace(struct jrun *r, const struct jstr *s, const struct jstr *from,
                          const struct jstr *to, int64_t count);
/* In another case, JC_. */
struct jv lm_jstr_case(struct jrun *r, const struct jstr *s, int to);
enum { JC_LOWER, JC_UPPER, JC_TITLE, JC_CAPITALIZE, JC_SWAP, JC_FOLD };

#endif
