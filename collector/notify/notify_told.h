/* What the collector's rules have told of that is not over: asked for when notices were dropped,
 * and again and again for targets that forget. Threads: that of the consumer. */
#ifndef PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_TOLD_H
#define PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_TOLD_H

#include "collector/forward/consumer.h"
#include "collector/notify/notify_body.h"

/* Page by page, valid during the call; an error of `each` ends it. Notices have the id under which
 * the change was told, the step of it, and no number.
 * *again: asking once more may help. Errors: ERR_BUSY (the collector's rules have not come to now),
 * those of consumer_ask and of `each`, ERR_NOMEM, ERR_CORRUPT */
NODISCARD enum err notify_told_ask(struct consumer *c,
                                   enum err (*each)(void *ctx, const struct notify_told *list,
                                                    size_t n),
                                   void *ctx, bool *again, struct errmsg *why);

#endif
