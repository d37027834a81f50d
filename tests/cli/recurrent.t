#!/bin/sh
# recurrent.t - models that remember a state instead of, or beside, keys and values: numbers
# against a reference, batches of every size, cutting back, copies, files that are no models;
# speaks TAP.
. "$(dirname "$0")/../tap.sh"
. "$root/tests/cli/near.sh"
data=$root/tests/data/recurrent

exact='--cache-k f32 --cache-v f32'
for name in mamba2 qwen35 rwkv6 rwkv7 rwkv6qwen2 arwkv7; do
    m=$name.gguf
    quantize -q --allow-requantize "$data/$m" "$m" F32
    # shellcheck disable=SC2086
    for isa in scalar avx2 avx512; do
        LMPIPE_ISA=$isa decode -m "$m" $exact --all --text --top 8 "$data/$name.ids" >table 2>err
        ok "$?:$(near_logits "$data/$name.tsv" table 1e-4)" 0:near \
            "$name: logits as the reference's, $isa"
    done
    decode -m "$m" --context-shift "$data/$name.ids" >out 2>err
    ok "$?:$(sed 's/ a [^ ]* model/ a model/' err)" "2:decode: $m: a model has recurrent states, in\
 which no position can be forgotten before others" "$name: no shift of the context"
    # shellcheck disable=SC2086
    decode -m "$m" $exact --all -t 1 "$data/$name.ids" >want
    for how in "-u 1" "-u 7" "-b 5" "-b 50 -u 13" "-t 2" "-t 2 -u 3"; do
        # shellcheck disable=SC2086
        decode -m "$m" $exact --all $how "$data/$name.ids" >got
        ok "$(cmp want got 2>&1)" "" "$name: the same bits with $how"
    done
    # Each sequence alone, and the last tokens of all of them together.
    while read -r ids; do echo "$ids" | decode -m "$m" --text --top 3; done <"$data/$name.ids" |
        cut -f 2- >want
    decode -m "$m" --text --top 3 "$data/$name.ids" | cut -f 2- >got
    ok "$(cmp want got 2>&1)" "" "$name: sequences do not change each other"
done

# The loop's frames: kind, sequence, position, code of errors, and a sum of all bytes.
frames() {
    od -v -A n -t u1 | awk '
        { for (i = 1; i <= NF; i++) b[n++] = $i }
        function u32(p) { return b[p] + 256 * (b[p + 1] + 256 * (b[p + 2] + 256 * b[p + 3])) }
        END {
            for (p = 16 + u32(12); p < n; p += 32 + size) {
                size = u32(p + 4); sum = 0
                for (i = 0; i < size; i++) sum = (sum * 31 + b[p + 32 + i]) % 1000003
                kind = u32(p)
                print kind, u32(p + 8), u32(p + 12), kind == 2 ? "code " u32(p + 16) : sum
            }
        }'
}
batch=8
loop() { # MODEL LINES...
    file=$1
    shift
    printf '%s\n' "$@" | decode -m "$file" -i -b "$batch" 2>err | frames
}
row() { # LINES: a sequence's frames of the last token, without its sequence
    printf '%s\n' "$1" | awk -v s="$2" -v p="$3" '$1 == 0 && $2 == s && $3 == p { print $4; exit }'
}
long='5 9 14 23 31 44 52 61 75 83 94 101 118 127 133 148 152 169 174 180'
for m in mamba2.gguf qwen35.gguf rwkv6.gguf rwkv7.gguf rwkv6qwen2.gguf arwkv7.gguf; do
    want=$(row "$(loop "$m" "0: $long" '0: 7' '0: 8')" 0 21)
    batch=1     # requests that wait together are one batch, which is cut back as a whole
    out=$(loop "$m" "0: $long" '0: 7' '0: 200' '0: @21 8')
    ok "$(row "$out" 0 21)" "$(row "$(loop "$m" "0: $long" '0: 7' '0: 200')" 0 21)" \
        "$m: the same request, the same answer"
    ok "$(printf '%s\n' "$out" | awk '$1 == 0 && $3 == 21 { last = $4 } END { print last }')" \
        "$want" \
        "$m: cut back to where a request began"
    batch=8
    out=$(loop "$m" "0: $long" '0: @7 8' '0: 7' '0: 8')
    has "$out" "2 0 20 code 6" "$m: cut to where nothing is remembered: refused"
    ok "$(row "$out" 0 21)" "$want" "$m: ... and the sequence is as it was"
    out=$(loop "$m" "4: $long" '9: <4' '4: 7 200' '9: 7' '9: 8')
    ok "$(row "$out" 9 21)" "$want" "$m: a copy goes its own way"
    out=$(loop "$m" '0: 5 9 14' "0: $long 100000" '0: @3 23 31')
    ok "$(row "$out" 0 4)" "$(row "$(loop "$m" '0: 5 9 14 23 31')" 0 4)" \
        "$m: a request that fails leaves the sequence as it was"
    printf '%s\n' "7: $long" | decode -m "$m" -i --save-state state >/dev/null
    printf '%s\n' '7: 7' '7: 8' | decode -m "$m" -i --load-state state >stream
    ok "$(row "$(frames <stream)" 7 21)" "$want" "$m: goes on from a saved state"
done

# Files whose metadata and tensors do not go together.
refused() { # EDIT PART NAME
    gguf-edit -q "$1" "$2" bad.gguf 2>/dev/null
    out=$(echo 1 2 3 | decode -m bad.gguf --text 2>&1)
    ok "$?" 1 "$3: status"
    has "$out" "$4" "$3: said"
}
refused --set=mamba2.ssm.conv_kernel=u32:0 mamba2.gguf "no convolution" "ssm.conv_kernel: 0"
refused --set=mamba2.ssm.conv_kernel=u32:70 mamba2.gguf "too long a convolution" \
    "ssm.conv_kernel: 70"
refused --set=mamba2.ssm.conv_kernel=u32:5 mamba2.gguf "another convolution" "ssm_conv1d.weight"
refused --set=mamba2.ssm.group_count=u32:3 mamba2.gguf "groups that do not divide" \
    "in 4 heads and 3 groups"
refused --set=mamba2.ssm.state_size=u32:4000000000 mamba2.gguf "a huge state" "ssm.state_size"
refused --set=mamba2.ssm.inner_size=u32:128 mamba2.gguf "another width" "shape is"
refused --delete=mamba2.ssm.inner_size mamba2.gguf "no width" "ssm.inner_size: missing"
refused --set=qwen35.ssm.time_step_rank=u32:0 qwen35.gguf "no heads" "ssm.time_step_rank: 0"
refused '--set=qwen35.attention.recurrent_layers=json:[false,true]' qwen35.gguf \
    "the wrong layers" "missing"
refused '--set=qwen35.attention.recurrent_layers=json:[1,0]' qwen35.gguf \
    "a list of something else" "recurrent_layers"
refused --set=rwkv7.wkv.head_size=u32:0 rwkv7.gguf "no heads" "wkv.head_size: 0"
refused --set=rwkv6.wkv.head_size=u32:5 rwkv6.gguf "heads that do not fit" \
    "wkv.head_size: 5 does not divide 32"
refused --set=rwkv6qwen2.attention.head_count_kv=u32:3 rwkv6qwen2.gguf "groups that do not fit" \
    "head_count_kv: 3 does not divide the 2 heads"
refused --set=rwkv6.time_mix_extra_dim=u32:4000000000 rwkv6.gguf "a huge rank" \
    "time_mix_extra_dim: 4000000000"
refused --set=rwkv7.attention.gate_lora_rank=u32:7 rwkv7.gguf "another rank" "shape is"
refused --delete=rwkv7.attention.iclr_lora_rank rwkv7.gguf "no rank" "iclr_lora_rank: missing"
refused --set=rwkv7.block_count=u32:3 rwkv7.gguf "a layer that is not there" \
    "blk.2.attn_norm.weight: missing"
echo "1..$n"
