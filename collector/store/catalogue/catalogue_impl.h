/* Between the catalogue's files. */
#ifndef PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_IMPL_H

#include "collector/store/catalogue/catalogue.h"

#define CATALOGUE_DAY_NS  (24 * INT64_C(3600000000000))
#define CATALOGUE_TEXTS   4u /* of an instance: name, image, command line, user */
#define CATALOGUE_OPEN    63 /* class of those that have not ended */
#define CATALOGUE_CLASSES 40 /* of the others: class k lived less than 2^k seconds */

/* One day's file, opened: by the writer, or by a find. Threads: one at a time. */
struct day_db;

enum day_open { DAY_READ, DAY_WRITE };

/* DAY_WRITE makes the file when it is not there. Errors: ERR_CORRUPT (damaged, or of another
 * format: make it anew), ERR_NOTFOUND, ERR_IO, … */
NODISCARD enum err day_open(struct day_db **out, const char *path, enum day_open how);
void day_close(struct day_db *d); /* NULL is allowed */

NODISCARD enum err day_begin(struct day_db *d);
NODISCARD enum err day_commit(struct day_db *d); /* an error has rolled back */
void day_rollback(struct day_db *d);
/* Moves what was committed from SQLite's log into the file, so that the log stays small; while
 * somebody reads, as far as that goes. */
void day_settle(struct day_db *d);

/* What the day knows of itself. */
struct day_facts {
    int64_t first_ns, last_ns; /* stamps of its batches */
    uint64_t instances, running;
};
NODISCARD enum err day_facts(struct day_db *d, struct day_facts *out);

NODISCARD enum err day_each_done(struct day_db *d, enum err (*each)(void *ctx, uint64_t number),
                                 void *ctx);
NODISCARD enum err day_done(struct day_db *d, uint64_t number);

NODISCARD enum err day_host(struct day_db *d, const struct uuid *host, int64_t *id); /* adds it */
/* A boot of the host that had data from first to last; last < first: none. Adds or widens it. */
NODISCARD enum err day_boot(struct day_db *d, int64_t host, const struct uuid *boot,
                            int64_t first_ns, int64_t last_ns, int64_t *id);

/* An instance as a row has it. */
struct day_inst {
    struct proc_info info;
    int64_t begin_ns; /* as far as known: its creation, or when it was first told of */
    int64_t seen_ns;
};
/* Joins what is told with what the row has. Errors: ERR_FULL (one more than
 * CATALOGUE_INSTANCES_MAX; nothing changed) */
NODISCARD enum err day_tell(struct day_db *d, int64_t host, int64_t boot,
                            const struct day_inst *told);

/* -- reading -- */
struct day_boot {
    int64_t id;
    struct uuid uuid;
    int64_t first_ns, last_ns;
};
/* The boots of a host, in `memory`; none: *n = 0. */
NODISCARD enum err day_boots(struct day_db *d, struct arena *memory, const struct uuid *host,
                             int64_t *host_id, struct day_boot **out, size_t *n);

/* Instances that may have been alive in [since, until): of a host, by time; or with a pid, of a
 * boot. */
struct day_key {
    int64_t boot;
    struct proc_id id;
};
NODISCARD enum err day_alive(struct day_db *d, int64_t host, int64_t since_ns, int64_t until_ns,
                             enum err (*each)(void *ctx, const struct day_key *k), void *ctx);
NODISCARD enum err day_of_pid(struct day_db *d, int64_t boot, uint32_t pid, uint64_t start,
                              enum err (*each)(void *ctx, const struct day_key *k), void *ctx);
/* Text in `memory`. Errors: ERR_NOTFOUND */
NODISCARD enum err day_get(struct day_db *d, struct arena *memory, const struct day_key *k,
                           struct day_inst *out);

/* Hosts and boots with data of the day's own; for carrying over. */
NODISCARD enum err day_each_boot(struct day_db *d,
                                 enum err (*each)(void *ctx, int64_t host_id,
                                                  const struct uuid *host,
                                                  const struct day_boot *b),
                                 void *ctx);
NODISCARD enum err day_running(struct day_db *d, int64_t boot,
                               enum err (*each)(void *ctx, const struct day_key *k), void *ctx);

/* -- catalogue_day.c: the days of a catalogue -- */
struct os_mutex;

#define CATALOGUE_IDLE 16u /* connections kept for finds */

struct catalogue_day {
    int64_t day_ns;
    struct day_facts facts;
    uint64_t bytes;
    bool bad;       /* a find has seen damage: to be made anew */
    bool remaking;  /* segments are not in that were there at the start, or once were in */
    bool dropped;   /* its file is being unlinked for good */
    uint64_t *done; /* segments that are in, sorted */
    size_t n_done, cap_done;
};

struct catalogue {
    char *dir;
    void (*on_progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    struct day_db *writing; /* the writer's, of writing_ns */
    int64_t writing_ns;
    struct packer *packer; /* the writer's */
    struct arena memory;
    struct os_mutex *lock;      /* guards what follows, and is held for a look only */
    struct catalogue_day *days; /* by day; only the writer changes them */
    size_t n_days, cap_days;
    struct catalogue_stats stats;
    uint64_t round; /* changes when files are unlinked: connections of before are closed */
    struct {
        struct day_db *db;
        int64_t day_ns;
    } idle[CATALOGUE_IDLE];
    size_t n_idle;
};

struct catalogue_day *catalogue_day(struct catalogue *c, int64_t day_ns); /* NULL: none */
/* A connection for a find; given back by catalogue_release, `sound` unless it has failed. */
NODISCARD enum err catalogue_borrow(struct catalogue *c, int64_t day_ns, struct day_db **out,
                                    uint64_t *round);
void catalogue_release(struct catalogue *c, int64_t day_ns, struct day_db *d, uint64_t round,
                       bool sound);
void catalogue_bad(struct catalogue *c, int64_t day_ns); /* any thread */
/* The file of a day that was listed in that round cannot be opened: whether it should be there. If
 * it is gone, it is made anew. Any thread. */
bool catalogue_missing(struct catalogue *c, int64_t day_ns, uint64_t round);
/* Everything told by one segment, into the writer's day. */
NODISCARD enum err catalogue_take(struct catalogue *c, const struct seg *s);
/* The same of one batch; host: day_host's. */
struct batch;
NODISCARD enum err catalogue_take_rest(struct catalogue *c, int64_t host, const struct batch *b);
/* What runs at the end of the day before, into the writer's new day. */
NODISCARD enum err catalogue_carry(struct catalogue *c, int64_t day_ns);

#endif
