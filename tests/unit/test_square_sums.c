/* SPDX-License-Identifier: MIT */
/* Sums of squares against those of whole numbers, which are exact, for each version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "job/square_sums.h"

#define ROWS 5
#define COLS 83

static void test_whole_numbers(void **state)
{
    static float x[ROWS][COLS];
    const float *rows[ROWS];
    const enum lm_isa most = lm_isa();
    (void)state;
    for (int k = 0; k < ROWS; k++) {
        rows[k] = x[k];
        for (int i = 0; i < COLS; i++)
            x[k][i] = (float)((k + 1) * (i - 40));
    }
    for (int isa = LM_ISA_SCALAR; isa <= (int)most; isa++) {
        setenv("LMPIPE_ISA", lm_isa_name((enum lm_isa)isa), 1);
        for (size_t cols = 0; cols <= COLS; cols += cols < 20 ? 1 : 9) {
            double sum[COLS + 1];
            for (int i = 0; i <= COLS; i++)
                sum[i] = 0.5;
            lm_square_sums(rows, ROWS, cols, sum);
            for (int i = 0; i <= COLS; i++) {
                const double d = i - 40, all = 55 * d * d;      /* 1 + 4 + 9 + 16 + 25 */
                assert_true(sum[i] == ((size_t)i < cols ? all + 0.5 : 0.5));
            }
        }
    }
    unsetenv("LMPIPE_ISA");
}

/* A number whose square is lost in float is not here. */
static void test_small_beside_large(void **state)
{
    float large[16], small[16];
    double sum[16] = { 0 };
    (void)state;
    for (int i = 0; i < 16; i++) {
        large[i] = 4096;
        small[i] = 0.25f;
    }
    lm_square_sums((const float *const[]){ large, small }, 2, 16, sum);
    for (int i = 0; i < 16; i++)
        assert_true(sum[i] == 16777216.0625);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_small_beside_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
