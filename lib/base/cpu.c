/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE               /* sched_getaffinity */
#include "base/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

/* The number behind `name` at the beginning of a line of a file, or of the file where name is
 * empty; UINT64_MAX if there is none. */
static uint64_t number_in(const char *path, const char *name)
{
    char line[256];
    unsigned long long v = 0;
    uint64_t found = UINT64_MAX;
    const size_t n = strlen(name);
    FILE *f = fopen(path, "r");
    while (f && found == UINT64_MAX && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && sscanf(line + n, "%llu", &v) == 1)
            found = v;
    if (f)
        fclose(f);
    return found;
}

/* Room under a limit; what is used may be unknown. */
static void limit(uint64_t most, uint64_t used, uint64_t *left, uint64_t *all)
{
    const uint64_t room = used > most ? 0 : most - used;
    if (most == UINT64_MAX || used == UINT64_MAX)
        return;
    *left = room < *left ? room : *left;
    *all = most < *all ? most : *all;
}

void lm_cpu_memory(uint64_t *left, uint64_t *all)
{
    static const char group[] = "/sys/fs/cgroup/memory.max";
    const uint64_t known = number_in("/proc/meminfo", "MemTotal:");
    const uint64_t free_kb = number_in("/proc/meminfo", "MemAvailable:");
    *left = *all = 0;
    if (known == UINT64_MAX || free_kb == UINT64_MAX)
        return;
    *all = known * 1024;
    *left = free_kb * 1024;
    /* A group's files in the page cache can be dropped. */
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    const uint64_t cached = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
    if (used != UINT64_MAX && cached != UINT64_MAX)
        used -= cached < used ? cached : used;
    limit(number_in(group, ""), used, left, all);
    struct rlimit space;
    const uint64_t pages = number_in("/proc/self/statm", "");
    const long page = sysconf(_SC_PAGESIZE);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        pages != UINT64_MAX && page > 0)
        limit((uint64_t)space.rlim_cur, pages * (uint64_t)page, left, all);
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

#ifdef __linux__
/* CPUs of a mask in hexadecimal digits, the last digit for the first four. */
static bool read_mask(const char *digits, cpu_set_t *set)
{
    const size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++) {
        const char *hex = "0123456789abcdef", c = digits[n - 1 - i];
        const char *at = strchr(hex, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
        for (size_t bit = 0; at && bit < 4; bit++)
            if ((at - hex) >> bit & 1) {
                if (4 * i + bit >= CPU_SETSIZE)
                    return false;
                CPU_SET(4 * i + bit, set);
            }
        if (!at)
            return false;
    }
    return n > 0;
}

/* A number below CPU_SETSIZE at *s, which moves behind it. */
static bool read_cpu(const char **s, unsigned *out)
{
    const char *from = *s;
    for (*out = 0; **s >= '0' && **s <= '9' && *out < CPU_SETSIZE; ++*s)
        *out = 10 * *out + (unsigned)(**s - '0');
    return *s > from && *out < CPU_SETSIZE;
}

static bool read_ranges(const char *s, cpu_set_t *set)
{
    for (;; s++) {
        unsigned from, to;
        if (!read_cpu(&s, &from))
            return false;
        to = from;
        if (*s == '-' && (s++, !read_cpu(&s, &to) || to < from))
            return false;
        for (unsigned i = from; i <= to; i++)
            CPU_SET(i, set);
        if (*s != ',')
            return !*s;
    }
}

int lm_cpu_use(const char *list, struct lm_err *err)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (!(strncmp(list, "0x", 2) ? read_ranges(list, &set) : read_mask(list + 2, &set)))
        return lm_fail(err, LM_EUSE, "%.100s: is no list of CPUs such as 0-3,8, of numbers below "
                       "%d, and no mask such as 0xf", list, CPU_SETSIZE);
    if (sched_setaffinity(0, sizeof set, &set))
        return lm_fail(err, LM_EUSE, "%.100s: none of these CPUs may be used", list);
    return LM_OK;
}
#else
int lm_cpu_use(const char *list, struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "%.100s: this system does not keep threads to CPUs", list);
}
#endif
