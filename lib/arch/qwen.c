/* SPDX-License-Identifier: MIT */
/* Qwen (Bai et al., 2023): llama with a bias of queries, keys and values; its numbers have twice
 * the length of the feed-forward. */
#include "arch/dense.h"
#include "arch/rows.h"

#define QWEN "transformer.h.{i}."

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_LAYERS,
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_F32("rope.freq_base", 0, rope_base, "rotary_emb_base", "=10000"),
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, LM_FIELD(n_rot) },
    LM_KEY_HEADS,
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps,
               "layer_norm_epsilon", "=1e-6"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", QWEN "ln_1.weight"),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", QWEN "attn.c_attn.weight", LM_DIM_EMBD, LM_DIM_QKV,
                LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_QKV_B, "attn_qkv.bias", QWEN "attn.c_attn.bias", LM_DIM_QKV, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", QWEN "attn.c_proj.weight", LM_DIM_HEADS_OUT,
                LM_DIM_EMBD, LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", QWEN "ln_2.weight"),
    LM_T_MATRIX(LM_FFN_GATE, "ffn_gate", QWEN "mlp.w2.weight", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", QWEN "mlp.w1.weight", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", QWEN "mlp.c_proj.weight", LM_DIM_FF, LM_DIM_EMBD,
                LM_AS_IS),
    LM_T_END,
};

static void constants(struct lm_hparams *h)
{
    h->n_ff /= 2;
}

static const char *const classes[] = { "QWenLMHeadModel", NULL };
static const char *const ignored[] = { "transformer.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "no_bias", { "true" }, NULL },
    { "rotary_pct", { "1", "1.0" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .constants = constants,
};

const struct lm_arch lm_arch_qwen = {
    .name = "qwen", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
