/* Who started a process, in words. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_CLI_ANCESTRY_H
#define PROCFLEET_COLLECTOR_CLI_ANCESTRY_H

#include "common/base/buf.h"
#include "common/wire/wire_query.h"

#define ANCESTRY_TEXT (WIRE_ANCESTORS * (MODEL_TEXT_MAX + 16))

/* "gcc 811 < make 800 < sh 700", at most so many, the parent first; of a parent of which nothing is
 * known its number alone. */
void ancestry_put(struct buf *out, const struct wire_event *ev, size_t most);

#endif
