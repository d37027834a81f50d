/* SPDX-License-Identifier: MIT */
/* Special tokens of a vocabulary that other files name (hf/hf_named.h). */
#include <stdio.h>
#include <string.h>

#include "vocab/tokenizer.h"

/* The id of a piece, or -1. */
static int32_t find(const struct lm_vocab_src *src, const char *text, size_t len)
{
    for (uint64_t i = 0; i < src->n; i++)
        if (src->tokens[i].len == len && memcmp(src->tokens[i].p, text, len) == 0 &&
            !(src->types && src->types[i] == LM_TOKEN_UNUSED))
            return (int32_t)i;
    return -1;
}

/* Why there is no token of a kind. */
static const char *lack(struct lm_hf_named *x, enum lm_named k)
{
    const char *member = lm_hf_named_member(k);
    if (x->token[k].text)
        snprintf(x->lacks[k], sizeof x->lacks[k], "%s in %s, '%.80s', is no piece of the "
                 "vocabulary", member, x->token[k].file, x->token[k].text);
    else
        snprintf(x->lacks[k], sizeof x->lacks[k], "neither tokenizer_config.json nor "
                 "special_tokens_map.json has %s, nor config.json or generation_config.json "
                 "%s_id", member, member);
    return x->lacks[k];
}

void lm_take_named(struct lm_vocab_src *src, struct lm_hf_named *x)
{
    int32_t *const ids[LM_N_NAMED] = {
        [LM_NAMED_BOS] = &src->bos, [LM_NAMED_EOS] = &src->eos, [LM_NAMED_SEP] = &src->sep,
    };
    for (size_t k = 0; k < LM_N_NAMED; k++) {
        const char *text = x->token[k].text;
        int32_t id = text ? find(src, text, x->token[k].len) : -1;
        if (id < 0 && x->token[k].id >= 0 && (uint64_t)x->token[k].id < src->n)
            id = (int32_t)x->token[k].id;
        if (*ids[k] < 0)
            *ids[k] = id >= 0 ? id : -1;
        if (k == LM_NAMED_EOS && id >= 0 && x->n_ends < LM_MAX_NAMED_ENDS)
            x->ends[x->n_ends++] = id;           /* where the tokenizer itself adds another */
        src->lacks[k] = lack(x, (enum lm_named)k);
    }
    src->ends = x->ends;
    src->n_ends = x->n_ends;
}
