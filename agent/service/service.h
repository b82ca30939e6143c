/* The agent as a service of the system (service_win32.c, service_linux.c; chosen by the build).
 * Windows: its service manager. Linux: systemd does all of it by a unit, which service_unit writes;
 * the rest is ERR_UNSUPPORTED there, and why says what to do instead.
 * Threads: one; service_run's callbacks as said. */
#ifndef PROCFLEET_AGENT_SERVICE_SERVICE_H
#define PROCFLEET_AGENT_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

#define SERVICE_NAME    "procfleet-agent"
#define SERVICE_STOP_MS 4000 /* what a stop may take before it is hurried */

/* What to register. */
struct service_setup {
    const char *config;            /* the file it runs with */
    const char *account;           /* whom it runs as; NULL: the system's own */
    bool keep;                     /* one that is there keeps its account; all else is set anew */
    const uint8_t (*sessions)[16]; /* GUIDs of trace sessions that the account shall control */
    size_t n_sessions;
};

/* Registers the service; it starts with the system, and again after a failure. Neither the program
 * nor the configuration, nor what is in state_dir, may be such that others can change it. What the
 * system did not take but the service can live without is told in `notes`.
 * Errors: ERR_EXISTS, ERR_ACCESS (also: others could change what it runs or reads), ERR_INVALID
 * (account, path), ERR_NOMEM, ERR_IO */
NODISCARD enum err service_install(const struct service_setup *what, struct buf *notes,
                                   struct errmsg *why);

/* The service that is installed. */
struct service_installed {
    char account[600];  /* as the system writes it; "" = the system's own */
    char config[16384]; /* the file it runs with; "" = unknown */
};

/* Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_IO, ERR_FULL (too long) */
NODISCARD enum err service_installed(struct service_installed *out, struct errmsg *why);

/* Stops it first, and takes from its account what install gave; what of that went wrong is in why,
 * whose text is "" else. Errors: ERR_NOTFOUND, ERR_ACCESS,
 * ERR_TIMEOUT, ERR_IO */
NODISCARD enum err service_uninstall(const uint8_t (*sessions)[16], size_t n_sessions,
                                     struct errmsg *why);

/* Both wait until it is so; being so already is fine. Errors: ERR_NOTFOUND, ERR_ACCESS,
 * ERR_TIMEOUT, ERR_IO (it ended instead; why has its exit code) */
NODISCARD enum err service_start(struct errmsg *why);
NODISCARD enum err service_stop(struct errmsg *why);

/* Words for people: "running, process 123". Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_IO */
NODISCARD enum err service_status(struct buf *out, bool *running, struct errmsg *why);

/* Called by the service manager's start. `run` is called on a thread of its own and gives the
 * program's exit code; anything but 0 is a failure, after which the system starts us again. `stop`
 * comes from any thread: once to end in good order, a second time when that takes too long.
 * Errors: ERR_UNSUPPORTED (nobody's service: started by a person), ERR_IO */
struct service_calls {
    int (*run)(void *ctx);
    void (*stop)(void *ctx);
    void *ctx;
};
NODISCARD enum err service_run(const struct service_calls *calls, struct errmsg *why);

/* One sentence for the system's event log: an error at any time, the others while service_run is in
 * `run`. Where the log of every service is the system's own (Linux), nothing happens. Threads: any.
 */
enum service_note { SERVICE_INFO, SERVICE_WARNING, SERVICE_ERROR };
void service_note(enum service_note kind, const char *text);

/* Writes a unit for systemd. Errors: ERR_UNSUPPORTED, ERR_NOMEM */
NODISCARD enum err service_unit(struct buf *out, const char *config, struct errmsg *why);

#endif
