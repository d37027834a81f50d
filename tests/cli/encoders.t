#!/bin/sh
# encoders.t - checkpoints of encoders whose kinds have no others among the tests, converted and
# run, against what their authors' code, or their descriptions written out, make of sequences;
# speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/near.sh"
data=$root/tests/data/encoders
for f in jina-v2 jina-v2-code jina-v3 nomic-moe eurobert llama-embed t5-encoder neo-bert \
    neo-bert-class; do
    zstd -qdc "$data/$f.tar.zst" | tar -xf -
    gguf-convert -q -T f32 $f $f.gguf 2>err
    ok "$?:$(cat err)" 0: "$f: converts"
    gguf-inspect --check $f.gguf >out 2>&1
    ok "$?:$(cat out)" 0: "$f: what belongs to it is there"
    gguf-convert -q -T f32 --spool=. "$data/$f.tar.zst" z.gguf 2>err
    ok "$?:$(cat err):$(cmp z.gguf $f.gguf)" 0:: "$f: the same from its archive"
    for isa in scalar avx2 avx512; do
        LMPIPE_ISA=$isa decode --embed -m $f.gguf "$data/$f.ids" >got 2>err
        ok "$?:$(cat err):$(near_arrays "$data/$f.json" got 5e-6)" 0::near \
            "$f: vectors as the reference's, $isa"
    done
    decode --embed -m $f.gguf -b 40 -u 40 -t 2 "$data/$f.ids" >again
    ok "$(cksum <again)" "$(cksum <got)" "$f: the same in other batches"
done

# The bias of all experts is a tensor where it says something.
bias() { gguf-inspect --tensors "$1" | grep -c ffn_exps_sum; }
w=nomic-moe/model.safetensors
ok "$(bias nomic-moe.gguf)" 1 "nomic-moe: a bias of the experts' sum"
len=$(od -An -tu8 -N 8 $w | tr -d ' ')
part=$(dd if=$w bs=8 skip=1 count=$((len / 8)) 2>dd.out |
    sed 's/.*"encoder.layers.1.mlp.experts.bias":{\([^}]*\)}.*/\1/' |
    sed 's/.*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/')
dd if=/dev/zero of=$w bs=1 seek=$((8 + len + ${part% *})) count=$((${part#* } - ${part% *})) \
    conv=notrunc 2>dd.out
gguf-convert -q -T f32 nomic-moe zero.gguf 2>err
ok "$?:$(cat err):$(bias zero.gguf)" 0::0 "one of zeros is left out"
sed -i 's/"moe_every_n_layers": 2/"moe_every_n_layers": 3/' nomic-moe/config.json
gguf-convert -q nomic-moe bad.gguf 2>err
ok "$?:$(cat err)" \
    "2:gguf-convert: nomic-moe: config.json: nomic-bert-moe.moe_every_n_layers: 3 is \
not supported" "experts in other layers"
sed -i 's/"geglu"/"reglu"/' jina-v2/config.json
gguf-convert -q jina-v2 bad.gguf 2>err
ok "$?:$(cat err)" \
    "2:gguf-convert: jina-v2: config.json: feed_forward_type is reglu: a jina-bert-v2 \
model with that cannot be converted" "another gate"
sed -i 's/"hidden_size"/"hidden_act": "gelu", "hidden_size"/' neo-bert/config.json
gguf-convert -q neo-bert bad.gguf 2>err
ok "$?:$(cat err)" \
    "2:gguf-convert: neo-bert: config.json: hidden_act is gelu: a neo-bert model with that cannot \
be converted" "NeoBERT without a gate"
echo "1..$n"
