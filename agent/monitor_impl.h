/* What building and running (monitor.c) and asking (monitor_ask.c) share. */
#ifndef PROCFLEET_AGENT_MONITOR_IMPL_H
#define PROCFLEET_AGENT_MONITOR_IMPL_H

#include <stdatomic.h>

#include "agent/monitor.h"
#include "common/os/os.h"

/* Something to be done on the core thread while its caller waits. */
struct monitor_call {
    struct monitor_call *next;
    void (*run)(struct monitor *m, void *arg);
    void *arg;
    bool done;
};

struct monitor {
    struct monitor_conf conf; /* without what it points to */
    struct levels_conf levels_conf;
    struct source *source;
    struct decode *decode;
    struct ptable *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    struct sampler *sampler;
    struct process_filter *who;
    uint32_t who_no; /* grows with every other `who`; 0 is none */
    uint64_t facts, table_rows, hidden_events;
    struct monitor_event_sink events;

    bool governed;
    struct levels levels;
    int64_t look_ns; /* when the next reading is due */
    int64_t due_ns;  /* before, time's going on changes nothing, if only switches come */
    struct {
        uint64_t seen;
        bool come; /* some came between the last two looks */
    } switches;
    struct {
        int64_t bytes, read_ns;
    } resident;       /* own memory, asked for once a second */
    uint32_t own_pid; /* 0: not in the source's tables */

    struct os_thread *thread; /* of monitor_start */
    atomic_bool called;       /* somebody waits for an answer */
    struct os_mutex *lock;    /* guards what is below; held across nothing */
    struct os_cond *answered;
    struct monitor_call *calls, **last_call;
    bool running, stopped;
};

/* ---- monitor.c ---- */

/* Whether anything of p comes out. */
bool monitor_wants(void *ctx, struct ptable_proc *p);

/* Own memory, a second old at most: the system takes longer to tell it than all else here. */
int64_t monitor_resident(struct monitor *m);

/* ---- monitor_ask.c ---- */

/* On the core thread: answers who waits. `last`: nobody can wait from now on. */
void monitor_answer(struct monitor *m, bool last);

/* The thread is the core thread of m until monitor_leave, which gets what enter gave. */
NODISCARD const struct monitor *monitor_enter(const struct monitor *m);
void monitor_leave(const struct monitor *before);

#endif
