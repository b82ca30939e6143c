/* Who is revoked, in memory: what every connection asks, without touching the disk. Certificates
 * that are revoked, those that are not though their holder was revoked once, and the hosts and
 * users of revocations; everybody else is not revoked. Bounds: the rows of the database. Threads:
 * one owner writes; any number may ask while nobody does. */
#ifndef PROCFLEET_COLLECTOR_CA_CA_JUDGE_H
#define PROCFLEET_COLLECTOR_CA_CA_JUDGE_H

#include "collector/db/db.h"
#include "common/net/net.h"

struct ca_judge {
    struct ca_judge_cert *certs;
    struct ca_judge_host *hosts;
    struct ca_judge_user *users;
    size_t n_certs, n_hosts, n_users;
};

/* Reads a zeroed one from the database, in a transaction. Errors: those of db_row, ERR_NOMEM */
NODISCARD enum err ca_judge_read(struct ca_judge *out, struct db *d);
void ca_judge_fini(struct ca_judge *j); /* of a zeroed one, too */

bool ca_judge_revoked(const struct ca_judge *j, const struct net_identity *who);

/* Whether the host's newest certificate is revoked. */
bool ca_judge_host_revoked(const struct ca_judge *j, const struct uuid *host);

#endif
