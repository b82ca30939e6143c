/* What the store counts of itself: for store_stats of store.h, which is to be included. */
#ifndef PROCFLEET_COLLECTOR_STORE_STORE_STATS_H
#define PROCFLEET_COLLECTOR_STORE_STORE_STATS_H

#include <stdbool.h>

#include "common/model/stats.h"

#define STORE_STATS(X)                                                                             \
    X(COUNTER, batches, "procfleet_store_batches_total", "Batches made durable.")                  \
    X(COUNTER, bytes, "procfleet_store_batch_bytes_total", "Bytes of them, as they came.")         \
    X(COUNTER, commits, "procfleet_store_commits_total",                                           \
      "Times that the log was brought to disk.")                                                   \
    X(COUNTER, duplicates, "procfleet_store_duplicates_total", "Batches that were there already.") \
    X(COUNTER, too_old, "procfleet_store_too_old_total",                                           \
      "Batches refused for being older than accept_age.")                                          \
    X(COUNTER, refused, "procfleet_store_no_room_total",                                           \
      "Batches refused for want of room: their agents wait.")                                      \
    X(COUNTER, dropped_batches, "procfleet_store_dropped_batches_total",                           \
      "Batches that retention dropped.")                                                           \
    X(COUNTER, recovered_batches, "procfleet_store_recovered_batches_total",                       \
      "Batches read back from the log at the start.")                                              \
    X(COUNTER, recovered_sealed, "procfleet_store_recovered_sealed_total",                         \
      "Batches that the log still had but segments too.")                                          \
    X(COUNTER, recovered_bytes, "procfleet_store_recovered_bytes_total",                           \
      "Bytes of the log and its indexes read at the start.")                                       \
    X(COUNTER, torn_bytes, "procfleet_store_torn_bytes_total",                                     \
      "Bytes cut off the log's end at the start: never acknowledged.")                             \
    X(COUNTER, bad_records, "procfleet_store_bad_records_total",                                   \
      "Places of the log that could not be read at the start.")                                    \
    X(GAUGE, aside_files, "procfleet_store_log_aside_files",                                       \
      "Files of the log set aside at this start or before, as nothing in them can be read.")       \
    X(COUNTER, lost_batches, "procfleet_store_lost_batches_total",                                 \
      "Batches that the log knows of but had lost to damage, at the start or when sealed.")        \
    X(COUNTER, unindexed, "procfleet_store_log_unindexed_total",                                   \
      "Files of the log finished without an index: the next start reads all of them.")             \
    X(COUNTER, unreadable_segments, "procfleet_store_unreadable_segments_total",                   \
      "Segments that could not be read at the start.")                                             \
    X(COUNTER, forgotten_streams, "procfleet_store_forgotten_streams_total",                       \
      "Streams no longer remembered, for want of room.")                                           \
    X(COUNTER, closed_holes, "procfleet_store_closed_holes_total",                                 \
      "Holes in sequences no longer remembered, for want of room.")                                \
    X(GAUGE, head_bytes, "procfleet_store_head_bytes",                                             \
      "Encoded batches not sealed yet, in memory or left in the log by a start.")                  \
    X(GAUGE, head_batches, "procfleet_store_head_batches", "How many that is.")                    \
    X(GAUGE, hot_bytes, "procfleet_store_hot_bytes",                                               \
      "Columns of recent batches kept ready for questions about the last minute.")                 \
    X(COUNTER, hot_left_out, "procfleet_store_hot_left_out_total",                                 \
      "Batches without them, for want of room: questions unpack the batch.")                       \
    X(GAUGE, info_bytes, "procfleet_store_process_bytes",                                          \
      "Names, command lines and lives of processes in memory.")                                    \
    X(COUNTER, info_gone, "procfleet_store_process_gone_total",                                    \
      "Processes no longer in memory, for want of room: the catalogue on disk has them.")          \
    X(COUNTER, info_cut, "procfleet_store_process_cut_total",                                      \
      "Times that the long command lines and paths of a host were cut in memory.")                 \
    X(GAUGE, log_files, "procfleet_store_log_files", "Files of the log.")                          \
    X(GAUGE, log_bytes, "procfleet_store_log_bytes", "Bytes of the log.")                          \
    X(COUNTER, unread_batches, "procfleet_store_unread_batches_total",                             \
      "Times that a question could not read a batch of the log: left out of the answer.")          \
    X(COUNTER, unread_values, "procfleet_store_unread_windows_total",                              \
      "Times that it could not read a host's window of a segment, or open a segment.")             \
    X(COUNTER, unread_names, "procfleet_store_unread_names_total",                                 \
      "Times that it could not read names or lives from the catalogue.")

struct store_stats {
    STORE_STATS(STATS_MEMBER)
    uint64_t head_hosts, hosts; /* head_hosts: with batches in the head */
    bool failed;                /* the log failed */
    bool no_space;              /* it finds no room on the disk */
    bool no_catalogue;          /* it could not be opened */
    bool lost_hosts_file;       /* it was damaged: hosts are what segments say */
};

#endif
