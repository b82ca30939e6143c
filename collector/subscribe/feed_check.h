/* Looks through the files of data_dir/feed without the feed: for `store check`. Only reads, also
 * beside a collector. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_CHECK_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_CHECK_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/os/fio.h"

struct feed_check_file {
    const char *name; /* in the directory */
    uint64_t bytes, records;
    uint64_t damaged; /* spans of bytes, or the whole */
    bool journal;     /* else a subscription */
};

/* Calls `each` for every journal file and subscription; no such directory: none. What stands at the
 * end of the newest journal file may be being written and is not called damaged unless a sound
 * record follows. Errors: ERR_VERSION, ERR_IO, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err feed_check(const struct fio *fio, const char *dir,
                              void (*each)(void *ctx, const struct feed_check_file *f), void *ctx);

#endif
