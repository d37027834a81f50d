/* SPDX-License-Identifier: MIT */
#include "cli/report_table.h"

#include <string.h>

#include "cli/cli.h"

#define MAX_WIDTH 56      /* columns beyond which a column is not widened */

void cli_print(struct lm_buf *b, bool last)
{
    if (b->failed)
        cli_die(CLI_TROUBLE, "out of memory");
    if (b->len > 1 << 16 || (last && b->len)) {
        cli_write(b->data, b->len);
        lm_buf_clear(b);
    }
}

/* Columns of the screen that UTF-8 text takes, one a character. */
static int columns(const struct lm_buf *b)
{
    int n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += ((uint8_t)b->data[i] & 0xc0) != 0x80;
    return n;
}

/* Row 0 are the headings. */
static void fill(const struct cli_table *t, uint64_t row, struct lm_buf *cells)
{
    for (int i = 0; i < t->n_cols; i++)
        lm_buf_clear(&cells[i]);
    for (int i = 0; row == 0 && i < t->n_cols; i++)
        lm_buf_str(&cells[i], t->heads[i]);
    if (row)
        t->fill(t->arg, row - 1, cells);
}

static void text_row(struct lm_buf *out, const struct lm_buf *cells, const int *widths, int n)
{
    for (int i = 0; i < n; i++) {
        int w = columns(&cells[i]);
        lm_buf_add(out, cells[i].data, cells[i].len);
        if (i + 1 < n)
            lm_buf_spaces(out, 2 + (size_t)(w < widths[i] ? widths[i] - w : 0));
    }
    lm_buf_byte(out, '\n');
}

static void tsv_row(struct lm_buf *out, const struct lm_buf *cells, int n)
{
    for (int i = 0; i < n; i++) {
        lm_buf_add(out, cells[i].data, cells[i].len);
        lm_buf_byte(out, i + 1 < n ? '\t' : '\n');
    }
}

/* What would be markup is escaped. */
static void markdown_cell(struct lm_buf *out, const struct lm_buf *cell)
{
    for (size_t i = 0; i < cell->len; i++) {
        if (strchr("\\|<*`[", cell->data[i]))
            lm_buf_byte(out, '\\');
        lm_buf_byte(out, cell->data[i]);
    }
}

static void markdown_row(struct lm_buf *out, const struct lm_buf *cells, int n, bool head)
{
    for (int i = 0; i < n; i++) {
        lm_buf_str(out, i ? " | " : "| ");
        markdown_cell(out, &cells[i]);
    }
    lm_buf_str(out, " |\n");
    for (int i = 0; head && i < n; i++)
        lm_buf_str(out, i + 1 < n ? "| --- " : "| --- |\n");
}

/* The width of each column, from a first look at all rows. */
static void measure(const struct cli_table *t, struct lm_buf *cells, int *widths)
{
    for (uint64_t r = 0; r <= t->n_rows; r++) {
        fill(t, r, cells);
        for (int i = 0; i < t->n_cols; i++) {
            int w = columns(&cells[i]);
            if (w > widths[i] && w <= MAX_WIDTH)
                widths[i] = w;
        }
    }
}

void cli_table(struct lm_buf *out, const struct cli_table *t, enum cli_form form)
{
    struct lm_buf cells[CLI_MAX_COLS] = { { 0 } };
    int widths[CLI_MAX_COLS] = { 0 };
    if (form == CLI_TEXT)
        measure(t, cells, widths);
    for (uint64_t r = 0; r <= t->n_rows; r++) {
        fill(t, r, cells);
        for (int i = 0; i < t->n_cols; i++)
            out->failed |= cells[i].failed;
        if (form == CLI_TEXT)
            text_row(out, cells, widths, t->n_cols);
        else if (form == CLI_TSV)
            tsv_row(out, cells, t->n_cols);
        else
            markdown_row(out, cells, t->n_cols, r == 0);
        cli_print(out, false);
    }
    for (int i = 0; i < CLI_MAX_COLS; i++)
        lm_buf_release(&cells[i]);
}
