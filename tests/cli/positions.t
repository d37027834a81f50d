#!/bin/sh
# positions.t - sequences that forget positions in front of others, of models that normalize keys
# once they are rotated; sequences whose positions are divided as they go on; speaks TAP.
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

# ---- --self-extend ----
m=$root/tests/data/m.gguf golden=$root/tests/data/decode/self-extend
exact='--cache-k f32 --cache-v f32'
for how in '' '-u 1' '-u 7' '-b 1' '-b 5 -u 3' '-b 64 -t 3'; do
    # shellcheck disable=SC2086
    decode --text --all --top 3 --self-extend=3:8 $exact $how -m "$m" "$golden.tokens" >got 2>err
    ok "$?:$(cat err):$(paste got "$golden.tsv" | awk -F'\t' '
        $1 == $8 && $2 == $9 && $3 == $10 && $5 == $12 {
            d = $6 - $13; e = $7 - $14; n += d * d < 1e-9 && e * e < 1e-9
        }
        END { print n }')" "0::$(wc -l <"$golden.tsv" | tr -d ' ')" \
        "--self-extend: logits of transformers, ${how:-default batches}"
done

# In the loop: at once, by pieces, and from a saved state; the last answer counts.
last() { # OPTION...: the ids and logits of the last answer
    decode -i -q --top 5 --self-extend=3:8 "$@" -m "$m" | tail -c 72 | head -c 40 |
        od -A n -t x4 | tr -d '\n'
}
line=$(sed -n 4p "$golden.tokens")
want=$(echo "5: $line" | last)
ok "${#want}" 90 "an answer in the loop"
ok "$(echo "$line" | tr ' ' '\n' | sed 's/^/5: /' | last)" "$want" "a token at a time"
ok "$({ echo "7: $line"; echo "5: $line"; } | last)" "$want" "behind another sequence"
ok "$(echo "5: $line" | last -b 10 -u 3)" "$want" "by small batches"
ok "$({ echo "5: $line"; echo "5: 999"; echo "5: @60 ${line##* }"; } | last)" "$want" \
    "what cannot be leaves the sequence as it was, and one token is taken back"
echo "5: $(echo "$line" | cut -d ' ' -f 1-40)" |
    decode -i -q --self-extend=3:8 --save-state state -m "$m" >frames
ok "$(echo "5: $(echo "$line" | cut -d ' ' -f 41-)" | last --load-state state)" "$want" \
    "goes on from a saved state"
ok "$(echo "0: $line" | decode -i -q --top 5 -m "$m" | tail -c 72 | head -c 40 |
    od -A n -t x4 | tr -d '\n' | cmp -s - frames; echo $?)" 1 "other results than without"

# Requests that wait together: a copy that has to be divided to go on.
{ echo "5:$(ids 6 5)"; echo '7: <5'; echo "7:$(ids 6 9)"; } >asked
decode -i -q --top 5 --self-extend=3:8 -m "$m" asked >together
decode -i -q --top 5 --self-extend=3:8 -b 1 -m "$m" asked >apart
equal together apart "copies that are divided"

# Half of the training length of 512 is one group: 4 (512 - 256) + 256 tokens.
ids 1280 5 | decode -q --self-extend=4:256 -c 5000 --nll -m "$m" >got 2>err
ok "$?:$(cat err):$(wc -l <got | tr -d ' ')" 0::1279 "more than the model was trained for"
ids 1281 5 | decode -q --self-extend=4:256 -c 5000 -m "$m" >got 2>err
ok "$?:$(cat err)" "1:decode: <stdin>: line 1: 1281 tokens or more, and the model was trained for \
1280" "and no more"
ids 3 5 | decode --self-extend=4:256 -c 5000 --top 1 --text -m "$m" >got 2>err
has "$(cat err)" "a context of 5000 tokens: divided groups reach 1280" "a longer context: told"
ids 301 5 | decode -q --self-extend=4:64 -c 300 -m "$m" >got 2>err
ok "$?:$(cat err)" "2:decode: <stdin>: line 1: 301 tokens, and the context has 300" \
    "nor than the context has"

refused() { # MESSAGE OPTION...
    message=$1
    shift
    echo 1 2 3 | decode "$@" >got 2>err
    ok "$?:$(sed 1q err)" "2:decode: $message" "refused: $*"
}
refused "--self-extend: '1' is not a number from 2 to 2147483647" --self-extend=1 -m "$m"
refused "--self-extend: '0' is not a number from 1 to 2147483647" --self-extend=2:0 -m "$m"
refused "$m: groups of 512 tokens, divided by 2: it takes 1 to 511, less than the model was \
trained for, and 2 or more" --self-extend=2 -m "$m"
refused "--context-shift and --self-extend exclude each other" --self-extend=2:9 --context-shift \
    -m "$m"
refused "--self-extend is of sequences that go on: no --embed" --self-extend=2:9 --embed -m "$m"
refused "--chunk and --self-extend exclude each other" --self-extend=2:9 --nll --chunk 8 -m "$m"
r=$root/tests/data/recurrent
refused "$r/qwen35.gguf: a qwen35 model has recurrent states, in which no position can be divided" \
    --self-extend=2:9 -m "$r/qwen35.gguf"
gguf-convert -q -T f32 --spool=. "$data/bloom.tar.zst" bloom.gguf
refused "bloom.gguf: a bloom model does not rotate by positions: they cannot be brought closer \
together" --self-extend=2:9 -m bloom.gguf
echo "1..$n"
