#!/bin/sh
# load.t - how a model comes into memory, and what it is run with: files, rows that stay in them,
# checks, threads and CPUs, room; speaks TAP.
. "$(dirname "$0")/../tap.sh"
echo 1 7 11 30 55 9 2 >in
run() { # OPTION...: what the model says, or why it does not; SAYS STATUS
    decode --text --top 3 "$@" in >out 2>err
    echo "$? $(cat out) $(cat err)"
}
want=$(run -m "$m")

# Where the data of a tensor begins.
place() { # FILE TENSOR
    gguf-inspect --json "$1" | tr '{' '\n' | awk -v name="\"name\":\"$2\"" '
        match($0, /"data_offset":[0-9]+/) { from = substr($0, RSTART + 14, RLENGTH - 14) }
        index($0, name) && match($0, /"offset":[0-9]+/) {
            print from + substr($0, RSTART + 9, RLENGTH - 9)
        }'
}
poison() { # FILE OFFSET: 32 bytes that are no number in any type of floats
    printf '\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377' >nan
    cat nan nan | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# ---- values ----
ok "$(run --check-tensors -m "$m")" "$want" "--check-tensors: nothing to find"
cp "$m" bad.gguf
poison bad.gguf "$(place bad.gguf blk.1.ffn_down.weight)"
out=$(run --no-repack -m bad.gguf)
ok "${out%% *}" 0 "a map is not looked through"
ok "$(run --no-repack --check-tensors -m bad.gguf)" \
    "1  decode: bad.gguf: blk.1.ffn_down.weight: value in row 0 is not finite" "--check-tensors"

# ---- files ----
gguf-split --max-tensors 9 "$m" part
i=0
for f in part-*.gguf; do mv "$f" "$i.gguf"; i=$((i + 1)); done
ok "$i" 3 "three files that are not called as shards are"
ok "$(run -m 0.gguf -m 1.gguf -m 2.gguf)" "$want" "are named"
out=$(run -m 0.gguf);                       ok "${out%% *}" 2 "the others cannot be guessed"
has "$(run -m 0.gguf -m 1.gguf)" "2  decode: 0.gguf: has 3 shards, and 2 files are given" \
    "one is missing"
has "$(run -m 0.gguf -m 2.gguf -m 1.gguf)" "1  decode: 0.gguf: 2.gguf: says it is shard 3 of 3" \
    "another order"
has "$(run -m "$m" -m 1.gguf)" "has 1 shards, and 2 files are given" "nothing is missing"
has "$(run -m 0.gguf -m 1.gguf -m none)" "none: " "a file that is not there"

# ---- rows ----
gguf-convert -q -T f32 "$root/tests/data/families/gemma3n.tar.zst" layers.gguf
want=$(run -m layers.gguf)
for lazy in on off auto; do
    ok "$(run --load read --lazy-rows $lazy -m layers.gguf)" "$want" "--lazy-rows $lazy"
done
out=$(run --load mlock --lazy-rows on -m layers.gguf)
case ${out%% *} in
2) has "$out" "cannot keep the model in memory" "--load mlock: not here" ;;
*) ok "$out" "$want" "--load mlock" ;;
esac
# A row that no token of these asks for.
from=$(place layers.gguf per_layer_token_embd.weight)
row=$(gguf-inspect --json layers.gguf |
    sed 's/.*"per_layer_token_embd.weight","type":"[^"]*","shape":\[\([0-9]*\).*/\1/')
poison layers.gguf $((from + 100 * row * 4))
ok "$(run --load read --lazy-rows on -m layers.gguf)" "$want" "rows are read when they are wanted"
has "$(run --load read --lazy-rows off -m layers.gguf)" \
    "1  decode: layers.gguf: per_layer_token_embd.weight: value in row 100 is not finite" "or all"
has "$(run --lazy-rows sometimes -m "$m")" "2  decode: --lazy-rows" "another word"

# ---- threads ----
want=$(run -m "$m")
for t in "-t 1 --threads-batch 3" "-t 3 --threads-batch 1" "-t 2 --threads-batch 4"; do
    # shellcheck disable=SC2086
    ok "$(run $t -m "$m")" "$want" "$t"
done
printf '%s\n' 1 7 11 30 55 9 2 >requests
ones=$(decode -i --top 2 -t 1 -m "$m" requests | cksum)
ok "$(decode -i --top 2 -t 3 --threads-batch 2 -m "$m" requests | cksum)" "$ones" "the loop, too"
ok "$(decode -i --top 2 -t 1 --threads-batch 4 -m "$m" requests | cksum)" "$ones" "with fewer"
cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status 2>/dev/null)
if [ "$cpu" ]; then
    ok "$(run --cpus "$cpu" -m "$m")" "$want" "--cpus"
    ok "$(run --cpus "$cpu-$cpu,$cpu" -t 2 -m "$m")" "$want" "--cpus with more threads"
    mask=$(printf '%x' $((1 << cpu % 4)))
    i=$((cpu / 4))
    while [ $i -gt 0 ]; do mask=${mask}0; i=$((i - 1)); done
    ok "$(run --cpus "0x$mask" -m "$m")" "$want" "--cpus, a mask"
fi
for bad in '' x 0- 3-1 0,,1 0x 0xg 99999; do
    out=$(run --cpus "$bad" -m "$m")
    has "$out" "2  decode: --cpus: $bad: " "--cpus '$bad'"
done

# ---- room ----
context() { # OPTION...: the header's
    decode "$@" -m "$m" in 2>err | head -c 4096 | tr -d '\0' | grep -a -o '"n_ctx":[0-9]*'
}
ok "$(context --fit 0)" '"n_ctx":512' "--fit: everything fits"
ok "$(context --fit 0 -c 100)" '"n_ctx":100' "-c is the most"
has "$(run --fit 1000T -m "$m")" "a context of 512 takes" "nothing is left"
has "$(run --fit 1000T --fit-context 64 -m "$m")" "2  decode: $m: --fit: a context of 64 takes" \
    "--fit-context"
echo "1..$n"
