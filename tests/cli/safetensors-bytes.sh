# SPDX-License-Identifier: MIT
# A safetensors file made of a list; sourced by tests, after gguf-bytes.sh.

# st FILE: a safetensors file of zeros for the lines NAME DTYPE SIZE... on standard input
st() {
    awk '{ b = $2 == "F32" ? 4 : 2; s = ""
           for (i = 3; i <= NF; i++) { b *= $i; s = s (i > 3 ? "," : "") $i }
           printf "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
                  (NR > 1 ? "," : "{"), $1, $2, s, at, at + b
           at += b }
         END { printf "}"; print at >"size" }' >head
    { le "$(wc -c <head)" 8; cat head; head -c "$(cat size)" /dev/zero; } >"$1"
}
