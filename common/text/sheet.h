/* Rows under columns, printed as a table for people, as JSON or as CSV for programs. JSON and CSV
 * carry ns, bytes and counts under the columns' keys, and shares as a percent; only tables are made
 * readable. No number of JSON exceeds 2^53, which many programs cannot hold: times, spans, masks
 * and identities are strings of digits, and so is any other number that is larger. Absent is a
 * missing key, an empty CSV field, or "-". Text from outside steers no terminal: in tables, and in
 * CSV that goes to one, what could is an escape; in JSON always, as JSON has it. CSV that goes
 * elsewhere has every character as it is. Bounds: a table is laid out SHEET_ROWS rows at a time.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_TEXT_SHEET_H
#define PROCFLEET_COMMON_TEXT_SHEET_H

#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/metric.h"
#include "common/model/model.h"

#define SHEET_ROWS    4096
#define SHEET_COLUMNS 96

/* JSONL is JSON with one object a line. */
enum sheet_format { SHEET_AS_TABLE, SHEET_AS_JSON, SHEET_AS_CSV, SHEET_AS_JSONL };

enum sheet_unit {
    SHEET_TEXT,
    SHEET_WORD, /* one of a few words: never cut */
    SHEET_ID,   /* a plain number */
    SHEET_WIDE, /* a plain number of 64 bits */
    SHEET_COUNT,
    SHEET_NS,   /* a span */
    SHEET_TIME, /* UTC ns */
    SHEET_BYTES,
    SHEET_PERMILLE, /* a percent with one decimal in JSON and CSV */
    SHEET_FLAG,     /* true is shown, false is absent from tables */
    SHEET_HEX,      /* a mask */
    SHEET_EXIT,     /* exit code: decimal, above 255 in hex */
    SHEET_USER,     /* a text that may be a SID: in tables by name where that is known */
    SHEET_STATE,    /* a text that says how something fares: coloured */
    SHEET_ALARM,    /* a count that should be zero: coloured when it is not */
    SHEET_REAL,     /* a number; one that is not whole is given as its text, with a NUL */
};

struct sheet_column {
    const char *key;   /* in JSON and CSV; NULL = not there */
    const char *title; /* in tables; NULL = not shown there */
    enum sheet_unit unit;
};

enum sheet_state { SHEET_ABSENT, SHEET_NUMBER, SHEET_STRING };

struct sheet_cell {
    enum sheet_state state;
    int64_t number;
    struct str text; /* borrowed until sheet_row returns */
};

struct sheet;

/* live: rows are printed and flushed as they come; JSON is then JSONL. `columns` are borrowed until
 * sheet_end. */
NODISCARD enum err sheet_begin(struct sheet **out, FILE *to, enum sheet_format format, bool live,
                               const struct sheet_column *columns, size_t n);
NODISCARD enum err sheet_row(struct sheet *s, const struct sheet_cell *cells); /* one per column */
/* As on a terminal of so many columns, which a sheet is on by itself when `to` is standard output
 * and that is one. */
void sheet_terminal(struct sheet *s, size_t columns);

/* The options of every command that prints a table for people. */
#define SHEET_OPT_WIDE                                                                         \
    {                                                                                          \
        "wide", 'w', NULL, "tables as wide as their rows: on a terminal too nothing is cut", 0 \
    }
#define SHEET_OPTS \
    {"format", 'f', "table|json|csv", "how it is printed; default table", 0}, SHEET_OPT_WIDE

/* On a terminal the table fits into its columns, from the first row on, unless the option was
 * given: moments of one day in the first column lose the date, which is their title then (live:
 * titles come again with a new day); what the titles `yields` name is left out, the first first, as
 * far as there is no room for the rest, and a note says so; texts are cut, with "…", the last
 * column's last; SIDs are short. `yields` ends with NULL and is borrowed. Without this call only
 * the last column is cut.
 */
void sheet_fit(struct sheet *s, const char *const *yields, bool wide);
/* A sentence for people: after a table, on standard error otherwise. Copied. */
void sheet_note(struct sheet *s, struct str text);
void sheet_end(struct sheet *s); /* prints what is left; NULL is allowed */

/* How a metric is printed. */
enum sheet_unit sheet_unit_of(const struct metric *m);

/* Whether JSON has numbers of this kind as strings, whatever their size, so that programs see one
 * type. */
bool sheet_is_wide(enum sheet_unit unit);

/* A cell as people read it, harmless to a terminal; absent is "-". */
void sheet_put_cell(struct buf *b, enum sheet_unit unit, const struct sheet_cell *c);

static inline struct sheet_cell sheet_number(bool have, int64_t v)
{
    struct sheet_cell c = {have ? SHEET_NUMBER : SHEET_ABSENT, v, {NULL, 0}};

    return c;
}

/* What is beyond a cell is shown as the largest number. */
static inline struct sheet_cell sheet_count(uint64_t v)
{
    return sheet_number(true, v < INT64_MAX ? (int64_t)v : INT64_MAX);
}

static inline struct sheet_cell sheet_string(struct str text)
{
    struct sheet_cell c = {text.n ? SHEET_STRING : SHEET_ABSENT, 0, text};

    return c;
}

#endif
