/* SPDX-License-Identifier: MIT */
/*
 * Llama, Mistral and Mixtral (Touvron et al., 2023; Jiang et al., 2023 and 2024): RMS norm before
 * attention and before a SiLU-gated feed-forward or experts, rotary positions, grouped-query
 * attention.  GGUF files hold the rows of Wq and Wk in the order that rotates neighbouring pairs.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#define KEYS(...) \
    LM_KEYS_BEGIN, \
    LM_KEY_BASE("=10000"), \
    LM_KEY_RMS_EPS("=1e-6"), \
    LM_KEYS_EXPERTS(0), \
    LM_KEYS_HEAD_DIM_MADE, \
    __VA_ARGS__, \
    LM_KEY_VOCAB, \
    LM_KEY_ROT("=1")

static const struct lm_arch_key keys[] = {
    KEYS(LM_KEY_WINDOW, LM_KEY_FILE_TYPE), LM_KEYS_END
};

#define MAYBE(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", source, { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_DENSE, LM_AS_IS, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_ATTN_B(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    MAYBE(LM_FFN_GATE, "ffn_gate", LM_HF "mlp.gate_proj.weight", LM_DIM_EMBD, LM_DIM_FF),
    MAYBE(LM_FFN_UP, "ffn_up", LM_HF "mlp.up_proj.weight", LM_DIM_EMBD, LM_DIM_FF),
    MAYBE(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.down_proj.weight", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_GATED_B,
    LM_T_ROUTER(LM_HF "block_sparse_moe.gate.weight"),
    LM_T_ALL_EXPERTS(LM_HF "block_sparse_moe.experts.{e}.", "w1.weight", "w3.weight",
                     "w2.weight"),
    LM_T_END,
};

/* Mistral's own files (params.json, consolidated.safetensors) have the rows of Wq and Wk in GGUF's
 * order already. */
#define OWN "layers.{i}."
static const struct lm_arch_tensor own_tensors[] = {
    LM_T_EMBD("tok_embeddings.weight"), LM_T_OUTPUT("output.weight"),
    LM_T_OUTPUT_NORM("norm.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", OWN "attention_norm.weight"),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", OWN "ffn_norm.weight"),
    LM_T_MATRIX(LM_ATTN_Q, "attn_q", OWN "attention.wq.weight", LM_DIM_EMBD, LM_DIM_Q, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_K, "attn_k", OWN "attention.wk.weight", LM_DIM_EMBD, LM_DIM_K, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_V, "attn_v", OWN "attention.wv.weight", LM_DIM_EMBD, LM_DIM_V, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", OWN "attention.wo.weight", LM_DIM_HEADS_OUT,
                LM_DIM_EMBD, LM_AS_IS),
    MAYBE(LM_FFN_GATE, "ffn_gate", OWN "feed_forward.w1.weight", LM_DIM_EMBD, LM_DIM_FF),
    MAYBE(LM_FFN_UP, "ffn_up", OWN "feed_forward.w3.weight", LM_DIM_EMBD, LM_DIM_FF),
    MAYBE(LM_FFN_DOWN, "ffn_down", OWN "feed_forward.w2.weight", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_ROUTER(OWN "feed_forward.gate.weight"),
    LM_T_ALL_EXPERTS(OWN "feed_forward.experts.{e}.", "w1.weight", "w3.weight", "w2.weight"),
    LM_T_END,
};

static const char *const own_classes[] = { "params.json", NULL };
static const char *const own_ignored[] = { NULL };

static const char *const classes[] = {
    "LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel", "MistralForCausalLM",
    "MixtralForCausalLM", "InternLM3ForCausalLM", "IQuestCoderForCausalLM", "VLlama3ForCausalLM",
    NULL
};
/* Of IQuest-Coder. */
static const struct lm_arch_need needs[] = {
    { "clip_qkv", { NULL }, NULL },
    { "use_sliding_window", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .share_of_used = true,
};

const struct lm_arch lm_arch_llama = {
    .name = "llama", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};

const struct lm_arch lm_arch_mistral_own = {
    .name = "llama", .hf_classes = own_classes, .keys = keys, .tensors = own_tensors,
    .ignored = own_ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};

/* Llama Embed Nemotron (Babakhin et al., 2025): llama whose tokens see those after them too. */
static const struct lm_arch_key embed_keys[] = {
    KEYS(LM_KEY_FILE_TYPE), LM_KEY_NOT_CAUSAL, LM_KEY_POOLING, LM_KEYS_END
};
static const char *const embed_classes[] = { "LlamaBidirectionalModel", NULL };

const struct lm_arch lm_arch_llama_embed = {
    .name = "llama-embed", .hf_classes = embed_classes, .keys = embed_keys, .tensors = tensors,
    .ignored = ignored, .encoder = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense,
};
