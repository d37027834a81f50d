/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_MAP_H
#define LM_IO_MAP_H

/* A regular file mapped read-only: for what runs a model, never for converters. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct lm_map {
    const uint8_t *data;
    uint64_t       size;
};

/*
 * lm_map_fd - map all of an open file, whose descriptor stays the caller's and may be closed.
 *
 * Fills *m, to be closed with lm_map_close; else leaves it zeroed: LM_EUSE when it is no regular
 * file, LM_EDATA when it is empty, LM_EIO.  m->data is the file's as long as nobody writes to it;
 * reading beyond what it was cut to meanwhile ends the program.
 */
int lm_map_fd(struct lm_map *m, int fd, struct lm_err *err);
/* The map is no more; all zero is none, which is fine. */
void lm_map_close(struct lm_map *m);

#endif
