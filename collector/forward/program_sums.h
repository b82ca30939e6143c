/* What the programs of each host use, from the newest row of each process in each batch: counters
 * as what they grew by since a moment, gauges as the sum over processes that are there.
 *
 * A counter grows by the difference of two rows of a process; a process that began after its host
 * was first seen has its first row counted whole. What a process does behind its last row is not
 * known here. Sums only grow, from `start_ns` on, so sending one twice does no harm; a program of
 * which there was no process for PROGRAM_SUMS_IDLE_NS is forgotten, and begins anew.
 *
 * Bounds:  hosts and processes as created, as many programs as processes; of one host 16,384
 *          processes and 8,192 programs; more are left out and counted. Names are cut at 256 bytes.
 * Threads: one owner. The state is a function of the updates: the same ones give the same. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_PROGRAM_SUMS_H
#define PROCFLEET_COLLECTOR_FORWARD_PROGRAM_SUMS_H

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/wire/wire_query.h"

#define PROGRAM_SUMS_METRICS 24u
#define PROGRAM_SUMS_IDLE_NS (600 * CLK_S) /* by the host's clock */

struct program_sums;

struct program_sums_conf {
    uint8_t n_metrics;
    uint8_t metrics[PROGRAM_SUMS_METRICS]; /* ids of columns, rising */
    int64_t interval_ns;                   /* of a host, between two ticks that are given */
    size_t hosts_max, processes_max;       /* of all hosts */
};

struct program_sums_row {
    struct str name;       /* of the image; the host's own row: empty */
    int64_t start_ns;      /* UTC, since when counters are summed */
    uint32_t processes;    /* there at the tick */
    uint64_t have;         /* bit i: values[i] is known */
    const int64_t *values; /* by the order of the metrics */
};

/* One host at one moment; borrowed during the call. The first row is that of all its processes. */
struct program_sums_tick {
    struct uuid host;
    struct str name;
    int64_t when_ns; /* UTC, the host's clock */
    size_t n;
    const struct program_sums_row *rows;
};

struct program_sums_sink {
    enum err (*tick)(void *ctx, const struct program_sums_tick *t);
    void *ctx;
};

/* Errors: ERR_NOMEM */
NODISCARD enum err program_sums_create(struct program_sums **out,
                                       const struct program_sums_conf *conf);
void program_sums_destroy(struct program_sums *s); /* NULL is allowed */

/* Takes an update's rows. A host's tick is whole, and given, when a row of its next one comes.
 * Errors: ERR_NOMEM (some rows were taken), those of the sink */
NODISCARD enum err program_sums_take(struct program_sums *s, const struct wire_update *u,
                                     const struct program_sums_sink *sink);

uint64_t program_sums_left_out(const struct program_sums *s); /* rows beyond the bounds */

/* The state as bytes. With other metrics than it was saved with, loading begins anew: ERR_OK.
 * Errors: ERR_CORRUPT, ERR_NOMEM; it is empty then */
void program_sums_save(const struct program_sums *s, struct buf *out);
NODISCARD enum err program_sums_load(struct program_sums *s, const void *p, size_t n);

#endif
