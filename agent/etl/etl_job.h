/* One invocation of a command of procfleet-etl: its files, its format, how it went. A command walks
 * each part (a file; with --merge all files as one recording) and prints. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_JOB_H
#define PROCFLEET_AGENT_ETL_ETL_JOB_H

#include <stdio.h>

#include "agent/etl/etl_walk.h"
#include "common/conf/opt.h"
#include "common/text/jsonw.h"
#include "common/text/table.h"

struct etl_job {
    const struct opt_args *args;
    struct etl_schemas schemas; /* --manifests, and the program's tables */
    enum table_format format;
    size_t other; /* --format: 1 + index in the command's `formats`; 0 = one of rows */
    const char *const *files;
    size_t n_files;
    bool merge;
    bool no_files;         /* the subcommand takes none */
    bool (*stopped)(void); /* Ctrl-C */
    FILE *out;
    bool out_terminal;
    bool partial;     /* stopped before the end of a file */
    const char *full; /* the recording of which it was said that its processes had no room */
    enum err failed;  /* of the first file that could not be read */
    bool out_failed;  /* the output takes no more */
    int out_errno;    /* why */
};

/* A command: its options, and what it does. Errors of `run`: those of its options, and of memory;
 * what happens to a file is in the job. */
struct etl_command {
    const struct opt_command *opts;
    const char *const *formats; /* beside those of rows; ends with NULL; or NULL */
    enum err (*run)(struct etl_job *job, struct errmsg *why);
};

#define ETL_JOB_PROGRAM "procfleet-etl"

/* Options every command has. */
#define ETL_JOB_OPTS ETL_JOB_OPTS_FORMAT("table|json|jsonl|csv")
#define ETL_JOB_OPTS_FORMAT(formats)                                                             \
    {"format", 'f', formats, "how it is printed; default table", false}, TABLE_OPT_WIDE,         \
        {"manifests", 0, "FILE|DIR",                                                             \
         "manifest with the layouts of events, or a directory of them; may be repeated", true},  \
    {                                                                                            \
        "merge", 0, NULL,                                                                        \
            "take the files as parts of one recording of one host, as kernel and user sessions " \
            "are",                                                                               \
            false                                                                                \
    }

/* Of a command whose answer are rows (etl_job_rows), those that matter first. */
#define ETL_JOB_OPT_LIMIT                                                  \
    {                                                                      \
        "limit", 'n', "N", "at most so many rows of each recording", false \
    }

/* Fills the job from its arguments. Errors: ERR_USAGE */
NODISCARD enum err etl_job_begin(struct etl_job *job, const struct opt_args *args,
                                 const struct etl_command *command, struct errmsg *why);
void etl_job_end(struct etl_job *job);

/* Number of parts, and the name rows of part i carry. */
size_t etl_job_parts(const struct etl_job *job);
const char *etl_job_part_name(const struct etl_job *job, size_t i);

/* Opens part i: paths and stopped are set in `conf`, the rest is the caller's. Errors are printed
 * and noted; ERR_OK only when there is a walk. */
NODISCARD enum err etl_job_open(struct etl_job *job, size_t i, struct etl_walk_conf *conf,
                                struct etl_walk **out);

/* Runs it; false: stopped or failed, which is printed and noted. What came before can be reported.
 */
bool etl_job_walk(struct etl_job *job, struct etl_walk *w);

/* A sheet on the job's output. On a terminal a table fits in, unless --wide: the titles in
 * `yields`, which end with NULL, give way first. Errors: ERR_NOMEM */
NODISCARD enum err etl_job_table(const struct etl_job *job, struct table **out,
                                 enum table_format format, const struct table_column *columns,
                                 size_t n, const char *const *yields);

/* After printing: whether the output takes more; false ends the walk and the job. */
bool etl_job_out_ok(struct etl_job *job);

/* Prints one object per part by `print`, which opens the part itself and writes the whole object or
 * nothing; several become an array in JSON, paragraphs for people. In CSV each value of an object
 * is a row, with its path.
 * pretty: levels of an object that stand on lines of their own in JSON.
 * Errors: ERR_NOMEM, and those of `print`; `why` names `what` */
NODISCARD enum err etl_job_objects(struct etl_job *job, const char *what, unsigned pretty,
                                   enum err (*print)(struct etl_job *job, size_t part,
                                                     struct jsonw *j),
                                   struct errmsg *why);

/* A command whose answer are rows, as many as ETL_JOB_OPT_LIMIT says: `part` adds those of a
 * recording, whose file name is the first column. What it returns is an error of printing or of
 * memory; what happens to a file is in the job. Errors: those of `part`, ERR_NOMEM; `why` names
 * `what` */
struct etl_job_list {
    const struct table_column *columns;
    size_t n;
    const char *const *yields; /* as etl_job_table */
    const char *what;
    enum err (*part)(struct etl_job *job, size_t part, struct table *sheet, void *ctx);
    void *ctx;
};
NODISCARD enum err etl_job_rows(struct etl_job *job, const struct etl_job_list *list,
                                struct errmsg *why);

/* Ends the sentence that something is not recorded. */
#define ETL_JOB_PROVIDERS "; 'providers' lists what is"

/* A sentence about a recording below its rows. */
void etl_job_note(struct table *sheet, const char *file, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* An id of an option, of a process or thread; false: not given. Errors: ERR_USAGE */
NODISCARD enum err etl_job_id(const struct etl_job *job, const char *option, bool *given,
                              uint32_t *out, struct errmsg *why);

/* Directories that an option names, each of which is there: at most OPT_MANY_MAX in `dirs`.
 * Errors: ERR_USAGE */
NODISCARD enum err etl_job_dirs(const struct etl_job *job, const char *option, const char **dirs,
                                size_t *n, struct errmsg *why);

/* Whether a path means standard output: "-", or what systems call it. */
bool etl_job_is_stdout(const char *path);

/* --output takes what would go to standard output; no recording is replaced. Errors: ERR_USAGE,
 * ERR_IO */
NODISCARD enum err etl_job_output(struct etl_job *job, struct errmsg *why);

/* A positive number of an option, or the default. Errors: ERR_USAGE */
NODISCARD enum err etl_job_number(const struct etl_job *job, const char *option, uint64_t def,
                                  uint64_t *out, struct errmsg *why);

#endif
