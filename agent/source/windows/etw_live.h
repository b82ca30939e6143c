/* The events of source/live.h: ETW sessions of this host. Each has a consumer thread, whose
 * callback copies the record into the session's ring and returns; step merges the rings in order of
 * time and hands records to the sink. A control thread asks every session for its losses, enlarges
 * its buffers, flushes, and starts it again when somebody has stopped it. What is lost is told
 * where it is known: by the ring, by records in the stream, by the session's counters, by a
 * restart. Bounds:  ETW_LIVE_SESSIONS sessions, one ring of ring_bytes each. Threads: as live.h;
 * etw_live_stats from any. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_H

#include "agent/source/source.h"
#include "agent/source/windows/etw_ledger.h"
#include "agent/source/windows/etw_live_conf.h"
#include "agent/source/windows/live.h"

/* Starts the sessions. Errors: those of etw_ctl_open; unless patient those of etw_ctl_start of a
 * session that is not optional, of opening it for reading, ERR_BUSY (another agent has them);
 * ERR_INVALID (n_sessions), ERR_RANGE (ring_bytes), ERR_UNSUPPORTED (no such functions), ERR_NOMEM
 */
NODISCARD enum err etw_live_open(struct live_events **out, const struct etw_live_conf *conf,
                                 struct source_sink sink, struct errmsg *why);

/* Numbers of ctl as of the last query of each session. */
void etw_live_stats(const struct live_events *e, struct etw_live_stats *out);

#endif
