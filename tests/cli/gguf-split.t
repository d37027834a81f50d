#!/bin/sh
# gguf-split.t - models cut and joined, against files put together by hand; speaks TAP.
. "$(dirname "$0")/../tap.sh"
none() { ok "$(ls -A | grep -cE "^$1-0|part$")" 0 "$2"; }    # PREFIX NAME

. "$root/tests/cli/gguf-bytes.sh"

# ---- three tensors of 40, 8 and 32 bytes, and shards of them, byte by byte ----
zeros() { head -c "$1" /dev/zero; }
data_a() { printf 'aaaabbbbccccddddeeeeffffgggghhhhiiiijjjj'; zeros 24; }
data_b() { printf 'klmnopqr'; zeros 24; }
data_c() { printf '0123456789abcdef0123456789abcdef'; }
meta() { key general.name 8; str Tiny; key n 4; le 7 4; }
split_keys() { # NO COUNT TENSORS
    key split.no 2; le "$1" 2; key split.count 2; le "$2" 2; key split.tensors.count 5; le "$3" 4
}
file() { # FILE HEAD-CALLS... -- DATA-CALLS...
    f=$1; shift
    : >"$f"
    while [ "$1" != -- ]; do $1 >>"$f"; shift; done
    shift
    pad "$f"
    for call; do $call >>"$f"; done
}
file whole.gguf "head_ 3 2" meta "info a 0 0 10" "info b 0 64 2" "info c 0 96 8" -- data_a data_b \
    data_c
file w1 "head_ 2 5" meta "split_keys 0 2 3" "info a 0 0 10" "info b 0 64 2" -- data_a data_b
file w2 "head_ 1 3" "split_keys 1 2 3" "info c 0 0 8" -- data_c

gguf-split --max-tensors 2 whole.gguf s; ok $? 0 "a model is cut"
ok "$(ls s-*)" "s-00001-of-00002.gguf
s-00002-of-00002.gguf" "into files with the names that readers look for"
equal s-00001-of-00002.gguf w1 "the first has metadata, keys and tensors"
equal s-00002-of-00002.gguf w2 "the second keys and tensors"
gguf-split --merge s-00001-of-00002.gguf out.gguf; ok $? 0 "they are joined"
equal out.gguf whole.gguf "to the file that was cut"
gguf-split --merge s-00001-of-00002.gguf | cmp - whole.gguf; ok $? 0 "on standard output too"
rm s-*
cat whole.gguf | gguf-split --max-tensors 2 - -o s; ok $? 0 "a pipe is cut"
cat s-* >a; cat w1 w2 >b; equal a b "into the same files"

file f1 "head_ 0 5" meta "split_keys 0 3 3" --
file f2 "head_ 2 3" "split_keys 1 3 3" "info a 0 0 10" "info b 0 64 2" -- data_a data_b
file f3 "head_ 1 3" "split_keys 2 3 3" "info c 0 0 8" -- data_c
gguf-split --no-tensor-first-split --max-tensors 2 whole.gguf f
cat f-0000?-of-00003.gguf >a; cat f1 f2 f3 >b
equal a b "--no-tensor-first-split leaves the first to metadata"
gguf-split --merge f-00001-of-00003.gguf | cmp - whole.gguf; ok $? 0 "which can be joined"
ok "$(gguf-split --no-tensor-first-split --max-tensors 2 --dry-run whole.gguf f)" \
"$(printf 'file\ttensors\tbytes\n'
   for i in 1 2 3; do printf 'f-0000%s-of-00003.gguf\t%s\t%s\n' $i $(((4 - i) % 3)) "$(wc -c <f$i)"
   done
   printf 'total\t3\t%s\n' "$(cat f1 f2 f3 | wc -c)")" "--dry-run tells what that is"
gguf-split --max-tensors 1 s-00001-of-00002.gguf t; ok "$(ls t-* | wc -l)" 3 "shards are cut anew"
gguf-split --merge t-00001-of-00003.gguf | cmp - whole.gguf; ok $? 0 "and joined"
gguf-split whole.gguf d; ok "$(ls d-*)" d-00001-of-00001.gguf "what fits is one shard"
gguf-split --merge d-00001-of-00001.gguf | cmp - whole.gguf; ok $? 0 "which --merge makes whole"
cat d-00001-of-00001.gguf | gguf-split --merge - | cmp - whole.gguf; ok $? 0 "from a pipe as well"

# ---- sizes ----
one=$(wc -c <w1)                              # the exact size of a shard
gguf-split --max-size "$one" whole.gguf z;    ok "$(ls z-* | wc -l)" 2 "a limit is the file's size"
ok "$(gguf-split --max-size "$one" --dry-run whole.gguf z | cut -f 2 | tr '\n' ' ')" \
    "tensors 2 1 3 " \
   "which two tensors fill to the byte"
gguf-split --max-size $((one - 1)) whole.gguf y 2>err
ok "$(gguf-split --max-size $((one - 1)) --dry-run whole.gguf y | cut -f 2 | tr '\n' ' ')" \
   "tensors 1 2 3 " "one byte less holds one"
ok "$(cat err)" "" "without a warning"
gguf-split --max-size $(($(wc -c <f1) - 1)) whole.gguf x 2>err
ok $? 0 "a limit that the metadata do not keep"
has "$(cat err)" "the metadata cannot be divided" "is told"
gguf-split --max-size 1 whole.gguf v 2>err;   ok "$(ls v-* | wc -l)" 4 "a tensor is not divided"
has "$(cat err)" "the metadata cannot be divided, nor 3 others" "which is told"
for p in z y x v; do
    gguf-split --merge $p-00001-of-*.gguf | cmp - whole.gguf; ok $? 0 "and nothing is lost ($p)"
done
gguf-split --max-size 100K "$m" big
ok "$(find . -name 'big-*' -size +100000c | wc -l)" 0 "no file of a model is larger than asked"
gguf-split --merge big-00001-of-*.gguf | cmp - "$m"; ok $? 0 "and the model is the same again"
ok "$(tokenize -m "$m" hello | decode -m "$m" --top 1 --text | cut -f 5)" \
   "$(gguf-split --merge big-00001-of-*.gguf >j.gguf; tokenize -m j.gguf hello |
      decode -m j.gguf --top 1 --text | cut -f 5)" "and runs"
quantize -q big-00001-of-*.gguf q.gguf Q8_0; quantize -q "$m" q2.gguf Q8_0
equal q.gguf q2.gguf "quantize takes the shards as the model"

# ---- order, gaps, alignment, byte order, stale keys ----
gap() { data_c; zeros 32; data_b; data_a; }
file gaps.gguf "head_ 3 2" meta "info a 0 96 10" "info b 0 64 2" "info c 0 0 8" -- gap
file g1 "head_ 2 5" meta "split_keys 0 2 3" "info c 0 0 8" "info b 0 32 2" -- data_c data_b
file g2 "head_ 1 3" "split_keys 1 2 3" "info a 0 0 10" -- data_a
cat gaps.gguf | gguf-split --max-tensors 2 - g
cat g-0000* >a; cat g1 g2 >b; equal a b "tensors stand in the order of their data"
stale() { key split.count 2; le 0 2; key split.no 2; le 0 2; }
file stale.gguf "head_ 3 4" stale meta "info a 0 0 10" "info b 0 64 2" "info c 0 96 8" -- data_a \
    data_b data_c
gguf-split --max-tensors 2 stale.gguf s; equal s-00001-of-00002.gguf w1 "stale keys are replaced"
al() { key general.alignment 4; le 64 4; }
{ head_ 2 1; al; info a 0 0 10; info c 0 64 8; } >al.gguf
zeros $(((64 - $(wc -c <al.gguf) % 64) % 64)) >>al.gguf; { data_a; data_c; zeros 32; } >>al.gguf
gguf-split --max-tensors 1 al.gguf al
ok "$(gguf-inspect -j --no-follow al-00002-of-00002.gguf |
    grep -oE '"(alignment|data_offset)":[0-9]+' | tr '\n' ' ')" \
   '"alignment":64 "data_offset":192 ' "every shard keeps the alignment"
gguf-split --merge al-00001-of-00002.gguf | cmp - al.gguf; ok $? 0 "and the whole does"
{ printf GGUF; be 3 4; be 2 8; be 1 8; be 1 8; printf k; be 5 4; be -2 4
  be 1 8; printf t; be 1 4; be 2 8; be 0 4; be 0 8
  be 1 8; printf u; be 1 4; be 2 8; be 0 4; be 32 8; } >be.gguf
pad be.gguf; { data_b; data_b; } >>be.gguf
gguf-split --max-tensors 1 be.gguf be
ok "$(gguf-inspect -j --no-follow be-00002-of-00002.gguf | grep -o '"byte_order":"[a-z]*"')" \
   '"byte_order":"big"' "a big-endian file gives big-endian shards"
gguf-split --merge be-00001-of-00002.gguf | cmp - be.gguf; ok $? 0 "and they the file"
if zstd -qc whole.gguf >whole.zst 2>/dev/null; then
    rm s-*; gguf-split --max-tensors 2 whole.zst s
    cat s-* >a; cat w1 w2 >b; equal a b "a compressed file is cut"
    gguf-split --merge s-00001-of-00002.gguf o.gguf.zst && zstd -qdc o.gguf.zst | cmp - whole.gguf
    ok $? 0 "and shards are joined to one"
fi

# ---- shards that do not belong together ----
mkdir bad && cd bad || exit 1
set_() { cp ../w1 p-00001-of-00002.gguf; cp ../w2 p-00002-of-00002.gguf; }
joined() { # STATUS PART NAME
    gguf-split --merge p-00001-of-00002.gguf o.gguf >out 2>err; ok $? "$1" "$3"
    has "$(cat err)" "$2" "$3: told"
    [ ! -e o.gguf ]; ok $? 0 "$3: no output"
}
rm -f p-*; cp ../w1 p-00001-of-00002.gguf
joined 2 "p-00002-of-00002.gguf: cannot open" "a shard is not there"
set_; cp ../w1 p-00002-of-00002.gguf
joined 1 "p-00002-of-00002.gguf: says it is shard 1 of 2" "the first twice"
set_; cp ../f3 p-00002-of-00002.gguf; joined 1 "says it is shard 3 of 3" "one of another model"
set_; cp ../whole.gguf p-00002-of-00002.gguf; joined 1 "and not 2 of 2" "a whole model for a shard"
set_; file p-00002-of-00002.gguf "head_ 1 3" "split_keys 1 2 3" "info a 0 0 8" -- data_c
joined 1 "tensor a is also in" "a tensor twice"
set_; file p-00002-of-00002.gguf "head_ 0 3" "split_keys 1 2 3" --
joined 1 "should hold 3 tensors, but have 2" "a tensor missing"
set_; head -c -1 ../w2 >p-00002-of-00002.gguf
joined 1 "p-00002-of-00002.gguf: tensor c: " "a shard cut short"
set_; : >p-00002-of-00002.gguf; joined 1 "p-00002-of-00002.gguf: empty" "an empty shard"
set_; cp ../be-00002-of-00002.gguf p-00002-of-00002.gguf
joined 2 "is big-endian" "one of the other byte order"
set_; mv p-00001-of-00002.gguf first.gguf
gguf-split --merge first.gguf o.gguf 2>err; ok $? 2 "a first shard of another name"
has "$(cat err)" "NAME-00001-of-00002.gguf" "is told what it should be called"
gguf-split --merge p-00002-of-00002.gguf o.gguf 2>err; ok $? 2 "a later shard"
has "$(cat err)" "is shard 2 of 2: the first is wanted" "is told so"
cat ../w1 | gguf-split --merge - o.gguf 2>err; ok $? 2 "a pipe has no other shards"
gguf-split --merge ../whole.gguf o.gguf 2>err; ok $? 1 "a model that is no shard"
has "$(cat err)" "whole.gguf: is no shard" "is told so"
lost() { split_keys 1 2 3; key only.here 4; le 1 4; }
set_; file p-00002-of-00002.gguf "head_ 1 4" lost "info c 0 0 8" -- data_c
gguf-split --merge p-00001-of-00002.gguf 2>err | cmp - ../whole.gguf
ok $? 0 "metadata of later shards are left out"
has "$(cat err)" "p-00002-of-00002.gguf: key only.here " "with a warning"
set_
for out in p-00002-of-00002.gguf ./p-00001-of-00002.gguf; do
    gguf-split --merge p-00001-of-00002.gguf $out 2>err; ok $? 2 "an output that is an input: $out"
done
gguf-split --max-tensors 2 p-00001-of-00002.gguf p 2>err; ok $? 2 "also when cutting"
cat p-* >a; cat ../w1 ../w2 >b; equal a b "and the shards are untouched"
cd ..

# ---- all or none ----
head -c -1 whole.gguf >cut.gguf
gguf-split --max-tensors 1 cut.gguf c 2>err; ok $? 1 "a file cut short is refused"
none c "and nothing written"
cat cut.gguf | gguf-split --max-tensors 1 - c 2>err; ok $? 1 "from a pipe, at its end"
has "$(cat err)" "<stdin>: tensor c" "naming the tensor"
none c "and no shard appears"
echo old >c-00001-of-00003.gguf
cat cut.gguf | gguf-split --max-tensors 1 - c 2>/dev/null
ok "$(cat c-*)" old "an older one stays"
mkdir c-00003-of-00003.gguf
gguf-split --max-tensors 1 whole.gguf c 2>err; ok $? 2 "a name that is a folder"
has "$(cat err)" "c-00003-of-00003.gguf: " "is told"
ok "$(cat c-00001* ; ls -d c-* | wc -l)" "old
2" "and no shard appears either"
rm -r c-*
(ulimit -f 1; gguf-split --max-tensors 10 "$m" c 2>err); ok $? 2 "a limit on file sizes"
none c "leaves nothing"
mkfifo pipe
gguf-split --max-tensors 1 pipe c & pid=$!
{ head -c $(($(wc -c <whole.gguf) - 20)) whole.gguf; i=0
  while [ $i -lt 100 ] && [ "$(ls -A | grep -c 'of-00003.*part$')" -lt 3 ]; do sleep 0.05
  i=$((i + 1)); done
  ls -A | grep -c 'of-00003.*part$' >parts
  kill $pid; wait $pid 2>/dev/null; } >pipe 2>/dev/null
wait $pid; ok $? 143 "a signal ends it"
ok "$(cat parts)" 3 "when three files were begun"
none c "and they are removed"
gguf-split --merge s-00001-of-00002.gguf /dev/full 2>/dev/null; ok $? 2 "a full disk is noticed"
gguf-split --merge s-00001-of-00002.gguf >/dev/full 2>/dev/null; ok $? 2 "on standard output too"

# ---- usage ----
for o in "whole.gguf" "whole.gguf p q" "whole.gguf -" "--max-size 1K --max-tensors 2 whole.gguf p" \
    "--max-size 0 whole.gguf p" "--max-size x whole.gguf p" "--max-tensors 0 whole.gguf p" \
    "--merge --max-size 1K w1 p" "--merge --no-tensor-first-split w1 p" "--merge"; do
    # shellcheck disable=SC2086
    gguf-split $o >out 2>err;            ok $? 2 "$o is wrong usage"
done
ok "$(ls -A | grep -c '^p-')" 0 "nothing written"
gguf-split --provenance --max-tensors 2 whole.gguf p
ok "$(gguf-inspect --get lmpipe.provenance p-00001-of-00002.gguf | sed 's/.*: //')" \
   "--provenance --max-tensors 2 whole.gguf p" "--provenance names the arguments"
has "$(gguf-split -v --max-tensors 2 whole.gguf p 2>&1)" "p-00002-of-00002.gguf: 1 tensors" \
    "-v names the files"

# ---- hostile files ----
. "$root/tests/cli/gguf-refused.sh"
refuse_hostile gguf-split
echo "1..$n"
