#!/bin/sh
# directions.t - control vectors made of pairs of texts, against hidden states of the same model
# elsewhere; speaks TAP.
. "$(dirname "$0")/../tap.sh"
golden=$root/tests/data/decode/directions
gguf-convert -q -T f32 "$root/tests/data/hf" m.gguf
m=m.gguf
column=1
for by in mean pca; do
    for how in "" "-u 2" "-b 3" "-t 1"; do
        # shellcheck disable=SC2086
        decode -m $m --cache-k f32 --cache-v f32 $how --directions "$golden.neg" \
            --directions-by $by "$golden.pos" >v.gguf 2>err
        ok "$?$(cat err)" 0 "$by $how"
        gguf-inspect --print direction.1 v.gguf | tr -s ' ' '\n' | grep . >got
        cut -f$column "$golden.tsv" | paste got - | awk '
            { d = $1 - $2; d = d < 0 ? -d : d; worst = d > worst ? d : worst }
            END { print NR, worst < 1e-6 ? "near" : worst }' >far
        ok "$(cat far)" "128 near" "the direction"
    done
    cp v.gguf $by.gguf
    column=2
done
ok "$(gguf-inspect --get general.architecture v.gguf)" controlvector "what it is"
ok "$(gguf-inspect --get controlvector.model_hint v.gguf)" llama "of which family"
ok "$(gguf-inspect --get controlvector.layer_count v.gguf)" 1 "of how many layers"
gguf-inspect --check v.gguf >out 2>&1;      ok "$?" 0 "nothing is wrong with it"
decode -m $m --directions "$golden.neg" "$golden.pos" >same.gguf
decode -m $m --directions - "$golden.pos" <"$golden.neg" | cmp - same.gguf
ok "$?" 0 "pca is usual; standard input"
echo 1 2 3 | decode -m $m --control-vector v.gguf:-2 --text --top 1 >out 2>err
ok "$?$(cat err)" 0 "can be used"

refused() { # STATUS TEXT OPTION...
    s=$1 text=$2
    shift 2
    out=$(decode -m $m "$@" 2>&1 >bytes)
    ok "$? $(wc -c <bytes | tr -d ' ')" "$s 0" "$text: status, nothing is written"
    has "$out" "$text" "$text"
}
head -n 3 "$golden.neg" >few
refused 1 "few: has fewer lines than $golden.pos" --directions few "$golden.pos"
refused 1 "few: has fewer lines than $golden.neg" --directions "$golden.neg" few
: >none
refused 1 "none: no pairs of texts" --directions none none
refused 1 "the pairs do not differ in layer 1" --directions few few
printf '1 2\n\n' >gap
refused 1 "gap: line 2: no tokens" --directions few gap
echo 1 99999 >wrong
refused 1 "wrong: line 1" --directions few wrong
refused 2 "line 1: 4 tokens, and the context has 3" -c 3 --directions few "$golden.pos"
refused 2 "--directions-by" --directions few --directions-by sum few
refused 2 "--directions-by needs --directions" --directions-by mean few
refused 2 "exclude each other" --directions few --text few
refused 2 "whole texts" --directions few --all few
echo "1..$n"
