/* SPDX-License-Identifier: MIT */
/*
 * Gemma 4 (Gemma Team, 2026): Gemma 3 with longer heads in layers that see everything, of which
 * but the first part turns, and values normalized; where it is small, layers with inputs of their
 * own, of which the last look at the keys and values of others; where it is large, experts beside
 * the feed-forward.
 */
#include "arch/layer_input.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    { "feed_forward_length", LM_GGUF_ARR, LM_KEY_REQUIRED | LM_KEY_OR_NUMBER,
      LM_FROM_FF_OF_LAYERS, { "intermediate_size", "use_double_wide_mlp" }, 0 },
    LM_KEY_HEADS,
    { "attention.head_count_kv", LM_GGUF_ARR, LM_KEY_OR_NUMBER, LM_FROM_KV_BY_WINDOW,
      { "num_global_key_value_heads", "num_key_value_heads", "num_key_value_heads" }, 0 },
    LM_KEY_BASE("=1000000"),
    LM_KEY_BASE_LOCAL("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEY_U32("expert_count", 0, n_expert, "num_experts"),
    LM_KEY_U32("expert_used_count", 0, n_expert_used, "top_k_experts"),
    { "attention.key_length", LM_GGUF_U32, 0, LM_FROM_GLOBAL,
      { "global_head_dim", "head_dim", "=512" }, LM_FIELD(head_k) },
    { "attention.value_length", LM_GGUF_U32, 0, LM_FROM_GLOBAL,
      { "global_head_dim", "head_dim", "=512" }, LM_FIELD(head_v) },
    LM_KEY_FILE_TYPE,
    LM_KEY_WINDOW,
    LM_KEY_F32("final_logit_softcapping", 0, logit_cap, "final_logit_softcapping"),
    LM_KEY_SHARED_KV,
    LM_KEY_EMBD_LAYER,
    LM_KEY_LOCAL_LAYERS,
    LM_KEY_U32("attention.key_length_swa", 0, head_k_local, "head_dim", "=256"),
    LM_KEY_U32("attention.value_length_swa", 0, head_v_local, "head_dim", "=256"),
    LM_KEY_U32("expert_feed_forward_length", 0, n_ff_expert, "moe_intermediate_size"),
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_GLOBAL,
      { "global_head_dim", "head_dim", "=512" }, LM_FIELD(n_rot) },
    LM_KEY_U32("rope.dimension_count_swa", 0, n_rot_local, "head_dim", "=256"),
    LM_KEYS_END,
};

#define KV(role, name, source, len) \
    { "blk.{i}." name ".weight", LM_HF "self_attn." source ".weight", { LM_DIM_EMBD, len }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_OWN_KV, LM_AS_IS, 0, role, NULL }
#define MIXED(role, name, source, ne0, ne1, ne2, flags) \
    { "blk.{i}." name, LM_HF source, { ne0, ne1, ne2 }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_IF_MIXED | flags, LM_AS_IS, 0, role, NULL }
#define MIXED_NORM(role, name, source) \
    MIXED(role, name ".weight", source ".weight", LM_DIM_EMBD, LM_DIM_END, LM_DIM_END, 0)

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_MADE(LM_ROPE_FREQS, "rope_freqs.weight", LM_MAKE_ROPE_PART),
    LM_T_LAYER_INPUTS,
    LM_T_FOUR_NORMS(LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_Q, "attn_q", LM_HF "self_attn.q_proj.weight", LM_DIM_EMBD, LM_DIM_Q,
                LM_AS_IS),
    KV(LM_ATTN_K, "attn_k", "k_proj", LM_DIM_K),
    { "blk.{i}.attn_v.weight", LM_HF "self_attn.v_proj.weight", { LM_DIM_EMBD, LM_DIM_V },
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_AS_IS, 0, LM_ATTN_V, NULL },
    LM_T_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm.weight", LM_HF "self_attn.q_norm.weight",
                LM_DIM_HEAD_K, LM_AS_IS),
    { "blk.{i}.attn_k_norm.weight", LM_HF "self_attn.k_norm.weight", { LM_DIM_HEAD_K },
      LM_TENSOR_PER_LAYER | LM_TENSOR_OWN_KV, LM_AS_IS, 0, LM_ATTN_K_NORM, NULL },
    LM_T_O,
    LM_T_GATED,
    LM_T_MAYBE(LM_LAYER_SCALE, "layer_output_scale.weight", LM_HF "layer_scalar", LM_DIM_1,
               LM_AS_IS),
    MIXED(LM_BOTH_ROUTER, "ffn_gate_inp.weight", "router.proj.weight", LM_DIM_EMBD,
          LM_DIM_EXPERTS, LM_DIM_END, LM_TENSOR_MATRIX),
    MIXED(LM_ROUTER_SCALE, "ffn_gate_inp.scale", "router.scale", LM_DIM_EMBD, LM_DIM_END,
          LM_DIM_END, 0),
    MIXED(LM_EXPERT_SCALE, "ffn_down_exps.scale", "router.per_expert_scale", LM_DIM_EXPERTS,
          LM_DIM_END, LM_DIM_END, 0),
    MIXED(LM_GATE_UP_EXPERTS, "ffn_gate_up_exps.weight", "experts.gate_up_proj", LM_DIM_EMBD,
          LM_DIM_2_FF_EXPERT, LM_DIM_EXPERTS, LM_TENSOR_EXPERTS),
    MIXED(LM_DOWN_EXPERTS, "ffn_down_exps.weight", "experts.down_proj", LM_DIM_FF_EXPERT,
          LM_DIM_EMBD, LM_DIM_EXPERTS, LM_TENSOR_EXPERTS),
    MIXED_NORM(LM_FFN_NORM_2, "pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
    MIXED_NORM(LM_POST_FFN_NORM_1, "post_ffw_norm_1", "post_feedforward_layernorm_1"),
    MIXED_NORM(LM_POST_FFN_NORM_2, "post_ffw_norm_2", "post_feedforward_layernorm_2"),
    LM_T_END,
};

/* The router sees what comes in, normalized with weights of its own; each expert's result has a
 * factor. */
static struct lm_tensor *experts(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    const struct lm_routing route = { .k = h->n_expert_used, .normalize = true };
    struct lm_graph *g = b->graph;
    struct lm_tensor *r = lm_mul(g, lm_dense_plain_norm(b, x),
                                 lm_build_weight(b, layer, LM_ROUTER_SCALE));
    r = lm_dense_linear(b, layer, LM_BOTH_ROUTER, lm_scale(g, r, 1 / sqrtf((float)h->n_embd)));
    struct lm_tensor *ids = lm_select(g, r, NULL, &route), *w = lm_gate(g, r, ids, &route);
    if (!w)
        return NULL;
    const size_t k = ids->ne[0], n = ids->ne[1];
    struct lm_tensor *scale = lm_reshape(g, lm_build_weight(b, layer, LM_EXPERT_SCALE), 2,
                                         (size_t[]){ 1, h->n_expert });
    scale = lm_get_rows(g, scale, lm_reshape(g, ids, 1, (size_t[]){ k * n }));
    w = lm_mul(g, w, lm_reshape(g, scale, 2, (size_t[]){ k, n }));
    x = lm_reshape(g, lm_dense_norm(b, layer, LM_FFN_NORM_2, x), 3, (size_t[]){ h->n_embd, 1, n });
    x = lm_mul_mat_id(g, lm_build_weight(b, layer, LM_GATE_UP_EXPERTS), x, ids);
    x = lm_dense_gated(b, lm_dense_half(b, x, 0), lm_dense_half(b, x, 1));
    x = lm_mul_mat_id(g, lm_build_weight(b, layer, LM_DOWN_EXPERTS), x, ids);
    return lm_weighted_sum(g, x, w);
}

static struct lm_tensor *feed(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                              struct lm_tensor *y)
{
    y = lm_dense_feed(b, layer, y);
    if (!lm_build_weight(b, layer, LM_BOTH_ROUTER))
        return y;
    y = lm_dense_norm(b, layer, LM_POST_FFN_NORM_1, y);
    return lm_add(b->graph, y, lm_dense_norm(b, layer, LM_POST_FFN_NORM_2, experts(b, layer, x)));
}

static struct lm_tensor *after(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_tensor *in = lm_layer_input(b, layer, x);
    struct lm_tensor *scale = lm_build_weight(b, layer, LM_LAYER_SCALE);
    x = in ? lm_add(b->graph, x, in) : x;
    return scale ? lm_mul(b->graph, x, scale) : x;
}

static void constants(struct lm_hparams *h)
{
    lm_dense_scale_embd(h);
    lm_dense_local_base(h, 10000);
    h->attn_scale = 1;
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    const uint32_t most = 1 << 14;
    int r = lm_dense_settle(a, h, err);
    if (r || h->head_k_local == 0)
        return r;
    h->head_v_local = h->head_v_local ? h->head_v_local : h->head_k_local;
    h->n_rot_local = h->n_rot_local ? h->n_rot_local : h->head_k_local;
    h->n_head_kv_local = h->n_head_kv_local ? h->n_head_kv_local : h->n_head_kv;
    if (h->head_k_local > most || h->head_v_local > most || h->n_rot_local > h->head_k_local ||
        h->n_rot_local % 2 || h->head_v != h->head_k || h->head_v_local != h->head_k_local)
        return lm_fail(err, LM_EDATA, "gemma4.attention.key_length_swa: %u, values of %u, of keys "
                       "%u turned", h->head_k_local, h->head_v_local, h->n_rot_local);
    if (h->n_head_kv_local > 1 << 16 || h->n_head % h->n_head_kv_local)
        return lm_fail(err, LM_EDATA, "gemma4.attention.head_count_kv: %u does not divide the %u "
                       "heads", h->n_head_kv_local, h->n_head);
    if (h->n_embd_layer > 1 << 16)
        return lm_fail(err, LM_EDATA, "gemma4.embedding_length_per_layer_input: %u: too long",
                       h->n_embd_layer);
    return LM_OK;
}

static const char *const classes[] = { "Gemma4ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "hidden_activation", { "gelu_pytorch_tanh" }, NULL },
    { "use_bidirectional_attention", { "vision" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_GELU, .rope_halves = true, .all_every = 6,
    .constants = constants, .qkv = lm_shared_qkv, .begin = lm_layer_inputs, .feed = feed,
    .after = after,
};

const struct lm_arch lm_arch_gemma4 = {
    .name = "gemma4", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .build = lm_dense_build, .dense = &dense,
    .tokens = lm_arch_no_space, .needs = needs,
};
