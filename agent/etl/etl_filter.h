/* Which records `etl events` shows: by provider, event, process, thread and time. Threads: any. */
#ifndef PROCFLEET_AGENT_ETL_ETL_FILTER_H
#define PROCFLEET_AGENT_ETL_ETL_FILTER_H

#include "agent/etl/etl_job.h"

struct etl_filter_time {
    bool given, relative;
    int64_t ns; /* UTC, or since the recording's start */
};

struct etl_filter {
    struct str provider; /* glob; empty: any */
    bool by_guid;        /* `provider` was a GUID */
    uint8_t guid[16];
    struct str event; /* glob; empty: any */
    bool by_number;   /* `event` was an id or opcode */
    uint16_t number;
    bool by_pid, by_tid;
    uint32_t pid, tid;
    struct etl_filter_time since, until;
};

/* From --provider, --event, --pid, --tid, --since, --until. Errors: ERR_USAGE */
NODISCARD enum err etl_filter_parse(struct etl_filter *p, const struct etl_job *job,
                                    struct errmsg *why);

/* Whether names are needed to decide. */
bool etl_filter_by_name(const struct etl_filter *p);

/* Past `until`: nothing that follows is shown. */
bool etl_filter_over(const struct etl_filter *p, const struct etl_walk_record *r);

bool etl_filter_matches(const struct etl_filter *p, const struct etl_walk_record *r);
bool etl_filter_matches_name(const struct etl_filter *p, const struct described *is);

/* Process and thread a record is about: of the payload where it says so, else of the header;
 * EVENT_NO_ID = unknown. */
uint32_t etl_filter_pid(const struct etl_walk_record *r);
uint32_t etl_filter_tid(const struct etl_walk_record *r);

#endif
