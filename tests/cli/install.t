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
# What bash has to offer, for a command with some of its words.
offers() { # COMMAND WORD...
    PATH="$dir/usr/bin:$PATH" bash --norc -c '
        . "$1/$2" && shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _lmpipe "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo ${COMPREPLY[*]}' bash "$dir/usr/share/bash-completion/completions" "$@"
}
if command -v bash >/dev/null; then
    ok "$(offers lm-decode --cache)" "--cache-k= --cache-v=" "options can be completed"
    ok "$(offers lm-decode --seco)" "" "but not what there is not"
    ok "$(offers lm-decode m.gg)" "" "nor files, which bash does"
    ok "$(offers lmpipe deco)" decode "and programs"
    ok "$(offers lmpipe gguf-split --max)" "--max-size= --max-tensors=" "and theirs"
fi
mk uninstall PROGRAM_PREFIX=lm- >/dev/null
ok "$(find "$dir" -type f -o -type l)" "" "make uninstall leaves nothing"

out=$(mk install DESTDIR="$dir/stage" PREFIX=/opt/lmpipe)
ok $? 0 "DESTDIR is honoured${out:+: $out}"
ok "$(ls "$dir/stage/opt/lmpipe/bin/gguf-inspect" 2>&1)" "$dir/stage/opt/lmpipe/bin/gguf-inspect" \
   "programs lie under DESTDIR and PREFIX"
echo "1..$n"
