/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_PIPE_H
#define LM_IO_PIPE_H

#include <stdbool.h>
#include <stddef.h>

/* Ask for room for `bytes` in the pipe behind fd, so that a record of that size is
 * written without waiting for its reader.  False where fd is no pipe, or the system
 * cannot or will not: nothing depends on it but speed. */
bool lm_pipe_widen(int fd, size_t bytes);

#endif
