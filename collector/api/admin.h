/* The Admin service: Status, Disconnect, SetLogLevel, ForgetHost, for role admin on the query
 * listener. Each call is one line in the log that names who asked, Status at level info, what
 * changes something at any.
 *
 *   OK                   done
 *   INVALID_ARGUMENT     not a request; no such level
 *   PERMISSION_DENIED    the certificate has a scope
 *   NOT_FOUND            Disconnect: no connection of a certificate of that name; ForgetHost: no
 *                        such host
 *   FAILED_PRECONDITION  ForgetHost: it is connected
 *   RESOURCE_EXHAUSTED   too little memory
 *
 * Threads: handlers run on the RPC server's workers, any number at once. */
#ifndef PROCFLEET_COLLECTOR_API_ADMIN_H
#define PROCFLEET_COLLECTOR_API_ADMIN_H

#include "collector/metrics/metrics.h"
#include "common/rpc/rpc.h"

struct admin;

struct admin_conf {
    int64_t started_ns; /* UTC */
    void (*metrics)(void *ctx, struct metrics *out);
    /* Ends the connections of certificates of this name on every listener; returns how many. */
    unsigned (*disconnect)(void *ctx, const char *name);
    /* Hides those of this name or id that are not connected, durably; *hosts: how many. Errors:
     * ERR_NOTFOUND, ERR_BUSY (connected), with why; ERR_FULL, ERR_NOSPACE, ERR_IO, ERR_NOMEM */
    enum err (*forget)(void *ctx, const char *host, uint32_t *hosts, struct errmsg *why);
    void *ctx;
};

/* Errors: ERR_NOMEM */
NODISCARD enum err admin_create(struct admin **out, const struct admin_conf *conf);
void admin_destroy(struct admin *a); /* the RPC server has stopped; NULL is allowed */

#define ADMIN_METHODS 4
void admin_methods(struct admin *a, struct rpc_method methods[ADMIN_METHODS]);

#endif
