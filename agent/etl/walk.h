/* One pass over recordings: source → decode → aggregate, with every record handed to a visitor
 * together with the fact it means and the process it was charged to. Instances stay in the process
 * table until the walk is closed, so that a report can be made at the end.
 * Bounds: the tables' limits below; what does not fit is counted (walk_loss).
 * Threads: one owner; the visitor is called from walk_run. */
#ifndef PROCFLEET_AGENT_ETL_WALK_H
#define PROCFLEET_AGENT_ETL_WALK_H

#include "agent/account/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/decode/describe.h"
#include "agent/process/ptable.h"
#include "agent/source/source.h"
#include "agent/source/trace/etl_census.h"

#define WALK_INSTANCES_MAX 65536
#define WALK_THREADS_MAX   (1u << 18)
#define WALK_TEXT_MAX      (16u << 20)
#define WALK_FILES_MAX     64

struct walk;

struct walk_record {
    const struct raw_event *raw;
    const struct event *ev;      /* NULL: there is no fact in it */
    enum err decoded;            /* why not: ERR_NOTFOUND, ERR_CORRUPT */
    struct ptable_proc *charged; /* NULL: nobody, or unknown */
    int64_t since_ns;            /* since the first recording's start */
};

struct walk_conf {
    const char *const *paths; /* parts of one recording of one host */
    size_t n_paths;
    const char *tmf_dir;   /* or NULL */
    bool names;            /* walk_describe is wanted: schemas are learnt */
    bool progress;         /* on standard error, when that is a terminal */
    bool (*stopped)(void); /* asked now and then: true ends the walk */
    void (*record)(void *ctx, const struct walk_record *r);
    void (*fact)(void *ctx, const struct event *ev); /* what no record says: EV_LOST; or NULL */
    void *ctx;
};

/* Opens the recordings. Errors: those of etl_file_open and describe_create; `why` names the file */
NODISCARD enum err walk_open(struct walk **out, const struct walk_conf *conf, struct errmsg *why);
void walk_close(struct walk *w); /* NULL is allowed */

/* To the end of the recordings, to walk_stop, or to `stopped`.
 * Errors: ERR_CLOSED (stopped asked for it), ERR_IO, ERR_NOMEM */
NODISCARD enum err walk_run(struct walk *w, struct errmsg *why);
void walk_stop(struct walk *w); /* by the visitor: it has seen enough */

/* What a walk has; valid until walk_close. */
const struct source_about *walk_about(const struct walk *w);
const struct etl_census *walk_census(const struct walk *w, size_t file);
struct ptable *walk_table(const struct walk *w);
const struct aggregate *walk_aggregate(const struct walk *w);
const struct lifecycle *walk_lifecycle(const struct walk *w);
struct describe *walk_describe(const struct walk *w);

int64_t walk_start_ns(const struct walk *w);   /* UTC of the first recording's start */
int64_t walk_reached_ns(const struct walk *w); /* UTC of the last record handed over */
void walk_source_stats(const struct walk *w, struct source_stats *out);
void walk_decode_stats(const struct walk *w, struct decode_counts *out);

#endif
