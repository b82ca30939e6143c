/* Which part of a recording a question is about: from and up to a moment, of a process. A moment
 * is ms or a span since the recording's start, UTC, or a mark (mark:NAME), which then is the zero
 * of the times that are shown. Threads: one owner. Caller's storage. */
#ifndef PROCFLEET_AGENT_ETL_ETL_RANGE_H
#define PROCFLEET_AGENT_ETL_ETL_RANGE_H

#include "agent/etl/etl_job.h"

struct etl_range_time {
    bool given;
    bool relative; /* since the recording's start, not UTC */
    int64_t ns;
    struct str mark; /* glob, or empty */
    bool seen;       /* the mark came */
};

struct etl_range {
    struct etl_range_time since, until;
    bool by_pid;
    uint32_t pid;
    struct str name; /* glob of an image, or empty */
    int64_t zero_ns; /* of the times shown, since the recording's start */
    bool goes_on;    /* the caller needs what comes past the later moment, too */
};

#define ETL_RANGE_OPT_TIMES                                                            \
    {"since", 0, "MS|TIME|MARK",                                                       \
     "from then on: ms since the start (1500), a span (2s), 2026-11-21T09:00:00Z, or " \
     "mark:NAME, which is the zero of all times then",                                 \
     false},                                                                           \
    {                                                                                  \
        "until", 0, "MS|TIME|MARK", "up to then; as since", false                      \
    }
#define ETL_RANGE_OPTS                                                          \
    {"pid", 'p', "PID", "only the processes that had this id", false},          \
        {"name", 0, "GLOB", "only processes whose image has this name", false}, \
        ETL_RANGE_OPT_TIMES

/* Errors: ERR_USAGE */
NODISCARD enum err etl_range_parse(struct etl_range *out, const struct etl_job *job,
                                   struct errmsg *why);
/* One moment of an option; not given is no error. Errors: ERR_USAGE */
NODISCARD enum err etl_range_moment(struct etl_range_time *t, const struct etl_job *job,
                                    const char *option, struct errmsg *why);
void etl_range_begin(struct etl_range *r); /* before each recording */

/* Whether the record lies between the moments; past the later one, the walk is stopped. */
bool etl_range_takes(struct etl_range *r, struct etl_walk *w, const struct etl_walk_record *rec);

/* The walk's figures are those between the moments, if any are given. Before each recording. */
void etl_range_limit(struct etl_range *r, struct etl_walk_conf *conf);

/* Whether the process lived then; without moments all did. After the walk. */
bool etl_range_lived(const struct etl_range *r, const struct etl_walk *w, const struct instance *p);

/* Whether the process is meant; `p` may be NULL. */
bool etl_range_process(const struct etl_range *r, uint32_t pid, const struct instance *p);

/* The text of a mark; false: the record is none. Marks are PerfInfo's and those of a provider
 * called procfleet. Valid until the next record. */
bool etl_range_mark(struct etl_walk *w, const struct raw_event *raw, struct str *text);

#endif
