/* The loss ledger's vocabulary: every stage's rows, what they count and what they mean. One table,
 * for the agent that writes rows, for the collector that adds them up, for people and for tests.
 *
 * A stage's account: what came in is what went out, what lies in it and what it dropped; in the
 * unit of its `in`. Rows of another role stand beside the account: `lost` never came in, `why`
 * explains and is no second account of anything. docs/ledger.md says all of it for people.
 * Threads: any; nothing changes. */
#ifndef PROCFLEET_COMMON_MODEL_LEDGER_H
#define PROCFLEET_COMMON_MODEL_LEDGER_H

#include <stdbool.h>

#include "common/model/model.h"

/* What a row may tell: no machine does or loses more between two batches. And where sums end: an
 * account that tells so much is not believed, and sums over hosts leave it out. */
#define LEDGER_ROW_MAX UINT64_C(1000000000000)
#define LEDGER_MAX     UINT64_C(1000000000000000)

enum ledger_role {
    LEDGER_IN,
    LEDGER_OUT,
    LEDGER_HELD,    /* at that moment: the one count that is no running total */
    LEDGER_DROPPED, /* had come in */
    LEDGER_LOST,    /* had not */
    LEDGER_WHY,
};

enum ledger_unit {
    LEDGER_EVENTS,
    LEDGER_TICKS,
    LEDGER_ROWS,    /* a process at a tick */
    LEDGER_RECORDS, /* rows and lifecycle events */
    LEDGER_BATCHES,
    LEDGER_BUFFERS, /* of an unknown number of events */
    LEDGER_TIMES,   /* anything else */
};

struct ledger_kind {
    struct str stage, reason;
    uint8_t role; /* enum ledger_role */
    uint8_t unit; /* enum ledger_unit */
    bool loss;    /* answers lack it */
    bool at_most; /* with it, an unknown number of events is missing */
};

/* What the row is. An unknown reason is a loss of events. Never NULL. */
const struct ledger_kind *ledger_kind(const struct ledger_row *row);

/* The same, faster where rows come in the order of the table: looks behind `before`, the kind of
 * the row before (NULL: none), first. */
const struct ledger_kind *ledger_kind_after(const struct ledger_kind *before,
                                            const struct ledger_row *row);

/* Whether the row counts data that is missing from answers. */
bool ledger_is_loss(const struct ledger_row *row);

/* The whole table, stage by stage in the order data flows; an empty reason stands for every one. */
size_t ledger_kinds(const struct ledger_kind **out);

/* Where it stands in that table; behind all of them if the reason is unknown. */
size_t ledger_place(const struct ledger_kind *kind);

/* The sum with one count more, LEDGER_MAX at most; a count beyond LEDGER_ROW_MAX makes it that. */
uint64_t ledger_add(uint64_t sum, uint64_t count);

/* The sum without a part of it, 0 at least; what is not believed stays so. */
uint64_t ledger_sub(uint64_t sum, uint64_t part);

bool ledger_is_believed(uint64_t sum);

/* in - out - held - dropped of the stage over these rows: 0 when its account balances. */
int64_t ledger_balance(const struct ledger_row *rows, size_t n, const char *stage);

/* "in", "out", "held", "dropped", "lost", "why"; "events", "ticks", … */
const char *ledger_role_name(unsigned role);
const char *ledger_unit_name(unsigned unit);

#endif
