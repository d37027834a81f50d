#!/bin/sh
# basics.t - what holds for every program; speaks TAP.
. "$(dirname "$0")/../tap.sh"
squeeze() { tr -s ' \t\n' ' ' | sed 's/^ //; s/ $//'; }

# How each program is called on a file that is not there; FILE stands for it.  lmpipe
# takes no file.
with_file() {
    case $1 in
    gguf-inspect) echo "gguf-inspect FILE" ;;
    gguf-edit)    echo "gguf-edit FILE out.gguf" ;;
    gguf-split)   echo "gguf-split FILE out.gguf" ;;
    gguf-convert) echo "gguf-convert FILE out.gguf" ;;
    quantize)     echo "quantize FILE out.gguf q8_0" ;;
    imatrix)      echo "imatrix -m FILE" ;;
    tokenize)     echo "tokenize -m FILE text" ;;
    decode)       echo "decode -m FILE" ;;
    sample)       echo "sample FILE -- true" ;;
    esac
}

for source in "$root"/cmd/*.c; do
    p=$(basename "$source" .c)
    $p --help >help 2>err </dev/null;          ok $? 0 "$p --help succeeds"
    ok "$(wc -c <err)" 0 "$p --help says nothing on stderr"
    ok "$(awk 'length > 80' help | wc -l)" 0 "$p --help fits 80 columns"
    $p --version >version 2>&1 </dev/null;     ok $? 0 "$p --version succeeds"
    ok "$(sed -n '1s/ [0-9.]*$//p' version)" "$p (lmpipe)" "$p --version names itself"
    $p --help >/dev/full 2>/dev/null;          ok $? 2 "$p --help notices a full disk"
    $p --no-such-option >out 2>err </dev/null; ok $? 2 "$p refuses an unknown option"
    ok "$(wc -c <out)" 0 "$p complains on stderr only"
    ok "$(wc -l <err)" 2 "$p complains in one line and says where help is"
    ok "$(sed -n '1s/^usage: //p' help)" \
       "$(mandoc -T ascii -O width=300 "$root/man/$p.1" | col -b |
       sed -n '/^SYNOPSIS/,/^DESC/{/^[A-Z]/!p;}' | squeeze)" \
       "$p usage is the SYNOPSIS"

    # Every long option of the help is in the page, and the page has no others.
    grep -oE -- '(^|[ ,])--[a-z][a-z0-9-]*' help | tr -d ' ,' | sort -u >in-help
    sed -n '/^\.Sh DESCRIPTION/,/^\.Sh EXIT/p' "$root/man/$p.1" |
        sed -n '/^\.It/p; /^\.It Xo/,/^\.Xc/p' |
        grep -oE 'Fl (\\-|Fl )[a-z][a-z0-9-]*' | sed 's/Fl \(\\-\|Fl \)/--/' | sort -u >in-page
    ok "$(diff in-help in-page)" "" "$p help and page list the same options"

    call=$(with_file "$p")
    [ "$call" ] || continue
    set -- $(echo "$call" | sed 's|FILE|/no/such/file|')
    "$@" >out 2>err </dev/null;                ok $? 2 "$p reports a missing file"
    ok "$(wc -c <out)" 0 "$p writes nothing for it"
    ok "$(wc -l <err)" 1 "$p reports it in one line"
    case $(cat err) in "$p: /no/such/file: "*) r=yes ;; *) r=$(cat err) ;; esac
    ok "$r" yes "$p says 'prog: file: message'"
    ok "$(ls | grep -c gguf)" 0 "$p leaves no output"
    set -- $(echo "$call" | sed 's|FILE|/tmp|')
    [ "$p" = gguf-convert ] || { "$@" >out 2>err </dev/null; ok $? 2 "$p refuses a directory"; }
done
echo "1..$n"
