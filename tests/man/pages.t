#!/bin/sh
# pages.t - every program and stream has a page, and mandoc finds no fault; speaks TAP.
. "$(dirname "$0")/../tap.sh"
for c in "$root"/cmd/*.c; do
    p=$(basename "$c" .c)
    [ -e "$root/man/$p.1" ] && e= || e="man/$p.1 is missing"
    ok "$e" "" "$p has a page"
done
for page in "$root"/man/*.[1357]; do
    ok "$(mandoc -T lint -W warning "$page" 2>&1)" "" "$(basename "$page") is well-formed"
done
for s in $(sed -n 's/^\.Xr \([a-z-]*\) \([1357]\).*/\1.\2/p' "$root"/man/*.[1357] | sort -u); do
    case $s in
    lmpipe*|*-*|tokenize.1|decode.1|sample.1|quantize.1|imatrix.1)
        [ -e "$root/man/$s" ] && e= || e="no page man/$s"
        ok "$e" "" "$s, referred to, exists" ;;
    esac
done
echo "1..$n"
