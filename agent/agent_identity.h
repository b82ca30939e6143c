/* Who the agent is: its certificate, kept alive while it watches this machine. A certificate that
 * has expired keeps nobody from starting: what the agent sees waits in the spool until there is
 * another. For agent.c alone. Threads: one, but for telling and counting: any. */
#ifndef PROCFLEET_AGENT_AGENT_IDENTITY_H
#define PROCFLEET_AGENT_AGENT_IDENTITY_H

#include "agent/conf/agent_conf.h"
#include "agent/enroll/renew.h"
#include "agent/status/status.h"
#include "agent/uplink/uplink.h"

struct agent_identity {
    struct tls_config *tls;
    struct net_identity own; /* as its certificate said at start; host and name never change */
    struct renew *renew;
};

/* Fills a zeroed one. `name`: the certificate must be of it; NULL: any. Errors: ERR_USAGE (it is of
 * another name), ERR_TRUST, those of tls_config_load and of trust_files_mend */
NODISCARD enum err agent_identity_open(struct agent_identity *i, const struct agent_conf *conf,
                                       const char *name, struct errmsg *why);
/* From now on it is renewed, over this uplink, which must outlive agent_identity_rest.
 * Errors: ERR_NOMEM */
NODISCARD enum err agent_identity_keep(struct agent_identity *i, const struct agent_conf *conf,
                                       struct uplink *uplink);
void agent_identity_rest(struct agent_identity *i); /* no renewal any more */
void agent_identity_close(struct agent_identity *i);

size_t agent_identity_ledger(const struct agent_identity *i, struct ledger_row *rows, size_t max);
void agent_identity_tell(const struct agent_identity *i, struct status *out);

#endif
