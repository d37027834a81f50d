#!/bin/sh
# embed.t - decode --embed: what vectors become of the hidden states, whatever the batch; speaks
# TAP.
. "$(dirname "$0")/../tap.sh"

embed() { decode --embed -t 1 -m "$m" "$@"; }

printf '5 9 200 31 7\n\n3\n100 101 102 103 104 105 106 107\n' >in
embed --pooling none in >none
ok "$? $(wc -l <none)" "0 14" "none: a line a token"
ok "$(tr -d '[]' <none | awk -F, '{ print NF }' | sort -u)" 128 "each of the hidden size"
for p in mean cls last; do
    embed --pooling $p in >$p
    ok "$? $(wc -l <$p) $(sed -n 2p $p)" "0 4 []" "$p: a line a sequence"
done
ok "$(sed -n '1p;3p;4p' cls)" "$(sed -n '1p;6p;7p' none)" "cls is the first of a sequence"
ok "$(sed -n '1p;3p;4p' last)" "$(sed -n '5p;6p;14p' none)" "last is the last"
far=$(head -n 5 none | tr -d '[]' | awk -F, '{ for (i = 1; i <= NF; i++) s[i] += $i / 5 }
    END { for (i = 1; i <= NF; i++) printf "%s%.6f", (i > 1 ? "," : ""), s[i]; print "" }' |
    cat - mean | tr -d '[]' | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) a[i] = $i }
    NR == 2 { for (i = 1; i <= NF; i++) if (($i - a[i])^2 > 1e-11) bad++; print bad + 0, NF }')
ok "$far" "0 128" "mean is the mean"
embed --normalize --pooling mean in | tr -d '[]' |
    awk -F, 'NF { s = 0; for (i = 1; i <= NF; i++) s += $i^2; printf "%.5f\n", sqrt(s) }' >lengths
ok "$(sort -u lengths) $(wc -l <lengths)" "1.00000 3" "normalized vectors have length 1"
embed in >default
ok "$(cksum <default)" "$(cksum <last)" "a decoder's default is the last"

for b in 1 2 3 5 8 13; do
    for p in none mean cls last; do
        embed -b $b --pooling $p in >got
        ok "$? $(cksum <got)" "0 $(cksum <$p)" "the same with -b $b, $p"
    done
done
decode --embed -t 3 -u 2 --pooling mean -m "$m" in >got
ok "$(cksum <got)" "$(cksum <mean)" "the same with -u 2, and of three threads"

embed --frames --pooling last in >frames
ok "$? $(head -c 4 frames)" "0 LMLG" "--frames: a logits stream"
# kinds, sequences, positions, tokens, lengths, after a header of a whole number of lines
frame_at() { od -An -v -tu4 -j "$1" -N 24 frames | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'; }
head=$((16 + $(od -An -tu4 -j 12 -N 4 frames)))
ok "$(frame_at $head)" "4 512 0 4 7 128" "a vector frame"
ok "$(frame_at $((head + 2 * 544)))" "4 512 3 7 107 128" "the third, of the fourth sequence"
ok "$(frame_at $((head + 3 * 544)))" "3 0 4 0 0 3" "the end frame"
ok "$(od -An -v -tx4 -j $((head + 32)) -N 512 frames | cksum)" "$(sed -n 1p last | tr -d '[]\n' |
    tr , ' ' | perl -e 'print pack("f<*", split " ", <STDIN>)' |
    od -An -v -tx4 | cksum)" "holds what the array says"

printf '1 2\n3 4' | embed >got 2>err
ok "$? $(wc -l <got) $(cat err)" "1 1 decode: <stdin>: line 2: the input ends inside the line" \
    "what was whole is answered"
printf '1 2\n3 99999\n' | embed >got 2>err
ok "$? $(wc -l <got) $(wc -l <err)" "1 1 1" "an id outside the vocabulary"
printf '1 2\n1 2 3 4 5 6\n' | embed -c 5 >got 2>err
ok "$? $(cat err)" "2 decode: <stdin>: line 2: 6 tokens, and the context has 5" "longer than -c"
seq 600 | tr '\n' ' ' | tr -s ' ' | sed 's/ $//; s/[0-9]*/1/g' | { cat; echo; } | embed >got 2>err
ok "$? $(wc -l <got)" "1 0" "longer than the model allows"
for use in "--pooling mean" "--normalize" "--frames" "--embed --top 3" "--embed --all" \
    "--embed -i" "--embed --text" "--embed --nll" "--embed --pooling max"; do
    # shellcheck disable=SC2086
    decode -m "$m" $use </dev/null >got 2>err
    ok "$? $(wc -c <got) $(wc -l <err)" "2 0 2" "refused: $use"
done
# Every token sees its whole sequence: means of the hidden states that transformers 5.24 gives
# with an attention mask of zeros, in single precision, the first four of each.
gguf-convert -q -T f32 "$root/tests/data/hf" full.gguf
printf '5 6 7 100 200 31\n9 8\n300 4 17 60 61 62 63 64 65 66 67 68\n' >seen
cat >want <<'END'
-0.46197 0.02503 -0.18773 0.76242
0.41044 -0.16778 -0.33050 0.83610
0.27665 0.29828 0.15994 -0.81496
END
for how in '' '-t 3' '-b 13'; do
    # shellcheck disable=SC2086
    decode --embed --attention non-causal $how -c 20 -m full.gguf seen | tr -d '[]' |
        awk -F, '{ printf "%.5f %.5f %.5f %.5f\n", $1, $2, $3, $4 }' >got
    ok "$(paste -d ' ' want got |
        awk '{ for (i = 1; i < 5; i++) if (($i - $(i + 4))^2 > 1e-9) bad++ }
        END { print bad + 0, NR, NF }')" "0 3 8" "--attention non-causal $how"
done
decode --embed --override-kv llama.attention.causal=bool:false -c 20 -m full.gguf seen >got
ok "$(decode --embed --attention=non-causal -c 20 -m full.gguf seen | cmp - got)" "" \
    "and what the model says"
decode --embed --attention=causal --override-kv llama.attention.causal=bool:false -m full.gguf \
    seen |
    cmp - got >/dev/null
ok $? 1 "or does not"
says() { # OPTIONS...
    decode "$@" -m full.gguf seen 2>&1 | sed 's/^[^:]*: [^:]*: //'
}
ok "$(says --attention non-causal)" \
    "without causal attention there are no logits, only embeddings" \
    "but there are no logits"
ok "$(says --embed --attention non-causal --override-kv llama.attention.sliding_window=u32:4)" \
    "llama.attention.causal: false is not supported" "nor windows"
decode --embed --attention causal -m "$root/tests/data/classify/bert.gguf" seen >got 2>err
ok $? 2 "and an encoder stays one"
echo "1..$n"
