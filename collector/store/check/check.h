/* Looks through a store's files on disk and verifies every checksum; repairs what can be repaired.
 * Without `repair` it only reads, also beside the collector that runs; with it the store must be
 * closed. What the collector makes anew by itself is removed when it is damaged.
 * Memory: one segment's directory. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_CHECK_CHECK_H
#define PROCFLEET_COLLECTOR_STORE_CHECK_CHECK_H

#include "collector/store/segment/seg.h"

enum check_state {
    CHECK_SOUND,
    CHECK_DAMAGED, /* and left so */
    CHECK_MENDED,  /* what was sound in it is kept */
    CHECK_ASIDE,   /* nothing in it could be read: now NAME.bad */
    CHECK_KEPT,    /* of the log: put aside by the collector, as nothing in it can be read */
    CHECK_MISSING, /* the manifest names it, the directory does not */
};

/* One file that is not sound. */
struct check_file {
    const char *name;
    enum check_state state;
    uint64_t values, damaged; /* log: records read, spans that are none */
    uint64_t lost;            /* after a repair: values that are gone */
};

struct check_conf {
    const char *data_dir;
    const struct fio *fio;
    bool repair;
    void (*on_file)(void *ctx, const struct check_file *f);                    /* may be NULL */
    void (*on_progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *ctx;
};

struct check_count {
    uint64_t files, bytes, values; /* log: records */
    uint64_t damaged_files, damaged, lost;
};

struct check_result {
    struct check_count kinds[SEG_KINDS], log, manifest;
    struct check_count indexes, hosts, catalogue; /* values: batches and ranges; hosts; pages */
    bool mended;                                  /* something was damaged and is not any more */
    bool damaged;                                 /* something still is */
};

/* Errors: ERR_BUSY (repair beside a collector), ERR_NOTFOUND (no store there), ERR_VERSION (files
 * of a newer format), ERR_IO, ERR_ACCESS, ERR_NOSPACE, ERR_NOMEM */
NODISCARD enum err check_store(struct check_result *out, const struct check_conf *conf,
                               struct errmsg *why);

#endif
