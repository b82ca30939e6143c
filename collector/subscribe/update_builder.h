/* Batches of one host into updates: its lifecycle events, and the newest row of every process at
 * each batch's last tick. Batches that follow each other share a message, up to FEED_ROWS_BYTES.
 * Threads: one owner at a time. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_UPDATE_BUILDER_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_UPDATE_BUILDER_H

#include "collector/store/read/store_read.h"
#include "collector/subscribe/publisher.h"

#define FEED_ROWS_BYTES (768u << 10) /* of one message, estimated; the rest is room for error */

struct update_builder;

/* Errors: ERR_NOMEM */
NODISCARD enum err update_builder_create(struct update_builder **out, struct publisher *to);
void update_builder_destroy(struct update_builder *m); /* NULL is allowed */

/* Batches of this host follow, completed from the view, which stays until update_builder_end. */
void update_builder_begin(struct update_builder *m, const struct store_view *view, const char *name,
                          const struct uuid *host);
/* The topics of a batch that the note wants. Errors: ERR_END (it has nothing of them), ERR_NOMEM
 * and those of wire_batch_decode: left out */
NODISCARD enum err update_builder_add(struct update_builder *m, const struct feed_note *note);
void update_builder_end(struct update_builder *m);

#endif
