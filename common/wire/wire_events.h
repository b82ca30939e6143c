/* The part of questions and subscriptions that chooses events of providers, and the filter. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_EVENTS_H
#define PROCFLEET_COMMON_WIRE_WIRE_EVENTS_H

#include <stdbool.h>

#include "common/base/str.h"

#define WIRE_ANCESTORS 16u /* of an event's process */

/* Of rules, whose answers are events: notices. */
#define RPC_QUERY_RULES      "procfleet.v1.Query/Rules"
#define RPC_QUERY_RULES_TEST "procfleet.v1.Query/RulesTest"
#define WIRE_RULES_MAX       (256u << 10)
#define WIRE_RULES_CHECK     1u /* of wire_query.rules_ask */
#define WIRE_RULES_FIRING    2u
#define WIRE_RULES_TOLD      4u

/* Which events of providers; with any of the first two no others. Empty: any. */
struct wire_events {
    struct str provider; /* glob on its name, or its GUID */
    struct str event;    /* its id, or a glob on its name, task or "task/name" */
    struct str where;    /* expression; values are field.NAME. In questions of any kind of rows */
};
#define WIRE_WHERE_MAX 1024u /* bytes */

static inline bool wire_events_named(const struct wire_events *e)
{
    return e->provider.n || e->event.n;
}

#endif
