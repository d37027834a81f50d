#!/bin/sh
# gguf-convert-class.t - checkpoints of classifiers and rerankers: their heads, labels and way of
# pooling, and what decode says of sequences with them, against transformers; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/near.sh"
data=$root/tests/data/classify
zstd -q -V >zstd.out 2>&1 || skip_all "no zstd to unpack checkpoints"
get() { gguf-inspect --get "$2" "$1" | tr '\n' ' '; }
for f in bert xlm-roberta distilbert modernbert qwen3; do
    zstd -qdc "$data/$f.tar.zst" | tar -xf -
    for type in f32 f16; do
        gguf-convert -q -T $type $f $f.gguf 2>err; ok "$? $(cat err)" "0 " "$f to $type"
        decode --embed --cache-k f32 --cache-v f32 -m $f.gguf "$data/$f.ids" >got 2>err
        ok "$? $(near_arrays "$data/$f.json" got 5e-4)" "0 near" \
            "$f: $type: numbers as the authors' code has them"
    done
    # weights of the head in F16 are those of the file that was made without us
    for t in cls.weight cls.bias cls.norm.weight cls.output.weight cls.output.bias; do
        ok "$(gguf-inspect --hash $f.gguf | grep " $t\$")" \
           "$(gguf-inspect --hash "$data/$f.gguf" | grep " $t\$")" "$f: $t"
    done
    gguf-convert -q -T f16 "$data/$f.tar.zst" z.gguf; cmp z.gguf $f.gguf
    ok $? 0 "$f: from its archive"
done
ok "$(get bert.gguf bert.classifier.output_labels)$(get bert.gguf bert.pooling_type)" \
   '"contradicts" "follows" "is \"new\"" 4 ' "labels and pooling"
ok "$(get xlm-roberta.gguf bert.classifier.output_labels)" '"fits" ' "one label"
gguf-inspect --get modern-bert.classifier.output_labels modernbert.gguf 2>err
ok $? 1 "a configuration without labels has none"
ok "$(get modernbert.gguf modern-bert.attention.sliding_window_pattern)" "1 " \
    "layers that see all, by their kinds"
ok "$(get qwen3.gguf qwen3.classifier.output_labels)$(get qwen3.gguf qwen3.pooling_type)" \
   '"yes" "no" 4 ' "a reranker's labels and pooling"
ok "$(get qwen3.gguf tokenizer.chat_templates)$(gguf-inspect --get tokenizer.chat_template.rerank \
    qwen3.gguf |
    grep -c -e '^<Query>: {query}$' -e '^<Document>: {document}<|im_end|>$')" '"rerank" 2' \
   "and how it is asked"
ok "$(gguf-inspect --tensors qwen3.gguf | grep -c '^output.weight')" 0 \
    "of its output matrix two rows are left"

# ---- products behind the pooling ----
f=embeddinggemma
zstd -qdc "$data/$f.tar.zst" | tar -xf -
gguf-convert -q -T f16 $f $f.gguf 2>err; ok "$? $(cat err)" "0 " "$f converts"
decode --embed --normalize --cache-k f32 --cache-v f32 -m $f.gguf "$data/$f.ids" >got 2>err
ok "$? $(cat err)$(near_arrays "$data/$f.json" got 5e-4)" "0 near" \
    "$f: numbers as the authors' code has them"
for t in dense_2.weight dense_3.weight token_embd.weight; do
    ok "$(gguf-inspect --hash $f.gguf | grep " $t\$")" \
       "$(gguf-inspect --hash "$data/$f.gguf" | grep " $t\$")" "$f: $t"
done
ok "$(gguf-inspect --tensors $f.gguf | sed -n '2,4s/ .*//p' | tr '\n' ' ')" \
   "dense_2.weight dense_3.weight token_embd.weight " "they come first"
ok "$(get $f.gguf gemma-embedding.dense_2_feat_out)$(get $f.gguf gemma-embedding.dense_3_feat_in)" \
   "20 20 " "their sizes are keys"
gguf-convert -q -T f16 "$data/$f.tar.zst" z.gguf; cmp z.gguf $f.gguf; ok $? 0 "$f: from its archive"
zstd -qdc "$data/$f.tar.zst" | gguf-convert -q -T f16 --spool=. - z.gguf
cmp z.gguf $f.gguf; ok $? 0 "$f: from a pipe"

# ---- LFM2 for retrieval ----
for f in lfm2-both lfm2-tokens; do
    gguf-convert -q -T f32 "$data/$f.tar.zst" $f.gguf 2>err; ok "$? $(cat err)" "0 " "$f converts"
    gguf-inspect --check $f.gguf >out 2>&1
    ok "$? $(cat out)" "0 " "$f: what belongs to it is there"
    case $f in lfm2-both) how=cls ;; *) how=none ;; esac
    for u in 64 3; do
        decode --embed --pooling $how --cache-k f32 --cache-v f32 -u $u -m $f.gguf "$data/$f.ids" \
            >got 2>err
        ok "$? $(sed '/-[bu]/d' err)$(near_arrays "$data/$f.json" got 5e-4)" "0 near" \
            "$f: numbers as the authors' code has them, -u $u"
    done
done
ok "$(get lfm2-both.gguf lfm2.attention.causal)$(get lfm2-both.gguf lfm2.pooling_type)" "false 2 " \
    "lfm2-both: tokens see later ones, the first stands for all"
ok "$(get lfm2-tokens.gguf lfm2.embedding_length_out)" "12 " "lfm2-tokens: the length of a vector"
ok "$(gguf-inspect --kv lfm2-tokens.gguf | sed -n '3s/ .*//p')" "lfm2.embedding_length_out" \
    "lfm2-tokens: which comes early"
echo '1 2 3' | decode -m lfm2-both.gguf >out 2>err; ok $? 2 "an encoder makes no logits: status"

f=embeddinggemma
refused() { # STATUS TEXT NAME
    gguf-convert -q $f bad.gguf 2>err; ok $? "$1" "$3: status"
    has "$(cat err)" "$2" "$3"
}
mv $f/3_Dense/model.safetensors .
refused 1 "3_Dense/model.safetensors: is missing" "a product that did not come"
mv model.safetensors $f/3_Dense/
sed -i 's/Identity/Tanh/' $f/3_Dense/config.json
refused 2 "3_Dense/config.json: a module with an activation_function cannot be converted" \
    "a product with more"
sed -i 's/"in_features": 20, /"in_features": 24, /; s/Tanh/Identity/' $f/3_Dense/config.json
refused 1 \
    "3_Dense/model.safetensors: linear.weight: shape [12, 20], but config.json makes it [12, 24]" \
    "a product of another shape"

# ---- what the configuration and the card say ----
sed -i 's/"contradicts"/"LABEL_0"/' bert/config.json; gguf-convert -q bert b.gguf
ok "$(get b.gguf bert.classifier.output_labels)" '"LABEL_0" "follows" "is \"new\"" ' \
    "three labels, a common name among them"
sed -i 's/"2": *"is/"7": "is/' bert/config.json; gguf-convert -q bert bad.gguf 2>err
ok $? 1 "a label's number"
has "$(cat err)" 'config.json: id2label: 7: is no label of 3' "is named"
echo '# Some model' >qwen3/README.md; gguf-convert -q qwen3 plain.gguf
ok "$(get plain.gguf qwen3.pooling_type 2>err)$(gguf-inspect --tensors plain.gguf |
    grep -c '^cls')" 0 \
   "without the card it is a language model"
echo '# Qwen3-Reranker-0.6B' >qwen3/README.md; gguf-convert -q -T f16 qwen3 q.gguf
ok "$(gguf-inspect --hash q.gguf | grep ' cls.output.weight')" \
   "$(gguf-inspect --hash qwen3.gguf | grep ' cls.output.weight')" "the card's title goes on"
sed -i 's/"yes"/"yea"/' qwen3/tokenizer.json; gguf-convert -q qwen3 bad.gguf 2>err
ok $? 1 "no such word"
has "$(cat err)" "the tokenizer has no piece yes" "is named"
mkdir pooled; cp -R xlm-roberta pooled/; cd pooled/xlm-roberta || exit 1
printf '%s' '[{"path":"","type":"sentence_transformers.models.Transformer"},' \
    '{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]' >modules.json
mkdir 1_Pooling; echo '{"pooling_mode_mean_tokens":true}' >1_Pooling/config.json; cd ../..
gguf-convert -q pooled/xlm-roberta p.gguf
ok "$(get p.gguf bert.pooling_type)" "1 " "modules.json goes before the class"
ok "$(ls | grep -c bad.gguf)" 0 "nothing is left of what failed"
echo "1..$n"
