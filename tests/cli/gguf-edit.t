#!/bin/sh
# gguf-edit.t - metadata changed, against files put together by hand; speaks TAP.
. "$(dirname "$0")/../tap.sh"

. "$root/tests/cli/gguf-bytes.sh"

# ---- a small file and what edits make of it, byte by byte ----
# Two tensors whose infos stand in the other order than their data, a gap between, bytes
# behind them.
data() { printf 'AAAABBBBCCCCDDDD'; head -c 48 /dev/zero; printf 'abcdefgh'; printf tail; }
infos() { info second 0 64 2; info first 0 0 4; }
make() { # FILE ENTRIES...: each entry is a call
    file=$1; shift
    { head_ 2 $#; for e; do $e; done; infos; } >"$file"
    pad "$file"; data >>"$file"
}
name() { key general.name 8; str Tiny; }
other() { key general.name 8; str 'A longer name: x=1'; }
count() { key a.count 4; le 7 4; }
count_u64() { key a.count 10; le 7 8; }
moved() { key b.count 4; le 7 4; }
list() { key a.list 9; le 6 4; le 2 8; le $((0x3f800000)) 4; le $((0x40000000)) 4; }
words() { key a.words 9; le 8 4; le 2 8; str x; str 'y z'; }
flag() { key a.flag 7; le 1 1; }
small() { key a.small 1; le -3 1; }
half() { key a.half 12; le 0 4; le $((0x3fe00000)) 4; }
nested() { key a.deep 9; le 9 4; le 1 8; le 5 4; le 2 8; le 1 4; le 2 4; }
make in.gguf name count list nested

gguf-edit in.gguf out.gguf;              ok $? 0 "no edit at all succeeds"
equal out.gguf in.gguf "and changes nothing, gaps and bytes behind included"
gguf-edit <in.gguf - | cmp - in.gguf;    ok $? 0 "nor from standard input to standard output"
cat in.gguf | gguf-edit - | cmp - in.gguf; ok $? 0 "nor through pipes"
make want.gguf other count list nested
gguf-edit --set 'general.name=str:A longer name: x=1' in.gguf out.gguf
equal out.gguf want.gguf "a value is replaced in its place"
gguf-edit --set general.name=str:Tiny out.gguf | cmp - in.gguf; ok $? 0 "and back: the same bytes"
make want.gguf name list nested
gguf-edit --delete a.count -o out.gguf in.gguf
equal out.gguf want.gguf "a key is deleted"
make want.gguf name list nested count
gguf-edit --set a.count=u32:7 out.gguf | cmp - want.gguf; ok $? 0 "a new one goes to the end"
make want.gguf name moved list nested
gguf-edit --rename a.count=b.count in.gguf out.gguf
equal out.gguf want.gguf "a key is renamed in its place"
gguf-edit --rename b.count=a.count out.gguf | cmp - in.gguf; ok $? 0 "and back"
make want.gguf name count list nested words flag small half
gguf-edit --set a.words=json:'["x","y z"]' --set a.flag=bool:true --set a.small=i8:-3 \
    --set a.half=f64:0.5 in.gguf out.gguf
equal out.gguf want.gguf "values of other types, in the order of the options"
gguf-edit --delete a.words --delete a.flag --delete a.small --delete a.half out.gguf | cmp - in.gguf
ok $? 0 "and back"
make want.gguf name moved
gguf-edit --delete a.list --delete a.deep --set x=u8:1 --delete x --rename a.count=c \
    --rename c=b.count in.gguf | cmp - want.gguf
ok $? 0 "an edit sees what those before it did"
gguf-edit --set a.list=json:'[1,2]' in.gguf 2>err | cmp - in.gguf
ok $? 0 "an array keeps the type of its elements"
ok "$(cat err)" "" "which needs no warning"
make want.gguf name count_u64 list nested
gguf-edit --set a.count=u64:7 in.gguf 2>err | cmp - want.gguf; ok $? 0 "a type is changed"
ok "$(cat err)" "gguf-edit: key a.count: was of type u32, is now u64" "and a warning says so"
ok "$(gguf-edit -q --set a.count=u64:7 in.gguf 2>&1 >/dev/null)" "" "unless -q"

# ---- values from files ----
printf 'line\n\ttab \303\251\n' >text
make want.gguf name count list nested
gguf-edit --set-file t=text in.gguf | gguf-inspect --get t --no-newline - | cmp - text
ok $? 0 "--set-file takes all of a file"
gguf-edit --set-file t=- in.gguf <text | gguf-inspect --get t --no-newline - | cmp - text
ok $? 0 "or of standard input"
printf '1\n2.0\n' >lines; printf '[\n 1,\n 2\n]\n' >array
gguf-edit --set-file a.list=lines in.gguf | cmp - in.gguf;  ok $? 0 "array elements a line each"
gguf-edit --set-file a.list=array in.gguf | cmp - in.gguf;  ok $? 0 "or as one array"
gguf-inspect --get tokenizer.ggml.tokens "$m" >tokens
gguf-edit --set-file tokenizer.ggml.tokens=tokens "$m" | cmp - "$m"
ok $? 0 "a vocabulary as --get prints it"
for bad in '["x"]' '[1' '1 2' '{}' '[1] 2' '[[1]]'; do
    echo "$bad" >file
    gguf-edit --set-file a.list=file in.gguf out.gguf >out 2>err; ok $? 1 "$bad are no floats"
    has "$(cat err)" "in.gguf: key a.list: " "and the key is named"
done
gguf-edit --set-file a.count=text in.gguf >out 2>err; ok $? 2 "a number is not set from a file"
ok "$(wc -c <out)" 0 "and nothing written"
gguf-edit --set-file t=/no/such in.gguf >out 2>err;   ok $? 2 "a file that is not there"
has "$(cat err)" "gguf-edit: /no/such: " "is named"

# ---- another alignment moves the data ----
{ head_ 2 0; info second 0 32 2; info first 0 0 4; } >plain.gguf
pad plain.gguf
{ printf AAAABBBBCCCCDDDD; head -c 16 /dev/zero; printf abcdefgh
  head -c 24 /dev/zero; } >>plain.gguf
size=$({ head_ 2 1; key general.alignment 4; le 64 4; infos; } | wc -c)
{ { head_ 2 1; key general.alignment 4; le 64 4; infos; }
  head -c $(((64 - size % 64) % 64)) /dev/zero
  printf AAAABBBBCCCCDDDD; head -c 48 /dev/zero; printf abcdefgh; head -c 56 /dev/zero; } >want.gguf
gguf-edit --set general.alignment=u32:64 plain.gguf out.gguf; ok $? 0 "an alignment is set"
equal out.gguf want.gguf "and the data moved to it"
cat plain.gguf | gguf-edit --set general.alignment=u32:64 - | cmp - want.gguf
ok $? 0 "also in a pipe"
gguf-edit --delete general.alignment want.gguf | cmp - plain.gguf; ok $? 0 "and back"
for a in u32:0 u32:48 u64:32 str:32; do
    gguf-edit -q --set general.alignment=$a plain.gguf out2.gguf 2>err; ok $? 2 "no alignment: $a"
    has "$(cat err)" "plain.gguf: key general.alignment: " "is refused by name"
done
[ ! -e out2.gguf ];                      ok $? 0 "and no file is left"

# ---- foreign files stay what they are ----
{ printf GGUF; be 3 4; be 1 8; be 1 8; be 1 8; printf k; be 5 4; be -2 4
  be 1 8; printf t; be 1 4; be 2 8; be 0 4; be 0 8; } >big.gguf
pad big.gguf; printf 12345678 >>big.gguf
{ printf GGUF; be 3 4; be 1 8; be 2 8; be 1 8; printf k; be 5 4; be -2 4
  be 1 8; printf n; be 2 4; be 513 2
  be 1 8; printf t; be 1 4; be 2 8; be 0 4; be 0 8; } >want.gguf
pad want.gguf; printf 12345678 >>want.gguf
gguf-edit --set n=u16:513 big.gguf | cmp - want.gguf; ok $? 0 "a big-endian file stays big-endian"
{ printf GGUF; le 1 4; le 1 4; le 1 4; le 1 4; printf k; le 8 4; le 2 4; printf ab
  le 1 4; printf t; le 1 4; le 2 4; le 0 4; le 0 8; } >old.gguf
pad old.gguf; printf 12345678 >>old.gguf
{ printf GGUF; le 1 4; le 1 4; le 1 4; le 1 4; printf k; le 8 4; le 3 4; printf xyz
  le 1 4; printf t; le 1 4; le 2 4; le 0 4; le 0 8; } >want.gguf
pad want.gguf; printf 12345678 >>want.gguf
gguf-edit --set k=str:xyz old.gguf | cmp - want.gguf; ok $? 0 "version 1 stays version 1"
{ head_ 1 1; key k 0; le 1 1; info t 137 0 256; } >type.gguf
pad type.gguf; printf 12345678 >>type.gguf
gguf-edit --set k=u8:2 type.gguf out.gguf; ok $? 0 "a tensor of an unknown type is copied"
gguf-edit --set k=u8:1 out.gguf | cmp - type.gguf; ok $? 0 "as it is"
gguf-edit --set general.alignment=u32:64 type.gguf >out 2>err; ok $? 2 "but cannot be moved"
{ head_ 0 1; key k 0; le 1 1; } >keys.gguf
gguf-edit --set k=u8:2 keys.gguf | gguf-edit --set k=u8:1 - | cmp - keys.gguf
ok $? 0 "a file without tensors needs no padding"

# ---- doubled keys: refused, or mended ----
{ head_ 0 3; key k 0; le 1 1; key l 0; le 3 1; key k 0; le 2 1; } >twice.gguf
gguf-edit twice.gguf >out 2>err;         ok $? 1 "a doubled key is refused"
has "$(cat err)" "twice.gguf: key k is there twice" "and named"
{ head_ 0 1; key l 0; le 3 1; } >want.gguf
gguf-edit --delete k twice.gguf | cmp - want.gguf; ok $? 0 "--delete removes both"
{ head_ 0 2; key k 0; le 9 1; key l 0; le 3 1; } >want.gguf
gguf-edit --set k=u8:9 twice.gguf | cmp - want.gguf; ok $? 0 "--set makes one of them"

# ---- copying from another file, ids by their tokens, dry runs ----
{ head_ 0 4; key a.b 4; le 1 4; key x 8; str one; key a.c 4; le 2 4; key tokenizer.ggml.tokens 9
  le 8 4
  le 3 8; str p; str q; str '<x>'; } >left.gguf; pad left.gguf
{ head_ 0 3; key a.d 5; le -4 4; key a.b 8; str new; key y 0; le 5 1; } >right.gguf; pad right.gguf
{ head_ 0 4; key a.b 8; str new; key x 8; str one; key tokenizer.ggml.tokens 9; le 8 4
  le 3 8; str p; str q; str '<x>'; key a.d 5; le -4 4; } >want.gguf; pad want.gguf
gguf-edit -q --copy 'a.*=right.gguf' left.gguf | cmp - want.gguf; ok $? 0 "--copy of many keys"
gguf-edit -q --copy 'a.*=-' left.gguf <right.gguf | cmp - want.gguf; ok $? 0 "from standard input"
{ head_ 0 5; key a.b 4; le 1 4; key x 8; str one; key a.c 4; le 2 4; key tokenizer.ggml.tokens 9
  le 8 4
  le 3 8; str p; str q; str '<x>'; key y 0; le 5 1; } >want.gguf; pad want.gguf
gguf-edit --copy y=right.gguf left.gguf | cmp - want.gguf; ok $? 0 "--copy of one"
gguf-edit --copy 'z*=right.gguf' left.gguf >out 2>err; ok $? 1 "of none is status 1"
has "$(cat err)" "key z*: is not in the file to copy from" "and said"
gguf-edit --copy x=text left.gguf >out 2>err; ok $? 1 "from what is no GGUF"
has "$(cat err)" "gguf-edit: text: not a GGUF file" "is refused by its name"
ok "$(gguf-edit --token 'eot=<x>' left.gguf | gguf-inspect --get tokenizer.ggml.eot_token_id)" 2 \
    "--token"
gguf-edit --token eot=z left.gguf >out 2>err; ok $? 1 "a token that is not there"
has "$(cat err)" "left.gguf: there is no token 'z' in the vocabulary" "is named"
cp left.gguf keep.gguf
ok "$(gguf-edit -q -i --dry-run --set a.b=u32:7 --delete x --rename a.c=a.e --set z=bool:true \
    keep.gguf)" "< key a.b u32 1
> key a.b u32 7
< key x str one
< key a.c u32 2
> key a.e u32 2
> key z bool true" "--dry-run tells what would change"
equal keep.gguf left.gguf "and changes nothing"
gguf-edit --dry-run --delete nope left.gguf >out 2>err; ok $? 1 "and finds what is wrong"

# ---- in place ----
cp in.gguf it.gguf; chmod 640 it.gguf; ln -s it.gguf link.gguf
gguf-edit -i --delete a.count link.gguf; ok $? 0 "-i through a link"
make want.gguf name list nested
equal it.gguf want.gguf "changes the file"
ok "$(stat -c %a it.gguf)$([ -L link.gguf ] && echo link)" 640link "and keeps mode and link"
gguf-edit -i --set a.count=u32:7 --delete nope it.gguf 2>err; ok $? 1 "a failing edit"
equal it.gguf want.gguf "leaves it alone"
head -c 150 in.gguf >cut.gguf; cp cut.gguf cut2.gguf
gguf-edit -i cut.gguf 2>/dev/null;       ok $? 1 "so does a damaged file"
equal cut.gguf cut2.gguf "which stays as it was"
gguf-edit -i - <in.gguf 2>/dev/null;     ok $? 2 "-i needs a file"
gguf-edit -i in.gguf out.gguf 2>/dev/null; ok $? 2 "and no other"
ok "$(ls -a | grep -c part)" 0 "nothing unfinished is left"
if zstd -qc in.gguf >z.gguf.zst 2>/dev/null; then
    cp z.gguf.zst z.gguf
    gguf-edit z.gguf.zst | cmp - in.gguf;  ok $? 0 "compressed input is read"
    gguf-edit --delete a.count in.gguf o.gguf.zst && zstd -qdc o.gguf.zst | cmp - want.gguf
    ok $? 0 "an output called .zst is compressed"
    gguf-edit -i --delete a.count z.gguf.zst && zstd -qdc z.gguf.zst | cmp - want.gguf
    ok $? 0 "in place too"
    gguf-edit -i --delete a.count z.gguf 2>err; ok $? 2 "but not under another name"
    cp in.gguf u.gguf.zst
    gguf-edit -i u.gguf.zst 2>err;         ok $? 2 "nor is a plain file compressed unasked"
    equal u.gguf.zst in.gguf "which stays"
fi

# ---- what is refused ----
cp in.gguf keep.gguf; ln keep.gguf hard.gguf
for out in keep.gguf ./keep.gguf hard.gguf; do
    gguf-edit --delete a.count keep.gguf $out >/dev/null 2>err; ok $? 2 "input is output: $out"
done
gguf-edit --delete a.count keep.gguf >>keep.gguf 2>err; ok $? 2 "or standard output"
gguf-edit --set-file t=text in.gguf text 2>err; ok $? 2 "or a file that is read"
equal keep.gguf in.gguf "the input is untouched"
for o in "--delete nope" "--rename nope=x"; do
    # shellcheck disable=SC2086
    gguf-edit $o in.gguf new.gguf >out 2>err; ok $? 1 "$o: an absent key is status 1"
    ok "$(cat err)" "gguf-edit: in.gguf: key nope: is not there" "and named"
done
gguf-edit --rename a.count=a.list in.gguf new.gguf 2>err; ok $? 2 "a name that is taken"
for o in "--set k" "--set k=u8:256" "--set k=u9:1" "--set k=json:{}" "--set-file k" "--rename k" \
    "--rename k=" "--rename =k" "--delete" "--delete=" "-i -o x" "--merge"; do
    # shellcheck disable=SC2086
    gguf-edit $o in.gguf >out 2>err;     ok $? 2 "$o is wrong usage"
    ok "$(wc -c <out)" 0 "$o: nothing written"
done
gguf-edit --set 'k=json:[1,' in.gguf >out 2>err
has "$(cat err)" "--set: key k: the value is not JSON" "a value that is not JSON is told by its key"
gguf-edit --set 'k=json:{}' in.gguf >out 2>err
has "$(cat err)" "key k: the value is not an array" "and one that is no array"
gguf-edit >out 2>err;                    ok $? 2 "operands are wanted"
cp in.gguf old; size=$(wc -c <in.gguf)
for k in 3 20 100 $((size - 5 - 4)); do
    head -c $k in.gguf >cut.gguf
    gguf-edit cut.gguf old 2>err;        ok $? 1 "cut after $k bytes"
    has "$(cat err)" "cut.gguf: " "cut after $k bytes: the file is named"
    cat cut.gguf | gguf-edit - old 2>err; ok $? 1 "cut after $k bytes, in a pipe"
done
equal old in.gguf "an older output stays"
[ ! -e new.gguf ];                       ok $? 0 "a new one is not left"
gguf-edit in.gguf /dev/full 2>err;       ok $? 2 "a full disk is noticed"
gguf-edit in.gguf >/dev/full 2>err;      ok $? 2 "on standard output too"
gguf-edit --provenance --delete a.deep in.gguf | gguf-inspect --get lmpipe.provenance - >out
has "$(cat out)" ": --provenance --delete a.deep in.gguf" "--provenance names the arguments"

gguf-split --max-tensors 8 "$root/tests/data/m.gguf" p; cat p-*3.gguf >before
for o in p-00002-of-00003.gguf ./p-00003-of-00003.gguf; do
    gguf-edit --set a=u8:1 p-00001-of-00003.gguf $o 2>err
    ok $? 2 "$o is another shard of the input"
    has "$(cat err)" "the same file" "is told"
done
ok "$(cat p-*3.gguf | cmp - before)" "" "and the shards stay"

# ---- hostile files ----
. "$root/tests/cli/gguf-refused.sh"
refuse_hostile gguf-edit
echo "1..$n"
