/* What a question is asked of and what an answer holds: the types of query.h, which is to be
 * included, and of every file behind it. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_ENV_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_ENV_H

#include "collector/store/read/store_read.h"
#include "collector/store/store.h"
#include "common/base/arena.h"
#include "common/wire/wire_query.h"

#define QUERY_REPLY_MAX  (4u << 20) /* encoded; rows end well before */
#define QUERY_MEMORY_MAX ((size_t)96 << 20)
#define QUERY_LAST_NS    (15 * 60 * CLK_S)

/* Every question once: kind, and the function query_NAME in query_NAME.c. Of it come the kinds,
 * what query_run calls and what the Query service offers as RPC_QUERY_KIND. Cursors carry a kind's
 * number: new ones go to the end. */
#define QUERY_LIST(X)       \
    X(HOSTS, hosts)         \
    X(TOP, top)             \
    X(PROCESSES, processes) \
    X(HISTORY, history)     \
    X(EVENTS, events)       \
    X(COVERAGE, coverage)   \
    X(TREE, tree)           \
    X(OVERVIEW, overview)   \
    X(SERIES, series)       \
    X(LIFETIMES, lifetimes) \
    X(PULSE, pulse)         \
    X(OUTLIERS, outliers)   \
    X(PROVIDERS, providers) \
    X(BOOTS, boots)

#define QUERY_KIND(kind, name) QUERY_##kind,
enum query_kind { QUERY_LIST(QUERY_KIND) QUERY_KINDS };
#undef QUERY_KIND

struct facts; /* inventory.h */
struct pulse; /* pulse.h */

/* What the store does not know of a host: the session's part. */
struct query_host_state {
    bool connected;
    bool revoked;             /* its newest certificate is */
    struct host_offset clock; /* as it is now */
    int64_t heard_ns;         /* UTC */
    int64_t not_before_ns;    /* UTC, of the certificate */
    int64_t not_after_ns;
    unsigned clones; /* further machines that claim to be it */
    /* batches, since the collector's start */
    uint64_t stored, duplicates, conflicts, corrupt, spoofed, too_old;
    char version[32]; /* of the agent */
};

/* A run, as far as questions go: which hosts, from when to when, and perhaps one process and all
 * that descend from it. */
struct query_run_host {
    struct uuid id;
    int64_t since_ns, until_ns; /* by its own clock; until 0: up to its newest data */
};

struct query_run {
    size_t n;
    const struct query_run_host *hosts; /* by id */
    bool has_root;                      /* n is 1 then; a root that was not seen is none */
    struct uuid boot;
    struct proc_id root;
};

/* A start of a host's system; times UTC ns by its clock. */
struct query_boot {
    struct uuid boot;
    int64_t booted_ns;         /* 0: not known */
    int64_t first_ns, last_ns; /* of what came of it */
    bool good_bye;             /* the last that came was one */
};
typedef enum err (*query_boot_each)(void *to, const struct query_boot *b);

/* Gets a notice of rules as an event; host all zero: of no single host. False ends it. */
typedef bool (*query_notice_each)(void *to, const struct uuid *host, uint64_t n,
                                  const struct life_event *ev);

/* Who asks, of what, until when. */
struct query_env {
    const struct store_view *view;
    const struct query_run *run; /* NULL: the question's own hosts and range */
    const char *scope;           /* host glob of the asking certificate; NULL or "" = every host */
    int64_t now_ns;              /* UTC */
    const struct deadline *deadline; /* NULL = none */
    bool no_sums;                    /* for tests: Series adds up every process */
    bool store_failed;               /* what the view holds is all there will be until a restart */
    const struct store_stats *stats; /* for Overview; may be NULL */
    const struct store_room *room;   /* likewise */
    struct pulse *pulse;             /* for Pulse; NULL: nothing is known */
    /* false: the host has not been seen since the collector started. May be NULL. */
    bool (*host_state)(void *ctx, const struct uuid *host, struct query_host_state *out);
    /* Whether an operator has said that it is not coming back, and it has not. May be NULL. */
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    /* What the host is known by, labels assigned here included, in the arena; NULL: nothing. May be
     * NULL. */
    const struct facts *(*facts)(void *ctx, const struct uuid *host, const char *name,
                                 struct arena *a);
    /* Of hosts that are the same in these (NULL: lab.class), in words, in the arena; empty:
     * unknown. May be NULL. */
    struct str (*host_class)(void *ctx, const struct facts *f, const char *const *keys,
                             struct arena *a);
    /* Gives the notices of rules with steps in [since, until), UTC by the collector's clock; host
     * all zero: of no single host. May be NULL. */
    enum err (*notices)(void *ctx, int64_t since_ns, int64_t until_ns, query_notice_each each,
                        void *to);
    /* Gives the host's boots of which something came in [since, until), the oldest first. May be
     * NULL. */
    enum err (*boots)(void *ctx, const struct uuid *host, int64_t since_ns, int64_t until_ns,
                      query_boot_each each, void *to);
    void *ctx;
};

struct query_answer {
    struct wire_answer data; /* texts belong to the view or to `memory` */
    bool more;               /* ask again with the cursor */
    uint8_t cursor_n;
    uint8_t cursor[WIRE_CURSOR_MAX];
    struct arena memory;
};

#endif
