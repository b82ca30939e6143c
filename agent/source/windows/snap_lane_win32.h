/* The slow lane of snap_win32.h: snap_slow.h decides, a thread (snap_ask.h) asks by handle
 * (snap_handle_win32.h). Threads: one owner, who takes the tables. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_LANE_WIN32_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_LANE_WIN32_H

#include "agent/source/windows/snap_slow.h"

struct snap_lane;

/* conf->session is found out here. Errors: ERR_NOMEM, ERR_RANGE */
NODISCARD enum err snap_lane_open(struct snap_lane **out, const struct snap_slow_conf *conf);
void snap_lane_close(struct snap_lane *l); /* waits a second at most; NULL is allowed */

/* Completes a table, and lets be asked what came up. Texts stay until the next one. */
void snap_lane_table(struct snap_lane *l, struct snap_row *rows, size_t n, int64_t mono_ns,
                     bool records);

const struct snap_slow_stats *snap_lane_stats(const struct snap_lane *l);

#endif
