/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_CPU_H
#define LM_BASE_CPU_H

/* What this machine can do. */

#include <stdint.h>

#include "base/err.h"

enum lm_isa {
    LM_ISA_SCALAR,     /* plain C: the definition                                */
    LM_ISA_AVX2,       /* AVX2, FMA, F16C                                        */
    LM_ISA_AVX512,     /* AVX-512 F, BW, DQ, VL, VBMI and VNNI                   */
    LM_N_ISA
};

/* The best instruction set of this CPU, or a lesser one that the environment
 * variable LMPIPE_ISA (scalar, avx2, avx512) asks for; a value that is unknown
 * or above what the CPU has counts as unset. */
enum lm_isa lm_isa(void);

/* "scalar", "avx2", "avx512". */
const char *lm_isa_name(enum lm_isa isa);

/* CPUs this process may use: affinity and cgroup quota (rounded up), at least 1. */
int lm_cpu_count(void);

/* Bytes of memory that this process may still take without anything being swapped out, and all that
 * it may have; what the machine has, a cgroup allows and the limit of the address space leaves
 * (RLIMIT_AS).  0: not known. */
void lm_cpu_memory(uint64_t *left, uint64_t *all);

/*
 * lm_cpu_use - keep the calling thread, and those that it starts from now on, to these CPUs:
 * numbers and ranges, joined by commas ("0-3,8"), or all of a mask ("0xf").
 *
 * LM_EUSE where the list is none, or none of its CPUs may be used; LM_ENOSUP where the system
 * cannot do it.
 */
int lm_cpu_use(const char *list, struct lm_err *err);

#endif
