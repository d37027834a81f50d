#!/bin/sh
# gguf-convert-vocab.t - vocabularies that are lists of byte strings: their keys are those that
# tests/golden/make-convert-vocab found by other means, and text becomes the same ids through
# the file as without it; speaks TAP.
. "$(dirname "$0")/../tap.sh"
kinds=$root/tests/data/vocab/kinds
# config DIR ROWS [MORE]: a configuration of a model with so many pieces
config() {
    mkdir -p "$1"
    cat >"$1/config.json" <<EOF
{"architectures":["LlamaForCausalLM"],"num_hidden_layers":1,"hidden_size":8,"intermediate_size":8,
"num_attention_heads":2,"num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5,
"rope_theta":10000.0,"vocab_size":$2$3}
EOF
}
# same DIR GOLDEN [OPTION...]: the conversion has these keys, in this order
same() {
    d=$1 golden=$2; shift 2
    gguf-convert -q --vocab-only "$@" "$d" "$d.gguf" 2>err; ok "$? $(cat err)" "0 " "$d: converts"
    ok "$(gguf-inspect --kv "$d.gguf" | sed -n 's/^tokenizer\.ggml\.\([a-z_]*\) .*/\1/p' |
        tr '\n' ' ')" \
       "$(cut -f 1 "$golden" | tr '\n' ' ')" "$d: keys and their order"
    while IFS='	' read -r key value; do
        case $value in
        \[*) gguf-inspect --get "tokenizer.ggml.$key" "$d.gguf" | tr '\n' ',' | sed 's/,$//' >got
             printf '%s' "$value" | sed 's/^\[//; s/\]$//' >want
             cmp got want >diff; ok $? 0 "$d: $key" ;;
        *)   ok "$(gguf-inspect --get "tokenizer.ggml.$key" "$d.gguf")" \
                "$(echo "$value" | tr -d \")" "$d: $key" ;;
        esac
    done <"$golden"
}
# alike MODEL MODEL [OPTION...]: the same ids of many texts
alike() {
    a=$1 b=$2; shift 2
    for f in "$root/README.md" "$root/tests/data/text.txt" "$root/man/tokenize.1"; do
        ok "$(tokenize -q "$@" -m "$a" -f "$f" | cksum)" \
            "$(tokenize -q "$@" -m "$b" -f "$f" | cksum)" \
            "$a and $b: $(basename "$f")"
    done
}

# ---- tekken.json ----
rows=$(grep -o '"default_vocab_size":[0-9]*' "$kinds/convert.tekken.json" | cut -d : -f 2)
config tekken "$rows"; cp "$kinds/convert.tekken.json" tekken/tekken.json
same tekken "$kinds/convert.tekken.keys"
alike tekken tekken.gguf
ok "$(tokenize -m tekken.gguf --no-add-special '[INST]')" 3 "special tokens are recognised"
mkdir own; cp tekken/tekken.json own/
printf '%s' '{"dim":8,"n_layers":1,"head_dim":4,"hidden_dim":8,"n_heads":2,"n_kv_heads":2,' \
    '"norm_eps":1e-5,"vocab_size":'"$rows"'}' >own/params.json
same own "$kinds/convert.tekken.keys"
tar -cf tekken.tar tekken; gguf-convert -q --vocab-only tekken.tar tar.gguf
cmp tar.gguf tekken.gguf; ok $? 0 "from an archive"
cp -R tekken both; cp "$root/tests/data/hf/tokenizer.json" both/; config both 400
gguf-convert -q --vocab-only both both.gguf
ok "$(gguf-inspect --get tokenizer.ggml.pre both.gguf)" llama-bpe \
    "tokenizer.json goes before tekken.json"
sed 's/,"special_tokens":.*/}/' "$kinds/convert.tekken.json" >tekken/tekken.json
gguf-convert -q --vocab-only tekken t.gguf
ok "$(gguf-inspect --get tokenizer.ggml.tokens t.gguf | sed -n '11,12p;20,21p' | tr '\n' ' ')" \
   '"[IMG]" "<pad>" "[TOOL_CONTENT]" "<SPECIAL_20>" ' \
   "special tokens of a file that does not list them"

# ---- Mistral's own files with a SentencePiece model ----
config spm 400; cp "$kinds/bpe.model" spm/tokenizer.model; gguf-convert -q --vocab-only spm spm.gguf
mkdir ownspm; cp "$kinds/bpe.model" ownspm/tokenizer.model
sed 's/"vocab_size":[0-9]*/"vocab_size":400/' own/params.json >ownspm/params.json
gguf-convert -q --vocab-only ownspm ownspm.gguf; ok $? 0 "params.json and tokenizer.model"
ok "$(gguf-inspect --kv ownspm.gguf | sed -n 's/^tokenizer\.ggml\.\([a-z_]*\) .*/\1/p' |
    tr '\n' ' ')" \
   "model bos_token_id eos_token_id unknown_token_id padding_token_id tokens scores token_type \
add_bos_token add_eos_token " \
   "keys in their order"
for k in tokens scores token_type; do
    ok "$(gguf-inspect --get tokenizer.ggml.$k ownspm.gguf | cksum)" \
       "$(gguf-inspect --get tokenizer.ggml.$k spm.gguf | cksum)" "$k are those of the model"
done
got=$(for k in bos eos unknown padding; do
    gguf-inspect --get tokenizer.ggml.${k}_token_id ownspm.gguf
done)
want=$(for p in '<s>' '</s>' '<unk>' '</s>'; do
    gguf-inspect -0 --get tokenizer.ggml.tokens spm.gguf | tr '\0' '\n' |
        awk -v p="$p" '$0 == p { print NR - 1 }'
done)
ok "$got" "$want" "ids by the pieces of the model"

# ---- tiktoken ----
config ranks 296 ',"bos_token_id":293,"eos_token_id":290'
cp "$kinds/own.tiktoken" ranks/tiktoken.model
cp "$kinds/own.config.json" ranks/tokenizer_config.json
gguf-convert --vocab-only ranks refused.gguf 2>err; ok $? 2 "ranks of an unknown number"
has "$(cat err)" "289 ranks are no known tokenizer: say how words are cut with --pre NAME" \
    "are told"
ok "$(ls -A | grep -c refused)" 0 "and nothing is written"
same ranks "$kinds/convert.tiktoken.keys" --pre=kimi-k2
mv ranks/tiktoken.model ranks/any.tiktoken; gguf-convert -q --vocab-only --pre=kimi-k2 ranks r.gguf
gguf-inspect --diff ranks.gguf r.gguf; ok $? 0 "by another name"
mv ranks/any.tiktoken ranks/tokenizer.model; gguf-convert -q --vocab-only --pre=kimi-k2 ranks r.gguf
gguf-inspect --diff ranks.gguf r.gguf; ok $? 0 "as tokenizer.model"
gguf-convert -q --vocab-only --pre=llama-bpe ranks ranks.gguf
alike ranks ranks.gguf
ok "$(tokenize -q -m ranks --no-add-special '[BOS]<|turn|>[EOS]')" "290 291 293" \
   "tokenizer_config.json names control tokens"
# beside a tokenizer.json it is left alone, as it lies in some copies of Llama 3
cp -R "$root/tests/data/hf" llama; gguf-convert -q --vocab-only llama a.gguf
cp "$kinds/own.tiktoken" llama/tokenizer.model; gguf-convert -q --vocab-only llama b.gguf
cmp a.gguf b.gguf; ok $? 0 "beside a tokenizer.json"
printf 'YQ== 0\nYg== 1\nYw\n' >ranks/tokenizer.model
gguf-convert -q --vocab-only --pre=llama-bpe ranks r.gguf 2>err; ok $? 1 "a broken list"
has "$(cat err)" "tokenizer.model: line 3 is not a piece" "is named"
# a size that is known: all control tokens are
awk 'BEGIN {
    c = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (i = 0; i < 151643; i++)
        printf "%s%s%s%s %d\n", substr(c, int(i / 4096) + 1, 1), substr(c, int(i / 64) % 64 + 1, 1),
               substr(c, i % 64 + 1, 1), "A", i
}' >qwen.tiktoken
config qwen 151936; mv qwen.tiktoken qwen/; gguf-convert -q --vocab-only qwen qwen.gguf
ok "$(gguf-inspect --get tokenizer.ggml.tokens qwen.gguf | sed -n '151644,151647p;151851,151852p' |
    tr '\n' ' ')" \
   '"<|endoftext|>" "<|im_start|>" "<|im_end|>" "<|extra_0|>" "<|extra_204|>" "[PAD151851]" ' \
   "Qwen's control tokens"
for k in bos eos unknown; do
    ok "$(gguf-inspect --get tokenizer.ggml.${k}_token_id qwen.gguf)" 151643 "Qwen's $k id"
done

# ---- RWKV ----
rows=$(($(cut -d ' ' -f 1 "$kinds/rwkv.txt" | sort -n | tail -n 1) + 1))
config rwkv "$rows"; cp "$kinds/rwkv.txt" rwkv/rwkv_vocab_v20230424.txt
same rwkv "$kinds/convert.rwkv.keys"
alike rwkv rwkv.gguf
printf 'a\377\000b\346\227"\047\\' >t
tokenize -m rwkv.gguf -f t | tokenize -m rwkv.gguf -d | cmp - t; ok $? 0 "any bytes"
tar -cf - rwkv | gguf-convert -q --vocab-only --model-name=Rwkv - >pipe.gguf
cmp rwkv.gguf pipe.gguf; ok $? 0 "from a pipe"
echo "1..$n"
