/* The lists behind ch_schema.h: tables, and their columns before those of metrics. Plain data. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_TABLES_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_TABLES_H

/* Tables: enumerator, name, key, version column (NULL: none), column of the partition by time. */
#define CH_TABLE_LIST(X)                                                                   \
    X(CELL, cell, "host_id, boot, pid, start, ts, stream, seq", NULL, DAY, "ts")           \
    X(SAMPLE, sample, "host_id, boot, pid, start, ts, stream, seq", NULL, DAY, "ts")       \
    X(MINUTE, minute, "host_id, boot, pid, start, ts, mask, mask_high", "made", DAY, "ts") \
    X(HOUR, hour, "host_id, boot, pid, start, ts, mask, mask_high", "made", MONTH, "ts")   \
    X(PROCESS, process, "host_id, boot, pid, start, have, origin", "seen", MONTH, "seen")  \
    X(EVENT, event, "host_id, ts, stream, seq, i", NULL, DAY, "ts")                        \
    X(BATCH, batch, "host_id, stream, seq, collector", "kind", DAY, "t0")                  \
    X(HOST, host, "host_id", "seen", NONE, NULL)                                           \
    X(HOST_STATE, host_state, "host_id, collector", "seen", NONE, NULL)                    \
    X(FOLD, fold, "host_id, tier, span", "made", MONTH, "span")                            \
    X(COLLECTOR, collector, "name", "seen", NONE, NULL)                                    \
    X(SCHEMA, schema, "version", "applied", NONE, NULL)

/* Columns of each table before those of metrics: name, type, codec. */
#define CH_SPAN_COLUMNS(X, T) \
    X(T, host_id, UUID, ZSTD) \
    X(T, boot, FIXED16, ZSTD) \
    X(T, pid, UINT32, ZSTD)   \
    X(T, start, UINT64, ZSTD) \
    X(T, ts, TIME, DOUBLE_DELTA)

/* One row: one process in one batch, as long as it has the same metrics and inside one 10 s of the
 * host's clock. ts and last_ts are the stamps of its first and last sample, n how many there are.
 * flags: bit 0: the counters began at zero with the first sample (`fresh` of struct batch_run).
 * mask, mask_high: which metrics it has (bit = id, id - 64); columns of others are 0.
 * Counters: m{id} the last value, _grew last - first, _most the largest growth from one sample to
 * the next. Gauges: m{id} the last value, _up max - last, _down last - min, _dev sum - n * last.
 * All in 64 bits that wrap: adding them again gives the exact values. */
#define CH_CELL_COLUMNS(X, T)         \
    CH_SPAN_COLUMNS(X, T)             \
    X(T, last_ts, TIME, DOUBLE_DELTA) \
    X(T, n, UINT32, ZSTD)             \
    X(T, stream, UINT64, ZSTD)        \
    X(T, seq, UINT64, DOUBLE_DELTA)   \
    X(T, flags, UINT8, ZSTD)          \
    X(T, mask, UINT64, ZSTD)          \
    X(T, mask_high, UINT64, ZSTD)

/* One row: one process at one tick. */
#define CH_SAMPLE_COLUMNS(X, T)     \
    CH_SPAN_COLUMNS(X, T)           \
    X(T, stream, UINT64, ZSTD)      \
    X(T, seq, UINT64, DOUBLE_DELTA) \
    X(T, flags, UINT8, ZSTD)        \
    X(T, mask, UINT64, ZSTD)        \
    X(T, mask_high, UINT64, ZSTD)

/* Cells of a minute, of an hour, of one process: as a cell. Where a process has several sets of
 * metrics in it, or cells that overlap, they stay apart. Rows whose `made` is not the newest of
 * their host's hour in `fold` are none. */
#define CH_TIER_COLUMNS(X, T)         \
    CH_SPAN_COLUMNS(X, T)             \
    X(T, last_ts, TIME, DOUBLE_DELTA) \
    X(T, n, UINT32, ZSTD)             \
    X(T, flags, UINT8, ZSTD)          \
    X(T, mask, UINT64, ZSTD)          \
    X(T, mask_high, UINT64, ZSTD)     \
    X(T, made, UINT64, ZSTD)

/* What a batch said of an instance (struct proc_info). Of rows that say as much (`have`, `origin`)
 * the one with the newest `seen` (the newest stamp of that batch) wins; all of an instance together
 * are what is known of it (head_info.h). */
#define CH_PROCESS_COLUMNS(X, T)     \
    X(T, host_id, UUID, ZSTD)        \
    X(T, boot, FIXED16, ZSTD)        \
    X(T, pid, UINT32, ZSTD)          \
    X(T, start, UINT64, ZSTD)        \
    X(T, seen, TIME, ZSTD)           \
    X(T, have, UINT32, ZSTD)         \
    X(T, origin, UINT8, ZSTD)        \
    X(T, cpu_origin, UINT8, ZSTD)    \
    X(T, parent_pid, UINT32, ZSTD)   \
    X(T, parent_start, UINT64, ZSTD) \
    X(T, sequence, UINT64, ZSTD)     \
    X(T, session_id, UINT32, ZSTD)   \
    X(T, exit_code, UINT32, ZSTD)    \
    X(T, create_ts, TIME, ZSTD)      \
    X(T, exit_ts, TIME, ZSTD)        \
    X(T, name, NAME, ZSTD)           \
    X(T, image, STRING, ZSTD)        \
    X(T, command_line, STRING, ZSTD) \
    X(T, user, NAME, ZSTD)

/* For people's SQL; the exact events of a batch are in its `rest`. kind: enum life_kind. type: of
 * events of providers, "provider/task/name". */
#define CH_EVENT_COLUMNS(X, T)      \
    X(T, host_id, UUID, ZSTD)       \
    X(T, boot, FIXED16, ZSTD)       \
    X(T, stream, UINT64, ZSTD)      \
    X(T, seq, UINT64, DOUBLE_DELTA) \
    X(T, i, UINT32, ZSTD)           \
    X(T, ts, TIME, DOUBLE_DELTA)    \
    X(T, mono, INT64, DOUBLE_DELTA) \
    X(T, kind, UINT8, ZSTD)         \
    X(T, tid, UINT32, ZSTD)         \
    X(T, pid, UINT32, ZSTD)         \
    X(T, start, UINT64, ZSTD)       \
    X(T, exit_code, UINT32, ZSTD)   \
    X(T, name, NAME, ZSTD)          \
    X(T, type, NAME, ZSTD)          \
    X(T, text, STRING, ZSTD)

/* The ledger: a batch is there when a row with kind = CH_STORED names it, and rows of the other
 * tables count only then. The greatest kind of a key wins; CH_GIVEN_UP: its rows were gone before
 * they were sent, the rest of it is here. seq_last is seq.
 * again: rows of it may have been sent before, so the host's tables are read with FINAL. hash: of
 * its stamps and counts; two of one key that differ come from clones. t0, t1: batch_time_span; a
 * batch without ticks and events: its arrival. clock: bit 0 known, bit 1 bounded. alive: processes
 * in its last tick but the idle one. tick0, tick1, mono0, mono1: the first and the last tick. rest:
 * the batch without its rows, as wire_batch_pack makes it: ticks, infos, events, ledger. plain:
 * sums of ticks, stage, reason and count say all that it tells (loss_sum_plain). */
#define CH_BATCH_COLUMNS(X, T)           \
    X(T, host_id, UUID, ZSTD)            \
    X(T, stream, UINT64, ZSTD)           \
    X(T, seq, UINT64, DOUBLE_DELTA)      \
    X(T, seq_last, UINT64, DOUBLE_DELTA) \
    X(T, collector, NAME, ZSTD)          \
    X(T, kind, UINT8, ZSTD)              \
    X(T, again, UINT8, ZSTD)             \
    X(T, hash, UINT64, ZSTD)             \
    X(T, boot, FIXED16, ZSTD)            \
    X(T, flags, UINT32, ZSTD)            \
    X(T, cpus, UINT32, ZSTD)             \
    X(T, source, NAME, ZSTD)             \
    X(T, t0, TIME, DOUBLE_DELTA)         \
    X(T, t1, TIME, DOUBLE_DELTA)         \
    X(T, received, TIME, DOUBLE_DELTA)   \
    X(T, clock, UINT8, ZSTD)             \
    X(T, clock_offset, INT64, ZSTD)      \
    X(T, clock_error, INT64, ZSTD)       \
    X(T, ticks, UINT32, ZSTD)            \
    X(T, rows, UINT64, ZSTD)             \
    X(T, cells, UINT32, ZSTD)            \
    X(T, events, UINT32, ZSTD)           \
    X(T, alive, UINT32, ZSTD)            \
    X(T, lost, UINT64, ZSTD)             \
    X(T, stage, STRINGS, ZSTD)           \
    X(T, reason, STRINGS, ZSTD)          \
    X(T, count, UINT64S, ZSTD)           \
    X(T, rest, STRING, ZSTD)             \
    X(T, tick0, TIME, DOUBLE_DELTA)      \
    X(T, tick1, TIME, DOUBLE_DELTA)      \
    X(T, mono0, INT64, DOUBLE_DELTA)     \
    X(T, mono1, INT64, DOUBLE_DELTA)     \
    X(T, plain, UINT8, ZSTD)

/* The name under which the host's newest batch came. */
#define CH_HOST_COLUMNS(X, T) \
    X(T, host_id, UUID, ZSTD) \
    X(T, name, NAME, ZSTD)    \
    X(T, seen, TIME, ZSTD)

/* What a collector knows of a host at this moment (`seen`), each 10 s. */
#define CH_HOST_STATE_COLUMNS(X, T) \
    X(T, host_id, UUID, ZSTD)       \
    X(T, collector, NAME, ZSTD)     \
    X(T, seen, TIME, ZSTD)          \
    X(T, name, NAME, ZSTD)          \
    X(T, boot, FIXED16, ZSTD)       \
    X(T, heard, TIME, ZSTD)         \
    X(T, connected, UINT8, ZSTD)    \
    X(T, clones, UINT32, ZSTD)

/* One hour of one host in a tier (minute, hour): made from so many batches of the ledger, whose
 * numbers' hashes add up to `numbers`; rows of the tier have the same `made`. While they are made
 * batches is 0. */
#define CH_FOLD_COLUMNS(X, T)   \
    X(T, host_id, UUID, ZSTD)   \
    X(T, tier, NAME, ZSTD)      \
    X(T, span, TIME, ZSTD)      \
    X(T, made, UINT64, ZSTD)    \
    X(T, batches, UINT64, ZSTD) \
    X(T, numbers, UINT64, ZSTD)

/* id: of its data_dir; two alive with one name are a mistake. */
#define CH_COLLECTOR_COLUMNS(X, T) \
    X(T, name, STRING, ZSTD)       \
    X(T, id, UUID, ZSTD)           \
    X(T, version, STRING, ZSTD)    \
    X(T, started, TIME, ZSTD)      \
    X(T, seen, TIME, ZSTD)

#define CH_SCHEMA_COLUMNS(X, T) \
    X(T, version, UINT32, ZSTD) \
    X(T, applied, TIME, ZSTD)   \
    X(T, by, STRING, ZSTD)

#endif
