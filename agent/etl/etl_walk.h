/* One pass over recordings: source → decode → aggregate, with every record handed to a visitor
 * together with the fact it means and the process it was charged to. Instances stay in the process
 * table until the walk is closed, so that a report can be made at the end.
 * Bounds: the tables' limits below; what does not fit is counted (walk_loss).
 * Threads: one owner; the visitor is called from etl_walk_run. */
#ifndef PROCFLEET_AGENT_ETL_ETL_WALK_H
#define PROCFLEET_AGENT_ETL_ETL_WALK_H

#include "agent/account/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/decode/describe.h"
#include "agent/etl/schema/etl_schemas.h"
#include "agent/process/instances.h"
#include "agent/source/source.h"
#include "agent/source/trace/etl_census.h"

#define ETL_WALK_INSTANCES_MAX 65536
#define ETL_WALK_THREADS_MAX   (1u << 18)
#define ETL_WALK_TEXT_MAX      (16u << 20)
#define ETL_WALK_FILES_MAX     64

struct etl_walk_record {
    const struct raw_event *raw;
    const struct event *ev;   /* NULL: there is no fact in it */
    enum err decoded;         /* why not: ERR_NOTFOUND, ERR_CORRUPT */
    struct instance *charged; /* NULL: none, or unknown */
    int64_t since_ns;         /* since the first recording's start */
    bool meant;               /* of the part that is asked about (conf.part) */
};

struct etl_walk;

struct etl_walk_conf {
    const char *const *paths; /* parts of one recording of one host */
    size_t n_paths;
    const char *tmf_dir;         /* or NULL */
    bool names;                  /* etl_walk_describe is wanted: schemas are learnt */
    struct etl_schemas *schemas; /* beside those of the recording; or NULL */
    bool progress;               /* on standard error, when that is a terminal */
    bool (*stopped)(void);       /* asked now and then: true ends the walk */
    /* Whether a record, of which nothing is decoded yet, is of the part of the recording that is
     * meant; figures are those of that part alone. What comes before it is handed over, too, with
     * `meant` false; behind it the walk ends. Of the first record that is meant, and of the first
     * one behind them, *late_ns is how long after the moment it came. NULL: all of it. */
    bool (*part)(void *part_ctx, struct etl_walk *w, const struct etl_walk_record *r,
                 int64_t *late_ns);
    void *part_ctx;
    void (*record)(void *ctx, const struct etl_walk_record *r);
    void (*fact)(void *ctx, const struct event *ev); /* what no record says: EV_LOST; or NULL */
    void *ctx;
};

/* What a walk has, to be read by the visitor and for reports until etl_walk_close. */
struct etl_walk {
    struct etl_walk_conf conf;
    struct source *source; /* its `about` describes the recordings */
    struct decode *decode;
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    struct describe *describe; /* NULL without conf.names */
    struct etl_census *census; /* one for each file */
    int64_t start_ns;          /* UTC of the first recording's start */
    int64_t reached_ns;        /* UTC of the last record handed over */
    uint64_t records;
    bool in_part, behind_part;            /* a record of it has come; one behind it, too */
    int64_t part_from_ns, part_until_ns;  /* UTC, when there are these */
    int64_t begun_mono_ns, shown_mono_ns; /* of the progress on standard error */
    bool terminal, interrupted;
};

/* Opens the recordings. Errors: those of etl_file_open and describe_create; `why` names the file */
NODISCARD enum err etl_walk_open(struct etl_walk **out, const struct etl_walk_conf *conf,
                                 struct errmsg *why);
void etl_walk_close(struct etl_walk *w); /* NULL is allowed */

/* To the end of the recordings, to etl_walk_stop, or to `stopped`.
 * Errors: ERR_CLOSED (stopped asked for it), ERR_IO, ERR_NOMEM */
NODISCARD enum err etl_walk_run(struct etl_walk *w, struct errmsg *why);
void etl_walk_stop(struct etl_walk *w); /* by the visitor: it has seen enough */

void etl_walk_source_stats(const struct etl_walk *w, struct source_stats *out);
void etl_walk_decode_stats(const struct etl_walk *w, struct decode_counts *out);

/* All instances, in order of pid and start. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err etl_walk_list(const struct etl_walk *w, struct instance ***out, size_t *n);

#endif
