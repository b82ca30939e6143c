/* Whether a request over HTTP is meant for us. A browser can be made to send requests of any page
 * here, by a name of the page's owner that stands for our address; then the name is what it shows
 * in `Host`. Private to the folder. Threads: any, once made. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_HOST_H
#define PROCFLEET_COMMON_HTTP_HTTP_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

#define HTTP_HOST_MAX 256u

struct http_host {
    char listened[HTTP_HOST_MAX]; /* without its port */
    char machine[HTTP_HOST_MAX];  /* "" where only this machine can come */
    const char *const *names;
    size_t n_names;
};

/* Borrows `names`. What is "*", or no loopback, lets other machines come: by number, which needs no
 * name that could lie, and by this machine's own name. */
void http_host_init(struct http_host *h, const char *address, const char *const *names,
                    size_t n_names);

/* As it stands in a request: name or number, with a port or without. */
bool http_host_is_ours(const struct http_host *h, const char *host);

/* Names without regard to the case of letters. */
bool http_host_same(const char *a, const char *b);

/* Whether "host:port" can be reached from this machine only. */
bool http_host_is_loopback(const char *address);

/* Splits "host:port" or "[v6]:port"; "*" becomes "". *port: borrowed from address, digits up to
 * 65535. Errors: ERR_INVALID */
NODISCARD enum err http_host_split(char host[HTTP_HOST_MAX], const char **port,
                                   const char *address);

#endif
