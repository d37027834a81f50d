#!/bin/sh
# gguf-convert.t - checkpoints from every kind of source, byte for byte as the reference
# converts them, and what is wrong with a checkpoint is said before anything is written;
# speaks TAP.
. "$(dirname "$0")/../tap.sh"
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
. "$root/tests/cli/gguf-bytes.sh"
. "$root/tests/cli/safetensors-bytes.sh"
sum() { sha256sum | cut -c 1-64; }
wanted() { sed -n 's/.*"file_sha256":"\([0-9a-f]*\)".*/\1/p' "$1"; }
# refused DIR STATUS PART NAME [OPTION...]: the conversion fails, says PART, writes nothing
refused() {
    d=$1 status=$2 part=$3 name=$4; shift 4
    gguf-convert "$@" "$d" refused.gguf 2>err; ok $? "$status" "$name: status"
    has "$(cat err)" "$part" "$name: message"
    ok "$(wc -l <err)" 1 "$name: one line"
    ok "$(ls -A | grep -c refused)" 0 "$name: no output"
}

# ---- against the reference ----
cp -R "$root/tests/data/hf" llama
for type in auto f32 f16 bf16 q8_0; do
    ok "$(gguf-convert -T $type llama | sum)" "$(wanted "$root/tests/data/expected/$type.json")" \
       "$type is as the reference makes it"
done
m=$(wanted "$root/tests/data/expected/auto.json")
gguf-convert llama out.gguf;                      ok "$? $(sum <out.gguf)" "0 $m" "to a file"
gguf-convert llama 'a-{ftype}.gguf' && gguf-convert -T Q4_K_M -o 'b-{FTYPE}-{ftype}.gguf' llama
ok "$? $(ls a-* b-* | tr '\n' ' ')" "0 a-f16.gguf b-Q4_K_M-q4_k_m.gguf " "the type in the name"
ok "$(gguf-convert --print-deps llama 'x-{ftype}' | sed 1q)" 'x-f16: \' "in a rule too"
rm a-f16.gguf b-Q4_K_M-q4_k_m.gguf
gguf-convert -o out2.gguf llama/
ok "$? $(sum <out2.gguf)" "0 $m" "-o, a slash at the end"
ok "$(cd llama && gguf-convert . | sum)" "$m" "the folder that we are in"
ok "$(gguf-convert -t 1 llama | sum) $(gguf-convert -t 5 llama | sum)" "$m $m" \
    "any number of threads"
if [ -d "$shared/fixtures/models/llama_tied" ]; then
    for d in llama llama_tied mistral; do
        for e in "$shared/fixtures/models/$d/expected"/*.json; do
            type=$(basename "$e" .json)
            ok "$(gguf-convert -T "$type" "$shared/fixtures/models/$d" | sum)" "$(wanted "$e")" \
                "$d: $type"
        done
    done
fi

# ---- archives ----
tar -cf a.tar llama && tar --format=v7 -cf v7.tar llama && tar --format=pax -cf pax.tar llama
tar -cf ordered.tar llama/*.json llama/*.safetensors
tar -cf early.tar llama/*.safetensors llama/*.json
gzip -k a.tar ordered.tar
for f in a.tar v7.tar pax.tar a.tar.gz; do
    ok "$(gguf-convert $f | sum)" "$m" "from $f"
done
if zstd -qk a.tar ordered.tar 2>err; then
    ok "$(gguf-convert a.tar.zst | sum)" "$m" "from a.tar.zst"
    ok "$(gguf-convert - <ordered.tar.zst | sum)" "$m" "a compressed archive on standard input"
    ok "$(cat ordered.tar.zst | gguf-convert - | sum)" "$m" "and through a pipe"
fi
if zip -qr deflated.zip llama && zip -q0r stored.zip llama; then
    ok "$(gguf-convert deflated.zip | sum)" "$m" "from a deflated zip"
    ok "$(gguf-convert stored.zip | sum)" "$m" "from a stored zip"
fi
# Damage that only sums show is found, however the archive comes and wherever it is.
flip() { # FILE AT: one bit of the byte there
    printf "\\$(printf %o $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 1)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc 2>dd.log
}
damaged() { # FILE AT WHAT
    cp "$1" "damaged-$1" && flip "damaged-$1" "$2"
    gguf-convert "damaged-$1" damaged.gguf 2>err;                r=$?
    cat "damaged-$1" | gguf-convert - damaged.gguf 2>>err;       r=$r$?
    mkdir -p room; cat "damaged-$1" | gguf-convert --spool=room - damaged.gguf 2>>err
    ok "$r$? $(ls | grep -c 'damaged[.]gguf')" "111 0" "$3"
}
size() { wc -c <"$1"; }
# the sums are far behind the end
cp ordered.tar long.tar && head -c 3000000 /dev/zero >>long.tar
for z in gzip bzip2 xz zstd lz4; do
    command -v $z >which || continue
    $z -c <long.tar >long.$z
    ok "$(gguf-convert long.$z | sum)" "$m" "$z, zeros behind the end"
    n_bytes=$(size long.$z)
    case $z in
    gzip) damaged long.gzip $((n_bytes - 8)) "gzip: another sum"
          damaged long.gzip $((n_bytes - 4)) "gzip: another length"
          split -b 300000 long.tar half- && for f in half-*; do gzip -c $f; done >long.members
          ok "$(gguf-convert long.members | sum)" "$m" "gzip: several members"
          ok "$({ cat long.members; head -c 9999 /dev/zero; } | gguf-convert - | sum)" "$m" \
             "gzip: zeros behind them"
          damaged long.members $(($(gzip -c half-aa | wc -c) - 8)) "gzip: the sum of the first" ;;
    bzip2) damaged long.bzip2 $((n_bytes - 3)) "bzip2: another sum" ;;
    xz) damaged long.xz $((n_bytes - 40)) "xz: another sum" ;;
    zstd|lz4) damaged long.$z $((n_bytes - 2)) "$z: another sum" ;;
    esac
done
if command -v zip >which; then
    (cd llama && zip -q0 ../flat.zip ./*.json ./*.safetensors &&
     zip -q ../packed.zip ./*.json ./*.safetensors)
    damaged flat.zip $(($(size flat.zip) / 2)) "a stored zip: weights"
    damaged flat.zip "$(grep -abo initializer_range flat.zip | sed 's/:.*//')" \
        "a stored zip: configuration"
    damaged packed.zip "$(($(size packed.zip) / 2))" "a deflated zip: weights"
fi
ok "$(gguf-convert - <a.tar | sum)" "$m" "a file on standard input may have any order"
ok "$(cat ordered.tar | gguf-convert - | sum)" "$m" "a pipe in order"
tar -cf late.tar llama/[a-s]*.json llama/tokenizer.json llama/*.safetensors \
    llama/tokenizer_config.json
cat late.tar | gguf-convert - late.gguf 2>err
ok "$? $(ls | grep -c late.gguf)" "2 0" "a file that comes too late"
has "$(cat err)" "model.safetensors comes before tokenizer_config.json" "is named"
if zip -q - llama/*.json llama/*.safetensors >streamed.zip; then
    ok "$(cat streamed.zip | gguf-convert - | sum)" "$m" "a zip through a pipe"
fi
cat early.tar | gguf-convert - early.gguf 2>err;  ok $? 2 "a pipe out of order is refused"
has "$(cat err)" "model.safetensors comes before config.json" "and the file named"
bytes=$(cat llama/[cgms]* llama/tokenizer* | wc -c)
has "$(cat err)" "--spool DIR with room for $bytes bytes" "and the room"
ok "$(ls -A | grep -c early.gguf)" 0 "and nothing left"
mkdir spool
ok "$(cat early.tar | gguf-convert --spool=spool - | sum)" "$m" "--spool takes it"
ok "$(ls -A spool)" "" "and leaves nothing"
cat early.tar | gguf-convert --spool=nowhere - 2>err >out
ok "$? $(wc -c <out)" "2 0" "--spool needs its folder"
(cd llama && tar -cf ../flat.tar ./*)
ok "$(gguf-convert --model-name=Llama flat.tar | sum)" "$m" "an archive without a folder"
cp flat.tar llama.tar; ok "$(gguf-convert llama.tar | sum)" "$m" "which then gives the name"
mkdir -p deep/er && cp -R llama deep/er && mkdir deep/er/llama/onnx &&
    echo '{}' >deep/er/llama/onnx/config.json
tar -cf deep.tar deep
ok "$(gguf-convert deep.tar | sum)" "$m" "a folder further down"
mkdir -p llama/sub && echo x >llama/sub/model.safetensors
tar -cf sub.tar llama/config.json llama/sub llama/[d-s]*.json llama/tok*.json llama/*.safetensors
ok "$(cat sub.tar | gguf-convert - | sum)" "$m" "weights of another folder on the way"
rm -r llama/sub
for k in 100 5000 100000 400000 500000; do
    head -c $k ordered.tar | gguf-convert - cut.gguf 2>err
    ok "$? $(wc -l <err) $(ls | grep -c cut.gguf)" "1 1 0" "a pipe cut after $k bytes"
    head -c $k ordered.tar.gz | gguf-convert - cut.gguf 2>err
    ok "$? $(wc -l <err) $(ls | grep -c cut.gguf)" "1 1 0" "a compressed one too"
    head -c $k a.tar >cut.tar; gguf-convert cut.tar cut.gguf 2>err
    ok "$? $(wc -l <err) $(ls | grep -c cut.gguf)" "1 1 0" "and a file"
done 2>/dev/null
cp -R llama second && tar -cf two.tar llama second
refused two.tar 1 "holds several models, with llama/config.json and second/config.json" "two models"
tar -cf - llama/*.json llama/*.safetensors second | cat | gguf-convert - two.gguf 2>err
ok "$? $(ls | grep -c two.gguf)" "1 0" "two models in a pipe"
rm second/*.safetensors; tar -cf one.tar second llama
ok "$(gguf-convert one.tar | sum)" "$m" "of two configurations, the one with weights counts"
mkdir second/part && cp llama/config.json second/part && cp llama/model.safetensors second &&
    rm second/config.json
tar -cf part.tar second/part second/model.safetensors llama/config.json
cat part.tar | gguf-convert - two.gguf 2>err
ok $? 2 "a configuration below the weights is not the model's"
has "$(cat err)" "model.safetensors comes before config.json" "which has not come yet"
# Of thousands of members, none is looked for among all others.
mkdir crowd && (cd crowd && seq -f 'm%05g' 16000 | xargs mkdir &&
                seq -f 'm%05g/config.json' 16000 | xargs touch) && tar -cf crowd.tar crowd
(ulimit -t 4; gguf-convert crowd.tar crowd.gguf 2>err)
ok "$? $(grep -c 'holds several models' err)" "1 1" "thousands of configurations"
rm -r crowd crowd.tar && cp -R llama crowd && rm crowd/model.safetensors &&
    (cd crowd && seq -f 'model-%05g.safetensors' 20000 | xargs touch) && tar -cf crowd.tar crowd
(ulimit -t 4; gguf-convert crowd.tar crowd.gguf 2>err)
ok "$? $(wc -l <err) $(grep -c '20000 of 20000 weight files cannot' err)" "1 9 1" \
    "thousands of bad files"
has "$(cat err)" "and 19992 more" "of which a few are told"
rm -r crowd crowd.tar
mkdir links && ln -s ../llama/model.safetensors links/ && cp llama/*.json links &&
    tar -cf links.tar links
refused links.tar 1 "model.safetensors: is a link in the archive" "a link in an archive"
ok "$(gguf-convert --model-name=Llama links | sum)" "$m" "links in a folder are followed"

# ---- a model of one layer, made here ----
# layer ROWS TYPE: its tensors
layer() {
    p=model.layers.0
    cat <<EOF
lm_head.weight $2 $1 8
model.embed_tokens.weight $2 $1 8
$p.input_layernorm.weight $2 8
$p.mlp.down_proj.weight $2 8 32
$p.mlp.gate_proj.weight $2 32 8
$p.mlp.up_proj.weight $2 32 8
$p.post_attention_layernorm.weight $2 8
$p.self_attn.k_proj.weight $2 4 8
$p.self_attn.o_proj.weight $2 8 8
$p.self_attn.q_proj.weight $2 8 8
$p.self_attn.v_proj.weight $2 4 8
model.norm.weight $2 8
EOF
}
# tokenizer N [MERGES]: a tokenizer.json of N pieces, from 10 on: a b c ab abc
tokenizer() {
    merges=${2-'["a b","ab c"]'}
    printf '{"added_tokens":[{"id":2,"content":"</e>","special":true},'
    printf '{"id":7,"content":"<q>","special":true}],'
    printf '"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},'
    printf '"model":{"type":"BPE","merges":%s,"vocab":{' "$merges"
    awk -v n="$1" 'BEGIN { split("a b c ab abc", word, " "); for (i = 0; i < n; i++)
        printf "%s\"%s\":%d", (i ? "," : ""), (i - 9 in word ? word[i - 9] : "p" i), i }'
    printf '}}}'
}
mk() { # DIR ROWS PIECES [TYPE]
    rm -rf "$1"; mkdir "$1"
    cat >"$1/config.json" <<EOF
{"architectures":["LlamaForCausalLM"],"hidden_size":8,"intermediate_size":32,
 "num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"vocab_size":$2,
 "max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0,"eos_token_id":2}
EOF
    tokenizer "$3" >"$1/tokenizer.json"
    echo '{"chat_template":"x"}' >"$1/tokenizer_config.json"
    layer "$2" "${4:-BF16}" | st "$1/model.safetensors"
}
patch() { # FILE TENSOR BYTES: its first value
    at=$(sed -n "s/.*\"$2\"[^}]*data_offsets\":\[\([0-9]*\),.*/\1/p" head)
    # shellcheck disable=SC2059
    printf "$3" | dd of="$1" bs=1 seek=$(($(wc -c <head) + 8 + at)) conv=notrunc 2>/dev/null
}
get() { gguf-inspect --get "$2" "$1"; }

mk one 40 40
gguf-convert one one.gguf 2>err
ok "$? $(cat err)" "0 " "a model made here converts"
gguf-inspect --check one.gguf >out;               ok "$? $(cat out)" "0 " "to a file without fault"
ok "$(get one.gguf llama.attention.head_count_kv) $(get one.gguf general.file_type)" "1 32" \
    "with its numbers"
# the same in a 7z, whose weights are what seq prints
seq 2000 >values; mkdir seven
{ head -c $(($(wc -c <head) + 8)) one/model.safetensors
  head -c "$(cat size)" values; } >seven/model.safetensors
cp one/*.json seven
ok "$(gguf-convert "$root/tests/data/one.7z" | sum)" \
    "$(gguf-convert --model-name=One seven | sum)" "from a 7z"
cat "$root/tests/data/one.7z" | gguf-convert - seven.gguf 2>err
ok "$? $(ls | grep -c seven.gguf)" "2 0" "a 7z from a pipe"
has "$(cat err)" "a 7z cannot be read from a pipe" "is told"

# ---- vocabulary against embedding ----
mk short 40 42
refused short 1 "42 pieces, but the embedding only 40 rows" "more pieces than rows"
mk short 40 37; echo '{"x37":37,"x38":38,"x39":39,"x40":40,"x41":41}' >short/added_tokens.json
refused short 1 "42 pieces, but the embedding only 40 rows" "more with added_tokens.json"
mk pad 40 37
gguf-convert pad pad.gguf 2>err;                  ok $? 0 "fewer pieces than rows"
ok "$(get pad.gguf tokenizer.ggml.tokens | wc -l) $(get pad.gguf tokenizer.ggml.token_type |
    wc -l)" \
   "40 40" "are filled up"
ok "$(get pad.gguf tokenizer.ggml.tokens | sed -n '38p;40p' | tr '\n' ' ')" '"[PAD37]" "[PAD39]" ' \
    "with pieces of their own"
ok "$(get pad.gguf tokenizer.ggml.token_type | tail -n 1)" 5 "that are unused"

# ---- merges in both spellings ----
mk merges 40 40; tokenizer 40 '[["a","b"],["ab","c"]]' >merges/tokenizer.json
gguf-convert merges merges.gguf 2>err
ok "$(get merges.gguf tokenizer.ggml.merges | tr '\n' ' ')" '"a b" "ab c" ' "merges as pairs"
ok "$(get one.gguf tokenizer.ggml.merges | tr '\n' ' ')" '"a b" "ab c" ' "merges as texts"
tokenizer 40 '[]' >merges/tokenizer.json
refused merges 1 "no merges" "no merges"
printf '#version: 0.2\na b\nab c\n' >merges/merges.txt
gguf-convert merges merges.gguf 2>err
ok "$? $(get merges.gguf tokenizer.ggml.merges | tr '\n' ' ')" '0 "a b" "ab c" ' \
    "merges.txt has them"
rm merges/merges.txt; tokenizer 40 '["a b c"]' >merges/tokenizer.json
refused merges 1 "a b c" "a merge of three parts"
tokenizer 40 '[["a b","c"]]' | sed 's/"p20"/"aĠb"/; s/"p21"/"aĠbc"/' >merges/tokenizer.json
gguf-convert merges merges.gguf 2>err
ok "$? $(get merges.gguf tokenizer.ggml.merges)" '0 "aĠb c"' "a blank inside a part"
tokenizer 40 '[["a b","c"]]' >merges/tokenizer.json
refused merges 1 'tokenizer.json: merges: "aĠb c": the first part is no piece' "which is no piece"
tokenizer 40 '["a b", "ab d"]' >merges/tokenizer.json
refused merges 1 'merges: "ab d": the second part is no piece' "a merge with an unknown part"
tokenizer 40 '["a b", "b c"]' >merges/tokenizer.json
refused merges 1 'merges: "b c": their sum is no piece' "a merge to an unknown piece"

# ---- tied embeddings ----
mk tied 40 40; sed -i 's/{"arch/{"tie_word_embeddings":true,"arch/' tied/config.json
gguf-convert tied copy.gguf 2>err;                ok $? 0 "a tied model with a copy"
layer 40 BF16 | grep -v lm_head | st tied/model.safetensors
gguf-convert tied tied.gguf 2>err;                ok $? 0 "and without"
cmp copy.gguf tied.gguf;                          ok $? 0 "are the same"
ok "$(gguf-inspect --tensors tied.gguf | grep -c -e '^output.weight' -e '^token_embd')" 1 \
    "with one table"
for type in BF16 F32; do                # the copy in another shard, and in another type
    layer 40 BF16 | grep -v lm_head | st tied/model-00001-of-00002.safetensors
    echo "lm_head.weight $type 40 8" | st tied/model-00002-of-00002.safetensors
    rm -f tied/model.safetensors
    gguf-convert tied tied2.gguf 2>err
    ok "$? $(cat err)" "0 " "a copy in another shard: $type"
    cmp tied2.gguf tied.gguf;                     ok $? 0 "is left out: $type"
done

# ---- shards ----
mk shards 40 40
layer 40 BF16 | head -n 6 | st shards/model-00001-of-00002.safetensors
layer 40 BF16 | tail -n 6 | st shards/model-00002-of-00002.safetensors
rm shards/model.safetensors
index() {
    { printf '{"weight_map":{'
      layer 40 BF16 | awk '{ printf "%s\"%s\":\"model-0000%d-of-00002.safetensors\"",
        (NR > 1 ? "," : ""), $1, (NR > 6 ? 2 : 1) }'
        printf '}}'; } >shards/model.safetensors.index.json
}
gguf-convert --model-name=One shards >sharded.gguf 2>err; ok $? 0 "shards without an index"
index; gguf-convert --model-name=One one >single.gguf
ok "$(gguf-convert --model-name=One shards | sum)" "$(sum <sharded.gguf)" "with an index the same"
cmp sharded.gguf single.gguf;                     ok $? 0 "as from one file"
tar -cf shards.tar shards/*.json shards/*.safetensors
ok "$(cat shards.tar | gguf-convert --model-name=One - | sum)" "$(sum <single.gguf)" \
    "shards through a pipe"
tar -cf swapped.tar shards/*.json shards/model-00002* shards/model-00001*
cat swapped.tar | gguf-convert - swapped.gguf 2>err; ok $? 2 "in another order not"
has "$(cat err)" "model-00002-of-00002.safetensors comes before model-00001-of-00002" \
    "and the file named"
ok "$(cat swapped.tar | gguf-convert --spool=. --model-name=One - | sum)" "$(sum <single.gguf)" \
    "but spooled"
gzip -k swapped.tar
ok "$(gguf-convert --model-name=One swapped.tar.gz | sum)" "$(sum <single.gguf)" \
    "or from a compressed file"
mv shards/model-00002-of-00002.safetensors .
refused shards 1 "model-00002-of-00002.safetensors: is missing" "a shard that never came"
rm shards/model.safetensors.index.json
refused shards 1 "model-00002-of-00002.safetensors: is missing" "even without an index"
index; : >shards/model-00002-of-00002.safetensors
refused shards 1 "model-00002-of-00002.safetensors: is empty" "an empty shard"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n' \
    >shards/model-00002-of-00002.safetensors
refused shards 1 "model-00002-of-00002.safetensors: is a Git LFS pointer" \
    "a pointer in place of a shard"
for file in config tokenizer tokenizer_config; do
    mk lfs 40 40
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n' >lfs/$file.json
    refused lfs 1 "$file.json: is a Git LFS pointer" "a pointer in place of $file.json"
done
: >shards/model-00001-of-00002.safetensors
gguf-convert shards bad.gguf 2>err
ok "$? $(wc -l <err)" "1 2" "two bad shards, a line each"
has "$(cat err)" "2 of 2 weight files cannot be used" "and how many"
mk shards 40 40; echo '{"weight_map":{}}' >shards/model.safetensors.index.json
refused shards 1 "model.safetensors.index.json: names no file" "an empty index"
mk shards 40 40
echo '{"weight_map":{"x":"../one/model.safetensors"}}' >shards/model.safetensors.index.json
refused shards 1 \
    "x: ../one/model.safetensors: is a path, and only files beside the index are read" \
    "a path in an index"
mk shards 40 40
echo '{"weight_map":{"x":"model.safetensors"}}' >shards/model.safetensors.index.json
refused shards 1 "the index does not name it" "a tensor that the index does not know"
mk shards 40 40; { printf '{"weight_map":{"ghost":"model.safetensors"'
    layer 40 BF16 | awk '{ printf ",\"%s\":\"model.safetensors\"", $1 }'
    printf '}}'; } >shards/model.safetensors.index.json
refused shards 1 "model.safetensors: ghost: the index says it is here, but it is not" \
    "a tensor that only the index knows"
tar -cf ghost.tar shards/*.json shards/*.safetensors
ok "$(cat ghost.tar | gguf-convert - 2>err | wc -c) $(grep -c 'ghost: the index says' err)" "0 1" \
    "through a pipe too"

# ---- experts in a compressed archive, by name 0, 1, 10, 11, 2, .. ----
mk many 40 40
sed -i 's/LlamaFor/MixtralFor/; s/{"arch/{"num_local_experts":12,"num_experts_per_tok":2,"arch/
    s/layers":1/layers":2/' many/config.json
{ layer 40 BF16 | grep -v mlp
  layer 40 BF16 | grep 'layers.*[mn]\.weight\|layers.*self' | sed 's/layers.0/layers.1/'
    for l in 0 1; do
        p=model.layers.$l.block_sparse_moe; echo "$p.gate.weight BF16 12 8"
        for e in 0 1 2 3 4 5 6 7 8 9 10 11; do
            printf '%s\n' "$p.experts.$e.w1.weight BF16 32 8" "$p.experts.$e.w2.weight BF16 8 32" \
                "$p.experts.$e.w3.weight BF16 32 8"
        done
    done; } | LC_ALL=C sort | st many/model.safetensors
gguf-convert many many.gguf; ok $? 0 "experts"
tar -czf many.tgz many; gguf-convert --model-name=Many many.tgz many2.gguf 2>err
ok "$? $(sum <many2.gguf)" "0 $(sum <many.gguf)" "from a compressed archive the same"
has "$(cat err)" "times; with --spool DIR it is once" "in more passes than are good"
gguf-convert --spool=spool --model-name=Many many.tgz many2.gguf 2>err
ok "$? $(sum <many2.gguf) $(cat err)" "0 $(sum <many.gguf) " "--spool needs one"

# ---- a model without its head: no prefix of names, and how its vectors become one ----
cp -R llama bare; sed -i 's/LlamaForCausalLM/LlamaModel/' bare/config.json
LC_ALL=C sed 's/"model\./      "/g' llama/model.safetensors >bare/model.safetensors
gguf-convert --model-name=Llama bare bare.gguf
ok "$? $(gguf-inspect --diff out.gguf bare.gguf)" "0 " "names without their prefix"
mk bare 40 40; sed -i 's/LlamaForCausalLM/Qwen2Model/' bare/config.json; mkdir bare/1_Pooling
{ layer 40 BF16 | sed '/^lm_head/d; s/^model\.//'; p=layers.0.self_attn
    printf '%s\n' "$p.k_proj.bias BF16 4" "$p.q_proj.bias BF16 8" "$p.v_proj.bias BF16 4"; } |
        st bare/model.safetensors
gguf-convert bare bare.gguf
ok "$? $(gguf-inspect bare.gguf | grep -c 'pooling_type\|^output\.weight')" "0 0" "nor a head"
echo '[{"path":"","type":"a.Transformer"},{"path":"1_Pooling","type":"a.Pooling"}]' \
    >bare/modules.json
echo '{"pooling_mode_mean_tokens":false,"pooling_mode_lasttoken":true}' >bare/1_Pooling/config.json
gguf-convert bare bare.gguf
ok "$? $(get bare.gguf qwen2.pooling_type)" "0 3" "vectors are those of last tokens"
tar -cf bare.tar bare/*.json bare/1_Pooling/config.json bare/model.safetensors
gguf-convert - bare2.gguf <bare.tar
ok "$? $(gguf-inspect --diff bare.gguf bare2.gguf)" "0 " "from an archive too"

# ---- a file of weights stands for the folder it lies in ----
ok "$(gguf-convert llama/model.safetensors | sum)" "$m" "a path to the weights"
ok "$(cd llama && gguf-convert --model-name=Llama model.safetensors | sum)" "$m" \
    "from within the folder"
mkdir lonely && cp llama/model.safetensors lonely
refused lonely/model.safetensors 1 "lonely: no config.json" "weights with nothing beside them"
gguf-convert -q llama/model.safetensors llama/config.json 2>err; ok $? 2 "never over what is read"

# ---- data in another order than the names ----
mk mixed 40 40
{ layer 40 BF16 | grep model.norm; layer 40 BF16 | grep -v model.norm; } |
    st mixed/model.safetensors
gguf-convert --model-name=One mixed | cmp - single.gguf
ok $? 0 "a file whose data is in another order"
tar -cf mixed.tar mixed/*.json mixed/*.safetensors
cat mixed.tar | gguf-convert - mixed.gguf 2>err
ok "$? $(ls | grep -c mixed.gguf)" "2 0" "not through a pipe"
has "$(cat err)" "model.safetensors: model.norm.weight lies before model.layers" "and why"
ok "$(cat mixed.tar | gguf-convert --spool=. --model-name=One - | sum)" "$(sum <single.gguf)" \
    "but spooled"
gzip -k mixed.tar
ok "$(gguf-convert --model-name=One mixed.tar.gz | sum)" "$(sum <single.gguf)" \
    "or from a compressed file"

# ---- headers ----
header() { # JSON [LENGTH]
    { le "${2:-${#1}}" 8; printf %s "$1"; head -c 4 /dev/zero; } >one/model.safetensors
}
t='{"t":{"dtype":"F32","shape":[1000,1000],"data_offsets":'
mk one 40 40
for range in '[0,4]' '[0,1099511627776]' '[8,4]' '[4]' '[-1,3]' '[0,4,8]' '{}'; do
    header "$t$range}}"; refused one 1 "model.safetensors: header: t: " "data_offsets $range"
done
header '{"t":{"dtype":"F128","shape":[1],"data_offsets":[0,4]}}'
refused one 1 'header: t: dtype "F128"' "an unknown dtype"
header '{"t":{"dtype":3,"shape":[1],"data_offsets":[0,4]}}'
refused one 1 'header: t: dtype is no text' "a dtype that is a number"
t='"t":{"dtype":"F32","shape":'
header "{$t[1],\"data_offsets\":[0,4]},$t[0],\"data_offsets\":[4,4]}}"
refused one 1 'header: t: is there twice' "a name twice"
header '{"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}'
refused one 1 'header: t: shape is beyond 64 bits' "a shape beyond 64 bits"
header '{}' 9223372036854775807
refused one 1 "header of 9223372036854775807 bytes" "a header of 2^63 bytes"
header '{}' 1000
refused one 1 "header of 1000 bytes, but the file has only 14" "a header longer than the file"
header '{"t"'; refused one 1 "header: line 1, column 5" "a header cut short"
mk one 40 40; head -c 4000 one/model.safetensors >x; mv x one/model.safetensors
refused one 1 "incomplete or damaged" "weights cut short"
mk one 40 40
layer 40 BF16 | sed 's/q_proj.weight BF16 8 8/q_proj.weight BF16 8 4/' | st one/model.safetensors
refused one 1 "q_proj.weight: shape [8, 4], but config.json makes it [8, 8]" \
    "a shape at odds with config.json"
mk one 40 40; layer 40 BF16 | grep -v down_proj | st one/model.safetensors
refused one 1 "model.layers.0.mlp.down_proj.weight: in no weight file" "a tensor that is missing"
mk one 40 40; layer 40 BF16 | sed 's/^lm_head/zzz.qweight/' | st one/model.safetensors
refused one 2 "zzz.qweight.weight: no tensor of a llama model" "a tensor that is unknown"
mk one 40 40; layer 40 BF16 | sed 's/layers.0.mlp.up/layers.1.mlp.up/' | st one/model.safetensors
refused one 1 "config.json says 1 layers" "a layer too many"

# ---- range of values ----
mk range 40 40 F32
for v in '70000 \000\270\210\107' '65520 \000\360\177\107' '-1e+38 \231\166\226\376'; do
    patch range/model.safetensors model.layers.0.mlp.up_proj.weight "${v#* }"
    refused range 2 "up_proj.weight: row 0, column 0 is " "${v% *} in f16" -T f16
    has "$(cat err)" ": beyond what f16 can hold: convert with -T bf16 or -T f32" \
        "${v% *}: what holds it"
    gguf-convert -T bf16 range range.gguf 2>err;  ok "$? $(cat err)" "0 " "${v% *} in bf16"
done
patch range/model.safetensors model.layers.0.mlp.up_proj.weight '\377\377\177\177'
refused range 2 "3.40282347e+38: beyond what bf16 can hold: convert with -T f32" \
    "the largest float" -T bf16
patch range/model.safetensors model.layers.0.mlp.down_proj.weight '\312\362\111\161'
for type in q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl; do
    refused range 2 "down_proj.weight: row 0, column 0 is 1.00000002e+30: beyond what $type can" \
        "1e30 in $type" -q -T $type
done
patch range/model.safetensors model.layers.0.mlp.down_proj.weight '\000\000\000\000'
patch range/model.safetensors model.layers.0.mlp.up_proj.weight '\000\340\177\107'
gguf-convert -T f16 range range.gguf 2>err;       ok "$? $(cat err)" "0 " "65504 is kept"
patch range/model.safetensors model.layers.0.mlp.up_proj.weight '\000\000\200\177'
refused range 1 "is inf: not a weight" "an infinity" -T f32
patch range/model.safetensors model.layers.0.mlp.up_proj.weight '\000\000\300\177'
patch range/model.safetensors model.layers.0.mlp.down_proj.weight '\000\000\300\177'
for type in f32 f16 bf16 q8_0 q4_0; do
    gguf-convert -q -T $type range range.gguf 2>err; ok $? 1 "NaN in $type"
    has "$(cat err)" "down_proj.weight: row 0, column 0 is nan: not a weight" \
        "NaN in $type: message"
done

# ---- the wrong folder ----
mkdir empty adapter; echo '{}' >adapter/adapter_config.json
echo x >adapter/adapter_model.safetensors
refused empty 1 "empty: no config.json" "an empty folder"
refused adapter 2 "this is an adapter, not a model: convert it with --lora" "an adapter"
refused nowhere 2 "nowhere: " "a path that is not there"
echo '{}' >file; refused file 1 "file: " "a file that is no archive"
mk one 40 40; sed -i 's/"architectures":[^,]*,//' one/config.json
refused one 1 "config.json: no architectures" "no architectures"
mk one 40 40; sed -i 's/LlamaFor/NovelFor/' one/config.json
refused one 2 "architecture NovelForCausalLM cannot be converted (--list names those that can)" \
    "an unknown class"
# numbers that no model has, of classes that compute with them
unfit() { # CLASS MEMBERS MESSAGE [STATUS]
    mk one 40 40; sed -i "s/LlamaForCausalLM/$1/; s/\"max_pos[^,]*/$2/" one/config.json
    refused one "${4:-1}" "$3" "$1: $3"
}
least=-9223372036854775808 long='"max_position_embeddings":64'
unfit HunYuanMoEV1ForCausalLM "$long,\"num_experts\":[]" "num_experts: a list of nothing"
unfit RobertaModel "\"max_position_embeddings\":$least,\"pad_token_id\":1" \
    "max_position_embeddings is no number that fits"
for each in kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim \
    n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size index_n_heads \
    index_head_dim index_topk index_topk_freq mamba_d_conv mamba_d_state mamba_expand \
    attn_layer_period; do
    long="$long,\"$each\":2"
done
unfit GlmMoeDsaForCausalLM "$long,\"index_skip_topk_offset\":$least" \
    "index_skip_topk_offset is no number that fits"
# no layer of it has attention
unfit JambaForCausalLM "$long,\"attn_layer_offset\":$least" "no tensor of a jamba model" 2
mk one 40 40; rm one/tokenizer.json
refused one 1 "no tokenizer.json, tokenizer.model, vocab.txt, vocab.json or tekken.json" \
    "no tokenizer"
mk one 40 40; rm one/model.safetensors; refused one 1 "no model*.safetensors" "no weights"
touch one/pytorch_model.bin
refused one 1 "pytorch_model.bin: is empty" "an empty file of another kind"

# ---- vocab.json and merges.txt alone: the end of texts also begins them, unless a file says null
mk one 4 4; rm one/tokenizer.json; sed -i 's/,"eos_token_id":2//' one/config.json
echo '{"a":0,"b":1,"ab":2,"<|endoftext|>":3}' >one/vocab.json; echo 'a b' >one/merges.txt
gguf-convert -q one two.gguf
ok "$? $(get two.gguf tokenizer.ggml.bos_token_id) $(get two.gguf tokenizer.ggml.eos_token_id)" \
    "0 3 3" "one special piece"
echo '{"bos_token":null}' >one/tokenizer_config.json; gguf-convert -q one two.gguf
ok "$? $(get two.gguf tokenizer.ggml.bos_token_id 2>err) $(get two.gguf \
    tokenizer.ggml.eos_token_id)" "0  3" "but no beginning"

# ---- numbers that cannot be 0 ----
for key in rms_norm_eps rope_theta; do
    mk one 40 40; sed -i "s/\"$key\":[0-9.e-]*/\"$key\":0/" one/config.json
    refused one 1 "config.json: $key is 0" "$key of 0"
done
for scaling in '"type":"linear","factor":0' '"rope_type":"linear"'; do
    mk one 40 40; sed -i "s/{\"arch/{\"rope_scaling\":{$scaling},\"arch/" one/config.json
    refused one 1 "rope_scaling linear: factor is no number above 0" "$scaling"
done

# ---- what PyTorch saves ----
torch=$root/tests/data/torch
mk one 40 40; cp "$torch/model.safetensors" one
w=$(gguf-convert -q one | sum); rm one/model.safetensors
for f in plain views big; do
    cp "$torch/$f.bin" one/pytorch_model.bin
    ok "$(gguf-convert -q one | sum)" "$w" "PyTorch's file, $f"
    ok "$(gguf-convert -q -t 1 one | sum)" "$w" "with one thread"
done
tar -cf one.tar one && tar -czf one.tgz one
ok "$(gguf-convert -q one.tar | sum)" "$w" "in an archive"
ok "$(gguf-convert -q --spool=spool one.tgz | sum)" "$w" "in a compressed one, by a spool"
refused one.tgz 2 "give --spool DIR with room for" "not without"
cp "$torch/old.bin" one/pytorch_model.bin
refused one 2 "PyTorch's form before version 1.6" "the old form"
cp "$torch/call.bin" one/pytorch_model.bin
refused one 1 "names posix.system" "a pickle that calls something"
mkdir -p a && { printf '\200\002'; head -c 2000000 /dev/zero | tr '\0' N; printf .; } >a/data.pkl
rm one/pytorch_model.bin
if zip -q0r one/pytorch_model.bin a && mv one/pytorch_model.bin* one/.bin; then
    mv one/.bin one/pytorch_model.bin
    refused one 1 "makes more objects than the tensors of a file take" \
        "a pickle of two million things"
fi
ok "$(ls called 2>&1 | grep -c cannot)" 1 "which is not called"
cp "$torch/extra.bin" one/pytorch_model.bin; refused one 2 "epoch: is no tensor" "more than tensors"
head -c 3000 "$torch/plain.bin" >one/pytorch_model.bin; refused one 1 "cut short" "half a file"
rm one/pytorch_model.bin
printf '{"weight_map":{' >one/pytorch_model.bin.index.json
layer 40 F32 |
    awk '{ printf "%s\"%s\":\"part.bin\"", (NR > 1 ? "," : ""), $1 }' \
    >>one/pytorch_model.bin.index.json
echo '}}' >>one/pytorch_model.bin.index.json
cp "$torch/plain.bin" one/part.bin
ok "$(gguf-convert -q one | sum)" "$w" "files that an index names"

# ---- Mistral's own files ----
# The rows of Wq and Wk are in GGUF's order there: with one head of two rows, or none that
# differ, both forms are the same; here all weights are zero.
mk one 40 40; w=$(gguf-convert -q -T f16 one | sum)
rm one/model.safetensors one/config.json
layer 40 BF16 |
    sed 's/^lm_head/output/; s/^model.embed_tokens/tok_embeddings/; s/^model.norm/norm/
        s/^model.layers/layers/; s/self_attn.\([qkvo]\)_proj/attention.w\1/
        s/mlp.gate_proj/feed_forward.w1/; s/mlp.up_proj/feed_forward.w3/
        s/mlp.down_proj/feed_forward.w2/
        s/input_layernorm/attention_norm/; s/post_attention_layernorm/ffn_norm/' |
    LC_ALL=C sort | st one/consolidated.safetensors
printf '%s' '{"dim":8,"n_layers":1,"head_dim":4,"hidden_dim":32,"n_heads":2,"n_kv_heads":1,' \
    '"norm_eps":1e-5,"vocab_size":40,"max_seq_len":64}' >one/params.json
gguf-convert -q -T f16 one own.gguf; ok $? 0 "params.json and consolidated.safetensors"
mk two 40 40; gguf-convert -q -T f16 --model-name=One two two.gguf
ok "$(gguf-inspect --diff own.gguf two.gguf | grep -v eos_token_id)" "" "are the same model"
rm one/consolidated.safetensors; refused one 1 "no consolidated*.safetensors" "without weights"
echo '{"dim":8}' >one/params.json
refused one 1 "config.json: no num_hidden_layers" "too few numbers"

# ---- quantized weights ----
packed=$root/tests/data/packed
# dims: the configuration for them
dims() {
    sed -i \
        's/"hidden_size":8/"hidden_size":16/; s/"num_key_value_heads":1/"num_key_value_heads":2/' \
        one/config.json
}
mk one 40 40; dims; cp "$packed/fp8.safetensors" one/model.safetensors
sed -i "s/{\"arch/{\"quantization_config\":$(cat "$packed/fp8.json"),\"arch/" one/config.json
gguf-convert -q -T bf16 --fp8-as-q8 one q8.gguf; gguf-convert -q -T Q8_0 one packed.gguf
gguf-convert -q -T bf16 one plain.gguf
ok "$(types() { gguf-inspect --tensors "$1" |
    awk '{ n[$2]++ } END { print n["q8_0"] + 0, n["bf16"] + 0, n["f32"] }'; }
    types q8.gguf; types packed.gguf)" "1 8 3
1 0 3" "--fp8-as-q8: what was FP8, where its rows suit"
for t in blk.0.ffn_down.weight blk.0.ffn_up.weight token_embd.weight; do
    of=packed.gguf; [ $t = blk.0.ffn_down.weight ] || of=plain.gguf
    ok "$(gguf-inspect --hash q8.gguf | grep " $t\$")" "$(gguf-inspect --hash $of | grep " $t\$")" \
        "$t"
done
ok "$(gguf-inspect --get general.file_type q8.gguf)" 7 "the file's type"
gguf-convert -q -T Q4_K_M --fp8-as-q8 one bad.gguf 2>err
ok "$? $(cat err)" "2 gguf-convert: one: --fp8-as-q8: Q4_K_M says what all weights become" \
    "with a mix"
for kind in fp8 gptq awq bnb bnb2 nvfp4 nvfp4ct packed; do
    for type in f32 bf16 Q8_0; do
        mk one 40 40; dims; cp "$packed/$kind-plain.safetensors" one/model.safetensors
        # the order of tensors may be another
        gguf-convert -q -T $type one plain.gguf
        mk one 40 40; dims; cp "$packed/$kind.safetensors" one/model.safetensors
        sed -i "s/{\"arch/{\"quantization_config\":$(cat "$packed/$kind.json"),\"arch/" \
            one/config.json
        gguf-convert -q -T $type one packed.gguf
        ok "$? $(gguf-inspect --diff plain.gguf packed.gguf)" "0 " "$kind weights to $type"
    done
done
mv one kept
mk one 40 40; dims; cp "$packed/fp8.safetensors" one/model.safetensors
cp one/config.json plain.json
quantized() { # MEMBERS: the configuration says what quantizes the weights
    sed "s/{\"arch/{\"quantization_config\":{$1},\"arch/" "${2-plain.json}" >one/config.json
}
for size in '[0,0]' '"x"' '[16]' '[16,-16]' '[8,12,1]'; do
    quantized "\"quant_method\":\"fp8\",\"weight_block_size\":$size"
    refused one 1 "weight_block_size: wants two numbers, each at least 1" "blocks of $size"
done
quantized '"quant_method":"fp8","weight_block_size":[8,16]'
refused one 1 "where quantization_config says one for 16" "blocks that are of another size"
for bits in '99 2 gptq weights of 99 bits cannot be decoded' '"x" 1 bits: wants a number' \
    '0 1 bits: wants a number'; do
    mk one 40 40; cp one/config.json odd.json
    quantized "\"quant_method\":\"gptq\",\"bits\":${bits%% *}" odd.json
    said=${bits#* }; refused one "${said%% *}" "${said#* }" "gptq of ${bits%% *} bits"
done
rm -rf one; mv kept one
mk bits 40 40; cp -R one/. bits; cp "$packed/bnb.safetensors" bits/model.safetensors
bnb() {
    sed "s/{\"quantization_config\":.*,\"arch/{\"quantization_config\":$1,\"arch/" \
        one/config.json >bits/config.json
}
bnb '{"quant_method":"bitsandbytes","load_in_8bit":true}'
refused bits 2 "bitsandbytes of 8 bits cannot be converted" "8 bits of bitsandbytes"
bnb '{"quant_method":"bitsandbytes","load_in_4bit":true}'
sed -i 's/"blocksize": 64/"blocksize": 32/' bits/model.safetensors
refused bits 1 "down_proj.weight.absmax: type F32 or shape does not suit" \
    "scales that are not as many as the state says"
tar -czf one.tgz one; refused one.tgz 2 "give --spool DIR" "quantized weights that stream"
ok "$(gguf-convert -q -T Q8_0 --spool=spool one.tgz | sum)" "$(sum <packed.gguf)" "with a spool"
sed -i 's/"num_bits": 4/"num_bits": 3/' one/config.json; refused one 2 "weights of 3 bits" "3 bits"
mk one 40 40; echo '{"a"' >one/config.json; refused one 1 "config.json: line " "broken JSON"
# ---- what a file holds beyond what it may ----
mk one 40 40
{ printf '{"x":['; yes 0, | head -n 2000000 | tr -d '\n'; printf '0]}'; } >large.json
cp large.json one/tokenizer_config.json
refused one 1 "tokenizer_config.json: line 1, column " "a list of millions: tokenizer_config.json"
mk one 40 40; cp large.json one/config.json
refused one 1 "its tree is beyond 96 MiB" "a list of millions: config.json"
# ---- a vocabulary of another shape than its type has ----
vocab_is() { # SED PART NAME
    mk one 40 40; sed -i "$1" one/tokenizer.json; refused one 1 "tokenizer.json: $2" "$3"
}
vocab_is 's/"type":"BPE"/"type":"BPE","vocab":[]/; s/"vocab":{/"was":{/' \
    "vocab is a list, which that of a BPE model is not" "BPE with a list"
vocab_is 's/"type":"BPE"/"type":"Unigram"/' \
    "vocab is an object, which that of a Unigram model is not" "Unigram with an object"
vocab_is 's/"type":"BPE"/"type":"Unigram","vocab":[]/; s/"vocab":{/"was":{/' "vocab: no pieces" \
    "Unigram without pieces"
vocab_is 's/"added_tokens":/"added_tokens":"x","was":/' "added_tokens is no list" \
    "added pieces in a text"
vocab_is 's/"added_tokens":\[/&"x",/' "added_tokens[0]: is a text, not an object" \
    "an added piece that is a text"
# ---- a SentencePiece model that ends where a piece does, which its format does not notice ----
spm=$root/tests/data/vocab/kinds/bpe.model
mk one 40 40; rm one/tokenizer.json
first=$(od -An -tu1 -j 1 -N 1 "$spm"); head -c $((first + 2)) "$spm" >one/tokenizer.model
refused one 1 "tokenizer.model: ends behind the pieces: cut short" "a piece of a tokenizer.model"
mk one 40 40; sed -i 's/"hidden_size":8,//' one/config.json
refused one 1 "config.json: no hidden_size" "a number missing"
mk one 40 40; sed -i 's/{"arch/{"quantization_config":{"quant_method":"hqq"},"arch/' one/config.json
refused one 2 "quantized with hqq" "quantized weights"

# ---- special tokens, templates, names ----
mk ends 40 40
echo '{"eos_token_id":[2,7]}' >ends/generation_config.json
echo '{"eos_token":"<q>","chat_template":"x"}' >ends/tokenizer_config.json
gguf-convert ends ends.gguf
ok "$(get ends.gguf tokenizer.ggml.eos_token_id) $(get ends.gguf tokenizer.ggml.eot_token_id)" \
    "7 2" "two end tokens"
ok "$(: | decode -m ends.gguf - | head -c 4096 | tr -d '\000' | grep -ao '"eog":\[[0-9,]*\]')" \
    '"eog":[2,7]' \
   "both end what is generated"
mk ends 40 40; sed -i 's/_token_id":2/_token_id":40/' ends/config.json
refused ends 1 "eos_token_id 40: the vocabulary has only 40" "an end token beyond the vocabulary"

mk chat 40 40; rm chat/tokenizer_config.json
printf 'caf\303\251 {{ x }}\n' >chat/chat_template.jinja
gguf-convert chat chat.gguf
gguf-inspect -0 --get tokenizer.chat_template chat.gguf | tr -d '\0' |
    cmp - chat/chat_template.jinja
ok $? 0 "chat_template.jinja, byte for byte"
mkdir chat/additional_chat_templates; printf tool >chat/additional_chat_templates/tool_use.jinja
gguf-convert chat chat.gguf
ok "$(get chat.gguf tokenizer.chat_template.tool_use)" tool "and one beside it"
tar -cf chat.tar chat; gguf-convert chat.tar chat2.gguf; cmp chat.gguf chat2.gguf
ok $? 0 "from an archive too"
echo '{"chat_template":[{"name":"default","template":"D"},{"name":"rag","template":"R"}]}' \
    >chat/tokenizer_config.json
gguf-convert chat chat.gguf
ok "$(get chat.gguf tokenizer.chat_template) $(get chat.gguf \
    tokenizer.chat_template.rag) $(get chat.gguf tokenizer.chat_templates)" \
   'D R "rag"' "named templates"
mk chat 40 40; rm chat/tokenizer_config.json
gguf-convert chat chat.gguf 2>err; ok $? 0 "no template"
has "$(cat err)" "no chat template" "is told"
printf mine >mine; gguf-convert --chat-template=mine chat chat.gguf 2>err
ok "$(cat err) $(get chat.gguf tokenizer.chat_template)" " mine" "--chat-template"

mk Tiny-1-Instruct-v2 40 40
cat >Tiny-1-Instruct-v2/README.md <<'EOF'
---
license: apache-2.0
language:
- en
- no
tags: [tiny, "of one layer"]
base_model: some-body/Tiny-1
---
# Tiny
EOF
echo '{"general.author":"A. Body","general.tags":["mine"]}' >meta.json
gguf-convert Tiny-1-Instruct-v2 named.gguf
ok "$(for k in name version finetune basename license base_model.0.repo_url; do get named.gguf \
    general.$k; done | tr '\n' '|')" \
   'Tiny 1 Instruct v2|v2|Instruct|Tiny-1|apache-2.0|https://huggingface.co/some-body/Tiny-1|' \
   "a name, taken apart, and a card"
ok "$(get named.gguf general.languages | tr '\n' ' ')$(get named.gguf general.tags | tr '\n' ' ')" \
   '"en" "no" "tiny" "of one layer" ' "lists of a card"
gguf-convert --metadata=meta.json --model-name=Mine Tiny-1-Instruct-v2 named.gguf
ok "$(get named.gguf general.name) $(get named.gguf general.author) $(get named.gguf \
    general.tags)" \
   'Mine A. Body "mine"' "--metadata, --model-name"
echo '{"general.autor":"A. Body"}' >meta.json
mk one 40 40
while read -r json said; do
    echo "$json" >meta.json
    refused one 1 "gguf-convert: meta.json: $said" "--metadata: $json" --metadata=meta.json
done <<'END'
{"general.autor":"A."} general.autor: is no key that can be set
{"general.architecture":"x"} general.architecture: is no key that can be set
{"general.author":3} general.author: wants a text
{"general.tags":"tiny"} general.tags: wants a list of texts
{"general.tags":["a",1]} general.tags: wants a list of texts
{"general.base_models":["a"]} general.base_models: wants a list of objects
{"general.sampling.temp":"hot"} general.sampling.temp: wants a number
{"general.sampling.top_k":3000000000} general.sampling.top_k: wants a whole number
[] is no JSON object
END
echo '{"general.tags":[]}' >meta.json
gguf-convert --metadata=meta.json Tiny-1-Instruct-v2 named.gguf
gguf-inspect --get general.tags named.gguf >out 2>err
ok "$? $(wc -c <out)" "1 0" "no tags, not even the card's"
gguf-convert --model-name= one x.gguf 2>err; ok $? 2 "no name is none"
gguf-convert --max-tensors=3 one x.gguf.zst 2>err
ok "$? $(ls | grep -c '^x')" "2 0" "shards are not compressed"
has "$(cat err)" "several files are not compressed" "which is said"
gguf-convert -q --max-size=10 one x.gguf 2>err; gguf-convert --max-size=10 one x.gguf 2>err
ok "$(grep -c 'cannot be divided' err)" 1 "that the limit is too low is said once"
rm -f x-*
echo text >some.txt
refused some.txt 1 "some.txt: neither a folder nor an archive" "a file that is neither"
refused one/config.json 2 "one/config.json: is one file of a checkpoint: give the folder, one" \
    "a file of a folder"

# ---- pre-tokenizers ----
mk pre 40 40
ok "$(gguf-convert pre - 2>err | gguf-inspect --get tokenizer.ggml.pre -)" gpt-2 \
    "a pre-tokenizer is recognised"
sed -i 's/"pre_tokenizer":{[^}]*}/"pre_tokenizer":{"type":"Whitespace"}/' pre/tokenizer.json
refused pre 2 "--pre NAME" "one without a name"
ok "$(gguf-convert --pre=mpt pre - 2>err | gguf-inspect --get tokenizer.ggml.pre -)" mpt "--pre"

# ---- other ways to run ----
mk one 40 40
gguf-convert --vocab-only one v.gguf 2>err;       ok $? 0 "--vocab-only"
ok "$(gguf-inspect --tensors v.gguf | grep -c weight) $(get v.gguf tokenizer.ggml.tokens | wc -l)" \
    "0 40" "has no tensors"
rm one/model.safetensors; gguf-convert --vocab-only one v2.gguf 2>err; cmp v.gguf v2.gguf
ok $? 0 "needs no weights"
mk one 40 40
ok "$(gguf-convert -q --dry-run -T q8_0 one |
    awk -F '\t' '$1 == "blk.0.ffn_down.weight" || $1 == "blk.0.attn_k.weight"' | sort |
    tr '\t\n' ' |')" \
    "blk.0.attn_k.weight 8x4 bf16 f16 64 64 no 1 model.safetensors \
model.layers.0.self_attn.k_proj.weight|blk.0.ffn_down.weight 32x8 bf16 q8_0 512 272 no 1 \
model.safetensors model.layers.0.mlp.down_proj.weight|" "--dry-run"
ok "$(gguf-convert -q --dry-run one | sed -n '1p; $p' | tr '\t\n' ' |')" \
   "tensor shape from to bytes_from bytes_to importance parts file source|total    3248 3296    |" \
   "with a heading and totals"
has "$(gguf-convert --list)" "MistralForCausalLM	llama" "--list"
gguf-convert --print-deps one 'a b' >rule;        ok $? 0 "--print-deps"
has "$(cat rule)" 'a\ b: \' "quotes as makefiles do"
has "$(cat rule)" "one/model.safetensors" "names the weights"
ok "$(ls | grep -c 'a b')" 0 "and writes nothing"

cp llama/model.safetensors before
gguf-convert llama llama/model.safetensors 2>err; ok $? 2 "the weights as output"
ln llama/model.safetensors hard; gguf-convert llama hard 2>err; ok $? 2 "a link to them"
cmp before llama/model.safetensors;               ok $? 0 "stay as they are"
gguf-convert a.tar a.tar 2>err
ok "$? $(gguf-convert a.tar | sum)" "2 $m" "an archive too"
gguf-convert llama /dev/full 2>err;               ok "$? $(wc -l <err)" "2 1" "a full disk"
gguf-convert llama >/dev/full 2>err;              ok "$? $(wc -l <err)" "2 1" "on standard output"
( ulimit -f 100; trap '' XFSZ; gguf-convert llama limit.gguf ) 2>err
ok "$? $(ls -A | grep -c limit)" "2 0" "a limit on file sizes"
gguf-convert llama out.gguf extra 2>err;          ok $? 2 "an operand too many"
for t in Q4_0 q5_1 Q4_K_M Q6_K 2; do
    gguf-convert -q llama - | quantize -q - two.gguf $t && gguf-convert -T $t llama same.gguf
    cmp two.gguf same.gguf;                       ok $? 0 "-T $t is what quantize makes"
done
gguf-convert -T q9 llama out3.gguf 2>err
ok "$? $(ls | grep -c out3)" "2 0" "a type that is none"
has "$(cat err)" "auto F32 F16" "and those that are"

# ---- memory: half a gigabyte of weights within 128 MiB of address space ----
if (ulimit -v 131072; gguf-convert --version) >out 2>&1; then
    mk large 368 40; cp llama/tokenizer.json large
    sed -i 's/_size":8,/_size":8192,/; s/"intermediate_size":32/"intermediate_size":8192/
        s/vocab_size":40/vocab_size":368/; s/_heads":2/_heads":64/' large/config.json
    layer 368 BF16 |
        sed 's/\([ ]\)8\b/\18192/g; s/\b32\b/8192/g; s/proj.weight BF16 4 /proj.weight BF16 128 /' \
        >lines
    awk '{ b = 2; s = ""; for (i = 3; i <= NF; i++) { b *= $i; s = s (i > 3 ? "," : "") $i }
           printf "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
                  (NR > 1 ? "," : "{"), $1, s, at, at + b
           at += b }
         END { printf "}"; printf "%d", at >"size" }' lines >head
    { le "$(wc -c <head)" 8; cat head; } >large/model.safetensors
    truncate -s $(($(wc -c <head) + 8 + $(cat size))) large/model.safetensors
    gguf-convert -q -T IQ2_XXS large refused.gguf 2>err
    ok $? 2 "a type that needs importance: status"
    ok "$(grep -c 'tensor blk.*: no importance, wanted .* values for iq2_xxs' err) $(wc -l <err)" \
        "6 7" \
       "a type that needs importance: all tensors are named"
    ok "$(ls -A | grep -c refused)" 0 "a type that needs importance: no output"
    (ulimit -v 131072; gguf-convert -t 1 -T f32 large /dev/null) 2>err
    ok "$? $(cat err)" "0 " "$(($(cat size) >> 20)) MiB of weights within 128 MiB"
    tar -cf - large/*.json large/*.safetensors |
        (ulimit -v 131072; gguf-convert -t 1 - /dev/null) 2>err
    ok "$? $(cat err)" "0 " "the same through a pipe, rows in another order head by head"
fi

# ---- tensors that are put in another order, from a stream ----
mk wide 40 40
sed -i 's/_size":8,/_size":1024,/; s/_heads":2/_heads":2/' wide/config.json
layer 40 BF16 | sed 's/\([ ]\)8\b/\11024/g; s/proj.weight BF16 4 /proj.weight BF16 512 /' |
    LC_ALL=C sort | st zeros
head -c "$(($(wc -c <head) + 8))" zeros >wide/model.safetensors
seq 1000000 | head -c "$(($(wc -c <zeros) - $(wc -c <head) - 8))" >>wide/model.safetensors
gguf-convert -q --model-name=W wide w.gguf; ok $? 0 "heads of half a million weights"
w=$(sum <w.gguf)
tar -cf wide.tar wide/*.json wide/*.safetensors; gzip -k wide.tar
ok "$(gguf-convert -q --model-name=W - <wide.tar | sum)" "$w" "from a pipe"
ok "$(gguf-convert -q --model-name=W wide.tar.gz | sum)" "$w" "and from a compressed archive"
mk gpt 40 40
cat >gpt/config.json <<'EOF'
{"architectures":["GPT2LMHeadModel"],"n_layer":1,"n_embd":3072,"n_head":24,
"n_positions":64,"layer_norm_epsilon":1e-5,"vocab_size":40}
EOF
printf 'transformer.%s\n' 'h.0.attn.c_attn.bias BF16 9216' \
    'h.0.attn.c_attn.weight BF16 3072 9216' 'h.0.attn.c_proj.bias BF16 3072' \
    'h.0.attn.c_proj.weight BF16 3072 3072' 'h.0.ln_1.bias BF16 3072' \
    'h.0.ln_1.weight BF16 3072' 'h.0.ln_2.bias BF16 3072' 'h.0.ln_2.weight BF16 3072' \
    'h.0.mlp.c_fc.bias BF16 12288' 'h.0.mlp.c_fc.weight BF16 3072 12288' \
    'h.0.mlp.c_proj.bias BF16 3072' 'h.0.mlp.c_proj.weight BF16 12288 3072' \
    'ln_f.bias BF16 3072' 'ln_f.weight BF16 3072' 'wpe.weight BF16 64 3072' \
    'wte.weight BF16 40 3072' |
    LC_ALL=C sort | st gpt/model.safetensors
tar -cf - gpt/*.json gpt/*.safetensors | gguf-convert -q - refused.gguf 2>err
ok $? 2 "a transposed tensor that is too large to be kept"
has "$(cat err)" "transformer.h.0.mlp.c_fc.weight has 75497472 bytes, and is put in another order \
than it comes in: give --spool DIR" "is named"
gguf-convert -q --model-name=G gpt g.gguf; ok $? 0 "from its folder it is converted"
ok "$(tar -cf - gpt/*.json gpt/*.safetensors | gguf-convert -q --model-name=G --spool=. - | sum)" \
   "$(sum <g.gguf)" "and with a spool"
rm -rf gpt g.gguf large wide wide.tar* w.gguf zeros

# ---- several files, and several runs ----
for o in "--max-size=100K" "--max-tensors=5"; do
    gguf-convert llama out.gguf && gguf-split "$o" out.gguf a && gguf-convert "$o" llama b.gguf
    ok "$? $(for f in a-*; do cmp "$f" "b${f#a}"; done; ls a-* | wc -l)" "0 $(ls b-* | wc -l)" \
        "$o: as gguf-split does it"
    rm a-* b-*
done
gguf-convert --max-size=100K llama 2>err;            ok $? 2 "several files need a name"
ok "$(gguf-convert --max-tensors 5 --resume llama b.gguf 2>&1 | grep -c exclude)" 1 \
    "and cannot be resumed"
touch b-00003-of-00005.gguf && chmod 400 b-00003-of-00005.gguf
(ulimit -f 100; gguf-convert --max-tensors 5 llama b.gguf 2>err)
ok "$? $(ls -A | grep -c '^\.*b-')" "2 1" "all or none"
rm -f b-*
gguf-convert --resume llama r.gguf
ok "$? $(sum <r.gguf)" "0 $m" "--resume of nothing"
ok "$(ls -A | grep -c 'r.gguf')" 1 "leaves nothing beside it"
rm r.gguf
mkfifo .r.gguf.part
timeout 20 gguf-convert --resume llama r.gguf 2>err; ok $? 2 "a FIFO in its place is not waited for"
has "$(cat err)" ".r.gguf.part: is no regular file" "but named"
rm .r.gguf.part; mkfifo .r.gguf.part.sums
timeout 20 gguf-convert --resume llama r.gguf 2>err; ok $? 2 "nor one for the sums"
has "$(cat err)" ".r.gguf.part.sums" "which is named, too"
rm .r.gguf.part .r.gguf.part.sums
(trap '' XFSZ; ulimit -f 400; gguf-convert --resume llama r.gguf 2>err); ok $? 2 "a run that fails"
ok "$(ls -A | grep 'r.gguf' | tr '\n' ' ')" ".r.gguf.part .r.gguf.part.sums " "leaves what it has"
gguf-inspect --hash out.gguf | head -n "$(wc -l <.r.gguf.part.sums)" | cmp - .r.gguf.part.sums
ok $? 0 "with the sums that gguf-inspect prints"
k=$(wc -l <.r.gguf.part.sums)
has "$(gguf-convert -v --resume llama r.gguf 2>&1)" "$k of 22 tensors were there already" \
    "the next goes on"
ok "$(sum <r.gguf) $(ls -A | grep -c 'r.gguf')" "$m 1" "to the same file"
rm r.gguf
(trap '' XFSZ; ulimit -f 400; gguf-convert --resume llama r.gguf 2>err)
printf X | dd of=.r.gguf.part bs=1 seek=100000 conv=notrunc 2>err
gguf-convert -v --resume llama r.gguf 2>err
ok "$? $(sum <r.gguf)" "0 $m" "damage is noticed"
ok "$(grep -c "$k of 22" err)" 0 "and what follows written again"
rm r.gguf
(trap '' XFSZ; ulimit -f 400; gguf-convert --resume llama r.gguf 2>err)
gguf-convert -v --resume -T q8_0 llama r.gguf 2>err
ok "$? $(sum <r.gguf) $(grep -c already err)" \
    "0 $(wanted "$root/tests/data/expected/q8_0.json") 0" "another type begins anew"
cat ordered.tar | gguf-convert --resume - r.gguf 2>err; ok $? 2 "a pipe cannot be resumed"
gguf-convert --resume llama /dev/null 2>err;         ok $? 2 "nor a device"

# ---- importance ----
imatrix -q -m out.gguf -c 32 -o i.gguf "$root/tests/data/text.txt"
for type in Q4_K_M IQ4_NL Q6_K; do
    gguf-convert -q --imatrix i.gguf -T $type llama a.gguf
    gguf-convert llama - | quantize -q --imatrix i.gguf - b.gguf $type
    cmp a.gguf b.gguf; ok $? 0 "--imatrix: $type as quantize makes it"
done
gguf-convert -q --imatrix i.gguf --include-weights ffn_ -T Q4_K_M llama a.gguf
quantize -q --imatrix i.gguf --include-weights ffn_ out.gguf b.gguf Q4_K_M
cmp a.gguf b.gguf;                                   ok $? 0 "--include-weights"
ok "$(gguf-convert -q --dry-run --imatrix i.gguf --exclude-weights ffn_ -T Q4_0 llama |
    awk -F '\t' '$7 == "yes"' | grep -c ffn_)" 0 "--exclude-weights"
gguf-convert --imatrix i.gguf llama a.gguf 2>err;    ok $? 2 "importance is not for plain types"
gguf-convert --provenance llama a.gguf
has "$(get a.gguf lmpipe.provenance)" "--provenance llama a.gguf" "--provenance"
echo "1..$n"
