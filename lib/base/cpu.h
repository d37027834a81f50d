/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_CPU_H
#define LM_BASE_CPU_H

/* What this machine can do. */

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

#endif
