#!/bin/sh
# replay.t - every fuzz target reads every file of its corpus without a crash; speaks TAP.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1                # targets name their models from there
for source in "$root"/tests/fuzz/fuzz_*.c; do
    t=$(basename "$source" .c)
    corpus=$root/tests/fuzz/corpus/${t#fuzz_}
    n=$((n + 1))
    if [ ! -d "$corpus" ]; then
        echo "not ok $n - $t has a corpus"
    elif out=$(find "$corpus" -type f -exec "$t" {} + 2>&1); then
        echo "ok $n - $t on $(find "$corpus" -type f | wc -l) files"
    else
        echo "not ok $n - $t"
        echo "$out" | head -n 40 | sed 's/^/# /'
    fi
done
echo "1..$n"
