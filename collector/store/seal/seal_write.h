/* The segments of one sealing: batches taken from the head, written as one file of each kind.
 * Nothing is current yet: the caller has the manifest take them over.
 * Memory: one host's window, decoded and joined (SEAL_MEMORY), and the summaries of all hosts.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEAL_SEAL_WRITE_H
#define PROCFLEET_COLLECTOR_STORE_SEAL_SEAL_WRITE_H

#include "collector/store/manifest/manifest.h"
#include "collector/store/memtable/head.h"

#define SEAL_MEMORY_TAKEN ((uint64_t)64 << 20) /* decoded, of one host and window */
#define SEAL_MEMORY       ((size_t)1 << 30)

struct seal_writer;

struct seal_writer_conf {
    struct manifest *manifest; /* numbers, and removal of what is not wanted */
    const struct fio *fio;
    const char *dir; /* of the segments; borrowed, as all here */
    bool (*stopping)(void *ctx);
    void *ctx;
};
NODISCARD enum err seal_writer_create(struct seal_writer **out,
                                      const struct seal_writer_conf *conf);
void seal_writer_destroy(struct seal_writer *w); /* NULL is allowed */

struct seal_job {
    const struct head_taken *taken;
    const int64_t *windows_ns; /* rising */
    uint8_t n_windows;
    bool patch;
};

/* A batch that could not be read. */
struct seal_lost {
    struct uuid host;
    uint64_t stream, seq;
};

struct seal_made {
    size_t n;
    struct seg_info info[SEG_KINDS]; /* the rest segment first */
    uint64_t batches, values;
    const struct seal_lost *lost; /* left out; until the next sealing */
    size_t n_lost;
};

/* Errors: ERR_CLOSED (stopping), ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_FULL: no file is left */
NODISCARD enum err seal_write(struct seal_writer *w, struct seal_made *out,
                              const struct seal_job *job, struct errmsg *why);
/* The manifest has them; or it will not: their files are removed. */
void seal_write_keep(struct seal_writer *w);
void seal_write_discard(struct seal_writer *w, const struct seal_made *made);

#endif
