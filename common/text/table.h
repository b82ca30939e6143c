/* Rows under columns, printed as a table for people, as JSON or as CSV for programs. JSON and CSV
 * carry ns, bytes and counts under the columns' keys, and shares as a percent; only tables are made
 * readable. No number of JSON exceeds 2^53, which many programs cannot hold: times, spans, masks
 * and identities are strings of digits, and so is any other number that is larger. Absent is a
 * missing key, an empty CSV field, or "-". Text from outside steers no terminal: in tables, and in
 * CSV that goes to one, what could is an escape; in JSON always, as JSON has it. CSV that goes
 * elsewhere has every character as it is. Bounds: a table is laid out TABLE_ROWS rows at a time.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_TEXT_TABLE_H
#define PROCFLEET_COMMON_TEXT_TABLE_H

#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/metric.h"
#include "common/text/table_cell.h"

#define TABLE_ROWS    4096
#define TABLE_COLUMNS 128

/* JSONL is JSON with one object a line. */
enum table_format { TABLE_AS_TABLE, TABLE_AS_JSON, TABLE_AS_CSV, TABLE_AS_JSONL };

struct table;

/* live: rows are printed and flushed as they come; JSON is then JSONL. `columns` are borrowed until
 * table_end. */
NODISCARD enum err table_begin(struct table **out, FILE *to, enum table_format format, bool live,
                               const struct table_column *columns, size_t n);
NODISCARD enum err table_row(struct table *s, const struct table_cell *cells); /* one per column */
/* As on a terminal of so many columns, which a sheet is on by itself when `to` is standard output
 * and that is one. */
void table_terminal(struct table *s, size_t columns);

/* The options of every command that prints a table for people. */
#define TABLE_OPT_WIDE                                                                         \
    {                                                                                          \
        "wide", 'w', NULL, "tables as wide as their rows: on a terminal too nothing is cut", 0 \
    }
#define TABLE_OPTS \
    {"format", 'f', "table|json|csv", "how it is printed; default table", 0}, TABLE_OPT_WIDE

/* On a terminal the table fits into its columns, from the first row on, unless the option was
 * given: moments of one day in the first column lose the date, which is their title then (live:
 * titles come again with a new day); what the titles `yields` name is left out, the first first, as
 * far as there is no room for the rest, and a note says so; texts are cut, with "…", the last
 * column's last; SIDs are short. `yields` ends with NULL and is borrowed. Without this call only
 * the last column is cut.
 */
void table_fit(struct table *s, const char *const *yields, bool wide);
/* Prints the rows in the order that a list names (table_kept_sort), which takes until the end.
 * Before the first row. Errors: ERR_USAGE (why says), ERR_NOMEM */
NODISCARD enum err table_sort(struct table *s, const char *list, struct errmsg *why);

/* What the rows answer, for programs. */
struct table_answer {
    int64_t since_ns, until_ns; /* UTC */
    bool partial;
    bool has_coverage, at_most;
    uint32_t ppm;
    uint64_t lost_ticks, lost_events;
    bool cut;       /* there may be more rows, and nobody knows how many */
    uint64_t total; /* rows that there are when they are more than those shown */
    size_t n_used;
    uint32_t used[16];
};

/* JSON is one object then, {"rows":[…],"since":…} with what table_answer says, notes and how many
 * rows are shown. Before the first row; without effect on other formats. */
void table_envelope(struct table *s);
/* For the envelope, and the last line of JSONL, which is the same object without rows. The notes
 * are in it then and nowhere else. Copied; the last one counts. */
void table_answer(struct table *s, const struct table_answer *a);

/* From here on at most so many rows are printed; returns how many more there were until now. */
uint64_t table_limit(struct table *s, uint64_t rows);
/* How moments are written in tables: as clk_format_utc, unless it is called. The text has the
 * date, a T and the time. */
void table_times(struct table *s,
                 const char *(*format)(char *text, size_t size, int64_t utc_ns, int digits));
/* A sentence for people: after a table, on standard error otherwise. Copied. */
void table_note(struct table *s, struct str text);
void table_end(struct table *s);  /* prints what is left; NULL is allowed */
void table_drop(struct table *s); /* instead, without a word */

/* How a metric is printed. */
enum table_unit table_unit_of(const struct metric *m);

/* Whether JSON has numbers of this kind as strings, whatever their size, so that programs see one
 * type. */
bool table_is_wide(enum table_unit unit);

/* A cell as JSON has it; absent is null. */
struct jsonw;
void table_put_json(struct jsonw *j, const char *key, enum table_unit unit,
                    const struct table_cell *c);

/* A cell as people read it, harmless to a terminal; absent is "-". */
void table_put_cell(struct buf *b, enum table_unit unit, const struct table_cell *c);

#endif
