/* SPDX-License-Identifier: MIT */
/*
 * Llama 4 (Meta AI, 2025): three layers of four turn and see the chunk that they are in, with
 * heads normalized after it; the fourth does not turn, sees everything, and its queries grow with
 * the distance.  One expert a token, whose input is weighed by a sigmoid, and one for all, in all
 * layers or in every second.
 */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "intermediate_size_mlp",
               "intermediate_size"),
    LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEY_BASE("=500000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEY_U32("interleave_moe_layer_step", 0, mixed_every, "interleave_moe_layer_step", "=1"),
    LM_KEY_U32("expert_feed_forward_length", LM_KEY_REQUIRED, n_ff_expert, "intermediate_size"),
    { "attention.sliding_window", LM_GGUF_U32, 0, LM_FROM_UNLESS,
      { "attention_chunk_size", "=8192" }, LM_FIELD(window) },
    { "attention.temperature_length", LM_GGUF_U32, 0, LM_FROM_UNLESS,
      { "floor_scale", "=8192" }, LM_FIELD(far_length) },
    { "attention.temperature_scale", LM_GGUF_F32, 0, LM_FROM_UNLESS,
      { "attn_scale", "=0.1" }, LM_FIELD(far_scale) },
    { "attention.qk_norms", LM_GGUF_BOOL, 0, LM_FROM_UNLESS,
      { "use_qk_norm", "=true" }, LM_FIELD(qk_norms) },
    LM_KEYS_END,
};

#define MATRIX(role, name, source, cols, rows, when) \
    { "blk.{i}." name ".weight", LM_HF "feed_forward." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | when, LM_AS_IS, 0, role, NULL }
#define EXPERTS(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", LM_HF "feed_forward.experts." source, \
      { cols, rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, transform, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    MATRIX(LM_FFN_GATE, "ffn_gate", "gate_proj", LM_DIM_EMBD, LM_DIM_FF, LM_TENSOR_IF_DENSE),
    MATRIX(LM_FFN_UP, "ffn_up", "up_proj", LM_DIM_EMBD, LM_DIM_FF, LM_TENSOR_IF_DENSE),
    MATRIX(LM_FFN_DOWN, "ffn_down", "down_proj", LM_DIM_FF, LM_DIM_EMBD, LM_TENSOR_IF_DENSE),
    LM_T_ROUTER(LM_HF "feed_forward.router.weight"),
    EXPERTS(LM_GATE_EXPERTS, "ffn_gate_exps", "gate_up_proj", LM_DIM_EMBD, LM_DIM_FF_EXPERT,
            LM_FIRST_HALVES_TURNED),
    EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", "gate_up_proj", LM_DIM_EMBD, LM_DIM_FF_EXPERT,
            LM_SECOND_HALVES_TURNED),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "down_proj", LM_DIM_FF_EXPERT, LM_DIM_EMBD,
            LM_STACK_TURNED),
    MATRIX(LM_GATE_SHARED, "ffn_gate_shexp", "shared_expert.gate_proj", LM_DIM_EMBD,
           LM_DIM_FF_EXPERT, LM_TENSOR_IF_MIXED),
    MATRIX(LM_UP_SHARED, "ffn_up_shexp", "shared_expert.up_proj", LM_DIM_EMBD,
           LM_DIM_FF_EXPERT, LM_TENSOR_IF_MIXED),
    MATRIX(LM_DOWN_SHARED, "ffn_down_shexp", "shared_expert.down_proj", LM_DIM_FF_EXPERT,
           LM_DIM_EMBD, LM_TENSOR_IF_MIXED),
    LM_T_END,
};

/* The model of 128 experts has no norms of heads, whether its file says so or not. */
static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    h->gating = 2;
    int r = lm_dense_settle(a, h, err);
    if (r)
        return r;
    if (h->n_expert_used != 1)
        return lm_fail(err, LM_ENOSUP, "llama4.expert_used_count: %u is not supported",
                       h->n_expert_used);
    h->qk_norms = h->qk_norms && h->n_expert != 128;
    h->far_length = h->far_length ? h->far_length : 8192;
    h->far_scale = h->far_scale > 0 ? h->far_scale : 0.1f;
    return LM_OK;
}

static const char *const classes[] = { "Llama4ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "attn_temperature_tuning", { "true", "4" }, NULL },
    { "no_rope_layer_interval", { "4" }, NULL },
    { "attention_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .all_every = 4, .unturned_every = 4,
    .in_chunks = true, .usual_window = 8192, .plain_norms = true, .far_unturned = true,
    .weigh_inputs = true,
};

const struct lm_arch lm_arch_llama4 = {
    .name = "llama4", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
