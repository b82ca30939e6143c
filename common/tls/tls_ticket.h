/* The keys that seal session tickets, kept in a file so that a collector that starts again still
 * opens the tickets it gave out. Private to tls/ and net/.
 * Bounds:  two keys; a ticket lives TLS_TICKET_LIFE_S at most.
 * Threads: any; a thread of its own rotates the keys every hour.
 * Files:   one tls_ticket per file; the format is in tls_ticket.c. */
#ifndef PROCFLEET_COMMON_TLS_TLS_TICKET_H
#define PROCFLEET_COMMON_TLS_TLS_TICKET_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define TLS_TICKET_LIFE_S 3600u
#define TLS_TICKET_HEAD   36u /* bytes before the sealed content, */
#define TLS_TICKET_TAIL   16u /* and behind it */

struct tls_ticket;

/* Reads the keys, or makes them. A file that is damaged, or that cannot be written, costs a line in
 * the log and full handshakes, no more. Errors: ERR_ACCESS (others can read the file), ERR_NOMEM,
 * ERR_IO (no random numbers) */
NODISCARD enum err tls_ticket_open(struct tls_ticket **out, const char *path, int64_t now_ns,
                                   struct errmsg *why);
void tls_ticket_close(struct tls_ticket *t); /* wipes the keys; NULL is allowed */

/* Seals the n bytes at p + TLS_TICKET_HEAD, for as long as `binding` is the same; the ticket begins
 * at p and is TLS_TICKET_HEAD + n + TLS_TICKET_TAIL long. Errors: ERR_IO */
NODISCARD enum err tls_ticket_seal(struct tls_ticket *t, const uint8_t binding[32], int64_t now_ns,
                                   uint8_t *p, size_t n);

/* Opens the ticket of n bytes in place; its content is at p + TLS_TICKET_HEAD and *content bytes
 * long. Errors: ERR_CORRUPT (not ours, or not under this binding), ERR_TIMEOUT (too old) */
NODISCARD enum err tls_ticket_unseal(struct tls_ticket *t, const uint8_t binding[32],
                                     int64_t now_ns, uint8_t *p, size_t n, size_t *content);

/* Makes a new key if the present one is an hour old, or younger than now. Not from two threads at
 * once. */
void tls_ticket_rotate(struct tls_ticket *t, int64_t now_ns);

#endif
