/* SPDX-License-Identifier: MIT */
/* Command R (2024): attention and feed-forward side by side after one layer norm without bias,
 * scaled logits. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=10000"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_F32("logit_scale", 0, logit_scale, "logit_scale", "=0.0625"),
    LM_KEY_SCALING("=none"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    { "blk.{i}.attn_q_norm.weight", LM_HF "self_attn.q_norm.weight",
      { LM_DIM_HEAD_K, LM_DIM_HEADS }, LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL, LM_AS_IS, 0,
      LM_ATTN_Q_NORM, NULL },
    { "blk.{i}.attn_k_norm.weight", LM_HF "self_attn.k_norm.weight",
      { LM_DIM_HEAD_K, LM_DIM_HEADS_KV }, LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL, LM_AS_IS, 0,
      LM_ATTN_K_NORM, NULL },
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "CohereForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smollm", "command-r", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .constants = lm_dense_parallel,
};

const struct lm_arch lm_arch_command_r = {
    .name = "command-r", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
