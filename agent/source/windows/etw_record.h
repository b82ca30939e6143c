/* EVENT_RECORD, as the system hands it to a callback, to raw_event: the only place that knows both.
 * Threads: any. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_RECORD_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_RECORD_H

#include "agent/source/source.h"
#include "common/os/win32.h"

#define ETW_RECORD_EXT 8192 /* bytes of extended items of one record */

/* Fills everything but the clocks (frequency and nanoseconds). The payload is borrowed from the
 * record; the items are put in order in ext, ETW_RECORD_EXT bytes of the caller's. Gives the number
 * of items for which there was no room. */
unsigned etw_record_read(struct raw_event *out, const EVENT_RECORD *r, uint8_t *ext);

#endif
