/* SPDX-License-Identifier: MIT */
#include "sample/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "sample/fixed_math.h"
#include "sample/philox.h"
#include "vocab/vocab.h"

#define MAX_LINKS 32

struct link {
    const struct lm_sampler *sampler;
    double                   v[LM_SAMPLER_PARAMS];
    void                    *state;
};

struct lm_chain {
    struct lm_step    step;           /* the seed, and what is being chosen        */
    struct link       links[MAX_LINKS + 1];
    size_t            n_links;
    uint32_t         *bias_ids;       /* [n_bias] ascending                        */
    double           *bias;
    size_t            n_bias;
    const uint64_t   *allowed;        /* [n_vocab / 64] a bit each; NULL: all      */
    const char       *allowed_by;
    struct shared {
        struct lm_cands cands;
        size_t          chains;       /* that work on them                         */
    }                *shared;
    struct lm_chance *chances;
    size_t            chances_cap;
};

/* ---- what the user asked for ---- */

int lm_sampling_set(struct lm_sampling *s, const struct lm_param *p, double v,
                    struct lm_err *err)
{
    size_t i = 0;
    if (lm_param_check(p, v, err) < 0)
        return lm_err_at(err, LM_EUSE, "--%s", p->option);
    while (i < s->n_values && s->values[i].param != p)
        i++;
    if (i == sizeof s->values / sizeof *s->values)
        return lm_fail(err, LM_EUSE, "--%s: too many parameters", p->option);
    s->values[i] = (struct lm_param_value){ p, v };
    if (i == s->n_values)
        s->n_values++;
    return LM_OK;
}

int lm_sampling_bias(struct lm_sampling *s, uint32_t id, double add, struct lm_err *err)
{
    if (!lm_grow(&s->bias, &s->bias_cap, s->n_bias + 1, sizeof *s->bias))
        return lm_fail_nomem(err);
    s->bias[s->n_bias++] = (struct lm_bias){ id, add };
    return LM_OK;
}

void lm_sampling_release(struct lm_sampling *s)
{
    free(s->bias);
    *s = (struct lm_sampling){ 0 };
}

/* The next name of a list: its length, and *list moved behind it; 0 at the end. */
static size_t next_name(const char **list, const char **name)
{
    static const char between[] = ";, ";
    *name = *list + strspn(*list, between);
    size_t n = strcspn(*name, between);
    *list = *name + n;
    return n;
}

int lm_sampling_check_order(const char *samplers, struct lm_err *err)
{
    const char *name;
    size_t count = 0;
    for (size_t n; (n = next_name(&samplers, &name));) {
        if (!lm_sampler_find(name, n)) {
            struct lm_buf all = { 0 };
            for (size_t i = 0; lm_sampler_at(i) && lm_sampler_at(i)->letter; i++)
                lm_buf_printf(&all, "%s%s", i ? ", " : "", lm_sampler_at(i)->name);
            int s = lm_fail(err, LM_EUSE, "'%.*s' is not one of %s", n > 64 ? 64 : (int)n, name,
                            all.data ? all.data : "");
            lm_buf_release(&all);
            return s;
        }
        if (++count > MAX_LINKS)
            return lm_fail(err, LM_EUSE, "more than %d samplers", MAX_LINKS);
    }
    return LM_OK;
}

bool lm_sampling_names(const char *samplers, const struct lm_sampler *sampler)
{
    const char *name;
    for (size_t n; (n = next_name(&samplers, &name));)
        if (lm_sampler_find(name, n) == sampler)
            return true;
    return false;
}

/* ---- making a chain ---- */

/* Is it something that this version takes from a model? */
static bool known_key(const char *key)
{
    for (size_t i = 0; lm_param_at(i); i++)
        if (lm_param_at(i)->key && !strcmp(key, lm_param_at(i)->key))
            return true;
    return !strcmp(key, "sequence");
}

/* The names of a model's order that are samplers here, as a list; the others are noted. */
static int model_order(const struct lm_jval *seq, const struct lm_env *env, char **order,
                       struct lm_err *err)
{
    const char *list = lm_jval_str(seq), *name;
    struct lm_buf known = { 0 };
    if (!list)
        return lm_fail(err, LM_EDATA, "the model's sampling.sequence is not a string");
    lm_buf_str(&known, "");
    for (size_t n; (n = next_name(&list, &name));) {
        if (lm_sampler_find(name, n))
            lm_buf_printf(&known, "%.*s;", (int)n, name);
        else
            lm_note(env, LM_INFO, "the model's order of samplers names '%.*s', which this "
                    "version lacks", n > 64 ? 64 : (int)n, name);
    }
    if (!known.data || known.failed)
        return lm_fail_nomem(err);
    *order = known.data;
    return lm_sampling_check_order(*order, err) < 0 ? lm_fail(err, LM_EDATA,
        "the model's sampling.sequence has more than %d samplers", MAX_LINKS) : LM_OK;
}

static const struct lm_sampler *temperature(void)
{
    return lm_sampler_find("t", 1);
}

/* The value of a parameter: the user's, the model's, or the default. */
static int value_of(const struct lm_param *p, const struct lm_sampling *s,
                    const struct lm_jval *model, double *v, struct lm_err *err)
{
    for (size_t i = 0; i < s->n_values; i++)
        if (s->values[i].param == p) {
            *v = s->values[i].value;
            return LM_OK;
        }
    const struct lm_jval *m = p->key ? lm_jval_get(model, p->key) : NULL;
    *v = p->value;
    if (!m)
        return LM_OK;
    if (!lm_jval_f64(m, v))
        return lm_fail(err, LM_EDATA, "the model's sampling.%s is not a number", p->key);
    if (lm_param_check(p, *v, err) < 0) {
        lm_err_at(err, LM_EDATA, "the model's sampling.%s", p->key);
        if (err)
            err->code = LM_EDATA;
        return LM_EDATA;
    }
    return LM_OK;
}

static int values_of(const struct lm_sampler *sampler, const struct lm_sampling *s,
                     const struct lm_jval *model, double *v, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; r == LM_OK && sampler->params[i]; i++)
        r = value_of(sampler->params[i], s, model, &v[i], err);
    if (s->greedy && sampler == temperature())
        memcpy(v, (const double[]){ 0, 0, 1 }, 3 * sizeof *v);
    return r;
}

static int add_link(struct lm_chain *c, const struct lm_sampler *sampler,
                    const struct lm_sampling *s, const struct lm_setup *setup,
                    const struct lm_jval *model, struct lm_err *err)
{
    struct link *k = &c->links[c->n_links];
    *k = (struct link){ .sampler = sampler };
    int r = values_of(sampler, s, model, k->v, err);
    if (r < 0 || sampler->off(k->v))
        return r;
    if (sampler->new_state && !(k->state = sampler->new_state(k->v, setup, err)))
        return err->code;
    c->n_links++;
    return LM_OK;
}

/* The samplers of a chain in order, before it is known which of them are off. */
struct order {
    const struct lm_sampler *samplers[MAX_LINKS + 1];
    size_t                   n;
};

/* The order of a list of names, which is known to be good; the one that makes the choice its
 * own comes last, and once. */
static void order_of(const char *list, struct order *o)
{
    const struct lm_sampler *chooser = NULL;
    const char *name;
    for (size_t n; (n = next_name(&list, &name));) {
        const struct lm_sampler *sampler = lm_sampler_find(name, n);
        if (sampler->purpose)
            chooser = sampler;
        else
            o->samplers[o->n++] = sampler;
    }
    if (chooser)
        o->samplers[o->n++] = chooser;
}

static void default_order(struct order *o)
{
    for (size_t i = 0; lm_sampler_at(i); i++)
        if (!lm_sampler_at(i)->on_request)
            o->samplers[o->n++] = lm_sampler_at(i);
}

/* Is mirostat asked for?  Its values say so, not its name in a list. */
static int wants_mirostat(const struct lm_sampling *s, const struct lm_jval *model, bool *wants,
                          struct lm_err *err)
{
    double v[LM_SAMPLER_PARAMS];
    int r = values_of(&lm_mirostat, s, model, v, err);
    *wants = r == LM_OK && !lm_mirostat.off(v);
    return r;
}

static int find_order(const struct lm_sampling *s, const struct lm_jval *model,
                      const struct lm_env *env, struct order *o, struct lm_err *err)
{
    bool mirostat;
    int r = wants_mirostat(s, model, &mirostat, err);
    if (r < 0)
        return r;
    if (mirostat) {
        *o = (struct order){ { temperature(), &lm_mirostat }, 2 };
    } else if (s->samplers) {
        if ((r = lm_sampling_check_order(s->samplers, err)) == LM_OK)
            order_of(s->samplers, o);
    } else if (lm_jval_get(model, "sequence")) {
        char *list = NULL;
        if ((r = model_order(lm_jval_get(model, "sequence"), env, &list, err)) == LM_OK)
            order_of(list, o);
        free(list);
    } else {
        default_order(o);
    }
    return r;
}

/* Warn of what mirostat, or the choice of the best token, makes vain. */
static void note_vain(const struct lm_chain *c, const struct lm_sampling *s, const struct order *o,
                      const struct lm_env *env)
{
    if (o->n == 0 || o->samplers[o->n - 1] != &lm_mirostat)
        return;
    if (s->samplers)
        lm_note(env, LM_WARN, "--samplers has no effect: mirostat runs in their place");
    for (size_t i = 0; i < s->n_values && !lm_chain_is_random(c); i++)
        for (size_t j = 0; lm_mirostat.params[j]; j++)
            if (lm_mirostat.params[j] == s->values[i].param)
                lm_note(env, LM_WARN, "--%s has no effect: the best token is always taken",
                        s->values[i].param->option);
}

/* Warn of values that no sampler of the order takes. */
static void note_unused(const struct lm_sampling *s, const struct order *o,
                        const struct lm_env *env)
{
    for (size_t i = 0; i < s->n_values; i++) {
        const struct lm_param *p = s->values[i].param;
        bool used = false;
        for (size_t k = 0; k < o->n; k++)
            for (size_t j = 0; o->samplers[k]->params[j]; j++)
                used |= o->samplers[k]->params[j] == p;
        if (!used)
            lm_note(env, LM_WARN, "--%s has no effect: its sampler does not run", p->option);
    }
}

static int add_links(struct lm_chain *c, const struct lm_sampling *s, const struct lm_setup *setup,
                     const struct lm_jval *model, const struct lm_env *env, struct lm_err *err)
{
    struct order o = { 0 };
    int r = find_order(s, model, env, &o, err);
    if (r == LM_OK)
        note_unused(s, &o, env);
    for (size_t i = 0; r == LM_OK && i < o.n; i++)
        r = add_link(c, o.samplers[i], s, setup, model, err);
    if (r == LM_OK && s->greedy && lm_chain_is_random(c))
        r = add_link(c, temperature(), s, setup, model, err);
    if (r == LM_OK)
        note_vain(c, s, &o, env);
    return r;
}

static int by_id(const void *a, const void *b)
{
    const struct lm_bias *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->add < y->add ? -1 : x->add > y->add;
}

/* Collect the biases: ids ascending, each once with its sum; -inf beats all, as what the model
 * suppresses has it. */
static int add_bias(struct lm_chain *c, const struct lm_sampling *s,
                    const struct lm_logits_head *h, struct lm_err *err)
{
    size_t n = 0, eog = s->ignore_eos ? h->n_eog : 0, most = s->n_bias + eog + h->n_suppress;
    struct lm_bias *all = lm_malloc_array(most, sizeof *all);
    c->bias_ids = lm_malloc_array(most, sizeof *c->bias_ids);
    c->bias = lm_malloc_array(most, sizeof *c->bias);
    if (!all || !c->bias_ids || !c->bias) {
        free(all);
        return lm_fail_nomem(err);
    }
    for (size_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].id >= h->n_vocab) {
            free(all);
            return lm_fail(err, LM_EUSE, "--logit-bias: id %u is outside the vocabulary of %u",
                           (unsigned)s->bias[i].id, (unsigned)h->n_vocab);
        }
        all[n++] = s->bias[i];
    }
    for (size_t i = 0; i < eog; i++)
        all[n++] = (struct lm_bias){ (uint32_t)h->eog[i], -INFINITY };
    for (size_t i = 0; i < h->n_suppress; i++)
        all[n++] = (struct lm_bias){ (uint32_t)h->suppress[i], -INFINITY };
    qsort(all, n, sizeof *all, by_id);            /* an id's -inf comes first */
    for (size_t i = 0; i < n; i++) {
        if (c->n_bias == 0 || c->bias_ids[c->n_bias - 1] != all[i].id) {
            c->bias_ids[c->n_bias] = all[i].id;
            c->bias[c->n_bias++] = all[i].add;
        } else if (c->bias[c->n_bias - 1] != -INFINITY) {
            c->bias[c->n_bias - 1] += all[i].add;
        }
    }
    free(all);
    return LM_OK;
}

static void describe(const struct lm_chain *c, const struct lm_env *env)
{
    struct lm_buf b = { 0 };
    for (size_t i = 0; i < c->n_links; i++) {
        const struct link *k = &c->links[i];
        lm_buf_printf(&b, "%s%s", i ? ", " : "", k->sampler->name);
        for (size_t j = 0; k->sampler->params[j]; j++)
            lm_buf_printf(&b, " %s=%.9g", k->sampler->params[j]->option, k->v[j]);
    }
    lm_note(env, LM_INFO, "samplers: %s", b.len ? b.data : "none");
    lm_buf_release(&b);
}

/* Its ids of text: special tokens at its end may have no row in the model. */
static uint32_t text_ids(const struct lm_vocab *v)
{
    uint32_t n = lm_vocab_n(v);
    while (n > 0 && lm_vocab_type(v, n - 1) != LM_TOKEN_NORMAL &&
           lm_vocab_type(v, n - 1) != LM_TOKEN_BYTE)
        n--;
    return n;
}

/* Is the vocabulary for texts the model's?  The model may have rows for more ids. */
static int check_vocab(const struct lm_sampling *s, const struct lm_logits_head *h,
                       struct lm_err *err)
{
    const char *model = h->model ? h->model : "the model";
    if (!s->vocab)
        return LM_OK;
    if (text_ids(s->vocab) > h->n_vocab)
        return lm_fail(err, LM_EUSE, "%s: the vocabulary has %u ids, that of %s %u", s->vocab_name,
                       (unsigned)lm_vocab_n(s->vocab), model, (unsigned)h->n_vocab);
    const int32_t eos = lm_vocab_eos(s->vocab);
    bool ends = eos < 0 || h->eos < 0 || eos == h->eos ||
                lm_vocab_is_eog(s->vocab, (int32_t)h->eos);
    for (size_t i = 0; i < h->n_eog; i++)
        ends |= h->eog[i] == eos;
    return ends ? LM_OK : lm_fail(err, LM_EUSE, "%s: the vocabulary ends texts with id %d, "
                                  "that of %s with %d", s->vocab_name, (int)eos, model,
                                  (int)h->eos);
}

struct lm_chain *lm_chain_new(const struct lm_sampling *s, const struct lm_logits_head *h,
                              const struct lm_env *env, struct lm_err *err)
{
    const struct lm_setup setup = {
        .n_vocab = h->n_vocab, .eog = h->eog, .n_eog = h->n_eog,
        .breakers = s->breakers, .vocab = s->vocab,
    };
    struct lm_arena arena = { 0 };
    const struct lm_jval *model = NULL;
    struct lm_chain *c = calloc(1, sizeof *c);
    int r = c ? LM_OK : lm_fail_nomem(err);
    if (r == LM_OK)
        r = check_vocab(s, h, err);
    if (r == LM_OK && h->sampling) {
        model = lm_json_tree(&arena, h->sampling, strlen(h->sampling), err);
        r = model ? LM_OK : lm_err_at(err, LM_EDATA, "the model's sampling");
        for (const struct lm_jval *m = model ? model->first : NULL; m && m->key; m = m->next)
            if (!known_key(m->key))
                lm_note(env, LM_WARN, "the model asks for %s, which this version lacks", m->key);
    }
    if (r == LM_OK) {
        c->step.seed = s->seed;
        r = add_links(c, s, &setup, model, env, err);
    }
    if (r == LM_OK)
        r = add_bias(c, s, h, err);
    if (r == LM_OK && !(c->shared = calloc(1, sizeof *c->shared)))
        r = lm_fail_nomem(err);
    if (r == LM_OK && (r = lm_cands_init(&c->shared->cands, h->n_vocab, err)) == LM_OK)
        c->shared->chains = 1;
    if (r == LM_OK) {
        describe(c, env);
    } else {
        lm_chain_free(c);
        c = NULL;
    }
    lm_arena_release(&arena);
    return c;
}

void lm_chain_free(struct lm_chain *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_links; i++)
        if (c->links[i].state)
            c->links[i].sampler->free_state(c->links[i].state);
    free(c->bias_ids);
    free(c->bias);
    free(c->chances);
    if (c->shared && (c->shared->chains == 0 || --c->shared->chains == 0)) {
        lm_cands_release(&c->shared->cands);
        free(c->shared);
    }
    free(c);
}

struct lm_chain *lm_chain_clone(struct lm_chain *from, struct lm_err *err)
{
    struct lm_chain *c = calloc(1, sizeof *c);
    int r = LM_OK;
    if (!c) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->step = from->step;
    c->bias_ids = lm_malloc_array(from->n_bias, sizeof *c->bias_ids);
    c->bias = lm_malloc_array(from->n_bias, sizeof *c->bias);
    for (; r == LM_OK && c->n_links < from->n_links; c->n_links++) {
        struct link *k = &c->links[c->n_links];
        *k = from->links[c->n_links];
        if (k->state && !(k->state = k->sampler->clone(k->state)))
            r = LM_ENOMEM;
    }
    c->shared = from->shared;
    c->shared->chains++;
    c->allowed = from->allowed;
    c->allowed_by = from->allowed_by;
    if (r < 0 || !c->bias_ids || !c->bias) {
        lm_chain_free(c);
        lm_fail_nomem(err);
        return NULL;
    }
    c->n_bias = from->n_bias;
    if (c->n_bias) {
        memcpy(c->bias_ids, from->bias_ids, c->n_bias * sizeof *c->bias_ids);
        memcpy(c->bias, from->bias, c->n_bias * sizeof *c->bias);
    }
    return c;
}

/* The link that leaves one candidate: a temperature of 0 or less. */
static size_t greedy_link(const struct lm_chain *c)
{
    size_t i = 0;
    while (i < c->n_links && !(c->links[i].sampler == temperature() && c->links[i].v[0] <= 0 &&
                               c->links[i].v[1] <= 0))
        i++;
    return i;
}

bool lm_chain_is_random(const struct lm_chain *c)
{
    return greedy_link(c) == c->n_links;
}

int lm_chain_accept(struct lm_chain *c, uint32_t id, struct lm_err *err)
{
    for (size_t i = 0; i < c->n_links; i++) {
        const struct link *k = &c->links[i];
        int r = k->sampler->accept ? k->sampler->accept(k->state, id, err) : LM_OK;
        if (r < 0)
            return r;
    }
    return LM_OK;
}

void lm_chain_reset(struct lm_chain *c)
{
    for (size_t i = 0; i < c->n_links; i++)
        if (c->links[i].sampler->reset)
            c->links[i].sampler->reset(c->links[i].state);
}

/* ---- running it ---- */

static double add_to(const void *arg, size_t i, double l)
{
    const double *bias = arg;
    return l + bias[i];
}

static int check_left(const struct lm_cands *c, const char *after, struct lm_err *err)
{
    return lm_cands_empty(c) ? lm_fail(err, LM_EDATA, "no token can be chosen: %s", after) : LM_OK;
}

static int fill(struct lm_cands *c, const struct lm_frame *f, const void *payload,
                struct lm_err *err)
{
    int r;
    if (f->kind == LM_FRAME_DENSE && f->n == c->n_vocab)
        r = lm_cands_row(c, payload, err);
    else if (f->kind == LM_FRAME_TOP)
        r = lm_cands_top(c, payload, f->n, err);
    else
        r = lm_fail(err, LM_EDATA, f->kind == LM_FRAME_DENSE ? "a row of another size than the "
                    "vocabulary" : "a frame without logits");
    return r < 0 ? r : check_left(c, "every logit is -inf", err);
}

void lm_chain_allow(struct lm_chain *c, const uint64_t *allowed, const char *who)
{
    c->allowed = allowed;
    c->allowed_by = who;
}

int lm_chain_apply(struct lm_chain *c, const struct lm_frame *f, const void *payload,
                   uint32_t seq, uint32_t pos, struct lm_err *err)
{
    c->step.seq = seq;
    c->step.pos = pos;
    int r = fill(&c->shared->cands, f, payload, err);
    if (r == LM_OK && c->n_bias) {
        r = lm_cands_edit(&c->shared->cands, c->bias_ids, c->n_bias, add_to, c->bias, err);
        if (r == LM_OK)
            r = check_left(&c->shared->cands, "the logit bias leaves none", err);
    }
    if (r == LM_OK && c->allowed) {
        lm_cands_allow(&c->shared->cands, c->allowed);
        if (lm_cands_empty(&c->shared->cands))
            r = lm_fail(err, LM_EDATA, "no token can be chosen: %s leaves none", c->allowed_by);
    }

    /* What only removes others than the best need not run before greedy. */
    size_t greedy = greedy_link(c), skip = greedy;
    while (greedy < c->n_links && skip > 0 && c->links[skip - 1].sampler->keeps_best)
        skip--;
    for (size_t i = 0; r == LM_OK && i < c->n_links && i <= greedy; i++) {
        const struct link *k = &c->links[i];
        if (i >= skip && i < greedy)
            continue;
        r = k->sampler->apply(&c->shared->cands, k->v, k->state, &c->step, err);
        if (r == LM_OK && lm_cands_empty(&c->shared->cands))
            r = lm_fail(err, LM_EDATA, "no token can be chosen: %s leaves none", k->sampler->name);
    }
    return r;
}

int lm_chain_apply_row(struct lm_chain *c, const float *logits, uint32_t seq, uint32_t pos,
                       struct lm_err *err)
{
    const uint32_t n = c->shared->cands.n_vocab;
    const struct lm_frame f = { .kind = LM_FRAME_DENSE, .bytes = n * (uint32_t)sizeof *logits,
                                .n = n };
    return lm_chain_apply(c, &f, logits, seq, pos, err);
}

/* The sampler that makes the choice its own, or NULL. */
static const struct link *chooser(const struct lm_chain *c)
{
    const struct link *last = c->n_links ? &c->links[c->n_links - 1] : NULL;
    return last && last->sampler->purpose ? last : NULL;
}

void lm_chain_chosen(struct lm_chain *c, uint32_t id)
{
    const struct link *k = chooser(c);
    if (k)
        k->sampler->drawn(k->state, &c->shared->cands, id);
}

uint32_t lm_chain_draw(struct lm_chain *c)
{
    struct lm_cands *left = &c->shared->cands;
    const struct link *k = chooser(c);
    const struct lm_step *at = &c->step;
    const enum lm_purpose purpose = k ? k->sampler->purpose : LM_PURPOSE_DRAW;
    const uint32_t id = !left->row && left->n == 1 ? left->list[0].id :
        lm_cands_pick(left, lm_uniform(at->seed, at->pos, at->seq, purpose));
    lm_chain_chosen(c, id);
    return id;
}

const struct lm_chance *lm_chain_chances(struct lm_chain *c, size_t k, size_t *n,
                                         struct lm_err *err)
{
    struct lm_cands *s = &c->shared->cands;
    double total = 0;
    lm_cands_sort(s, LM_BY_RANK);
    for (size_t i = 0; i < s->n; i++)             /* what is shown is exact in all digits */
        total += lm_exp(s->list[i].l - s->list[0].l);
    *n = k && k < s->n ? k : s->n;
    if (!lm_grow(&c->chances, &c->chances_cap, *n, sizeof *c->chances)) {
        lm_fail_nomem(err);
        return NULL;
    }
    for (size_t i = 0; i < *n; i++)
        c->chances[i] = (struct lm_chance){
            .id = s->list[i].id,
            .p  = lm_exp(s->list[i].l - s->list[0].l) / total,
        };
    return c->chances;
}
