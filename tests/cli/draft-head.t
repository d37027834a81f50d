#!/bin/sh
# draft-head.t - layers that predict further tokens: converted, run, and asked what follows; what
# they guess against a reference, whatever became of the sequence before; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/gguf-bytes.sh"
data=$root/tests/data/draft
exact='--cache-k f32 --cache-v f32'

# The guesses of a stream: sequence, position, number, id, logarithm of its probability.
guesses() {
    cat >stream
    od -v -A n -t u4 -w4 stream >whole
    od -v -A n -t f4 -w4 stream | paste whole - | awk '
        { u[n] = $1; f[n++] = $2 }
        END {
            for (p = 4 + u[3] / 4; p < n; p += 8 + u[p + 1] / 4)
                for (i = 0; u[p] == 5 && i < u[p + 5]; i++)
                    print u[p + 2] "\t" u[p + 3] "\t" i "\t" u[p + 8 + 2 * i] "\t" f[p + 9 + 2 * i]
        }'
}
# The same without the header, which says that there is a head.
body() { cat >stream && tail -c +"$(($(od -A n -t u4 -j 12 -N 4 stream) + 17))" stream; }
# The kind of each frame, the position, and the code of an error or how many numbers there are.
kinds() {
    od -v -A n -t u1 | awk '
        { for (i = 1; i <= NF; i++) b[n++] = $i }
        function u32(p) { return b[p] + 256 * (b[p + 1] + 256 * (b[p + 2] + 256 * b[p + 3])) }
        END { for (p = 16 + u32(12); p < n; p += 32 + u32(p + 4))
                  printf "%s %s %s;", u32(p), u32(p + 12), u32(p + (u32(p) == 2 ? 16 : 20)) }'
}
# near GUESSES REFERENCE: the same ids, and how far the numbers are.
near() {
    sort -n -k 1,1 -k 2,2 -k 3,3 "$1" | paste "$2" - | awk -F '\t' '
        { d = $5 - $10; d = d < 0 ? -d : d; worst = d > worst ? d : worst }
        $1 FS $2 FS $3 FS $4 != $6 FS $7 FS $8 FS $9 { bad = bad ? bad : $0 }
        END { print bad ? bad : NR && worst <= 1e-4 ? "near" : worst + 0 }'
}
# Requests: a sequence token by token, asked before each; at once, asked from its end.
steps() { awk '{ for (i = 1; i <= NF; i++) { if (i > 1) print NR - 1 ": ?3 " $i
                                            print NR - 1 ": +0 " $i } }' "$1"; }
back() { awk '{ print NR - 1 ": +0 " $0
                for (i = NF; i > 1; i--) print NR - 1 ": @" i - 1 " ?3 " $i }' "$1"; }
# The same among others: copies, tokens that are taken back or dropped again.
among() { awk '{ s = NR - 1
    for (i = 1; i < NF; i++) {
        print s ": +0 " $i; print s + 7 ": <" s; print s + 7 ": ?2 5"; print s + 7 ": +0 7 8"
        print s + 7 ": ?1 9"; print s ": @" i " ?3 " $(i + 1); print s + 7 ": x" } }' "$1" ; }

for name in glm4moe deepseek-v3 qwen35; do
    ids=$data/$name.ids
    gguf-convert -q -T f32 "$data/$name.tar.zst" "$name.gguf" 2>err
    ok "$?:$(cat err)" 0: "$name: converts"
    ok "$(gguf-inspect --check "$name.gguf" 2>&1)" "" "$name: what belongs to it is there"
    for how in "" "-u 7" "-u 1 -t 1" "-b 9 -u 4 -t 2"; do
        for way in steps back; do
            # shellcheck disable=SC2086
            $way "$ids" | decode -q -i --draft-head -m "$name.gguf" $exact $how | guesses >got
            ok "$(near got "$data/$name.tsv")" near "$name: guesses as the reference's, $way $how"
            sort -n -k 1,1 -k 2,2 -k 3,3 got >sorted
            [ -e "$name.bits" ] || cp sorted "$name.bits"
            equal sorted "$name.bits" "$name: the same bits, $way $how"
        done
    done
    among "$ids" | decode -q -i --draft-head -m "$name.gguf" $exact | guesses |
        awk '$1 < 7' | sort -n -k 1,1 -k 2,2 -k 3,3 >got
    equal got "$name.bits" "$name: nor do copies and other tokens change any"

    # What the model itself answers stays as it is, bit for bit.
    sed = "$ids" | paste - - | sed 's/\t/: +9 /' >plain
    decode -i -m "$name.gguf" plain | body >plain.out
    decode -i --draft-head -m "$name.gguf" plain | body >got
    equal plain.out got "$name: its logits do not depend on the head"

    # A state has what the head needs, if it was saved with it.
    head -n 1 "$ids" | cut -d ' ' -f 1-20 >first
    sed 's/^/3: +0 /' first >begin
    set -- $(head -n 1 "$ids" | cut -d ' ' -f 21-23)
    printf '%s\n' "3: ?3 $1" "3: +0 $1 $2" "3: ?3 $3" >go_on
    decode -i --draft-head -m "$name.gguf" $exact --save-state with begin >out
    decode -i --draft-head -m "$name.gguf" $exact --load-state with go_on | guesses |
        sed 's/^3/0/' >got
    awk '$1 == 0 && ($2 == 20 || $2 == 22)' "$data/$name.tsv" >want
    ok "$(near got want)" near "$name: guesses about a sequence that was loaded"
    decode -i -m "$name.gguf" $exact --save-state without begin >out
    decode -i --draft-head -m "$name.gguf" $exact --load-state without go_on | strings -n 8 >out
    has "$(cat out)" "sequence 3 was saved without the draft head" "$name: or refused"
    printf '%s\n' "3: $1" >one
    for state in with without; do
        decode -i -m "$name.gguf" $exact --load-state $state one | body >$state.out
        decode -i --draft-head -m "$name.gguf" $exact --load-state $state one | body >got
        equal $state.out got "$name: a state $state it is good for both"
    done
    equal with.out without.out "$name: and goes on alike"

    gguf-convert -q --no-draft-head -T f32 "$data/$name.tar.zst" bare.gguf 2>err
    ok "$?:$(cat err):$(gguf-inspect --tensors bare.gguf | grep -c nextn)" 0::0 "$name: without"
    decode -i -m bare.gguf plain | body >got
    equal plain.out got "$name: the same model otherwise"
    decode -i --draft-head -m bare.gguf plain >out 2>err
    ok "$?:$(cat err)" "2:decode: bare.gguf: the model has no draft head" \
        "$name: said if it is wanted"
done

# What cannot be asked is answered with an error frame, and the loop goes on.
asks() { # REQUEST ANSWER NAME
    printf '%s\n' '+0 4 5 6' "$1" '?1 7' |
        decode -i ${4---draft-head} -c 8 -m glm4moe.gguf | kinds >out
    ok "$(cat out)" "$2" "$3"
}
asks '?5 7' '5 3 5;5 3 1;3 0 2;' 'as far as the context goes'
asks '?6 7' '2 3 4;5 3 1;3 0 2;' 'not beyond the context'
asks '@1 ?7 7' '5 1 7;5 3 1;3 0 2;' 'from an earlier position'
asks '@0 ?1 7' '2 3 1;5 3 1;3 0 2;' 'a head needs a token'
asks '@4 ?1 7' '2 3 1;5 3 1;3 0 2;' 'not from beyond the end'
asks '2: ?1 7' '2 0 1;5 3 1;3 0 2;' 'not of a sequence that is not there'
asks '?0 7' '2 3 1;5 3 1;3 0 2;' 'for no id'
asks '?2' '2 3 1;5 3 1;3 0 2;' 'without the id that comes'
asks '?2 7 8' '2 3 1;5 3 1;3 0 2;' 'with two'
asks '+1 ?2 7' '2 3 1;5 3 1;3 0 2;' 'with frames as well'
asks '?2 999' '2 3 2;5 3 1;3 0 2;' 'an id outside the vocabulary'
asks '?2 7' '2 3 6;2 3 6;3 0 2;' 'without the head' ''
printf '%s\n' '4294967295: +0 1 2' '4294967295: ?4294967295 1' |
    decode -i --draft-head -m glm4moe.gguf | kinds >out
ok "$(cat out)" '2 2 3;3 0 1;' 'more than any context'
decode -i --draft-head --embed -m glm4moe.gguf </dev/null >out 2>err
ok "$?" 2 'no embeddings beside'
decode --draft-head -m glm4moe.gguf </dev/null >out 2>err
ok "$?:$(head -n 1 err)" '2:decode: --draft-head is for requests: it needs -i' 'only with -i'
decode -i --draft-head -m "$m" </dev/null >out 2>err
ok "$?:$(cat err)" "2:decode: $m: the model has no draft head" 'a model without'

# An adapter may change the head's weights: twice itself and its opposite is nothing.
quarters() { yes '' | head -n "$1" | while read -r _; do printf '\000\000\200\076'; done; }
{
    head_ 2 4
    key general.architecture 8; str glm4moe; key general.type 8; str adapter
    key adapter.type 8; str lora; key adapter.lora.alpha 6; le 1065353216 4
    info blk.2.nextn.eh_proj.weight.lora_a 0 0 64 1
    info blk.2.nextn.eh_proj.weight.lora_b 0 256 1 32
} >lora.gguf
pad lora.gguf; quarters 96 >>lora.gguf
back "$data/glm4moe.ids" >asked
for how in lora.gguf:1 lora.gguf:-1; do
    decode -q -i --draft-head --lora "$how" -m glm4moe.gguf $exact asked 2>err | guesses >got
    ok "$(wc -l <got | tr -d ' '):$(near got "$data/glm4moe.tsv" | grep -c near):$(cat err)" \
        "$(wc -l <glm4moe.bits | tr -d ' '):0:" "--lora $how: the head guesses otherwise"
done
decode -q -i --draft-head --lora lora.gguf:1 --lora lora.gguf:-1 -m glm4moe.gguf $exact asked |
    guesses >got
ok "$(near got "$data/glm4moe.tsv")" near "... and with both as without"
sed = "$data/glm4moe.ids" | paste - - | sed 's/\t/: +9 /' >plain
decode -i -m glm4moe.gguf plain | body >plain.out
decode -i --draft-head --lora lora.gguf -m glm4moe.gguf plain | body >got
equal plain.out got "an adapter of the head leaves the model alone"

# After a shift the head knows what is left, whether it was asked before or not.
ids=$(head -n 1 "$data/glm4moe.ids")
{ echo "+0 $(echo "$ids" | cut -d ' ' -f 1-12)"
  echo '?2 9'
  echo "+0 $(echo "$ids" | cut -d ' ' -f 13-20)"
  echo '?3 9'; } >asked
for model in glm4moe deepseek-v3; do
    decode -i --draft-head --context-shift -c 16 -m $model.gguf asked | guesses | tail -n 3 >want
    sed 2d asked | decode -i --draft-head --context-shift -c 16 -m $model.gguf | guesses >got
    equal want got "$model: guesses after a shift"
    ok "$(wc -l <got | tr -d ' ')" 3 "$model: there are three"
done

# Proposals of the head change no id, whether they are kept or not; a model that always guesses
# right keeps all.
gguf-convert -q -T f32 "$data/right.tar.zst" right.gguf
for name in glm4moe deepseek-v3 qwen35 right; do
    for how in "--greedy" "--seed 5 --temp 0.5" "--greedy --parallel 2"; do
        # shellcheck disable=SC2086
        sample -q $how -n 50 "$data/$name.ids" -- decode -i -m "$name.gguf" >want
        for max in 1 3 9; do
            # shellcheck disable=SC2086
            sample -v $how -n 50 --draft-head --draft-max $max "$data/$name.ids" -- \
                decode -i --draft-head -m "$name.gguf" >got 2>err
            ok "$?:$(cmp want got 2>&1)" 0: "$name: the same ids with $max proposals, $how"
        done
    done
done
sample -v --greedy -n 50 --draft-head "$data/right.ids" -- decode -i --draft-head -m right.gguf \
    2>err >out
ok "$(tail -n 1 err)" 'sample: --draft-head: 72 ids proposed, 72 of them kept' \
    'right: of each line an id, 12 times three and another, and one, all are kept'

# On devices whose memory nobody else can touch, guesses are the same bits.
modules=$(cd "$(dirname "$(command -v decode)")/.." && pwd)/module
if [ -f "$modules/liblmpipe-far.so" ]; then
    for how in "" "--gpu-layers 2" "--tensor-device nextn=cpu" "--tensor-device blk.2=far1"; do
        # shellcheck disable=SC2086
        back "$data/glm4moe.ids" | LMPIPE_MODULES=$modules LMPIPE_FAR_DEVICES=2 \
            decode -q -i --draft-head -m glm4moe.gguf $exact $how 2>err | guesses |
            sort -n -k 1,1 -k 2,2 -k 3,3 >got
        equal got glm4moe.bits "on other devices $how"
    done
fi
echo "1..$n"
