/* Calls: methods by name over frames over net.h. Methods are those of the service descriptors of
 * proto/; a method that no descriptor names cannot be registered. Handlers run on the server's
 * worker threads and may answer later from any thread. Deadlines: a request whose time is gone when
 * a worker takes it is answered DEADLINE_EXCEEDED unhandled. */
#ifndef PROCFLEET_COMMON_RPC_RPC_H
#define PROCFLEET_COMMON_RPC_RPC_H

#include "common/base/clk.h"
#include "common/net/net.h"
#include "common/wire/frame.h"

/* A server works no longer than this for a request, whatever its caller allows. */
#define RPC_TIMEOUT_MAX_NS (60 * CLK_S)

/* -- server -- */
struct deadline;
struct rpc_server;
struct rpc_call; /* one request under way; owned by the handler until rpc_answer or rpc_fail, which
                    any thread may call */

struct rpc_method {
    const char *name; /* "procfleet.v1.Query/Top" */
    unsigned roles;   /* NET_* that may call it; strangers may call all of their listener's */
    void (*handle)(void *ctx, struct rpc_call *call);
    void *ctx;
};

struct rpc_server_conf {
    struct net_server_conf net; /* on_request, on_peer and ctx are rpc's own; leave them zero */
    /* A peer that may call came or went; must not block. May be NULL. */
    void (*on_peer)(void *ctx, const struct net_identity *who, bool connected);
    void *peer_ctx;
    const struct rpc_method *methods;
    size_t n_methods;
    unsigned workers; /* threads, 1 to 16 */
    bool background;  /* they work with what other threads leave: os_thread_background */
    unsigned queue;   /* requests waiting for a worker; more are answered RESOURCE_EXHAUSTED */
    size_t raw_max;   /* payload bytes after decompression, and of a raw payload */
    int64_t default_timeout_ns; /* of requests that do not say */
};

/* Errors: ERR_INVALID (a method no descriptor names; a number out of range), those of
 * net_server_start */
NODISCARD enum err rpc_server_start(struct rpc_server **out, const struct rpc_server_conf *conf,
                                    struct errmsg *why);
/* Answers what waits for a worker UNAVAILABLE, lets the deadline of what workers are at pass, joins
 * them, closes the connections. Calls that a handler still holds stay valid; answering them later
 * only releases them. NULL is allowed.
 */
void rpc_server_stop(struct rpc_server *s);
unsigned rpc_server_port(const struct rpc_server *s);
void rpc_server_review(struct rpc_server *s);                           /* as net_server_review */
unsigned rpc_server_disconnect(struct rpc_server *s, const char *name); /* likewise */
/* How long the oldest of the requests that wait for a worker has waited, or the listener has stood
 * still (net_server_stuck_ns), whichever is longer. */
int64_t rpc_server_stuck_ns(struct rpc_server *s, int64_t now_ns);
void rpc_server_stats(struct rpc_server *s, struct net_server_stats *out);

/* The payload: raw bytes. An encoding other than raw is undone before the handler is called, except
 * for Ingest/Push, whose payload goes on as it stands. */
const uint8_t *rpc_call_payload(const struct rpc_call *c, size_t *n);
const struct net_identity *rpc_call_peer(const struct rpc_call *c);
int64_t rpc_call_deadline_ns(const struct rpc_call *c); /* monotonic */
/* The same for work that the handler does before it returns, and valid until then: it passes at
 * once when the server stops. DEADLINE_EXCEEDED is reported as UNAVAILABLE then. */
const struct deadline *rpc_call_deadline(const struct rpc_call *c);

struct rpc_answer_opt {
    bool more; /* with cursor */
    const void *cursor;
    size_t cursor_n;
};
void rpc_answer(struct rpc_call *c, const void *payload, size_t n,
                const struct rpc_answer_opt *opt); /* opt may be NULL */
void rpc_fail(struct rpc_call *c, enum rpc_code code, uint32_t retry_after_ms, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* The same with one detail for programs: a reason that outlives the wording of the message. */
void rpc_fail_detail(struct rpc_call *c, enum rpc_code code, uint32_t retry_after_ms,
                     const char *key, const char *value, const char *fmt, ...) PRINTF_LIKE(6, 7);

/* The fixed number of a method, for GetServerInfo. */
uint32_t rpc_method_id(const char *name); /* FNV-1a, 32 bits; 0 becomes 1 */

/* Whether a service descriptor names the method. */
bool rpc_method_exists(const char *name);

/* Payloads that travel as one zstd frame. Appends what the frame holds. Its size must be in the
 * frame's head and fit `out`: it is checked before a byte is decompressed. Errors: ERR_CORRUPT,
 * ERR_FULL (more than fits), ERR_NOMEM */
NODISCARD enum err rpc_zstd_decode(struct buf *out, const void *p, size_t n);

/* The size that the frame's head declares, 0 when it does not. */
uint64_t rpc_zstd_size(const void *p, size_t n);

/* -- client -- */
struct rpc_client;
NODISCARD enum err rpc_client_open(struct rpc_client **out, const struct net_client_conf *conf,
                                   const char *client_name, struct errmsg *why);
void rpc_client_hang_up(struct rpc_client *c); /* as net_client_hang_up */
void rpc_client_close(struct rpc_client *c);   /* as net_client_close */

/* However long a server asks for, a client waits no longer at a time. */
#define RPC_RETRY_AFTER_MAX_MS 60000u

struct rpc_result {
    enum rpc_code code; /* valid when the call returned ERR_OK or ERR_REFUSED */
    char message[256];
    char detail[32];         /* key of the first detail; "": there is none */
    uint32_t retry_after_ms; /* at most RPC_RETRY_AFTER_MAX_MS */
    bool more;
    uint8_t cursor_n;
    uint8_t cursor[255];
    uint64_t epoch;
};

/* Calls and waits; several threads may call at once. result may be NULL. The reply's payload, raw,
 * is appended to `reply`, whose maximum bounds it. payload_encoding says what
 * `payload` is already. Errors: ERR_REFUSED (result->code says why), those of net_client_call,
 * ERR_CORRUPT (no answer to this request), ERR_FULL (it does not fit `reply`) */
NODISCARD enum err rpc_client_call(struct rpc_client *c, const char *method,
                                   enum frame_encoding payload_encoding, const void *payload,
                                   size_t n, int64_t timeout_ns, struct buf *reply,
                                   struct rpc_result *result);

/* The same without waiting (net_client_begin): `on_end` only wakes somebody, who sees that the
 * call has ended and finishes it. A call belongs to the caller that began it. */
struct rpc_pending;
/* Errors: those of net_client_begin */
NODISCARD enum err rpc_client_begin(struct rpc_pending **out, struct rpc_client *c,
                                    const char *method, enum frame_encoding payload_encoding,
                                    const void *payload, size_t n, int64_t timeout_ns,
                                    void (*on_end)(void *ctx), void *ctx);
bool rpc_client_ended(const struct rpc_pending *p);
/* Waits for the end and releases. took_ns: how long the call was under way; result and took_ns may
 * be NULL. Errors: those of rpc_client_call */
NODISCARD enum err rpc_client_finish(struct rpc_pending *p, struct buf *reply,
                                     struct rpc_result *result, int64_t *took_ns);
uint64_t rpc_client_connection(const struct rpc_client *c);  /* as net_client_connection, */
void rpc_client_redial(struct rpc_client *c);                /* net_client_redial, */
void rpc_client_useful(struct rpc_client *c);                /* net_client_useful, */
void rpc_client_pause(struct rpc_client *c, int64_t max_ns); /* net_client_pause, */
NODISCARD enum err rpc_client_fault(struct rpc_client *c,
                                    struct errmsg *out);     /* net_client_fault, */
enum tls_cause rpc_client_cause(const struct rpc_client *c); /* net_client_cause, */
void rpc_client_watch(struct rpc_client *c, void (*on_change)(void *ctx),
                      void *ctx); /* and net_client_watch */

bool rpc_client_connected(const struct rpc_client *c);
/* As net_client_wait: ends at the first failed attempt to connect. */
NODISCARD enum err rpc_client_wait(struct rpc_client *c, int64_t timeout_ns, struct errmsg *why);
void rpc_client_problem(struct rpc_client *c, struct errmsg *out);

#endif
