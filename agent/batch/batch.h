/* Ticks and lifecycle events become encoded batches. A batch closes after `samples` ticks, at
 * `max_age_ns`, when its estimated size reaches `max_bytes`, and always at a multiple of
 * BATCH_WINDOW_NS of wall time; the very first closes with its first tick, so that a new host shows
 * at once. A batch that turns out too large is split, by ticks, then by instances, then by events;
 * nothing is dropped for its size. An instance's attributes travel when it is new or has changed,
 * and again in its first batch of every window.
 * Bounds:  BATCH_*_MAX below; reaching one closes the batch early.
 * Threads: one owner; batch_limit from any. */
#ifndef PROCFLEET_AGENT_BATCH_BATCH_H
#define PROCFLEET_AGENT_BATCH_BATCH_H

#include <stdatomic.h>

#include "agent/privacy/privacy.h"
#include "common/base/clk.h"
#include "common/base/err.h"
#include "common/wire/wire_batch.h"

#define BATCH_WINDOW_NS  (300 * CLK_S)
#define BATCH_VALUES_MAX (1u << 19)
#define BATCH_ROWS_MAX   (1u << 16)
#define BATCH_EVENTS_MAX 8192u
/* Bytes of names and command lines at which a batch closes. Up to twice as many are kept, which a
 * receiver can still unpack within its budget; the rest travels in the next. */
#define BATCH_TEXT_MAX   (2u << 20)
#define BATCH_LEDGER_MAX 168u

struct batch_builder;

struct batch_conf {
    struct batch_head head; /* seq is the builder's own, from 1; source is copied */
    uint32_t samples;       /* 1 to 1000 */
    size_t max_bytes;       /* encoded */
    int64_t max_age_ns;
    struct privacy *filter; /* borrowed: what of the texts may leave the host */

    /* The counters of all stages since the start, always the same ones in the same order; gives how
     * many. Rows without a difference to the previous batch do not travel; `held` is no running
     * total and travels as it is. May be NULL. */
    size_t (*ledger)(void *ctx, struct ledger_row *rows, size_t max);
    /* Borrowed; true: the collector is one that keeps no events of providers, and takes rows of
     * `forward` for losses, as all that it does not know: they wait. NULL: it keeps them. */
    const atomic_bool *no_events;

    /* Says which stream and number the batch about to be made has, where these are not the head's
     * and one more than the last: a spool knows better. May be NULL. */
    void (*number)(void *ctx, uint64_t *stream, uint64_t *seq);

    /* Takes an encoded batch; bytes are borrowed. Its error ends the call that closed the batch. */
    enum err (*out)(void *ctx, uint64_t seq, const void *bytes, size_t n);
    void *ctx;
};

struct batch_stats {
    uint64_t batches, bytes;
    uint64_t ticks, rows, values, events; /* in */
    uint64_t split;                       /* batches that had to be cut in two */
    /* rows and events: in = out + held + nomem + oversize + unsent */
    uint64_t in, out, held;
    uint64_t nomem;     /* lost for want of memory */
    uint64_t oversize;  /* fit in no batch alone */
    uint64_t unsent;    /* nobody took their batch any more */
    uint64_t text_lost; /* texts left out for want of memory */
};

/* Errors: ERR_NOMEM, ERR_INVALID */
NODISCARD enum err batch_create(struct batch_builder **out, const struct batch_conf *conf);
void batch_destroy(struct batch_builder *b);
const struct batch_stats *batch_stats(const struct batch_builder *b);

/* The same as rows of the loss ledger, BATCH_LEDGER_ROWS of them at most. */
#define BATCH_LEDGER_ROWS 8
size_t batch_ledger(const struct batch_builder *b, struct ledger_row *rows, size_t max);

/* Errors: those of `out`. Want of memory loses what was added, counted. */
NODISCARD enum err batch_tick(struct batch_builder *b, const struct sample_tick *tick);
NODISCARD enum err batch_event(struct batch_builder *b, const struct life_event *ev);

/* From here on data comes from there: what is held leaves with what its head said so far.
 * Errors: those of `out` */
NODISCARD enum err batch_source(struct batch_builder *b, const char *name, bool polled);

/* The end of the stream: what is held leaves in a batch with the flag BATCH_LAST. */
NODISCARD enum err batch_finish(struct batch_builder *b);

/* The collector takes no batch above so many bytes. */
void batch_limit(struct batch_builder *b, size_t bytes);

#endif
