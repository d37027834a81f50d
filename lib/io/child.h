/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_CHILD_H
#define LM_IO_CHILD_H

/*
 * struct lm_child - another program, asked through its standard input and answering on
 * its standard output.
 *
 * The caller ignores SIGPIPE, so that a child that has gone is an answer and not a
 * signal; the child itself is started with the default.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct lm_child {
    pid_t pid;           /* 0 once it is reaped                                    */
    int   to;            /* its input, not blocking; -1 once closed                */
    int   from;          /* its output; -1 once closed                             */
};

/*
 * Start argv[0], found as execvp does.  The child has two new pipes for standard input and
 * output, the caller's standard error, and no other descriptor, also none that was
 * inherited.
 * LM_OK, or LM_EIO with *c needing no release: pipes or processes are short, or the program
 * cannot be run.
 */
int lm_child_start(struct lm_child *c, char *const argv[], struct lm_err *err);

/*
 * Write n bytes to its input without ever waiting while it has something to say.
 *
 * 1: written, or it no longer listens, which its output will show.  0: it has taken only the
 * first *taken and wants its output read (or has closed it).  Below 0 a code.
 */
int lm_child_send(struct lm_child *c, const void *p, size_t n, size_t *taken,
                  struct lm_err *err);

/* Close its input; it sees the end. */
void lm_child_close_input(struct lm_child *c);

/* Read its output to the end and throw it away, or until nothing came for so many
 * milliseconds, or more than `most` bytes. */
void lm_child_drain(struct lm_child *c, int patience, uint64_t most);

/* How a child ended. */
struct lm_child_end {
    int  status;         /* exit status, or -1: ended by a signal                  */
    int  signal;
    bool ours;           /* by our doing: we asked it to, or stopped reading, which
                            SIGPIPE or whatever status may follow from              */
};

/*
 * Close what is open and wait for the end of the child.
 *
 *   grace  milliseconds after which it is asked to end (SIGTERM), and two seconds later
 *          killed; below 0: wait as long as it takes
 */
struct lm_child_end lm_child_finish(struct lm_child *c, int grace);

#endif
