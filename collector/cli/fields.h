/* Which facts of a process, a host or an event stand in which column. A command names its fields
 * once; rows and events of an answer then become cells. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_FIELDS_H
#define PROCFLEET_COLLECTOR_CLI_FIELDS_H

#include "collector/cli/cli.h"
#include "common/text/table.h"

enum field {
    FIELD_TIME, /* of the sample or event */
    FIELD_HOST,
    FIELD_KIND, /* of the event */
    FIELD_PID,
    FIELD_TID,
    FIELD_START, /* raw creation time: with host and pid the identity */
    FIELD_NAME,
    FIELD_PARENT_PID,
    FIELD_SESSION_ID,
    FIELD_USER,
    FIELD_CREATE_TIME,
    FIELD_EXIT_TIME,
    FIELD_EXIT_CODE,
    FIELD_EXIT_INFERRED,
    FIELD_FINAL_TOTALS,
    FIELD_ORIGIN,
    FIELD_CPU_TIME_ORIGIN,
    FIELD_IMAGE,
    FIELD_COMMAND_LINE,
    FIELD_COMMAND_LINE_CUT,
    FIELD_PATH,      /* of the image loaded */
    FIELD_TEXT,      /* what an agent tells of itself */
    FIELD_INSTANCES, /* processes that the row stands for */
    FIELD_HOSTS,     /* that a group is of */
    FIELD_DEPTH,     /* in the tree */
    FIELD_DETAIL,    /* in tables only: the command line, the path or the text, whichever it has */
    FIELD_COUNT,
    FIELD_METRIC = 256, /* plus the metric's id */
};

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
void fields_add_metric(struct fields *f, unsigned id, bool in_table);
bool fields_has_metric(const struct fields *f, unsigned id);

/* f->n cells, borrowed from the answer. */
void fields_row(const struct fields *f, struct table_cell *cells, const struct wire_answer *a,
                const struct wire_row *row);
void fields_event(const struct fields *f, struct table_cell *cells, const struct wire_answer *a,
                  const struct wire_event *event);

/* Bits of the kinds that every --kind names, a list with commas each; "process", "thread", "image"
 * and "all" included. 0 without one. Errors: ERR_USAGE */
NODISCARD enum err fields_kinds_given(uint32_t *bits, const struct cli *c, struct errmsg *why);

/* A metric by name, with a suggestion when there is none. Only columns and cpu_percent can be asked
 * for. Errors: ERR_USAGE */
NODISCARD enum err fields_metric(uint8_t *id, const char *name, struct errmsg *why);

/* The sets of words that the commands' options take: METRIC, KIND. */
extern const struct opt_set fields_sets[];

#endif
