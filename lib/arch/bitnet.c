/* SPDX-License-Identifier: MIT */
/* BitNet b1.58 (Ma et al., 2024): llama with a norm before the last product of attention and of the
 * feed-forward, trained for weights of three values. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=500000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_FILE_TYPE,
    LM_KEY_SCALING("=linear"),
    LM_KEY_F32("rope.scaling.factor", 0, rope_factor, "=1"),
    LM_KEY_ACT("hidden_act", "=silu"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    { "blk.{i}.attn_sub_norm.weight", LM_HF "self_attn.attn_sub_norm.weight", { LM_DIM_HEADS_OUT },
      LM_TENSOR_PER_LAYER, LM_AS_IS, 0, LM_ATTN_SUB_NORM, NULL },
    LM_T_O,
    LM_T_GATED,
    { "blk.{i}.ffn_sub_norm.weight", LM_HF "mlp.ffn_sub_norm.weight", { LM_DIM_FF },
      LM_TENSOR_PER_LAYER, LM_AS_IS, 0, LM_FFN_SUB_NORM, NULL },
    LM_T_END,
};

static const char *const classes[] = { "BitNetForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "rope_scaling", { NULL }, NULL },
    { "rope_parameters.rope_type", { "default" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_bitnet = {
    .name = "bitnet", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
