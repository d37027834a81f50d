#!/bin/sh
# encoder-decoder.t - a model with an encoder beside its decoder: logits against those of its
# authors' code, requests, and what is saved of it; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/near.sh"
t5=$root/tests/data/encoders/t5
exact='--cache-k f32 --cache-v f32'
rows() { cut -f 1,2,3,5,6; }        # sequence, position, token, id and logit
run() { decode --text --top 2 $exact -m $t5.gguf "$@" 2>err | rows; }

for how in '' '-b 1' '-u 2 -t 3' '--no-repack'; do
    # shellcheck disable=SC2086
    decode --all --text --top 4 $exact $how --encoder $t5.texts -m $t5.gguf $t5.ids >got 2>err
    ok "$?:$(cat err):$(near_logits $t5.tsv got 1e-5)" 0::near "logits as the reference's, $how"
done
run --all --encoder $t5.texts $t5.ids >whole

# ---- saved, and gone on with ----
# Lines of which the first have been evaluated: what is left of each after so many.
for at in 1 2 3; do
    cut -d ' ' -f 1-$at $t5.ids >begun
    awk -v at=$at '{ for (i = at + 1; i <= NF; i++) printf "%s ", $i; print "" }' $t5.ids |
        sed 's/ $//' >rest
    run --encoder $t5.texts --save-state st begun >/dev/null
    ok "$?:$(cat err)" 0: "saved after $at"
    run --all --load-state st rest >got
    ok "$(cat err)" "" "and loaded, without texts"
    awk -F '\t' -v at=$at '$2 >= at' whole >want
    equal got want "as if never stopped after $at"
done
ids() { sed -n "$1p" "$2"; }
{ echo "4: e $(ids 1 $t5.texts)"; echo "7: e $(ids 2 $t5.texts)"; echo "7: $(ids 2 $t5.ids)"; } |
    decode -i $exact --save-state st -m $t5.gguf >out 2>err
ok "$?:$(cat err)" 0: "the loop saves, a text before its first token too"
{ echo "4: $(ids 1 $t5.ids)"; echo '7: 33'; echo '8: <7'; echo '8: 33'; echo '9: 0'; } |
    decode -i $exact --load-state st -m $t5.gguf 2>err |
    sample --greedy 2>err2 | grep -o '^[0-9][0-9]*' >got
{ ids 1 $t5.ids; echo "$(ids 2 $t5.ids) 33"; echo "$(ids 2 $t5.ids) 33 33"; } >want.ids
sed -n '1p;2p;2p' $t5.texts >want.texts
decode $exact --encoder want.texts -m $t5.gguf want.ids | sample --greedy | tr -d ' ' >want
equal got want "and goes on with what it loads"
has "$(cat err2)" "no text of the encoder" "not with another"

# New lines get texts, those that are there have one.
run --encoder $t5.texts --save-state st begun >/dev/null
{ printf '\n\n\n'; ids 1 $t5.texts; } >texts
{ printf '\n\n\n'; ids 1 $t5.ids; } >lines
run --all --load-state st --encoder texts lines >got
ok "$(cat err)" "" "a line more, with its text"
awk -F '\t' -v OFS='\t' '$1 == 0 { $1 = 3; print }' whole >want
equal got want "is evaluated as if alone"
echo 5 | decode --load-state st --encoder $t5.texts -m $t5.gguf >out 2>err
ok "$?:$(sed 's/^decode: [^:]*: //' err)" "1:line 1: its sequence has a text already" \
    "no second text"
printf '\n\n\n0\n' | decode --load-state st -m $t5.gguf >out 2>err
ok "$?:$(cat err)" "1:decode: line 4: no text of the encoder was saved for it" "nor none"

# ---- other options, other models ----
echo 5 | decode --cache-k bf16 --cache-v f16 -c 40 -b 3 --load-state st -m $t5.gguf >out 2>err
ok "$?:$(cat err)" 0: "caches of other types"
echo 5 | decode -c 5 --load-state st -m $t5.gguf >out 2>err
ok "$?:$(sed 's/^decode: [^:]*: //' err)" \
    "2:sequence 0 has 6 tokens for the encoder, and the context 5" "a context that is too short"
printf '0: 1 2\n' | decode -i --save-state llama.st -m "$m" >out 2>err
for s in "llama.st $t5.gguf" "st $m"; do
    decode -i --load-state ${s% *} -m "${s#* }" </dev/null >out 2>err
    ok "$?:$(sed 's/^decode: [^:]*: //' err)" "1:the saved state is another model's" "${s% *}"
done
i=0 size=$(wc -c <st)
while [ $i -lt "$size" ]; do
    head -c $i st >cut
    decode -i --load-state cut -m $t5.gguf </dev/null >out 2>err
    [ "$? $(wc -l <err)" = "1 1" ] || break
    i=$((i + 61))
done
ok $((i >= size)) 1 "cut short anywhere, it is refused"

# ---- files ----
decode --encoder nowhere -m $t5.gguf $t5.ids >out 2>err
ok "$?:$(cat err):$(wc -c <out | tr -d ' ')" \
    "2:decode: nowhere: cannot open: No such file or directory:0" \
    "texts that are not there are missed before anything is written"
decode --encoder - -m $t5.gguf <$t5.texts >out 2>err
ok "$?:$(head -n 1 err)" "2:decode: --encoder: standard input is for the decoder's tokens" \
    "one stream is not both"
run --all --encoder - $t5.ids <$t5.texts >got
equal got whole "but it may be the encoder's"
echo "1..$n"
