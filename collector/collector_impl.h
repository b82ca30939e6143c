/* The collector itself, for the files that make it: collector.c starts and stops it,
 * collector_store.c opens its store, collector_listen.c its listeners, collector_tell.c answers
 * what it is asked of itself. */
#ifndef PROCFLEET_COLLECTOR_COLLECTOR_IMPL_H
#define PROCFLEET_COLLECTOR_COLLECTOR_IMPL_H

#include <stdatomic.h>

#include "collector/collector.h"
#include "collector/collector_feed.h"
#include "collector/ingest/forgotten.h"
#include "collector/metrics/metrics.h"
#include "collector/query/query.h"
#include "common/net/net.h"
#include "common/rpc/rpc.h"

#define COLLECTOR_QUERY_BYTES (64u << 10) /* the longest question */
#define COLLECTOR_IN_FLIGHT   4u          /* requests of one agent at once */

struct collector {
    const struct collector_conf *conf;
    bool net; /* initialised */
    struct tls_config *tls;
    struct collector_feed feed;
    struct store *store;
    struct net_pub *pub;
    struct forgotten *forgotten;
    struct session *session;
    struct serve *serve;
    struct admin *admin;
    struct http *http;
    struct rpc_server *query;
    struct rpc_server *ingest;
    struct rpc_server *enroll;
    struct trust *trust;
    int64_t progress_ns; /* of the last line about recovery */
    int percent;         /* of the last word to the service manager about it */
    int64_t started_ns;  /* UTC */
    atomic_bool running; /* everything listens: the pointers above stay as they are */
};

/* -- collector_store.c -- */

/* Recovers it, too; what it held is logged. Errors: those of store_open */
NODISCARD enum err collector_store_open(struct collector *c, struct errmsg *why);
/* What mends what keeps data_dir from being written; words for a log line. */
const char *collector_store_remedy(enum err e);

/* -- collector_listen.c: ERR_OK without a listener when its address is empty -- */

/* Errors: those of net_pub_start, rpc_server_start and http_start */
NODISCARD enum err collector_listen_events(struct collector *c, struct errmsg *why);
NODISCARD enum err collector_listen_query(struct collector *c, struct errmsg *why);
NODISCARD enum err collector_listen_ingest(struct collector *c, struct errmsg *why);
NODISCARD enum err collector_listen_enroll(struct collector *c, struct errmsg *why);
NODISCARD enum err collector_listen_http(struct collector *c, struct errmsg *why);

/* -- collector_tell.c: callbacks; ctx is the collector. Any thread -- */

bool collector_tell_host(void *ctx, const struct uuid *host, struct query_host_state *out);
bool collector_tell_forgotten(void *ctx, const struct uuid *host);
void collector_tell_figures(void *ctx, struct figures *out);
bool collector_tell_ready(void *ctx, struct errmsg *why); /* false: why says what is missing */
int64_t collector_tell_stuck(void *ctx); /* collector_stuck_ns, 0 while it starts */

#endif
