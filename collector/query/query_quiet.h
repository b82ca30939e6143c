/* When a host was not measured: stretches of its window without a tick, since no agent ran, or
 * since what it sent is lost. A tick stands for the time up to when the next one is due; a stretch
 * is one in which more than two are missing and that is as long as the caller wants to know.
 *
 * Read from what is read for the ledger: ticks of batches, and accounts, which say of many batches
 * only how many ticks they had. An account that lacks some is looked at again, batch by batch.
 * Bounds: QUIET_MAX stretches, of more the longest; QUIET_DOUBTS accounts are looked at again.
 * Threads: one owner. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_QUIET_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_QUIET_H

#include "collector/query/query_impl.h"
#include "common/wire/wire_batch.h"

#define QUIET_MAX    256u
#define QUIET_DOUBTS 64u

struct quiet_span {
    int64_t since_ns, until_ns; /* not measured in between */
    bool cut;                   /* the window ends in it: no tick follows */
};

struct query_quiet {
    int64_t since_ns, until_ns; /* of the window */
    int64_t least_ns;           /* shorter ones do not matter */
    int64_t newest_ns;          /* newest tick so far; QUIET_NONE */
    int64_t period_ns;          /* between ticks, lately; 0: not known */
    int64_t lead_ns;            /* first tick, as long as no period is known; else QUIET_NONE */
    size_t n, n_doubts;
    struct quiet_span spans[QUIET_MAX]; /* by time, apart from each other, after the end */
    struct quiet_doubt {
        int64_t first_ns, last_ns, period_ns; /* of its ticks */
    } doubts[QUIET_DOUBTS];
};

void query_quiet_init(struct query_quiet *x, const struct query_span *s, int64_t least_ns);

/* In order of their oldest stamps. */
void query_quiet_batch(struct query_quiet *x, const struct batch *b);
void query_quiet_account(struct query_quiet *x, const struct loss_sum *a);

/* After the last of them. Errors: those of query_scan_blocks */
NODISCARD enum err query_quiet_end(struct query_quiet *x, struct query *q,
                                   const struct query_span *s);

#endif
