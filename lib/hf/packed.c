/* SPDX-License-Identifier: MIT */
/* Values of weights that are packed (layouts in packed.h). */

#include "hf/packed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Rows whose words are read together: what lies side by side in a file are rows. */
enum { PANEL_ROWS = 128 };

static uint32_t le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* Values of p.bits bits in a word. */
static uint64_t per_word(const struct lm_packed *p)
{
    return 32 / p->bits;
}

static uint64_t n_groups(const struct lm_packed *p)
{
    return p->group ? up(p->cols, p->group) : 1;
}

/* --- checks ----------------------------------------------------------------------------- */

/* A part's shape, outermost first, without axes of length 1 at its end. */
static bool has_shape(const struct lm_packed *p, enum lm_packed_part k, uint64_t rows,
                      uint64_t cols)
{
    const struct lm_st_tensor *st = p->part[k].st;
    uint64_t n = 1;
    for (uint32_t d = 0; d < st->n_dims; d++)
        if (!lm_mul_u64(n, st->shape[d], &n))
            return false;
    uint64_t want;
    return lm_mul_u64(rows, cols, &want) && n == want &&
           (st->n_dims < 2 || cols == 1 || st->shape[st->n_dims - 1] == cols);
}

static bool is_float(const struct lm_packed *p, enum lm_packed_part k)
{
    const int id = p->part[k].st->dtype->type_id;
    return id == LM_F32 || id == LM_F16 || id == LM_BF16;
}

static int bad_part(const struct lm_packed *p, enum lm_packed_part k, struct lm_err *err)
{
    const struct lm_st_tensor *st = p->part[k].st;
    return st ? lm_fail(err, LM_EDATA, "%s: type %s or shape does not suit the weights it is for",
                        st->name, st->dtype->name)
              : lm_fail(err, LM_EDATA, "without its %s",
                        k == LM_PART_SCALES ? "scales" : "zero points");
}

static int check_scaled(const struct lm_packed *p, struct lm_err *err)
{
    if (!p->part[LM_PART_SCALES].st)
        return strcmp(p->part[LM_PART_DATA].st->dtype->name, "I8")
                   ? LM_OK : bad_part(p, LM_PART_SCALES, err);
    if (!p->block_rows || !p->block_cols || !is_float(p, LM_PART_SCALES) ||
        !has_shape(p, LM_PART_SCALES, up(p->rows, p->block_rows), up(p->cols, p->block_cols)))
        return bad_part(p, LM_PART_SCALES, err);
    return LM_OK;
}

static int check_mxfp4(const struct lm_packed *p, struct lm_err *err)
{
    if (p->cols % 32 || p->part[LM_PART_DATA].st->dtype->bytes != 1)
        return bad_part(p, LM_PART_DATA, err);
    if (!p->part[LM_PART_SCALES].st || p->part[LM_PART_SCALES].st->dtype->bytes != 1 ||
        !has_shape(p, LM_PART_SCALES, p->rows, p->cols / 32))
        return bad_part(p, LM_PART_SCALES, err);
    return LM_OK;
}

static int check_nvfp4(const struct lm_packed *p, struct lm_err *err)
{
    const struct lm_st_tensor *data = p->part[LM_PART_DATA].st, *whole = p->part[LM_PART_WHOLE].st;
    const struct lm_st_tensor *scales = p->part[LM_PART_SCALES].st;
    const uint64_t n = lm_packed_whole_len(p);
    if (!p->cols || p->cols % 16 || data->dtype->bytes != 1 || data->n_dims < 2)
        return bad_part(p, LM_PART_DATA, err);
    if (!scales || strcmp(scales->dtype->name, "F8_E4M3") ||
        !has_shape(p, LM_PART_SCALES, p->rows, p->cols / 16))
        return bad_part(p, LM_PART_SCALES, err);
    if (whole && (!is_float(p, LM_PART_WHOLE) || n == 0 ||
                  (n != 1 && (data->n_dims != 3 || n != data->shape[0]))))
        return bad_part(p, LM_PART_WHOLE, err);
    return LM_OK;
}

/* Words with a scale for each group of columns; `turned`: columns outermost. */
static int check_words(const struct lm_packed *p, bool turned, struct lm_err *err)
{
    const struct lm_st_tensor *zeros = p->part[LM_PART_ZEROS].st;
    const struct lm_st_tensor *groups = p->part[LM_PART_GROUPS].st;
    const uint64_t n = per_word(p), g = n_groups(p);
    if (p->bits != 4 && (p->kind == LM_PACKED_AWQ || (p->bits != 2 && p->bits != 8)))
        return lm_fail(err, LM_ENOSUP, "%s: quantized weights of %u bits cannot be decoded",
                       p->part[LM_PART_DATA].st->name, p->bits);
    if (p->part[LM_PART_DATA].st->dtype->bytes != 4)
        return bad_part(p, LM_PART_DATA, err);
    if (!p->part[LM_PART_SCALES].st || !is_float(p, LM_PART_SCALES) ||
        !has_shape(p, LM_PART_SCALES, turned ? g : p->rows, turned ? p->rows : g))
        return bad_part(p, LM_PART_SCALES, err);
    if (turned && (!zeros || zeros->dtype->bytes != 4 || p->rows % n ||
                   !has_shape(p, LM_PART_ZEROS, g, p->rows / n)))
        return bad_part(p, LM_PART_ZEROS, err);
    if (groups && (groups->dtype->bytes != 4 || !has_shape(p, LM_PART_GROUPS, 1, p->cols)))
        return bad_part(p, LM_PART_GROUPS, err);
    return LM_OK;
}

/* Has a part so many numbers of a type? */
static bool has_numbers(const struct lm_packed *p, enum lm_packed_part k, uint64_t n,
                        const char *type)
{
    const struct lm_st_tensor *st = p->part[k].st;
    return st && !strcmp(st->dtype->name, type) && st->bytes / st->dtype->bytes == n;
}

static int check_table(const struct lm_packed *p, struct lm_err *err)
{
    uint64_t n;
    if (!p->rows || !p->cols || !lm_mul_u64(p->rows, p->cols, &n) || !p->group)
        return bad_part(p, LM_PART_DATA, err);
    const uint64_t scales = up(n, p->group);
    const bool nested = p->part[LM_PART_NESTED].st;
    if (!has_numbers(p, LM_PART_DATA, n / 2, "U8") || n % 2)
        return bad_part(p, LM_PART_DATA, err);
    if (!has_numbers(p, LM_PART_ZEROS, 16, "F32"))
        return bad_part(p, LM_PART_ZEROS, err);
    if (!has_numbers(p, LM_PART_SCALES, scales, nested ? "U8" : "F32"))
        return bad_part(p, LM_PART_SCALES, err);
    if (nested && (!p->nested_group ||
                   !has_numbers(p, LM_PART_NESTED, up(scales, p->nested_group), "F32")))
        return bad_part(p, LM_PART_NESTED, err);
    if (nested && !has_numbers(p, LM_PART_NESTED_TABLE, 256, "F32"))
        return bad_part(p, LM_PART_NESTED_TABLE, err);
    return LM_OK;
}

int lm_packed_check(const struct lm_packed *p, struct lm_err *err)
{
    switch (p->kind) {
    case LM_PACKED_SCALED: return check_scaled(p, err);
    case LM_PACKED_MXFP4:  return check_mxfp4(p, err);
    case LM_PACKED_NVFP4:  return check_nvfp4(p, err);
    case LM_PACKED_ROWS:   return check_words(p, false, err);
    case LM_PACKED_TABLE:  return check_table(p, err);
    case LM_PACKED_GPTQ:
    case LM_PACKED_AWQ:    return check_words(p, true, err);
    default:               return LM_OK;
    }
}

/* --- what is kept ----------------------------------------------------------------------- */

static int read_part(struct lm_packed_reader *r, const struct lm_packed *p,
                     enum lm_packed_part k, uint64_t off, void *dst, size_t n,
                     struct lm_err *err)
{
    return r->read(r->user, p->part[k].file, p->part[k].st, off, dst, n, err);
}

static int read_raw(struct lm_packed_reader *r, const struct lm_packed *p,
                    enum lm_packed_part k, uint64_t off, uint64_t n, struct lm_err *err)
{
    if (n > SIZE_MAX / 2 || !lm_grow(&r->raw, &r->raw_cap, (size_t)n, 1))
        return lm_fail_nomem(err);
    return read_part(r, p, k, off, r->raw, (size_t)n, err);
}

static int load_scales(struct lm_packed_reader *r, const struct lm_packed *p, struct lm_err *err)
{
    const struct lm_st_tensor *st = p->part[LM_PART_SCALES].st;
    const size_t n = (size_t)(st->bytes / st->dtype->bytes);
    r->scales = lm_malloc_array(n, sizeof *r->scales);
    if (!r->scales)
        return lm_fail_nomem(err);
    const int s = read_raw(r, p, LM_PART_SCALES, 0, st->bytes, err);
    if (!s)
        lm_type_by_id((uint32_t)st->dtype->type_id)->decode(r->raw, r->scales, n);
    return s;
}

uint64_t lm_packed_whole_len(const struct lm_packed *p)
{
    const struct lm_st_tensor *st = p->part[LM_PART_WHOLE].st;
    return st ? st->bytes / st->dtype->bytes : 1;
}

int lm_packed_whole(struct lm_packed_reader *r, const struct lm_packed *p, float *out,
                    struct lm_err *err)
{
    const struct lm_st_tensor *st = p->part[LM_PART_WHOLE].st;
    const uint64_t n = lm_packed_whole_len(p);
    *out = 1;
    const int s = st ? read_raw(r, p, LM_PART_WHOLE, 0, st->bytes, err) : LM_OK;
    if (s || !st)
        return s;
    lm_type_by_id((uint32_t)st->dtype->type_id)->decode(r->raw, out, (size_t)n);
    for (uint64_t i = 0; i < n; i++) {
        out[i] = p->divides ? 1 / out[i] : out[i];
        if (!isfinite(out[i]))
            return lm_fail(err, LM_EDATA, "%s: is no number to scale with", st->name);
    }
    return LM_OK;
}

/* NVFP4 as floats: the numbers of the whole. */
static int load_whole(struct lm_packed_reader *r, const struct lm_packed *p, struct lm_err *err)
{
    r->scales = lm_malloc_array((size_t)lm_packed_whole_len(p), sizeof *r->scales);
    return r->scales ? lm_packed_whole(r, p, r->scales, err) : lm_fail_nomem(err);
}

/* n numbers of a part, as they are in the file. */
static int load_numbers(struct lm_packed_reader *r, const struct lm_packed *p,
                        enum lm_packed_part k, uint64_t n, float *dst, struct lm_err *err)
{
    const int s = read_raw(r, p, k, 0, n * sizeof *dst, err);
    if (!s)
        lm_type_by_id(LM_F32)->decode(r->raw, dst, (size_t)n);
    return s;
}

/* bitsandbytes: the table into zeros, scales as numbers. */
static int load_table(struct lm_packed_reader *r, const struct lm_packed *p, struct lm_err *err)
{
    const struct lm_st_tensor *st = p->part[LM_PART_SCALES].st;
    const uint64_t n = st->bytes / st->dtype->bytes;
    const uint64_t n_nested = p->part[LM_PART_NESTED].st ? up(n, p->nested_group) : 0;
    float *nested = NULL, table[256];
    r->zeros = lm_malloc_array(16, sizeof *r->zeros);
    r->scales = lm_malloc_array((size_t)n, sizeof *r->scales);
    if (!r->zeros || !r->scales)
        return lm_fail_nomem(err);
    int s = load_numbers(r, p, LM_PART_ZEROS, 16, r->zeros, err);
    if (s || !n_nested)
        return s ? s : load_numbers(r, p, LM_PART_SCALES, n, r->scales, err);
    nested = lm_malloc_array((size_t)n_nested, sizeof *nested);
    s = nested ? load_numbers(r, p, LM_PART_NESTED, n_nested, nested, err) : lm_fail_nomem(err);
    if (!s)
        s = load_numbers(r, p, LM_PART_NESTED_TABLE, 256, table, err);
    if (!s)
        s = read_raw(r, p, LM_PART_SCALES, 0, n, err);
    for (uint64_t i = 0; !s && i < n; i++)
        r->scales[i] = table[r->raw[i]] * nested[i / p->nested_group] + p->nested_offset;
    free(nested);
    return s;
}

/* Where value j of a word of AWQ stands. */
static uint32_t awq_shift(uint64_t j)
{
    static const uint8_t nibble[8] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    return 4u * nibble[j % 8];
}

/* [groups][rows] */
static int load_zeros(struct lm_packed_reader *r, const struct lm_packed *p, struct lm_err *err)
{
    const uint64_t n = per_word(p), words = n_groups(p) * p->rows / n;
    const uint32_t mask = (1u << p->bits) - 1;
    r->zeros = lm_malloc_array((size_t)(words * n), sizeof *r->zeros);
    if (!r->zeros)
        return lm_fail_nomem(err);
    const int s = read_raw(r, p, LM_PART_ZEROS, 0, words * 4, err);
    for (uint64_t i = 0; !s && i < words; i++)
        for (uint64_t j = 0; j < n; j++) {
            const uint32_t shift = p->kind == LM_PACKED_AWQ ? awq_shift(j) : (uint32_t)j * p->bits;
            const uint32_t z = le32(r->raw + 4 * i) >> shift & mask;
            r->zeros[i * n + j] = (float)(z + p->zeros_less_1);
        }
    return s;
}

static int load_groups(struct lm_packed_reader *r, const struct lm_packed *p, struct lm_err *err)
{
    const uint64_t most = n_groups(p);
    r->groups = lm_malloc_array((size_t)p->cols, sizeof *r->groups);
    if (!r->groups)
        return lm_fail_nomem(err);
    const int s = read_raw(r, p, LM_PART_GROUPS, 0, p->cols * 4, err);
    for (uint64_t i = 0; !s && i < p->cols; i++) {
        r->groups[i] = le32(r->raw + 4 * i);
        if (r->groups[i] >= most)
            return lm_fail(err, LM_EDATA, "%s: group %u of %llu", p->part[LM_PART_GROUPS].st->name,
                           r->groups[i], (unsigned long long)most);
    }
    return s;
}

static void forget(struct lm_packed_reader *r)
{
    free(r->scales);
    free(r->zeros);
    free(r->groups);
    r->scales = r->zeros = NULL;
    r->groups = NULL;
    r->owner = NULL;
    r->panel_rows = 0;
}

void lm_packed_reader_release(struct lm_packed_reader *r)
{
    forget(r);
    free(r->raw);
    free(r->panel);
    r->raw = NULL;
    r->panel = NULL;
    r->raw_cap = r->panel_cap = 0;
}

static int own(struct lm_packed_reader *r, const struct lm_packed *p, struct lm_err *err)
{
    int s = LM_OK;
    if (r->owner == p)
        return LM_OK;
    forget(r);
    if (p->kind == LM_PACKED_TABLE) {
        s = load_table(r, p, err);
        r->owner = s ? NULL : p;
        return s;
    }
    if (p->kind == LM_PACKED_NVFP4)
        s = load_whole(r, p, err);
    else if (p->part[LM_PART_SCALES].st && p->kind != LM_PACKED_MXFP4)
        s = load_scales(r, p, err);
    if (!s && p->part[LM_PART_ZEROS].st)
        s = load_zeros(r, p, err);
    if (!s && p->part[LM_PART_GROUPS].st)
        s = load_groups(r, p, err);
    if (!s)
        r->owner = p;
    return s;
}

/* --- values ----------------------------------------------------------------------------- */

/* Float of 8 bits: 4 or 5 of exponent, 3 or 2 of mantissa; E4M3 has no infinities. */
static float from_f8(uint8_t b, bool e5m2)
{
    const int mbits = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
    const int e = (b & 0x7f) >> mbits, m = b & ((1 << mbits) - 1);
    const bool special = e5m2 ? e == 31 : (b & 0x7f) == 0x7f;
    float v = (float)(e ? m + (1 << mbits) : m);        /* times 2^(max(e, 1) - bias - mbits) */
    for (int k = (e ? e : 1) - bias - mbits; k; k += k < 0 ? 1 : -1)
        v *= k < 0 ? 0.5f : 2.0f;
    if (special)
        v = e5m2 && m == 0 ? INFINITY : NAN;
    return b & 0x80 ? -v : v;
}

static int scaled(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                  uint64_t n, float *dst, struct lm_err *err)
{
    const char *type = p->part[LM_PART_DATA].st->dtype->name;
    float value[256];
    for (int i = 0; i < 256; i++)
        value[i] = !strcmp(type, "I8") ? (float)(int8_t)i
                                       : from_f8((uint8_t)i, !strcmp(type, "F8_E5M2"));
    const int s = read_raw(r, p, LM_PART_DATA, start, n, err);
    if (s)
        return s;
    const uint64_t block = r->scales ? p->block_cols : p->cols, across = up(p->cols, block);
    for (uint64_t i = 0, end; i < n; i = end) {             /* to the end of block or row */
        const uint64_t row = (start + i) / p->cols, col = (start + i) % p->cols;
        const uint64_t in_row = p->cols - col, in_block = block - col % block;
        const uint64_t k = in_row < in_block ? in_row : in_block;
        const float scale =
            r->scales ? r->scales[row / p->block_rows * across + col / block] : 1;
        end = n - i < k ? n : i + k;
        for (uint64_t j = i; j < end; j++)
            dst[j] = value[r->raw[j]] * scale;
    }
    return LM_OK;
}

static int of_table(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                    uint64_t n, float *dst, struct lm_err *err)
{
    const uint64_t first = start / 2, bytes = (start + n + 1) / 2 - first;
    const int s = n ? read_raw(r, p, LM_PART_DATA, first, bytes, err) : LM_OK;
    for (uint64_t i = start; !s && i < start + n; i++) {
        const uint8_t b = r->raw[i / 2 - first];
        *dst++ = r->zeros[i % 2 ? b & 15 : b >> 4] * r->scales[i / p->group];
    }
    return s;
}

/* Values that lie two in a byte, the first in the low half, as GGUF has them: the second half of
 * all 4 n of them in the high halves. */
static void part_halves(const uint8_t *q, int n, uint8_t *to)
{
    for (int j = 0; j < n; j++) {
        to[2 * j] = (uint8_t)((q[j] & 15) | (q[j + n] & 15) << 4);
        to[2 * j + 1] = (uint8_t)(q[j] >> 4 | (q[j + n] & 0xf0));
    }
}

/* A scale, then byte j with values j and j + 16. */
static int mxfp4(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                 uint64_t n, uint8_t *dst, struct lm_err *err)
{
    const uint64_t blocks = n / 32, first = start / 32;
    int s = read_raw(r, p, LM_PART_DATA, first * 16, blocks * 16, err);
    for (uint64_t i = 0; !s && i < blocks; i++)
        part_halves(r->raw + 16 * i, 8, dst + 17 * i + 1);
    if (!s)
        s = read_raw(r, p, LM_PART_SCALES, first, blocks, err);
    for (uint64_t i = 0; !s && i < blocks; i++)
        dst[17 * i] = r->raw[i];
    return s;
}

/* For each of 4 groups a scale, then for each 8 bytes, byte j with its values j and j + 8. */
static int nvfp4(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                 uint64_t n, uint8_t *dst, struct lm_err *err)
{
    const uint64_t groups = n / 16, first = start / 16;
    int s = read_raw(r, p, LM_PART_DATA, first * 8, groups * 8, err);
    for (uint64_t i = 0; !s && i < groups; i++)
        part_halves(r->raw + 8 * i, 4, dst + i / 4 * 36 + 4 + i % 4 * 8);
    if (!s)
        s = read_raw(r, p, LM_PART_SCALES, first, groups, err);
    for (uint64_t i = 0; !s && i < groups; i++)
        dst[i / 4 * 36 + i % 4] = r->raw[i] & 0x7f;
    return s;
}

static int nvfp4_floats(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                        uint64_t n, float *dst, struct lm_err *err)
{
    static const float e2m1[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    const uint64_t bytes = (start + n + 1) / 2 - start / 2, first = start / 16;
    const uint64_t matrix = p->rows * p->cols / lm_packed_whole_len(p);
    int s = n ? read_raw(r, p, LM_PART_DATA, start / 2, bytes, err) : LM_OK;
    for (uint64_t i = start; !s && i < start + n; i++) {
        const uint8_t b = r->raw[i / 2 - start / 2], q = i % 2 ? b >> 4 : b & 15;
        dst[i - start] = (q & 8 ? -e2m1[q & 7] : e2m1[q]) * r->scales[i / matrix];
    }
    if (!s && n)
        s = read_raw(r, p, LM_PART_SCALES, first, (start + n - 1) / 16 - first + 1, err);
    for (uint64_t i = start; !s && i < start + n; i++)
        dst[i - start] *= from_f8(r->raw[i / 16 - first], false);
    return s;
}

/* Read the words of the rows around `row` into the panel. */
static int read_panel(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t row,
                      struct lm_err *err)
{
    const bool awq = p->kind == LM_PACKED_AWQ;
    const uint64_t n = per_word(p), first = row / PANEL_ROWS * PANEL_ROWS;
    const uint64_t rows = p->rows - first < PANEL_ROWS ? p->rows - first : PANEL_ROWS;
    const uint64_t lines = awq ? p->cols : up(p->cols, n);
    const uint64_t line = awq ? p->rows / n : p->rows, at = awq ? first / n : first;
    const uint64_t words = awq ? rows / n : rows;
    if (!lm_grow(&r->panel, &r->panel_cap, (size_t)(lines * words), sizeof *r->panel))
        return lm_fail_nomem(err);
    r->panel_rows = 0;
    for (uint64_t i = 0; i < lines; i++) {
        const int s = read_raw(r, p, LM_PART_DATA, 4 * (i * line + at), 4 * words, err);
        if (s)
            return s;
        for (uint64_t k = 0; k < words; k++)
            r->panel[i * words + k] = le32(r->raw + 4 * k);
    }
    r->panel_first = first;
    r->panel_rows = rows;
    return LM_OK;
}

/* Values of columns from `col` on of one row. */
static int turned(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t row,
                  uint64_t col, uint64_t n, float *dst, struct lm_err *err)
{
    const bool awq = p->kind == LM_PACKED_AWQ;
    const uint64_t per = per_word(p);
    const uint32_t mask = (1u << p->bits) - 1;
    if (row < r->panel_first || row - r->panel_first >= r->panel_rows) {
        const int s = read_panel(r, p, row, err);
        if (s)
            return s;
    }
    const uint64_t k = row - r->panel_first;
    for (uint64_t c = col; c < col + n; c++) {
        const uint32_t w = awq ? r->panel[c * (r->panel_rows / per) + k / per]
                               : r->panel[c / per * r->panel_rows + k];
        const uint32_t shift = awq ? awq_shift(k) : (uint32_t)(c % per) * p->bits;
        const uint64_t g = (r->groups ? r->groups[c] : p->group ? c / p->group : 0) * p->rows + row;
        *dst++ = r->scales[g] * ((float)(w >> shift & mask) - r->zeros[g]);
    }
    return LM_OK;
}

/* The same where each row's words lie side by side. */
static int packed_row(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t row,
                      uint64_t col, uint64_t n, float *dst, struct lm_err *err)
{
    const uint64_t per = per_word(p), first = col / per, groups = n_groups(p);
    const uint32_t mask = (1u << p->bits) - 1;
    const float half = (float)(1u << (p->bits - 1));
    const int s = read_raw(r, p, LM_PART_DATA, 4 * (row * up(p->cols, per) + first),
                           4 * (up(col + n, per) - first), err);
    for (uint64_t c = col; !s && c < col + n; c++) {
        const uint32_t w = le32(r->raw + 4 * (c / per - first));
        const uint64_t g = p->group ? c / p->group : 0;
        *dst++ = r->scales[row * groups + g] *
                 ((float)(w >> (c % per * p->bits) & mask) - half);
    }
    return s;
}

/* Row by row. */
static int words(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                 uint64_t n, float *dst, struct lm_err *err)
{
    int s = LM_OK;
    while (!s && n) {
        const uint64_t row = start / p->cols, col = start % p->cols;
        const uint64_t k = p->cols - col < n ? p->cols - col : n;
        s = p->kind == LM_PACKED_ROWS ? packed_row(r, p, row, col, k, dst, err)
                                      : turned(r, p, row, col, k, dst, err);
        start += k;
        dst += k;
        n -= k;
    }
    return s;
}

static void swap_bytes(uint8_t *p, uint64_t n, size_t size)
{
    for (; n--; p += size)
        for (size_t i = 0; i < size / 2; i++) {
            const uint8_t b = p[i];
            p[i] = p[size - 1 - i];
            p[size - 1 - i] = b;
        }
}

/* Runs along the last axis if it lies so, else value by value. */
static int laid(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                uint64_t n, uint8_t *dst, struct lm_err *err)
{
    const struct lm_st_tensor *st = p->part[LM_PART_DATA].st;
    const size_t size = p->type->bytes;
    uint8_t *const all = dst;
    const uint64_t total = n;
    const uint32_t last = st->n_dims ? st->n_dims - 1 : 0;
    const uint64_t length = st->n_dims ? st->shape[last] : 1;
    while (n) {
        uint64_t at = 0, i = start, k = 1;
        for (uint32_t d = st->n_dims; d-- > 0; i /= st->shape[d])
            at += i % st->shape[d] * p->stride[d];
        if (st->n_dims && p->stride[last] == 1)
            k = length - start % length < n ? length - start % length : n;
        const int s = read_part(r, p, LM_PART_DATA, at * size, dst, (size_t)k * size, err);
        if (s)
            return s;
        start += k;
        n -= k;
        dst += k * size;
    }
    if (p->swap)
        swap_bytes(all, total, size);
    return LM_OK;
}

int lm_packed_values(struct lm_packed_reader *r, const struct lm_packed *p, uint64_t start,
                     uint64_t n, void *dst, struct lm_err *err)
{
    const int s = own(r, p, err);
    if (s)
        return s;
    switch (p->kind) {
    case LM_PACKED_SCALED: return scaled(r, p, start, n, dst, err);
    case LM_PACKED_MXFP4:  return mxfp4(r, p, start, n, dst, err);
    case LM_PACKED_NVFP4:  return p->type->block > 1 ? nvfp4(r, p, start, n, dst, err)
                                                     : nvfp4_floats(r, p, start, n, dst, err);
    case LM_PACKED_LAID:   return laid(r, p, start, n, dst, err);
    case LM_PACKED_TABLE:  return of_table(r, p, start, n, dst, err);
    default:               return words(r, p, start, n, dst, err);
    }
}
