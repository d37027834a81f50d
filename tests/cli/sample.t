#!/bin/sh
# sample.t - sample as a filter and as a loop: options, streams, statuses, children that
# fail at every point; speaks TAP.
. "$(dirname "$0")/../tap.sh"
fake=$root/tests/cli/fake-decode
# run STATUS STDOUT STDERR NAME COMMAND...: newlines of the output are shown as '|'; an
# expected text that ends in '*' is a beginning.  Standard input is ./in.
run() {
    want=$1 out=$2 err=$3 name=$4
    shift 4
    timeout 20 "$@" <in >out 2>err
    ok $? "$want" "$name: status"
    for f in out err; do
        eval "w=\$$f"
        got=$(tr '\n' '|' <$f)
        case $w in
        *'*') case $got in "${w%\*}"*) got=$w ;; esac ;;
        esac
        ok "$got" "$w" "$name: std$f"
    done
}

# A logits stream: lines "SEQUENCE POSITION TOKEN LOGIT...", sequences in all, sampling.
stream() { # SEQUENCES [SAMPLING]
    perl -e '
        binmode STDOUT;
        my @rows = map { [split] } <STDIN>;
        my $v = @rows ? @{$rows[0]} - 3 : 3;
        my $j = "{\"model\":\"m\",\"arch\":\"a\",\"n_vocab\":$v,\"n_ctx\":9,\"bos\":-1,\"eos\":0,"
            . "\"eog\":[0],\"add_bos\":false,\"decoder_start\":-1,\"sampling\":"
            . ($ARGV[1] || "{}") . ",\"program\":\"p\",\"version\":\"1\"}";
        $j .= " " while (16 + length $j) % 64;
        print "LMLG", pack("V3", 1, $v, length $j), $j;
        for (@rows) {
            my ($s, $p, $t, @l) = @$_;
            @l = map { /^nan$/ ? unpack("f<", "\0\0\xc0\x7f") : /inf/ ? $_ * 9**9**9 : $_ }
                map { s/^-inf$/-1inf/r } @l;
            print pack("V6f<V", 0, 4 * $v, $s, $p, $t, $v, 0, 0), pack("f<*", @l);
        }
        print pack("V6f<V", 3, 0, $ARGV[0], 0, 0, scalar @rows, 0, 0);
    ' "$@"
}

# A command that never writes is told of after ten seconds; at the end it is looked at.
printf '1\n' >silent.in
timeout 14 sample -- cat <silent.in >silent.out 2>silent.err &
silent=$!

# ---- the filter ----
printf '%s\n' '0 0 1 1 3 2' '0 1 1 3 1 2' '2 0 1 1 2 3' | stream 4 >in
run 0 '1 0 ||2 ||' '' 'a line for each sequence, with or without frames' sample --greedy
run 0 '1 0 ||2 ||' '' 'a file operand' sample --greedy in
run 0 '1 0 ||2 ||' '' 'temperature 0 is greedy' sample --temp 0
run 0 '1 0 ||2 ||' '' 'top-k 1 is greedy' sample -q --top-k 1 --temp 3
run 0 '2 2 ||2 ||' '' 'a banned id' sample --greedy --logit-bias 1-inf --logit-bias 0-9 \
    --logit-bias=2+1 in
run 0 '1 2 ||2 ||' '' 'no end of text' sample --greedy --ignore-eos
run 0 '1 0 ||2 ||' 'sample: samplers: temperature temp=0 dynatemp-range=0 dynatemp-exp=1|' \
    '-v shows the chain' \
    sample -v --samplers=temp --greedy
run 0 '0	0	0	1	0.66524095577*' '' 'a table of chances' \
    sample --samplers '' --probs 2
run 0 '0	0	0	1	1|0	1	0	0	1|2	0	0	2	1|' '' 'what a chain leaves' \
    sample --greedy --probs 0
run 0 '1 0 ||2 ||' '' '--greedy holds whatever the list' sample --greedy --samplers 'top_k'
cat in in >two; mv two in
run 0 '1 0 ||2 ||1 0 ||2 ||' '' 'streams concatenate' sample --greedy
run 0 '1 0 ||2 ||1 0 ||2 ||' '' 'a min-p above 1 leaves the best' sample -q --min-p 1.05
printf '0 0 1 1 3 2\n' | stream 1 '{"temp":0}' >in
run 0 '1 |' '' "the model's own temperature" sample
run 0 '1 |' 'sample: seed *' 'an option overrides it' sample --temp 1e-9
printf '0 0 1 1 3 2\n' | stream 1 '{"top_p":2}' >in
run 1 "! in: the model's sampling.top_p: 2 is out of range: not a number from 0 to 1|" '*' \
    "a model's default out of range" sample in
stream 0 </dev/null >in
run 0 '' '' 'a stream without sequences' sample
zstd -q in -o in.zst 2>/dev/null && mv in.zst in && run 0 '' '' 'a compressed stream' sample

# Penalties see the tokens of the frames, and lower negative logits too.
printf '%s\n' '0 0 0 -1 -1.5 -9' '0 1 2 -1 -1.5 -9' '1 0 1 -1 -1.5 -9' | stream 2 >in
run 0 '1 0 |0 |' '' 'repeat penalty' sample --greedy --repeat-penalty 2 --repeat-last-n 1
run 0 '1 1 |0 |' '' 'over the whole sequence' sample --greedy --repeat-penalty 2 \
    --repeat-last-n -1 \
    --frequency-penalty 0 --presence-penalty 0
run 0 '0 0 |0 |' '' 'over nothing' sample --greedy --repeat-penalty 2 --repeat-last-n 0

# ---- input that is wrong ----
printf '%s\n' '0 0 1 1 3 2' '0 1 1 nan 3 2' | stream 1 >in
run 1 '1 ! <stdin>: sequence 0, position 1: id 0: the logit is NaN|' \
    'sample: <stdin>: sequence 0, position 1: id 0: the logit is NaN|' 'NaN' sample --greedy
printf '%s\n' '3 7 1 -inf -inf -inf' | stream 4 >in
run 1 '|||! in: sequence 3, position 7: no token can be chosen: every logit is -inf|' '*' \
    'nothing to choose' sample --greedy in
printf '%s\n' '0 0 1 -inf 1 inf' | stream 1 >in
run 0 '2 |' '' 'a logit of +inf wins' sample -q
run 1 '! <stdin>: sequence 0, position 0: no token can be chosen: the logit bias leaves none|' '*' \
    'a ban on the last candidate' sample -q --logit-bias 2-inf
printf '%s\n' '1 0 1 1 2 3' '0 0 1 1 2 3' | stream 2 >in
run 1 '|2 ! <stdin>: sequence 0, position 0: the frame is out of order|' '*' 'order' sample --greedy
printf '%s\n' '0 0 1 1 2 3' '999999999 0 1 1 2 3' | stream 2 >in
run 1 \
    '2 ! <stdin>: sequence 999999999: 999999999 sequences without tokens before it make no sense|' \
    '*' \
    'a gap that would be a thousand million lines' sample --greedy
printf '%s\n' '0 3 1 1 2 3' '0 3 1 1 2 3' | stream 1 >in
run 1 '2 ! <stdin>: sequence 0, position 3: the frame is out of order|' '*' 'a position twice' \
    sample --greedy
printf '%s\n' '3 0 1 1 2 3' | stream 1 >in
run 1 '|||2 ! <stdin>: the end frame counts 1 sequences, but number 3 was there|' '*' \
    'an end that counts too few' sample --greedy
stream 2000000000 </dev/null >in
run 1 \
    '! <stdin>: sequence 2000000000: 2000000000 sequences without tokens before it make no sense|' \
    '*' \
    'or too many' sample --greedy
printf '%s\n' '0 0 1 1 2 3' '0 1 1 1 2 3' | stream 1 >in
printf '0\t1\t2\n0\t2\t3\n' >record
why='--replay: sequence 0, position 2: id 3 is outside the vocabulary of 3'
run 1 "! $why|" "sample: $why|" 'a record of another vocabulary' sample --replay record
run 1 '! --replay: sequence 0, position 2: id 3 is outside the vocabulary of 3|' '*' \
    'and in a loop' sh -c 'echo 1 | sample -n 1 --replay record -- "$@"' sh "$fake" vocab=3
: >in
run 1 '! <stdin>: holds no logits stream|' 'sample: <stdin>: holds no logits stream|' \
    'no input' sample
printf 'tokens\n' >in
run 1 '! <stdin>: not a logits stream|' '*' 'input of another kind' sample
printf '5 6\n7\n' >in
run 1 '! in: these look like tokens, not logits: to generate, a command is needed: *' \
    'sample: in: these look like tokens, not logits: to generate, a command is needed: -- decode '\
'-i -m MODEL|' \
    'tokens without a command' sample in
printf '5 6\n7\n' | "$fake" at=1 code=4 >in
run 2 '7 ! <stdin>: as asked for|' 'sample: <stdin>: as asked for|' 'an error frame' sample --greedy
printf '5 6\n7\n' | "$fake" at=0 code=2 >in
run 1 '! <stdin>: as asked for|' '*' 'an error frame about the input' sample --greedy

printf '%s\n' '0 0 1 1 3 2' '1 0 1 3 1 2' | stream 2 >whole
size=$(wc -c <whole) bad=
for cut in 1 3 4 15 16 17 100 191 192 193 220 223 224 230 235 236 237 250 267 268 270 279 280 281 \
    311; do
    [ "$cut" -lt "$size" ] || { bad="$bad cut $cut of $size"; continue; }
    head -c "$cut" whole | sample --greedy >out 2>err
    s=$?
    [ "$s" = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q '! ' out || bad="$bad $cut"
done
ok "$bad" '' 'a stream cut anywhere: status 1, one message, the line not completed'

# ---- schemas that ask for what is not done ----
printf '3' >in
for k in divisibleBy=3:multipleOf disallow=3:not extends=3:allOf \
    '$recursiveRef=2019-09:$dynamicRef'; do
    word=${k%%=*} draft=${k#*=}
    echo "{\"items\":{\"$word\":3}}" >old.json
    run 2 '' "sample: old.json: #/items/$word: a keyword of draft ${draft%:*}, for which \
${draft#*:} is read|" "the older keyword $word" sample --check-grammar old.json
done
for s in '{"type":"object","properties":{"a":{}},"minProperties":2}' \
    '{"type":"array","prefixItems":[{}],"minItems":2}'; do
    echo "$s" >closed.json
    run 2 '' "sample: closed.json: the schema can only be completed with members or items that its \
properties and prefixItems do not name: *" "$s" sample --check-grammar closed.json
done
printf '[1, 2]' >in
run 0 '' '' 'and what it is when it is open' sample --open-objects --check-grammar closed.json
echo '{"type":"string","minLength":2,"maxLength":1}' >never.json
run 2 '' 'sample: never.json: the schema can never be completed|' \
    'a schema that nothing satisfies' \
    sample --check-grammar never.json

# ---- the command line ----
usage() { # WHAT ARGUMENT...
    what=$1; shift
    sample "$@" <whole >out 2>err
    ok "$? $(wc -c <out) $(wc -l <err) $(grep -c "$what" err)" '2 0 2 1' "refused: $*"
}
usage "'nan' is not a number" --temp nan
usage 'not a number from 0 to 1' --top-p 1.5
usage 'not a number not below 0' --min-p=-1
usage 'not a number above 0' --repeat-penalty 0
usage 'not below -1' --repeat-last-n -2
usage "'1.5' is not a whole number" --top-k 1.5
usage "'1e3' is not a whole number" --top-k 1e3
usage 'not a number above 0, at most 1000000' --dynatemp-exp=0
usage 'not a number not above 1' --samplers=a --adaptive-p-target=2
usage 'not a number above 0, at most' --mirostat-ent=0
usage 'not a number above 0, at most' --mirostat-lr=0
usage "top-p: 'nan' is not a number from 0 to 1" --top-p=nan
for o in record replay model check-grammar grammar json-schema; do
    usage "$o: the name of the file is empty" "--$o="
done
usage "is not one of penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature, \
adaptive_p, infill" --samplers 'top_k;what'
usage 'is not an id' --logit-bias 5
usage 'is not an id' --logit-bias 5+nan
usage 'is not an id' --logit-bias x+1
usage 'is not a list of ids' --stop-ids 1,,2 -- true
usage 'needs a command' --stop-ids 1
usage 'needs a command' -n 5
usage 'exclude each other' --greedy --temp 1
usage "'-1' is not a number" -s -1
usage 'one operand only' whole whole
usage 'no command after --' --
usage 'from 0 to 2' --mirostat 3
usage 'needs -m for its sequence breakers' --dry-multiplier 1
usage 'stop needs the vocabulary' --stop x -- true
usage 'min-tokens needs a command' --min-tokens 1
usage 'draft and --draft-ngram exclude each other' --draft x --draft-ngram 2 -- true
usage 'infill needs the vocabulary' --samplers infill
usage 'unrecognized option' --grammer g
for option in --model --grammar --json-schema --replay --check-grammar; do
    for path in nothere /; do
        case $option in
        --grammar|--json-schema) sample -m "$m" "$option=$path" -- "$fake" <in >out 2>err ;;
        *) sample "$option=$path" <in >out 2>err ;;
        esac
        ok "$? $(wc -l <err) $(grep -c "^sample: $path: " err)" '2 1 1' \
            "$option $path: the message names the file"
    done
done
sample --record nothere/record <whole >out 2>err
ok "$? $(cut -c 1-24 err)" '2 sample: nothere/record: ' 'so it does for a record'
sample --top-k 3 --samplers 'Top-P;m' <whole >out 2>err
ok "$(head -n 1 err)" 'sample: --top-k has no effect: its sampler does not run' \
    'an option of a sampler not listed is noted'
vain() { # WHAT OPTION...
    what=$1; shift
    sample -s 1 "$@" <whole >out 2>err
    ok "$? $(cat err)" "0 sample: $what" "told: $*"
    sample -s 1 -q "$@" <whole >out 2>err
    ok "$? $(cat err)" '0 ' "not told: -q $*"
}
vain '--samplers has no effect: mirostat runs in their place' --mirostat=2 --samplers=k
vain '--mirostat has no effect: the best token is always taken' --greedy --mirostat=2
vain '--json-gap has no effect without --json-schema' --json-gap=one
vain '--open-objects has no effect without --json-schema' --open-objects
vain '--strict-schema has no effect without --json-schema' --strict-schema
vain '--draft-max has no effect without --draft, --draft-head or --draft-ngram' --draft-max=3
for o in start=a end=b message=c; do
    vain '--reasoning-start, -end or -message has no effect without --reasoning-budget' \
        --reasoning-$o
done
vain '--dry-sequence-breaker has no effect without --dry-multiplier' --dry-sequence-breaker=none
sample -q --top-k 3 --samplers 'Top-P;m' <whole 2>err >out.q
ok "$(wc -c <err)" 0 'unless -q'
sample --logit-bias 3+1 <whole >out 2>err
ok "$? $(cat err)" '2 sample: <stdin>: --logit-bias: id 3 is outside the vocabulary of 3' \
    'a bias for an id that is not there'

# The page's table and the rows of the samplers agree.
sample --list-samplers | awk -F '\t' '{ for (i = 3; i <= NF; i++) {
    split($i, o, "="); print (i == 3 ? $1 " " $2 : ""), o[1], o[2] }
    if (NF == 2) print $1 " " $2, "", "" }' >rows
sed -n '/^\.Bl -column/,/^\.El/s/^\.It \([^S].*\)/\1/p' "$root/man/sample.1" |
    sed 's/ Ta /\t/g; s/""//g' |
    awk -F '\t' '{ print ($1 ? $1 " " $2 : ""), $3, $4 }' >page
ok "$(diff rows page)" '' 'the table of samplers in the page is that of the program'
sample --help | sed '/=[A-Z]*$/{N;s/\n */ /;}' |
    sed -n 's/^ *\(--[a-z-]*\)=[A-Z].*\[\([^;]*\); \(.*\)\]$/\1 \2 \3/p' | sort >rows
sed -n '/^\.Bl -column/,/^\.El/s/^\.It \([^S].*\)/\1/p' "$root/man/sample.1" |
    sed 's/ Ta /\t/g' | cut -f 3- | tr '\t' ' ' | grep -v '""' | sort -u >page
ok "$(diff rows page)" '' 'and so are the values that switch them off'

ok "$(sample --help | grep '^ *-' | grep -vE '^.{27} [^ ]|^ {6}--[^ ]+(, --[^ ]+)?$')" '' \
    'what an option does begins in one column, or on a line of its own'

# ---- seeds ----
awk 'BEGIN {
    for (s = 0; s < 8; s++) { printf "%d 0 1", s; for (i = 0; i < 100; i++) printf " 0"; print "" }
}' | stream 8 >flat
draw="sample --top-k 0 --top-p 1 --min-p 0 --temp 1"
for i in 1 2 3 4 5; do
    $draw <flat >run.$i 2>seed.$i
    s=$(sed -n 's/^sample: seed //p' seed.$i)
    $draw --seed "$s" <flat 2>err | cmp -s - run.$i || echo "$s: differs"
    cat err
done >again
ok "$(cat again)" '' 'a shown seed repeats the run, and is not shown again'
ok "$(cat run.? | sort | uniq -c | awk '$1 == 5' | wc -l)" 0 'no seed: another run'
# Of 100 equal logits the number u draws floor(100 u); these u come from Philox4x32-10 written in
# Python.
ok "$($draw -s 0 <flat | tr -d '\n')" '79 55 1 40 56 95 62 0 ' 'seed 0 is a seed like others'
ok "$($draw -s 4294967295 <flat | tr -d '\n')" '52 60 3 15 88 68 77 27 ' 'and so is 2^32 - 1'
ok "$($draw -s 1099511627781 <flat | tr -d '\n')" '7 17 5 14 26 50 76 9 ' 'and one of 41 bits'
ok "$($draw -q <flat 2>&1 >/dev/null)" '' '-q hides the seed'

# ---- the loop ----
printf '3 4\n12\n' >in
run 0 '5 6 7 |13 14 15 |' '' 'a line for each prompt' sample --greedy -n 3 -- "$fake" log=log
ok "$(tr '\n' '|' <log)" '3 4|5|6|@0 12|13|14|end|' 'what the child was sent'
run 0 '5 6 7 |13 14 15 |' '' 'prompts from a file' sample -n 3 --greedy in -- "$fake"
run 0 '5 6 7 8 9 10 11 12 13 14 15 0 |13 14 15 0 |' '' 'until the end of the text' \
    sample --greedy -- "$fake"
run 0 '5 6 7 |13 14 15 0 |' '' 'ids to stop at' sample --greedy --stop-ids 7,3 -- "$fake"
run 0 '5 6 |13 14 15 0 1 2 |' '' 'several ids end a text' sample --greedy -- "$fake" eog=2,6
run 0 '||' '' 'no ids asked for' sample --greedy -n 0 -- "$fake"
run 0 '0	1	0	5	1|1	0	0	13	1|' '' 'a table of chances' sample --greedy --probs 0 -n 1 -- "$fake"
printf '3 4' >in
run 1 '! <stdin>: line 1: the input ends inside the line|' '*' 'a prompt cut short' \
    sample --greedy -n 3 -- "$fake"
printf '3 4\n\n5\n' >in
run 1 '5 6 7 |! <stdin>: line 2: the prompt is empty|' \
    'sample: <stdin>: line 2: the prompt is empty|' 'an empty prompt' \
    sample --greedy -n 3 -- "$fake" log=log
ok "$(tail -n 1 log)" end 'its child sees the end of its input'
printf '3 4\n5 ! tokenize: no such model\n6\n' >in
run 1 '5 6 7 |! tokenize: no such model|' \
    'sample: <stdin>: line 2: its producer failed: tokenize: no such model|' \
    'what the producer of prompts says is passed on' sample --greedy -n 3 -- "$fake"
run 2 "! $fake: answers no requests: it wants -i|" \
    "sample: $fake: answers no requests: it wants -i|" \
    'a command that answers no requests' sample --greedy -n 3 -- "$fake" loop=false
: >in
run 0 '' '' 'no prompts' sample --greedy -n 3 -- "$fake"

# Error frames.
printf '3 4\n12\n' >in
run 2 '5 6 |13 14 15 |' \
    'sample: <stdin>: line 1: the context of 3 tokens is full, 2 generated|' \
    'a full context, and more was asked for' sample --greedy -n 3 -- "$fake" ctx=3
run 0 '5 6 |13 14 15 |' 'sample: <stdin>: line 1: the context*' 'a full context' \
    sample --greedy -- "$fake" ctx=3
run 2 "! <stdin>: line 1: $fake: 2 tokens|" "sample: <stdin>: line 1: $fake: 2 tokens|" \
    'a prompt longer than the context' sample --greedy -n 3 -- "$fake" ctx=1
run 1 "! <stdin>: line 1: $fake: as asked for|" '*' 'a prompt longer than the model can' \
    sample --greedy -n 3 -- "$fake" at=0 code=3
for code in 1 2 5 6; do
    run $((code < 3 ? 1 : 2)) "5 ! <stdin>: line 1: $fake: as asked for|" \
        "sample: <stdin>: line 1: $fake: as asked for|" \
        "error frame $code" sample --greedy -n 3 -- "$fake" at=1 code=$code
done
run 1 '! sequence 0, position 1: id 9: the logit is NaN|' '*' 'NaN' sample --greedy -- "$fake" nan=9

# A child that ends too early, at every point, in every way.
printf '3 4\n' >in
for head in 0 2 10 100 ; do
    run 1 "! $fake: *" "sample: $fake: *" "ends after $head bytes" sample --greedy -n 3 -- "$fake" \
        head=$head
    run 2 "! $fake: ended by signal 9 (Killed)|" '*' "killed after $head bytes" \
        sample --greedy -n 3 -- "$fake" head=$head signal=9
    run 3 "! $fake: exit status 3|" "sample: $fake: exit status 3|" "fails after $head bytes" \
        sample --greedy -n 3 -- "$fake" head=$head exit=3
done
for frames in 0 1 2; do
    ids=$(printf '5 6 7 ' | head -c $((2 * frames)))
    for cut in 0 10 32 50; do
        run 1 "$ids! $fake: the stream is cut short*" "sample: $fake: the stream*" \
            "ends $cut bytes after frame $frames" sample --greedy -n 3 -- "$fake" frames=$frames \
            cut=$cut
        run 2 "$ids! $fake: ended by signal 15 (Terminated)|" \
            "sample: $fake: ended by signal 15 (Terminated)|" \
            "killed $cut bytes after frame $frames" \
            sample --greedy -n 3 -- "$fake" frames=$frames cut=$cut signal=15
        run 2 "$ids! $fake: exit status 2|" "sample: $fake: exit status 2|" \
            "fails $cut bytes after frame $frames" \
            sample --greedy -n 3 -- "$fake" frames=$frames cut=$cut exit=2
    done
done
run 1 "5 6 7 |! $fake: the stream is cut*" '*' 'no end frame' sample --greedy -n 3 -- "$fake" \
    noend=1
run 4 "5 6 7 |! $fake: exit status 4|" '*' 'a failure after the end frame' \
    sample --greedy -n 3 -- "$fake" exit=4
run 2 "5 6 7 |! $fake: ended by signal 13 (Broken pipe)|" '*' 'a signal after the end frame' \
    sample --greedy -n 3 -- "$fake" signal=13
run 1 "5 6 7 |! $fake: gives frames that were not asked for|" '*' 'a frame too many' \
    sample --greedy -n 3 -- "$fake" extra=1
echo 1 >one
run 1 "2 3 4 |! $fake: the stream is cut*" '*' 'a child that does not listen' \
    sample --greedy -n 3 one -- "$fake" deaf=1
run 1 "! $fake: answers about token 1 at position 0, and was asked about 4 at 1|" '*' \
    'a child that answers about another token' sample --greedy -n 3 -- "$fake" deaf=1
echo 2 >two
run 1 "! $fake: answers about token 1 at position 0, and was asked about 2 at 0|" '*' \
    'at the same position' sample --greedy -n 3 two -- "$fake" deaf=1
echo 7 1 >two
run 1 "! $fake: answers about token 1 at position 0, and was asked about 1 at 1|" '*' \
    'or about this one at another' sample --greedy -n 3 two -- "$fake" deaf=1
run 0 '5 6 7 |' '' 'frames of unknown kinds' sample --greedy -n 3 -- "$fake" chatter=300000
run 1 '! yes: not a logits stream|' 'sample: yes: not a logits stream|' 'another program' \
    sample --greedy -n 3 -- yes
cat >zeros <<'END'
#!/bin/sh
cat /dev/zero
END
cat >endless <<'END'
#!/bin/sh
"$FAKE" head=1000
cat /dev/zero
END
cat >stubborn <<'END'
#!/bin/sh
trap '' PIPE
cat /dev/zero 2>/dev/null
exit 9
END
cat >banner <<'END'
#!/bin/sh
echo this is how I am used, and not what you want
sleep 0.3
exit 3
END
chmod +x zeros endless stubborn banner
run 1 '! ./stubborn: not a logits stream|' 'sample: ./stubborn: not a logits stream|' \
    'a status that comes of our not reading' sample --greedy -n 3 -- ./stubborn
run 3 '! ./banner: exit status 3|' 'sample: ./banner: exit status 3|' \
    'one that does not' sample --greedy -n 3 -- ./banner
run 1 '! ./zeros: not a logits stream|' 'sample: ./zeros: not a logits stream|' \
    'one whose shell tells that we stopped reading' sample --greedy -n 3 -- ./zeros
echo >in
FAKE=$fake; export FAKE
run 1 '! <stdin>: line 1: the prompt is empty|' 'sample: <stdin>: line 1: the prompt is empty|' \
    'a failure of ours, and a child that never stops' sample --greedy -n 3 -- ./endless
printf '3 4\n' >in
run 2 '! ./none: cannot run: No such file or directory|' \
    'sample: ./none: cannot run: No such file or directory|' 'no such program' sample -n 3 -- ./none
run 2 '! ./in: cannot run: Permission denied|' '*' 'no program' sample -n 3 -- ./in
run 2 '! sh: could not be started: exit status 127|' '*' 'no such program, says a shell' \
    sample -n 3 -- sh -c 'exec ./none 2>/dev/null'

# Long prompts: the child may say no before it has read them.
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%d ", i % 90 + 10; print "" }' >in
run 0 '70 71 |' '' 'a prompt of 180 KB' sample --greedy -n 2 -- "$fake" vocab=200 ctx=99999
run 1 "! $fake: answers before it is asked|" '*' 'an answer before the prompt is read' \
    sample --greedy -n 2 -- "$fake" hasty=1

# ---- outputs that go away; nobody is left behind ----
gone() { # PIDFILE: is the process gone?
    kill -0 "$(cat "$1")" 2>/dev/null && echo alive || echo gone
}
printf '3 4\n' >in
for f in out full closed; do rm -f pid.$f; done
yes '3 4' | head -n 20000 |
    { sample --greedy -n 3 -- "$fake" pid=pid.out linger=30; echo $? >status; } 2>err |
    head -n 1 >out
ok "$(cat out status err | tr '\n' '|') $(gone pid.out)" '5 6 7 |141| gone' \
    'head -n 1 ends it all, quietly'
sample --greedy -n 3 -- "$fake" pid=pid.full linger=30 <in >/dev/full 2>err
ok "$? $(cat err) $(gone pid.full)" \
    '2 sample: <stdout>: write error: No space left on device gone' \
    'a full disk'
sample --greedy -n 3 -- "$fake" pid=pid.closed linger=30 <in >&- 2>err
ok "$? $(cat err) $(gone pid.closed)" '2 sample: <stdout>: write error: Bad file descriptor gone' \
    'a closed output'
sample --greedy whole >/dev/full 2>err
ok "$? $(cat err)" '2 sample: <stdout>: write error: No space left on device' \
    'a full disk under the filter'
(cat whole whole; sleep 1; cat whole) | { sample --greedy; echo $? >status; } 2>err | head -n 1 >out
ok "$(cat out status err | tr '\n' '|')" '1 |141|' 'head -n 1 ends the filter'

# What the caller has open is not passed on: neither low numbers nor high ones.
cat >fds <<'END'
#!/usr/bin/env perl
opendir my $d, '/dev/fd' or die; my $own = fileno $d;
open my $f, '>', 'fds.open';
print $f join ' ', sort { $a <=> $b } grep { /\d/ && $_ != $own && $_ != fileno $f } readdir $d;
exit 9;
END
chmod +x fds
if [ -d /dev/fd ]; then
    perl -e '
        use Fcntl;
        open my $f, "<", "/dev/null" or die;
        for (3, 7, 200) {
            my $n = fcntl($f, F_DUPFD, $_); open my $g, "<&=", $n;
            fcntl($g, F_SETFD, 0); push @keep, $g
        }
        exec @ARGV' sample -n 1 -- ./fds <in >out 2>err
    ok "$? $(cat fds.open)" '9 0 1 2' 'descriptors of the caller are not passed on'
else
    n=$((n + 1)); echo "ok $n - # SKIP no /dev/fd"
fi

# ---- ids come one by one ----
mkfifo prompts
sample --greedy -n 2 prompts -- "$fake" >ids 2>err &
pid=$!
exec 3>prompts
printf '5\n' >&3
t=0
while [ "$(cat ids)" != '6 7 ' ] && [ $t -lt 100 ]; do sleep 0.05; t=$((t + 1)); done
ok "$(cat ids)" '6 7 ' 'a prompt is answered before the next one comes'
exec 3>&-
wait $pid
ok $? 0 'and the end of the prompts is the end'

wait $silent
ok "$? $(cat silent.out silent.err)" "124 sample: cat: has written nothing for 10 seconds; still \
waiting for it, as a large model takes long to load" \
    'a command that never writes'

# ---- the real thing ----
if command -v decode >/dev/null && command -v tokenize >/dev/null; then
    tokenize -m "$m" 'Once upon a time' >in
    sample --greedy -n 12 -- decode -i -m "$m" <in >want 2>err
    ok "$? $(wc -w <want) $(wc -l <want) $(wc -c <err)" '0 12 1 0' 'decode generates'
    decode -i -m "$m" <in >record
    ok "$(sample --greedy -n 1 -- cat record <in)" \
        "$(cut -d ' ' -f 1 want) " 'a record can be replayed'
    size=$(wc -c <record) bad=
    for cut in 0 1 63 64 191 192 200 500 700 1000 $((size - 33)) $((size - 32)) $((size - 1)); do
        sample --greedy -n 1 -- head -c "$cut" record <in >out 2>err
        s=$?
        [ "$s" = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q '! head: ' out || bad="$bad $cut"
    done
    ok "$bad" '' 'but not a part of it'
    sample --greedy -n 3 -- decode -i -m /no/such <in >out 2>err
    ok "$? $(cat out)" '2 ! decode: exit status 2' "decode's own failure"
    # One step of the loop is what the filter makes of one frame.
    ids=$(cat in)
    for i in 1 2 3 4; do
        next=$(echo "$ids" | decode -m "$m" | sample -s 11 | tr -d ' \n')
        ids="$ids $next"
    done
    sample -s 11 -n 4 -- decode -i -m "$m" <in >out 2>err
    ok "$(cat in) $(sed 's/ $//' out)" "$ids" 'loop and filter draw the same ids'
fi
echo "1..$n"
