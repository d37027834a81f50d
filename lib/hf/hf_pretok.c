/* SPDX-License-Identifier: MIT */
/*
 * Which GGUF name a tokenizer.json's pre-tokenizer has: its steps, spelled as
 * below, against a table.  (The reference converter hashes the ids of a probe text
 * instead, which only knows vocabularies that someone has listed.)
 *
 *   /REGEX    Split by an expression; "*" at the end of a row's stands for anything
 *   digits    Digits, each alone;  digit runs: together
 *   punct     Punctuation, runs together
 *   words     ByteLevel with its own expression;  bytes: without it
 */

#include <string.h>

#include "hf/hf_vocab.h"

enum { MAX_STEPS = 8, ANY = -1 };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER        "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(tail)  "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" tail "|" \
                     "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*" tail "|"

static const struct {
    const char *name;
    int         ignore_merges;          /* 0, 1, ANY */
    const char *steps[MAX_STEPS];
} rows[] = {
    { "llama-bpe", 1, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "smaug-bpe", 0, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "qwen2", ANY, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "qwen35", ANY, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                       " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "tekken", ANY, { "/" CASED("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES, "bytes" } },
    { "gpt-4o", ANY, { "/" CASED(CONTRACTIONS "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
                       SPACES, "bytes" } },
    { "deepseek-llm", ANY, { "/[\\r\\n]", "/\\s?[A-Za-z*", "/\\s?[!-/:-~*", "/\\s+$", "/[\u4e00-*",
                             "digits", "bytes" } },
    { "deepseek-coder", ANY, { "/[\\r\\n]", "/\\s?\\p{L}+", "/\\s?\\p{P}+", "/[\u4e00-*",
                               "digits", "bytes" } },
    { "deepseek-v3", ANY, { "/\\p{N}{1,3}", "/[\u4e00-\u9fa5*",
                            "/[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|*",
                            "bytes" } },
    { "seed-coder", ANY, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}|"
                           " ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES, "bytes" } },
    { "ufakzeka", ANY, { "/[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                         SPACES, "bytes" } },
    { "bailingmoe", ANY, { "/'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
                           "bytes" } },
    { "exaone-moe", ANY, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?"
                           "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
                           "bytes" } },
    { "jais-2", ANY, { "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                       " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|*",
                       "bytes" } },
    { "minicpm5", ANY, { "/\\p{N}{1,3}", "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+|"
                         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "laguna", ANY, { "/[^\\n]+|[\\n]+", "/" CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
                       "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "tiny_aya", ANY, { "/\\d{1,3}(?=(?:\\d{3})*\\b)", "/" CASED(CONTRACTIONS "?") "\\p{N}{1,3}|"
                         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES, "bytes" } },
    { "kimi-k2", ANY, { "/[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[" UPPER "&&[^\\p{Han}]]*["
                        LOWER "&&[^\\p{Han}]]+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?["
                        UPPER "&&[^\\p{Han}]]+[" LOWER "&&[^\\p{Han}]]*" CONTRACTIONS "?|"
                        "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, "bytes" } },
    { "youtu", ANY, { "/[\uac00-\ud7a3\u3131-\u318e]+|*", "/" CASED(CONTRACTIONS "?") "\\p{N}|"
                      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES, "bytes" } },
    { "spark2_5", ANY, { "/\\p{N}{1,3}", "/[\u4e00-\u9fa5*",
                         "/[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|*",
                         "/\\p{N}", "bytes" } },
    { "superbpe", ANY, { "/\\p{N}+", "/(?=(\\d{3})+(?!\\d))", "bytes" } },
    { "bloom", ANY, { "/ ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", "bytes" } },
    { "bloom", ANY, { "/ ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+", "bytes" } },
    { "falcon", ANY, { "punct", "words", "digit runs", "/[0-9][0-9][0-9]" } },
    { "falcon-h1", ANY, { "punct", "digits", "words" } },
    { "smollm", ANY, { "digits", "words" } },
    { "gpt-2", ANY, { "words" } },
};

/* Does text begin with the first n bytes of want?  Some files have \r and \n as themselves.
 * *rest: what is behind them. */
static bool begins(const char *want, size_t n, const char *text, const char **rest)
{
    const char *end = want + n;
    while (want < end && *text) {
        const char escaped = *text == '\n' ? 'n' : *text == '\r' ? 'r' : 0;
        if (escaped && end - want >= 2 && want[0] == '\\' && want[1] == escaped)
            want += 2;
        else if (*want++ != *text)
            return false;
        text++;
    }
    *rest = text;
    return want == end;
}

/* Does the text `kind` + `tail` fit the row's step? */
static bool fits(const char *step, const char *kind, const char *tail)
{
    const size_t k = strlen(kind), n = strlen(step);
    if (strncmp(step, kind, k))
        return false;
    const char *rest;
    if (n > k && step[n - 1] == '*' && step[0] == '/')
        return begins(step + k, n - k - 1, tail, &rest);
    return begins(step + k, n - k, tail, &rest) && !*rest;
}

/* A step as the table spells it: a kind and, for an expression, its text; NULL when the table
 * has no such kind. */
static const char *spell(const struct lm_jval *step, const char **tail)
{
    const char *type = lm_jval_str(lm_jval_get(step, "type"));
    const char *behavior = lm_jval_str(lm_jval_get(step, "behavior"));
    bool flag = false;
    *tail = "";
    if (!type)
        return NULL;
    if (!strcmp(type, "ByteLevel")) {
        flag = true;
        lm_jval_bool(lm_jval_get(step, "use_regex"), &flag);
        return flag ? "words" : "bytes";
    }
    if (!strcmp(type, "Digits")) {
        lm_jval_bool(lm_jval_get(step, "individual_digits"), &flag);
        return flag ? "digits" : "digit runs";
    }
    if (!strcmp(type, "Punctuation"))
        return behavior && !strcmp(behavior, "Contiguous") ? "punct" : NULL;
    if (strcmp(type, "Split") || !behavior)
        return NULL;
    /* Removing what does not match leaves the matches, and these expressions match all. */
    lm_jval_bool(lm_jval_get(step, "invert"), &flag);
    if (strcmp(behavior, flag ? "Removed" : "Isolated"))
        return NULL;
    *tail = lm_jval_str(lm_jval_get(lm_jval_get(step, "pattern"), "Regex"));
    return *tail ? "/" : NULL;
}

/* The name of a row that these n steps fit. */
static const char *find_row(const char *const *kind, const char *const *tail, size_t n,
                            bool ignore_merges)
{
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t i = 0;
        if (rows[r].ignore_merges != ANY && rows[r].ignore_merges != ignore_merges)
            continue;
        while (i < n && rows[r].steps[i] && fits(rows[r].steps[i], kind[i], tail[i]))
            i++;
        if (i == n && (i == MAX_STEPS || !rows[r].steps[i]))
            return rows[r].name;
    }
    return NULL;
}

const char *lm_hf_pattern_name(const char *pattern)
{
    const char *const kind[] = { "/", "bytes" }, *const tail[] = { pattern, "" };
    return find_row(kind, tail, 2, true);
}

const char *lm_hf_pretok_name(const struct lm_jval *pre_tokenizer, bool ignore_merges)
{
    const char *kind[MAX_STEPS] = {0}, *tail[MAX_STEPS] = {0};
    size_t n = 0;
    const struct lm_jval *list = lm_jval_get(pre_tokenizer, "pretokenizers");
    const struct lm_jval *step = list ? list->first : pre_tokenizer;
    for (; step && n < MAX_STEPS; step = list ? step->next : NULL, n++) {
        kind[n] = spell(step, &tail[n]);
        if (!kind[n])
            return NULL;
    }
    return step ? NULL : find_row(kind, tail, n, ignore_merges);
}
