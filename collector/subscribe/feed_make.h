/* Batches of one host into updates: its lifecycle events, and the newest row of every process at
 * each batch's last tick. Batches that follow each other share a message, up to FEED_ROWS_BYTES.
 * Threads: one owner at a time. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_MAKE_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_MAKE_H

#include "collector/subscribe/feed_note.h"
#include "collector/subscribe/feed_out.h"

#define FEED_ROWS_BYTES (768u << 10) /* of one message, estimated; the rest is room for error */

struct feed_make;

/* Errors: ERR_NOMEM */
NODISCARD enum err feed_make_create(struct feed_make **out, struct feed_out *to);
void feed_make_destroy(struct feed_make *m); /* NULL is allowed */

/* Batches of this host follow, completed from the view, which stays until feed_make_end. */
void feed_make_begin(struct feed_make *m, const struct store_view *view, const char *name,
                     const struct uuid *host);
/* The topics of a batch that the note wants. Errors: ERR_END (it has nothing of them), ERR_NOMEM
 * and those of wire_batch_decode: left out */
NODISCARD enum err feed_make_add(struct feed_make *m, const struct feed_note *note);
void feed_make_end(struct feed_make *m);

#endif
