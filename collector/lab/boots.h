/* Starts of hosts' systems, in the table boot of lab.db: which boots data came of, from when to
 * when, and whether the agent's last word was a good-bye. It outlives the samples.
 *
 * What is stored is noted in memory and written with boots_flush: new boots and good-byes with the
 * next one, how far a boot goes with every BOOTS_LATER_NS. A collector that is killed forgets at
 * most that much of a boot's end.
 *
 * Bounds:  BOOTS_OF_HOST of a host, the oldest go; BOOTS_NOTED between two flushes.
 * Threads: any. One lock, held across no I/O. */
#ifndef PROCFLEET_COLLECTOR_LAB_BOOTS_H
#define PROCFLEET_COLLECTOR_LAB_BOOTS_H

#include "collector/lab/lab_db.h"
#include "collector/query/query.h"

#define BOOTS_OF_HOST  256u
#define BOOTS_NOTED    (1u << 16)
#define BOOTS_LATER_NS (300 * CLK_S)

struct boots_book;

NODISCARD enum err boots_create(struct boots_book **out, struct lab_db *db);
void boots_destroy(struct boots_book *b); /* what is not flushed is lost; NULL is allowed */

/* A batch with stamps from first_ns to last_ns, by the host's clock, has become durable. booted_ns:
 * when its system started, 0 = not known. */
struct boots_note {
    struct uuid host, boot;
    int64_t booted_ns, first_ns, last_ns;
    bool good_bye; /* nothing follows it */
};
void boots_stored(struct boots_book *b, const struct boots_note *note);

/* all: also how far boots go. Errors: those of SQLite; what was noted stays then */
NODISCARD enum err boots_flush(struct boots_book *b, bool all);

/* The host's boots that reach into [since, until), the oldest first. Errors: those of SQLite */
NODISCARD enum err boots_each(struct boots_book *b, const struct uuid *host, int64_t since_ns,
                              int64_t until_ns, query_boot_each each, void *to);

#endif
