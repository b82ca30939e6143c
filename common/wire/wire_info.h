/* Process instances and lifecycle events to and from their messages. Private to the folder.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_INFO_H
#define PROCFLEET_COMMON_WIRE_WIRE_INFO_H

#include "common/wire/wire.h"
#include "proto/telemetry.pb-c.h"

/* Text is borrowed from `in` where it needs no mending. Errors: ERR_NOMEM */
NODISCARD enum err wire_info_put(Procfleet__V1__ProcInfo *out, const struct proc_info *in,
                                 struct wire_arena *a);
NODISCARD enum err wire_info_event_put(Procfleet__V1__LifeEvent *out, const struct life_event *in,
                                       struct wire_arena *a);
/* The field `flags`. */
uint32_t wire_info_flags(const struct proc_info *in);

/* Text of the result lives as long as `in`; NULL is taken as an empty message.
 * Errors: ERR_CORRUPT */
NODISCARD enum err wire_info_get(struct proc_info *out, const Procfleet__V1__ProcInfo *in);
NODISCARD enum err wire_info_event_get(struct life_event *out, const Procfleet__V1__LifeEvent *in);

#endif
