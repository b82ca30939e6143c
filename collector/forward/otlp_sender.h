/* `procfleet-forward otlp`: from the subscription to the server. Threads: the main one. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_OTLP_SENDER_H
#define PROCFLEET_COLLECTOR_FORWARD_OTLP_SENDER_H

#include "collector/forward/forward_conf.h"

/* Until the stop signal. Errors: those of consumer_open, post_open and run_service */
NODISCARD enum err otlp_sender_run(const struct forward_conf_otlp *conf, struct errmsg *why);

#endif
