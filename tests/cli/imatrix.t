#!/bin/sh
# imatrix.t - measuring, adding and showing importance matrices; speaks TAP.
. "$(dirname "$0")/../tap.sh"
cp "$root/tests/data/m.gguf" "$root/tests/data/text.txt" .
data=$root/tests/data/imatrix
get() { gguf-inspect --get "$1" "$2"; }
tokens() { imatrix --show "$1" | cut -f 4 | sort -u; }         # counts of all matrices

# ---- measuring ----
imatrix -m m.gguf -c 16 -o i.gguf text.txt 2>err;  ok $? 0 "a text is measured"
ok "$(wc -l <err)" 2 "what is left out is told, and the perplexity"
ok "$(get general.type i.gguf)" imatrix "the output is an importance matrix"
ok "$(get imatrix.chunk_count i.gguf)" 17 "the chunks are counted"
ok "$(get imatrix.chunk_size i.gguf)" 16 "their size is kept"
ok "$(get imatrix.datasets i.gguf)" '"text.txt"' "so is the text's name"
ok "$(tokens i.gguf)" 272 "each matrix saw all tokens of the chunks"
ok "$(imatrix --show i.gguf | wc -l)" 14 "seven matrices a layer"
gguf-inspect --check i.gguf >/dev/null;            ok $? 0 "the file is sound"
imatrix -q -m m.gguf -c 16 -t 1 text.txt >t1 2>err
equal i.gguf t1 "one thread, standard output: the same bytes"
ok "$(wc -c <err)" 0 "-q is quiet"
imatrix -q -m m.gguf -c 16 -t 3 text.txt >t3;      equal i.gguf t3 "three threads: the same bytes"
cat text.txt | imatrix -q -m m.gguf -c 16 >p
ok "$(imatrix --show p)" "$(imatrix --show i.gguf)" "a pipe gives the same sums"
imatrix -q -m m.gguf -c 16 --process-output -o o.gguf text.txt
ok "$(imatrix --show o.gguf | tail -n 1 | cut -f 1,4)" "output.weight	272" "--process-output"
imatrix -q -m m.gguf -c 16 --no-ppl -v text.txt 2>err >np; equal np i.gguf "--no-ppl changes no sum"
ok "$(grep -c PPL err)" 0 "and tells no perplexity"
imatrix -m m.gguf -c 16 -v text.txt 2>&1 >/dev/null | grep -c '^imatrix: chunk .*: PPL = ' >v
ok "$(cat v)" 17 "-v tells it after each chunk"
imatrix -q -m m.gguf -c 16 text.txt text.txt >two
ok "$(get imatrix.chunk_count two)" 34 "each file is cut for itself"

# Layers: what awk makes of the lines of matrices.
imatrix --show i.gguf |
    awk -F '\t' '{ split($1, p, "."); c = $2 * $3; k = p[2]; m[k] += $2; w[k] += c
    for (f = 4; f <= 14; f++) if ($f != "-") { s[k, f] += c * $f; n[k, f] += c } }
    END { for (k = 0; k < 2; k++) { printf "blk.%d %d %d", k, m[k], w[k]
    for (f = 4; f <= 14; f++) printf n[k, f] ? " %.9g" : " -", n[k, f] ? s[k, f] / n[k, f] : 0
    print "" } }' >want
imatrix --show --layers i.gguf | awk -F '\t' '{ printf "%s %d %d", $1, $2, $3
    for (f = 4; f <= 14; f++) printf $f == "-" ? " -" : " %.9g", $f; print "" }' >got
ok "$(cat got)" "$(cat want)" "--layers: means over the columns of each layer"
imatrix --layers --merge i.gguf >/dev/null 2>&1;   ok $? 2 "are for --show"

# ---- which chunks ----
imatrix -q -m m.gguf -c 16 --chunks 5 -o a text.txt
imatrix -q -m m.gguf -c 16 --from-chunk 5 -o b text.txt
ok "$(get imatrix.chunk_count a) $(get imatrix.chunk_count b)" "5 12" "--chunks, --from-chunk"
imatrix --merge a b -o ab;                         ok $? 0 "the parts are added"
imatrix --merge b a >ba;                           equal ab ba "in any order"
ok "$(tokens ab) $(get imatrix.chunk_count ab)" "272 17" "and are the whole"
imatrix -m m.gguf -c 16 --from-chunk 17 text.txt >out 2>err
ok $? 1 "--from-chunk beyond the end is status 1"
ok "$(tail -n 1 err)" "imatrix: the input has 17 chunks: --from-chunk leaves none" "and says so"
echo short | imatrix -m m.gguf >out 2>err;         ok $? 1 "less than a chunk is status 1"
ok "$(wc -c <out) $(tail -n 1 err)" "0 imatrix: the input is less than one chunk of 512 tokens" \
    "and says so"
imatrix -q -m m.gguf -c 16 --chunks 6 --save-every 2 -o s text.txt; ok $? 0 "--save-every"
ok "$(get imatrix.chunk_count s)" 6 "the last save is the whole"
imatrix -q -m m.gguf -c 16 --save-every 2 -o s --tokens - >/dev/null 2>err <<EOF
$(seq 1 40 | tr '\n' ' ')
1 2 999
EOF
ok $? 1 "a run that fails later"
ok "$(get imatrix.chunk_count s)" 2 "has saved what it had"

# ---- tokens ----
tokenize -m m.gguf -f text.txt >t.txt
imatrix -q -m m.gguf -c 16 --tokens t.txt >t
ok "$(imatrix --show t)" "$(imatrix --show i.gguf)" "tokens of a text give the same sums"
printf '1 2 3 4\n5 6 7 8 9\n' | imatrix -q -m m.gguf -c 4 --tokens >t
ok "$(tokens t)" 8 "each line is cut for itself"
printf '1 2 3 4\n5 6' | imatrix -q -m m.gguf -c 4 --tokens >out 2>err
ok $? 1 "a stream that ends inside a line is status 1"
ok "$(wc -c <out) $(wc -l <err)" "0 1" "with no output and one message"
printf '1 2 3 4\n! out of ideas\n' | imatrix -q -m m.gguf -c 4 --tokens >out 2>err
ok $? 1 "so is one whose producer failed"
printf '1 2 368 4\n' | imatrix -q -m m.gguf -c 4 --tokens >out 2>err
ok $? 1 "so is an id outside the vocabulary"
for i in $(seq 20); do printf '<|eot_id|>'; done >special
imatrix -q -m m.gguf -c 16 --parse-special special >s1
ok "$(tokens s1)" 16 "--parse-special takes names for tokens"
imatrix -q -m m.gguf -c 16 special >s2
ok "$(($(tokens s2) > 100))" 1 "without it they are text"

# ---- experts ----
moe=$data/moe.gguf
imatrix -m "$moe" -c 8 --tokens -o e.gguf "$data/moe-tokens.txt" 2>err
ok $? 0 "a model with experts"
ok "$(grep -c '3 of 24 matrices of experts were reached by no token' err)" 1 \
    "says how many no token reached"
ok "$(imatrix --show e.gguf | grep -c nan)" 0 "no number is lost by it"
quantize -q --imatrix e.gguf "$moe" eq.gguf Q4_0 2>err; ok $? 0 "quantize takes it"

# ---- adding ----
imatrix --merge i.gguf | cmp -s - i.gguf;          ok $? 0 "one file is given back"
imatrix --merge "$data/imatrix.gguf" "$data/imatrix.gguf" >twice
ok "$(imatrix --show twice | cut -f 1,4,6)" \
    "$(imatrix --show "$data/imatrix.gguf" | awk -F '\t' -v OFS='\t' '{ print $1, 2 * $4, $6 }')" \
    "twice the same: twice the tokens, the same means"
imatrix --merge "$data/imatrix.gguf" i.gguf >out 2>err; ok $? 1 "other widths are refused"
ok "$(wc -c <out) $(cat err)" \
    "0 imatrix: i.gguf: blk.0.attn_q.weight: 128x1 here, 4x1 in $data/imatrix.gguf" \
    "naming what differs"
imatrix --merge "$data/imatrix.dat" >old1;         ok $? 0 "the old form is merged"
ok "$(imatrix --show old1 | cut -f 1,4,6 | tr '\n' ' ')" \
    "$(printf 'blk.0.a\t1024\t1.25 blk.1.b\t512\t2 ')" "as chunks of 512 tokens"
imatrix --merge -c 8 "$data/imatrix.dat" "$data/imatrix.dat" >old2
ok "$(imatrix --show old2 | cut -f 1,4,6 | tr '\n' ' ')" \
    "$(printf 'blk.0.a\t32\t1.25 blk.1.b\t16\t2 ')" "or of another size"
imatrix --merge --weights 0.5,2 a b >w1;           ok $? 0 "--weights"
imatrix --merge --weights 2,0.5 b a >w2;           equal w1 w2 "in any order"
ok "$(tokens w1)" 424 "count tokens so"                     # 5 / 2 + 12 * 2 chunks of 16
imatrix --merge --weights 1,-1 ab b >w3
ok "$(tokens w3) $(get imatrix.chunk_count w3)" "80 5" "below 0, one is taken away"
imatrix --merge --weights 1,-1 a b >w4 2>err;      ok $? 1 "but not what is not there"
imatrix --merge --weights 1 a b >w4 2>err;         ok $? 2 "a weight for each"

# ---- forms ----
imatrix --convert i.gguf --output-format dat -o i.dat; ok $? 0 "to the old form"
ok "$(od -An -td4 -N8 i.dat | tr -s ' ')" " 14 19" "which begins with the number of entries"
ok "$(imatrix --show i.dat | cut -f 1,4)" "$(imatrix --show i.gguf | cut -f 1 | sed 's/$/	17/')" \
    "counts chunks"
imatrix --convert -c 16 i.dat -o back.gguf;        ok $? 0 "and back"
imatrix --show i.gguf | cut -f 1,4,6 >s1; imatrix --show back.gguf | cut -f 1,4,6 >s2
ok "$(paste s1 s2 | awk '$1 != $4 || $2 != $5 || ($3 / $6 - 1) ^ 2 > 1e-12' | wc -l | tr -d ' ')" \
    0 "with the same means"
ok "$(get imatrix.chunk_count back.gguf) $(get imatrix.chunk_size \
    back.gguf) $(get imatrix.datasets back.gguf)" '17 16 "text.txt"' "and what else it says"
cat i.dat | imatrix --convert -c 16 - | cmp -s - back.gguf; ok $? 0 "from a pipe, too"
imatrix -q -m m.gguf -c 16 --output-format dat -o m.dat text.txt
equal i.dat m.dat "--output-format"
quantize -q --imatrix i.dat m.gguf d.gguf Q4_K_M; ok $? 0 "quantize takes it"
imatrix --convert i.gguf a -o x 2>err;             ok $? 2 "one file at a time"

# ---- in several runs ----
rm -f r r.at_*; imatrix -q -m m.gguf -c 16 --chunks 6 --keep-every 3 -o r text.txt
ok "$(ls r.at_* | tr '\n' ' ')$(get imatrix.chunk_count r.at_3)" "r.at_3 r.at_6 3" "--keep-every"
equal r r.at_6 "the last is the whole"
imatrix -q -m m.gguf -c 16 --resume -o r text.txt; ok $? 0 "--resume goes on"
ok "$(get imatrix.chunk_count r) $(tokens r) $(get imatrix.datasets r)" '17 272 "text.txt"' \
    "to the end"
imatrix --show i.gguf | cut -f 1,6 >s1; imatrix --show r | cut -f 1,6 >s2
ok "$(paste s1 s2 | awk '$1 != $3 || ($2 / $4 - 1) ^ 2 > 1e-12' | wc -l | tr -d ' ')" 0 \
    "the sums are those of one run"
imatrix -q -m m.gguf -c 16 --resume -o r text.txt
ok "$? $(get imatrix.chunk_count r)" "0 17" "once more adds nothing"
imatrix -q -m m.gguf -c 16 --resume -o new text.txt
equal i.gguf new "without an earlier run it is a run"
imatrix -q -m m.gguf -c 8 --resume -o r text.txt 2>err; ok $? 2 "other chunks"
cp text.txt other.txt; imatrix -q -m m.gguf -c 16 --resume -o r other.txt 2>err
ok $? 2 "another text"
imatrix --merge m.gguf >out 2>err;                 ok $? 1 "a model is no importance matrix"
imatrix --merge nowhere >out 2>err;                ok $? 2 "a missing file is status 2"
cp "$data/imatrix.dat" old.gguf
ok "$(imatrix --show old.gguf | cut -f 1,3,6)" "$(printf 'blk.0.a\t2\t1.25\nblk.1.b\t2\t2')" \
    "the old form is shown, whatever its name"
ok "$(imatrix --show "$data/imatrix.gguf" | sed -n 2p |
    awk -F '\t' -v OFMT=%.6f \
    '{ print $1, $2, $3, $4, $5, $6, $7, $8, $9 + 0, $10, $11 + 0, $12 + 0, $13 + 0, $14 }')" \
   "blk.1.ffn_up_exps.weight 3 2 5 7.5 1.25 0.5 3 0.803638 1 2.339572 0.905070 0.166667 -" \
   "an expert that no token reached counts as 1"

# ---- what is refused ----
imatrix text.txt >out 2>err;                       ok $? 2 "a model is needed"
imatrix -m m.gguf --save-every 2 text.txt >out 2>err; ok $? 2 "--save-every needs a file"
imatrix --merge -m m.gguf i.gguf >out 2>err;       ok $? 2 "--merge takes no model"
imatrix --show -c 16 i.gguf >out 2>err;            ok $? 2 "--show takes no chunk size"
imatrix --show >out 2>err;                         ok $? 2 "--show needs a file"
imatrix -m m.gguf -c 1 text.txt >out 2>err;        ok $? 2 "a chunk of one token"
imatrix -m m.gguf --output-format x text.txt >out 2>err; ok $? 2 "a form there is not"
imatrix -q -m m.gguf -c 16 text.txt >/dev/full 2>err; ok $? 2 "a full disk is status 2"
cp m.gguf keep; imatrix -m keep -c 16 -o keep text.txt 2>err; ok $? 2 "the model is not overwritten"
equal m.gguf keep "and stays as it is"
ln -s i.gguf link; cp i.gguf before
imatrix --merge i.gguf -o link 2>err;              ok $? 2 "nor is a matrix through a link"
equal before i.gguf "which stays as it is"
echo old >x; imatrix -m m.gguf -o x text.txt 2>err
ok "$? $(cat x)" "1 old" "a run that fails leaves the old file"
ok "$(find . -name '.*.part')" "" "and nothing beside it"

# ---- models with encoders ----
(seq 3 90 | tr '\n' ' '; echo) >ids
for i in 1 2 3 4 5; do seq 5 20; done | tr '\n' ' ' >few; echo >>few
imatrix -c 16 --tokens -m "$root/tests/data/classify/bert.gguf" -o e.gguf few 2>err
ok $? 0 "an encoder"
ok "$(grep -c PPL err) $(tokens e.gguf)" "0 80" "has no perplexity; its matrices saw all tokens"
quantize -q --imatrix e.gguf "$root/tests/data/classify/bert.gguf" q.gguf q4_0
ok $? 0 "quantize takes them"
# Means of squares, added up: hooks in front of the linear layers of transformers, in float64.
for x in bert t5; do
    [ -e "$shared/fixtures/models/$x/hf/config.json" ] ||
        [ -e "$shared/fixtures/models/$x/config.json" ] || continue
    src=$shared/fixtures/models/$x; [ -d "$src/hf" ] && src=$src/hf
    gguf-convert -q -T f32 "$src" $x.gguf
    imatrix -q -c 16 --tokens -m $x.gguf -o e.gguf ids
    imatrix --show e.gguf >shown
    while read -r model weight want; do
        [ "$model" = $x ] || continue
        ok "$(awk -v w="$weight" -v e="$want" \
            '$1 == w { d = $5 / e - 1; print (d < 1e-5 && d > -1e-5) }' shown)" \
           1 "$x: $weight"
    done <<'EOF'
bert blk.0.attn_q.weight 68.4585745
bert blk.0.attn_output.weight 36.3276055
bert blk.1.ffn_up.weight 63.9277998
bert blk.1.ffn_down.weight 68.2836503
t5 enc.blk.0.attn_q.weight 64.8085649
t5 enc.blk.1.ffn_down.weight 25.672818
t5 dec.blk.1.attn_q.weight 68.7726904
t5 dec.blk.0.cross_attn_k.weight 70.0186949
t5 dec.blk.1.cross_attn_q.weight 67.8607887
t5 dec.blk.1.ffn_down.weight 34.04844
EOF
done
echo "1..$n"
