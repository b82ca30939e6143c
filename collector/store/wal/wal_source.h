/* A file of the log that stays open so that records can be read from it again: recovery leaves
 * batches there rather than reading gigabytes before anybody is served.
 * Threads: any; counted by reference. A removed file can be read until the last one lets go. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_SOURCE_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_SOURCE_H

#include "collector/store/wal/wal_record.h"
#include "common/os/fio.h"

struct wal_source;

/* The header of an open file. Errors: ERR_IO, ERR_CORRUPT, ERR_VERSION, see wal_header_parse */
NODISCARD enum err wal_source_header(struct wal_header *out, const struct fio *fio,
                                     struct fio_file *f, uint64_t number);
/* With one reference. f: moved when ERR_OK. Errors: ERR_NOMEM */
NODISCARD enum err wal_source_create(struct wal_source **out, const struct fio *fio,
                                     struct fio_file *f, const struct wal_header *header);
struct wal_source *wal_source_ref(struct wal_source *s);
void wal_source_unref(struct wal_source *s); /* NULL is allowed */
const struct wal_header *wal_source_about(const struct wal_source *s);

/* The record of `size` bytes at `at`; its text and content point into *room.
 * Errors: ERR_CORRUPT (not the whole, sound record), ERR_IO, ERR_NOMEM */
NODISCARD enum err wal_source_read(const struct wal_source *s, uint64_t at, size_t size,
                                   struct buf *room, struct wal_record *r);

#endif
