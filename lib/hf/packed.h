/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_PACKED_H
#define LM_HF_PACKED_H

/*
 * Weights that do not lie in a file as plain numbers: quantized ones, whose scales are
 * tensors of their own, and those whose axes lie in another order or byte order.  Each kind
 * gives any run of the values of the plain tensor that it stands for, [rows][cols], from
 * the bytes that the run needs.
 *
 *   LM_PACKED_SCALED  data [rows][cols] of 8 bits (float E4M3 or E5M2, or signed), scales one
 *                     for block_rows x block_cols values; value = data * scale
 *   LM_PACKED_MXFP4   data [rows][cols/32][16] bytes, value 2j in the low half of byte j;
 *                     scales [rows][cols/32] (E8M0).  Given as blocks of type mxfp4
 *   LM_PACKED_NVFP4   data [rows][cols/2] bytes, the first value in the low half; scales
 *                     [rows][cols/16] (E4M3); perhaps numbers for the whole, one or one a matrix
 *                     of a stack, by which all is multiplied, or divided.  Given as blocks of type
 *                     nvfp4, which have no place for these (lm_packed_whole), or as floats
 *   LM_PACKED_GPTQ    data [cols/p][rows] u32 of p = 32/bits values, lowest first; scales
 *                     [groups][rows], zeros [groups][rows/p] packed likewise and less by 1;
 *                     perhaps the group of each column; value = scale * (q - zero)
 *   LM_PACKED_AWQ     data [cols][rows/8] u32, value j of a word in its nibble
 *                     { 0, 4, 1, 5, 2, 6, 3, 7 }[j]; scales [groups][rows], zeros
 *                     [groups][rows/8] packed likewise; value = scale * (q - zero)
 *   LM_PACKED_ROWS    data [rows][cols/p] u32, lowest first, half the range added; scales
 *                     [rows][groups]; compressed-tensors' "pack-quantized"
 *   LM_PACKED_TABLE   data: a byte for two values, the first in its high half, rows one behind
 *                     the other; zeros: a table of 16; scales: one for `group` values, or bytes
 *                     that `nested_table` makes numbers, times one of `nested` for nested_group
 *                     of them, plus nested_offset; value = table[q] * scale; bitsandbytes' 4 bits
 *   LM_PACKED_LAID    plain numbers with a stride for each axis, perhaps with the highest
 *                     byte first
 *
 * Sources: the config.json of such checkpoints; OCP Microscaling Formats 1.0; the layouts
 * that AutoGPTQ, AutoAWQ, compressed-tensors and transformers read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hf/safetensors.h"
#include "quant/quant.h"

enum lm_packed_kind {
    LM_PACKED_SCALED, LM_PACKED_MXFP4, LM_PACKED_NVFP4, LM_PACKED_GPTQ, LM_PACKED_AWQ,
    LM_PACKED_ROWS, LM_PACKED_TABLE, LM_PACKED_LAID
};

enum lm_packed_part {
    LM_PART_DATA, LM_PART_SCALES, LM_PART_ZEROS, LM_PART_GROUPS, LM_PART_NESTED,
    LM_PART_NESTED_TABLE, LM_PART_WHOLE, LM_N_PARTS
};

struct lm_packed {
    enum lm_packed_kind  kind;
    const struct lm_type *type;         /* of the values it gives                          */
    struct {
        size_t                     file;    /* number that the reader knows it by          */
        const struct lm_st_tensor *st;      /* NULL: there is none                         */
    } part[LM_N_PARTS];
    uint64_t rows, cols;                /* of the plain tensor; rows: all axes but the last */
    uint64_t block_rows, block_cols;    /* SCALED                                          */
    uint64_t group;                     /* columns that share a scale: GPTQ, AWQ, ROWS; TABLE:
                                           values, in any row                              */
    uint64_t nested_group;              /* TABLE                                           */
    float    nested_offset;
    uint32_t bits;                      /* GPTQ, ROWS                                      */
    bool     divides;                   /* NVFP4: by the numbers of the whole              */
    bool     zeros_less_1;              /* GPTQ: as its first format has them              */
    uint64_t stride[LM_ST_MAX_DIMS];    /* LAID: in values, outermost first                */
    bool     swap;                      /* LAID: highest byte first                        */
};

/*
 * lm_packed_check - may values be read by it?  The shapes of its parts against rows, cols
 * and each other.  LM_EDATA, or LM_ENOSUP for a number of bits that is not known.
 */
int lm_packed_check(const struct lm_packed *p, struct lm_err *err);

/* Where bytes come from, and what is kept from one run to the next.  Set read and user, and
 * zero the rest. */
struct lm_packed_reader {
    int  (*read)(void *user, size_t file, const struct lm_st_tensor *t, uint64_t off, void *dst,
                 size_t n, struct lm_err *err);
    void  *user;
    const struct lm_packed *owner;      /* whose scales these are                          */
    float    *scales, *zeros;
    uint32_t *groups;
    uint8_t  *raw;                      /* scratch                                         */
    size_t    raw_cap;
    uint32_t *panel;                    /* GPTQ, AWQ: words of rows that lie side by side  */
    size_t    panel_cap;
    uint64_t  panel_first, panel_rows;
};

/*
 * lm_packed_values - n values from value `start` on, in the order of the plain tensor, as p->type
 * packs them; start and n are whole blocks of it.
 */
int lm_packed_values(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                     uint64_t n, void *dst, struct lm_err *err);

/* NVFP4: what the values are to be multiplied by, in out [n], n being how many numbers the part has
 * (1 and 1.0 where there is none). */
uint64_t lm_packed_whole_len(const struct lm_packed *p);
int lm_packed_whole(struct lm_packed_reader *r, const struct lm_packed *p, float *out,
                    struct lm_err *err);
void lm_packed_reader_release(struct lm_packed_reader *r);

#endif
