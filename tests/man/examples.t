#!/bin/sh
# examples.t - run the EXAMPLES of every page, each page in a directory of its own that
# holds m.gguf, hf/, text.txt, rank.gguf, a classifier, and glm.tar.zst, a checkpoint with a draft
# head; speaks TAP.
#
# In each literal block "$ " starts a command ("> " goes on with it); what follows, up
# to the next "$ " or the end of the block, is its exact output.  Standard error is not
# compared.
. "$(dirname "$0")/../tap.sh"
for page in "$root"/man/*.[157]; do
    name=$(basename "$page")
    mkdir "$name" "$name.steps"
    cp -R "$m" "$root/tests/data/hf" "$root/tests/data/text.txt" "$name"
    cp "$root/tests/data/classify/bert.gguf" "$name/rank.gguf"
    cp "$root/tests/data/draft/glm4moe.tar.zst" "$name/glm.tar.zst"
    awk -v dir="$name.steps" '
        /^\.Sh/          { on = $2 == "EXAMPLES" }
        !on              { next }
        /^\.Bd -literal/ { lit = 1; next }
        /^\.Ed/          { lit = 0; next }
        !lit             { next }
                         { gsub(/\\e/, "\\"); gsub(/\\&/, ""); gsub(/\\-/, "-")
                           gsub(/\\\(aq/, "\047") }
        /^\$ /           { f = sprintf("%s/%03d", dir, ++n)
                           print substr($0, 3) > (f ".sh"); printf "" > (f ".out"); next }
        /^> /            { print substr($0, 3) > (f ".sh"); next }
                         { print > (f ".out") }' "$page"
    for sh in "$name.steps"/*.sh; do
        [ -e "$sh" ] || continue
        n=$((n + 1)) base=${sh%.sh}
        (cd "$name" && sh "../$sh") >"$base.got" 2>"$base.err" </dev/null
        if cmp -s "$base.out" "$base.got"; then
            printf 'ok %s - %s: %s\n' $n "$name" "$(head -n 1 "$sh")"
        else
            printf 'not ok %s - %s: %s\n' $n "$name" "$(head -n 1 "$sh")"
            diff -u "$base.out" "$base.got" | sed 's/^/# /'
            sed 's/^/# stderr: /' "$base.err"
        fi
    done
done
echo "1..$n"
