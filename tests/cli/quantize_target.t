#!/bin/sh
# quantize_target.t - types for a size, what tensors lose, layers left out, shards kept; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/gguf-bytes.sh"
cp "$root/tests/data/e2e/input.gguf" "$root/tests/data/e2e/imatrix.gguf" .
cp "$root/tests/data/m.gguf" .
below() { ok "$(awk "BEGIN { print $1 < $2 }")" 1 "$3: $1 < $2"; }
size() { wc -c <"$1" | tr -d ' '; }
types() { gguf-inspect --tensors "$1" | awk 'NR > 1 { print $1, $2 }'; }
loss() { awk -F '\t' '$1 == "total" { print $5 }' "$1"; }

# ---- what is lost ----
quantize -q --report r input.gguf q.gguf Q4_K_M;   ok $? 0 "--report"
ok "$(head -n 1 r | tr '\t' ' ')" "tensor type bytes rmse weighted_error" "names its columns"
ok "$(wc -l <r | tr -d ' ')" \
    "$(($(types q.gguf | wc -l) + 2))" "has a line for each tensor and for all"
ok "$(awk -F '\t' '$2 == "f32" { print $4, $5 }' r | sort -u)" "0 0" "nothing is lost by copying"
ok "$(awk -F '\t' 'NR > 1 && $2 != "" { n += $3 } $1 == "total" { print n - $3 }' r)" 0 \
    "bytes add up"
ok "$(awk -F '\t' \
    'NR > 1 && $2 != "" { n += $5 } $1 == "total" { print (n - $5) ^ 2 < 1e-12 * n * n }' r)" 1 \
    "so do errors"
# The root mean square that another program finds between the two files.
gguf-inspect --diff --tolerance 0 input.gguf q.gguf >d
for t in blk.0.attn_q.weight blk.1.ffn_down.weight output.weight; do
    rms=$(sed -n "s/^! tensor $t .*RMS //p" d)
    ok "$(awk -F '\t' -v t=$t -v r="$rms" '$1 == t { print (r > 0 && ($4 / r - 1) ^ 2 < 1e-4) }' \
        r)" 1 "$t: the error that a comparison of the files finds"
done
quantize -q -t 1 --report r1 input.gguf q.gguf Q4_K_M; cmp -s r r1; ok $? 0 "whatever the threads"
quantize -q --report /dev/full input.gguf q9.gguf Q8_0 2>err
ok $? 2 "a report that cannot be written is status 2"
quantize --report r2 --dry-run input.gguf Q8_0 2>/dev/null; ok $? 2 "a plan loses nothing"
cp input.gguf keep.gguf; quantize --report keep.gguf keep.gguf q.gguf Q8_0 2>err
ok $? 2 "a report does not go over the input"
cmp -s keep.gguf input.gguf;                       ok $? 0 "which stays as it is"
for out in both ./both "$dir/both"; do
    quantize -q --report both input.gguf "$out" Q8_0 2>err
    ok "$? $(cat err)" "2 quantize: --report: both is the output" "nor over the output $out"
    ok "$(ls both 2>/dev/null)" "" "which is not begun"
done
ln -s both link; quantize -q --report link input.gguf both Q8_0 2>err
ok "$? $(ls both 2>/dev/null)" "2 " "nor through a link to nothing"
quantize -q --report ggml-model-Q8_0.gguf input.gguf Q8_0 2>err
ok "$? $(ls ggml* 2>/dev/null)" "2 " "nor over an output that has its default name"
echo old >both; quantize -q --report both input.gguf link Q8_0 2>err
ok "$? $(cat both)" "2 old" "nor over one that exists"
rm both
quantize -q --report - input.gguf - Q8_0 2>err | cat >both
ok "$(cat err) $(size both)" "quantize: --report: <stdout> is the output 0" \
    "nor are both written to standard output"
quantize -q --report - input.gguf /dev/null Q8_0 >r1 2>err
ok "$? $(head -c 6 r1)" "0 tensor" "one of them is"
quantize -q --report /dev/null input.gguf /dev/null Q8_0 2>err
ok "$? $(cat err)" "0 " "/dev/null takes both"
rm link both

# ---- a size ----
for t in Q4_K_S Q3_K_M Q2_K; do
    quantize -q --imatrix imatrix.gguf --report r input.gguf q.gguf $t
    quantize -q --imatrix imatrix.gguf --target-size "$(size q.gguf)" --report rt input.gguf \
        t.gguf $t
    ok "$? $(($(size t.gguf) <= $(size q.gguf)))" "0 1" "no more bytes than $t"
    below "$(loss rt)" "$(loss r)" "and less is lost"
done
quantize -q --imatrix imatrix.gguf --target-size "$(size q.gguf)" -t 1 input.gguf t1.gguf Q2_K
cmp -s t.gguf t1.gguf;                             ok $? 0 "whatever the threads"
quantize -q --imatrix imatrix.gguf --target-size "$(size q.gguf)" --plan-only input.gguf Q2_K >plan
ok $? 0 "--plan-only"
ok "$(grep -vc '^--tensor-type ^[A-Za-z0-9_\\.]*\$=[a-zA-Z0-9_]*$' plan)" 0 "prints options"
quantize -q --imatrix imatrix.gguf --tensor-type-file plan input.gguf p.gguf Q2_K
cmp -s t.gguf p.gguf;                              ok $? 0 "that make the same file, from a file"
# shellcheck disable=SC2046
quantize -q --strict --imatrix imatrix.gguf $(cat plan) input.gguf p.gguf Q2_K
cmp -s t.gguf p.gguf;                              ok $? 0 "and from the command line"
last=1e30
for x in 5 6 7 8.5 17; do
    quantize -q --target-bpw $x --report r m.gguf t.gguf; ok $? 0 "--target-bpw $x"
    bits=$(awk -F '\t' '$1 == "total" { print $3 * 8 }' r)
    all=$(quantize -q --dry-run m.gguf Q8_0 |
        awk -F '\t' 'NR > 1 && $1 != "total" {
            k = split($2, d, "x"); w = 1; for (i = 1; i <= k; i++) w *= d[i]
            n += w
        } END { print n }')
    ok "$(awk "BEGIN { print $bits <= $x * $all }")" 1 "keeps to it"
    ok "$(awk "BEGIN { print $(loss r) <= $last }")" 1 "more bits lose no more"
    last=$(loss r)
done
ok "$last" 0 "at 17 bits, f16 stays what it is"
gguf-inspect --check t.gguf >/dev/null;            ok $? 0 "and the file is sound"
quantize -q --target-bpw 5 m.gguf t.gguf
has "0 1 2 3 7 8 9 10 11 12 14 15 16 17 18 25 26 30" \
    "$(gguf-inspect --get general.file_type t.gguf)" "the file type is one of the tensors'"
quantize -q --target-bpw 9 --tensor-type 'attn_q\.=q8_0' --output-tensor-type q6_k input.gguf t.gguf
ok "$(types t.gguf | grep -E 'attn_q\.|^output.weight' | cut -d ' ' -f 2 | sort -u | tr '\n' ' ')" \
    "q6_K q8_0 " "what is asked for by name stays"
ok "$(quantize -q --target-bpw 5.6 --plan-only input.gguf | grep -cE '=(iq1_|iq2_|iq3_xxs)')" 0 \
    "types that need importance are not chosen without"
quantize -q input.gguf q4.gguf Q4_K_M; quantize -q --allow-requantize q4.gguf q2.gguf Q2_K
quantize -q --allow-requantize --target-size "$(size q2.gguf)" q4.gguf t.gguf
ok $? 0 "types that the mix would keep are to be chosen, too"
quantize -q --target-size 3k input.gguf t2.gguf 2>err
ok "$? $(ls t2.gguf 2>/dev/null)" "2 " "a size that cannot be is status 2"
quantize -q --target-size 10k input.gguf t2.gguf 2>err
ok "$? $(ls t2.gguf 2>/dev/null)" "2 " "another"
cat input.gguf | quantize --target-bpw 5 - t2.gguf 2>err; ok $? 2 "a pipe cannot be measured first"
quantize --target-bpw 5 --target-size 1M input.gguf t2.gguf 2>/dev/null
ok $? 2 "one target at a time"
quantize --target-bpw 5 --pure input.gguf t2.gguf Q4_0 2>/dev/null; ok $? 2 "--pure is no target"
# Types that are no weights, all of 256x2; the numbers are the file format's.
for type in i8:24:1 i16:25:2 i32:26:4 i64:27:8 f64:28:8; do
    name=${type%%:*} bytes=${type##*:} number=${type#*:}
    { head_ 1 0; info blk.0.attn_q.weight "${number%:*}" 0 256 2; } >int.gguf; pad int.gguf
    head -c $((512 * bytes)) /dev/zero >>int.gguf
    for how in "--target-bpw 5" "--target-size 1M --plan-only"; do
        # shellcheck disable=SC2086
        quantize $how int.gguf -o t2.gguf >out 2>err
        ok "$? $(size out) $(ls t2.gguf 2>/dev/null)" "2 0 " "$how: $name is status 2"
        has "$(cat err)" "blk.0.attn_q.weight: $name cannot be converted" "$how: says why"
    done
done
quantize --target-bpw 5 input.gguf t2.gguf F16 2>/dev/null; ok $? 2 "F16 quantizes nothing"

# ---- layers left out ----
layers=$(gguf-inspect --get llama.block_count m.gguf)
quantize -q --prune-layers 0 m.gguf p.gguf Q8_0;   ok $? 0 "--prune-layers"
ok "$(gguf-inspect --get llama.block_count p.gguf)" $((layers - 1)) "counts what is left"
quantize -q m.gguf q.gguf Q8_0
ok "$(gguf-inspect --hash q.gguf | grep blk.1. | sed 's/blk.1/blk.0/' | sort)" \
    "$(gguf-inspect --hash p.gguf | grep blk | sort)" "the others move up"
gguf-inspect --check p.gguf >/dev/null 2>&1;       ok $? 0 "and the model is sound"
tokenize -m p.gguf Hello | decode -m p.gguf --top 1 --text >out 2>err; ok $? 0 "and runs"
quantize -q --override-kv 'llama.a=json:[7,8]' m.gguf a.gguf COPY
quantize -q --prune-layers 0 a.gguf p.gguf COPY
ok "$(gguf-inspect --get llama.a p.gguf)" 8 "lists of a value for each layer get shorter"
quantize --prune-layers 7 m.gguf p2.gguf Q8_0 2>err; ok $? 2 "a layer there is not"
quantize --prune-layers 0,1 m.gguf p2.gguf Q8_0 2>err; ok $? 2 "all layers"
quantize --prune-layers 0,,1 m.gguf p2.gguf Q8_0 2>err; ok $? 2 "no number"
imatrix -q -m m.gguf -c 16 -o i.gguf "$root/tests/data/text.txt"
ok "$(quantize -q --imatrix i.gguf --prune-layers 0 --dry-run m.gguf Q4_0 |
    awk -F '\t' '$1 ~ /blk/ && $7 == "yes"' | wc -l | tr -d ' ')" 7 "importance moves with them"
# Layer 1's importance is used for what was layer 1, not for what is now called so.
quantize -q --imatrix i.gguf m.gguf q.gguf Q4_K_S
quantize -q --imatrix i.gguf --prune-layers 0 m.gguf p.gguf Q4_K_S
ok "$(gguf-inspect --hash q.gguf | grep blk.1.attn_q | cut -d ' ' -f 1)" \
    "$(gguf-inspect --hash p.gguf | grep blk.0.attn_q | cut -d ' ' -f 1)" "under its old name"

# ---- shards that stay shards ----
gguf-split -q --max-tensors 9 m.gguf s
count=$(ls s-0* | wc -l | tr -d ' ')
quantize -q --keep-split s-00001-of-*.gguf k.gguf Q4_K_M; ok $? 0 "--keep-split"
ok "$(ls k-0*.gguf | wc -l | tr -d ' ')" "$count" "as many files"
for f in s-0*.gguf; do
    ok "$(gguf-inspect --no-follow --tensors "k${f#s}" | awk 'NR > 1 { print $1 }')" \
        "$(gguf-inspect --no-follow --tensors "$f" | awk 'NR > 1 { print $1 }')" \
        "${f#s}: its tensors"
done
quantize -q m.gguf one.gguf Q4_K_M
gguf-split -q --merge k-00001-of-*.gguf merged.gguf; ok $? 0 "they belong together"
ok "$(gguf-inspect --hash merged.gguf)" "$(gguf-inspect --hash one.gguf)" "and are the model"
ok "$(gguf-inspect --kv merged.gguf)" "$(gguf-inspect --kv one.gguf)" "with its metadata"
quantize -q --keep-split m.gguf single.gguf Q4_K_M; cmp -s single.gguf one.gguf
ok $? 0 "one file stays one"
quantize -q --keep-split s-00001-of-*.gguf s.gguf Q4_K_M 2>err; ok $? 2 "not over the input"
quantize -q --keep-split --report "n-00002-of-$(printf %05d "$count").gguf" s-00001-of-*.gguf \
    n.gguf Q4_0 2>err
ok "$? $(ls n-* 2>/dev/null)" "2 " "no report over one of them"
quantize -q --keep-split s-00001-of-*.gguf - Q4_0 >out 2>err
ok "$? $(size out) $(cat err)" \
    "2 0 quantize: --keep-split: standard output cannot be $count files" \
    "standard output is not several files"
quantize -q --keep-split m.gguf - Q4_K_M | cmp -s - one.gguf; ok $? 0 "but one"
ok "$(ls -A | grep -c -e part -e '^--')" 0 "and nothing is left over"

# ---- in several runs ----
quantize -q m.gguf whole.gguf Q4_K_M
(ulimit -f 200; quantize --resume m.gguf r.gguf Q4_K_M) 2>err; ok $? 2 "a run that is cut short"
ok "$(ls -A | grep -c '^.r.gguf.part') $(ls r.gguf 2>/dev/null)" "2 " \
    "leaves what it had, under another name"
lines=$(wc -l <.r.gguf.part.sums | tr -d ' ')
below 3 "$lines" "several tensors are whole"
printf x | dd of=.r.gguf.part bs=1 seek=$(($(size .r.gguf.part) - 1)) conv=notrunc 2>/dev/null
quantize --resume m.gguf r.gguf Q4_K_M 2>err;      ok $? 0 "the next run goes on"
ok "$(tail -n 1 err)" \
    "quantize: $lines of $(types m.gguf | wc -l |
    tr -d ' ') tensors were there already" "says what it found"
cmp -s r.gguf whole.gguf;                          ok $? 0 "the file is the same"
ok "$(ls -A | grep -c '^.r.gguf.part')" 0 "and nothing is left over"
(ulimit -f 200; quantize -q --resume m.gguf r2.gguf Q4_K_M) 2>/dev/null
printf x | dd of=.r2.gguf.part bs=1 seek=30000 conv=notrunc 2>/dev/null
quantize --resume m.gguf r2.gguf Q4_K_M 2>err; cmp -s r2.gguf whole.gguf
ok $? 0 "what is damaged is written again"
(ulimit -f 200; quantize -q --resume m.gguf r2.gguf Q4_K_M) 2>/dev/null
quantize -q --resume m.gguf r2.gguf Q4_0; quantize -q m.gguf q40.gguf Q4_0
cmp -s r2.gguf q40.gguf;                           ok $? 0 "what belongs to another type too"
(ulimit -f 200; quantize -q --resume m.gguf r3.gguf Q4_K_M) 2>/dev/null
cat m.gguf | quantize -q --resume - r3.gguf Q4_K_M; cmp -s r3.gguf whole.gguf
ok $? 0 "a pipe can go on, too"
quantize --resume m.gguf - Q4_0 >/dev/null 2>&1;   ok $? 2 "to a pipe it cannot"
quantize --resume --report r m.gguf x.gguf Q4_0 2>/dev/null
ok $? 2 "nor report what an earlier run lost"

# ---- names ----
quantize -q m.gguf Q8_0 && quantize -q m.gguf q8.gguf Q8_0; cmp -s ggml-model-Q8_0.gguf q8.gguf
ok $? 0 "without OUT, a name beside IN"
quantize --strict --tensor-type none_such=q8_0 m.gguf x.gguf Q4_0 2>err
ok "$? $(ls x.gguf 2>/dev/null)" "2 " "--strict wants patterns to match"
quantize -q --tensor-type none_such=q8_0 m.gguf x.gguf Q4_0; ok $? 0 "without it they need not"
echo "1..$n"
