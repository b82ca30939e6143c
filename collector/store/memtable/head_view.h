/* What the head publishes for readers: a state that never changes. Threads: any, each with a
 * reference. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_VIEW_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_VIEW_H

#include <stdatomic.h>

#include "collector/store/dedup.h"
#include "collector/store/memtable/head_batch.h"
#include "collector/store/memtable/head_info.h"
#include "collector/store/memtable/recent_columns.h"

#define HEAD_CHUNK        16u
#define HEAD_CHUNK_MEMORY (16u << 20) /* decoded; one batch may be more */

struct head_state;

/* One host in a state. Plain data, valid until release. */
struct head_seen {
    struct uuid id, boot;
    char name[MODEL_HOST_NAME_MAX + 1];
    char source[32];
    uint32_t flags, cpus;
    int64_t first_ns; /* oldest stamp, of what is sealed too */
    int64_t last_ns;  /* newest stamp of what was made last */
    bool has_alive;   /* a tick has that stamp, and came since opening: */
    uint32_t alive;   /* processes in it, the idle one not counted */
    int64_t received_ns;
    struct host_offset clock;          /* of what was made last */
    uint64_t batches;                  /* ever appended */
    uint64_t lost_events;              /* by their ledgers */
    uint64_t held, too_old, no_room;   /* of the batches: here, sealed or not; dropped by age, by
                                           size */
    const struct dedup_counts *counts; /* NULL: nothing arrived since opening */
    const struct head_infos_snap *infos;
};

void head_view_release(struct head_state *s); /* NULL is allowed */

size_t head_view_hosts(const struct head_state *s);
const struct head_seen *head_view_host(const struct head_state *s, size_t i); /* by name, id */

/* Its place; head_view_hosts when it is not there under this name. */
size_t head_view_find(const struct head_state *s, const char *name, const struct uuid *id);

/* Looks through the host's batches, the newest arrivals first; NULL when none is this one. */
const struct head_batch *head_view_batch(const struct head_state *s, size_t host, uint64_t stream,
                                         uint64_t seq);

/* Of one of the host's batches; NULL: decode it. Valid until release. */
const struct recent_columns *head_view_hot(const struct head_state *s, size_t host,
                                           const struct head_batch *b);

/* The batches whose span meets [since, until), oldest first; *list is the caller's (mem_free), the
 * batches are valid until release. Errors: ERR_NOMEM */
NODISCARD enum err head_view_batches(const struct head_state *s, size_t host, int64_t since_ns,
                                     int64_t until_ns, const struct head_batch ***list, size_t *n);

/* -- within the folder: what a state is made of -- */

/* Batches of one window. */
struct head_chunk {
    atomic_uint refs;
    uint32_t n;  /* the writer's; readers use their snap's */
    bool closed; /* taken for sealing: nothing is added any more */
    int64_t window_ns;
    int64_t received_ns;    /* of the first */
    uint64_t bytes, memory; /* encoded; decoded */
    uint64_t lost;          /* events, by the ledgers of its batches */
    int64_t t0_ns;
    struct head_batch *at[HEAD_CHUNK];
};

struct head_part {
    struct head_chunk *chunk;
    uint32_t n; /* batches of it that count */
};

struct head_snap {
    atomic_uint refs;
    struct head_seen seen;
    struct dedup_counts *counts; /* NULL: nothing arrived since opening */
    struct head_infos_snap *infos;
    struct recent_columns_view *hots; /* NULL: none */
    size_t n;
    struct head_part parts[];
};

struct head_state {
    atomic_uint refs;
    size_t n;
    struct head_snap *snaps[];
};

void head_view_chunk_unref(struct head_chunk *c); /* NULL is allowed */
void head_view_chunk_ref(struct head_chunk *c);
void head_view_snap_unref(struct head_snap *s); /* NULL is allowed */

#endif
