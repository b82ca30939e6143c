/* Manifests that were given: files, and directories of them (.man, .xml,
 * .manifest, and programs with the resource WEVT_TEMPLATE: .dll, .exe, .sys, .mui). At first only
 * the GUIDs of their providers are read; a manifest is read as a whole when a recording holds
 * one of its providers.
 * Bounds:  ETL_MANIFESTS_FILES files, ETL_MANIFESTS_PROVIDERS providers, ETW_MANIFEST_FILE_MAX
 *          bytes a file; directories are not descended into. What has no room is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_SCHEMA_ETL_MANIFESTS_H
#define PROCFLEET_AGENT_ETL_SCHEMA_ETL_MANIFESTS_H

#include "agent/decode/schema/etw_manifest.h"

#define ETL_MANIFESTS_FILES     4096
#define ETL_MANIFESTS_PROVIDERS 8192

struct etl_manifests;

NODISCARD enum err etl_manifests_create(struct etl_manifests **out);
void etl_manifests_destroy(struct etl_manifests *ms); /* NULL is allowed */

/* Adds a file, or what lies in a directory. A file given by name must be a manifest; in a directory
 * others are passed over. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_IO, ERR_CORRUPT, ERR_FULL,
 * ERR_NOMEM, ERR_UNSUPPORTED (this build reads no XML) */
NODISCARD enum err etl_manifests_add(struct etl_manifests *ms, const char *path,
                                     struct errmsg *why);

/* Puts what the manifests say of the provider, the first one that names it. Errors: ERR_NOTFOUND
 * (none does), ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_IO */
NODISCARD enum err etl_manifests_put(struct etl_manifests *ms, struct schema *s,
                                     const uint8_t guid[16]);

struct etl_manifests_counts {
    uint64_t files, providers, damaged, no_room;
};
void etl_manifests_stats(const struct etl_manifests *ms, struct etl_manifests_counts *out);

#endif
