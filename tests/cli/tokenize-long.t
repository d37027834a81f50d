#!/bin/sh
# tokenize-long.t - long texts without any break, through every kind of vocabulary: as much memory
# for 8 MB as for 2 MB; speaks TAP.
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cd "$dir" || exit 1
data=$root/tests/data
kinds=$data/vocab/kinds
n=0
ok() { # GOT WANT NAME
    n=$((n + 1))
    if [ "$1" = "$2" ]; then echo "ok $n - $3"; else
        echo "not ok $n - $3"; printf '%s\n' "got '$1'" "want '$2'" | sed 's/^/# /'
    fi
}
run() { # UNIT COUNT: that many times UNIT, an octal escape or itself
    awk -v c="$(printf "$1.")" -v n="$2" 'BEGIN { sub(/.$/, "", c); for (i = 0; i < 1000; i++) s = s c
                                                 for (i = 0; i < n / 1000; i++) printf "%s", s }'
}
lines() { awk 'BEGIN { for (i = 0; i < 1000; i++) s = s "\n"
                       for (i = 0; i < '"$1"' / 1000; i++) printf "%s", s }'; }
within() { (ulimit -s 256; ulimit -v "$1"; shift; exec "$@") >out 2>err; }

# Sanitizers need far more than any limit here.
if ! within 100000 tokenize --version; then
    echo "1..0 # SKIP memory cannot be limited"
    exit 0
fi
least() { # COMMAND ...: KiB of address space that it takes
    for kib in 44000 48000 52000 56000 60000 65000 70000 75000 80000 90000; do
        within $kib "$@" && break
    done 2>/dev/null
    echo $kib
}

for c in a ' ' '\346\210\221' 'ab' newline; do
    if [ "$c" = newline ]; then lines 2000000 >short; lines 8000000 >long; else
        unit=$(printf "$c.")
        size=$((${#unit} - 1))
        [ "$c" = '\346\210\221' ] && size=3
        run "$c" $((2000000 / size)) >short
        run "$c" $((8000000 / size)) >long
    fi
    for m in "$data/m.gguf" "$data/vocab/tiny-spm.gguf" "$kinds/bpe.model" "$kinds/unigram.gguf" \
             "$kinds/unigram.model" "$kinds/wordpiece.gguf" "$kinds/rwkv.gguf" \
             "$kinds/plamo2.gguf" "$kinds/gemma4.gguf"; do
        kib=$(least tokenize -q --count -m "$m" -f short)
        within $((kib + 4000)) tokenize -q --count -m "$m" -f long
        ok "$?$(cat err)" 0 "8 MB of '$c' with $(basename "$m") in $kib KiB"
    done
done

# ---- ids in, text out ----
run 'ab ' 100000 >part
tokenize -q -m "$data/m.gguf" --no-add-special -f part | tr '\n' ' ' >ids
(cat ids; echo) >short
(for i in 1 2 3 4 5 6 7 8 9 10; do cat ids ids ids; done; echo) >long
kib=$(least tokenize -q -d -m "$data/m.gguf" short)
within $((kib + 4000)) tokenize -q -d -m "$data/m.gguf" long
ok "$?$(cat err) $(wc -c <out)" "0 9000000" "9 MB of text from ids in $kib KiB"
echo "1..$n"
