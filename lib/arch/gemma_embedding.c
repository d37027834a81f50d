/* SPDX-License-Identifier: MIT */
/* EmbeddingGemma (Vera et al., 2025): Gemma 3 as an encoder, whose tokens see those after them too;
 * a window reaches half of its length to each side. */
#include "arch/dense.h"
#include "arch/rows.h"

static void constants(struct lm_hparams *h)
{
    lm_dense_scale_embd(h);
    lm_dense_local_base(h, 10000);
}

/* Products behind the pooling, of the sentence-transformers model, that a file may have. */
#define DENSE_KEY(name, field) \
    { name, LM_GGUF_U32, 0, LM_FROM_MODULES, { NULL }, LM_FIELD(field) }
#define DENSE(role, name, cols, rows) \
    { name ".weight", NULL, { cols, rows }, LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_AS_IS, 0, \
      role, NULL }

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=1000000"),
    LM_KEY_BASE_LOCAL("rope_local_base_freq", "local_rope_theta", "=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEY_WINDOW,
    DENSE_KEY("dense_2_feat_in", dense_2_in),
    DENSE_KEY("dense_2_feat_out", dense_2_out),
    DENSE_KEY("dense_3_feat_in", dense_3_in),
    DENSE_KEY("dense_3_feat_out", dense_3_out),
    LM_KEY_POOLING,
    LM_KEY_ROT_READ,
    LM_KEY_PRE_ATTN,
    LM_KEYS_END,
};

#define HF "layers.{i}."
#define NORM(role, name, source, len) \
    LM_T_VECTOR(role, name ".weight", HF source ".weight", len, LM_ADD_ONE)
#define MATRIX(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, HF source ".weight", cols, rows, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("embed_tokens.weight"),
    LM_T_OUTPUT_NORM("norm.weight", LM_ADD_ONE),
    NORM(LM_ATTN_NORM, "attn_norm", "input_layernorm", LM_DIM_EMBD),
    NORM(LM_POST_ATTN_NORM, "post_attention_norm", "post_attention_layernorm", LM_DIM_EMBD),
    NORM(LM_FFN_NORM, "ffn_norm", "pre_feedforward_layernorm", LM_DIM_EMBD),
    NORM(LM_POST_FFN_NORM, "post_ffw_norm", "post_feedforward_layernorm", LM_DIM_EMBD),
    NORM(LM_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_norm", LM_DIM_HEAD_K),
    NORM(LM_ATTN_K_NORM, "attn_k_norm", "self_attn.k_norm", LM_DIM_HEAD_K),
    MATRIX(LM_ATTN_Q, "attn_q", "self_attn.q_proj", LM_DIM_EMBD, LM_DIM_Q),
    MATRIX(LM_ATTN_K, "attn_k", "self_attn.k_proj", LM_DIM_EMBD, LM_DIM_K),
    MATRIX(LM_ATTN_V, "attn_v", "self_attn.v_proj", LM_DIM_EMBD, LM_DIM_V),
    MATRIX(LM_ATTN_OUT, "attn_output", "self_attn.o_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    MATRIX(LM_FFN_GATE, "ffn_gate", "mlp.gate_proj", LM_DIM_EMBD, LM_DIM_FF),
    MATRIX(LM_FFN_UP, "ffn_up", "mlp.up_proj", LM_DIM_EMBD, LM_DIM_FF),
    MATRIX(LM_FFN_DOWN, "ffn_down", "mlp.down_proj", LM_DIM_FF, LM_DIM_EMBD),
    DENSE(LM_DENSE_2, "dense_2", LM_DIM_DENSE_2_IN, LM_DIM_DENSE_2_OUT),
    DENSE(LM_DENSE_3, "dense_3", LM_DIM_DENSE_3_IN, LM_DIM_DENSE_3_OUT),
    LM_T_END,
};

static const char *const classes[] = { "Gemma3TextModel", NULL };
static const char *const ignored[] = { "lm_head.weight", NULL };
static const char *const prefixes[] = { "model.", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_GELU, .rope_halves = true, .local_plain = true,
    .all_every = 6,
    .constants = constants,
};

const struct lm_arch lm_arch_gemma_embedding = {
    .name = "gemma-embedding", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .tokens = lm_arch_no_space,
};
