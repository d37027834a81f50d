/* SPDX-License-Identifier: MIT */
/* Phi-3 (Abdin et al., 2024): llama with fused projections; two sets of frequency factors for
 * short and long texts (Ding et al., "LongRoPE", 2024). */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    { "rope.scaling.attn_factor", LM_GGUF_F32, 0, LM_FROM_ROPE_ATTN, { NULL },
      LM_FIELD(rope_attn) },
    LM_KEY_CTX,
    LM_KEY_U32("rope.scaling.original_context_length", 0, rope_orig_ctx,
               "original_max_position_embeddings", "max_position_embeddings"),
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    LM_KEY_HEADS_KV,
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_ROT("partial_rotary_factor", "=1"),
    LM_KEY_BASE("=10000"),
    LM_KEY_FILE_TYPE,
    LM_KEY_U32("attention.sliding_window", 0, window, "sliding_window", "=0"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_LONG,
    LM_T_TWO_NORMS,
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", LM_HF "self_attn.qkv_proj.weight",
                LM_DIM_EMBD, LM_DIM_QKV, LM_AS_IS),
    LM_T_O,
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "mlp.gate_up_proj.weight",
                LM_DIM_EMBD, LM_DIM_2_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.down_proj.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "Phi3ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_phi3 = {
    .name = "phi3", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
