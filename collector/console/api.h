/* The console's API: GET /api/v1/NAME asks the question of that name and answers JSON. The table of
 * routes is here; every one of them reads, none changes anything. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_API_H
#define PROCFLEET_COLLECTOR_CONSOLE_API_H

#include "collector/api/serve.h"
#include "collector/console/api_args.h"
#include "collector/subscribe/feed_serve.h"

#define API_ROOT "/api/v1/"

/* What a path is; questions are QUERY_* + API_QUESTION. */
enum api_kind { API_INFO, API_METRICS, API_OPENAPI, API_UPDATES, API_RULES, API_QUESTION };

struct api_route {
    const char *name; /* behind API_ROOT */
    unsigned kind;
    uint32_t takes; /* API_* of api_args.h */
};

extern const struct api_route api_routes[];
extern const size_t api_routes_n;

/* NULL: there is none; then the closest name or NULL goes to *closest. */
const struct api_route *api_find(struct str path, const char **closest);

struct api_env {
    struct serve *serve;
    const struct net_identity *who;
    const struct deadline *deadline;
    bool updates; /* there is a journal to poll */
    enum err (*rules)(void *ctx, const struct net_identity *who, const struct wire_query *q,
                      struct query_answer *out); /* console.h */
    void *ctx;
};

/* One answer under way. Caller's storage. */
struct api_answer {
    uint32_t status; /* of HTTP */
    uint32_t retry_after_s;
    struct buf body; /* JSON */
    bool sealed;     /* a series of a fixed range, read from what is sealed only */
    bool waits;      /* `poll` is to be asked; then api_polled makes the answer */
    struct wire_poll poll;
    int64_t wait_ns;
    struct api_args args;
};

/* body_max: bytes that JSON may have. A page of rows that has more is asked for again with fewer;
 * the cursor goes on behind them. */
void api_init(struct api_answer *x, size_t body_max);
static inline void api_fini(struct api_answer *x)
{
    buf_fini(&x->body);
}
void api_run(struct api_answer *x, const struct api_route *route, struct str query,
             const struct api_env *env);
void api_polled(struct api_answer *x, const struct feed_serve_end *end);

/* The answer becomes an error. retry_ms 0: do not say */
void api_fail(struct api_answer *x, enum rpc_code code, uint32_t retry_ms, const char *message);

#endif
