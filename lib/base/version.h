/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_VERSION_H
#define LM_BASE_VERSION_H

/* The version of the library, as "0.1"; pkg-config and the programs say the same. */
const char *lm_version(void);

#endif
