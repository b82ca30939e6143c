/* Tables of members: a stage's counters become figures without a line of code each. What a figure
 * means is its help; docs/figures.md lists them all, which e2e_metrics compares. */
#include "collector/metrics/metrics.h"

#include <assert.h>
#include <stdio.h>

#include "collector/ingest/session.h"
#include "collector/store/store.h"
#include "common/base/clk.h"
#include "common/os/os.h"

struct member {
    const char *name, *help;
    enum metrics_kind kind;
    size_t at; /* of a uint64_t */
};

void metrics_add(struct figures *out, const char *name, const char *help, enum metrics_kind kind,
                 const char *labels, double value)
{
    struct figure *f = &out->all[out->n];

    assert(out->n < METRICS_MAX);
    if (out->n == METRICS_MAX) {
        return;
    }
    out->n++;
    f->name = name;
    f->help = help;
    f->kind = kind;
    f->value = value;
    (void)snprintf(f->labels, sizeof f->labels, "%s", labels);
}

static void add_members(struct figures *out, const void *stats, const struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *v = (const uint64_t *)(const void *)((const char *)stats + m[i].at);

        metrics_add(out, m[i].name, m[i].help, m[i].kind, "", (double)*v);
    }
}

static void gauge(struct figures *out, const char *name, const char *help, double value)
{
    metrics_add(out, name, help, METRICS_GAUGE, "", value);
}

static double seconds(int64_t ns)
{
    return (double)ns / (double)CLK_S;
}

/* -- the process -- */

static enum err count_one(void *ctx, const char *name)
{
    (void)name;
    ++*(unsigned *)ctx;
    return ERR_OK;
}

static unsigned entries(const char *dir)
{
    unsigned n = 0;

    err_ignore(os_list_dir(dir, count_one, &n));
    return n;
}

static void add_process(struct figures *out, int64_t started_ns)
{
    unsigned descriptors = entries("/proc/self/fd");

    metrics_add(out, "procfleet_build_info", "The collector's version.", METRICS_GAUGE,
                "version=\"" PROCFLEET_VERSION "\"", 1);
    gauge(out, "procfleet_start_time_seconds", "When the collector started, UTC since 1970.",
          seconds(started_ns));
    metrics_add(out, "procfleet_cpu_seconds_total", "CPU time of the collector, user and kernel.",
                METRICS_COUNTER, "", seconds(os_cpu_ns()));
    gauge(out, "procfleet_resident_bytes", "Resident memory of the collector.",
          (double)os_resident_bytes());
    gauge(out, "procfleet_resident_peak_bytes", "The most that it ever was.",
          (double)os_resident_peak());
    gauge(out, "procfleet_open_descriptors", "Open descriptors of the collector.",
          descriptors > 0 ? descriptors - 1 : 0); /* without the one that lists them */
    gauge(out, "procfleet_max_descriptors", "How many it may open.", (double)os_open_files_max());
    gauge(out, "procfleet_threads", "Threads of the collector.", entries("/proc/self/task"));
}

/* -- the store -- */

#define COUNTS(type, member, name, help)                           \
    {                                                              \
        name, help, METRICS_COUNTER, offsetof(struct type, member) \
    }
#define LEVEL(type, member, name, help)                          \
    {                                                            \
        name, help, METRICS_GAUGE, offsetof(struct type, member) \
    }

static const struct member store_members[] = {
    COUNTS(store_stats, batches, "procfleet_store_batches_total", "Batches made durable."),
    COUNTS(store_stats, bytes, "procfleet_store_batch_bytes_total", "Bytes of them, as they came."),
    COUNTS(store_stats, commits, "procfleet_store_commits_total",
           "Times that the log was brought to disk."),
    COUNTS(store_stats, duplicates, "procfleet_store_duplicates_total",
           "Batches that were there already."),
    COUNTS(store_stats, too_old, "procfleet_store_too_old_total",
           "Batches refused for being older than accept_age."),
    COUNTS(store_stats, refused, "procfleet_store_no_room_total",
           "Batches refused for want of room: their agents wait."),
    COUNTS(store_stats, dropped_batches, "procfleet_store_dropped_batches_total",
           "Batches that retention dropped."),
    COUNTS(store_stats, recovered_batches, "procfleet_store_recovered_batches_total",
           "Batches read back from the log at the start."),
    COUNTS(store_stats, recovered_sealed, "procfleet_store_recovered_sealed_total",
           "Batches that the log still had but segments too."),
    COUNTS(store_stats, recovered_bytes, "procfleet_store_recovered_bytes_total",
           "Bytes of the log and its indexes read at the start."),
    COUNTS(store_stats, torn_bytes, "procfleet_store_torn_bytes_total",
           "Bytes cut off the log's end at the start: never acknowledged."),
    COUNTS(store_stats, bad_records, "procfleet_store_bad_records_total",
           "Places of the log that could not be read at the start."),
    LEVEL(store_stats, aside_files, "procfleet_store_log_aside_files",
          "Files of the log set aside at this start or before, as nothing in them can be read."),
    COUNTS(store_stats, lost_batches, "procfleet_store_lost_batches_total",
           "Batches that the log knows of but had lost to damage, at the start or when sealed."),
    COUNTS(store_stats, unindexed, "procfleet_store_log_unindexed_total",
           "Files of the log finished without an index: the next start reads all of them."),
    COUNTS(store_stats, unreadable_segments, "procfleet_store_unreadable_segments_total",
           "Segments that could not be read at the start."),
    COUNTS(store_stats, forgotten_streams, "procfleet_store_forgotten_streams_total",
           "Streams no longer remembered, for want of room."),
    COUNTS(store_stats, closed_holes, "procfleet_store_closed_holes_total",
           "Holes in sequences no longer remembered, for want of room."),
    LEVEL(store_stats, head_bytes, "procfleet_store_head_bytes",
          "Encoded batches not sealed yet, in memory or left in the log by a start."),
    LEVEL(store_stats, head_batches, "procfleet_store_head_batches", "How many that is."),
    LEVEL(store_stats, hot_bytes, "procfleet_store_hot_bytes",
          "Columns of recent batches kept ready for questions about the last minute."),
    COUNTS(store_stats, hot_left_out, "procfleet_store_hot_left_out_total",
           "Batches without them, for want of room: questions unpack the batch."),
    LEVEL(store_stats, info_bytes, "procfleet_store_process_bytes",
          "Names, command lines and lives of processes in memory."),
    COUNTS(store_stats, info_gone, "procfleet_store_process_gone_total",
           "Processes no longer in memory, for want of room: the catalogue on disk has them."),
    COUNTS(store_stats, info_cut, "procfleet_store_process_cut_total",
           "Times that the long command lines and paths of a host were cut in memory."),
    LEVEL(store_stats, log_files, "procfleet_store_log_files", "Files of the log."),
    LEVEL(store_stats, log_bytes, "procfleet_store_log_bytes", "Bytes of the log."),
    COUNTS(store_stats, unread_batches, "procfleet_store_unread_batches_total",
           "Times that a question could not read a batch of the log: left out of the answer."),
    COUNTS(store_stats, unread_values, "procfleet_store_unread_windows_total",
           "Times that it could not read a host's window of a segment, or open a segment."),
    COUNTS(store_stats, unread_names, "procfleet_store_unread_names_total",
           "Times that it could not read names or lives from the catalogue."),
};

static void add_store(struct figures *out, const struct metrics_env *env)
{
    struct store_stats s;

    store_stats(env->store, &s);
    gauge(out, "procfleet_store_hosts", "Hosts with data, without those that are forgotten.",
          (double)env->hosts);
    gauge(out, "procfleet_store_forgotten_hosts", "Hosts with data that are forgotten.",
          s.hosts > env->hosts ? (double)(s.hosts - env->hosts) : 0);
    add_members(out, &s, store_members, sizeof store_members / sizeof *store_members);
    gauge(out, "procfleet_store_failed", "1: the log failed, nothing is accepted until a restart.",
          s.failed);
    gauge(out, "procfleet_store_no_space",
          "1: the disk has no room for the log, batches are refused until it has.", s.no_space);
    gauge(out, "procfleet_store_no_catalogue", "1: the catalogue could not be opened.",
          s.no_catalogue);
    gauge(out, "procfleet_store_lost_hosts_file",
          "1: the file of hosts was damaged, hosts are what segments say.", s.lost_hosts_file);
}

/* -- its room on disk, by tier -- */

enum tier_figure { FILES, BYTES, VALUES, SHARE, AGE, OLDEST, DROPPED_AGE, DROPPED_BYTES };

static const struct {
    const char *name, *help;
    enum metrics_kind kind;
} tier_figures[] = {
    [FILES] = {"procfleet_tier_files", "Segments.", METRICS_GAUGE},
    [BYTES] = {"procfleet_tier_bytes", "Bytes of them.", METRICS_GAUGE},
    [VALUES] = {"procfleet_tier_values", "Samples, points or events inside.", METRICS_GAUGE},
    [SHARE] = {"procfleet_tier_share_bytes", "Bytes that the tier may take.", METRICS_GAUGE},
    [AGE] = {"procfleet_tier_age_seconds", "Age that its data may reach.", METRICS_GAUGE},
    [OLDEST] = {"procfleet_tier_oldest_timestamp_seconds",
                "Begin of its oldest window, UTC since 1970; 0: there is none.", METRICS_GAUGE},
    [DROPPED_AGE] = {"procfleet_tier_dropped_age_total", "Segments dropped for their age.",
                     METRICS_COUNTER},
    [DROPPED_BYTES] = {"procfleet_tier_dropped_size_total", "Segments dropped for want of room.",
                       METRICS_COUNTER},
};

static double tier_value(const struct store_room *r, unsigned kind, enum tier_figure f)
{
    switch (f) {
    case FILES:
        return (double)r->kind[kind].files;
    case BYTES:
        return (double)r->kind[kind].bytes;
    case VALUES:
        return (double)r->kind[kind].values;
    case SHARE:
        return (double)r->kind[kind].share_bytes;
    case AGE:
        return seconds(r->kind[kind].age_ns);
    case OLDEST:
        return seconds(r->kind[kind].oldest_ns);
    case DROPPED_AGE:
        return (double)r->kind[kind].dropped_age;
    default:
        return (double)r->kind[kind].dropped_bytes;
    }
}

static void add_tiers(struct figures *out, const struct store_room *r)
{
    static const struct {
        unsigned kind;
        const char *labels;
    } tiers[] = {{SEG_RAW, "tier=\"raw\""},
                 {SEG_10S, "tier=\"10s\""},
                 {SEG_1MIN, "tier=\"1min\""},
                 {SEG_1H, "tier=\"1h\""},
                 {SEG_REST, "tier=\"events\""}};

    for (size_t f = 0; f < sizeof tier_figures / sizeof *tier_figures; f++) {
        for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
            metrics_add(out, tier_figures[f].name, tier_figures[f].help, tier_figures[f].kind,
                        tiers[i].labels, tier_value(r, tiers[i].kind, (enum tier_figure)f));
        }
    }
}

static const struct member room_members[] = {
    LEVEL(store_room, catalogue_bytes, "procfleet_store_catalogue_bytes",
          "Bytes of the catalogue."),
    LEVEL(store_room, total_bytes, "procfleet_store_disk_bytes", "All that the store has on disk."),
    LEVEL(store_room, ceiling_bytes, "procfleet_store_ceiling_bytes", "What it may have at most."),
    LEVEL(store_room, disk_free, "procfleet_disk_free_bytes", "Free on the disk of data_dir."),
    LEVEL(store_room, disk_total, "procfleet_disk_size_bytes", "Size of that disk."),
    COUNTS(store_room, sealed_windows, "procfleet_store_sealed_windows_total", "Windows sealed."),
    COUNTS(store_room, patches, "procfleet_store_patches_total",
           "Sealed windows that late data was added to."),
    COUNTS(store_room, seal_failures, "procfleet_store_seal_failures_total",
           "Times that sealing, compaction or retention failed; it is tried again."),
    COUNTS(store_room, unreadable_batches, "procfleet_store_unreadable_batches_total",
           "Batches of the log damaged, or not given by the disk, when sealed: left out."),
};

static void add_room(struct figures *out, struct store *store)
{
    struct store_room r;

    store_room(store, &r);
    add_tiers(out, &r);
    add_members(out, &r, room_members, sizeof room_members / sizeof *room_members);
    gauge(out, "procfleet_store_refusing", "1: the disk is all but full, agents are told to wait.",
          r.refusing);
    gauge(out, "procfleet_store_sealed_timestamp_seconds",
          "End of the newest sealed window, UTC since 1970; 0: there is none.",
          seconds(r.sealed_ns));
}

/* -- sessions with agents -- */

static const struct member session_members[] = {
    COUNTS(session_stats, hellos, "procfleet_ingest_hellos_total",
           "Agents that introduced themselves."),
    COUNTS(session_stats, heartbeats, "procfleet_ingest_heartbeats_total", "Heartbeats of agents."),
    COUNTS(session_stats, pushes, "procfleet_ingest_pushes_total", "Batches that agents sent."),
    COUNTS(session_stats, stored, "procfleet_ingest_stored_total",
           "Batches stored and acknowledged."),
    COUNTS(session_stats, duplicates, "procfleet_ingest_duplicates_total",
           "Batches acknowledged once more: they were stored before."),
    COUNTS(session_stats, corrupt, "procfleet_ingest_corrupt_total",
           "Batches refused for good: they cannot be read."),
    COUNTS(session_stats, spoofed, "procfleet_ingest_spoofed_total",
           "Batches refused for good: of another host than the certificate's."),
    COUNTS(session_stats, too_old, "procfleet_ingest_too_old_total",
           "Batches refused for good: older than accept_age."),
    COUNTS(session_stats, conflicts, "procfleet_ingest_conflicts_total",
           "Batches refused for good: their number is taken by another one."),
    COUNTS(session_stats, clones, "procfleet_ingest_clones_total",
           "Calls of machines that claim to be another one."),
    COUNTS(session_stats, overloaded, "procfleet_ingest_overloaded_total",
           "Batches to be sent again: too much at once."),
    COUNTS(session_stats, unavailable, "procfleet_ingest_unavailable_total",
           "Batches to be sent again: the store took nothing."),
    COUNTS(session_stats, waiting, "procfleet_ingest_waiting_total",
           "Batches to be sent again: an older boot of the host may still be alive."),
    COUNTS(session_stats, future, "procfleet_ingest_future_total",
           "Batches stored whose stamps lie ahead of the collector's clock."),
    LEVEL(session_stats, hosts, "procfleet_ingest_hosts", "Hosts heard of since the start."),
};

static void add_session(struct figures *out, struct session *session)
{
    struct session_stats s;

    session_stats(session, &s);
    add_members(out, &s, session_members, sizeof session_members / sizeof *session_members);
}

void metrics_gather(struct figures *out, const struct metrics_env *env)
{
    out->n = 0;
    add_process(out, env->started_ns);
    if (env->store) {
        add_store(out, env);
        add_room(out, env->store);
    }
    if (env->session) {
        add_session(out, env->session);
    }
    metrics_feed(out, env);
    metrics_net(out, env);
}
