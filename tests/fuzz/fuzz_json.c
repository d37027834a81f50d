/* SPDX-License-Identifier: MIT */
/*
 * The small files of a checkpoint that say what the rest is: the first byte tells which file
 * the others are - config.json, the index, generation_config.json, tokenizer_config.json or an
 * adapter's configuration - beside sound weights of one layer.
 */
#include "fuzz_archive.h"

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":8,\"intermediate_size\":32,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"vocab_size\":10,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"rope_theta\":1e4}";

static const char tokenizer[] =
    "{\"added_tokens\":[{\"id\":2,\"content\":\"</e>\",\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"merges\":[[\"a\",\"b\"]],\"vocab\":{\"p0\":0,\"p1\":1,"
    "\"</e>\":2,\"p3\":3,\"p4\":4,\"p5\":5,\"a\":6,\"b\":7,\"ab\":8,\"p9\":9}}}";

/* Weights of zeros: names and shapes for the configuration above, and an adapter's. */
struct weight {
    const char *name;
    unsigned    rows, cols;
};

static const struct weight model[] = {
    { "lm_head.weight", 10, 8 }, { "model.embed_tokens.weight", 10, 8 },
    { "model.layers.0.input_layernorm.weight", 8, 0 },
    { "model.layers.0.mlp.down_proj.weight", 8, 32 },
    { "model.layers.0.mlp.gate_proj.weight", 32, 8 },
    { "model.layers.0.mlp.up_proj.weight", 32, 8 },
    { "model.layers.0.post_attention_layernorm.weight", 8, 0 },
    { "model.layers.0.self_attn.k_proj.weight", 4, 8 },
    { "model.layers.0.self_attn.o_proj.weight", 8, 8 },
    { "model.layers.0.self_attn.q_proj.weight", 8, 8 },
    { "model.layers.0.self_attn.v_proj.weight", 4, 8 }, { "model.norm.weight", 8, 0 },
    { NULL, 0, 0 }
};

static const struct weight adapter[] = {
    { "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 4, 8 },
    { "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 8, 4 },
    { NULL, 0, 0 }
};

static void add_weights(struct fuzz_archive *a, const char *name, const struct weight *weights)
{
    char file[8192] = {0};
    size_t at = 8, data = 0;
    for (size_t i = 0; weights[i].name; i++) {
        const size_t n = 2 * weights[i].rows * (weights[i].cols ? weights[i].cols : 1);
        at += (size_t)snprintf(file + at, sizeof file - at, "%c\"%s\":{\"dtype\":\"BF16\","
                               "\"shape\":[%u", i ? ',' : '{', weights[i].name, weights[i].rows);
        if (weights[i].cols)
            at += (size_t)snprintf(file + at, sizeof file - at, ",%u", weights[i].cols);
        at += (size_t)snprintf(file + at, sizeof file - at, "],\"data_offsets\":[%zu,%zu]}", data,
                               data + n);
        data += n;
    }
    file[at++] = '}';
    file[0] = (char)((at - 8) & 0xff);
    file[1] = (char)((at - 8) >> 8);
    memset(file + at, 0, data);
    fuzz_archive_add(a, name, file, at + data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {
        "config.json", "model.safetensors.index.json", "generation_config.json",
        "tokenizer_config.json", "adapter_config.json",
    };
    static struct fuzz_archive a;
    if (!size)
        return 0;
    const char *name = names[data[0] % (sizeof names / sizeof *names)];
    fuzz_archive_begin(&a);
    if (strcmp(name, names[0]))
        fuzz_archive_add(&a, names[0], config, sizeof config - 1);
    fuzz_archive_add(&a, "tokenizer.json", tokenizer, sizeof tokenizer - 1);
    fuzz_archive_add(&a, name, data + 1, size - 1);
    const bool lora = !strcmp(name, names[4]);
    if (lora)
        add_weights(&a, "adapter_model.safetensors", adapter);
    else
        add_weights(&a, "model.safetensors", model);
    fuzz_archive_end(&a);
    struct lm_hf_source *base = lora ? lm_hf_open(a.path, NULL, NULL, NULL) : NULL;
    if (lora && !base)
        abort();
    const struct lm_convert_options o = { .type = "f32", .lora = lora, .base = base };
    fuzz_convert(a.path, &o);
    lm_hf_close(base);
    return 0;
}
