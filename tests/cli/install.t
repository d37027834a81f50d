#!/bin/sh
# install.t - make install puts programs and pages where it is told, under other names
# if asked, and uninstall takes them away; speaks TAP.
. "$(dirname "$0")/../tap.sh"
built=$(dirname "$(command -v gguf-inspect)")
mk() { make -s -C "$root" BUILD="$(dirname "$built")" PREFIX="$dir/usr" "$@" 2>&1; }

# What is built may not be newer than the sources as make sees them: nothing is rebuilt here.
out=$(mk install PROGRAM_PREFIX=lm-); ok $? 0 "make install succeeds${out:+: $out}"
ok "$("$dir/usr/bin/lm-gguf-inspect" --get general.architecture "$m")" llama \
   "a program runs under its new name"
ok "$("$dir/usr/bin/lmpipe" gguf-inspect --get general.architecture "$m")" llama \
   "lmpipe finds the programs"
ok "$(ls "$dir/usr/bin" | grep -vcE '^lm')" 0 "no program has its plain name"
for p in "$root"/cmd/*.c; do
    p=$(basename "$p" .c)
    [ "$p" = lmpipe ] && page=lmpipe.1 || page=lm-$p.1
    ok "$(ls "$dir/usr/share/man/man1/$page" 2>&1)" "$dir/usr/share/man/man1/$page" \
        "$p has its page"
done
mk uninstall PROGRAM_PREFIX=lm- >/dev/null
ok "$(find "$dir" -type f -o -type l)" "" "make uninstall leaves nothing"

out=$(mk install DESTDIR="$dir/stage" PREFIX=/opt/lmpipe)
ok $? 0 "DESTDIR is honoured${out:+: $out}"
ok "$(ls "$dir/stage/opt/lmpipe/bin/gguf-inspect" 2>&1)" "$dir/stage/opt/lmpipe/bin/gguf-inspect" \
   "programs lie under DESTDIR and PREFIX"
echo "1..$n"
