/* SPDX-License-Identifier: MIT */
/*
 * Conversations: a byte of options, then the JSON.  Rendered twice through a template that
 * shows all there is: both must be the same, each byte with its mark, and nothing is left
 * behind by a failure.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/chat_parts.h"
#include "template/chat_formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char source[] =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>"
    "{% if m.content is string %}{{ m.content|trim }}{% else %}"
    "{% for p in m.content %}{{ p.text if p.type == 'text' else p|tojson }}{% endfor %}{% endif %}"
    "{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}"
    "{{ m.reasoning_content }}\n{% endfor %}{{ tools|tojson if tools }}"
    "{% for d in documents %}{{ d.title ~ d.text }}{% endfor %}{{ enable_thinking }}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

static const struct tm now = { .tm_year = 125, .tm_mday = 1, .tm_wday = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_chat_template t = { { "default", 7 }, { source, sizeof source - 1 }, "m", "" };
    struct lm_chat c = { .templates = &t, .n = 1, .special = { .kind = LM_JSON_OBJECT } };
    struct lm_marked_text out[2] = { { .text = { 0 } } };
    const char *at = NULL;
    int s[2];
    if (size == 0)
        return 0;
    struct lm_chat_options o = {
        .no_generation_prompt = data[0] & 1, .continue_final = data[0] & 2, .now = &now,
        .template_name = data[0] & 4 ? lm_chat_format_name(data[0] >> 3) : NULL,
        .start = { "<s>", 3 },
    };
    for (int i = 0; i < 2; i++) {
        s[i] = lm_chat_render(&c, (const char *)data + 1, size - 1, &o, &out[i], &at, NULL);
        if (out[i].text.len != out[i].guard.len || out[i].text.len != out[i].said.len ||
            (s[i] != LM_OK && out[i].text.len))
            abort();
    }
    if (s[0] != s[1] || out[0].text.len != out[1].text.len ||
        (out[0].text.len && memcmp(out[0].text.data, out[1].text.data, out[0].text.len) != 0))
        abort();
    for (int i = 0; i < 2; i++)
        lm_marked_text_release(&out[i]);
    return 0;
}
