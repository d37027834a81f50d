/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <string.h>

/* Little-endian numbers; compilers make one load of each where that is the machine's order. */
static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load64(const uint8_t *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

/* ---- XXH64 ---------------------------------------------------------------
 * Four lanes of 8 bytes each take 32 bytes a step; the lanes are merged, what is
 * left is mixed in by 8, 4 and 1 bytes, and the bits are avalanched.
 */

#define P1 UINT64_C(11400714785074694791)
#define P2 UINT64_C(14029467366897019727)
#define P3 UINT64_C(1609587929392839161)
#define P4 UINT64_C(9650029242287828579)
#define P5 UINT64_C(2870177450012600261)

static uint64_t rotl(uint64_t v, int n)
{
    return v << n | v >> (64 - n);
}

static uint64_t lane(uint64_t acc, uint64_t input)
{
    return rotl(acc + input * P2, 31) * P1;
}

void lm_xxh64_init(struct lm_xxh64 *x)
{
    memset(x, 0, sizeof *x);
    x->acc[0] = P1 + P2;
    x->acc[1] = P2;
    x->acc[3] = 0 - P1;
}

/* Whole steps of 32 bytes. */
static void steps(struct lm_xxh64 *x, const uint8_t *p, size_t n)
{
    uint64_t a = x->acc[0], b = x->acc[1], c = x->acc[2], d = x->acc[3];
    for (; n; p += 32, n -= 32) {
        a = lane(a, load64(p));
        b = lane(b, load64(p + 8));
        c = lane(c, load64(p + 16));
        d = lane(d, load64(p + 24));
    }
    x->acc[0] = a;
    x->acc[1] = b;
    x->acc[2] = c;
    x->acc[3] = d;
}

void lm_xxh64_add(struct lm_xxh64 *x, const void *p, size_t n)
{
    const uint8_t *b = p;
    size_t have = x->total % 32;
    x->total += n;
    if (have) {
        size_t k = n < 32 - have ? n : 32 - have;
        memcpy(x->rest + have, b, k);
        b += k;
        n -= k;
        if (have + k < 32)
            return;
        steps(x, x->rest, 32);
    }
    steps(x, b, n & ~(size_t)31);
    if (n % 32)
        memcpy(x->rest, b + (n & ~(size_t)31), n % 32);
}

uint64_t lm_xxh64_digest(const struct lm_xxh64 *x)
{
    const uint8_t *p = x->rest, *end = p + x->total % 32;
    const uint64_t *a = x->acc;
    uint64_t h = P5;
    if (x->total >= 32) {
        h = rotl(a[0], 1) + rotl(a[1], 7) + rotl(a[2], 12) + rotl(a[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ lane(0, a[i])) * P1 + P4;
    }
    h += x->total;
    for (; end - p >= 8; p += 8)
        h = rotl(h ^ lane(0, load64(p)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4)
        h = rotl(h ^ load32(p) * P1, 23) * P2 + P3;
    for (; p < end; p++)
        h = rotl(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

/* ---- SHA-256 ------------------------------------------------------------- */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t rotr(uint32_t v, int n)
{
    return v >> n | v << (32 - n);
}

/* One round; the variable that the standard calls a stands at v[a]. */
static inline void sha_round(uint32_t v[8], int a, uint32_t add)
{
    uint32_t x = v[a], e = v[(a + 4) & 7];
    uint32_t t = v[(a + 7) & 7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
                 ((e & v[(a + 5) & 7]) ^ (~e & v[(a + 6) & 7])) + add;
    v[(a + 3) & 7] += t;
    v[(a + 7) & 7] = t + (rotr(x, 2) ^ rotr(x, 13) ^ rotr(x, 22)) +
                     ((x & v[(a + 1) & 7]) ^ (x & v[(a + 2) & 7]) ^
                      (v[(a + 1) & 7] & v[(a + 2) & 7]));
}

static void block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h, sizeof v);
    /* What moves by one place in a round is renamed instead: eight rounds come round. */
    for (int i = 0; i < 64; i += 8) {
        sha_round(v, 0, round_constants[i] + w[i]);
        sha_round(v, 7, round_constants[i + 1] + w[i + 1]);
        sha_round(v, 6, round_constants[i + 2] + w[i + 2]);
        sha_round(v, 5, round_constants[i + 3] + w[i + 3]);
        sha_round(v, 4, round_constants[i + 4] + w[i + 4]);
        sha_round(v, 3, round_constants[i + 5] + w[i + 5]);
        sha_round(v, 2, round_constants[i + 6] + w[i + 6]);
        sha_round(v, 1, round_constants[i + 7] + w[i + 7]);
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void lm_sha256_init(struct lm_sha256 *s)
{
    static const uint32_t first[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
        0x5be0cd19
    };
    memset(s, 0, sizeof *s);
    memcpy(s->h, first, sizeof first);
}

void lm_sha256_add(struct lm_sha256 *s, const void *p, size_t n)
{
    const uint8_t *b = p;
    size_t have = s->total % 64;
    s->total += n;
    if (have) {
        size_t k = n < 64 - have ? n : 64 - have;
        memcpy(s->rest + have, b, k);
        b += k;
        n -= k;
        if (have + k < 64)
            return;
        block(s->h, s->rest);
    }
    for (; n >= 64; b += 64, n -= 64)
        block(s->h, b);
    if (n)
        memcpy(s->rest, b, n);
}

void lm_sha256_digest(const struct lm_sha256 *s, uint8_t out[LM_SHA256_SIZE])
{
    struct lm_sha256 end = *s;
    static const uint8_t mark = 0x80, zeros[64] = {0};
    uint8_t bits[8];
    lm_sha256_add(&end, &mark, 1);
    lm_sha256_add(&end, zeros, (56 + 64 - end.total % 64) % 64);
    for (int i = 0; i < 8; i++)
        bits[i] = (uint8_t)(s->total << 3 >> (56 - 8 * i));
    lm_sha256_add(&end, bits, 8);
    for (int i = 0; i < LM_SHA256_SIZE; i++)
        out[i] = (uint8_t)(end.h[i / 4] >> (24 - 8 * (i % 4)));
}
