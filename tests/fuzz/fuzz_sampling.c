/* SPDX-License-Identifier: MIT */
/* Samplers: a line with the model's defaults (JSON), a line with their order, a line with values
 * ("option=value ..."), and a row of float32 logits.  What is drawn is one of those left, and
 * those left have chances of 1. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/chain.h"

/* The text up to the next newline, as a string of its own. */
static char *take_line(const uint8_t **p, size_t *n)
{
    const uint8_t *end = memchr(*p, '\n', *n);
    size_t len = end ? (size_t)(end - *p) : *n;
    char *s = malloc(len + 1);
    if (!s)
        abort();
    memcpy(s, *p, len);
    s[len] = 0;
    *n -= end ? len + 1 : len;
    *p += end ? len + 1 : len;
    return s;
}

static void check(struct lm_chain *c, const float *row, uint32_t n, uint32_t pos)
{
    struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = n };
    struct lm_err err;
    size_t left;
    int s = lm_chain_apply(c, &f, row, 0, pos, &err);
    if (s < 0) {
        if (s != LM_EDATA || !*err.text)
            abort();
        return;
    }
    const struct lm_chance *chances = lm_chain_chances(c, 0, &left, &err);
    uint32_t id = lm_chain_draw(c);
    double sum = 0, p = 0;
    for (size_t i = 0; i < left; i++) {
        sum += chances[i].p;
        p = chances[i].id == id ? chances[i].p : p;
    }
    if (id >= n || !(row[id] > -INFINITY) || fabs(sum - 1) > 1e-6 || p <= 0)
        abort();
    if (lm_chain_draw(c) != id || lm_chain_accept(c, id, &err) < 0)
        abort();
}

/* Take the values that are accepted. */
static void set_values(struct lm_sampling *s, const char *words)
{
    char option[64];
    double v;
    struct lm_err err;
    for (int used; sscanf(words, " %63[^= ]=%lf%n", option, &v, &used) == 2; words += used)
        for (size_t i = 0; lm_param_at(i); i++)
            if (!strcmp(lm_param_at(i)->option, option))
                lm_sampling_set(s, lm_param_at(i), v, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *model = take_line(&data, &size), *order = take_line(&data, &size);
    char *values = take_line(&data, &size);
    uint32_t n = (uint32_t)(size / sizeof(float));
    float *row = malloc(size + sizeof *row);
    struct lm_logits_head h = { .n_vocab = n ? n : 1, .sampling = model };
    struct lm_sampling s = { .samplers = *order ? order : NULL };
    struct lm_err err;
    if (!row)
        abort();
    memcpy(row, data, n * sizeof *row);
    set_values(&s, values);
    struct lm_chain *c = lm_chain_new(&s, &h, NULL, &err);
    for (uint32_t pos = 0; c && n && pos < 3; pos++)
        check(c, row, n, pos);
    lm_chain_free(c);
    free(row);
    free(model);
    free(order);
    free(values);
    return 0;
}
