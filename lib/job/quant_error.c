/* SPDX-License-Identifier: MIT */
/* How far packed weights are from what they were. */
#include "job/quant_parts.h"

/* Sums of a row first, then of rows: the order does not depend on how rows are cut. */
void lm_quantize_add_error(const float *x, const float *y, size_t rows, size_t cols,
                           const float *weights, struct lm_quantize_error *sum)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double squares = 0, weighted = 0;
        for (size_t i = 0; i < cols; i++) {
            double d = (double)x[i] - (double)y[i];
            squares += d * d;
            weighted += weights ? (double)weights[i] * (d * d) : d * d;
        }
        sum->squares += squares;
        sum->weighted += weighted;
    }
}
