#!/bin/sh
# chat.t - tokenize --chat: conversations through chat templates; speaks TAP.
. "$(dirname "$0")/../tap.sh"
data=$root/tests/data/template
chat() { tokenize -m "$m" --chat "$@"; }
# The conversation {"messages":[{"role":"user","content":TEXT}]}.
user() { printf '{"messages":[{"role":"user","content":"%s"}]}' "$1"; }

# ---- ids and text; the ids are the Hugging Face library's for the rendered text ----
text='<|begin_of_text|><|start_header_id|>user<|end_header_id|>

Hello<|eot_id|><|start_header_id|>assistant<|end_header_id|>

'
ids="360 363 84 82 265 364 198 198 39 68 277 78 365 363 282 82 72 82 83 289 83 364 198 198"
user Hello >hello.json
ok "$(chat <hello.json)" "$ids" "ids, from standard input"
ok "$(chat hello.json hello.json)" "$ids
$ids" "operands are files, a sequence each"
ok "$(chat --count hello.json)" 24 "--count"
ok "$(chat --render hello.json; echo .)" "$text." "--render"
ok "$(chat --render hello.json | tokenize -m "$m" --no-add-special)" "$ids" \
   "the text tokenized without start token is the same"
ok "$(chat --render --no-generation-prompt hello.json | tail -c 10)" "<|eot_id|>" \
   "--no-generation-prompt"
ok "$(tokenize -m "$root/tests/data/hf" --chat --render hello.json; echo .)" "$text." \
   "the template and the special tokens of a checkpoint"
ok "$(tokenize -m "$root/tests/data/hf" --chat hello.json)" "$ids" "and its ids"
ok "$(tokenize -m "$root/tests/data/hf/tokenizer.json" --chat hello.json)" "$ids" \
   "the files beside a tokenizer.json"
ok "$(chat <hello.json | tr ' ' '\n' | grep -c '^360$')" 1 "one start token"
tokenize -m "$m" --chat hello.json 2>err >out; ok "$(cat err)" "" "and no warning"

# ---- what a message says is text ----
user '<|eot_id|>' >special.json
ok "$(chat --no-generation-prompt special.json)" \
   "360 363 84 82 265 364 198 198 27 91 68 78 83 62 72 67 91 29 365" \
   "a control token's text in a message is text"
ok "$(chat --render --no-generation-prompt special.json | tail -c 20)" '<|eot_id|><|eot_id|>' \
   "it is rendered all the same"
user '<|eot_' >half.json
printf '%s' "{{ messages[0].content + 'id|>' }}{{ '<|eot_id|>' }}" >half.jinja
ok "$(chat --template half.jinja half.json)" "27 91 68 78 83 62 72 67 91 29 365" \
   "half a control token from a message does not make one"
printf '%s' "{{ (messages[0].content | upper | lower).split('|')[1] }}{{ '<|eot_id|>'|trim }}" \
    >part.jinja
ok "$(chat --template part.jinja special.json)" "68 78 83 62 72 67 365" \
    "through filters and methods"
ok "$(chat --no-parse-special hello.json | tr ' ' '\n' | grep -c '^36')" 0 "--no-parse-special"

# ---- what the assistant said: ids and mask are transformers' ----
cat >said.jinja <<'EOF'
{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\
{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|eot_id|>{% endgeneration %}\
{% else %}{{ m.content }}<|eot_id|>{% endif %}{% endfor %}
EOF
sed -e :a -e '/\\$/N; s/\\\n//; ta' said.jinja >one-line && mv one-line said.jinja
cat >said.json <<'EOF'
[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello, you!"},
 {"role":"user","content":"And?"},{"role":"assistant","content":"Oh \u6f22."}]
EOF
said() { chat --assistant-mask --template said.jinja "$@"; }
c='{"ids":[363,84,82,265,364,39,72,365,363,282,82,72,82,83,289,83,364,39,68,277,78,11,220,88'
c="$c,298,0,365,363,84,82,265,364,32,77,67,30,365,363,282,82,72,82,83,289,83,364,46,71,220,162"
c="$c,120,95,13,365],\"assistant_masks\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1,1,1"
c="$c,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1]}"
ok "$(said said.json)" "$c" "--assistant-mask"
ok "$(said said.json said.json)" "$c
$c" "a line a conversation"
ok "$(said --window 20 said.json | head -n 1)" "$(printf '%s' "$c" |
    sed 's/\(\([^,]*,\)\{19\}[^,]*\).*\(,"a[^[]*\[\(.,\)\{19\}.\).*/\1]\3]}/')" "a window of it"
ok "$(echo '[]' | said)" '{"ids":[],"assistant_masks":[]}' "of nothing"
chat --assistant-mask hello.json 2>err;                   ok $? 1 "a template that does not mark it"
has "$(cat err)" "tokenizer.chat_template: the template does not mark" "is said to be one"
tokenize -m "$m" --assistant-mask hello.json 2>err;       ok $? 2 "--assistant-mask without --chat"
chat --assistant-mask --render hello.json 2>err;          ok $? 2 "and with --render"
chat --assistant-mask --count hello.json 2>err;           ok $? 2 "and with --count"

# ---- the request ----
ok "$(printf '[{"role":"user","content":"Hello"}]' | chat)" "$ids" "a list of messages alone"
printf '%s' '{"messages":[{"role":"assistant","content":"It is "}],"continue_final_message":true}' \
    >c
ok "$(chat --render c | tail -c 7)" "

It is" "continue_final_message; this template trims, so the space is gone"
printf '%s' '[{"role":"assistant","content":"\u3000\u001fIt is\u001c\u00a0\u2028"}]' >c
ok "$(chat --render --continue-final-message c | tail -c 7)" "

It is" "and so is any other white space"
printf '%s' '{"messages":[{"role":"assistant","content":[{"type":"text","text":"It is "}]}]}' >c
printf '%s' '[{{ messages[0].content[0].text }}]' >part.jinja
ok "$(chat --render --continue-final-message --template part.jinja c)" "[It is " \
   "--continue-final-message in a part"
printf '%s' '{{ tools }} {{ documents|tojson }} {{ a }} {{ b }} {{ add_generation_prompt }}' \
    >vars.jinja
printf '%s' \
    '{"messages":[],"documents":[{"t":1.0}],"chat_template_kwargs":{"a":1,"b":2},"model":"x"}' >c
ok "$(chat --render --template vars.jinja --kwargs '{"b":"é"}' c)" 'None [{"t": 1.0}] 1 é True' \
   "tools, documents, chat_template_kwargs, --kwargs"
printf '%s' '{{ strftime_now("%d %b %Y %H:%M:%S %A") }}' >now.jinja
ok "$(chat --render --template now.jinja --now 2025-03-14T15:09:26 hello.json)" \
   "14 Mar 2025 15:09:26 Friday" "--now"
ok "$(chat --render --template now.jinja --now 2024-02-29 hello.json)" \
   "29 Feb 2024 00:00:00 Thursday" "--now with a date alone"
ok "$(TZ=UTC0 chat --render --template now.jinja hello.json | cut -d ' ' -f 3)" \
    "$(TZ=UTC0 date +%Y)" \
   "without it, now"

# ---- named templates ----
mkdir named && cat >named/tokenizer_config.json <<'EOF'
{"bos_token": {"content": "<s>"}, "eos_token": null, "chat_template": [
 {"name": "default", "template": "D{{ bos_token }}{{ eos_token }}"},
 {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]}
EOF
named() { tokenize -m named --chat --render "$@"; }
ok "$(named hello.json)" "D<s>" "the default one"
ok "$(named --template rag hello.json)" R "--template by name"
ok "$(printf '{"messages":[],"tools":[{}]}' | named)" T "tool_use when there are tools"
tokenize -m nothere.json --chat --render hello.json 2>err; ok $? 2 "a model that is not there"
has "$(cat err)" "tokenize: nothere.json: cannot open: " "which is what is wrong"
named --template nope hello.json 2>err; ok $? 2 "no such template"
has "$(cat err)" "which has: default, tool_use, rag" "which there are"

# ---- which file counts, as in transformers ----
mkdir files && cp "$root/tests/data/hf/tokenizer.json" files/
said() { # WANT NAME
    ok "$(tokenize -m files --chat --render hello.json)" "$1" "$2"
}
t='{{ bos_token }} {{ eos_token }} {{ image_token }} {{ boi }}'
config='"bos_token":"<|begin_of_text|>","eos_token":"<|eot_id|>","chat_template":"C '$t'"'
echo "{$config,\"extra_special_tokens\":{\"image_token\":\"I\",\"boi\":\"B\"}}" \
    >files/tokenizer_config.json
said 'C <|begin_of_text|> <|eot_id|> I B' "tokens of tokenizer_config.json, those of the model too"
echo '{"eos_token":{"content":"<|end_of_text|>"}}' >files/special_tokens_map.json
said 'C <|begin_of_text|> <|end_of_text|> I B' "special_tokens_map.json in old checkpoints"
echo "{$config,\"added_tokens_decoder\":{}}" >files/tokenizer_config.json
said 'C <|begin_of_text|> <|eot_id|>  ' "not in new ones"
printf '%s' "F $t" >files/chat_template.jinja
said 'F <|begin_of_text|> <|eot_id|>  ' "chat_template.jinja before tokenizer_config.json"

# ---- templates that are built in; the start token is this model's ----
talk='[{"role":"system","content":" S "},{"role":"user","content":" U "},'\
'{"role":"assistant","content":" A "}'
echo "$talk"',{"role":"user","content":" V "}]' >talk.json
printf '%s' '[{"role":"user","content":" U "},' \
    '{"role":"assistant","content":[{"type":"text","text":" A "}]}]' >short.json
tab=$(printf '\t')
while IFS=$tab read -r name long short; do
    start='<|begin_of_text|>'
    case $name in chatglm?|gigachat|hunyuan-moe|hunyuan-vl) start= ;; esac
    ok "$(chat --render --template "$name" talk.json; echo .)" "$start$(printf '%b.' "$long")" \
        "$name"
    ok "$(chat --render --template "$name" --no-generation-prompt short.json; echo .)" \
       "$start$(printf '%b.' "$short")" "$name without system's text"
done <"$data/formats.tsv"
ok "$(chat --template llama3 hello.json)" "$ids" "their control tokens are control tokens"
user '<|eot_id|>' >special.json
ok "$(chat --no-generation-prompt --template llama3 special.json)" \
   "360 363 84 82 265 364 198 198 27 91 68 78 83 62 72 67 91 29 365" "and a message's text is text"
echo '[{"role":"tool","content":"x"}]' | chat --template chatml 2>err
ok $? 1 "a role it has not got"
has "$(cat err)" "<stdin>: chatml: built-in template: " "the name of it"
has "$(cat err)" "this template has no role 'tool'" "and what is wrong"
printf '{"messages":[],"tools":[{}]}' | chat --template chatml 2>err
ok $? 1 "tools, which it does not show"

# ---- what is lost ----
notes() { # NOTE NAME OPTION...
    note=$1 name=$2; shift 2
    chat "$@" >/dev/null 2>err
    ok "$(cat err)" "${note:+tokenize: the template does not speak of: $note}" "$name"
}
printf '%s' '{{ enable_thinking }} {{ tools }}' >speaks.jinja
notes "enable_thinkin" "a name that is misspelled" --template speaks.jinja \
    --kwargs '{"enable_thinkin":1,"enable_thinking":1}' hello.json
notes "" "or not" --template speaks.jinja --kwargs '{"enable_thinking":1}' hello.json
printf '%s' '{"messages":[{"role":"assistant","tool_calls":[]}],"tools":[{}],"documents":[{}]}' \
    >lost.json
notes "tool_calls, documents" "once" --template speaks.jinja lost.json lost.json
printf '%s' '[{"role":"user","name":null},{"role":"assistant","content":null}]' >null.json
chat --template part.jinja null.json >out 2>err; ok "$?$(cat out)" 1 "what transformers drops"
printf '%s' '{{ messages[1].content + "x" }}' >last.jinja
chat --template last.jinja null.json >out 2>err
has "$(cat err)" "attribute 'content': in messages[1] it is null, which counts as not there" \
    "is said"
echo FILE >chatml
ok "$(chat --render --template ./chatml hello.json)" FILE "a file of such a name, by its path"

# ---- whose fault ----
mkdir broken && printf '{%% if %%}' >broken/chat_template.jinja &&
    echo '{}' >broken/tokenizer_config.json
cp "$root/tests/data/hf/tokenizer.json" broken
tokenize -m broken --chat hello.json 2>err;  ok $? 1 "a template that is none"
has "$(cat err)" "tokenize: broken/chat_template.jinja: line 1" \
    "its file is named, not the conversation"
printf '{{ raise_exception("why") }}' >broken/chat_template.jinja
tokenize -m broken --chat hello.json 2>err
has "$(cat err)" "tokenize: hello.json: broken/chat_template.jinja: line 1" \
    "both are, where it may be either"
rm broken/chat_template.jinja
echo '{"chat_template":"{% x %}"}' >broken/tokenizer_config.json
tokenize -m broken/tokenizer.json --chat hello.json 2>err
has "$(cat err)" "tokenize: broken/tokenizer_config.json: chat_template: line 1" \
    "a member of a file"
gguf-edit --set tokenizer.chat_template=str:'{% x %}' "$m" broken.gguf
tokenize -m broken.gguf --chat hello.json 2>err
has "$(cat err)" "tokenize: broken.gguf: tokenizer.chat_template: line 1" "a key of a GGUF file"
gguf-edit --delete tokenizer.chat_template "$m" broken.gguf
tokenize -m broken.gguf --chat hello.json 2>err;  ok $? 2 "no template"
has "$(cat err)" "tokenize: broken.gguf: the model has no chat template" \
    "which is the model's matter"

# ---- failures ----
fails() { # STATUS PART TEMPLATE NAME
    printf '%s' "$3" >f.jinja
    chat --render --template f.jinja hello.json >out 2>err
    ok "$?:$(cat out)" "$1:" "$4: status"
    has "$(cat err)" "$2" "$4: message"
}
fails 1 "f.jinja: line 2, column 6: No filter named 'nope'." 'a
{{ 1|nope }}' "an unknown filter"
fails 1 "f.jinja: line 1, column 4: Encountered unknown tag 'frob'." '{% frob %}' "an unknown tag"
fails 1 ": no" 'abc{{ raise_exception("no") }}' "raise_exception"
fails 1 "nested deeper" '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}' "a macro without end"
fails 1 "memory" "{% set ns = namespace(s='x') %}\
{% for i in range(100) %}{% set ns.s = ns.s * 9 %}{% endfor %}" \
    "a string without end"
fails 1 "steps" \
    "{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}" \
    "a loop without end"
printf '{%% set ét·é = 1 %%}{%% set 名_2 = 2 %%}{{ ét·é }}{{ 名_2 }}' >f.jinja
ok "$(chat --render --template f.jinja hello.json)" 12 "names beyond ASCII"
fails 1 "unexpected char '“'" '{{ “x” }}' "quotes of a word processor"
fails 1 "unexpected char '♠'" '{{ a♠ }}' "a symbol in a name"
fails 1 "unexpected char '‍'" '{{ ‍a }}' "what joins, before a name"
fails 1 "raise_exception without a message" "{{ raise_exception('') }}" "an exception of no words"
printf '{"messages":' | chat --render 2>err;              ok $? 1 "broken JSON"
has "$(cat err)" "<stdin>: line 1" "with its place"
printf '{"messages":[3]}' | chat --render 2>err;          ok $? 1 "no messages"
printf '{}' | chat --render 2>err;                        ok $? 1 "none at all"
has "$(cat err)" "<stdin>: messages is missing" "with what is missing"
chat --render --template missing.jinja hello.json 2>err
ok $? 2 "a template file that is not there"
chat --render --template nope hello.json 2>err;           ok $? 2 "a template that is not there"
has "$(cat err)" "--template nope: no file, not built in, and no template of the model" "nowhere"
c='{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":true'
echo "$c}" | chat --continue-final-message 2>err
ok $? 2 "an option that the conversation excludes"
echo "$c,\"continue_final_message\":true}" | chat 2>err
ok $? 1 "a conversation that excludes itself"
chat --render --kwargs '[1]' hello.json 2>err;            ok $? 2 "--kwargs that is no object"
chat --render --now yesterday hello.json 2>err;           ok $? 2 "--now that is no time"
chat --render --now 2025-02-30 hello.json 2>err;          ok $? 2 "a day that is not there"
chat -j hello.json 2>err;                                 ok $? 2 "-j"
ok "$(chat --render -j hello.json hello.json | tokenize -m "$m" -j --no-add-special)" \
    "$(chat hello.json hello.json)" "--render -j: texts that can be told from each other"
chat --render -0 hello.json hello.json | tokenize -m "$m" -0 --no-add-special >out
ok "$(cat out)" "$(chat hello.json hello.json)" "--render -0"
ok "$(chat --render hello.json hello.json | wc -c)" "$(($(chat --render hello.json | wc -c) * 2))" \
    "nothing is between them without"
ok "$(chat --render -l hello.json | tail -c 1 | od -An -c | tr -d ' ')" '\n' "--render -l ends one"
echo '{' >broken.json
chat --render hello.json broken.json hello.json >out 2>err
ok "$? $(wc -l <err)" "1 1" "--render goes on behind a conversation that is none"
chat --render hello.json hello.json | cmp -s - out;       ok $? 0 "with the others"
chat --count hello.json broken.json hello.json >out 2>err
ok "$? $(wc -l <out)" "1 2" "--count too"
chat hello.json broken.json hello.json >out 2>err
ok "$? $(sed -n '2s/\(..\).*/\1/p' out) $(wc -l <out)" "1 !  2" "a token stream ends there"
chat --template - <hello.json >out 2>err
ok "$? $(wc -c <out)" "2 0" "a template and a conversation from standard input"
ok "$(echo '{{ messages[0].role }}' | chat --render --template - hello.json)" user \
    "a template from there alone"
printf '\357\273\277[]' | chat 2>err;                    ok $? 1 "a byte order mark"
has "$(cat err)" "<stdin>: line 1, column 1: a byte order mark, which JSON does not have" \
    "is called that"
printf '\377\376[\0]\0' | chat 2>err
has "$(cat err)" "UTF-16: JSON is UTF-8" "and so is UTF-16"
tokenize -m "$m" --render hello.json 2>err;               ok $? 2 "--render without --chat"
ok "$(tokenize -m "$m" Hello)" "360 39 68 277 78" "a text needs no template"
tokenize -m "$root/tests/data/vocab/qwen.gguf" --chat hello.json 2>err
ok $? 2 "a model without one"
has "$(cat err)" "--template" "what then"

# ---- whole conversations: the texts are transformers' ----
command -v python3 >/dev/null || { echo "1..$n"; exit; }
conversations() { # MODEL EXPECTED [OPTION...]
    model=$1 want=$2
    shift 2
    python3 - "$model" "$data/conv.jsonl" "$want" "$@" <<'EOF'
import json, subprocess, sys
model, convs, expected = sys.argv[1:4]
convs = {c["i"]: c for c in map(json.loads, open(convs))}
for want in map(json.loads, open(expected)):
    c = convs[want["i"]]
    args = ["tokenize", "-m", model, "--chat", "--render", "--now", "2025-03-14T15:09:26"]
    args += sys.argv[4:]
    args += [] if c["add_generation_prompt"] else ["--no-generation-prompt"]
    args += ["--continue-final-message"] if c["continue_final_message"] else []
    args += ["--kwargs", json.dumps(c["kwargs"])]
    given = json.dumps({k: c[k] for k in ("messages", "tools", "documents")})
    r = subprocess.run(args, input=given.encode(), capture_output=True)
    got = r.stdout.decode()
    if (r.returncode != 1 or got) if want["text"] is None else got != want["text"]:
        print(f"{want['i']} {want['name']}: {got!r} {r.stderr.decode()}")
EOF
}
ok "$(conversations "$root/tests/data/vocab/qwen.gguf" "$data/smollm2.jsonl" \
    --template "$data/smollm2.jinja")" "" \
   "SmolLM2's template"
for t in llama3 qwen3 gemma3 deepseek_v3; do
    [ -f "$shared/tokenizers/$t.tar.zst" ] && zstd -qdc "$shared/tokenizers/$t.tar.zst" |
        tar xf - || continue
    ok "$(conversations "$t" "$shared/fixtures/template/expected/$t.jsonl")" "" "$t's template"
done
echo "1..$n"
