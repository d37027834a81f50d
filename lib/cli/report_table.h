/* SPDX-License-Identifier: MIT */
#ifndef LM_CLI_REPORT_TABLE_H
#define LM_CLI_REPORT_TABLE_H

/* Tables on standard output, for people and for programs. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* How a report is written; bits, so that a report can say which it has. */
enum cli_form {
    CLI_TEXT     = 1,    /* columns aligned with spaces                             */
    CLI_TSV      = 2,    /* a tab between columns, nothing else added               */
    CLI_MARKDOWN = 4,    /* a table of GitHub's Markdown                            */
    CLI_JSON     = 8     /* JSON objects, one a line: each report writes its own    */
};

#define CLI_MAX_COLS 10

struct cli_table {
    int                n_cols;           /* at most CLI_MAX_COLS                    */
    const char *const *heads;            /* [n_cols]                                */
    uint64_t           n_rows;
    /* Cells of a row, printable (lm_buf_escape), into empty buffers. */
    void             (*fill)(void *arg, uint64_t row, struct lm_buf *cells);
    void              *arg;
};

/* Print the table in any form but CLI_JSON.  As text, fill is called twice for each row.
 * What `out` holds is printed before; the last of the table may stay in it. */
void cli_table(struct lm_buf *out, const struct cli_table *t, enum cli_form form);

/* Print what a buffer holds and empty it, if that is much or the last.  Ends the program
 * when memory was short for it. */
void cli_print(struct lm_buf *b, bool last);

#endif
