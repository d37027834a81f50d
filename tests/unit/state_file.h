/* SPDX-License-Identifier: MIT */
#ifndef LM_TEST_STATE_FILE_H
#define LM_TEST_STATE_FILE_H

/* Contexts that are saved to a file and loaded again, for tests that include cmocka.h, stdlib.h,
 * unistd.h and model/model.h; setup and teardown are the group's. */

static char path[] = "/tmp/lmpipe-state-XXXXXX";
static struct lm_err err;

static int setup(void **state)
{
    int fd = mkstemp(path);
    (void)state;
    return fd < 0 || close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void must(int code)
{
    if (code)
        fail_msg("%s", err.text);
}

/* All sequences, or a part of one. */
static void save(const struct lm_ctx *c, bool part, uint32_t seq)
{
    struct lm_out *out = lm_out_open(path, &err);
    assert_non_null(out);
    must(part ? lm_ctx_save_part(c, seq, out, &err) : lm_ctx_save(c, NULL, out, &err));
    must(lm_out_commit(out, &err));
}

static int load(struct lm_ctx *c)
{
    struct lm_in *in = lm_in_open(path, 0, &err);
    assert_non_null(in);
    const int r = lm_ctx_load(c, in, &err);
    lm_in_close(in);
    return r;
}

/* Below n, the same in each run. */
static uint32_t draw(uint32_t n)
{
    static uint32_t seed = 12345;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

#endif
