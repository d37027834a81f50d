/* SPDX-License-Identifier: MIT */
/* Nomic Embed (Nussbaum et al., 2024): BERT with rotation instead of a table of positions, a
 * gated feed-forward, and no biases but those of norms. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_trained_positions",
               "n_positions", "max_position_embeddings"),
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_HEADS,
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE, { "rope_theta", "rotary_emb_base", "=1000" },
      LM_FIELD(rope_base) },
    LM_KEY_NORM_EPS("=1e-12"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_POOLING,
    LM_KEY_LABELS,
    LM_KEY_TYPES,
    LM_KEYS_END,
};

#define HF "encoder.layers.{i}."

#define NORM(role, name, source) LM_T_LAYER_NORM(role, name, HF source)

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("embeddings.word_embeddings.weight"),
    LM_T_TYPES("embeddings.token_type_embeddings.weight"),
    LM_T_EMBD_NORM("emb_ln.weight", "emb_ln.bias"),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", HF "attn.Wqkv.weight", LM_DIM_EMBD, LM_DIM_QKV,
                LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", HF "attn.out_proj.weight", LM_DIM_HEADS_OUT,
                LM_DIM_EMBD, LM_AS_IS),
    NORM(LM_ATTN_OUT_NORM, "attn_output_norm", "norm1"),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", HF "mlp.fc11.weight", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_GATE, "ffn_gate", HF "mlp.fc12.weight", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", HF "mlp.fc2.weight", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    NORM(LM_LAYER_OUT_NORM, "layer_output_norm", "norm2"),
    LM_T_CLASSIFIER_READ,
    LM_T_END,
};

static const char *const classes[] = { "NomicBertModel", NULL };
static const char *const ignored[] = {
    "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.*", NULL
};
static const char *const prefixes[] = { "bert.", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .rope_halves = true,
};

extern const struct lm_arch lm_arch_nomic_bert_moe;

const struct lm_arch lm_arch_nomic_bert = {
    .name = "nomic-bert", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .mixed = &lm_arch_nomic_bert_moe,
};
