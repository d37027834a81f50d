#!/bin/sh
# hostile.t - what is wrong around the programs: signals, readers that leave, full disks,
# links that lead nowhere, archives and configurations that say two things; speaks TAP.
. "$(dirname "$0")/../tap.sh"
hf=$root/tests/data/hf

# --- endings: nothing unfinished is left, and the old file stays -------------------------
# A shell in the background ignores INT and QUIT; exec, so that $! is the program itself.
with_defaults() { exec perl -e '@SIG{qw(INT QUIT)} = ("DEFAULT") x 2; exec @ARGV or exit 9' "$@"; }
mkfifo slow
for s in INT TERM HUP QUIT XCPU PIPE; do
    mkdir d; echo old >d/o.gguf
    { head -c 300000 "$m"; sleep 5; } >slow & feeder=$!
    # shellcheck disable=SC3045
    (ulimit -c 0; with_defaults quantize -q - d/o.gguf q8_0 <slow) 2>/dev/null & q=$!
    i=0
    while [ $i -lt 100 ] && ! ls d/.o.gguf.*.part >/dev/null 2>&1; do sleep 0.1; i=$((i + 1)); done
    ok "$(ls -A d | wc -l)" 2 "half way to SIG$s there is a file being written"
    kill -"$s" $q
    wait $q 2>/dev/null; r=$?
    ok "$([ $r -gt 128 ] && echo signal || echo $r)" signal "SIG$s ends the program by that signal"
    ok "$(ls -A d) $(cat d/o.gguf)" "o.gguf old" "SIG$s leaves the old file and nothing else"
    kill $feeder 2>/dev/null; wait $feeder 2>/dev/null
    rm -rf d
done
# timeout(1) sends two; a user may press a key again
for s in 'INT TERM' 'TERM TERM' 'HUP INT'; do
    mkdir d
    { head -c 300000 "$m"; sleep 5; } >slow & feeder=$!
    # shellcheck disable=SC3045
    (ulimit -c 0; with_defaults quantize -q -t 4 - d/o.gguf q8_0 <slow) 2>/dev/null & q=$!
    i=0
    while [ $i -lt 100 ] && ! ls d/.o.gguf.*.part >/dev/null 2>&1; do sleep 0.1; i=$((i + 1)); done
    kill -"${s% *}" $q; kill -"${s#* }" $q 2>/dev/null
    wait $q 2>/dev/null; r=$?
    ok "$([ $r -gt 128 ] && echo signal || echo $r) $(ls -A d)" "signal " \
        "$s at once: nothing is left"
    kill $feeder 2>/dev/null; wait $feeder 2>/dev/null
    rm -rf d
done
mkfifo nobody
# shellcheck disable=SC3045
(ulimit -c 0; with_defaults quantize -q "$m" nobody q8_0) 2>/dev/null & q=$!
{ sleep 5; kill -KILL $q; } 2>/dev/null & guard=$!
sleep 0.3; kill -INT $q; wait $q 2>/dev/null
ok $? 130 "a FIFO that nobody reads can be interrupted"
kill $guard; wait $guard 2>/dev/null

mkdir d
{ sleep 0.3; quantize -v "$m" d/o.gguf q8_0; echo $? >status; } 2>&1 | true
i=0; while [ $i -lt 50 ] && [ ! -s status ]; do sleep 0.1; i=$((i + 1)); done
ok "$(cat status) $(ls -A d)" "141 " "a reader of messages that leaves: quiet, nothing half-written"

# --- a model that is cut short while it runs ---------------------------------------------
cp "$m" cut.gguf
{ i=0; while [ $i -lt 100 ] && [ ! -s logits ]; do sleep 0.1; i=$((i + 1)); done
  dd if=/dev/null of=cut.gguf bs=1 seek=40000 2>/dev/null; echo '1 2 3'; } |
    decode -q -i -m cut.gguf >logits 2>err
ok "$? $(cat err)" "2 decode: a file that is read became shorter, or its disk fails" \
   "a mapped file becomes shorter: a message, not a signal"

# --- a vocabulary that does not fit its keys -----------------------------------------------
while read -r set said; do
    gguf-edit -q --set "tokenizer.ggml.$set" "$m" odd.gguf
    for c in "tokenize -m odd.gguf hi" "decode --text -m odd.gguf ids"; do
        echo '1 2' >ids
        $c >out 2>err; r=$?
        case $(cat err) in *"$said"*) r="$r said" ;; *) r="$r $(cat err)" ;; esac
        ok "$r $(wc -c <out)" "1 said 0" "${c%% *}: $set"
    done
done <<'EOF'
bos_token_id=str:x wanted an integer, found str
bos_token_id=u32:4000 is 4000, out of range: the vocabulary has 368 entries
scores=json:[1,2,3] has 3 entries, not 368
scores=json:["a"] wanted arr of f32, found arr of str
token_type=json:[1,2] has 2 entries, not 368
EOF

# --- a full disk is called that ----------------------------------------------------------
printf '1 2 3\n' >ids
head -c 100000 /dev/zero | tr '\0' 'a' >long
for c in "tokenize -m $m hi" "tokenize -m $m -d ids" "tokenize -m $m -f long" \
         "gguf-inspect $m" "gguf-inspect --json $m" "gguf-inspect --full $m" \
         "quantize --dry-run $m - q8_0" "decode --nll -m $m ids"; do
    $c >/dev/full 2>err
    ok "$? $(sed 's/^[a-z-]*: //' err)" "2 <stdout>: write error: No space left on device" \
       "a full disk: ${c%% /*}"
done

# --- links -------------------------------------------------------------------------------
ln -s loop loop; ln -s second first; ln -s end second
quantize -q "$m" loop q8_0 2>err; ok "$? $(readlink loop)" "2 loop" "a link to itself is no target"
quantize -q "$m" first q8_0 2>err
ok "$? $(readlink first) $(readlink second) $(head -c 4 end)" "0 second end GGUF" \
   "links to a file that is not there yet are followed to the end"

# --- checkpoints that say two things -----------------------------------------------------
refused() { # WHAT NAME CONVERT-ARGUMENT...: exit 1 saying WHAT, and no file
    want=$1 name=$2; shift 2
    rm -f o.gguf
    gguf-convert -q "$@" o.gguf 2>err; r=$?
    case $(cat err) in *"$want"*) r="$r said" ;; *) r="$r $(cat err)" ;; esac
    ok "$r $(ls o.gguf 2>/dev/null)" "1 said " "$name"
}
tar -C "$hf" -cf twice.tar config.json tokenizer.json tokenizer_config.json model.safetensors
mkdir other; echo '{}' >other/config.json; echo x >other/model.safetensors
cp twice.tar weights.tar
tar -C other -rf twice.tar config.json
tar -C other -rf weights.tar model.safetensors
refused "config.json: is in the archive twice" "two configurations" twice.tar
refused "model.safetensors: is in the archive twice" "two files of weights with one name" \
    weights.tar
refused "config.json: is in the archive twice" "two configurations in a pipe" - <twice.tar
refused "model.safetensors: is in the archive twice" "two files of weights in a pipe" - <weights.tar

with() { # JSON-MEMBER: folder c whose config.json has this member, first
    rm -rf c; cp -r "$hf" c
    key=$(echo "$1" | cut -d'"' -f2)
    sed -i "s/\"$key\":/\"other_$key\":/; 1s/{/{ $1,/" c/config.json
}
while read -r member want; do
    with "$member"
    refused "config.json: $want" "config.json with $member" c
done <<'END'
"head_dim":"x" head_dim is no number that fits
"head_dim":0 head_dim is no number that fits
"head_dim":1.5 head_dim is no number that fits
"rope_scaling":2 rope_scaling is no object with a rope_type
"rope_scaling":["linear"] rope_scaling is no object with a rope_type
"rope_scaling":{"rope_type":5} rope_scaling is no object with a rope_type
"tie_word_embeddings":"no" tie_word_embeddings is neither true nor false
END
echo "1..$n"
