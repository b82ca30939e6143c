/* The keys of a simulated fleet, made once and kept in a directory so that further runs begin at
 * once: authority, collector, operator, one certificate an agent. Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_FLEET_PKI_H
#define PROCFLEET_TESTS_SUPPORT_FLEET_PKI_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define FLEET_PATH_MAX 512u

struct fleet_keys {
    char ca[FLEET_PATH_MAX], cert[FLEET_PATH_MAX], key[FLEET_PATH_MAX];
};

/* Makes what is missing below `dir`, which is made too, and says where it is. Errors: those of
 * pki_init and pki_issue, ERR_RANGE (a path is too long) */
NODISCARD enum err fleet_pki_collector(struct fleet_keys *out, const char *dir, struct errmsg *why);
NODISCARD enum err fleet_pki_operator(struct fleet_keys *out, const char *dir, struct errmsg *why);
NODISCARD enum err fleet_pki_subscriber(struct fleet_keys *out, const char *dir,
                                        struct errmsg *why);
/* A further operator, the n-th. */
NODISCARD enum err fleet_pki_tab(struct fleet_keys *out, const char *dir, unsigned n,
                                 struct errmsg *why);
/* Of the host that fleetgen makes of `seed`. */
NODISCARD enum err fleet_pki_agent(struct fleet_keys *out, const char *dir, uint64_t seed,
                                   struct errmsg *why);

#endif
