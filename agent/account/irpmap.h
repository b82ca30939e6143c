/* Who asked the disk: an I/O request packet's address to the instance that was running when the
 * request was handed over. For records of version 2, whose completion names no issuer.
 * Bounds:  IRPMAP_MAX requests under way; where a new one finds no room, the oldest of its eight
 *          neighbours is forgotten and counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ACCOUNT_IRPMAP_H
#define PROCFLEET_AGENT_ACCOUNT_IRPMAP_H

#include "agent/process/instances.h"

#define IRPMAP_MAX 8192

struct irpmap;

/* dropped  borrowed; grows with every request that was forgotten for want of room
 * Errors:  ERR_NOMEM */
NODISCARD enum err irpmap_create(struct irpmap **out, uint64_t *dropped);
void irpmap_destroy(struct irpmap *m); /* NULL is allowed */

/* irp has been handed over by p; NULL: by somebody unknown. Replaces what the address meant. */
void irpmap_put(struct irpmap *m, uint64_t irp, struct instance *p);

/* Takes the request out; *out is NULL where its issuer is unknown or forgotten. False: no such
 * request. */
bool irpmap_take(struct irpmap *m, uint64_t irp, struct instance **out);

/* Forgets all requests. */
void irpmap_clear(struct irpmap *m);

#endif
