/* SPDX-License-Identifier: MIT */
#ifndef LM_FUZZ_MEMORY_H
#define LM_FUZZ_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/input.h"

/* Bytes as an input, for targets whose parser reads a struct lm_in.  One nameless file
 * serves all runs. */
static inline struct lm_in *input_of(const uint8_t *data, size_t size)
{
    static FILE *f;
    char path[32];
    if (!f && !(f = tmpfile()))
        abort();
    if (ftruncate(fileno(f), 0) || pwrite(fileno(f), data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(f));
    struct lm_in *in = lm_in_open(path, LM_IN_RAW, NULL);
    if (!in)
        abort();
    return in;
}

#endif
