/* The names of 941 providers: a text made by scripts/known-schemas and taken in as it is.
 * Threads: any; the text is constant. */
#ifndef PROCFLEET_AGENT_ETL_SCHEMA_ETL_KNOWN_H
#define PROCFLEET_AGENT_ETL_SCHEMA_ETL_KNOWN_H

#include <stdint.h>

#include "common/base/str.h"

/* Its name, of the list; empty when it is not there. Valid for good. */
struct str etl_known_name(const uint8_t guid[16]);

#endif
