/* What outlives a host's batches (struct head_record), in one checksummed file that is written anew
 * at each sealing: counts and the host's last word, which no segment tells of. Derived data but for
 * the counts: without the file hosts are what rest segments say (store_recover.c).
 *
 * `hosts.new` is durable before the manifest has the sealed segments, and becomes `hosts` after; it
 * carries the number of one of them, so that after a crash in between the right one is taken.
 * Bounds: HOSTS_BYTES_MAX. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_HOSTS_H
#define PROCFLEET_COLLECTOR_STORE_HOSTS_H

#include "collector/store/memtable/head.h"
#include "common/os/fio.h"

#define HOSTS_BYTES_MAX (512u << 20) /* of a million hosts */

/* Durable under the second name. number: of a segment that the manifest gets next. */
NODISCARD enum err hosts_write(const struct fio *fio, const char *dir, uint64_t number,
                               const struct head_record *list, size_t n);
/* The manifest has it. */
NODISCARD enum err hosts_adopt(const struct fio *fio, const char *dir);

/* The file that holds for a manifest in which `has` finds the number; *list is the caller's, n = 0
 * when there is none. Errors: ERR_CORRUPT, ERR_VERSION, ERR_IO, ERR_NOMEM */
NODISCARD enum err hosts_read(const struct fio *fio, const char *dir,
                              bool (*has)(void *ctx, uint64_t number), void *ctx,
                              struct head_record **list, size_t *n);

/* The bytes. Errors: ERR_CORRUPT, ERR_VERSION, ERR_NOMEM */
void hosts_encode(struct buf *out, uint64_t number, const struct head_record *list, size_t n);
NODISCARD enum err hosts_decode(const void *p, size_t bytes, uint64_t *number,
                                struct head_record **list, size_t *n);

#endif
