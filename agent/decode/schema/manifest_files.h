/* Manifests that were given: files, and directories of them (.man, .xml,
 * .manifest, and programs with the resource WEVT_TEMPLATE: .dll, .exe, .sys, .mui). At first only
 * the GUIDs of their providers are read; a manifest is read as a whole when one of its
 * providers is met, and kept until one of another file is.
 * Bounds:  MANIFEST_FILES_FILES files, MANIFEST_FILES_PROVIDERS providers, ETW_MANIFEST_FILE_MAX
 *          bytes a file; directories are not descended into. What has no room is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_MANIFEST_FILES_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_MANIFEST_FILES_H

#include "agent/decode/schema/etw_manifest.h"

#define MANIFEST_FILES_FILES     4096
#define MANIFEST_FILES_PROVIDERS 8192

struct manifest_files;

NODISCARD enum err manifest_files_create(struct manifest_files **out);
void manifest_files_destroy(struct manifest_files *ms); /* NULL is allowed */

/* Adds a file, or what lies in a directory; `key` is what named it, for `why`. A file that is given
 * by name must be a manifest; in a directory others are passed over. Errors: ERR_NOTFOUND,
 * ERR_ACCESS, ERR_IO, ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_UNSUPPORTED (no reader of XML) */
NODISCARD enum err manifest_files_add(struct manifest_files *ms, const char *key, const char *path,
                                      struct errmsg *why);

/* Puts what the manifests say of the provider, the first one that names it; it is called `name`
 * where they do not say. Errors: ERR_NOTFOUND (none does), ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_IO
 */
NODISCARD enum err manifest_files_put(struct manifest_files *ms, struct schema *s,
                                      const uint8_t guid[16], struct str name);

struct manifest_files_counts {
    uint64_t files, providers, damaged, no_room;
};
void manifest_files_stats(const struct manifest_files *ms, struct manifest_files_counts *out);

#endif
