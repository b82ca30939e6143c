/* Asks the collector what a browser asks us: requests of the console as calls of Query/Web, with
 * the certificate of the settings. A lost connection is made again by itself; meanwhile everything
 * is answered 503 with the reason.
 *
 * Bounds:  CONSOLE_RELAY_CALLS questions under way at once, as the collector's listener wants it,
 *          and as many of /api/v1/updates, which wait there, on a connection of their own. As many
 *          as http_door.h lets through wait here.
 * Threads: one for each of these calls. */
#ifndef PROCFLEET_COLLECTOR_CLI_CONSOLE_RELAY_H
#define PROCFLEET_COLLECTOR_CLI_CONSOLE_RELAY_H

#include "collector/cli/cli.h"
#include "common/http/http_door.h"

#define CONSOLE_RELAY_CALLS 4u

struct console_relay;

/* Connects. On failure *code is the exit code and the reason has been printed. c: borrowed until
 * console_relay_stop. */
NODISCARD enum err console_relay_start(struct console_relay **out, const struct cli *c, int *code);
/* What waits is answered 503. After the door has stopped. NULL is allowed. */
void console_relay_stop(struct console_relay *r);

/* `ask` and `keep` of http_door_conf, with the relay as ctx. */
void console_relay_ask(void *ctx, const struct http_ask_question *q, http_ask_done done,
                       void *done_ctx);
/* The collector refuses the certificate that we ask with: nobody may ask here any more. */
const char *console_relay_keep(void *ctx, const struct net_identity *who);

void console_relay_identity(const struct console_relay *r, struct net_identity *out);

#endif
