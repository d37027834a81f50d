/* SPDX-License-Identifier: MIT */
/*
 * Strings: patterns, formats and lengths together are the product of automata over the bytes of
 * the string; how JSON spells it comes last.
 */
#include <string.h>

#include "base/size.h"
#include "sample/grammar/schema_parts.h"

#define MANY_STATES 4000             /* of one expression, after which its own form is used, ... */
#define MUCH_WORK   1000000          /* ... and ops that its machine has looked at       */

/* ---- expressions ---- */

static bool compile_matcher(struct lm_schema *s, struct lm_matcher *m)
{
    struct lm_tree t = { 0 };
    struct lm_node *node = NULL, *choice = NULL, *never = NULL;
    struct lm_err err;
    int r = lm_regex_read(m->text.p, m->text.len, m->search, &t, &node, &err);
    if (r == LM_OK) {                            /* one that matches nothing is no error */
        choice = lm_node_new(&t, LM_NODE_CHOICE);
        never = lm_node_new(&t, LM_NODE_BYTES);
        if (!choice || !never || !lm_node_add(&t, choice, node) || !lm_node_add(&t, choice, never))
            r = lm_fail_nomem(&err);
    }
    if (r == LM_OK) {
        never->min = never->max = 0xFF;           /* no byte of a text */
        r = lm_tree_add_rule(&t, "the expression", choice, &err);
    }
    if (r == LM_OK && !(m->grammar = lm_grammar_compile(&t, &err)))
        r = err.code;
    if (r == LM_OK && !(m->machine = lm_machine_new(m->grammar, NULL, 0, NULL, 0, &err)))
        r = err.code;
    lm_tree_release(&t);
    if (r == LM_ENOMEM)
        lm_schema_nomem(s);
    else if (r < 0)
        lm_schema_fail(s, m->at, "%s", err.text);
    return r == LM_OK;
}

static struct lm_matcher *matcher_for(struct lm_schema *s, const struct lm_jval *at,
                                      struct lm_name text, bool search)
{
    const uint64_t hash = lm_lookup_hash(NULL, text);
    const struct lm_matcher *same;
    for (size_t k = SIZE_MAX; (same = lm_lookup_next(&s->matcher_table, hash, &k)) != NULL;)
        if (same->search == search && lm_same_name(same->text, text))
            return s->matchers[same->number];
    struct lm_matcher *m = lm_arena_alloc(s->arena, sizeof *m);
    if (!m || !lm_grow(&s->matchers, &s->matchers_cap, s->n_matchers + 1, sizeof *s->matchers) ||
        !lm_lookup_add(&s->matcher_table, hash, m)) {
        lm_schema_nomem(s);
        return NULL;
    }
    *m = (struct lm_matcher){ .at = at, .number = s->n_matchers, .text = text, .search = search };
    s->matchers[s->n_matchers++] = m;
    return compile_matcher(s, m) ? m : NULL;
}

struct lm_matcher *lm_pattern_matcher(struct lm_schema *s, const struct lm_jval *pattern)
{
    /* The names of patternProperties are patterns too. */
    const bool value = pattern->kind == LM_JSON_STRING;
    return matcher_for(s, pattern, (struct lm_name){ value ? pattern->str : pattern->key,
                                                     value ? pattern->len : pattern->key_len },
                       true);
}

struct lm_matcher *lm_format_matcher(struct lm_schema *s, const struct lm_jval *format)
{
    const char *expression = lm_format_expression(format);
    if (!expression) {
        lm_schema_fail(s, format, "regular expressions cannot be enforced");
        return NULL;
    }
    return matcher_for(s, format, (struct lm_name){ expression, strlen(expression) }, false);
}

int lm_matches(struct lm_schema *s, struct lm_matcher *m, const char *p, size_t len)
{
    struct lm_err err;
    lm_state state;
    int r = lm_machine_start(m->machine, &state, &err);
    for (size_t i = 0; r == LM_OK && i < len && state != LM_STATE_DEAD; i++)
        r = lm_machine_byte(m->machine, &state, (unsigned char)p[i], &err);
    if (r == LM_ENOMEM)
        lm_schema_nomem(s);
    else if (r < 0)
        lm_schema_fail(s, m->at, "%s", err.text);
    return r < 0 ? -1 : lm_machine_complete(m->machine, state);
}

/* ---- what a string must be ---- */

static bool add_part(struct lm_schema *s, struct lm_string *str, struct lm_matcher *m, bool negated)
{
    if (!m)
        return false;
    for (size_t i = 0; i < str->n; i++)
        if (str->parts[i].matcher == m && str->parts[i].negated == negated)
            return true;
    if (str->n == str->cap) {
        const size_t cap = 2 * str->cap + 4;
        struct lm_string_part *parts = lm_arena_array(s->arena, cap, sizeof *parts);
        if (!parts) {
            lm_schema_nomem(s);
            return false;
        }
        if (str->n)
            memcpy(parts, str->parts, str->n * sizeof *parts);
        str->parts = parts;
        str->cap = cap;
    }
    str->parts[str->n++] = (struct lm_string_part){ m, negated };
    return true;
}

bool lm_string_add_part(struct lm_schema *s, struct lm_string *str, const struct lm_jval *pattern,
                        bool negated)
{
    return add_part(s, str, lm_pattern_matcher(s, pattern), negated);
}

bool lm_string_add_not(struct lm_schema *s, struct lm_string *str, struct lm_name name)
{
    if (str->n_not == str->not_cap) {
        const size_t cap = 2 * str->not_cap + 4;
        struct lm_name *list = lm_arena_array(s->arena, cap, sizeof *list);
        if (!list) {
            lm_schema_nomem(s);
            return false;
        }
        if (str->n_not)
            memcpy(list, str->not, str->n_not * sizeof *list);
        str->not = list;
        str->not_cap = cap;
    }
    str->not[str->n_not++] = name;
    return true;
}

bool lm_string_of(struct lm_schema *s, const struct lm_way *w, struct lm_string *out)
{
    for (size_t i = 0; i < w->n && s->failed == LM_OK; i++) {
        const struct lm_atom *a = &w->atoms[i];
        if (!(a->types & LM_TYPE_STRING))
            continue;
        out->at = a->at;
        if (a->kind == LM_ATOM_MIN_LENGTH)
            out->min = a->n > out->min ? a->n : out->min;
        else if (a->kind == LM_ATOM_MAX_LENGTH)
            out->max = a->n < out->max ? a->n : out->max;
        else if (a->kind == LM_ATOM_PATTERN)
            lm_string_add_part(s, out, a->value, a->negated);
        else if (a->kind == LM_ATOM_FORMAT)
            add_part(s, out, lm_format_matcher(s, a->value), a->negated);
        else if (a->kind == LM_ATOM_NOT_VALUE)
            lm_string_add_not(s, out, (struct lm_name){ a->value->str, a->value->len });
    }
    return s->failed == LM_OK;
}

/* ---- the product ---- */

struct product {
    struct lm_schema       *s;
    const struct lm_string *str;
    size_t                  n;           /* machines                                     */
    struct lm_machine     **machines;
    bool                   *negated;
    struct lm_dfa           dfa;
    struct lm_met           met;         /* keys: characters so far, a state a machine   */
    uint32_t                most_states;
    uint64_t                most_work;   /* of the machines                              */
    bool                    over;        /* it is more                                   */
    uint64_t                n_strings;   /* as lm_dfa_count                              */
    struct lm_grammar      *own[2];      /* any text, and the strings that it is not     */
    struct lm_machine      *own_machines[2];
};

/* A node for one of these strings. */
static struct lm_node *one_of(struct lm_schema *s, struct lm_tree *t, const struct lm_name *names,
                              size_t n)
{
    struct lm_node *choice = lm_node_new(t, LM_NODE_CHOICE);
    for (size_t i = 0; choice && i < n; i++)
        if (!lm_node_add(t, choice, lm_node_literal(t, names[i].p, names[i].len)))
            choice = NULL;
    if (!choice)
        lm_schema_nomem(s);
    return choice;
}

/* Any text. */
static struct lm_node *any_text(struct lm_schema *s, struct lm_tree *t)
{
    struct lm_node *any = lm_node_new(t, LM_NODE_REPEAT), *set = lm_node_new(t, LM_NODE_SET);
    if (!any || !set || !lm_node_add_range(t, set, 0, 0x10FFFF) || !lm_node_finish_set(t, set) ||
        !lm_node_add(t, any, set)) {
        lm_schema_nomem(s);
        return NULL;
    }
    any->max = LM_MANY;
    return any;
}

/* A machine for a node of a tree of its own, which is released. */
static void add_own(struct product *p, int k, struct lm_tree *t, struct lm_node *node, bool negated)
{
    struct lm_err err = { .code = LM_ENOMEM };
    if (node && lm_tree_add_rule(t, "strings", node, &err) == LM_OK &&
        (p->own[k] = lm_grammar_compile(t, &err)) != NULL)
        p->own_machines[k] = lm_machine_new(p->own[k], NULL, 0, NULL, 0, &err);
    lm_tree_release(t);
    if (!p->own_machines[k]) {
        if (err.code == LM_ENOMEM)
            lm_schema_nomem(p->s);
        else
            lm_schema_fail(p->s, p->str->at, "%s", err.text);
        return;
    }
    p->machines[p->n] = p->own_machines[k];
    p->negated[p->n++] = negated;
}

static void cut_at(const struct lm_grammar *g, bool *cut)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == LM_OP_BYTES) {
            cut[g->ops[i].lo] = true;
            cut[g->ops[i].hi + 1] = true;
        }
}

/* The ranges of bytes that no machine tells apart. */
static void find_symbols(struct product *p)
{
    bool cut[257] = { false };
    static const unsigned always[] = { 0x20, '"', '"' + 1, '\\', '\\' + 1, 0x80, 0xC0, 0xF5 };
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        cut[always[i]] = true;
    for (size_t i = 0; i < p->str->n; i++)
        cut_at(p->str->parts[i].matcher->grammar, cut);
    for (size_t k = 0; k < 2; k++)
        if (p->own[k])
            cut_at(p->own[k], cut);
    for (unsigned lo = 0, hi; lo < 0xF5; lo = hi + 1) {
        for (hi = lo; hi + 1 < 0xF5 && !cut[hi + 1];)
            hi++;
        p->dfa.lo[p->dfa.n_symbols] = (uint8_t)lo;
        p->dfa.hi[p->dfa.n_symbols++] = (uint8_t)hi;
    }
}

/* Change a key by a byte; false: no string begins like that. */
static bool step(struct product *p, uint32_t *key, unsigned char byte)
{
    struct lm_err err;
    if ((byte & 0xC0) != 0x80) {
        if (p->str->max != UINT64_MAX && key[0] >= p->str->max)
            return false;
        if (p->str->max != UINT64_MAX || key[0] < p->str->min)
            key[0]++;
    }
    for (size_t i = 0; i < p->n; i++) {
        const int r = lm_machine_byte(p->machines[i], &key[1 + i], byte, &err);
        if (r == LM_ENOMEM)
            lm_schema_nomem(p->s);
        else if (r < 0)
            lm_schema_fail(p->s, p->str->at, "%s", err.text);
        if (r < 0 || (key[1 + i] == LM_STATE_DEAD && !p->negated[i]))
            return false;
    }
    return true;
}

/* The bytes that all machines that must match can take. */
static void find_bytes(const struct product *p, const uint32_t *key, uint64_t bytes[4])
{
    uint64_t own[4];
    memset(bytes, 0xFF, 4 * sizeof *bytes);
    for (size_t i = 0; i < p->n; i++) {
        if (p->negated[i])
            continue;
        lm_machine_next(p->machines[i], key[1 + i], own);
        for (size_t k = 0; k < 4; k++)
            bytes[k] &= own[k];
    }
}

static bool is_final(const struct product *p, const uint32_t *key)
{
    bool good = key[0] >= p->str->min;
    for (size_t i = 0; good && i < p->n; i++)
        good = lm_machine_complete(p->machines[i], key[1 + i]) != p->negated[i];
    return good;
}

/* What the machines have done so far. */
static uint64_t work_of(const struct product *p)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += lm_machine_work(p->machines[i]);
    return n;
}

/* Is a byte no different from another one here? */
static bool alike(const struct product *p, const uint32_t *key, unsigned char a, unsigned char b)
{
    bool same = ((a & 0xC0) == 0x80) == ((b & 0xC0) == 0x80);
    for (size_t i = 0; same && i < p->n; i++)
        same = lm_machine_alike(p->machines[i], key[1 + i], a, b);
    return same;
}

/* Where a state leads to by each symbol; false when memory is short. */
static bool add_row(struct product *p, uint32_t from, uint32_t *key)
{
    struct lm_dfa *d = &p->dfa;
    struct lm_met *met = &p->met;
    uint32_t *to = d->to + from * d->n_symbols;
    uint64_t bytes[4];
    size_t kinds[256], n = 0, k;                  /* symbols that differ */
    find_bytes(p, met->keys + from * met->words, bytes);
    for (size_t c = 0; c < d->n_symbols && p->s->failed == LM_OK; c++) {
        to[c] = LM_MANY;
        if (!(bytes[d->lo[c] / 64] >> d->lo[c] % 64 & 1))
            continue;
        memcpy(key, met->keys + from * met->words, met->words * sizeof *key);
        for (k = 0; k < n && !alike(p, key, d->lo[kinds[k]], d->lo[c]);)
            k++;
        if (k < n) {
            to[c] = to[kinds[k]];
            continue;
        }
        kinds[n++] = c;
        if (step(p, key, d->lo[c]) && (to[c] = lm_met_add(met, key)) == LM_MANY)
            return false;
    }
    return true;
}

static void search(struct product *p)
{
    struct lm_dfa *d = &p->dfa;
    struct lm_met *met = &p->met;
    struct lm_err err;
    uint32_t *key = lm_arena_array(p->s->arena, met->words, sizeof *key);
    const uint64_t before = work_of(p);
    uint64_t spent = 0;
    int r = key ? LM_OK : LM_ENOMEM;
    for (size_t i = 0; r == LM_OK && i < p->n; i++)
        r = lm_machine_start(p->machines[i], &key[1 + i], &err);
    if (r < 0 && r != LM_ENOMEM)
        lm_schema_fail(p->s, p->str->at, "%s", err.text);
    bool good = r == LM_OK && lm_met_add(met, key) != LM_MANY;
    for (uint32_t from = 0; good && from < met->n && p->s->failed == LM_OK; from++) {
        const uint64_t now = work_of(p) - before;
        p->over = from >= p->most_states || now > p->most_work;
        if (p->over || !lm_schema_spend_steps(p->s, now - spent, p->str->at))
            break;
        spent = now;
        good = lm_grow(&d->to, &d->to_cap, (from + 1) * d->n_symbols, sizeof *d->to) &&
               lm_grow(&d->final, &d->final_cap, from + 1, sizeof *d->final);
        if (!good)
            break;
        d->n = from + 1;
        d->final[from] = is_final(p, met->keys + from * met->words);
        good = add_row(p, from, key);
        lm_schema_spend_states(p->s, 1, p->str->at);
    }
    if (!good)
        lm_schema_nomem(p->s);
}

static void set_machines(struct product *p)
{
    const struct lm_string *str = p->str;
    struct lm_tree t = { 0 };
    bool positive = false;
    p->machines = lm_arena_array(p->s->arena, str->n + 2, sizeof *p->machines);
    p->negated = lm_arena_array(p->s->arena, str->n + 2, sizeof *p->negated);
    if (!p->machines || !p->negated) {
        lm_schema_nomem(p->s);
        return;
    }
    for (size_t i = 0; i < str->n; i++) {
        p->machines[p->n] = str->parts[i].matcher->machine;
        p->negated[p->n++] = str->parts[i].negated;
        positive |= !str->parts[i].negated;
    }
    if (!positive)
        add_own(p, 0, &t, any_text(p->s, &t), false);
    if (str->n_not && p->s->failed == LM_OK)
        add_own(p, 1, &t, one_of(p->s, &t, str->not, str->n_not), true);
}

/* The automaton of all that is asked; p->over if it has too many states. */
static struct lm_node *product_node(struct product *p)
{
    struct lm_node *node = NULL;
    set_machines(p);
    p->met.words = 1 + p->n;
    if (p->s->failed == LM_OK) {
        find_symbols(p);
        search(p);
    }
    if (p->s->failed == LM_OK && !p->over) {
        if (!lm_dfa_reduce(&p->dfa))
            lm_schema_nomem(p->s);
        else
            p->n_strings = lm_dfa_count(p->s, &p->dfa);
        if (p->s->failed == LM_OK)
            node = p->dfa.n ? lm_dfa_node(p->s, &p->dfa, true) :
                              lm_schema_node(p->s, LM_NODE_CHOICE);
    }
    lm_dfa_release(&p->dfa);
    lm_met_release(&p->met);
    for (size_t k = 0; k < 2; k++) {
        lm_machine_free(p->own_machines[k]);
        lm_grammar_free(p->own[k]);
    }
    return node;
}

/* ---- one expression in its own form ---- */

/* A set as JSON spells its characters. */
static struct lm_node *spelt_set(struct lm_schema *s, const struct lm_node *set)
{
    uint64_t special[2] = { 0, 0 };
    struct lm_node *plain = lm_schema_node(s, LM_NODE_SET);
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    bool good = plain && choice;
    for (size_t i = 0; good && i < set->n; i++) {
        uint32_t lo = set->ranges[i].lo;
        const uint32_t hi = set->ranges[i].hi;
        for (; good && lo <= hi && lo <= '\\'; lo++) {
            if (lm_json_special(lo))
                special[lo / 64] |= UINT64_C(1) << lo % 64;
            else
                good = lm_node_add_range(&s->tree, plain, lo, lo);
        }
        good = good && (lo > hi || lm_node_add_range(&s->tree, plain, lo, hi));
    }
    if (!good || !lm_node_finish_set(&s->tree, plain)) {
        lm_schema_nomem(s);
        return NULL;
    }
    lm_schema_add(s, choice, plain);
    struct lm_node *escaped = lm_schema_escapes(s, special);
    if (escaped)
        lm_schema_add(s, choice, escaped);
    return choice;
}

/* Text as JSON spells it: as it is, but for special characters. */
static void add_spelt(struct lm_schema *s, struct lm_node *sequence, struct lm_name text)
{
    for (size_t i = 0, n; i < text.len && s->failed == LM_OK; i += n) {
        for (n = 0; i + n < text.len && !lm_json_special((unsigned char)text.p[i + n]);)
            n++;
        lm_schema_add(s, sequence, n ? lm_node_literal(&s->tree, text.p + i, n) :
                                       lm_schema_escape(s, (unsigned char)text.p[i]));
        n += n == 0;
    }
}

static struct lm_node *spelt(struct lm_schema *s, const struct lm_node *node)
{
    if (node->kind == LM_NODE_SET)
        return spelt_set(s, node);
    if (node->kind == LM_NODE_LITERAL) {
        struct lm_node *sequence = lm_schema_node(s, LM_NODE_SEQUENCE);
        add_spelt(s, sequence, (struct lm_name){ node->text, node->n });
        return sequence;
    }
    struct lm_node *copy = lm_schema_node(s, node->kind);
    if (!copy)
        return NULL;
    copy->min = node->min;
    copy->max = node->max;
    for (size_t i = 0; i < node->n && s->failed == LM_OK; i++)
        lm_schema_add(s, copy, spelt(s, node->nodes[i]));
    return copy;
}

/* The rule's end, which the expression may ask for, has to be that of the string. */
static struct lm_node *expression_node(struct lm_schema *s, const struct lm_matcher *m)
{
    struct lm_node *node, *rule = lm_schema_node(s, LM_NODE_RULE);
    if (!rule || lm_regex_read(m->text.p, m->text.len, m->search, &s->tree, &node, s->err) < 0 ||
        lm_tree_add_rule(&s->tree, "the pattern", spelt(s, node), s->err) < 0) {
        lm_schema_nomem(s);
        return NULL;
    }
    rule->rule = (uint32_t)s->tree.n - 1;
    return rule;
}

/* ---- nodes ---- */

static struct lm_node *quoted(struct lm_schema *s, struct lm_node *body)
{
    if (!body || lm_schema_is_nothing(body))
        return body;
    return lm_schema_sequence(s, lm_schema_text(s, "\""), body, lm_schema_text(s, "\""), NULL);
}

struct lm_node *lm_string_node(struct lm_schema *s, const struct lm_string *str, uint64_t *n)
{
    if (n)
        *n = str->min > str->max ? 0 : str->max == UINT64_MAX ? LM_ENDLESS :
             str->max ? LM_MANY : 1;
    if (s->failed < 0)
        return NULL;
    if (str->min > str->max)
        return lm_schema_nothing(s);
    if (str->n == 0 && str->n_not == 0) {
        if (str->min == 0 && str->max == UINT64_MAX)
            return lm_schema_any_string(s);
        if (str->min > INT32_MAX)
            lm_schema_fail(s, str->at, "lengths count to %d at most", INT32_MAX);
        return quoted(s, lm_schema_repeat(s, lm_schema_character(s), str->min, str->max));
    }
    const bool simple = str->n == 1 && str->n_not == 0 && !str->parts[0].negated &&
                        str->min == 0 && str->max == UINT64_MAX;
    struct lm_matcher *m = simple ? str->parts[0].matcher : NULL;
    if (m && m->rule) {
        if (n)
            *n = m->n;
        return lm_schema_use(s, m->rule);
    }
    struct product p = { .s = s, .str = str, .n_strings = LM_MANY,
                         .most_states = simple ? MANY_STATES : UINT32_MAX,
                         .most_work = simple ? MUCH_WORK : UINT64_MAX };
    struct lm_node *node = product_node(&p);
    if (n)
        *n = p.n_strings;
    if (p.over && s->failed == LM_OK)
        node = expression_node(s, m);
    node = quoted(s, node);
    if (node && m && !lm_schema_is_nothing(node)) {
        node = lm_schema_rule(s, node);
        m->rule = node ? node->rule : 0;
        m->n = p.n_strings;
    }
    return node;
}

struct lm_node *lm_string_literal(struct lm_schema *s, struct lm_name text)
{
    struct lm_node *sequence = lm_schema_node(s, LM_NODE_SEQUENCE);
    lm_schema_add(s, sequence, lm_schema_text(s, "\""));
    add_spelt(s, sequence, text);
    lm_schema_add(s, sequence, lm_schema_text(s, "\""));
    return sequence;
}
