/* What one host delivered and lost in a window, read from its batches: their ledgers, their ticks,
 * and the holes in the numbers of each stream. Private to collector/query*.c.
 *
 * Events are what the source handed on and the spool did not take away; ticks are those of the
 * batches. What is lost: ledger.h says of each row what it is. Batches that never came are told by
 * the hole they leave, between two numbers or before the first one of a stream that began in the
 * window: of how many ticks by the time between their neighbours, of how many events is unknown.
 * An agent that was killed lost the ticks between its last batch and its next. Of a gap that the
 * window cuts its part inside counts.
 * Bounds: QLEDGER_*; beyond them rows and ranges are left out, spans joined. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_LEDGER_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_LEDGER_H

#include "collector/store/read/store_read.h"
#include "common/model/ledger.h"
#include "common/wire/wire_batch.h"
#include "common/wire/wire_query.h"

#define QLEDGER_COUNTS 192
#define QLEDGER_RANGES 128
#define QLEDGER_KILLS  8

/* One row of the ledgers, summed; of `held` the newest. */
struct qledger_count {
    char stage[24], reason[40];
    const struct ledger_kind *kind;
    uint64_t n;
    int64_t first_ns, last_ns;
};

/* Numbers of one stream without a hole. */
struct qledger_range {
    uint64_t stream, first, last;
    int64_t first_ns, last_ns; /* oldest stamp of the first, newest of the last */
    int64_t before_ns;         /* newest stamp in the window before any of the stream; 0: there is
                                  none, or the stream is older than the window */
};

/* An agent that ended without a word, and is back. */
struct qledger_kill {
    int64_t newest_ns, first_ns; /* its last stamp before, 0 = unknown; and its first one after */
    uint64_t ticks;              /* as it counts them */
};

struct query_ledger {
    int64_t since_ns, until_ns;
    uint64_t batches; /* with data, inside the window */
    uint32_t flags;   /* BATCH_* of any of them */
    uint64_t ticks, events;
    uint64_t events_taken; /* of them, by the spool; query_ledger_end subtracts them */
    uint64_t lost;         /* all that answers lack, in whatever unit */
    uint64_t lost_ticks, lost_events, lost_rows, missing_batches;
    bool at_most;
    int64_t newest_ns; /* of all batches so far, also before the window; 0 = none */
    int64_t period_ns; /* between ticks, lately; 0 = unknown */
    size_t n_counts;
    struct qledger_count counts[QLEDGER_COUNTS];
    size_t n_ranges;
    struct qledger_range ranges[QLEDGER_RANGES];
    size_t n_kills; /* that wait for a batch that shows the period */
    struct qledger_kill kills[QLEDGER_KILLS];
    size_t n_spans;
    struct wire_loss_span spans[WIRE_SPANS_MAX];
};

void query_ledger_init(struct query_ledger *l, int64_t since_ns, int64_t until_ns);

/* Batches in order of their oldest stamps, also those before the window. */
void query_ledger_batch(struct query_ledger *l, const struct batch *b);

/* The same of many batches at once, all of them inside the window: the sums of one where nothing
 * was lost. In the order of time, among batches too. */
void query_ledger_account(struct query_ledger *l, const struct loss_sum *a);

/* A window that begins or ends inside a gap has only one side of it: the caller looks for the
 * other side, before query_ledger_end. Whether the window's end is without data; and the numbers
 * before which its begin is, NULL: it is not. */
bool query_ledger_ends_early(const struct query_ledger *l);
const struct qledger_range *query_ledger_begins_late(const struct query_ledger *l);
/* The first batch behind the window, with its span; the part of what it tells of the time before
 * that lies in the window counts. */
void query_ledger_behind(struct query_ledger *l, const struct batch *b, int64_t first_ns,
                         int64_t last_ns);
/* Numbers held before or behind the window; before_ns is not looked at. */
void query_ledger_numbers(struct query_ledger *l, struct qledger_range seen);

/* After the last batch: puts the sums in the order of ledger.h's table and looks for holes. gaps:
 * numbers that the host's streams lack altogether. unread: when there were batches that came but
 * cannot be read. */
void query_ledger_end(struct query_ledger *l, uint64_t gaps, const struct store_holes *unread);

/* Adds what cannot be read to the spans of loss, inside the window; what it held is unknown. */
void query_ledger_unread(struct query_ledger *l, const struct store_holes *unread);

/* False: it tells what cannot be; sums end at LEDGER_MAX. */
bool query_ledger_believed(const struct query_ledger *l);

/* Delivered, in parts per million, rounded down; false: there was nothing to deliver. */
bool query_ledger_ticks(const struct query_ledger *l, uint32_t *ppm);
bool query_ledger_events(const struct query_ledger *l, uint32_t *ppm);

/* The largest loss, or of stage etw the largest cause of one. NULL: there is none. */
const struct qledger_count *query_ledger_loss(const struct query_ledger *l);
const struct qledger_count *query_ledger_cause(const struct query_ledger *l);

#endif
