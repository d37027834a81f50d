/* SPDX-License-Identifier: MIT */
/*
 * Templates: the source alone, or, before a NUL, a JSON object of names for it.  Rendered
 * once with these guarded and once not: the text must be the same, and what is marked must
 * be of the same length, with nothing marked where nothing is guarded.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char vars[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a<b>\\u00e9 c\"},{\"role\":\"assistant\","
    "\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\"n\":[1,2.5,true,null,-3,1e30]}],"
    "\"tools\":null,\"s\":\" Ab\\n\",\"d\":{\"k\":1,\"items\":2},\"l\":[3,1,2],\"z\":{}}";

static const struct lm_template_limits limits = {
    .steps = 200000, .memory = 1 << 24, .depth = 200,
};

static const struct tm now = { .tm_year = 125, .tm_mday = 1, .tm_wday = 3 };

static void render(const struct lm_template *t, const struct lm_jval *v)
{
    struct lm_marked_text out[2] = { { .text = { 0 } } };
    int s[2];
    for (int i = 0; i < 2; i++) {
        struct lm_template_layer layer = { v, i };
        s[i] = lm_template_render(t, &layer, 1, &now, &limits, &out[i], NULL);
        if (out[i].text.len != out[i].guard.len || out[i].text.len != out[i].said.len ||
            (s[i] != LM_OK && out[i].text.len))
            abort();
        for (size_t k = 0; k < out[i].guard.len; k++)
            if ((unsigned char)out[i].guard.data[k] > i)
                abort();
    }
    /* Marks take memory: only with them can the limit be passed. */
    if (s[0] == s[1] && (out[0].text.len != out[1].text.len ||
                         (out[0].text.len &&
                          memcmp(out[0].text.data, out[1].text.data, out[0].text.len) != 0)))
        abort();
    for (int i = 0; i < 2; i++)
        lm_marked_text_release(&out[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const char *src = (const char *)data, *json = vars;
    size_t len = size, json_len = sizeof vars - 1;
    struct lm_arena arena = { 0 };
    if (nul) {
        json = src;
        json_len = (size_t)(nul - data);
        src += json_len + 1;
        len -= json_len + 1;
    }
    const struct lm_jval *v = lm_json_tree(&arena, json, json_len, NULL);
    struct lm_template *t = lm_template_parse(src, len, NULL);
    if (t && v && v->kind == LM_JSON_OBJECT)
        render(t, v);
    lm_template_free(t);
    lm_arena_release(&arena);
    return 0;
}
