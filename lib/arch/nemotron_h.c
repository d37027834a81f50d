/* SPDX-License-Identifier: MIT */
/* Nemotron-H and Nemotron 3 (NVIDIA, 2025): every layer is one thing, Mamba-2, attention without
 * rotation, or a squared ReLU, in the later models with experts in its place. */
#include "arch/recurrent.h"
#include "arch/rows.h"

#define LAYERS \
    { "block_count", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_LAYER_COUNT, \
      { "hybrid_override_pattern", "layers_block_type", "num_hidden_layers" }, LM_FIELD(n_layer) }
#define FEEDS(name) \
    { "feed_forward_length", LM_GGUF_ARR, LM_KEY_REQUIRED, LM_FROM_FF_OF_KINDS, { name }, 0 }
#define REST \
    LM_KEY_HEADS, \
    LM_KEY_KV_OF_LAYERS, \
    LM_KEY_F32("attention.layer_norm_epsilon", LM_KEY_UNUSED, norm_eps, "layer_norm_epsilon", \
               "=1e-5"), \
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps, \
               "layer_norm_epsilon", "=1e-5"), \
    LM_KEYS_HEAD_DIM("head_dim", "attention_head_dim", "=128"), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_VOCAB, \
    LM_KEY_CONV("conv_kernel", "mamba_d_conv"), \
    LM_KEY_SSM_STATE("ssm_state_size"), \
    LM_KEY_SSM_GROUPS("n_groups", "mamba_n_groups"), \
    LM_KEY_SSM_INNER("mamba_num_heads", "mamba_head_dim"), \
    LM_KEY_SSM_RANK("mamba_num_heads")

static const struct lm_arch_key keys[] = {
    LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    FEEDS("intermediate_size"),
    REST,
    LM_KEYS_END,
};

#define HF "layers.{i}."
#define ATTENTION(role, name, source, cols, rows) \
    LM_A_MATRIX(role, name, HF "mixer." source ".weight", cols, rows, LM_AS_IS)
#define FED(role, name, source, cols, rows, flags) \
    { "blk.{i}." name, HF "mixer." source, { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_IF_FED | flags, LM_AS_IS, 0, role, NULL }
#define EXPERTS(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", HF "mixer.experts.{e}." source ".weight", \
      { cols, rows, LM_DIM_EXPERTS }, LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_FED, \
      LM_STACK, 0, role, NULL }
#define COMMON \
    LM_T_EMBD("embeddings.weight"), LM_T_OUTPUT("lm_head.weight"), \
    LM_T_OUTPUT_NORM("norm_f.weight", LM_AS_IS), \
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", HF "norm.weight"), \
    ATTENTION(LM_ATTN_Q, "attn_q", "q_proj", LM_DIM_EMBD, LM_DIM_Q), \
    ATTENTION(LM_ATTN_K, "attn_k", "k_proj", LM_DIM_EMBD, LM_DIM_K), \
    ATTENTION(LM_ATTN_V, "attn_v", "v_proj", LM_DIM_EMBD, LM_DIM_V), \
    LM_A_OUT(HF "mixer.o_proj.weight"), \
    LM_R_MAMBA2(HF "mixer.", LM_AS_IS, LM_AS_IS), \
    LM_R_MAMBA2_NORM(HF "mixer.")

static const struct lm_arch_tensor tensors[] = {
    COMMON,
    FED(LM_FFN_UP, "ffn_up.weight", "up_proj.weight", LM_DIM_EMBD, LM_DIM_FF, LM_TENSOR_MATRIX),
    FED(LM_FFN_UP_B, "ffn_up.bias", "up_proj.bias", LM_DIM_FF, LM_DIM_END, LM_TENSOR_OPTIONAL),
    FED(LM_FFN_DOWN, "ffn_down.weight", "down_proj.weight", LM_DIM_FF, LM_DIM_EMBD,
        LM_TENSOR_MATRIX),
    FED(LM_FFN_DOWN_B, "ffn_down.bias", "down_proj.bias", LM_DIM_EMBD, LM_DIM_END,
        LM_TENSOR_OPTIONAL),
    LM_T_END,
};

static void constants(struct lm_hparams *h)
{
    h->no_rope = true;
    h->ssm_step_least = 0.001f;
}

static const char *const classes[] = { "NemotronHForCausalLM", NULL };
static const char *const ignored[] = { "mtp.*", NULL };
static const char *const prefixes[] = { "backbone.", "model.", NULL };
static const struct lm_arch_need needs[] = {
    { "mlp_hidden_act", { "relu2" }, NULL },
    { "mamba_hidden_act", { "silu" }, NULL },
    { "attention_bias", { "false" }, NULL },
    { "time_step_min", { "0.001", "1e-3", "1e-03" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_RELU2, .constants = constants,
    .recurrent = lm_recurrent_mamba2,
};

static const struct lm_arch_key mixed_keys[] = {
    LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    FEEDS("moe_intermediate_size"),
    REST,
    LM_KEY_U32("expert_used_count", LM_KEY_REQUIRED, n_expert_used, "num_experts_per_tok"),
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_feed_forward_length", LM_KEY_REQUIRED, n_ff_shared,
               "moe_shared_expert_intermediate_size"),
    LM_KEY_U32("expert_count", LM_KEY_REQUIRED, n_expert, "n_routed_experts"),
    LM_KEY_U32("expert_shared_count", 0, n_shared, "n_shared_experts"),
    LM_KEY_EXPERTS_NORM_AS("norm_topk_prob", "=true"),
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"),
    LM_KEYS_EXPERT_GROUPS,
    LM_KEY_U32("moe_latent_size", 0, n_latent, "moe_latent_size"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor mixed_tensors[] = {
    COMMON,
    FED(LM_ROUTER, "ffn_gate_inp.weight", "gate.weight", LM_DIM_EMBD, LM_DIM_EXPERTS,
        LM_TENSOR_MATRIX),
    FED(LM_EXPERT_PREFERENCE, "exp_probs_b.bias", "gate.e_score_correction_bias", LM_DIM_EXPERTS,
        LM_DIM_END, 0),
    EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", "up_proj", LM_DIM_EXPERT_IN, LM_DIM_FF_EXPERT),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "down_proj", LM_DIM_FF_EXPERT, LM_DIM_EXPERT_IN),
    FED(LM_UP_SHARED, "ffn_up_shexp.weight", "shared_experts.up_proj.weight", LM_DIM_EMBD,
        LM_DIM_FF_SHARED, LM_TENSOR_MATRIX),
    FED(LM_DOWN_SHARED, "ffn_down_shexp.weight", "shared_experts.down_proj.weight",
        LM_DIM_FF_SHARED, LM_DIM_EMBD, LM_TENSOR_MATRIX),
    FED(LM_EXPERTS_IN, "ffn_latent_down.weight", "fc1_latent_proj.weight", LM_DIM_EMBD,
        LM_DIM_EXPERT_IN, LM_TENSOR_MATRIX | LM_TENSOR_IF_EXPERT_IN),
    FED(LM_EXPERTS_OUT, "ffn_latent_up.weight", "fc2_latent_proj.weight", LM_DIM_EXPERT_IN,
        LM_DIM_EMBD, LM_TENSOR_MATRIX | LM_TENSOR_IF_EXPERT_IN),
    LM_T_END,
};

static const char *const mixed_classes[] = { NULL };
static const struct lm_arch_need mixed_needs[] = {
    { "mlp_hidden_act", { "relu2" }, NULL },
    { "mamba_hidden_act", { "silu" }, NULL },
    { "attention_bias", { "false" }, NULL },
    { "time_step_min", { "0.001", "1e-3", "1e-03" }, NULL },
    { "mlp_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};

const struct lm_arch lm_arch_nemotron_h_moe = {
    .name = "nemotron_h_moe", .hf_classes = mixed_classes, .keys = mixed_keys,
    .tensors = mixed_tensors, .ignored = ignored, .prefixes = prefixes,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .memory = lm_recurrent_memory, .needs = mixed_needs,
};

const struct lm_arch lm_arch_nemotron_h = {
    .name = "nemotron_h", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .memory = lm_recurrent_memory, .needs = needs,
    .mixed = &lm_arch_nemotron_h_moe,
};
