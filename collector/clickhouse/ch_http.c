#include "collector/clickhouse/ch_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/http/http_client.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define PASSWORD_MAX 4096u
#define VERSION_MAX  64u
#define QUORUM_NS    (60 * CLK_S)
#define SQL_MAX      ((size_t)1 << 20)

struct ch_http {
    char *urls[CH_HTTP_URLS_MAX];
    size_t n_urls, url, last_url;
    char *database;
    struct http_client *client;
    struct http_client_reply reply;
    struct buf where, body; /* the URL; a compressed body */
    char version[VERSION_MAX];
    enum ch_dialect dialect;
    uint64_t sent;
    bool few_replicas; /* one must do */
    int64_t quorum_lost_ns, few_since_ns;
};

/* -- opening -- */

/* The first line of the file. mem_free */
static enum err password_read(char **out, const char *path, struct errmsg *why)
{
    uint8_t *p;
    size_t n;
    enum err e = os_check_private(path);

    if (e) {
        return errmsg_set(why, e, "cannot use clickhouse.password_file %s: %s%s", path, err_text(e),
                          e == ERR_ACCESS ? "; others may read it: chmod 600" : "");
    }
    e = os_read_file(&p, &n, path, PASSWORD_MAX);
    if (e) {
        return errmsg_set(why, e, "cannot read clickhouse.password_file %s: %s", path,
                          os_read_text(e));
    }
    n = strcspn((const char *)p, "\r\n");
    *out = mem_strndup((const char *)p, n);
    mem_free(p);
    return *out ? ERR_OK : ERR_NOMEM;
}

static enum err client_make(struct ch_http *h, const struct ch_http_conf *conf, struct errmsg *why)
{
    struct http_client_conf client = {
        .ca = conf->ca, .cert = conf->cert, .key = conf->key, .user = conf->user};
    char *password = NULL;
    enum err e = ERR_OK;

    if (conf->password_file && conf->password_file[0]) {
        e = password_read(&password, conf->password_file, why);
    }
    if (!e) {
        client.password = password;
        e = http_client_open(&h->client, &client, why);
    }
    if (password) {
        memset(password, 0, strlen(password));
    }
    mem_free(password);
    return e;
}

enum err ch_http_open(struct ch_http **out, const struct ch_http_conf *conf, struct errmsg *why)
{
    struct ch_http *h = mem_zalloc(sizeof *h);
    enum err e = ERR_OK;

    if (!h) {
        return ERR_NOMEM;
    }
    http_client_reply_init(&h->reply);
    buf_init(&h->where, SQL_MAX);
    buf_init(&h->body, (size_t)256 << 20);
    h->database = mem_strdup(conf->database);
    e = h->database ? ERR_OK : ERR_NOMEM;
    for (size_t i = 0; i < conf->n_urls && i < CH_HTTP_URLS_MAX && !e; i++) {
        e = http_client_check_url(conf->urls[i], false, why);
        if (!e) {
            size_t n = strlen(conf->urls[i]);

            while (n && conf->urls[i][n - 1] == '/') {
                n--;
            }
            h->urls[i] = mem_strndup(conf->urls[i], n);
            h->n_urls++;
            e = h->urls[i] ? ERR_OK : ERR_NOMEM;
        }
    }
    e = e ? e : client_make(h, conf, why);
    if (e) {
        ch_http_close(h);
        return e;
    }
    *out = h;
    return ERR_OK;
}

void ch_http_close(struct ch_http *h)
{
    if (!h) {
        return;
    }
    http_client_close(h->client);
    http_client_reply_fini(&h->reply);
    buf_fini(&h->where);
    buf_fini(&h->body);
    for (size_t i = 0; i < CH_HTTP_URLS_MAX; i++) {
        mem_free(h->urls[i]);
    }
    mem_free(h->database);
    mem_free(h);
}

void ch_http_stop(struct ch_http *h)
{
    http_client_stop(h->client);
}

/* -- what a server says -- */

/* Codes of ClickHouse (ErrorCodes.cpp) with which the same statement may succeed later. */
static bool code_is_for_now(unsigned long code)
{
    static const uint16_t codes[] = {
        23,               /* CANNOT_READ_FROM_ISTREAM */
        32,               /* ATTEMPT_TO_READ_AFTER_EOF */
        74,               /* CANNOT_READ_FROM_FILE_DESCRIPTOR */
        75,               /* CANNOT_WRITE_TO_FILE_DESCRIPTOR */
        76,               /* CANNOT_OPEN_FILE */
        159,              /* TIMEOUT_EXCEEDED */
        160,              /* TOO_SLOW */
        198,              /* DNS_ERROR */
        202,              /* TOO_MANY_SIMULTANEOUS_QUERIES */
        209,              /* SOCKET_TIMEOUT */
        210,              /* NETWORK_ERROR */
        225,              /* NO_ZOOKEEPER */
        236,              /* ABORTED */
        241,              /* MEMORY_LIMIT_EXCEEDED */
        242,              /* TABLE_IS_READ_ONLY */
        243,              /* NOT_ENOUGH_SPACE */
        252,              /* TOO_MANY_PARTS */
        254,              /* NO_ACTIVE_REPLICAS */
        265,              /* LEADERSHIP_CHANGED */
        279,              /* ALL_CONNECTION_TRIES_FAILED */
        285,              /* TOO_FEW_LIVE_REPLICAS */
        286,              /* UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE */
        289,              /* REPLICA_IS_NOT_IN_QUORUM */
        319,              /* UNKNOWN_STATUS_OF_INSERT */
        394,              /* QUERY_WAS_CANCELLED */
        439,              /* CANNOT_SCHEDULE_TASK */
        473,              /* DEADLOCK_AVOIDED */
        999,              /* KEEPER_EXCEPTION */
        1000, 1001, 1002, /* of libraries: a full disk, for one */
    };

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i] == code) {
            return true;
        }
    }
    return false;
}

/* 0: the text is no error of ClickHouse. */
static unsigned long code_of(const char *text)
{
    return strncmp(text, "Code: ", 6) == 0 ? strtoul(text + 6, NULL, 10) : 0;
}

static enum err code_error(unsigned long code)
{
    switch (code) {
    case 60: /* UNKNOWN_TABLE */
    case 81: /* UNKNOWN_DATABASE */
        return ERR_NOTFOUND;
    case 164: /* READONLY */
    case 192: /* UNKNOWN_USER */
    case 193: /* WRONG_PASSWORD */
    case 194: /* REQUIRED_PASSWORD */
    case 195: /* IP_ADDRESS_NOT_ALLOWED */
    case 291: /* DATABASE_ACCESS_DENIED */
    case 497: /* ACCESS_DENIED */
    case 516: /* AUTHENTICATION_FAILED */
        return ERR_ACCESS;
    default:
        return code_is_for_now(code) ? ERR_BUSY : ERR_REFUSED;
    }
}

/* What a whole reply means. */
static enum err reply_judge(struct ch_http *h, bool wants_body, struct errmsg *why)
{
    const char *text = buf_cstr(&h->reply.body);
    unsigned long code = code_of(text);
    enum err e;

    if (h->reply.status == 200 && (wants_body ? !code : !h->reply.body.n)) {
        return ERR_OK;
    }
    if (code) {
        e = code_error(code);
    } else if (h->reply.status == 401 || h->reply.status == 403) {
        e = ERR_ACCESS;
    } else {
        e = h->reply.status == 200 || h->reply.status == 404 || text[0] == '<' ? ERR_CORRUPT
                                                                               : ERR_BUSY;
    }
    return errmsg_set(
        why, e, "%s answered %u: %.300s%s", h->urls[h->last_url], h->reply.status, text,
        e == ERR_CORRUPT  ? " - is there a ClickHouse at this address?"
        : e == ERR_ACCESS ? " - see clickhouse.user, clickhouse.password_file and the user's rights"
                          : "");
}

/* -- asking -- */

static void put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++) {
        char c = *text;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("_-.,()", c)) {
            buf_put_u8(out, (uint8_t)c);
        } else {
            buf_printf(out, "%%%02X", (uint8_t)c);
        }
    }
}

/* The limit holds at the server, in whole seconds. */
static void where_begin(struct ch_http *h, bool database, int64_t timeout_ns)
{
    buf_reset(&h->where);
    buf_printf(&h->where, "%s/?max_execution_time=%" PRId64, h->urls[h->url],
               (int64_t)(timeout_ns / CLK_S + 1));
    if (database) {
        buf_put_str(&h->where, "&database=");
        put_escaped(&h->where, h->database);
    }
}

static enum err http_send(struct ch_http *h, const void *body, size_t n, bool packed,
                          int64_t timeout_ns, bool wants_body, struct errmsg *why)
{
    static const struct http_client_header zstd = {"Content-Encoding", "zstd"};
    const struct http_client_request q = {.method = "POST",
                                          .url = buf_cstr(&h->where),
                                          .headers = &zstd,
                                          .n_headers = packed ? 1 : 0,
                                          .body = body,
                                          .n_body = n,
                                          .timeout_ns = timeout_ns,
                                          .reply_max = CH_HTTP_REPLY_MAX};
    enum err e = h->where.bad;

    h->last_url = h->url;
    if (!e) {
        e = http_client_ask(h->client, &q, &h->reply, why);
        e = e ? e : reply_judge(h, wants_body, why);
    }
    if (e == ERR_UNREACHABLE || e == ERR_TIMEOUT || e == ERR_BUSY || e == ERR_CORRUPT ||
        e == ERR_TRUST) {
        h->url = (h->url + 1) % h->n_urls;
    }
    return e;
}

static enum err http_ask(struct ch_http *h, bool database, const char *sql, int64_t timeout_ns,
                         struct buf *reply, struct errmsg *why)
{
    enum err e;

    where_begin(h, database, timeout_ns);
    if (h->dialect != CH_PLAIN) {
        buf_put_str(&h->where, "&low_cardinality_allow_in_native_format=0");
    }
    e = http_send(h, sql, strlen(sql), false, timeout_ns, true, why);
    if (!e && reply) {
        buf_reset(reply);
        buf_put(reply, h->reply.body.p, h->reply.body.n);
        e = reply->bad;
    }
    return e;
}

enum err ch_http_ask(struct ch_http *h, const char *sql, int64_t timeout_ns, struct buf *reply,
                     struct errmsg *why)
{
    return http_ask(h, true, sql, timeout_ns, reply, why);
}

enum err ch_http_ask_nowhere(struct ch_http *h, const char *sql, int64_t timeout_ns,
                             struct buf *reply, struct errmsg *why)
{
    return http_ask(h, false, sql, timeout_ns, reply, why);
}

static enum err http_connect(struct ch_http *h, int64_t timeout_ns, struct errmsg *why)
{
    static const char sql[] = "SELECT version()";
    size_t n;
    enum err e;

    where_begin(h, false, timeout_ns); /* the database may not be there yet */
    e = http_send(h, sql, sizeof sql - 1, false, timeout_ns, true, why);
    if (e) {
        return e;
    }
    n = strcspn(buf_cstr(&h->reply.body), "\r\n");
    if (n == 0 || n >= sizeof h->version || strspn(buf_cstr(&h->reply.body), "0123456789.") < 3) {
        return errmsg_set(why, ERR_CORRUPT, "%s does not answer as ClickHouse does: %.100s",
                          h->urls[h->last_url], buf_cstr(&h->reply.body));
    }
    (void)snprintf(h->version, sizeof h->version, "%.*s", (int)n, buf_cstr(&h->reply.body));
    h->dialect = ch_schema_dialect(h->version);
    return ERR_OK;
}

enum err ch_http_connect(struct ch_http *h, struct errmsg *why)
{
    return http_connect(h, CH_HTTP_CONNECT_NS, why);
}

enum err ch_http_connect_any(struct ch_http *h, int64_t timeout_ns, struct errmsg *why)
{
    int64_t end_ns = clk_add(os_mono_ns(), timeout_ns);
    size_t first = h->url;
    enum err e = ERR_TIMEOUT;

    for (size_t i = 0; e && e != ERR_NOMEM && e != ERR_CLOSED && i < h->n_urls; i++) {
        int64_t left_ns = clk_sub(end_ns, os_mono_ns());

        if (left_ns <= 0) {
            return errmsg_set(why, ERR_TIMEOUT, "no time is left to ask %s", h->urls[h->url]);
        }
        h->url = (first + i) % h->n_urls;
        e = http_connect(h, left_ns / (int64_t)(h->n_urls - i), why);
        h->url = e ? h->url : h->last_url;
    }
    return e;
}

enum ch_dialect ch_http_dialect(const struct ch_http *h)
{
    return h->dialect;
}

const char *ch_http_version(const struct ch_http *h)
{
    return h->version;
}

/* The body, packed where the server knows how to unpack it. */
static enum err body_pack(struct ch_http *h, int level, const void **p, size_t *n)
{
    size_t bound = ZSTD_compressBound(*n), got;
    uint8_t *to;

    buf_reset(&h->body);
    to = buf_grow(&h->body, bound);
    if (!to) {
        return h->body.bad;
    }
    got = ZSTD_compress(to, bound, *p, *n, level);
    if (ZSTD_isError(got)) {
        return ERR_NOMEM; /* nothing else can fail here */
    }
    *p = to;
    *n = got;
    return ERR_OK;
}

/* After a minute without a quorum one replica must do; it is tried with all again each
 * minute, once. What says nothing about replicas does not count. */
static void quorum_note(struct ch_http *h, unsigned wanted, enum err e)
{
    int64_t now_ns = os_mono_ns();

    if (wanted < 2 || (e && e != ERR_BUSY && e != ERR_TIMEOUT && e != ERR_UNREACHABLE)) {
        return;
    }
    if (!e && !h->few_replicas) {
        h->quorum_lost_ns = 0;
    } else if (e && !h->quorum_lost_ns) {
        h->quorum_lost_ns = now_ns;
    } else if (e && !h->few_replicas && now_ns - h->quorum_lost_ns > QUORUM_NS) {
        h->few_replicas = true;
        h->few_since_ns = now_ns;
        log_line(LOG_WARN, "clickhouse", "few_replicas", "wanted=%u remedy=%s", wanted,
                 "\"blocks are kept by one replica until the others are back\"");
    }
    if (h->few_replicas && now_ns - h->few_since_ns > QUORUM_NS) {
        h->few_replicas = false;
        h->quorum_lost_ns = now_ns - QUORUM_NS - 1; /* fails it, one does again */
    }
}

enum err ch_http_insert(struct ch_http *h, const struct ch_http_insert *in, int64_t timeout_ns,
                        struct errmsg *why)
{
    unsigned quorum = in->quorum && in->quorum < h->n_urls ? in->quorum : (unsigned)h->n_urls;
    bool full = h->dialect != CH_PLAIN;
    const void *body = in->body;
    size_t n = in->n;
    enum err e =
        full ? body_pack(h, in->quick ? CH_HTTP_PACK_QUICK : CH_HTTP_PACK, &body, &n) : ERR_OK;

    if (e) {
        return e;
    }
    where_begin(h, true, timeout_ns);
    buf_put_str(&h->where, "&query=");
    put_escaped(&h->where, in->sql);
    if (quorum > 1 && !h->few_replicas) {
        buf_printf(&h->where, "&insert_quorum=%u&insert_quorum_timeout=%" PRId64, quorum,
                   (int64_t)(timeout_ns / CLK_MS / 2));
    }
    if (full) {
        buf_put_str(&h->where, "&insert_deduplicate=1&fsync_after_insert=1"
                               "&insert_deduplication_token=");
        put_escaped(&h->where, in->token);
    }
    if (h->dialect == CH_NARROW) {
        buf_put_str(&h->where, "&input_format_native_allow_types_conversion=1");
    }
    e = http_send(h, body, n, full, timeout_ns, false, why);
    quorum_note(h, quorum, e);
    h->sent += e ? 0 : n;
    return e;
}

enum err ch_http_run(struct ch_http *h, const char *sql, unsigned quorum, int64_t timeout_ns,
                     struct errmsg *why)
{
    where_begin(h, true, timeout_ns);
    quorum = quorum && quorum < h->n_urls ? quorum : (unsigned)h->n_urls;
    if (quorum > 1) {
        buf_printf(&h->where, "&insert_quorum=%u&insert_quorum_timeout=%" PRId64, quorum,
                   (int64_t)(timeout_ns / CLK_MS / 2));
    }
    buf_put_str(&h->where, "&max_threads=2");
    return http_send(h, sql, strlen(sql), false, timeout_ns, false, why);
}

size_t ch_http_urls(const struct ch_http *h)
{
    return h->n_urls;
}

void ch_http_choose(struct ch_http *h, size_t url)
{
    h->url = url % h->n_urls;
}

size_t ch_http_chosen(const struct ch_http *h)
{
    return h->url;
}

const char *ch_http_url(const struct ch_http *h)
{
    return h->urls[h->last_url];
}

uint64_t ch_http_bytes_sent(const struct ch_http *h)
{
    return h->sent;
}
