/* The checks that only one system knows (doctor_linux.c, doctor_win32.c; chosen by the build), and
 * how they report. For doctor*.c only. */
#ifndef PROCFLEET_AGENT_DOCTOR_HOST_H
#define PROCFLEET_AGENT_DOCTOR_HOST_H

#include "agent/doctor.h"

struct doctor {
    const struct doctor_conf *conf;
    struct doctor_result result;
    enum err reach; /* why the first collector that failed did so */
};

/* Reports one finding. */
void doctor_say(struct doctor *d, const char *check, enum doctor_state state, const char *fix,
                const char *fmt, ...) PRINTF_LIKE(5, 6);

/* As os_check_private, also where the system has access lists instead of modes.
 * Errors: ERR_ACCESS (others can read it), ERR_NOTFOUND, ERR_NOMEM, ERR_INVALID, ERR_IO */
NODISCARD enum err doctor_key_rights(const char *path);

/* Rights, clock and whatever else this system has. */
void doctor_host(struct doctor *d);

#endif
