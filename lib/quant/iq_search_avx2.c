/* SPDX-License-Identifier: MIT */
/* The searches of iq_search.c with vectors of eight floats. */
#include "quant/iq_search.h"

#if defined(__x86_64__)
#include "quant/vec_avx2.h"

#include "quant/iq_lanes.h"

const struct lm_iq lm_iq_avx2 = { look_up, search, refit, nearest, order, split32, split16 };

#endif
