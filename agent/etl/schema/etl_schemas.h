/* Where schemas come from that a recording does not bring along: manifests that were given, then
 * the program's own tables. What a recording holds itself goes before both. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_SCHEMA_ETL_SCHEMAS_H
#define PROCFLEET_AGENT_ETL_SCHEMA_ETL_SCHEMAS_H

#include "agent/decode/schema/manifest_files.h"

struct etl_schemas {
    struct manifest_files *manifests; /* owned by the caller; NULL: none were given */
};

/* As describe_conf.more, with a struct etl_schemas as ctx. */
void etl_schemas_more(void *ctx, struct schema *s, const uint8_t guid[16]);

#endif
