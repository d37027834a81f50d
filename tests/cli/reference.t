#!/bin/sh
# reference.t - everything the reference values beside the project say, where they are
# there: LMPIPE_SHARED, default ../shared.  Slow checks run with LMPIPE_FULL=1; speaks TAP.
root=$(cd "$(dirname "$0")/../.." && pwd)
shared=${LMPIPE_SHARED:-$root/../shared}
if [ ! -d "$shared/fixtures" ]; then echo "1..0 # SKIP no reference values here"; exit 0; fi
if ! python3 -c 'import numpy' 2>/dev/null; then echo "1..0 # SKIP no Python with numpy here"; exit 0; fi

n=0
fix=$shared/fixtures
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 1
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
    "stablelm stablelm stablelm_12b" "command-r cohere" "cohere2 cohere2" "exaone4 exaone4 exaone4_swa" \
    "glm4 glm4" "ernie4_5 ernie4_5" "nemotron nemotron" "gpt2 gpt2" "gptneox gpt_neox" \
    "falcon falcon falcon_40b" "minicpm3 minicpm3" "bert bert xlm_roberta" \
    "nomic-bert nomic_bert" "modern-bert modernbert" \
    "deepseek2 deepseek_v2 deepseek_v2_lite deepseek_v3 deepseek_v3_yarn" \
    "gpt-oss gpt_oss gpt_oss_mxfp4"; do
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

if [ "${LMPIPE_FULL-}" ] && model=$("$root/scripts/get-model" --cached); then
    check "SmolLM2 Q4_1 fed the reference's ids" forced "$fix/models/smollm2/ref.json" "$model" 0.5
    if python3 "$fix/models/scripts/make_smollm2_hf.py" "$model" "$dir/smollm2-hf" >/dev/null 2>&1; then
        check "SmolLM2 converts as the reference" convert "$dir/smollm2-hf=$fix/models/smollm2"
        gguf-convert -T f16 "$dir/smollm2-hf" "$dir/f16.gguf"
        check "SmolLM2 F16 greedy through the pipe" greedy "$fix/models/smollm2/ref.json" "$dir/f16.gguf" 0.001
    fi
fi
echo "1..$n"
