/* SPDX-License-Identifier: MIT */
/* Qwen3.5 (Qwen, 2026), text alone: the gated delta rule, every fourth layer gated attention.  All
 * positions of text are equal in the three kinds that images have, so that it turns as others. */
#include "arch/gated.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS, LM_KEY_HEADS_KV,
    { "rope.dimension_sections", LM_GGUF_ARR, LM_KEY_UNUSED, LM_FROM_SECTIONS,
      { "mrope_section" }, 0 },
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_DELTA,
    LM_KEYS_END,
};

#define DELTA LM_HF "linear_attn."

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_GATED_ATTENTION,
    LM_R_MATRIX(LM_ATTN_QKV, "attn_qkv", DELTA "in_proj_qkv.weight", LM_DIM_EMBD,
                LM_DIM_SSM_CHANNELS, LM_TILE_LAST_ROWS),
    LM_R_MATRIX(LM_SSM_GATE, "attn_gate", DELTA "in_proj_z.weight", LM_DIM_EMBD,
                LM_DIM_SSM_INNER, LM_TILE_ROWS),
    LM_R_MATRIX(LM_SSM_ALPHA, "ssm_alpha", DELTA "in_proj_a.weight", LM_DIM_EMBD,
                LM_DIM_SSM_RANK, LM_TILE_ROWS),
    LM_R_MATRIX(LM_SSM_BETA, "ssm_beta", DELTA "in_proj_b.weight", LM_DIM_EMBD, LM_DIM_SSM_RANK,
                LM_TILE_ROWS),
    LM_R_OTHER(LM_SSM_CONV, "ssm_conv1d.weight", DELTA "conv1d.weight", LM_DIM_CONV,
               LM_DIM_SSM_CHANNELS, LM_TILE_LAST_ROWS),
    LM_R_OTHER(LM_SSM_DT_B, "ssm_dt.bias", DELTA "dt_bias", LM_DIM_SSM_RANK, LM_DIM_END,
               LM_TILE_ROWS),
    LM_R_OTHER(LM_SSM_A, "ssm_a", DELTA "A_log", LM_DIM_SSM_RANK, LM_DIM_END,
               LM_TILE_ROWS_NEG_EXP),
    LM_R_OTHER(LM_SSM_NORM, "ssm_norm.weight", DELTA "norm.weight", LM_DIM_SSM_OF_HEAD,
               LM_DIM_END, LM_AS_IS),
    LM_R_MATRIX(LM_SSM_OUT, "ssm_out", DELTA "out_proj.weight", LM_DIM_SSM_INNER, LM_DIM_EMBD,
                LM_TILE_COLUMNS),
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "Qwen3_5ForCausalLM", NULL };
static const char *const ignored[] = { LM_NO_PREDICTION, NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .qkv = lm_gated_qkv,
    .recurrent = lm_recurrent_delta_tiled,
};

const struct lm_arch lm_arch_qwen35 = {
    .name = "qwen35", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .memory = lm_recurrent_memory,
};
