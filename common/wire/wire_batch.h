/* Telemetry: our structs to and from protobuf bytes. Everything decoded is hostile
 * until it left these functions: sizes are checked before and after unpacking, memory is bounded by
 * a budget (8 MiB; other messages than batches also 20 × their bytes), text is valid UTF-8 without
 * NUL, counts are limited. Threads: any; no shared state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_BATCH_H
#define PROCFLEET_COMMON_WIRE_WIRE_BATCH_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define WIRE_BATCH_BYTES_MAX (1u << 20)  /* as received */
#define WIRE_BATCH_RAW_MAX   (8u << 20)  /* after decompression */
#define WIRE_BATCH_OWN_MAX   (12u << 20) /* what was decoded, packed again */
#define WIRE_TICKS_MAX       1024u
#define WIRE_RUNS_MAX        65536u
#define WIRE_EVENTS_MAX      65536u
#define WIRE_VALUES_MAX      (2u << 20) /* of all columns together */
#define WIRE_LEDGER_MAX      1024u
#define WIRE_TYPES_MAX       256u /* of events of providers */

/* No machine has more: what says so is taken as unknown. */
#define WIRE_CPUS_MAX 65536u

/* What the whole batch is about. */
enum batch_flags {
    BATCH_POLLED =
        1 << 0, /* starts and exits were seen by comparison: short lives may be missing */
    BATCH_REPLAY = 1 << 1, /* a recording, not this moment */
    BATCH_LAST = 1 << 2,   /* the stream ends here (a replay's end, an orderly stop) */
};

struct batch_head {
    struct uuid host;  /* from the certificate; the collector checks it against the connection's */
    uint64_t stream;   /* 64 random bits, new with every queue or spool */
    uint64_t seq;      /* from 1, without holes */
    struct uuid boot;  /* of the host; new at each start of the system */
    uint32_t flags;    /* BATCH_* */
    uint32_t cpus;     /* logical CPUs of the host, 0 = unknown; at most WIRE_CPUS_MAX */
    struct str source; /* "proc", "etl", … */
};

/* A maximal span of ticks in which one instance had rows with one and the same set of columns. */
struct batch_run {
    struct proc_id id;
    uint32_t first_tick;
    uint32_t n_ticks;
    bool fresh; /* see struct sample_row */
    metric_mask mask;
};

/* The values of one metric: for every run with its bit set, in run order, n_ticks values each. */
struct batch_column {
    uint8_t metric;
    size_t n_values;
    const int64_t *values;
};

/* One self-contained batch. All pointers are borrowed from its maker (batch builder or decoder). */
struct batch {
    struct batch_head head;
    size_t n_ticks;
    const int64_t *wall_ns; /* strictly rising: a clock set back ends a batch */
    const int64_t *mono_ns; /* strictly rising */
    size_t n_runs;
    const struct batch_run *runs; /* by (pid, start), then first_tick; never overlapping */
    size_t n_columns;
    const struct batch_column *columns; /* by metric id; one for every bit of the runs' masks */
    size_t n_infos;
    const struct proc_info
        *infos; /* instances new or changed in this batch, or announced anew at a window's start */
    size_t n_events;
    const struct life_event *events; /* in time order; of WIRE_TYPES_MAX types */
    size_t n_ledger;
    const struct ledger_row *ledger;
};

/* Encoded form: one zstd frame (content size in its header, checksum on) around message Batch of
 * telemetry.proto. The encoder keeps the compressor's memory from batch to batch. Threads: one
 * owner. Errors: ERR_NOMEM */
struct wire_encoder;
NODISCARD enum err wire_batch_encoder_create(struct wire_encoder **out);
void wire_batch_encoder_destroy(struct wire_encoder *enc); /* NULL is allowed */

/* Appends the encoded batch to `out`, or nothing. Text that breaks the rules is repaired, not
 * refused. What is encoded can be decoded. Errors: ERR_NOMEM, ERR_FULL (over WIRE_BATCH_BYTES_MAX,
 * WIRE_BATCH_RAW_MAX, the counts above, or what a receiver unpacks), ERR_INVALID (the batch is not
 * as its comments say) */
NODISCARD enum err wire_batch_encode(struct wire_encoder *enc, struct buf *out,
                                     const struct batch *b);

/* The message alone, not compressed, for whoever keeps many of them: whatever could be decoded can
 * be packed, also what a sender would have divided. Errors: ERR_NOMEM, ERR_FULL (over
 * WIRE_BATCH_OWN_MAX, which no decoded batch is, or over out's bound), ERR_INVALID */
NODISCARD enum err wire_batch_pack(struct wire_encoder *enc, struct buf *out,
                                   const struct batch *b);
/* As wire_batch_decode, of what wire_batch_pack gave. */
NODISCARD enum err wire_batch_unpack(struct batch **out, const void *p, size_t n);

/* Columns of metrics this build does not know are left out, and their bits cleared.
 * out  owned by the caller, released by wire_batch_free; nothing points into `p`.
 * Errors: ERR_CORRUPT, ERR_FULL (a limit), ERR_VERSION, ERR_NOMEM */
NODISCARD enum err wire_batch_decode(struct batch **out, const void *p, size_t n);

/* The same with the columns of these metrics (METRIC_BITs) only, which is quicker; the others' bits
 * are cleared, and their bytes not looked at. */
NODISCARD enum err wire_batch_decode_part(struct batch **out, metric_mask metrics, const void *p,
                                          size_t n);
/* One reference less; with the last one it goes. NULL is allowed. */
void wire_batch_free(struct batch *b);

/* Whether run `r` may follow run `before` (NULL: the first), and lies inside the ticks. */
bool wire_batch_run_fits(const struct batch_run *r, const struct batch_run *before, size_t n_ticks);

/* One more reference to a decoded batch, which is constant from here on; wire_batch_free gives
 * it back. Any thread. */
struct batch *wire_batch_hold(struct batch *b);

/* The same for whoever decodes one batch after the other: keeps the decompressor, whose making
 * costs more than a small batch. Threads: one owner. Errors: ERR_NOMEM */
struct wire_decoder;
NODISCARD enum err wire_batch_decoder_create(struct wire_decoder **out);
void wire_batch_decoder_destroy(struct wire_decoder *dec); /* NULL is allowed */
/* As wire_batch_decode_part. */
NODISCARD enum err wire_batch_decode_next(struct wire_decoder *dec, struct batch **out,
                                          metric_mask metrics, const void *p, size_t n);

/* What is missing when the batch never arrives: its rows (a process at a tick) and events, and
 * those whose loss it tells in its ledger, since nobody hears of that then. */
void wire_batch_at_stake(const struct batch *b, uint64_t *rows, uint64_t *events);

/* Bytes the decoded batch occupies, or would with the columns that were left out. */
size_t wire_batch_memory(const struct batch *b);
/* Bytes that holding it keeps from others: memory comes in chunks, and a small batch fills little
 * of one. */
size_t wire_batch_room(const struct batch *b);

#endif
