/* What readers do about what the disk does not give: it is left out of the answer, marked in it,
 * counted for the figures, and told to whoever opened the store, seldom. Private to the store's
 * readers. Threads: those of the view. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_UNREAD_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_UNREAD_H

#include "collector/store/store_impl.h"

/* Whether the error is of what was to be read, so that the others can still be read; not of memory,
 * time or whoever reads. ERR_BUSY is: on Windows another program may hold the file. */
bool store_unread_is(enum err e);
/* The same of a batch of the log: one that unpacks to more than any batch was never accepted. */
bool store_unread_is_batch(enum err e);

/* A value of the host, or a segment that may hold some, with stamps in [first_ns, last_ns] cannot
 * be read, for this reason. used: may be NULL, nobody is shown it then. */
void store_unread(const struct store_view *v, size_t host, struct store_used *used,
                  enum store_unread_kind kind, int64_t first_ns, int64_t last_ns, enum err e);

#endif
