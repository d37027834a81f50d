#!/bin/sh
# chosen.t - models whose tokens look where an indexer of the layer chooses: batches of every size,
# cutting back, copies, saved states, shifts; which layers choose; speaks TAP.
root=$(cd "$(dirname "$0")/../.." && pwd)
data=$root/tests/data/families
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cd "$dir" || exit 1
n=0
ok() { # GOT WANT NAME
    n=$((n + 1))
    if [ "$1" = "$2" ]; then echo "ok $n - $3"; else
        echo "not ok $n - $3"; printf '%s\n' "got '$1'" "want '$2'" | sed 's/^/# /'
    fi
}
# Sequences of up to 150 tokens, in pages of 64, of which a token looks at 6.
ids() { # COUNT FIRST
    awk -v n="$1" -v x="$2" 'BEGIN { for (i = 0; i < n; i++) printf " %d", (x + i * 37) % 260 + 3 }'
}
for len in 150 20 1 70 3; do echo "$(ids $len $len)"; done >lines
# The last answer of a conversation: ids and logits.
last() { # MODEL LINES...
    model=$1
    shift
    # shellcheck disable=SC2086
    printf '%s\n' "$@" | decode -i -q --top 5 -m "$model" $how 2>/dev/null |
        tail -c 72 | head -c 40 | od -A n -t x4 | tr -d '\n'
}

for name in deepseek32 glm-dsa; do
    m=$name.gguf
    gguf-convert -q -T f32 "$data/$name.tar.zst" $m
    decode -m $m --all -t 1 lines >want
    for how in "-u 1" "-u 7" "-b 5" "-b 50 -u 13" "-t 2" "-t 2 -u 3" "-t 3 -u 9"; do
        # shellcheck disable=SC2086
        decode -m $m --all $how lines | cmp -s - want
        ok $? 0 "$name: the same bits with $how"
    done
    while read -r line; do echo "$line" | decode -m $m --text --top 3; done <lines |
        cut -f 2- >alone
    decode -m $m --text --top 3 lines | cut -f 2- | cmp -s - alone
    ok $? 0 "$name: sequences do not change each other"
    decode -m $m --cache-k bf16 --cache-v bf16 --text --top 1 lines | paste - - - - - >got
    decode -m $m --text --top 1 lines | paste - - - - - | cmp -s - got
    ok $? 1 "$name: keys to choose by are of the cache's type"

    how=
    want=$(last $m "0:$(ids 90 5)" '0: 7' '0: 8')
    ok "$(last $m "0:$(ids 90 5)" "0:$(ids 40 9)" '0: @90 7' '0: 8')" "$want" "$name: cut back"
    ok "$(last $m "4:$(ids 90 5)" '9: <4' '4: 7 200 9' '9: 7' '4: @30 5' '9: 8')" "$want" \
        "$name: a copy goes its own way"
    ok "$(last $m "0:$(ids 30 5)" "0:$(ids 40 9) 100000" "0:$(ids 60 1115)" '0: 7' '0: 8')" \
        "$want" "$name: a request that fails leaves the sequence as it was"
    echo "7:$(ids 90 5)" | decode -i -q --save-state state -m $m >frames
    how='--load-state state -u 3'
    ok "$(last $m '7: 7' '7: 8')" "$want" "$name: goes on from a saved state"
    decode -i -q --load-state state --save-state again -m $m /dev/null >frames
    ok "$(cmp state again 2>&1)" "" "$name: and it is saved again as it was"
    # A context that is too short to choose keeps what others need for it.
    echo "0:$(ids 6 5)" | decode -i -q -c 6 --save-state short -m $m >frames
    how='--load-state short' got=$(last $m "0:$(ids 84 227)" '0: 7' '0: 8')
    ok "$got" "$want" "$name: a state of a context in which nothing is chosen"
    how='--load-state short --cache-k f32 --cache-v f32'
    got=$(last $m "0:$(ids 84 227)" '0: 7' '0: 8')
    ok "$got" "$(last $m "0:$(ids 84 227)" '0: 7' '0: 8')" "$name: read into another type"

    # In a model of one layer a key is its token's and its position's alone, so that a shifted
    # sequence is one without what was forgotten.
    quantize -q --allow-requantize --prune-layers 1,2 $m one.gguf F32
    echo "$(ids 110 5)" | decode -m one.gguf --cache-k f32 --cache-v f32 -c 80 --context-shift \
        --text --top 9 2>err | cut -f 5,6 >got
    echo "$(ids 70 1485)" | decode -m one.gguf --cache-k f32 --cache-v f32 --text --top 9 |
        cut -f 5,6 >fresh
    ok "$(paste got fresh |
        awk -F'\t' '$1 == $3 { d = $2 - $4; n += d * d < 1e-8 } END { print n }')" \
        9 "$name: keys to choose by turn when they are shifted"
done
printf '1 2 3\n' | decode -i -q --load-state state -m deepseek32.gguf >frames 2>err
ok "$?:$(cat err)" "1:decode: state: the saved state is another model's" "a state of another model"

# Which layers choose: as the file says, in GLM-5.2 the first three and every fourth, else all.
chooses() { # MODEL
    decode --plan -c 64 -m "$1" 2>/dev/null | awk -F'\t' '$1 == "node" && $5 == "choose"' | wc -l |
        tr -d ' '
}
ok "$(chooses deepseek32.gguf) $(chooses glm-dsa.gguf)" "3 2" \
    "indexers of all layers, and of two of three"
ok "$(decode --plan -c 6 -m glm-dsa.gguf | grep -c choose)" 0 "nothing to choose"
memory() { # KEY... of a copy with these
    gguf-edit -q "$@" glm-dsa.gguf edited.gguf
    gguf-inspect --memory -c 100 edited.gguf | grep 'keys to choose'
}
eight='--set=glm-dsa.block_count=u32:8 --delete=glm-dsa.attention.indexer.types'
# shellcheck disable=SC2086
ok "$(memory $eight --set=glm-dsa.context_length=u32:1048576)" \
    "keys to choose   12800 bytes (f16; 4 layers)" "GLM-5.2 without a list: 0, 1, 2 and 6 of 8"
# shellcheck disable=SC2086
ok "$(memory $eight --set=glm-dsa.context_length=u32:202752)" \
    "keys to choose   25600 bytes (f16; 8 layers)" "models before it: all"
refused() { # EDIT WHAT
    gguf-edit -q "$1" glm-dsa.gguf bad.gguf
    out=$(echo 1 2 3 | decode -m bad.gguf 2>&1)
    ok "$?:$out" "1:decode: bad.gguf: $2" "refused: $1"
}
refused --delete=glm-dsa.attention.indexer.types 'blk.1.indexer.k_norm.weight: missing'
refused '--set=glm-dsa.attention.indexer.types=json:[false,true,true]' \
    'glm-dsa.attention.indexer.types: the first layer has none before it to share with'
refused --set=glm-dsa.attention.indexer.key_length=u32:4 \
    'glm-dsa.attention.indexer.key_length: 4, and 8 of it turn'
refused --set=glm-dsa.attention.indexer.top_k=u32:0 \
    'glm-dsa.attention.indexer.top_k: 0: must be 1 to 1073741824'
refused --set=glm-dsa.attention.indexer.head_count=u32:3 \
    'blk.0.indexer.proj.weight: shape is [32, 8, 1, 1], the metadata ask for [32, 3, 1, 1]'

# A checkpoint says it in several ways.
zstd -qdc "$data/glm-dsa.tar.zst" | tar -xf -
cp glm-dsa/config.json whole
says() { # JSON NAME
    sed "/\"indexer_types\"/,/]/d; /\"index_topk_freq\"/d; /\"index_topk_pattern\"/d
        /\"index_skip_topk_offset\"/d; s/\"hidden_act\"/$1 &/" whole >glm-dsa/config.json
    gguf-convert -q -T f32 glm-dsa other.gguf 2>err
    ok "$?:$(cat err):$(cmp other.gguf glm-dsa.gguf 2>&1)" 0:: "a checkpoint: $2"
}
says '"index_topk_freq": 2, "index_skip_topk_offset": 1,' "a number of layers that share"
says '"index_topk_pattern": "FSF",' "letters"
says '"index_topk_pattern": ["full", "shared", "full"], "indexer_types": null,' "a pattern of words"
sed 's/"shared"/"share"/' whole >glm-dsa/config.json
ok "$(gguf-convert -q glm-dsa bad.gguf 2>&1)" \
    "gguf-convert: glm-dsa: config.json: no kind of indexer for layer 1" "another word"
want=model.layers.1.self_attn.indexer.k_norm.weight
sed 's/"shared"/"full"/' whole >glm-dsa/config.json
gguf-convert -q glm-dsa other.gguf 2>err
ok "$?:$(cut -d: -f 3 err)" "1: $want" "a layer that is to choose has no indexer"
sed '/"indexer_types"/,/]/d; /"index_topk_/d; /"index_skip/d' whole >glm-dsa/config.json
ok "$(gguf-convert -q glm-dsa other.gguf 2>&1 | cut -d: -f 3)" " $want" "... where nothing is said"
echo "1..$n"
