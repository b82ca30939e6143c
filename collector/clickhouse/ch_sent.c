#include "collector/clickhouse/ch_sent.h"

#include <string.h>

#include "collector/store/dedup.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define MAGIC   "PFclick\n"
#define VERSION 1u

struct ch_sent {
    const struct fio *fio;
    const char *collector;
    char *dir, *path, *new_path;
    struct dedup *sent;
};

static enum err stream_put(void *ctx, const struct dedup_stream *s)
{
    struct buf *out = ctx;

    buf_put(out, s->host.b, sizeof s->host.b);
    buf_put_u64le(out, s->stream);
    buf_put_u64le(out, (uint64_t)s->used_ns);
    buf_put_varint(out, s->n_ranges);
    dedup_encode(out, s->ranges, s->n_ranges);
    return out->bad;
}

static enum err stream_count(void *ctx, const struct dedup_stream *s)
{
    (void)s;
    ++*(uint64_t *)ctx;
    return ERR_OK;
}

enum err ch_sent_encode(struct buf *out, const struct dedup *d, const char *collector,
                        const struct ch_sent_from *from)
{
    uint64_t n = 0;
    enum err e = dedup_each(d, stream_count, &n);

    buf_put_str(out, MAGIC);
    buf_put_u32le(out, VERSION);
    buf_put_u64le(out, (uint64_t)from->made_ns);
    buf_put_u64le(out, (uint64_t)from->received_ns);
    buf_put_u64le(out, (uint64_t)from->written_ns);
    buf_put_varint(out, strlen(collector));
    buf_put_str(out, collector);
    buf_put_varint(out, n);
    e = e ? e : dedup_each(d, stream_put, out);
    if (!e && !out->bad) {
        buf_put_u64le(out, hash_bytes(out->p, out->n, 0));
    }
    return e ? e : out->bad;
}

static enum err stream_read(struct dedup *d, struct cur *c)
{
    const uint8_t *id = cur_bytes(c, sizeof(struct uuid));
    uint64_t stream = cur_u64le(c);
    int64_t used_ns = (int64_t)cur_u64le(c);
    uint64_t n = cur_varint(c);
    struct seq_range ranges[DEDUP_RANGES_MAX];
    const uint8_t *bytes = n > DEDUP_RANGES_MAX ? NULL : cur_bytes(c, n * sizeof *ranges);
    struct uuid host;
    size_t got;
    enum err e;

    if (!id || !bytes || c->bad) {
        return ERR_CORRUPT;
    }
    memcpy(host.b, id, sizeof host.b);
    e = dedup_decode(ranges, &got, bytes, n * sizeof *ranges);
    if (!e) {
        e = dedup_open(d, &host, stream, used_ns);
    }
    return e ? e : dedup_set(d, &host, stream, ranges, got);
}

enum err ch_sent_decode(struct dedup *d, const char *collector, struct ch_sent_from *from,
                        const void *p, size_t n)
{
    size_t n_head = strlen(MAGIC);
    struct cur c = cur_make(p, n > 8 ? n - 8 : 0);
    const uint8_t *magic = cur_bytes(&c, n_head);
    struct ch_sent_from read;
    const uint8_t *name;
    uint64_t n_name, streams;
    uint32_t version;
    enum err e = ERR_OK;

    if (!magic || memcmp(magic, MAGIC, n_head) != 0) {
        return ERR_CORRUPT;
    }
    version = cur_u32le(&c);
    if (version != VERSION) {
        return c.bad ? ERR_CORRUPT : ERR_VERSION;
    }
    if (cur_at64le((const uint8_t *)p + n - 8) != hash_bytes(p, n - 8, 0)) {
        return ERR_CORRUPT;
    }
    read.made_ns = (int64_t)cur_u64le(&c);
    read.received_ns = (int64_t)cur_u64le(&c);
    read.written_ns = (int64_t)cur_u64le(&c);
    n_name = cur_varint(&c);
    name = n_name > cur_left(&c) ? NULL : cur_bytes(&c, (size_t)n_name);
    if (!name) {
        return ERR_CORRUPT;
    }
    if (n_name != strlen(collector) || memcmp(name, collector, n_name) != 0) {
        return ERR_NOTFOUND;
    }
    streams = cur_varint(&c);
    while (!e && !c.bad && streams--) {
        e = stream_read(d, &c);
    }
    if (!e && (c.bad || cur_left(&c))) {
        return ERR_CORRUPT;
    }
    if (!e) {
        *from = read;
    }
    return e;
}

/* One that never takes a hole for sent. */
static enum err sent_create(struct ch_sent *s, const struct ch_sent_conf *conf)
{
    enum err e = dedup_create(&s->sent, conf->hosts_max, conf->forget_ns);

    if (!e) {
        dedup_forgets(s->sent);
    }
    return e;
}

static enum err state_read(struct ch_sent *s, const struct ch_sent_conf *conf,
                           struct ch_sent_from *from)
{
    uint8_t *p;
    size_t n;
    enum err e = os_read_file(&p, &n, s->path, CH_SENT_BYTES_MAX);

    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    if (!e) {
        e = ch_sent_decode(s->sent, s->collector, from, p, n);
        mem_free(p);
    }
    if (e && e != ERR_NOMEM) {
        log_line(LOG_WARN, "clickhouse", "state_unread", "file=%s reason=%s remedy=%s", s->path,
                 err_name(e),
                 "\"nothing is to be done: what the store holds is compared with ClickHouse's "
                 "ledger and sent again\"");
        *from = (struct ch_sent_from){INT64_MIN, INT64_MIN, 0};
        dedup_destroy(s->sent);
        s->sent = NULL;
        return sent_create(s, conf);
    }
    return e;
}

enum err ch_sent_open(struct ch_sent **out, const struct ch_sent_conf *conf,
                      struct ch_sent_from *from, struct errmsg *why)
{
    struct ch_sent *s = mem_zalloc(sizeof *s);
    enum err e = ERR_NOMEM;

    *from = (struct ch_sent_from){INT64_MIN, INT64_MIN, 0};
    if (!s) {
        return ERR_NOMEM;
    }
    s->fio = conf->fio;
    s->collector = conf->collector;
    s->dir = mem_strdup(conf->dir);
    s->path = os_path_join(conf->dir, "state");
    s->new_path = os_path_join(conf->dir, "state.new");
    if (s->dir && s->path && s->new_path) {
        e = sent_create(s, conf);
    }
    if (!e) {
        e = os_mkdirs(conf->dir, true);
        if (e) {
            (void)errmsg_set(why, e, "cannot make %s: %s", conf->dir, err_text(e));
        }
    }
    if (!e) {
        e = state_read(s, conf, from);
    }
    if (e) {
        ch_sent_close(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void ch_sent_close(struct ch_sent *s)
{
    if (s) {
        dedup_destroy(s->sent);
        mem_free(s->dir);
        mem_free(s->path);
        mem_free(s->new_path);
        mem_free(s);
    }
}

bool ch_sent_has(const struct ch_sent *s, const struct uuid *host, uint64_t stream, uint64_t seq)
{
    return dedup_has(s->sent, host, stream, seq);
}

enum err ch_sent_add(struct ch_sent *s, const struct uuid *host, uint64_t stream, uint64_t first,
                     uint64_t last, int64_t now_ns)
{
    enum err e = dedup_open(s->sent, host, stream, now_ns);

    return e ? e : dedup_add(s->sent, host, stream, (struct seq_range){first, last});
}

enum err ch_sent_bytes(const struct ch_sent *s, const struct ch_sent_from *from, struct buf *out)
{
    return ch_sent_encode(out, s->sent, s->collector, from);
}

enum err ch_sent_write(const struct ch_sent *s, const struct buf *bytes)
{
    enum err e = fio_write_whole(s->fio, s->new_path, bytes->p, bytes->n);

    if (!e) {
        e = s->fio->rename(s->fio->ctx, s->new_path, s->path);
    }
    return e ? e : s->fio->sync_dir(s->fio->ctx, s->dir);
}
