/* The part of questions and subscriptions that chooses events of providers, and the filter. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_EVENTS_H
#define PROCFLEET_COMMON_WIRE_WIRE_EVENTS_H

#include <stdbool.h>

#include "common/base/str.h"

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
