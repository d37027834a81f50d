/* SPDX-License-Identifier: MIT */
#include "job/convert_sink.h"

/* Errors name the output. */
static int named(const struct lm_convert_sink *k, int r, struct lm_err *err)
{
    return r ? lm_err_at(err, r, "%s", lm_out_name(k->out)) : LM_OK;
}

/* The zeros behind the item: as lm_gguf_write_pad writes them. */
static uint64_t padding(const struct lm_convert_sink *k, const struct lm_convert_item *it)
{
    return lm_gguf_padding(k->c->w, it->t.bytes);
}

static int open_shard(struct lm_convert_sink *k, size_t shard, struct lm_err *err)
{
    if (k->out) {
        const int r = lm_out_complete(k->out, err);
        if (r)
            return named(k, r, err);
    }
    k->shard = shard;
    k->out = k->t->open(k->t->user, shard, err);
    if (!k->out)
        return err->code;
    return named(k, lm_split_write_head(k->t->split, shard, k->out, err), err);
}

/* Go over the items that an earlier run wrote. */
static int go_over(struct lm_convert_sink *k, struct lm_err *err)
{
    int r = 1;
    k->resume = lm_resume_open(k->out, err);
    if (!k->resume)
        return err->code;
    while (r == 1 && k->item < k->c->n_items) {
        const struct lm_convert_item *it = &k->c->items[k->item];
        r = lm_resume_skip(k->resume, it->t.name, it->t.bytes, padding(k, it), err);
        k->item += r == 1;
    }
    if (r >= 0 && k->item)
        lm_note(k->c->env, LM_INFO, "%zu of %zu tensors were there already", k->item,
                k->c->n_items);
    return r < 0 ? r : LM_OK;
}

int lm_sink_start(struct lm_convert_sink *k, struct lm_err *err)
{
    if (k->t->split)
        return open_shard(k, 0, err);
    k->out = k->t->out;
    int r = lm_gguf_write_head(k->c->w, k->out, err);
    if (!r && k->t->resume)
        r = go_over(k, err);
    return named(k, r, err);
}

int lm_sink_begin(struct lm_convert_sink *k, struct lm_err *err)
{
    const struct lm_split *s = k->t->split;
    int r = LM_OK;
    while (s && !r && k->shard + 1 < s->n_shards && s->shards[k->shard + 1].first <= k->item)
        r = open_shard(k, k->shard + 1, err);
    return r;
}

int lm_sink_bytes(struct lm_convert_sink *k, const void *p, size_t n, struct lm_err *err)
{
    if (k->resume)
        lm_resume_bytes(k->resume, p, n);
    return named(k, lm_out_write(k->out, p, n, err), err);
}

int lm_sink_end(struct lm_convert_sink *k, struct lm_err *err)
{
    const struct lm_convert_item *it = &k->c->items[k->item++];
    int r = lm_out_zeros(k->out, padding(k, it), err);
    if (!r && k->resume)
        r = lm_resume_whole(k->resume, it->t.name, err);
    return named(k, r, err);
}

void lm_sink_close(struct lm_convert_sink *k, bool done)
{
    lm_resume_close(k->resume, done);
    k->resume = NULL;
}
