#!/bin/sh
# sample-loop.t - sample driving a model: several lines at once, proposals, texts that end a
# line or may not occur, records; speaks TAP.
. "$(dirname "$0")/../tap.sh"
fake=$root/tests/cli/fake-decode
awk 'BEGIN {
    for (i = 0; i < 9; i++) {
        for (k = 0; k <= i % 4; k++) printf "%d ", 7 * i + 31 * k + 3
        print ""
    }
}' >prompts
loop() { sample "$@" prompts -- decode -i -m "$m"; }

# ---- several lines at once ----
loop -s 5 -n 12 >one
for lines in 2 3 9 30; do
    loop -s 5 -n 12 --parallel "$lines" >many
    equal one many "$lines lines at once give the same ids in the same order"
done
loop -s 5 -n 3 --probs 2 >one
loop -s 5 -n 3 --probs 2 --parallel 4 >many
equal one many 'so do tables of chances'
yes '3 4' | head -n 700 | sample --greedy -n 3 --parallel 5 -- "$fake" >out
ok "$(sort -u out | tr '\n' '|') $(wc -l <out)" '5 6 7 | 700' 'more lines than are kept at once'
printf '3\n14\n5 6\n' | sample --greedy --parallel 2 -- "$fake" >out 2>err
ok "$(tr '\n' '|' <out)" '4 5 6 7 8 9 10 11 12 13 14 15 0 |15 0 |7 8 9 10 11 12 13 14 15 0 |' \
    'a short line after a long one waits for it'
# Who writes the second prompt when the answer to the first is there waits for no deadlock.
: >out
{
    echo 3
    i=0
    while ! grep -q 6 out && [ $((i += 1)) -le 40 ]; do sleep 0.5; done
    [ $i -gt 40 ] || echo 7
} | sample --greedy -n 3 --parallel 2 -- "$fake" >out
ok "$(tr '\n' '|' <out)" '4 5 6 |8 9 10 |' 'a prompt does not wait for the next one'
printf '3\n\n5 6\n' | sample --greedy -n 2 --parallel 2 -- "$fake" >out 2>err
ok "$? $(tail -n 1 out | tail -c 40)" '1 ! <stdin>: line 2: the prompt is empty' \
    'an empty prompt ends it'
# What fails a line ends the output there, however many were begun.
for lines in 1 2 4; do
    printf '1 2\n3 4\n\n5 6\n' | sample --greedy -n 2 --parallel $lines -- "$fake" >out 2>err
    ok "$? $(tr '\n' '|' <out)" '1 3 4 |5 6 |! <stdin>: line 3: the prompt is empty|' \
        "$lines at once: the lines before an empty prompt are completed"
    printf '1 2\n3 4\n! oops\n' | sample --greedy -n 2 --parallel $lines -- "$fake" >out 2>err
    ok "$? $(tr '\n' '|' <out)" '1 3 4 |5 6 |! oops|' \
        "$lines at once: and those before a producer failed"
    printf '1 2\n3 4\n999\n5 6\n' |
        sample --greedy -n 9 --parallel $lines -- decode -i -m "$m" >out 2>err
    ok "$? $(wc -w <out) $(tail -n 1 out)" \
        '1 31 ! <stdin>: line 3: decode: id 999 is outside the vocabulary of 368' \
        "$lines at once: and those before a prompt is refused"
    printf '1 2\n9\n3 4\n' | sample --greedy -n 9 --parallel $lines -- "$fake" nan=9 >out 2>err
    ok "$? $(tr '\n' '|' <out)" \
        '1 ! sequence 0, position 1: id 9: the logit is NaN|' \
        "$lines at once: of several lines that fail the first is told"
done
printf '1 2\n' | sample -q --greedy -n 3 -- "$fake" ctx=3 >out 2>err
ok "$? $(cat err)" '2 sample: <stdin>: line 1: the context of 3 tokens is full, 2 generated' \
    'with -q, too, it is told why fewer ids came'
printf '1 2\n' | sample -q --greedy -- "$fake" ctx=3 >out 2>err
ok "$? $(cat err)" '0 ' 'but not where no number was asked for'
printf '3 4\n5\n' | sample --greedy -n 3 --parallel 2 -- "$fake" ctx=3 log=log >out 2>err
ok "$? $(tr '\n' '|' <out)" '2 5 6 |6 7 8 |' 'a context that is full ends its own line'
ok "$(grep -c '^1: ' log)" 3 'the second line is a sequence of its own'

# ---- what a model suppresses ----
loop --greedy -n 4 >plain
first=$(head -n 1 plain | cut -d ' ' -f 1)
gguf-edit --set "tokenizer.ggml.suppress_tokens=json:[$first]" "$m" quiet.gguf
sample --greedy -n 4 prompts -- decode -i -m quiet.gguf >out
ok "$(tr ' ' '\n' <out | grep -cx "$first") $(wc -l <out)" "0 9" 'a suppressed id is not chosen'
loop --greedy -n 4 --logit-bias "$first-inf" >plain
equal out plain 'it is as with a bias that bans it'
gguf-edit --set "tokenizer.ggml.suppress_tokens=json:[9999999]" "$m" quiet.gguf
decode -m quiet.gguf prompts >out 2>err
ok "$? $(grep -c 'suppress_tokens names id 9999999, out of range' err)" '1 1' \
    'a suppressed id that is none'

# ---- proposals ----
loop --greedy -n 40 >plain
for max in 1 2 5 16; do
    loop --greedy -n 40 --draft "decode -i -m '$m'" --draft-max "$max" >draft
    equal plain draft "greedy ids with a draft of $max are those without"
done
for size in 1 2 4; do
    loop -s 9 -n 40 >plain
    loop -s 9 -n 40 --draft-ngram "$size" --parallel 2 >draft
    equal plain draft "proposals from $size ids before change no id"
done
loop -s 4 -n 25 --draft "decode -i -m '$m'" --draft-max 4 >one
loop -s 4 -n 25 --draft "decode -i -m '$m'" --draft-max 4 --parallel 3 >many
equal one many 'drafted ids are the same for several lines at once'
printf '1 2\n' >in
sample -n 9 --draft "'$fake' vocab=17" in -- "$fake" >out 2>err
ok "$? $(cat out err)" '2 ! --draft: the vocabulary has 17 ids, the model'"'"'s 16
sample: --draft: the vocabulary has 17 ids, the model'"'"'s 16' \
    'a draft with another vocabulary is refused'
sample -n 9 --draft "'$fake' eog=3" in -- "$fake" >out 2>err
ok "$? $(tail -c 55 err | sed 's,^ ,,')" \
    '2 the vocabulary has other special ids than the model'"'"'s' 'or with other special ids'
sample --greedy -n 5 --draft "'$fake' frames=2" in -- "$fake" >out 2>err
ok "$? $(head -c 30 out)" '1 ! --draft: the stream is cut s' 'a draft that fails ends it'
draft() { # STATUS TEXT NAME COMMAND
    sample --greedy -n 5 --draft "$4" in -- "$fake" >out 2>err
    ok "$? $(cat out) $(tail -n 1 err)" "$1 ! --draft: $2 sample: --draft: $2" "$3"
}
draft 5 'exit status 5' 'a draft that is none' 'exit 5'
draft 1 'ends before its stream begins' 'one that says nothing' :
draft 2 'could not be started: exit status 127' 'one that is not there' './none 2>/dev/null'
draft 2 'ended by signal 9 (Killed)' 'one that is killed' 'kill -9 $$'
draft 2 'ended by signal 15 (Terminated)' 'after some ids' "exec '$fake' frames=2 signal=15"
draft 3 'exit status 3' 'one that fails after some ids' "'$fake' frames=2 exit=3"
draft 1 'not a logits stream' 'one that never ends' 'cat /dev/zero; exit 0'
sample --greedy -n 5 --draft "exec '$fake' exit=4" in -- "$fake" >out 2>err
ok "$? $(tr '\n' '|' <out)" '4 3 4 5 6 7 |! --draft: exit status 4|' 'or at its end'
sample --greedy --draft-ngram 1 in -- "$fake" ctx=9 vocab=3 >out 2>err
ok "$? $(cat out)" '0 0 ' 'the end of a text in a proposal ends the line'
printf '1 2 3 4 1 2 3 4 1\n' |
    sample --greedy --draft-ngram 2 -- "$fake" ctx=12 vocab=200 log=log2 >out 2>err
ok "$? $(cat out)" '0 2 3 4 5 ' 'a full context with proposals'

echo '1 2 3 1 2' | sample -v --greedy -n 5 --draft-ngram 2 -- "$fake" >out 2>err
ok "$(tail -n 1 err)" 'sample: --draft-ngram: 3 ids proposed, 1 of them kept' \
    '-v tells how many proposals were kept'
echo 1 2 | sample -v --greedy -n 5 --draft "$fake" --draft-max 3 -- "$fake" >out 2>err
ok "$(tail -n 1 err)" 'sample: --draft: 3 ids proposed, 3 of them kept' 'of a draft, too'

# ---- proposals of the model's own draft head ----
own_head() { # STATUS OUT NAME OPTIONS...
    want="$1 $2" name=$3
    shift 3
    echo 1 2 | sample -q --greedy -n 9 --draft-head -- "$fake" log=log3 "$@" >out 2>err
    ok "$? $(tr '\n' '|' <out)" "$want" "$name"
}
for k in 1 2 13; do
    rm -f log3
    own_head 0 '3 4 5 6 7 8 9 10 11 |' "guesses of steps of $k change no id" guess=$k
    ok "$(grep -c '^@*[0-9]* *?' log3)" "$([ $k = 1 ] && echo 2 || echo 7)" 'as many are asked for'
done
ok "$(sed -n 2,3p log3 | tr '\n' '|')" '?3 3|+2 3 0|' \
    'a guess is asked for, then checked as far as a text goes'
ok "$(sed -n 4,5p log3 | tr '\n' '|')" '@3 ?3 4|@3 +4 4 1 14 11|' 'what was wrong is forgotten'
echo 1 2 | sample -v --greedy -n 9 --draft-head --draft-max 2 -- "$fake" guess=1 >out 2>err
ok "$(tail -n 1 err)" 'sample: --draft-head: 5 ids proposed, 5 of them kept' 'how many were right'
rm -f log3
own_head 0 '3 4 5 6 7 8 9 10 11 |' 'a model that goes back to where requests began' guess=2 coarse=1
ok "$(sed -n 2,8p log3 | tr '\n' '|')" \
    '?3 3|+4 3 5 7 9|@3 ?3 4|@3 +4 4 6 8 10|@2 +4 3 4 6 8 10|@4 ?3 5|@2 +4 3 4 5 7 9 11|' \
    'is given again what was right'
own_head 0 '3 4 5 6 |' 'guesses end with the text' guess=1 eog=6
own_head 2 '3 4 5 6 7 8 |' 'and with the context' guess=1 ctx=7
wrong="after token 3 at position" asked="and was asked for 3 after 3 at 2"
own_head 1 "3 ! $fake: guesses 3 ids $wrong 3, $asked|" 'guesses about another place' \
    guess=1 astray=1
own_head 1 "3 ! $fake: guesses 4 ids $wrong 2, $asked|" 'more than were asked for' guess=1 plenty=1
own_head 1 '3 ! '"$fake: gives logits where guesses were asked for|" 'no guesses' guess=1 amiss=1
own_head 2 "! $fake: has no draft head loaded: it wants --draft-head|" 'a model without'
sample --draft-head in >out 2>err
ok "$? $(head -n 1 err)" '2 sample: --draft-head needs a command after --' 'only in a loop'
sample --draft-head --draft-ngram 2 in -- "$fake" >out 2>err
ok "$? $(head -n 1 err)" '2 sample: --draft-head and --draft-ngram exclude each other' 'one source'

# The distribution with a draft is that without: pairs of ids against what the logits say.
awk 'BEGIN { for (i = 0; i < 4000; i++) print 2 }' >in
for draft in 2 3 4; do
    sample -s 8 --samplers '' --ignore-eos -n 3 --draft "'$fake' vocab=6 slant=$draft" \
        --draft-max 3 \
        --parallel 8 in -- "$fake" vocab=6 slant=1 >out
    ok "$(perl -e '
        my (%count, %p, $chi);
        sub row { my @w = map { exp(($_ + 2 * $_[0]) % 5 / 2) } 1 .. 5; my $s = 0; $s += $_ for @w;
                  (0, map { $_ / $s } @w) }
        while (<STDIN>) { my @i = split; $count{"@i"}++; $n++ }
        my @a = row(2);
        for my $a (1 .. 5) { my @b = row($a); for my $b (1 .. 5) { my @c = row($b);
            for my $c (1 .. 5) {
                my $e = $n * $a[$a] * $b[$b] * $c[$c];
                $chi += (($count{"$a $b $c"} // 0) - $e) ** 2 / $e
            } } }
        print $n, $chi < 180 ? " fits" : " chi-square $chi";        # 124 degrees of freedom
    ' <out)" '4000 fits' "drafted by other chances ($draft): the same distribution"
done

# ---- texts ----
echo 1 | sample --greedy -n 9 -- decode -i -m "$m" >plain
text=$(tokenize -m "$m" -d <plain)
stop() { echo 1 | sample --greedy -n 9 -m "$m" "$@" -- decode -i -m "$m" | tokenize -m "$m" -d; }
i=1
while [ $i -le 6 ]; do
    want=$(printf %s "$text" | LC_ALL=C cut -c "$((i + 1))-$((i + 2))")
    [ "${#want}" = 2 ] && ok "$(stop --stop "$want")" "${text%%"$want"*}" \
        "a line ends before '$want'"
    i=$((i + 1))
done
ok "$(stop --stop zqzq --stop 'never this')" "$text" 'a text that does not come'
ok "$(echo 1 | sample --greedy -n 9 -m "$m" --stop zqzq -- decode -i -m "$m")" "$(cat plain)" \
    'nor are ids lost'
first=$(cut -d ' ' -f 1 <plain)
banned=$(echo "$first" | tokenize -m "$m" -d)
out=$(echo 1 | sample --greedy -n 9 -m "$m" --banned-string "$banned" -- decode -i -m "$m" |
    tokenize -m "$m" -d)
case $out in *"$banned"*) got=there ;; *) got=none ;; esac
ok "$got" none 'a banned text of one token does not come'
two=$(cut -d ' ' -f 2-3 <plain | tokenize -m "$m" -d)
echo 1 | sample --greedy -n 30 -m "$m" --banned-string "$two" -- decode -i -m "$m" >ids
out=$(tokenize -m "$m" -d <ids)
case $out in *"$two"*) got=there ;; *) got=none ;; esac
ok "$got $(wc -w <ids)" 'none 30' 'nor does one of two'
ok "$(cut -d ' ' -f 1 <ids)" "$first" 'what is before it stays'
echo 1 | sample --greedy -n 30 -m "$m" --banned-string "$two" --banned-string zq -- decode \
    -i -m "$m" >ids
printf '\n%s\nzq' "$two" >banned
echo 1 | sample --greedy -n 30 -m "$m" --banned-string-file banned -- decode -i -m "$m" >many
equal ids many 'a file of banned texts is as good as options'
printf 'a\0b\n' >nul
sample --banned-string-file nul 2>err
ok "$? $(cat err)" '1 sample: nul: byte 1 is a NUL, which no text has' 'a banned text with a NUL'
bias() { echo 1 | sample --greedy -n 3 -m "$m" --logit-bias-text "$1" -- decode -i -m "$m" 2>&1; }
id=$(tokenize -m "$m" --no-add-special e)
ok "$(bias e+90)" "$id $id $id " 'a bias of a text is one of its id'
set -- $(tokenize -m "$m" --no-add-special 'e-')
ok "$# $(bias 'e-+90')" \
    "2 $(echo 1 | sample --greedy -n 3 --logit-bias "$1+90" --logit-bias "$2+90" -- \
    decode -i -m "$m")" 'a text of two, which may end in a sign'

# ---- grammars ----
cat >list.gbnf <<'END'
root ::= "[" item ("," item)* "]"
item ::= [a-z]{1,4} | "\"" [^"]{0,5} "\""
END
loop -s 6 -m "$m" --grammar list.gbnf --temp 2 --top-k 0 --top-p 1 --min-p 0 -n 300 >ids
tokenize -m "$m" -dl <ids >texts
ok "$(wc -l <ids)" 9 'a line for each prompt, within a grammar'
bad=0
while IFS= read -r line; do
    case $line in
    *']') printf %s "$line" | sample --check-grammar list.gbnf || bad=$((bad + 1)) ;;
    esac
done <texts
ok "$bad $(wc -l <texts)" '0 9' 'every line that is complete is in it'
loop -s 6 -m "$m" --grammar list.gbnf --temp 2 --parallel 4 -n 300 >one
loop -s 6 -m "$m" --grammar list.gbnf --temp 2 -n 300 >many
equal one many 'several lines at once within a grammar'
loop -s 6 -m "$m" --grammar list.gbnf --temp 2 --draft-ngram 2 -n 300 >many
equal one many 'and with proposals'
loop --greedy -m "$m" --grammar list.gbnf --draft "decode -i -m '$m'" -n 60 >one
loop --greedy -m "$m" --grammar list.gbnf -n 60 >many
equal one many 'also of a draft'
loop -s 3 -m "$m" --regex '\d{3}-[A-Z]' --temp 3 | tokenize -m "$m" -dl >texts
ok "$(grep -cxE '[0-9]{3}-[A-Z]' texts)" 9 'a regular expression'
echo 'root ::= <[0]> "x"' >token.gbnf
printf '3\n' | sample --greedy -m "$m" --grammar token.gbnf -- decode -i -m "$m" >out 2>err
ok "$? $(cut -d ' ' -f 1 out)" '0 0' 'a token of its own'
for bad in 'root ::= root "a" | "b"' 'x ::= "a"' 'root ::= "a' 'root ::= y' 'root ::= <nothing>'; do
    echo "$bad" >bad.gbnf
    printf '3\n' | sample -m "$m" --grammar bad.gbnf -- decode -i -m "$m" >out 2>err
    ok "$? $(wc -l <err) $(grep -c bad.gbnf err)" '2 1 1' "refused: $bad"
done
printf '[a,bcd,"x y"]' | sample --check-grammar list.gbnf
ok $? 0 'a text in a grammar'
printf '[a,\n' | sample --check-grammar list.gbnf 2>err
ok "$? $(cat err)" \
    "1 sample: <stdin>: byte 3, line 1, column 4: this cannot follow, expected '\"', 'a' to 'z'" \
    'a text that leaves it'
printf '[a' | sample --check-grammar list.gbnf 2>err
ok "$? $(cat err)" "1 sample: <stdin>: byte 2, line 1, column 3: the text ends too early, \
expected ',', ']', 'a' to 'z'" \
    'a text that ends too early'
printf '[a]\n' | sample --check-grammar list.gbnf
ok $? 0 'the newline that ends a file is no part of the text'
printf '[a]\n\n' | sample --check-grammar list.gbnf 2>err
ok "$? $(cut -d , -f 1-3 err)" '1 sample: <stdin>: byte 3, line 1, column 4: this cannot follow' \
    'two are'
printf '[a]\n,' | sample --check-grammar list.gbnf 2>err
ok "$? $(cut -d , -f 1-3 err)" '1 sample: <stdin>: byte 3, line 1, column 4: this cannot follow' \
    'so is one with text after it'
printf 'root ::= "a" ("\\n" "b")? | "c\\n"' >newline.gbnf
for text in a 'a\n' 'a\nb' 'a\nb\n' 'c\n' 'c\n\n'; do
    printf "$text" | sample --check-grammar newline.gbnf
    ok $? 0 "a grammar with newlines of its own: $text"
done
for text in '\n' 'a\n\n' 'a\nb\n\n' c 'c\n\n\n'; do
    printf "$text" | sample --check-grammar newline.gbnf 2>err
    ok $? 1 "and what is not in it: $text"
done

# A line cut off inside a grammar is told, once.
echo 'root ::= [a-z]{30,} "."' >long.gbnf
loop --greedy -m "$m" --grammar long.gbnf -n 4 >ids 2>err
ok "$? $(wc -l <ids) $(cat err)" \
    "0 9 sample: prompts: line 1: the answer ends at -n before the grammar is complete" \
    'an answer that -n ends'
loop --greedy -q -m "$m" --grammar long.gbnf -n 4 >again 2>err
ok "$? $(cat err)" '0 ' 'not with -q'
equal ids again 'which changes no id'
printf '3 4\n12\n' |
    sample --greedy -m "$m" --grammar long.gbnf -- "$fake" vocab=368 ctx=6 >out 2>err
ok "$? $(grep -c 'is full' err) $(grep 'grammar' err)" \
    '0 2 sample: <stdin>: line 1: the answer ends with the context before the grammar is complete' \
    'or the end of the context'
loop --greedy -m "$m" --regex '[a-z]*' -n 4 >out 2>err
ok "$? $(cat err)" '0 ' 'not where the grammar is complete'
loop --greedy --ignore-eos -m "$m" --choice ab -n 20 >ids 2>err
ok "$? $(cat err) $(tokenize -m "$m" -dl ids | grep -cx ab)" '0  9' \
    'a complete grammar ends a line that no token may end'
loop --greedy --ignore-eos -m "$m" --regex '[a-z]*' -n 12 >ids 2>err
ok "$? $(cat err) $(wc -w <ids)" '0  108' 'but only where nothing else can follow'
loop --greedy -m "$m" --grammar long.gbnf --grammar-trigger zqzq -n 4 >out 2>err
ok "$? $(cat err)" '0 ' 'nor where it still waits'

# ---- schemas and choices ----
cat >point.json <<'END'
{"type": "object", "properties": {"x": {"type": "integer", "minimum": -9, "maximum": 9},
 "to": {"enum": ["here", "there"]},
 "by": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
 "required": ["x", "to"], "minumum": 1}
END
loop -s 6 -m "$m" --json-schema point.json --temp 2 --json-gap none -n 400 >ids 2>err
ok "$(cat err)" 'sample: point.json: #/minumum: unknown keyword, which constrains nothing' \
    'an unknown keyword is told'
ok "$(tokenize -m "$m" -dl ids |
    grep -cxE '\{"x":(0|-?[1-9]),"to":"(t)?here"(,"by":\[((true|false)(,(true|false))?)?\])?\}')" \
    9 'every line is valid'
loop -s 6 -q -m "$m" --json-schema point.json --temp 2 --json-gap none -n 400 --parallel 4 >again
equal ids again 'several at once'
printf '{"x": -9, "to": "here"}' | sample -q --check-grammar point.json
ok $? 0 'a valid instance'
printf '{"x": -10, "to": "here"}' | sample -q --check-grammar point.json 2>err
ok "$? $(cut -d , -f 1-3 err)" '1 sample: <stdin>: byte 8, line 1, column 9: this cannot follow' \
    'one that is not'
printf '{"x": 1, "to": "here", "z": 2}' | sample -q --check-grammar point.json 2>err
ok $? 1 'other members'
printf '{"x": 1, "to": "here", "z": 2}' | sample -q --open-objects --check-grammar point.json
ok $? 0 'in an open object'
sample --strict-schema --check-grammar point.json </dev/null 2>err
ok "$? $(cat err)" '2 sample: point.json: #/minumum: unknown keyword' \
    'an unknown keyword that is refused'
for bad in '{"type": "strin"}' '{"minLength": -1}' '{"$ref": "#/nowhere"}' 'false' \
    '{"uniqueItems": true}' '{'; do
    echo "$bad" >bad.json
    printf '3\n' | sample -m "$m" --json-schema bad.json -- decode -i -m "$m" >out 2>err
    ok "$? $(wc -l <err) $(grep -c bad.json err)" '2 1 1' "refused: $bad"
done
loop -s 3 -m "$m" --choice 'yes, "so"' --choice no --temp 3 | tokenize -m "$m" -dl >texts
ok "$(grep -cxE 'yes, "so"|no' texts) $(sort -u texts | wc -l)" '9 2' 'one of several texts'
printf '3\n' | sample --greedy -m "$m" --choice "$(printf '\377a\376')" -- decode -i -m "$m" |
    tokenize -m "$m" -d >text
ok "$(od -A n -t x1 <text | tr -d ' ')" ff61fe 'a choice is bytes, which need not be UTF-8'
printf '3\n' | sample -m "$m" --choice a --regex b -- decode -i -m "$m" 2>err
ok $? 2 'a choice and an expression exclude each other'
sample --json-gap some </dev/null 2>err
ok $? 2 'an unknown kind of gap'

# ---- grammars that wait ----
ids() { tokenize -m "$m" --no-add-special "$@" | sed 's/ *$//'; }
piece() { echo "$1" | tokenize -m "$m" -d --special; }
three=$(piece 285)$(piece 286)$(piece 287)
printf 'root ::= "%s" "("?' "$three" >wait.gbnf
wait_for() { echo 282 | sample --greedy -m "$m" --grammar wait.gbnf "$@" -- "$fake" vocab=368; }
ok "$(wait_for --grammar-trigger "$three")" '283 284 285 286 287 0 ' 'a grammar begins with a text'
ok "$(wait_for --grammar-trigger-pattern "(?<=$(piece 284))$(piece 285)")" \
    '283 284 285 286 287 0 ' \
    'with what a pattern finds'
ok "$(wait_for --grammar-trigger-full "[^]*?($three)")" '283 284 285 286 287 0 ' \
    'or matches as a whole'
ok "$(wait_for --grammar-trigger-id 285)" '283 284 285 286 287 0 ' 'with a token'
ok "$(wait_for --grammar-trigger zqzq -n 12 | wc -w)" 12 'or never'
ok "$(wait_for --grammar-trigger-id 285 --draft-ngram 2 --parallel 2)" '283 284 285 286 287 0 ' \
    'and with proposals'
wait_for --grammar-trigger-id 284 >out 2>err
ok "$? $(tail -n 1 err | cut -c 1-31)" '1 sample: --grammar: cannot begin' 'where it cannot begin'
wait_for --grammar-trigger-pattern '(' >out 2>err
ok "$? $(head -n 1 err | cut -c 1-43)" "2 sample: --grammar-trigger-pattern: '(': byt" \
    'a pattern that is none'
echo 1 | sample --greedy -m "$m" --grammar-trigger x -- "$fake" >out 2>err
ok "$? $(head -n 1 err)" '2 sample: a trigger needs what it begins: --grammar, for example' \
    'a trigger for nothing'

# ---- thinking ----
think() { sample --greedy -m "$m" --reasoning-budget "$@" -- "$fake" vocab=368 ctx=400; }
after() { awk -v n="$1" '{ for (i = n; i <= NF; i++) printf "%s%s", $i, i < NF ? " " : "" }'; }
begun=$(ids 'x<think>') end=$(ids '</think>')
next=$((${end##* } + 1))
got=$(echo "$begun" | think 3 -n 30)
ok "$(echo "$got" | after 4)" \
    "$end $(seq "$next" "$((next + 26 - $(echo "$end" | wc -w)))" | tr '\n' ' ' | sed 's/ $//')" \
    'thinking ends after three ids, and the model goes on'
ok "$(echo "$begun" | think 0 -n 4 | after 1)" "$(echo "$end" | cut -d ' ' -f 1-4)" \
    'at once, as far as the line goes'
ok "$(echo "$begun" | think -1 -n 30)" \
    "$(echo "$begun" | sample --greedy -n 30 -- "$fake" vocab=368 ctx=400)" \
    'or as it likes'
ok "$(echo "$begun" | think 2 -n 9 --reasoning-message ' so' | after 3)" \
    "$(ids ' so</think>' | cut -d ' ' -f 1-7)" \
    'with a message'
got=$(echo 200 |
    think 2 -n 9 --reasoning-start "$(piece 203)" --reasoning-end "$(piece 301)$(piece 302)" -n 9)
ok "$got" \
    "201 202 203 204 205 $(ids "$(piece 301)$(piece 302)" |
    cut -d ' ' -f 1-4) 303 304 " 'tags of its own, in what is generated'
got=$(echo 200 | think 9 -n 9 --reasoning-start "$(piece 203)" --reasoning-end "$(piece 206)")
ok "$got" '201 202 203 204 205 206 207 208 209 ' 'a model that stops by itself'
echo 1 | sample -m "$m" --reasoning-budget 3 --grammar wait.gbnf -- "$fake" >out 2>err
ok "$?" 2 'a grammar would not let it think'
echo 1 | sample --reasoning-budget 3 -- "$fake" >out 2>err
ok "$?" 2 'a vocabulary is needed'

# ---- encoders ----
printf '3 4\n7\n' | sample --greedy -n 3 -- "$fake" start=9 log=elog >out 2>err
ok "$? $(tr '\n' '|' <out)" '0 10 11 12 |10 11 12 |' 'an encoder-decoder model'
ok "$(tr '\n' '|' <elog)" '0: e 3 4|9|10|11|0: e 7|9|10|11|end|' 'its encoder gets the prompt'
printf '3 4\n7\n' | sample --greedy -n 3 --parallel 2 --draft-ngram 1 -- "$fake" start=9 >out 2>err
ok "$? $(tr '\n' '|' <out)" '0 10 11 12 |10 11 12 |' 'several at once'
printf '3\n' | sample --greedy --draft "'$fake'" -- "$fake" start=9 >out 2>err
ok "$?" 2 'no drafts for it'
t5=$shared/fixtures/models/t5
if [ -d "$t5" ]; then
    gguf-convert -q -T f32 "$t5" t5.gguf
    printf '5 9 7 1\n12 1\n' >texts
    sample --greedy -n 6 --parallel 2 texts -- decode -i -m t5.gguf >out
    : >want
    while read -r text; do                        # id by id, each from the beginning
        echo "$text" >text
        line=0 new=
        for i in 1 2 3 4 5 6; do
            id=$(echo "$line" | decode -m t5.gguf --encoder text | sample --greedy | tr -d ' ')
            new="$new$id " line="$line $id"
            [ "$id" = 1 ] && break
        done
        echo "$new" >>want
    done <texts
    equal out want 'T5 generates what it gives id by id'
fi

# ---- ends ----
printf '12\n' | sample --greedy -- "$fake" >out
ok "$(cat out)" '13 14 15 0 ' 'the end of the text'
printf '12\n' | sample --greedy --min-tokens 6 --samplers '' -- "$fake" >out
ok "$(wc -w <out) $(grep -cw 0 out)" '19 1' 'but not before so many ids'
printf '12\n' | sample --greedy --stop-ids 14 --min-tokens 2 -- "$fake" >out
ok "$(cat out)" '13 1 2 3 4 5 6 7 8 9 10 11 12 13 14 ' 'nor by a stop id'

ok "$(echo '6 5' | sample --greedy -n 1 --presence-penalty 9 -- "$fake")" '0 ' \
    'penalties know the prompt'
ok "$(echo '6 5' | sample --greedy -n 1 --presence-penalty 9 --repeat-last-n 1 -- "$fake")" '6 ' \
    'as far as they look back'

# ---- records ----
loop -s 3 -n 6 --record rec >plain
ok "$(awk -F '\t' \
    'NF != 6 || $4 <= 0 || $4 > 1 || $5 != int($5) || $6 < 0 { bad++ } END { print NR, bad + 0 }' \
    rec)" \
    '54 0' 'a record has a line an id'
ok "$(awk -F '\t' '{ printf "%s ", $3; if (NR % 6 == 0) print "" }' rec)" "$(cat plain)" \
    'with the ids in order'
loop -s 77 -n 6 --replay rec >again
equal plain again 'a record is replayed whatever the seed'
loop --temp 3 --top-k 0 --top-p 1 --min-p 0 -n 6 --replay rec --parallel 3 --record rec2 >again
equal plain again 'and whatever the samplers'
ok "$(sort rec2 | cut -f 1-3)" "$(sort rec | cut -f 1-3)" 'which are judged by the new ones'
head -n 50 rec >short
loop -n 6 --replay short >out 2>err
ok "$? $(tail -n 1 err)" "1 sample: sequence 8, position 2: the record has no token that follows" \
    'a record that is too short'
for bad in 'x' '0	1' '0	1	9999999999' '0 1 2' '0	1	2
0	1	3'; do
    printf '%s\n' "$bad" >short
    loop -n 6 --replay short >out 2>err
    ok "$? $(wc -l <err)" '1 1' "no record: $(echo "$bad" | tr '\n\t' '|.')"
done
timeout 20 sample --replay /dev/zero prompts -- "$fake" >out 2>err
ok "$? $(cat err)" '1 sample: /dev/zero: line 1: longer than a line can be' 'nor what has no end'
{ printf '0\t1\t7\t'; head -c 4089 /dev/zero | tr '\0' 1; printf '\n0\t2\t9'; } >long
ok "$(echo 3 | sample -n 2 --replay long -- "$fake")" '7 9 ' \
    'a line as long as can be, and one without end'
decode -m "$m" prompts | sample -s 1 --record rec >out
decode -m "$m" prompts | sample -s 2 --replay rec >again
equal out again 'the filter records and replays too'
loop -n 2 --record /dev/full >out 2>err
ok "$?" 2 'a record that cannot be written'
cp "$m" own.gguf
echo 'root ::= "a"' >own.gbnf
echo true >own.json
echo '3 4' >own.ids
decode -m "$m" own.ids >own.lg
cp rec own.rec
ln -s own.rec own.link
for f in own.*; do cp "$f" "kept.${f#own.}"; done
refused() { # FILE NAME COMMAND...
    file=$1 name=$2
    shift 2
    "$@" >out 2>err
    ok "$? $(cat err)" "2 sample: $file: input and output are the same file" \
        "not over its input: $name"
}
refused own.gguf 'the model' sample -m own.gguf --record own.gguf own.ids -- "$fake"
refused own.gbnf 'the grammar' sample -m "$m" --grammar own.gbnf --record own.gbnf own.ids \
    -- "$fake"
refused own.json 'the schema' sample -m "$m" --json-schema own.json --record own.json own.ids \
    -- "$fake"
refused own.ids 'the prompts' sample --record own.ids own.ids -- "$fake"
refused own.lg 'the logits' sample --record own.lg own.lg
refused own.link 'a record, through a link' sample --replay own.rec --record own.link own.lg
sample --record own.lg <own.lg >out 2>err
ok "$? $(cat err)" '2 sample: own.lg: input and output are the same file' 'nor over standard input'
for f in 'own.ids' '--replay own.rec own.lg' '--grammar own.gbnf -m own.gguf kept.ids'; do
    sample $f -- "$fake" >>"$(echo "$f" | grep -o 'own[^ ]*' | head -n 1)" 2>err
    ok "$? $(cat err)" '2 sample: <stdout>: input and output are the same file' \
        "nor by standard output: $f"
done
bad=
for f in own.*; do cmp -s "$f" "kept.${f#own.}" || bad="$bad $f"; done
ok "$bad" '' 'all of them are as they were'

# ---- samplers that need to know more ----
loop -s 2 -n 20 --dry-multiplier 2 -m "$m" >with
loop -s 2 -n 20 --dry-multiplier 2 --dry-sequence-breaker none >without
ok "$(wc -l <with) $(wc -l <without)" '9 9' 'dry, with its breakers and without'
loop -s 2 -n 9 --mirostat 2 --mirostat-ent 3 >one
loop -s 2 -n 9 --mirostat 2 --mirostat-ent 3 --parallel 3 >many
equal one many 'mirostat remembers for each line'
loop -s 2 -n 5 -m "$m" --samplers 'top_k;infill' >out
ok "$?" 0 'infill'
loop -s 2 -n 5 -m "$m" --samplers 'infill;temperature' >out 2>err
ok "$?" 0 'infill on a small vocabulary needs no cut'

# ---- ids and vocabularies that are another model's ----
other() { # TEXT NAME COMMAND...
    text=$1 name=$2
    shift 2
    timeout 20 "$@" prompts -- "$fake" $talk >out 2>err
    ok "$? $(cat out err)" "2 ! $text
sample: $text" "$name"
}
talk=
other '--stop-ids: id 16 is outside the vocabulary of 16' 'a stop id that the model lacks' sample \
    --stop-ids 3,16
talk=vocab=368
other '--grammar-trigger-id: id 368 is outside the vocabulary of 368' 'a trigger that it lacks' \
    sample -m "$m" --regex x --grammar-trigger-id 367 --grammar-trigger-id 368
talk=vocab=300
other "$m: the vocabulary has 368 ids, that of fake 300" 'a vocabulary with more ids' sample \
    -m "$m" --stop x
talk='vocab=368 eos=0'
other "$m: the vocabulary ends texts with id 365, that of fake with 0" 'or with another end' \
    sample -m "$m" --stop x
printf '3\n' >in
for talk in 'vocab=400 eos=365' vocab=367 'vocab=368 eos=5 eog=5,365' vocab=368; do
    ok "$(sample -m "$m" --greedy -n 2 --stop-ids 366 --stop zqzq in -- "$fake" $talk)" '4 5 ' \
        "but not $talk"
done
"$fake" vocab=17 <in >other.lg
sample -m "$m" --greedy other.lg >out 2>err
ok "$? $(cat err)" "2 sample: other.lg: $m: the vocabulary has 368 ids, that of fake 17" \
    'nor for the filter'

# ---- ids that end answers, named by a grammar ----
printf 'root ::= <[81]> <[82]> <[83]>' >named.gbnf
ok "$(echo 80 | sample -q --greedy -n 9 -m "$m" --grammar named.gbnf -- "$fake" vocab=368 eog=82)" \
   '81 82 83 82 ' 'are part of the text where it asks for them, and the end behind it'
ok "$(echo 80 |
    sample -q --greedy -n 9 --stop-ids 82 -m "$m" --grammar named.gbnf -- "$fake" vocab=368 \
    eog=82)" \
   '81 82 ' 'but an id to stop at stops'

# ---- sequences that the model has tokens of already ----
past() { # PARALLEL OPTION...: what follows the ids in a, a line each
    awk '{ print $NF }' a >last
    sample --ignore-eos -s 5 -n 7 --record b.tsv --parallel "$@" last -- \
        decode -i -m "$m" --load-state past >b
}
loop --ignore-eos -s 5 -n 12 --record whole.tsv >whole
sample --ignore-eos -s 5 -n 5 --parallel 9 --record a.tsv prompts -- \
    decode -i -m "$m" --save-state past >a
for how in '' '--draft-ngram 2' '--draft-ngram 1 --draft-max 2'; do
    # shellcheck disable=SC2086
    past 9 $how
    paste -d '\0' a b >joined
    equal joined whole "lines go on with saved sequences, $how"
    sort -n -k 1,1 -k 2,2 a.tsv b.tsv >joined
    equal joined whole.tsv 'at the positions that their tokens have'
done
past 4 2>err
head -n 4 whole >want
head -n 4 a >begun
head -n 4 b | paste -d '\0' begun - >joined
equal joined want 'as many as there are at once'
tail -n 5 b >got
awk 'NR <= 4 { print 1 } NR > 4' last |
    sample --ignore-eos -s 5 -n 7 --parallel 9 - -- decode -i -m "$m" | tail -n 5 >want
equal got want 'and the others begin anew'
head -n 1 prompts >first
sample --ignore-eos -s 5 -n 9 first -- decode -i -m "$m" -c 16 --save-state past >a
awk '{ print $NF }' a >last
sample --ignore-eos -s 5 -n 9 --draft-ngram 2 last -- decode -i -m "$m" -c 16 --load-state past >b \
    2>err
ok "$? $(wc -w <b | tr -d ' ') $(sed 's/.*: //' err)" \
    '2 7 the context of 16 tokens is full, 7 generated' 'what was there counts for the context'
sample --ignore-eos -s 5 -n 9 last -- decode -i -m "$m" -c 16 --context-shift --load-state past |
    wc -w >b
ok "$(tr -d ' ' <b)" 9 'which may be shifted'
seq -s ' ' 10 23 >begun
seq -s ' ' 40 51 >rest
decode -i -q -c 16 -m "$m" --save-state past begun >frames
sample --greedy --ignore-eos -n 30 rest -- \
    decode -i -m "$m" -c 16 --context-shift --load-state past >b
paste -d ' ' begun rest |
    sample --greedy --ignore-eos -n 30 - -- decode -i -m "$m" -c 16 --context-shift >want
equal b want 'by the first line already'
for model in mamba2 rwkv7; do
    sample --greedy -n 30 first -- decode -i -m "$root/tests/data/recurrent/$model.gguf" >whole
    sample --greedy -n 5 first -- decode -i -m "$root/tests/data/recurrent/$model.gguf" \
        --save-state past >a
    awk '{ print $NF }' a | sample --greedy -n 25 --draft-ngram 1 - -- \
        decode -i -m "$root/tests/data/recurrent/$model.gguf" --load-state past |
        paste -d '\0' a - >joined
    equal joined whole "$model goes on, too"
done
echo "1..$n"
