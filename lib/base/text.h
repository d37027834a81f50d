/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_TEXT_H
#define LM_BASE_TEXT_H

#include <stdbool.h>
#include <string.h>

/* Does s begin, end with the other text?  Every text does with "". */
static inline bool lm_begins_with(const char *s, const char *begin)
{
    return !strncmp(s, begin, strlen(begin));
}

static inline bool lm_ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

#endif
