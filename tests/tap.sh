# SPDX-License-Identifier: MIT
# tap.sh - what test scripts begin with; sourced, never run.  $root is the tree, and $shared where
# reference values may lie beside it.  A script then stands in a directory of its own, $dir, empty,
# which goes when the script ends.  Each test says in TAP how it went; a script's last line is
# echo "1..$n".

root=$(cd "$(dirname "$0")/../.." && pwd)
shared=${LMPIPE_SHARED:-$root/../shared}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cd "$dir" || exit 1
m=$root/tests/data/m.gguf            # a model of 368 ids, trained for 512 tokens
n=0                                  # tests so far

ok() { # GOT WANT NAME
    n=$((n + 1))
    if [ "$1" = "$2" ]; then echo "ok $n - $3"; else
        echo "not ok $n - $3"; printf '%s\n' "got '$1'" "want '$2'" | sed 's/^/# /'
    fi
}
has() { # TEXT PART NAME
    case $1 in *"$2"*) ok yes yes "$3" ;; *) ok "$1" "... $2 ..." "$3" ;; esac
}
equal() { # FILE FILE NAME
    ok "$(cmp "$1" "$2" 2>&1)" "" "$3"
}

# skip_all WHY: a script ends before its first test, for what is not on this machine.
skip_all() { echo "1..0 # SKIP $1"; exit 0; }
