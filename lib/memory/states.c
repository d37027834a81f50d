/* SPDX-License-Identifier: MIT */
/*
 * Recurrent states.  A batch reads the state there is and writes the next one to another
 * block, so that taking it back only means to forget that block; what it read becomes a
 * snapshot.  Of those, more of recent lengths are kept than of old ones: when there are too
 * many, the one goes whose neighbours are closest, measured by how far back they lie.
 */
#include "memory/memory_parts.h"

int lm_states_extend(struct lm_state_part *p, struct lm_state_list *l, struct lm_err *err)
{
    if (!l->next)
        l->next = lm_blocks_get(&p->blocks, err);
    return l->next ? LM_OK : LM_ENOMEM;
}

static void forget(struct lm_state_part *p, struct lm_state_list *l, uint32_t i)
{
    lm_blocks_put(&p->blocks, l->old[i].block);
    l->n_old--;
    for (; i < l->n_old; i++)
        l->old[i] = l->old[i + 1];
}

/* Make one less of the snapshots of a sequence of `length` tokens, not the last, nor that at
 * `held`. */
static void thin_out(struct lm_state_part *p, struct lm_state_list *l, uint32_t length,
                     uint32_t held)
{
    uint32_t worst = l->n_old;
    double least = 0;
    for (uint32_t i = 0; i + 1 < l->n_old; i++) {
        uint32_t before = i ? l->old[i - 1].pos : 0;
        uint32_t after = l->old[i + 1].pos;
        double room = (double)(after - before) / ((double)(length - l->old[i].pos) + 1);
        if (l->old[i].pos == held || (worst < l->n_old && room >= least))
            continue;
        worst = i;
        least = room;
    }
    forget(p, l, worst < l->n_old ? worst : l->n_old - 1);
}

void lm_states_end(struct lm_state_part *p, struct lm_state_list *l, uint32_t length,
                   uint32_t held, bool keep)
{
    struct lm_block *next = l->next;
    if (!next)
        return;
    l->next = NULL;
    if (!keep) {
        lm_blocks_put(&p->blocks, next);
        return;
    }
    if (l->now)
        l->old[l->n_old++] = (struct lm_state_at){ l->now, length };
    l->now = next;
    uint32_t most = p->n_snapshots + (held != UINT32_MAX);
    if (most > LM_MAX_SNAPSHOTS)
        most = LM_MAX_SNAPSHOTS;
    while (l->n_old > most)
        thin_out(p, l, length, held);
}

bool lm_states_reach(const struct lm_state_list *l, uint32_t pos, uint32_t length)
{
    bool there = pos == 0 || pos == length;
    for (uint32_t i = 0; i < l->n_old && !there; i++)
        there = l->old[i].pos == pos;
    return there;
}

void lm_states_cut(struct lm_state_part *p, struct lm_state_list *l, uint32_t pos,
                   uint32_t length)
{
    if (pos == length)
        return;
    lm_blocks_put(&p->blocks, l->now);
    l->now = NULL;
    while (l->n_old && l->old[l->n_old - 1].pos > pos)
        forget(p, l, l->n_old - 1);
    if (l->n_old && l->old[l->n_old - 1].pos == pos)
        l->now = l->old[--l->n_old].block;
}

void lm_states_share(struct lm_state_list *dst, const struct lm_state_list *src)
{
    *dst = *src;
    if (dst->now)
        dst->now->owners++;
    for (uint32_t i = 0; i < dst->n_old; i++)
        dst->old[i].block->owners++;
}

void lm_states_release(struct lm_state_part *p, struct lm_state_list *l)
{
    lm_blocks_put(&p->blocks, l->now);
    lm_blocks_put(&p->blocks, l->next);
    l->now = l->next = NULL;
    while (l->n_old)
        forget(p, l, l->n_old - 1);
}
