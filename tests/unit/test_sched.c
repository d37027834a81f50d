/* SPDX-License-Identifier: MIT */
/* Graphs on several devices: the CPU beside others whose memory it cannot touch, which can
 * compute this or that.  Whatever the split, results are those of the CPU alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/sched.h"
#include "base/buf.h"
#include "model/model.h"

#define MODEL "tests/data/m.gguf"
enum { VOCAB = 368, TOKENS = 48 };

static char folder[4096];

/* The modules lie beside the tests: BUILD/unit/test_sched, BUILD/module. */
static int setup(void **state)
{
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 16);
    (void)state;
    for (int i = 0; i < 2 && n > 0; i++)
        while (n > 0 && folder[--n] != '/')
            ;
    if (n <= 0)
        return -1;
    strcpy(folder + n, "/module");
    return setenv("LMPIPE_MODULES", folder, 1);
}

/* Settings of the devices "far": NULL leaves one out. */
static void far(const char *devices, const char *ops, const char *offload, const char *delay,
                const char *plain)
{
    const char *const names[] = { "LMPIPE_FAR_DEVICES", "LMPIPE_FAR_OPS", "LMPIPE_FAR_OFFLOAD",
                                  "LMPIPE_FAR_DELAY", "LMPIPE_FAR_PLAIN" };
    const char *const values[] = { devices, ops, offload, delay, plain };
    for (int i = 0; i < 5; i++)
        setenv(names[i], values[i] ? values[i] : "", 1);
}

/* --- modules ------------------------------------------------------------------------------ */

static void test_modules(void **state)
{
    struct lm_err err;
    (void)state;
    far("2", NULL, NULL, NULL, NULL);
    struct lm_devices *d = lm_devices_open(NULL, &err);
    assert_non_null(d);
    assert_int_equal(lm_devices_n(d), 3);
    const struct lm_device *f = lm_devices_find(d, "far1,x", 4), *last = lm_devices_at(d, 2);
    assert_ptr_equal(f, lm_devices_at(d, 1));
    assert_string_equal(last->ops->name(last), "cpu");
    assert_null(lm_devices_find(d, "far", 3));
    assert_null(lm_devices_at(d, 3));
    lm_devices_close(d);
    setenv("LMPIPE_MODULES", "", 1);
    assert_non_null(d = lm_devices_open(NULL, &err));
    assert_int_equal(lm_devices_n(d), 1);
    lm_devices_close(d);
    setenv("LMPIPE_MODULES", "/nowhere:", 1);
    assert_non_null(d = lm_devices_open(NULL, &err));
    assert_int_equal(lm_devices_n(d), 1);
    lm_devices_close(d);
    setenv("LMPIPE_MODULES", folder, 1);
}

static void keep_note(void *user, enum lm_level level, const char *text)
{
    struct lm_buf *notes = user;
    lm_buf_printf(notes, "%d %s\n", (int)level, text);
}

/* A module that cannot be used is left out, and a note says why. */
static void module_unused(const char *setting, const char *value, const char *why)
{
    struct lm_err err;
    struct lm_buf notes = {0};
    char want[sizeof folder + 100];
    struct lm_env env = { .user = &notes, .note = keep_note };
    setenv(setting, value, 1);
    struct lm_devices *d = lm_devices_open(&env, &err);
    assert_non_null(d);
    assert_int_equal(lm_devices_n(d), 1);
    lm_devices_close(d);
    setenv(setting, "", 1);
    snprintf(want, sizeof want, "%d %s/liblmpipe-far.so: not used: %s\n", (int)LM_INFO, folder,
             why);
    assert_string_equal(notes.data, want);
    lm_buf_release(&notes);
}

static void test_modules_unused(void **state)
{
    (void)state;
    far(NULL, NULL, NULL, NULL, NULL);
    module_unused("LMPIPE_FAR_OTHER", "1", "made for another version of lmpipe");
    module_unused("LMPIPE_FAR_DEVICES", "0", "none of its devices is here");
}

/* --- a scheduler of its own ---------------------------------------------------------------- */

struct machine {
    struct lm_devices *devices;
    struct lm_backend *backend[4];
    size_t             n;
    struct lm_sched   *sched;
};

static void start(struct machine *m)
{
    struct lm_err err;
    struct lm_env env = { .n_threads = 2 };
    assert_non_null(m->devices = lm_devices_open(NULL, &err));
    m->n = lm_devices_n(m->devices);
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_device *d = lm_devices_at(m->devices, i);
        assert_non_null(m->backend[i] = d->ops->open(d, &env, &err));
    }
    assert_non_null(m->sched = lm_sched_new(m->backend, m->n, &err));
}

static void stop(struct machine *m)
{
    lm_sched_free(m->sched);
    for (size_t i = 0; i < m->n; i++)
        m->backend[i]->ops->free(m->backend[i]);
    lm_devices_close(m->devices);
}

static uint32_t seed = 1;

static float draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (float)(1 << 23) - 1;
}

/* Memory of a device with a tensor of random floats in it. */
static struct lm_buffer *weight(const struct lm_device *d, struct lm_tensor *t, float *values)
{
    struct lm_err err;
    const struct lm_buft *type = d->ops->buft(d, LM_USE_WEIGHT);
    size_t size = 0, used = 0, n = lm_tensor_len(t);
    assert_true(lm_buft_add(type, t, &size));
    struct lm_buffer *b = type->ops->alloc(type, size, &err);
    assert_non_null(b);
    b->use = LM_USE_WEIGHT;
    assert_int_equal(lm_buffer_place(b, t, &used, &err), LM_OK);
    for (size_t i = 0; i < n; i++)
        values[i] = draw();
    assert_int_equal(b->ops->write(b, t->data, values, n * sizeof *values, &err), LM_OK);
    return b;
}

static struct lm_tensor *floats(struct lm_graph *g, uint32_t n_dims, const size_t *ne)
{
    return lm_new_tensor(g, lm_type_by_id(LM_F32), n_dims, ne);
}

/* Inputs are filled again while the device may still be busy with the last: 40 runs in a
 * row, waited for only at the end, each with results of its own. */
static void test_turns(void **state)
{
    enum { N = 64, RUNS = 40 };
    static float w[N * N], x[RUNS][N], y[RUNS][N];
    const char *const plain[] = { NULL, "1" };
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct machine m;
        struct lm_graph g = {0};
        struct lm_err err;
        bool moved;
        far("1", NULL, NULL, "300", plain[k]);
        start(&m);
        struct lm_tensor *wt = floats(&g, 2, (size_t[]){ N, N });
        struct lm_tensor *in = floats(&g, 1, (size_t[]){ N });
        struct lm_buffer *b = weight(lm_devices_at(m.devices, 0), wt, w);
        in->flags |= LM_TENSOR_INPUT;
        struct lm_tensor *out = lm_scale(&g, lm_mul_mat(&g, wt, lm_scale(&g, in, 2)), 0.5f);
        out->flags |= LM_TENSOR_OUTPUT;
        out->data = y;
        assert_int_equal(lm_graph_expand(&g, out), LM_OK);
        struct lm_plan *p = lm_sched_plan(m.sched, &g, false, &moved, &err);
        assert_non_null(p);
        assert_true(moved);
        assert_int_equal(lm_plan_pieces(p), 1);
        for (int r = 0; r < RUNS; r++) {
            assert_int_equal(lm_sched_begin(m.sched, p, &err), LM_OK);
            for (int i = 0; i < N; i++)
                x[r][i] = ((float *)in->data)[i] = draw();
            lm_sched_output(p, out, y[r]);
            assert_int_equal(lm_sched_run(m.sched, p, NULL, NULL, &err), LM_OK);
        }
        assert_int_equal(lm_sched_wait(m.sched, &err), LM_OK);
        for (int r = 0; r < RUNS; r++)
            for (int i = 0; i < N; i++) {
                double sum = 0;
                for (int c = 0; c < N; c++)
                    sum += (double)w[i * N + c] * x[r][c];
                assert_true(sum - y[r][i] < 1e-4 && y[r][i] - sum < 1e-4);
            }
        lm_sched_release(m.sched, p);
        b->ops->free(b);
        lm_graph_release(&g);
        stop(&m);
    }
}

/* Experts in host memory for a device that wants them: only those that are used go there. */
static void test_experts(void **state)
{
    enum { N = 32, ROWS = 48, EXPERTS = 16, USED = 2, TOK = 3 };
    static float w[EXPERTS * ROWS * N], y[TOK][USED][ROWS];
    static const int32_t ids[TOK][USED] = { { 3, 4 }, { 4, 11 }, { 3, 0 } };
    struct machine m;
    struct lm_graph g = {0};
    struct lm_err err;
    bool moved;
    (void)state;
    far("1", "mul_mat_id,scale", "1", "100", NULL);
    start(&m);
    struct lm_tensor *wt = floats(&g, 3, (size_t[]){ N, ROWS, EXPERTS });
    struct lm_tensor *x = floats(&g, 3, (size_t[]){ N, 1, TOK });
    struct lm_tensor *id = lm_new_tensor(&g, lm_type_by_id(LM_I32), 2, (size_t[]){ USED, TOK });
    struct lm_buffer *b = weight(lm_devices_at(m.devices, 1), wt, w);
    x->flags |= LM_TENSOR_INPUT;
    id->flags |= LM_TENSOR_INPUT;
    struct lm_tensor *out = lm_mul_mat_id(&g, wt, lm_scale(&g, x, 2), id);
    out->flags |= LM_TENSOR_OUTPUT;
    out->data = y;
    assert_int_equal(lm_graph_expand(&g, out), LM_OK);
    struct lm_plan *p = lm_sched_plan(m.sched, &g, false, &moved, &err);
    if (!p)
        fail_msg("%s", err.text);
    float in[TOK][N];
    assert_int_equal(lm_sched_begin(m.sched, p, &err), LM_OK);
    for (int t = 0; t < TOK; t++)
        for (int i = 0; i < N; i++)
            in[t][i] = ((float *)x->data)[t * N + i] = draw();
    memcpy(id->data, ids, sizeof ids);
    lm_sched_output(p, out, y);
    assert_int_equal(lm_sched_run(m.sched, p, NULL, NULL, &err), LM_OK);
    assert_int_equal(lm_sched_wait(m.sched, &err), LM_OK);
    for (int t = 0; t < TOK; t++)
        for (int u = 0; u < USED; u++)
            for (int r = 0; r < ROWS; r++) {
                double sum = 0;
                for (int c = 0; c < N; c++)
                    sum += 2.0 * w[(ids[t][u] * ROWS + r) * N + c] * in[t][c];
                assert_true(sum - y[t][u][r] < 1e-4 && y[t][u][r] - sum < 1e-4);
            }
    uint64_t copied, whole;
    lm_sched_experts(m.sched, &copied, &whole);
    assert_int_equal(copied, 4u * ROWS * N * sizeof(float));        /* 0, 3, 4, 11 */
    assert_int_equal(whole, sizeof w);
    lm_sched_release(m.sched, p);
    b->ops->free(b);
    lm_graph_release(&g);
    stop(&m);
}

/* --- a whole model -------------------------------------------------------------------------- */

static float alone[TOKENS][VOCAB], got[TOKENS][VOCAB];

/* Two sequences in one batch, in pieces of 7 tokens; then ten tokens one by one. */
static void run_model(const struct lm_model_options *o, float dst[TOKENS][VOCAB])
{
    struct lm_err err;
    struct lm_env env = { .n_threads = 2 };
    struct lm_ctx_options co = { .n_ubatch = 7 };
    struct lm_model *m = lm_model_load(MODEL, o, &env, &err);
    if (!m)
        fail_msg("%s", err.text);
    struct lm_ctx *c = lm_ctx_new(m, &co, &env, &err);
    if (!c)
        fail_msg("%s", err.text);
    struct lm_batch_token t[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        t[i] = (struct lm_batch_token){ (int32_t)(i * 37 % VOCAB), i % 2, i / 2, true };
    if (lm_ctx_decode(c, t, TOKENS - 10, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < TOKENS - 10; i++)
        memcpy(dst[i], lm_ctx_logits(c, i), sizeof dst[i]);
    for (size_t i = TOKENS - 10; i < TOKENS; i++) {
        assert_int_equal(lm_ctx_decode(c, t + i, 1, &err), LM_OK);
        memcpy(dst[i], lm_ctx_logits(c, 0), sizeof dst[i]);
    }
    lm_ctx_free(c);
    lm_model_free(m);
}

static void test_splits(void **state)
{
    static const struct {
        const char *devices, *ops, *offload, *delay, *plain;
        uint32_t    layers;              /* 0: all */
        bool        no_repack;
    } how[] = {
        { "1", NULL, NULL, NULL, NULL, 0, false },
        { "1", NULL, NULL, "50", NULL, 0, false },
        { "1", NULL, NULL, NULL, NULL, 1, false },
        { "1", NULL, NULL, NULL, NULL, 2, false },
        { "2", NULL, NULL, "20", NULL, 0, false },
        { "2", NULL, NULL, "20", "1", 0, false },
        { "3", "mul_mat", NULL, NULL, NULL, 0, false },
        { "1", "mul_mat", NULL, "20", NULL, 0, false },
        { "1", "-mul_mat", NULL, NULL, NULL, 0, false },
        { "1", "-rms_norm,swiglu", NULL, NULL, NULL, 0, false },
        { "2", "-rope", NULL, "20", "1", 0, false },
        { "1", "add,rope,get_rows", NULL, NULL, NULL, 0, false },
        { "2", "rms_norm,rope_table", NULL, NULL, NULL, 0, false },
        { "1", "view", NULL, NULL, NULL, 0, false },
        { "1", NULL, "2", NULL, NULL, 1, true },
        { "2", NULL, "1", "20", NULL, 2, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        struct lm_model_options o = {
            .no_repack = how[i].no_repack, .placement = { .devices = "cpu" }
        };
        far(how[i].devices, how[i].ops, how[i].offload, how[i].delay, how[i].plain);
        run_model(&o, alone);
        o.placement = (struct lm_placement){ .some_layers = how[i].layers > 0,
                                             .n_layers = how[i].layers };
        memset(got, 0, sizeof got);
        run_model(&o, got);
        if (memcmp(alone, got, sizeof got))
            fail_msg("split %zu changes logits", i);
    }
}

static void test_placement(void **state)
{
    struct lm_err err;
    struct lm_model_options o = { .placement = { .devices = "far0,abacus" } };
    (void)state;
    far("2", NULL, NULL, NULL, NULL);
    assert_null(lm_model_load(MODEL, &o, NULL, &err));
    assert_int_equal(err.code, LM_EUSE);
    assert_non_null(strstr(err.text, "abacus"));
    o.placement.devices = "far0,far0";
    assert_null(lm_model_load(MODEL, &o, NULL, &err));
    assert_non_null(strstr(err.text, "far0"));
    o.placement.devices = "cpu,far1,cpu";
    assert_null(lm_model_load(MODEL, &o, NULL, &err));
    assert_non_null(strstr(err.text, "cpu is named twice"));
    o.placement.devices = "cpu,far1";
    struct lm_model *m = lm_model_load(MODEL, &o, NULL, &err);
    assert_non_null(m);
    lm_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_modules_unused),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_placement),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
