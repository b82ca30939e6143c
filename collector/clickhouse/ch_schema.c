#include "collector/clickhouse/ch_schema.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"

/* Periods by which a table is divided, and by which its rows go. */
enum ch_period { NONE, DAY, MONTH };

#define COLUMN(T, name, type, codec) {#name, CH_##type, CH_CODEC_##codec},

/* Metric columns of cells and tiers, of samples. */
#define CELL_COUNTER_1(id)                                                          \
    {"m" #id, CH_INT64, CH_CODEC_DELTA}, {"m" #id "_grew", CH_INT64, CH_CODEC_T64}, \
        {"m" #id "_most", CH_INT64, CH_CODEC_T64},
#define CELL_GAUGE_1(id)                                                          \
    {"m" #id, CH_INT64, CH_CODEC_DELTA}, {"m" #id "_up", CH_INT64, CH_CODEC_T64}, \
        {"m" #id "_down", CH_INT64, CH_CODEC_T64}, {"m" #id "_dev", CH_INT64, CH_CODEC_T64},
#define CELL_ATTRIBUTE_0(id)
#define CELL_DERIVED_0(id)
#define SAMPLE_COUNTER_1(id) {"m" #id, CH_INT64, CH_CODEC_DELTA},
#define SAMPLE_GAUGE_1(id)   {"m" #id, CH_INT64, CH_CODEC_DELTA},
#define SAMPLE_ATTRIBUTE_0(id)
#define SAMPLE_DERIVED_0(id)
#define CELL_METRIC(id, name, kind, unit, col, help)   CELL_##kind##_##col(id)
#define SAMPLE_METRIC(id, name, kind, unit, col, help) SAMPLE_##kind##_##col(id)

static const struct ch_column cell_columns[] = {CH_CELL_COLUMNS(COLUMN, CELL)
                                                    METRIC_LIST(CELL_METRIC)};
static const struct ch_column sample_columns[] = {CH_SAMPLE_COLUMNS(COLUMN, SAMPLE)
                                                      METRIC_LIST(SAMPLE_METRIC)};
static const struct ch_column minute_columns[] = {CH_TIER_COLUMNS(COLUMN, MINUTE)
                                                      METRIC_LIST(CELL_METRIC)};
static const struct ch_column hour_columns[] = {CH_TIER_COLUMNS(COLUMN, HOUR)
                                                    METRIC_LIST(CELL_METRIC)};
static const struct ch_column process_columns[] = {CH_PROCESS_COLUMNS(COLUMN, PROCESS)};
static const struct ch_column event_columns[] = {CH_EVENT_COLUMNS(COLUMN, EVENT)};
static const struct ch_column batch_columns[] = {CH_BATCH_COLUMNS(COLUMN, BATCH)};
static const struct ch_column host_columns[] = {CH_HOST_COLUMNS(COLUMN, HOST)};
static const struct ch_column host_state_columns[] = {CH_HOST_STATE_COLUMNS(COLUMN, HOST_STATE)};
static const struct ch_column fold_columns[] = {CH_FOLD_COLUMNS(COLUMN, FOLD)};
static const struct ch_column collector_columns[] = {CH_COLLECTOR_COLUMNS(COLUMN, COLLECTOR)};
static const struct ch_column schema_columns[] = {CH_SCHEMA_COLUMNS(COLUMN, SCHEMA)};

#define TABLE(id, table, key_, version_, period_, by_)                    \
    {                                                                     \
        #table,         key_,                                             \
        version_,       by_,                                              \
        period_,        sizeof table##_columns / sizeof *table##_columns, \
        table##_columns},

static const struct table {
    const char *name, *key, *version, *by;
    enum ch_period period;
    size_t n;
    const struct ch_column *columns;
} tables[] = {CH_TABLE_LIST(TABLE)};

const char *ch_schema_table(enum ch_table t)
{
    return tables[t].name;
}

size_t ch_schema_columns(enum ch_table t, const struct ch_column **columns)
{
    *columns = tables[t].columns;
    return tables[t].n;
}

#define CELL_PARTS_COUNTER_1                         3
#define CELL_PARTS_GAUGE_1                           4
#define CELL_PARTS_ATTRIBUTE_0                       0
#define CELL_PARTS_DERIVED_0                         0
#define CELL_PARTS(id_, name, kind, unit, col, help) [id_] = CELL_PARTS_##kind##_##col,

size_t ch_schema_metric(enum ch_table t, unsigned id)
{
    static const uint8_t parts[METRIC_COLS] = {METRIC_LIST(CELL_PARTS)};
    bool whole = t == CH_CELL || t == CH_MINUTE || t == CH_HOUR;
    size_t at = tables[t].n;

    if (id >= METRIC_COLS || !parts[id] || (!whole && t != CH_SAMPLE)) {
        return 0;
    }
    for (unsigned i = METRIC_COLS; i-- > id;) { /* metrics are the last columns, by id */
        at -= whole ? parts[i] : parts[i] != 0;
    }
    return at;
}

static const struct {
    const char *plain, *full, *block; /* in tables; in blocks of CH_FULL and newer */
} types[CH_TYPES] = {
    [CH_UINT8] = {"UInt8", "UInt8", "UInt8"},
    [CH_UINT16] = {"UInt16", "UInt16", "UInt16"},
    [CH_UINT32] = {"UInt32", "UInt32", "UInt32"},
    [CH_UINT64] = {"UInt64", "UInt64", "UInt64"},
    [CH_INT64] = {"Int64", "Int64", "Int64"},
    [CH_TIME] = {"Int64", "DateTime64(9, 'UTC')", "DateTime64(9, 'UTC')"},
    [CH_UUID] = {"UUID", "UUID", "UUID"},
    [CH_FIXED16] = {"FixedString(16)", "FixedString(16)", "FixedString(16)"},
    [CH_STRING] = {"String", "String", "String"},
    [CH_NAME] = {"String", "LowCardinality(String)", "String"},
    [CH_STRINGS] = {"Array(String)", "Array(String)", "Array(String)"},
    [CH_UINT64S] = {"Array(UInt64)", "Array(UInt64)", "Array(UInt64)"},
};

const char *ch_schema_type(enum ch_dialect d, enum ch_type t, bool in_block)
{
    return d == CH_PLAIN ? types[t].plain : in_block ? types[t].block : types[t].full;
}

enum ch_dialect ch_schema_dialect(const char *version)
{
    char *end;
    unsigned long major = strtoul(version, &end, 10), minor = 0;

    if (*end == '.') {
        minor = strtoul(end + 1, NULL, 10);
    }
    if (major > 23 || (major == 23 && minor >= 3)) {
        return CH_NARROW;
    }
    return major == 23 || (major == 22 && minor >= 8) ? CH_FULL : CH_PLAIN;
}

void ch_schema_ns(struct buf *sql, enum ch_dialect d, const char *column)
{
    buf_printf(sql, d == CH_PLAIN ? "%s" : "toUnixTimestamp64Nano(%s)", column);
}

void ch_schema_time(struct buf *sql, enum ch_dialect d, int64_t ns)
{
    /* What DateTime64(9) cannot hold (before 1970 here, behind 2262) no stamp is. */
    buf_printf(sql,
               d == CH_PLAIN ? "toInt64(%" PRId64 ")"
                             : "fromUnixTimestamp64Nano(toInt64(%" PRId64 "), 'UTC')",
               d != CH_PLAIN && ns < 0 ? 0 : ns);
}

void ch_schema_quote(struct buf *sql, struct str text)
{
    buf_put_u8(sql, '\'');
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = (uint8_t)text.p[i];

        if (c < ' ' || c == '\'' || c == '\\' || c == '`') {
            buf_printf(sql, "\\x%02X", c);
        } else {
            buf_put_u8(sql, c);
        }
    }
    buf_put_u8(sql, '\'');
}

/* -- statements -- */

static const char *codec_of(const struct ch_column *c)
{
    static const char *const names[] = {
        [CH_CODEC_ZSTD] = "ZSTD(1)",
        [CH_CODEC_DELTA] = "Delta, ZSTD(1)",
        [CH_CODEC_T64] = "T64, ZSTD(1)",
        [CH_CODEC_DOUBLE_DELTA] = "DoubleDelta, ZSTD(1)",
    };

    return names[c->codec];
}

static void put_column(struct buf *sql, enum ch_dialect d, const struct ch_column *c)
{
    buf_printf(sql, "`%s` %s", c->name, ch_schema_type(d, c->type, false));
    if (d != CH_PLAIN) {
        buf_printf(sql, " CODEC(%s)", codec_of(c));
    }
}

static void put_alias_name(struct buf *sql, const struct metric *m, const char *ending)
{
    buf_put_str(sql, "`");
    for (const char *s = m->name; *s; s++) {
        buf_put_u8(sql, *s == '.' ? '_' : (uint8_t)*s); /* a dot would be a nested table */
    }
    buf_printf(sql, "%s`", ending);
}

/* A column for people beside the stored ones: an expression with its metric's name and the
 * ending. */
static void put_alias(struct buf *sql, const struct metric *m, const char *ending,
                      const char *expression)
{
    put_alias_name(sql, m, ending);
    buf_printf(sql, " Nullable(Float64) ALIAS if(bitTest(%s, %u), ",
               m->id < METRIC_PAGE ? "mask" : "mask_high", (unsigned)(m->id % METRIC_PAGE));
    for (const char *s = expression; *s; s++) {
        if (*s == '#') {
            buf_printf(sql, "m%u", m->id);
        } else {
            buf_put_u8(sql, (uint8_t)*s);
        }
    }
    buf_put_str(sql, ", NULL)");
}

static const struct alias {
    const char *ending, *expression; /* # stands for the column's name */
} counter_aliases[] = {{"", "#"}, {"_growth", "#_grew"}, {"_step_max", "#_most"}},
  gauge_aliases[] = {
      {"", "#"}, {"_min", "# - #_down"}, {"_max", "# + #_up"}, {"_avg", "# + #_dev / n"}};

/* The metric whose first column this is, or NULL. */
static const struct metric *metric_of(enum ch_table t, size_t column)
{
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && column && ch_schema_metric(t, m->id) == column) {
            return m;
        }
    }
    return NULL;
}

/* What stands behind a column for people, or only the names. between: before each of them. */
static void put_aliases(struct buf *sql, enum ch_table t, size_t column, const char *between,
                        bool names)
{
    const struct metric *m = metric_of(t, column);
    const struct alias *list = m && m->kind == METRIC_GAUGE ? gauge_aliases : counter_aliases;
    size_t n = !m ? 0 : t == CH_SAMPLE ? 1 : m->kind == METRIC_GAUGE ? 4 : 3;

    for (size_t i = 0; i < n; i++) {
        buf_put_str(sql, between);
        if (names) {
            put_alias_name(sql, m, list[i].ending);
        } else {
            put_alias(sql, m, list[i].ending, list[i].expression);
        }
    }
}

static void put_name(struct buf *sql, const char *database, const char *table)
{
    buf_printf(sql, "`%s`.`%s`", database, table); /* the configuration lets in letters only */
}

static void put_engine(struct buf *sql, const struct ch_layout *l, const struct table *t)
{
    buf_put_str(sql, " ENGINE = ");
    if (l->replicated) {
        buf_printf(sql,
                   "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/%s/%s', '{replica}'",
                   l->database, t->name);
    } else {
        buf_put_str(sql, "ReplacingMergeTree(");
    }
    if (t->version) {
        buf_printf(sql, "%s%s", l->replicated ? ", " : "", t->version);
    }
    buf_put_str(sql, ")");
}

static void put_period(struct buf *sql, enum ch_dialect d, const struct table *t)
{
    if (t->period == NONE) {
        return;
    }
    buf_put_str(sql, " PARTITION BY ");
    if (d != CH_PLAIN) {
        buf_printf(sql, t->period == DAY ? "toYYYYMMDD(%s)" : "toYYYYMM(%s)", t->by);
    } else {
        buf_printf(sql,
                   t->period == DAY ? "intDiv(%s, 86400000000000)"
                                    : "toYYYYMM(toDateTime(intDiv(%s, 1000000000), 'UTC'))",
                   t->by);
    }
}

int64_t ch_schema_keep(enum ch_table t, const struct ch_keep *keep)
{
    int64_t longest = keep->event_ns;

    switch (t) {
    case CH_CELL:
        return keep->cell_ns;
    case CH_SAMPLE:
        return keep->sample_ns;
    case CH_MINUTE:
        return keep->minute_ns;
    case CH_HOUR:
    case CH_FOLD:
        return keep->hour_ns;
    case CH_EVENT:
        return keep->event_ns;
    case CH_PROCESS:
    case CH_BATCH: /* as long as the longest: coverage, and names */
        if (!keep->cell_ns || !keep->minute_ns || !keep->hour_ns || !keep->event_ns) {
            return 0;
        }
        longest = keep->cell_ns > longest ? keep->cell_ns : longest;
        longest = keep->minute_ns > longest ? keep->minute_ns : longest;
        return keep->hour_ns > longest ? keep->hour_ns : longest;
    case CH_HOST:
    case CH_HOST_STATE:
    case CH_COLLECTOR:
    case CH_SCHEMA:
    case CH_TABLES:
        break;
    }
    return 0;
}

void ch_schema_create(struct buf *sql, const struct ch_layout *l, enum ch_table table)
{
    const struct table *t = &tables[table];
    int64_t keep_ns = ch_schema_keep(table, &l->keep);

    buf_put_str(sql, "CREATE TABLE IF NOT EXISTS ");
    put_name(sql, l->database, t->name);
    buf_put_str(sql, " (");
    for (size_t i = 0; i < t->n; i++) {
        buf_put_str(sql, i ? ", " : "");
        put_column(sql, l->dialect, &t->columns[i]);
    }
    for (size_t i = 0; i < t->n; i++) {
        put_aliases(sql, table, i, ", ", false);
    }
    if (l->dialect == CH_PLAIN && t->by) {
        buf_printf(sql, ", `time` DateTime ALIAS toDateTime(intDiv(%s, 1000000000), 'UTC')", t->by);
    } else if (t->by) {
        buf_printf(sql, ", `time` DateTime64(9, 'UTC') ALIAS %s", t->by);
    }
    buf_put_str(sql, ")");
    put_engine(sql, l, t);
    put_period(sql, l->dialect, t);
    buf_printf(sql, " ORDER BY (%s)", t->key);
    if (l->dialect != CH_PLAIN && t->by && keep_ns) {
        buf_printf(sql, " TTL toDateTime(%s) + toIntervalSecond(%" PRId64 ")", t->by,
                   (int64_t)(keep_ns / CLK_S));
    }
    if (l->dialect != CH_PLAIN && t->by) {
        buf_put_str(sql, " SETTINGS ttl_only_drop_parts = 1");
    }
}

void ch_schema_add(struct buf *sql, const struct ch_layout *l, enum ch_table table, size_t i)
{
    const struct table *t = &tables[table];

    buf_put_str(sql, "ALTER TABLE ");
    put_name(sql, l->database, t->name);
    buf_put_str(sql, " ADD COLUMN ");
    put_column(sql, l->dialect, &t->columns[i]);
    put_aliases(sql, table, i, ", ADD COLUMN ", false);
}

bool ch_schema_view(struct buf *sql, const struct ch_layout *l, size_t i)
{
    static const enum ch_table of[] = {CH_CELL, CH_SAMPLE};
    const struct table *t;

    if (i >= sizeof of / sizeof *of) {
        return false;
    }
    t = &tables[of[i]];
    buf_put_str(sql, "CREATE VIEW IF NOT EXISTS ");
    buf_printf(sql, "`%s`.`%s_once` AS SELECT *, time", l->database, t->name);
    for (size_t c = 0; c < t->n; c++) {
        put_aliases(sql, of[i], c, ", ", true); /* which * leaves out */
    }
    buf_put_str(sql, " FROM ");
    put_name(sql, l->database, t->name);
    buf_put_str(sql, " FINAL");
    return true;
}
