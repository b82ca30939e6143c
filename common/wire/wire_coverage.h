/* What of a host's window arrived, as answers carry it. Plain data, coded in wire_answer.c. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_COVERAGE_H
#define PROCFLEET_COMMON_WIRE_WIRE_COVERAGE_H

#include "common/base/str.h"

#define WIRE_SPANS_MAX  16u  /* spans of loss of one host */
#define WIRE_STAGES_MAX 256u /* rows of the loss ledger of one host */

struct wire_loss_span {
    int64_t first_ns, last_ns; /* UTC */
    uint64_t ticks, events;
};

/* The sum of one row of the loss ledger over a window. */
struct wire_stage {
    struct str stage, reason;
    uint8_t role, unit; /* enum ledger_role, ledger_unit */
    bool loss;
    uint64_t count;
    int64_t first_ns, last_ns; /* 0, 0: since the collector's start */
};

/* What arrived of a host's window and what is known to be lost. */
struct wire_coverage {
    uint32_t host; /* index into hosts */
    int64_t since_ns, until_ns;
    uint32_t ppm; /* delivered, parts per million: the lower of ticks and events */
    bool has_ticks, has_events;
    uint32_t ticks_ppm, events_ppm;
    bool at_most; /* something is lost and how many events it held is unknown */
    bool missing; /* no data at all */
    uint64_t ticks, lost_ticks, events, lost_events, lost_rows, missing_batches;
    size_t n_spans;
    const struct wire_loss_span *spans;
    size_t n_stages;
    const struct wire_stage *stages;
};

/* What of the window arrived, over all hosts: the last sentence of the notes in numbers. */
struct wire_coverage_sum {
    bool known; /* with the first page of every answer but that of hosts */
    bool at_most;
    uint32_t ppm;
    uint64_t lost_ticks, lost_events;
};

#endif
