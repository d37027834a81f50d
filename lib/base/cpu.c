/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE               /* sched_getaffinity */
#include "base/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[LM_N_ISA] = { "scalar", "avx2", "avx512" };

const char *lm_isa_name(enum lm_isa isa)
{
    return names[isa];
}

#if defined(__x86_64__)
/* clang 14 cannot be asked for f16c by name; gcc can, and has the answer ready, while the
 * instruction takes long inside a virtual machine. */
static bool has_f16c(void)
{
#if defined(__clang__)
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
    return __builtin_cpu_supports("f16c");
#endif
}
#endif

static enum lm_isa best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return LM_ISA_SCALAR;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni"))
        return LM_ISA_AVX512;
    return LM_ISA_AVX2;
#else
    return LM_ISA_SCALAR;
#endif
}

enum lm_isa lm_isa(void)
{
    int have = (int)best();
    const char *want = getenv("LMPIPE_ISA");
    for (int i = 0; want && i < have; i++)
        if (!strcmp(want, names[i]))
            return (enum lm_isa)i;
    return (enum lm_isa)have;
}

/* CPUs that a cgroup v2 quota file allows ("max 100000" or "150000 100000"), or 0. */
static int quota(const char *path)
{
    FILE *f = fopen(path, "r");
    long long max = 0, period = 0;
    if (!f)
        return 0;
    int n = fscanf(f, "%lld %lld", &max, &period);
    fclose(f);
    return n == 2 && max > 0 && period > 0 ? (int)((max + period - 1) / period) : 0;
}

int lm_cpu_count(void)
{
    int n = 0, q = quota("/sys/fs/cgroup/cpu.max");
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
#endif
    if (n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (q > 0 && q < n)
        n = q;
    return n < 1 ? 1 : n;
}
