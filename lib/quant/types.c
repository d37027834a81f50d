/* SPDX-License-Identifier: MIT */
/* The table of tensor types; each row stands at the foot of its own file. */
#include "quant/quant.h"

#include <math.h>
#include <strings.h>

#include "base/cpu.h"
#include "base/size.h"

extern const struct lm_type
    lm_type_f32, lm_type_f16, lm_type_q4_0, lm_type_q4_1, lm_type_q5_0, lm_type_q5_1,
    lm_type_q8_0, lm_type_q8_1, lm_type_q2_k, lm_type_q3_k, lm_type_q4_k, lm_type_q5_k,
    lm_type_q6_k, lm_type_q8_k, lm_type_iq2_xxs, lm_type_iq2_xs, lm_type_iq3_xxs,
    lm_type_iq1_s, lm_type_iq4_nl, lm_type_iq3_s, lm_type_iq2_s, lm_type_iq4_xs,
    lm_type_i8, lm_type_i16, lm_type_i32, lm_type_i64, lm_type_f64, lm_type_iq1_m,
    lm_type_bf16, lm_type_tq1_0, lm_type_tq2_0, lm_type_mxfp4, lm_type_nvfp4,
    lm_type_q1_0, lm_type_q2_0;

const struct lm_type *const lm_types[] = {
    &lm_type_f32, &lm_type_f16, &lm_type_q4_0, &lm_type_q4_1, &lm_type_q5_0, &lm_type_q5_1,
    &lm_type_q8_0, &lm_type_q8_1, &lm_type_q2_k, &lm_type_q3_k, &lm_type_q4_k, &lm_type_q5_k,
    &lm_type_q6_k, &lm_type_q8_k, &lm_type_iq2_xxs, &lm_type_iq2_xs, &lm_type_iq3_xxs,
    &lm_type_iq1_s, &lm_type_iq4_nl, &lm_type_iq3_s, &lm_type_iq2_s, &lm_type_iq4_xs,
    &lm_type_i8, &lm_type_i16, &lm_type_i32, &lm_type_i64, &lm_type_f64, &lm_type_iq1_m,
    &lm_type_bf16, &lm_type_tq1_0, &lm_type_tq2_0, &lm_type_mxfp4, &lm_type_nvfp4,
    &lm_type_q1_0, &lm_type_q2_0,
    NULL
};

const struct lm_type *lm_type_by_id(uint32_t id)
{
    for (const struct lm_type *const *t = lm_types; *t; t++)
        if ((*t)->id == id)
            return *t;
    return NULL;
}

const struct lm_type *lm_type_by_name(const char *name)
{
    for (const struct lm_type *const *t = lm_types; *t; t++)
        if (!strcasecmp((*t)->name, name))
            return *t;
    return NULL;
}

/* Numbers that files carry and this table does not: types that GGUF gave up, and those
 * that only ik_llama.cpp reads. */
static const struct {
    uint32_t    id;
    const char *what;
} foreign[] = {
    { 4, "removed Q4_2" },
    { 5, "removed Q4_3" },
    { 31, "removed Q4_0 interleaved 4x4" },
    { 32, "removed Q4_0 interleaved 4x8" },
    { 33, "removed Q4_0 interleaved 8x8" },
    { 36, "removed IQ4_NL interleaved 4x4, or I2_S (BitNet, ik_llama.cpp)" },
    { 37, "removed IQ4_NL interleaved 4x8" },
    { 38, "removed IQ4_NL interleaved 8x8" },
    { 97, "Q8_0 interleaved x4 (ik_llama.cpp)" },
    { 98, "Q8_1 interleaved x4 (ik_llama.cpp)" },
    { 99, "Q8_2 interleaved x4 (ik_llama.cpp)" },
    { 133, "Q6_0 (ik_llama.cpp)" },
    { 134, "IQ1_BN (ik_llama.cpp)" },
    { 135, "IQ2_BN (ik_llama.cpp)" },
    { 136, "Q8_K64 (ik_llama.cpp)" },
    { 137, "IQ2_K (ik_llama.cpp)" },
    { 138, "IQ3_K (ik_llama.cpp)" },
    { 139, "IQ4_K (ik_llama.cpp)" },
    { 140, "IQ5_K (ik_llama.cpp)" },
    { 141, "IQ6_K (ik_llama.cpp)" },
    { 144, "IQ4_KS (ik_llama.cpp)" },
    { 145, "IQ2_KS (ik_llama.cpp)" },
    { 146, "IQ4_KSS (ik_llama.cpp)" },
    { 147, "Q8_K16 (ik_llama.cpp)" },
    { 148, "Q8_K32 (ik_llama.cpp)" },
    { 149, "Q8_KR8 (ik_llama.cpp)" },
    { 150, "Q8_K128 (ik_llama.cpp)" },
    { 151, "Q8_KV (ik_llama.cpp)" },
    { 152, "IQ5_KS (ik_llama.cpp)" },
    { 153, "IQ2_KT (ik_llama.cpp)" },
    { 154, "IQ3_KT (ik_llama.cpp)" },
    { 155, "IQ4_KT (ik_llama.cpp)" },
    { 156, "IQ3_KS (ik_llama.cpp)" },
    { 157, "IQ2_KL (ik_llama.cpp)" },
    { 158, "IQ1_KT (ik_llama.cpp)" },
    { 202, "Q4_0 interleaved, 8 rows (ik_llama.cpp)" },
    { 206, "Q5_0 interleaved, 4 rows (ik_llama.cpp)" },
    { 208, "Q8_0 interleaved, 8 rows (ik_llama.cpp)" },
    { 210, "Q2_K interleaved, 4 rows (ik_llama.cpp)" },
    { 211, "Q3_K interleaved, 4 rows (ik_llama.cpp)" },
    { 212, "Q4_K interleaved, 4 rows (ik_llama.cpp)" },
    { 213, "Q5_K interleaved, 4 rows (ik_llama.cpp)" },
    { 214, "Q6_K interleaved, 4 rows (ik_llama.cpp)" },
    { 216, "IQ2_XXS interleaved, 4 rows (ik_llama.cpp)" },
    { 217, "IQ2_XS interleaved, 4 rows (ik_llama.cpp)" },
    { 218, "IQ3_XXS interleaved, 4 rows (ik_llama.cpp)" },
    { 219, "IQ1_S interleaved, 4 rows (ik_llama.cpp)" },
    { 220, "IQ4_NL interleaved, 4 rows (ik_llama.cpp)" },
    { 221, "IQ3_S interleaved, 4 rows (ik_llama.cpp)" },
    { 222, "IQ2_S interleaved, 4 rows (ik_llama.cpp)" },
    { 223, "IQ4_XS interleaved, 8 rows (ik_llama.cpp)" },
    { 229, "IQ1_M interleaved, 4 rows (ik_llama.cpp)" },
    { 230, "BF16 interleaved, 16 rows (ik_llama.cpp)" },
    { 233, "Q6_0 interleaved, 4 rows (ik_llama.cpp)" },
    { 335, "IQ2_BN interleaved, 4 rows (ik_llama.cpp)" },
    { 337, "IQ2_K interleaved, 4 rows (ik_llama.cpp)" },
    { 338, "IQ3_K interleaved, 4 rows (ik_llama.cpp)" },
    { 339, "IQ4_K interleaved, 4 rows (ik_llama.cpp)" },
    { 340, "IQ5_K interleaved, 4 rows (ik_llama.cpp)" },
    { 344, "IQ4_KS interleaved, 4 rows (ik_llama.cpp)" },
    { 352, "IQ5_KS interleaved, 4 rows (ik_llama.cpp)" },
    { 397, "Q8_K interleaved, 16 rows (ik_llama.cpp)" },
    { 398, "Q8_KV interleaved, 8 rows (ik_llama.cpp)" },
    { 399, "Q8_K interleaved, 8 rows (ik_llama.cpp)" },
};

const char *lm_type_foreign(uint32_t id)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].id == id)
            return foreign[i].what;
    return NULL;
}

bool lm_type_row_bytes(const struct lm_type *t, uint64_t cols, uint64_t *bytes)
{
    return cols % t->block == 0 && lm_mul_u64(cols / t->block, t->bytes, bytes);
}

int64_t lm_type_beyond(const struct lm_type *t, const float *src, size_t n)
{
    enum { WIDE = 64 };             /* loops of a fixed length become wide instructions */
    size_t i = 0;
    for (int beyond = 0; i + WIDE <= n; i += WIDE) {
        for (size_t k = 0; k < WIDE; k++)
            beyond |= !(fabsf(src[i + k]) < t->end);
        if (beyond)
            break;
    }
    for (; i < n; i++)
        if (!(fabsf(src[i]) < t->end))
            return (int64_t)i;
    return -1;
}

int lm_type_encode(const struct lm_type *t, const float *src, void *dst,
                   size_t rows, size_t cols, const float *weights, struct lm_err *err)
{
    if (!t->encode)
        return lm_fail(err, LM_ENOSUP, "%s: this version cannot produce the type", t->name);
    if (cols % t->block)
        return lm_fail(err, LM_EUSE, "%zu columns: %s needs a multiple of %u",
                       cols, t->name, (unsigned)t->block);
    if (t->needs_weights && !weights)
        return lm_fail(err, LM_EUSE, "%s cannot be made without importance", t->name);
    size_t row = cols / t->block * t->bytes;
    enum lm_isa isa = lm_isa();
    uint8_t *out = dst;
    for (size_t i = 0; i < rows; i++)
        t->encode(isa, src + i * cols, out + i * row, cols, weights);
    return LM_OK;
}
