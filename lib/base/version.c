/* SPDX-License-Identifier: MIT */
#include "base/version.h"

const char *lm_version(void)
{
    return LM_VERSION;
}
