/* What a spool on disk is made with, its bounds, and what it counts. Plain data. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_CONF_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_CONF_H

#include "agent/spool/spool_batch.h"
#include "common/os/fio.h"

#define SPOOL_BYTES_MIN    (1u << 20) /* of max_bytes */
#define SPOOL_COMMIT_MAX   (4u << 20) /* beyond this much, commit */
#define SPOOL_INFLIGHT_MAX 16u        /* batches given out and not done */
#define SPOOL_RANGES_MAX   48u
#define SPOOL_LIVE_LAG_NS  30000000000 /* live is begun anew when it is so far behind */

struct spool_disk_conf {
    const char *dir; /* exists; the caller holds its lock */
    const struct fio *fio;
    uint64_t max_bytes;
    int64_t max_age_ns;
};

struct spool_disk_stats {
    uint64_t commits, batches; /* made durable */
    uint64_t held, held_bytes; /* batches not done */
    uint64_t segments, bytes;  /* on disk */
    uint64_t torn_bytes;       /* cut from the end of the last file at opening */
    uint64_t forgotten;       /* batches found missing at opening; they may have been sent before */
    uint64_t unreadable;      /* damaged spans and batches, files whose header is lost */
    uint64_t damaged_headers; /* of files that are read by the other copy, found at opening */
    uint64_t foreign;         /* files that are not ours, left alone */
    int64_t newest_ns;        /* UTC, when the newest batch found at opening was put; 0: none was */
    struct spool_loss reduced; /* told in what is left of the batches */
    struct spool_loss dropped; /* went whole for want of room */
    struct spool_loss expired;
    struct spool_loss other_host; /* of another identity than this host's */
};

#endif
