/* SPDX-License-Identifier: MIT */
/* MiniCPM (Hu et al., 2024): llama with three multipliers, of the embedding, what a layer adds, and
 * (dividing) the logits; or with experts. */
#include "arch/dense.h"
#include "arch/rows.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(0),
    LM_KEY_FILE_TYPE,
    LM_KEY_F32("embedding_scale", 0, embd_scale, "scale_emb", "=1"),
    { "residual_scale", LM_GGUF_F32, 0, LM_FROM_ROOT_RATIO, { "scale_depth", "num_hidden_layers" },
      LM_FIELD(residual_scale) },
    { "logit_scale", LM_GGUF_F32, 0, LM_FROM_RATIO, { "hidden_size", "dim_model_base" },
      LM_FIELD(logit_scale) },
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define FEED(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", LM_HF "mlp." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_DENSE, LM_AS_IS, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_LONG,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    FEED(LM_FFN_GATE, "ffn_gate", "gate_proj", LM_DIM_EMBD, LM_DIM_FF),
    FEED(LM_FFN_UP, "ffn_up", "up_proj", LM_DIM_EMBD, LM_DIM_FF),
    FEED(LM_FFN_DOWN, "ffn_down", "down_proj", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_ROUTER(LM_HF "mlp.gate.weight"),
    LM_T_ALL_EXPERTS(LM_HF "mlp.experts.{e}.", "w1.weight", "w3.weight", "w2.weight"),
    LM_T_END,
};

/* What the first files do not say. */
static void constants(struct lm_hparams *h)
{
    if (h->embd_scale == 0)
        h->embd_scale = 12;
    if (h->residual_scale == 0)
        h->residual_scale = 1.4f / sqrtf((float)h->n_layer);
    if (h->logit_scale == 0)
        h->logit_scale = (float)h->n_embd / 256;
}

static const char *const classes[] = { "MiniCPMForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .share_of_used = true, .divide_logits = true,
    .constants = constants,
};

const struct lm_arch lm_arch_minicpm = {
    .name = "minicpm", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
