/* What the parts of 'procfleet tail' share: the filters, the lines, and the two ways of following.
 * Threads: one; `stop` is set by another. */
#ifndef PROCFLEET_COLLECTOR_CLI_TAIL_H
#define PROCFLEET_COLLECTOR_CLI_TAIL_H

#include <stdatomic.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/fields.h"

#define TAIL_TOPIC_MAX (8u + MODEL_HOST_NAME_MAX)

struct tail_topic;

struct tail {
    struct cli *c;
    struct table *sheet;
    struct fields fields;
    struct wire_query q; /* the filters */
    bool samples;
    uint64_t left;  /* lines */
    uint64_t lines; /* printed */
    int64_t end_ns; /* monotonic; 0 = never */
    const atomic_bool *stop;

    /* tail_live.c */
    int64_t begun_ns; /* UTC */
    struct tail_topic *topics;
    struct cli_client *link; /* for what was missed; NULL until then */
    bool no_link;            /* it could not be made */
    uint64_t missed;         /* messages that stayed missing */
    bool away;               /* the connection is lost at the moment */
    bool was_away;           /* or was */
};

bool tail_over(const struct tail *t); /* told to stop, or out of time */

/* The columns. */
void tail_fields(struct tail *t);
/* Prints what is wanted of an update: events from `since_ns` on (INT64_MIN: any). Errors: ERR_END
 * (enough lines, or nobody reads them), ERR_NOMEM */
NODISCARD enum err tail_print(struct tail *t, const struct wire_update *u, int64_t since_ns);

/* Follow until told to stop, out of time or lines; give the exit code. */
int tail_live(struct tail *t);
/* name: of the durable subscription; NULL: none, from now on. */
int tail_poll(struct tail *t, const char *name, bool from_oldest);

#endif
