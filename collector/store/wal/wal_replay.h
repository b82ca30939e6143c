/* Reads one file of the write-ahead log back, record by record, past damage. Memory: one window of
 * 4 MiB, whatever the file's size. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_REPLAY_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_REPLAY_H

#include <stdbool.h>

#include "collector/store/wal/wal_record.h"
#include "common/os/fio.h"

struct wal_replay {
    const struct fio *fio;
    struct fio_file *f;              /* borrowed */
    uint64_t size;                   /* of the file */
    const struct wal_header *header; /* of it */
    /* A record, valid during the call. ERR_CORRUPT: counted, goes on; other errors end it. */
    enum err (*each)(void *ctx, const struct wal_record *r);
    void *ctx;
};

struct wal_replayed {
    uint64_t end; /* of its last sound record: what follows was never finished, or is damage */
    uint64_t bad_records; /* spans of unreadable bytes before a sound record, unknown kinds, what
                             `each` called corrupt */
    bool ranges_lost;     /* of its checkpoint some or all */
    bool strange_end;     /* what follows `end` was not left by a write that was never finished */
};

/* Errors: ERR_IO, ERR_NOMEM, and those of `each` */
NODISCARD enum err wal_replay(struct wal_replayed *out, const struct wal_replay *job);

/* Of a file whose header is unreadable: whether it holds more than one that was never begun, which
 * has zeros or less than a header. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err wal_replay_any(bool *any, const struct fio *fio, struct fio_file *f,
                                  uint64_t size);

#endif
