/* Questions whose answers are printed as a table: in general, under a set of fields, and calls that
 * are answered by one value. Every function returns the exit code; a failure has been printed.
 * Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_ROWS_H
#define PROCFLEET_COLLECTOR_CLI_ROWS_H

#include "collector/cli/fields.h"

/* A table made of an answer's pages. */
struct rows_table {
    const struct fields *fields; /* the columns; NULL: those below */
    const struct table_column *columns;
    size_t n;
    const char *const *yields; /* as for cli_table */
    /* Adds a page's rows to the table; the answer is borrowed during the call. */
    enum err (*page)(void *ctx, struct table *t, const struct wire_answer *a);
    /* after the last page, before the notes; may be NULL */
    enum err (*end)(void *ctx, struct table *t);
    enum err (*after)(
        void *ctx); /* after table and notes, also when the question failed; or NULL */
    void *ctx;
    const char *none; /* what to say when the answer has no row, event or host; may be NULL */
    bool counted;  /* each row, event or host of the answer is one of the table, or is left out */
    bool moment;   /* what is asked is how it was at one; */
    bool timeless; /* or of no time at all */
};

int rows_table(struct cli *c, const char *method, struct wire_query *q, const struct rows_table *t);

/* A note of the metrics that were asked for and that the collector does not know; none: no note. */
void rows_note_unknown(struct table *t, const struct wire_query *asked,
                       const struct wire_answer *a);

/* What else is made of the rows. */
struct rows_also {
    void (*row)(void *ctx, const struct wire_answer *a, const struct wire_row *row);
    enum err (*end)(void *ctx); /* after the table and its notes */
    void *ctx;
    bool instead; /* there is no table then, only notes */
};

/* The table of rows or events under these fields.
 * newest  of all events or rows in the window only the last `q->limit` are printed
 * none    what to say when there is no row; may be NULL
 * also    may be NULL */
int rows_ask(struct cli *c, const char *method, struct wire_query *q, const struct fields *f,
             bool newest, const char *none, const struct rows_also *also);

/* Adds what JSON and CSV carry of every process besides what the table shows. */
void rows_add_details(struct fields *f);

/* A call with the command's operand that is answered by one value: a row of both. */
#define ROWS_CALL_TEXT 16u
struct rows_call {
    const char *method;
    const char
        *name_of; /* the operand is a name of 1 to 63 bytes of such a thing; NULL: any text */
    struct table_column columns[2];
    enum err (*encode)(struct buf *out, const char *operand);
    /* text: for a value that is one */
    enum err (*decode)(struct table_cell *value, char text[ROWS_CALL_TEXT],
                       const struct buf *reply);
};
int rows_call(struct cli *c, const struct rows_call *x);

#endif
