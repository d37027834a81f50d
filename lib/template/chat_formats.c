/* SPDX-License-Identifier: MIT */
#include "template/chat_formats.h"

#include <string.h>

struct around {
    const char *before, *after;
};

/* flags: of S, U, A the roles whose text is trimmed; I the system's text is part of the user's
 * turn that follows, which has no beginning of its own then; B `again` stands before the turns
 * of all roles, not of the user alone; O the format has a start token of its own. */
struct format {
    const char   *name, *flags;
    struct around system, user, assistant;
    const char   *prompt;            /* begins an answer                                  */
    const char   *start;             /* before all                                        */
    const char   *again;             /* before each turn but the first                    */
    const char   *unsaid;            /* where the conversation has no system's text       */
};

#define USER_MARK "<\xEF\xBD\x9CUser\xEF\xBD\x9C>"
#define ASSISTANT_MARK "<\xEF\xBD\x9C" "Assistant\xEF\xBD\x9C>"
#define END_MARK "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"

#define HUNYUAN(name) "<\xEF\xBD\x9Chy_" name "\xEF\xBD\x9C>"

#define CHATML(begin, middle, end, prompt_end) \
    .system = { begin "system" middle, end }, .user = { begin "user" middle, end }, \
    .assistant = { begin "assistant" middle, end }, .prompt = begin "assistant" prompt_end

#define GRANITE CHATML("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n", \
                       "<|end_of_role|>")
#define EXAONE .flags = "SUA", .system = { "[|system|]", "[|endofturn|]\n" }, \
    .user = { "[|user|]", "\n" }, .assistant = { "[|assistant|]", "[|endofturn|]\n" }, \
    .prompt = "[|assistant|]"
#define BAILING .system = { "<role>SYSTEM</role>", "" }, .user = { "<role>HUMAN</role>", "" }, \
    .assistant = { "<role>ASSISTANT</role>", "" }
#define LLAMA2_SYS .system = { "[INST] <<SYS>>\n", "\n<</SYS>>\n\n" }, \
    .user = { "[INST] ", " [/INST]" }, .assistant = { "", "</s>" }
#define VICUNA .user = { "USER: ", "\n" }, .assistant = { "ASSISTANT: ", "</s>\n" }, \
    .prompt = "ASSISTANT:"

static const struct format formats[] = {
    { .name = "bailing", BAILING, .prompt = "<role>ASSISTANT</role>" },
    { .name = "bailing-think", BAILING, .prompt = "<role>ASSISTANT</role><think>" },
    { .name = "bailing2", .system = { "<role>SYSTEM</role>", "<|role_end|>" },
      .user = { "<role>HUMAN</role>", "<|role_end|>" },
      .assistant = { "<role>ASSISTANT</role>", "<|role_end|>" },
      .prompt = "<role>ASSISTANT</role>",
      .unsaid = "<role>SYSTEM</role>detailed thinking off<|role_end|>" },
    { .name = "chatglm3", .flags = "O", CHATML("<|", "|>\n ", "", "|>"), .start = "[gMASK]sop" },
    { .name = "chatglm4", .flags = "O", CHATML("<|", "|>\n", "", "|>\n"),
      .start = "[gMASK]<sop>" },
    { .name = "chatml", CHATML("<|im_start|>", "\n", "<|im_end|>\n", "\n") },
    { .name = "command-r", .flags = "SUA",
      .system = { "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>" },
      .user = { "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>" },
      .assistant = { "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>" },
      .prompt = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>" },
    { .name = "deepseek", .user = { "### Instruction:\n", "\n" },
      .assistant = { "### Response:\n", "\n<|EOT|>\n" }, .prompt = "### Response:\n" },
    { .name = "deepseek-ocr" },
    { .name = "deepseek2", .system = { "", "\n\n" }, .user = { "User: ", "\n\n" },
      .assistant = { "Assistant: ", END_MARK }, .prompt = "Assistant:" },
    { .name = "deepseek3", .system = { "", "\n\n" }, .user = { USER_MARK, "" },
      .assistant = { ASSISTANT_MARK, END_MARK }, .prompt = ASSISTANT_MARK },
    { .name = "exaone-moe", .flags = "SUA", CHATML("<|", "|>\n", "<|endofturn|>\n", "|>\n") },
    { .name = "exaone3", EXAONE },
    { .name = "exaone4", EXAONE },
    { .name = "falcon3", CHATML("<|", "|>\n", "\n", "|>\n") },
    { .name = "gemma", .flags = "SUAI", .system = { "<start_of_turn>user\n", "\n\n" },
      .user = { "<start_of_turn>user\n", "<end_of_turn>\n" },
      .assistant = { "<start_of_turn>model\n", "<end_of_turn>\n" },
      .prompt = "<start_of_turn>model\n" },
    { .name = "gigachat", .flags = "O", .system = { "", "<|message_sep|>" },
      .user = { "user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]"
                                    "<|message_sep|>" },
      .assistant = { "assistant<|role_sep|>", "<|message_sep|>" },
      .prompt = "assistant<|role_sep|>", .start = "<s>" },
    { .name = "glmedge", CHATML("<|", "|>\n", "", "|>") },
    { .name = "gpt-oss", .system = { "<|start|>system<|message|>", "<|end|>" },
      .user = { "<|start|>user<|message|>", "<|end|>" },
      .assistant = { "<|start|>assistant<|message|>", "<|return|>" },
      .prompt = "<|start|>assistant" },
    { .name = "granite", GRANITE },
    { .name = "granite-4.0", GRANITE },
    { .name = "granite-4.1", GRANITE },
    { .name = "grok-2", .flags = "SU", .system = { "System: ", "<|separator|>\n\n" },
      .user = { "Human: ", "<|separator|>\n\n" },
      .assistant = { "Assistant: ", "<|separator|>\n\n" }, .prompt = "Assistant:" },
    { .name = "hunyuan-dense", .system = { "", HUNYUAN("place\xE2\x96\x81holder\xE2\x96\x81no"
                                                       "\xE2\x96\x81" "3") },
      .user = { HUNYUAN("User"), HUNYUAN("Assistant") },
      .assistant = { HUNYUAN("Assistant"), HUNYUAN("place\xE2\x96\x81holder\xE2\x96\x81no"
                                                   "\xE2\x96\x81" "2") } },
    { .name = "hunyuan-moe", .flags = "O", .system = { "<|startoftext|>", "<|extra_4|>" },
      .user = { "<|startoftext|>", "<|extra_0|>" }, .assistant = { "", "<|eos|>" } },
    { .name = "hunyuan-vl", .flags = "O",
      .system = { "", HUNYUAN("place\xE2\x96\x81holder\xE2\x96\x81no\xE2\x96\x81" "3") },
      .user = { "", HUNYUAN("User") }, .assistant = { "", HUNYUAN("Assistant") },
      .start = HUNYUAN("begin\xE2\x96\x81of\xE2\x96\x81sentence") },
    { .name = "kimi-k2", .system = { "<|im_system|>system<|im_middle|>", "<|im_end|>" },
      .user = { "<|im_user|>user<|im_middle|>", "<|im_end|>" },
      .assistant = { "<|im_assistant|>assistant<|im_middle|>", "<|im_end|>" },
      .prompt = "<|im_assistant|>assistant<|im_middle|>" },
    { .name = "llama2", .flags = "I", .system = { "[INST] ", "\n" },
      .user = { "[INST] ", " [/INST]" }, .assistant = { "", "</s>" } },
    { .name = "llama2-sys", .flags = "I", LLAMA2_SYS },
    { .name = "llama2-sys-bos", .flags = "I", LLAMA2_SYS, .again = "<s>" },
    { .name = "llama2-sys-strip", .flags = "SUAI", LLAMA2_SYS },
    { .name = "llama3", .flags = "SUA",
      CHATML("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>",
             "<|end_header_id|>\n\n") },
    { .name = "llama4", .flags = "SUA",
      CHATML("<|header_start|>", "<|header_end|>\n\n", "<|eot|>", "<|header_end|>\n\n") },
    { .name = "megrez", CHATML("<|role_start|>", "<|role_end|>", "<|turn_end|>", "<|role_end|>") },
    { .name = "minicpm", .flags = "SUA",
      .user = { "<\xE7\x94\xA8\xE6\x88\xB7>", "<AI>" } },        /* user */
    { .name = "mistral-v1", .flags = "I", .system = { " [INST] ", "\n\n" },
      .user = { " [INST] ", " [/INST]" }, .assistant = { " ", "</s>" } },
    { .name = "mistral-v3", .flags = "IA", .system = { "[INST] ", "\n\n" },
      .user = { "[INST] ", "[/INST]" }, .assistant = { " ", "</s>" } },
    { .name = "mistral-v3-tekken", .flags = "I", .system = { "[INST]", "\n\n" },
      .user = { "[INST]", "[/INST]" }, .assistant = { "", "</s>" } },
    { .name = "mistral-v7", .system = { "[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]" },
      .user = { "[INST] ", "[/INST]" }, .assistant = { " ", "</s>" } },
    { .name = "mistral-v7-tekken", .system = { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" },
      .user = { "[INST]", "[/INST]" }, .assistant = { "", "</s>" } },
    { .name = "monarch", .flags = "B", CHATML("", "\n", "</s>\n", "\n"), .again = "<s>" },
    { .name = "openchat", .system = { "", "<|end_of_turn|>" },
      .user = { "GPT4 Correct User: ", "<|end_of_turn|>" },
      .assistant = { "GPT4 Correct Assistant: ", "<|end_of_turn|>" },
      .prompt = "GPT4 Correct Assistant:" },
    { .name = "orion", .flags = "I", .system = { "Human: ", "\n\n" },
      .user = { "Human: ", "\n\nAssistant: </s>" }, .assistant = { "", "</s>" } },
    { .name = "pangu-embedded",
      .system = { "[unused9]\xE7\xB3\xBB\xE7\xBB\x9F\xEF\xBC\x9A", "[unused10]" },
      .user = { "[unused9]\xE7\x94\xA8\xE6\x88\xB7\xEF\xBC\x9A", "[unused10]" },
      .assistant = { "[unused9]\xE5\x8A\xA9\xE6\x89\x8B\xEF\xBC\x9A", "[unused10]" },
      .prompt = "[unused9]\xE5\x8A\xA9\xE6\x89\x8B\xEF\xBC\x9A",
      .unsaid = "[unused9]\xE7\xB3\xBB\xE7\xBB\x9F\xEF\xBC\x9A[unused10]" },
    { .name = "phi3", CHATML("<|", "|>\n", "<|end|>\n", "|>\n") },
    { .name = "phi4", CHATML("<|im_start|>", "<|im_sep|>", "<|im_end|>", "<|im_sep|>") },
    { .name = "rwkv-world", .flags = "SUA", .system = { "System: ", "\n\n" },
      .user = { "User: ", "\n\n" }, .assistant = { "Assistant: ", "\n\n" },
      .prompt = "Assistant:" },
    { .name = "seed_oss", .flags = "A", CHATML("<seed:bos>", "\n", "<seed:eos>", "\n") },
    { .name = "smolvlm", .system = { "", "\n\n" }, .user = { "User: ", "<end_of_utterance>\n" },
      .assistant = { "Assistant: ", "<end_of_utterance>\n" }, .prompt = "Assistant:",
      .start = "<|im_start|>" },
    { .name = "solar-open", CHATML("<|begin|>", "<|content|>", "<|end|>", "") },
    { .name = "vicuna", .system = { "", "\n\n" }, VICUNA },
    { .name = "vicuna-orca", .system = { "SYSTEM: ", "\n" }, VICUNA },
    { .name = "zephyr", CHATML("<|", "|>\n", "<|endoftext|>\n", "|>\n") },
};

const char lm_chat_frame[] =
    "{%- macro text(m) -%}"
    "{%- if m.content is string -%}{{ m.content }}"
    "{%- elif m.content -%}"
    "{%- for part in m.content -%}"
    "{%- if part.text is string -%}{{ part.text }}{%- else -%}"
    "{{ raise_exception('this template shows only text') }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{%- endmacro -%}"
    "{%- if tools -%}{{ raise_exception('this template shows no tools') }}{%- endif -%}"
    "{%- if 'O' not in flags -%}{{ bos_token }}{%- endif -%}"
    "{{ start }}"
    "{%- if not messages or messages[0].role != 'system' -%}{{ unsaid }}{%- endif -%}"
    "{%- set turn = namespace(open=false) -%}"
    "{%- for m in messages -%}"
    "{%- if m.role not in roles -%}"
    "{{ raise_exception(\"this template has no role '\" ~ m.role ~ \"'\") }}"
    "{%- endif -%}"
    "{%- set role = roles[m.role] -%}"
    "{%- if not turn.open and not loop.first and ('B' in flags or m.role == 'user') -%}"
    "{{ again }}"
    "{%- endif -%}"
    "{%- if not turn.open or m.role != 'user' -%}{{ role.before }}{%- endif -%}"
    "{%- set t = text(m) -%}"
    "{{ t | trim if role.letter in flags else t }}{{ role.after }}"
    "{%- set turn.open = 'I' in flags and m.role == 'system' -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{%- if 'B' in flags -%}{{ again }}{%- endif -%}{{ prompt }}"
    "{%- endif -%}";

/* Members are put in front: their order does not matter. */
static struct lm_jval *member(struct lm_arena *a, struct lm_jval *to, const char *key,
                              enum lm_json_kind kind, const char *text)
{
    struct lm_jval *v = lm_arena_alloc(a, sizeof *v);
    if (!v || !to)
        return NULL;
    *v = (struct lm_jval){ .kind = kind, .str = text, .len = text ? strlen(text) : 0,
                           .key = key, .key_len = strlen(key), .next = to->first };
    to->first = v;
    to->len++;
    return v;
}

static bool text_member(struct lm_arena *a, struct lm_jval *to, const char *key, const char *text)
{
    return member(a, to, key, LM_JSON_STRING, text ? text : "");
}

const struct lm_jval *lm_chat_format(const char *name, struct lm_arena *arena)
{
    const struct format *f = formats, *const end = f + sizeof formats / sizeof *formats;
    while (f < end && strcmp(f->name, name) != 0)
        f++;
    struct lm_jval *all = f < end ? lm_arena_alloc(arena, sizeof *all) : NULL;
    if (!all)
        return NULL;
    const struct { const char *role, *letter; struct around text; } roles[] = {
        { "system", "S", f->system }, { "user", "U", f->user }, { "assistant", "A", f->assistant },
    };
    all->kind = LM_JSON_OBJECT;
    struct lm_jval *list = member(arena, all, "roles", LM_JSON_OBJECT, NULL);
    bool ok = text_member(arena, all, "flags", f->flags) &&
              text_member(arena, all, "prompt", f->prompt) &&
              text_member(arena, all, "start", f->start) &&
              text_member(arena, all, "again", f->again) &&
              text_member(arena, all, "unsaid", f->unsaid);
    for (size_t i = 0; i < 3 && ok; i++) {
        struct lm_jval *r = member(arena, list, roles[i].role, LM_JSON_OBJECT, NULL);
        ok = text_member(arena, r, "before", roles[i].text.before) &&
             text_member(arena, r, "after", roles[i].text.after) &&
             text_member(arena, r, "letter", roles[i].letter);
    }
    return ok ? all : NULL;
}

const char *lm_chat_format_name(size_t i)
{
    return i < sizeof formats / sizeof *formats ? formats[i].name : NULL;
}
