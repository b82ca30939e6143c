/* Reads one file of the journal, record by record. Behind damage it goes on with the next sound
 * record, found by magic and checksum; the seed is random, so that bytes inside a payload, which a
 * peer chooses, cannot pose as one. Memory: one window of 4 MiB. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_SCAN_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_SCAN_H

#include "collector/subscribe/journal_record.h"

struct journal_found {
    const struct journal_header *header;
    const struct journal_part *part; /* valid during the call */
    uint64_t offset;
    size_t bytes;
    uint64_t damaged; /* bytes before it that are in no sound record */
};

struct journal_scan {
    const struct fio *fio;
    struct fio_file *f; /* borrowed */
    uint64_t size;      /* of the file */
    /* An error ends the scan. */
    enum err (*each)(void *ctx, const struct journal_found *found);
    void *ctx;
};

struct journal_scanned {
    struct journal_header header;
    uint64_t end;     /* of the last sound record */
    uint64_t damaged; /* bytes before that which are in none */
};

/* Errors: ERR_CORRUPT (the header cannot be read), ERR_VERSION, ERR_IO, ERR_NOMEM, those of `each`
 */
NODISCARD enum err journal_scan(struct journal_scanned *out, const struct journal_scan *job);

#endif
