/* SPDX-License-Identifier: MIT */
/* replay - the main of a fuzz target where libFuzzer is not: feeds it each file named. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The whole file in a block of exactly its size, so that a sanitizer sees a read
 * beyond it; exits when it cannot. */
static uint8_t *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) < 0) {
        perror(path);
        exit(2);
    }
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*size ? *size : 1);
    if (!data || fread(data, 1, *size, f) != *size) {
        perror(path);
        exit(2);
    }
    fclose(f);
    return data;
}

int main(int argc, char *argv[])
{
    for (int i = 1; i < argc; i++) {
        size_t n;
        uint8_t *data = slurp(argv[i], &n);
        LLVMFuzzerTestOneInput(data, n);
        free(data);
    }
    return 0;
}
