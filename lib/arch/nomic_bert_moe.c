/* SPDX-License-Identifier: MIT */
/*
 * Nomic Embed v2 (Nussbaum and Duderstadt, 2025): Nomic Embed with biases and without a gate, and
 * experts in every other layer, whose shares are of all experts; a bias is added to their sum.  The
 * reference converter leaves that out; where it is not zero, files have it as ffn_exps_sum.
 */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_trained_positions",
               "n_positions", "max_position_embeddings"),
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_HEADS,
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE, { "rope_theta", "rotary_emb_base", "=10000" },
      LM_FIELD(rope_base) },
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_U32("expert_count", LM_KEY_REQUIRED, n_expert, "num_experts"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_POOLING,
    LM_KEY_U32("moe_every_n_layers", LM_KEY_REQUIRED, mixed_every, "moe_every_n_layers"),
    LM_KEY_U32("expert_used_count", LM_KEY_REQUIRED, n_expert_used, "moe_top_k"),
    LM_KEY_TYPES,
    LM_KEYS_END,
};

#define HF "encoder.layers.{i}."
#define PART(role, name, source, cols, rows, when) \
    { "blk.{i}." name ".weight", HF source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | (when), LM_AS_IS, 0, role, NULL }, \
    { "blk.{i}." name ".bias", HF source ".bias", { rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL | (when), LM_AS_IS, 0, role##_B, NULL }
#define NORM(role, name, source) LM_T_LAYER_NORM(role, name, HF source)
#define EXPERTS(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", HF "mlp.experts.mlp." source, { cols, rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, transform, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("embeddings.word_embeddings.weight"),
    LM_T_TYPES("embeddings.token_type_embeddings.weight"),
    LM_T_EMBD_NORM("emb_ln.weight", "emb_ln.bias"),
    PART(LM_ATTN_QKV, "attn_qkv", "attn.Wqkv", LM_DIM_EMBD, LM_DIM_QKV, 0),
    PART(LM_ATTN_OUT, "attn_output", "attn.out_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD, 0),
    NORM(LM_ATTN_OUT_NORM, "attn_output_norm", "norm1"),
    PART(LM_FFN_UP, "ffn_up", "mlp.fc1", LM_DIM_EMBD, LM_DIM_FF, LM_TENSOR_IF_DENSE),
    PART(LM_FFN_DOWN, "ffn_down", "mlp.fc2", LM_DIM_FF, LM_DIM_EMBD, LM_TENSOR_IF_DENSE),
    LM_T_ROUTER(HF "mlp.router.layer.weight"),
    EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", "w1", LM_DIM_EMBD, LM_DIM_FF_EXPERT, LM_STACKED_ROWS),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "w2", LM_DIM_FF_EXPERT, LM_DIM_EMBD,
            LM_STACKED_ROWS_TURNED),
    { "blk.{i}.ffn_exps_sum.bias", HF "mlp.experts.bias", { LM_DIM_EMBD },
      LM_TENSOR_PER_LAYER | LM_TENSOR_IF_MIXED | LM_TENSOR_OPTIONAL | LM_TENSOR_UNLESS_ZERO,
      LM_AS_IS, 0, LM_EXPERTS_SUM_B, NULL },
    NORM(LM_LAYER_OUT_NORM, "layer_output_norm", "norm2"),
    LM_T_END,
};

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    if (h->mixed_every != 2)                /* others do not begin to count where we do */
        return lm_fail(err, LM_ENOSUP, "%s.moe_every_n_layers: %u is not supported", a->name,
                       h->mixed_every);
    return lm_dense_settle(a, h, err);
}

static const char *const classes[] = { NULL };
static const char *const ignored[] = { "embeddings.position_ids", NULL };
static const char *const prefixes[] = { "bert.", NULL };
static const struct lm_arch_need needs[] = {
    { "activation_function", { "gelu" }, NULL },
    { "moe_normalize_expert_weights", { "false" }, NULL },
    { "prenorm", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .rope_halves = true,
};

const struct lm_arch lm_arch_nomic_bert_moe = {
    .name = "nomic-bert-moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = settle,
    .build = lm_dense_build, .dense = &dense, .needs = needs,
};
