#!/bin/sh
# decode-refused.t - references, options and models that do not go together, and how decode says so;
# speaks TAP.
. "$(dirname "$0")/../tap.sh"
said() { # OPTION...: status and messages
    decode -t 1 "$@" >out 2>err
    echo "$?:$(sed 's/^decode: //' err)"
}
echo 1 5 9 20 7 >in
bert=$root/tests/data/classify/bert.gguf

# ---- --kl ----
decode --all -m "$m" in >ref
size=$(($(wc -c <ref)))
ok "$(said --kl ref -m "$m" in | sed 's/;.*//')" "0:4 tokens: KL 0 on average, 0 at most" \
    "--kl: of itself"
head -c $((size - 32)) ref >cut
ok "$(said --kl cut -m "$m" in)" "1:cut: the stream is cut short after 5 frames" \
    "--kl: a reference without its end frame"
ok "$(lines=$(wc -l <out); echo $((lines)))" 4 "after all that it has"
cat ref ref >two
ok "$(said --kl two -m "$m" in)" "1:two: another stream follows" "--kl: more than one stream"
echo 1 5 9 >short
ok "$(said --kl ref -m "$m" short)" "1:ref: 2 frames are of tokens that are not compared" \
    "--kl: a reference of a longer sequence"
cat in in | decode --all -m "$m" >more
ok "$(said --kl more -m "$m" in)" "1:more: 5 frames are of tokens that are not compared" \
    "--kl: or of another one"
# The rows are the last 32 + 368 * 4 bytes each, before the end frame.
at=$((size - 32 - 4 * (32 + 368 * 4) + 32 + 40))
cp ref nan
printf '\000\000\300\177' | dd of=nan bs=1 seek=$at conv=notrunc 2>/dev/null
ok "$(said --kl nan -m "$m" in)" \
    "1:nan: position 1 of sequence 0: logits that are no numbers" \
    "--kl: a reference that is no number"
ok "$(lines=$(wc -l <out); echo $((lines)))" 1 "after what is one"
decode --all --top 3 -m "$m" in >top
ok "$(said --kl top -m "$m" in | sed 's/.*; //')" \
    "perplexity 741.566, the reference has 0 of the tokens among its best ids" \
    "--kl: a reference that does not say how likely the tokens are"

# ---- states ----
for how in "save embed" "load embed" "save plan" "load dot"; do
    # shellcheck disable=SC2086
    set -- $how
    ok "$(said "--$1-state" x "--$2" -m "$m" in)" \
        "2:--$1-state is of sequences that go on: no --$2
Try 'decode --help'." "--$1-state with --$2"
done

# ---- what evaluates nothing ----
for how in plan dot; do
    ok "$(said "--$how" -m "$m" in)" "2:--$how evaluates nothing: no in
Try 'decode --help'." "--$how of a file"
    ok "$(said "--$how" --top 3 -m "$m")" "2:--$how evaluates nothing: no --top
Try 'decode --help'." "--$how with --top"
    ok "$(said "--$how" --encoder in -m "$m")" "2:--$how evaluates nothing: no --encoder
Try 'decode --help'." "--$how with --encoder"
done

# ---- what changes nothing ----
ok "$(said -c 600 -m "$m" in)" \
    "0:$m: -c 600: the model was trained for 512 tokens, which is the most" \
    "a longer context than the model's"
ok "$(said -c 512 -m "$m" in)" 0: "but not its own"
for key in llama.rope.freq_bass llama.ropes rope.freq_base qwen2.block_count; do
    ok "$(said --override-kv $key=u32:7 -m "$m" in)" \
        "0:$m: --override-kv: a llama model has no use for $key" "a key that is not known: $key"
done
for key in tokenizer.ggml.eos_token_id llama.rope.dimension_count; do
    ok "$(said --override-kv $key=u32:32 -m "$m" in)" 0: "but $key is"
done

# ---- what is no model, and what is one ----
printf '1 5\n9 20\n' >two
tac two >owt
decode -t 1 -m "$m" --directions two owt >vector.gguf
ok "$(said -m vector.gguf in)" "2:vector.gguf: this is no model, but a control vector" \
    "a control vector as the model"
ok "$(said -m "$m" --lora vector.gguf in)" \
    "1:vector.gguf: this is a control vector: use --control-vector" "as an adapter"
gguf-edit --set general.type=str:adapter "$m" adapter.gguf
ok "$(said -m adapter.gguf in)" "2:adapter.gguf: this is no model: its general.type is 'adapter'" \
    "an adapter as the model"

# ---- encoders ----
for how in --plan --dot "--profile in" "--dump-tensor ffn_up in"; do
    # shellcheck disable=SC2086
    ok "$(said -m "$bert" $how)" 0: "$how of an encoder"
    ok "$([ -s out ] && grep -c '^\[' out)" 0 "and no vectors"
done
ok "$(said --directions in -m "$bert" in)" "2:$bert: --directions are not made of a bert model" \
    "--directions of an encoder"

# ---- files ----
zstd -q "$m" -o m.gguf.zst
ok "$(said -m m.gguf.zst in)" \
    "2:m.gguf.zst: zstd-compressed: a model that runs must not be: decompress it (zstd -d)" \
    "a compressed model"
LC_ALL=C sed 's/output\.weight/outpux.weight/' "$m" >typo.gguf
ok "$(said -m typo.gguf in)" "0:typo.gguf: 1 tensor of the file is not used: outpux.weight" \
    "a tensor of no known name"
ok "$(said -q -m typo.gguf in)" 0: "which -q keeps quiet about"
ok "$(said --override-kv .block_count=u32:1 -m "$m" in)" \
    "0:$m: 9 tensors of the file are not used: blk.1.attn_norm.weight ..." "a layer that is not run"
for kv in llama.block_count=u32:0 .block_count=i32:-1 llama.block_count=str:x \
    .rope.freq_base=f32:0.5; do
    said --override-kv $kv -m "$m" in >all
    ok "$(cut -d : -f 1 all)" 2 "--override-kv $kv: a mistake of who gave it"
done
ok "$(said --fit 100T -m "$m" in | sed 's/takes [0-9]* bytes/takes some bytes/')" \
    "2:$m: --fit: a context of 512 takes some bytes of memory, and there are 0 for it" \
    "--fit without room"

# ---- options without a partner, and those that reach nothing ----
hint="
Try 'decode --help'."
ok "$(said --threads-batch 0 -m "$m" in | sed 1q)" \
    "2:--threads-batch: '0' is not a number from 1 to 1024" "--threads-batch has its name"
ok "$(said --fit-context 9 -m "$m" in)" "2:--fit-context needs --fit$hint" "--fit-context alone"
ok "$(said --control-vector-layers 0-1 -m "$m" in)" \
    "2:--control-vector-layers needs --control-vector$hint" "--control-vector-layers alone"
ok "$(said --keep 0 -m "$m" in)" "2:--keep needs --context-shift$hint" "--keep alone"
ok "$(said --keep 0 --context-shift -m "$m" in)" 0: "--keep 0"
ok "$(said --dump-tensor nosuch -m "$m" in)" \
    "1:--dump-tensor: no intermediate has such a name" "--dump-tensor of nothing"
ok "$(said --tensor-device nosuch=cpu -m "$m" in)" \
    "0:--tensor-device=nosuch=cpu: no tensor is left that it is of" "--tensor-device of nothing"
ok "$(LMPIPE_ISA=foo said -m "$m" in)" \
    "0:LMPIPE_ISA=foo has no effect: it is not scalar, avx2 or avx512" "LMPIPE_ISA of nothing"
if [ -c /dev/full ]; then
    decode --help >/dev/full 2>err
    ok "$?:$(cat err)" "2:decode: <stdout>: write error: No space left on device" "--help, no room"
fi
# ---- what goes on ----
for mode in --embed --plan --dot "--directions in"; do
    # shellcheck disable=SC2086
    ok "$(said --context-shift -c 4 $mode -m "$m" in | head -n 1)" \
        "2:--context-shift is of sequences that go on: no ${mode%% *}" "--context-shift with $mode"
done
ok "$(said --save-state none/state -m "$m" in)" \
    "2:none/state: cannot create: No such file or directory" "--save-state: a file that cannot be"
ok "$(lines=$(wc -c <out); echo $((lines)))" 0 "is found out before anything is evaluated"
echo 1 999 | said --save-state state -m "$m" >said
ok "$(cat said; ls -A . | grep state)" \
    "1:<stdin>: line 1: id 999 is outside the vocabulary of 368" \
    "--save-state: nothing is left of one that failed"
echo "1..$n"
