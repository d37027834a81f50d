/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE without a list of merges, as tiktoken has it: two symbols join if the bytes
 * of both are a piece, and the piece of lowest rank, its id, comes first.  Every way to part a
 * piece into two pieces is a merge here, and all of a piece's have its rank.
 */
#include "hf/rank_files.h"
#include "vocab/tokenizer.h"

/* A character of a piece is a byte. */
static int check_length(const struct lm_vocab *v, uint32_t i, struct lm_err *err)
{
    size_t len, n = 0;
    const char *p = lm_pieces_get(&v->text, i, &len);
    for (size_t k = 0; k < len; k++)
        n += ((unsigned char)p[k] & 0xC0) != 0x80;
    if (n > LM_RANK_PIECE)
        return lm_fail(err, LM_ENOSUP, "piece %u has more than %d bytes", i, LM_RANK_PIECE);
    return LM_OK;
}

/* Part piece i in all ways, each character of its text being a byte; *n counts those whose
 * parts are pieces, which are added if `add`. */
static void part(struct lm_vocab *v, uint32_t i, bool add, uint64_t *n)
{
    size_t len;
    const char *p = lm_pieces_get(&v->text, i, &len);
    if (v->type[i] != LM_TOKEN_NORMAL)
        return;
    for (size_t k = 1; k < len; k++) {
        if (((unsigned char)p[k] & 0xC0) == 0x80)
            continue;
        int32_t left = lm_vocab_find(v, p, k), right;
        if (left < 0 || (right = lm_vocab_find(v, p + k, len - k)) < 0 ||
            v->type[left] != LM_TOKEN_NORMAL || v->type[right] != LM_TOKEN_NORMAL)
            continue;
        if (add) {
            v->pairs.merge[*n] = (struct lm_merge){ (uint32_t)left, (uint32_t)right, i };
            lm_pairs_add(&v->pairs, (uint32_t)*n, lm_pairs_ask(&v->pairs, (uint32_t)*n));
            v->attr[i] |= LM_ATTR_MERGED;
        }
        ++*n;
    }
}

int lm_ranks_load(struct lm_vocab *v, struct lm_err *err)
{
    uint64_t n = 0, again = 0;
    int s = LM_OK;
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++)
        if ((s = check_length(v, i, err)) == LM_OK)
            part(v, i, false, &n);
    if (s != LM_OK)
        return s;
    if (n > INT32_MAX)
        return lm_fail(err, LM_ENOSUP, "the pieces have %llu parts: so many are not supported",
                       (unsigned long long)n);
    s = lm_pairs_init(&v->pairs, (uint32_t)n, err);
    v->pairs.by_id = true;
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++)
        part(v, i, true, &again);
    v->n_merges = (uint32_t)n;
    return s;
}
