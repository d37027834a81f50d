#!/bin/sh
# gguf-convert-lora.t - LoRA adapters, byte for byte as the reference converts them, and those
# that are refused; speaks TAP.
. "$(dirname "$0")/../tap.sh"
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
. "$root/tests/cli/gguf-bytes.sh"
. "$root/tests/cli/safetensors-bytes.sh"
sum() { sha256sum | cut -c 1-64; }
wanted() { sed -n 's/.*"file_sha256":"\([0-9a-f]*\)".*/\1/p' "$1"; }

# ---- against the reference ----
cp -R "$root/tests/data/hf" llama && cp -R "$root/tests/data/lora" lora_llama
for type in f32 f16; do
    w=$(wanted "$root/tests/data/expected/lora-$type.json")
    ok "$(gguf-convert --lora -T $type lora_llama | sum)" "$w" "$type"
    ok "$(gguf-convert --lora -T $type -t 1 lora_llama | sum)" "$w" "$type with one thread"
done
f32=$(wanted "$root/tests/data/expected/lora-f32.json")
ok "$(gguf-convert --lora lora_llama | sum)" "$f32" "auto is the adapter's own type"
if [ -d "$shared/fixtures/models/lora_qwen3" ]; then
    for e in "$shared/fixtures/models/lora_qwen3/expected"/*.json; do
        type=$(basename "$e" .json)
        ok "$(gguf-convert --lora -T "$type" "$shared/fixtures/models/lora_qwen3" | sum)" \
            "$(wanted "$e")" "bf16 to $type"
    done
    gguf-convert --lora "$shared/fixtures/models/lora_qwen3" q.gguf
    ok "$(gguf-inspect --json q.gguf | grep -o '"type":"bf16"' | wc -l)" 18 "auto: bf16"
fi
gguf-convert --lora -T f16 lora_llama 'a-{ftype}.gguf'
ok "$? $(ls a-*)" "0 a-f16.gguf" "the type in the name"
tar -cf lora_llama.tar lora_llama && mkdir elsewhere
ok "$(gguf-convert --lora --base llama lora_llama.tar | sum)" "$f32" "from an archive"
mv llama elsewhere
gguf-convert --lora lora_llama x.gguf 2>err;     ok $? 2 "a model that is not there"
has "$(cat err)" "its model lora_llama/../llama: give --base" "is named"
ok "$(gguf-convert --lora --base=elsewhere/llama lora_llama | sum)" "$f32" "--base"
ok "$(gguf-convert --lora --base elsewhere/llama --print-deps -o x.gguf lora_llama |
    tr -s ' \\\n' ' ')" "x.gguf: lora_llama/adapter_config.json \
lora_llama/adapter_model.safetensors elsewhere/llama/config.json " \
   "--print-deps"
gguf-convert --lora --vocab-only lora_llama 2>err; ok $? 2 "an adapter has no vocabulary"
gguf-convert --base x lora_llama 2>err;          ok $? 2 "--base without --lora"
gguf-convert --lora --base elsewhere/llama -T Q4_K lora_llama x.gguf 2>err
ok $? 2 "no quantized adapters"
gguf-convert lora_llama x.gguf 2>err;            ok $? 2 "an adapter is no model"
gguf-convert --lora elsewhere/llama x.gguf 2>err; ok $? 1 "a model is no adapter"
has "$(cat err)" "no adapter_config.json" "which is said"

# ---- what pairs mean ----
mv elsewhere/llama .
q=base_model.model.model.layers.0.self_attn.q_proj
head=base_model.model.lm_head
# adapter JSON: lora/ with the tensors on standard input
adapter() {
    rm -rf lora && mkdir lora && st lora/adapter_model.safetensors
    printf '{"peft_type":"LORA","base_model_name_or_path":"../llama","r":4,"lora_alpha":8%s}' "$1" \
        >lora/adapter_config.json
}
alpha() { gguf-convert -q --lora lora l.gguf && gguf-inspect --get adapter.lora.alpha l.gguf; }
pair() { printf '%s\n' "$1.lora_A.weight F32 $2 $3" "$1.lora_B.weight F32 $4 $2"; }
pair $q 4 128 128 | adapter '';                          ok "$(alpha)" 8 "alpha"
pair $q 4 128 128 | adapter ',"use_rslora":true'
ok "$(alpha)" 16 "rank-stabilised: times the root of the rank"
pair $q 9 128 128 | adapter ',"use_rslora":true,"rank_pattern":{"q_proj":9}'
ok "$(alpha)" 24 "of the rank that there is"
pair $q 4 128 128 | adapter ',"alpha_pattern":{"layers.0.*q_proj":3}'
ok "$(alpha)" 3 "a pattern's alpha"
pair $q 4 128 128 | adapter ',"alpha_pattern":{"proj":3}'
ok "$(alpha)" 8 "patterns fit whole parts of a name"
pair $q 4 128 128 | adapter ',"alora_invocation_tokens":[5,6]'
ok "$(alpha; gguf-inspect --get adapter.alora.invocation_tokens l.gguf | tr '\n' ' ')" "8
5 6 " "tokens that switch it on"
echo 5 6 | decode --lora l.gguf -m "$root/tests/data/m.gguf" >/dev/null
ok $? 0 "which decode waits for"
{ pair $q 4 128 128; pair $head 4 128 368; } | adapter ''
gguf-convert --lora lora l.gguf
has "$(gguf-inspect l.gguf)" "output.weight.lora_b" "the output matrix can have a pair"
printf '%s\n' "base_model.model.model.embed_tokens.lora_embedding_A F32 4 368" \
    "base_model.model.model.embed_tokens.lora_embedding_B F32 128 4" | adapter ''
gguf-convert --lora lora l.gguf
ok "$(gguf-inspect --json l.gguf | grep -o '"shape":\[[0-9,]*\]' | tr '\n' ' ')" \
   '"shape":[4,368] "shape":[4,128] ' "the embedding too: a row of A for each token"

# ---- value heads in another order: the matrix beside them is tiled as the model's own is ----
mkdir tiled lora_tiled && cp llama/tokenizer.json tiled
cat >tiled/config.json <<'EOF'
{"architectures":["Qwen3_5ForCausalLM"],"num_hidden_layers":1,"layer_types":["linear_attention"],
"hidden_size":64,"intermediate_size":96,"num_attention_heads":2,"num_key_value_heads":1,
"head_dim":32,"linear_conv_kernel_dim":4,"linear_key_head_dim":32,"linear_num_key_heads":2,
"linear_num_value_heads":4,"linear_value_head_dim":32,"max_position_embeddings":512,
"rms_norm_eps":1e-6,"vocab_size":368,"rope_parameters":{"rope_type":"default","rope_theta":1e6,
"partial_rotary_factor":0.5,"mrope_section":[4,2,2]}}
EOF
layer=model.layers.0
printf '%s\n' 'lm_head.weight F32 368 64' 'model.embed_tokens.weight F32 368 64' \
    "$layer.input_layernorm.weight F32 64" "$layer.linear_attn.A_log F32 4" \
    "$layer.linear_attn.conv1d.weight F32 256 1 4" "$layer.linear_attn.dt_bias F32 4" \
    "$layer.linear_attn.in_proj_a.weight F32 4 64" "$layer.linear_attn.in_proj_b.weight F32 4 64" \
    "$layer.linear_attn.in_proj_qkv.weight F32 256 64" \
    "$layer.linear_attn.in_proj_z.weight F32 128 64" \
    "$layer.linear_attn.norm.weight F32 32" "$layer.linear_attn.out_proj.weight F32 64 128" \
    "$layer.mlp.down_proj.weight F32 64 96" "$layer.mlp.gate_proj.weight F32 96 64" \
    "$layer.mlp.up_proj.weight F32 96 64" "$layer.post_attention_layernorm.weight F32 64" \
    'model.norm.weight F32 64' | st zeros
cp head tiled.head; seq 300000 | head -c "$(cat size)" >data
{ head -c $(($(wc -c <tiled.head) + 8)) zeros; cat data; } >tiled/model.safetensors
# values NAME: the bytes of a tensor of that model
values() {
    # shellcheck disable=SC2046
    set -- $(sed 's/.*"'"$1"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/' tiled.head)
    tail -c +$(($1 + 1)) data | head -c $(($2 - $1))
}
# Every pair is of rank 64, with the model's own values in the matrix that lies along its heads.
p=base_model.model.$layer.linear_attn
printf '%s\n' "$p.in_proj_qkv.lora_A.weight F32 64 64" "$p.in_proj_qkv.lora_B.weight F32 256 64" \
    "$p.in_proj_z.lora_A.weight F32 64 64" "$p.in_proj_z.lora_B.weight F32 128 64" \
    "$p.out_proj.lora_A.weight F32 64 128" "$p.out_proj.lora_B.weight F32 64 64" | st zeros
{
    head -c $(($(wc -c <head) + 8)) zeros; head -c 16384 data
    values "$layer.linear_attn.in_proj_qkv.weight"; head -c 16384 data
    values "$layer.linear_attn.in_proj_z.weight"
    values "$layer.linear_attn.out_proj.weight"; head -c 16384 data
} >lora_tiled/adapter_model.safetensors
echo '{"peft_type":"LORA","base_model_name_or_path":"../tiled","r":64,"lora_alpha":64}' \
    >lora_tiled/adapter_config.json
gguf-convert -q -T f32 tiled tiled.gguf; ok $? 0 "a model with value heads"
gguf-convert -q --lora lora_tiled tl.gguf; ok $? 0 "its adapter"
hash() { gguf-inspect --hash "$1" | sed -n "s/^\([0-9a-f]*\)  $2\$/\1/p"; }
for t in attn_qkv.weight.lora_b attn_gate.weight.lora_b ssm_out.weight.lora_a; do
    ok "$(hash tl.gguf "blk.0.$t") $(hash tl.gguf "blk.0.$t" | wc -c)" \
       "$(hash tiled.gguf "blk.0.${t%.lora_?}") 17" "$t is tiled as the weight is"
done
ok "$(hash tl.gguf blk.0.ssm_out.weight.lora_b)" "$(hash tl.gguf blk.0.attn_gate.weight.lora_a)" \
   "the other matrix of a pair stays as it is"

# ---- what is refused ----
# refused STATUS PART NAME: the adapter in lora/ is, with PART in the message
refused() {
    gguf-convert --lora lora refused.gguf 2>err; ok $? "$1" "$3: status"
    has "$(cat err)" "$2" "$3: message"
    ok "$(ls -A | grep -c refused)" 0 "$3: no output"
}
{ pair $q 4 128 128; echo "$head.weight F32 371 128"; } | adapter ''
refused 2 "371 rows: the vocabulary was extended by 3: merge the adapter" "more tokens"
{ pair $q 4 128 128; echo "base_model.model.model.norm.weight F32 128"; } | adapter ''
refused 2 "model.norm.weight: is a whole weight" "a whole weight"
echo "$q.lora_A.weight F32 4 128" | adapter ''
refused 1 "$q.lora_A.weight: the other matrix of the pair, lora_B, is missing" "half a pair"
printf '%s\n' "$q.lora_A.weight F32 4 128" "$q.lora_B.weight F32 128 5" | adapter ''
refused 1 "are no [rank, in] and [out, rank]" "two ranks"
pair $q 4 96 128 | adapter '';                      refused 1 "shape [4, 96]" "another length"
pair base_model.model.model.layers.7.mlp.up_proj 4 128 128 | adapter ''
refused 1 "config.json says 2 layers" "another layer"
pair base_model.model.model.layers.0.mlp.no_proj 4 128 128 | adapter ''
refused 2 "no tensor of a llama model" "another tensor"
{ pair $q 4 128 128; echo "$q.lora_magnitude_vector F32 128"; } | adapter ',"use_dora":true'
refused 2 "use_dora" "DoRA"
{ pair $q 4 128 128; echo "$q.lora_B.bias F32 128"; } | adapter ''
refused 2 "neither matrix" "a bias"
pair $q 4 128 128 | adapter ''; sed -i 's/LORA/IA3/' lora/adapter_config.json
refused 2 "type IA3" "another kind of adapter"
pair $q 4 128 128 | adapter ',"alpha_pattern":{"q_proj":"x"}'
refused 1 "no number" "an alpha that is none"
for pattern in rank_pattern alpha_pattern; do
    pair $q 4 128 128 | adapter ",\"$pattern\":[4]"
    refused 1 "adapter_config.json: $pattern is no object" "$pattern as a list"
done
pair $q 4 128 128 | adapter ',"rank_pattern":{"q_proj":8}'
refused 1 "adapter_config.json: a rank of 8, but $q.lora_A.weight has 4" "another rank by a pattern"
for r in 8 0 -1 1099511627776; do
    pair $q 4 128 128 | adapter ''; sed -i "s/\"r\":4/\"r\":$r/" lora/adapter_config.json
    refused 1 "adapter_config.json: a rank of $r, but $q.lora_A.weight has 4" "a rank of $r"
done
pair $q 4 128 128 | adapter ''; sed -i 's/"r":4/"r":"x"/' lora/adapter_config.json
refused 1 "adapter_config.json: r: no number" "a rank that is none"
pair $q 4 128 128 | adapter ''; sed -i 's/"r":4,//' lora/adapter_config.json
ok "$(alpha)" 8 "without a rank the matrices have it"
pair $q 4 128 128 | adapter ''
rm lora/adapter_model.safetensors
refused 1 "no adapter_model.safetensors" "no weights"
echo "1..$n"
