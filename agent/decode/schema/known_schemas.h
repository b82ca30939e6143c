/* What the program knows of providers whose events nobody describes: layouts and names of events of
 * the CLR and of some of Windows' own providers. A text made by scripts/known-schemas, compressed
 * by the build; of a provider that is met, its part is read once.
 * Bounds:  its 0.2 MB of memory from the first question on, for good. Threads: any. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_KNOWN_SCHEMAS_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_KNOWN_SCHEMAS_H

#include "agent/decode/schema/etw_manifest.h"

/* The text, with a NUL behind it. NULL: no memory. Valid for good. */
const char *known_schemas_text(void);

/* Puts the provider's events and maps, as far as they are not known yet. Errors: ERR_NOTFOUND (it
 * is not among the tables), ERR_FULL, ERR_NOMEM */
NODISCARD enum err known_schemas_put(struct schema *s, const uint8_t guid[16]);

/* The i-th provider that has events here; false behind the last. */
bool known_schemas_provider(size_t i, uint8_t guid[16]);

#endif
