/* One ClickHouse service over HTTP: statements, inserts, and to which of its replicas they go. All
 * SQL of this room passes here.
 *
 * The statement after a failure goes to the next replica. Nothing is repeated here: the caller
 * knows whether that is right.
 * Bounds: a reply CH_HTTP_REPLY_MAX, an error's text 300 bytes.
 * Threads: one owner, but for stop. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_HTTP_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_HTTP_H

#include "collector/clickhouse/ch_schema.h"

#define CH_HTTP_REPLY_MAX  ((size_t)64 << 20)
#define CH_HTTP_URLS_MAX   8u
#define CH_HTTP_CONNECT_NS (10 * INT64_C(1000000000))
/* Levels of zstd for bodies of inserts: -5 takes three quarters of the time of -1, and a sixth more
 * bytes of cells (of samples half as many again). */
#define CH_HTTP_PACK       (-1)
#define CH_HTTP_PACK_QUICK (-5)

struct ch_http_conf {
    const char *const *urls; /* replicas: "https://ch1:8443"; https unless it is this machine */
    size_t n_urls;
    const char *database;             /* letters, digits and _ */
    const char *user, *password_file; /* "" = none; the file is private, its first line counts */
    const char *ca, *cert, *key;      /* PEM files; "" = the system's, none */
};

struct ch_http;
/* Reads files, asks nothing. Errors: those of http_client_open; ERR_INVALID (a URL) */
NODISCARD enum err ch_http_open(struct ch_http **out, const struct ch_http_conf *conf,
                                struct errmsg *why);
void ch_http_close(struct ch_http *h); /* NULL is allowed */
void ch_http_stop(struct ch_http *h);  /* any thread: what is asked now or later is ERR_CLOSED */

/* Results of all that asks:
 *   ERR_UNREACHABLE, ERR_TIMEOUT, ERR_TRUST, ERR_FULL, ERR_CLOSED   as of http_client_ask
 *   ERR_BUSY      it cannot now, or the outcome is not known: no quorum, read-only, full, 5xx
 *   ERR_CORRUPT   what answers is no ClickHouse: a page of a proxy
 *   ERR_ACCESS    user or password, or the user may not do that
 *   ERR_NOTFOUND  no such table or database
 *   ERR_REFUSED   it rejects the statement: a column, a type, a quota
 *   ERR_NOMEM */

/* The server's version and so the dialect; once is enough. Of the replica whose turn it is, */
NODISCARD enum err ch_http_connect(struct ch_http *h, struct errmsg *why);
/* and of the first that answers, that one and the others asked in turn; it is the one that is asked
 * from then on. timeout_ns: of all together. */
NODISCARD enum err ch_http_connect_any(struct ch_http *h, int64_t timeout_ns, struct errmsg *why);
enum ch_dialect ch_http_dialect(const struct ch_http *h); /* after one of these */
const char *ch_http_version(const struct ch_http *h);

/* A statement. reply: emptied, then what it answered; NULL: nothing is wanted. timeout_ns is the
 * server's limit, too. */
NODISCARD enum err ch_http_ask(struct ch_http *h, const char *sql, int64_t timeout_ns,
                               struct buf *reply, struct errmsg *why);

/* The same without the database, which may not be there: the statement names it. */
NODISCARD enum err ch_http_ask_nowhere(struct ch_http *h, const char *sql, int64_t timeout_ns,
                                       struct buf *reply, struct errmsg *why);

/* A statement that fills one table from another, at so many replicas as an insert; 0: all. */
NODISCARD enum err ch_http_run(struct ch_http *h, const char *sql, unsigned quorum,
                               int64_t timeout_ns, struct errmsg *why);

struct ch_http_insert {
    const char *sql; /* INSERT INTO … FORMAT Native */
    const void *body;
    size_t n;
    const char *token; /* the same for the same block, for servers that know tokens */
    bool quick;        /* to pack: CH_HTTP_PACK_QUICK */
    unsigned quorum;   /* replicas that must have it; 0: all. Without them for a minute: one */
};
NODISCARD enum err ch_http_insert(struct ch_http *h, const struct ch_http_insert *in,
                                  int64_t timeout_ns, struct errmsg *why);

size_t ch_http_urls(const struct ch_http *h);
/* The statement goes to this replica, and the following ones too. */
void ch_http_choose(struct ch_http *h, size_t url);
size_t ch_http_chosen(const struct ch_http *h);
const char *ch_http_url(const struct ch_http *h);     /* where the last one went */
uint64_t ch_http_bytes_sent(const struct ch_http *h); /* of inserts' bodies, as they travelled */

#endif
