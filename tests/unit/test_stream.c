/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/input.h"
#include "io/output.h"
#include "stream/logits.h"
#include "stream/loop.h"
#include "stream/tokens.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct lm_in *open_fd(int fd)
{
    char path[32];
    struct lm_err err;
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    struct lm_in *in = lm_in_open(path, LM_IN_RAW, &err);
    assert_non_null(in);
    return in;
}

/* n bytes as an input; a file without a name. */
static struct lm_in *feed(const void *p, size_t n)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fflush(f), 0);
    struct lm_in *in = open_fd(fileno(f));
    fclose(f);
    return in;
}

/* The same as a pipe that is given one byte at a time. */
struct drip {
    pthread_t   thread;
    const char *p;
    size_t      n;
    int         fd[2];
};

static void *drip_run(void *arg)
{
    struct drip *d = arg;
    for (size_t i = 0; i < d->n; i++)
        if (write(d->fd[1], d->p + i, 1) != 1)
            break;
    close(d->fd[1]);
    return NULL;
}

static struct lm_in *drip_start(struct drip *d, const char *p, size_t n)
{
    d->p = p;
    d->n = n;
    assert_int_equal(pipe(d->fd), 0);
    assert_int_equal(pthread_create(&d->thread, NULL, drip_run, d), 0);
    return open_fd(d->fd[0]);
}

static void drip_end(struct drip *d)
{
    pthread_join(d->thread, NULL);
    close(d->fd[0]);
}

/* Token streams */

/* What comes out, as text: ids, "/" for a line, "." for the end; faults as named here. */
static const char *const fault_name[] = {"good", "malformed", "range", "cut", "peer", "read"};

static void trace(struct lm_in *in, uint32_t n_vocab, char *s, size_t size, struct lm_err *err)
{
    struct lm_token_reader *r = lm_token_reader_new(in, err);
    size_t n = 0;
    uint64_t lines = 0;
    assert_non_null(r);
    lm_token_set_vocab(r, n_vocab);
    for (;;) {
        int32_t id = -7;
        enum lm_token_event e = lm_token_next(r, &id, err);
        const char *sep = n ? " " : "";
        assert_int_equal(lm_token_line(r), lines);
        assert_true(n < size - 20);
        if (e == LM_TOKEN_ID) {
            n += (size_t)snprintf(s + n, size - n, "%s%d", sep, id);
        } else if (e == LM_TOKEN_LINE) {
            n += (size_t)snprintf(s + n, size - n, "%s/", sep);
            lines++;
        } else {
            snprintf(s + n, size - n, "%s%s", sep,
                     e == LM_TOKEN_END ? "." : fault_name[lm_token_fault(r)]);
            assert_int_equal(lm_token_next(r, &id, err), e);     /* and again */
            break;
        }
    }
    lm_token_reader_free(r);
    lm_in_close(in);
}

static const struct {
    const char *in, *out, *text;    /* text: part of the message, NULL for none */
} token_cases[] = {
    {"", ".", NULL},
    {"\n", "/ .", NULL},
    {"1 2\n3\n", "1 2 / 3 / .", NULL},
    {"\n\n7\n", "/ / 7 / .", NULL},
    {"  1\t2  \n", "1 2 / .", NULL},
    {"007 9\n", "7 9 / .", NULL},
    {"1 2", "1 cut", "line 1: the input ends inside the line"},
    {"1 2 ", "1 2 cut", "line 1: the input ends inside the line"},
    {"1\n ", "1 / cut", "line 2: the input ends inside the line"},
    {"1 ! disk full\n", "1 peer", "line 1: its producer failed: disk full"},
    {"1\n!disk full", "1 / peer", "line 2: its producer failed: disk full"},
    {"!\n", "peer", "line 1: its producer failed: "},
    {"1 -1\n", "1 range", "line 1: id -1 is outside the vocabulary of 10"},
    {"10\n", "range", "line 1: id 10 is outside the vocabulary of 10"},
    {"2147483648\n", "range", "line 1: id 2147483648 is outside the vocabulary of 10"},
    {"99999999999999999999\n", "range", "outside the vocabulary of 10"},
    {"abc\n", "malformed", "line 1: 'abc' is no token id, in a vocabulary of 10"},
    {"1.5 2\n", "malformed", "line 1: '1.5' is no token id"},
    {"+1\n", "malformed", "'+1' is no token id"},
    {"-\n", "malformed", "'-' is no token id"},
    {"1!2\n", "malformed", "'1!2' is no token id"},
    {"1\r\n", "malformed", NULL},
};

static void token_lines_mean_what_the_page_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(token_cases); i++) {
        char got[200];
        struct lm_err err = {0};
        const char *in = token_cases[i].in;
        trace(feed(in, strlen(in)), 10, got, sizeof got, &err);
        assert_string_equal(got, token_cases[i].out);
        if (token_cases[i].text)
            assert_non_null(strstr(err.text, token_cases[i].text));

        struct drip d;
        trace(drip_start(&d, in, strlen(in)), 10, got, sizeof got, &err);
        drip_end(&d);
        assert_string_equal(got, token_cases[i].out);
    }
}

static void hostile_token_lines_are_faults(void **state)
{
    (void)state;
    char got[200];
    struct lm_err err;
    trace(feed("1 2\0 3\n", 7), 0, got, sizeof got, &err);
    assert_string_equal(got, "1 malformed");

    static char longest[300000];
    memset(longest, '1', sizeof longest);                /* one word */
    longest[sizeof longest - 1] = '\n';
    trace(feed(longest, sizeof longest), 0, got, sizeof got, &err);
    assert_string_equal(got, "malformed");
    assert_non_null(strstr(err.text, "111...'"));

    memset(longest, ' ', sizeof longest);                /* one line of blanks */
    longest[0] = '5';
    longest[sizeof longest - 1] = '\n';
    trace(feed(longest, sizeof longest), 0, got, sizeof got, &err);
    assert_string_equal(got, "5 / .");

    memset(longest, 'x', sizeof longest);                /* one message */
    longest[0] = '!';
    longest[9] = 0;
    trace(feed(longest, sizeof longest), 0, got, sizeof got, &err);
    assert_string_equal(got, "peer");
    assert_non_null(strstr(err.text, "xxxxxxxx?xxx"));

    trace(feed("2147483647 2147483648\n", 22), 0, got, sizeof got, &err);
    assert_string_equal(got, "2147483647 range");
    assert_non_null(strstr(err.text, "0 to 2147483647"));
}

static void token_streams_cut_anywhere_are_noticed(void **state)
{
    (void)state;
    const char whole[] = "12 345\n\n6 7 8\n";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char got[200];
        struct lm_err err;
        bool complete = n == 0 || whole[n - 1] == '\n';
        trace(feed(whole, n), 0, got, sizeof got, &err);
        assert_string_equal(got + strlen(got) - (complete ? 1 : 3), complete ? "." : "cut");
    }
}

static void whole_lines_are_read(void **state)
{
    (void)state;
    struct lm_in *in = feed("1 2 3\n\n4 5", 10);
    struct lm_err err;
    struct lm_token_reader *r = lm_token_reader_new(in, &err);
    int32_t *ids = NULL;
    size_t n = 0, cap = 0;
    assert_int_equal(lm_token_read_line(r, &ids, &n, &cap, &err), 1);
    assert_int_equal(n, 3);
    assert_int_equal(ids[2], 3);
    assert_int_equal(lm_token_read_line(r, &ids, &n, &cap, &err), 1);
    assert_int_equal(n, 3);
    assert_int_equal(lm_token_read_line(r, &ids, &n, &cap, &err), LM_EDATA);
    assert_int_equal(n, 4);
    assert_int_equal(lm_token_fault(r), LM_TOKENS_CUT);
    free(ids);
    lm_token_reader_free(r);
    lm_in_close(in);
}

/* The loop protocol */

static const struct {
    const char *in;
    struct {
        enum lm_request_kind kind;
        enum lm_loop_code    fault;
        uint32_t             seq, other;
        int                  pos;            /* -1: none */
        uint32_t             want;
        size_t               n_ids;
    } out;
    const char *why;
} request_cases[] = {
    {"1 2 3", {LM_REQ_APPEND, LM_LOOP_FINE, 0, 0, -1, 1, 3}, NULL},
    {"7: 1", {LM_REQ_APPEND, LM_LOOP_FINE, 7, 0, -1, 1, 1}, NULL},
    {"7: @3 +2 1 2", {LM_REQ_APPEND, LM_LOOP_FINE, 7, 0, 3, 2, 2}, NULL},
    {"@0 1", {LM_REQ_APPEND, LM_LOOP_FINE, 0, 0, 0, 1, 1}, NULL},
    {"+0 1 2", {LM_REQ_APPEND, LM_LOOP_FINE, 0, 0, -1, 0, 2}, NULL},
    {"4: @2", {LM_REQ_APPEND, LM_LOOP_FINE, 4, 0, 2, 0, 0}, NULL},
    {"4:", {LM_REQ_APPEND, LM_LOOP_FINE, 4, 0, -1, 0, 0}, NULL},
    {"4294967295: 1", {LM_REQ_APPEND, LM_LOOP_FINE, UINT32_MAX, 0, -1, 1, 1}, NULL},
    {"", {LM_REQ_DROP, LM_LOOP_FINE, 0, 0, -1, 0, 0}, NULL},
    {" \t", {LM_REQ_DROP, LM_LOOP_FINE, 0, 0, -1, 0, 0}, NULL},
    {"5: x", {LM_REQ_DROP, LM_LOOP_FINE, 5, 0, -1, 0, 0}, NULL},
    {"5: <6", {LM_REQ_COPY, LM_LOOP_FINE, 5, 6, -1, 0, 0}, NULL},
    {"5: e 1 2", {LM_REQ_ENCODE, LM_LOOP_FINE, 5, 0, -1, 0, 2}, NULL},
    {"?2 3", {LM_REQ_GUESS, LM_LOOP_FINE, 0, 0, -1, 2, 0}, NULL},
    {"5: @4 ?1 9", {LM_REQ_GUESS, LM_LOOP_FINE, 5, 0, 4, 1, 0}, NULL},
    {"?0 3", {LM_REQ_GUESS, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "?0 asks for nothing"},
    {"?2", {LM_REQ_GUESS, LM_LOOP_MALFORMED, 0, 0, -1, 2, 0}, "follows one id, not 0"},
    {"?2 3 4", {LM_REQ_GUESS, LM_LOOP_MALFORMED, 0, 0, -1, 2, 0}, "follows one id, not 2"},
    {"?2 10", {LM_REQ_GUESS, LM_LOOP_ID, 0, 0, -1, 2, 0}, "id 10 is outside"},
    {"? 3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'?'"},
    {"+1 ?2 3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 1, 0}, "'?2'"},
    {"5: 1 x", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 5, 0, -1, 0, 1}, "'x' is no token id"},
    {"5: x 1", {LM_REQ_DROP, LM_LOOP_MALFORMED, 5, 0, -1, 0, 0}, "nothing may follow"},
    {"x", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'x'"},
    {"<3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'<3'"},
    {"+3 1 2", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 3, 2}, "ids, 2"},
    {"+1 @1 2", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 1, 0}, "'@1'"},
    {"1: 2: 3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 1, 0, -1, 0, 0}, "'2:'"},
    {"4294967296: 3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'4294967296:'"},
    {"@4294967296 3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'@4294967296'"},
    {"@ 3", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'@'"},
    {":", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "':'"},
    {"2: abc", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 2, 0, -1, 0, 0}, "'abc'"},
    {"2: 1.5", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 2, 0, -1, 0, 0}, "'1.5'"},
    {"2: 1 10", {LM_REQ_APPEND, LM_LOOP_ID, 2, 0, -1, 0, 1}, "id 10 is outside the vocabulary"},
    {"2: -1", {LM_REQ_APPEND, LM_LOOP_ID, 2, 0, -1, 0, 0}, "-1 is outside the vocabulary of 10"},
    {"2147483648", {LM_REQ_APPEND, LM_LOOP_ID, 0, 0, -1, 0, 0}, "id 2147483648 is outside"},
    {"1 1 1 1 1", {LM_REQ_APPEND, LM_LOOP_FINE, 0, 0, -1, 1, 5}, NULL},
    {"5: s", {LM_REQ_SCALES, LM_LOOP_FINE, 5, 0, -1, 0, 0}, NULL},
    {"5: s x", {LM_REQ_SCALES, LM_LOOP_MALFORMED, 5, 0, -1, 0, 0}, "'x' is no scale"},
    {"s 1", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 0, 0, -1, 0, 0}, "'s' is no token id"},
    {"5: @1 s 1", {LM_REQ_APPEND, LM_LOOP_MALFORMED, 5, 0, 1, 0, 0}, "'s' is no token id"},
    {"5: s +1", {LM_REQ_SCALES, LM_LOOP_FINE, 5, 0, -1, 0, 0}, NULL},
};

/* Scales are decimal numbers that a float can have; the first word that is none is named. */
static void scales_are_numbers(void **state)
{
    static const struct {
        const char *word;
        float       is;             /* NAN: it is no scale */
    } cases[] = {
        {"0", 0}, {"1.5", 1.5f}, {"-.25", -0.25f}, {"+3.", 3}, {"2e-3", 2e-3f}, {"1E2", 100},
        {"0.1", 0.1f}, {"1e-60", 0}, {"3.4028234e38", 3.4028234e38f}, {"3.5e38", NAN},
        {"1e999", NAN}, {"-1e39", NAN}, {"nan", NAN}, {"inf", NAN}, {"-infinity", NAN},
        {"0x1", NAN}, {"1e", NAN}, {".", NAN}, {"-", NAN}, {"--1", NAN}, {"1,5", NAN},
        {"1f", NAN}, {"7:", NAN}, {"*1", NAN},
        {"0000000000000000000000000000000000000000000000000000000000000001", NAN},  /* 64 */
        {"000000000000000000000000000000000000000000000000000000000000001", 1},
    };
    struct lm_request q = {0};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char line[200];
        struct lm_err err;
        const int len = snprintf(line, sizeof line, "4294967295:\ts  2 %s 3\n0: s\n",
                                 cases[i].word);
        struct lm_in *in = feed(line, (size_t)len);
        struct lm_request_reader *r = lm_request_reader_new(in, 10, 3, &err);
        assert_int_equal(lm_request_next(r, &q, &err), 1);
        assert_int_equal(q.kind, LM_REQ_SCALES);
        assert_int_equal(q.seq, UINT32_MAX);
        if (isnan(cases[i].is)) {
            assert_int_equal(q.fault, LM_LOOP_MALFORMED);
            assert_memory_equal(q.why, "'", 1);
            assert_non_null(strstr(q.why, "' is no scale"));
        } else {
            assert_int_equal(q.fault, LM_LOOP_FINE);
            assert_int_equal(q.n_scales, 3);
            assert_true(q.scales[0] == 2 && q.scales[1] == cases[i].is && q.scales[2] == 3);
        }
        assert_int_equal(lm_request_next(r, &q, &err), 1);
        assert_int_equal(q.fault, LM_LOOP_FINE);
        assert_int_equal(q.n_scales, 0);
        lm_request_reader_free(r);
        lm_in_close(in);
    }
    lm_request_release(&q);
}

/* There are not more of them than any program has adapters. */
static void scales_are_not_endless(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        const size_t n = LM_REQUEST_SCALES + more;
        char *line = malloc(2 * n + 6);
        struct lm_request q = {0};
        struct lm_err err;
        assert_non_null(line);
        size_t len = (size_t)sprintf(line, "0: s");
        for (size_t i = 0; i < n; i++, len += 2)
            memcpy(line + len, " 1", 2);
        line[len++] = '\n';
        struct lm_in *in = feed(line, len);
        struct lm_request_reader *r = lm_request_reader_new(in, 10, 3, &err);
        assert_int_equal(lm_request_next(r, &q, &err), 1);
        assert_int_equal(q.fault, more ? LM_LOOP_MALFORMED : LM_LOOP_FINE);
        assert_int_equal(q.n_scales, LM_REQUEST_SCALES);
        lm_request_release(&q);
        lm_request_reader_free(r);
        lm_in_close(in);
        free(line);
    }
}

/* All lines in one stream: a bad one does not spoil those after it. */
static void request_lines_mean_what_the_page_says(void **state)
{
    (void)state;
    char all[2000] = "";
    struct lm_request q = {0};
    struct lm_err err;
    for (size_t i = 0; i < COUNT(request_cases); i++) {
        strcat(all, request_cases[i].in);
        strcat(all, "\n");
    }
    struct lm_in *in = feed(all, strlen(all));
    struct lm_request_reader *r = lm_request_reader_new(in, 10, 3, &err);
    for (size_t i = 0; i < COUNT(request_cases); i++) {
        assert_true(lm_request_ready(r));
        assert_int_equal(lm_request_next(r, &q, &err), 1);
        assert_int_equal(q.line, i);
        if (q.fault != request_cases[i].out.fault)
            fail_msg("%s: %s", request_cases[i].in, q.why);
        assert_int_equal(q.kind, request_cases[i].out.kind);
        assert_int_equal(q.seq, request_cases[i].out.seq);
        assert_int_equal(q.other, request_cases[i].out.other);
        assert_int_equal(q.has_pos, request_cases[i].out.pos >= 0);
        if (q.has_pos)
            assert_int_equal(q.pos, request_cases[i].out.pos);
        if (!q.fault)
            assert_int_equal(q.want, request_cases[i].out.want);
        assert_int_equal(q.n_ids, request_cases[i].out.n_ids);
        for (size_t k = 0; k < q.n_ids && k < 3; k++)
            assert_in_range(q.ids[k], 1, 3);
        if (request_cases[i].why)
            assert_non_null(strstr(q.why, request_cases[i].why));
    }
    assert_int_equal(lm_request_next(r, &q, &err), 0);
    lm_request_release(&q);
    lm_request_reader_free(r);
    lm_in_close(in);
}

static void broken_request_streams_end(void **state)
{
    (void)state;
    static const struct { const char *in, *why; } cases[] = {
        {"1\n2", "line 2: the input ends inside the line"},
        {"1\n2 ", "line 2: the input ends inside the line"},
        {"1\n! out of tea\n3\n", "line 2: its producer failed: out of tea"},
        {"1\nabc ! out of tea\n3\n", "line 2: its producer failed: out of tea"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct lm_request q = {0};
        struct lm_err err;
        struct lm_in *in = feed(cases[i].in, strlen(cases[i].in));
        struct lm_request_reader *r = lm_request_reader_new(in, 0, SIZE_MAX, &err);
        assert_int_equal(lm_request_next(r, &q, &err), 1);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(lm_request_next(r, &q, &err), LM_EDATA);
            assert_int_equal(q.line, 1);
            assert_string_equal(err.text, cases[i].why);
        }
        lm_request_release(&q);
        lm_request_reader_free(r);
        lm_in_close(in);
    }
}

static void lines_are_seen_when_whole(void **state)
{
    (void)state;
    struct lm_err err;
    int32_t *ids = NULL;
    size_t n = 0, cap = 0;
    int fd[2];
    static char blanks[70000];
    memset(blanks, ' ', sizeof blanks);
    assert_int_equal(pipe(fd), 0);
    struct lm_in *in = open_fd(fd[0]);
    struct lm_token_reader *r = lm_token_reader_new(in, &err);
    assert_false(lm_token_ready(r));
    assert_int_equal(write(fd[1], "1 2", 3), 3);
    assert_false(lm_token_ready(r));
    assert_int_equal(write(fd[1], "\n3", 2), 2);
    assert_true(lm_token_ready(r));
    assert_int_equal(lm_token_read_line(r, &ids, &n, &cap, &err), 1);
    assert_int_equal(n, 2);
    assert_false(lm_token_ready(r));

    /* of a long line the beginning will do */
    assert_int_equal(write(fd[1], blanks, 60000), 60000);
    assert_false(lm_token_ready(r));
    assert_int_equal(write(fd[1], blanks, 10000), 10000);
    assert_true(lm_token_ready(r));
    assert_int_equal(write(fd[1], "4\n", 2), 2);
    assert_int_equal(lm_token_read_line(r, &ids, &n, &cap, &err), 1);
    assert_int_equal(n, 4);
    assert_false(lm_token_ready(r));
    close(fd[1]);
    assert_true(lm_token_ready(r));
    assert_int_equal(lm_token_read_line(r, &ids, &n, &cap, &err), 0);
    free(ids);
    lm_token_reader_free(r);
    lm_in_close(in);
    close(fd[0]);
}

static void requests_are_seen_when_whole(void **state)
{
    (void)state;
    struct lm_request q = {0};
    struct lm_err err;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    struct lm_in *in = open_fd(fd[0]);
    struct lm_request_reader *r = lm_request_reader_new(in, 0, 8, &err);
    assert_false(lm_request_ready(r));
    assert_int_equal(write(fd[1], "1 2", 3), 3);
    assert_false(lm_request_ready(r));
    assert_int_equal(write(fd[1], "\n3", 2), 2);
    assert_true(lm_request_ready(r));
    assert_int_equal(lm_request_next(r, &q, &err), 1);
    assert_int_equal(q.n_ids, 2);
    assert_false(lm_request_ready(r));

    /* a line above what is buffered is no reason to wait, and can be read */
    static char line[60001];
    memset(line, ' ', sizeof line - 1);
    assert_int_equal(write(fd[1], line, sizeof line - 1), sizeof line - 1);
    assert_false(lm_request_ready(r));
    assert_int_equal(write(fd[1], line, 30000), 30000);
    assert_false(lm_request_ready(r));
    assert_int_equal(write(fd[1], " 4\n", 3), 3);
    assert_int_equal(lm_request_next(r, &q, &err), 1);
    assert_int_equal(q.n_ids, 2);
    assert_int_equal(q.ids[1], 4);
    close(fd[1]);
    assert_true(lm_request_ready(r));
    assert_int_equal(lm_request_next(r, &q, &err), 0);
    lm_request_release(&q);
    lm_request_reader_free(r);
    lm_in_close(in);
    close(fd[0]);
}

/* Logits streams */

enum { N_VOCAB = 5 };

static struct lm_logits_head some_head(void)
{
    static int32_t eog[] = {2, 4};
    return (struct lm_logits_head){
        .n_vocab = N_VOCAB, .n_ctx = 64, .bos = 1, .eos = 2, .decoder_start = -1,
        .add_bos = true, .loop = true, .eog = eog, .n_eog = 2, .model = (char *)"a \"b\"",
        .arch = (char *)"llama", .sampling = (char *)"{\"temp\":0.5}",
    };
}

static const char head_text[] =
    "{\"model\":\"a \\\"b\\\"\",\"arch\":\"llama\",\"n_vocab\":5,\"n_ctx\":64,\"bos\":1,\"eos\":2,"
    "\"eog\":[2,4],\"add_bos\":true,\"decoder_start\":-1,\"loop\":true,"
    "\"sampling\":{\"temp\":0.5},\"program\":\"test\",\"version\":\"9\"}";

static const float row[N_VOCAB] = {0, 1, -1, 1, 0.5f};

/* A stream as bytes, made here and not by the writer. */
struct bytes {
    char   p[2000];
    size_t n;
};

static void add(struct bytes *b, const void *p, size_t n)
{
    assert_true(b->n + n <= sizeof b->p);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void add_u32(struct bytes *b, uint32_t v)
{
    unsigned char le[4] = {v & 255, v >> 8 & 255, v >> 16 & 255, v >> 24};
    add(b, le, 4);
}

static void add_head(struct bytes *b, const char *text)
{
    size_t pad = (64 - (16 + strlen(text)) % 64) % 64;
    add(b, "LMLG", 4);
    add_u32(b, 1);
    add_u32(b, N_VOCAB);
    add_u32(b, (uint32_t)(strlen(text) + pad));
    add(b, text, strlen(text));
    while (pad--)
        add(b, " ", 1);
}

static void add_frame(struct bytes *b, uint32_t kind, uint32_t bytes, uint32_t token, uint32_t n,
                      uint32_t flags, const void *payload)
{
    const float lse = 2;
    add_u32(b, kind);
    add_u32(b, bytes);
    add_u32(b, 3);          /* sequence */
    add_u32(b, 6);          /* position */
    add_u32(b, token);
    add_u32(b, n);
    add(b, &lse, 4);
    add_u32(b, flags);
    add(b, payload, bytes);
}

static const struct lm_top best[] = {{1, 1}, {3, 1}, {4, 0.5f}};

/* One of each kind, an unknown one, and twice a dense row: once well aligned, once not. */
static void add_stream(struct bytes *b)
{
    add_head(b, head_text);
    add_frame(b, LM_FRAME_DENSE, sizeof row, 4, N_VOCAB, 0, row);
    add_frame(b, LM_FRAME_TOP, sizeof best, 4, 3, 0, best);
    add_frame(b, 77, 9, 1000, 9, 2, "whatever");
    add_frame(b, LM_FRAME_ERROR, 5, 2, 0, 0, "oh no");
    add_frame(b, LM_FRAME_DENSE, sizeof row, 0, N_VOCAB, 0, row);
    add_frame(b, LM_FRAME_VECTOR, 8, 0, 2, 0, row);
    add_frame(b, LM_FRAME_GUESS, 16, 4, 2, 0, best);
    add_frame(b, LM_FRAME_END, 0, 0, 7, 0, row);
}

static void writing_gives_the_bytes_of_the_page(void **state)
{
    (void)state;
    struct bytes want = {.n = 0};
    struct lm_err err;
    struct lm_logits_head h = some_head();
    char got[2000];
    int fd[2];
    add_head(&want, head_text);
    assert_int_equal(want.n % 64, 0);
    add_frame(&want, LM_FRAME_DENSE, sizeof row, 4, N_VOCAB, 0, row);
    add_frame(&want, LM_FRAME_END, 0, 0, 1, 0, row);

    assert_int_equal(pipe(fd), 0);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", fd[1]);
    struct lm_out *out = lm_out_open(path, &err);
    assert_int_equal(lm_logits_write_head(out, &h, "test", "9", &err), LM_OK);
    struct lm_frame f = {LM_FRAME_DENSE, sizeof row, 3, 6, 4, N_VOCAB, 2, 0};
    assert_int_equal(lm_logits_write_frame(out, &f, row, &err), LM_OK);
    f = (struct lm_frame){LM_FRAME_END, 0, 3, 6, 0, 1, 2, 0};
    assert_int_equal(lm_logits_write_frame(out, &f, NULL, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    assert_int_equal(read(fd[0], got, sizeof got), want.n);
    assert_memory_equal(got, want.p, want.n);
    close(fd[0]);
    close(fd[1]);
}

static void expect_stream(struct lm_logits_reader *r)
{
    static const uint32_t kinds[] = {LM_FRAME_DENSE, LM_FRAME_TOP, LM_FRAME_ERROR,
                                     LM_FRAME_DENSE, LM_FRAME_VECTOR, LM_FRAME_GUESS,
                                     LM_FRAME_END};
    struct lm_logits_head h;
    struct lm_err err;
    const void *p;
    assert_int_equal(lm_logits_read_head(r, &h, &err), 1);
    assert_int_equal(h.n_vocab, N_VOCAB);
    assert_int_equal(h.n_ctx, 64);
    assert_int_equal(h.bos, 1);
    assert_int_equal(h.eos, 2);
    assert_int_equal(h.decoder_start, -1);
    assert_true(h.add_bos);
    assert_int_equal(h.n_eog, 2);
    assert_int_equal(h.eog[1], 4);
    assert_string_equal(h.model, "a \"b\"");
    assert_string_equal(h.arch, "llama");
    assert_string_equal(h.sampling, "{\"temp\":0.5}");
    lm_logits_head_release(&h);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct lm_frame f;
        assert_int_equal(lm_logits_read_frame(r, &f, &p, &err), LM_OK);
        assert_int_equal(f.kind, kinds[i]);
        assert_int_equal(f.seq, 3);
        assert_int_equal(f.pos, 6);
        assert_true(f.lse == 2);
        assert_int_equal((uintptr_t)p % 16, 0);
        if (f.kind == LM_FRAME_DENSE)
            assert_memory_equal(p, row, sizeof row);
        if (f.kind == LM_FRAME_TOP)
            assert_memory_equal(p, best, sizeof best);
        if (f.kind == LM_FRAME_ERROR)
            assert_memory_equal(p, "oh no", 5);
    }
}

static void streams_are_read_and_may_follow_each_other(void **state)
{
    (void)state;
    struct bytes b = {.n = 0};
    struct lm_logits_head h;
    struct lm_frame f;
    struct lm_err err;
    const void *p;
    struct drip d;
    add_stream(&b);
    size_t one = b.n;
    add(&b, b.p, one);
    for (int slow = 0; slow < 2; slow++) {
        struct lm_in *in = slow ? drip_start(&d, b.p, b.n) : feed(b.p, b.n);
        struct lm_logits_reader *r = lm_logits_reader_new(in, &err);
        expect_stream(r);
        assert_int_equal(lm_logits_read_frame(r, &f, &p, &err), LM_EUSE);
        expect_stream(r);
        assert_int_equal(lm_logits_read_head(r, &h, &err), 0);
        lm_logits_reader_free(r);
        lm_in_close(in);
        if (slow)
            drip_end(&d);
    }
}

/* Read all of it: LM_OK, or the first code that is none. */
static int read_all(const char *p, size_t n, struct lm_err *err)
{
    struct lm_in *in = feed(p, n);
    struct lm_logits_reader *r = lm_logits_reader_new(in, err);
    struct lm_logits_head h;
    struct lm_frame f = {0};
    const void *payload;
    int s;
    while ((s = lm_logits_read_head(r, &h, err)) == 1) {
        lm_logits_head_release(&h);
        do
            s = lm_logits_read_frame(r, &f, &payload, err);
        while (s == LM_OK && f.kind != LM_FRAME_END);
        if (s)
            break;
    }
    lm_logits_reader_free(r);
    lm_in_close(in);
    return s;
}

static void streams_cut_anywhere_are_noticed(void **state)
{
    (void)state;
    struct bytes b = {.n = 0};
    struct lm_err err;
    add_stream(&b);
    for (size_t n = 1; n < b.n; n++)
        assert_int_equal(read_all(b.p, n, &err), LM_EDATA);
    assert_int_equal(read_all(b.p, 0, &err), LM_OK);
    assert_int_equal(read_all(b.p, b.n, &err), LM_OK);
}

static void frames_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct lm_top beyond[] = {{5, 1}}, back[] = {{1, 1}, {3, 2}},
                               twice[] = {{3, 1}, {1, 1}},
                               again[] = {{2, 3}, {4, 2}, {0, 1}, {4, 1}};
    static const struct {
        uint32_t    kind, bytes, token, n, flags;
        const void *payload;
        int         code;
        const char *text;
    } cases[] = {
        {LM_FRAME_DENSE, sizeof row, 5, N_VOCAB, 0, row, LM_EDATA, "token 5 is outside"},
        {LM_FRAME_DENSE, 16, 0, 4, 0, row, LM_EDATA, "4 values for a vocabulary of 5"},
        {LM_FRAME_DENSE, 16, 0, N_VOCAB, 0, row, LM_EDATA, "16 bytes for 5 values"},
        {LM_FRAME_DENSE, 0, 0, 1u << 30, 0, row, LM_EDATA, "0 bytes for 1073741824 values"},
        {LM_FRAME_TOP, 8, 0, 1, 0, beyond, LM_EDATA, "id 5 is outside the vocabulary of 5"},
        {LM_FRAME_TOP, 16, 0, 2, 0, back, LM_EDATA, "pair 1 is out of order"},
        {LM_FRAME_TOP, 16, 0, 2, 0, twice, LM_EDATA, "pair 1 is out of order"},
        {LM_FRAME_TOP, 32, 0, 4, 0, again, LM_EDATA, "id 4 is there twice"},
        {LM_FRAME_TOP, 12, 0, 1, 0, back, LM_EDATA, "12 bytes for 1 values"},
        {LM_FRAME_VECTOR, 12, 0, 2, 0, row, LM_EDATA, "12 bytes for 2 values"},
        {LM_FRAME_GUESS, 8, 0, 1, 0, beyond, LM_EDATA, "id 5 is outside the vocabulary of 5"},
        {LM_FRAME_GUESS, 8, 5, 1, 0, back, LM_EDATA, "token 5 is outside"},
        {LM_FRAME_GUESS, 12, 0, 1, 0, back, LM_EDATA, "12 bytes for 1 values"},
        {LM_FRAME_END, 0, 0, 2, 0, row, LM_EDATA, "counts 2 frames, 1 came"},
        {LM_FRAME_END, 4, 0, 1, 0, row, LM_EDATA, "4 bytes"},
        {78, 4, 0, 0, LM_FRAME_CRITICAL, row, LM_ENOSUP, "kind 78 is unknown"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bytes b = {.n = 0};
        struct lm_err err = {0};
        add_head(&b, head_text);
        add_frame(&b, LM_FRAME_VECTOR, 4, 0, 1, 0, row);
        add_frame(&b, cases[i].kind, cases[i].bytes, cases[i].token, cases[i].n, cases[i].flags,
                  cases[i].payload);
        add_frame(&b, LM_FRAME_END, 0, 0, 2, 0, row);
        assert_int_equal(read_all(b.p, b.n, &err), cases[i].code);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

static void headers_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct { const char *find, *put, *text; } cases[] = {
        {"\"n_vocab\":5", "\"n_vocab\":6", "n_vocab is 6, but the vocabulary has 5 entries"},
        {"\"n_ctx\":64", "\"n_ctx\":-4", "n_ctx is -4"},
        {"[2,4]", "[2,5]", "eog: id 5 is outside the vocabulary of 5"},
        {"decoder_start\":-1", "decoder_start\": 5", "decoder_start: id 5 is outside"},
        {"decoder_start\":-1", "decoder_start\":-2", "decoder_start: id -2 is outside"},
        {"\"version\":\"9\"}", "\"versio\":9} {}", "header: line 1, column"},
        {"\"bos\":1", "\"bos\":{", "header"},
        {"\"bos\":1", "\"bos\":x", "header"},
        {"\"bos\"", "\"sob\"", "no bos"},
        {"[2,4]", "[4,2]", "do not ascend"},
        {"[2,4]", "[2,x]", "header"},
        {"[2,4]", "[-2 ]", "-2 is no token id"},
        {"true", "1234", "add_bos has a value of the wrong kind"},
        {"{\"temp\":0.5}", "\"temp  0.5 \"", "sampling has a value of the wrong kind"},
        {"\"9\"}", "\"9\" ", "header"},
        {"\"llama\"", "      1", "arch has a value of the wrong kind"},
    };
    struct lm_err err = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bytes b = {.n = 0};
        char text[sizeof head_text];
        strcpy(text, head_text);
        char *at = strstr(text, cases[i].find);
        assert_non_null(at);
        assert_int_equal(strlen(cases[i].find), strlen(cases[i].put));
        memcpy(at, cases[i].put, strlen(cases[i].put));
        add_head(&b, text);
        add_frame(&b, LM_FRAME_END, 0, 0, 0, 0, row);
        assert_int_equal(read_all(b.p, b.n, &err), LM_EDATA);
        assert_non_null(strstr(err.text, cases[i].text));
    }
    static const struct { size_t at; unsigned char to; int code; const char *text; } bytes[] = {
        {0, 'X', LM_EDATA, "not a logits stream"}, {4, 2, LM_ENOSUP, "version 2, not 1"},
        {8, 0, LM_EDATA, "a vocabulary of 0 entries, not 1 to 8388608"},
        {11, 1, LM_EDATA, "a vocabulary of 16777221 entries"},
        {12, 1, LM_EDATA, "do not begin at a multiple of 64"},
        {15, 0xff, LM_EDATA, "bytes of text, at most 16777216"},
    };
    for (size_t i = 0; i < COUNT(bytes); i++) {
        struct bytes b = {.n = 0};
        add_stream(&b);
        b.p[bytes[i].at] = (char)bytes[i].to;
        assert_int_equal(read_all(b.p, b.n, &err), bytes[i].code);
        assert_non_null(strstr(err.text, bytes[i].text));
    }
}

/* Frames come by sequence and position, unless they are said to follow requests. */
static void frames_come_in_order(void **state)
{
    (void)state;
    static const struct { const char *loop; uint32_t seq, pos; int code; } cases[] = {
        {"\"loop\":false,", 3, 7, LM_OK},    {"\"loop\":false,", 4, 0, LM_OK},
        {"\"loop\":false,", 3, 6, LM_EDATA}, {"\"loop\":false,", 3, 5, LM_EDATA},
        {"\"loop\":false,", 2, 9, LM_EDATA}, {"\"loop\":true,", 3, 5, LM_OK},
        {"", 3, 5, LM_OK},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bytes b = {.n = 0};
        struct lm_err err = {0};
        char text[sizeof head_text + 8];
        const char *loop = strstr(head_text, "\"loop\":true,");
        assert_non_null(loop);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(loop - head_text), head_text, cases[i].loop,
                 strchr(loop, ',') + 1);
        add_head(&b, text);
        add_frame(&b, LM_FRAME_DENSE, sizeof row, 4, N_VOCAB, 0, row);
        add_frame(&b, LM_FRAME_DENSE, sizeof row, 4, N_VOCAB, 0, row);
        b.p[b.n - sizeof row - 24] = (char)cases[i].seq;
        b.p[b.n - sizeof row - 20] = (char)cases[i].pos;
        add_frame(&b, LM_FRAME_END, 0, 0, 2, 0, row);
        assert_int_equal(read_all(b.p, b.n, &err), cases[i].code);
        if (cases[i].code)
            assert_non_null(strstr(err.text, "frame 1: sequence"));
    }
}

/* A frame that claims 4 GB and does not have them must not take them. */
static void memory_grows_with_what_came(void **state)
{
    (void)state;
    struct bytes b = {.n = 0};
    struct lm_err err;
    add_head(&b, head_text);
    add_frame(&b, LM_FRAME_ERROR, 5, 2, 0, 0, "oh no");
    b.p[b.n - 5 - 32 + 4] = b.p[b.n - 5 - 32 + 7] = (char)0xff;
    assert_int_equal(read_all(b.p, b.n, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "cut short"));
}

/* Rows */

static double rnd(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (*s >> 8) / 16777216.0;
}

static void lse_is_as_the_library_has_it(void **state)
{
    (void)state;
    static float x[5000];
    uint32_t seed = 1;
    const float wide[] = {0.1f, 1, 5, 30, 200};
    for (size_t n = 1; n <= 5000; n = n < 40 ? n + 1 : n * 2)
        for (size_t w = 0; w < COUNT(wide); w++) {
            double max = -INFINITY, sum = 0;
            for (size_t i = 0; i < n; i++) {
                x[i] = (float)((rnd(&seed) - 0.5) * wide[w] + 3);
                max = x[i] > max ? x[i] : max;
            }
            for (size_t i = 0; i < n; i++)
                sum += exp(x[i] - max);
            assert_true(fabs(lm_logits_lse(x, n) - (max + log(sum))) < 3e-7);
        }
    const float inf[] = {INFINITY, 1}, minus[] = {-INFINITY, -INFINITY}, some[] = {-INFINITY, 3},
                nan[] = {1, NAN, 2}, only[] = {NAN, NAN};
    assert_true(lm_logits_lse(inf, 2) == INFINITY);
    assert_true(lm_logits_lse(minus, 2) == -INFINITY);
    assert_true(fabs(lm_logits_lse(some, 2) - 3) < 1e-7);
    assert_true(isnan(lm_logits_lse(nan, 3)));
    assert_true(isnan(lm_logits_lse(only, 2)));
    assert_true(lm_logits_lse(NULL, 0) == -INFINITY);
}

static const float *sorted_row;

static int by_logit(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    float x = sorted_row[i], y = sorted_row[j];
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y) ? (i > j) - (i < j) : isnan(x) ? 1 : -1;
    return x < y ? 1 : x > y ? -1 : (i > j) - (i < j);
}

static void check_top(const float *x, size_t n, size_t k)
{
    static uint32_t order[3000];
    static struct lm_top top[3000];
    void *work = malloc(lm_logits_top_work(k, n));
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    sorted_row = x;
    qsort(order, n, sizeof *order, by_logit);
    size_t got = lm_logits_top(x, n, k, top, work);
    assert_int_equal(got, k < n ? k : n);
    for (size_t i = 0; i < got; i++) {
        assert_int_equal(top[i].id, order[i]);
        assert_memory_equal(&top[i].logit, &x[order[i]], sizeof(float));
    }
    free(work);
}

static void the_best_are_found(void **state)
{
    (void)state;
    static float x[3000];
    static const size_t ks[] = {0, 1, 2, 3, 40, 127, 128, 129, 300, 1500, 2999, 3000, 4000};
    uint32_t seed = 5;
    for (int shape = 0; shape < 7; shape++) {
        for (size_t i = 0; i < 3000; i++)
            x[i] = shape == 0 ? (float)rnd(&seed)
                 : shape == 1 ? (float)i
                 : shape == 2 ? -(float)i
                 : shape == 3 ? 1.0f
                 : shape == 4 ? (float)(int)(rnd(&seed) * 5)
                 : shape == 5 ? (i % 2 ? 0.0f : -0.0f)
                 : i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : (float)rnd(&seed);
        for (size_t j = 0; j < COUNT(ks); j++)
            check_top(x, 3000, ks[j]);
        check_top(x, 1, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_lines_mean_what_the_page_says),
        cmocka_unit_test(hostile_token_lines_are_faults),
        cmocka_unit_test(token_streams_cut_anywhere_are_noticed),
        cmocka_unit_test(whole_lines_are_read),
        cmocka_unit_test(request_lines_mean_what_the_page_says),
        cmocka_unit_test(scales_are_numbers),
        cmocka_unit_test(scales_are_not_endless),
        cmocka_unit_test(broken_request_streams_end),
        cmocka_unit_test(lines_are_seen_when_whole),
        cmocka_unit_test(requests_are_seen_when_whole),
        cmocka_unit_test(writing_gives_the_bytes_of_the_page),
        cmocka_unit_test(streams_are_read_and_may_follow_each_other),
        cmocka_unit_test(streams_cut_anywhere_are_noticed),
        cmocka_unit_test(frames_that_lie_are_refused),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(frames_come_in_order),
        cmocka_unit_test(memory_grows_with_what_came),
        cmocka_unit_test(lse_is_as_the_library_has_it),
        cmocka_unit_test(the_best_are_found),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
