#!/bin/sh
# tokenize-long.t - long texts without any break, through every kind of vocabulary: as much memory
# for 8 MB as for 2 MB; speaks TAP.
. "$(dirname "$0")/../tap.sh"
data=$root/tests/data
kinds=$data/vocab/kinds
run() { # UNIT COUNT: that many times UNIT, an octal escape or itself
    awk -v c="$(printf "$1.")" -v n="$2" \
        'BEGIN { sub(/.$/, "", c); for (i = 0; i < 1000; i++) s = s c
                                                 for (i = 0; i < n / 1000; i++) printf "%s", s }'
}
lines() { awk 'BEGIN { for (i = 0; i < 1000; i++) s = s "\n"
                       for (i = 0; i < '"$1"' / 1000; i++) printf "%s", s }'; }
within() { (ulimit -s 256; ulimit -v "$1"; shift; exec "$@") >out 2>err; }

# Sanitizers need far more than any limit here.
within 100000 tokenize --version || skip_all "memory cannot be limited"
least() { # COMMAND ...: KiB of address space that it takes
    for kib in 44000 48000 52000 56000 60000 65000 70000 75000 80000 90000 100000 110000 120000 \
               140000 160000; do
        within $kib "$@" && break
    done 2>/dev/null
    echo $kib
}

# ---- tokenizers by their rules ----
json() { # NORMALIZER PRE_TOKENIZER MODEL
    printf '{"normalizer":%s,"pre_tokenizer":%s,"model":%s,"added_tokens":[' "$1" "$2" "$3"
    printf '{"id":0,"content":"<x>","special":true,"normalized":true}]}'
}
merged='{"type":"BPE","unk_token":"?","fuse_unk":true,"end_of_word_suffix":"</w>","vocab":{"<x>":0,
"?":1,"a":2,"a</w>":3,"aa":4,"aaaa":5,"b</w>":6,"ab</w>":7,"\u0120":8,"\u00e6":9,"b":10,"ab":11},
"merges":["a a","aa aa","a b</w>","a b"]}'
json \
    '{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Replace","pattern":{"Regex":"\\s+"},
"content":" "},{"type":"Lowercase"}]}' \
    '{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":
{"Regex":"'"'s|[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+"'"},
"behavior":"Removed","invert":true},
{"type":"ByteLevel","add_prefix_space":false}]}' "$merged" >clip.json
json '{"type":"Sequence","normalizers":[{"type":"Nmt"},{"type":"Strip"},{"type":"Prepend",
"prepend":"b"}]}' '{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Punctuation",
"behavior":"MergedWithNext"}]}' "$merged" >chars.json
json '{"type":"BertNormalizer"}' '{"type":"Metaspace","replacement":"_","prepend_scheme":"first"}' \
     '{"type":"WordLevel","unk_token":"?","vocab":{"<x>":0,"?":1,"a":2,"_":3}}' >level.json
rules="clip.json chars.json level.json $kinds/unigram.json"

for c in a ' ' '\346\210\221' 'ab' newline; do
    if [ "$c" = newline ]; then lines 2000000 >short; lines 8000000 >long; else
        unit=$(printf "$c.")
        size=$((${#unit} - 1))
        [ "$c" = '\346\210\221' ] && size=3
        run "$c" $((2000000 / size)) >short
        run "$c" $((8000000 / size)) >long
    fi
    for m in "$data/m.gguf" "$data/vocab/tiny-spm.gguf" "$kinds/bpe.model" "$kinds/unigram.gguf" \
             "$kinds/unigram.model" "$kinds/wordpiece.gguf" "$kinds/rwkv.gguf" \
             "$kinds/plamo2.gguf" "$kinds/gemma4.gguf" $rules; do
        kib=$(least tokenize -q --count -m "$m" -f short)
        within $((kib + 4000)) tokenize -q --count -m "$m" -f long
        ok "$?$(cat err)" 0 "8 MB of '$c' with $(basename "$m") in $kib KiB"
    done
done

# ---- what is printed of each id, and long lines ----
all="$data/m.gguf $data/vocab/tiny-spm.gguf $kinds/bpe.model $kinds/unigram.gguf
     $kinds/unigram.model $kinds/wordpiece.gguf $kinds/plamo2.gguf $rules"
run 'aab, \346\210\221' 200000 >short
run 'aab, \346\210\221' 600000 >long
for m in $all; do
    kib=$(least tokenize -q --pieces -m "$m" -f short)
    within $((kib + 4000)) tokenize -q --pieces -m "$m" -f long
    ok "$?$(cat err)" 0 "--pieces of 5 MB with $(basename "$m") in $kib KiB"
done
for o in --offsets '--window 100' -l -0; do
    kib=$(least tokenize -q $o -m "$data/m.gguf" -f short)
    within $((kib + 4000)) tokenize -q $o -m "$data/m.gguf" -f long
    ok "$?$(cat err)" 0 "$o of 5 MB in $kib KiB"
done

# ---- parts of any size ----
run 'Ab <x> \346\210\221 12 it'"'"'s e\314\201\314\243\377 \t \342\226\201--' 50000 >text
for m in $all; do
    tokenize -q --no-add-special -m "$m" -f text >whole
    dd if=text bs=64k 2>/dev/null | dd obs=997 2>/dev/null |
        tokenize -q --no-add-special -m "$m" >parts
    cmp whole parts >err 2>&1
    ok "$?$(cat err)" 0 "the same ids in small parts with $(basename "$m")"
done

# ---- a text that its rules make as much longer as they may ----
long_a=$(run a 4000)
for p in '"String":"a"' '"Regex":"(?>a)"'; do
    longer='{"type":"Replace","pattern":{'"$p"'},"content":"'"$long_a"'"}'
    json '{"type":"Sequence","normalizers":[{"type":"StripAccents"},'"$longer"']}' null "$merged" \
        >grown.json
    run a 1000 >short
    run a 3000 >long
    for o in --count --pieces; do
        kib=$(least tokenize -q $o -m grown.json -f short)
        within $((kib + 4000)) tokenize -q $o -m grown.json -f long
        ok "$?$(cat err)" 0 "$o of 12 MB that 3 KB became by $p in $kib KiB"
    done
done

# ---- ids in, text out ----
run 'ab ' 100000 >part
tokenize -q -m "$data/m.gguf" --no-add-special -f part | tr '\n' ' ' >ids
(cat ids; echo) >short
(for i in 1 2 3 4 5 6 7 8 9 10; do cat ids ids ids; done; echo) >long
kib=$(least tokenize -q -d -m "$data/m.gguf" short)
within $((kib + 4000)) tokenize -q -d -m "$data/m.gguf" long
ok "$?$(cat err) $(wc -c <out)" "0 9000000" "9 MB of text from ids in $kib KiB"
echo "1..$n"
