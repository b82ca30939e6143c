/* Rows that wait until all of them are known, copied, and their order by columns.
 * Bounds: `max_bytes` of memory. Threads: one owner. */
#ifndef PROCFLEET_COMMON_TEXT_TABLE_KEPT_H
#define PROCFLEET_COMMON_TEXT_TABLE_KEPT_H

#include "common/base/err.h"
#include "common/text/table_cell.h"

#define TABLE_KEPT_KEYS 8u

struct table_kept;

/* Rows of n cells each. Errors: ERR_NOMEM */
NODISCARD enum err table_kept_create(struct table_kept **out, size_t n, size_t max_bytes);
void table_kept_destroy(struct table_kept *k); /* NULL is allowed */

/* Copies the cells and their texts, each with a NUL behind it. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err table_kept_add(struct table_kept *k, const struct table_cell *cells);
size_t table_kept_count(const struct table_kept *k);

/* The i-th row, borrowed until the next call that changes them. */
struct table_cell *table_kept_row(struct table_kept *k, size_t i);

/* Orders them by the columns that a list names by key or title, letters in either case: "a,-b" is
 * by a, then by b with the largest first. What is absent comes last, equal rows stay as they were.
 * Of no rows the list is only checked. Errors: ERR_USAGE (no such column; why says), ERR_NOMEM */
NODISCARD enum err table_kept_sort(struct table_kept *k, const char *list,
                                   const struct table_column *columns, struct errmsg *why);

#endif
