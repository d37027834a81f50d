#!/bin/sh
# quantize.t - quantize against llama.cpp's files, in pipes, on odd input and when things
# fail; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/gguf-bytes.sh"
refused() { # STATUS PART NAME ARGUMENT...: out.gguf stays what it was, nothing is left over
    want=$1 part=$2 name=$3; shift 3
    echo old >out.gguf
    rm -f stdout err
    before=$(ls -A)
    quantize "$@" >stdout 2>err; ok $? "$want" "$name is status $want"
    has "$(cat err)" "$part" "$name: says $part"
    rm -f stdout err
    ok "$(cat out.gguf) $(ls -A)" "old $before" "$name: the old file stays"
}
sum() { sha256sum "$1" | cut -c -64; }
types() { gguf-inspect --tensors "$1" | awk 'NR > 1 { print $1, $2 }'; }

# ---- the same bytes as llama.cpp ----
cp "$root/tests/data/e2e/input.gguf" "$root/tests/data/e2e/imatrix.gguf" .
while IFS=$(printf '\t') read -r sha type options; do
    # shellcheck disable=SC2086
    quantize -q --sort $(echo "$options" | tr '\t' ' ') input.gguf q.gguf "$type" 2>err
    ok "$(cat err; sum q.gguf)" "$sha" "$type $options"
done <"$root/tests/data/e2e/runs.tsv"
sha=$(awk '$2 == "Q4_K_M" && $3 == "--imatrix" && NF == 4 { print $1 }' \
    "$root/tests/data/e2e/runs.tsv")
for isa in scalar avx2 avx512; do
    LMPIPE_ISA=$isa quantize -q --sort --imatrix imatrix.gguf input.gguf q.gguf q4_k_m
    ok "$(sum q.gguf)" "$sha" "Q4_K_M with $isa"
done
quantize -q --sort --imatrix imatrix.gguf input.gguf q.gguf 15 3
ok "$(sum q.gguf)" "$sha" "Q4_K_M by number, three threads"

# ---- order, pipes, compression ----
quantize input.gguf q.gguf Q4_K_M 2>err; ok $? 0 "without --sort"
ok "$(grep -c 'tensor .*: rows of [0-9]* weights do not suit .*: .* instead$' err) $(head -n 1 \
    err)" \
   "2 quantize: tensor blk.0.odd_row.weight: rows of 96 weights do not suit q4_K: q5_0 instead" \
   "a line for each tensor that got another type"
quantize input.gguf q8.gguf F16 2>err; ok "$(cat err)" "" "nothing is said where there is nothing"
ok "$(types q.gguf | cut -d ' ' -f 1)" "$(types input.gguf | cut -d ' ' -f 1)" \
    "tensors keep the input's order"
quantize -q --sort q.gguf s.gguf COPY
ok "$(sum s.gguf)" \
    "$(awk '$2 == "Q4_K_M" && NF == 2 { print $1 }' "$root/tests/data/e2e/runs.tsv")" \
   "sorted afterwards, the same file"
cat input.gguf | quantize - - Q4_K_M 2>err | cat >p.gguf
cmp -s q.gguf p.gguf; ok $? 0 "through pipes, the same file"
quantize -q -t 1 input.gguf - Q4_K_M | cmp -s q.gguf; ok $? 0 "with one thread too"
quantize -q -o p.gguf input.gguf Q4_K_M; cmp -s q.gguf p.gguf; ok $? 0 "-o names the output"
if zstd -qc input.gguf >input.gguf.zst 2>/dev/null; then
    quantize -q input.gguf.zst q.gguf.zst Q4_K_M
    zstd -qdc q.gguf.zst | cmp -s q.gguf; ok $? 0 "compressed in, compressed out"
    refused 2 "cannot sort" "sorting a compressed file" --sort input.gguf.zst out.gguf Q8_0
fi
cat input.gguf | quantize --sort - p2.gguf Q8_0 2>err; ok $? 2 "sorting a pipe is refused"
{ cat input.gguf; head -c 200000 /dev/zero; echo $? >writer; } | quantize -q - q2.gguf Q4_K_M
ok "$(cat writer)" 0 "input is read to its end, for the writer's sake"
cmp -s q.gguf q2.gguf; ok $? 0 "and what follows the tensors ignored"

# ---- options ----
for size in 1 1000 64Ki 1G; do
    quantize -q --max-buffer-size $size input.gguf p.gguf Q4_K_M; cmp -s q.gguf p.gguf
    ok $? 0 "--max-buffer-size $size: the same file"
done
quantize --max-buffer-size 0 input.gguf p.gguf Q4_K_M 2>/dev/null; ok $? 2 "none is refused"
ok "$(quantize -q --dry-run input.gguf Q4_K_M | awk -F '\t' '$1 == "output.weight"')" \
   "$(printf 'output.weight\t256x5\tf16\tq6_K\t2560\t1050\tno')" "--dry-run prints the plan"
ok "$(quantize -q --dry-run input.gguf Q4_K_M | awk -F '\t' 'END { print NR, $1, $5 }')" \
    "43 total 68400" \
   "with a total"
ok "$(ls p3.gguf 2>/dev/null; quantize -q --dry-run input.gguf p3.gguf \
    Q4_K_M >out; ls p3.gguf 2>/dev/null)" "" \
   "and writes no model"
ok "$(quantize --dry-run --imatrix imatrix.gguf --include-weights ffn_ input.gguf \
    Q4_K_M 2>/dev/null |
      awk -F '\t' '$7 == "yes" { print $1 }' | grep -vc ffn_)" 0 "--include-weights"
printf 'attn_q=q8_0\n  FFN_(?:up|gate)\\.=Q5_1 ' >wishes
quantize -q --tensor-type 'blk\.0.*_q=q4_1' --tensor-type-file wishes input.gguf w.gguf Q4_0
ok "$(types w.gguf | grep -E 'blk.[01].(attn_q|ffn_up|ffn_gate|ffn_down)\.' | tr '\n' ' ')" \
    "blk.0.attn_q.weight q4_1 blk.0.ffn_gate.weight q5_1 blk.0.ffn_up.weight q5_1 \
blk.0.ffn_down.weight q4_0 blk.1.attn_q.weight q8_0 blk.1.ffn_gate.weight q5_1 \
blk.1.ffn_up.weight q5_1 blk.1.ffn_down.weight q4_0 " \
   "patterns: the first that matches"
quantize -q --override-kv a.b=i16:-3 --override-kv 'a.c=json:["x","y"]' \
    --override-kv general.name=str:N input.gguf w.gguf Q8_0
ok "$(gguf-inspect --get a.b w.gguf) $(gguf-inspect --get a.c w.gguf |
    tr '\n' ' ')$(gguf-inspect --get general.name w.gguf)" \
   '-3 "x" "y" N' "--override-kv"
for arg in x x=y x=u8:256 x=i8:-129 x=bool:1 x=u32:-1 x=f32:z x=json:1 x=what:1 'x=json:[1,"a"]' \
    =u8:1; do
    quantize --override-kv "$arg" input.gguf out.gguf Q8_0 2>/dev/null
    ok $? 2 "--override-kv $arg is refused"
done
for arg in 'a(=q8_0' 'a(?=b)=q8_0' '\1=q8_0' '[a=q8_0' =q8_0 a=q9_9 a=i32 a; do
    quantize --tensor-type "$arg" input.gguf out.gguf Q8_0 2>/dev/null
    ok $? 2 "--tensor-type $arg is refused"
done
quantize -q --provenance input.gguf w.gguf Q8_0
has "$(gguf-inspect --get lmpipe.provenance w.gguf)" "quantize (lmpipe) " "--provenance"
quantize -v input.gguf w.gguf Q8_0 2>err
ok "$(gguf-inspect --kv w.gguf | grep -c provenance)" 0 "none without it"
has "$(cat err)" "blk.0.attn_q.weight: f16 to q8_0" "-v says what becomes of each"

# ---- wrong usage ----
refused 2 "operands wanted: IN [OUT] TYPE [THREADS]" "no type" input.gguf out.gguf
refused 2 "operands wanted: IN OUT [TYPE] [THREADS]" "a target without output" --target-bpw 5 \
    input.gguf
quantize -q input.gguf q4_0 2
ok "$? $(ls)" "0 $(printf '%s\nggml-model-Q4_0.gguf\n' "$(ls | grep -v ggml-model-Q4_0)" | sort)" \
   "a type in the output's place is the type"
rm ggml-model-Q4_0.gguf
quantize -q --target-bpw 8 input.gguf q4_0
ok "$? $(ls -d q4_0 ggml-model-Q4_0.gguf 2>/dev/null)" "0 ggml-model-Q4_0.gguf" "with a target, too"
quantize -q --target-bpw 8 input.gguf ./q4_0; ok "$? $(ls q4_0)" "0 q4_0" "./ makes it a file"
rm q4_0 ggml-model-Q4_0.gguf
refused 2 "operands" "surplus operands" input.gguf out.gguf Q8_0 1 more
refused 2 "not one of the types" "a type there is not" input.gguf out.gguf Q9_9
refused 2 "not a number" "threads of no number" input.gguf out.gguf Q8_0 many
refused 2 "/no/such" "no input" /no/such out.gguf Q8_0
refused 2 "/no/such" "no importance" --imatrix /no/such input.gguf out.gguf Q8_0
refused 2 "need --imatrix" "importance left out of none" --exclude-weights a input.gguf out.gguf \
    Q8_0

# ---- input is output ----
cp input.gguf in.gguf
ln -s in.gguf link.gguf && ln in.gguf hard.gguf && before=$(sum in.gguf)
for out in in.gguf ./in.gguf "$dir/in.gguf" link.gguf hard.gguf; do
    quantize in.gguf "$out" Q8_0 2>err;   ok $? 2 "$out as its own output is refused"
    ok "$(sum in.gguf) $(wc -l <err)" "$before 1" "and untouched"
done
quantize - in.gguf Q8_0 <in.gguf 2>/dev/null; ok $? 2 "also from standard input"
quantize in.gguf - Q8_0 2>/dev/null >>in.gguf; ok $? 2 "and to standard output"
quantize --imatrix imatrix.gguf in.gguf imatrix.gguf Q8_0 2>/dev/null
ok $? 2 "and over the importance"
ok "$(sum in.gguf) $(sum imatrix.gguf)" "$before $(sum "$root/tests/data/e2e/imatrix.gguf")" \
    "all untouched"
shard 0 s-00001-of-00002.gguf; shard 1 s-00002-of-00002.gguf; before=$(sum s-00002-of-00002.gguf)
quantize s-0000* Q8_0 2>err; ok $? 2 "a second shard in the output's place is refused"
ok "$(sum s-00002-of-00002.gguf)" "$before" "and untouched"

# ---- a model in shards ----
quantize s-00001-of-00002.gguf one.gguf Q8_0 2>err; ok $? 0 "shards become one file"
ok "$(types one.gguf | tr '\n' ' ')" "t0 f32 t1 f32 " "with all tensors"
ok "$(gguf-inspect --kv one.gguf | grep -c split)" 0 "and no word of shards"
refused 1 "shard 2 of 2, and not 1" "a later shard" s-00002-of-00002.gguf out.gguf Q8_0
cp s-00001-of-00002.gguf other.gguf
refused 2 "cannot be found" "a first shard by another name" other.gguf out.gguf Q8_0
mv s-00002-of-00002.gguf away
refused 2 "shard s-00002-of-00002.gguf" "a missing shard" s-00001-of-00002.gguf out.gguf Q8_0
shard 0 s-00002-of-00002.gguf
refused 1 "shard 1 of 2, and not 2" "a shard that is another" s-00001-of-00002.gguf out.gguf Q8_0

# ---- full disks ----
quantize input.gguf /dev/full Q8_0 2>err; ok $? 2 "a full disk is status 2"
has "$(cat err)" "/dev/full: " "and told with the file's name"
quantize input.gguf - Q8_0 >/dev/full 2>/dev/null; ok $? 2 "also on standard output"
echo old >out.gguf
(ulimit -f 8; quantize "$m" out.gguf F32) 2>err; ok $? 2 "a limit on file sizes is status 2"
ok "$(cat out.gguf; ls -A | grep -c part)" "$(printf 'old\n0')" \
    "and leaves the old file, and no other"

# ---- faulty input ----
size=$(wc -c <input.gguf)
for cut in 10 500 2900 3000 $((size - 500)); do
    head -c "$cut" input.gguf >cut.gguf
    refused 1 cut.gguf "input cut to $cut bytes" cut.gguf out.gguf Q8_0
    cat cut.gguf | quantize -q - p.gguf Q8_0 2>/dev/null; ok $? 1 "also in a pipe"
done
head -c $((size - 16)) input.gguf >cut.gguf    # the last tensor is whole, its padding not
quantize cut.gguf p.gguf Q8_0 2>/dev/null; ok $? 0 "padding at the end may be missing"

one() { # NAME TYPE DIM...: a file of one tensor in one.gguf, its data to be added
    name=$1 type=$2; shift 2
    { head_ 1 0; info "$name" "$type" 0 "$@"; } >one.gguf; pad one.gguf
}
one a.weight 0 32 2; head -c 252 /dev/zero >>one.gguf; le $((0x7fc00000)) 4 >>one.gguf
refused 1 "a.weight: row 1, column 31" "a NaN" one.gguf out.gguf Q8_0
refused 1 "a.weight: row 1, column 31" "a NaN to be copied" one.gguf out.gguf COPY
one a.weight 0 32 2; head -c 252 /dev/zero >>one.gguf; le $((0x47800000)) 4 >>one.gguf
refused 2 "too large for f16" "65536 as f16" one.gguf out.gguf F16
quantize -q one.gguf p.gguf BF16; ok $? 0 "and as bf16 it is fine"
one a.weight 0 256 2; head -c 2044 /dev/zero >>one.gguf; le $((0x7149f2ca)) 4 >>one.gguf    # 1e30
while read -r type name; do
    refused 2 "weights from row 1, column 255 are too large for $name" "1e30 as $type" \
        one.gguf out.gguf $type
done <<'END'
Q4_0 q4_0
Q4_1 q4_1
Q5_0 q5_0
Q5_1 q5_1
Q8_0 q8_0
Q2_K q2_K
Q3_K_M q3_K
Q4_K_M q4_K
Q5_K_M q5_K
Q6_K q6_K
IQ4_NL iq4_nl
IQ4_XS iq4_xs
IQ3_S iq3_s
TQ1_0 tq1_0
TQ2_0 tq2_0
END
quantize -q --tensor-type .=mxfp4 one.gguf p.gguf MXFP4_MOE && gguf-inspect -q --stats p.gguf >out
ok "$? $(grep -c '9.5073795e+29' out)" "0 1" "mxfp4 comes near it"
one a.weight 0 0 2; refused 1 "a.weight: dimension 0 is 0" "an empty tensor" one.gguf out.gguf Q8_0
one a.weight 26 32 2; head -c 256 /dev/zero >>one.gguf
refused 2 "i32 cannot be converted" "integers" one.gguf out.gguf Q8_0
quantize -q q.gguf --allow-requantize p.gguf Q8_0; ok $? 0 "--allow-requantize"
refused 2 "requantizing from type" "a quantized source" q.gguf out.gguf Q8_0
refused 2 "requantizing from type" "also towards F16" q.gguf out.gguf F16
{ printf GGUF; be 3 4; be 0 8; be 0 8; } >big.gguf
refused 2 big-endian "a big-endian file" big.gguf out.gguf Q8_0

# ---- patterns that would take all memory are refused, large ones are not ----
for pattern in '((a{1000}){1000}){1000}' '(((((((((.?){9}){9}){9}){9}){9}){9}){9}){9})' \
    'a{99}{99}{99}' 'a{99999999999999999999}' '(a{100,}){100,}' '(?:[ab]{1,200}?\.){60}' \
    "$(printf '%20s' '' | tr ' ' '(')a$(printf '%20s' '' | sed 's/ /+)/g')"; do
    (ulimit -t 20; quantize --tensor-type "$pattern=q8_0" input.gguf p.gguf Q4_0) 2>err
    ok "$? $(grep -c -e '--tensor-type: .*: too large: more than 10000' err)" "2 1" \
        "$(printf %.50s "$pattern") is too large"
    echo "$pattern=q8_0" >wishes
    (ulimit -t 20; quantize --tensor-type-file wishes input.gguf p.gguf Q4_0) 2>err
    ok "$? $(grep -c -e '--tensor-type-file: .*: too large' err)" "2 1" "in a file too"
done
for pattern in "$(printf '%101s' '' | tr ' ' '(')" "$(printf '%10001s' '' | tr ' ' a)" 'a)' '(a' \
    'a{' 'a{}' 'a{b}' 'a{,3}' 'a{2,1}' '[[.].]a]' '[[=a=]]' '[[:digit]' '[[:none:]]'; do
    quantize --tensor-type "$pattern=q8_0" input.gguf p.gguf Q4_0 2>/dev/null
    ok $? 2 "$(printf %.50s "$pattern") is no pattern"
done
while read -r pattern count; do
    ok "$(quantize -q --tensor-type "$pattern=q5_1" --dry-run input.gguf Q4_0 |
        awk -F '\t' '$4 == "q5_1"' | wc -l)" "$count" "$pattern: $count tensors"
done <<'END'
^blk\.[0-9]{1}\.attn_q\.weight$ 4
^blk\.\d{1,3}?\.attn_q\.weight$ 4
^(?:[a-z]{3}){1}\.\d{1,}\.(a[t]{2}n_q|attn_k){1}\.weight$ 8
^(.{0,90}){100}attn_q\.weight$ 4
^blk\.[[:digit:]]{1}\.attn_[xq[]\.weight$ 4
^blk[[\.][[:digit:]][\[.]attn_[q\[:]\.weight$ 4
^b{2}lk\.0\.attn_q\.weight$ 0
END

# ---- rows that do not suit a type ----
{ head_ 2 0; info wide.weight 0 0 320 8; info odd.weight 0 10240 100 8; } >rows.gguf; pad rows.gguf
head -c $((10240 + 3200)) /dev/zero >>rows.gguf
quantize --tensor-type wide=q4_k --tensor-type odd=q5_0 rows.gguf p.gguf Q8_0 2>err
ok "$? $(types p.gguf | tr '\n' ' ')" "0 wide.weight q5_0 odd.weight f16 " \
    "other types take their place"
ok "$(wc -l <err)" 2 "with a warning each"
ok "$(gguf-inspect --check p.gguf; echo $?)" 0 "and the file is sound"
refused 2 "rows of 100 weights" "an output type that cannot be" --output-tensor-type q4_0 \
    rows.gguf out.gguf q1_0

# ---- importance ----
{ head_ 2 4; key general.type 8; str imatrix; key imatrix.chunk_count 4; le 1 4
  key imatrix.chunk_size 4; le 512 4; key imatrix.datasets 9; le 8 4; le 0 8
  info a.weight.in_sum2 0 0 256 1
  info a.weight.counts 0 1024 1 1; } >large.gguf; pad large.gguf
for i in $(seq 256); do le $((0x7e967699)) 4; done >>large.gguf           # 1e38
le $((0x3f800000)) 4 >>large.gguf; pad large.gguf
one a.weight 0 256 2; for i in $(seq 512); do le $((0x3f800000 + i * 4096)) 4; done >>one.gguf
refused 1 "a.weight: importance of the weights from row 0, column 0 is too large for q4_K" \
    "importance that is finite, but sums of it are not" --imatrix large.gguf one.gguf out.gguf \
    Q4_K_M
one a.weight 0 256 2; for i in $(seq 512); do le $((0x7e967699)) 4; done >>one.gguf
refused 2 "weights from row 0, column 0 are too large for q4_K" "weights like that" \
    --imatrix large.gguf one.gguf out.gguf Q4_K_M
quantize --imatrix imatrix.gguf --exclude-weights blk.0.ffn_gate.weight input.gguf p.gguf \
    Q4_K_M 2>err
ok $? 0 "importance that lacks a tensor will do for Q4_K_M"
has "$(cat err)" "blk.0.ffn_gate.weight" "with a warning"
refused 2 "blk.0.ffn_gate.weight: no importance, wanted 256 values for iq2_xxs" \
    "but not for IQ2_XXS" --imatrix imatrix.gguf --exclude-weights blk.0.ffn_gate.weight \
    input.gguf out.gguf IQ2_XXS
refused 2 "importance is missing for 24 tensors, of another size for 0" \
    "no importance at all neither" -q input.gguf out.gguf IQ2_XXS
quantize -q input.gguf out.gguf IQ2_XXS 2>err
ok "$(sed '$d' err | grep -c '^quantize: tensor blk.*no importance, wanted .* values')" 24 \
   "each tensor that lacks it is named, with -q too"
ok "$(wc -l <err)" 25 "on a line of its own"
entry() { le ${#1} 4; printf %s "$1"; le 1 4; le "$2" 4; head -c $((4 * $2)) /dev/zero; }
{ le 1 4; entry blk.0.ffn_gate.weight 512; } >other.dat
refused 1 "512 values, wanted 256" "importance of another size" --imatrix other.dat input.gguf \
    out.gguf Q4_K_M
refused 1 "512 values, wanted 256" "the same for IQ2_XXS" --imatrix other.dat input.gguf out.gguf \
    IQ2_XXS
{ le 3 4; entry blk.0.ffn_gate.weight 512; entry blk.1.ffn_down.weight 256
  entry blk.2.attn_q.weight 128; } >others.dat
quantize -q --imatrix others.dat input.gguf out.gguf Q4_K_M 2>err
ok "$? $(cat err)" "1 quantize: tensor blk.0.ffn_gate.weight: importance of 512 values, wanted 256
quantize: tensor blk.1.ffn_down.weight: importance of 256 values, wanted 512
quantize: tensor blk.2.attn_q.weight: importance of 128 values, wanted 256
quantize: input.gguf: importance is missing for 0 tensors, of another size for 3" \
   "all other sizes are told"
quantize -q --imatrix others.dat input.gguf out.gguf IQ2_XXS 2>err
ok "$? $(grep -c ': no importance, wanted ' err) $(grep -c ': importance of ' err)" "1 21 3" \
   "among those that are missing"
{ head_ 103 0; for i in $(seq 0 102); do info "blk.$i.ffn_up.weight" 0 $((i * 2048)) 256 2; done
} >deep.gguf; pad deep.gguf
head -c $((103 * 2048)) /dev/zero >>deep.gguf
quantize -q deep.gguf out.gguf IQ2_XXS 2>err; ok "$(wc -l <err)" 101 "the first hundred are named"
has "$(tail -n 1 err)" "missing for 103 tensors" "and all counted"
quantize -v deep.gguf out.gguf IQ2_XXS 2>err
ok "$(grep -c ': no importance, wanted 256' err)" 103 "with -v all are named"
for how in "input.gguf IQ2_XXS" "--imatrix others.dat input.gguf Q4_K_M" "q.gguf Q2_K"; do
    # shellcheck disable=SC2086
    quantize -q -o out.gguf $how 2>want; status=$?
    # shellcheck disable=SC2086
    quantize -q --dry-run $how >plan 2>err
    ok "$? $(cat err)" "$status $(cat want)" "--dry-run is refused like a run: $how"
    ok "$(cut -f 1 plan | sed -n '1p; $p' | tr '\n' ' ')" "tensor total " "after the plan"
done
ok "$(quantize --dry-run input.gguf IQ2_XXS 2>/dev/null | awk -F '\t' '$4 == "iq2_xxs"' | wc -l)" \
    24 \
   "which does without importance"

# ---- what came of it ----
{ head_ 1 0; info blk.0.ffn_up.weight 2 0 96 4; } >five.gguf; pad five.gguf
head -c 216 /dev/zero >>five.gguf
quantize --allow-requantize five.gguf w.gguf Q6_K 2>err
ok "$? $(tail -n 1 err)" \
    "0 quantize: w.gguf is larger than five.gguf: tensors of 408 bytes, 216 before" \
   "an output that is larger is a warning"
quantize --allow-requantize five.gguf w.gguf F16 2>err; ok "$? $(cat err)" "0 " "but not of floats"
quantize -v --allow-requantize five.gguf - F16 2>err >w.gguf
ok "$(tail -n 1 err)" "quantize: <stdout>: tensors of 768 bytes, 216 before" "-v tells both sizes"

# ---- memory does not grow with the model ----
if sh -c 'ulimit -v 131072; exec quantize --version' >/dev/null 2>&1; then
    one a.weight 1 4096 16384; at=$(wc -c <one.gguf)
    dd if=/dev/zero of=one.gguf bs=1 count=1 seek=$((at + 134217727)) 2>/dev/null
    (ulimit -v 131072; quantize -q -t 2 one.gguf - Q8_0 | wc -c) >size
    ok "$(($(cat size) - 71303168 < 256))" 1 "128 MiB of weights in less address space"
    (ulimit -v 131072; quantize -q -t 2 --max-buffer-size 1G one.gguf p.gguf Q8_0) 2>/dev/null
    ok $? 2 "as long as no larger buffer is asked for"
    # 256 MiB of importance, as of 64 experts' matrices in each of 16 layers
    entry() { info "blk.$1.ffn_up_exps.weight.in_sum2" 0 $(($1 * 16777472)) 65536 64
              info "blk.$1.ffn_up_exps.weight.counts" 0 $(($1 * 16777472 + 16777216)) 1 64; }
    { head_ 32 4; key general.type 8; str imatrix; key imatrix.chunk_count 4; le 1 4
      key imatrix.chunk_size 4; le 512 4; key imatrix.datasets 9; le 8 4; le 0 8
      for i in $(seq 0 15); do entry $i; done; } >many.gguf; pad many.gguf
    at=$((($(wc -c <many.gguf) + 31) / 32 * 32 + 16 * 16777472))
    dd if=/dev/zero of=many.gguf bs=1 count=1 seek=$((at - 1)) 2>/dev/null
    (ulimit -v 131072; quantize -q -t 2 --imatrix many.gguf input.gguf p.gguf Q8_0) 2>err
    ok "$? $(cat err)" "0 " "256 MiB of importance do not have to be in memory, either"
fi
echo "1..$n"
