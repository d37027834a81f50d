/* SPDX-License-Identifier: MIT */
#include "sample/philox.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void lm_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53 * a, q = (uint64_t)0xCD9E8D57 * c;
        a = (uint32_t)(q >> 32) ^ b ^ k0;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k1;
        d = (uint32_t)p;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

double lm_uniform(uint64_t seed, uint32_t pos, uint32_t seq, enum lm_purpose purpose)
{
    const uint32_t counter[4] = { pos, seq, purpose, 0 };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t x[4];
    lm_philox(counter, key, x);
    return ((double)(x[0] >> 5) * 0x1p26 + (double)(x[1] >> 6)) * 0x1p-53;
}

uint64_t lm_new_seed(void)
{
    uint64_t seed;
    FILE *f = fopen("/dev/urandom", "rb");
    size_t got = f ? fread(&seed, 1, sizeof seed, f) : 0;
    if (f)
        fclose(f);
    if (got < sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec << 8 ^ (uint64_t)getpid();
    }
    return seed;
}
