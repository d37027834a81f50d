# SPDX-License-Identifier: MIT
# Functions that put GGUF files together from numbers and strings; sourced by tests.

le() { # NUMBER BYTES: little-endian
    v=$1 k=$2
    while [ "$k" -gt 0 ]; do
        # shellcheck disable=SC2059
        printf "\\$(printf %03o $((v & 255)))"
        v=$((v >> 8)) k=$((k - 1))
    done
}
be() { k2=$2; while [ "$k2" -gt 0 ]; do k2=$((k2 - 1)); le $(($1 >> (8 * k2))) 1; done; }
str() { le ${#1} 8; printf %s "$1"; }
head_() { printf GGUF; le 3 4; le "$1" 8; le "$2" 8; }          # TENSORS ENTRIES
key() { str "$1"; le "$2" 4; }                                  # KEY TYPE
info() { # NAME TYPE OFFSET DIM...
    str "$1"; t=$2 off=$3; shift 3
    le $# 4; for d; do le "$d" 8; done; le "$t" 4; le "$off" 8
}
pad() { head -c $(((32 - $(wc -c <"$1") % 32) % 32)) /dev/zero >>"$1"; }   # FILE
shard() { # NUMBER FILE: one of two shards, with tensor t0 or t1
    { head_ 1 2; key split.no 2; le "$1" 2; key split.count 2; le 2 2; info "t$1" 0 0 1; } >"$2"
    head -c 64 /dev/zero >>"$2"
}
