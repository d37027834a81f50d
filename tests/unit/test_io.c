/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "not_here.h"
#include "io/input.h"
#include "io/map.h"
#include "io/output.h"
#include "io/pipe.h"

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/lmpipe-test.XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    char cmd[100];
    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return chdir("/") || system(cmd);
}

static size_t files_here(void)
{
    DIR *d = opendir(".");
    size_t n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static void put(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_out(const char *path, const char *text)
{
    struct lm_err err;
    struct lm_out *o = lm_out_open(path, &err);
    assert_non_null(o);
    assert_int_equal(lm_out_write(o, text, strlen(text), &err), LM_OK);
    assert_int_equal(lm_out_commit(o, &err), LM_OK);
}

static void expect(const char *path, const char *text)
{
    struct lm_err err;
    char *data;
    size_t len;
    assert_int_equal(lm_read_file(path, 1 << 20, &data, &len, &err), LM_OK);
    assert_int_equal(len, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static void outputs_appear_whole_or_not(void **state)
{
    (void)state;
    struct lm_err err;
    struct stat st;
    write_out("a", "old");
    chmod("a", 0640);
    struct lm_out *o = lm_out_open("a", &err);
    assert_non_null(lm_out_part(o));
    lm_out_write(o, "new", 3, &err);
    lm_out_flush(o, &err);
    expect("a", "old");
    assert_int_equal(files_here(), 2);
    lm_out_abort(o);
    expect("a", "old");
    write_out("a", "new");
    expect("a", "new");
    assert_int_equal(stat("a", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(files_here(), 1);
    unlink("a");
}

static void links_are_followed(void **state)
{
    (void)state;
    struct stat st;
    mkdir("sub", 0777);
    assert_int_equal(symlink("sub/target", "link"), 0);
    write_out("link", "one");                    /* the target does not exist yet */
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    expect("sub/target", "one");
    write_out("link", "two");
    expect("sub/target", "two");
    unlink("link");
    unlink("sub/target");
    rmdir("sub");
}

static void outputs_report_full_disks(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_out *o = lm_out_open("/dev/full", &err);
    assert_non_null(o);
    assert_int_equal(lm_out_write(o, "x", 1, &err), LM_OK);
    assert_int_equal(lm_out_commit(o, &err), LM_EIO);
    assert_non_null(strstr(err.text, "No space left"));
    assert_null(lm_out_open("/no/such/dir/x", &err));
    assert_int_equal(err.code, LM_EIO);
    assert_null(lm_out_open("/tmp", &err));
}

static void big_text(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i * i % 26);
    text[n] = 0;
}

static void zstd_goes_round(void **state)
{
#ifndef LM_HAVE_ZSTD
    (void)state;
    NOT_HERE("no zstd in this build");
#else
    (void)state;
    static char text[300001], back[300001];
    struct lm_err err;
    size_t got;
    char *raw;
    big_text(text, 300000);
    write_out("t.zst", text);
    assert_int_equal(lm_read_file("t.zst", 1 << 20, &raw, &got, &err), LM_OK);
    assert_int_equal(got, 300000);
    assert_string_equal(raw, text);
    free(raw);

    /* Two frames, then a cut one. */
    struct lm_in *in = lm_in_open("t.zst", LM_IN_RAW, &err);
    size_t size = (size_t)lm_in_size(in);
    char *packed = malloc(2 * size);
    assert_int_equal(lm_in_read_all(in, packed, size, &err), LM_OK);
    memcpy(packed + size, packed, size);
    lm_in_close(in);
    put("two", packed, 2 * size);
    /* Looking at what comes next, more or less of it, takes nothing away. */
    in = lm_in_open("two", 0, &err);
    assert_false(lm_in_seekable(in));
    for (size_t n = 1; n <= 4096; n *= 8) {
        assert_int_equal(lm_in_peek(in, back, n, &got, &err), LM_OK);
        assert_int_equal(got, n);
        assert_memory_equal(back, text, n);
    }
    assert_int_equal(lm_in_skip(in, 299998, &err), LM_OK);
    assert_int_equal(lm_in_pos(in), 299998);
    assert_int_equal(lm_in_peek(in, back, 5, &got, &err), LM_OK);
    assert_int_equal(got, 5);
    assert_memory_equal(back, text + 299998, 2);
    assert_memory_equal(back + 2, text, 3);
    assert_int_equal(lm_in_skip(in, 2, &err), LM_OK);
    assert_int_equal(lm_in_read(in, back, 300001, &got, &err), LM_OK);
    assert_int_equal(got, 300000);
    assert_memory_equal(back, text, got);
    assert_int_equal(lm_in_peek(in, back, 5, &got, &err), LM_OK);
    assert_int_equal(got, 0);
    lm_in_close(in);
    for (size_t cut = 1; cut < size; cut += size / 7) {
        put("cut", packed, size + cut);
        in = lm_in_open("cut", 0, &err);
        assert_int_equal(lm_in_skip(in, 300000, &err), LM_OK);
        assert_int_equal(lm_in_read(in, back, 300001, &got, &err), LM_EDATA);
        lm_in_close(in);
    }
    free(packed);
    unlink("t.zst");
    unlink("two");
    unlink("cut");
#endif
}

static void inputs_are_read_in_every_way(void **state)
{
    (void)state;
    static char text[200001], back[200001];
    struct lm_err err;
    size_t got;
    big_text(text, 200000);
    put("in", text, 200000);
    struct lm_in *in = lm_in_open("in", 0, &err);
    assert_true(lm_in_seekable(in));
    assert_int_equal(lm_in_size(in), 200000);
    const uint8_t *ahead;
    assert_int_equal(lm_in_read_all(in, back, 10, &err), LM_OK);
    got = lm_in_ahead(in, &ahead);
    assert_true(got > 0);
    assert_memory_equal(ahead, text + 10, got);
    assert_int_equal(lm_in_skip(in, got, &err), LM_OK);
    assert_int_equal(lm_in_ahead(in, &ahead), 0);
    assert_int_equal(lm_in_pos(in), 10 + got);
    lm_in_close(in);
    in = lm_in_open("in", 0, &err);
    assert_int_equal(lm_in_read_all(in, back, 10, &err), LM_OK);
    assert_int_equal(lm_in_skip(in, 100000, &err), LM_OK);
    assert_int_equal(lm_in_pos(in), 100010);
    assert_int_equal(lm_in_pread(in, 5, back, 20, &err), LM_OK);
    assert_memory_equal(back, text + 5, 20);
    assert_int_equal(lm_in_read_some(in, back, 7, &got, &err), LM_OK);
    assert_memory_equal(back, text + 100010, got);
    assert_int_equal(lm_in_read(in, back, 200000, &got, &err), LM_OK);
    assert_int_equal(lm_in_pos(in), 200000);
    assert_memory_equal(back, text + 200000 - got, got);
    assert_int_equal(lm_in_read_all(in, back, 3, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "200000"));
    assert_int_equal(lm_in_skip(in, 1, &err), LM_EDATA);
    assert_int_equal(lm_in_pread(in, 199999, back, 2, &err), LM_EDATA);
    lm_in_close(in);

    char *data;
    assert_int_equal(lm_read_file("in", 100, &data, &got, &err), LM_EDATA);
    assert_int_equal(lm_read_file("none", 100, &data, &got, &err), LM_EIO);
    assert_null(lm_in_open(".", 0, &err));
    assert_non_null(strstr(err.text, "directory"));
    unlink("in");
}

static void pipes_are_read_as_they_fill(void **state)
{
    (void)state;
    struct lm_err err;
    char path[32], got_text[8];
    size_t got;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
    assert_int_equal(write(fd[1], "7\n", 2), 2);
    alarm(5);                            /* a wait for more would last for ever */
    struct lm_in *in = lm_in_open(path, 0, &err);
    assert_non_null(in);
    assert_int_equal(lm_in_read_some(in, got_text, 8, &got, &err), LM_OK);
    assert_int_equal(got, 2);
    alarm(0);
    lm_in_close(in);
    close(fd[0]);
    close(fd[1]);
}

/* A short head and a payload above the buffer's size reach a widened pipe in one write:
 * one read gives both. */
static void records_reach_pipes_whole(void **state)
{
    (void)state;
    struct lm_err err;
    static char payload[200000], back[200004];
    char path[32];
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    big_text(payload, sizeof payload - 1);
    snprintf(path, sizeof path, "/dev/fd/%d", fd[1]);
    struct lm_out *o = lm_out_open(path, &err);
    assert_non_null(o);
    bool wide = lm_pipe_widen(fd[1], 1 << 20);
    if (!wide)
        NOT_HERE("nothing to try it on");
    assert_int_equal(lm_out_write(o, "head", 4, &err), LM_OK);
    assert_int_equal(lm_out_write(o, payload, sizeof payload, &err), LM_OK);
    assert_int_equal(lm_out_commit(o, &err), LM_OK);
    assert_int_equal(read(fd[0], back, sizeof back), sizeof back);
    assert_memory_equal(back, "head", 4);
    assert_memory_equal(back + 4, payload, sizeof payload);
    close(fd[0]);
    close(fd[1]);
}

static int map(struct lm_map *m, const char *path, struct lm_err *err)
{
    const int fd = open(path, O_RDONLY);
    const int r = lm_map_fd(m, fd, err);
    close(fd);
    return r;
}

static void maps_are_whole_files(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_map m;
    put("m", "abc", 3);
    assert_int_equal(map(&m, "m", &err), LM_OK);
    assert_int_equal(m.size, 3);
    assert_memory_equal(m.data, "abc", 3);
    lm_map_close(&m);
    put("m", "", 0);
    assert_int_equal(map(&m, "m", &err), LM_EDATA);
    assert_int_equal(map(&m, "/dev/null", &err), LM_EUSE);
    lm_map_close(&m);
    unlink("m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_appear_whole_or_not),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(outputs_report_full_disks),
        cmocka_unit_test(zstd_goes_round),
        cmocka_unit_test(inputs_are_read_in_every_way),
        cmocka_unit_test(pipes_are_read_as_they_fill),
        cmocka_unit_test(records_reach_pipes_whole),
        cmocka_unit_test(maps_are_whole_files),
    };
    return cmocka_run_group_tests_name("io", tests, enter, leave);
}
