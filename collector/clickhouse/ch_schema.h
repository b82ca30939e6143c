/* The tables in ClickHouse: the only place where a column is named. Metric columns come from the
 * list of metrics (metric_list.h), by id, so that a new metric is a line there and `clickhouse
 * migrate` here. Rows are written by ch_rows.h, and read by SQL that names these columns.
 *
 * Dialects: CH_FULL is ClickHouse 22.8 and newer; CH_PLAIN is everything older: stamps are Int64
 * (ns since 1970), no codecs, no TTL, no LowCardinality. SQL that is written once uses
 * ch_schema_time for stamps. CH_NARROW, 23.3 and newer, is CH_FULL for all SQL; in blocks integers
 * may be narrower than their column (input_format_native_allow_types_conversion).
 *
 * Schema changes only add: a table or a column that is missing is made, nothing is ever dropped or
 * altered, so the difference to what is there is all that a migration has to know.
 * Threads: any; nothing changes. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SCHEMA_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SCHEMA_H

#include <stdbool.h>

#include "collector/clickhouse/ch_tables.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "common/model/metric.h"

#define CH_SCHEMA_VERSION 1u

enum ch_dialect { CH_PLAIN, CH_FULL, CH_NARROW };

/* Stamps are ns since 1970, UTC. */
enum ch_type {
    CH_UINT8,
    CH_UINT16,
    CH_UINT32,
    CH_UINT64,
    CH_INT64,
    CH_TIME, /* Int64 of ns, or DateTime64(9, 'UTC') */
    CH_UUID,
    CH_FIXED16, /* FixedString(16) */
    CH_STRING,
    CH_NAME, /* String with few values: LowCardinality in tables, String in blocks */
    CH_STRINGS,
    CH_UINT64S,
    CH_TYPES
};

enum ch_codec { CH_CODEC_ZSTD, CH_CODEC_DELTA, CH_CODEC_T64, CH_CODEC_DOUBLE_DELTA };

struct ch_column {
    const char *name;
    uint8_t type;  /* enum ch_type */
    uint8_t codec; /* enum ch_codec */
};

/* CH_CELL_host_id and so on: a column's place in its table. */
#define CH_COLUMN_ENUM(T, name, type, codec) CH_##T##_##name,
enum { CH_CELL_COLUMNS(CH_COLUMN_ENUM, CELL) CH_CELL_METRICS };
enum { CH_SAMPLE_COLUMNS(CH_COLUMN_ENUM, SAMPLE) CH_SAMPLE_METRICS };
enum { CH_PROCESS_COLUMNS(CH_COLUMN_ENUM, PROCESS) CH_PROCESS_END };
enum { CH_EVENT_COLUMNS(CH_COLUMN_ENUM, EVENT) CH_EVENT_END };
enum { CH_BATCH_COLUMNS(CH_COLUMN_ENUM, BATCH) CH_BATCH_END };
enum { CH_HOST_COLUMNS(CH_COLUMN_ENUM, HOST) CH_HOST_END };
enum { CH_HOST_STATE_COLUMNS(CH_COLUMN_ENUM, HOST_STATE) CH_HOST_STATE_END };
enum { CH_FOLD_COLUMNS(CH_COLUMN_ENUM, FOLD) CH_FOLD_END };
enum { CH_COLLECTOR_COLUMNS(CH_COLUMN_ENUM, COLLECTOR) CH_COLLECTOR_END };
enum { CH_SCHEMA_COLUMNS(CH_COLUMN_ENUM, SCHEMA) CH_SCHEMA_END };
#undef CH_COLUMN_ENUM

#define CH_TABLE_ENUM(id, name, key, version, period, by) CH_##id,
enum ch_table { CH_TABLE_LIST(CH_TABLE_ENUM) CH_TABLES };
#undef CH_TABLE_ENUM

enum ch_kind { CH_COMING = 1, CH_GIVEN_UP = 2, CH_STORED = 3 }; /* batch.kind */
#define CH_FORGOTTEN "forgotten"                                /* collector.version */
#define CH_FRESH     1u                                         /* cell.flags */

/* Parts of a metric in cells and tiers, in the order of the columns: three of a counter, four of a
 * gauge. */
enum { CH_LAST, CH_GREW = 1, CH_MOST, CH_UP = 1, CH_DOWN, CH_DEV };

const char *ch_schema_table(enum ch_table t);
size_t ch_schema_columns(enum ch_table t, const struct ch_column **columns);
/* Where the first column of the metric is in `cell` and the tiers, its parts behind it; in
 * `sample`, the only one. 0: the table has no such metric. */
size_t ch_schema_metric(enum ch_table t, unsigned id);

/* The type as tables and as blocks name it. */
const char *ch_schema_type(enum ch_dialect d, enum ch_type t, bool in_block);
/* From a version such as "18.16.1". */
enum ch_dialect ch_schema_dialect(const char *version);

/* Appends an expression that is ns since 1970 as Int64 of a column of stamps; and a literal to
 * compare such a column with. */
void ch_schema_ns(struct buf *sql, enum ch_dialect d, const char *column);
void ch_schema_time(struct buf *sql, enum ch_dialect d, int64_t ns);

/* How long rows are kept; 0: for ever. */
struct ch_keep {
    int64_t sample_ns, cell_ns, minute_ns, hour_ns, event_ns;
};
int64_t ch_schema_keep(enum ch_table t, const struct ch_keep *keep); /* of the table; 0: for ever */

struct ch_layout {
    enum ch_dialect dialect;
    const char *database;
    bool replicated; /* Replicated… engines, with the servers' macros {shard} and {replica} */
    struct ch_keep keep;
};

/* CREATE TABLE IF NOT EXISTS; for the column `i` of a table that is there, ALTER TABLE … ADD
 * COLUMN. With alias columns for people, in both. Latches in `sql`. */
void ch_schema_create(struct buf *sql, const struct ch_layout *l, enum ch_table t);
void ch_schema_add(struct buf *sql, const struct ch_layout *l, enum ch_table t, size_t i);
/* Views for people, with FINAL: cell_once, sample_once. i from 0; false: there are no more. */
bool ch_schema_view(struct buf *sql, const struct ch_layout *l, size_t i);

/* Appends text as a literal in quotes; any bytes are safe in it. The only way in which text that is
 * not ours comes into SQL. */
void ch_schema_quote(struct buf *sql, struct str text);

#endif
