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

/* Map the whole file; fills *m or leaves it zeroed and returns a code. */
int lm_map_open(struct lm_map *m, const char *path, struct lm_err *err);
/* The same for an open file; fd stays the caller's. */
int lm_map_fd(struct lm_map *m, int fd, struct lm_err *err);
void lm_map_close(struct lm_map *m);

#endif
