#!/bin/sh
# devices.t - what sequences remember lies where its layers compute: on devices beside the CPU,
# whose memory nobody else can touch, answers are those of the CPU alone, to the bit; speaks TAP.
. "$(dirname "$0")/../tap.sh"
modules=$(cd "$(dirname "$(command -v decode)")/.." && pwd)/module
[ -f "$modules/liblmpipe-far.so" ] || skip_all "no device here"
export LMPIPE_MODULES="$modules" LMPIPE_FAR_DEVICES=2
ids() { # COUNT FIRST
    awk -v n="$1" -v x="$2" 'BEGIN { for (i = 0; i < n; i++) printf " %d", (x + i * 37) % 200 + 3 }'
}
# Where the nodes of one kind are computed.
where() { # OPERATION OPTIONS...
    op=$1
    shift
    decode --plan "$@" | awk -F '\t' -v op="$op" '$1 == "node" && $5 == op { print $4 }' |
        tr '\n' ' '
}

# ---- where memory is ----
ok "$(where kv_store -m "$m")" "far0 far0 " "with the layers' weights"
ok "$(where attn -m "$m")" "far0 far0 " "and so is attention"
ok "$(where kv_store --gpu-layers 2 -m "$m")" "cpu far0 " "--gpu-layers"
ok "$(where kv_store --tensor-device 'blk.1=far1' -m "$m")" "far0 far1 " "--tensor-device"
ok "$(where kv_store --tensor-device 'blk.0.attn_k=cpu' -m "$m")" "cpu far0 " \
    "that of the keys' weights counts"
ok "$(LMPIPE_FAR_OPS=-attn where kv_store -m "$m")" "cpu cpu " \
    "what a device cannot compute with stays on the CPU"
ok "$(LMPIPE_FAR_OPS=-kv_store where attn -m "$m")" "cpu cpu " "whichever operation it lacks"
gguf-convert -q "$root/tests/data/families/glm-dsa.tar.zst" chooses.gguf
ok "$(where choose --tensor-device 'blk.0=cpu' -m chooses.gguf)" "cpu far1 " "keys to choose by"
ok "$(where choose --tensor-device 'indexer.attn_k=cpu' -m chooses.gguf) $(where attn \
    --tensor-device 'indexer.attn_k=cpu' -m chooses.gguf)" "cpu cpu  far0 far0 far1 " \
    "apart from those of attention"
ok "$(LMPIPE_FAR_OPS=-choose where choose -m chooses.gguf)" "cpu cpu " "where devices cannot choose"
ok "$(where state_conv --tensor-device 'blk.1=cpu' -m "$root/tests/data/recurrent/mamba2.gguf" |
    cut -d ' ' -f 1-2)" "far0 cpu" "states too"
ok "$(where state_wkv7 --tensor-device 'blk.0=cpu' -m "$root/tests/data/recurrent/rwkv7.gguf")" \
    "cpu far0 " "and those of RWKV"

# ---- models ----
# All that can be done to sequences, in one conversation.
talk() {
    echo "0:$(ids 70 1)"
    echo "1: +3$(ids 7 5)"
    echo "2: <0"
    echo "2: +2 5 6"
    echo "0: @66 9 8 7"
    echo "3: <2"
    echo "1: 3"
    echo "0: +0$(ids 90 11)"
    echo "0: 4"
    echo "3: @71 12 13"
    echo "2: x"
    echo "1: @0$(ids 30 2)"
    echo "0: @150 7"
    echo "2:$(ids 65 9)"
    echo "3: 6"
}
# The same with a text of the encoder for each sequence that has none.
texts() {
    awk 'BEGIN { FS = ":" } !seen[$1]++ && !/</ { print $1 ": e 5 9 20 31 7 1" } { print }'
}
talk >requests
grep -v x requests | texts >requests.t5
talk | cut -d: -f2 | grep -v '[<@x]' | sed 's/+[0-9]*//' >lines

same() { # MODEL NAME
    r=requests
    case $2 in t5*) r=requests.t5 ;; esac
    decode -i --top 9 -m "$1" --device cpu $r >want 2>/dev/null
    for how in '' '--gpu-layers 2 -u 5' '--device far1 --tensor-device attn=cpu'; do
        # shellcheck disable=SC2086 # the words of the options
        LMPIPE_FAR_DELAY=${how:+20} decode -i --top 9 -m "$1" $how $r >got 2>/dev/null
        ok "$(cmp want got) $(($(wc -c <got) > 1500))" " 1" "$2: a conversation${how:+, }$how"
    done
    case $2 in t5*) return ;; esac
    decode -q --top 3 -m "$1" --device cpu --save-state here lines >want
    decode -q --top 3 -m "$1" --save-state there lines >got
    ok "$(cmp want got && cmp here there)" "" "$2: the same state is saved"
    echo '0: @70 5' >more
    echo '1: 6' >>more
    decode -i --top 3 -m "$1" --device cpu --load-state there more >want
    decode -i --top 3 -m "$1" --device far1,far0 --load-state here more >got
    ok "$(cmp want got)" "" "$2: and loaded by the other"
    decode -i --top 3 -c 48 --context-shift -m "$1" --device cpu lines >want 2>/dev/null
    decode -i --top 3 -c 48 --context-shift -m "$1" lines >got 2>/dev/null
    ok "$(cmp want got)" "" "$2: --context-shift"
}

same "$m" m
for type in f32 bf16 q8_0 iq4_nl; do
    decode -i -m "$m" --device cpu --cache-k $type --cache-v q5_1 requests >want 2>/dev/null
    decode -i -m "$m" --cache-k $type --cache-v q5_1 requests >got 2>/dev/null
    ok "$(cmp want got)" "" "keys as $type, values as q5_1"
done
for name in mamba2 qwen35 rwkv6 rwkv7 rwkv6qwen2 arwkv7; do
    same "$root/tests/data/recurrent/$name.gguf" $name
done
for name in gemma3n gemma4-mixed llama4 nemotron-h deepseek32 glm-dsa; do
    gguf-convert -q "$root/tests/data/families/$name.tar.zst" $name.gguf
    same $name.gguf $name
done
for name in deepseek_v2 deepseek_v3_yarn t5 jamba falcon_h1 lfm2 gpt_oss phi3_longrope \
    qwen3_next gemma2 exaone4_swa mistral_swa; do
    [ -d "$shared/fixtures/models/$name" ] || continue
    gguf-convert -q "$shared/fixtures/models/$name" $name.gguf
    same $name.gguf $name
done
echo "1..$n"
