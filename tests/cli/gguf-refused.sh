# SPDX-License-Identifier: MIT
# Hostile files that every program which rewrites a GGUF refuses; sourced by tests that have
# gguf-bytes.sh, ok and has.  refuse_hostile PROGRAM: at once, in little memory, saying why.

refused() { # PART NAME: hostile.gguf
    ($limit; timeout 2 "$program" hostile.gguf h) >out 2>err; ok $? 1 "$2 is refused"
    has "$(cat err)" "hostile.gguf: " "$2: the file is named"
    has "$(cat err)" "$1" "$2: says $1"
    # shellcheck disable=SC2010
    ok "$(ls -A | grep -cE '^h$|^h-0|part$') $(wc -l <err)" "0 1" "$2: one line and no output"
}

refuse_hostile() {
    program=$1 limit=:                   # a sanitizer's build cannot live in 64 MiB
    sh -c "ulimit -v 65536; exec $program --version" >/dev/null 2>&1 && limit='ulimit -v 65536'
    for a in 0 3; do
        { head_ 0 1; key general.alignment 4; le $a 4; } >hostile.gguf
        refused "power of two" "alignment $a"
    done
    { head_ 0 1; key general.alignment 8; str 32; } >hostile.gguf
    refused "power of two" "alignment as str"
    for dims in "1 0" "0" "4 0 2"; do
        # shellcheck disable=SC2086
        { head_ 1 0; info x 0 0 $dims; } >hostile.gguf; pad hostile.gguf
        refused "tensor x" "the empty shape $dims"
    done
    { head_ 0 1; key k 8; le $((1 << 62)) 8; } >hostile.gguf
    refused "$((1 << 62))" "a giant string"
    { head_ 0 1; key k 9; le 0 4; le $((1 << 60)) 8; } >hostile.gguf
    refused "$((1 << 60))" "a giant array of bytes"
    { head_ 0 1; key k 9; le 8 4; le $((1 << 40)) 8; } >hostile.gguf
    refused "$((1 << 40))" "a giant array"
    head_ $((1 << 58)) 0 >hostile.gguf; refused "$((1 << 58))" "giant counts"
    head_ 0 $((1 << 63)) >hostile.gguf; refused 9223372036854775808 "a giant count of entries"
    { head_ 1 0; le $((1 << 63)) 8; } >hostile.gguf; refused 9223372036854775808 "a giant name"
    { head_ 2 0; info x 0 0 8; info y 0 0 8; } >hostile.gguf; pad hostile.gguf
    head -c 64 /dev/zero >>hostile.gguf; refused "overlap" "overlapping data"
    { head_ 0 1; key general.alignment 4; le $((1 << 31)) 4; } >wide.gguf
    ($limit; timeout 2 "$program" wide.gguf h); ok $? 0 "an alignment of 2^31 without data"
    ok "$(find . -name 'h*' -size +1k | wc -l)" 0 "is not padded"
}
