/* The connection to the collector's query port, with paging and errors made into sentences. */
#ifndef PROCFLEET_COLLECTOR_CLI_CLI_CLIENT_H
#define PROCFLEET_COLLECTOR_CLI_CLI_CLIENT_H

#include <stdatomic.h>

#include "collector/cli/cli.h"
#include "common/rpc/rpc.h"

struct cli_client;

/* The exit code that an error of a connection stands for. */
enum cli_exit cli_client_exit(enum err e);

/* What to do about a connection that failed with `e`: "; ..." or "". */
const char *cli_client_remedy(enum err e, enum tls_cause cause);

/* Connects, within the settings' timeout. On failure *code is the exit code and the reason has been
 * printed. */
NODISCARD enum err cli_client_open(struct cli_client **out, const struct cli *c, int *code);
void cli_client_close(struct cli_client *l);

/* The certificates named by the settings; also for subscriptions. Released by tls_config_free. */
NODISCARD enum err cli_client_tls(struct tls_config **out, const struct cli *c, int *code);

/* One call of any method; the answer's payload is appended to `reply`. Waits for the connection as
 * long as for the answer; a busy collector is asked again after the time it names, timeout_ns
 * at most. stop: given up with ERR_CLOSED when it becomes true; may be NULL. why is the sentence to
 * print. Several threads may call at once. Errors: those of rpc_client_call */
struct cli_client_request {
    const char *method;
    const void *p;
    size_t n;
    int64_t timeout_ns;
    const atomic_bool *stop;
};
NODISCARD enum err cli_client_call(struct cli_client *l, const struct cli_client_request *q,
                                   struct buf *reply, struct rpc_result *result,
                                   struct errmsg *why);
/* Connects, makes one call and disconnects. Returns the exit code; a failure has been printed. */
int cli_client_once(const struct cli *c, const char *method, const struct buf *request,
                    struct buf *reply);
/* The exit code that such an error stands for. */
enum cli_exit cli_client_call_exit(enum err e, const struct rpc_result *result);
/* Whether the own certificate is of role admin. */
bool cli_client_is_admin(const struct cli_client *l);
/* The name in the own certificate; valid as long as the link. */
void cli_client_own_name(const struct cli_client *l, char *out, size_t size);

void cli_client_identity(const struct cli_client *l, struct net_identity *out);

/* Whether there is a connection, or will be in a moment; why is the sentence to print. Errors:
 * those of rpc_client_wait */
NODISCARD enum err cli_client_ready(struct cli_client *l, int64_t timeout_ns, struct errmsg *why);
/* Whether the collector refuses our certificate, or that has ended: there is no connection. */
bool cli_client_is_refused(const struct cli_client *l);

/* What the next page begins behind. */
struct cli_client_cursor {
    size_t n; /* 0: there is no more */
    char bytes[WIRE_CURSOR_MAX];
};

/* One page by cli_client_call, without a word printed: why says what cli_client_ask would. A lost
 * connection is told at the first attempt that fails. next may be NULL. Errors: those of
 * rpc_client_wait, cli_client_call and wire_answer_decode */
NODISCARD enum err cli_client_fetch(struct cli_client *l, const char *method,
                                    const struct wire_query *q, struct wire_answer **out,
                                    struct cli_client_cursor *next, struct errmsg *why);

/* What asks now ends at once, as does what comes later; it must still be closed. Any thread. */
void cli_client_hang_up(struct cli_client *l);

/* Asks until `q->limit` rows or events have come or there are no more, handing every page to `page`
 * (borrowed during the call). Returns the exit code: CLI_OK, or CLI_PARTIAL when an answer said so,
 * else a failure already printed. Notes are handed to
 * `note`, those of later pages again. */
int cli_client_ask(struct cli_client *l, const char *method, struct wire_query *q,
                   void (*page)(void *ctx, const struct wire_answer *a),
                   void (*note)(void *ctx, struct str text), void *ctx);

#endif
