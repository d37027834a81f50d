/* SPDX-License-Identifier: MIT */
/* Gemma 2 (Riviere et al., 2024): norms before and after, soft caps of scores and logits, a window
 * in every other layer. */
#include "arch/dense.h"
#include "arch/rows.h"

#include <math.h>

static void constants(struct lm_hparams *h)
{
    lm_dense_scale_embd(h);
    if (h->n_layer == 46 && h->n_head && !h->attn_scale)     /* of 27 billion weights */
        h->attn_scale = 1 / sqrtf((float)h->n_embd / (float)h->n_head);
}

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_LAYERS,
    LM_KEY_FF,
    LM_KEY_HEADS,
    LM_KEY_HEADS_KV,
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEY_F32("attn_logit_softcapping", 0, attn_cap, "attn_logit_softcapping"),
    LM_KEY_F32("final_logit_softcapping", 0, logit_cap, "final_logit_softcapping"),
    LM_KEY_WINDOW,
    LM_KEY_BASE_UNUSUAL,
    LM_KEY_ROT_READ,
    LM_KEY_PRE_ATTN,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"),
    LM_T_OUTPUT(NULL),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_FOUR_NORMS(LM_ADD_ONE),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "Gemma2ForCausalLM", NULL };
static const char *const ignored[] = {
    "lm_head.weight", LM_HF "self_attn.rotary_emb.inv_freq", NULL
};
static const struct lm_arch_need needs[] = {
    { "tie_word_embeddings", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_GELU, .rope_halves = true, .all_every = 2,
    .constants = constants,
};

const struct lm_arch lm_arch_gemma2 = {
    .name = "gemma2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .tokens = lm_arch_no_space, .needs = needs,
};
