/* A yardstick for the store: the same batches, and the same values of sealed windows as rows of one
 * SQLite table (part, metric, window, host -> blob), WAL mode, every commit synced. It is given
 * what sealing made and pays for keeping it alone. Failing ends the program. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_STORE_SQLITE_H
#define PROCFLEET_TESTS_BENCH_STORE_SQLITE_H

#include "tests/support/store_fill.h"

struct store_sqlite;

struct store_sqlite *store_sqlite_open(const char *dir);
void store_sqlite_close(struct store_sqlite *y); /* NULL is allowed */

/* The batches at hand, one commit for each MiB. */
void store_sqlite_batches(struct store_sqlite *y, const struct fill *f);
/* In one commit: the values of the window's raw segment are in, the batches gone. */
void store_sqlite_window(struct store_sqlite *y, struct store *s, int64_t window_ns);

/* Fetches what a question is computed from: summaries of all hosts, or the column of one host of
 * every window. ms. */
double store_sqlite_sums_ms(struct store_sqlite *y, unsigned metric, uint64_t *bytes);
double store_sqlite_column_ms(struct store_sqlite *y, unsigned metric, unsigned host,
                              uint64_t *bytes);
/* The same of the store's segments. */
double store_own_sums_ms(struct store *s, unsigned metric, uint64_t *bytes);
double store_own_column_ms(struct store *s, unsigned metric, unsigned host, uint64_t *bytes);

double store_sqlite_drop_ms(struct store_sqlite *y); /* all windows */
uint64_t store_sqlite_bytes(struct store_sqlite *y); /* of the files, its log emptied */

#endif
