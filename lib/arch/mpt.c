/* SPDX-License-Identifier: MIT */
/* MPT (MosaicML, 2023): layer norms without biases, exact GELU, distances instead of positions;
 * queries, keys and values may be clipped. */
#include "arch/dense.h"
#include "arch/rows.h"

#define MPT "transformer.blocks.{i}."

static const struct lm_arch_key keys[] = {
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_seq_len", "=2048"),
    LM_KEY_EMBD,
    LM_KEY_LAYERS,
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_4_TIMES, { "d_model" },
      LM_FIELD(n_ff) },
    LM_KEY_U32("attention.head_count", LM_KEY_REQUIRED, n_head, "n_heads"),
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, "attn_config.kv_n_heads"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_CLAMP_QKV("attn_config.clip_qkv"),
    LM_KEY_F32("attention.max_alibi_bias", LM_KEY_REQUIRED, alibi, "attn_config.alibi_bias_max",
               "=8"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.norm_f.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", MPT "norm_1.weight"),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", MPT "attn.Wqkv.weight", LM_DIM_EMBD, LM_DIM_QKV,
                LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", MPT "attn.out_proj.weight", LM_DIM_HEADS_OUT,
                LM_DIM_EMBD, LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", MPT "norm_2.weight"),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", MPT "ffn.up_proj.weight", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", MPT "ffn.down_proj.weight", LM_DIM_FF, LM_DIM_EMBD,
                LM_AS_IS),
    LM_T_END,
};

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    if (!(h->alibi > 0))
        return lm_fail(err, LM_ENOSUP, "%s.attention.max_alibi_bias: %g: learned positions are "
                       "not supported", a->name, (double)h->alibi);
    return lm_dense_settle(a, h, err);
}

static const char *const classes[] = { "MPTForCausalLM", "MptForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "attn_config.alibi", { "true" }, NULL },
    { "attn_config.attn_type", { "multihead_attention", "grouped_query_attention" }, NULL },
    { "attn_config.prefix_lm", { "false" }, NULL },
    { "attn_config.qk_ln", { "false" }, NULL },
    { "attn_config.qk_gn", { "false" }, NULL },
    { "attn_config.softmax_scale", { NULL }, NULL },
    { "expansion_ratio", { "4" }, NULL },
    { "logit_scale", { NULL }, NULL },
    { "no_bias", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "gpt-2", "mpt", NULL };
static const struct lm_dense dense = { .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF };

const struct lm_arch lm_arch_mpt = {
    .name = "mpt", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .pre_names = pre_names,
};
