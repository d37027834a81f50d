# SPDX-License-Identifier: MIT
# How far numbers are from a reference's; sourced by tests.  Each function prints "near", or the
# widest distance, or what is missing.

# near_arrays REFERENCE ARRAYS LIMIT: files with a JSON array of numbers a line.
near_arrays() {
    tr -d '[] ' <"$1" >reference.lines
    tr -d '[] ' <"$2" | paste -d ';' reference.lines - |
        awk -F ';' -v limit="$3" -v lines="$(wc -l <"$1")" '{
            n = split($1, a, ",")
            if (!n || split($2, b, ",") != n) bad = "line " NR
            for (i = 1; i <= n; i++) {
                d = a[i] - b[i]; d = d < 0 ? -d : d; worst = d > worst ? d : worst
            }
        }
        END {
            if (NR != lines) bad = NR " lines, of " lines + 0
            print bad ? bad : worst <= limit ? "near" : worst
        }'
}

# near_logits REFERENCE TABLE LIMIT [wide]: lines "sequence position id logit", and what
# decode --text prints; with wide, logits beyond 4 may be so much farther away.
near_logits() {
    awk -F '\t' -v limit="$3" -v wide="$4" '
        NR == FNR {
            want[$1 FS $2 FS $3] = $4; n++
            a = $4 < 0 ? -$4 : $4; most = a > most ? a : most; next
        }
        ($1 FS $2 FS $5) in want {
            d = $6 - want[$1 FS $2 FS $5]; d = d < 0 ? -d : d; worst = d > worst ? d : worst; k++
        }
        END {
            if (wide && most > 4) limit *= most / 4
            print n != k ? "of " n " there are " k : worst <= limit ? "near" : worst
        }' "$1" "$2"
}
