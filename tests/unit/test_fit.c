/* SPDX-License-Identifier: MIT */
/* How long a context fits: against what the reckoning says that each takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "io/input.h"
#include "job/fit_context.h"

static struct lm_gguf *g;
static const struct lm_gguf *files[1];

/* Bytes for a context and tokens at once. */
static uint64_t takes(uint64_t n_ctx, uint32_t n_ubatch)
{
    struct lm_footprint f;
    struct lm_footprint_options o = { .n_ctx = n_ctx, .n_ubatch = n_ubatch };
    struct lm_err err;
    assert_int_equal(lm_footprint_of(files, 1, &o, &f, &err), LM_OK);
    return f.together;                          /* this model has no windows */
}

static int fit(uint64_t room, uint64_t least, bool keep, struct lm_footprint *out)
{
    struct lm_err err;
    const struct lm_fit f = { .most = { .n_ctx = 512, .n_ubatch = 512 }, .room = room,
                              .least = least, .keep_ubatch = keep };
    return lm_fit_context(files, 1, &f, out, &err);
}

static void expect(uint64_t room, uint64_t least, uint64_t n_ctx, uint32_t n_ubatch)
{
    struct lm_footprint f;
    assert_int_equal(fit(room, least, false, &f), LM_OK);
    assert_int_equal(f.n_ctx, n_ctx);
    assert_int_equal(f.n_ubatch, n_ubatch);
}

static void test_fit(void **unused)
{
    struct lm_footprint f;
    (void)unused;
    expect(UINT64_MAX, 64, 512, 512);
    expect(takes(512, 512), 64, 512, 512);
    expect(takes(512, 512) - 1, 64, 511, 512);
    for (uint64_t n = 64; n < 512; n += 37) {
        expect(takes(n, 512), 64, n, 512);
        expect(takes(n + 1, 512) - 1, 64, n, 512);
    }
    /* A shorter context first, then fewer tokens at once. */
    expect(takes(64, 512) - 1, 64, 512, 256);
    expect(takes(512, 32), 512, 512, 32);
    expect(takes(512, 32), 1000, 512, 32);      /* there are no 1000 */
    expect(takes(300, 32), 300, 300, 32);
    assert_int_equal(fit(takes(300, 32) - 1, 300, false, &f), LM_ENOMEM);
    assert_int_equal(fit(takes(64, 512) - 1, 64, true, &f), LM_ENOMEM);
    assert_int_equal(fit(0, 1, false, &f), LM_ENOMEM);
}

int main(void)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open("tests/data/m.gguf", LM_IN_RAW, &err);
    g = in ? lm_gguf_read(in, true, &err) : NULL;
    files[0] = g;
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_fit) };
    const int failed = g ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    lm_gguf_free(g);
    lm_in_close(in);
    return failed;
}
