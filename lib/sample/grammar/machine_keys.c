/* SPDX-License-Identifier: MIT */
/*
 * Keys that have to differ, as names of members that minProperties counts.
 *
 * Where a grammar has such keys, two machines run it.  The plain one lets keys be the same, and
 * makes masks as ever.  The exact one remembers in its states which keys an object has, and what
 * has been read of the next one; it follows the text, and where it is in such an object it is
 * asked about those tokens of the mask that could end a key.
 */
#include "sample/grammar/machine_parts.h"

#include <string.h>

#include "base/buf.h"
#include "base/size.h"

#define SEARCH 10000                 /* states in which an end of a key is looked for   */

/* ---- texts and sets ---- */

/* Another one, and a byte or a key.  The number of a key is that of its text. */
struct link {
    uint32_t before, last, n;
};

struct lm_keys {
    struct link *links;              /* [n], of which 0 is empty                        */
    size_t       n, cap, n_slots, grown_at;      /* n when slots were made             */
    uint32_t    *slots;
    struct lm_buf text, key;         /* scratch                                         */
    uint32_t     most;               /* keys that a set has had                         */
};

#define A_SET 256                    /* added to a key's number: bytes are below        */

static uint64_t hash_link(uint32_t before, uint32_t last)
{
    uint64_t h = (before ^ (uint64_t)last << 32) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static void put_slot(struct lm_keys *k, uint32_t i)
{
    size_t at = hash_link(k->links[i].before, k->links[i].last) & (k->n_slots - 1);
    while (k->slots[at])
        at = (at + 1) & (k->n_slots - 1);
    k->slots[at] = i + 1;
}

static bool grow_slots(struct lm_keys *k)
{
    if (2 * (k->n + 1) <= k->n_slots)
        return true;
    const size_t n = k->n_slots ? 2 * k->n_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    free(k->slots);
    k->slots = slots;
    k->n_slots = n;
    k->grown_at = k->n;
    for (uint32_t i = 1; i < k->n; i++)
        put_slot(k, i);
    return true;
}

/* The number of one with one more; UINT32_MAX: memory is short. */
static uint32_t extend(struct lm_keys *k, uint32_t before, uint32_t last)
{
    if (!grow_slots(k) || !lm_grow(&k->links, &k->cap, k->n + 1, sizeof *k->links))
        return UINT32_MAX;
    size_t at = hash_link(before, last) & (k->n_slots - 1);
    for (; k->slots[at]; at = (at + 1) & (k->n_slots - 1)) {
        const struct link *x = &k->links[k->slots[at] - 1];
        if (x->before == before && x->last == last)
            return k->slots[at] - 1;
    }
    k->links[k->n] = (struct link){ before, last, k->links[before].n + 1 };
    k->slots[at] = (uint32_t)++k->n;
    return (uint32_t)k->n - 1;
}

uint32_t lm_keys_size(const struct lm_keys *k, uint32_t one)
{
    return k->links[one].n;
}

uint32_t lm_keys_push(struct lm_keys *k, uint32_t text, unsigned char byte)
{
    return extend(k, text, byte);
}

/* What a value of JSON stands for, into k->key: a string may be spelt in several ways.  No string
 * is the same as another value. */
static void unquote(struct lm_keys *k)
{
    static const char letters[] = "bfnrt", codes[] = "\b\f\n\r\t";
    const char *p = k->text.data + 1, *end = k->text.data + k->text.len - 1;
    lm_buf_clear(&k->key);
    if (*k->text.data != '"') {
        lm_buf_byte(&k->key, 0xFF);
        lm_buf_add(&k->key, k->text.data, k->text.len);
        return;
    }
    for (; p < end; p++) {
        const char *known;
        uint32_t rune = 0;
        if (*p != '\\' || p + 1 >= end) {
            lm_buf_byte(&k->key, *p);
        } else if (*++p == 'u') {
            for (int i = 0; i < 4 && p + 1 < end; i++)
                rune = rune << 4 | (uint32_t)(lm_hex_digit(*++p) & 15);
            lm_buf_rune(&k->key, rune);
        } else {
            known = strchr(letters, *p);
            lm_buf_byte(&k->key, known && *p ? codes[known - letters] : *p);
        }
    }
}

bool lm_keys_add(struct lm_keys *k, uint32_t text, uint32_t from, uint32_t *set)
{
    const uint32_t n = k->links[text].n - from;
    uint32_t key = 0;
    lm_buf_clear(&k->text);
    char *to = lm_buf_room(&k->text, n);
    if (!to)
        return false;
    for (uint32_t i = n; i > 0; i--, text = k->links[text].before)
        to[i - 1] = (char)k->links[text].last;
    k->text.len += n;
    unquote(k);
    for (size_t i = 0; i < k->key.len && key != UINT32_MAX; i++)
        key = extend(k, key, (unsigned char)k->key.data[i]);
    if (key == UINT32_MAX || k->key.failed)
        return false;
    for (uint32_t s = *set; s; s = k->links[s].before)
        if (k->links[s].last == A_SET + key) {
            *set = LM_KEYS_TWICE;
            return true;
        }
    *set = extend(k, *set, A_SET + key);
    if (*set != UINT32_MAX && k->links[*set].n > k->most)
        k->most = k->links[*set].n;
    return *set != UINT32_MAX;
}

size_t lm_keys_mark(const struct lm_keys *k)
{
    return k ? k->n : 0;
}

void lm_keys_forget(struct lm_keys *k, size_t mark)
{
    if (!k || k->n == mark)
        return;
    for (size_t i = k->n; k->grown_at <= mark && i > mark; i--) {     /* last in, first out */
        size_t at = hash_link(k->links[i - 1].before, k->links[i - 1].last) & (k->n_slots - 1);
        while (k->slots[at] != i)
            at = (at + 1) & (k->n_slots - 1);
        k->slots[at] = 0;
    }
    k->n = mark;
    if (k->grown_at <= mark)
        return;
    k->grown_at = mark;
    memset(k->slots, 0, k->n_slots * sizeof *k->slots);
    for (uint32_t i = 1; i < k->n; i++)
        put_slot(k, i);
}

/* ---- both machines ---- */

static struct lm_keys *new_keys(void)
{
    struct lm_keys *k = calloc(1, sizeof *k);
    if (!k || !lm_grow(&k->links, &k->cap, 1, sizeof *k->links)) {
        free(k);
        return NULL;
    }
    k->links[0] = (struct link){ 0, 0, 0 };
    k->n = 1;
    return k;
}

/* Note the tokens that may matter whatever the keys are. */
static bool find_special(struct lm_machine *m)
{
    for (uint32_t id = 0; m->v && id < m->n_vocab; id++) {
        const struct lm_str piece = lm_vocab_piece(m->v, id);
        struct special x = { .id = id };
        for (size_t i = 0; i < piece.len && lm_mask_has(m->plain, id); i++) {
            x.quotes += piece.p[i] == '"' && x.quotes < 2;
            x.comma |= piece.p[i] == ',';
            x.backslash |= piece.p[i] == '\\';
        }
        if (!x.quotes && !x.comma && !x.backslash)
            continue;
        if (!lm_grow(&m->special, &m->special_cap, m->n_special + 1, sizeof *m->special))
            return false;
        m->special[m->n_special++] = x;
    }
    return true;
}

bool lm_machine_watch_keys(struct lm_machine *m)
{
    struct lm_grammar plain = *m->g;              /* or it would watch keys itself */
    struct lm_err err;
    plain.has_keys = false;
    m->exact = lm_machine_new(&plain, NULL, 0, NULL, 0, &err);
    m->both_mask = lm_mask_new(m);
    if (!m->exact || !m->both_mask || !find_special(m))
        return false;
    m->exact->g = m->g;
    m->exact->keys = new_keys();
    return m->exact->keys != NULL;
}

void lm_machine_release_keys(struct lm_machine *m)
{
    if (m->keys) {
        free(m->keys->links);
        free(m->keys->slots);
        lm_buf_release(&m->keys->text);
        lm_buf_release(&m->keys->key);
        free(m->keys);
    }
    lm_machine_free(m->exact);
    free(m->both);
    free(m->both_table.slots);
    free(m->special);
    free(m->been);
    free(m->both_mask);
}

/* The number of a pair of states, into *s. */
static int pair(struct lm_machine *m, lm_state plain, lm_state exact, lm_state *s,
                struct lm_err *err)
{
    if (plain == LM_STATE_DEAD || exact == LM_STATE_DEAD) {
        *s = LM_STATE_DEAD;
        return LM_OK;
    }
    if (!lm_grow(&m->both, &m->both_cap, m->n_both + 1, sizeof *m->both))
        return lm_fail_nomem(err);
    m->both[m->n_both] = (struct both){ plain, exact };
    *s = lm_machine_intern_both(m, (uint32_t)m->n_both);
    m->n_both += *s == m->n_both;
    return *s == UINT32_MAX ? lm_fail_nomem(err) : LM_OK;
}

/* ---- dead ends ---- */

/* How often has the search been in a state before?  `most` counts as more; -1: memory is short. */
static int been_in(struct lm_machine *m, lm_state s, uint32_t most)
{
    const size_t old = m->been_cap;
    if (!lm_grow(&m->been, &m->been_cap, (size_t)s + 1, sizeof *m->been))
        return -1;
    memset(m->been + old, 0, (m->been_cap - old) * sizeof *m->been);
    struct been *at = &m->been[s];
    if (at->search != m->search)
        *at = (struct been){ m->search, 0 };
    return at->times < most ? (int)at->times++ : (int)most;
}

/* The first byte from one on that a state takes; 256: none. */
static unsigned next_byte(const uint64_t bytes[4], unsigned from)
{
    while (from < 256 && !(bytes[from / 64] >> from % 64 & 1))
        from++;
    return from;
}

/* Is there a way on in which no key is to come, or one has ended? */
static bool is_past_key(const struct lm_machine *exact, lm_state s)
{
    return exact->states[s].ended || !lm_step_is_keyed(exact, s);
}

/* Put the pairs that a pair leads to behind those of a search, which looks into one of the exact
 * machine once, or with `most` into one of the plain machine so often; *found: one is behind a
 * key. */
static int expand(struct lm_machine *m, struct both at, uint32_t most, struct lm_buf *todo,
                  bool *found, struct lm_err *err)
{
    struct lm_machine *x = m->exact;
    uint64_t bytes[4];
    int r = LM_OK;
    lm_machine_next(x, at.exact, bytes);
    for (unsigned b = next_byte(bytes, 0); b < 256 && !*found; b = next_byte(bytes, b + 1)) {
        struct both next = at;
        r = lm_step_byte(x, &next.exact, (unsigned char)b, err);
        if (r == LM_OK && most)
            r = lm_step_byte(m, &next.plain, (unsigned char)b, err);
        if (r < 0)
            return r;
        if (next.exact == LM_STATE_DEAD)
            continue;
        *found = is_past_key(x, next.exact);
        const int been = most ? been_in(m, next.plain, most) : been_in(x, next.exact, 1);
        if (been < 0)
            return lm_fail_nomem(err);
        if (been < (int)(most ? most : 1))
            lm_buf_add(todo, &next, sizeof next);
    }
    return todo->failed ? lm_fail_nomem(err) : LM_OK;
}

/* Is there a way from a pair to behind a key?  See expand. */
static int search(struct lm_machine *m, struct both from, uint32_t most, bool *found,
                  struct lm_err *err)
{
    struct lm_buf todo = { 0 };
    int r = LM_OK;
    m->search++;
    m->exact->search++;
    lm_buf_add(&todo, &from, sizeof from);
    for (size_t n = 0; r == LM_OK && n * sizeof from < todo.len && !*found; n++) {
        struct both at;
        if (n == SEARCH)
            r = most ? 1 :
                lm_fail(err, LM_ENOSUP, "names that differ from those before are too hard to find");
        memcpy(&at, todo.data + n * sizeof at, sizeof at);
        r = r ? r : expand(m, at, most, &todo, found, err);
    }
    lm_buf_release(&todo);
    return r < 0 ? r : LM_OK;
}

/* Leave s->exact as it is, unless it is in a key, or before one, of which no end differs from all
 * keys that are there: then it is LM_STATE_DEAD.  A state of the plain machine to which more names
 * lead than are there has one that goes on differently, unless they are the same, spelt
 * differently: so few are looked at first. */
static int refuse_dead_end(struct lm_machine *m, struct both *s, struct lm_err *err)
{
    if (s->exact == LM_STATE_DEAD || is_past_key(m->exact, s->exact))
        return LM_OK;
    bool found = false;
    int r = search(m, *s, m->exact->keys->most + 1, &found, err);
    if (r == LM_OK && !found)
        r = search(m, *s, 0, &found, err);
    if (r == LM_OK && !found)
        s->exact = LM_STATE_DEAD;
    return r;
}

/* ---- grammar.h ---- */

int lm_machine_start(struct lm_machine *m, lm_state *s, struct lm_err *err)
{
    lm_state plain = LM_STATE_DEAD, exact = LM_STATE_DEAD;
    if (!m->exact)
        return lm_step_start(m, s, err);
    int r = lm_step_start(m, &plain, err);
    if (r == LM_OK)
        r = lm_step_start(m->exact, &exact, err);
    return r < 0 ? r : pair(m, plain, exact, s, err);
}

bool lm_machine_complete(const struct lm_machine *m, lm_state s)
{
    if (s == LM_STATE_DEAD)
        return false;
    return m->exact ? m->exact->states[m->both[s].exact].complete : m->states[s].complete;
}

int lm_machine_byte(struct lm_machine *m, lm_state *s, unsigned char byte, struct lm_err *err)
{
    if (!m->exact || *s == LM_STATE_DEAD)
        return lm_step_byte(m, s, byte, err);
    struct both both = m->both[*s];
    int r = lm_step_byte(m, &both.plain, byte, err);
    if (r == LM_OK)
        r = lm_step_byte(m->exact, &both.exact, byte, err);
    if (r == LM_OK)
        r = refuse_dead_end(m, &both, err);
    return r < 0 ? r : pair(m, both.plain, both.exact, s, err);
}

/* Both machines' states after a token. */
static int take_both(struct lm_machine *m, struct both *s, uint32_t id, struct lm_err *err)
{
    const struct lm_str piece = lm_vocab_piece(m->v, id);
    int r = lm_step_take(m, &s->plain, id, err);
    if (r < 0 || s->plain == LM_STATE_DEAD)
        return r;
    for (size_t i = 0; i < piece.len && s->exact != LM_STATE_DEAD && r == LM_OK; i++)
        r = lm_step_byte(m->exact, &s->exact, (unsigned char)piece.p[i], err);
    return r < 0 ? r : refuse_dead_end(m, s, err);
}

int lm_machine_take(struct lm_machine *m, lm_state *s, uint32_t id, struct lm_err *err)
{
    if (!m->v || id >= m->n_vocab)
        return lm_fail(err, LM_EDATA, "id %u is outside the vocabulary", (unsigned)id);
    if (!m->exact || *s == LM_STATE_DEAD)
        return lm_step_take(m, s, id, err);
    struct both both = m->both[*s];
    int r = take_both(m, &both, id, err);
    return r < 0 ? r : pair(m, both.plain, both.exact, s, err);
}

/* Take a token out of the mask if the exact machine refuses it. */
static int drop_twice(struct lm_machine *m, struct both s, uint32_t id, struct lm_err *err)
{
    if (!lm_mask_has(m->both_mask, id) || lm_mask_has(m->eog, id))
        return LM_OK;
    int r = take_both(m, &s, id, err);
    if (r == LM_OK && s.exact == LM_STATE_DEAD)
        m->both_mask[id / 64] &= ~(UINT64_C(1) << id % 64);
    return r;
}

/* Drop those tokens below a node of the trie that the exact machine refuses, and at it. */
static int drop_below(struct lm_machine *m, struct both s, size_t at, struct lm_err *err)
{
    const struct lm_token_trie *t = &m->trie;
    const size_t end = t->nodes[at].next < t->n ? t->nodes[t->nodes[at].next].order : t->n_ids;
    int r = LM_OK;
    for (size_t i = t->nodes[at].order; i < end && r == LM_OK; i++)
        r = drop_twice(m, s, t->ids[i], err);
    return r;
}

/* The tokens with which what is left of a key [n] begins, or that begin with all of it. */
static int drop_along(struct lm_machine *m, struct both s, const char *left, size_t n,
                      struct lm_err *err)
{
    const struct lm_token_trie *t = &m->trie;
    size_t at = 0, end = t->n;
    int r = LM_OK;
    for (size_t i = 0; i < n && r == LM_OK; i++) {
        while (at < end && t->nodes[at].byte != (unsigned char)left[i])
            at = t->nodes[at].next;
        if (at == end)
            return LM_OK;
        if (i + 1 == n)
            return drop_below(m, s, at, err);
        for (int32_t id = t->nodes[at].first; id >= 0 && r == LM_OK; id = t->more[id])
            r = drop_twice(m, s, (uint32_t)id, err);
        end = t->nodes[at++].next;
    }
    return r;
}

/* Spell a key as a grammar does, into k->key.  false: it has more than one spelling. */
static bool spell(struct lm_keys *k, uint32_t key)
{
    static const char letters[] = "\"\\bfnrt", codes[] = "\"\\\b\f\n\r\t";
    const uint32_t n = k->links[key].n;
    bool once = true;
    lm_buf_clear(&k->text);
    lm_buf_clear(&k->key);
    char *to = lm_buf_room(&k->text, n);
    for (uint32_t i = n; to && i > 0; i--, key = k->links[key].before)
        to[i - 1] = (char)k->links[key].last;
    if (to && n && (unsigned char)*to == 0xFF) {  /* no string */
        lm_buf_add(&k->key, to + 1, n - 1);
        return !k->key.failed;
    }
    lm_buf_byte(&k->key, '"');
    for (uint32_t i = 0; to && i < n; i++) {
        const char *known = to[i] ? strchr(codes, to[i]) : NULL;
        if (known)
            lm_buf_byte(&k->key, '\\');
        once &= known || (unsigned char)to[i] >= 0x20;
        lm_buf_byte(&k->key, known ? letters[known - codes] : to[i]);
    }
    lm_buf_byte(&k->key, '"');
    return to && once && !k->key.failed;
}

/* Look at the tokens that matter for a set of keys, where `text` has been read of the next one;
 * *all: every token may matter. */
static int drop_known(struct lm_machine *m, struct both s, uint32_t set, uint32_t text, bool *all,
                      struct lm_err *err)
{
    struct lm_keys *k = m->exact->keys;
    int r = LM_OK;
    for (; set && r == LM_OK && !*all; set = k->links[set].before) {
        const uint32_t n = k->links[text].n;
        uint32_t at = text;
        *all = !spell(k, k->links[set].last - A_SET);
        if (n > k->key.len)
            continue;
        for (uint32_t i = n; i > 0 && (char)k->links[at].last == k->key.data[i - 1]; i--)
            at = k->links[at].before;
        if (at)                                   /* another beginning */
            continue;
        const size_t left = k->key.len - n;
        if (left == 0) {                          /* what ends it is not its own */
            *all = true;
            break;
        }
        char *copy = malloc(left);                /* the machine spells others meanwhile */
        if (!copy)
            return lm_fail_nomem(err);
        memcpy(copy, k->key.data + n, left);
        r = drop_along(m, s, copy, left, err);
        free(copy);
    }
    return r;
}

/* The same for the keys of each object or array whose key is open or comes next. */
static int drop_open(struct lm_machine *m, struct both s, uint32_t stack, bool *all,
                     struct lm_err *err)
{
    const struct lm_machine *x = m->exact;
    const struct stack top = x->stacks[stack];
    int r = LM_OK;
    for (uint32_t i = 0; i < top.n && r == LM_OK && !*all; i++) {
        const uint32_t below = x->links[top.below + i];
        if (x->g->ops[top.op].kind != LM_OP_KEY)
            r = x->stacks[below].keyed ? drop_open(m, s, below, all, err) : LM_OK;
        else if (top.count == 0)
            r = drop_known(m, s, x->stacks[below].count, x->states[s.exact].text, all, err);
        else
            *all = true;                          /* two keys at once */
    }
    return r;
}

/* Take what the exact machine refuses out of m->both_mask. */
static int drop_refused(struct lm_machine *m, struct both s, struct lm_err *err)
{
    const struct lm_machine *x = m->exact;
    const struct state from = x->states[s.exact];
    const bool keyed = lm_step_is_keyed(x, s.exact), few = m->g->has_few_keys;
    bool all = false;
    int r = LM_OK;
    for (uint32_t i = 0; i < from.n && keyed && r == LM_OK && !all; i++) {
        const uint32_t stack = x->ways[from.ways + i].stack;
        if (x->stacks[stack].keyed && (i == 0 || x->ways[from.ways + i - 1].stack != stack))
            r = drop_open(m, s, stack, &all, err);
    }
    for (uint32_t id = 0; id < m->n_vocab && all && r == LM_OK; id++)
        r = drop_twice(m, s, id, err);
    for (size_t i = 0; i < m->n_special && !all && r == LM_OK; i++) {
        const struct special *y = &m->special[i];
        if (y->quotes > 1 || (few && (y->comma || (keyed && y->quotes))) ||
            (keyed && y->backslash))
            r = drop_twice(m, s, y->id, err);
    }
    return r;
}

int lm_machine_mask(struct lm_machine *m, lm_state s, const uint64_t **mask, struct lm_err *err)
{
    if (!m->exact || s == LM_STATE_DEAD)
        return lm_step_mask(m, s, mask, err);
    int r = lm_step_mask(m, m->both[s].plain, mask, err);
    if (r < 0)
        return r;
    const struct mark plain = lm_machine_mark(m), exact = lm_machine_mark(m->exact);
    memcpy(m->both_mask, *mask, m->words * sizeof *m->both_mask);
    *mask = m->both_mask;
    r = drop_refused(m, m->both[s], err);
    lm_machine_forget(m, &plain);
    lm_machine_forget(m->exact, &exact);
    return r;
}

char *lm_machine_expected(struct lm_machine *m, lm_state s, struct lm_err *err)
{
    return m->exact ? lm_step_expected(m->exact, m->both[s].exact, err) :
                      lm_step_expected(m, s, err);
}
