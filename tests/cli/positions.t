#!/bin/sh
# positions.t - sequences that forget positions in front of others, of models that normalize keys
# once they are rotated; speaks TAP.
. "$(dirname "$0")/../tap.sh"
data=$root/tests/data/families
ids() { # COUNT FIRST
    awk -v n="$1" -v x="$2" 'BEGIN { for (i = 0; i < n; i++) printf " %d", (x + i * 37) % 260 + 3
        print "" }'
}
best() { decode --cache-k f32 --cache-v f32 --text --top 9 "$@" | cut -f 5,6; }

# In a model of one layer a key is its token's and its position's alone, so that a shifted sequence
# is one without what was forgotten.  Norms without weights turn with what they normalize.
gguf-convert -q -T f32 --spool=. "$data/llama4.tar.zst" llama4.gguf
quantize -q --allow-requantize --prune-layers 1,2,3 llama4.gguf one.gguf F32
ids 50 5 | best -m one.gguf -c 40 --context-shift >got
ids 30 745 | best -m one.gguf >want
ok "$(paste got want | awk '$1 == $3 { d = $2 - $4; n += d * d < 1e-10 } END { print n }')" 9 \
    "keys turn with their norm"

# With weights they do not.
for f in hunyuan-dense hunyuan-moe; do
    gguf-convert -q -T f32 --spool=. "$data/$f.tar.zst" $f.gguf
    ids 50 5 | decode -m $f.gguf -c 40 --context-shift --text --top 9 >got 2>err
    ok "$?:$(cat err)" "2:decode: $f.gguf: what this model remembers of tokens belongs to their \
positions: they cannot be shifted" "$f: refused"
done
echo "1..$n"
