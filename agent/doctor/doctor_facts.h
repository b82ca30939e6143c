/* What only a real Windows machine can confirm: what was measured there (doctor_try_win32.c), and
 * what follows from it. The second half is portable and knows no system call. For doctor*.c only.
 */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_FACTS_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_FACTS_H

#include "agent/doctor/doctor_host.h"

#define DOCTOR_DELAYS 3

/* From a child's start to the call that tells of it. */
struct doctor_delay {
    unsigned flush_ms;      /* how often the session was flushed; 0 = by itself, each second */
    unsigned started, seen; /* children */
    int64_t least_ns, median_ns, most_ns;
};

/* Zeros: not measured, unless said otherwise. */
struct doctor_seen {
    bool reads;            /* a system trace session can be had and read … */
    struct errmsg why;     /* … or why not */
    unsigned loggers;      /* the most sessions this system allows */
    unsigned living;       /* processes in the table beside the rundowns */
    unsigned told_once;    /* processes in the rundown after flags are set once … */
    unsigned told;         /* … and after they are set to none first */
    unsigned masks;        /* bit i: a mask of 4 << i bytes is taken */
    int kp_start, kp_stop; /* highest versions of Kernel-Process' events; -1 = none came */
    /* An overload on purpose: as the session counts, and as the stream tells. */
    bool forced;
    uint64_t counted_events, counted_buffers, told_events, told_buffers;
    struct doctor_delay delays[DOCTOR_DELAYS];
    uint64_t records, backwards; /* in one stream; stamps before the one before */
    uint64_t switches, switches_lost;
    int64_t switches_ns;
    unsigned children, children_seen, children_lines; /* lines: their whole command line came */
    uint64_t end_told, end_known; /* cycles of a child: as its end tells, as its handle does */
    uint64_t keys, keys_zero;     /* kernel addresses in records */
    int64_t tick_ns;              /* all CPU times are multiples of it */
    uint64_t cycles;              /* of all processes, idle included, in … */
    int64_t cycles_ns;            /* … this time on … */
    unsigned cpus;                /* … so many CPUs */
    bool handles_known;
    unsigned handles;                         /* of other processes, held by us */
    uint32_t interval_before, interval_after; /* of CPU samples, 100 ns */
    int64_t cpu_ns, resident;                 /* of this doctor */
    bool path_tried, path_works;              /* a file name beyond ASCII */
};

/* Measures all of it; takes half a minute with patience_ns = 2 s. */
void doctor_try(struct doctor_seen *out, const char *dir, int64_t patience_ns);

/* What a bulk table of all processes (class 5) says of itself; bytes as the system gave them. */
struct doctor_table {
    unsigned n;
    uint64_t cycles; /* of all, idle included */
    uint64_t tick;   /* greatest number that divides all CPU times, 100 ns */
};
/* Errors: ERR_CORRUPT (not laid out as documented) */
NODISCARD enum err doctor_facts_table(struct doctor_table *out, const uint8_t *p, size_t n);

/* Says what follows, one finding for each fact. */
void doctor_facts_tell(struct doctor *d, const struct doctor_seen *s);

#endif
