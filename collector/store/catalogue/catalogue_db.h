/* One day's file of the catalogue: an SQLite database of hosts, boots and process instances.
 * Threads: a connection is used by one at a time. */
#ifndef PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_DB_H
#define PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_DB_H

#include "common/base/arena.h"
#include "common/model/model.h"

#define CATALOGUE_INSTANCES_MAX 100000000u /* of one day */
#define CATALOGUE_DAY_NS        (24 * INT64_C(3600000000000))
#define CATALOGUE_TEXTS         4u /* of an instance: name, image, command line, user */
#define CATALOGUE_OPEN          63 /* class of those that have not ended */
#define CATALOGUE_CLASSES       40 /* of the others: class k lived less than 2^k seconds */

/* One day's file, opened: by the writer, or by a find. Threads: one at a time. */
struct day_db;

enum day_open { DAY_READ, DAY_WRITE };

/* DAY_WRITE makes the file when it is not there. Errors: ERR_CORRUPT (damaged, or of another
 * format: make it anew), ERR_NOTFOUND, ERR_IO, … */
NODISCARD enum err catalogue_db_open(struct day_db **out, const char *path, enum day_open how);
void catalogue_db_close(struct day_db *d); /* NULL is allowed */

NODISCARD enum err catalogue_db_begin(struct day_db *d);
NODISCARD enum err catalogue_db_commit(struct day_db *d); /* an error has rolled back */
void catalogue_db_rollback(struct day_db *d);

/* Until the end all that is read is of one moment. The end: also after an error, or of NULL. */
NODISCARD enum err catalogue_db_read_begin(struct day_db *d);
void catalogue_db_read_end(struct day_db *d);

/* Moves what was committed from SQLite's log into the file, so that the log stays small; while
 * others read, as far as that goes. */
void catalogue_db_settle(struct day_db *d);

/* What the day knows of itself. */
struct day_facts {
    int64_t first_ns, last_ns; /* stamps of its batches */
    uint64_t instances, running;
};
NODISCARD enum err catalogue_db_facts(struct day_db *d, struct day_facts *out);

NODISCARD enum err catalogue_db_each_done(struct day_db *d,
                                          enum err (*each)(void *ctx, uint64_t number), void *ctx);
NODISCARD enum err catalogue_db_done(struct day_db *d, uint64_t number);

NODISCARD enum err catalogue_db_host(struct day_db *d, const struct uuid *host,
                                     int64_t *id); /* adds it */
/* A boot of the host that had data from first to last; last < first: none. Adds or widens it. */
NODISCARD enum err catalogue_db_boot(struct day_db *d, int64_t host, const struct uuid *boot,
                                     int64_t first_ns, int64_t last_ns, int64_t *id);

/* An instance as a row has it. */
struct day_inst {
    struct proc_info info;
    int64_t begin_ns; /* as far as known: its creation, or when it was first told of */
    int64_t seen_ns;
};
/* Merges the report with the row. Errors: ERR_FULL (one more than
 * CATALOGUE_INSTANCES_MAX; nothing changed) */
NODISCARD enum err catalogue_db_tell(struct day_db *d, int64_t host, int64_t boot,
                                     const struct day_inst *told);

/* -- reading -- */
struct day_boot {
    int64_t id;
    struct uuid uuid;
    int64_t first_ns, last_ns;
};
/* The boots of a host, in `memory`; none: *n = 0. */
NODISCARD enum err catalogue_db_boots(struct day_db *d, struct arena *memory,
                                      const struct uuid *host, int64_t *host_id,
                                      struct day_boot **out, size_t *n);

/* Instances that may have been alive in [since, until): of a host, by time; or with a pid, of a
 * boot. */
struct day_key {
    int64_t boot;
    struct proc_id id;
};
NODISCARD enum err catalogue_db_alive(struct day_db *d, int64_t host, int64_t since_ns,
                                      int64_t until_ns,
                                      enum err (*each)(void *ctx, const struct day_key *k),
                                      void *ctx);
NODISCARD enum err catalogue_db_of_pid(struct day_db *d, int64_t boot, uint32_t pid, uint64_t start,
                                       enum err (*each)(void *ctx, const struct day_key *k),
                                       void *ctx);
/* Text in `memory`; brief: neither path nor command line. Errors: ERR_NOTFOUND */
NODISCARD enum err catalogue_db_get(struct day_db *d, struct arena *memory, const struct day_key *k,
                                    bool brief, struct day_inst *out);

/* Hosts and boots with data of the day's own; for carrying over. */
NODISCARD enum err catalogue_db_each_boot(struct day_db *d,
                                          enum err (*each)(void *ctx, int64_t host_id,
                                                           const struct uuid *host,
                                                           const struct day_boot *b),
                                          void *ctx);
NODISCARD enum err catalogue_db_running(struct day_db *d, int64_t boot,
                                        enum err (*each)(void *ctx, const struct day_key *k),
                                        void *ctx);

#endif
