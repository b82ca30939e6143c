/* The lab of the collector: the methods RunBegin, RunEnd and RunPut of service Mark, Runs and
 * RunGet of service Query, with all that stands behind them: database, the thread that makes files.
 *
 * Roles: mark begins runs and ends its own, on hosts inside its scope, and reads nothing; query
 * reads runs whose hosts are all in its scope; admin ends and imports any, and alone may set the
 * label silence. Each mark is one line in the log. A certificate may mark 10 times a second and
 * 10,000 times a day.
 *
 *   OK                   done; also of a mark that was made before
 *   INVALID_ARGUMENT     no such thing can be marked; the message says why
 *   NOT_FOUND            no such run; a begin without hosts on a machine that is no host
 *   PERMISSION_DENIED    another's run, a host outside the scope, the label silence
 *   RESOURCE_EXHAUSTED   too many marks or open runs, too little memory or disk
 *   FAILED_PRECONDITION  RunGet: the run has no file yet
 *
 * Threads: handlers run on the RPC server's workers, any number at once; lab_service_stored comes
 * from the store's writer thread. */
#ifndef PROCFLEET_COLLECTOR_LAB_LAB_SERVICE_H
#define PROCFLEET_COLLECTOR_LAB_LAB_SERVICE_H

#include "collector/lab/facts.h"
#include "collector/lab/lab_db.h"
#include "collector/query/query.h"
#include "common/rpc/rpc.h"

struct lab_service;

struct lab_service_conf {
    struct store *store;   /* borrowed until lab_service_close */
    const struct fio *fio; /* NULL: fio_os() */
    const char *data_dir;
    int64_t age_ns;            /* of runs: runs.age */
    uint64_t max_bytes;        /* of their files: runs.max_bytes */
    int64_t samples_age_ns;    /* of the store */
    const char *const *labels; /* "HOST-GLOB KEY=VALUE": lab.labels */
    size_t n_labels;
    const char *const *class_keys; /* lab.class; 0: host_class_default */
    size_t n_class_keys;
    int64_t wait_ns, again_ns, poll_ns;                         /* of lab_keeper.h; 0: as there */
    enum err (*notices)(struct lab_db *db, struct run_file *f); /* of lab_keeper.h */
    bool (*host_state)(void *ctx, const struct uuid *host, struct query_host_state *out);
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    void *ctx;
};

/* Errors: ERR_INVALID (labels, class_keys), those of lab_db_open and lab_keeper_start; why says
 * more */
NODISCARD enum err lab_service_open(struct lab_service **out, const struct lab_service_conf *conf,
                                    struct errmsg *why);
/* Stops the thread: before the store closes, after the listeners have stopped. NULL is allowed. */
void lab_service_close(struct lab_service *s);

#define LAB_SERVICE_METHODS 5
void lab_service_methods(struct lab_service *s, struct rpc_method methods[LAB_SERVICE_METHODS]);

/* A batch has become durable. */
void lab_service_stored(struct lab_service *s, const struct batch *b, int64_t received_ns);

/* The hosts and the range of NAME[@n|@id], as serve_conf.run wants it. */
NODISCARD enum err lab_service_run(struct lab_service *s, const struct store_view *view,
                                   const struct net_identity *who, struct str name,
                                   struct arena *memory, struct query_run *out, struct errmsg *why);

/* As query_env.boots. */
NODISCARD enum err lab_service_boots(struct lab_service *s, const struct uuid *host,
                                     int64_t since_ns, int64_t until_ns, query_boot_each each,
                                     void *to);

struct facts_book *lab_service_facts(struct lab_service *s);

struct lab_db *lab_service_db(struct lab_service *s);

#endif
