/* Which facts of a process, a host or an event stand in which column. A command names its fields
 * once; rows and events of an answer then become cells. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_FIELDS_H
#define PROCFLEET_COLLECTOR_CLI_FIELDS_H

#include "collector/cli/cli.h"
#include "common/text/field.h"

struct fields {
    size_t n;
    int what[TABLE_COLUMNS]; /* enum field, or FIELD_METRIC + id */
    struct table_column columns[TABLE_COLUMNS];
    const char *keep; /* title of the column that never gives way, or NULL */
};

/* A sheet of these columns. Errors: ERR_NOMEM */
NODISCARD enum err fields_sheet(const struct fields *f, const struct cli *c, struct table **out,
                                bool live);

/* in_table: also shown to people, else only in JSON and CSV. A field is added once. */
void fields_add(struct fields *f, enum field what, bool in_table);
void fields_add_provider(struct fields *f); /* those of a provider's event, not in tables */
void fields_add_metric(struct fields *f, unsigned id, bool in_table);
bool fields_has_metric(const struct fields *f, unsigned id);

/* f->n cells, borrowed from the answer; those of an event also from memory that its next call uses
 * again. Threads: one. */
void fields_row(const struct fields *f, struct table_cell *cells, const struct wire_answer *a,
                const struct wire_row *row);
void fields_event(const struct fields *f, struct table_cell *cells, const struct wire_answer *a,
                  const struct wire_event *event);

/* Bits of the kinds that every --kind names, a list with commas each; "process", "thread", "image"
 * and "all" included. 0 without one. Errors: ERR_USAGE */
NODISCARD enum err fields_kinds_given(uint32_t *bits, const struct cli *c, struct errmsg *why);

/* The sets of words that the commands' options take: METRIC, KIND. */
extern const struct opt_set fields_sets[];

#endif
