/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_TABLE_H
#define LM_BASE_TABLE_H

/* Memory for tables that are read here and there, such as hash tables: zeroed, aligned to a
 * line of the cache, and in large pages where the system has them, because looking up where
 * a page is would otherwise take as long as the table does. */

#include <stddef.h>

/* size > 0 bytes of zeros, or NULL; given back with the same size. */
void *lm_table_new(size_t size);
void lm_table_free(void *table, size_t size);

/* malloc for what is filled as soon as it is there: from half a large page on it has whole ones. */
void *lm_malloc_large(size_t size);

/* Memory that malloc just gave, all of which will be used: where it is large it comes in large
 * pages, if the system has them, because a fault a small page takes longer than filling it. */
void lm_use_all(void *p, size_t size);

#endif
