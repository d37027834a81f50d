#!/bin/sh
# tokenize-files.t - a vocabulary in every form of file, and directories of them; speaks TAP.
# Ids are those of the libraries that tests/golden/make-vocab-kinds names.
. "$(dirname "$0")/../tap.sh"
kinds=$root/tests/data/vocab/kinds
# The lines of ids.jsonl for a file: texts as JSON strings, and ids, those with special tokens
# if there are any.
texts() { sed -n 's/^{"v":"'"$1"'","text":\("\([^"\\]\|\\.\)*"\),.*/\1/p' "$kinds/ids.jsonl"; }
ids() {
    sed -n 's/^{"v":"'"$1"'",.*"\('"$2"'\)":\[\([0-9,]*\)\]}*$/\2/p' "$kinds/ids.jsonl" | tr , ' '
}
last() { # of each line: special if there, else ids
    grep "^{\"v\":\"$1\"," "$kinds/ids.jsonl" | sed 's/.*\[\([0-9,]*\)\]}$/\1/' | tr , ' '
}
same() { # NAME MODEL OPTION...
    name=$1 model=$2
    shift 2
    texts "$name" >t
    last "$name" >want
    tokenize -q -m "$model" -j "$@" <t >got 2>err
    s=$?
    cmp -s got want && [ "$(wc -l <want)" -gt 5 ]
    ok "$s $? $(head -n 1 err)" "0 0 " "$name from $model"
}

# ---- each file by itself ----
for f in unigram.gguf wordpiece.gguf rwkv.gguf plamo2.gguf gemma4.gguf unigram.json vocab.txt \
    cased.txt tekken.json rwkv.txt gpt2; do
    same $f "$kinds/$f"
done
# these two libraries do not look for control tokens
same unigram.model "$kinds/unigram.model" --no-parse-special
same bpe.model "$kinds/bpe.model" --no-parse-special
same own.tiktoken "$kinds/own.tiktoken" --no-parse-special
tokenize -m "$kinds/own.tiktoken" x >out 2>err; ok $? 0 "ranks of an unknown number"
has "$(cat err)" "words are cut as by cl100k_base" "are noted"

# ---- names and contents ----
for f in unigram.gguf unigram.json vocab.txt cased.txt tekken.json rwkv.txt own.tiktoken \
    bpe.model; do
    want=$(tokenize -q -m "$kinds/$f" "The sea's")
    ok "$(tokenize -q -m - "The sea's" <"$kinds/$f")" "$want" "$f from standard input"
    ok "$(zstd -qc "$kinds/$f" | tokenize -q -m - "The sea's")" "$want" "$f from there, compressed"
done
echo some text | tokenize -m - x 2>err; ok $? 1 "standard input that is no model"
tokenize -m - <"$m" >out 2>err; ok "$? $(wc -c <out)" "2 0" "a model and a text from standard input"
has "$(cat err)" "the model and the text cannot both come from standard input" "are too much"
tokenize -m - -d <"$m" 2>err; ok $? 2 "a model and ids, too"
ok "$(echo 39 | tokenize -m "$m" --vocab | wc -l)" 368 "a vocabulary is no text"
ok "$(tokenize -v -m "$kinds/vocab.txt" x 2>&1 >/dev/null | sed -n '$s/.*vocab.txt: //p')" \
    "vocabulary: bert, 282 entries, 0 merges" "-v names no pre-tokenizer where none cuts words"
cp "$kinds/bpe.model" some.name; same bpe.model some.name --no-parse-special
cp "$kinds/own.tiktoken" tokenizer.model; same own.tiktoken tokenizer.model --no-parse-special
same gpt2 "$kinds/gpt2/vocab.json"
same gpt2 "$kinds/gpt2/merges.txt"
(cd "$kinds/gpt2" && tokenize -q -m vocab.json -j <"$dir/t" >"$dir/got" 2>/dev/null)
cmp -s got want; ok $? 0 "vocab.json without a directory"

# ---- directories ----
mkdir ranks tek rw wp uni
cp "$kinds/own.tiktoken" ranks/tokenizer.model; same own.tiktoken ranks --no-parse-special
cp "$kinds/tekken.json" tek/;                   same tekken.json tek
cp "$kinds/rwkv.txt" rw/rwkv_vocab_v20230424.txt; same rwkv.txt rw
cp "$kinds/vocab.txt" wp/;                      same vocab.txt wp
cp "$kinds/cased.txt" wp/vocab.txt; echo '{"do_lower_case": false}' >wp/tokenizer_config.json
same cased.txt wp
cp "$kinds/unigram.json" uni/tokenizer.json; cp "$kinds/bpe.model" uni/tokenizer.model
same unigram.json uni
# the texts are SentencePiece's for these ids
text() { # MODEL IDS TEXT
    ok "$(echo "$2" | tokenize -m "$kinds/$1" -d -j)" "\"$3\"" "$1: '$3' from $2"
}
text bpe.model '4 336 334 3 4 352' ' a [TOOL]  b'
text bpe.model '334 3 263' '[TOOL] a'
text bpe.model '4 336' ' a'
ok "$(tokenize -m "$kinds/suffix.model" --offsets 'ab ab')" \
   '{"ids":[4,4],"offsets":[[0,3],[3,5]]}' \
   "a space that is added behind a text stands for none of it"
ok "$(tokenize -m "$kinds/suffix.model" --offsets 'é')" '{"ids":[0,10],"offsets":[[0,2],[2,2]]}' \
   "nor does it alone"
text unigram.model '11 4 3 14' 'a [TOOL] b'
text unigram.model '4 3 11' '[TOOL] a'
text unigram.model '4 11' a

# a Unigram model in a directory is what Hugging Face makes of it
rm uni/*; cp "$kinds/unigram.model" uni/spiece.model; same unigram.gguf uni

# ---- text that comes back ----
for f in gemma4.gguf rwkv.gguf plamo2.gguf own.tiktoken tekken.json gpt2; do
    printf 'a  b\tc\n\n\303\251 \346\227\245\n' >t
    tokenize -q -m "$kinds/$f" -f t | tokenize -q -m "$kinds/$f" -d | cmp -s - t
    ok $? 0 "$f: there and back"
done
for f in rwkv.gguf plamo2.gguf own.tiktoken tekken.json; do
    printf 'a\377\000b\346\227' >t
    tokenize -q -m "$kinds/$f" -f t | tokenize -q -m "$kinds/$f" -d | cmp -s - t
    ok $? 0 "$f: bytes that are not UTF-8"
done
ok "$(tokenize -m "$kinds/vocab.txt" '  The rivers,  the SEA. ' |
    tokenize -m "$kinds/vocab.txt" -d)" \
    "the rivers, the sea." "WordPiece is joined with spaces"
ok "$(tokenize -m "$kinds/unigram.gguf" ' the  sea ' | tokenize -m "$kinds/unigram.gguf" -d)" \
    "the sea" "Unigram without the added space"

# ---- spans ----
tokenize -m "$kinds/vocab.txt" --pieces 'x  Cafe,' | cut -f 2,3 | tr '\t\n' '  ' >got
ok "$(cut -d ' ' -f 1-4 got)" "0 0 0 1" "offsets of WordPiece"
has "$(cat got)" "7 1 8 0" "offsets of WordPiece, the end"

# ---- one text of one character, and long ones ----
for f in unigram.gguf wordpiece.gguf rwkv.gguf plamo2.gguf gemma4.gguf unigram.model bpe.model; do
    for c in a ' ' '
' '我' '!'; do
        awk -v c="$c" 'BEGIN { for (i = 0; i < 100000; i++) printf "%s", c }' >t
        (ulimit -s 256; tokenize -q -m "$kinds/$f" -f t >out 2>err); s=$?
        [ $s = 0 ] || break
    done
    ok "$s $(head -n 1 err)" "0 " "$f: 100000 of a character"
done

# ---- files that are none ----
bad() { # FILE STATUS PART
    tokenize -m "$1" x >out 2>err; ok $? "$2" "$1: status"
    has "$(cat err)" "$3" "$1: says what is wrong"
}
head -c 2000 "$kinds/unigram.model" >cut.model
bad cut.model 1 "not a SentencePiece model, or damaged"
printf 'YQ== 0\nYg== 1\nYw\n' >cut.tiktoken
bad cut.tiktoken 1 "line 3 is not a piece in base64 and its rank"
printf "1 'a' 1\n2 'b' 7\n" >rwkv.txt; bad rwkv.txt 1 "line 2 is not an id, a text and its length"
printf '{"config":{}}' >tekken.json; bad tekken.json 1 "has no list called vocab"
tekken() { # VOCAB PART
    printf '{"config":{"default_vocab_size":9,"default_num_special_tokens":2},"vocab":[%s]}' \
        "$1" >tekken.json
    bad tekken.json 1 "$2"
}
tekken '{"rank":0,"token_bytes":"YQ=="},{"rank":1}' "vocab[1]: no rank or no token_bytes in base64"
printf '{"config":{"default_vocab_size":9},"vocab":[]}' >tekken.json
bad tekken.json 1 "config has no good default_vocab_size and default_num_special_tokens"
own() { # SED PART STATUS
    sed "$1" "$kinds/tekken.json" >tekken.json; bad tekken.json "$3" "$2"
}
own 's/"pattern": *"/&(?i:x)|/' "config: pattern '(?i:x)|" 2
own 's/"pattern": *"/"pattern":5,"was":"/' "config: pattern is no text" 1
own 's/"special_tokens":/"special_tokens":5,"were":/' "special_tokens is no list" 1
own 's/"special_tokens":/"special_tokens":null,"were":/' "" 0
ok "$(cat out)" "$(sed 's/"special_tokens":/"were":/' "$kinds/tekken.json" | tokenize -m - x)" \
    "special_tokens that are null are not there"
sed 's/"pattern": *"[^"]*"/"pattern":"\\\\p{N}{1,3}"/' "$kinds/tekken.json" >tekken.json
bad tekken.json 2 "config: pattern '\\p{N}{1,3}' is not supported"
: >rwkv_vocab_0.txt; bad rwkv_vocab_0.txt 1 "has no pieces"
printf "1 '\\\\U00110000' 4\n" >rwkv_vocab_1.txt
bad rwkv_vocab_1.txt 1 "line 1 is not an id, a text and its length"
cp "$kinds/own.tiktoken" long.tiktoken
printf '%s 289\n' "$(head -c 900000 /dev/zero | base64 -w 0)" >>long.tiktoken
(ulimit -t 10; exec tokenize -m long.tiktoken x) >out 2>err; ok $? 2 "a piece that would take long"
has "$(cat err)" "piece 289 has more than 1024 bytes" "is refused"
ok "$(wc -l <err)" 1 "and nothing else is said"
printf '[CLS]\n\na\n\n' >blank.txt; bad blank.txt 1 "lines 2 and 4 are both blank"
printf 'a\nb\na\n' >twice.txt
bad twice.txt 1 "twice.txt: as a vocab.txt: ids 0 and 2 are the same piece"
printf '' >empty.txt; bad empty.txt 1 "has no pieces"
# a warning is no answer to a file that cannot be used
mkdir odd; cp "$kinds/gpt2/vocab.json" odd/
{ cat "$kinds/gpt2/merges.txt"; echo 'zz q'; } >odd/merges.txt
bad odd 1 '"zz q": the first part is no piece'
ok "$(wc -l <err)" 1 "in one line"

# ---- steps that make text longer and longer ----
grow() { # TYPE N LETTERS [MORE]: a Sequence of N that put LETTERS as for an a
    printf '{"type":"Sequence","%s":[' "$1"
    for i in $(seq "$2"); do
        printf '{"type":"Replace","pattern":{"String":"a"},"content":"%s"}' "$3"
        [ "$i" = "$2" ] || printf ,
    done
    printf '%s]}' "$4"
}
json() { # NORMALIZER PRE_TOKENIZER DECODER
    printf '{"normalizer":%s,"pre_tokenizer":%s,"decoder":%s,' "$1" "$2" "$3"
    printf '"model":{"type":"BPE","vocab":{"a":0,"aa":1},"merges":["a a"]}}'
}
thousand=$(printf '%01000d' 0 | tr 0 a)
json "$(grow normalizers 8 "$thousand")" null null >norm.json
bad norm.json 2 "normalizer.normalizers[6] 'Replace': from here on a byte of text can become \
1e+06 bytes, more than the limit of 4096"
ok "$(wc -l <err)" 1 "in one line"
json null null "$(grow decoders 8 "$thousand")" >dec.json
bad dec.json 2 "decoder.decoders[6] 'Replace': from here on a byte"
bytes='{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}'
bytes=$bytes,$bytes,$bytes,$bytes
pre='{"type":"Sequence","pretokenizers":['$bytes,$bytes']}'
norm='{"type":"NFKC"},{"type":"NFD"},{"type":"Prepend","prepend":"a"}'
json '{"type":"Sequence","normalizers":['"$norm"']}' "$pre" null >mixed.json
bad mixed.json 2 "normalizer.normalizers[0] 'NFKC': from here on a byte"
json "$(grow normalizers 6 aaaa)" null "$(grow decoders 6 aaaa)" >most.json
ok "$(tokenize -m most.json --count ab)" 2048 "as long as may be"
ok "$(echo 0 1 | tokenize -m most.json -d | wc -c)" 12288 "and back"

# ---- small files of a directory that are not what they should be ----
small() { # FILE TEXT PART: beside vocab.json and merges.txt
    rm -rf small; cp -r "$kinds/gpt2" small; printf '%s' "$2" >"small/$1"
    bad small 1 "$3"
    ok "$(wc -l <err) $(wc -c <out)" "1 0" "in one line, and nothing else"
}
for f in config tokenizer_config special_tokens_map added_tokens; do
    for text in '[]' 5 null '"x"' '[{"content":"x"}]'; do
        small $f.json "$text" "$f.json: is no object"
    done
    small $f.json '{' "$f.json: line 1, column 2"
done
for text in '[{"content":"x"}]' '[5]' '"x"' true; do
    small tokenizer_config.json "{\"added_tokens_decoder\":$text}" \
        "tokenizer_config.json: added_tokens_decoder is no object"
done
rm -rf small; cp -r "$kinds/gpt2" small; echo '[5]' >small/generation_config.json
tokenize -m small x >out 2>err; ok $? 0 "generation_config.json may be broken"
has "$(cat err)" "generation_config.json: is no object: it is not heeded" "and that is said"
mkdir dead; ln -s nowhere dead/tokenizer.json; tokenize -m dead x >out 2>err
ok $? 2 "a link that leads nowhere"
has "$(cat err)" "dead: tokenizer.json: cannot open: No such file or directory" "is not just absent"
cp "$kinds/unigram.json" dead/t.json; rm dead/tokenizer.json; mv dead/t.json dead/tokenizer.json
ln -s nowhere dead/special_tokens_map.json; tokenize -m dead x >out 2>err
ok $? 2 "also where it is one of the small files"
has "$(cat err)" "special_tokens_map.json: cannot open" "it is named"
printf '{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["#version: 0.2","a b"]}}' \
    >version.json
ok "$(tokenize -m version.json abab)" "2 2" "a head among merges, as the library takes it"

mkdir lone; cp "$kinds/gpt2/vocab.json" lone/
tokenize -m lone x >out 2>err; ok $? 1 "vocab.json without merges.txt"
has "$(cat err)" "merges.txt" "is named"
echo "1..$n"
