/* SPDX-License-Identifier: MIT */
/* DBRX (Databricks, 2024): experts in every layer, layer norms without biases, queries, keys and
 * values clipped. */
#include "arch/dense.h"
#include "arch/rows.h"

#define DBRX "transformer.blocks.{i}."

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_seq_len", "=2048"),
    LM_KEY_EMBD,
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "ffn_config.ffn_hidden_size"),
    LM_KEY_U32("attention.head_count", LM_KEY_REQUIRED, n_head, "n_heads"),
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, "attn_config.kv_n_heads", "=1"),
    LM_KEY_F32("rope.freq_base", 0, rope_base, "attn_config.rope_theta",
               "rope_parameters.rope_theta", "=10000"),
    LM_KEY_CLAMP_QKV("attn_config.clip_qkv"),
    LM_KEY_U32("expert_count", LM_KEY_REQUIRED, n_expert, "ffn_config.moe_num_experts"),
    LM_KEY_U32("expert_used_count", LM_KEY_REQUIRED, n_expert_used, "ffn_config.moe_top_k"),
    LM_KEY_F32("attention.layer_norm_epsilon", LM_KEY_REQUIRED, norm_eps, "=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

#define EXPERTS(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", DBRX "ffn.experts.mlp." source, { cols, rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, transform, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.norm_f.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", DBRX "norm_attn_norm.norm_1.weight"),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", DBRX "norm_attn_norm.attn.Wqkv.weight", LM_DIM_EMBD,
                LM_DIM_QKV, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", DBRX "norm_attn_norm.attn.out_proj.weight",
                LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "attn_output_norm", DBRX "norm_attn_norm.norm_2.weight"),
    LM_T_ROUTER(DBRX "ffn.router.layer.weight"),
    EXPERTS(LM_GATE_EXPERTS, "ffn_gate_exps", "w1", LM_DIM_EMBD, LM_DIM_FF_EXPERT,
            LM_STACKED_ROWS),
    EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", "v1", LM_DIM_EMBD, LM_DIM_FF_EXPERT, LM_STACKED_ROWS),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "w2", LM_DIM_FF_EXPERT, LM_DIM_EMBD,
            LM_STACKED_ROWS_TURNED),
    LM_T_END,
};

static const char *const classes[] = { "DbrxForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "ffn_config.ffn_act_fn.name", { "silu" }, NULL },
    { "ffn_config.moe_normalize_expert_weights", { "1", "1.0" }, NULL },
    { "rope_parameters.rope_type", { "default" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "smaug-bpe", "dbrx", "llama-bpe", "dbrx", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .rope_halves = true, .share_of_used = true,
};

const struct lm_arch lm_arch_dbrx = {
    .name = "dbrx", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .pre_names = pre_names,
};
