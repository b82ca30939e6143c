/* Between the journal's own files. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_IMPL_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_IMPL_H

#include "collector/subscribe/journal_index.h"
#include "common/os/os.h"
#include "common/reclog/reclog.h"

#define JOURNAL_PREFIX "feed-"

struct journal {
    struct journal_conf conf;
    char *dir;
    uint64_t epoch;

    struct os_mutex *lock;      /* guards what follows, up to the next blank line */
    struct journal_index index; /* changed by the writer alone */
    uint64_t next;              /* behind the last that readers see */
    struct journal_stats stats; /* without what the index knows */

    /* The writer's own. */
    uint64_t number;               /* of the newest file ever begun */
    uint64_t position;             /* the next to give */
    struct reclog_writer out;      /* not open: the next commit begins a file */
    uint64_t out_seed, file_bytes; /* of the records of `out`; when it is full */
    int64_t out_first_ns;          /* of its oldest record; 0 = none */
    struct buf commit;             /* what the next write holds */
    bool fresh;                    /* it begins a file, with this seed: */
    uint64_t fresh_seed;
    struct journal_fresh *waiting; /* what it holds */
    size_t n_waiting, cap_waiting;
    void *packer; /* ZSTD_CCtx */
    uint8_t *packed;
    size_t packed_cap;
};

char *journal_path(const struct journal *j, uint64_t number); /* mem_free; NULL: no memory */

/* Begins a file in the empty commit: header and newest numbers. Errors: ERR_NOMEM, ERR_FULL, ERR_IO
 */
NODISCARD enum err journal_begin(struct journal *j);

/* journal_recover.c: reads every file; `out` is open when writing goes on in the newest one. */
NODISCARD enum err journal_recover(struct journal *j, struct errmsg *why);

#endif
