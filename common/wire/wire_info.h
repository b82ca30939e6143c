/* Process instances and lifecycle events to and from their messages. Private to the folder.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_INFO_H
#define PROCFLEET_COMMON_WIRE_WIRE_INFO_H

#include "common/wire/wire.h"
#include "proto/telemetry.pb-c.h"

/* Text is borrowed from `in` where it needs no mending. Errors: ERR_NOMEM */
NODISCARD enum err wire_info_put(Procfleet__V1__ProcInfo *out, const struct proc_info *in,
                                 struct wire_arena *a);
/* The types of a message's events: what put_events finds, get_events is given. */
struct wire_info_types {
    size_t n, max;
    const struct event_type **list; /* borrowed from the events, or made by wire_info_types_get */
};

/* An event's type is added to the list where it is new. Errors: ERR_FULL (more than max), ERR_NOMEM
 */
NODISCARD enum err wire_info_event_put(Procfleet__V1__LifeEvent *out, const struct life_event *in,
                                       struct wire_info_types *types, struct wire_arena *a);
NODISCARD enum err wire_info_types_put(Procfleet__V1__EventType ***out, size_t *n,
                                       const struct wire_info_types *types, struct wire_arena *a);

/* The field `flags`. */
uint32_t wire_info_flags(const struct proc_info *in);

/* Text of the result lives as long as `in`; NULL is taken as an empty message.
 * Errors: ERR_CORRUPT */
NODISCARD enum err wire_info_get(struct proc_info *out, const Procfleet__V1__ProcInfo *in);
NODISCARD enum err wire_info_event_get(struct life_event *out, const Procfleet__V1__LifeEvent *in,
                                       const struct wire_info_types *types);
/* Memory of what wire_info_types_get makes of them. */
size_t wire_info_types_bytes(Procfleet__V1__EventType *const *in, size_t n);
/* Errors: ERR_CORRUPT, ERR_FULL (more than max), ERR_NOMEM */
NODISCARD enum err wire_info_types_get(struct wire_info_types *types,
                                       Procfleet__V1__EventType *const *in, size_t n,
                                       struct wire_arena *a);

#endif
