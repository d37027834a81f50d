#!/bin/sh
# reference.t - everything the reference values beside the project say, where they are
# there: LMPIPE_SHARED, default ../shared.  Slow checks run with LMPIPE_FULL=1; speaks TAP.
. "$(dirname "$0")/../tap.sh"
[ -d "$shared/fixtures" ] || skip_all "no reference values here"
python3 -c 'import numpy' 2>err || skip_all "no Python with numpy here"

fix=$shared/fixtures
check() { # NAME ARGUMENTS...
    n=$((n + 1)) name=$1
    shift
    if out=$(python3 "$shared/tools/fixtures.py" "$@" 2>&1); then
        echo "ok $n - $name: $(echo "$out" | tail -n 1)"
    else
        echo "not ok $n - $name"
        echo "$out" | sed 's/^/# /'
    fi
}

for family in "llama llama llama_tied mistral mixtral" "qwen2 qwen2 qwen2_yarn" "qwen3 qwen3" \
    "qwen2moe qwen2_moe" "qwen3moe qwen3_moe" "granitemoe granitemoe" \
    "smollm3 smollm3" "granite granite" "gemma gemma" "gemma2 gemma2" "gemma3 gemma3_text" \
    "phi2 phi2" "phi3 phi3 phi3_longrope phi3_swa" "olmo2 olmo2" "starcoder2 starcoder2" \
    "stablelm stablelm stablelm_12b" "command-r cohere" "cohere2 cohere2" \
    "exaone4 exaone4 exaone4_swa" \
    "glm4 glm4" "ernie4_5 ernie4_5" "nemotron nemotron" "gpt2 gpt2" "gptneox gpt_neox" \
    "falcon falcon falcon_40b" "minicpm3 minicpm3" "bert bert xlm_roberta" \
    "nomic-bert nomic_bert" "modern-bert modernbert" \
    "deepseek2 deepseek_v2 deepseek_v2_lite deepseek_v3 deepseek_v3_yarn" \
    "gpt-oss gpt_oss gpt_oss_mxfp4" "t5 t5 t5_relu" \
    "mamba mamba" "mamba2 mamba2" "jamba jamba" "falcon-h1 falcon_h1" "lfm2 lfm2" \
    "granitehybrid granitemoehybrid" "qwen3next qwen3_next" "qwen35 qwen3_5"; do
    # shellcheck disable=SC2086 # the words of the list
    set -- $family
    arch=$1 dirs=
    shift
    for d; do dirs="$dirs $fix/models/$d"; done
    # shellcheck disable=SC2086
    check "$arch converts as the reference" convert $dirs
    # shellcheck disable=SC2086
    check "$arch logits" logits $dirs
done

# An encoder's text in the loop gives what it gives in a batch.
gguf-convert -q -T f32 "$fix/models/t5" "$dir/t5.gguf"
printf '5 9 200 31 7 1\n3 8 1\n' >"$dir/texts"
printf '0 20 30\n0 99\n' | decode --encoder "$dir/texts" --top 2 --text -m "$dir/t5.gguf" |
    cut -f 1-5 >"$dir/batch"
# What frames say of sequence, position, token and the two best.
best() {
    python3 -c 'import struct, sys
b = sys.stdin.buffer.read()
p = 16 + struct.unpack_from("<I", b, 12)[0]
while p < len(b):
    kind, size, seq, pos, token, n = struct.unpack_from("<6I", b, p)
    for k in range(n if kind == 1 else 0):
        print(seq, pos, token, k, struct.unpack_from("<I", b, p + 32 + 8 * k)[0], sep="\t")
    if kind == 2:
        print("error", seq, token)
    p += 32 + size'
}
printf '%s\n' '0: e 4 4 4' '0: e 5 9 200 31 7 1' '1: e 3 8 1' '0: 0 20 30' '1: 0 99' |
    decode -i --top 2 -m "$dir/t5.gguf" 2>"$dir/err" | best >"$dir/loop"
ok "$(cat "$dir/loop")" "$(cat "$dir/batch")" "t5: requests to the encoder"
printf '%s\n' '0: e 5 9 1' '2: <0' '2: 0 7' '0: 0 7' '0: x' '0: 0 7' '3: 0' |
    decode -i --top 1 -m "$dir/t5.gguf" 2>"$dir/err" | best | cut -f 2-5 >"$dir/loop"
ok "$(sed -n 1p "$dir/loop")" "$(sed -n 2p "$dir/loop")" "t5: a copy looks at the same text"
ok "$(sed -n '3,4p' "$dir/loop")" "error 0 1
error 3 1" "t5: without a text there is no answer"
printf '0\n0\n' | decode --encoder "$dir/texts" --text -m "$dir/t5.gguf" >"$dir/got" 2>&1
ok $? 0 "t5: as many texts as lines"
printf '0\n0\n0\n' | decode --encoder "$dir/texts" --text --top 1 -m "$dir/t5.gguf" >"$dir/got" \
    2>"$dir/err"
ok "$? $(wc -l <"$dir/got") $(cat "$dir/err")" \
    "1 2 decode: $dir/texts: no line 3 for the encoder" "t5: a text is missing"
echo 0 | decode -m "$dir/t5.gguf" >"$dir/got" 2>"$dir/err"
ok "$? $(wc -l <"$dir/err")" "2 1" "t5: needs an encoder's texts"

# What a file may lack as such, but not beside what else it holds, is said by either program.
gguf-convert -q "$fix/models/jamba" "$dir/jamba.gguf"
while read -r model name; do
    LC_ALL=C sed "s/$name/zz${name#??}/" "$dir/$model.gguf" >"$dir/bad.gguf"
    gguf-inspect --check "$dir/bad.gguf" >"$dir/got" 2>&1
    ok "$? $(grep -c "tensor $name: missing" "$dir/got")" "1 1" "$model without $name"
    echo 5 | decode -m "$dir/bad.gguf" >"$dir/got" 2>"$dir/err"
    ok "$? $(cat "$dir/err")" "1 decode: $dir/bad.gguf: $name: missing" "$model: and is not run"
done <<END
jamba blk.0.ffn_up.weight
jamba blk.1.ffn_down_exps.weight
t5 dec.blk.0.attn_rel_b.weight
t5 enc.blk.0.attn_rel_b.weight
t5 enc.blk.1.ffn_gate.weight
END

if [ "${LMPIPE_FULL-}" ] && model=$("$root/scripts/get-model" --cached); then
    check "SmolLM2 Q4_1 fed the reference's ids" forced "$fix/models/smollm2/ref.json" "$model" 0.5
    if python3 "$fix/models/scripts/make_smollm2_hf.py" "$model" \
        "$dir/smollm2-hf" >/dev/null 2>&1; then
        check "SmolLM2 converts as the reference" convert "$dir/smollm2-hf=$fix/models/smollm2"
        gguf-convert -T f16 "$dir/smollm2-hf" "$dir/f16.gguf"
        check "SmolLM2 F16 greedy through the pipe" greedy "$fix/models/smollm2/ref.json" \
            "$dir/f16.gguf" 0.001
    fi
fi
echo "1..$n"
