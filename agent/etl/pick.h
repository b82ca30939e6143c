/* Which records `etl events` shows: by provider, event, process, thread and time. Threads: any. */
#ifndef PROCFLEET_AGENT_ETL_PICK_H
#define PROCFLEET_AGENT_ETL_PICK_H

#include "agent/etl/job.h"

struct pick_time {
    bool given, relative;
    int64_t ns; /* UTC, or since the recording's start */
};

struct pick {
    struct str provider; /* glob; empty: any */
    bool by_guid;        /* `provider` was a GUID */
    uint8_t guid[16];
    struct str event; /* glob; empty: any */
    bool by_number;   /* `event` was an id or opcode */
    uint16_t number;
    bool by_pid, by_tid;
    uint32_t pid, tid;
    struct pick_time since, until;
};

/* From --provider, --event, --pid, --tid, --since, --until. Errors: ERR_USAGE */
NODISCARD enum err pick_parse(struct pick *p, const struct job *job, struct errmsg *why);

/* Whether names are needed to decide. */
bool pick_by_name(const struct pick *p);

/* Past `until`: nothing that follows is shown. */
bool pick_over(const struct pick *p, const struct walk_record *r);

bool pick_matches(const struct pick *p, const struct walk_record *r);
bool pick_matches_name(const struct pick *p, const struct described *is);

/* Process and thread a record is about: of the payload where it says so, else of the header;
 * EVENT_NO_ID = unknown. */
uint32_t pick_pid(const struct walk_record *r);
uint32_t pick_tid(const struct walk_record *r);

#endif
