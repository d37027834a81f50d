/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_HASH_H
#define LM_BASE_HASH_H

/*
 * Digests of bytes as they come: init, add any number of times, then the digest, which
 * leaves the state as it is.
 *
 *   xxh64   XXH64 (xxHash specification 0.1.1) with seed 0: fast, against accidents
 *   sha256  SHA-256 (FIPS 180-4): against forgery
 */

#include <stddef.h>
#include <stdint.h>

struct lm_xxh64 {
    uint64_t acc[4];
    uint64_t total;          /* bytes added                                 */
    uint8_t  rest[32];       /* of them total % 32 that wait for a full one */
};

/* Begin anew, whatever was in *x; nothing is to be released. */
void lm_xxh64_init(struct lm_xxh64 *x);
/* n bytes more. */
void lm_xxh64_add(struct lm_xxh64 *x, const void *p, size_t n);
/* Of all bytes so far; further ones may follow. */
uint64_t lm_xxh64_digest(const struct lm_xxh64 *x);

#define LM_SHA256_SIZE 32

struct lm_sha256 {
    uint32_t h[8];
    uint64_t total;
    uint8_t  rest[64];       /* total % 64 of them                          */
};

/* As of lm_xxh64: begin anew; n bytes more; the digest of all so far, first byte first. */
void lm_sha256_init(struct lm_sha256 *s);
void lm_sha256_add(struct lm_sha256 *s, const void *p, size_t n);
void lm_sha256_digest(const struct lm_sha256 *s, uint8_t out[LM_SHA256_SIZE]);

#endif
