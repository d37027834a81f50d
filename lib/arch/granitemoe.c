/* SPDX-License-Identifier: MIT */
/* Granite with experts (2024). */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEY_F32("attention.scale", 0, attn_scale, "attention_multiplier", "=1"),
    LM_KEY_F32("embedding_scale", 0, embd_scale, "embedding_multiplier", "=1"),
    LM_KEY_F32("residual_scale", 0, residual_scale, "residual_multiplier", "=1"),
    LM_KEY_F32("logit_scale", 0, logit_scale, "logits_scaling", "=1"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

/* Gates and their partners are one tensor in checkpoints. */
#define HALVES(role, name, transform) \
    { "blk.{i}." name ".weight", LM_HF "block_sparse_moe.input_linear.weight", \
      { LM_DIM_EMBD, LM_DIM_FF_EXPERT, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, transform, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_QKV_B(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_O_B,
    LM_T_ROUTER(LM_HF "block_sparse_moe.router.layer.weight"),
    HALVES(LM_GATE_EXPERTS, "ffn_gate_exps", LM_FIRST_HALVES),
    HALVES(LM_UP_EXPERTS, "ffn_up_exps", LM_SECOND_HALVES),
    { "blk.{i}.ffn_down_exps.weight", LM_HF "block_sparse_moe.output_linear.weight",
      { LM_DIM_FF_EXPERT, LM_DIM_EMBD, LM_DIM_EXPERTS },
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, LM_AS_IS, 0,
      LM_DOWN_EXPERTS, NULL },
    LM_T_END,
};

static const char *const classes[] = { "GraniteMoeForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smollm", "refact", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .divide_logits = true,
    .share_of_used = true,
};

const struct lm_arch lm_arch_granitemoe = {
    .name = "granitemoe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
