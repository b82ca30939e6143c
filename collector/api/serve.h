/* The Query service: requests in, answers out. Every handler reads one wire_query, asks query.h
 * over a fresh view of the store, limited to the hosts that the peer's certificate may see, and
 * answers before the request's deadline or says why not. Threads: handlers run on the RPC server's
 * workers, any number at once; no state changes. */
#ifndef PROCFLEET_COLLECTOR_API_SERVE_H
#define PROCFLEET_COLLECTOR_API_SERVE_H

#include "collector/query/query.h"
#include "common/rpc/rpc.h"

struct serve;

struct serve_conf {
    struct store *store;  /* borrowed until serve_destroy */
    uint64_t event_epoch; /* of the event stream (feed.h) */
    uint32_t request_max; /* bytes, told to clients */
    struct pulse *pulse;  /* likewise; may be NULL */
    /* The view that a question reads; since_ns: where its earliest window begins, INT64_MAX: it has
     * none. NULL: the store's. Errors: those of store_view_open */
    enum err (*view)(void *ctx, struct store_view **out, int64_t since_ns,
                     const struct deadline *deadline);
    bool (*host_state)(void *ctx, const struct uuid *host, struct query_host_state *out);
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    /* The hosts and the range of NAME[@n|@id], in the arena. May be NULL. Errors: ERR_NOTFOUND,
     * ERR_INVALID, with why; ERR_FULL, ERR_IO */
    enum err (*run)(void *ctx, const struct store_view *view, const struct net_identity *who,
                    struct str name, struct arena *memory, struct query_run *out,
                    struct errmsg *why);
    const struct facts *(*facts)(void *ctx, const struct uuid *host, const char *name,
                                 struct arena *a); /* as in query_env.h; may be NULL */
    struct str (*host_class)(void *ctx, const struct facts *f, const char *const *keys,
                             struct arena *a); /* likewise */
    /* likewise */
    enum err (*notices)(void *ctx, int64_t since_ns, int64_t until_ns, query_notice_each each,
                        void *to);
    enum err (*boots)(void *ctx, const struct uuid *host, int64_t since_ns, int64_t until_ns,
                      query_boot_each each, void *to); /* likewise */
    void *ctx;                                         /* of all */
};

/* Errors: ERR_NOMEM, ERR_IO (no random number) */
NODISCARD enum err serve_create(struct serve **out, const struct serve_conf *conf);
void serve_destroy(struct serve *s); /* the RPC server must have stopped; NULL is allowed */

/* Methods of others on the same listener, which GetServerInfo names too: at most 32 in all. Before
 * serve_methods. */
void serve_add(struct serve *s, const struct rpc_method *methods, size_t n);

/* One question for whoever's identity it is, as the methods ask it: what the console asks is
 * limited to the same hosts. */
struct serve_answer {
    struct query_answer a;   /* its data belong to the view */
    struct store_view *view; /* or NULL */
};
/* deadline  NULL: none
 * out       released by serve_answer_fini, also after an error
 * Errors: ERR_ACCESS (a host outside the scope, logged), those of query_run and store_view_open */
NODISCARD enum err serve_ask(struct serve *s, struct serve_answer *out, enum query_kind kind,
                             const struct net_identity *who, const struct deadline *deadline,
                             const struct wire_query *q, struct errmsg *why);
void serve_answer_fini(struct serve_answer *x);

/* The status for an error of serve_ask. */
enum rpc_code serve_code(enum err e);

/* What GetServerInfo answers. Errors: ERR_NOMEM */
NODISCARD enum err serve_info(struct serve *s, struct wire_server_info *out,
                              const struct net_identity *who);

/* Another number whenever something was sealed or dropped since the collector's start. */
uint64_t serve_generation(struct serve *s);

/* The method table for rpc_server_start; lives as long as `s`. */
const struct rpc_method *serve_methods(const struct serve *s, size_t *n);

#endif
