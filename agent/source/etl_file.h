/* Source: recorded trace files (.etl, .etl.xz), each record in time order, in constant memory.
 * Format: design document etl-format; see etl_buffer.h for the parts. */
#ifndef PROCFLEET_AGENT_SOURCE_ETL_FILE_H
#define PROCFLEET_AGENT_SOURCE_ETL_FILE_H

#include "agent/source.h"

struct etl_file_conf {
    const char *const *paths; /* of one host; replayed in order of their start times */
    size_t n_paths;
    bool rebase; /* true: the last record of all files gets the time at which the replay will end */
    int64_t speed_permille; /* 1000 = as recorded, 0 = as fast as possible */
    int64_t now_ns;         /* UTC, at start */
};

/* Reads every header and the end of each file. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_CORRUPT (no
 * trace file), ERR_UNSUPPORTED (.xz without liblzma), ERR_NOMEM, ERR_IO */
NODISCARD enum err etl_file_open(struct source **out, const struct etl_file_conf *conf,
                                 struct source_sink sink, struct errmsg *why);

#endif
