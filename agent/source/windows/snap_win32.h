/* The tables of source/live.h on Windows: one bulk call tells of every process, protected ones
 * included, without opening any. Columns the system does not fill are found out when opening, by
 * looking at our own row, and left out. What only a handle tells comes later, from the slow lane
 * (snap_slow.h). */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_WIN32_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_WIN32_H

#include "agent/source/source.h"
#include "agent/source/windows/live.h"
#include "agent/source/windows/snap_slow.h"

#define SNAP_WIN32_PROCESSES_MAX 65536
#define SNAP_WIN32_BYTES_MAX     (64u << 20) /* of one answer */

struct snap_win32_conf {
    size_t processes_max;       /* rows of a table; more are counted, and the table is incomplete */
    size_t answer_bytes;        /* room for an answer at first, it grows; 0 = 256 KiB */
    struct snap_slow_conf slow; /* session and processes_max are found out */
};

/* Errors: ERR_RANGE, ERR_NOMEM, ERR_UNSUPPORTED (the call is refused, or its answer is not laid
 * out as documented). take: ERR_BUSY (more processes at each try), ERR_NOMEM, ERR_FULL (an answer
 * beyond SNAP_WIN32_BYTES_MAX), ERR_IO */
NODISCARD enum err snap_win32_open(struct live_tables **out, const struct snap_win32_conf *conf,
                                   struct errmsg *why);

/* What the system says of itself; texts may be empty. */
struct snap_win32_version {
    unsigned long major, minor, build, revision;
    char product[64]; /* "Windows 10 Pro", which Windows 11 says too */
    char type[24];    /* "Client", "Server", "Server Core" */
};

/* "Windows 10.0.22631.3447 (11 Pro)" */
void snap_win32_name(char *out, size_t size, const struct snap_win32_version *v);

/* Boot, CPUs and system. Errors: ERR_IO (the system does not say when it started) */
NODISCARD enum err snap_win32_about(struct source_about *out);

#endif
