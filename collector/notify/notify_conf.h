/* The settings of procfleet-notify: those of every consumer, and targets by name. Threads:
 * read-only after loading. */
#ifndef PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_CONF_H
#define PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_CONF_H

#include "collector/forward/post.h"
#include "collector/forward/service_conf.h"
#include "collector/notify/notify_body.h"

#define NOTIFY_TARGETS_MAX 32u
#define NOTIFY_RULES_MAX   16u

enum notify_type { NOTIFY_WEBHOOK, NOTIFY_EXEC };

struct notify_target_conf {
    struct service_conf service; /* owner of texts */
    const char *name;
    char subscription[WIRE_FEED_NAME_MAX + 1];
    const char *state;
    enum notify_type type;
    enum notify_format format;
    struct post_conf post;
    const char *program; /* of exec */
    int64_t timeout_ns, retry_ns;
    size_t n_rules;
    struct str rules[NOTIFY_RULES_MAX]; /* globs; none: all */
};

struct notify_conf {
    struct service_conf service; /* of the log */
    size_t n;
    struct notify_target_conf *targets;
};

const struct conf_key *notify_conf_keys(size_t *n);
const char *notify_conf_setting(size_t i); /* names of the keys, for --set; NULL after the last */

/* Released by notify_conf_fini. Errors: those of service_conf_load */
NODISCARD enum err notify_conf_load(struct notify_conf *out, const struct opt_args *args,
                                    struct errmsg *why);
void notify_conf_fini(struct notify_conf *c);

#endif
