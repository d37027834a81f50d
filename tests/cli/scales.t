#!/bin/sh
# scales.t - scales of adapters that a request gives a sequence: the same bits as with those of the
# command line, whatever else is in the batch; speaks TAP.
. "$(dirname "$0")/../tap.sh"

# The frames of a stream, a line each: what they are of and all their bits, or the fault.
answers() {
    perl -e '
        binmode STDIN; local $/; my $s = <STDIN>;
        for (my $p = 16 + unpack "x12V", $s; $p < length $s; ) {
            my ($kind, $size, $seq, $pos, $token) = unpack "x${p}V5", $s;
            my $data = substr $s, $p + 32, $size;
            print "$seq:$pos ", unpack("H*", $data), "\n" if $kind == 0;
            print "$seq:$pos code $token: $data\n" if $kind == 2;
            $p += 32 + $size;
        }'
}
of() { grep "^$1:" "$2"; }              # a sequence's answers

cp -R "$root/tests/data/lora" "$root/tests/data/hf" . && mv hf llama
gguf-convert -q --lora -T f32 lora lora.gguf
sed -i 's/"alora_invocation_tokens": null/"alora_invocation_tokens": [7, 301, 12]/' \
    lora/adapter_config.json
gguf-convert -q --lora -T f32 lora alora.gguf
loop() { decode -q -i --exact -m "$m" "$@"; }
with() {
    first=$1 second=$2
    shift 2
    loop --lora "lora.gguf:$first" --lora "alora.gguf:$second" "$@"
}

# ---- sequences of one batch ----
# One with the scales of the command line, three with others, of which one has none of either.
cat >requests <<'END'
5: s 0.5 -1
6: s 0 0
7: s -1.25e0 .75
5: 360 54 7 301 12
6: 360 54 7 301 12
7: 360 54 7 301 12
8: 360 54 7 301 12
8: +2 294 355
5: +2 294 355
7: +2 294 355
6: +2 294 355
END
for how in '' '-b 1' '-b 7 -u 3 -t 2' '--no-repack'; do
    # shellcheck disable=SC2086
    with 0.3 0.2 $how requests | answers >got
    for seq in '5 0.5 -1' '6 0 0' '7 -1.25 0.75' '8 0.3 0.2'; do
        # shellcheck disable=SC2086
        set -- $seq
        # shellcheck disable=SC2086
        printf '%s\n' "$1: 360 54 7 301 12" "$1: +2 294 355" | with "$2" "$3" $how | answers >want
        ok "$(of "$1" got)" "$(cat want)" "scales $2 and $3 among others, $how"
    done
    of 6 got | sed 's/^6/0/' >none
    # shellcheck disable=SC2086
    printf '%s\n' '360 54 7 301 12' '+2 294 355' | loop $how | answers >want
    equal none want "scales of 0 are the model, $how"
done
ok "$(cut -d ' ' -f 2 got | sort -u | wc -l | tr -d ' ')" 12 "no two of them are the same"

# ---- from then on ----
# What is remembered stays; nothing, a drop and an empty line bring back those of the command line.
one() { printf '%s\n' "$@" | with 0.3 0.2 | answers | sed 's/^[0-9]*://'; }
same() { ok "$(one "$1" "$2" "$3" | tail -n 1)" "$(one "$4" "$5" "$6" | tail -n 1)" "$7"; }
same '1: s 1 1' '1: s' '1: 5 6' '' '' '1: 5 6' "none"
same '1: s 1 1' '1: x' '1: 5 6' '' '' '1: 5 6' "a drop"
same '0: s 1 1' '' '5 6' '' '' '5 6' "an empty line"
same '1: s 1 1' '1: @0' '1: 5 6' '1: s 1 1' '' '1: 5 6' "cut at 0"
same '1: s 1 1' '2: <1' '2: 5 6' '1: s 1 1' '' '1: 5 6' "a copy of a sequence without tokens"
same '1: s 1 1' '1: <9' '1: 5 6' '' '' '1: 5 6' "a copy of one that is not there"
same '1: s 1 1' '1: 5 999' '1: 5 6' '1: s 1 1' '' '1: 5 6' "a request that fails"
same '1: s 1 1' '1: s 2 x' '1: 5 6' '1: s 1 1' '' '1: 5 6' "scales that fail"
one '1: 5 6' '1: s 1 -1' '2: <1' '1: s' '2: 7' '1: 7' '2: @2 8' '2: @2 7' >got
one '1: 5 6' '1: s 1 -1' '1: 7' >begun
ok "$(sed -n 2p got)" "$(sed -n 2p begun)" "a copy goes on with its scales"
ok "$(sed -n 5p got)" "$(sed -n 2p begun)" "so it does where it was cut"
one '1: 5 6' '1: 7' >begun
ok "$(sed -n 3p got)" "$(sed -n 2p begun)" "and the other with its own"
[ "$(sed -n 2p got)" != "$(sed -n 3p got)" ]; ok $? 0 "which makes a difference"

# What an activated adapter has evaluated again keeps the scales that it came with: the first two
# tokens, with 1 for the other one; those of the invocation, with 0.
one '1: s 1 0' '1: 360 54' '1: s 0 2' '1: 7 301' '1: 12' '1: s' '1: 9 9' >got
one '1: s 1 0' '1: 360 54' '1: s 0 2' '1: 7 301 12' '1: s' '1: 9 9' >want
ok "$(tail -n 2 got)" "$(tail -n 2 want)" "an invocation in pieces"

# ---- contexts that are full ----
printf '%s\n' '5: s 2 0' '5: 1 2 3 4 5 6 7 8 9 10' '5: 11 12 13' '6: 1 2' >requests
lora() { scale=$1; shift; loop --lora "lora.gguf:$scale" "$@"; }
sed 's/s 2 0/s 2/' requests | lora 0.3 -c 8 --context-shift | answers >got
grep -v s requests | lora 2 -c 8 --context-shift | answers | of 5 - >want
ok "$(of 5 got)" "$(cat want)" "a sequence that forgets keeps its scales"
echo '6: 1 2' | lora 0.3 -c 8 --context-shift | answers >want
ok "$(of 6 got)" "$(cat want)" "and its neighbour has none of them"

# ---- faults ----
cat >requests <<'END'
1: 5 6
1: s 1
1: s 1 2 3
1: s 1 nan
1: s inf 1
1: s 1 1e39
1: s 1 0x1
s 1 2
1: s 1 2 @3
2: s 0
END
with 1 1 requests | answers | sed 1d >got
ok "$(cat got)" "1:2 code 1: 1 scales for 2 adapters of low rank
1:2 code 1: 3 scales for 2 adapters of low rank
1:2 code 1: 'nan' is no scale
1:2 code 1: 'inf' is no scale
1:2 code 1: '1e39' is no scale
1:2 code 1: '0x1' is no scale
0:0 code 1: 's' is no token id
1:2 code 1: '@3' is no scale
2:0 code 1: 1 scales for 2 adapters of low rank" "what is no list of scales"
printf '%s\n' '3: s 1' '3: s' '3: s 1 2' | loop | answers >got
ok "$(cat got)" "3:0 code 6: there is no adapter of low rank
3:0 code 6: there is no adapter of low rank" "a model without adapters"

# ---- saved ----
printf '%s\n' '1: s 0.5 -1' '1: 360 54 7' '1: s 2 1' '2: 360 54 7' |
    with 0.3 0.2 --save-state st >/dev/null
printf '%s\n' '1: 301 12 9' '2: 301 12 9' | with 0.3 0.2 --load-state st | answers >got
printf '%s\n' '1: s 0.5 -1' '1: 360 54 7' '1: s 2 1' '1: 301 12 9' '2: 360 54 7' '2: 301 12 9' |
    with 0.3 0.2 | answers >want
ok "$(cat got)" "$(grep ':5' want)" "scales are saved"
echo 9 | with 2 1 --load-state st 2>err >got
ok "$? $(cat err)" "1 decode: st: the saved state is another model's" \
    "a state belongs to the scales of its command line"

echo "1..$n"
