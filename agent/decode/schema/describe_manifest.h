/* EventSource manifests: every provider of that kind logs an XML description of its events, in one
 * or several records (chunks). Chunks of one manifest share provider, process and thread and come
 * in order; a gap or another order is damage and drops what came before.
 * Bounds:  ETW_MANIFEST_XML_MAX bytes each, MANIFEST_OPEN_MAX manifests half told and
 *          MANIFEST_OPEN_BYTES of them at a time; the oldest goes first.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_MANIFEST_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_MANIFEST_H

#include "agent/decode/layout.h"
#include "agent/decode/schema/etw_manifest.h"
#include "common/base/buf.h"

#define MANIFEST_OPEN_MAX   16
#define MANIFEST_OPEN_BYTES ((size_t)8 << 20)

struct manifest_open {
    uint8_t guid[16];
    uint32_t pid, tid;
    uint16_t total, next; /* chunks; total 0 = free */
    uint64_t age;         /* larger is younger */
    struct buf xml;
};

struct manifests {
    struct manifest_open open[MANIFEST_OPEN_MAX];
    uint64_t age;
    size_t bytes; /* of all open ones */
    struct etw_manifest manifest;
};

void describe_manifest_init(struct manifests *ms);
void describe_manifest_fini(struct manifests *ms);

bool describe_manifest_is(const struct raw_event *raw);

/* What such a record holds. */
extern const struct layout manifest_layout;

/* Takes a chunk; with the last one the manifest's events go to `s`, *events of them new. *broken =
 * manifests given up because of this chunk.
 * Errors: ERR_CORRUPT (this manifest), ERR_FULL, ERR_NOMEM, ERR_UNSUPPORTED (without expat) */
NODISCARD enum err describe_manifest_learn(struct manifests *ms, struct schema *s,
                                           const struct raw_event *raw, uint64_t *events,
                                           uint64_t *broken);

/* Manifests of which the end is still to come. */
size_t describe_manifest_open(const struct manifests *ms);

#endif
