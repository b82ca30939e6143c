/* Session tickets that nobody gave out, before anybody is known: any bytes as a ticket; the same
 * under the name of a key that there is; and as the content of a sound one, of which one byte is
 * then altered. Only the sound one opens, under its binding alone. */
#include <stdbool.h>
#include <string.h>

#include "common/tls/net_ticket.h"
#include "tests/fuzz/file_input.h"

#define NOW_NS      INT64_C(1795357258731000000)
#define CONTENT_MAX 1024u
#define NAME_BYTES  16u

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const uint8_t here[32] = {1}, elsewhere[32] = {2};
static struct net_ticket *tickets;

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void end(void)
{
    net_ticket_close(tickets);
}

static enum err unseal(const uint8_t binding[32], const uint8_t *ticket, size_t n, size_t *content)
{
    uint8_t *copy = malloc(n ? n : 1);
    enum err e;

    must(copy != NULL);
    memcpy(copy, ticket, n);
    e = net_ticket_unseal(tickets, binding, NOW_NS, copy, n, content);
    must(e != ERR_OK || (*content <= n && memcmp(copy, ticket, NAME_BYTES) == 0));
    free(copy);
    return e;
}

static void try_altered(uint8_t *ticket, size_t n, uint8_t where, uint8_t how)
{
    size_t content, at = (size_t)where * n / 256;

    must(unseal(here, ticket, n, &content) == ERR_OK);
    must(content == n - NET_TICKET_HEAD - NET_TICKET_TAIL);
    must(unseal(elsewhere, ticket, n, &content) == ERR_CORRUPT);
    ticket[at] ^= how ? how : 1;
    must(unseal(here, ticket, n, &content) != ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    uint8_t ticket[NET_TICKET_HEAD + CONTENT_MAX + NET_TICKET_TAIL], name[NAME_BYTES];
    size_t content;

    if (!tickets) {
        const char *path = file_input(NULL, 0);

        must(unlink(path) == 0);
        must(net_ticket_open(&tickets, path, NOW_NS, NULL) == ERR_OK);
        (void)atexit(end);
    }
    must(unseal(here, p, n, &content) != ERR_OK);
    if (n < 2 || n > CONTENT_MAX) {
        return 0;
    }
    memcpy(ticket + NET_TICKET_HEAD, p, n);
    must(net_ticket_seal(tickets, here, NOW_NS, ticket, n) == ERR_OK);
    memcpy(name, ticket, sizeof name);
    try_altered(ticket, NET_TICKET_HEAD + n + NET_TICKET_TAIL, p[0], p[1]);
    memcpy(ticket, p, n);
    memcpy(ticket, name, sizeof name);
    must(unseal(here, ticket, n, &content) != ERR_OK);
    return 0;
}
