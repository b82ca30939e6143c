/* Marks of runs that no collector could be told of: kept in a file of this user until the next one
 * is told, with their own times. $XDG_STATE_HOME/procfleet/marks, else below ~/.local/state or
 * LOCALAPPDATA. Bounds: 1 MiB, 7 days; what is older is dropped. Crashes: a mark that was kept is
 * on the disk; it may be sent twice, which is one mark. Threads and processes: any, one at a time
 * works; a lock beside the file says so. */
#ifndef PROCFLEET_COLLECTOR_CLI_MARKS_H
#define PROCFLEET_COLLECTOR_CLI_MARKS_H

#include <stdbool.h>

#include "common/wire/wire_run.h"

/* Keeps a mark for the collector of that address. end: RunEnd. why: the file, also when all is
 * well. Errors: ERR_NOTFOUND (no home directory), ERR_FULL, ERR_IO, … */
NODISCARD enum err marks_keep(const char *collector, bool end, const struct wire_run_mark *m,
                              struct errmsg *why);

/* Sends what is kept for that collector, the oldest first: `send` returns ERR_OK (it is there),
 * ERR_REFUSED (it will never be: dropped) or another error, which ends it and keeps the rest.
 * *sent: how many are there now. */
NODISCARD enum err marks_send(const char *collector,
                              enum err (*send)(void *ctx, bool end, const struct wire_run_mark *m),
                              void *ctx, unsigned *sent);

#endif
