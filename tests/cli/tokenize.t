#!/bin/sh
# tokenize.t - text to ids and back through files and pipes; speaks TAP.
. "$(dirname "$0")/../tap.sh"
spm=$root/tests/data/vocab/tiny-spm.gguf
qwen=$root/tests/data/vocab/qwen.gguf

# ---- forms of input; the ids of these are the Hugging Face library's for hf/ ----
ok "$(tokenize -m "$m" Hello)" "360 39 68 277 78" "an operand"
ok "$(tokenize -m "$m" Hel lo | tokenize -m "$m" -d)" "Hel lo" "operands are joined by a space"
ok "$(printf Hello | tokenize -m "$m")" "360 39 68 277 78" "standard input"
printf Hello >f
ok "$(tokenize -m "$m" -f f -f - <f)" "360 39 68 277 78
360 39 68 277 78" "-f, twice"
ok "$(tokenize -m "$m" --no-add-special -- -)" 12 "'-' as an operand is text"
ok "$(tokenize -m "$m" </dev/null)" 360 "an empty text"
ok "$(tokenize -m "$m" --no-add-special </dev/null | wc -l)" 1 "an empty text is a sequence"
ok "$(printf 'Hello\n\nHello' | tokenize -m "$m" --no-add-special -l)" "39 68 277 78

39 68 277 78" "-l: a line is a sequence, the last one without newline too"
ok "$(printf 'Hello\0a\nb\0' | tokenize -m "$m" --count -0 | tr '\n' ' ')" "5 4 " "-0"
ok "$(printf '"Hello"\n"\\u0048\\u0000\\n"\n' | tokenize -m "$m" --no-add-special -j)" \
   "39 68 277 78
39 188 198" "-j: escapes are JSON's"
ok "$(tokenize -m "$m" --no-add-special 'a\nb' | wc -w)" 4 "a backslash is a backslash"
ok "$(tokenize -m "$m" --escape 'a\nb\x41\\\q\' | tokenize -m "$m" -d | od -An -c | tr -s ' ')" \
   ' a \n b A \ \ q \' "--escape: known ones are read, others stay"
tokenize -m "$m" --escape -f f 2>err;                    ok $? 2 "but not in files"

# ---- what is printed, and what is put around; windows are the Hugging Face library's ----
ok "$(tokenize -m "$m" --offsets -l <<'EOF'
Once é

EOF
)" '{"ids":[360,46,77,66,68,220,326],"offsets":[[0,0],[0,1],[1,2],[2,3],[3,4],[4,5],[5,7]]}
{"ids":[360],"offsets":[[0,0]]}' "--offsets, in bytes"
ok "$(printf 'Hello\nab\n' | tokenize -m "$m" -l --binary | od -An -tx4 | tr -d '\n')" \
   " 00000168 00000027 00000044 00000115 0000004e 00000168 00000040 00000041" "--binary"
ok "$(tokenize -m "$m" --no-bos Hello)" "39 68 277 78" "--no-bos"
ok "$(tokenize -m "$m" --no-add-special --eos Hello)" "39 68 277 78 365" "--eos"
ok "$(tokenize -m "$root/tests/data/vocab/kinds/vocab.txt" --no-add-special --sep a)" "28 3" "--sep"
tokenize -m "$m" --sep a >out 2>err
ok "$?$(cat out)" 1 "which is not everywhere"
talk='Once upon a time there was a cat'
ok "$(tokenize -m "$m" --window 6 --stride 2 "$talk")" "360 46 77 66 68 220
360 68 220 84 79 270
360 79 270 259 256 72
360 256 72 290 258 260
360 258 260 261 282 259
360 282 259 274 316" "--window and --stride"
ok "$(tokenize -m "$root/tests/data/vocab/kinds/vocab.txt" --window 8 --stride 3 \
    "$talk, and it sat on the mat.")" \
   "2 41 161 189 46 163 162 3
2 46 163 162 161 28 45 3
2 161 28 45 157 251 45 3
2 157 251 45 156 153 280 3
2 156 153 280 48 184 28 3
2 48 184 28 91 12 73 3
2 91 12 73 127 44 185 3
2 127 44 185 41 161 45 3
2 41 161 45 156 153 39 3
2 156 153 39 185 13 3" "start and end tokens are around each"
ok "$(tokenize -m "$m" --window 6 '')" 360 "a text of nothing has a window"
ok "$(tokenize -m "$m" --count --window 4 "$talk" | tr '\n' ' ')" "4 4 4 4 4 4 2 " "their lengths"
ok "$(tokenize -m "$m" --offsets --window 4 abcd | cut -d: -f3)" '[[0,0],[0,1],[1,2],[2,3]]}
[[0,0],[3,4]]}' "their offsets are in the whole text"
tokenize -m "$m" --window 3 --stride 2 x 2>err;           ok $? 2 "a window without room"
tokenize -m "$m" --binary --count x 2>err;                ok $? 2 "two forms"

# ---- threads ----
awk 'BEGIN {
    for (i = 0; i < 9000; i++)
        printf "%d a line of text, number %d, and the like%s\n", i, i * i, i % 7 ? "" : "\\n\\n"
}' >lines
sed 's/.*/"&"/' lines >lines.json
for form in "-l lines" "-l lines --pieces" "-j lines.json" "-l lines --window 9 --stride 2" \
    "-l lines --count"; do
    set -- $form
    a=$1 b=$2; shift 2
    tokenize -m "$m" -t 1 "$a" -f "$b" "$@" >one && tokenize -m "$m" -t 5 "$a" -f "$b" "$@" >five
    ok "$?:$(wc -l <one):$(cksum <five)" "0:$(wc -l <five):$(cksum <one)" "-t 5 as -t 1: $form"
done
tokenize -m "$m" -t 4 -l -f lines >all; sed -n 8017p lines >one
ok "$(sed -n 8017p all)" "$(tokenize -m "$m" -l -f one)" "each line in its place"
sed '7001s/"$//' lines.json >broken.json
tokenize -m "$m" -t 4 -j -f broken.json >out 2>err;        ok $? 1 "a broken line far inside"
ok "$(wc -l <out) $(sed -n 7001p out | cut -c 1-2)" "7001 ! " "all before it is there"
has "$(cat err)" "line 7001: column" "and it is named"
tokenize -m "$m" -t 4 -j -f lines.json | cmp -s - out;     ok $? 1 "which is not all"
head -c 3000000 /dev/zero | tr '\0' x >long; echo >>long; cat lines >>long
tokenize -m "$m" -t 4 -l -f long | sed 1d | cmp -s - all;  ok $? 0 "a long line among others"
yes '<|begin_of_text|>' | head -n 9000 | tokenize -m "$m" -t 4 -l >out 2>err
ok "$(wc -l <err)" 1 "a warning comes once"
tokenize -m "$m" -j '"a' 2>err;                          ok $? 1 "-j: a broken string"
ok "$(cat err)" "tokenize: operand: line 1: column 1: string without end" "with its line"
printf '"a"\nx\n' | tokenize -m "$m" -j 2>err >out
has "$(cat err)" ": line 2: column 1: " "and the second line's"
gguf-edit --set tokenizer.ggml.add_bos_token=bool:true --delete tokenizer.ggml.bos_token_id "$m" \
    nobos.gguf
tokenize -m nobos.gguf x >out 2>err
ok $? 1 "a start token that is wanted but not there"
has "$(cat err)" "tokenize: nobos.gguf: there is no start token to add: \
tokenizer.ggml.bos_token_id is missing" "is the model's fault"
zstd -q f && rm f && tokenize -m "$m" -f f.zst >out
ok "$(cat out)" "360 39 68 277 78" "a compressed file"

# ---- bytes stay what they are ----
printf 'a\\nb' >t1; printf 'a\r\nb\r\n' >t2; printf '\n\n x \n\n' >t3; printf ' x' >t4
printf 'a\000b\n' >t5; printf 'a\346\255b\377\376\300\200' >t6; : >t7
for v in "$m" "$spm"; do
    for t in t1 t2 t3 t4 t5 t6 t7; do
        tokenize -m "$v" -f $t | tokenize -m "$v" -d >out 2>err
        cmp -s $t out; ok $? 0 "$t comes back from $(basename "$v")"
    done
done
ok "$(printf 'e\314\201' | tokenize -m "$qwen" | tokenize -m "$qwen" -d | od -An -tx1)" " c3 a9" \
    "NFC"
tokenize -m "$m" -f t1 -f t2 | tokenize -m "$m" -d >out; cat t1 t2 | cmp -s - out
ok $? 0 "texts follow each other with nothing between"
tokenize -m "$m" -l -f "$root/tests/data/text.txt" | tokenize -m "$m" -d -l |
    cmp -s - "$root/tests/data/text.txt"
ok $? 0 "-l both ways"
printf 'a\nb\0c\0' | tokenize -m "$m" -0 | tokenize -m "$m" -d -0 | od -c >a
printf 'a\nb\0c\0' | od -c | cmp -s - a
ok $? 0 "-0 both ways"
ok "$(printf '"a\\n\\u0000\\""\n""\n' | tokenize -m "$m" -j | tokenize -m "$m" -d -j)" \
    '"a\n\u0000\""
""' "-j both ways"

# ---- other forms of the vocabulary ----
hf=$root/tests/data/hf
for v in "$hf" "$hf/" "$hf/tokenizer.json"; do
    tokenize -m "$v" -l -f "$root/tests/data/text.txt" >a
    tokenize -m "$m" -l -f "$root/tests/data/text.txt" | cmp -s - a; ok $? 0 "$(basename "$v")"
done
chars=$root/tests/data/vocab/chars.json
printf 'a  b\n\343\201\202\377 ' >t8
tokenize -m "$chars" -f t8 | tokenize -m "$chars" -d | cmp -s - t8
ok $? 0 "BPE of characters, there and back"
gguf-inspect --get tokenizer.ggml.scores "$spm" | sed 's/.*/-1000/' | paste -sd, |
    sed 's/.*/[&]/' >same
gguf-edit --set-file tokenizer.ggml.scores=same "$spm" same.gguf
for v in "$spm" same.gguf; do
    (tokenize -m $v -f "$root/tests/data/text.txt"; tokenize -m $v 'a     b'; tokenize -m $v \
        there) >$(basename $v).ids
done
cmp -s same.gguf.ids tiny-spm.gguf.ids
ok $? 0 "scores that say nothing: pieces are in order"
mkdir none && tokenize -m none x >out 2>err
ok $? 2 "a directory without a vocabulary"
has "$(cat err)" "none: no tokenizer.json, tokenizer.model, vocab.txt, vocab.json or tekken.json" \
    "is named, and what it lacks"
sed 's/"BPE"/"Unigram"/' "$chars" >other.json; tokenize -m other.json x 2>err
ok $? 2 "another kind of model"
has "$(cat err)" "'Unigram'" "is named"
sed 's/"Prepend"/"Reverse"/' "$chars" >other.json; tokenize -m other.json x 2>err
ok $? 2 "an unknown normalizer"
has "$(cat err)" "'Reverse'" "is named"
head -c 3000 "$chars" >cut.json; tokenize -m cut.json x 2>err; ok $? 1 "a file cut short"

# ---- special tokens ----
ok "$(tokenize -m "$m" 'x<|eot_id|>')" "360 87 365" "control tokens are parsed"
ok "$(tokenize -m "$m" --no-parse-special 'x<|eot_id|>' | tr ' ' '\n' | grep -c 365)" 0 "or are not"
ok "$(echo 360 87 365 87 | tokenize -m "$m" -d)" xx "control tokens are left out"
ok "$(echo 360 87 365 | tokenize -m "$m" -d --special)" '<|begin_of_text|>x<|eot_id|>' "or shown"
tokenize -m "$m" '<|begin_of_text|>x' >out 2>err
ok "$(cat out)" "360 360 87" "the start token in the text is kept"
ok "$(wc -l <err)" 1 "with one warning"
tokenize -qm "$m" '<|begin_of_text|>x' 2>err >out2;      ok "$(cat err)" "" "that -q silences"
cmp -s out out2;                                          ok $? 0 "-q changes no answer"
ok "$(tokenize -m "$m" -v x 2>err >out; grep -c '368' err)" 1 "-v says what the vocabulary is"

ok "$(echo 1 359 2 | tokenize -m "$spm" -d --special)" '<s> Hello</s>' \
    "the space that such a piece puts in front"
ok "$(echo 1 359 2 359 | tokenize -m "$spm" -d)" 'Hello Hello' "is dropped at the begin of the text"

# ---- the other answers ----
ok "$(tokenize -m "$m" --pieces "$(printf 'a\303\251\tb')" | tr '\t' ' ')" \
    "360 0 0 <|begin_of_text|>
64 0 1 a
326 1 2 é
197 3 1 \\t
65 4 1 b" "--pieces"
ok "$(printf 'a\nb\n' | tokenize -m "$m" --no-add-special --pieces -l | sed -n 2p)" "" \
    "--pieces: a line between"
ok "$(tokenize -m "$m" --vocab | wc -l)" 368 "--vocab"
ok "$(tokenize -m "$m" --vocab | sed -n 221p | tr '\t' ' ')" "220 normal 0  " \
    "--vocab shows the piece"
ok "$(tokenize -m "$spm" --vocab | awk -F'\t' '$2 == "byte"' | wc -l)" 256 "--vocab shows types"

# ---- as it comes ----
mkfifo p q
tokenize -m "$m" -d <p >q & exec 7>p 8<q
printf '39 ' >&7; ok "$(dd bs=1 count=1 <&8 2>/dev/null)" H "-d writes a character at once"
printf '68 277 ' >&7; ok "$(dd bs=1 count=3 <&8 2>/dev/null)" ell "and the next ones"
exec 7>&-; wait $!; ok $? 1 "an end inside a line"; exec 8<&-
tokenize -m "$m" -l <p >q & exec 7>p 8<q
echo Hello >&7; read -r line <&8; ok "$line" "360 39 68 277 78" "-l answers a line at once"
exec 7>&-; wait $!; ok $? 0 "and ends with its input"; exec 8<&-

# ---- what is refused ----
fails() { # STATUS TEXT ARGS...
    status=$1 text=$2; shift 2
    "$@" >out 2>err </dev/null
    ok $? "$status" "$text"
    ok "$(wc -c <out)" 0 "$text: nothing on stdout"
}
for id in 368 -1 2147483648 abc 1.5; do
    echo "$id" | tokenize -m "$m" -d >out 2>err; ok $? 1 "id $id"
    ok "$(wc -l <err)" 1 "id $id: one line"
    has "$(cat err)" "$id" "which shows it"
    has "$(cat err)" "vocabulary of 368" "and the vocabulary's size"
done
tokenize -m "$m" -d </dev/null >out;                      ok "$?$(cat out)" 0 "no ids, no text"
printf '39 68' | tokenize -m "$m" -d >out 2>err
ok "$?$(cat out)" 1H "a line cut short: its last id may be, too"
printf '39\n! broke\n39\n' | tokenize -m "$m" -d >out 2>err
ok "$?$(cat out)" 1H "a producer that failed"
has "$(cat err)" broke "and what it said"
fails 2 "no model" tokenize x
fails 2 "a missing file" tokenize -m "$m" -f /no/such
fails 2 "a directory" tokenize -m "$m" -f /
fails 2 "text from two sides" tokenize -m "$m" -f t1 x
fails 2 "two forms" tokenize -m "$m" -l -j x
fails 2 "--special without -d" tokenize -m "$m" --special x
fails 2 "-d of text files" tokenize -m "$m" -d -f t1
fails 1 "a file that is no model" tokenize -m t3 x
printf 'a' >a; tokenize -m "$m" -f a -f /no/such -f a >out 2>err
ok $? 2 "a second file that is missing"
ok "$(sed -n 2p out | cut -c 1-2)" "! " "breaks the stream off"
ok "$(wc -l <out)" 2 "and what follows is not in its place"
tokenize -m "$m" -f out >/dev/null 2>err && tokenize -m "$m" -d out >/dev/null 2>err
ok $? 1 "which readers notice"
# what is no token stream goes on
for form in --count --pieces --offsets --binary; do
    tokenize -m "$m" $form -f a -f a >two
    tokenize -m "$m" $form -f a -f /no/such -f f.zst -f a -f / >out 2>err
    ok "$? $(wc -l <err)" "2 2" "$form: each file that fails is named"
    tokenize -m "$m" $form -f a -f f.zst -f a >want; equal out want "and the others are there"
done
head -c 30 f.zst >cut.zst
for form in --count --pieces --offsets; do
    { tokenize -m "$m" $form -f cut.zst -f a; } 2>err | tail -n 1 >out
    ok "$(cat out)" "$(tokenize -m "$m" $form -f a | tail -n 1)" "$form: behind a file that is cut"
done
printf '39 68\n39 68' >cut; printf '39\n' >whole
for form in '' -l -j -0; do
    tokenize -m "$m" -d $form cut /no/such whole >out 2>err
    ok "$? $(wc -l <err)" "2 2" "-d $form goes on, and tells of both"
done
ok "$(tokenize -m "$m" -d -j cut /no/such whole 2>err)" '"He"
"H
"H"' "-j: what is cut has no end, and the next one a line of its own"
ok "$(tokenize -m "$m" -d cut /no/such whole 2>err)" HeHH "texts follow each other"
tokenize -m "$m" -d '39 68' 2>err; ok $? 2 "ids as an operand"
has "$(cat err)" "ids come from standard input" "and where they come from"
# other streams
tokenize -m "$m" --binary 'x y' | tokenize -m "$m" -d 2>err >out
ok "$(cat err)" "tokenize: <stdin>: binary data, not token ids in decimal (those of tokenize \
--binary are for other readers)" "ids of four bytes are no token stream"
tokenize -m "$m" --binary 'x y' | decode -q -m "$m" 2>err >out
has "$(cat err)" "decode: <stdin>: binary data, not token ids in decimal" "for decode, too"
echo 1 2 | decode -m "$m" | tokenize -m "$m" -d 2>err
has "$(cat err)" "a logits stream, not token ids: sample chooses these from it" "sample is missing"
tokenize --no-such 2>err; ok "$(head -n 1 err)" "tokenize: unrecognized option '--no-such'" \
    "a wrong option is told under the program's name"
tokenize -m '' x 2>err; ok "$(cat err)" "tokenize: '': cannot open: No such file or directory" \
    "a name of nothing is shown"
tokenize -m "$m" x >/dev/full 2>err;                      ok $? 2 "a full disk"
head -c 100000 /dev/zero | tr '\0' a | tokenize -m "$m" 2>err | head -c 1 >/dev/null
ok "$(cat err)" "" "a closed pipe is quiet"

# ---- long runs of one character: flat stack, no quadratic time ----
for v in "$m" "$spm" "$qwen"; do
    for c in A '\n' ' ' '\346\210\221' '!' 7 "'"; do
        awk -v c="$(printf "$c.")" 'BEGIN { sub(/.$/, "", c); for (i = 0; i < 1000; i++) s = s c
                                           for (i = 0; i < 300; i++) printf "%s", s }' >run
        (ulimit -s 256; timeout 60 tokenize -m "$v" -f run >ids) &&
            timeout 60 tokenize -m "$v" -d ids | cmp -s - run
        ok $? 0 "300000 x '$c' with $(basename "$v")"
    done
done

# ---- memory stays what it is, and parts of a text are as the whole ----
awk 'BEGIN {
    for (i = 0; i < 120000; i++) printf "Line %d of\tmany: it\047s  %x\r\n\n", i, i * 7919
}' >long
for v in "$m" "$spm" "$qwen" "$chars"; do
    tokenize -m "$v" --no-add-special -f long | tokenize -m "$v" -d | cmp -s - long
    ok $? 0 "a long text comes back from $(basename "$v")"
    tokenize -m "$v" --pieces -f long |
        awk -F'\t' '$2 < at { bad++ } { at = $2 + $3 } END { print bad + 0, at }' >spans
    ok "$(cat spans)" "0 $(wc -c <long)" "and its pieces cover it"
    (cat long; sleep 0.1; cat long; cat long) | tokenize -m "$v" >b1
    cat long long long >long3; tokenize -m "$v" -f long3 | cmp -s - b1
    ok $? 0 "whether from a file or in pieces"
done
limit=
sh -c 'ulimit -v 75000; exec tokenize --version' >/dev/null 2>&1 && limit='ulimit -v 75000'
for c in a ' ' '\346\210\221' 'ab'; do
    [ "$limit" ] || break                        # sanitizers need far more
    awk -v c="$(printf "$c.")" 'BEGIN { sub(/.$/, "", c); for (i = 0; i < 1000; i++) s = s c
                                       for (i = 0; i < 2000; i++) printf "%s", s }' >run
    for v in "$m" "$spm"; do
        (ulimit -s 256; $limit; tokenize -m "$v" --count -f run) >out 2>err
        ok "$?$(cat err)" 0 "2 million x '$c' with $(basename "$v") in little memory"
    done
done

# ---- the reference's ids for whole vocabularies, where they are at hand ----
if [ -e "$shared/fixtures/tokenize/tiny/tiny-spm.jsonl" ]; then
    python3 - "$shared" "$spm" <<'PY' >out 2>err
import json, subprocess, sys
base = sys.argv[1] + "/fixtures/tokenize/"
text = {c["i"]: c["text"] for c in map(json.loads, open(base + "corpus.jsonl"))}
rows = [json.loads(line) for line in open(base + "tiny/tiny-spm.jsonl")]
lines = "".join(json.dumps(text[r["i"]]) + "\n" for r in rows).encode()
bad = 0
for key, extra in (("ids", ["--no-add-special"]), ("ids_special", [])):
    got = subprocess.run(["tokenize", "-m", sys.argv[2], "-j", *extra], input=lines,
                         stdout=subprocess.PIPE).stdout
    for r, line in zip(rows, got.decode().split("\n")):
        bad += [int(x) for x in line.split()] != r["llamacpp"][key]
print(len(rows), bad)
PY
    ok "$(cat out)" "295 0" "the corpus with tiny-spm"
fi
echo "1..$n"
