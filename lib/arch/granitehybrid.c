/* SPDX-License-Identifier: MIT */
/* Granite 4 (IBM, 2025): Mamba-2 layers, some with attention; experts beside a shared one, or the
 * latter alone. */
#include "arch/recurrent.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "=1048576"),
    LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS,
    LM_KEY_KV_OF_LAYERS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(0),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEY_F32("attention.scale", 0, attn_scale, "attention_multiplier", "=1"),
    LM_KEY_F32("embedding_scale", 0, embd_scale, "embedding_multiplier", "=1"),
    LM_KEY_F32("residual_scale", 0, residual_scale, "residual_multiplier", "=1"),
    LM_KEY_F32("logit_scale", 0, logit_scale, "logits_scaling", "=1"),
    LM_KEY_U32("expert_shared_feed_forward_length", 0, n_ff_shared,
               "shared_expert_intermediate_size", "shared_intermediate_size"),
    LM_KEY_CONV("mamba_d_conv"),
    LM_KEY_SSM_STATE("mamba_d_state"),
    LM_KEY_SSM_GROUPS("mamba_n_groups"),
    LM_KEY_SSM_INNER("mamba_expand", "hidden_size"),
    LM_KEY_SSM_RANK("mamba_n_heads"),
    { "rope.scaling.finetuned", LM_GGUF_BOOL, 0, LM_FROM_CONFIG, { "=false" },
      LM_FIELD(rope_switch) },
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

/* Gates and their partners are one tensor in checkpoints. */
#define HALVES(role, name, transform) \
    { "blk.{i}." name ".weight", LM_HF "block_sparse_moe.input_linear.weight", \
      { LM_DIM_EMBD, LM_DIM_FF_EXPERT, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, transform, 0, role, NULL }
#define SHARED(role, name, source, cols, rows, transform, when) \
    { "blk.{i}." name ".weight", LM_HF "shared_mlp." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | when, transform, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_A_QKV(LM_DIM_Q, LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_A_OUT(LM_HF "self_attn.o_proj.weight"),
    LM_R_MAMBA2(LM_HF "mamba.", LM_AS_IS, LM_AS_IS),
    LM_R_MAMBA2_NORM(LM_HF "mamba."),
    LM_T_ROUTER(LM_HF "block_sparse_moe.router.layer.weight"),
    HALVES(LM_GATE_EXPERTS, "ffn_gate_exps", LM_FIRST_HALVES),
    HALVES(LM_UP_EXPERTS, "ffn_up_exps", LM_SECOND_HALVES),
    { "blk.{i}.ffn_down_exps.weight", LM_HF "block_sparse_moe.output_linear.weight",
      { LM_DIM_FF_EXPERT, LM_DIM_EMBD, LM_DIM_EXPERTS },
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, LM_AS_IS, 0,
      LM_DOWN_EXPERTS, NULL },
    SHARED(LM_GATE_SHARED, "ffn_gate_shexp", "input_linear", LM_DIM_EMBD, LM_DIM_FF_SHARED,
           LM_FIRST_HALVES, LM_TENSOR_IF_MIXED),
    SHARED(LM_UP_SHARED, "ffn_up_shexp", "input_linear", LM_DIM_EMBD, LM_DIM_FF_SHARED,
           LM_SECOND_HALVES, LM_TENSOR_IF_MIXED),
    SHARED(LM_DOWN_SHARED, "ffn_down_shexp", "output_linear", LM_DIM_FF_SHARED, LM_DIM_EMBD,
           LM_AS_IS, LM_TENSOR_IF_MIXED),
    SHARED(LM_FFN_GATE, "ffn_gate", "input_linear", LM_DIM_EMBD, LM_DIM_FF, LM_FIRST_HALVES,
           LM_TENSOR_IF_DENSE),
    SHARED(LM_FFN_UP, "ffn_up", "input_linear", LM_DIM_EMBD, LM_DIM_FF, LM_SECOND_HALVES,
           LM_TENSOR_IF_DENSE),
    SHARED(LM_FFN_DOWN, "ffn_down", "output_linear", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS,
           LM_TENSOR_IF_DENSE),
    LM_T_END,
};

/* The key that files have for something else says whether there is rotation. */
static void constants(struct lm_hparams *h)
{
    h->no_rope = !h->rope_switch;
}

static const char *const classes[] = { "GraniteMoeHybridForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smaug-bpe", "dbrx", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .divide_logits = true, .share_of_used = true,
    .constants = constants, .recurrent = lm_recurrent_mamba2,
};

const struct lm_arch lm_arch_granitehybrid = {
    .name = "granitehybrid", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .memory = lm_recurrent_memory,
};
