/* Which runs go, and their rows. Those that are too old; and while there are too many, or their
 * files have too many bytes, the oldest of the owner who has the most of them: a certificate that
 * marks without end takes what room there is, and loses it again to those who come after. Runs that
 * are open or closing stay.
 *
 * Threads: any (lab_db.h). */
#ifndef PROCFLEET_COLLECTOR_LAB_RUNS_TRIM_H
#define PROCFLEET_COLLECTOR_LAB_RUNS_TRIM_H

#include "collector/lab/lab_db.h"
#include "common/model/model.h"

struct runs_bounds {
    int64_t oldest_ns;  /* what ended before, UTC, goes */
    uint64_t max_rows;  /* RUNS_MAX */
    uint64_t max_bytes; /* of all files */
};

enum runs_why { RUNS_OLD, RUNS_MANY, RUNS_LARGE };

struct runs_gone {
    uint64_t number;
    struct uuid id; /* its file is the caller's to remove */
    enum runs_why why;
};

/* Drops at most `max` rows and tells which; *n = max: there may be more. Errors: ERR_NOMEM, those
 * of lab_db; nothing is dropped then */
NODISCARD enum err runs_trim(struct lab_db *l, const struct runs_bounds *bounds,
                             struct runs_gone *gone, size_t max, size_t *n);

/* Drops that run, with its lists; none of that number is no error. _row: inside a transaction. */
NODISCARD enum err runs_trim_one(struct lab_db *l, uint64_t number);
NODISCARD enum err runs_trim_row(struct lab_db *l, struct db *d, uint64_t number);

#endif
