/* Which instance of a pid a record, or the row of a table, means: look-ups in the process table.
 * All return NULL if there is none. Threads: the table's owner. */
#ifndef PROCFLEET_AGENT_PROCESS_LIFECYCLE_MATCH_H
#define PROCFLEET_AGENT_PROCESS_LIFECYCLE_MATCH_H

#include "agent/process/instances.h"
#include "agent/source/event.h"

#define LIFECYCLE_WAIT_NS 2000000000LL

/* btime of a Linux system is known to the second only, and so is what creation times rest on. */
#define LIFECYCLE_CREATE_SLACK_NS (2 * CLK_S)

/* Providers that tell of starts and ends; instance.life.start_half and .stop_half are sets. */
enum { LIFECYCLE_CLASSIC = 1, LIFECYCLE_MANIFEST = 2, LIFECYCLE_BOTH = 3 };

/* The instance of that id, or of that exact start. */
struct instance *lifecycle_match_id(const struct instances *t, struct proc_id id);

/* The instance of the pid whose start has that number (not 0) on this boot. */
struct instance *lifecycle_match_sequence(const struct instances *t, uint32_t pid,
                                          uint64_t sequence);

/* The instance whose start was told of by a table or the other provider; `exact` = info's, mono_ns
 * = the record's stamp. */
struct instance *lifecycle_match_start(const struct instances *t, const struct proc_info *info,
                                       uint8_t half, bool exact, int64_t mono_ns);

/* The instance an exact manifest record means: by identity, or the one whose creation is not known
 * exactly and fits best. */
struct instance *lifecycle_match_record(const struct instances *t, const struct proc_info *info);

/* The instance a row of a table, read at mono_ns, means that nobody has by its id: the owner of the
 * pid, or one that has ended and is listed still. */
struct instance *lifecycle_match_row(const struct instances *t, const struct proc_info *info,
                                     int64_t mono_ns);

/* The instance whose end a record without id tells of. */
struct instance *lifecycle_match_stop(const struct instances *t, const struct event *ev);

#endif
