/* Between the head's own files. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_IMPL_H

#include "collector/store/memtable/head.h"

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

/* Hot forms of batches that came one after the other, filled in place as chunks are. */
#define HEAD_RECENT 4u

struct head_recent {
    atomic_uint refs;
    uint32_t n;          /* the writer's; readers use their snap's */
    int64_t received_ns; /* of the newest */
    size_t bytes;
    struct recent_columns *at[HEAD_RECENT];
};

/* The host's, oldest first; all but the last are full. */
struct head_recents {
    uint64_t first; /* number of the first one's first, from 1 */
    size_t n, cap, bytes;
    struct head_recent **at;
    int64_t newest_ns; /* arrival */
};

/* The same as readers see it. */
struct head_hots {
    uint64_t first, n; /* hot forms */
    size_t n_at;
    struct head_recent *at[];
};

struct head_snap {
    atomic_uint refs;
    struct head_seen seen;
    struct seqset_counts *counts; /* NULL: nothing arrived since opening */
    struct head_infos_snap *infos;
    struct head_hots *hots; /* NULL: none */
    size_t n;
    struct head_part parts[];
};

struct head_state {
    atomic_uint refs;
    size_t n;
    struct head_snap *snaps[];
};

struct head_host {
    struct head_seen seen;
    struct seqset_counts *counts;
    struct head_infos *infos;
    uint64_t bytes;                           /* of its batches */
    uint64_t info_bytes, info_gone, info_cut; /* of it, as counted in the head's */
    int64_t made_ns;            /* of the batch that `boot`, `flags` and `last_ns` are from */
    int64_t sealed_first_ns;    /* oldest stamp of what is sealed; INT64_MAX: nothing is */
    struct head_chunk **chunks; /* in the order of their making */
    struct head_chunk *open;    /* reserved for the next batch */
    size_t n, cap;
    struct head_recents recents;
    bool changed;
    struct head_snap *snap; /* as last built; NULL at first */
};

struct head {
    struct head_conf conf;
    struct head_host **hosts; /* by id */
    struct head_host **named; /* the same by name, then id */
    size_t n, cap;
    bool changed, reorder;
    struct head_stats stats;
    int64_t newest_ns;       /* arrival */
    struct head_state *next; /* built, not published */
    struct os_mutex *lock;   /* guards `state`, the pointer */
    struct head_state *state;
};

void head_chunk_unref(struct head_chunk *c); /* NULL is allowed */
void head_chunk_ref(struct head_chunk *c);
struct head_host *head_host_find(const struct head *h, const struct uuid *id); /* NULL: none */
/* Its batches are so many bytes now; whoever admits further ones is told. */
void head_host_bytes(struct head *h, struct head_host *host, uint64_t bytes);
void head_host_counts(struct head_host *host, struct seqset_counts *counts); /* moved */
NODISCARD enum err head_host_get(struct head *h, struct head_host **out, const struct uuid *id);

/* -- head_recent.c -- */

/* Lets go of those of a host from which nothing came for long; true: something changed. */
bool head_recents_rest(struct head *h, struct head_host *host);
void head_recents_fini(struct head *h, struct head_host *host);
/* What readers get; NULL: none, or no memory. */
struct head_hots *head_hots_create(const struct head_recents *r);
void head_hots_destroy(struct head_hots *hots); /* NULL is allowed */

#endif
