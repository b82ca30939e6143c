/* The settings of procfleet-forward. Threads: read-only after loading. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_FORWARD_CONF_H
#define PROCFLEET_COLLECTOR_FORWARD_FORWARD_CONF_H

#include "collector/forward/post.h"
#include "collector/forward/program_sums.h"
#include "collector/forward/service_conf.h"

struct forward_conf_otlp {
    struct service_conf service; /* owner of texts */
    const char *subscription, *state;
    struct wire_filter filter;
    bool from_oldest, logs, metrics;
    struct post_conf post; /* url without a path for the kind, and without '/' at its end */
    char url[1024];
    struct program_sums_conf sums;
};

const struct conf_key *forward_conf_keys(size_t *n);
const char *forward_conf_setting(size_t i); /* names of the keys, for --set; NULL after the last */

/* Released by forward_conf_fini. `out` stays where it is. Errors: those of service_conf_load */
NODISCARD enum err forward_conf_load(struct forward_conf_otlp *out, const struct opt_args *args,
                                     struct errmsg *why);
void forward_conf_fini(struct forward_conf_otlp *c);

#endif
