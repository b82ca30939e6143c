/* The overview of an answer: the fleet and what the collector keeps of it. Plain data, coded in
 * wire_answer.c. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_OVERVIEW_H
#define PROCFLEET_COMMON_WIRE_WIRE_OVERVIEW_H

#include "common/wire/wire_query.h"

#define WIRE_TIERS_MAX 8u

/* What one kind of segment takes. */
struct wire_tier_room {
    struct str name; /* "raw", "10s", "1min", "1h", "events" */
    uint64_t files, bytes, values;
    uint64_t share_bytes;                /* what it may take; 0 = as much as there is */
    int64_t age_ns;                      /* what it may reach; 0 = any */
    int64_t oldest_ns;                   /* UTC; 0 = none */
    uint64_t dropped_age, dropped_bytes; /* files, since the collector's start */
};

struct wire_overview {
    int64_t now_ns; /* the collector's clock, UTC */
    uint32_t hosts, connected, silent, ended, revoked, clones;
    uint64_t processes, cpus;
    uint64_t batches, gaps, lost_events; /* since the collector's start */
    int64_t first_ns, last_ns;           /* oldest and newest data; 0 = none */
    size_t n_tiers;
    const struct wire_tier_room *tiers;
    uint64_t head_bytes, log_bytes, catalogue_bytes;
    uint64_t total_bytes, ceiling_bytes; /* on disk; 0 = no ceiling */
    uint64_t disk_free, disk_total;
    bool refusing;      /* the disk is all but full: agents are told to wait */
    uint32_t next_tier; /* index into tiers + 1 of what is dropped next; 0 = nothing in sight */
    int64_t next_window_ns, next_in_ns;
    uint64_t sealed_windows, patches, seal_failures;
    int64_t sealed_ns; /* end of the newest sealed window, UTC; 0 = none */
};

#endif
