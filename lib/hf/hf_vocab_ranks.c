/* SPDX-License-Identifier: MIT */
/* Vocabularies that are lists of byte strings (rank_files.h), as GGUF holds them: with merges,
 * which the files do not have. */

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "hf/hf_vocab_parts.h"

struct merges {
    struct lm_hf_vocab *v;
    struct lm_hf_index  index;          /* of pieces that are no control tokens            */
    struct lm_str      *list;
    size_t              n, cap;
    size_t              at[LM_RANK_PIECE + 1];  /* where characters begin, and the end     */
    int64_t             rank[LM_RANK_PIECE];    /* of what begins there and the next part  */
};

static int add_merge(struct merges *m, const struct lm_str *s, size_t left, struct lm_err *err)
{
    char *p = lm_arena_alloc(&m->v->arena, s->len + 2);
    if (!p || !lm_grow(&m->list, &m->cap, m->n + 1, sizeof *m->list))
        return lm_fail_nomem(err);
    memcpy(p, s->p, left);
    p[left] = ' ';
    memcpy(p + left + 1, s->p + left, s->len - left);
    p[s->len + 1] = 0;
    m->list[m->n++] = (struct lm_str){ p, s->len + 1 };
    return LM_OK;
}

/* Where the characters of a piece begin; their number, 0 if there are too many. */
static size_t characters(struct merges *m, const struct lm_str *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) {
        if (((unsigned char)s->p[i] & 0xC0) == 0x80)
            continue;
        if (n == LM_RANK_PIECE)
            return 0;
        m->at[n++] = i;
    }
    m->at[n] = s->len;
    return n;
}

/* The rank of the piece that parts i and i + 1 of n make, if that is below `limit`. */
static int64_t pair_rank(const struct merges *m, const struct lm_str *s, size_t i, size_t n,
                         int64_t limit)
{
    const int64_t id = i + 1 < n ? lm_hf_index_find(&m->index, s->p + m->at[i],
                                                    m->at[i + 2] - m->at[i]) : -1;
    return id >= 0 && id < limit ? id : INT64_MAX;
}

/* Merge the bytes of piece `id`, the lowest rank first, with pieces of lower rank: if two parts
 * are left, they are the merge that makes it. */
static int last_two(struct merges *m, uint32_t id, size_t n, struct lm_err *err)
{
    const struct lm_str *s = &m->v->pieces[id];
    for (size_t i = 0; i < n; i++)
        m->rank[i] = pair_rank(m, s, i, n, id);
    while (n > 2) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            best = m->rank[i] < m->rank[best] ? i : best;
        if (m->rank[best] == INT64_MAX)
            return LM_OK;
        n--;
        memmove(m->at + best + 1, m->at + best + 2, (n - best) * sizeof *m->at);
        memmove(m->rank + best + 1, m->rank + best + 2, (n - best - 1) * sizeof *m->rank);
        m->rank[best] = pair_rank(m, s, best, n, id);
        if (best)
            m->rank[best - 1] = pair_rank(m, s, best - 1, n, id);
    }
    return n == 2 ? add_merge(m, s, m->at[1], err) : LM_OK;
}

/* A way to part a piece. */
struct parting {
    int64_t left, right;
    size_t  at;
};

static int parting_order(const void *a, const void *b)
{
    const struct parting *x = a, *y = b;
    return x->left != y->left ? (x->left < y->left ? -1 : 1)
                              : (x->right > y->right) - (x->right < y->right);
}

/* Every way to part piece `id` into two pieces is a merge. */
static int all_partings(struct merges *m, uint32_t id, size_t n, struct lm_err *err)
{
    const struct lm_str *s = &m->v->pieces[id];
    struct parting found[LM_RANK_PIECE];
    size_t n_found = 0;
    for (size_t i = 1; i < n; i++) {
        const size_t at = m->at[i];
        const int64_t left = lm_hf_index_find(&m->index, s->p, at);
        const int64_t right = left < 0 ? -1 : lm_hf_index_find(&m->index, s->p + at, s->len - at);
        if (right >= 0)
            found[n_found++] = (struct parting){ left, right, at };
    }
    qsort(found, n_found, sizeof *found, parting_order);
    int r = LM_OK;
    for (size_t i = 0; !r && i < n_found; i++)
        r = add_merge(m, s, found[i].at, err);
    return r;
}

static int make_merges(struct lm_hf_vocab *v, bool all, struct lm_err *err)
{
    struct merges *m = calloc(1, sizeof *m);
    int r = m ? lm_hf_index_make(&m->index, v, LM_PIECE_NORMAL, err) : lm_fail_nomem(err);
    if (m)
        m->v = v;
    for (uint32_t i = 0; !r && i < v->n; i++) {
        if (v->types[i] != LM_PIECE_NORMAL)
            continue;
        const size_t n = characters(m, &v->pieces[i]);
        if (!n && v->pieces[i].len)
            r = lm_fail(err, LM_ENOSUP, "piece %u has more than %d bytes", i, LM_RANK_PIECE);
        else
            r = all ? all_partings(m, i, n, err) : last_two(m, i, n, err);
    }
    v->n_merges = r ? 0 : m->n;
    v->merges = r ? NULL : lm_arena_array(&v->arena, m->n + 1, sizeof *v->merges);
    if (!r && !v->merges)
        r = lm_fail_nomem(err);
    if (!r && m->n)
        memcpy(v->merges, m->list, m->n * sizeof *m->list);
    if (m) {
        lm_hf_index_release(&m->index);
        free(m->list);
    }
    free(m);
    return r;
}

static void set_id(struct lm_hf_vocab *v, const char *key, int32_t id)
{
    if (id < 0)
        return;
    v->ids[v->n_ids].key = key;
    v->ids[v->n_ids++].id = (uint32_t)id;
}

/* What the file says of special ids itself.  Mistral's library takes the end token where there
 * is none for padding. */
static void own_ids(struct lm_hf_vocab *v, const struct lm_rank_file *f)
{
    set_id(v, "bos_token_id", f->bos);
    set_id(v, "eos_token_id", f->eos);
    set_id(v, "unknown_token_id", f->unk);
    if (v->ids_first) {
        set_id(v, "padding_token_id", f->pad >= 0 ? f->pad : f->eos);
        v->adds[0].key = "add_bos_token";
        v->adds[0].add = true;
        v->adds[1].key = "add_eos_token";
        v->n_adds = 2;
    }
    set_id(v, "eot_token_id", f->eot);
}

static int lay(struct lm_hf_vocab *v, const struct lm_rank_file *f, bool all_control,
               struct lm_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        if (!f->text[i].len && f->type[i] == LM_PIECE_UNUSED)
            continue;
        if (!lm_hf_copy(v, f->text[i].p, f->text[i].len, &v->pieces[i]))
            return lm_fail_nomem(err);
        v->types[i] = all_control && f->type[i] == LM_PIECE_USER ? LM_PIECE_CONTROL : f->type[i];
    }
    return LM_OK;
}

/* tokenizer_config.json names the control tokens of tiktoken's files. */
static int lay_controls(struct lm_hf_vocab *v, const struct lm_jval *decoder, struct lm_err *err)
{
    const int r = lm_hf_lay_decoder(v, decoder, err);
    for (const struct lm_jval *t = decoder && !r ? decoder->first : NULL; t; t = t->next)
        v->types[strtoul(t->key, NULL, 10)] = LM_PIECE_CONTROL;
    return r;
}

static int fill(struct lm_hf_vocab *v, const struct lm_rank_file *f, bool tekken,
                const struct lm_hf_beside *beside, struct lm_err *err)
{
    const bool bpe = !strcmp(f->model, "gpt2");
    const struct lm_jval *decoder =
        bpe && !tekken ? lm_jval_get(beside->tokenizer_config, "added_tokens_decoder") : NULL;
    v->model = f->model;
    v->pre = bpe && beside->pre ? beside->pre : f->pre;
    if (bpe && !v->pre)
        return lm_fail(err, LM_ENOSUP, "%llu ranks are no known tokenizer: say how words are cut "
                       "with --pre NAME", (unsigned long long)f->n_ranks);
    int r = lm_hf_room(v, lm_hf_ids_in(decoder, true, f->n), beside->n_rows, tekken, err);
    if (!r)
        r = lay(v, f, tekken, err);
    if (!r)
        r = lay_controls(v, decoder, err);
    for (uint32_t i = 0; !r && tekken && i < v->n; i++)
        v->scores[i] = 0;
    v->by_ranks = bpe;
    v->nfc = f->nfc;
    v->whole_words = f->whole;
    v->ids_first = tekken;
    if (!r && bpe)
        r = make_merges(v, tekken, err);
    if (!r && (tekken || !bpe))
        own_ids(v, f);
    return r;
}

int lm_hf_load_ranks(struct lm_hf_vocab *v, lm_rank_reader *read, const char *data, size_t len,
                     const struct lm_hf_beside *beside, struct lm_err *err)
{
    struct lm_rank_file f = {0};
    int r = read(&f, data, len, err);
    if (!r)
        r = fill(v, &f, read == lm_rank_tekken, beside, err);
    if (!r && read == lm_rank_tiktoken) {
        v->usual_bos = f.bos;
        v->usual_eos = f.eos;
        v->usual_unk = f.unk;
    }
    lm_rank_release(&f);
    return r;
}

const char *lm_hf_rank_file(const struct lm_hf_source *src, lm_rank_reader **read)
{
    static const struct { const char *begin, *end; lm_rank_reader *read; } lists[] = {
        { "tekken.json", "tekken.json", lm_rank_tekken },
        { "tiktoken.model", "tiktoken.model", lm_rank_tiktoken },
        { "", ".tiktoken", lm_rank_tiktoken },
        { "rwkv_vocab_", ".txt", lm_rank_rwkv },
    };
    for (size_t i = 0; i < lm_hf_n_files(src); i++)
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
            const char *name = lm_hf_name(src, i);
            *read = lists[k].read;
            if (!strchr(name, '/') && lm_begins_with(name, lists[k].begin) &&
                lm_ends_with(name, lists[k].end))
                return name;
        }
    *read = NULL;
    return NULL;
}
