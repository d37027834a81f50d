/* SPDX-License-Identifier: MIT */
/* GLM-4 (2024): norms before and after, half of a head rotated, gate and up fused. */
#include "arch/dense.h"
#include "arch/rows.h"

/* Positions of several kinds, all equal for text, come with pairs that are halves of the rotated
 * part of a head. */
#define KEYS(eps, ...) \
    LM_KEYS_BEGIN, \
    { "rope.dimension_sections", LM_GGUF_ARR, 0, LM_FROM_SECTIONS_SAID, { "mrope_section" }, 0 }, \
    LM_KEY_BASE("=10000"), \
    LM_KEY_RMS_EPS(eps), \
    LM_KEYS_HEAD_DIM(__VA_ARGS__), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_ROT("partial_rotary_factor", "=0.5"), \
    LM_KEY_FURTHER_READ, \
    LM_KEYS_END

static const struct lm_arch_key keys[] = { KEYS("=1.5625e-7", "head_dim", "=128") };

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_HALVE_Q_ROWS, LM_HALVE_K_ROWS),
    LM_T_QKV_B(LM_HALVE_Q_ROWS, LM_HALVE_K_ROWS),
    LM_T_O,
    LM_T_NORM(LM_POST_ATTN_NORM, "post_attention_norm",
              LM_HF "post_self_attn_layernorm.weight"),
    LM_T_NORM(LM_POST_FFN_NORM, "post_ffw_norm", LM_HF "post_mlp_layernorm.weight"),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "mlp.gate_up_proj.weight",
                LM_DIM_EMBD, LM_DIM_2_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.down_proj.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "Glm4ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smaug-bpe", "glm4", "llama-bpe", "glm4", NULL };
static const struct lm_arch_token tokens[] = {
    { "eos_token_id", "<|endoftext|>", 0 },
    { "eot_token_id", "<|user|>", 0 },
    { "unknown_token_id", "<|endoftext|>", 0 },
    { "bos_token_id", "<|endoftext|>", 0 },
    { NULL, NULL, 0 },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU,
};

const struct lm_arch lm_arch_glm4 = {
    .name = "glm4", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .tokens = tokens,
    .pre_names = pre_names,
};

/* The language models of GLM-4.1V and GLM-OCR (Z.ai, 2025 and 2026). */
static const struct lm_arch_key seeing_keys[] = { KEYS("=1e-5", "head_dim") };
static const char *const seeing_classes[] = {
    "Glm4vForConditionalGeneration", "GlmOcrForConditionalGeneration", NULL
};

const struct lm_arch lm_arch_glm4v = {
    .name = "glm4", .hf_classes = seeing_classes, .keys = seeing_keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense, .tokens = tokens, .pre_names = pre_names,
};
