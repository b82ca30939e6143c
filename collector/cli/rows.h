/* Asking for rows or events and printing them under a set of fields: what top, ps, history and
 * events have in common. */
#ifndef PROCFLEET_COLLECTOR_CLI_ROWS_H
#define PROCFLEET_COLLECTOR_CLI_ROWS_H

#include "collector/cli/fields.h"

/* none: what to say when there is no row, or NULL.
 * newest: of all events or rows in the window only the last `q->limit` are printed. Gives the exit
 * code. */
int rows_ask(struct cli *c, const char *method, struct wire_query *q, const struct fields *f,
             bool newest, const char *none);

/* What else is made of the rows on their way. */
struct rows_also {
    void (*row)(void *ctx, const struct wire_answer *a, const struct wire_row *row);
    enum err (*end)(void *ctx); /* behind the table and its notes */
    void *ctx;
    bool instead; /* there is no table then, only notes */
};

/* The same; also may be NULL. */
int rows_ask_also(struct cli *c, const char *method, struct wire_query *q, const struct fields *f,
                  bool newest, const char *none, const struct rows_also *also);

/* Adds what JSON and CSV carry of every process besides what the table shows. */
void rows_add_details(struct fields *f);

#endif
