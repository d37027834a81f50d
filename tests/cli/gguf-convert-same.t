#!/bin/sh
# gguf-convert-same.t - a conversion gives the same bytes from a folder and from every kind of
# archive, with any number of threads and any instruction set; speaks TAP.
. "$(dirname "$0")/../tap.sh"
sum() { sha256sum | cut -c 1-64; }
# convert [OPTION...] SOURCE: the sum of what it becomes, under one name
convert() { gguf-convert -q --model-name=Same "$@" | sum; }

# archives DIR: of the checkpoint's own files, configuration first
archives() {
    (cd "$1" && tar -cf ../a.tar $(ls | grep -v -e '\.safetensors$' -e '\.npy$') ./*.safetensors)
    gzip -kf a.tar
    zstd -qkf a.tar || rm -f a.tar.zst
    rm -f stored.zip deflated.zip
    (cd "$1" && zip -qr0 ../stored.zip . && zip -qr ../deflated.zip .) 2>zip.err || rm -f ./*.zip
}

# same NAME DIR TYPE...: for each type, from everywhere and in every way
same() {
    name=$1 from=$2 keep=
    # blocks and their scales lie in several places, which a stream cannot go to
    [ "$name" = gpt_oss_mxfp4 ] && keep=--spool=.
    shift 2
    archives "$from"
    for type; do
        LMPIPE_ISA=scalar gguf-convert -q -t 1 -T "$type" --model-name=Same "$from" ref.gguf
        ok $? 0 "$name to $type"
        w=$(sum <ref.gguf)
        for isa in avx2 avx512; do
            ok "$(LMPIPE_ISA=$isa convert -t 2 -T "$type" "$from")" "$w" \
                "$name to $type: $isa, two threads"
        done
        for a in a.tar a.tar.gz a.tar.zst stored.zip deflated.zip; do
            [ -f $a ] || continue
            ok "$(convert -t 2 -T "$type" $keep $a)" "$w" "$name to $type: $a"
            ok "$(LMPIPE_ISA=scalar convert -t 1 -T "$type" $keep $a)" "$w" \
                "$name to $type: $a, one thread, scalar"
        done
        ok "$(convert -t 2 -T "$type" --spool=. - <a.tar.gz)" "$w" \
            "$name to $type: a pipe that is kept"
        ok "$(convert -t 3 -T "$type" "$from")" "$w" "$name to $type: three threads"
    done
    rm -f a.tar* ./*.zip ref.gguf
}

cp -R "$root/tests/data/hf" llama; same llama llama auto f32 bf16 q8_0 Q4_K_M IQ4_XS
# families whose tensors are permuted, split, stacked, transposed, tiled, kept in blocks
for f in mixtral deepseek_v2 gpt2 phi3_longrope qwen3_next qwen3_5 falcon_40b gpt_oss \
    gpt_oss_mxfp4 falcon_h1 t5 bert; do
    [ -d "$shared/fixtures/models/$f" ] || continue
    cp -R "$shared/fixtures/models/$f" . && rm -rf "$f/expected"
    same $f $f auto q8_0
    rm -rf "$f"
done
echo "1..$n"
