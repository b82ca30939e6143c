/* Asks the collector on a thread of its own, so that keys never wait for an answer. One question at
 * a time; a newer one takes the place of one that waits. */
#ifndef PROCFLEET_COLLECTOR_CLI_WATCH_WATCH_ASK_H
#define PROCFLEET_COLLECTOR_CLI_WATCH_WATCH_ASK_H

#include "collector/cli/cli_client.h"
#include "collector/cli/watch/watch.h"

struct watch_ask;

/* on_answer: called on the thread when there is an answer to take. The link is borrowed until
 * watch_ask_stop. Errors: ERR_NOMEM */
NODISCARD enum err watch_ask_start(struct watch_ask **out, struct cli_client *link,
                                   void (*on_answer)(void *ctx), void *ctx);
void watch_ask_stop(struct watch_ask *a); /* hangs the link up; NULL is allowed */

void watch_ask_put(struct watch_ask *a, const struct watch_question *q);
bool watch_ask_busy(struct watch_ask *a);                 /* a question waits or is asked */
struct watch_answer *watch_ask_take(struct watch_ask *a); /* owned; NULL when there is none */

#endif
