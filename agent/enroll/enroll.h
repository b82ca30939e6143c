/* How a host gets its certificate, and a new one in place of an expired one: one exchange with the
 * collector's enroll listener, and the files it ends in. The key is made here and never leaves.
 * Crashes: trust_files.h; but a token that the collector has taken is spent, whatever became of its
 * answer. Threads: one caller at a time. */
#ifndef PROCFLEET_AGENT_ENROLL_ENROLL_H
#define PROCFLEET_AGENT_ENROLL_ENROLL_H

#include "agent/enroll/trust_files.h"
#include "common/net/net.h"

struct enroll_ask {
    const char *address; /* of the enroll listener */
    const char *server_name;
    const char *name;  /* host name asked for; NULL with a NULL token */
    const char *token; /* NULL: RenewExpired, with the pair that `files` holds */
    bool force;        /* what is there is kept as NAME.old and replaced */
    const struct trust_files *files;
    int64_t timeout_ns;
    void (*say)(void *ctx, const char *text); /* what is being done, for people; may be NULL */
    void *ctx;
};

struct enroll_result {
    struct net_identity who; /* the new certificate's */
    int64_t clock_ns;        /* the collector's clock less ours */
};

/* Errors: ERR_EXISTS (enrolled already), ERR_INVALID (not a token; a name; an address),
 * ERR_UNREACHABLE, ERR_TIMEOUT, ERR_TRUST (the server is not the one the token was made by, or what
 * it sent does not fit), ERR_REFUSED (why holds what the collector said), and those of
 * trust_files_change. `why` names the remedy. */
NODISCARD enum err enroll_run(struct enroll_result *out, const struct enroll_ask *ask,
                              struct errmsg *why);

#endif
