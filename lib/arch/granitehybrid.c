/* SPDX-License-Identifier: MIT */
/* Granite 4 (IBM, 2025): Mamba-2 layers, some with attention; experts beside a shared one, or the
 * latter alone.  Models of the same class that only have attention are other families' in files. */
#include "arch/recurrent.h"
#include "arch/granite.h"

#define KEYS_SSM \
    LM_KEY_CONV("mamba_d_conv"), \
    LM_KEY_SSM_STATE("mamba_d_state"), \
    LM_KEY_SSM_GROUPS("mamba_n_groups"), \
    LM_KEY_SSM_INNER("mamba_expand", "hidden_size"), \
    LM_KEY_SSM_RANK("mamba_n_heads")
#define KEY_ROTATES(yes) \
    { "rope.scaling.finetuned", LM_GGUF_BOOL, 0, LM_FROM_CONFIG, { yes }, LM_FIELD(rope_switch) }
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
    KEYS_SSM, \
    KEY_ROTATES(rotates), \
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

/* Bamba (IBM, Princeton and UIUC, 2024): half of a head is rotated, nothing is scaled, and there
 * are no experts. */
static const struct lm_arch_key bamba_keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS,
    LM_KEY_KV_OF_LAYERS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("#attn_rotary_emb", "partial_rotary_factor", "=0.5"),
    KEYS_SSM,
    KEY_ROTATES("=true"),
    LM_KEYS_END,
};

#define FEED(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, LM_HF "feed_forward." source ".weight", cols, rows, LM_AS_IS)

static const struct lm_arch_tensor bamba_tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.final_layernorm.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "pre_ff_layernorm.weight"),
    LM_A_QKV(LM_DIM_Q, LM_PAIR_TURNED_Q_ROWS, LM_PAIR_TURNED_K_ROWS),
    LM_A_OUT(LM_HF "self_attn.o_proj.weight"),
    LM_R_MAMBA2(LM_HF "mamba.", LM_AS_IS, LM_AS_IS),
    LM_R_MAMBA2_NORM(LM_HF "mamba."),
    FEED(LM_FFN_GATE, "ffn_gate", "gate_proj", LM_DIM_EMBD, LM_DIM_FF),
    FEED(LM_FFN_UP, "ffn_up", "up_proj", LM_DIM_EMBD, LM_DIM_FF),
    FEED(LM_FFN_DOWN, "ffn_down", "down_proj", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_END,
};
static const char *const bamba_classes[] = { "BambaForCausalLM", NULL };
static const struct lm_arch_need bamba_needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "mlp_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};

const struct lm_arch lm_arch_bamba = {
    .name = "granitehybrid", .hf_classes = bamba_classes, .keys = bamba_keys,
    .tensors = bamba_tensors, .ignored = ignored, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .memory = lm_recurrent_memory,
    .needs = bamba_needs,
};
