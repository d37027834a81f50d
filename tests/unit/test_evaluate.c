/* SPDX-License-Identifier: MIT */
/* What a stream's header says of models with other metadata, and stopping.  What is
 * computed is tested through the program, in tests/cli/decode.t. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/input.h"
#include "io/output.h"
#include "job/evaluate.h"
#include "stream/logits.h"

#define MODEL "tests/data/m.gguf"

static char dir[64], path[80];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/lmpipe-test.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/f", dir);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* MODEL with its metadata changed by fn, which may set and unset; at `path`. */
static void write_variant(void (*fn)(struct lm_gguf_writer *w))
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(MODEL, 0, &err);
    struct lm_gguf *g = lm_gguf_read(in, true, &err);
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_out *out = lm_out_open(path, &err);
    assert_non_null(g);
    assert_non_null(out);
    for (uint64_t i = 0; i < g->n_kv; i++)
        lm_gguf_set_kv(w, &g->kv[i]);
    fn(w);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        lm_gguf_add_tensor(w, g->tensors[i].name.p, g->tensors[i].name.len, g->tensors[i].n_dims,
                           g->tensors[i].ne, g->tensors[i].type);
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_OK);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        char *data = malloc(t->bytes);
        assert_int_equal(lm_in_pread(in, g->data_offset + t->offset, data, t->bytes, &err), LM_OK);
        assert_int_equal(lm_out_write(out, data, t->bytes, &err), LM_OK);
        assert_int_equal(lm_gguf_write_pad(w, out, t->bytes, &err), LM_OK);
        free(data);
    }
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    lm_gguf_writer_free(w);
    lm_gguf_free(g);
    lm_in_close(in);
}

/* Evaluate lines of tokens with the model at `model`; the stream replaces `path`. */
static int evaluate(const char *model, const char *lines, const struct lm_env *env,
                    struct lm_err *err)
{
    const struct lm_eval_options o = {.top = 1, .program = "test", .version = "1"};
    const struct lm_ctx_options co = {.n_ctx = 32, .n_batch = 8};
    struct lm_model *m = lm_model_load(model, NULL, NULL, err);
    assert_non_null(m);
    struct lm_ctx *c = lm_ctx_new(m, &co, NULL, err);
    struct lm_out *out = lm_out_open(path, err);
    struct lm_eval *e = lm_eval_new(m, c, "nameless", &o, out, env, err);
    char text[32];
    FILE *f = tmpfile();
    assert_non_null(e);
    fputs(lines, f);
    fflush(f);
    snprintf(text, sizeof text, "/dev/fd/%d", fileno(f));
    struct lm_in *in = lm_in_open(text, 0, err);
    int s = lm_eval_head(e, err);
    if (!s)
        s = lm_eval_batch(e, in, err);
    lm_in_close(in);
    fclose(f);
    lm_eval_free(e);
    lm_ctx_free(c);
    lm_model_free(m);
    struct lm_err bad;
    assert_int_equal(lm_out_commit(out, &bad), LM_OK);
    return s;
}

/* The header of what evaluating nothing gives. */
static struct lm_logits_head head_of(void (*fn)(struct lm_gguf_writer *w))
{
    struct lm_err err;
    struct lm_logits_head h;
    write_variant(fn);
    assert_int_equal(evaluate(path, "", NULL, &err), LM_OK);
    struct lm_in *in = lm_in_open(path, 0, &err);
    struct lm_logits_reader *r = lm_logits_reader_new(in, &err);
    assert_int_equal(lm_logits_read_head(r, &h, &err), 1);
    lm_logits_reader_free(r);
    lm_in_close(in);
    return h;
}

static void set_sampling(struct lm_gguf_writer *w)
{
    lm_gguf_set_f32(w, "general.sampling.temp", 0.7f);
    lm_gguf_set_i32(w, "general.sampling.top_k", -1);
    lm_gguf_set_u64(w, "general.sampling.penalty_last_n", UINT64_MAX);
    lm_gguf_set_str(w, "general.sampling.sequence", "a\"b", 3);
    lm_gguf_set_arr(w, "general.sampling.odd", LM_GGUF_U8, "xy", 2);   /* has no place there */
    lm_gguf_set_bool(w, "general.sampling.flag", true);
    lm_gguf_set_u32(w, "llama.decoder_start_token_id", 5);
    lm_gguf_set_str(w, "general.name", "say \"hi\"", 8);
}

static void metadata_goes_into_the_header(void **state)
{
    (void)state;
    struct lm_logits_head h = head_of(set_sampling);
    assert_string_equal(h.sampling, "{\"temp\":0.7,\"top_k\":-1,\"penalty_last_n\":"
                        "18446744073709551615,\"sequence\":\"a\\\"b\",\"flag\":true}");
    assert_int_equal(h.decoder_start, 5);
    assert_string_equal(h.model, "say \"hi\"");
    assert_string_equal(h.arch, "llama");
    assert_int_equal(h.n_vocab, 368);
    assert_int_equal(h.n_ctx, 32);
    lm_logits_head_release(&h);
}

static void set_unknown_vocabulary(struct lm_gguf_writer *w)
{
    lm_gguf_set_str(w, "tokenizer.ggml.model", "of-tomorrow", 11);
    lm_gguf_set_u32(w, "tokenizer.ggml.eot_token_id", 7);
    lm_gguf_set_u32(w, "tokenizer.ggml.eom_token_id", 400);           /* has no row */
}

static void unset_vocabulary(struct lm_gguf_writer *w)
{
    lm_gguf_unset(w, "tokenizer.ggml.model");
    lm_gguf_unset(w, "tokenizer.ggml.bos_token_id");
    lm_gguf_unset(w, "tokenizer.ggml.add_bos_token");
    lm_gguf_unset(w, "general.name");
}

static void models_run_without_a_known_vocabulary(void **state)
{
    (void)state;
    struct lm_logits_head h = head_of(set_unknown_vocabulary);
    assert_int_equal(h.bos, 360);
    assert_int_equal(h.eos, 365);
    assert_int_equal(h.n_eog, 2);
    assert_int_equal(h.eog[0], 7);
    assert_int_equal(h.eog[1], 365);
    lm_logits_head_release(&h);

    h = head_of(unset_vocabulary);
    assert_int_equal(h.bos, -1);
    assert_false(h.add_bos);
    assert_int_equal(h.n_eog, 1);
    assert_string_equal(h.model, "nameless");
    assert_string_equal(h.sampling, "{}");
    lm_logits_head_release(&h);
}

static bool stop(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

/* Batches of 8: asked to stop before the second, two sequences are answered. */
static void evaluation_stops_when_asked(void **state)
{
    (void)state;
    int left = 1;
    const struct lm_env env = {.user = &left, .stop = stop};
    struct lm_err err;
    assert_int_equal(evaluate(MODEL, "1 2 3\n4 5 6 7\n1 2 3 4 5 6 7 8 9\n", &env, &err), LM_ESTOP);
    struct lm_in *in = lm_in_open(path, 0, &err);
    struct lm_logits_reader *r = lm_logits_reader_new(in, &err);
    struct lm_logits_head h;
    struct lm_frame f;
    const void *p;
    assert_int_equal(lm_logits_read_head(r, &h, &err), 1);
    lm_logits_head_release(&h);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(lm_logits_read_frame(r, &f, &p, &err), LM_OK);
        assert_int_equal(f.kind, LM_FRAME_TOP);
        assert_int_equal(f.seq, i);
    }
    assert_int_equal(lm_logits_read_frame(r, &f, &p, &err), LM_EDATA);
    lm_logits_reader_free(r);
    lm_in_close(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_goes_into_the_header),
        cmocka_unit_test(models_run_without_a_known_vocabulary),
        cmocka_unit_test(evaluation_stops_when_asked),
    };
    return cmocka_run_group_tests_name("evaluate", tests, enter, leave);
}
