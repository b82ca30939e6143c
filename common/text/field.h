/* The facts that rows and events of an answer hold: under which key and title each stands, and its
 * cell. What the command line prints and what the console's API answers come from here, so that
 * they are the same. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_TEXT_FIELD_H
#define PROCFLEET_COMMON_TEXT_FIELD_H

#include "common/os/uuid.h"
#include "common/text/table.h"
#include "common/wire/wire_query.h"

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
    FIELD_PATH,        /* of the image loaded */
    FIELD_TEXT,        /* what an agent tells of itself */
    FIELD_INSTANCES,   /* processes that the row stands for */
    FIELD_HOSTS,       /* that a group is of */
    FIELD_DEPTH,       /* in the tree */
    FIELD_PER_HOUR,    /* of Top by growth: in the unit of its first metric, */
    FIELD_STEADY,      /* and the share of parts that rose */
    FIELD_ENDED,       /* how it ended: SIGSEGV, ACCESS_VIOLATION, exit 3 */
    FIELD_KIND_OF_END, /* error, killed, crash */
    FIELD_LIVED,
    FIELD_ANCESTORS, /* of an event's process: the parent first */
    FIELD_PROVIDER,  /* of its events: name, */
    FIELD_GUID,
    FIELD_EVENT_ID,
    FIELD_VERSION,
    FIELD_LEVEL,
    FIELD_TASK,
    FIELD_EVENT,    /* its name */
    FIELD_VALUES,   /* its values as a JSON object */
    FIELD_CUT,      /* some had no room */
    FIELD_REDACTED, /* some were hidden on the host */
    FIELD_DETAIL,   /* in tables only: command line, path, text or values, whichever it has */
    FIELD_COUNT,
    FIELD_METRIC = 256, /* plus the metric's id */
};

/* Its key in JSON and CSV, its title in tables; not of FIELD_METRIC and beyond. */
const struct table_column *field_column(enum field what);

/* Cells, borrowed from the answer. what: enum field, or FIELD_METRIC + id */
struct table_cell field_of_row(int what, const struct wire_answer *a, const struct wire_row *row);

/* What the cells of an event are written into that are no text yet; until the next event's. */
struct field_room {
    struct buf values, detail;
    char guid[UUID_TEXT];
};
void field_room_init(struct field_room *r);
void field_room_fini(struct field_room *r);
struct table_cell field_of_event(int what, const struct wire_answer *a,
                                 const struct wire_event *event, struct field_room *room);

/* -- words of questions -- */

/* Bits of the kinds of a list with commas; "process", "thread", "image" and "all" included.
 * Errors: ERR_USAGE */
NODISCARD enum err field_kinds(uint32_t *bits, const char *list, struct errmsg *why);

/* A kind's name, as FIELD_KIND has it; NULL: unknown. */
const char *field_kind_name(unsigned life_kind);

/* The i-th of the words that field_kinds takes, NULL after the last. */
const char *field_kind_word(size_t i);

/* "process_start" and so on, NULL at the end. */
extern const char *const field_kind_names[];

/* A metric by name, with a suggestion when there is none. Only columns and cpu_percent can be asked
 * for. Errors: ERR_USAGE */
NODISCARD enum err field_metric(uint8_t *id, const char *name, struct errmsg *why);

#endif
