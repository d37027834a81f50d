#!/bin/sh
# gguf-convert-back.t - a checkpoint made of a GGUF file is the one that the file was made of; what
# has no way back is refused; speaks TAP.
. "$(dirname "$0")/../tap.sh"
# 8 bytes of a safetensors file, the length of its header
len() { od -An -tu8 -N8 "$1" | tr -d ' '; }
# tensors FILE: NAME DTYPE SHAPE FIRST LAST a line, sorted
tensors() {
    head -c $((8 + $(len "$1"))) "$1" | tail -c +9 |
        sed 's/"__metadata__":{[^}]*},*//; s/, /,/g; s/: /:/g' |
        tr '}' '\n' |
        sed -n 's/.*"\([^"]*\)":{"dtype":"\([A-Z0-9]*\)","shape":\[\([^]]*\)\],/\1 \2 \3 /p' |
        sed -n 's/"data_offsets":\[\([0-9]*\),\([0-9]*\)\]/\1 \2/p' |
        sort
}
# sums FILE: NAME DTYPE SHAPE and the sum of the tensor's bytes, a line each
sums() {
    at=$((8 + $(len "$1")))
    tensors "$1" | while read -r name dtype shape first last; do
        echo "$name $dtype $shape $(tail -c +$((at + first + 1)) "$1" | head -c $((last - first)) |
            cksum)"
    done
}
# the rest of a checkpoint, as its makers have it
rest() {
    for f in "$1"/*; do
        case $f in
        */config.json | *.safetensors | *.index.json) ;;
        *) [ -f "$f" ] && cp "$f" "$2" ;;
        esac
    done
}

# again NAME CHECKPOINT: to GGUF in 32 bits, back, and to GGUF again
again() {
    gguf-convert -q -T f32 --model-name=Same "$2" a.gguf
    gguf-convert --to-safetensors a.gguf back 2>err
    ok "$? $(cat err)" "0 " "$1: back"
    rest "$2" back
    gguf-convert -q -T f32 --model-name=Same back b.gguf 2>err &&
        gguf-inspect --diff a.gguf b.gguf >>err
    ok "$? $(cat err)" "0 " "$1: and to the same keys and tensors again"
    rm -rf a.gguf b.gguf back
}

cp -R "$root/tests/data/hf" hf
gguf-convert -q --model-name=Llama hf m.gguf

# as the Hugging Face library has written them
gguf-convert --to-safetensors m.gguf out 2>err
ok "$? $(cat err)" "0 " "a checkpoint in a new folder"
ok "$(ls -A out | tr '\n' ' ')" "config.json model.safetensors " "with two files"
sums hf/model.safetensors >want; sums out/model.safetensors >got
ok "$(wc -l <want | tr -d ' ')" 21 "21 tensors in the original"
cmp got want >err 2>&1; ok $? 0 "every tensor has the original's name, type, shape and bytes"
ok "$(($(len out/model.safetensors) % 8))" 0 "data begins at a multiple of 8"
for k in '"architectures": ["LlamaForCausalLM"]' '"model_type": "llama"' \
    '"num_key_value_heads": 2' '"torch_dtype": "float16"' '"rope_theta": 500000.0' \
    '"rms_norm_eps": 1e-05' '"tie_word_embeddings": false' '"rope_type": "llama3"' \
    '"original_max_position_embeddings": 64' '"factor": 8.0' '"eos_token_id": 365' \
    '"attention_bias": false'; do
    ok "$(grep -cF "$k" out/config.json)" 1 "config.json: $k"
done
gguf-convert --to-safetensors m.gguf >stream; cmp stream out/model.safetensors
ok $? 0 "without a folder the weights alone, on standard output"
gguf-convert --to-safetensors -o - m.gguf | cmp - stream; ok $? 0 "- is that, too"
gguf-convert --to-safetensors - out2 <m.gguf; cmp out2/model.safetensors stream
ok $? 0 "a file on standard input"
gguf-convert --to-safetensors -t 3 m.gguf - | cmp - stream; ok $? 0 "three threads"
again llama hf

# types
for t in f32 bf16 F16; do
    gguf-convert --to-safetensors -T $t m.gguf t
    ok "$(tensors t/model.safetensors | cut -d ' ' -f 2 | sort | uniq -c | tr -s ' ')" \
        " 21 $(echo $t | tr '[:lower:]' '[:upper:]')" "all are $t"
done
quantize -q m.gguf q.gguf Q8_0
gguf-convert --to-safetensors q.gguf q
ok "$(tensors q/model.safetensors | cut -d ' ' -f 2 | sort -u)" BF16 "of blocks bf16 is made"
gguf-convert --to-safetensors -T f32 q.gguf q && rest hf q && gguf-convert -q -T f32 q q2.gguf
quantize -q --allow-requantize q.gguf q1.gguf F32
gguf-inspect --hash q1.gguf | grep -v ' q1.gguf$' | sort >want
gguf-inspect --hash q2.gguf | grep -v ' q2.gguf$' | sort >got
cmp got want
ok "$? $(test "$(wc -l <want)" -gt 21 && echo many)" "0 many" \
    "decoded in one way or the other, the values are the same"

# what stops it; nothing is left
refused() { # STATUS WORDS NAME COMMAND...
    s=$1 w=$2 name=$3
    shift 3
    "$@" >stdout 2>err
    ok "$? $(wc -l <err | tr -d ' ') $(grep -c -e "$w" err)" "$s 1 1" "$name"
    ok "$(ls -d no 2>/dev/null)" "" "... and nothing is made"
    rm -rf no
}
back() { gguf-convert --to-safetensors "$@"; }
set_() { gguf-edit --set "$1" m.gguf e.gguf; }
usage() {
    ok "$(gguf-convert --to-safetensors "$@" >stdout 2>err; echo "$? $(wc -l <err | tr -d ' ')")" \
        "2 2" "bad usage: $*"
}
usage -T q8_0 m.gguf no
usage --lora m.gguf no
usage --dry-run m.gguf no
usage --resume m.gguf no
usage --max-size=1M m.gguf no
usage --vocab-only m.gguf no
refused 2 'read by ranges' "a pipe" sh -c 'cat m.gguf | gguf-convert --to-safetensors - no'
refused 1 'GGUF' "no GGUF" back hf/model.safetensors no
head -c 200000 m.gguf >short.gguf
refused 1 'short.gguf' "a file cut short" back short.gguf no
set_ llama.attention.head_count=u32:8
refused 1 'attn_output.weight: has another shape' "keys that do not fit" back e.gguf no
set_ general.architecture=str:mamba
refused 2 'a mamba model cannot' "another architecture's keys" back e.gguf no
set_ general.architecture=str:nothing
refused 2 'a nothing model cannot' "an unknown architecture" back e.gguf no
set_ llama.rope.scaling.factor=f32:2
refused 2 'llama.rope.scaling.factor: cannot be said' "a key that config.json has no place for" \
    back e.gguf no
set_ llama.rope.freq_base=f32:10000
refused 2 'rope_freqs.weight: no scaling' "factors that no scaling makes" back e.gguf no
set_ split.count=u16:2
refused 2 'gguf-split --merge' "a part of a file" back e.gguf no
gguf-edit --rename blk.1.ffn_up.weight=blk.1.ffn_other.weight m.gguf e.gguf 2>/dev/null ||
    gguf-edit --set llama.block_count=u32:3 m.gguf e.gguf
refused 1 'missing' "a missing tensor" back e.gguf no
refused 2 'Not a directory\|no folder' "a file where the folder should be" back m.gguf m.gguf
mkdir many && echo {} >many/model.safetensors.index.json
refused 2 'model.safetensors.index.json' "a folder with a list of several files" back m.gguf many
mkdir in && cp m.gguf in/model.safetensors
refused 2 'same file' "the input where the output goes" back in/model.safetensors in
cmp m.gguf in/model.safetensors; ok $? 0 "... which stays"
# a weight that is none, or too large, in the last four bytes of a file of 32 bits
gguf-convert -q -T f32 hf w.gguf
size=$(wc -c <w.gguf)
last() { { head -c $((size - 4)) w.gguf; printf "$1"; } >e.gguf; }
last '\000\000\300\177'; refused 1 'not a weight' "a weight that is no number" back e.gguf no
last '\000\000\000\117'
refused 2 '2.14748365e+09: beyond what can be held by f16' "one beyond f16" back -T f16 e.gguf no
back -T bf16 e.gguf big; ok "$?" 0 "... but not beyond bf16"
cp out/model.safetensors old
last '\000\000\300\177'; back e.gguf out 2>err
ok "$? $(ls -A out | tr '\n' ' ')" "1 config.json model.safetensors " \
    "a folder that was there stays"
cmp old out/model.safetensors; ok $? 0 "... with what was in it"
if [ -c /dev/full ]; then
    back m.gguf >/dev/full 2>err; ok "$? $(wc -l <err | tr -d ' ')" "2 1" "a full disk"
fi
(ulimit -f 100; trap '' XFSZ; back m.gguf no) 2>err
ok "$? $(wc -l <err | tr -d ' ') $(ls -A no 2>/dev/null)" "2 1 " \
    "a file that may not grow: none is left"

# other families: fused and stacked weights, norms less one, permuted and halved rows
if zstd -q -V >zstd.out 2>&1; then
    for f in arcee dots1 gemma2 jais2 olmo olmo3 qwen2moe-norm qwen3moe-plain qwen3-wide; do
        zstd -qdc "$root/tests/data/families/$f.tar.zst" >f.tar
        tar -xf f.tar
        d=$(tar -tf f.tar | sed -n '1s#/.*##p')
        again "$f" "$d"
        rm -rf "$d"
    done
    for f in falcon-mamba glm-dsa granite-shared; do
        gguf-convert -q "$root/tests/data/families/$f.tar.zst" e.gguf
        a=$(gguf-inspect --get general.architecture e.gguf)
        refused 2 "a $a model cannot be made" "$f has no way back" back e.gguf no
    done
fi
for f in llama llama_tied mistral mistral_swa mixtral gemma gemma2 gemma3_text phi3 phi3_longrope \
    phi3_swa olmo2 qwen2 qwen2_yarn qwen3 qwen3_moe qwen2_moe granite smollm3 starcoder2 \
    exaone4 exaone4_swa glm4 ernie4_5 cohere cohere2 stablelm stablelm_12b nemotron; do
    [ -d "$shared/fixtures/models/$f" ] && again "$f of the fixtures" "$shared/fixtures/models/$f"
done
echo "1..$n"
