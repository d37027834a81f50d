/* SPDX-License-Identifier: MIT */
/* Digests against known answers: SHA-256 those of FIPS 180-4's examples and sha256sum,
 * XXH64 those of the xxHash library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"

static char text[100000];       /* byte i is i % 251 */

static void hex(const uint8_t *p, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        sprintf(out + 2 * i, "%02x", p[i]);
}

/* In one piece, and in pieces of every size up to 130. */
static void check_xxh64(const void *p, size_t n, uint64_t want)
{
    for (size_t piece = 0; piece <= 130; piece++) {
        struct lm_xxh64 x;
        lm_xxh64_init(&x);
        for (size_t at = 0, k; at < n; at += k) {
            k = piece && piece < n - at ? piece : n - at;
            lm_xxh64_add(&x, (const char *)p + at, k);
        }
        assert_true(lm_xxh64_digest(&x) == want);
        if (n > 1000 && piece > 3)
            break;
    }
}

static void check_sha256(const void *p, size_t n, const char *want)
{
    for (size_t piece = 0; piece <= 130; piece++) {
        struct lm_sha256 s;
        uint8_t out[LM_SHA256_SIZE];
        char got[65];
        lm_sha256_init(&s);
        for (size_t at = 0, k; at < n; at += k) {
            k = piece && piece < n - at ? piece : n - at;
            lm_sha256_add(&s, (const char *)p + at, k);
        }
        lm_sha256_digest(&s, out);
        hex(out, sizeof out, got);
        assert_string_equal(got, want);
        if (n > 1000 && piece > 3)
            break;
    }
}

/* Of the first n bytes of text. */
static const struct { size_t n; uint64_t xxh64; const char *sha256; } known[] = {
    { 0, UINT64_C(0xef46db3751d8e999),
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { 1, UINT64_C(0xe934a84adb052768),
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" },
    { 3, UINT64_C(0xe5c7bb4533bc65dd),
      "ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc" },
    { 4, UINT64_C(0xffced8604453cc1e),
      "054edec1d0211f624fed0cbca9d4f9400b0e491c43742af2c5b0abebf0c990d8" },
    { 7, UINT64_C(0x14cc643f630c72d2),
      "57355ac3303c148f11aef7cb179456b9232cde33a818dfda2c2fcb9325749a6b" },
    { 8, UINT64_C(0x884a173614b81b8d),
      "8a851ff82ee7048ad09ec3847f1ddf44944104d2cbd17ef4e3db22c6785a0d45" },
    { 9, UINT64_C(0x67d85784a7c78c5b),
      "f8348e0b1df00833cbbbd08f07abdecc10c0efb78829d7828c62a7f36d0cc549" },
    { 31, UINT64_C(0xc346d2b59b4d8ee1),
      "4f23c2ca8c5c962e50cd31e221bfb6d0adca19111dca8e0c62598ff146dd19c4" },
    { 32, UINT64_C(0xcbf59c5116ff32b4),
      "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd" },
    { 33, UINT64_C(0x0c535d1acafb8ead),
      "5d8fcfefa9aeeb711fb8ed1e4b7d5c8a9bafa46e8e76e68aa18adce5a10df6ab" },
    { 55, UINT64_C(0x511cd496994ea839),
      "463eb28e72f82e0a96c0a4cc53690c571281131f672aa229e0d45ae59b598b59" },
    { 56, UINT64_C(0x0cd869f80ff2b918),
      "da2ae4d6b36748f2a318f23e7ab1dfdf45acdc9d049bd80e59de82a60895f562" },
    { 63, UINT64_C(0xe26aa9e2a95f8e4f),
      "29af2686fd53374a36b0846694cc342177e428d1647515f078784d69cdb9e488" },
    { 64, UINT64_C(0xf7c67301db6713f0),
      "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108" },
    { 65, UINT64_C(0xc31eb63b2ae4465b),
      "4bfd2c8b6f1eec7a2afeb48b934ee4b2694182027e6d0fc075074f2fabb31781" },
    { 100, UINT64_C(0x6ac1e58032166597),
      "bce0aff19cf5aa6a7469a30d61d04e4376e4bbf6381052ee9e7f33925c954d52" },
    { 119, UINT64_C(0x7ce406b910f229ec),
      "da18797ed7c3a777f0847f429724a2d8cd5138e6ed2895c3fa1a6d39d18f7ec6" },
    { 120, UINT64_C(0xac254bfcb3c0609f),
      "f52b23db1fbb6ded89ef42a23ce0c8922c45f25c50b568a93bf1c075420bbb7c" },
    { 1000, UINT64_C(0xf306f04aa88b54d3),
      "4e4c294b331f7a2099a379bec34b9f9fc03dc46ab465d998f4d683da53487e6d" },
    { 100000, UINT64_C(0x4cf75ee72cd8f4cc),
      "cd2df694e424bc7968cc37f47751019e5ca0cd1bdf2e479ea537c3a1c32ee1aa" },
};

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i % 251);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        check_xxh64(text, known[i].n, known[i].xxh64);
        check_sha256(text, known[i].n, known[i].sha256);
    }
    check_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_known) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
