/* SPDX-License-Identifier: MIT */
#ifndef LM_FRONT_MATTER_H
#define LM_FRONT_MATTER_H

/*
 * The YAML between two lines "---" at the beginning of a model card: members at the top
 * level whose value is a scalar, or a list of scalars, as text.  Everything nested is
 * passed over, as is what is no YAML.
 */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "gguf/gguf.h"

struct lm_yaml_item {
    const char    *key;
    bool           list;
    struct lm_str *values;      /* n of them; 1 for a scalar */
    size_t         n;
};

struct lm_yaml {
    struct lm_yaml_item *items;
    size_t               n;
};

/* Everything lies in the arena; no front matter gives no items. */
int lm_front_matter(struct lm_yaml *y, struct lm_arena *a, const char *text, size_t len,
                    struct lm_err *err);

/* A member by name, or NULL. */
const struct lm_yaml_item *lm_yaml_get(const struct lm_yaml *y, const char *key);

#endif
