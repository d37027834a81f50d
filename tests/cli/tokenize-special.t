#!/bin/sh
# tokenize-special.t - start, end and separator by source, and what messages say; speaks TAP.
# The ids that files beside a tokenizer.json name are those of transformers 5.24.
. "$(dirname "$0")/../tap.sh"
hf=$root/tests/data/hf
kinds=$root/tests/data/vocab/kinds
tab=$(printf '\t')

says() { # STATUS MESSAGE NAME COMMAND...
    status=$1 message=$2 name=$3; shift 3
    "$@" >out 2>err </dev/null
    ok "$? $(head -n 1 err)" "$status tokenize: $message" "$name"
}

# ---- which token ends a text, by the files beside a tokenizer.json ----
mkdir d && cp "$hf/tokenizer.json" d/
eos() { # WANT NAME
    ok "$(tokenize -qm d --no-add-special --eos '' 2>&1)" "$1" "$2"
    ok "$(cd d && tokenize -qm tokenizer.json --no-add-special --eos '' 2>&1 | sed 's/: tokenizer.json:/: d:/')" \
       "$1" "$2, from the file"
}
none='tokenize: d: there is no end token to add: '
eos "${none}neither tokenizer_config.json nor special_tokens_map.json has eos_token, nor config.json or generation_config.json eos_token_id" "no file names it"
echo '{"eos_token_id": [361, 365]}' >d/generation_config.json;    eos 361 "generation_config.json"
echo '{"eos_token_id": 365}' >d/config.json;                      eos 365 "config.json before it"
echo '{"text_config": {"eos_token_id": 362}}' >d/config.json;     eos 362 "a model of several parts"
echo '{"eos_token": "<|end_of_text|>"}' >d/special_tokens_map.json; eos 361 "special_tokens_map.json"
echo '{"eos_token": "<|eot_id|>"}' >d/tokenizer_config.json;      eos 361 "it comes first in old checkpoints"
echo '{"eos_token": {"content": "<|eot_id|>", "__type": "AddedToken"}, "added_tokens_decoder": {}}' \
    >d/tokenizer_config.json;                                     eos 365 "but not in new ones; an object"
echo '{"eos_token": null, "added_tokens_decoder": {}}' >d/tokenizer_config.json
eos 362 "null names none, so that an id counts"
rm d/config.json d/generation_config.json
echo '{"eos_token": "</s>", "added_tokens_decoder": {}}' >d/tokenizer_config.json
eos "${none}eos_token in tokenizer_config.json, '</s>', is no piece of the vocabulary" "one that is no piece"
echo '{"sep_token": "<|eot_id|>"}' >d/tokenizer_config.json
ok "$(tokenize -m d --no-add-special --sep x)" "87 365" "sep_token"
tokenize -m d --vocab >v
ok "$(awk '/eog/ { print $1 }' v | tr '\n' ' ')" "361 365 " "ends of a generation by their text"
echo '{"eos_token_id": [363, 364, 5000]}' >d/generation_config.json
ok "$(tokenize -m d --vocab | awk '/eog/ { print $1 }' | tr '\n' ' ')" "361 363 364 365 " "and by id"
cp "$hf/tokenizer.json" d/other.json
says 1 "d/other.json: there is no end token to add: the file itself adds none, and others are asked only beside a tokenizer.json" \
    "a file of another name" tokenize -m d/other.json --eos x
echo '{' >d/tokenizer_config.json; tokenize -m d x >out 2>err; ok $? 1 "a broken tokenizer_config.json"
has "$(cat err)" "tokenize: d: tokenizer.json: tokenizer_config.json: line 2" "is named"
rm d/tokenizer_config.json; echo '{' >d/generation_config.json
ok "$(tokenize -m d x 2>err)" "360 87" "a broken generation_config.json is not needed"
has "$(cat err)" "tokenize: d: generation_config.json: line 2" "but said"

# ---- other sources, whose messages name their own fields ----
none='there is no end token to add: '
gguf-edit --delete tokenizer.ggml.eos_token_id "$m" noeos.gguf
says 1 "noeos.gguf: ${none}tokenizer.ggml.eos_token_id is missing" "GGUF" tokenize -m noeos.gguf --eos x
says 1 "noeos.gguf: there is no separator to add: tokenizer.ggml.seperator_token_id is missing, and there is no piece [SEP]" \
    "GGUF without a separator" tokenize -m noeos.gguf --sep x
gguf-edit --set tokenizer.ggml.model=str:none "$m" none.gguf
says 1 "none.gguf: there is no vocabulary: tokenizer.ggml.model is none" "a model without a vocabulary" \
    tokenize -m none.gguf x
ok "$(echo 360 39 | decode -m none.gguf --top 1 --text | cut -f 1-3)" "0${tab}1${tab}39" "which decode runs"
printf '[UNK]\n[CLS]\na\n' >nosep.txt
says 1 "nosep.txt: ${none}no line is [SEP]" "vocab.txt" tokenize -m nosep.txt a
printf '[UNK]\n[SEP]\na\n' >nocls.txt; awk 'BEGIN { for (i = 0; i < 200; i++) print "w" i }' >>nocls.txt
says 1 "nocls.txt: there is no start token to add: no line is [CLS]" "no other piece is taken for it" \
    tokenize -m nocls.txt a
says 1 "own.tiktoken: ${none}ranks name no special tokens, and none is known for this number of them" \
    "ranks" sh -c 'cd "$1" && tokenize -qm own.tiktoken --eos a' sh "$kinds"
says 1 "tekken.json: there is no separator to add: special_tokens has no [SEP]" \
    "tekken.json" sh -c 'cd "$1" && tokenize -m tekken.json --sep a' sh "$kinds"
ok "$(tokenize -m "$kinds/bpe.model" --eos a)" "263 2" "eos_piece of a SentencePiece model"
mkdir gpt2 && cp "$kinds/gpt2/vocab.json" "$kinds/gpt2/merges.txt" gpt2/
says 1 "gpt2: ${none}neither tokenizer_config.json nor special_tokens_map.json has eos_token, nor config.json or generation_config.json eos_token_id" \
    "vocab.json" tokenize -qm gpt2 --eos a
echo '{"eos_token": "a"}' >gpt2/special_tokens_map.json
ok "$(tokenize -qm gpt2 --eos a | awk '{ print $1 == $2 }')" 1 "whose special_tokens_map.json names it"

# ---- what a file is ----
ok "$(tokenize -m - Hello <"$hf/tokenizer.json")" "360 39 68 277 78" "tokenizer.json from standard input"
mkfifo p; cat "$kinds/bpe.model" >p & ok "$(tokenize -m p a)" 263 "a SentencePiece model from a pipe"
zstd -qc "$hf/tokenizer.json" >t.json.zst
ok "$(tokenize -m t.json.zst Hello)" "360 39 68 277 78" "a compressed tokenizer.json"
zstd -qc "$kinds/bpe.model" >t.model.zst; ok "$(tokenize -m t.model.zst a)" 263 "and model"
lfs='version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 17'
for f in tokenizer.json vocab.txt tokenizer.model; do echo "$lfs" >$f; done
says 1 "tokenizer.json: not a tokenizer.json: it is a Git LFS pointer, not the file itself (fetch it with git lfs pull)" \
    "a pointer to a tokenizer.json" tokenize -m tokenizer.json x
tokenize -m vocab.txt x >out 2>err; has "$?$(cat err)" "1tokenize: vocab.txt: not a vocab.txt: it is a Git LFS pointer" "to a vocab.txt"
tokenize -m tokenizer.model x >out 2>err; has "$?$(cat err)" "1tokenize: tokenizer.model: not a SentencePiece model: it is a Git LFS" "to a model"
echo 'nothing of the sort' >x.tiktoken
says 1 "x.tiktoken: line 1 is not a piece in base64 and its rank, as tiktoken has them" "broken ranks" tokenize -m x.tiktoken x
: >x.tiktoken; says 1 "x.tiktoken: has no ranks" "no ranks" tokenize -m x.tiktoken x
echo 'nothing of the sort' | tokenize -m - x 2>err >out
has "$?$(cat err)" "1tokenize: <stdin>: not a GGUF file: it is a text" "standard input has its name"
ok "$(echo '[{"role":"user","content":"x"}]' | tokenize -m "$kinds/vocab.txt" --chat --template chatml --render | head -n 1)" \
   "[CLS]<|im_start|>user" "a built-in template with a vocabulary that is no GGUF file"

# ---- the command line ----
says 2 "--eos does not go with --render, which prints text" "an option for ids" tokenize -m "$m" --chat --render --eos
says 2 "--kwargs goes with --chat" "one for conversations" tokenize -m "$m" --kwargs '{}' x
says 2 "--escape does not go with --chat, which reads conversations in JSON from its operands, files, or standard input" \
    "--escape" tokenize -m "$m" --chat --escape x
says 2 "-l does not go with --chat, which reads conversations in JSON from its operands, files, or standard input" \
    "-l" tokenize -m "$m" --chat -l
says 2 "--no-bos is for text: it does not go with -d" "one for text" tokenize -m "$m" -d --no-bos
says 2 "-j does not go with --vocab" "a form" tokenize -m "$m" --vocab -j
says 2 "--window: 3 is less than 4: 1 for start and end tokens, 2 for --stride and 1" "a small window" \
    tokenize -m "$m" --window 3 --stride 2 x
says 2 "text comes from operands or from -f, not both: each file needs an -f" "a file without -f" \
    tokenize -m "$m" -f out err
says 2 "the operands of -d are files, and ids come from standard input: '360' is no file" "ids as operands" \
    tokenize -m "$m" -d 360 39
says 2 "the operands of --chat are files: a conversation comes from one, or from standard input" \
    "a conversation as an operand" tokenize -m "$m" --chat '[{"role":"user","content":"x"}]'
echo Hello >text.txt
says 0 "'text.txt' is taken as text: the file of that name is read by -f" "a file's name as text" tokenize -m "$m" text.txt
ok "$(cat out)" "$(tokenize -qm "$m" text.txt 2>&1)" "which it is"

# ---- what stands in a stream of ids is shown ----
printf '9\0009 3\n' | tokenize -m "$m" -d >out 2>err
ok "$?$(cat err)" "1tokenize: <stdin>: line 1: '9\\x009' is no token id, in a vocabulary of 368" "a NUL"
printf '%070d\n' 7 | sed s/7/x/ | tokenize -m "$m" -d >out 2>err
ok "$(cat err)" "tokenize: <stdin>: line 1: '$(printf %063d 0)...' is no token id, in a vocabulary of 368" "a long word"
echo "1..$n"
