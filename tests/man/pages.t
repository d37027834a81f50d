#!/bin/sh
# pages.t - every program and stream has a page, and mandoc finds no fault; speaks TAP.
root=$(cd "$(dirname "$0")/../.." && pwd)
n=0
result() { n=$((n + 1)); [ -z "$2" ] || printf 'not '; echo "ok $n - $1"; [ -z "$2" ] || echo "$2" | sed 's/^/# /'; }
for c in "$root"/cmd/*.c; do
    p=$(basename "$c" .c)
    [ -e "$root/man/$p.1" ] && e= || e="man/$p.1 is missing"
    result "$p has a page" "$e"
done
for page in "$root"/man/*.[1357]; do
    result "$(basename "$page") is well-formed" "$(mandoc -T lint -W warning "$page" 2>&1)"
done
for s in $(sed -n 's/^\.Xr \([a-z-]*\) \([1357]\).*/\1.\2/p' "$root"/man/*.[1357] | sort -u); do
    case $s in
    lmpipe*|*-*|tokenize.1|decode.1|sample.1|quantize.1|imatrix.1)
        [ -e "$root/man/$s" ] && e= || e="no page man/$s"
        result "$s, referred to, exists" "$e" ;;
    esac
done
echo "1..$n"
