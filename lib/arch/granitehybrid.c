/* SPDX-License-Identifier: MIT */
/* Granite 4 (IBM, 2025): Mamba-2 layers, some with attention; experts beside a shared one, or the
 * latter alone.  Models of the same class that only have attention are other families' in files. */
#include "arch/recurrent.h"
#include "arch/granite.h"

#define KEYS(context, rotates) \
    LM_KEY_LAYERS, \
    context, \
    LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS, \
    LM_KEY_KV_OF_LAYERS, \
    LM_KEYS_ROPE_SCALING, \
    LM_KEY_BASE("=10000"), \
    LM_KEY_RMS_EPS("=1e-6"), \
    LM_KEYS_EXPERTS(0), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_VOCAB, \
    LM_KEY_ROT("=1"), \
    LM_KEYS_GRANITE_SCALES, \
    LM_KEY_GRANITE_SHARED, \
    LM_KEY_CONV("mamba_d_conv"), \
    LM_KEY_SSM_STATE("mamba_d_state"), \
    LM_KEY_SSM_GROUPS("mamba_n_groups"), \
    LM_KEY_SSM_INNER("mamba_expand", "hidden_size"), \
    LM_KEY_SSM_RANK("mamba_n_heads"), \
    { "rope.scaling.finetuned", LM_GGUF_BOOL, 0, LM_FROM_CONFIG, { rotates }, \
      LM_FIELD(rope_switch) }, \
    LM_KEYS_HEAD_DIM_READ, \
    LM_KEYS_END

static const struct lm_arch_key keys[] = {
    KEYS(LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "=1048576"), "=false")
};
static const struct lm_arch_key plain_keys[] = { KEYS(LM_KEY_CTX, "=true") };

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_A_QKV(LM_DIM_Q, LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_A_OUT(LM_HF "self_attn.o_proj.weight"),
    LM_R_MAMBA2(LM_HF "mamba.", LM_AS_IS, LM_AS_IS),
    LM_R_MAMBA2_NORM(LM_HF "mamba."),
    LM_T_GRANITE_EXPERTS,
    LM_T_GRANITE_SHARED(LM_TENSOR_IF_MIXED),
    LM_T_GRANITE_DENSE,
    LM_T_END,
};
static const struct lm_arch_tensor plain_tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_GRANITE_EXPERTS,
    LM_T_GRANITE_SHARED(LM_TENSOR_IF_MIXED),
    LM_T_GRANITE_DENSE,
    LM_T_END,
};

/* The key that files have for something else says whether there is rotation. */
static void constants(struct lm_hparams *h)
{
    h->no_rope = !h->rope_switch;
}

static const char *const classes[] = { "GraniteMoeHybridForCausalLM", NULL };
static const char *const no_classes[] = { NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smaug-bpe", "dbrx", NULL };
/* Files cannot say otherwise: context_length stands for no rotation, too. */
static const struct lm_arch_need needs[] = {
    { "position_embedding_type", { "nope" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_arch_need plain_needs[] = {
    { "position_embedding_type", { "rope" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .divide_logits = true, .share_of_used = true,
    .constants = constants, .recurrent = lm_recurrent_mamba2,
};
static const struct lm_dense plain_dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .divide_logits = true, .share_of_used = true,
};

#define PLAIN \
    .hf_classes = no_classes, .keys = plain_keys, .tensors = plain_tensors, .ignored = ignored, \
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &plain_dense, \
    .pre_names = pre_names, .needs = plain_needs

static const struct lm_arch plain_mixed = { .name = "granitemoe", PLAIN };
static const struct lm_arch plain = { .name = "granite", PLAIN, .mixed = &plain_mixed };

const struct lm_arch lm_arch_granitehybrid = {
    .name = "granitehybrid", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .memory = lm_recurrent_memory, .needs = needs, .plain = &plain,
};
