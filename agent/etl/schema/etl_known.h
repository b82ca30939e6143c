/* What the program knows of providers whose recordings do not describe their events: layouts and
 * names of events of the CLR and of some of Windows' own providers, and the names of 941 providers.
 * Both are texts made by scripts/known-schemas and taken in as they are; of a provider that a
 * recording holds, its part is read once. Threads: any; the texts are constant. */
#ifndef PROCFLEET_AGENT_ETL_SCHEMA_ETL_KNOWN_H
#define PROCFLEET_AGENT_ETL_SCHEMA_ETL_KNOWN_H

#include "agent/decode/schema/etw_manifest.h"

/* Puts the provider's events and maps, as far as they are not known yet. Errors: ERR_NOTFOUND (it
 * is not among the tables), ERR_FULL, ERR_NOMEM */
NODISCARD enum err etl_known_put(struct schema *s, const uint8_t guid[16]);

/* The i-th provider that has events here; false behind the last. */
bool etl_known_provider(size_t i, uint8_t guid[16]);

/* Its name, of the list; empty when it is not there. Valid for good. */
struct str etl_known_name(const uint8_t guid[16]);

#endif
