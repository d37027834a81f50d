/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "vocab/tokenizer.h"

static const struct lm_tok_model *const models[] = { &lm_tok_gpt2, &lm_tok_llama,
                                                   &lm_tok_chars, &lm_tok_t5, &lm_tok_bert,
                                                   &lm_tok_rwkv, &lm_tok_plamo2,
                                                   &lm_tok_gemma4, &lm_tok_rules };

const struct lm_tok_model *lm_tok_model_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i]->name) == len && memcmp(models[i]->name, name, len) == 0)
            return models[i];
    return NULL;
}
