/* What the threads of the store share, and what the writer does for sealing and for views: one
 * struct, defined here for store.c, store_recover.c, seal/ and read/. */
#ifndef PROCFLEET_COLLECTOR_STORE_STORE_STATE_H
#define PROCFLEET_COLLECTOR_STORE_STORE_STATE_H

#include <stdatomic.h>

#include "collector/store/catalogue/catalogue.h"
#include "collector/store/manifest/manifest.h"
#include "collector/store/memtable/head.h"
#include "collector/store/store_conf.h"
#include "collector/store/wal/wal.h"
#include "common/base/heartbeat.h"

/* A batch on its way. */
struct store_item {
    struct store_item *next;
    struct head_batch *kept;
    struct recent_columns *hot;    /* of it; NULL: none */
    const struct head_batch *sent; /* once it is the head's, which keeps it beyond the commit */
    struct batch *batch;
    struct buf note; /* for the log's index: recall.h */
    char host_name[MODEL_HOST_NAME_MAX + 1];
    size_t weight, head_bytes;
    enum err result;
    void (*done)(void *ctx, enum err e);
    void *ctx;
};

/* Something the sealing thread has the writer do between two commits. */
struct store_task {
    void (*run)(struct store *s, void *ctx);
    void *ctx;
    bool done;
};

/* What questions could not read: store_view_unread. */
struct store_reading {
    _Atomic uint64_t unread[STORE_UNREAD_KINDS];
    _Atomic int64_t told_ns; /* monotonic; 0: never */
};

struct seal; /* the sealing thread's own: seal.c */

/* Locks, in the order in which they are taken: view_lock, then that of the head or of the
 * manifest; `lock` alone. */
struct store {
    struct store_conf conf;
    struct os_lock *dir_lock;
    struct head *head; /* the writer's */
    struct wal *wal;   /* the writer's */
    struct os_thread *thread;
    struct heartbeat writing; /* the writer's */
    struct store_reading reading;
    int64_t newest_ns;                   /* newest arrival: the writer's clock */
    struct manifest *manifest;           /* changed by the sealing thread */
    struct catalogue *_Atomic catalogue; /* likewise; NULL: it could not be opened so far */
    struct seal *seal;
    char *segments_dir;
    struct recovery *recovery; /* only while opening: store_recover.c */

    struct os_mutex *view_lock; /* head and list of segments change and are taken as one under it */
    struct os_mutex *lock;      /* guards what follows */
    struct os_cond *work;       /* for the writer; */
    struct os_cond *task_done;  /* for the sealing thread */
    struct dedup *seen;
    struct store_item *queue, **queue_end;
    struct store_item *group; /* being committed */
    struct store_task *task;  /* NULL: none waits */
    size_t waiting_bytes, waiting_batches, queued_bytes;
    size_t coming_bytes; /* to the head, of all that waits */
    bool stopping;
    bool refusing; /* the disk is all but full */
    struct store_stats stats;
};

struct catalogue *store_catalogue(struct store *s); /* borrowed; NULL: there is none */

/* Both parts at once; what sealing moves from one to the other is in exactly one of them.
 * Errors: ERR_NOMEM */
NODISCARD enum err store_state(struct store *s, struct head_state **head,
                               struct manifest_list **segments);

void store_item_destroy(struct store_item *i); /* NULL is allowed */

/* -- store_writer.c -- */

void store_writer_main(void *store); /* of `thread` */
/* The head needs this file of the log no more: head_conf.on_release. */
void store_writer_release_file(void *store, uint64_t file);

/* Runs the task in the writer thread between two commits and waits for it. */
void store_writer_do(struct store *s, void (*run)(struct store *s, void *ctx), void *ctx);

/* Builds the head's next state and waits for memory. Errors: ERR_NOMEM */
NODISCARD enum err store_writer_prepare(struct store *s);

/* Memory did not come back: nothing more is accepted nor published. From the writer. */
void store_writer_fail(struct store *s);

/* What was lost is in no checkpoint yet: has the log begin a file. From the writer, under no lock.
 * Where that fails the loss is reported only until the next opening. */
void store_writer_keep_lost(struct store *s);

void store_count_duplicate(struct store *s, const struct uuid *host);
void store_writer_refresh_stats(struct store *s); /* under the lock, from the writer */

/* store_recover.c. Before the threads start, or by the sealing one while there is none. */
void store_recover_catalogue(struct store *s, struct manifest_list *segments);
/* Manifest, hosts, log. */
NODISCARD enum err store_recover(struct store *s, struct errmsg *why);

#endif
