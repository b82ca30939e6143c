/* The agent's settings: the table that drives files, --set, --help and the sample, and its values
 * ready for use. Threads: read-only after loading. */
#ifndef PROCFLEET_AGENT_CONF_AGENT_CONF_H
#define PROCFLEET_AGENT_CONF_AGENT_CONF_H

#include "agent/account/budget.h"
#include "agent/conf/etw_conf.h"
#include "agent/forward/forward.h"
#include "agent/privacy/privacy.h"
#include "agent/privacy/process_filter.h"
#include "common/conf/conf.h"
#include "common/log/log.h"
#include "common/model/inventory.h"

#define AGENT_CONF_ADDRESSES_MAX 8
#define AGENT_CONF_PORT          "7420" /* of an address without one */
#define AGENT_CONF_ENROLL_PORT   "7423" /* of the enroll listener */

struct agent_conf {
    struct conf *raw;      /* owner of the texts below that are not said to be owned */
    char *dir;             /* owned: state_dir */
    const char *state_dir; /* variables filled in */
    const char *source;    /* "auto" or a source's name */
    int64_t period_ns;
    uint32_t batch_samples;
    size_t batch_bytes;
    int64_t batch_age_ns;
    size_t queue_bytes;
    char *spool_dir; /* owned, absolute or below state_dir */
    uint64_t spool_bytes;
    int64_t spool_age_ns;
    char *addresses[AGENT_CONF_ADDRESSES_MAX]; /* owned, with port */
    size_t n_addresses;
    bool spread;          /* collector.choose */
    char *enroll_address; /* owned; NULL = not known */
    const char *server_name;
    int64_t heartbeat_ns;
    char *ca, *cert, *key; /* owned, absolute or below state_dir */
    const char *name;      /* identity.name; NULL = the machine's */
    size_t n_labels;
    struct label labels[INVENTORY_LABELS_MAX];
    struct privacy_conf filter;
    struct process_filter_conf who;
    uint32_t *pids;            /* owned: those of who */
    struct budget_conf budget; /* cpus and request are not settings */
    struct etw_conf etw;
    struct forward_conf events; /* without privacy; no providers: nothing is forwarded */
    char *manifests;            /* owned, as ca: what describes events; "" = none */
    size_t slow_top;            /* processes opened in */
    int64_t slow_period_ns;
    enum log_level log_level;
    enum log_format log_format;
    const char *log_file;
};

/* The table of keys. */
const struct conf_key *agent_conf_keys(size_t *n);

/* Reads `file` (NULL: none), then the n_sets settings "key=value". `out` is released by
 * agent_conf_fini. Errors: ERR_INVALID, ERR_RANGE, ERR_NOTFOUND, ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err agent_conf_load(struct agent_conf *out, const char *file,
                                   const char *const *sets, size_t n_sets, struct errmsg *why);
void agent_conf_fini(struct agent_conf *c);

/* "host" becomes "host:port", "[::1]" too; one that has a port keeps it unless `replace`. mem_free;
 * NULL: out of memory. */
char *agent_conf_with_port(const char *address, const char *port, bool replace);

#endif
