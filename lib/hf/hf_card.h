/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_CARD_H
#define LM_HF_CARD_H

/*
 * What a model is called and where it comes from: the general.* keys, from the
 * model card (README.md), config.json's _name_or_path, the folder's name, and what the
 * user says.
 *
 * A name such as Llama-3.2-1B-Instruct is taken apart at its hyphens: leading words and
 * versions are the base name (Llama-3.2), 1B a size label, Instruct a finetune; a version
 * after the first other part is the model's version.
 */

#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "hf/source.h"

/* A model's name taken apart; NULL where it has no such part.  In an arena. */
struct lm_hf_name {
    const char *full, *organization, *basename, *finetune, *version, *size_label;
};

/*
 * lm_hf_name_parse - take "NAME" or "ORGANIZATION/NAME" apart.  A size beyond about twice the
 * n_weights (0: not known) or below an eighth of it is taken for something else.
 */
int lm_hf_name_parse(struct lm_hf_name *out, struct lm_arena *a, const char *id,
                     uint64_t n_weights, struct lm_err *err);

/* "smollm2-hf" as "Smollm2 Hf": hyphens are blanks, words without capitals get them. */
const char *lm_hf_name_title(struct lm_arena *a, const char *name);

struct lm_hf_card_options {
    const char *title;              /* the folder's name                                  */
    uint64_t    n_weights;          /* 0: not known, no size label is made                */
    uint64_t    n_in_experts;       /* of these                                           */
    uint32_t    n_expert;           /* the label is of one of them, and says how many     */
    const char *model_name;         /* general.name, or NULL                              */
    const char *metadata;           /* JSON object {"general.KEY": value}, or NULL        */
    size_t      metadata_len;
};

/* Is the text what options.metadata may be: an object of known keys, each with a value of its
 * kind?  LM_EDATA otherwise. */
int lm_hf_check_metadata(const char *text, size_t n, struct lm_err *err);

/*
 * lm_hf_card_write - set general.sampling.*, general.name and the rest, in the reference's
 * order.  Sources, the first that has it (options.metadata and model_name before all):
 * README.md's front matter, config's _name_or_path, the title.
 */
int lm_hf_card_write(struct lm_gguf_writer *w, struct lm_hf_source *src,
                     const struct lm_jval *config, const struct lm_jval *generation_config,
                     const struct lm_hf_card_options *o, const struct lm_env *env,
                     struct lm_err *err);

#endif
