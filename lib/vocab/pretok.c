/* SPDX-License-Identifier: MIT */
/*
 * The table of pre-tokenizers.  Names are those of tokenizer.ggml.pre; the patterns are
 * those of the tokenizers the models were trained with.
 */
#include "vocab/pretok.h"

#include <string.h>

#include "vocab/unicode.h"

/* Chinese, and Hiragana with Katakana, as DeepSeek-V3 has them. */
static const struct lm_range cjk[] = { { 0x3040, 0x30FF }, { 0x4E00, 0x9FA5 }, { 0, 0 } };

/* DeepSeek's earlier class, from U+0800 to U+4E00 and Chinese, Hangul. */
static const struct lm_range wide[] = { { 0x0800, 0x9FA5 }, { 0xAC00, 0xD7FF }, { 0, 0 } };

static const struct lm_range newline[] = { { '\n', '\n' }, { '\r', '\r' }, { 0, 0 } };

static const struct lm_range backquote[] = { { '`', '`' }, { 0, 0 } };

/* Letters of DeepSeek LLM: Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee, ... */
static const struct lm_range western[] = {
    { 0x41, 0x5A },     { 0x61, 0x7A },     { 0xB5, 0xB5 },     { 0xC0, 0xD6 },
    { 0xD8, 0xF6 },     { 0xF8, 0x1BA },    { 0x1BC, 0x1BF },   { 0x1C4, 0x293 },
    { 0x295, 0x2AF },   { 0x370, 0x373 },   { 0x376, 0x377 },   { 0x37B, 0x37D },
    { 0x37F, 0x37F },   { 0x386, 0x386 },   { 0x388, 0x38A },   { 0x38C, 0x38C },
    { 0x38E, 0x3A1 },   { 0x3A3, 0x3F5 },   { 0x3F7, 0x481 },   { 0x48A, 0x52F },
    { 0x531, 0x556 },   { 0x10A0, 0x10C5 }, { 0x13A0, 0x13F5 }, { 0x13F8, 0x13FD },
    { 0x1C90, 0x1CBA }, { 0x1CBD, 0x1CBF }, { 0x1D00, 0x1D2B }, { 0x1D6B, 0x1D77 },
    { 0x1D79, 0x1D9A }, { 0x1E00, 0x1F15 }, { 0x1F18, 0x1F1D }, { 0x1F20, 0x1F45 },
    { 0x1F48, 0x1F4D }, { 0x1F50, 0x1F57 }, { 0x1F59, 0x1F59 }, { 0x1F5B, 0x1F5B },
    { 0x1F5D, 0x1F5D }, { 0x1F5F, 0x1F7D }, { 0x1F80, 0x1FB4 }, { 0x1FB6, 0x1FBC },
    { 0x1FBE, 0x1FBE }, { 0x1FC2, 0x1FC4 }, { 0x1FC6, 0x1FCC }, { 0x1FD0, 0x1FD3 },
    { 0x1FD6, 0x1FDB }, { 0x1FE0, 0x1FEC }, { 0x1FF2, 0x1FF4 }, { 0x1FF6, 0x1FFC },
    { 0x2102, 0x2102 }, { 0x2107, 0x2107 }, { 0x210A, 0x2113 }, { 0x2115, 0x2115 },
    { 0x2119, 0x211D }, { 0x2124, 0x2124 }, { 0x2126, 0x2126 }, { 0x2128, 0x2128 },
    { 0x212A, 0x212D }, { 0x212F, 0x2134 }, { 0x2139, 0x2139 }, { 0x213C, 0x213F },
    { 0x2145, 0x2149 }, { 0x214E, 0x214E }, { 0x2183, 0x2184 }, { 0x2C00, 0x2C7B },
    { 0x2C7E, 0x2CE4 }, { 0x2CEB, 0x2CEE }, { 0x2CF2, 0x2CF3 }, { 0xA640, 0xA66D },
    { 0xA680, 0xA69B }, { 0xA722, 0xA76F }, { 0xA771, 0xA787 }, { 0xA78B, 0xA78E },
    { 0xAB70, 0xABBF }, { 0xFB00, 0xFB06 }, { 0xFB13, 0xFB17 }, { 0xFF21, 0xFF3A },
    { 0xFF41, 0xFF5A }, { 0x10400, 0x1044F }, { 0x104B0, 0x104D3 }, { 0x104D8, 0x104FB },
    { 0x10C80, 0x10CB2 }, { 0x10CC0, 0x10CF2 }, { 0x118A0, 0x118DF }, { 0x1E900, 0x1E943 },
    { 0, 0 },
};

/* Its signs: [!-/:-~] and full-width ones.  (The second range takes in letters: its own
 * pattern has it so, and they are gone by then.) */
static const struct lm_range signs[] = {
    { '!', '/' },       { ':', '~' },       { 0x2018, 0x201F }, { 0x3000, 0x3002 },
    { 0xFF01, 0xFF0F }, { 0xFF1A, 0xFF5E }, { 0, 0 },
};

/* What ends a word of BLOOM besides spaces: ( | . , ! ? ) and their kin. */
static const struct lm_range stops[] = {
    { '!', '!' },       { '(', ')' },       { ',', ',' },       { '.', '.' },
    { '?', '?' },       { '|', '|' },       { 0x60C, 0x60C },   { 0x6D4, 0x6D4 },
    { 0x964, 0x964 },   { 0x2026, 0x2026 }, { 0x3001, 0x3002 }, { 0xFF0C, 0xFF0C }, { 0, 0 },
};

/* Scripts without spaces, as AFMoE has them: CJK, Thai, Lao, Khmer, Burmese, Hangul.  Its
 * last range of ideographs begins at U+8C48 and so takes in all up to U+FAFF. */
static const struct lm_range unspaced[] = {
    { 0x0E40, 0x0EFF }, { 0x1000, 0x109F }, { 0x1100, 0x11FF }, { 0x1780, 0x17FF },
    { 0x2F00, 0x2FDF }, { 0x3040, 0x30FF }, { 0x3400, 0x4DBF }, { 0x4E00, 0xFAFF },
    { 0xFF65, 0xFF9F }, { 0, 0 },
};

/* Youtu's runs: Hangul; full-width and CJK punctuation; Bopomofo; Chinese and kana. */
static const struct lm_range youtu[] = {
    { 0x3131, 0x318E }, { 0xAC00, 0xD7A3 }, { 0, 0 },
    { 0x2014, 0x2014 }, { 0x2018, 0x2019 }, { 0x201C, 0x201D }, { 0x2026, 0x2026 },
    { 0x3001, 0x303F }, { 0xFE30, 0xFE4F }, { 0xFF01, 0xFF01 }, { 0xFF0C, 0xFF0C },
    { 0xFF1A, 0xFF1B }, { 0, 0 },
    { 0x3105, 0x312F }, { 0, 0 },
    { 0x3040, 0x30FF }, { 0x4E00, 0x9FA5 }, { 0, 0 },
    { 0, 0 },
};

#define LLAMA3_BUT_DIGITS (LM_TT_SHORT | LM_TT_TAIL)
#define LLAMA3            { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_3, NULL }
#define QWEN2             { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_1, NULL }
#define GPT2              { lm_pre_gpt2, 0, NULL }
#define GPT4O             { lm_pre_cased, LM_TT_SHORT | LM_TT_TAIL_SLASH | LM_TT_DIGITS_3, NULL }
#define DIGIT             { lm_pre_class, LM_U_N | LM_CLASS_ONE, NULL }
#define DIGITS_3          { lm_pre_class, LM_U_N | LM_CLASS_3, NULL }
#define DIGITS            { lm_pre_class, LM_U_N, NULL }
#define BLOOM             { lm_pre_bloom, 0, stops }
#define NEWLINE           { lm_pre_set, LM_CLASS_ONE, newline }
#define WHOLE             LM_PRE_WHOLE
#define BOS               LM_PRE_BOS
#define NFC               LM_PRE_NFC

const struct lm_pretok lm_pretoks[] = {
    { "llama3 llama-v3 llama-bpe falcon3 falcon-h1 falcon_h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      WHOLE | BOS, { LLAMA3 } },
    { "glm4 glm5",                      WHOLE, { LLAMA3 } },
    { "dbrx smaug-bpe chatglm-bpe",     0,     { LLAMA3 } },
    { "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum jina-v1-en "
      "jina-v2-code roberta-bpe jais trillion granite-docling",
      0, { GPT2 } },
    { "exaone4 modern-bert mpt olmo",   NFC,   { GPT2 } },
    { "starcoder refact smollm codeshell exaone minerva-7b mellum2", 0, { DIGIT, GPT2 } },
    { "command-r",                      NFC,   { DIGIT, GPT2 } },
    { "qwen2 deepseek-r1-qwen f2llmv2 stablelm2", NFC, { QWEN2 } },
    { "kormo megrez hunyuan solar-open grok-2", 0, { QWEN2 } },
    { "qwen35", NFC,
      { { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_1 | LM_TT_MARKS, NULL } } },
    { "seed-coder", 0, { { lm_pre_tiktoken, LM_TT_SHORT | LM_TT_DIGITS_1, NULL } } },
    { "ufakzeka",   0, { { lm_pre_tiktoken, LM_TT_TAIL | LM_TT_DIGITS_1, NULL } } },
    { "bailingmoe bailingmoe2 llada-moe", 0, { QWEN2 } },
    { "exaone-moe", 0,
      { { lm_pre_tiktoken, LM_TT_SHORT | LM_TT_PHRASE | LM_TT_TAIL_SLASH | LM_TT_TAIL_ONE |
                           LM_TT_DIGITS_1, NULL } } },
    { "jais-2",     0,
      { { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_3 | LM_TT_POWERS, NULL } } },
    { "minicpm5",   WHOLE,
      { DIGITS_3, { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_ANY, NULL } } },
    { "laguna",     0, { { lm_pre_lines, 0, NULL }, QWEN2 } },
    /* gpt-4o: what gpt-oss was trained with takes whole words, and so does tiktoken */
    { "gpt-4o llama4 kanana2 talkie granite-embed-multi-97m", WHOLE, { GPT4O } },
    { "minimax-m2", 0, { GPT4O } },
    { "tekken",     WHOLE | BOS, { { lm_pre_cased, LM_TT_TAIL_SLASH | LM_TT_DIGITS_1, NULL } } },
    { "tiny_aya cohere2moe", 0, { { lm_pre_right3, LM_U_ND | LM_U_WORD, NULL }, GPT4O } },
    { "youtu",      WHOLE,
      { { lm_pre_sets, 0, youtu },
        { lm_pre_cased, LM_TT_SHORT | LM_TT_TAIL_SLASH | LM_TT_DIGITS_1, NULL } } },
    { "kimi-k2",    0,
      { { lm_pre_cased, LM_TT_HAN | LM_TT_SHORT | LM_TT_TAIL | LM_TT_DIGITS_3, NULL } } },
    { "deepseek-llm", 0,
      { NEWLINE, { lm_pre_spaced, 0, western }, { lm_pre_spaced, 0, signs },
        { lm_pre_trailing, 0, NULL }, { lm_pre_set, 0, wide }, DIGITS } },
    { "deepseek-coder", 0,
      { NEWLINE, { lm_pre_spaced, LM_U_L, NULL }, { lm_pre_spaced, LM_U_P, NULL },
        { lm_pre_set, 0, wide }, DIGIT } },
    { "deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0,
      { DIGITS_3, { lm_pre_set, 0, cjk }, { lm_pre_deepseek3, 0, NULL } } },
    { "spark2_5",   0,
      { DIGITS_3, { lm_pre_set, 0, cjk }, { lm_pre_deepseek3, LM_TT_LINE_SINGLE, NULL },
        DIGIT } },
    { "afmoe",      0,
      { { lm_pre_right3, LM_U_N, NULL }, { lm_pre_set, 0, unspaced },
        { lm_pre_deepseek3, 0, NULL } } },
    { "falcon",     0,
      { { lm_pre_class, LM_U_P | LM_CLASS_SIGN, NULL }, GPT2, { lm_pre_ascii3, 0, NULL } } },
    { "default",    0,
      { { lm_pre_class, LM_U_P | LM_CLASS_SIGN, backquote }, GPT2, DIGITS,
        { lm_pre_ascii3, 0, NULL } } },
    { "bloom poro-chat gpt3-finnish", 0, { BLOOM } },
    { "viking",     0, { BLOOM, DIGIT } },
    { "superbpe",   LM_PRE_SPANS, { DIGITS, { lm_pre_before3, 0, NULL } } },
    { "chameleon",  BOS,
      { { lm_pre_sentinel, 0, NULL }, { lm_pre_image, 0, NULL }, { lm_pre_blanks, 0, NULL },
        DIGIT, { lm_pre_class, LM_U_P | LM_CLASS_SIGN | LM_CLASS_ONE, NULL }, GPT2 } },
    { NULL, 0, { { NULL, 0, NULL } } },
};

#define SHORT       "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TIKTOKEN(d) SHORT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" d \
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define CASED(less, more, digits, tail) \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" less "]*" \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" less "]+" more "|" \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" less "]+" \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" less "]*" more "|" \
    digits "| ?[^\\s\\p{L}\\p{N}]+" tail "*" SPACES
#define ASCII_PUNCT "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3   ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
                    " ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES

/* Patterns as the tokenizers' own files have them. */
static const struct {
    const char       *text;
    struct lm_prestep step;
} patterns[] = {
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", GPT2 },
    { TIKTOKEN("{1,3}"), LLAMA3 },
    { TIKTOKEN(""), QWEN2 },
    { TIKTOKEN("{1}"), QWEN2 },
    { TIKTOKEN("+"), { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_ANY, NULL } },
    { SHORT "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
      " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES,
      { lm_pre_tiktoken, LLAMA3_BUT_DIGITS | LM_TT_DIGITS_1 | LM_TT_MARKS, NULL } },
    { SHORT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES,
      { lm_pre_tiktoken, LM_TT_SHORT | LM_TT_DIGITS_1, NULL } },
    { "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES,
      { lm_pre_tiktoken, LM_TT_TAIL | LM_TT_DIGITS_1, NULL } },
    { CASED("", SHORT "?", "\\p{N}{1,3}", "[\\r\\n/]"), GPT4O },
    { CASED("", SHORT "?", "\\p{N}", "[\\r\\n/]"),
      { lm_pre_cased, LM_TT_SHORT | LM_TT_TAIL_SLASH | LM_TT_DIGITS_1, NULL } },
    { CASED("", "", "\\p{N}", "[\\r\\n/]"),
      { lm_pre_cased, LM_TT_TAIL_SLASH | LM_TT_DIGITS_1, NULL } },
    { "[\\p{Han}]+|" CASED("&&[^\\p{Han}]", SHORT "?", "\\p{N}{1,3}", "[\\r\\n]"),
      { lm_pre_cased, LM_TT_HAN | LM_TT_SHORT | LM_TT_TAIL | LM_TT_DIGITS_3, NULL } },
    { DEEPSEEK3, { lm_pre_deepseek3, 0, NULL } },
    { "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
      { lm_pre_set, 0, cjk } },
    { "[\xEA\xB0\x80-\xED\x9E\xA3\xE3\x84\xB1-\xE3\x86\x8E]+|"
      "[\xEF\xBC\x81\xE2\x80\xA6\xE2\x80\x9C\xE2\x80\x9D\xE2\x80\x98\xE2\x80\x99\xE2\x80\x94"
      "\xEF\xBC\x9A\xEF\xBC\x9B\xEF\xBC\x8C\xE3\x80\x81-\xE3\x80\xBF\xEF\xB8\xB0-\xEF\xB9\x8F]+|"
      "[\xE3\x84\x85-\xE3\x84\xAF]+|"
      "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
      { lm_pre_sets, 0, youtu } },
    { "\\p{N}{1,3}", DIGITS_3 },
    { "\\p{N}", DIGIT },
    { "\\p{N}+", DIGITS },
    { "\\d{1,3}(?=(?:\\d{3})*\\b)", { lm_pre_right3, LM_U_ND | LM_U_WORD, NULL } },
    { "[\\r\\n]", NEWLINE },
    { "\\s?\\p{L}+", { lm_pre_spaced, LM_U_L, NULL } },
    { "\\s?\\p{P}+", { lm_pre_spaced, LM_U_P, NULL } },
    { "\\s+$", { lm_pre_trailing, 0, NULL } },
    { "[0-9][0-9][0-9]", { lm_pre_ascii3, 0, NULL } },
    { "[^\\n]+|[\\n]+", { lm_pre_lines, 0, NULL } },
};

const struct lm_prestep *lm_pretok_pattern(size_t n, const char **pattern)
{
    if (n >= sizeof patterns / sizeof *patterns)
        return NULL;
    *pattern = patterns[n].text;
    return &patterns[n].step;
}

const char *lm_pretok_text(const struct lm_prestep *t)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct lm_prestep *x = &patterns[i].step;
        if (x->match == t->match && x->opt == t->opt && x->set == t->set)
            return patterns[i].text;
    }
    return NULL;
}

/* The same text, but for \r and \n, which some files have as themselves? */
static bool same_pattern(const char *want, const char *p, const char *end)
{
    for (; p < end && *want; p++) {
        char escaped = *p == '\n' ? 'n' : *p == '\r' ? 'r' : 0;
        if (escaped && want[0] == '\\' && want[1] == escaped)
            want += 2;
        else if (*want++ != *p)
            return false;
    }
    return p == end && !*want;
}

const struct lm_prestep *lm_pretok_by_pattern(const char *pattern, size_t len)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (same_pattern(patterns[i].text, pattern, pattern + len))
            return &patterns[i].step;
    return NULL;
}

bool lm_pretok_covers(const struct lm_prestep *t)
{
    return t->match == lm_pre_gpt2 || t->match == lm_pre_tiktoken || t->match == lm_pre_cased ||
           t->match == lm_pre_lines;
}

bool lm_pretok_lines(const struct lm_pretok *pre)
{
    for (int i = 0; i < LM_PRE_STEPS && pre->steps[i].match; i++)
        if (pre->steps[i].match == lm_pre_gpt2 || pre->steps[i].opt & LM_TT_LINE_SINGLE)
            return false;
    return true;
}

const struct lm_pretok *lm_pretok_find(const char *name, size_t len)
{
    for (const struct lm_pretok *t = lm_pretoks; t->names; t++)
        for (const char *p = t->names; *p;) {
            size_t n = strcspn(p, " ");
            if (n == len && memcmp(p, name, n) == 0)
                return t;
            p += n + (p[n] == ' ');
        }
    return NULL;
}

static void enter(struct lm_cut_level *l, const char *p, const char *end)
{
    l->s = (struct lm_scan){ .begin = p, .end = end, .mark = p, .far = p };
    l->at = p;
    l->next = l->edge = NULL;
    l->next_len = 0;
    l->next_sure = false;
}

void lm_cut_init(struct lm_cut *w, const struct lm_pretok *pre, const char *p, size_t len)
{
    w->pre = pre;
    w->n_steps = 0;
    while (w->n_steps < LM_PRE_STEPS && pre->steps[w->n_steps].match)
        w->n_steps++;
    w->depth = 0;
    enter(&w->level[0], p, p + len);
}

/* The end of the piece that begins at l->at: a match, or all up to the next match. */
static const char *cut(const struct lm_prestep *t, struct lm_cut_level *l)
{
    const char *p = l->at;
    size_t n = l->next == p ? l->next_len : t->match(t, &l->s, p);
    if (n)
        return p + n;
    while (p < l->s.end) {
        int k;
        lm_uni_next(p, l->s.end, &k);
        p += k;
        if (p < l->s.end && (n = t->match(t, &l->s, p))) {
            l->next = p;
            l->next_len = n;
            break;
        }
    }
    return p;
}

const char *lm_cut_next(struct lm_cut *w)
{
    while (w->level[w->depth].at == w->level[w->depth].s.end)
        if (w->depth-- == 0) {
            w->depth = 0;
            return NULL;
        }
    for (;;) {
        struct lm_cut_level *l = &w->level[w->depth];
        const char *p = l->at;
        l->at = cut(&w->pre->steps[w->depth], l);
        if (w->depth + 1 == w->n_steps)
            return l->at;
        enter(l + 1, p, l->at);
        w->depth++;
    }
}

/* ---- text that goes on ------------------------------------------------------------ */

/* How far patterns look behind what they match, but for runs that they note in far. */
enum { LOOK = 16 };

void lm_cut_part(struct lm_cut *w, const struct lm_pretok *pre, const char *p, size_t len,
                 bool more)
{
    lm_cut_init(w, pre, p, len);
    w->level[0].edge = more ? p + len : NULL;
}

/* Match at p; true if what follows the edge makes no difference. */
static bool decide(const struct lm_prestep *t, struct lm_cut_level *l, const char *p, size_t *n)
{
    l->s.far = p;
    *n = t->match(t, &l->s, p);
    const char *far = l->s.far > p + *n ? l->s.far : p + *n;
    return !l->edge || l->edge - far > LOOK;
}

/* As cut; *doubt is the first place from which text behind the edge may make a difference, or
 * NULL. */
static const char *cut_part(const struct lm_prestep *t, struct lm_cut_level *l,
                            const char **doubt)
{
    const char *p = l->at;
    size_t n = l->next_len;
    bool sure = l->next_sure;
    if (l->next != p)
        sure = decide(t, l, p, &n);
    *doubt = sure ? NULL : p;
    if (n)
        return p + n;
    while (p < l->s.end && sure) {
        int k;
        lm_uni_next(p, l->s.end, &k);
        p += k;
        if (p == l->s.end)
            break;
        sure = decide(t, l, p, &n);
        if (!sure)
            *doubt = p;
        if (n) {
            l->next = p;
            l->next_len = n;
            l->next_sure = sure;
            break;
        }
    }
    return p;
}

const char *lm_cut_settled(struct lm_cut *w, const char **sure)
{
    while (w->level[w->depth].at == w->level[w->depth].s.end) {
        *sure = w->level[w->depth].at;
        if (w->level[w->depth].edge || w->depth == 0)
            return NULL;
        w->depth--;
    }
    for (;;) {
        struct lm_cut_level *l = &w->level[w->depth];
        const struct lm_prestep *t = &w->pre->steps[w->depth];
        const char *p = l->at, *doubt, *q = cut_part(t, l, &doubt);
        if (doubt)                               /* q > p: it is the match that is in doubt */
            q = q > p && doubt == p ? p + lm_pre_sure(t, p, l->edge) : doubt;
        l->at = q;
        *sure = q;
        if (w->depth + 1 == w->n_steps || q == p)
            return doubt ? NULL : q;
        enter(l + 1, p, q);
        (l + 1)->edge = doubt ? q : NULL;
        w->depth++;
    }
}
