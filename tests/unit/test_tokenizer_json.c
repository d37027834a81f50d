/* SPDX-License-Identifier: MIT */
/* What a tokenizer.json may hold: the type of each of its members, as the tokenizers library
 * (0.23.3) takes it, ids, and how much longer its steps may make text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "not_here.h"
#include "vocab/tokenizer.h"
#include "vocab/unicode_form.h"
#include "vocab/bert_text.h"

#define N(x) (sizeof(x) / sizeof *(x))

enum where { NORM, PRE, DEC, POST, MODEL, ADDED, N_WHERE };

static const char words[] = "{'type':'WordLevel','vocab':{'a':0,'b':1,'?':2},'unk_token':'?'}";

/* A tokenizer.json of which a member, or with ADDED an added token, is given; ' stands for ". */
static struct lm_vocab *with(enum where where, const char *part, struct lm_err *err)
{
    static const char *const members[N_WHERE] = {
        "normalizer", "pre_tokenizer", "decoder", "post_processor", "model", "added_tokens",
    };
    struct lm_buf b = { 0 };
    lm_buf_printf(&b, where == ADDED ? "{'%s':[%s]" : "{'%s':%s", members[where], part);
    if (where != MODEL)
        lm_buf_printf(&b, ",'model':%s", words);
    lm_buf_str(&b, "}");
    for (size_t i = 0; i < b.len; i++)
        b.data[i] = b.data[i] == '\'' ? '"' : b.data[i];
    *err = (struct lm_err){ 0 };
    struct lm_vocab *v = lm_vocab_from_json(b.data, b.len, NULL, err);
    lm_buf_release(&b);
    return v;
}

static void accepted(enum where where, const char *part)
{
    struct lm_err err;
    struct lm_vocab *v = with(where, part, &err);
    if (!v)
        fail_msg("%s: %s", part, err.text);
    lm_vocab_free(v);
}

static void refused(enum where where, const char *part, int code, const char *why)
{
    struct lm_err err;
    assert_null(with(where, part, &err));
    if ((int)err.code != code || !strstr(err.text, why))
        fail_msg("%s: '%s' does not say '%s'", part, err.text, why);
}

/* ---- the types of members ----------------------------------------------------------------- */

#define BERT "{'type':'BertNormalizer',"
#define SPLIT "{'type':'Split','pattern':{'String':'a'},"
#define META "{'type':'Metaspace','replacement':'_',"
#define BPE "{'type':'BPE','vocab':{'a':0},'merges':[],"
#define PIECE "{'type':'WordPiece','vocab':{'a':0},"
#define UNIGRAM "{'type':'Unigram','vocab':[['a',0]],"
#define CLS_SEP(type, cls, sep) "{'type':'" type "','cls':" cls ",'sep':" sep "}"
#define SPECIAL "{'SpecialToken':{'id':'a','type_id':0}}"
#define TEXT "{'Sequence':{'id':'A','type_id':0}}"

/* A member by a part without it (%s: its value), a value that it may have, with |null if it may
 * be null, and one that it may not have, and what is said then. */
static const struct {
    enum where  where;
    const char *part, *good, *bad, *why;
} fields[] = {
    { ADDED, "{'id':%s,'content':'x'}", "3", "'3'",
      "added_tokens[0]: id is a text, not a whole number" },
    { ADDED, "{'id':%s,'content':'x'}", "3", "3.0", "id is 3.0, not a whole number from 0 on" },
    { ADDED, "{'id':%s,'content':'x'}", "3", "-1", "id is -1, not a whole number from 0 on" },
    { ADDED, "{'id':3,'content':%s}", "'x'", "7", "content is 7, not a text" },
    { ADDED, "{'id':3,'content':'x','single_word':%s}", "true", "'y'",
      "single_word is a text, not true" },
    { ADDED, "{'id':3,'content':'x','lstrip':%s}", "true", "1", "lstrip is 1, not true or false" },
    { ADDED, "{'id':3,'content':'x','rstrip':%s}", "true", "[]", "rstrip is a list, not true" },
    { ADDED, "{'id':3,'content':'x','normalized':%s}", "true", "{}",
      "normalized is an object, not true" },
    { ADDED, "{'id':3,'content':'x'},{'id':4,'content':'y','special':%s}", "true", "'y'",
      "added_tokens[1]: special is a text, not true or false" },

    { NORM, "{'type':%s}", "'NFC'", "3", "normalizer: type is 3, not a text" },
    { NORM, "{'type':'Sequence','normalizers':%s}", "[]", "{}",
      "normalizers is an object, not a list" },
    { NORM, "{'type':'Sequence','normalizers':[{'type':'NFC'},%s]}", "{'type':'NFD'}", "'NFD'",
      "normalizer.normalizers[1]: is a text, not an object" },
    { NORM, BERT "'clean_text':%s}", "false", "0",
      "normalizer 'BertNormalizer': clean_text is 0, not" },
    { NORM, BERT "'handle_chinese_chars':%s}", "false", "'no'",
      "handle_chinese_chars is a text, not" },
    { NORM, BERT "'strip_accents':%s}", "false|null", "'no'",
      "strip_accents is a text, not true or false or null" },
    { NORM, BERT "'lowercase':%s}", "false", "[true]", "lowercase is a list, not true or false" },
    { NORM, "{'type':'Strip','strip_left':%s}", "false", "'x'", "strip_left is a text, not" },
    { NORM, "{'type':'Strip','strip_right':%s}", "false", "1", "strip_right is 1, not true" },
    { NORM, "{'type':'Replace','content':'b','pattern':%s}", "{'Regex':'a'}", "'a'",
      "pattern is a text, not an object with one text, String or Regex" },
    { NORM, "{'type':'Replace','content':'b','pattern':{'String':%s}}", "'a'", "3",
      "normalizer 'Replace': pattern is not an object with one text" },
    { NORM, "{'type':'Replace','pattern':{'String':'a'},'content':%s}", "''", "{}",
      "content is an object" },
    { NORM, "{'type':'Prepend','prepend':%s}", "'b'", "95", "prepend is 95, not a text" },
    { NORM, "{'type':'Precompiled','precompiled_charsmap':%s}", "''", "[0,0]",
      "precompiled_charsmap is a list, not a text" },

    { PRE, "{'type':%s}", "'Whitespace'", "false", "pre_tokenizer: type is false, not a text" },
    { PRE, "{'type':'Sequence','pretokenizers':%s}", "[]", "'x'",
      "pretokenizers is a text, not a list" },
    { PRE, "{'type':'Sequence','pretokenizers':[%s]}", "{'type':'Digits'}", "[]",
      "pre_tokenizer.pretokenizers[0]: is a list, not an object" },
    { PRE, "{'type':'ByteLevel','add_prefix_space':%s}", "true", "'x'",
      "add_prefix_space is a text, not" },
    { PRE, "{'type':'ByteLevel','use_regex':%s}", "false", "1",
      "use_regex is 1, not true or false" },
    { PRE, "{'type':'Split','behavior':'Removed','pattern':%s}", "{'Regex':'a'}", "[]",
      "pre_tokenizer 'Split': pattern is a list, not an object with one text" },
    { PRE, "{'type':'Split','pattern':{'String':'a'%s}}", "", ",'Regex':'b'",
      "pattern is not an object with one text, String or Regex" },
    { PRE, SPLIT "'behavior':%s}", "'Isolated'", "3",
      "pre_tokenizer 'Split': behavior is 3, not a text" },
    { PRE, SPLIT "'invert':%s}", "true", "'x'", "invert is a text, not true or false" },
    { PRE, "{'type':'Metaspace','replacement':%s}", "'_'", "5", "replacement is 5, not a text" },
    { PRE, META "'prepend_scheme':%s}", "'never'", "true", "prepend_scheme is true, not a text" },
    { PRE, META "'add_prefix_space':%s}", "false|null", "'x'", "add_prefix_space is a text" },
    { PRE, META "'split':%s}", "false|null", "0", "split is 0, not true or false or null" },
    { PRE, "{'type':'Punctuation','behavior':%s}", "'Removed'", "{}",
      "behavior is an object, not a" },
    { PRE, "{'type':'Digits','individual_digits':%s}", "true", "'y'",
      "individual_digits is a text" },
    { PRE, "{'type':'CharDelimiterSplit','delimiter':%s}", "'-'", "45",
      "delimiter is 45, not a text" },
    { PRE, "{'type':'FixedLength','length':%s}", "3", "-1", "length is -1, not a whole number" },
    { PRE, "{'type':'FixedLength','length':%s}", "3", "99999999999999999999",
      "not a whole number" },

    { POST, "{'type':%s}", "'ByteLevel'", "[]", "post_processor: type is a list, not a text" },
    { POST, "{'type':'Sequence','processors':%s}", "[]", "{}",
      "processors is an object, not a list" },
    { POST, "{'type':'Sequence','processors':[%s]}", "{'type':'ByteLevel'}", "3",
      "is 3, not an object" },
    { POST, CLS_SEP("BertProcessing", "%s", "['a',0]"), "['b',1]", "'b'",
      "post_processor 'BertProcessing': cls is a text, not a list of a text and an id" },
    { POST, CLS_SEP("BertProcessing", "['a',0]", "%s"), "['b',1]", "['b']",
      "sep is not a list of a text and an id" },
    { POST, CLS_SEP("RobertaProcessing", "%s", "['a',0]"), "['b',1]", "['b','1']",
      "cls is not a list" },
    { POST, CLS_SEP("RobertaProcessing", "['a',0]", "%s"), "['b',1]", "[1,'b']",
      "sep is not a list" },
    { POST, "{'type':'TemplateProcessing','single':%s}", "[" TEXT "]", "'$A'",
      "single is a text, not" },
    { POST, "{'type':'TemplateProcessing','single':[" TEXT "%s]}", "", ",'b'",
      "a part of single: is a text, not an object" },
    { POST, "{'type':'TemplateProcessing','single':[" TEXT "],'special_tokens':%s}", "{}", "[]",
      "special_tokens is a list, not an object" },
    { POST, "{'type':'TemplateProcessing','single':[" TEXT ","
      "{'SpecialToken':%s}],'special_tokens':{'a':{'id':'a','ids':[0]}}}", "{'id':'a'}", "'a'",
      "SpecialToken is a text, not an object" },
    { POST, "{'type':'TemplateProcessing','single':[" TEXT ","
      "{'SpecialToken':{'id':%s}}],'special_tokens':{'a':{'id':'a','ids':[0]}}}", "'a'", "0",
      "a special token: id is 0, not a text" },
    { POST, "{'type':'TemplateProcessing','single':[" TEXT ","
      "" SPECIAL "],'special_tokens':{'a':{'id':'a','ids':%s}}}", "[0]", "0",
      "special token 'a': ids is 0, not a list" },
    { POST, "{'type':'TemplateProcessing','single':[" TEXT ","
      "" SPECIAL "],'special_tokens':{'a':{'id':'a','ids':[%s]}}}", "0", "'0'",
      "an id that is not in the vocabulary" },

    { DEC, "{'type':%s}", "'Fuse'", "0", "decoder: type is 0, not a text" },
    { DEC, "{'type':'Sequence','decoders':%s}", "[]", "true", "decoders is true, not a list" },
    { DEC, "{'type':'Sequence','decoders':[{'type':'Fuse'},"
      "{'type':'Fuse'},%s]}", "{'type':'Fuse'}", "0",
      "decoder.decoders[2]: is 0, not an object" },
    { DEC, "{'type':'WordPiece','prefix':%s}", "''", "[]",
      "decoder 'WordPiece': prefix is a list, not" },
    { DEC, "{'type':'WordPiece','prefix':'#','cleanup':%s}", "false", "'x'",
      "cleanup is a text, not" },
    { DEC, "{'type':'Metaspace','replacement':%s}", "'_'", "{}",
      "replacement is an object, not a text" },
    { DEC, META "'prepend_scheme':%s}", "'never'", "1", "prepend_scheme is 1, not a text" },
    { DEC, META "'add_prefix_space':%s}", "true|null", "'x'", "add_prefix_space is a text" },
    { DEC, "{'type':'BPEDecoder','suffix':%s}", "'</w>'", "0", "suffix is 0, not a text" },
    { DEC, "{'type':'Strip','content':%s,'start':1,'stop':0}", "' '", "32",
      "content is 32, not a text" },
    { DEC, "{'type':'Strip','content':' ','start':%s}", "1", "-1",
      "start is -1, not a whole number" },
    { DEC, "{'type':'Strip','content':' ','stop':%s}", "1", "1.5",
      "stop is 1.5, not a whole number" },
    { DEC, "{'type':'Replace','content':'b','pattern':%s}", "{'String':'a'}", "{'Text':'a'}",
      "decoder 'Replace': pattern is not an object with one text, String or Regex" },
    { DEC, "{'type':'Replace','pattern':{'String':'a'},'content':%s}", "'b'", "1",
      "content is 1, not" },

    { MODEL, "{'type':%s,'vocab':{'a':0},'merges':[]}", "'BPE'", "3",
      "model: type is 3, not a text" },
    { MODEL, BPE "'dropout':%s}", "0.0|null", "'x'", "dropout is a text, not a number or null" },
    { MODEL, BPE "'unk_token':%s}", "'a'|null", "3", "unk_token is 3, not a text or null" },
    { MODEL, BPE "'continuing_subword_prefix':%s}", "''|null", "[]",
      "continuing_subword_prefix is a list, not a text or null" },
    { MODEL, BPE "'end_of_word_suffix':%s}", "''|null", "{}",
      "end_of_word_suffix is an object, not a text" },
    { MODEL, BPE "'fuse_unk':%s}", "true|null", "1", "fuse_unk is 1, not true or false or null" },
    { MODEL, BPE "'byte_fallback':%s}", "false|null", "'yes'",
      "model: byte_fallback is a text, not true or false or null" },
    { MODEL, BPE "'ignore_merges':%s}", "true|null", "0", "ignore_merges is 0, not true" },
    { MODEL, PIECE "'unk_token':%s}", "'a'", "0", "model: unk_token is 0, not a text" },
    { MODEL, PIECE "'unk_token':'a','continuing_subword_prefix':%s}", "'##'", "false",
      "continuing_subword_prefix is false, not a text" },
    { MODEL, PIECE "'unk_token':'a','max_input_chars_per_word':%s}", "100", "-1",
      "max_input_chars_per_word is -1, not a whole number from 0 on" },
    { MODEL, PIECE "'unk_token':'a','max_input_chars_per_word':%s}", "1", "'100'",
      "max_input_chars_per_word is a text" },
    { MODEL, "{'type':'WordLevel','vocab':{'a':0},'unk_token':%s}", "'a'", "0",
      "unk_token is 0, not" },
    { MODEL, UNIGRAM "'unk_id':%s}", "0|null", "'0'", "unk_id is a text, not a whole number" },
    { MODEL, UNIGRAM "'unk_id':%s}", "0|null", "-1", "unk_id is -1, not a whole number" },
    { MODEL, UNIGRAM "'byte_fallback':%s}", "false", "'no'", "byte_fallback is a text, not true" },
};

/* A field's part with a value of n bytes. */
static void put_value(struct lm_buf *b, const char *part, const char *value, size_t n)
{
    const char *at = strstr(part, "%s");
    lm_buf_clear(b);
    lm_buf_add(b, part, (size_t)(at - part));
    lm_buf_add(b, value, n);
    lm_buf_str(b, at + 2);
}

static void test_fields(void **state)
{
    (void)state;
    struct lm_buf b = { 0 };
    for (size_t i = 0; i < N(fields); i++) {
        const char *good = fields[i].good, *bad = fields[i].bad;
        put_value(&b, fields[i].part, good, strcspn(good, "|"));
        accepted(fields[i].where, b.data);
        put_value(&b, fields[i].part, bad, strlen(bad));
        refused(fields[i].where, b.data, LM_EDATA, fields[i].why);
        put_value(&b, fields[i].part, "null", 4);
        if (strchr(good, '|'))
            accepted(fields[i].where, b.data);
        else if (*good)                          /* else it is not a member alone */
            refused(fields[i].where, b.data, LM_EDATA, "");
    }
    lm_buf_release(&b);
}

/* A part as a whole, and a member that has to be there. */
static void test_parts(void **state)
{
    (void)state;
    static const struct {
        enum where  where;
        const char *part, *why;
    } t[] = {
        { NORM, "'NFC'", "normalizer: is a text, not an object" },
        { NORM, "{}", "normalizer: has no type" },
        { NORM, "{'type':'Sequence'}", "normalizer 'Sequence': has no normalizers" },
        { NORM, "{'type':'Replace','pattern':{'String':'a'}}", "'Replace': has no content" },
        { PRE, "[]", "pre_tokenizer: is a list, not an object" },
        { PRE, "{'type':'Sequence','pretokenizers':[{'type':'Digits'},null]}",
          "pre_tokenizer.pretokenizers[1]: is null, not an object" },
        { PRE, "{'type':'Sequence','pretokenizers':[{'type':'Sequence','pretokenizers':"
          "[{'type':'Digits'},{'type':'Split'}]}]}",
          "pre_tokenizer.pretokenizers[0].pretokenizers[1] 'Split': has no pattern" },
        { DEC, "3", "decoder: is 3, not an object" },
        { DEC, "{'type':'Strip','start':1}", "decoder 'Strip': has no content" },
        { POST, "'x'", "post_processor: is a text, not an object" },
        { POST, "{'type':'Sequence','processors':[{}]}", "post_processor: has no type" },
        { ADDED, "null", "added_tokens[0]: is null, not an object" },
        { ADDED, "{'id':3}", "added_tokens[0]: has no content" },
        { ADDED, "{'content':'x'}", "added_tokens[0]: has no id" },
        { MODEL, "[]", "model is no object" },
    };
    for (size_t i = 0; i < N(t); i++)
        refused(t[i].where, t[i].part, LM_EDATA, t[i].why);
    accepted(NORM, "null");
    accepted(PRE, "null");
    accepted(DEC, "null");
    accepted(POST, "null");
}

/* ---- ids ------------------------------------------------------------------------------------ */

static void test_ids(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_ids ids = { 0 };
    refused(ADDED, "{'id':4194304,'content':'x'}", LM_ENOSUP,
            "added_tokens[0]: id 4194304 is out of range: at most 4194303 is supported");
    refused(ADDED, "{'id':3,'content':'x'},{'id':100000000,'content':'y'}", LM_ENOSUP,
            "added_tokens[1]: id 100000000 is out of range");
    refused(MODEL, "{'type':'WordLevel','vocab':{'a':0,'b':4194304},'unk_token':'a'}", LM_ENOSUP,
            "vocab: id 4194304 is out of range: at most 4194303 is supported");
    refused(MODEL, "{'type':'WordLevel','vocab':{'a':0,'b':'1'},'unk_token':'a'}", LM_EDATA,
            "vocab: an id that is no whole number");
    refused(ADDED, "{'id':3,'content':'x'},{'id':3,'content':'y'}", LM_EDATA,
            "added_tokens: id 3 is that of 'x' and of 'y'");
    /* of a token that is there twice the library takes the second, special if either is */
    struct lm_vocab *v = with(ADDED, "{'id':3,'content':'x','single_word':true,'special':true},"
                              "{'id':3,'content':'x','single_word':false}", &err);
    assert_non_null(v);
    assert_int_equal(v->type[3], LM_TOKEN_CONTROL);
    assert_int_equal(lm_vocab_encode(v, "bxa", 3, LM_ENCODE_PARSE, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.id[1], 3);
    lm_ids_release(&ids);
    lm_vocab_free(v);
    refused(MODEL, PIECE "'unk_token':'a','max_input_chars_per_word':0}", LM_ENOSUP,
            "max_input_chars_per_word 0 is not supported");
}

/* ---- how much longer text becomes ---------------------------------------------------------- */

/* A Sequence of n parts, in which %s is `len` times the letter. */
static void chain(struct lm_buf *b, enum where where, const char *part, int n, char letter, int len)
{
    static const char *const lists[] = { "normalizers", "pretokenizers", "decoders" };
    const char *at = strstr(part, "%s");
    lm_buf_printf(b, "{'type':'Sequence','%s':[", lists[where]);
    for (int i = 0; i < n; i++) {
        lm_buf_str(b, i ? "," : "");
        lm_buf_add(b, part, at ? (size_t)(at - part) : strlen(part));
        for (int k = 0; k < len; k++)
            lm_buf_byte(b, (unsigned char)letter);
        lm_buf_str(b, at ? at + 2 : "");
    }
    lm_buf_str(b, "]}");
}

#define STRING "{'type':'Replace','pattern':{'String':'a'},'content':'%s'}"
#define REGEX(r) "{'type':'Replace','pattern':{'Regex':'" r "'},'content':'%s'}"
#define PREPEND "{'type':'Prepend','prepend':'%s'}"
#define BYTES "{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}"

/* What a byte may become is limited, by the parts together: `bad` is the first of those, from the
 * end, that are too much, -1: none. */
static void test_growth(void **state)
{
    (void)state;
    static const char *const paths[] = { "normalizer.normalizers", "pre_tokenizer.pretokenizers",
                                         "decoder.decoders" };
    static const struct {
        enum where  where;
        const char *part;
        int         n;
        char        letter;
        int         len, bad;
    } t[] = {
        { NORM, STRING, 8, 'a', 1000, 6 },         { DEC, STRING, 8, 'a', 1000, 6 },
        { NORM, STRING, 3, 'a', 100, 1 },          { DEC, STRING, 3, 'a', 100, 1 },
        { NORM, STRING, 12, 'a', 2, -1 },          { NORM, STRING, 13, 'a', 2, 0 },
        { NORM, STRING, 1, 'a', 4096, -1 },        { DEC, STRING, 1, 'a', 4097, 0 },
        { NORM, STRING, 24, 'a', 1, -1 },
        /* what one of them puts the next ones leave alone */
        { NORM, STRING, 24, 'b', 1000, -1 },       { DEC, STRING, 24, 'b', 1000, -1 },
        /* long matches, and empty ones, which are everywhere */
        { NORM, REGEX("[a-b]{50}"), 12, 'b', 100, -1 },
        { NORM, REGEX("[a-b]{50}"), 13, 'b', 100, 0 },
        { NORM, REGEX("[a-b]"), 2, 'b', 100, 0 },  { NORM, REGEX("^|$"), 2, 'b', 100, 0 },
        { DEC, REGEX("x*"), 3, 'b', 20, 0 },       { DEC, REGEX("x*"), 2, 'b', 20, -1 },
        /* the same by PCRE2 */
        { NORM, REGEX("(?>[a-b])"), 2, 'b', 100, 0 }, { NORM, REGEX("(?>x*)"), 2, 'b', 100, 0 },
        { NORM, PREPEND, 3, 'a', 1000, -1 },       { NORM, PREPEND, 5, 'a', 1000, 0 },
        { NORM, "{'type':'NFKC'}", 3, 0, 0, -1 },  { NORM, "{'type':'NFKD'}", 4, 0, 0, 0 },
        { NORM, "{'type':'NFD'}", 7, 0, 0, -1 },   { NORM, "{'type':'NFC'}", 8, 0, 0, 0 },
        { NORM, "{'type':'Lowercase'}", 20, 0, 0, -1 },
        { NORM, "{'type':'Lowercase'}", 21, 0, 0, 0 },
        { NORM, "{'type':'BertNormalizer'}", 5, 0, 0, -1 },
        { NORM, "{'type':'StripAccents'}", 24, 0, 0, -1 },
        { NORM, "{'type':'ByteLevel'}", 12, 0, 0, -1 },
        { NORM, "{'type':'ByteLevel'}", 13, 0, 0, 0 },
        { PRE, BYTES, 12, 0, 0, -1 },              { PRE, BYTES, 13, 0, 0, 0 },
        { PRE, META "'split':true}", 4, 0, 0, -1 },
        { PRE, META "'split':false}", 13, 0, 0, 0 },
        { DEC, "{'type':'WordPiece','prefix':'##'}", 24, 0, 0, -1 },
        { DEC, "{'type':'ByteFallback'}", 24, 0, 0, -1 },
        { DEC, "{'type':'ByteLevel'}", 24, 0, 0, -1 },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_buf b = { 0 };
        char path[80];
        chain(&b, t[i].where, t[i].part, t[i].n, t[i].letter, t[i].len);
        snprintf(path, sizeof path, "%s[%d] '", paths[t[i].where], t[i].bad);
        if (t[i].bad < 0) {
            accepted(t[i].where, b.data);
        } else {
            refused(t[i].where, b.data, LM_ENOSUP, path);
            refused(t[i].where, b.data, LM_ENOSUP, "bytes, more than the limit of 4096");
        }
        lm_buf_release(&b);
    }
}

#define TWICE "{'type':'Replace','pattern':{'String':'\u00e9'},'content':'\u00e9\u00e9'}"

/* Normalizers and pre-tokenizers together. */
static void test_mixed_growth(void **state)
{
    (void)state;
    for (int n = 5; n <= 6; n++) {
        struct lm_buf b = { 0 };
        chain(&b, NORM, TWICE, n, 0, 0);
        lm_buf_str(&b, ",'pre_tokenizer':");
        chain(&b, PRE, BYTES, 7, 0, 0);
        if (n == 5)
            accepted(NORM, b.data);
        else
            refused(NORM, b.data, LM_ENOSUP, "normalizer.normalizers[0] 'Replace': from here on a "
                    "byte of text can become 8192 bytes, more than the limit of 4096");
        lm_buf_release(&b);
    }
}

static void count(void *to, const char *text, size_t n, size_t at, size_t end)
{
    (void)text, (void)at, (void)end;
    *(size_t *)to += n;
}

/* What Unicode's data make of a character in form and in small letters: what is taken for the
 * most is the most. */
static void test_unicode_growth(void **state)
{
    (void)state;
    static const double most[] = { 3, 3, 11, 11 };       /* FORM_C, D, KC, KD */
    static const unsigned opts = LM_BERT_CLEAN | LM_BERT_CHINESE | LM_BERT_LOWER;
    double form[4] = { 0 }, lower = 0, bert = 0;
    if (!lm_uni_ready())
        NOT_HERE("built without utf8proc");
    for (uint32_t r = 0x80; r < 0x110000; r++) {
        char c[4];
        uint32_t small[3];
        struct lm_buf b = { 0 };
        if (r >= 0xD800 && r < 0xE000)
            continue;
        const size_t len = lm_rune_bytes(r, c);
        for (int f = 0; f < 4; f++) {
            size_t n = 0;
            assert_true(lm_uni_form(c, len, (enum lm_uni_form)f, count, &n));
            form[f] = (double)n / (double)len > form[f] ? (double)n / (double)len : form[f];
        }
        size_t n = 0;
        for (int i = 0, k = lm_rune_lower(r, small); i < k; i++) {
            char to[4];
            n += lm_rune_bytes(small[i], to);
        }
        lower = (double)n / (double)len > lower ? (double)n / (double)len : lower;
        assert_int_equal(lm_bert_normalize(c, len, opts, &b, NULL, NULL), LM_OK);
        bert = (double)b.len / (double)len > bert ? (double)b.len / (double)len : bert;
        lm_buf_release(&b);
    }
    for (int f = 0; f < 4; f++)
        assert_true(form[f] == most[f]);
    assert_true(lower == 1.5 && bert <= 4.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),       cmocka_unit_test(test_parts),
        cmocka_unit_test(test_ids),          cmocka_unit_test(test_growth),
        cmocka_unit_test(test_mixed_growth), cmocka_unit_test(test_unicode_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
