/* SPDX-License-Identifier: MIT */
#include "hf/tokenizer_fields.h"

#include <stdio.h>
#include <string.h>

/* What a member may be; one with NEEDED has to be there. */
enum {
    NUL = 1, FLAG = 2, TEXT = 4, COUNT = 8, NUMBER = 16, LIST = 32, OBJECT = 64, PATTERN = 128,
    TOKEN = 256, NEEDED = 512,
};

static const struct {
    unsigned    is;
    const char *name;
} names[] = {
    { FLAG, "true or false" }, { TEXT, "a text" }, { COUNT, "a whole number from 0 on" },
    { NUMBER, "a number" }, { LIST, "a list" }, { OBJECT, "an object" },
    { PATTERN, "an object with one text, String or Regex" },
    { TOKEN, "a list of a text and an id" }, { NUL, "null" },
};

/* type NULL: of any. */
static const struct field {
    const char *part, *type, *key;
    unsigned    is;
} fields[] = {
    { "added_tokens", NULL, "id", COUNT | NEEDED },
    { "added_tokens", NULL, "content", TEXT | NEEDED },
    { "added_tokens", NULL, "single_word", FLAG },
    { "added_tokens", NULL, "lstrip", FLAG },
    { "added_tokens", NULL, "rstrip", FLAG },
    { "added_tokens", NULL, "normalized", FLAG },
    { "added_tokens", NULL, "special", FLAG },

    { "normalizer", NULL, "type", TEXT | NEEDED },
    { "normalizer", "Sequence", "normalizers", LIST | NEEDED },
    { "normalizer", "BertNormalizer", "clean_text", FLAG },
    { "normalizer", "BertNormalizer", "handle_chinese_chars", FLAG },
    { "normalizer", "BertNormalizer", "strip_accents", FLAG | NUL },
    { "normalizer", "BertNormalizer", "lowercase", FLAG },
    { "normalizer", "Strip", "strip_left", FLAG },
    { "normalizer", "Strip", "strip_right", FLAG },
    { "normalizer", "Replace", "pattern", PATTERN | NEEDED },
    { "normalizer", "Replace", "content", TEXT | NEEDED },
    { "normalizer", "Prepend", "prepend", TEXT | NEEDED },
    { "normalizer", "Precompiled", "precompiled_charsmap", TEXT | NEEDED },

    { "pre_tokenizer", NULL, "type", TEXT | NEEDED },
    { "pre_tokenizer", "Sequence", "pretokenizers", LIST | NEEDED },
    { "pre_tokenizer", "ByteLevel", "add_prefix_space", FLAG },
    { "pre_tokenizer", "ByteLevel", "use_regex", FLAG },
    { "pre_tokenizer", "Split", "pattern", PATTERN | NEEDED },
    { "pre_tokenizer", "Split", "behavior", TEXT },
    { "pre_tokenizer", "Split", "invert", FLAG },
    { "pre_tokenizer", "Metaspace", "replacement", TEXT | NEEDED },
    { "pre_tokenizer", "Metaspace", "prepend_scheme", TEXT },
    { "pre_tokenizer", "Metaspace", "add_prefix_space", FLAG | NUL },
    { "pre_tokenizer", "Metaspace", "split", FLAG | NUL },
    { "pre_tokenizer", "Punctuation", "behavior", TEXT },
    { "pre_tokenizer", "Digits", "individual_digits", FLAG },
    { "pre_tokenizer", "CharDelimiterSplit", "delimiter", TEXT | NEEDED },
    { "pre_tokenizer", "FixedLength", "length", COUNT },

    { "post_processor", NULL, "type", TEXT | NEEDED },
    { "post_processor", "Sequence", "processors", LIST | NEEDED },
    { "post_processor", "BertProcessing", "cls", TOKEN | NEEDED },
    { "post_processor", "BertProcessing", "sep", TOKEN | NEEDED },
    { "post_processor", "RobertaProcessing", "cls", TOKEN | NEEDED },
    { "post_processor", "RobertaProcessing", "sep", TOKEN | NEEDED },
    { "post_processor", "TemplateProcessing", "single", LIST | NEEDED },
    { "post_processor", "TemplateProcessing", "special_tokens", OBJECT },
    { "token", NULL, "SpecialToken", OBJECT },
    { "token", NULL, "Sequence", OBJECT },
    { "special", NULL, "id", TEXT | NEEDED },
    { "ids", NULL, "ids", LIST | NEEDED },

    { "decoder", NULL, "type", TEXT | NEEDED },
    { "decoder", "Sequence", "decoders", LIST | NEEDED },
    { "decoder", "Metaspace", "replacement", TEXT | NEEDED },
    { "decoder", "Metaspace", "prepend_scheme", TEXT },
    { "decoder", "Metaspace", "add_prefix_space", FLAG | NUL },
    { "decoder", "WordPiece", "prefix", TEXT | NEEDED },
    { "decoder", "WordPiece", "cleanup", FLAG },
    { "decoder", "BPEDecoder", "suffix", TEXT | NEEDED },
    { "decoder", "Strip", "content", TEXT | NEEDED },
    { "decoder", "Strip", "start", COUNT },
    { "decoder", "Strip", "stop", COUNT },
    { "decoder", "Replace", "pattern", PATTERN | NEEDED },
    { "decoder", "Replace", "content", TEXT | NEEDED },

    { "model", NULL, "type", TEXT },
    { "model", "BPE", "dropout", NUMBER | NUL },
    { "model", "BPE", "unk_token", TEXT | NUL },
    { "model", "BPE", "continuing_subword_prefix", TEXT | NUL },
    { "model", "BPE", "end_of_word_suffix", TEXT | NUL },
    { "model", "BPE", "fuse_unk", FLAG | NUL },
    { "model", "BPE", "byte_fallback", FLAG | NUL },
    { "model", "BPE", "ignore_merges", FLAG | NUL },
    { "model", "WordPiece", "unk_token", TEXT },
    { "model", "WordPiece", "continuing_subword_prefix", TEXT },
    { "model", "WordPiece", "max_input_chars_per_word", COUNT },
    { "model", "WordLevel", "unk_token", TEXT },
    { "model", "Unigram", "unk_id", COUNT | NUL },
    { "model", "Unigram", "byte_fallback", FLAG },
};

const char *lm_tokenizer_type(const struct lm_jval *v)
{
    const char *s = lm_jval_str(lm_jval_get(v, "type"));
    return s ? s : "";
}

bool lm_tokenizer_reads(const char *part, const char *key, size_t len)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].part, part) == 0 && strlen(fields[i].key) == len &&
            memcmp(fields[i].key, key, len) == 0)
            return true;
    return false;
}

/* Digits alone, of a number that fits. */
static bool is_count(const struct lm_jval *x)
{
    int64_t n;
    return lm_jval_i64(x, &n) && x->str[strspn(x->str, "0123456789")] == 0;
}

static bool is_pattern(const struct lm_jval *x)
{
    const struct lm_jval *s = lm_jval_get(x, "String");
    return x->len == 1 && lm_jval_str(s ? s : lm_jval_get(x, "Regex"));
}

static bool is_token(const struct lm_jval *x)
{
    return x->len == 2 && lm_jval_str(x->first) && is_count(x->first->next);
}

static bool fits(const struct lm_jval *x, unsigned is)
{
    switch (x->kind) {
    case LM_JSON_NULL:                      return is & NUL;
    case LM_JSON_TRUE: case LM_JSON_FALSE:  return is & FLAG;
    case LM_JSON_STRING:                    return is & TEXT;
    case LM_JSON_NUMBER:                    return is & NUMBER || (is & COUNT && is_count(x));
    case LM_JSON_ARRAY:                     return is & LIST || (is & TOKEN && is_token(x));
    default:                                return is & OBJECT || (is & PATTERN && is_pattern(x));
    }
}

/* What is there instead. */
static const char *kind_of(const struct lm_jval *x)
{
    switch (x->kind) {
    case LM_JSON_NULL:   return "null";
    case LM_JSON_TRUE:   return "true";
    case LM_JSON_FALSE:  return "false";
    case LM_JSON_STRING: return "a text";
    case LM_JSON_NUMBER: return x->str;
    case LM_JSON_ARRAY:  return "a list";
    default:             return "an object";
    }
}

static int wrong(const struct lm_jval *x, const char *key, unsigned is, struct lm_err *err)
{
    char want[80] = "";
    const bool inside = (x->kind == LM_JSON_OBJECT && is & PATTERN) ||
                        (x->kind == LM_JSON_ARRAY && is & TOKEN);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is & names[i].is)
            snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s", *want ? " or " : "",
                     names[i].name);
    return lm_fail(err, LM_EDATA, "%s%sis %.40s%snot %s", key, *key ? " " : "",
                   inside ? "" : kind_of(x), inside ? "" : ", ", want);
}

int lm_tokenizer_fields(const char *part, const char *type, const struct lm_jval *v,
                        struct lm_err *err)
{
    if (v->kind != LM_JSON_OBJECT)
        return wrong(v, "", OBJECT, err);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *f = &fields[i];
        if (strcmp(f->part, part) != 0 || (f->type && strcmp(f->type, type) != 0))
            continue;
        const struct lm_jval *x = lm_jval_get(v, f->key);
        if (!x && f->is & NEEDED)
            return lm_fail(err, LM_EDATA, "has no %s", f->key);
        if (x && !fits(x, f->is))
            return wrong(x, f->key, f->is, err);
    }
    return LM_OK;
}
