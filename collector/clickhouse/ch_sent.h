/* Which batches of this collector are in ClickHouse: ranges of every (host, stream), and from when
 * on something may be missing there. In data_dir/clickhouse/state; written anew as a whole, synced
 * and renamed, so that a crash leaves the old or the new one. A state that is older than the truth,
 * damaged or gone costs only work: what was sent is sent again, as `again`.
 *
 * Bytes: "PFclick\n", u32 version, i64 from_ns, i64 received_ns, i64 written_ns, name of the
 * collector (varint length), varint streams; each: host (16), u64 stream, i64 used_ns, varint
 * ranges, ranges (dedup_encode); u64 hash of all before. Little endian.
 * Bounds: as dedup.h, but a range too many costs the lowest one: it is sent again, never forgotten.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SENT_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SENT_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/os/fio.h"
#include "common/os/uuid.h"

#define CH_SENT_BYTES_MAX ((size_t)256 << 20)

struct ch_sent;

struct ch_sent_conf {
    const struct fio *fio;
    const char *dir;       /* data_dir/clickhouse; made */
    const char *collector; /* a state of another name counts as none */
    uint32_t hosts_max;
    int64_t forget_ns; /* of hosts, when there are too many */
};

/* What is not known of batches that leave the store's memory. Collector's clock. */
struct ch_sent_from {
    int64_t made_ns;     /* all that was made before is sent; INT64_MIN: nothing is known to be,
                            INT64_MAX: nothing is missing */
    int64_t received_ns; /* likewise, by arrival */
    int64_t written_ns;  /* when this was written; 0: never */
};

/* Reads the state; *from is then what it says. Errors: ERR_NOMEM, those of making and reading */
NODISCARD enum err ch_sent_open(struct ch_sent **out, const struct ch_sent_conf *conf,
                                struct ch_sent_from *from, struct errmsg *why);
void ch_sent_close(struct ch_sent *s); /* writes nothing; NULL is allowed */

bool ch_sent_has(const struct ch_sent *s, const struct uuid *host, uint64_t stream, uint64_t seq);
/* Errors: ERR_FULL (hosts), ERR_NOMEM: it will be sent again some day */
NODISCARD enum err ch_sent_add(struct ch_sent *s, const struct uuid *host, uint64_t stream,
                               uint64_t first, uint64_t last, int64_t now_ns);
/* What is known now as bytes, and these to disk: so that the owner can let go of its lock in
 * between. write: one thread at a time. Errors: those of writing; what was written before stays */
NODISCARD enum err ch_sent_bytes(const struct ch_sent *s, const struct ch_sent_from *from,
                                 struct buf *out);
NODISCARD enum err ch_sent_write(const struct ch_sent *s, const struct buf *bytes);

/* -- for tests and fuzz targets -- */

struct dedup;
NODISCARD enum err ch_sent_encode(struct buf *out, const struct dedup *d, const char *collector,
                                  const struct ch_sent_from *from);
/* Adds to `d`, up to where the bytes are sound. Errors: ERR_CORRUPT, ERR_VERSION, ERR_NOTFOUND
 * (another collector's), ERR_FULL, ERR_NOMEM */
NODISCARD enum err ch_sent_decode(struct dedup *d, const char *collector, struct ch_sent_from *from,
                                  const void *p, size_t n);

#endif
