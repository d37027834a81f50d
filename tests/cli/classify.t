#!/bin/sh
# classify.t - what comes behind the pooling: what classifiers say of sequences and of pairs, and
# further products, against their authors' code; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/near.sh"
data=$root/tests/data/classify

exact='--cache-k f32 --cache-v f32'
for m in "$data"/*.gguf; do
    name=$(basename "$m" .gguf)
    case $name in embeddinggemma) how="mean --normalize" ;; *) how=rank ;; esac
    gguf-inspect --check "$m" >out 2>&1
    ok "$?:$(cat out)" 0: "$name: what belongs to it is there"
    for isa in scalar avx2 avx512; do
        # shellcheck disable=SC2086
        LMPIPE_ISA=$isa decode --embed --pooling $how $exact -m "$m" "$data/$name.ids" >got 2>err
        ok "$?:$(cat err):$(near_arrays "$data/$name.json" got 2e-6)" "0::near" \
            "$name: numbers as the reference's, $isa"
    done
    # shellcheck disable=SC2086
    decode --embed $exact -m "$m" --pooling $how -b 40 -u 40 -t 2 "$data/$name.ids" >again
    ok "$(cksum <again)" "$(cksum <got)" "$name: the same in other batches"
done

m=$data/embeddinggemma.gguf
ok "$(echo 1 7 2 | decode --embed -m "$m" | tr , '\n' | wc -l)" 12 "the file's own pooling"
ok "$(echo 1 7 2 | decode --embed --pooling none -m "$m" | tr , '\n' | wc -l)" 96 \
    "no products without pooling"
gguf-edit -q --set 'gemma-embedding.dense_3_feat_in=u32:32' "$m" other.gguf
ok "$(echo 1 7 2 | decode --embed -m other.gguf 2>&1; echo $?)" \
    "decode: other.gguf: dense_3.weight: \
shape is [20, 12, 1, 1], the metadata ask for [32, 12, 1, 1]
1" "products of other shapes"

m=$data/bert.gguf
ok "$(echo 1 7 2 | decode --embed --header -m "$m" | sed -n 1p)" \
    '["contradicts","follows","is \"new\""]' "--header names the labels"
ok "$(echo 1 7 2 | decode --embed --header -m "$data/modernbert.gguf" | sed -n 1p)" '["",""]' \
    "or tells how many there are"
ok "$(printf '\n1 7 2\n\n' | decode --embed -m "$m" | sed 's/\[-*[0-9].*/[.../')" '[]
[...
[]' "an empty sequence has an empty array"
echo 1 7 2 | decode --embed --frames -m "$m" >frames
head=$((16 + $(od -An -tu4 -j 12 -N 4 frames)))
ok "$(od -An -v -tu4 -j "$head" -N 24 frames | tr -s ' \n' ' ')" " 4 12 0 0 1 3 " \
    "--frames: a vector of a number a label"
ok "$(echo 1 7 2 | decode --embed --pooling cls -m "$m" | tr , '\n' | wc -l)" 32 \
    "another --pooling gives the hidden states"
says() { # STATUS MESSAGE NAME ARGUMENT...
    status=$1 message=$2 name=$3
    shift 3
    echo 1 7 2 | decode "$@" >out 2>err
    ok "$? $(sed 1q err) $(wc -c <out)" "$status $message 0" "$name"
}
plain=$root/tests/data/m.gguf
says 2 "decode: $plain: the model has no classifier: use another --pooling than rank" \
    "a model without a classifier" --embed --pooling rank -m "$plain"
says 2 "decode: --pooling=rank gives no vectors: no --normalize" "ranks have no length" \
    --embed --normalize -m "$m"
says 2 "decode: --embed has labels with --pooling=rank only: no --header" "no names of vectors" \
    --embed --pooling mean --header -m "$m"

gguf-edit -q --set 'bert.classifier.output_labels=json:["a","b"]' "$m" two.gguf
says 1 "decode: two.gguf: bert.classifier.output_labels: 2 names, and the classifier has 3 rows" \
    "names for other rows" --embed -m two.gguf
gguf-edit -q --set 'bert.classifier.output_labels=json:[1,2,3]' "$m" numbers.gguf
says 1 \
    "decode: numbers.gguf: key bert.classifier.output_labels: wanted arr of str, found arr of i32" \
    "names that are none" --embed -m numbers.gguf
echo "1..$n"
