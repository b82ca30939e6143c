/* What a recording says of .NET's runtimes: sums for each process, and the list that was asked for.
 * Counted event by event during a walk, read by the printer in etl_clr.c. Plain data.
 * Bounds: the limits below, together less than 12 MiB; what has no room is counted and goes into
 * the sums all the same. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_CLR_FIGURES_H
#define PROCFLEET_AGENT_ETL_ETL_CLR_FIGURES_H

#include "agent/clr/clr.h"
#include "agent/etl/etl_range.h"
#include "common/base/arena.h"
#include "common/base/map.h"

#define ETL_CLR_PROCESSES_MAX 1024 /* the last one stands for all that have no room */
#define ETL_CLR_ITEMS_MAX     40960
#define ETL_CLR_GROUPS_MAX    4096
#define ETL_CLR_TEXTS_MAX     (3u << 20) /* bytes, UTF-16 */
#define ETL_CLR_GENERATIONS   3

enum etl_clr_list {
    ETL_CLR_PROCESSES,
    ETL_CLR_GC,
    ETL_CLR_PAUSES,
    ETL_CLR_JIT,
    ETL_CLR_EXCEPTIONS,
    ETL_CLR_ALLOC,
    ETL_CLR_THREADPOOL,
    ETL_CLR_CONTENTION,
    ETL_CLR_RUNTIMES,
    ETL_CLR_EVENTS,
    ETL_CLR_LISTS,
};

struct etl_clr_spans {
    uint64_t n, ns, longest_ns;
    int64_t longest_at_ns; /* UTC of the longest one's begin */
};

struct etl_clr_process {
    const struct instance *owner; /* NULL: not known, or `rest` */
    uint32_t pid;
    bool rest;
    uint8_t pointer_size;
    uint16_t runtimes[CLR_OF_PROCESS];
    uint32_t last[CLR_OF_PROCESS];    /* item about that runtime, plus one */
    uint32_t trigger[CLR_OF_PROCESS]; /* reason of the collection to come, plus one */
    size_t n_runtimes;
    uint64_t n[CLR_OP_COUNT]; /* events */
    uint64_t gcs, repeated, unstarted, generations[ETL_CLR_GENERATIONS];
    struct etl_clr_spans gc, suspended, paused, jit;
    struct etl_clr_spans contended; /* for managed locks */
    uint64_t replaced, unsuspended; /* suspensions without an end; restarts without a begin */
    struct ev_clr heap;             /* the last one */
    uint64_t heap_largest;
    uint64_t alloc_bytes;
    uint64_t jitted, dynamic, plain; /* of the loads: as flags say; without names */
    uint64_t contentions, starvations, finalized;
};

/* A collection, a pause, a compilation, a change of the thread pool, or a runtime. */
struct etl_clr_item {
    uint32_t process;  /* index */
    uint32_t previous; /* about the same runtime, plus one */
    uint32_t tid;
    uint16_t instance;
    bool ended, has_heap, has_pause;
    uint32_t count, generation, reason, type, flags;
    uint32_t trigger; /* plus one */
    int64_t begin_ns; /* UTC */
    int64_t took_ns;
    union {
        struct {
            int64_t pause_ns;
            uint64_t heap_bytes, promoted;
        } gc;
        uint16_t versions[CLR_VERSIONS];
        double throughput;
    } u;
    struct ev_clr_text text[2]; /* in the arena */
};

/* A type, an exception, a kind of lock or of record: how often, how much. */
struct etl_clr_group {
    uint32_t process;
    bool rest;               /* of all that have no room */
    uint64_t key;            /* beside the text: HRESULT, flags, id and version */
    struct ev_clr_text text; /* in the arena */
    uint64_t n, bytes, measured_ns, paired;
    uint64_t large, large_bytes; /* of them, for large objects */
    struct etl_clr_spans spans;
    int64_t first_ns, last_ns; /* UTC */
};

struct etl_clr_figures {
    const struct etl_walk *walk; /* set by the caller before the first record */
    enum etl_clr_list list;
    struct etl_range *range; /* borrowed */
    struct clr *clr;
    struct arena texts;
    struct etl_clr_process *processes;
    size_t n_processes, cap_processes;
    struct map by_owner;
    struct etl_clr_item *items;
    size_t n_items, cap_items;
    struct etl_clr_group *groups;
    size_t n_groups, cap_groups;
    struct map by_key;
    uint64_t seed;
    uint64_t n[CLR_OP_COUNT]; /* events of all processes */
    uint64_t records;         /* of the runtime's provider */
    uint64_t undecodable;
    uint64_t over_limits; /* rows that had no room */
    enum err failed;      /* out of memory */
};

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_clr_figures_create(struct etl_clr_figures **out, enum etl_clr_list list,
                                          struct etl_range *range);
void etl_clr_figures_destroy(struct etl_clr_figures *f); /* NULL is allowed */

void etl_clr_figures_record(struct etl_clr_figures *f, const struct etl_walk_record *r);
void etl_clr_figures_fact(struct etl_clr_figures *f, const struct event *ev);

/* Providers whose records etl_clr_figures counts by id: "runtime", "rundown", "private". */
const char *etl_clr_figures_provider(uint64_t key);

#endif
