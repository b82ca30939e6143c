/* Settings that procfleet-forward and procfleet-notify share: the collector they ask, the
 * certificate they show, where they keep their state, their log. Threads: read-only after loading.
 */
#ifndef PROCFLEET_COLLECTOR_FORWARD_SERVICE_CONF_H
#define PROCFLEET_COLLECTOR_FORWARD_SERVICE_CONF_H

#include "collector/forward/consumer.h"
#include "common/conf/conf.h"
#include "common/conf/opt.h"
#include "common/pki/pki_authority.h"

#define SERVICE_CONF_PATHS_MAX 16u

/* At the head of a program's table. */
#define SERVICE_CONF_ADDRESS "HOST[:PORT] of the collector's queries"
#define SERVICE_CONF_NAME    "name the collector's certificate must carry"
#define SERVICE_CONF_DIR     "absolute path: how far each subscription is; base of relative paths"
#define SERVICE_CONF_CA      "authority of the collector"
#define SERVICE_CONF_CERT    "own certificate, of role subscribe; a scope leaves out other hosts"
#define SERVICE_CONF_KEY     "own private key; refused when others can read it"
#define SERVICE_CONF_LEVEL   "lowest level written"
#define SERVICE_CONF_FORMAT  "lines of key=value, or JSON"
#define SERVICE_CONF_FILE    "file to write to, rotated at 16 MiB; empty = standard error"

/* clang-format off */
#define SERVICE_CONF_KEYS(state)                                                                   \
    {"collector.address", CONF_TEXT, "localhost:7421", 0, 0, NULL, SERVICE_CONF_ADDRESS},          \
    {"collector.server_name", CONF_TEXT, PKI_SERVER_NAME, 0, 0, NULL, SERVICE_CONF_NAME},          \
    {"state_dir", CONF_TEXT, state, 0, 0, NULL, SERVICE_CONF_DIR},                                 \
    {"tls.ca", CONF_TEXT, "tls/ca.pem", 0, 0, NULL, SERVICE_CONF_CA},                              \
    {"tls.cert", CONF_TEXT, "tls/client.pem", 0, 0, NULL, SERVICE_CONF_CERT},                      \
    {"tls.key", CONF_TEXT, "tls/client.key", 0, 0, NULL, SERVICE_CONF_KEY},                        \
    {"log.level", CONF_CHOICE, "info", 0, 0, "error|warn|info|debug", SERVICE_CONF_LEVEL},         \
    {"log.format", CONF_CHOICE, "text", 0, 0, "text|json", SERVICE_CONF_FORMAT},                   \
    {"log.file", CONF_TEXT, "", 0, 0, NULL, SERVICE_CONF_FILE}
/* clang-format on */

struct service_conf {
    struct conf *raw;  /* owner of texts */
    char address[300]; /* with port */
    const char *server_name, *dir;
    const char *ca, *cert, *key; /* absolute */
    char *paths[SERVICE_CONF_PATHS_MAX];
    size_t n_paths;
};

/* Reads --config and --set of `args`; of keys with "*" only those of `name` (NULL: none). Makes
 * state_dir. Errors: ERR_USAGE (any wrong setting; why says), ERR_NOMEM, those of os_mkdirs and
 * os_owner_check */
NODISCARD enum err service_conf_load(struct service_conf *out, const struct opt_args *args,
                                     const struct conf_key *keys, size_t n_keys, const char *name,
                                     struct errmsg *why);
void service_conf_fini(struct service_conf *c);

/* A path of a setting, below state_dir when it is relative; "" stays empty. Owned by `c`.
 * Errors: ERR_NOMEM, ERR_FULL (SERVICE_CONF_PATHS_MAX) */
NODISCARD enum err service_conf_path(struct service_conf *c, const char **out, const char *key);
/* state_dir/NAME.state; likewise. */
NODISCARD enum err service_conf_state(struct service_conf *c, const char **out, const char *name);

/* Opens the log as the settings say. Errors: those of log_open */
NODISCARD enum err service_conf_log(struct service_conf *c, struct errmsg *why);

/* Fills in what of a consumer stands in the settings. */
void service_conf_consumer(const struct service_conf *c, struct consumer_conf *out);

#endif
