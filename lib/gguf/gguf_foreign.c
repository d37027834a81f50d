/* SPDX-License-Identifier: MIT */
/* What people hand to a GGUF reader by mistake, told by its first bytes. */
#include "gguf/gguf_internal.h"

#include <string.h>

struct magic {
    size_t      at, len;
    const char *bytes;
    const char *what;
};

#define GIT_LFS "a Git LFS pointer, not the file itself (fetch it with git lfs pull)"
#define OLD     "a model in an older format of the same family, from before GGUF"

static const struct magic magics[] = {
    { 0,   4,  "PK\3\4",             "a zip archive (such as a PyTorch checkpoint)" },
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
    { 0,   4,  "lmgg",               OLD },
    { 0,   4,  "fmgg",               OLD },
    { 0,   4,  "tjgg",               OLD },
    { 0,   4,  "algg",               OLD },
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

/* safetensors begins with the length of a JSON object, then the object. */
static bool is_safetensors(const uint8_t *p, size_t n)
{
    return n >= 9 && p[8] == '{' && p[5] == 0 && p[6] == 0 && p[7] == 0;
}

const char *lm_gguf_foreign(const uint8_t *p, size_t n)
{
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
    if (text_begins(p, n, "{"))
        return "a JSON text";
    return NULL;
}
