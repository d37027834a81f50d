/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE                     /* F_SETPIPE_SZ, on Linux */
#include "io/pipe.h"

#include <fcntl.h>
#include <limits.h>

bool lm_pipe_widen(int fd, size_t bytes)
{
#ifdef F_SETPIPE_SZ
    int have = fcntl(fd, F_GETPIPE_SZ);
    if (have < 0 || bytes > INT_MAX)
        return false;
    return (size_t)have >= bytes || fcntl(fd, F_SETPIPE_SZ, (int)bytes) >= 0;
#else
    (void)fd;
    (void)bytes;
    return false;
#endif
}
