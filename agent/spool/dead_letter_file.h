/* The files of a quarantine (quarantine.h), each by itself: their bytes, as in docs/formats.md,
 * their names, and what whoever looks after them may do (`procfleet-agent spool`).
 *
 *   batch-<number, 16 hex digits>.quar    kept
 *   batch-….again                         to be sent again
 *
 * Threads: any, also of another process, since each is one step of the file system. */
#ifndef PROCFLEET_AGENT_SPOOL_DEAD_LETTER_FILE_H
#define PROCFLEET_AGENT_SPOOL_DEAD_LETTER_FILE_H

#include <stdbool.h>

#include "agent/spool/spool_batch.h"
#include "common/base/buf.h"

#define QUARANTINE_DIR       "quarantine"
#define QUARANTINE_FILES     4096u
#define QUARANTINE_WHY       400u /* bytes of a reason */
#define QUARANTINE_HEAD      64u  /* bytes that tell whose batch it is */
#define DEAD_LETTER_FILE_MAX (QUARANTINE_HEAD + QUARANTINE_WHY + SPOOL_BATCH_MAX)

/* Why it was set aside. On disk. */
enum quarantine_cause {
    QUARANTINE_REFUSED, /* the collector has answered that it will never take it */
    QUARANTINE_BROKEN, /* exchanges broke under it while others got through: sent again by itself */
};

struct quarantine_batch {
    uint64_t number; /* of its file */
    uint64_t stream, seq;
    int64_t when_ns; /* UTC, when it was set aside */
    bool again;      /* it will be sent again */
    enum quarantine_cause cause;
    unsigned tries; /* how often it was set aside before */
    char why[QUARANTINE_WHY + 1];
    const void *p; /* the batch as it travels */
    size_t n;
};

/* A file's bytes; a failure latches in *out. */
void dead_letter_file_format(struct buf *out, const struct quarantine_batch *b);
/* All but number and again; out->p points into p. Errors: ERR_CORRUPT, ERR_VERSION */
NODISCARD enum err dead_letter_file_parse(struct quarantine_batch *out, const void *p, size_t n);
/* All but number, again, why and p, of a file's first QUARANTINE_HEAD bytes. Errors: as above */
NODISCARD enum err dead_letter_file_head(struct quarantine_batch *out, const void *p, size_t n);

/* Owned by the caller, mem_free; NULL: no memory. */
char *dead_letter_file_path(const char *dir, uint64_t number, const char *suffix);
/* Whether it is the name of a batch. */
bool dead_letter_file_name(uint64_t *number, bool *again, const char *name);

/* -- on spool.dir -- */

/* Numbers of the batches there, oldest first; *n of at most `max`. None is no error.
 * Errors: ERR_ACCESS, ERR_IO */
NODISCARD enum err dead_letter_file_list(const char *spool_dir, uint64_t *numbers, size_t max,
                                         size_t *n);
/* *bytes: owned by the caller, mem_free; out->p points into it.
 * Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_NOMEM, those of dead_letter_file_parse */
NODISCARD enum err dead_letter_file_read(struct quarantine_batch *out, uint8_t **bytes,
                                         const char *spool_dir, uint64_t number);
/* Has it sent again; one that will be already is fine. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_NOMEM
 */
NODISCARD enum err dead_letter_file_retry(const char *spool_dir, uint64_t number);
/* Errors: as above */
NODISCARD enum err dead_letter_file_drop(const char *spool_dir, uint64_t number);

#endif
