/* What a view knows of instances beyond the head: asked of the catalogue, kept until the view is
 * closed. Private to the store's readers. Bounds: LOOKUP_*; what has no room is asked for again
 * each time, and what has none for its text is not known: store_lookup_unread tells. Threads: those
 * of the view. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_LOOKUP_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_LOOKUP_H

#include "collector/store/catalogue/catalogue.h"

#define LOOKUP_BRIEFS (40u << 20) /* all of a host, in brief; 200 bytes each */
#define LOOKUP_WHOLES (16u << 20) /* those that are shown, likewise */
#define LOOKUP_TEXTS  (64u << 20)

struct store_lookup;
NODISCARD enum err store_lookup_create(struct store_lookup **out);
void store_lookup_destroy(struct store_lookup *l); /* NULL is allowed */

/* Where instances are looked for: those alive in [since, until). Everywhere, until this is called.
 */
void store_lookup_range(struct store_lookup *l, int64_t since_ns, int64_t until_ns);

/* False: nothing is known. start 0: the latest of that pid. brief: path and command line may be
 * missing; cheap for all of a host. */
bool store_lookup_find(struct store_lookup *l, struct catalogue *c, const struct uuid *host,
                       const struct uuid *boot, struct proc_id id, bool brief,
                       struct proc_info *out);

/* Asks for these at once: store_lookup_find knows of each of them then what there is to know. What
 * cannot be had now is asked for when it is looked for. */
void store_lookup_want(struct store_lookup *l, struct catalogue *c, const struct uuid *host,
                       const struct proc_key *keys, size_t n);

/* The error with which something that the catalogue has could not be read or kept since this was
 * asked last; ERR_OK: there was none. */
NODISCARD enum err store_lookup_unread(struct store_lookup *l);

#endif
