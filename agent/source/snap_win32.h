/* Source: this Windows machine, by one bulk call per tick that tells of every process, protected
 * ones included, without opening any. Starts and exits show by comparison of two tables, so lives
 * shorter than a tick are invisible: (*out)->about.polled. Columns the system does not fill are
 * found out when opening, by looking at our own row, and left out. */
#ifndef PROCFLEET_AGENT_SOURCE_SNAP_WIN32_H
#define PROCFLEET_AGENT_SOURCE_SNAP_WIN32_H

#include "agent/source.h"

#define SNAP_WIN32_PROCESSES_MAX 65536
#define SNAP_WIN32_BYTES_MAX     (64u << 20) /* of one answer */

struct snap_win32_conf {
    int64_t period_ns;    /* distance of tables, 1 ms to 10 s; the system waits in steps of 1 to
                             16 ms */
    size_t processes_max; /* rows of a table; more are counted, and the table is incomplete */
};

/* Errors: ERR_RANGE, ERR_NOMEM, ERR_UNSUPPORTED (the call is refused, or its answer is not laid
 * out as documented). run: ERR_NOMEM, ERR_FULL (an answer beyond SNAP_WIN32_BYTES_MAX), ERR_IO */
NODISCARD enum err snap_win32_open(struct source **out, const struct snap_win32_conf *conf,
                                   struct source_sink sink, struct errmsg *why);

#endif
