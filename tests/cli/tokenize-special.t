#!/bin/sh
# tokenize-special.t - start, end and separator by source, and what messages say; speaks TAP.
# The ids that files beside a tokenizer.json name are those of transformers 5.24.
. "$(dirname "$0")/../tap.sh"
hf=$root/tests/data/hf
kinds=$root/tests/data/vocab/kinds
tab=$(printf '\t')
no_end='there is no end token to add: '
no_sep='there is no separator to add: '
no_file='neither tokenizer_config.json nor special_tokens_map.json has eos_token, nor config.json '
no_file=${no_file}'or generation_config.json eos_token_id'

says() { # STATUS MESSAGE NAME ARGUMENT...
    status=$1 message=$2 name=$3; shift 3
    tokenize "$@" >out 2>err </dev/null
    ok "$? $(head -n 1 err)" "$status tokenize: $message" "$name"
}
starts() { # STATUS MESSAGE NAME ARGUMENT...
    status=$1 message=$2 name=$3; shift 3
    tokenize "$@" >out 2>err </dev/null
    has "$? $(cat err)" "$status tokenize: $message" "$name"
}

# ---- which token ends a text, by the files beside a tokenizer.json ----
mkdir d && cp "$hf/tokenizer.json" d/
eos() { # WANT NAME
    ok "$(tokenize -qm d --no-add-special --eos '' 2>&1)" "$1" "$2"
    ok "$(cd d && tokenize -qm tokenizer.json --no-add-special --eos '' 2>&1 |
        sed 's/: tokenizer.json:/: d:/')" "$1" "$2, from the file"
}
eos "tokenize: d: $no_end$no_file" "no file names it"
echo '{"eos_token_id": [361, 365]}' >d/generation_config.json
eos 361 "generation_config.json"
echo '{"eos_token_id": 365}' >d/config.json
eos 365 "config.json before it"
echo '{"text_config": {"eos_token_id": 362}}' >d/config.json
eos 362 "a model of several parts"
echo '{"eos_token": "<|end_of_text|>"}' >d/special_tokens_map.json
eos 361 "special_tokens_map.json"
echo '{"eos_token": "<|eot_id|>"}' >d/tokenizer_config.json
eos 361 "it comes first in old checkpoints"
cat >d/tokenizer_config.json <<'END'
{"eos_token": {"content": "<|eot_id|>", "__type": "AddedToken"}, "added_tokens_decoder": {}}
END
eos 365 "but not in new ones; an object"
echo '{"eos_token": null, "added_tokens_decoder": {}}' >d/tokenizer_config.json
eos 362 "null names none, so that an id counts"
rm d/config.json d/generation_config.json
echo '{"eos_token": "</s>", "added_tokens_decoder": {}}' >d/tokenizer_config.json
no_piece="eos_token in tokenizer_config.json, '</s>', is no piece of the vocabulary"
eos "tokenize: d: $no_end$no_piece" "one that is no piece"
echo '{"sep_token": "<|eot_id|>"}' >d/tokenizer_config.json
ok "$(tokenize -m d --no-add-special --sep x)" "87 365" "sep_token"
ends() { tokenize -m d --vocab | awk '/eog/ { print $1 }' | tr '\n' ' '; }
ok "$(ends)" "361 365 " "ends of a generation by their text"
echo '{"eos_token_id": [363, 364, 5000]}' >d/generation_config.json
ok "$(ends)" "361 363 364 365 " "and by id"
cp "$hf/tokenizer.json" d/other.json
starts 1 "d/other.json: ${no_end}the file itself adds none, and others are asked only beside" \
    "a file of another name" -m d/other.json --eos x
echo '{' >d/tokenizer_config.json
starts 1 "d: tokenizer.json: tokenizer_config.json: line 2" "a broken tokenizer_config.json" -m d x
rm d/tokenizer_config.json; echo '{' >d/generation_config.json
starts 0 "d: generation_config.json: line 2" "a broken generation_config.json is not needed" -m d x
ok "$(cat out)" "360 87" "its ids"

# ---- other sources, whose messages name their own fields ----
gguf-edit --delete tokenizer.ggml.eos_token_id "$m" noeos.gguf
says 1 "noeos.gguf: ${no_end}tokenizer.ggml.eos_token_id is missing" "GGUF" -m noeos.gguf --eos x
starts 1 "noeos.gguf: ${no_sep}tokenizer.ggml.seperator_token_id is missing, and there is no" \
    "GGUF without a separator" -m noeos.gguf --sep x
gguf-edit --set tokenizer.ggml.model=str:none "$m" none.gguf
says 1 "none.gguf: there is no vocabulary: tokenizer.ggml.model is none" \
    "a model without a vocabulary" -m none.gguf x
ok "$(echo 360 39 | decode -m none.gguf --top 1 --text | cut -f 1-3)" "0${tab}1${tab}39" \
    "which decode runs"
printf '[UNK]\n[CLS]\na\n' >nosep.txt
says 1 "nosep.txt: ${no_end}no line is [SEP]" "vocab.txt" -m nosep.txt a
printf '[UNK]\n[SEP]\na\n' >nocls.txt; seq 200 >>nocls.txt
says 1 "nocls.txt: there is no start token to add: no line is [CLS]" \
    "no other piece is taken for it" -m nocls.txt a
cp "$kinds/own.tiktoken" "$kinds/tekken.json" .
starts 1 "own.tiktoken: ${no_end}ranks name no special tokens, and none is known for" "ranks" \
    -qm own.tiktoken --eos a
says 1 "tekken.json: ${no_sep}special_tokens has no [SEP]" "tekken.json" -m tekken.json --sep a
ok "$(tokenize -m "$kinds/bpe.model" --eos a)" "263 2" "eos_piece of a SentencePiece model"
mkdir gpt2 && cp "$kinds/gpt2/vocab.json" "$kinds/gpt2/merges.txt" gpt2/
says 1 "gpt2: $no_end$no_file" "vocab.json" -qm gpt2 --eos a
echo '{"eos_token": "a"}' >gpt2/special_tokens_map.json
ok "$(tokenize -qm gpt2 --eos a | awk '{ print $1 == $2 }')" 1 "special_tokens_map.json beside it"

# ---- what a file is ----
ok "$(tokenize -m - Hello <"$hf/tokenizer.json")" "360 39 68 277 78" "a tokenizer.json from stdin"
mkfifo p; cat "$kinds/bpe.model" >p &
ok "$(tokenize -m p a)" 263 "a SentencePiece model from a pipe"
zstd -qc "$hf/tokenizer.json" >t.json.zst
ok "$(tokenize -m t.json.zst Hello)" "360 39 68 277 78" "a compressed tokenizer.json"
zstd -qc "$kinds/bpe.model" >t.model.zst
ok "$(tokenize -m t.model.zst a)" 263 "and model"
pointer='it is a Git LFS pointer, not the file itself (fetch it with git lfs pull)'
for f in tokenizer.json vocab.txt tokenizer.model; do
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 17\n' 1 >$f
    what="a $f"
    [ $f = tokenizer.model ] && what='a SentencePiece model'
    says 1 "$f: not $what: $pointer" "a pointer to $f" -m $f x
done
echo 'nothing of the sort' >x.tiktoken
says 1 "x.tiktoken: line 1 is not a piece in base64 and its rank, as tiktoken has them" \
    "broken ranks" -m x.tiktoken x
: >x.tiktoken
says 1 "x.tiktoken: has no ranks" "no ranks" -m x.tiktoken x
echo 'nothing of the sort' | tokenize -m - x 2>err >out
has "$?$(cat err)" "1tokenize: <stdin>: not a GGUF file: it is a text" "standard input has its name"
echo '[{"role":"user","content":"x"}]' >c.json
ok "$(tokenize -m "$kinds/vocab.txt" --chat --template chatml --render c.json | head -n 1)" \
   "[CLS]<|im_start|>user" "a built-in template with a vocabulary that is no GGUF file"

# ---- the command line ----
reads='does not go with --chat, which reads conversations in JSON from its operands, files, or'
says 2 "--eos does not go with --render, which prints text" "an option for ids" \
    -m "$m" --chat --render --eos
says 2 "--kwargs goes with --chat" "one for conversations" -m "$m" --kwargs '{}' x
starts 2 "--escape $reads" "--escape" -m "$m" --chat --escape x
starts 2 "-l $reads" "-l" -m "$m" --chat -l
says 2 "--no-bos is for text: it does not go with -d" "one for text" -m "$m" -d --no-bos
says 2 "-j does not go with --vocab" "a form" -m "$m" --vocab -j
says 2 "--window: 3 is less than 4: 1 for start and end tokens, 2 for --stride and 1" \
    "a small window" -m "$m" --window 3 --stride 2 x
says 2 "text comes from operands or from -f, not both: each file needs an -f" "a file without -f" \
    -m "$m" -f out err
starts 2 "the operands of -d are files, and ids come from standard input: '360' is no file" \
    "ids as operands" -m "$m" -d 360 39
starts 2 "the operands of --chat are files: a conversation comes from one, or from standard input" \
    "a conversation as an operand" -m "$m" --chat '[{"role":"user","content":"x"}]'
echo Hello >text.txt
says 0 "'text.txt' is taken as text: the file of that name is read by -f" "a file's name as text" \
    -m "$m" text.txt
ok "$(cat out)" "$(tokenize -qm "$m" text.txt 2>&1)" "which it is"

# ---- what stands in a stream of ids is shown ----
no_id='is no token id, in a vocabulary of 368'
printf '9\0009 3\n' | tokenize -m "$m" -d >out 2>err
ok "$?$(cat err)" "1tokenize: <stdin>: line 1: '9\\x009' $no_id" "a NUL"
printf '%070dx\n' 7 | tokenize -m "$m" -d >out 2>err
ok "$(cat err)" "tokenize: <stdin>: line 1: '$(printf %063d 0)...' $no_id" "a long word"
echo "1..$n"
