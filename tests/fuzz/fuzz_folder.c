/* SPDX-License-Identifier: MIT */
/*
 * The small files of a checkpoint that has no weights: what names special tokens, adds some, and
 * says how words are cut.  Parts with a NUL between, each a byte that says which file it is, and
 * the file's text.  What is opened encodes and decodes.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz_vocab.h"
#include "hf/hf_named.h"
#include "job/chat.h"

static const struct { char letter; const char *name; } files[] = {
    { 'c', "config.json" },      { 'g', "generation_config.json" },
    { 't', "tokenizer_config.json" }, { 's', "special_tokens_map.json" },
    { 'a', "added_tokens.json" }, { 'v', "vocab.json" },      { 'm', "merges.txt" },
    { 'w', "vocab.txt" },        { 'j', "tokenizer.json" },   { 'k', "tekken.json" },
    { 'p', "tokenizer.model" },  { 'q', "chat_template.json" },
};

enum { N_FILES = sizeof files / sizeof *files };

static char folder[] = "/tmp/fuzz_folder.XXXXXX";

static const char *path_of(size_t i)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
    return path;
}

static void leave(void)
{
    for (size_t i = 0; i < N_FILES; i++)
        unlink(path_of(i));
    rmdir(folder);
}

static void put_file(const char *p, size_t n)
{
    for (size_t i = 0; n && i < N_FILES; i++) {
        FILE *f = files[i].letter == *p ? fopen(path_of(i), "wb") : NULL;
        if (files[i].letter == *p && !f)
            abort();
        if (f && (fwrite(p + 1, 1, n - 1, f) != n - 1 || fclose(f)))
            abort();
    }
}

/* What is refused says why. */
static void open_all(void)
{
    struct lm_err err = { 0 };
    struct lm_hf_named named = { .n_ends = 0 };
    if (lm_hf_named_read(&named, folder, NULL, &err) != LM_OK && !err.text[0])
        abort();
    lm_hf_named_release(&named);
    struct lm_vocab *v = lm_vocab_open(folder, NULL, &err);
    if (v)
        use_vocab(v, fuzz_text, sizeof fuzz_text, false);
    else if (err.code >= 0 || !err.text[0])
        abort();
    lm_vocab_free(v);
    lm_chat_free(lm_chat_open(folder, NULL, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    if (!begun && (!mkdtemp(folder) || atexit(leave)))
        abort();
    begun = true;
    for (size_t i = 0; i < N_FILES; i++)
        unlink(path_of(i));
    for (const char *p = (const char *)data, *end = p + size, *nul; p < end; p = nul + 1) {
        nul = memchr(p, 0, (size_t)(end - p));
        nul = nul ? nul : end;
        put_file(p, (size_t)(nul - p));
    }
    open_all();
    return 0;
}
