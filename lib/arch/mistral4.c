/* SPDX-License-Identifier: MIT */
/* Mistral Small 4 (Mistral AI, 2026): DeepSeek-V2's attention, whose queries grow with every
 * training length before them, and experts whose gates and their partners are one tensor. */
#include "arch/latent.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_LATENT(LM_KEY_U32("expert_gating_func", 0, gating, NULL), "=0"),
    { "attention.temperature_scale", LM_GGUF_F32, 0, LM_FROM_ROPE, { "llama_4_scaling_beta" },
      LM_FIELD(far_scale) },
    { "attention.temperature_length", LM_GGUF_U32, 0, LM_FROM_ROPE,
      { "original_max_position_embeddings" }, LM_FIELD(far_length) },
    LM_KEYS_END,
};

#define EXPERTS(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", LM_HF "mlp.experts." source, { cols, rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, LM_AS_IS, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_LATENT(0),
    LM_T_LATENT_BUT_EXPERTS("mlp."),
    EXPERTS(LM_GATE_UP_EXPERTS, "ffn_gate_up_exps", "gate_up_proj", LM_DIM_EMBD,
            LM_DIM_2_FF_EXPERT),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "down_proj", LM_DIM_FF_EXPERT, LM_DIM_EMBD),
    LM_T_END,
};

static const char *const classes[] = { "Mistral4ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "rope_interleave", { "true" }, NULL },
    { "n_group", { "1" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = lm_latent_constants,
    .qkv = lm_latent_qkv, .values = lm_latent_values,
};

const struct lm_arch lm_arch_mistral4 = {
    .name = "mistral4", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_latent_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
