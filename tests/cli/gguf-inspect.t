#!/bin/sh
# gguf-inspect.t - listing, JSON, single values and checks, on sound and hostile files;
# speaks TAP.
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cd "$dir" || exit 1
m=$root/tests/data/m.gguf
n=0
ok() { # GOT WANT NAME
    n=$((n + 1))
    if [ "$1" = "$2" ]; then echo "ok $n - $3"; else
        echo "not ok $n - $3"; printf '%s\n' "got '$1'" "want '$2'" | sed 's/^/# /'
    fi
}
has() { # TEXT PART NAME
    case $1 in *"$2"*) ok yes yes "$3" ;; *) ok "$1" "... $2 ..." "$3" ;; esac
}

. "$root/tests/cli/gguf-bytes.sh"

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
ok "$(gguf-inspect --full --kv "$m" | awk '$1 == "tokenizer.ggml.tokens"' | grep -o '", "' | wc -l)" \
   367 "--full shows every element"
ok "$(awk '$1 == "tokenizer.ggml.tokens" && length < 150' list | wc -l)" 1 "long values are shortened"
ok "$(gguf-inspect --get llama.rope.freq_base "$m")" 500000 "--get a float"
ok "$(gguf-inspect --get llama.attention.layer_norm_rms_epsilon "$m")" 1e-05 "--get prints shortest floats"
ok "$(gguf-inspect --get tokenizer.ggml.add_bos_token "$m")" true "--get a bool"
ok "$(gguf-inspect --get general.name --no-newline "$m" | wc -c)" 5 "--no-newline"
ok "$(gguf-inspect --get tokenizer.ggml.tokens "$m" | sed -n 2p)" '"\""' "--get quotes elements"
ok "$(gguf-inspect -0 --get tokenizer.ggml.tokens "$m" | tr '\0' '\n' | sed -n 2p)" '"' "-0 does not"
ok "$(gguf-inspect -0 --get tokenizer.ggml.tokens "$m" | tr -cd '\0' | wc -c)" 368 "-0 ends each with a NUL"
gguf-inspect --get no.such.key "$m" >out 2>err; ok $? 1 "an absent key is status 1"
ok "$(cat out)" "" "and prints nothing"
has "$(cat err)" "no.such.key" "but says which key"
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
{'name': 'output.weight', 'type': 'f16', 'shape': [128, 368], 'offset': 64, 'bytes': 94208}" "--json, an object a line"
fi
gguf-inspect -j "$m" >/dev/full 2>/dev/null; ok $? 2 "a full disk is noticed"
gguf-inspect "$m" /no/such "$m" >out 2>/dev/null; ok $? 2 "the worst status is kept"
ok "$(grep -c '^file ' out)" 2 "the other operands are shown"
for o in "--check --json" "--get a --check" "-0" "--full --json" "--check=data"; do
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
   '[{"key":"bad","type":"str","value":{"bytes":"61ff"}},{"key":"nan","type":"f32","value":"NaN"},{"key":"esc","type":"str","value":"a\u001b[2Jb"},{"key":"deep","type":"arr","elem":"arr","value":[["x"]]}]}' \
   "JSON of what JSON cannot say"
ok "$(gguf-inspect --kv odd.gguf | tr -d '[:print:]\n' | wc -c)" 0 "a listing is safe for a terminal"
ok "$(gguf-inspect --get esc odd.gguf | wc -c)" 7 "--get into a file is not altered"
ok "$(gguf-inspect --get nan odd.gguf)" NaN "a float that is none"
gguf-inspect --check odd.gguf >out 2>err; ok $? 1 "--check minds text that is not UTF-8"
ok "$(cat out)" "odd.gguf: 24: key bad: the text is not UTF-8" "and tells file, offset and key"

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
    { head_ 1 0; info x 0 0 $dims; } >zero.gguf
    timeout 2 gguf-inspect --check zero.gguf >out 2>err; ok $? 1 "--check minds dimensions $dims"
    has "$(cat out)" "tensor x: dimension" "and names the tensor"
    has "$(cat err)" "zero.gguf: 1 fault: tensor x" "on stderr too"
done

# Two tensors of 4 KiB, cut in the data.
{ head_ 2 0; info one 0 0 1024; info two 0 4096 1024; } >whole.gguf
pad whole.gguf
at=$(wc -c <whole.gguf)
head -c 8192 /dev/zero >>whole.gguf
ok "$(gguf-inspect --check whole.gguf; echo $?)" 0 "a whole file is sound"
for size in $((at + 8191)) $((at + 4095)) $((at + 1)); do
    head -c $size whole.gguf >cut.gguf
    gguf-inspect cut.gguf >out 2>err;    ok $? 1 "a file cut to $size bytes is status 1"
    has "$(cat err)" "the file has $size bytes" "with the sizes"
    cat cut.gguf | gguf-inspect --check >out 2>/dev/null; ok $? 1 "--check sees the cut in a pipe"
    has "$(cat out)" "ends at byte $size" "and where"
done

# ---- what is no GGUF ----
printf 'PK\003\004xxxx' >hostile.gguf;   refused "a zip" "a zip archive"
{ le 2 8; printf '{}'; } >hostile.gguf;  refused "safetensors" "a safetensors file"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' >hostile.gguf
refused "an LFS pointer" "a Git LFS pointer"
printf '<!DOCTYPE html><html>' >hostile.gguf; refused "a web page" "a web page"
printf '' >hostile.gguf;                 refused "an empty file" "empty"
printf 'hello' >hostile.gguf;            refused "text" "not a GGUF file"

# ---- shards ----
shard() { { head_ 1 2; key split.no 2; le "$1" 2; key split.count 2; le 2 2; info "t$1" 0 0 1; } >"$2"
          head -c 64 /dev/zero >>"$2"; }
shard 0 s-00001-of-00002.gguf; shard 1 s-00002-of-00002.gguf
names() { gguf-inspect --tensors "$@" 2>/dev/null | awk '/^t/ { printf "%s ", $1 }'; }
ok "$(names s-00001-of-00002.gguf)" "t0 t1 " "the first shard brings the others"
ok "$(names --no-follow s-00001-of-00002.gguf)" "t0 " "not with --no-follow"
ok "$(names s-0000*)" "t0 t1 " "shards named are shown once"
ok "$(names s-00002-of-00002.gguf)" "t1 " "a later shard stands alone"
rm s-00002-of-00002.gguf
gguf-inspect s-00001-of-00002.gguf >/dev/null 2>err; ok $? 2 "a missing shard is status 2"
has "$(cat err)" s-00002-of-00002.gguf "and named"
echo "1..$n"
