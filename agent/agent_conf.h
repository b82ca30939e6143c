/* The agent's settings: the table that drives files, --set, --help and the sample, and its values
 * ready for use. Threads: read-only after loading. */
#ifndef PROCFLEET_AGENT_AGENT_CONF_H
#define PROCFLEET_AGENT_AGENT_CONF_H

#include "agent/filter.h"
#include "agent/levels.h"
#include "common/conf.h"
#include "common/log.h"

#define AGENT_CONF_ADDRESSES_MAX 8
#define AGENT_CONF_PORT          "7420" /* of an address without one */

struct agent_conf {
    struct conf *raw; /* owner of the texts below that are not said to be owned */
    const char *state_dir;
    const char *source; /* "auto" or a source's name */
    int64_t period_ns;
    uint32_t batch_samples;
    size_t batch_bytes;
    int64_t batch_age_ns;
    size_t queue_bytes;
    char *addresses[AGENT_CONF_ADDRESSES_MAX]; /* owned, with port */
    size_t n_addresses;
    const char *server_name;
    int64_t heartbeat_ns;
    char *ca, *cert, *key; /* owned, absolute or below state_dir */
    const char *name;      /* identity.name; NULL = the machine's */
    struct filter_conf filter;
    struct levels_conf levels; /* cpus and request are not settings */
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

#endif
