/* SPDX-License-Identifier: MIT */
#include "io/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/pipe.h"

#define PIPE_ROOM (1 << 20)     /* a row of 150 000 logits fits                    */
#define LAST_GRACE 2000         /* milliseconds from SIGTERM to SIGKILL            */
#define MANY_FDS   65536        /* numbers tried where open ones cannot be listed  */

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int private_pipe(int fd[2])
{
    if (pipe(fd) < 0)
        return -1;
    fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    return 0;
}

/* No descriptor above this is open. */
static int highest_fd(void)
{
    long n = 0;
    DIR *d = opendir("/dev/fd");
    if (!d) {
        n = sysconf(_SC_OPEN_MAX);
        return n > 0 && n < MANY_FDS ? (int)n : MANY_FDS;
    }
    for (struct dirent *e; (e = readdir(d));) {
        long fd = strtol(e->d_name, NULL, 10);
        n = fd > n ? fd : n;
    }
    closedir(d);
    return (int)n;
}

/*
 * In the child: become the program, or say why not.  Descriptors that whoever started us left
 * open end here as well: the program would hold the far end of a pipe of theirs open.
 */
static _Noreturn void become(char *const argv[], int in, int out, int report, int highest)
{
    sigset_t none;
    for (int fd = STDERR_FILENO + 1; fd <= highest; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execvp(argv[0], argv);
    int why = errno;
    while (write(report, &why, sizeof why) < 0 && errno == EINTR)
        ;
    _exit(127);
}

/* The number that a child which could not become the program has left, else 0. */
static int read_report(int fd)
{
    int why;
    ssize_t k;
    do
        k = read(fd, &why, sizeof why);
    while (k < 0 && errno == EINTR);
    return k == (ssize_t)sizeof why ? why : 0;
}

int lm_child_start(struct lm_child *c, char *const argv[], struct lm_err *err)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, report[2] = { -1, -1 }, why = 0;
    const int highest = highest_fd();
    *c = (struct lm_child){ .to = -1, .from = -1 };
    if (private_pipe(in) < 0 || private_pipe(out) < 0 || private_pipe(report) < 0)
        why = errno;
    else if ((c->pid = fork()) == 0)
        become(argv, in[0], out[1], report[1], highest);
    else if (c->pid < 0)
        why = errno;
    shut(&in[0]);
    shut(&out[1]);
    shut(&report[1]);
    if (!why && (why = read_report(report[0])))
        waitpid(c->pid, NULL, 0);
    shut(&report[0]);
    if (why) {
        shut(&in[1]);
        shut(&out[0]);
        c->pid = 0;
        errno = why;
        return lm_fail_errno(err, "%s: cannot run", argv[0]);
    }
    c->to = in[1];
    c->from = out[0];
    fcntl(c->to, F_SETFL, fcntl(c->to, F_GETFL) | O_NONBLOCK);
    lm_pipe_widen(c->from, PIPE_ROOM);
    return LM_OK;
}

int lm_child_send(struct lm_child *c, const void *p, size_t n, size_t *taken,
                  struct lm_err *err)
{
    const char *from = p;
    for (*taken = 0; *taken < n;) {
        ssize_t k = write(c->to, from + *taken, n - *taken);
        if (k >= 0) {
            *taken += (size_t)k;
            continue;
        }
        if (errno == EPIPE)
            return 1;
        if (errno != EAGAIN && errno != EINTR)
            return lm_fail_errno(err, "write error");
        struct pollfd fd[2] = {
            { .fd = c->to, .events = POLLOUT },
            { .fd = c->from, .events = POLLIN },
        };
        if (errno == EAGAIN && poll(fd, 2, -1) > 0 && fd[1].revents)
            return 0;
    }
    return 1;
}

void lm_child_close_input(struct lm_child *c)
{
    shut(&c->to);
}

void lm_child_drain(struct lm_child *c, int patience, uint64_t most)
{
    char waste[4096];
    struct pollfd fd = { .fd = c->from, .events = POLLIN };
    for (uint64_t n = 0; n <= most;) {
        int ready = poll(&fd, 1, patience);
        ssize_t k = ready > 0 ? read(c->from, waste, sizeof waste) : ready;
        if (k == 0 || (k < 0 && errno != EINTR))
            return;
        n += k > 0 ? (uint64_t)k : 0;
    }
}

/* Wait up to ms milliseconds (below 0: for ever); true once the child is reaped. */
static bool reap(struct lm_child *c, int ms, int *how)
{
    static const struct timespec nap = { 0, 2000000 };
    for (int t = 0;; t += 2) {
        pid_t p = waitpid(c->pid, how, ms < 0 ? 0 : WNOHANG);
        if (p == c->pid || (p < 0 && errno != EINTR))
            return true;
        if (p == 0 && t >= ms)
            return false;
        if (p == 0)
            nanosleep(&nap, NULL);
    }
}

struct lm_child_end lm_child_finish(struct lm_child *c, int grace)
{
    int how = 0;
    struct pollfd fd = { .fd = c->from, .events = POLLIN };
    bool had_ended = poll(&fd, 1, 0) > 0 && !(fd.revents & POLLIN), asked = false;
    shut(&c->to);
    shut(&c->from);
    if (!reap(c, grace, &how)) {
        asked = true;
        kill(c->pid, SIGTERM);
        if (!reap(c, LAST_GRACE, &how)) {
            kill(c->pid, SIGKILL);
            reap(c, -1, &how);
        }
    }
    c->pid = 0;
    if (WIFSIGNALED(how))
        return (struct lm_child_end){
            .status = -1,
            .signal = WTERMSIG(how),
            .ours   = asked || (!had_ended && WTERMSIG(how) == SIGPIPE),
        };
    return (struct lm_child_end){ .status = WEXITSTATUS(how), .ours = asked || !had_ended };
}
