/* What a first run on a real Windows machine shall prove, beyond what the agent needs to work: that
 * what other tools and documents say of sessions, flags, tables and clocks is so on this build.
 * Measured by doctor_proof_win32.c and doctor_proof_host_win32.c, told by doctor_proof.c, which is
 * portable and knows no system call. For doctor*.c only. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_PROOF_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_PROOF_H

#include "agent/doctor/doctor_host.h"

#define DOCTOR_PROOF_FLAGS    8
#define DOCTOR_PROOF_BURSTS   8
#define DOCTOR_PROOF_TABLES   3
#define DOCTOR_PROOF_TIMERS   3
#define DOCTOR_PROOF_CHILDREN 20

struct doctor_proof_flag {
    const char *name, *class;
    uint32_t flag;
    bool tried, taken, rare; /* rare: a quiet machine may well have none of it */
    uint64_t seen;           /* records of its class that no rundown wrote */
};

struct doctor_proof_burst {
    uint32_t min_buffers, flush_ms; /* flush 0: by itself, each second */
    unsigned started, seen;
    uint64_t events_lost, buffers_lost;
    uint32_t buffers, buffer_kb; /* that the session had at its end */
};

struct doctor_proof_start { /* images are told while somebody reads, or nobody does yet */
    bool tried;
    uint64_t images, events_lost, buffers_lost;
};

struct doctor_proof_table {
    unsigned class;
    uint32_t status;
    uint64_t bytes;
    unsigned processes, named, sids;        /* named: whose entry has a name, so a gap before it */
    uint64_t gap_least, gap_most;           /* bytes between threads and name */
    uint64_t own_switches, thread_switches; /* of this process: extension, and sum of threads */
    uint64_t own_private, private_asked;    /* bytes: table, and asked of the system */
    uint64_t disk_before, disk_after;       /* of this process, around a write of 8 MiB */
    int64_t cpu_ns, wall_ns;                /* of all processes, idle included; between two reads */
};

/* What must be refused, and how that looks. */
struct doctor_proof_negative {
    bool second_tried, second_refused; /* who asks for the sessions while somebody has them */
    bool foreign_tried, foreign_kept;  /* a session of our name and another's identifier stands */
    enum err foreign;                  /* of starting ours beside it */
    unsigned slots;                    /* system loggers that could be started beside the others */
    uint32_t slots_code;               /* of the next one; 0 = it was not refused */
    enum err full;                     /* of starting ours then, */
    char full_why[320];                /* and what it said */
    bool less_tried;                   /* with neither groups nor privileges: */
    uint32_t less_start, less_table;   /* codes of starting a session, of the table of class 148 */
};

/* What of this host others have stumbled over. */
struct doctor_proof_kind {
    char installation[64];      /* "Client", "Server", "Server Core", … */
    char administrators[128];   /* the group's name in the system's language */
    unsigned language;          /* its LANGID */
    unsigned ansi, oem;         /* code pages */
    uint32_t container;         /* ContainerType; 0 = none */
    bool fips, lockdown, asked; /* FIPS policy; constrained language mode of scripts */
};

struct doctor_proof_spread { /* ns */
    unsigned n;
    int64_t least, median, most;
};

struct doctor_proof {
    bool sessions; /* a session could be had */
    struct errmsg why;
    bool guid_query, guid_list;
    bool updated;
    uint32_t flags_asked, flags_got, buffers_asked, buffers_got, mode_asked, mode_got;
    struct doctor_proof_flag flags[DOCTOR_PROOF_FLAGS];
    struct doctor_proof_burst bursts[DOCTOR_PROOF_BURSTS];
    struct doctor_proof_start with_reader, without_reader;

    char user[256], privileges[512], groups[256];
    bool account, elevated;
    uint32_t flags_code;     /* of setting a kernel flag */
    uint32_t provider_code;  /* of EventAccessQuery for the system trace provider */
    uint32_t provider_bytes; /* of its security descriptor */
    struct doctor_proof_table tables[DOCTOR_PROOF_TABLES];

    /* Children whose start came in both streams and in the table. */
    unsigned children, both, classic_only, manifest_only;
    unsigned times_equal, sequences, sequences_equal;
    struct doctor_proof_spread skew; /* classic stamp minus time of creation */
    struct doctor_proof_spread pair; /* manifest's arrival minus classic's */

    struct {
        int64_t asked_ns;
        struct doctor_proof_spread took;
    } timers[DOCTOR_PROOF_TIMERS];
    struct doctor_proof_negative negative;
    struct doctor_proof_kind kind;
    unsigned renames, renames_failed;
    int64_t drift_ns, drift_over_ns; /* precise time against the counter */
};

struct doctor_dump;

/* Measures all of it; takes a minute with patience_ns = 2 s. `dump` may be NULL. */
void doctor_proof_try(struct doctor_proof *out, const char *dir, struct doctor_dump *dump,
                      int64_t patience_ns);

/* The part that needs no session. */
void doctor_proof_host(struct doctor_proof *out, const char *dir, struct doctor_dump *dump,
                       int64_t patience_ns);

/* What one bulk table says; `full`: class 148. `own` is the pid of this process; `base` the address
 * it was written to. Fills what a table tells of *out. Errors: ERR_CORRUPT */
NODISCARD enum err doctor_proof_read(struct doctor_proof_table *out, const uint8_t *p, size_t n,
                                     uint64_t base, bool full, uint32_t own);

/* What of one process an entry of a table says. */
struct doctor_proof_entry {
    uint64_t created, sequence; /* FILETIME; 0 = the entry has no extension that long */
};
bool doctor_proof_find(struct doctor_proof_entry *out, const uint8_t *p, size_t n, uint64_t base,
                       uint32_t pid);

/* Of n times; orders them. */
void doctor_proof_spread(struct doctor_proof_spread *out, int64_t *ns, unsigned n);

/* Says what follows, one finding for each fact. */
void doctor_proof_tell(struct doctor *d, const struct doctor_proof *p);

#endif
