/* A comparison in words: for people as lines and a table, for programs as one JSON object or rows
 * of CSV. Threads: one. */
#ifndef PROCFLEET_COMMON_LAB_COMPARE_PRINT_H
#define PROCFLEET_COMMON_LAB_COMPARE_PRINT_H

#include <stdio.h>

#include "common/lab/compare_types.h"
#include "common/text/table.h"

struct compare_print {
    const struct compare *c;
    const char *a, *b; /* how the sides were asked for */
    bool gate;
    double same;
};

/* Of a gate a line for each limit, the verdict first; then "A  main-*  8 runs, 20 hosts each, ...",
 * and how much so many runs can carry. */
void compare_print_head(struct buf *out, const struct compare_print *x);

/* Why things do not count, what one side alone has, what differs in the environment. */
void compare_print_notes(struct buf *out, const struct compare_print *x);

/* Columns of the rows, for tables and for CSV. */
#define COMPARE_PRINT_COLUMNS 24u
extern const struct table_column compare_print_columns[COMPARE_PRINT_COLUMNS];
NODISCARD enum err compare_print_rows(struct table *t, const struct compare_print *x);

/* One object with everything, and a line end. */
void compare_print_json(FILE *to, const struct compare_print *x);

/* A value in its unit, and a change or interval, as people read them; "-" for none. */
void compare_print_value(struct buf *out, const struct compare_row *row, double value);
void compare_print_change(struct buf *out, const struct compare_row *row, double change);
void compare_print_interval(struct buf *out, const struct compare_row *row);
/* "more", "~ too wide: about 30 more runs a side for 5 %", "refused: few_runs". */
void compare_print_says(struct buf *out, const struct compare_print *x,
                        const struct compare_row *row);

#endif
