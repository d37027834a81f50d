/* SPDX-License-Identifier: MIT */
/* What people hand to a GGUF reader by mistake, told by its first bytes. */
#include "gguf/gguf_foreign.h"

#include <stdbool.h>
#include <string.h>

struct magic {
    size_t      at, len;
    const char *bytes;
    const char *what;
};

#define GIT_LFS "a Git LFS pointer, not the file itself (fetch it with git lfs pull)"
#define OLD     "a model in the older format "
#define BEFORE  ", from before GGUF (convert its source again)"

static const struct magic magics[] = {
    { 0,   4,  "PK\3\4",             "a zip archive" },
    { 0,   4,  "PK\5\6",             "an empty zip archive" },
    { 0,   23, "version https://git-lfs", GIT_LFS },
    { 0,   26, "version https://hawser.git", GIT_LFS },
    { 0,   4,  "\x28\xb5\x2f\xfd",   "zstd-compressed" },
    { 0,   2,  "\x1f\x8b",           "gzip-compressed" },
    { 0,   3,  "BZh",                "bzip2-compressed" },
    { 0,   6,  "\xfd" "7zXZ\0",      "xz-compressed" },
    { 0,   6,  "7z\xbc\xaf\x27\x1c", "a 7-Zip archive" },
    { 0,   4,  "Rar!",               "a RAR archive" },
    { 257, 5,  "ustar",              "a tar archive" },
    { 0,   2,  "\x80\2",             "a Python pickle (an old PyTorch checkpoint)" },
    { 0,   8,  "\x89HDF\r\n\x1a\n",  "an HDF5 file" },
    { 0,   6,  "\x93NUMPY",          "a NumPy array" },
    { 0,   4,  "LMLG",               "a logits stream" },
    { 0,   4,  "lmgg",               OLD "GGML" BEFORE },
    { 0,   4,  "fmgg",               OLD "GGMF" BEFORE },
    { 0,   4,  "tjgg",               OLD "GGJT" BEFORE },
    { 0,   4,  "algg",               "a LoRA adapter in the older format GGLA" BEFORE },
    { 0,   4,  "\x7f" "ELF",         "a program" },
    { 4,   4,  "TFL3",               "a TensorFlow Lite model" },
};

/* Does text, past blanks and whatever its case, begin with the lower-case s? */
static bool text_begins(const uint8_t *p, size_t n, const char *s)
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r')))
        i++;
    for (; *s; s++, i++)
        if (i >= n || (p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]) != (uint8_t)*s)
            return false;
    return true;
}

/* The first member of the zip archive that PyTorch writes is NAME/data.pkl. */
static bool is_pytorch(const uint8_t *p, size_t n)
{
    static const char member[] = "/data.pkl";
    const size_t at = 30;                       /* where a zip's first name begins */
    if (n < at || memcmp(p, "PK\3\4", 4))
        return false;
    const size_t len = p[26] | (size_t)p[27] << 8, end = at + len;
    return len >= sizeof member - 1 && end <= n &&
           !memcmp(p + end - (sizeof member - 1), member, sizeof member - 1);
}

/* What a download that has only reserved its room looks like. */
static bool is_zeros(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n && !p[i])
        i++;
    return n && i == n;
}

/* Text, as servers send it in place of a file; what is short may be anything. */
static bool is_text(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n && (p[i] >= ' ' ? p[i] != 0x7f : p[i] >= '\t' && p[i] <= '\r'))
        i++;
    return n >= 8 && i == n;
}

/* safetensors begins with the length of a JSON object, then the object. */
static bool is_safetensors(const uint8_t *p, size_t n)
{
    return n >= 9 && p[8] == '{' && p[5] == 0 && p[6] == 0 && p[7] == 0;
}

const char *lm_foreign_file(const uint8_t *p, size_t n)
{
    if (is_pytorch(p, n))
        return "a PyTorch checkpoint, a zip archive (convert it first)";
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const struct magic *m = &magics[i];
        if (n >= m->at + m->len && !memcmp(p + m->at, m->bytes, m->len))
            return m->what;
    }
    if (is_safetensors(p, n))
        return "a safetensors file (convert it first)";
    if (text_begins(p, n, "<!doctype html") || text_begins(p, n, "<html"))
        return "a web page (a download that went wrong)";
    if (text_begins(p, n, "<?xml"))
        return "an XML document (a download that went wrong)";
    return NULL;
}

const char *lm_gguf_foreign(const uint8_t *p, size_t n)
{
    const char *what = lm_foreign_file(p, n);
    if (what)
        return what;
    if (text_begins(p, n, "{"))
        return "a JSON text";
    if (is_text(p, n))
        return "a text (perhaps what a server said in place of the file)";
    if (is_zeros(p, n))
        return "nothing but zeros, as far as it was looked at (a download that is not complete)";
    return NULL;
}
