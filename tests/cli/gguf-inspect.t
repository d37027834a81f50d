#!/bin/sh
# gguf-inspect.t - listing, JSON, single values and checks, on sound and hostile files;
# speaks TAP.
. "$(dirname "$0")/../tap.sh"

. "$root/tests/cli/gguf-bytes.sh"
arch() { key general.architecture 8; str "$1"; }

# ---- a sound file ----
gguf-inspect "$m" >list 2>err;           ok $? 0 "a listing succeeds"
ok "$(cat err)" "" "and says nothing on stderr"
gguf-inspect <"$m" | sed 's|<stdin>|F|' >a; sed "s|$m|F|" list >b
cmp a b >/dev/null;                      ok $? 0 "standard input gives the same listing"
cat "$m" | gguf-inspect - 2>/dev/null | sed 's|<stdin>|F|' >a
cmp a b >/dev/null;                      ok $? 0 "a pipe too"
if zstd -qc "$m" >m.zst 2>/dev/null; then
    gguf-inspect m.zst | sed 's|m.zst|F|' >a
    cmp a b >/dev/null;                  ok $? 0 "a compressed file too"
    zstd -q --long=28 -c <"$m" >m.zst
    gguf-inspect m.zst >/dev/null 2>err; ok $? 2 "a window of 256 MiB is too large"
    has "$(cat err)" "--long" "unless one says so"
    gguf-inspect --long m.zst | sed 's|m.zst|F|' >a
    cmp a b >/dev/null;                  ok $? 0 "with --long it is read"
fi
ok "$(gguf-inspect --kv "$m" | awk '$1 == "llama.block_count" { print $2, $3 }')" "u32 2" "--kv"
ok "$(gguf-inspect --tensors "$m" | awk '$1 == "output_norm.weight" { print $2, $3, $4, $5 }')" \
   "f32 128 583744 512" "--tensors"
ok "$(gguf-inspect --kv "$m" | wc -l)" 30 "--kv has a line an entry"
ok "$(gguf-inspect --full --kv "$m" | awk '$1 == "tokenizer.ggml.tokens"' | grep -o '", "' |
    wc -l)" \
   367 "--full shows every element"
ok "$(awk '$1 == "tokenizer.ggml.tokens" && length < 150' list | wc -l)" 1 \
    "long values are shortened"
ok "$(gguf-inspect --get llama.rope.freq_base "$m")" 500000 "--get a float"
ok "$(gguf-inspect --get llama.attention.layer_norm_rms_epsilon "$m")" 1e-05 \
    "--get prints shortest floats"
ok "$(gguf-inspect --get tokenizer.ggml.add_bos_token "$m")" true "--get a bool"
ok "$(gguf-inspect --get general.name --no-newline "$m" | wc -c)" 5 "--no-newline"
ok "$(gguf-inspect --get tokenizer.ggml.tokens "$m" | sed -n 2p)" '"\""' "--get quotes elements"
ok "$(gguf-inspect -0 --get tokenizer.ggml.tokens "$m" | tr '\0' '\n' | sed -n 2p)" '"' \
    "-0 does not"
ok "$(gguf-inspect -0 --get tokenizer.ggml.tokens "$m" | tr -cd '\0' | wc -c)" 368 \
    "-0 ends each with a NUL"
ok "$(gguf-inspect --get general.name --get llama.block_count --get general.name "$m" |
    tr '\n' ' ')" "Llama 2 Llama " \
   "several --get, in order"
ok "$(gguf-inspect --get none --get llama.block_count "$m" 2>/dev/null; echo $?)" "2
1" "one of them absent"
gguf-inspect --get no.such.key "$m" >out 2>err; ok $? 1 "an absent key is status 1"
ok "$(cat out)" "" "and prints nothing"
has "$(cat err)" "no.such.key" "but says which key"
ok "$(gguf-inspect --get block_count "$m" 2>&1)" \
    "gguf-inspect: $m: no key block_count, but llama.block_count" \
   "a key without its first part"
ok "$(gguf-inspect --get count "$m" 2>&1)" "gguf-inspect: $m: no key count" "part of a word is none"
ok "$(gguf-inspect --print blk.0.attn_k "$m" 2>&1)" \
   "gguf-inspect: $m: no tensor blk.0.attn_k, but blk.0.attn_k.weight" \
   "a tensor without the end of its name"
ok "$(gguf-inspect --check "$m"; echo $?)" 0 "--check finds nothing to tell"
ok "$(cat "$m" | gguf-inspect --check; echo $?)" 0 "nor in a pipe"
if command -v python3 >/dev/null; then
    gguf-inspect -j "$m" "$m" >json
    ok "$(python3 -c '
import json
a, b = map(json.loads, open("json"))
assert a == b
kv = {k["key"]: k for k in a["metadata"]}
t = kv["tokenizer.ggml.tokens"]
print(a["version"], a["byte_order"], a["alignment"], a["data_offset"], len(a["metadata"]),
      len(a["tensors"]), t["type"], t["elem"], len(t["value"]), t["value"][1])
print(a["tensors"][1])' 2>&1)" \
"3 little 32 9312 29 22 arr str 368 \"
{'name': 'output.weight', 'type': 'f16', 'shape': [128, 368], 'offset': 64, 'bytes': 94208}" \
    "--json, an object a line"
fi
gguf-inspect -j "$m" >/dev/full 2>/dev/null; ok $? 2 "a full disk is noticed"
gguf-inspect "$m" /no/such "$m" >out 2>/dev/null; ok $? 2 "the worst status is kept"
ok "$(grep -c '^file ' out)" 2 "the other operands are shown"
for o in "--check --tsv" "--vocab --markdown" "--json --tsv" "--tsv --full" "--get a --json -0" \
         "--memory --kv" "-n 5" "--check --explain" "--tensors --explain" "--histogram" \
         "--stats --histogram=1" \
         "--stats --histogram=65" "-u 5" "--cache-k=f16" "--memory --cache-k=iq2_xxs" \
         "--gpu-layers=1" \
         "--template --template" "--get a --check" "-0" "--full --json" "--vocab --stats" "-c 5" \
         "--tolerance=1" "--diff" "--hash=md5" "--check=numbers" "-t 0"; do
    # shellcheck disable=SC2086
    gguf-inspect $o "$m" >out 2>/dev/null; ok $? 2 "$o is wrong usage"
done

# ---- odd but sound files ----
{ printf GGUF; be 3 4; be 1 8; be 1 8; be 1 8; printf k; be 5 4; be -2 4
  be 1 8; printf t; be 1 4; be 2 8; be 0 4; be 0 8; } >big.gguf
pad big.gguf
head -c 8 /dev/zero >>big.gguf
ok "$(gguf-inspect --get k big.gguf)" -2 "a big-endian file is read"
has "$(gguf-inspect -j big.gguf)" '"byte_order":"big"' "and its byte order told"

{ head_ 0 4
  key bad 8; le 2 8; printf 'a\377'
  key nan 6; le $((0x7fc00000)) 4
  key esc 8; le 6 8; printf 'a\033[2Jb'
  key deep 9; le 9 4; le 1 8; le 8 4; le 1 8; str x; } >odd.gguf
ok "$(gguf-inspect -j --kv odd.gguf | sed 's/.*"metadata"://')" \
    '[{"key":"bad","type":"str","value":{"bytes":"61ff"}},'\
'{"key":"nan","type":"f32","value":"NaN"},{"key":"esc","type":"str","value":"a\u001b[2Jb"},'\
'{"key":"deep","type":"arr","elem":"arr","value":[["x"]]}]}' \
   "JSON of what JSON cannot say"
ok "$(gguf-inspect --kv odd.gguf | tr -d '[:print:]\n' | wc -c)" 0 \
    "a listing is safe for a terminal"
ok "$(gguf-inspect --get esc odd.gguf | wc -c)" 7 "--get into a file is not altered"
ok "$(gguf-inspect --get nan odd.gguf)" NaN "a float that is none"
gguf-inspect --check odd.gguf >out 2>err; ok $? 1 "--check minds text that is not UTF-8"
ok "$(sed -n 1p out)" "odd.gguf: 24: key bad: the text is not UTF-8" \
    "and tells file, offset and key"

{ head_ 0 5
  key tokenizer.ggml.tokens 9; le 8 4; le 4 8; str a; str b; str c; str d
  key tokenizer.ggml.scores 9; le 0 4; le 4 8; le 0 4
  key tokenizer.ggml.token_type 9; le 1 4; le 4 8; le 0 4
  key tokenizer.ggml.bos_token_id 8; str 4
  key tokenizer.ggml.eos_token_id 4; le 4 4; } >types.gguf
gguf-inspect types.gguf >out 2>&1;       ok $? 0 "values of unexpected types are listed"
ok "$(awk '$1 ~ /scores|bos/ { print $2 }' out | tr '\n' ' ')" "u8[4] str " "as what they are"

# ---- hostile files: refused at once, in little memory, saying why ----
limit=:                                  # a sanitizer's build cannot live in 64 MiB
sh -c 'ulimit -v 65536; exec gguf-inspect --version' >/dev/null 2>&1 && limit='ulimit -v 65536'
refused() { # NAME PART STATUS...: hostile.gguf, as file and from a pipe
    for from in file pipe; do
        if [ $from = file ]; then
            ($limit; timeout 2 gguf-inspect hostile.gguf) >out 2>err
        else
            cat hostile.gguf | ($limit; timeout 2 gguf-inspect -) >out 2>err
        fi
        ok $? 1 "$1 ($from) is status 1"
        ok "$(wc -l <err) $(wc -c <out)" "1 0" "$1 ($from): one line, no listing"
        has "$(cat err)" "$2" "$1 ($from): says $2"
    done
}
align() { { head_ 0 1; key general.alignment "$1"; le "$2" "$3"; } >hostile.gguf; }
align 4 0 4;               refused "alignment 0" "power of two"
align 4 3 4;               refused "alignment 3" "power of two"
align 5 32 4;              refused "alignment as i32" "power of two"
align 8 0 8;               refused "alignment as str" "power of two"
align 4 2147483648 4
timeout 2 gguf-inspect hostile.gguf >/dev/null 2>&1; ok $? 0 "alignment 2^31 is listed"
{ head_ 0 1; key k 8; le $((1 << 62)) 8; le 0 8; } >hostile.gguf
refused "string of 2^62 bytes" 4611686018427387904
{ head_ 0 1; key k 9; le 0 4; le $((1 << 60)) 8; le 0 8; } >hostile.gguf
refused "array of 2^60" 1152921504606846976
{ head_ 0 1; key k 9; le 8 4; le $((1 << 40)) 8; le 0 8; } >hostile.gguf
refused "2^40 strings" 1099511627776
head_ $((1 << 58)) 0 >hostile.gguf;      refused "2^58 tensors" 288230376151711744
head_ 0 $((1 << 63)) >hostile.gguf;      refused "2^63 entries" 9223372036854775808
{ head_ 1 0; le $((1 << 63)) 8; le 0 8; } >hostile.gguf
refused "name of 2^63 bytes" 9223372036854775808
{ head_ 0 1; key k 99; } >hostile.gguf;  refused "a value of no type" "type 99"
{ head_ 1 0; info x 0 0 1 1 1 1 1; } >hostile.gguf; refused "5 dimensions" "5 dimensions"
head -c 5000 "$m" >hostile.gguf;         refused "a cut in the metadata" "tokenizer.ggml"
{ head_ 1 0; str x; le 1 4; } >hostile.gguf; refused "a cut in a tensor's info" "tensor x"

for dims in "1 0" "0" "4 0 2"; do
    # shellcheck disable=SC2086
    { head_ 1 1; arch x; info x 0 0 $dims; } >zero.gguf
    timeout 2 gguf-inspect --check zero.gguf >out 2>err; ok $? 1 "--check minds dimensions $dims"
    has "$(cat out)" "tensor x: dimension" "and names the tensor"
    has "$(cat err)" "zero.gguf: 1 fault: tensor x" "on stderr too"
done

# Two tensors of 4 KiB, cut in the data.
{ head_ 2 1; arch x; info one 0 0 1024; info two 0 4096 1024; } >whole.gguf
pad whole.gguf
at=$(wc -c <whole.gguf)
head -c 8192 /dev/zero >>whole.gguf
ok "$(gguf-inspect -q --check whole.gguf; echo $?)" 0 "a whole file is sound"
for size in $((at + 8191)) $((at + 4095)) $((at + 1)); do
    head -c $size whole.gguf >cut.gguf
    gguf-inspect cut.gguf >out 2>err;    ok $? 1 "a file cut to $size bytes is status 1"
    has "$(cat err)" "the file has $size bytes" "with the sizes"
    cat cut.gguf | gguf-inspect --check >out 2>/dev/null; ok $? 1 "--check sees the cut in a pipe"
    has "$(cat out)" "ends at byte $size" "and where"
done

# ---- metadata and tensors that do not go together ----
u32() { key "$1" 4; le "$2" 4; }
sizes() { # LAYERS HEADS: a llama of width 64, without its tensors
    arch llama; u32 llama.block_count "$1"; u32 llama.context_length 32
    u32 llama.embedding_length 64; u32 llama.feed_forward_length 64
    u32 llama.attention.head_count "$2"
    key llama.attention.layer_norm_rms_epsilon 6; le $((0x3727c5ac)) 4
}
blk() { # LAYER FIRST-OFFSET: its tensors, 64 by 64 floats each
    o=$2
    for t in attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down; do
        info blk.$1.$t.weight 0 $o 64 64; o=$((o + 16384))
    done
    info blk.$1.attn_norm.weight 0 $o 64; info blk.$1.ffn_norm.weight 0 $((o + 256)) 64
}
tokens() { key tokenizer.ggml.tokens 9; le 8 4; le 3 8; str a; str b; str c; }
faults() { # FILE: without name and offset
    gguf-inspect -q --check "$1" 2>/dev/null | sed 's/^[^:]*: [0-9]*: //' | sort
}
{ head_ 11 7; sizes 1 4; info token_embd.weight 0 115200 64 3
  info output_norm.weight 0 115968 64; blk 0 0; } >llama.gguf
pad llama.gguf
head -c 116224 /dev/zero >>llama.gguf
ok "$(faults llama.gguf)" "" "a small model is sound"
{ head_ 11 7; sizes 2 4; info token_embd.weight 0 115200 64 3
  info output_norm.weight 0 115968 64; blk 0 0; } >bad.gguf
pad bad.gguf; tail -c 116224 llama.gguf >>bad.gguf
ok "$(faults bad.gguf)" "layer 1: has no tensors, llama.block_count is 2" "a layer that is missing"
{ head_ 11 7; sizes 1 4; info token_embd.weight 0 115200 64 3
  info output_norm.weight 0 115968 64; blk 1 0; } >bad.gguf
pad bad.gguf; tail -c 116224 llama.gguf >>bad.gguf
ok "$(faults bad.gguf | wc -l) $(faults bad.gguf | head -n 1)" \
    "10 layer 0: has no tensors, llama.block_count is 1" \
   "layers that are counted from 1"
{ head_ 11 7; sizes 1 5; info token_embd.weight 0 115200 64 3
  info output_norm.weight 0 115968 64; blk 0 0; } >bad.gguf
pad bad.gguf; tail -c 116224 llama.gguf >>bad.gguf
has "$(faults bad.gguf)" "tensor blk.0.attn_q.weight: shape is 64x64, the metadata ask for 64x60" \
    "heads that do not divide the width"
{ head_ 11 10; sizes 1 4; tokens; u32 tokenizer.ggml.bos_token_id 3
  key tokenizer.ggml.scores 9; le 6 4; le 2 8; le 0 8; info token_embd.weight 0 115200 64 4
  info output_norm.weight 0 116224 64; blk 0 0; } >bad.gguf
pad bad.gguf; head -c 116480 /dev/zero >>bad.gguf
ok "$(faults bad.gguf)" \
    "key tokenizer.ggml.bos_token_id: 3 is out of range: the vocabulary has 3 entries
key tokenizer.ggml.model: missing
key tokenizer.ggml.scores: has 2 elements, the vocabulary 3
tensor token_embd.weight: has 4 rows, the vocabulary 3 entries" "a vocabulary that is not whole"
{ head_ 0 3; arch llama; str llama.block_count; le 8 4; str 1; str llama.context_length; le 4 4
  le 1 4; } >none.gguf
ok "$(gguf-inspect --check none.gguf 2>&1)" \
    "gguf-inspect: none.gguf: there are no tensors: only a vocabulary was checked" \
   "a file without tensors"
# Tensors that claim to be no model, or say none of its numbers, are sound as such.
{ head_ 1 0; info x 0 0 8; } >bag.gguf; pad bag.gguf; head -c 32 /dev/zero >>bag.gguf
ok "$(gguf-inspect -q --check bag.gguf 2>&1; echo $?)" 0 "tensors without an architecture"
has "$(gguf-inspect --check bag.gguf 2>&1)" "general.architecture" "are noted as such"
{ head_ 1 1; arch llama; info x 0 0 8; } >bag.gguf; pad bag.gguf; head -c 32 /dev/zero >>bag.gguf
ok "$(gguf-inspect -q --check bag.gguf 2>&1; echo $?)" 0 "tensors without a model's numbers"
has "$(gguf-inspect --check bag.gguf 2>&1)" "llama." "are noted as such"
{ head_ 1 2; arch llama; u32 llama.block_count 1; info x 0 0 8; } >bag.gguf; pad bag.gguf
head -c 32 /dev/zero >>bag.gguf
gguf-inspect -q --check bag.gguf >out 2>&1; ok $? 1 "one number of a model asks for all"
{ head_ 0 1; key general.architecture 4; le 1 4; } >bad.gguf
has "$(faults bad.gguf)" "general.architecture" "an architecture that is a number"
ok "$(faults none.gguf)" "" "and no keys asked of it"

# Architectures without a row: what holds for all.
some() { # LAYERS HEADS HEADS-KV LAYER...
    l=$1 h=$2 g=$3; shift 3
    { head_ $(($# + 1)) 5; arch other; u32 other.block_count "$l"; u32 other.embedding_length 8
      u32 other.attention.head_count "$h"; u32 other.attention.head_count_kv "$g"
      info token_embd.weight 0 0 8 4; o=128
      for i; do info "blk.$i.w" 0 $o 8; o=$((o + 32)); done; } >o.gguf
    pad o.gguf; head -c $((128 + 32 * $#)) /dev/zero >>o.gguf
}
some 2 4 2 0 1;   ok "$(faults o.gguf)" "" "an unknown architecture"
some 3 4 2 0 2;   ok "$(faults o.gguf)" "layer 1: has no tensors, but layer 2 has" "with a gap"
some 1 4 2 0 1
ok "$(faults o.gguf)" "layer 1: has tensors, but other.block_count is 1" "with a layer too many"
some 3 4 2 0 1
ok "$(faults o.gguf)" "layer 2: has no tensors, other.block_count is 3" "with a layer too few"
some 1 3 2 0
ok "$(faults o.gguf)" "key other.attention.head_count: 3 heads do not divide a width of 8
key other.attention.head_count_kv: 2 do not divide 3 heads" "with heads that do not divide"
# What the format allows and some readers do not.
ok "$(gguf-inspect --check llama.gguf 2>&1)" \
    "gguf-inspect: llama.gguf: the data of 2 tensors, token_embd.weight the first, does \
not follow that of the tensor before in the list: some readers refuse that" \
"data in another order than the list"
{ cat whole.gguf; printf tail; } >more.gguf
has "$(gguf-inspect --check more.gguf 2>&1)" "4 bytes follow the data of the last tensor" \
    "and more behind it"
# The ends of texts.
ends() { # KEY...: a byte-level vocabulary with these bools true
    { head_ 0 $((4 + $#)); arch x; key tokenizer.ggml.model 8; str gpt2
      tokens; key tokenizer.ggml.merges 9; le 8 4; le 0 8; for b; do key "$b" 7; le 1 1
      done; } >ends.gguf
}
ends
has "$(gguf-inspect --check ends.gguf 2>&1)" "no key tokenizer.ggml.eos_token_id" \
    "no token for the end of a text"
ends tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token
ok "$(faults ends.gguf)" \
    "key tokenizer.ggml.add_bos_token: texts are to begin with a token, but there is no \
tokenizer.ggml.bos_token_id
key tokenizer.ggml.add_eos_token: texts are to end with a token, but there is no \
tokenizer.ggml.eos_token_id" \
   "is a fault where one is wanted"

# ---- data ----
ok "$(gguf-inspect --check=data "$m"; echo $?)" 0 "--check=data finds nothing to tell"
ok "$(cat "$m" | gguf-inspect --check=data; echo $?)" 0 "nor in a pipe"
# A NaN as weight 70 of blk.0.attn_k, an infinity as the last of output_norm.
at=$(($(wc -c <llama.gguf) - 116224))
cp llama.gguf bad.gguf
{ head -c $((at + 16384 + 280)) llama.gguf; le $((0x7fc00000)) 4
  tail -c +$((at + 16384 + 285)) llama.gguf | head -c $((116224 - 16384 - 288))
  le $((0xff800000)) 4
} >bad.gguf
gguf-inspect --check=data bad.gguf >out 2>err; ok $? 1 "numbers that are none are status 1"
ok "$(cat out)" \
    "bad.gguf: $((at + 16664)): tensor blk.0.attn_k.weight: 1 number not finite, the \
first in row 1, column 6
bad.gguf: $((at + 116220)): tensor output_norm.weight: 1 number not finite, the first in row 0, \
column 63" \
   "a line for each tensor"
ok "$(faults bad.gguf)" "" "--check alone does not read the data"
for t in 1 3; do
    cat bad.gguf | gguf-inspect -t $t --check=data 2>/dev/null | sed 's/<stdin>/bad.gguf/' >a
    cmp out a >/dev/null;                ok $? 0 "the same from a pipe with $t threads"
done
head -c $((at + 100000)) bad.gguf >cut.gguf
cat cut.gguf | gguf-inspect --check=data >out 2>/dev/null; ok $? 1 "a cut in a pipe is seen"
has "$(cat out)" \
    "<stdin>: $((at + 100000)): tensor blk.0.ffn_down.weight: ends at byte $((at + 100000))" \
    "and where it is"
# q8_0: the scale of block 5 infinite.
{ head_ 1 1; arch x; info q 8 0 32 8; } >q.gguf
pad q.gguf
at=$(wc -c <q.gguf)
{ head -c 170 /dev/zero; le 31744 2; head -c 100 /dev/zero; } >>q.gguf
has "$(gguf-inspect -q --check=data q.gguf 2>/dev/null)" \
    "q.gguf: $((at + 170)): tensor q: 1 block not valid, the first in row 5, column 0" \
    "a block of codes"

# A text and an array that are there, as holes, and longer than any model's.
limit='ulimit -v 150000'
(eval "$limit"; gguf-inspect --version) >out 2>&1 || limit=:      # sanitizers need far more
for t in "8; le 67108865 8" "9; le 0 4; le 67108865 8" "9; le 8 4; le 4194305 8"; do
    { head_ 0 1; eval "key k $t"; } >holes.gguf
    dd if=/dev/null of=holes.gguf bs=1 seek=200000000 2>/dev/null
    (eval "$limit"; gguf-inspect holes.gguf) >out 2>err; ok $? 1 "k is of $t bytes or elements"
    has "$(cat err)" "more than make sense" "and refused"
done
rm holes.gguf

# ---- digests ----
gguf-inspect --hash "$m" >list;          ok $? 0 "--hash"
ok "$(wc -l <list)" 23 "has a line for each tensor and one for all"
ok "$(cat "$m" | gguf-inspect -t 1 --hash)" "$(cat list)" \
    "is the same from a pipe and with one thread"
gguf-inspect --hash=sha256 "$m" >sums
ok "$(awk '$2 == "output_norm.weight" { print $1 }' sums)" \
   "$(tail -c +$((9312 + 583744 + 1)) "$m" | head -c 512 | sha256sum | cut -d ' ' -f 1)" \
   "is of a tensor's bytes"
ok "$(tail -n 1 sums)" \
    "$(head -n -1 sums | sha256sum | cut -d ' ' -f 1)  (all)" "and the last that of the lines above"
ok "$(gguf-inspect --hash=file "$m")" "$(sha256sum "$m")" "--hash=file is what sha256sum says"
printf x >text; ok "$(gguf-inspect --hash=file text)" "$(sha256sum text)" "of any file"
for l in list sums; do
    ok "$(gguf-inspect --verify $l "$m"; echo $?)" 0 "--verify agrees with $l"
done
# Larger than what is read at once, one most of the file, so that threads share it.
{ head_ 3 0; info a 0 0 64 2000; info b 0 512000 64 30000; info c 0 8192000 64 1; } >large.gguf
pad large.gguf
at=$(wc -c <large.gguf)
seq 2000000 | head -c 8192256 >>large.gguf
# OFFSET BYTES
sum() { tail -c +$((at + $1 + 1)) large.gguf | head -c "$2" | sha256sum | cut -d ' ' -f 1; }
printf '%s  a\n%s  b\n%s  c\n' "$(sum 0 512000)" "$(sum 512000 7680000)" "$(sum 8192000 256)" >sums3
for t in 1 2 3 8; do
    ok "$(gguf-inspect -t $t --hash=sha256 large.gguf | head -n 3)" "$(cat sums3)" \
        "large tensors, $t threads"
done
sed 's/^.\(.*attn_q\)/0\1/; / output.weight/d; $ { p; s/(all)/more/; }' list >other
gguf-inspect --verify other "$m" >out 2>err; ok $? 1 "a list that differs is status 1"
ok "$(sort out)" "$(printf '%s: %s\n' blk.0.attn_q.weight differs blk.1.attn_q.weight differs \
   more missing output.weight 'not in the list')" "and told how"
has "$(cat err)" "not what other says" "with a message"
for l in '' x 'abcdef0123456789 x' '0123456789abcdef  '; do
    echo "$l" >other
    gguf-inspect --verify other "$m" >out 2>&1; ok $? 1 "'$l' is no list"
done
gguf-inspect --hash odd.gguf cut.gguf >out 2>err; ok $? 1 "no digests of a file that is cut off"

# ---- vocabulary and template ----
gguf-inspect --vocab "$m" >list;         ok $? 0 "--vocab"
ok "$(wc -l <list)" 368 "has a line for each token"
ok "$(sed -n 366p list)" "365	control	-	<|eot_id|>	eos" "with type, score, text and use"
ok "$(cut -f 4 list | sed -n 2p)" '"' "text is not quoted"
gguf-inspect --vocab types.gguf >list 2>&1; ok $? 0 "odd columns are shown"
ok "$(sed -n 1p list)" "0	0	0	a" "as they are"
gguf-inspect --vocab q.gguf >out 2>err;  ok $? 1 "no vocabulary is status 1"
ok "$(wc -c <out) $(cat err)" "0 gguf-inspect: q.gguf: there is no vocabulary" "and said"
gguf-inspect --template --no-newline "$m" >a
gguf-inspect --get tokenizer.chat_template --no-newline "$m" >b
cmp a b && [ -s a ];                     ok $? 0 "--template"
{ head_ 0 2; key tokenizer.chat_template 8; str A; key tokenizer.chat_template.tool 8
  str B; } >t.gguf
ok "$(gguf-inspect --template t.gguf)$(gguf-inspect --template=tool t.gguf)" AB "one by its name"
gguf-inspect --template=x t.gguf >out 2>err; ok $? 1 "a template that is not there is status 1"

# ---- numbers; what is expected comes from NumPy ----
ok "$(gguf-inspect --stats "$m" | awk '$1 == "blk.0.attn_k.weight" { $1 = $1; print }')" \
   "blk.0.attn_k.weight f16 -0.41674805 0.44628906 0.0007387899 0.11040355 0 0" "--stats"
ok "$(gguf-inspect --stats "$m" | awk '$1 == "token_embd.weight" { $1 = $1; print }')" \
   "token_embd.weight f16 -4.2695312 3.9921875 0.0048718886 0.99159044 0 0" "of a larger tensor"
for t in 1 3; do
    cat "$m" | gguf-inspect -t $t --stats >a; gguf-inspect -t 2 --stats "$m" | cmp - a
    ok $? 0 "the same from a pipe with $t threads"
done
ok "$(gguf-inspect --stats bad.gguf | awk '$1 == "output_norm.weight" { print $NF, $3, $4 }')" \
    "1 0 0" \
   "what is not finite is counted apart"
gguf-inspect --print token_embd.weight "$m" >list
ok "$(wc -l <list) $(awk '{ n += NF } END { print n }' list)" "368 47104" "--print: a row a line"
ok "$(sed -n 4p list | awk '{ print $NF }')" "-0.33544922" "numbers as they are"
ok "$(gguf-inspect --print output_norm.weight bad.gguf | awk '{ print $1, $64 }')" "0 -inf" \
    "infinity"
{ head_ 1 0; info i 26 0 3 2; } >ints.gguf; pad ints.gguf
for i in 1 -2 3 2147483647 -2147483648 0; do le $i 4; done >>ints.gguf
ok "$(gguf-inspect --print i ints.gguf | tr '\n' /)" "1 -2 3/2147483647 -2147483648 0/" "integers"
ok "$(gguf-inspect --print i -n 4 ints.gguf | tr '\n' /)" "1 -2 3/2147483647/" "-n"
ok "$(gguf-inspect --print i -n 2 -j ints.gguf; gguf-inspect --print i -n 3 -j ints.gguf)" "[1,-2]
[1,-2,3]" "in JSON"
gguf-inspect --print x ints.gguf >out 2>err; ok $? 1 "a tensor that is not there is status 1"
has "$(cat err)" "ints.gguf: no tensor x" "and named"

{ head_ 0 2; arch x; key tokenizer.chat_template 8; str '{% if %}'; } >t.gguf
has "$(faults t.gguf)" "key tokenizer.chat_template: " "--check: a template that is none"

# ---- totals ----
ok "$(gguf-inspect --totals "$m" | sed -n '2p;5,6p;10,12p' | tr -s ' ')" \
    "kind model, architecture llama, made as F16
tensors 22, 584256 bytes
parameters 291472, 16.036 bits each
TYPE TENSORS PARAMETERS BYTES BITS
f16 16 290816 581632 16
f32 6 656 2624 32" "--totals: parameters, and bytes of each type"
{ head_ 3 3; arch moe; u32 moe.expert_count 8; u32 moe.expert_used_count 2
  info token_embd.weight 0 0 4 10; info blk.0.ffn_up_exps.weight 1 160 4 4 8
  info output.weight 8 416 32 2; } >moe.gguf
pad moe.gguf; head -c 484 /dev/zero >>moe.gguf
ok "$(gguf-inspect --totals moe.gguf | sed -n '/^par/p;/^exp/p' | tr -s ' ')" \
    "parameters 232, 16.690 bits each
experts 128 parameters, a token uses 2 of 8: 136 parameters in all" "and what a token goes through"
ok "$(gguf-inspect --totals -j moe.gguf | sed 's/.*"totals"/"totals"/')" \
    '"totals":{"tensors":3,"parameters":232,"bytes":484,"bits":16.689655172413794,"unknown":0,'\
'"expert_parameters":128,"active_parameters":136,'\
'"types":[{"type":"f16","tensors":1,"parameters":128,"bytes":256},'\
'{"type":"f32","tensors":1,"parameters":40,"bytes":160},'\
'{"type":"q8_0","tensors":1,"parameters":64,"bytes":68}]}}' \
   "in JSON"
gguf-split -q --no-tensor-first-split --max-tensors 20 "$m" part
ok "$(for k in 1 3; do gguf-inspect --totals part-0000$k-of-00003.gguf |
    sed -n '2s,^kind  *,,p'; done)" \
   "model, architecture llama, made as F16, shard 1 of 3
tensors, shard 3 of 3" "a shard without tensors is no vocabulary"
gguf-convert -q --vocab-only "$root/tests/data/hf" vocab.gguf
ok "$(gguf-inspect --totals vocab.gguf | sed -n 's/^kind  *//p')" \
   "model, architecture llama, made as F16, a vocabulary only" "which this one is"
{ head_ 1 0; info x 9999 0 8; } >odd.gguf; pad odd.gguf
has "$(gguf-inspect --totals odd.gguf)" "without 1 tensors that cannot be counted" \
    "a type that is not known"

# ---- other forms ----
ok "$(gguf-inspect --tensors --tsv "$m" | sed -n '1p;3p' | tr '\t' /)" \
   "TENSOR/TYPE/SHAPE/OFFSET/BYTES/PARAMETERS/BITS
output.weight/f16/128x368/64/94208/47104/16" "--tsv"
ok "$(gguf-inspect --kv --tsv "$m" | awk -F '\t' '/ggml.tokens/ { print NF, gsub(/", "/, "") }')" \
    "3 367" "shortens nothing"
{ head_ 0 2; key 'a|b' 8; str '<x> \ *'; key c 8; le 3 8; printf 'd\te'; } >md.gguf
ok "$(gguf-inspect --kv --markdown md.gguf)" '| KEY | TYPE | VALUE |
| --- | --- | --- |
| a\|b | str | \<x> \\\\ \* |
| c | str | d\\te |' "--markdown: what would be markup is escaped"
ok "$(gguf-inspect --markdown md.gguf | sed -n '1p;3p')" "# md.gguf
- kind: tensors" "with a heading"
ok "$(gguf-inspect --kv --explain "$m" | sed -n 's/^llama.block_count.*  //p')" \
    "layers, each with tensors blk.0, blk.1, ..." "--explain"
ok "$(gguf-inspect -j --kv --explain "$m" | grep -o '"meaning":"layers[^"]*"}')" \
   '"meaning":"layers, each with tensors blk.0, blk.1, ..."}' "in JSON"
ok "$(gguf-inspect -j --check odd.gguf 2>/dev/null)" \
   '{"file":"odd.gguf","offset":24,"fault":"tensor x: type 9999 is not known"}' "--check --json"
ok "$(gguf-inspect -j --get general.name --get llama.block_count "$m")" \
    '{"key":"general.name","type":"str","value":"Llama"}
{"key":"llama.block_count","type":"u32","value":2}' "--get --json"
gguf-inspect --hash "$m" >list
ok "$(gguf-inspect -j --hash "$m" | sed "s|.*xxh64\":\"||; s|\"[,}].*name\":\"|  |; s|\"}||")" \
   "$(sed 's/  (all)//' list)" "--hash --json"
ok "$(gguf-inspect -j --hash=file text)" \
    "{\"file\":\"text\",\"sha256\":\"$(sha256sum <text | cut -d ' ' -f 1)\"}" "--hash=file --json"
sed '3d' list >other
ok "$(gguf-inspect -j --verify other "$m" 2>/dev/null | sed 's/.*"name"/"name"/')" \
   '"name":"token_embd.weight","how":"not in the list"}' "--verify --json"
ok "$(gguf-inspect -j --vocab "$m" | sed -n 366p)" \
    '{"id":365,"type":"control","text":"<|eot_id|>","uses":["eos"]}' "--vocab --json"
ok "$(gguf-inspect -j --print i ints.gguf)" "[1,-2,3]
[2147483647,-2147483648,0]" "--print --json"
ok "$(gguf-inspect -j --scan md.gguf)" \
    '{"file":"md.gguf","offset":0,"version":3,"byte_order":"little","tensors":0,"metadata":2}' \
    "--scan --json"
ok "$(gguf-inspect -j --memory "$m" | grep -o '"keys_and_values":[0-9]*')" \
    '"keys_and_values":262144' "--memory --json"
ok "$(gguf-inspect -j --stats "$m" |
    grep -c '"name":"blk.0.attn_k.weight","min":-0.41674805,"max":0.44628906,')" 1 "--stats --json"

# ---- histograms; what is expected comes from NumPy ----
ok "$(gguf-inspect --stats --histogram=8 "$m" |
    sed -n 's/^blk.0.attn_k.weight .* 0  *0  *0  *//p')" \
   "18 250 1352 2870 2617 933 143 9" "--histogram"
ok "$(gguf-inspect -j --stats --histogram=8 "$m" |
    sed -n 's/.*"output_norm.weight".*"outliers"/"outliers"/p')" \
   '"outliers":0,"histogram":[6,9,19,33,31,12,14,4]}' "in JSON"
# 63 zeros and a one: 7.9 deviations away
{ head_ 1 0; info o 0 0 64; } >o.gguf; pad o.gguf
{ head -c 252 /dev/zero; le $((0x3f800000)) 4; } >>o.gguf
ok "$(gguf-inspect --stats --histogram=2 o.gguf | awk 'NR == 2 { print $9, $10, $11 }')" "1 63 1" \
    "an outlier"
cat o.gguf | gguf-inspect --stats --histogram >out 2>err; ok $? 2 "a pipe has no second pass"
has "$(cat err)" "second pass" "and that is said"

# ---- memory ----
ok "$(gguf-inspect --memory "$m" | tr -s ' ' | tr '\n' /)" \
    "weights 584256 bytes/context 512 positions/keys and values 262144 bytes (f16; 2 layers, 256 \
bytes a position in each)/working space 2360768 bytes or so (512 positions at \
once)/together 3207168 bytes/" "--memory"
ok "$(gguf-inspect --memory -c 4Ki "$m" | awk '/^keys/ { print $4 }')" 2097152 "with -c"
{ head_ 0 9; sizes 3 4; u32 llama.attention.head_count_kv 2
  u32 llama.attention.sliding_window 10; } >w.gguf
ok "$(gguf-inspect --memory w.gguf | sed -n 3,4p | tr -s ' ')" \
   "keys and values 12288 bytes (f16; 3 layers, 128 bytes a position in each)
in windows 3840 bytes (3 layers see 10 positions)" "layers with a window"
mem() { gguf-inspect --memory "$@" | sed -n "/^$key/s/  */ /gp"; }
key=keys
ok "$(mem --cache-k=q8_0 --cache-v=f32 -c 10 "$m")" \
   "keys and values 6480 bytes (q8_0 and f32; 2 layers, 324 bytes a position in each)" \
   "types of the cache"
gguf-inspect --memory --cache-k=q9 "$m" >out 2>err; ok $? 2 "a type that there is not"
has "$(cat err)" "--cache-k=q9: no type for keys and values, as f32" "with some that there are"
gguf-inspect --memory --markdown "$m" >out 2>err
has "$(cat err)" "--memory has no --markdown, but --json" "a form that it has not"
gguf-inspect --memory --cache-k=q4_k "$m" >out 2>err
ok $? 2 "a cache whose blocks are longer than rows"
has "$(cat err)" "rows of 32 numbers cannot be cached as q4_K" "is refused by its numbers"
key=working; ok "$(mem -u 1 "$m")" "working space 6080 bytes or so (1 positions at once)" "-u"
# On a device: the layers are all alike; a layer's weights are 197632 bytes, its cache 131072.
key='on the'
ok "$(mem --gpu-layers=1 "$m")" "on the device 328704 bytes (the last 1 layers)" "--gpu-layers"
ok "$(mem --gpu-layers=9 "$m")" "on the device 752128 bytes (the last 2 layers and the output)" \
    "all of them"
# Architectures that cannot be run: what they remember is in their metadata.
u32_() { u32 x."$1" "$2"; }
state() { u32_ ssm.conv_kernel 4; u32_ ssm.inner_size 128; u32_ ssm.state_size 16
  u32_ embedding_length 64
          u32_ context_length 100; u32_ block_count 4; }
{ head_ 0 8; arch x; state; u32_ attention.head_count 0; } >s.gguf
key=states
ok "$(mem s.gguf)" "states 38912 bytes (4 layers, f32, for each text)" "layers with a state"
key=keys
ok "$(mem s.gguf)" "keys and values 0 bytes (f16; 0 layers, 0 bytes a position in each)" \
    "and no more"
{ head_ 0 9; arch x; state; u32_ attention.head_count 2; key x.attention.head_count_kv 9; le 4 4
  le 4 8
  le 0 4; le 0 4; le 1 4; le 0 4; } >s.gguf
key=states; ok "$(mem s.gguf)" "states 29184 bytes (3 layers, f32, for each text)" "beside one"
key=keys
ok "$(mem s.gguf)" "keys and values 12800 bytes (f16; 1 layers, 128 bytes a position in each)" \
    "with attention"
{ head_ 0 9; arch x; state; u32_ attention.head_count 2; u32_ full_attention_interval 4; } >s.gguf
key=states
ok "$(mem s.gguf)" "states 29184 bytes (3 layers, f32, for each text)" "every fourth with attention"
{ head_ 0 9; arch x; state; u32_ attention.head_count 2; u32_ ssm.group_count 2; } >s.gguf
key=states
ok "$(mem s.gguf)" "states 41984 bytes (4 layers, f32, for each text)" "both in each layer"
{ head_ 0 6; arch x; u32_ shortconv.l_cache 3; u32_ embedding_length 64; u32_ context_length 9
  u32_ block_count 2; u32_ attention.head_count_kv 0; } >s.gguf
ok "$(mem s.gguf)" "states 1024 bytes (2 layers, f32, for each text)" "a short convolution"
{ head_ 0 10; arch x; u32_ embedding_length 64; u32_ context_length 10; u32_ block_count 3
  u32_ attention.head_count 2; u32_ attention.head_count_kv 1; u32_ attention.key_length 48
  u32_ attention.value_length 32; u32_ attention.kv_lora_rank 32
  u32_ rope.dimension_count 16; } >s.gguf
key=folded
ok "$(mem s.gguf)" "folded 2880 bytes (96 bytes a position in each layer)" "latent attention"
{ head_ 0 7; arch x; u32_ embedding_length 64; u32_ context_length 100; u32_ block_count 4
  u32_ attention.head_count 2; u32_ attention.sliding_window 10
  key x.attention.sliding_window_pattern 9
  le 7 4; le 4 8; le 1 1; le 1 1; le 1 1; le 0 1; } >s.gguf
key='in win'
ok "$(mem s.gguf)" "in windows 33280 bytes (3 layers see 10 positions)" "windows in some layers"
{ head_ 0 6; arch x; u32_ embedding_length 64; u32_ context_length 100; u32_ block_count 4
  u32_ attention.head_count 2; key x.attention.causal 7; le 0 1; } >s.gguf
key=keys
ok "$(mem s.gguf)" "keys and values 0 bytes (f16; 0 layers, 0 bytes a position in each)" \
    "an encoder"
{ head_ 0 6; arch t5; u32 t5.embedding_length 64; u32 t5.context_length 100; u32 t5.block_count 4
  u32 t5.decoder_block_count 2; u32 t5.attention.head_count 2; } >s.gguf
key=keys
ok "$(mem s.gguf)" "keys and values 102400 bytes (f16; 2 layers, 256 bytes a position in each)" \
   "an encoder and a decoder"
{ head_ 0 6; arch x; u32_ embedding_length -1; u32_ context_length -1; u32_ block_count 4096
  u32_ attention.head_count 1; u32_ attention.head_count_kv -1; } >s.gguf
gguf-inspect --memory s.gguf >out 2>err; ok $? 1 "numbers beyond 64 bits"
has "$(cat err)" "does not fit 64 bits" "are told"
gguf-inspect --memory q.gguf >out 2>err; ok $? 1 "an architecture without numbers"
has "$(cat err)" "x.block_count" "is refused by the key it lacks"

# ---- differences ----
d() { gguf-inspect "$@" >out 2>err; echo $?; }
ok "$(d --diff "$m" "$m")$(cat out err)" 0 "--diff finds none"
ok "$(d --diff llama.gguf bad.gguf)" 1 "numbers that differ"
ok "$(cat out)" "! tensor output_norm.weight 1 of 64 numbers differ, by at most inf, RMS inf
! tensor blk.0.attn_k.weight 1 of 4096 numbers differ, by at most inf, RMS inf" "and how"
two() { # KEY VALUE TYPE NUMBER...: a tensor of two numbers
    { head_ 1 2; arch x; u32 "$1" "$2"; info t "$3" 0 2; } >$f; pad $f; shift 3
    for i; do le $((i)) 4; done >>$f
}
f=a.gguf; two k 1 0 0x3f800000 0x40000000
f=b.gguf; two k 1 0 0x3f800000 0x40400000
f=c.gguf; two j 2 1 0x40003c00
ok "$(d --diff a.gguf b.gguf)" 1 "one of two numbers"
ok "$(cat out)" "! tensor t 1 of 2 numbers differ, by at most 1, RMS 0.70710677" "with its distance"
ok "$(d --diff --tolerance=1 a.gguf b.gguf)$(cat out)" 0 "within a tolerance"
ok "$(d --diff --tolerance=0.99 a.gguf b.gguf)" 1 "beyond it"
ok "$(d --diff a.gguf c.gguf)" 1 "keys and types"
ok "$(cat out)" "< key k u32 1
> key j u32 2
< tensor t f32 2
> tensor t f16 2" "line by line"
ok "$(d --diff --tolerance=0 a.gguf c.gguf; grep -c tensor out)" "1
0" "f16 and f32 of the same numbers"
ok "$(d --diff a.gguf ints.gguf; grep tensor out)" "1
< tensor t f32 2
> tensor i i32 3x2" "tensors that only one has"
ok "$(cat b.gguf | d --diff a.gguf -)" 2 "a pipe has no ranges"
has "$(cat err)" "<stdin> is a pipe or compressed" "and that is said"
ok "$(d --diff a.gguf)" 2 "two files are needed"

ok "$(gguf-inspect -j --diff a.gguf b.gguf)" \
    '{"tensor":"t","numbers":2,"differ":1,"max":1,"rms":0.70710677}' "--json: numbers"
ok "$(gguf-inspect -j --diff a.gguf c.gguf)" \
    '{"key":"k","a":{"key":"k","type":"u32","value":1},"b":null}
{"key":"j","a":null,"b":{"key":"j","type":"u32","value":2}}
{"tensor":"t","a":{"name":"t","type":"f32","shape":[2],"offset":0,"bytes":8},'\
'"b":{"name":"t","type":"f16","shape":[2],"offset":0,"bytes":4}}' "keys and types"

# ---- scanning ----
{ printf 'xxGGUFxGGUF'; cat "$m"; printf GGUF; cat big.gguf; head -c 30 a.gguf; printf GGU; } >box
size=$(wc -c <"$m")
gguf-inspect --scan box >out;            ok $? 0 "--scan"
ok "$(cat out)" "11: GGUF version 3, 22 tensors, 29 metadata entries
$((15 + size)): GGUF version 3, big-endian, 1 tensors, 1 metadata entries" "tells where they begin"
cat box | gguf-inspect --scan | cmp - out; ok $? 0 "in a pipe too"
{ head -c 1048560 /dev/zero; cat a.gguf; } | gguf-inspect --scan >out
ok "$(cut -d : -f 1 out)" 1048560 "across the reads"
printf GGUF >box; gguf-inspect --scan box >out 2>err; ok $? 1 "none is status 1"

# ---- importance matrices ----
im() { # WIDTH COUNTS SUM: one entry
    head_ 2 4; key general.type 8; str imatrix
    key imatrix.datasets 9; le 8 4; le 1 8; str t.txt
    u32 imatrix.chunk_count 1; u32 imatrix.chunk_size 64
    info a.weight.in_sum2 0 0 "$1" 1; info "$2" 0 32 1 1
}
im 2 a.weight.counts >im.gguf; pad im.gguf
{ le $((0x3f800000)) 4; le 0 28; le $((0x42800000)) 4; } >>im.gguf
ok "$(gguf-inspect --check=data im.gguf; echo $?)" 0 "an importance matrix is sound"
head -c -4 im.gguf >bad.gguf; le $((0xbf800000)) 4 >>bad.gguf
has "$(gguf-inspect --check=data bad.gguf 2>/dev/null)" \
    "tensor a.weight.counts: 1 number not finite or below 0" "a count below 0 is not"
im 2 b.weight.counts >bad.gguf; pad bad.gguf; tail -c 36 im.gguf >>bad.gguf
ok "$(faults bad.gguf)" "tensor a.weight.in_sum2: there is no a.weight.counts
tensor b.weight.counts: there is no b.weight.in_sum2" "nor sums without counts"

# ---- adapters ----
lora() { # NAME RANK KEYS...: a of rank 2 and another
    other=$1 rank=$2; shift 2
    head_ 2 $((2 + $#)); key general.type 8; str adapter; arch llama
    for e; do $e; done
    info w.lora_a 0 0 4 2; info "$other" 0 32 "$rank" 4
}
kind() { key adapter.type 8; str lora; }
alpha() { key adapter.lora.alpha 6; le $((0x41800000)) 4; }
{ lora w.lora_b 2 kind alpha; } >ad.gguf; pad ad.gguf; head -c 64 /dev/zero >>ad.gguf
ok "$(gguf-inspect --check=data ad.gguf 2>&1; echo $?)" 0 "an adapter is sound"
{ lora w.lora_b 1 kind; } >bad.gguf; pad bad.gguf; head -c 48 /dev/zero >>bad.gguf
ok "$(faults bad.gguf)" "key adapter.lora.alpha: missing
tensor w.lora_b: has rows of 1, but w.lora_a has 2 rows" \
    "ranks that differ are not, nor one without alpha"
{ lora v.lora_b 2 kind alpha; } >bad.gguf; pad bad.gguf; head -c 64 /dev/zero >>bad.gguf
ok "$(faults bad.gguf)" "tensor v.lora_b: there is no v.lora_a
tensor w.lora_a: there is no w.lora_b" "nor halves"
{ lora w 2 kind alpha; } >bad.gguf; pad bad.gguf; head -c 64 /dev/zero >>bad.gguf
has "$(faults bad.gguf)" "tensor w: neither lora_a nor lora_b of a weight" "nor whole weights"

# ---- what is no GGUF ----
printf 'PK\003\004xxxx' >hostile.gguf;   refused "a zip" "a zip archive"
{ printf 'PK\003\004'; head -c 22 /dev/zero; le 16 2; le 0 2
  printf archive/data.pkl; } >hostile.gguf
refused "PyTorch's zip" "a PyTorch checkpoint"
for f in lmgg:GGML fmgg:GGMF tjgg:GGJT algg:GGLA; do
    { printf %s ${f%:*}; le 3 4; le 32000 4; } >hostile.gguf
    refused "${f#*:}" "older format ${f#*:}"
done
head -c 4096 /dev/zero >hostile.gguf;    refused "zeros" "a download that is not complete"
{ le 2 8; printf '{}'; } >hostile.gguf
gguf-inspect --check hostile.gguf >out 2>err; ok $? 1 "safetensors cannot be checked"
has "$(cat err)" "a safetensors file" "and are named"
h='{"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},'\
'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
{ le ${#h} 8; printf %s "$h"; head -c 16 /dev/zero; } >x.safetensors
ok "$(gguf-inspect x.safetensors | tail -n 3)" "TENSOR  TYPE  SHAPE  OFFSET  BYTES
a       F32   1      0       4
b       F16   2x3    4       12" "safetensors are listed"
ok "$(cat x.safetensors | gguf-inspect | tail -n 3)" "$(gguf-inspect x.safetensors | tail -n 3)" \
    "from a pipe too"
ok "$(gguf-inspect -j x.safetensors | sed 's/.*"tensors"//')" \
    ':[{"name":"a","type":"F32","shape":[1],"offset":0,"bytes":4},'\
'{"name":"b","type":"F16","shape":[2,3],"offset":4,"bytes":12}]}' "in JSON"
head -c 50 x.safetensors >hostile.gguf;  gguf-inspect hostile.gguf >out 2>err
ok $? 1 "a cut in their header"
head -c -1 x.safetensors >hostile.gguf; gguf-inspect hostile.gguf >out 2>err
ok $? 1 "and in their data"
{ le 0 8; printf '{}'; } >hostile.gguf; gguf-inspect hostile.gguf >out 2>err; ok $? 1 "or no header"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' >hostile.gguf
refused "an LFS pointer" "a Git LFS pointer"
printf '<!DOCTYPE html><html>' >hostile.gguf; refused "a web page" "a web page"
printf '' >hostile.gguf;                 refused "an empty file" "empty"
printf 'hello' >hostile.gguf;            refused "text" "not a GGUF file"
printf 'Entry not found' >hostile.gguf;  refused "what a server said" "it is a text"
printf 'Entry\1not found' >hostile.gguf; refused "what is no text" 'does not begin with "GGUF"'

# ---- shards ----
shard 0 s-00001-of-00002.gguf; shard 1 s-00002-of-00002.gguf
names() { gguf-inspect --tensors "$@" 2>/dev/null | awk '/^t/ { printf "%s ", $1 }'; }
ok "$(names s-00001-of-00002.gguf)" "t0 t1 " "the first shard brings the others"
ok "$(gguf-inspect s-00001-of-00002.gguf | tail -n 2 | tr -s ' ')" \
    "together 2 shards, 2 tensors, 8 bytes
parameters 2, 32.000 bits each" "and all are summed up"
ok "$(names --no-follow s-00001-of-00002.gguf)" "t0 " "not with --no-follow"
ok "$(names s-0000*)" "t0 t1 " "shards named are shown once"
ok "$(names s-00002-of-00002.gguf)" "t1 " "a later shard stands alone"
shard 0 s-00002-of-00002.gguf
for o in --tensors --hash; do
    gguf-inspect $o s-00001-of-00002.gguf >/dev/null 2>err
    ok $? 1 "another shard under that name, $o"
    has "$(cat err)" "s-00002-of-00002.gguf: key split.no: is not 1" "is told"
done
rm s-00002-of-00002.gguf
gguf-inspect s-00001-of-00002.gguf >/dev/null 2>err; ok $? 2 "a missing shard is status 2"
has "$(cat err)" s-00002-of-00002.gguf "and named"
echo "1..$n"
