#!/bin/sh
# decode.t - batches and the loop: numbers against a reference, every fault, every way of
# ending; speaks TAP.
. "$(dirname "$0")/../tap.sh"
golden=$root/tests/data/decode/decode-llama
exact='--cache-k f32 --cache-v f32'
lines() { wc -l <"$1" | tr -d ' '; }
bytes() { wc -c <"$1" | tr -d ' '; }

# The frames of a logits stream, a line each: what stands in them, and of a row its best id.
frames() {
    od -v -A n -t u1 | awk '
        { for (i = 1; i <= NF; i++) b[n++] = $i }
        function u32(p) { return b[p] + 256 * (b[p + 1] + 256 * (b[p + 2] + 256 * b[p + 3])) }
        function f32(p,  u, s, e) {
            u = u32(p); s = u >= 2147483648 ? -1 : 1; u %= 2147483648; e = int(u / 8388608)
            return e ? s * (1 + u % 8388608 / 8388608) * 2 ^ (e - 127) : 0
        }
        function best(p, len,  i, k) {
            for (i = k = 0; i < len; i++) if (f32(p + 4 * i) > f32(p + 4 * k)) k = i
            return k
        }
        END {
            for (p = 16 + u32(12); p < n; p += 32 + size) {
                kind = u32(p); size = u32(p + 4); s = ""
                at = u32(p + 8) ":" u32(p + 12)
                if (kind == 0) print "dense " at " " u32(p + 16) " best " best(p + 32, u32(p + 20))
                if (kind == 1) {
                    for (i = 0; i < u32(p + 20); i++) s = s " " u32(p + 32 + 8 * i)
                    print "top " at " " u32(p + 16) s
                }
                if (kind == 2) {
                    for (i = 0; i < size; i++) s = s sprintf("%c", b[p + 32 + i])
                    print "error " at " code " u32(p + 16) " line " u32(p + 20) ": " s
                }
                if (kind == 3) print "end " u32(p + 8) " " u32(p + 20)
            }
        }'
}
json() { # STREAM: its header's text
    # shellcheck disable=SC2046
    set -- "$1" $(od -v -A n -t u1 -j 12 -N 2 "$1")
    dd if="$1" bs=1 skip=16 count=$(($2 + 256 * $3)) 2>/dev/null
}

# The largest difference between two tables of numbers in columns from FIRST on; columns
# before it must be equal, except those in SKIP.
distance() { # A B FIRST SKIP
    paste "$1" "$2" | awk -v first="$3" -v skip="$4" '
        { c = NF / 2
          for (i = 1; i < first; i++) if (i != skip && $i != $(i + c)) { print "line " NR; exit }
          for (i = first; i <= c; i++) {
              d = $i - $(i + c); if (d < 0) d = -d; if (d > most) most = d
          } }
        END { print most + 0 }'
}
within() { # A B FIRST SKIP TOLERANCE NAME
    ok "$(lines "$1")" "$(lines "$2")" "$6: as many lines"
    d=$(distance "$1" "$2" "$3" "$4")
    d=$(echo "$d $5" | awk '{ print $1 ~ /^[0-9.e-]+$/ && $1 + 0 <= $2 ? "close" : $0 }')
    ok "$d" close "$6"
}

# ---- numbers against transformers' ----
for how in '' '-u 1' '-u 7' '-b 1' '-b 7' '-b 64 -u 5' --no-repack '--load read' '-t 3'; do
    # shellcheck disable=SC2086
    decode --text --all --top 3 $exact $how -m "$m" "$golden.tokens" >got
    within got "$golden.tsv" 6 0 1e-4 "logits, F32 cache, ${how:-default batches}"
done
for how in '' '-u 1' '-u 7'; do
    # Two ids closer than the tolerance may change places: the k-th best is compared.
    # shellcheck disable=SC2086
    decode --text --all --top 3 $how -m "$m" "$golden.tokens" >got
    within got "$golden.tsv" 6 5 2e-2 "logits, F16 cache, ${how:-default batches}"
done
# shellcheck disable=SC2086
decode --nll $exact -m "$m" "$golden.tokens" >got
within got "$golden-nll.tsv" 4 0 1e-4 "negative log-likelihoods"

for type in bf16 q8_0 q5_0 q5_1 q4_0 q4_1 iq4_nl; do
    case $type in bf16 | q8_0) near=0.02 ;; *) near=0.3 ;; esac
    decode --nll --cache-k $type --cache-v $type -m "$m" "$golden.tokens" >got
    within got "$golden-nll.tsv" 4 0 $near "negative log-likelihoods, $type cache"
done

# Every logit.
tail -c +129 "$root/tests/data/logits.npy" | od -v -A n -t f4 -w4 >want
for u in 1 7 512; do
    # shellcheck disable=SC2086
    decode --all $exact -u $u -m "$m" "$golden.tokens" >stream
    tail -c +$((17 + $(json stream | wc -c))) stream | od -v -A n -t f4 -w$((32 + 4 * 368)) |
        awk 'NF > 8 { for (i = 9; i <= NF; i++) print $i }' >got
    within got want 1 0 1e-4 "every logit, -u $u"
done

# ---- the same bytes ----
decode --all -t 1 -m "$m" "$golden.tokens" >one
for t in 2 3; do
    decode --all -t $t -m "$m" "$golden.tokens" >got
    cmp one got;                          ok $? 0 "the same bytes with $t threads"
done
{ head -n 1 "$golden.tokens"; sleep 0.3; tail -n 2 "$golden.tokens"; } |
    decode --all -t 1 -m "$m" >got
cmp one got;                              ok $? 0 "the same bytes whatever the pipe's timing"
zstd -q -c "$golden.tokens" 2>/dev/null >z && {
    decode --all -t 1 -m "$m" z >got;     cmp one got; ok $? 0 "zstd input"; }

# ---- forms ----
printf '1 2 3\n\n4\n' >in
decode -m "$m" in >got;                   ok $? 0 "a batch succeeds"
ok "$(frames <got | sed 's/ best.*//')" "dense 0:2 3
dense 2:0 4
end 3 2" "a row for the last token of each sequence that has one"
ok "$(decode --all -m "$m" in | frames | sed 's/ best.*//')" "dense 0:0 1
dense 0:1 2
dense 0:2 3
dense 2:0 4
end 3 4" "--all: a row for each token"
decode --top 4 -m "$m" in | frames >tops
ok "$(cut -d' ' -f1-3 tops)" "top 0:2 3
top 2:0 4
end 3 2" "--top: frames of the best"
decode --top 4 --text -m "$m" in | awk '{ s[$1] = s[$1] " " $5 } END { print s[0] "\n" s[2] }' >have
ok "$(cat have)" "$(sed -n 's/^top [0-9:]* [0-9]*//p' tops)" "--text has the same ids"
ok "$(frames <got | sed -n 's/.*best//p')" "$(awk '/^top/ { print " " $4 }' tops)" \
   "the dense row has the same best id"
ok "$(decode --top 1000 -m "$m" in | frames | awk '{ print NF - 3; exit }')" 368 \
   "--top stops at the vocabulary"
ok "$(decode --text -m "$m" in | wc -l | tr -d ' ')" 736 "--text without --top has every id"
ok "$(decode --text --header -m "$m" in | sed -n 1p)" \
   "$(printf 'sequence\tposition\ttoken\trank\tid\tlogit\tlogprob')" "--header names the columns"
ok "$(decode --nll --header -m "$m" in | sed -n 1p)" \
   "$(printf 'sequence\tposition\ttoken\tnll')" "--header names those of --nll"
ok "$(decode --nll -m "$m" in | cut -f1-3)" "$(printf '0\t1\t2\n0\t2\t3')" \
   "--nll: each token after the first"
ok "$(decode -m "$m" </dev/null | frames)" "end 0 0" "no input: an end frame"
ok "$(decode --text -m "$m" </dev/null)" "" "no input: no text"
ok "$(printf '\n\n' | decode -m "$m" | frames)" "end 2 0" "empty sequences have no frames"
decode -m "$m" in in 2>err;               ok $? 2 "one file only"

json got >head
ok "$(od -A n -t u1 -N 12 got | tr -s ' ')" " 76 77 76 71 1 0 0 0 112 1 0 0" \
   "magic, version, vocabulary"
ok "$((($(bytes head) + 16) % 64))" 0 "frames begin at a multiple of 64"
for member in '"model":"Llama"' '"arch":"llama"' '"n_vocab":368' '"n_ctx":512' '"bos":360' \
    '"eos":365' '"eog":[' '"add_bos":true' '"decoder_start":-1' '"loop":false' '"sampling":{}' \
    '"program":"decode"' '"version":"'; do
    has "$(cat head)" "$member" "the header has $member"
done
decode -c 16 -m "$m" in >got;             json got >head
has "$(cat head)" '"n_ctx":16' "-c is the header's n_ctx"
decode -c 1000 -m "$m" in >got;           json got >head
has "$(cat head)" '"n_ctx":512' "which is at most the training length"

# ---- chunks ----
# Chunks of 8: tokens 1 to 7 of each after a start token, whatever the eighth before was.
# shellcheck disable=SC2086
decode --nll --chunk 8 $exact -m "$m" "$golden.tokens" >got 2>err; ok $? 0 "--chunk succeeds"
awk '{ for (c = 0; c + 8 <= NF; c += 8) {
           s = 360; for (i = 2; i <= 8; i++) s = s " " $(c + i)
           print s
       } }' "$golden.tokens" >pieces
# shellcheck disable=SC2086
decode --nll $exact -m "$m" pieces | cut -f3- >want
cut -f3- got >have
within have want 2 0 1e-5 "chunks are sequences of their own"
ok "$(cut -f1,2 got | sed -n '1p;8p;15p' | tr '\t\n' '  ')" "0 1 0 9 1 1 " \
   "positions are the line's"
ok "$(grep -c 'left out' err)" 2 "what is less than a chunk is left out with a note"
echo '1 2 3' | decode --nll --chunk 8 -q -m "$m" >got 2>err; ok $? 1 "less than one chunk: status 1"
has "$(cat err)" "no line has the 8 tokens of a chunk" "and the reason"
decode --nll --chunk 513 -m "$m" in >got 2>err; ok $? 2 "chunks longer than the context: status 2"

# ---- ids that are none ----
bad() { # LINE STATUS CODE PART NAME
    printf '5 6\n7 %b 8\n' "$1" | decode -m "$m" >got 2>err
    ok $? "$2" "$5: status $2"
    ok "$(lines err)" 1 "$5: one line"
    has "$(cat err)" "decode: <stdin>: line 2: " "$5: the place"
    has "$(cat err)" "$4" "$5: the reason"
    ok "$(frames <got | sed 's/ best.*//; s/: line.*//')" "dense 0:1 6
error 1:1 code $3 line 1" "$5: what was complete, then an error frame"
}
for id in -1 368 2147483648 99999999999999999999; do
    bad "$id" 1 2 "$id is outside the vocabulary of 368" "id $id"
done
for word in abc 1.5 +3 0x1 '1\0002'; do
    bad "$word" 1 1 "is no token id, in a vocabulary of 368" "word $word"
done
bad '! out of tea\n' 1 1 "its producer failed: out of tea" "a producer's error"
printf '1 2\n3 4 999\n' | decode --all -m "$m" 2>/dev/null | frames >have
ok "$(sed 's/ best.*//; s/: .*//' have)" \
"dense 0:0 1
dense 0:1 2
dense 1:0 3
dense 1:1 4
error 1:2 code 2 line 1" "--all: every token before the fault is answered"

printf '1 2 3\n4 5\n' >whole
i=1
while [ $i -lt 10 ]; do
    head -c $i whole | decode -m "$m" >got 2>err; s=$?
    [ $i = 6 ] && want='0 end' || want='1 error'
    ok "$s $(frames <got | sed -n '$s/ .*//p')" "$want" "input cut after $i bytes"
    i=$((i + 1))
done

# ---- lengths ----
count() { # N: a line of so many ids
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%s%d", i ? " " : "", i % 300; print "" }'
}
for k in 15 16; do
    count $k | decode -c 16 -m "$m" >got
    ok "$? $(frames <got | sed 's/ [0-9]* best.*//')" "0 dense 0:$((k - 1))
end 1 1" "$k tokens in a context of 16"
done
count 17 | decode -c 16 -m "$m" >got 2>err; ok $? 2 "17 tokens: status 2"
has "$(cat err)" "17 tokens, and the context has 16" "17 tokens: both numbers"
ok "$(frames <got)" "error 0:16 code 4 line 0: line 1: 17 tokens, and the context has 16" \
   "17 tokens: an error frame"
count 600 | decode -c 16 -m "$m" >got 2>err; ok $? 1 "600 tokens, whatever -c: status 1"
count 512 | decode -m "$m" >got 2>err;     ok $? 0 "512 tokens, the training length"
count 513 | decode -m "$m" >got 2>err;     ok $? 1 "513 tokens: status 1"
has "$(cat err)" "513 tokens or more, and the model was trained for 512" "513 tokens: both numbers"
ok "$(frames <got | cut -d: -f1,2)" "error 0:512 code 3 line 0" "513 tokens: an error frame"

# ---- the loop ----
cat >requests <<'END'
1 2 3
4 5
7: 1 2 3
7: @1 +2 2 3
+0 6
7: 999
7: abc
7: +5 1
7: @9 1
8: <7
8: e 1 2
7: x
7: @0 +1 1 2 3

+3 1 2 3
5:
5: @0
5: 1 -1 2
END
decode -i --top 1 -m "$m" requests >got 2>err; ok $? 0 "a loop succeeds"
ok "$(cat err)" "" "error frames are for the peer"
decode --all --top 1 -m "$m" >refs <<'END'
1 2 3 4 5 6
END
after() { frames <refs | awk -v at="0:$1" '$2 == at { print $4 }'; }    # best id after position
r1=$(after 0) r2=$(after 1) r3=$(after 2) r5=$(after 4)
ok "$(frames <got)" "top 0:2 3 $r3
top 0:4 5 $r5
top 7:2 3 $r3
top 7:1 2 $r2
top 7:2 3 $r3
error 7:3 code 2 line 5: id 999 is outside the vocabulary of 368
error 7:3 code 1 line 6: 'abc' is no token id
error 7:3 code 1 line 7: +5 wants more frames than the line has ids, 1
error 7:3 code 1 line 8: @9 is beyond the 3 tokens of the sequence
error 8:3 code 6 line 10: the model has no encoder
top 7:2 3 $r3
top 0:0 1 $r1
top 0:1 2 $r2
top 0:2 3 $r3
error 5:0 code 2 line 17: id -1 is outside the vocabulary of 368
end 18 15" "every request is answered, in order"
decode -i -b 2 --top 1 -m "$m" requests | frames >small
ok "$(cat small)" "$(frames <got)" "and the same with requests longer than a batch"

# ---- copies ----
{ echo '0: 1 2 3'; echo '5: <0'; echo '5: 4'; echo '0: 4'; echo '9: <5'; echo '9: @3 +1 4 5'
  echo '5: <77'; echo '5: @0'; echo '5: @1 1'; echo '0: <0'; echo '0: 5'; } >forks
decode -i -m "$m" forks | frames >got
printf '1 2 3 4 5\n' | decode --all -m "$m" | frames >whole
best() { awk -v at="0:$1" '$2 == at { print $5 }' whole; }
ok "$(cat got)" "dense 0:2 3 best $(best 2)
dense 5:3 4 best $(best 3)
dense 0:3 4 best $(best 3)
dense 9:4 5 best $(best 4)
error 5:0 code 1 line 8: @1 is beyond the 0 tokens of the sequence
dense 0:4 5 best $(best 4)
end 11 6" "copies go on by themselves; one of nothing is nothing"

# ---- adapters ----
cp -R "$root/tests/data/lora" "$root/tests/data/hf" . && mv hf llama
gguf-convert -q --lora -T f32 lora lora.gguf
for how in '--lora lora.gguf' '--lora lora.gguf:0.25 --lora lora.gguf:0.75' \
    '--lora lora.gguf -t 3 -u 7' '--lora lora.gguf:1e0 --no-repack'; do
    # shellcheck disable=SC2086
    decode --text --all --top 3 $exact $how -m "$m" "$golden.tokens" >got
    within got "$root/tests/data/decode/lora-llama.tsv" 6 0 2e-4 "logits, $how"
done
decode --all -m "$m" "$golden.tokens" >want
decode --all --lora lora.gguf:0 -m "$m" "$golden.tokens" >got
ok "$(frames <got)" "$(frames <want)" "a scale of 0 adds nothing"
# One that is for the tokens from where its invocation begins for the last time, whatever comes at
# once: in lines, as requests, or after what was saved.
activated=$root/tests/data/decode/activated
sed -i 's/"alora_invocation_tokens": null/"alora_invocation_tokens": [7, 301, 12]/' \
    lora/adapter_config.json
gguf-convert -q --lora -T f32 lora alora.gguf
for how in '' '-b 1' '-b 3 -u 2 -t 2' '--no-repack --lora alora.gguf:0'; do
    # shellcheck disable=SC2086
    decode --text --all --top 3 $exact --lora alora.gguf $how -m "$m" $activated.tokens >got
    within got $activated.tsv 6 0 2e-4 "an activated adapter, $how"
done
# The last row of the sequences that end as these do.
awk -F '\t' 'END { print row } $1 != q { if (NR > 1) print row; q = $1 } $4 == 0 { row = $5 }' \
    $activated.tsv >want
try=0
for cut in 's/ \([0-9]* [0-9]*\)$/\n\1/' 's/ /\n/g' 's/ \(12 54\)/\n\1/; s/ \(301 12\)/\n\1/'; do
    q=0 try=$((try + 1))
    while read -r line; do
        echo "$line" | sed "$cut" | sed "s/^/$q: /"
        q=$((q + 1))
    done <$activated.tokens >requests
    awk '{ last[$1] = NR } END { for (q in last) print q, last[q] }' requests | sort -n >ends
    decode -i $exact --lora alora.gguf -m "$m" requests | frames >all
    while read -r q at; do sed -n "${at}s/.*best //p" all; done <ends >got
    ok "$(cat got)" "$(cat want)" "requests, lines cut the $try. way"
done
# What was evaluated as if none came is evaluated again; one that was cut off counts no more.
printf '%s\n' '0: 360 54 7 301' '0: 12 9' '0: @3 301 5 5' '1: <0' '1: 7 301 12' '1: @4 12 9' |
    decode -i $exact --lora alora.gguf -m "$m" | frames |
    sed -n 's/^dense \([0-9:]*\).* best/\1/p' >got
for q in '360 54 7 301' '360 54 7 301 12 9' '360 54 7 301 5 5' '360 54 7 301 5 5 7 301 12' \
    '360 54 7 301 12 9'; do
    echo "$q" | decode $exact --lora alora.gguf -m "$m" | frames | sed -n 's/.* best //p'
done >want
ok "$(cut -d ' ' -f 2 got)" "$(cat want)" "cut back and copied"
for at in 3 5 6; do
    cut -d ' ' -f 1-$at $activated.tokens >begun
    cut -d ' ' -f $((at + 1))- $activated.tokens | head -n 5 >rest
    decode --lora alora.gguf --save-state alora.st $exact -m "$m" begun >/dev/null
    decode --lora alora.gguf --load-state alora.st $exact -m "$m" rest | frames | sed '$d' |
        awk '{ print $2, $5 }' >got
    head -n 5 $activated.tokens | decode --lora alora.gguf $exact -m "$m" | frames | sed '$d' |
        awk '{ print $2, $5 }' >want
    ok "$(cat got)" "$(cat want)" "saved after $at tokens"
done
decode --lora alora.gguf --context-shift -m "$m" in >got 2>err
ok "$? $(grep -c 'cannot be shifted' err)" "2 1" "what is at certain tokens is not shifted"
gguf-edit --set adapter.alora.invocation_tokens='json:[7,400]' alora.gguf bad.gguf
decode --lora bad.gguf -m "$m" in >got 2>err
ok "$? $(cat err)" "1 decode: bad.gguf: adapter.alora.invocation_tokens: token 400 is not in the \
vocabulary of 368" "an invocation that is no text of the model"
gguf-edit --set adapter.alora.invocation_tokens='json:["a"]' alora.gguf bad.gguf
decode --lora bad.gguf -m "$m" in >got 2>err; ok "$? $(lines err)" "1 1" "or no ids"

head -c 20000 lora.gguf >cut.gguf
decode --lora cut.gguf -m "$m" in >got 2>err; ok "$? $(lines err)" "1 1" "an adapter cut short"
# The two lengths of the first matrix, which stand behind its name and their number, change places.
at=$(($(grep -abo lora_a lora.gguf | head -n 1 | cut -d : -f 1) + 10))
{ head -c $at lora.gguf; tail -c +$((at + 9)) lora.gguf | head -c 8
  tail -c +$((at + 1)) lora.gguf | head -c 8; tail -c +$((at + 17)) lora.gguf; } >turned.gguf
decode --lora turned.gguf -m "$m" in >got 2>err; s=$?
ok "$s $(grep -c 'do not suit the weight' err)" "1 1" \
    "a matrix of an adapter that lies the wrong way"
decode --lora "$m" -m "$m" in >got 2>err;  ok "$? $(lines err)" "1 1" "a model is no adapter"
decode --lora lora.gguf -m "$root/tests/data/vocab/qwen.gguf" in >got 2>err; s=$?
[ $s != 0 ];                               ok $? 0 "another model's adapter"

# One direction for the last layer, so long that what it is added to does not matter: the
# hidden state is its sign times the last norm's weights.
{ printf 'GGUF\003\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0'
  printf '\024\0\0\0\0\0\0\0general.architecture\010\0\0\0\015\0\0\0\0\0\0\0controlvector'
  printf '\013\0\0\0\0\0\0\0direction.1\001\0\0\0\200\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
} >vector.gguf
while [ $(($(bytes vector.gguf) % 32)) != 0 ]; do printf '\0' >>vector.gguf; done
i=0
while [ $i -lt 64 ]; do printf '\0\0\200\077\0\0\200\277' >>vector.gguf; i=$((i + 1)); done
gguf-inspect --print output_norm.weight "$m" | tr ' ' '\n' |
    awk '{ print (NR % 2 ? 1 : -1) * $1 }' >want
echo 1 2 3 | decode --embed --pooling last --control-vector vector.gguf:1e7 -m "$m" |
    tr -d '[]' | tr ',' '\n' >got
within got want 1 0 1e-5 "a control vector for the last layer"
plain=$(echo 1 2 3 | decode --embed --pooling last -m "$m")
echo 1 2 3 | decode --embed --pooling last --control-vector vector.gguf:0 -m "$m" >got
ok "$(cat got)" "$plain" "a scale of 0 adds nothing"
for range in 0-0 0-1 1-1 1-9; do
    echo 1 2 3 | decode --embed --pooling last --control-vector vector.gguf:1e7 \
        --control-vector-layers $range -m "$m" | tr -d '[]' | tr ',' '\n' >got
    if [ $range = 0-0 ]; then
        ok "$(tr '\n' , <got)" "$(echo "$plain" | tr -d '[]')," "layers $range"
    else
        within got want 1 0 1e-5 "layers $range"
    fi
done
for range in 1 2-1 a-b 1-; do
    decode --control-vector vector.gguf --control-vector-layers $range -m "$m" in >got 2>err
    ok $? 2 "layers $range"
done
decode --control-vector lora.gguf -m "$m" in >got 2>err; ok "$? $(lines err)" "1 1" \
    "an adapter is no control vector"

# ---- distances, intermediates ----
# Two models as tables of all log-probabilities; the divergence by its formula.
head -n 2 "$golden.tokens" | cut -d' ' -f1-9 >few
decode --all -m "$m" few >ref
decode --kl ref --lora lora.gguf:0.3 -m "$m" few >got 2>err; ok $? 0 "--kl"
decode --text --all -m "$m" few | cut -f1,2,5,7 >p
decode --text --all --lora lora.gguf:0.3 -m "$m" few | cut -f1,2,5,7 >q
awk 'NR == FNR { p[$1 " " $2 " " $3] = $4; next }
    { l = p[$1 " " $2 " " $3]; kl[$1 " " $2] += exp(l) * (l - $4) }
    END { for (s = 0; s < 2; s++) for (i = 0; i < 8; i++) print s, i + 1, kl[s " " i] }' p q >want
cut -f1,2,4 got | tr '\t' ' ' >have
within have want 3 0 2e-6 "divergences by the formula"
ok "$(lines err) $(sed 's/: KL.*//' err)" "1 decode: 16 tokens" "and one line that sums them up"
decode --kl ref -m "$m" few 2>/dev/null | awk '$4 != 0 { bad++ } END { print NR, bad + 0 }' >got
ok "$(cat got)" "16 0" "a model does not differ from itself"
decode --all --top 40 -m "$m" few | decode --kl - --lora lora.gguf:0.3 -m "$m" few 2>/dev/null |
    paste - have | awk '{ n++; bad += $4 > $7 + 1e-6 || $4 <= 0 } END { print n, bad + 0 }' >got
ok "$(cat got)" "16 0" "the best 40 ids give a lower bound"
for bad in 'head -c 5000 ref' 'decode --all -m $m few | tail -c +2' 'cat few' 'decode -m $m few' \
    'echo 1 2 3 4 5 6 7 8 9 | decode --all -m $m'; do
    eval "$bad" >wrong 2>/dev/null
    decode --kl wrong -m "$m" few >got 2>err;  ok "$? $(lines err)" "1 1" "--kl against: $bad"
done
echo 1 2 3 | decode --dump-tensor 'attn_q$|^output$' -m "$m" >got; ok $? 0 "--dump-tensor"
ok "$(cut -f1-5 got)" "$(printf '0\tblk.0.attn_q\tmul_mat\tf32\t[128, 3]
0\tblk.1.attn_q\tmul_mat\tf32\t[128, 3]\n0\toutput\tmul_mat\tf32\t[368]')" "names what it shows"
echo 1 2 3 | decode --text -m "$m" |
    awk '{ s += $6; q += $6 ^ 2; hi = NR == 1 ? $6 : hi; lo = $6 } END { print s, q, lo, hi }' >want
tail -n 1 got | cut -f6-9 | tr '\t' ' ' >have
within have want 1 0 1e-2 "and its sums"
decode --all --exact -m "$m" in >got; decode --all -u 1 -b 2 -m "$m" in >want
cmp got want; ok $? 0 "--exact: batches do not matter, to the bit"
{ echo '1 2 3'; echo '7: 1 2 3'; echo '9: 1 2'; } | decode -i --exact -m "$m" | frames >got
{ echo '1 2 3'; sleep 0.2; echo '7: 1 2 3'; sleep 0.2; echo '9: 1 2'; } |
    decode -i --exact -m "$m" |
    frames >want
ok "$(cat got)" "$(cat want)" "nor do neighbours in the loop"

# ---- positions ----
# Options say what the metadata would.
gguf-edit --set llama.rope.freq_base=f32:5000 --set llama.rope.scaling.type=str:yarn \
    --set llama.rope.scaling.factor=f32:4 --set llama.rope.scaling.original_context_length=u32:64 \
    --set llama.rope.scaling.yarn_beta_fast=f32:16 --set llama.rope.scaling.yarn_beta_slow=f32:2 \
    --set llama.rope.scaling.yarn_ext_factor=f32:0.5 \
    --set llama.rope.scaling.yarn_attn_factor=f32:1.1 "$m" yarn.gguf
decode --nll -m yarn.gguf "$golden.tokens" >want
decode --nll --rope-freq-base 5000 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 64 \
    --yarn-beta-fast 16 --yarn-beta-slow 2 --yarn-ext-factor 0.5 --yarn-attn-factor 1.1 -m "$m" \
    "$golden.tokens" >got
cmp want got; ok $? 0 "--rope-* and --yarn-* are the metadata's"
decode --nll -m "$m" "$golden.tokens" >got; cmp -s want got; ok $? 1 "and change something"
decode --nll --rope-scaling linear --rope-scale 2 -m "$m" "$golden.tokens" >want
decode --nll --rope-scaling linear --rope-freq-scale 0.5 -m "$m" "$golden.tokens" >got
cmp want got; ok $? 0 "--rope-freq-scale is the inverse"
decode --nll --override-kv .rope.scaling.type=str:linear --override-kv .rope.scaling.factor=f32:2 \
    -m "$m" "$golden.tokens" >got; cmp want got; ok $? 0 "a key with a dot is the architecture's"
for how in "--rope-scale 2" "--rope-freq-scale 0.5" "--override-kv .rope.scaling.factor=f32:2" \
    "--override-kv .rope.scale_linear=f32:2"; do
    # shellcheck disable=SC2086
    decode --nll $how -m "$m" "$golden.tokens" >got; cmp want got
    ok $? 0 "$how: a factor alone is a linear one"
done
has "$(decode --text --top 1 --yarn-orig-ctx 9 -m "$m" "$golden.tokens" 2>&1 >out)" \
    "--yarn-orig-ctx has no effect" "nothing of YaRN without it"
for how in none linear yarn dynamic; do     # either it changes something, or that is said
    set -- --nll --rope-scaling $how --rope-scale 4 -c 400 -m "$m" "$golden.tokens"
    decode -q "$@" >want; decode --yarn-orig-ctx 64 "$@" >got 2>err
    cmp -s want got
    ok "$? $(grep -c 'has no effect' err)" "$([ $how = none ] || [ $how = linear ] && echo 0 1 ||
        echo 1 0)" "--yarn-orig-ctx with --rope-scaling $how"
done
cp "$root/tests/data/classify/bert.gguf" plain.gguf
decode --text --rope-freq-base 5 -m plain.gguf "$golden.tokens" >out 2>err
ok "$?:$(cat err)" "2:decode: plain.gguf: a bert model has no rope.freq_base: no --rope-freq-base" \
    "and of models that rotate nothing"
decode --text --override-kv .feed_forward_length='json:[128]' -m "$m" "$golden.tokens" >out 2>err
ok "$?:$(cat err)" "2:decode: $m: llama.feed_forward_length: 1 values for 2 layers" \
    "a list that leaves layers out"

# A model whose rotation depends on a sequence's length, whose tokens come bit by bit.
long=$shared/fixtures/models/phi3_longrope
if [ -d "$long" ]; then
    gguf-convert -q -T f32 "$long" long.gguf
    count 280 >line
    # shellcheck disable=SC2086
    decode $exact -m long.gguf line | frames >want
    for b in 64 100; do
        # shellcheck disable=SC2086
        decode -b $b $exact -m long.gguf line | frames >got
        ok "$(cat got)" "$(cat want)" "beyond the first training length with -b $b"
    done
    { cut -d' ' -f1-250 line; cut -d' ' -f251-270 line; cut -d' ' -f271-280 line; echo '@200 7'; } |
        decode -i $exact -m long.gguf >stream
    { cut -d' ' -f1-250 line; echo "1: $(cut -d' ' -f1-270 line)"; echo "2: $(cat line)"
      echo "3: $(cut -d' ' -f1-200 line) 7"; } | decode -i $exact -m long.gguf >stream2
    for s in stream stream2; do
        tail -c +$((17 + $(json $s | wc -c))) $s |
            od -v -A n -t f4 -w$((32 + 4 * $(gguf-inspect --json long.gguf |
            grep -o '"output.weight"[^]]*' | grep -o '[0-9]*$')))  |
            awk 'NF > 8 { for (i = 9; i <= NF; i++) print $i }' >$s.rows
    done
    within stream.rows stream2.rows 1 0 1e-6 "and back again, in the loop"
    # Lines are what they are however they are cut in batches.
    decode --all $exact -m long.gguf line >whole
    decode --all $exact -b 50 -m long.gguf line >parts
    equal parts whole "batches do not show"
    # Saved before and behind it, or cut back with what it was behind it, and gone on with.
    loop() { decode -i $exact -m long.gguf "$@" | cksum; }
    want=$(loop line)
    for at in 200 256 270; do
        cut -d' ' -f1-$at line | loop --save-state long.state >got
        ok "$(cut -d' ' -f$((at + 1))-280 line | loop --load-state long.state)" "$want" \
            "saved at $at"
    done
    { cat line; echo '@100 +0'; } | loop --save-state long.state >got
    cut -d' ' -f101-250 line | loop --load-state long.state >got
    ok "$(cat got)" "$(cut -d' ' -f1-250 line | loop)" "cut back, then saved"
fi

# ---- rotation that the context stretches ----
stretched='--override-kv .context_length=u32:24 --rope-scaling dynamic --rope-scale 3'
gguf-convert -q -T f32 "$root/tests/data/families/arcee.tar.zst" arcee.gguf
# shellcheck disable=SC2086
for q in 0 1 2; do
    sed -n "$((q + 1))p" "$root/tests/data/decode/dynamic.tokens" >line
    awk -F '\t' -v OFS='\t' -v q=$q '$1 == q { $1 = 0; print }' \
        "$root/tests/data/decode/dynamic.tsv" >want
    for how in '' '-u 7' '-b 5'; do
        decode --text --all --top 3 $exact $stretched $how -c "$(wc -w <line)" \
            -m arcee.gguf line >got
        within got want 6 0 2e-4 "dynamic, $(wc -w <line) tokens, $how"
    done
done
decode $stretched -m arcee.gguf line >got 2>err; ok $? 0 "so many times its own length"
{ cat line; } | sed 's/$/ 1 2 3/' | decode $stretched -m arcee.gguf >got 2>err
ok "$? $(grep -c 'was trained for 72' err)" "1 1" "and no more"
seq -s ' ' 1 100 | decode -c 40 --context-shift $stretched -m arcee.gguf >got 2>err
ok "$? $(lines err)" "0 0" "shifted"
decode --rope-scaling dynamic -m arcee.gguf line >got 2>err; ok $? 0 "a factor of 1 changes nothing"
decode -m arcee.gguf line >want; equal got want "as it is"

# ---- saved state ----
printf '0: 1 2 3\n7: 9 8\n' | decode -i --save-state st -m "$m" >/dev/null; ok $? 0 "--save-state"
printf '4 5\n7: 7\n' | decode -i --load-state st -m "$m" | frames >got
printf '0: 1 2 3 4 5\n7: 9 8 7\n' | decode -i -m "$m" | frames >want
ok "$(cat got)" "$(cat want)" "--load-state goes on where it was"
printf '1 2 3\n\n9 8\n' | decode --save-state st2 -m "$m" >/dev/null
printf '4 5\n1\n7\n' | decode --all --load-state st2 -m "$m" | frames >got
printf '1 2 3 4 5\n1\n9 8 7\n' | decode --all -m "$m" | frames | grep -v '0:[012] \|2:[01] ' >want
ok "$(sed '$d' got)" "$(sed '$d' want)" "lines of a batch go on"
printf '4 5\n' | decode -i --cache-k f32 --cache-v q8_0 --load-state st -m "$m" >got; ok $? 0 \
    "a cache of other types"
zstd -q -c st >st.zst 2>/dev/null && {
    printf '4 5\n' | decode -i --load-state st.zst -m "$m" >got; ok $? 0 "a compressed one"; }
i=0 size=$(bytes st)
while [ $i -lt "$size" ]; do
    head -c $i st >cut
    decode -i --load-state cut -m "$m" </dev/null >got 2>err
    [ "$? $(lines err)" = "1 1" ] || break
    i=$((i + 997))
done
ok $((i >= size)) 1 "cut short anywhere, it is refused"
{ head -c 2000 st; printf x; tail -c +2002 st; } >bad
decode -i --load-state bad -m "$m" </dev/null >got 2>err; ok $? 1 "a changed byte"
has "$(cat err)" "bad: the saved state is damaged" "is noticed"
quantize -q "$m" other.gguf q8_0 >/dev/null 2>&1
decode -i --load-state st -m other.gguf </dev/null >got 2>err; ok $? 1 "another model's"
has "$(cat err)" "another model's" "is refused"
decode -i --lora lora.gguf --load-state st -m "$m" </dev/null >got 2>err
ok $? 1 "a model with an adapter is another one"
decode -i --load-state st --save-state st -m "$m" </dev/null 2>err; ok $? 2 "the same file twice"
decode -i -c 2 --load-state st -m "$m" </dev/null >got 2>err; ok $? 2 "longer than the context"
echo old >st3; printf 'x\n' | decode --save-state st3 -m "$m" >/dev/null 2>&1
ok "$(cat st3)" old "nothing is saved of what failed"

# ---- context shift ----
count 40 | decode --all --context-shift -c 16 -m "$m" >got; ok $? 0 "--context-shift, a batch"
ok "$(frames <got | sed 's/ best.*//' | tail -n 2)" "dense 0:39 39
end 1 40" "every token has its row"
{ count 40; echo 7; } | decode -i --context-shift -c 16 -m "$m" | frames >far
ok "$(sed 's/ best.*//' far)" "dense 0:15 39
dense 0:8 7
end 2 2" "and in the loop, where positions are those that are left"
ok "$(awk 'NR == 1 { print $5 }' far)" "$(frames <got | awk '$2 == "0:39" { print $5 }')" \
   "both forget the same"
{ count 40; echo 7; } | decode -i --context-shift --keep 4 -c 16 -m "$m" | frames >kept
ok "$(sed 's/ best.*//' kept)" "dense 0:15 39
dense 0:10 7
end 2 2" "--keep: half of the others are forgotten"
ok "$(head -n 1 kept | cmp -s - far; echo $?)" 1 "which gives other results"
echo 1 | decode --context-shift --keep 16 -c 16 -m "$m" >odd 2>err
ok "$? $(cat err)" \
    "2 decode: $m: 16 tokens to keep, and the context has 16: nothing could follow" "all of them"
decode --keep 4 -m "$m" in >odd 2>err; ok $? 2 "--keep without a shift"
for b in 1 5; do
    count 40 | decode --all --context-shift -b $b -c 16 -m "$m" | frames >near
    ok "$(cat near)" "$(frames <got)" "the same rows with -b $b"
done
{ echo '3: 1 2'; count 30; echo '3: @1 9'; } | decode -i --context-shift -c 16 -m "$m" |
    frames | sed 's/ best.*//' >near
ok "$(cat near)" "dense 3:1 2
dense 0:13 29
dense 3:1 9
end 3 3" "other sequences stay as they are"
# Requests that wait together: a copy that has to forget to go on, and others beside it.
{ count 16; printf '%s\n' '1: <0' '2: 3 4' '1: 5 6' '3: <0' '3: @16 7' '0: <1' '0: 8'; } >asked
decode -i --context-shift -c 16 -m "$m" asked >together
for b in 1 3; do
    decode -i --context-shift -c 16 -b $b -m "$m" asked >near
    equal together near "copies that are shifted, -b $b"
done
ok "$(frames <together | sed 's/ best.*//')" "dense 0:15 15
dense 2:1 4
dense 1:9 6
dense 3:8 7
dense 0:10 8
end 8 5" "each in its place"

{ count 10; count 6; echo 1; echo '1: 2'; echo '@15 3'; count 600; } |
    decode -i -c 16 -m "$m" >got;         ok $? 0 "lengths in the loop"
ok "$(frames <got | sed 's/ best.*//')" "dense 0:9 9
dense 0:15 5
error 0:16 code 4 line 2: 17 tokens, and the context has 16
dense 1:0 2
dense 0:15 3
error 0:16 code 3 line 5: 616 tokens, and the model was trained for 512
end 6 6" "too long: an error frame, the sequence as it was, and on"

for broken in '1\n2 3' '1\n! gone\n4\n'; do
    printf "$broken" | decode -i -m "$m" >got 2>err; ok $? 1 "a broken loop: status 1"
    ok "$(lines err)" 1 "a broken loop: one line"
    ok "$(frames <got | sed 's/ best.*//; s/ line 1: .*//')" "dense 0:0 1
error 0:1 code 1
end 1 2" "a broken loop: an error frame and the end frame"
done
ok "$(decode -i -m "$m" </dev/null | frames)" "end 0 0" "an empty loop"

# Memory that runs out is an answer, too, and a request that fails changes nothing.
few() { (ulimit -v 60000 && decode -i -t 1 -b 64 --top 1 -m "$m" "$@") 2>/dev/null; }
if few </dev/null >got; then
    { count 10; awk 'BEGIN { for (i = 1; i <= 3000; i++) print i ": 1 2" }'
      echo "0: @4 $(count 400)"; echo 7; } | few >got;  ok $? 0 "short of memory, the loop goes on"
    frames <got >list
    ok "$(lines list)" 3004 "every request is answered"
    has "$(cat list)" ":0 code 5 line 2999: out of memory" "one without room by an error frame"
    ok "$(tail -n 3 list | cut -d' ' -f1-4)" "error 0:10 code 5
top 0:10 7 $(tail -n 2 list | awk '{ print $4; exit }')
end 3003 3003" "one that would cut its sequence in vain leaves it as it was"
fi

# Answers come without waiting for more input: a named pipe held open.
mkfifo pipe
grows() { # FILE BYTES: wait until it has them, 20 s at most
    t=0
    while [ "$(bytes "$1")" -lt "$2" ] && [ $t -lt 200 ]; do sleep 0.1; t=$((t + 1)); done
    [ "$(bytes "$1")" -ge "$2" ] && echo yes
}
: >answers
decode -i -m "$m" <pipe >answers &
exec 3>pipe
ok "$(grows answers 64)" yes "the header comes before the first request"
h=$(bytes answers) f=$((32 + 4 * 368))
echo '1 2' >&3;      ok "$(grows answers $((h + f)))" yes "an answer comes while the input is open"
printf '3' >&3;      sleep 0.2
ok "$(bytes answers)" $((h + f)) "a request is whole with its newline"
printf '\n8' >&3;    ok "$(grows answers $((h + 2 * f)))" yes "then it is answered"
printf '\n' >&3
exec 3>&-
wait $!;             ok $? 0 "end of input ends the loop"
ok "$(frames <answers | sed 's/ best.*//')" "dense 0:1 2
dense 0:2 3
dense 0:3 8
end 3 3" "with everything answered"
: >answers
decode -m "$m" <pipe >answers &
exec 3>pipe
ok "$(grows answers 64)" yes "a batch's header, too, comes before its input"
exec 3>&-
wait $!

# ---- the graph ----
decode --plan -m "$m" >plan;              ok $? 0 "--plan"
ok "$(cut -f1 plan | sort -u | tr '\n' ' ')" "buffer input node peak " "its rows"
ok "$(awk -F'\t' '$1 == "node" { if ($7 != "-" && $7 + $8 > end) end = $7 + $8 }
    $1 == "buffer" { b += $3 } $1 == "peak" { print (b == $2 && end <= b) }' plan)" 1 \
    "the peak is that of the buffers, which hold every node"
ok "$(awk -F'\t' '$1 == "node" && $5 == "mul_mat"' plan | wc -l)" 15 "a product for each matrix"
ok "$(decode --plan -u 1 -m "$m" | awk '$1 == "peak" && $2 < 20000 { print "small" }')" small \
    "fewer tokens need less"
decode --dot -m "$m" >dot;                ok $? 0 "--dot"
ok "$(head -n 1 dot; tail -n 1 dot; grep -c mul_mat dot)" "digraph model {
}
15" "it is a graph with the same products"
if command -v dot >/dev/null; then command dot dot >/dev/null; ok $? 0 "that dot reads"; fi
# ---- profile ----
decode --profile -b 4 -u 4 -m "$m" in >got;   ok $? 0 "--profile"
ok "$(awk -F '\t' '{ t += $5; s += $6 } END { print NF, (t > 0), (s > 0.99 && s < 1.01) }' got)" \
    "6 1 1" \
    "shares of what there is"
ok "$(cut -f5 got | sort -c -g -r 2>&1)" "" "what takes longest first"
evaluations=$(decode -q --dump-tensor '^blk.0.attn_q$' -b 4 -u 4 -m "$m" in | wc -l)
ok "$(awk -F '\t' '$1 == "mul_mat" { n += $4 } END { print n }' got)" \
    "$(decode -q --dump-tensor . -b 4 -u 4 -m "$m" in | awk -F '\t' '$3 == "mul_mat"' | wc -l)" \
    "as many products as there are"
ok "$(awk -F '\t' '$1 == "kv_store" { print $2, $3, $4 }' got)" "- cpu $((2 * evaluations))" \
    "and two stores each time"
decode --profile --text -m "$m" in >got 2>err; ok $? 2 "not with another form of answer"

# ---- devices, files ----
modules=$(cd "$(dirname "$(command -v decode)")/.." && pwd)/module
ok "$(LMPIPE_MODULES='' decode --list-devices | cut -f1)" cpu "the CPU is always there"
decode --all -m "$m" in >want
decode --all --device abacus -m "$m" in >got 2>err
ok "$? $(sed 's/ among .*//' err)" "2 decode: $m: there is no device 'abacus'" "an unknown device"
decode --all --device abacus --gpu-layers 0 -m "$m" in >got 2>err
ok $? 2 "even if no layer goes there"
decode --all --device cpu,cpu -m "$m" in >got 2>err
ok "$? $(cat err)" "2 decode: $m: device cpu is named twice" "a device that is named twice"
decode --all --tensor-device 'attn=far0' -m "$m" in >got 2>err
ok "$? $(cat err)" \
    "2 decode: $m: blk.0.attn_norm.weight: there is no device far0, or it is not used" \
    "a device for some tensors that is not there"
decode --tensor-device 'attn' -m "$m" in >got 2>err
ok "$? $(sed 1q err)" "2 decode: --tensor-device: 'attn': wanted REGEX=DEVICE" \
    "a rule without a device"
decode --tensor-device '(=cpu' -m "$m" in >got 2>err; ok $? 2 "a rule that is no pattern"
for how in on auto; do
    decode --all --flash $how -m "$m" in >got; cmp want got; ok $? 0 "--flash $how"
done
decode --flash off -m "$m" in >got 2>err
ok "$? $(cat err)" "2 decode: --flash=off: attention is always computed in one pass" "--flash off"
printf '5 6 7\n8\n9\n10\n' | decode -v -b 3 -u 3 -m "$m" 2>&1 >/dev/null | sed 's/[0-9.]* s/T s/g' |
    grep -q '6 tokens together in T s, 0 one by one in T s; graphs: 2 built, 0 used again'
ok $? 0 "-v says what was evaluated"
printf '1\n2\n3\n4\n' | decode -v -b 1 -m "$m" 2>&1 >/dev/null |
    grep -q '0 tokens together in .*, 4 one by one in .*; graphs: 0 built, 4 used again'
ok $? 0 "and that graphs are used again"
decode --all --device cpu --gpu-layers 7 -m "$m" in >got; cmp want got; ok $? 0 "--device cpu"
if [ -f "$modules/liblmpipe-far.so" ]; then
    export LMPIPE_MODULES=$modules LMPIPE_FAR_DEVICES=2
    ok "$(decode --list-devices | cut -f1 | tr '\n' ' ')" "far0 far1 cpu " "modules are found"
    for how in '' '--device far1' '--gpu-layers 1' '--gpu-layers 0' '-u 2'; do
        # shellcheck disable=SC2086
        decode --all $how -m "$m" in >got;   cmp want got; ok $? 0 "other devices${how:+ }$how"
    done
    decode --plan -m "$m" >plan
    ok "$(awk -F'\t' '$1 == "node" { print $4 }' plan | sort -u | tr '\n' ' ')" "cpu far0 far1 " \
        "--plan shows the devices"
    ok "$(grep -c '^copy' plan | awk "{ print (\$1 > 3) }")" 1 "and copies between them"
    decode --all --device far0 --tensor-device 'ffn_|output=cpu' -m "$m" in >got; cmp want got
    ok $? 0 "some tensors on another device"
    decode --plan --device far0 --tensor-device 'FFN_UP=cpu' --tensor-device 'up=far0' -m "$m" |
        awk -F'\t' '$1 == "node" && $5 == "mul_mat" {
            sub(/.*[.]f/, "f", $NF); sub(/[.]weight/, "", $NF); print $NF, $4
        }' |
        grep -E '^(ffn_up|ffn_down) ' | sort -u >got
    ok "$(tr '\n' ' ' <got)" "ffn_down far0 ffn_up cpu " "the first rule that fits counts"
    decode -i --top 1 -m "$m" requests | frames >far
    ok "$(cat far)" "$(decode -i --top 1 --device cpu -m "$m" requests | frames)" "and the loop"
    LMPIPE_FAR_INEXACT=1 decode --exact --plan -m "$m" | cut -f4 | grep -c far >got
    ok "$(cat got)" 0 "--exact leaves out devices that do not promise it"
    LMPIPE_FAR_INEXACT=1 decode --exact --device far0 -m "$m" in >got 2>err; ok $? 2 "even if named"
    unset LMPIPE_MODULES LMPIPE_FAR_DEVICES
fi
gguf-split --max-tensors 7 "$m" part
decode --all -m part-00001-of-*.gguf in >got
tail -c +700 want >a; tail -c +700 got >b; cmp a b; ok $? 0 "a model in several files"
decode -m part-00002-of-*.gguf in >got 2>err; ok $? 2 "one that is not the first"
rm part-00002-of-*
decode -m part-00001-of-*.gguf in >got 2>err; ok "$? $(lines err)" "2 1" "one that is missing"
for how in mlock read; do
    decode --all --load $how -m "$m" in >got 2>err; s=$?
    if [ $s = 2 ] && [ $how = mlock ]; then has "$(cat err)" "cannot keep" "--load mlock: not here"
    else cmp want got; ok $? 0 "--load $how"; fi
done
decode --override-kv llama.context_length=u32:5 -m "$m" in >got; ok $? 0 "--override-kv"
ok "$(json got | grep -o '"n_ctx":[0-9]*')" '"n_ctx":5' "--override-kv is what is read"
decode --override-kv llama.block_count=u32:99 -m "$m" in >got 2>err; ok $? 1 "and checked"

# ---- outputs ----
i=0
while [ $i -lt 40 ]; do cat "$golden.tokens"; i=$((i + 1)); done >long     # 4 MB: no pipe holds it
{ decode --all -m "$m" long 2>err; echo $? >status; } | head -c 20 >got
ok "$(cat status) $(bytes err)" "141 0" "a closed pipe ends it quietly"
decode -m "$m" in >/dev/full 2>err; ok "$? $(lines err)" "2 1" "a full disk: status 2, one line"
decode -i -m "$m" requests >/dev/full 2>err; ok "$? $(lines err)" "2 1" "in the loop, too"
has "$(cat err)" "decode: <stdout>: " "and it names the output"
decode -m "$m" in >&- 2>err;              ok "$? $(lines err)" "2 1" "a closed output"
decode -m "$m" <&- >got 2>err;            ok "$? $(lines err)" "2 1" "a closed input"
ok "$(count 100000 | decode -i -m "$m" | frames | sed 's/, and.*//')" \
"error 0:0 code 3 line 0: 100000 tokens
end 1 1" "a request of 100000 tokens is refused in proportion"
for form in '' --all --text; do
    # shellcheck disable=SC2086
    decode -q $form -m "$m" in >a 2>err;  decode -v $form -m "$m" in >b 2>/dev/null
    cmp a b
    ok "$? $(bytes err)" "0 0" "-q and -v change nothing on stdout (${form:-frames})"
done
if script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "decode -m '$m' in; echo status \$?" /dev/null </dev/null >got 2>&1
    has "$(cat got)" "status 2" "logits to a terminal are refused"
    has "$(cat got)" "use --force" "and it says how to"
    script -qec "decode --text --top 1 -m '$m' in; echo status \$?" /dev/null </dev/null >got 2>&1
    has "$(cat got)" "status 0" "text to a terminal is not"
    script -qec "decode --force -m '$m' in | wc -c; decode --force -m '$m' in; echo status \$?" \
        /dev/null </dev/null >got 2>&1
    has "$(tr -d '\0' <got)" "status 0" "nor are logits, with --force"
fi

# ---- what is not accepted ----
for use in '' '-m' "-m $m -i --text" "-m $m -i --nll" "-m $m -i --all" "-m $m --text --nll" \
    "-m $m --nll --top 2" "-m $m --nll --all" "-m $m --chunk 4" "-m $m --plan --dot" \
    "-m $m --rope-scaling x" "-m $m --rope-scale 0" "-m $m --kl x --nll" "-m $m --kl -" \
    "-m $m -i --dump-tensor x" "-m $m --dump-tensor [" "-m $m --plan -i" "-m $m --header" \
    "-m $m --top 0" \
    "-m $m -b 0" "-m $m -c 0" "-m $m -u x" "-m $m -t 0" "-m $m --cache-k q2_k" \
    "-m $m --embed -i" "-m $m --normalize" "-m $m --flash maybe" \
    "-m $m --gpu-layers x" "-m $m --override-kv x" \
    "-m $m --encoder x -i" \
    "-m $m --save-state -" "-m $m --load-state -" "-m $m --save-state x --nll --chunk 4"; do
    # shellcheck disable=SC2086
    decode $use </dev/null >got 2>err
    ok "$? $(bytes got) $(lines err)" "2 0 2" "refused: decode ${use#-m "$m" }"
done
decode -m "$m" missing >got 2>err; ok "$? $(bytes got) $(lines err)" "2 0 1" "a missing input"
has "$(cat err)" "decode: missing: " "is named"
decode -m "$m" "$dir" >got 2>err; ok "$? $(bytes got) $(lines err)" "2 0 1" "a directory as input"
head -c 300000 "$m" >cut.gguf
decode -m cut.gguf in >got 2>err; ok "$? $(bytes got) $(lines err)" "1 0 1" "a model cut short"

echo "1..$n"
