#!/bin/sh
# families.t - checkpoints of families that have no others among the tests, converted from an
# archive and run, against the logits that their authors' code gives; speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/near.sh"
data=$root/tests/data/families

for tar in "$data"/*.tar.zst; do
    name=$(basename "$tar" .tar.zst)
    spool=; [ "$name" = apertus ] && spool=--spool=.        # numbers that become metadata
    gguf-convert -q -T f32 $spool "$tar" "$name.gguf" 2>err
    ok "$?:$(cat err)" 0: "$name: converts"
    gguf-inspect --check "$name.gguf" >out 2>&1
    ok "$?" 0 "$name: what belongs to it is there"
    for how in "-u 512" "-u 7" "-u 1"; do
        # shellcheck disable=SC2086
        decode -m "$name.gguf" --cache-k f32 --cache-v f32 $how --all --text --top 16 \
            "$data/$name.ids" >table 2>err
        ok "$?:$(near_logits "$data/$name.tsv" table 1e-4 wide)" 0:near \
            "$name: logits as the reference's, $how"
    done
done
# NVFP4 stays what it is, with a number for each matrix beside it: exact once it is made floats, and
# near as it is.
zstd -qdc "$root/tests/data/packed/nvfp4-moe.tar.zst" | tar -xf -
gguf-convert -q -T f32 nvfp4-moe nv.gguf 2>err
ok "$?:$(cat err)" 0: "nvfp4: converts"
gguf-inspect --check nv.gguf >out 2>&1
ok "$?:$(cat out)" 0: "nvfp4: what belongs to it is there"
ok "$(gguf-inspect --tensors nv.gguf |
    awk '$2 == "nvfp4" || $1 ~ /scale$/ { n[$2]++ } END { print n["nvfp4"], n["f32"] }')" \
    "7 7" "nvfp4: seven matrices and their scales"
quantize -q --allow-requantize nv.gguf floats.gguf F32
for m in floats nv; do
    decode -m $m.gguf --cache-k f32 --cache-v f32 --all --text --top 16 \
        "$root/tests/data/packed/nvfp4-moe.ids" >$m.table
    case $(near_logits "$root/tests/data/packed/nvfp4-moe.tsv" $m.table 1e-4 wide) in
        near) how=near ;; 0.00*) how=nearly ;; *) how=far ;;
    esac
    [ $m = floats ] && want=near || want=nearly
    ok $how $want "nvfp4: logits of $m"
done
gguf-convert -q "$root/tests/data/packed/nvfp4-moe.tar.zst" z.gguf 2>err
ok "$?:$(grep -c 'give --spool DIR with room for' err)" 2:1 "nvfp4: a stream needs a spool"

# Kimi Linear as it is published says some numbers in another way.
zstd -qdc "$data/kimi-linear.tar.zst" | tar -xf -
sed -i '/"layer_types"/,/]/d; /"mlp_layer_types"/,/]/d; /"linear_/d
    s/"hidden_act"/"first_k_dense_replace": 1,\
    "linear_attn_config": { "full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 16,\
        "num_heads": 2, "short_conv_kernel_size": 4 },\
    &/' kimi-linear/config.json
gguf-convert -q -T f32 kimi-linear other.gguf 2>err
ok "$?:$(cat err):$(cmp other.gguf kimi-linear.gguf)" 0:: \
    "kimi-linear: numbers in the published form"

# A language model inside another, in the place of its own; what is refused by name.
hf() { # FOLDER CONFIG
    cp -r "$root/tests/data/hf" "$1"
    printf '%s\n' "$2" >"$1/config.json"
}
own=$(cat "$root/tests/data/hf/config.json")
hf alone "$own"
hf inside "{\"architectures\": [\"LlavaForConditionalGeneration\"], \"text_config\": $own}"
for name in alone inside; do
    gguf-convert -q --model-name m $name $name.gguf 2>err
    ok "$?:$(cat err)" 0: "a language model $name"
done
ok "$(cmp alone.gguf inside.gguf 2>&1)" "" "text_config says what config.json does"
refused() { # CONFIG TEXT NAME
    rm -rf bad bad.gguf
    hf bad "$1"
    out=$(gguf-convert bad bad.gguf 2>&1)
    ok "$?:$(test -e bad.gguf && echo written)" 2: "$3: status"
    case $out in *"$2"*) ok yes yes "$3: said" ;; *) ok "$out" "... $2 ..." "$3: said" ;; esac
}
refused '{"architectures": ["LlavaForConditionalGeneration"],
    "text_config": {"model_type": "mllama_text_model"}}' \
    "LlavaForConditionalGeneration with a language model of type mllama_text_model" \
    "an unknown language model"
refused "$(echo "$own" | sed 's/LlamaForCausalLM/ArceeForCausalLM/')" \
    "hidden_act is silu: a arcee model" "another activation"
refused '{"architectures": ["DeepseekV3ForCausalLM"], "rope_scaling": {"type": "yarn",
    "factor": 8, "mscale": 0.7, "mscale_all_dim": 1}}' \
    "mscale 0.7 and mscale_all_dim 1: a deepseek2 model in which they differ" \
    "two growths where files have one"
refused '{"architectures": ["GraniteMoeHybridForCausalLM"], "position_embedding_type": "rope",
    "layer_types": ["mamba", "attention"]}' "position_embedding_type is rope" \
    "rotation beside recurrent layers"
refused '{"architectures": ["MPTForCausalLM"], "attn_config": {"alibi": false}}' \
    "attn_config.alibi is false" "learned positions"
refused '{"architectures": ["MptForCausalLM"], "attn_config": {"softmax_scale": 0.1}}' \
    "attn_config.softmax_scale is 0.1" "another scale"
refused '{"architectures": ["DbrxForCausalLM"], "ffn_config": {"ffn_act_fn": {"name": "gelu"}}}' \
    "ffn_config.ffn_act_fn.name is gelu" "another activation of experts"
refused '{"architectures": ["BloomForCausalLM"],
    "apply_residual_connection_post_layernorm": true}' \
    "apply_residual_connection_post_layernorm is true" "another way around a layer"
refused '{"architectures": ["GPTBigCodeForCausalLM"], "multi_query": false}' \
    "multi_query is false" "heads with keys of their own"
refused '{"architectures": ["BaichuanForCausalLM"], "z_loss_weight": 0}' \
    "z_loss_weight is 0" "a normalized output"
refused '{"architectures": ["GPTBigCodeForCausalLM"], "n_positions": 64, "n_embd": 16, "n_layer": 1,
    "n_head": 4, "vocab_size": 8, "activation_function": "mish"}' \
    "activation_function is mish" "an activation that no family has"
refused '{"architectures": ["FalconMambaForCausalLM"], "mixer_rms_eps": 0.1}' \
    "mixer_rms_eps is 0.1" "another eps"
while read -r class member value; do
    text=$(echo "$value" | tr -d '"')
    refused "{\"architectures\": [\"$class\"], \"$member\": $value}" "$member is $text" \
        "$class: $member is $text"
done <<'end'
LlamaForCausalLM hidden_act "relu"
Qwen3MoeForCausalLM hidden_act "gelu"
MambaForCausalLM hidden_act "relu2"
GptOssForCausalLM hidden_act "gelu"
GemmaForCausalLM hidden_activation "relu"
BertModel hidden_act "relu"
GPTNeoXForCausalLM rotary_emb_base 5000
FalconForCausalLM alibi true
GPT2LMHeadModel scale_attn_weights false
GPT2LMHeadModel scale_attn_by_inverse_layer_idx true
GptOssForCausalLM swiglu_alpha 2.5
Gemma2ForCausalLM tie_word_embeddings false
Gemma3ForCausalLM use_bidirectional_attention true
Gemma3nForCausalLM tie_word_embeddings false
Cohere2ForCausalLM sliding_window_pattern 3
SmolLM3ForCausalLM no_rope_layer_interval 3
DeepseekV3ForCausalLM rope_interleave false
Glm4MoeLiteForCausalLM rope_interleave false
NemotronHForCausalLM mamba_hidden_act "gelu"
PhiMoEForCausalLM num_experts_per_tok 3
end
# Kinds of layers in another order than the family has them.
numbers='"vocab_size": 368, "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "head_dim": 32, "rope_theta": 10000, "num_local_experts": 2,
    "num_experts_per_tok": 1, "sliding_window": 8'
while read -r class member value; do
    refused "{\"architectures\": [\"$class\"], $numbers, \"$member\": $value}" \
        "$member is another pattern" "$class: $member is another pattern"
done <<'end'
SmolLM3ForCausalLM no_rope_layers [0, 1]
Gemma2ForCausalLM layer_types ["full_attention", "sliding_attention"]
Gemma3ForCausalLM layer_types ["full_attention", "sliding_attention"]
Cohere2ForCausalLM layer_types ["sliding_attention", "full_attention"]
GptOssForCausalLM layer_types ["sliding_attention", "sliding_attention"]
end

# Windows that the family's files do not know are refused where they would change something.
window() { # MEMBERS
    rm -rf bad
    hf bad "{\"architectures\": [\"Qwen2ForCausalLM\"], ${numbers%,*},
        \"use_sliding_window\": true, $1}"
    gguf-convert --force bad bad.gguf 2>&1 | grep -c 'use_sliding_window is true'
}
ok "$(window '"sliding_window": 8, "max_window_layers": 1')" 1 "Qwen2 with a window"
ok "$(window '"sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]')" 1 \
    "Qwen2 with a window of one layer"
ok "$(window '"sliding_window": 8, "max_window_layers": 2')" 0 "of none of its layers"
ok "$(window '"sliding_window": 512, "max_window_layers": 0')" 0 "as long as its context"
ok "$(window '"sliding_window": null')" 0 "of no length"

# What tensors say of each layer is one number; a stream cannot be read twice.
zstd -qdc "$data/apertus.tar.zst" | tar -xf -
gguf-convert -q "$data/apertus.tar.zst" z.gguf 2>err
ok "$?:$(grep -c 'give --spool DIR with room for' err)" 2:1 "apertus: a stream needs a spool"
key=xielu.alpha_p
gguf-edit --delete $key apertus.gguf none.gguf && gguf-edit --set $key=f32:0.5 none.gguf one.gguf
gguf-edit --set "$key=json:[0.5,0.5]" none.gguf two.gguf
decode -m one.gguf --text "$data/apertus.ids" >one.out &&
    decode -m two.gguf --text "$data/apertus.ids" >two.out
ok "$?:$(cmp one.out two.out 2>&1)" 0: "apertus: one number for all layers"
gguf-edit --set "$key=json:[0.5,0.5,0.5]" none.gguf bad.gguf
ok "$(decode -m bad.gguf "$data/apertus.ids" 2>&1)" \
    "decode: bad.gguf: $key: 3 values for 2 layers" "apertus: as many numbers as layers"
ok "$(decode -m none.gguf "$data/apertus.ids" 2>&1)" "decode: none.gguf: $key: missing" \
    "apertus: no number at all"
gguf-edit --set starcoder.hidden_activation=str:mish starcoder.gguf bad.gguf
ok "$(decode -m bad.gguf "$data/starcoder.ids" 2>&1)" \
    "decode: bad.gguf: starcoder.hidden_activation: mish is not supported" "an unknown activation"

# Adapters of a matrix that files have in three parts, and of one whose rows stand in another order.
for name in baichuan bloom; do
    zstd -qdc "$data/$name.tar.zst" | tar -xf - &&
        zstd -qdc "$data/adapters/$name-lora.tar.zst" | tar -xf -
    gguf-convert -q --lora --base=$name -T f32 $name-lora $name-lora.gguf 2>err
    ok "$?:$(cat err)" 0: "$name: an adapter converts"
    decode -m $name.gguf --lora $name-lora.gguf --cache-k f32 --cache-v f32 --all --text --top 16 \
        "$data/$name.ids" >table 2>err
    ok "$?:$(near_logits "$data/adapters/$name.tsv" table 1e-4 wide)" 0:near "$name: logits with it"
done

# A number that every layer has for itself in some files.
model=$root/tests/data/m.gguf
ids=$data/arcee.ids
heads=$(gguf-inspect --get llama.attention.head_count_kv "$model")
layers=$(gguf-inspect --get llama.block_count "$model")
list=$(awk -v h="$heads" -v n="$layers" 'BEGIN { while (n--) s = s (s ? "," : "") h; print s }')
key=llama.attention.head_count_kv
lists() { # ARRAY: a model with it
    gguf-edit --delete llama.attention.head_count_kv "$model" none.gguf &&
    gguf-edit --set "llama.attention.head_count_kv=json:[$1]" none.gguf lists.gguf
}
lists "$list"
ok "$?:$(decode -m lists.gguf --text "$ids" 2>&1)" "0:$(decode -m "$model" --text "$ids" 2>&1)" \
    "the same number of heads in each layer"
gguf-inspect --check lists.gguf >out 2>&1
ok "$?" 0 "checked"
lists "$list,$((heads + 1))"
out=$(decode -m lists.gguf "$ids" 2>&1)
ok "$?:$out" "2:decode: lists.gguf: $key: layers that differ are not supported" "other numbers"
echo "1..$n"
