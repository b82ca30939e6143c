/* The collector's own door to the console: listen.console, on this machine's addresses only. Its
 * answers are those of console_ask; sessions are of the certificates that asked for a link by RPC
 * Query/ConsoleTicket, tokens come from a file. What it does is logged: console session, end,
 * refused, and each question with `audit`.
 * Bounds:  those of http_door.h. Threads: any, but start and stop. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_CONSOLE_DOOR_H
#define PROCFLEET_COLLECTOR_CONSOLE_CONSOLE_DOOR_H

#include "collector/console/console.h"
#include "common/http/http_door.h"

struct console_door;

struct console_door_conf {
    const char *address;      /* "": off */
    const char *const *names; /* and n_names, url, user_header: as in http_door_conf */
    size_t n_names;
    const char *url, *user_header;
    const char *tokens; /* path of a file, private to its owner, read again when it has changed;
                           NULL: none */
    bool audit;
    struct console *console; /* borrowed until console_door_destroy */
    const char *(*judge)(void *ctx, const struct net_identity *who); /* as in net_server_conf */
    void *judge_ctx;
};

/* Makes what the method needs; listens at console_door_start. conf is borrowed. Errors: ERR_NOMEM
 */
NODISCARD enum err console_door_create(struct console_door **out,
                                       const struct console_door_conf *conf);
/* Does nothing when it is off. Errors: ERR_INVALID (the url), those of http_door_start and
 * http_door_tokens; ERR_ACCESS (others can read the tokens), ERR_NOTFOUND, ERR_IO */
NODISCARD enum err console_door_start(struct console_door *d, struct errmsg *why);
/* Before the console; the query listener has stopped. NULL is allowed. */
void console_door_destroy(struct console_door *d);

void console_door_method(struct console_door *d, struct rpc_method *out); /* ConsoleTicket */
void console_door_review(struct console_door *d);                         /* asks `judge` now */
unsigned console_door_port(const struct console_door *d);                 /* 0: off */
/* False: it is off. */
bool console_door_stats(const struct console_door *d, struct http_door_stats *out);

#endif
