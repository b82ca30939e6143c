/* Where the looks of events come from that neither records nor the stream describe, in this order:
 * manifests that were given, the system (Windows: TDH, which knows the registered providers of this
 * host), the tables of the program.
 * Bounds:  those of manifest_files.h; providers are remembered up to SCHEMA_ITEMS_MAX, later ones
 *          are known to the system only. It may take long: it reads files, the system its own.
 * Threads: one at a time, whichever. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_SCHEMA_SOURCE_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_SCHEMA_SOURCE_H

#include "agent/decode/schema/schema.h"

struct schema_source;

/* key, path  a manifest or a directory of them, and the setting that names it; "" = none
 * system     whether the system of this host is asked: of its own events, not of recordings'
 * Errors:    those of manifest_files_add */
NODISCARD enum err schema_source_open(struct schema_source **out, const char *key, const char *path,
                                      bool system, struct errmsg *why);
void schema_source_close(struct schema_source *ss); /* NULL is allowed */

/* Puts what is known of the event, and more of its provider where it comes along. Only the record's
 * head is looked at. `ctx` is a schema_source. */
void schema_source_put(void *ctx, struct schema *s, const struct raw_event *raw);

#endif
