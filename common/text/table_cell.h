/* What stands in a table: columns, each of a unit, and cells. Plain data. */
#ifndef PROCFLEET_COMMON_TEXT_TABLE_CELL_H
#define PROCFLEET_COMMON_TEXT_TABLE_CELL_H

#include "common/model/model.h"

enum table_unit {
    TABLE_TEXT,
    TABLE_WORD, /* one of a few words: never cut */
    TABLE_ID,   /* a plain number */
    TABLE_WIDE, /* a plain number of 64 bits */
    TABLE_COUNT,
    TABLE_NS,   /* a span */
    TABLE_TIME, /* UTC ns */
    TABLE_BYTES,
    TABLE_PERMILLE, /* a percent with one decimal in JSON and CSV */
    TABLE_FLAG,     /* true is shown, false is absent from tables */
    TABLE_HEX,      /* a mask */
    TABLE_EXIT,     /* exit code: decimal, above 255 in hex */
    TABLE_USER,     /* a text that may be a SID: in tables by name where that is known */
    TABLE_STATE,    /* a text that says how something fares: coloured */
    TABLE_ALARM,    /* a count that should be zero: coloured when it is not */
    TABLE_JSON,     /* a text that is JSON, with its NUL, which is not counted */
    TABLE_REAL,     /* a number; one that is not whole is given as its text, with a NUL */
};

struct table_column {
    const char *key;   /* in JSON and CSV; NULL = not there */
    const char *title; /* in tables; NULL = not shown there */
    enum table_unit unit;
};

enum table_state { TABLE_ABSENT, TABLE_NUMBER, TABLE_STRING };

struct table_cell {
    enum table_state state;
    int64_t number;
    struct str text; /* borrowed until table_row returns */
};

static inline struct table_cell table_number(bool have, int64_t v)
{
    struct table_cell c = {have ? TABLE_NUMBER : TABLE_ABSENT, v, {NULL, 0}};

    return c;
}

/* What is beyond a cell is shown as the largest number. */
static inline struct table_cell table_count(uint64_t v)
{
    return table_number(true, v < INT64_MAX ? (int64_t)v : INT64_MAX);
}

static inline struct table_cell table_string(struct str text)
{
    struct table_cell c = {text.n ? TABLE_STRING : TABLE_ABSENT, 0, text};

    return c;
}

#endif
