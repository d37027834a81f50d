#!/bin/sh
# new.t - scripts/new starts files that compile and stand in their tables; speaks TAP.
. "$(dirname "$0")/../tap.sh"
mkdir "$dir/tree"
(cd "$root" && tar cf - cmd lib scripts Makefile) | tar xf - -C "$dir/tree"
cd "$dir/tree" || exit 1
for what in "type q9_x quant/q9_x quant/types lm_type_q9_x" \
    "arch my-arch arch/my_arch arch/archs lm_arch_my_arch" \
    "sampler my_own sample/my_own sample/samplers lm_my_own"; do
    set -- $what
    scripts/new "$1" "$2" >/dev/null; ok $? 0 "new $1 succeeds"
    out=$(MAKEFLAGS= make BUILD=build "build/lib/$3.o" "build/lib/$4.o" 2>&1 >/dev/null)
    ok "$out" "" "new $1: file and table compile"
    ok "$(nm "build/lib/$3.o" | grep -c " [DdRr] $5\$")" 1 "new $1: the row is defined"
    ok "$(nm "build/lib/$4.o" | grep -c " U $5\$")" 1 "new $1: the table lists it"
    scripts/new "$1" "$2" >/dev/null 2>&1; ok $? 2 "new $1 does not overwrite"
done
scripts/new thing x >/dev/null 2>&1; ok $? 2 "an unknown kind is refused"
echo "1..$n"
