/* The cursor of a durable tail in the user's state directory: XDG_STATE_HOME, LOCALAPPDATA or
 * ~/.local/state, below it procfleet/. One file for each collector, name in the certificate and
 * subscription; it is locked while it is open. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CLI_TAIL_CURSOR_H
#define PROCFLEET_COLLECTOR_CLI_TAIL_CURSOR_H

#include "common/os/os.h"
#include "common/wire/wire_feed.h"

struct tail_cursor {
    char *path;
    struct os_lock *lock;
    size_t n; /* 0: none yet */
    uint8_t bytes[WIRE_CURSOR_MAX];
    uint64_t lines; /* printed up to there, by all runs together */
};

/* Errors: ERR_USAGE (name), ERR_NOTFOUND (no such directory is named by the environment), ERR_BUSY,
 * ERR_CORRUPT, ERR_ACCESS, ERR_IO, ERR_NOMEM; why says. Closed also after an error. */
NODISCARD enum err tail_cursor_open(struct tail_cursor *c, const char *collector, const char *owner,
                                    const char *name, struct errmsg *why);
/* Replaces the file. Errors: those of os_write_file */
NODISCARD enum err tail_cursor_write(const struct tail_cursor *c, struct errmsg *why);
void tail_cursor_close(struct tail_cursor *c);

#endif
