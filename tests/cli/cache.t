#!/bin/sh
# cache.t - decode --cache-k, --cache-v: keys and values of few bits, of heads that are transformed
# before they are rounded; saving, loading and shifting them; speaks TAP.
. "$(dirname "$0")/../tap.sh"

# heads of 64 values
gguf-convert -q -T f32 "$root/tests/data/families/qwen3-wide.tar.zst" m.gguf
tokenize -m m.gguf -f "$root/tests/data/text.txt" | tr ' ' '\n' | head -n 100 | tr '\n' ' ' >text
echo >>text
decode -m m.gguf --all --cache-k f32 --cache-v f32 text >ref

# 200 tokens through windows of 16, then back to the third
gguf-convert -q -T f32 "$root/tests/data/families/gemma3-vision.tar.zst" windows.gguf
{ seq 10 209 | tr '\n' ' '; printf '\n@3 77\n'; } >back
echo 10 11 12 77 | decode --text --top 5 -m windows.gguf | cut -f5,6 >want
ok "$(decode -i --top 5 -m windows.gguf back | grep -a -c 'cannot be cut back to 3')" 1 \
    "a window has gone on"
decode -i --keep-all --top 5 -m windows.gguf back >frames
ok "$(tail -c 72 frames | head -c 40 | od -An -v -tu4 -w8 | awk '{ print $1 }' | tr '\n' ' ')" \
    "$(cut -f1 want | tr '\n' ' ')" "--keep-all: it can be cut back"
decode --keep-all --all -m windows.gguf text >got; decode --all -m windows.gguf text | cmp - got
ok $? 0 "--keep-all: the same results"

# A state without what no window reaches any more, for a context that would remember it: it goes on
# from there, back to what is there, and is saved again as it is.
seq 10 209 | tr '\n' ' ' >long; echo >>long
decode -q --save-state short -m windows.gguf long >frames
decode -q --keep-all --save-state whole -m windows.gguf long >frames
for how in "--keep-all --load-state short" "--load-state whole" "--keep-all --load-state whole"; do
    # shellcheck disable=SC2086
    echo '@190 77' | decode -i --top 5 -m windows.gguf $how >got
    echo '@190 77' | decode -i --top 5 -m windows.gguf --load-state short | cmp - got
    ok $? 0 "a state of windows, $how"
done
printf '@70 77\n' | decode -i --keep-all --load-state short -m windows.gguf >frames
ok "$(grep -a -c 'cannot be cut back to 70' frames)" 1 "what was not saved is not there"
printf '@70 77\n' | decode -i --keep-all --load-state whole -m windows.gguf >frames
ok "$(grep -a -c 'cannot be cut back' frames)" 0 "what was saved is"
: >none
decode -q --keep-all --load-state short --save-state again -m windows.gguf none >frames
ok "$(cmp short again)" "" "and saved again as it was"
# Cut back, and saved with fewer positions than a window keeps of that length.
{ seq 10 209; seq 10 109; } | tr '\n' ' ' >long
printf '%s\n@250\n' "$(cat long)" | decode -i -q --save-state cut -m windows.gguf >frames
echo '77' | decode -i -q --top 5 --load-state cut -m windows.gguf | tail -c 104 | head -c 72 >got
printf '%s\n@250 77\n' "$(cat long)" | decode -i -q --top 5 -m windows.gguf | tail -c 104 |
    head -c 72 | cmp - got
ok $? 0 "a sequence that was cut back is saved and loaded"

# How far from the reference a run is on average, against a bound.
far() { # BOUND ARGUMENT...
    bound=$1
    shift
    decode -m m.gguf --kl ref "$@" text 2>&1 >/dev/null |
        sed -n 's/.*: KL \([^ ]*\) on average.*/\1/p' |
        awk -v most="$bound" '{ print $1 <= most ? "near" : $1 }'
}
# The bound: twice what these types do to this model.
while read -r type bound; do
    for isa in scalar avx2 avx512; do
        ok "$(LMPIPE_ISA=$isa far "$bound" --cache-k "$type" --cache-v "$type")" near \
            "cache of type $type, $isa"
    done
    decode -m m.gguf --all --cache-k "$type" --cache-v "$type" text >want
    for how in "-u 1" "-u 7 -b 20" "-t 2 -u 33"; do
        # shellcheck disable=SC2086
        decode -m m.gguf --all --cache-k "$type" --cache-v "$type" $how text | cmp - want
        ok $? 0 "$type: the same with $how"
    done
done <<'END'
bf16 2e-6
q8_0 2e-5
q5_1 1e-3
q5_0 1.2e-3
q4_1 4e-3
q4_0 5e-3
iq4_nl 4e-3
END

# Not transformed: as near, and other numbers.
for pair in "q8_0 2e-5" "q4_0 5e-3"; do
    type=${pair% *}
    ok "$(far "${pair#* }" --no-hadamard --cache-k "$type" --cache-v "$type")" near \
        "--no-hadamard: cache of type $type"
    decode -m m.gguf --no-hadamard --cache-k "$type" --cache-v "$type" text >got
    decode -m m.gguf --cache-k "$type" --cache-v "$type" text | cmp -s - got
    ok $? 1 "--no-hadamard: $type is rounded otherwise"
done
decode -m m.gguf --no-hadamard --all text >got; decode -m m.gguf --all text | cmp - got
ok $? 0 "--no-hadamard: f16 is what it was"

head=$(cut -d' ' -f 1-60 text) rest=$(cut -d' ' -f 61- text)
for type in q8_0 q4_0; do
    c="--cache-k $type --cache-v $type"
    # shellcheck disable=SC2086
    echo "$head" | decode $c --save-state state -m m.gguf >/dev/null
    # shellcheck disable=SC2086
    echo "$rest" | decode $c --load-state state -m m.gguf --text --top 3 >got
    # shellcheck disable=SC2086
    decode $c -m m.gguf --text --top 3 text >want
    ok "$(wc -l <got) $(cksum <got)" "3 $(cksum <want)" "$type: saved and loaded"
    # shellcheck disable=SC2086
    echo "$rest" | decode $c --no-hadamard --load-state state -m m.gguf --text --top 1 >got
    ok "$(head -n 1 want | paste - got |
        awk -F'\t' '{ d = $6 - $13; print (d * d < 0.25 ? "near" : d) }')" \
        near "$type: loaded with --no-hadamard"
    for other in f32 q4_1; do
        echo "$rest" | decode --load-state state --cache-k $other --cache-v $other -m m.gguf \
            --text --top 1 >loaded
        # shellcheck disable=SC2086
        echo "$rest" | decode --load-state state $c -m m.gguf --text --top 1 >same
        ok "$(paste same loaded |
            awk -F'\t' '{ d = $6 - $13; print (d * d < 0.25 ? "near" : d) }')" \
            near "$type: loaded into a cache of type $other"
    done
done
decode -m m.gguf -c 64 --context-shift --cache-k f32 --cache-v f32 --text --top 1 text >want
decode -m m.gguf -c 64 --context-shift --cache-k q8_0 --cache-v q8_0 --text --top 1 text >got
ok "$(paste want got | awk -F'\t' '{ d = $6 - $13; print (d * d < 0.01 ? "near" : d) }')" near \
    "keys that are turned to other positions"
echo "1..$n"
