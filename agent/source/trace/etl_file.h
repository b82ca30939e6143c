/* Source: recorded trace files (.etl, .etl.xz), each record in time order, in constant memory: the
 * open buffer of each CPU, and 40 bytes per buffer of the file. Records that tell who lives
 * (Process, Thread, sampling interval) come twice: early, ahead of everything, and in their place.
 * While a replay that keeps the recording's pace waits for a record, advance goes on. Parts, from
 * the bytes up: etl_input, etl_buffer, etl_record, etl_index, etl_stream, etl_merge. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_FILE_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_FILE_H

#include "agent/source/source.h"

struct etl_file_conf {
    const char *const *paths; /* of one host; replayed in order of their start times */
    size_t n_paths;
    bool rebase; /* true: the last record of all files gets the time at which the replay will end */
    int64_t speed_permille; /* 1000 = as recorded, 0 = as fast as possible */
    int64_t now_ns;         /* UTC, at start */
    bool schemas; /* records that carry schemas (EventSource manifests, event metadata) come early
                     too */
};

/* Reads every buffer's header and the end of each file; .xz is unpacked into an unlinked temporary
 * file. Files whose times overlap are merged record by record. Loss that the files tell is in the
 * stats at once. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_CORRUPT (no trace file), ERR_UNSUPPORTED
 * (.xz without liblzma), ERR_INVALID (no path, too many, speed), ERR_FULL (see etl_input.h,
 * etl_index.h, etl_merge.h), ERR_NOSPACE, ERR_NOMEM, ERR_IO. run also ends with ERR_IO or ERR_NOMEM
 */
NODISCARD enum err etl_file_open(struct source **out, const struct etl_file_conf *conf,
                                 struct source_sink sink, struct errmsg *why);

/* The same, as those want it who open sources by a function; conf is a struct etl_file_conf. */
NODISCARD enum err etl_file_open_conf(void *conf, struct source **out, struct source_sink sink,
                                      struct errmsg *why);

#endif
