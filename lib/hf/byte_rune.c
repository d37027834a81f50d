/* SPDX-License-Identifier: MIT */
#include "hf/byte_rune.h"

uint32_t lm_byte_rune(unsigned b)
{
    if (b <= 0x20)
        return 256 + b;
    if (b >= 0x7F && b <= 0xA0)
        return 256 + 33 + (b - 0x7F);
    return b == 0xAD ? 256 + 67 : b;
}

int lm_rune_byte(uint32_t r)
{
    if (r < 256)
        return lm_byte_rune(r) == r ? (int)r : -1;
    return r < 256 + 33   ? (int)r - 256
           : r < 256 + 67 ? (int)r - 256 - 33 + 0x7F
           : r == 256 + 67 ? 0xAD
                           : -1;
}
