/* Reads one file of the write-ahead log back, record by record, past damage. Memory: one window of
 * 4 MiB, whatever the file's size. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_REPLAY_H
#define PROCFLEET_COLLECTOR_STORE_WAL_REPLAY_H

#include <stdbool.h>

#include "collector/store/wal_record.h"
#include "common/fio.h"

struct wal_replay {
    const struct fio *fio;
    struct fio_file *f; /* borrowed */
    uint64_t size;      /* of the file */
    bool last;          /* stop at the first bad record instead of looking for the next sound one */
    /* A record, valid during the call. ERR_CORRUPT: counted, goes on; other errors end it. */
    enum err (*each)(void *ctx, const struct wal_record *r);
    void *ctx;
};

struct wal_replayed {
    uint64_t end;         /* how much was read; 0: the file's header is unreadable */
    uint64_t bad_records; /* spans of unreadable bytes, unknown kinds, what `each` called corrupt */
};

/* Errors: ERR_IO, ERR_NOMEM, ERR_VERSION, and those of `each` */
NODISCARD enum err wal_replay(struct wal_replayed *out, const struct wal_replay *job);

#endif
