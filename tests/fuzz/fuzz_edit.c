/* SPDX-License-Identifier: MIT */
/*
 * Editing metadata: the first bytes, up to a NUL, are the value that a key is set to from
 * a file; the rest is the model.
 */
#include <stdint.h>
#include <string.h>

#include "gguf/edit.h"
#include "fuzz_memory.h"

static struct lm_str str(const char *s)
{
    return (struct lm_str){ s, strlen(s) };
}

/* Each edit may fail, but must say why, and leave a file that can be written. */
static void edit(const uint8_t *model, size_t size, const struct lm_edit *edits, size_t n)
{
    struct lm_err err = { 0 };
    struct lm_in *in = input_of(model, size);
    struct lm_editor *e = lm_editor_open(in, &err);
    if (!e && err.code >= 0)
        abort();
    for (size_t i = 0; e && i < n; i++)
        if (lm_editor_apply(e, &edits[i], NULL, &err) != LM_OK && err.code >= 0)
            abort();
    struct lm_out *out = lm_out_open("/dev/null", &err);
    if (!out)
        abort();
    if (e && lm_editor_check(e, NULL, &err) == LM_OK && lm_editor_gguf(e)->alignment <= 4096)
        lm_editor_write(e, out, NULL, &err);
    lm_out_abort(out);
    lm_editor_free(e);
    lm_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    if (!nul)
        return 0;
    const struct lm_str text = str((const char *)data);
    const struct lm_edit values[] = {
        { LM_EDIT_FILE, str("strs"), text, NULL }, { LM_EDIT_FILE, str("nums"), text, NULL },
        { LM_EDIT_FILE, str("k"), text, NULL }, { LM_EDIT_SET, str(""), text, NULL },
        { LM_EDIT_TOKEN, text, str("a"), NULL }, { LM_EDIT_RENAME, str("k"), str("new"), NULL },
        { LM_EDIT_DELETE, str("nums"), str(""), NULL },
    };
    const struct lm_edit alignment = { LM_EDIT_SET, str(""), str("general.alignment=u32:64"),
                                       NULL };
    const size_t left = size - text.len - 1;
    struct lm_err err = { 0 };
    struct lm_in *in = input_of(nul + 1, left);
    struct lm_gguf *g = lm_gguf_read(in, false, &err);
    const struct lm_edit copy[] = {
        { LM_EDIT_SET, str(""), str("general.more=u8:1"), NULL },
        { LM_EDIT_COPY, str("general.*"), str(""), g },
        { LM_EDIT_DELETE, str("k"), str(""), NULL }, { LM_EDIT_COPY, str("*"), str(""), g },
    };
    edit(nul + 1, left, values, sizeof values / sizeof *values);
    edit(nul + 1, left, &alignment, 1);
    if (g)
        edit(nul + 1, left, copy, sizeof copy / sizeof *copy);
    lm_gguf_free(g);
    lm_in_close(in);
    return 0;
}
