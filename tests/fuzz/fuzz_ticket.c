/* Session tickets that nobody gave out, before anybody is known: any bytes as a ticket; the same
 * under the name of a key that there is; and as the content of a sound one, of which one byte is
 * then altered. Only the sound one opens, under its binding alone. */
#include <stdbool.h>
#include <string.h>

#include "common/tls/tls_ticket.h"
#include "tests/fuzz/file_input.h"

#define NOW_NS      INT64_C(1795357258731000000)
#define CONTENT_MAX 1024u
#define NAME_BYTES  16u

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const uint8_t here[32] = {1}, elsewhere[32] = {2};
static struct tls_ticket *tickets;

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void end(void)
{
    tls_ticket_close(tickets);
}

static enum err unseal(const uint8_t binding[32], const uint8_t *ticket, size_t n, size_t *content)
{
    uint8_t *copy = malloc(n ? n : 1);
    enum err e;

    must(copy != NULL);
    memcpy(copy, ticket, n);
    e = tls_ticket_unseal(tickets, binding, NOW_NS, copy, n, content);
    must(e != ERR_OK || (*content <= n && memcmp(copy, ticket, NAME_BYTES) == 0));
    free(copy);
    return e;
}

static void try_altered(uint8_t *ticket, size_t n, uint8_t where, uint8_t how)
{
    size_t content, at = (size_t)where * n / 256;

    must(unseal(here, ticket, n, &content) == ERR_OK);
    must(content == n - TLS_TICKET_HEAD - TLS_TICKET_TAIL);
    must(unseal(elsewhere, ticket, n, &content) == ERR_CORRUPT);
    ticket[at] ^= how ? how : 1;
    must(unseal(here, ticket, n, &content) != ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    uint8_t ticket[TLS_TICKET_HEAD + CONTENT_MAX + TLS_TICKET_TAIL], name[NAME_BYTES];
    size_t content;

    if (!tickets) {
        const char *path = file_input(NULL, 0);

        must(unlink(path) == 0);
        must(tls_ticket_open(&tickets, path, NOW_NS, NULL) == ERR_OK);
        (void)atexit(end);
    }
    must(unseal(here, p, n, &content) != ERR_OK);
    if (n < 2 || n > CONTENT_MAX) {
        return 0;
    }
    memcpy(ticket + TLS_TICKET_HEAD, p, n);
    must(tls_ticket_seal(tickets, here, NOW_NS, ticket, n) == ERR_OK);
    memcpy(name, ticket, sizeof name);
    try_altered(ticket, TLS_TICKET_HEAD + n + TLS_TICKET_TAIL, p[0], p[1]);
    memcpy(ticket, p, n);
    memcpy(ticket, name, sizeof name);
    must(unseal(here, ticket, n, &content) != ERR_OK);
    return 0;
}
