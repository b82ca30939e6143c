/* A ClickHouse that tests and benchmarks fill: a database of their own, the sink's rows.
 * Failing ends the program with a sentence. Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_CH_FILL_H
#define PROCFLEET_TESTS_SUPPORT_CH_FILL_H

#include "collector/clickhouse/ch_http.h"
#include "collector/clickhouse/ch_rows.h"

void ch_fill_check(enum err e, const char *what, const struct errmsg *why); /* why may be NULL */

/* ch_http_close */
struct ch_http *ch_fill_open(const char *url, const char *database);

void ch_fill_statement(struct ch_http *h, const char *sql);
void ch_fill_make(struct ch_http *h, const char *database); /* anew, with all tables */
void ch_fill_drop(struct ch_http *h, const char *database);

/* What has no rows is left out. */
void ch_fill_block(struct ch_http *h, struct ch_block *block);
/* All tables of it, as stored; resets it. */
void ch_fill_rows(struct ch_http *h, struct ch_rows *rows, bool again);

#endif
