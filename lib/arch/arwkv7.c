/* SPDX-License-Identifier: MIT */
/* ARWKV (Yueyu et al., 2025): Qwen2.5 with RWKV-7's memory in attention's place, whose gate and
 * norm of heads some do without. */
#include "arch/wkv.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_RWKV("attention.layer_norm_rms_epsilon"), LM_KEYS_RWKV7(0), LM_KEYS_END,
};

#define MAYBE(role, name) LM_T_MAYBE(role, name, NULL, LM_DIM_EMBD, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LM_T_RWKV_MADE(LM_DIM_EMBD),
    LM_T_RWKV7(LM_TENSOR_OPTIONAL),
    MAYBE(LM_RWKV_NORM, "time_mix_ln.weight"), MAYBE(LM_RWKV_NORM_B, "time_mix_ln.bias"),
    LM_T_END,
};

static int build(struct lm_build *b)
{
    return lm_rwkv_build(b, &(struct lm_rwkv){ lm_rwkv7_mix, NULL });
}

static const char *const classes[] = { NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_arwkv7 = {
    .name = "arwkv7", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .settle = lm_rwkv7_settle, .memory = lm_rwkv_memory, .build = build, .dense = &dense,
};
