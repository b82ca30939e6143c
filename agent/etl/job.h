/* One invocation of an `etl` subcommand: its files, its format, how it went. A subcommand walks
 * each part (a file; with --merge all files as one recording) and prints. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_JOB_H
#define PROCFLEET_AGENT_ETL_JOB_H

#include <stdio.h>

#include "agent/etl/jsonw.h"
#include "agent/etl/walk.h"
#include "common/conf/opt.h"
#include "common/text/sheet.h"

struct job {
    const struct opt_args *args;
    enum sheet_format format;
    const char *const *files;
    size_t n_files;
    bool merge;
    bool (*stopped)(void); /* Ctrl-C */
    FILE *out;
    bool out_terminal;
    bool partial;    /* stopped before the end of a file */
    enum err failed; /* of the first file that could not be read */
    bool out_failed; /* the output takes no more */
    int out_errno;   /* why */
};

/* The subcommands. Errors: those of their options, and of memory; what happens to a file is in the
 * job. */
extern const struct opt_command info_opts, summary_opts, processes_opts, threads_opts, events_opts,
    processes_top_opts;
NODISCARD enum err info_run(struct job *job, struct errmsg *why);
NODISCARD enum err summary_run(struct job *job, struct errmsg *why);
NODISCARD enum err processes_run(struct job *job, struct errmsg *why);
NODISCARD enum err threads_run(struct job *job, struct errmsg *why);
NODISCARD enum err events_run(struct job *job, struct errmsg *why);
NODISCARD enum err processes_top_run(struct job *job, struct errmsg *why);

/* Options every subcommand has. */
#define JOB_OPTS                                                                                 \
    {"format", 'f', "table|json|jsonl|csv", "how it is printed; default table", false},          \
        SHEET_OPT_WIDE,                                                                          \
    {                                                                                            \
        "merge", 0, NULL,                                                                        \
            "take the files as parts of one recording of one host, as kernel and user sessions " \
            "are",                                                                               \
            false                                                                                \
    }

/* Fills the job from its arguments. Errors: ERR_USAGE */
NODISCARD enum err job_begin(struct job *job, const struct opt_args *args, struct errmsg *why);

/* Number of parts, and the name rows of part i carry. */
size_t job_parts(const struct job *job);
const char *job_part_name(const struct job *job, size_t i);

/* Opens part i: paths and stopped are set in `conf`, the rest is the caller's. Errors are printed
 * and noted; ERR_OK only when there is a walk. */
NODISCARD enum err job_open(struct job *job, size_t i, struct walk_conf *conf, struct walk **out);

/* Runs it; false: stopped or failed, which is printed and noted. What came before can be reported.
 */
bool job_walk(struct job *job, struct walk *w);

/* A sheet on the job's output. On a terminal a table fits in, unless --wide: the titles in
 * `yields`, which end with NULL, give way first. Errors: ERR_NOMEM */
NODISCARD enum err job_sheet(const struct job *job, struct sheet **out, enum sheet_format format,
                             const struct sheet_column *columns, size_t n,
                             const char *const *yields);

/* After printing: whether the output takes more; false ends the walk and the job. */
bool job_out_ok(struct job *job);

/* Prints one object per part by `print`, which opens the part itself; several become an array in
 * JSON, paragraphs for people. CSV is refused: `what` is no table of rows.
 * pretty: levels of an object that stand on lines of their own in JSON.
 * Errors: ERR_USAGE (CSV), and those of `print` */
NODISCARD enum err job_objects(struct job *job, const char *what, unsigned pretty,
                               enum err (*print)(struct job *job, size_t part, struct jsonw *j),
                               struct errmsg *why);

/* An id of an option, of a process or thread; false: not given. Errors: ERR_USAGE */
NODISCARD enum err job_id(const struct job *job, const char *option, bool *given, uint32_t *out,
                          struct errmsg *why);

/* A positive number of an option, or the default. Errors: ERR_USAGE */
NODISCARD enum err job_number(const struct job *job, const char *option, uint64_t def,
                              uint64_t *out, struct errmsg *why);

#endif
