/* What the journal's files hold when it is opened. Private to the folder. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_RECOVER_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_RECOVER_H

#include "collector/subscribe/journal_index.h"

struct journal_recovered {
    uint64_t number;   /* of the newest file; 0: there is none */
    uint64_t position; /* the next to give */
    uint64_t epoch;
    bool sound;       /* writing can go on in the newest file of the index, behind this: */
    uint64_t end;     /* what stands there is a torn end */
    int64_t first_ns; /* stored_ns of that file's oldest record; 0 = none */
    uint64_t torn_bytes, damaged_bytes, damaged_records;
    uint64_t *unread; /* numbers of files to be removed; the caller's (mem_free) */
    size_t n_unread;
};

/* Reads every file into the empty index; changes nothing on disk.
 * Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM, ERR_VERSION; why names the file */
NODISCARD enum err journal_recover(struct journal_recovered *out, struct journal_index *index,
                                   const struct fio *fio, const char *dir, struct errmsg *why);
/* Removes the unread files: after what the next opening must know is durable elsewhere. */
NODISCARD enum err journal_recover_clean(const struct journal_recovered *r, const struct fio *fio,
                                         const char *dir);

#endif
