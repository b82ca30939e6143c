/* ETW for tests: sessions that deliver a recording through the nine functions of the system, with
 * scripted faults. `process` blocks as it does on a host: until the session is stopped or closed.
 * Threads: one script at a time; its functions from any thread. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETWREPLAY_H
#define PROCFLEET_TESTS_SUPPORT_ETWREPLAY_H

#include <stdbool.h>

#include "agent/source/source.h"
#include "agent/source/windows/etw_api.h"

enum etwreplay_call {
    REPLAY_START,
    REPLAY_QUERY,
    REPLAY_STOP,
    REPLAY_UPDATE,
    REPLAY_FLUSH,
    REPLAY_ENABLE,
    REPLAY_SET_INFO,
    REPLAY_OPEN,
    REPLAY_QUERY_INFO,
    REPLAY_CALLS,
};

struct etwreplay_fault {
    unsigned from, times; /* calls, counted from 0; times 0 = none */
    ULONG code;
};

/* What a session has turned on. */
struct etwreplay_on {
    GUID guid;
    UCHAR level;
    ULONGLONG any, all;
    USHORT logger; /* the session's number */
};

struct etwreplay_script {
    const char *path; /* the recording; NULL: sessions have nothing to tell */
    /* Without one: the session's nth record with its stamps; false: no more. May be NULL. */
    bool (*make)(uint64_t n, struct raw_event *raw);
    /* Which session gets a record; NULL = all get all. */
    bool (*wants)(const char *session, const struct raw_event *raw);
    /* Moves a record to the clocks of this system, payload included (room: 64 KiB for a changed
     * one); it comes when it is due. False: it does not come to a session started at since_ns.
     * NULL: stamps are the recording's, everything comes at once. */
    bool (*move)(struct raw_event *raw, uint8_t *room, int64_t since_ns);
    uint64_t frequency; /* of moved stamps */
    struct etwreplay_fault faults[REPLAY_CALLS];
    uint32_t flags_refused; /* set_info with any of these fails with 87 */
    bool filters_refused;   /* enable with a filter fails with 87 */
    bool payload_refused;   /* tdh makes no filter by field and value */
    bool read_first;        /* what is turned on must be read: etwreplay_unread */
    bool whole_seconds;     /* start with a timer in ms fails with 87 */
    bool more_sessions;     /* the list tells some and fails with 234 */
    bool stuck;             /* flushing writes nothing: the sessions have stopped delivering */
    /* Of the first life of each session: after so many records (0 = never) … */
    unsigned return_after; /* … process returns, the session stays */
    ULONG return_code;
    unsigned stop_after;  /* … another program stops the session */
    bool stays_away;      /* … who starts it again waits until etwreplay_resume */
    unsigned pause_after; /* … nothing comes until etwreplay_resume */
    /* Each nth record is lost (0 = none): the session counts it; told = and says so in the stream
     */
    unsigned lose_every;
    bool lose_told;
    uint32_t buffers_lost; /* what query says */
};

/* Forgets everything of the script before. The table may be used until the next call. */
const struct etw_api *etwreplay_begin(const struct etwreplay_script *script);

/* A session that is there already. */
void etwreplay_add(const char *name, const uint8_t guid[16], bool kernel);

bool etwreplay_exists(const char *name);
TRACEHANDLE etwreplay_handle(const char *name); /* 0 if there is none */
unsigned etwreplay_calls(enum etwreplay_call call);
uint32_t etwreplay_flags(void);                /* on now, of the last one told */
uint32_t etwreplay_flags_of(const char *name); /* of this session; 0 if there is none */
unsigned etwreplay_enabled(const char *name);  /* providers on, in this life */
unsigned etwreplay_filter_ids(void);           /* in the last filter of enable */
/* The filters of the last enable: "ids=1+2 pids=12 exe=a.exe payload=F=V"; "" = none. */
const char *etwreplay_filters(void);
size_t etwreplay_turned_on(struct etwreplay_on *out, size_t max); /* in this program */
uint32_t etwreplay_interval(void);              /* of samples, 100 ns; 10000 at first */
unsigned etwreplay_stacks(void);                /* kinds of events with stacks */
unsigned etwreplay_unread(void);                /* turned on while nobody read, for seconds */
size_t etwreplay_masks(const uint32_t **masks); /* of flags, as they were set, the first 16 */
int etwreplay_priority(void);                   /* of the thread that read last */
uint32_t etwreplay_timer_of(const char *name, bool *in_ms);
uint32_t etwreplay_max_buffers(void);                   /* as last told by start or update */
void etwreplay_lost(uint32_t events, uint32_t buffers); /* all sessions: lost more */
void etwreplay_resume(void);
/* Until n sessions have delivered all they have, or pause. False: it took a minute. */
bool etwreplay_wait_told(unsigned n);
bool etwreplay_wait_calls(enum etwreplay_call call, unsigned n);
uint64_t etwreplay_told(void); /* records, all sessions */
/* The clock of stamps goes this far ahead of the recording's start. */
void etwreplay_clock(int64_t after_ns);
/* Somebody sets the clock: UTC goes on from that much later, stamps are as before. */
void etwreplay_set_utc(int64_t by_ns);

#endif
