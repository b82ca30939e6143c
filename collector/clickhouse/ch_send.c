#include "collector/clickhouse/ch_send.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/log/log.h"

#define INSERT_NS (60 * CLK_S)
#define PAUSE_MIN (CLK_S / 2)
#define PAUSE_MAX (60 * CLK_S)
#define KEYS_MAX  (1u << 20)
#define DAYS_FULL 8u /* and CH_ROWS_DAYS_MAX of one batch: a server takes 100 partitions */
#define BODY_MAX  ((size_t)384 << 20) /* cells up to full and those of one batch, all columns */

struct ch_send {
    struct ch_send_conf conf;
    struct ch_rows *rows;
    struct ch_send_key *keys;
    size_t n_keys, cap_keys;
    size_t left_out; /* of them */
    struct buf sql, body;
    uint64_t block; /* numbers them */
};

enum err ch_send_create(struct ch_send **out, const struct ch_send_conf *conf)
{
    struct ch_send *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    buf_init(&s->sql, (size_t)1 << 20);
    buf_init(&s->body, BODY_MAX);
    e = ch_rows_create(&s->rows, conf->collector);
    if (e) {
        ch_send_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void ch_send_destroy(struct ch_send *s)
{
    if (s) {
        ch_rows_destroy(s->rows);
        buf_fini(&s->sql);
        buf_fini(&s->body);
        mem_free(s->keys);
        mem_free(s);
    }
}

/* -- gathering -- */

static bool samples_wanted(const struct ch_send *s, const char *host)
{
    for (size_t i = 0; i < s->conf.n_samples; i++) {
        if (glob_match(str_make(s->conf.samples[i]), str_make(host))) {
            return true;
        }
    }
    return false;
}

enum err ch_send_add(struct ch_send *s, const struct ch_rows_batch *batch)
{
    struct ch_rows_batch b = *batch;
    const struct batch_head *head = &b.rest->head;
    enum err e = VEC_ROOM(&s->keys, &s->cap_keys, s->n_keys + 1, KEYS_MAX);

    if (e) {
        return e;
    }
    b.samples = samples_wanted(s, b.host_name);
    e = ch_rows_add(s->rows, &b);
    if (e == ERR_INVALID || e == ERR_FULL) { /* no agent makes such */
        char id[UUID_TEXT];

        log_line(LOG_ERROR, "clickhouse", "batch_left_out",
                 "host_id=%s seq=%" PRIu64 " reason=%s remedy=%s", uuid_format(id, &head->host),
                 head->seq, err_name(e),
                 "\"more cells or days than a batch can have: see what runs as an agent there\"");
        err_ignore(ch_rows_leave_out(s->rows, &b));
        s->left_out++;
        e = ERR_OK;
    }
    if (!e) {
        s->keys[s->n_keys++] = (struct ch_send_key){head->host, head->stream, head->seq};
    }
    return e;
}

void ch_send_process(struct ch_send *s, const struct uuid *host, const struct uuid *boot,
                     const struct proc_info *info, int64_t seen_ns)
{
    ch_rows_process(s->rows, host, boot, info, seen_ns);
}

bool ch_send_is_empty(struct ch_send *s)
{
    return !s->n_keys && !ch_native_rows(ch_rows_block(s->rows, CH_PROCESS));
}

bool ch_send_is_full(struct ch_send *s)
{
    return ch_native_rows(ch_rows_block(s->rows, CH_CELL)) >= CH_SEND_CELLS ||
           ch_native_rows(ch_rows_block(s->rows, CH_SAMPLE)) >= CH_SEND_SAMPLES ||
           ch_rows_bytes(s->rows) >= CH_SEND_BYTES || ch_rows_days(s->rows) >= DAYS_FULL ||
           s->n_keys >= KEYS_MAX / 2;
}

void ch_send_reset(struct ch_send *s)
{
    ch_rows_reset(s->rows);
    s->n_keys = s->left_out = 0;
}

uint64_t ch_send_blocks(const struct ch_send *s)
{
    return s->block;
}

void ch_send_buffers(struct ch_send *s, struct buf **sql, struct buf **body)
{
    *sql = &s->sql;
    *body = &s->body;
}

/* -- sending -- */

static enum err send_encode(struct ch_send *s, enum ch_table t, struct ch_http_insert *in)
{
    enum err e;

    buf_reset(&s->sql);
    buf_reset(&s->body);
    e = ch_native_encode(ch_rows_block(s->rows, t), ch_http_dialect(s->conf.http), &s->sql,
                         &s->body);
    in->sql = buf_cstr(&s->sql);
    in->body = s->body.p;
    in->n = s->body.n;
    return e;
}

/* The ledger row itself may be there twice now: it says so. */
static enum err send_again(struct ch_send *s, struct ch_http_insert *in, char *token, size_t size)
{
    ch_rows_announce(s->rows, CH_STORED, true);
    (void)snprintf(token, size, "%.100s/%" PRId64 "/%" PRIu64 "/again", s->conf.collector,
                   s->conf.started_ns, s->block);
    return send_encode(s, CH_BATCH, in);
}

/* Sends until it is in. *again: the outcome of an attempt was not known. ERR_CLOSED: it ends; other
 * errors: the block cannot be encoded. */
static enum err send_insert(struct ch_send *s, enum ch_table t, const char *what, bool *again)
{
    char token[256];
    struct ch_http_insert in = {.token = token, .quick = t == CH_CELL, .quorum = s->conf.quorum};
    int64_t pause_ns = PAUSE_MIN;
    enum err e;

    if (!ch_native_rows(ch_rows_block(s->rows, t))) {
        return ERR_OK;
    }
    (void)snprintf(token, sizeof token, "%.100s/%" PRId64 "/%" PRIu64 "/%s", s->conf.collector,
                   s->conf.started_ns, s->block, what);
    e = send_encode(s, t, &in);
    while (!e) {
        struct errmsg why = {""};
        bool rejected;

        e = ch_http_insert(s->conf.http, &in, INSERT_NS, &why);
        if (e != ERR_CLOSED) {
            s->conf.tell(s->conf.ctx, e, what, &why);
        }
        if (!e) {
            return ERR_OK;
        }
        rejected = e == ERR_REFUSED || e == ERR_ACCESS;
        if (e == ERR_CLOSED || !s->conf.wait(s->conf.ctx, rejected ? PAUSE_MAX / 4 : pause_ns)) {
            return ERR_CLOSED;
        }
        pause_ns = pause_ns * 2 < PAUSE_MAX ? pause_ns * 2 : PAUSE_MAX;
        e = t == CH_BATCH && !*again ? send_again(s, &in, token, sizeof token) : ERR_OK;
        *again = true;
    }
    return e;
}

static void send_done(struct ch_send *s)
{
    const struct ch_send_done done = {
        .keys = s->keys,
        .n_keys = s->n_keys,
        .given_up = ch_rows_given_up(s->rows),
        .cells = ch_native_rows(ch_rows_block(s->rows, CH_CELL)),
        .samples = ch_native_rows(ch_rows_block(s->rows, CH_SAMPLE)),
        .values = ch_rows_values(s->rows),
    };

    s->conf.done(s->conf.ctx, &done);
    if (done.given_up > s->left_out) {
        log_line(
            LOG_WARN, "clickhouse", "given_up", "batches=%zu remedy=%s",
            done.given_up - s->left_out,
            "\"retention dropped their rows before they were sent: raise retention.raw.age and "
            ".bytes if ClickHouse may be down for longer\"");
    }
}

enum err ch_send_block(struct ch_send *s, bool again)
{
    static const enum ch_table order[] = {CH_CELL, CH_SAMPLE, CH_EVENT, CH_PROCESS, CH_HOST};
    enum err e = ERR_OK;

    s->block++;
    if (again) {
        ch_rows_announce(s->rows, CH_COMING, true);
        e = send_insert(s, CH_BATCH, "coming", &again);
    }
    for (size_t i = 0; i < sizeof order / sizeof *order && !e; i++) {
        e = send_insert(s, order[i], ch_schema_table(order[i]), &again);
    }
    if (!e) {
        ch_rows_announce(s->rows, CH_STORED, again);
        e = send_insert(s, CH_BATCH, "batch", &again);
    }
    if (!e) {
        send_done(s);
    } else if (e != ERR_CLOSED) {
        log_line(LOG_ERROR, "clickhouse", "block_left_out", "batches=%zu reason=%s",
                 ch_rows_batches(s->rows), err_name(e));
    }
    ch_send_reset(s);
    return e;
}
