/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef LM_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef LM_HAVE_ARCHIVE
#include <archive.h>
#endif

#include "base/buf.h"
#include "base/cpu.h"
#include "base/version.h"

#ifndef LM_CUDA_NOTE
#define LM_CUDA_NOTE "no CUDA"
#endif

static const char *prog = "?";

/* Unfinished outputs, for the signal handler: a path is complete before it is
 * published, and what the list has it keeps. */
struct unfinished {
    struct lm_out     *out;              /* NULL: free for another                   */
    char *volatile     part;
    struct unfinished *next;
};
static struct unfinished *volatile unfinished;

/* Progress line state: `shown` while something stands on the terminal. */
static struct cli_env_options opts;
static bool shown;

static void remove_parts(void)
{
    for (const struct unfinished *u = unfinished; u; u = u->next)
        if (u->part)
            unlink(u->part);
}

/* Signals that end a program, and remove its unfinished files first. */
static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU };

/* Those and the broken pipe: one is answered, and others wait until files are gone. */
static void all_ends(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(set, ends[i]);
}

static void on_signal(int sig)
{
    remove_parts();
    signal(sig, SIG_DFL);
    raise(sig);                         /* waits until this function returns */
}

static void catch(int sig)
{
    struct sigaction a = { .sa_handler = on_signal };
    all_ends(&a.sa_mask);
    sigaction(sig, &a, NULL);
}

/* Keep them waiting while what is on disk and what the handler knows are being brought in
 * step; *before is what sigprocmask takes back. */
static void hold_ends(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(&set, ends[i]);
    sigprocmask(SIG_BLOCK, &set, before);
}

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

/* What a mapped file answers that somebody cut short, or whose disk fails. */
static void on_bus(int sig)
{
    (void)sig;
    remove_parts();
    put(prog);
    put(": a file that is read became shorter, or its disk fails\n");
    _exit(CLI_TROUBLE);
}

void cli_start(char *argv[])
{
    char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;
    prog = slash ? slash + 1 : argv[0] ? argv[0] : "?";
    if (slash)
        argv[0] = slash + 1;             /* what getopt's messages begin with */

    /* With 0, 1 or 2 closed, the next file opened would take its place.  What is put there
     * instead fails, as a closed descriptor does: input is not just empty, output not lost. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            _exit(CLI_TROUBLE);

    /* A caller may have left SIGPIPE ignored; a filter whose reader has gone
     * should stop, not write on.  Messages may go to a pipe, too, while a file is written. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    catch(SIGPIPE);

    /* Beyond a limit on file sizes, write should fail like on a full disk. */
    signal(SIGXFSZ, SIG_IGN);

    signal(SIGBUS, on_bus);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction old;
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            catch(ends[i]);
    }
}

const char *cli_name(void)
{
    return prog;
}

static void erase_progress(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}

/* "prog: text" with control characters made visible. */
static void say(const char *fmt, va_list ap)
{
    char raw[2048];
    struct lm_buf line = { 0 };
    vsnprintf(raw, sizeof raw, fmt, ap);
    fflush(stdout);
    erase_progress();
    lm_buf_printf(&line, "%s: ", prog);
    for (const char *p = raw, *q; *p; p = q) {      /* escape all but backslashes */
        q = p + strcspn(p, "\\");
        lm_buf_escape(&line, p, (size_t)(q - p));
        if (*q) {
            lm_buf_byte(&line, *q);
            q++;
        }
    }
    lm_buf_byte(&line, '\n');
    if (!line.failed)
        fwrite(line.data, 1, line.len, stderr);
    lm_buf_release(&line);
}

void cli_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

static _Noreturn void leave(int status)
{
    remove_parts();
    fflush(stdout);
    _exit(status);
}

void cli_die(int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    leave(status);
}

void cli_try_help(void)
{
    fprintf(stderr, "Try '%s --help'.\n", prog);
    leave(CLI_TROUBLE);
}

void cli_bad_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    cli_try_help();
}

int cli_status(int code)
{
    return code >= 0 ? CLI_OK : code == LM_EDATA ? CLI_NO : CLI_TROUBLE;
}

int cli_report(const char *file, const struct lm_err *err)
{
    if (file)
        cli_warn("%s: %s", *file ? file : "''", err->text);
    else
        cli_warn("%s", err->text);
    return cli_status(err->code);
}

void cli_die_err(const char *file, const struct lm_err *err)
{
    leave(cli_report(file, err));
}

int cli_help(const char *usage, const char *help)
{
    if (printf("%s%s", usage, help) < 0 || fflush(stdout))
        cli_die(CLI_TROUBLE, "<stdout>: write error: %s", strerror(errno));
    return cli_finish(CLI_OK);
}

int cli_version(void)
{
    printf("%s (lmpipe) %s\n", prog, lm_version());
    printf("compiler %s", __VERSION__);
#ifdef LM_HAVE_ARCHIVE
    printf(", " ARCHIVE_VERSION_STRING);
#else
    printf(", no libarchive");
#endif
#ifdef LM_HAVE_ZSTD
    printf(", libzstd %s", ZSTD_versionString());
#else
    printf(", no libzstd");
#endif
    printf(", %s, kernels %s\n", LM_CUDA_NOTE, lm_isa_name(lm_isa()));
    return cli_finish(CLI_OK);
}

char *cli_provenance(char *const argv[])
{
    struct lm_buf b = { 0 };
    lm_buf_printf(&b, "%s (lmpipe) %s:", prog, lm_version());
    for (char *const *a = argv + 1; *a; a++)
        lm_buf_printf(&b, " %s", *a);
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    return b.data;
}

/* The signal handler has to know this output. */
static void remember(struct lm_out *out)
{
    struct unfinished *u = unfinished;
    if (!lm_out_part(out))
        return;
    while (u && u->out)
        u = u->next;
    if (!u && (u = calloc(1, sizeof *u))) {
        u->next = unfinished;
        unfinished = u;
    }
    if (u) {
        u->out = out;
        u->part = strdup(lm_out_part(out));
    }
    if (!u || !u->part) {
        lm_out_abort(out);
        cli_die(CLI_TROUBLE, "out of memory");
    }
}

struct lm_out *cli_out_open(const char *path, bool binary, bool force)
{
    struct lm_err err;
    struct stat st;
    sigset_t before;
    /* A FIFO may wait for its reader, interruptibly; only a regular file has a part. */
    bool direct = path && stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    sigprocmask(SIG_SETMASK, NULL, &before);
    if (!direct)
        hold_ends(&before);
    struct lm_out *out = lm_out_open(path, &err);
    if (out)
        remember(out);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (!out)
        cli_die_err(path ? path : "<stdout>", &err);
    if (binary && !force && lm_out_is_tty(out)) {
        cli_out_abort(out);
        cli_die(CLI_TROUBLE, "%s: is a terminal, and this output is binary: use --force",
                path && strcmp(path, "-") ? path : "<stdout>");
    }
    return out;
}

/* The signal handler no longer has to know this output. */
static void forget(const struct lm_out *out)
{
    for (struct unfinished *u = unfinished; u; u = u->next)
        if (u->out == out) {
            char *p = u->part;
            u->part = NULL;
            u->out = NULL;
            free(p);
        }
}

int cli_out_commit(struct lm_out *out)
{
    struct lm_err err;
    char *name = strdup(lm_out_name(out));
    int s = lm_out_commit(out, &err), status = CLI_OK;
    if (s < 0)
        status = cli_report(name ? name : "output", &err);
    forget(out);
    free(name);
    return status;
}

int cli_out_commit_all(struct lm_out **outs, size_t n)
{
    struct lm_err err;
    sigset_t before;
    int status = CLI_OK;
    for (size_t i = 0; i < n && status == CLI_OK; i++)
        if (lm_out_complete(outs[i], &err) < 0)
            status = cli_report(lm_out_name(outs[i]), &err);
    hold_ends(&before);
    for (size_t i = 0; i < n; i++)
        if (status == CLI_OK)
            status = cli_out_commit(outs[i]);
        else
            cli_out_abort(outs[i]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

void cli_out_abort(struct lm_out *out)
{
    lm_out_abort(out);
    forget(out);
}

/* stat for an operand: "-" is descriptor `fd`. */
static bool stat_operand(const char *path, int fd, struct stat *st)
{
    return (!path || !strcmp(path, "-") ? fstat(fd, st) : stat(path, st)) == 0;
}

void cli_refuse_same(const char *in, const char *out)
{
    struct stat a, b;
    if (stat_operand(in, STDIN_FILENO, &a) && stat_operand(out, STDOUT_FILENO, &b) &&
        S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        cli_die(CLI_TROUBLE, "%s: input and output are the same file",
                out && strcmp(out, "-") ? out : "<stdout>");
}

void cli_refuse_one(const char *opt, const char *path, const char *out)
{
    const bool first = !strcmp(path, "-"), second = !strcmp(out, "-");
    struct stat a, b;
    bool same = first && second;
    if (!same && stat_operand(path, STDOUT_FILENO, &a) && stat_operand(out, STDOUT_FILENO, &b))
        same = !S_ISCHR(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    else if (!same && !first && !second)
        same = lm_out_same(path, out);
    if (same)
        cli_die(CLI_TROUBLE, "%s: %s is the output", opt, first ? "<stdout>" : path);
}

void cli_write(const void *p, size_t n)
{
    if (n && fwrite(p, 1, n, stdout) != n)
        cli_die(CLI_TROUBLE, "<stdout>: write error: %s", strerror(errno));
}

void cli_flush(void)
{
    if (fflush(stdout) != 0)
        cli_die(CLI_TROUBLE, "<stdout>: write error: %s", strerror(errno));
}

int cli_finish(int status)
{
    erase_progress();
    errno = 0;
    bool bad = ferror(stdout);
    if (fclose(stdout) == 0 && !bad)
        return status;
    if (errno)
        cli_warn("<stdout>: write error: %s", strerror(errno));
    else
        cli_warn("<stdout>: write error");
    return CLI_TROUBLE;
}

static void note(void *user, enum lm_level level, const char *text)
{
    (void)user;
    if (level == LM_FAULT || (level == LM_WARN ? !opts.quiet : opts.verbose))
        cli_warn("%s", text);
}

static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    static struct timespec last;
    struct timespec now;
    (void)user;
    if (total && done >= total) {            /* what comes next may be written to the same line */
        erase_progress();
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since = (double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec) / 1e9;
    if (since < 0.2)
        return;
    last = now;
    struct lm_buf line = { 0 };
    lm_buf_escape(&line, what, strlen(what));
    erase_progress();
    if (total)
        fprintf(stderr, "%s: %s %d%%", prog, line.data ? line.data : "",
                (int)(100.0 * (double)done / (double)total));
    else
        fprintf(stderr, "%s: %s %llu", prog, line.data ? line.data : "", (unsigned long long)done);
    fflush(stderr);
    shown = true;
    lm_buf_release(&line);
}

/* A set of instructions that there is not counts as none. */
static void check_isa(void)
{
    const char *want = getenv("LMPIPE_ISA");
    int i = 0;
    while (want && i < LM_N_ISA && strcmp(want, lm_isa_name((enum lm_isa)i)) != 0)
        i++;
    if (want && *want && i == LM_N_ISA)
        cli_warn("LMPIPE_ISA=%s has no effect: it is not scalar, avx2 or avx512", want);
}

struct lm_env cli_env(struct cli_env_options o)
{
    opts = o;
    if (!o.quiet)
        check_isa();
    bool show = !o.quiet && (o.progress || isatty(STDERR_FILENO));
    return (struct lm_env){
        .note = note,
        .progress = show ? progress : NULL,
        .n_threads = o.n_threads ? o.n_threads : lm_cpu_count(),
        .n_threads_batch = o.n_threads_batch,
    };
}

/* The multiplier a suffix stands for; 0 if it is none. */
static uint64_t unit(const char *s)
{
    static const char letters[] = "KMGT";
    uint64_t u = 1;
    if (!*s)
        return 1;
    const char *l = strchr(letters, *s);
    bool binary = s[1] == 'i';
    if (!l || s[1 + binary])
        return 0;
    for (ptrdiff_t i = 0; i <= l - letters; i++)
        u *= binary ? 1024 : 1000;
    return u;
}

uint64_t cli_u64(const char *opt, const char *s, uint64_t min, uint64_t max)
{
    char *end = NULL;
    errno = 0;
    uint64_t v = *s >= '0' && *s <= '9' ? strtoull(s, &end, 10) : 0;
    uint64_t u = end ? unit(end) : 0;
    if (errno || !u || v > UINT64_MAX / u || v * u < min || v * u > max)
        cli_bad_usage("--%s: '%s' is not a number from %llu to %llu", opt, s,
                      (unsigned long long)min, (unsigned long long)max);
    return v * u;
}

int64_t cli_i64(const char *opt, const char *s, int64_t min, int64_t max)
{
    bool minus = *s == '-';
    const char *d = s + minus;
    char *end = NULL;
    errno = 0;
    uint64_t v = *d >= '0' && *d <= '9' ? strtoull(d, &end, 10) : 0;
    uint64_t u = end ? unit(end) : 0;
    bool fits = !errno && u && v <= UINT64_MAX / u && v * u <= (uint64_t)INT64_MAX;
    int64_t r = fits ? (minus ? -(int64_t)(v * u) : (int64_t)(v * u)) : 0;
    if (!fits || r < min || r > max)
        cli_bad_usage("--%s: '%s' is not a number from %lld to %lld", opt, s,
                      (long long)min, (long long)max);
    return r;
}

double cli_f64(const char *opt, const char *s, double min, double max)
{
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || isnan(v) || v < min || v > max)
        cli_bad_usage("--%s: '%s' is not a number from %g to %g", opt, s, min, max);
    return v;
}

int cli_threads(const char *name, const char *s)
{
    return (int)cli_u64(name, s, 1, 1024);
}

int cli_choice(const char *opt, const char *s, const char *const names[])
{
    struct lm_buf all = { 0 };
    for (int i = 0; names[i]; i++) {
        if (!strcasecmp(names[i], s)) {
            lm_buf_release(&all);
            return i;
        }
        lm_buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    cli_bad_usage("--%s: '%s' is not one of %s", opt, s, all.data ? all.data : "");
}
