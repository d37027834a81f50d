/* SPDX-License-Identifier: MIT */
/*
 * XVERSE (2023) and Baichuan (Yang et al., 2023), which are llama; the second has queries, keys and
 * values of its checkpoints in one matrix, and with 40 layers distances instead of positions.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#define LAYOUT \
    { "tensor_data_layout", LM_GGUF_STR, LM_KEY_UNUSED, LM_FROM_CONFIG, \
      { "=Meta AI original pth" }, 0 }
#define CTX \
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_sequence_length", \
               "max_position_embeddings", "model_max_length")
#define KEYS(...) \
    LAYOUT, CTX, LM_KEY_EMBD, LM_KEY_LAYERS, LM_KEY_FF, __VA_ARGS__, LM_KEY_HEADS, \
    LM_KEY_HEADS_KV
#define TURNED \
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, LM_FIELD(n_rot) }
#define SCALING \
    { "rope.scaling.type", LM_GGUF_STR, 0, LM_FROM_ROPE_TYPE, { NULL }, LM_FIELD(rope_scaling) }, \
    { "rope.scaling.factor", LM_GGUF_F32, 0, LM_FROM_ROPE_LINEAR, { "factor" }, \
      LM_FIELD(rope_factor) }

static const struct lm_arch_key keys[] = {
    KEYS(TURNED),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEY_FILE_TYPE,
    SCALING,
    LM_KEY_BASE_UNUSUAL,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

static const struct lm_arch_need needs[] = {
    { "rope_scaling.type", { "linear" }, NULL },
    { "rope_scaling.rope_type", { "linear" }, NULL },
    { "rope_theta", { "10000", "10000.0" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };

/* --- XVERSE ----------------------------------------------------------------------------- */

static const struct lm_arch_tensor xverse_tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const xverse_classes[] = { "XverseForCausalLM", NULL };
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_xverse = {
    .name = "xverse", .hf_classes = xverse_classes, .keys = keys, .tensors = xverse_tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};

/* --- Baichuan --------------------------------------------------------------------------- */

#define PACKED LM_HF "self_attn.W_pack.weight"
static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_MATRIX(LM_ATTN_Q, "attn_q", PACKED, LM_DIM_EMBD, LM_DIM_Q, LM_PACKED_Q),
    LM_T_MATRIX(LM_ATTN_K, "attn_k", PACKED, LM_DIM_EMBD, LM_DIM_K, LM_PACKED_K),
    LM_T_MATRIX(LM_ATTN_V, "attn_v", PACKED, LM_DIM_EMBD, LM_DIM_V, LM_PACKED_V),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

/* Nothing but the number of layers tells the models of 13B from the others. */
static void constants(struct lm_hparams *h)
{
    if (h->n_layer == 40)
        h->alibi = 8;
}

/* Version 2 normalizes the rows of the output matrix, and has a number for that loss. */
static const struct lm_arch_need baichuan_needs[] = {
    { "rope_scaling", { NULL }, NULL },
    { "z_loss_weight", { NULL }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const classes[] = { "BaichuanForCausalLM", "BaiChuanForCausalLM", NULL };
static const struct lm_dense baichuan_dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = constants,
};

const struct lm_arch lm_arch_baichuan = {
    .name = "baichuan", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &baichuan_dense, .needs = baichuan_needs,
};

/* --- Orion ------------------------------------------------------------------------------ */

/* Orion (Chen et al., 2024): the same with layer norms, whatever its numbers call them, and rotated
 * halves. */
static const struct lm_arch_key orion_keys[] = {
    LM_KEY_FILE_TYPE,
    LAYOUT, CTX, LM_KEY_EMBD, LM_KEY_LAYERS, LM_KEY_FF, LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEY_F32("attention.layer_norm_epsilon", LM_KEY_REQUIRED, norm_eps, "rms_norm_eps", "=1e-5"),
    LM_KEY_BASE_UNUSUAL,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor orion_tensors[] = {
    LM_T_ENDS,
    LM_T_OUTPUT_NORM_B("model.norm.bias"),
    LM_T_LAYER_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_LAYER_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "post_attention_layernorm"),
    LM_T_GATED,
    LM_T_END,
};

static const struct lm_arch_need orion_needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "rope_scaling", { NULL }, NULL },
    { "rope_theta", { "10000", "10000.0" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const orion_classes[] = { "OrionForCausalLM", NULL };
static const struct lm_dense orion_dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_orion = {
    .name = "orion", .hf_classes = orion_classes, .keys = orion_keys, .tensors = orion_tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &orion_dense, .needs = orion_needs,
};
