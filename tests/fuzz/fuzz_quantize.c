/* SPDX-License-Identifier: MIT */
/* A whole quantization of whatever the bytes are, if they are a model at all. */
#include <stdint.h>

#include "job/quant_job.h"
#include "fuzz_memory.h"

static void once(const uint8_t *data, size_t size, const char *type)
{
    struct lm_err err = { 0 };
    struct lm_quantize_options o = {
        .file_type = lm_file_type_by_name(type), .allow_requantize = true,
    };
    struct lm_in *in = input_of(data, size);
    struct lm_quantize *q = lm_quantize_plan(in, &o, NULL, &err);
    if (!q && err.code >= 0)
        abort();                              /* failed without saying why */
    struct lm_out *out = q ? lm_out_open("/dev/null", &err) : NULL;
    if (out) {
        lm_quantize_run(q, 0, &(struct lm_quantize_output){ .out = out }, NULL, &err);
        lm_out_abort(out);
    }
    lm_quantize_free(q);
    lm_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    once(data, size, "Q4_K_M");
    once(data, size, "COPY");
    return 0;
}
