#include "common/http/http_host.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/os.h"

/* Without ":port"; false: it does not fit, or the port is none. */
static bool host_part(char out[HTTP_HOST_MAX], const char *host)
{
    const char *end = strchr(host, ']');
    size_t n = host[0] == '[' && end ? (size_t)(end - host) + 1 : strcspn(host, ":");
    const char *port = host + n;

    if (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1))) {
        return false;
    }
    if (n > 0 && host[n - 1] == '.') {
        n--; /* the root's dot */
    }
    if (n == 0 || n >= HTTP_HOST_MAX) {
        return false;
    }
    memcpy(out, host, n);
    out[n] = '\0';
    return true;
}

bool http_host_same(const char *a, const char *b)
{
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool is_number(const char *name)
{
    size_t n = strlen(name);

    return (name[0] == '[' && name[n - 1] == ']' &&
            strspn(name + 1, "0123456789abcdefABCDEF:.") == n - 2) ||
           strspn(name, "0123456789.") == n;
}

static bool is_loopback(const char *name)
{
    return http_host_same(name, "localhost") || strcmp(name, "[::1]") == 0 ||
           (strncmp(name, "127.", 4) == 0 && is_number(name));
}

void http_host_init(struct http_host *h, const char *address, const char *const *names,
                    size_t n_names)
{
    *h = (struct http_host){.names = names, .n_names = n_names};
    if (!host_part(h->listened, address)) {
        h->listened[0] = '\0';
    }
    if (!is_loopback(h->listened) && os_host_name(h->machine, sizeof h->machine)) {
        (void)snprintf(h->machine, sizeof h->machine, "localhost"); /* it has no other */
    }
}

bool http_host_is_ours(const struct http_host *h, const char *host)
{
    char name[HTTP_HOST_MAX];

    if (!host_part(name, host)) {
        return false;
    }
    if (http_host_same(name, "localhost") || strcmp(name, "127.0.0.1") == 0 ||
        strcmp(name, "[::1]") == 0 || http_host_same(name, h->listened)) {
        return true;
    }
    if (h->machine[0] && (is_number(name) || http_host_same(name, h->machine))) {
        return true;
    }
    for (size_t i = 0; i < h->n_names; i++) {
        if (http_host_same(name, h->names[i])) {
            return true;
        }
    }
    return false;
}

bool http_host_is_loopback(const char *address)
{
    char name[HTTP_HOST_MAX];

    return host_part(name, address) && is_loopback(name);
}

enum err http_host_split(char host[HTTP_HOST_MAX], const char **port, const char *address)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    size_t n = colon ? (size_t)(colon - address) : 0;

    if (n == 0 || n >= HTTP_HOST_MAX || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 5 ||
        strtoul(colon + 1, NULL, 10) > 65535) {
        return ERR_INVALID;
    }
    memcpy(host, address, n);
    host[n] = '\0';
    if (host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        memmove(host, host + 1, n - 1);
    } else if (strchr(host, ':')) {
        return ERR_INVALID; /* a bare IPv6 address */
    }
    if (strcmp(host, "*") == 0) {
        host[0] = '\0';
    }
    *port = colon + 1;
    return strpbrk(host, "/?#@ \t") ? ERR_INVALID : ERR_OK;
}
