/* SPDX-License-Identifier: MIT */
/* Apertus (Swiss AI, 2025): llama with an activation that each layer has numbers of its own for, no
 * gate, and queries and keys normalized. */
#include "arch/dense.h"
#include "arch/rows.h"

#include <math.h>

#define NUMBER(name) \
    { "xielu." #name, LM_GGUF_ARR, LM_KEY_REQUIRED, LM_FROM_EACH_LAYER, \
      { LM_HF "mlp.act_fn." #name }, offsetof(struct lm_xielu, name) }

static const struct lm_arch_key keys[] = {
    NUMBER(alpha_n),
    NUMBER(alpha_p),
    NUMBER(beta),
    NUMBER(eps),
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=12000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "attention_layernorm.weight"),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "feedforward_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_O_B,
    LM_T_UP_DOWN,
    LM_T_END,
};

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* What was trained keeps the slopes above 0. */
static void constants(struct lm_hparams *h)
{
    for (uint32_t i = 0; i < h->n_layer && i < LM_MAX_XIELU; i++) {
        h->xielu[i].alpha_p = softplus(h->xielu[i].alpha_p);
        h->xielu[i].alpha_n = softplus(h->xielu[i].alpha_n) + h->xielu[i].beta;
    }
}

static const char *const classes[] = { "ApertusForCausalLM", NULL };
static const char *const ignored[] = {
    LM_HF "mlp.act_fn.alpha_n", LM_HF "mlp.act_fn.alpha_p", LM_HF "mlp.act_fn.beta",
    LM_HF "mlp.act_fn.eps", NULL
};
static const struct lm_arch_need needs[] = {
    { "hidden_act", { "xielu" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_XIELU, .rope_halves = true, .constants = constants,
};

const struct lm_arch lm_arch_apertus = {
    .name = "apertus", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
