/* The file: records of u32 bytes behind it, u8 flags (1 end), u8 n and n bytes of the collector's
 * address, the mark as RunMark, u64 XXH3-64 of all before it but the length. It is written as a
 * whole and renamed; a record that is damaged ends it. */
#include "collector/cli/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define BYTES_MAX (1u << 20)
#define AGE_NS    (7 * 86400 * CLK_S)
#define SUM_BYTES 8u
#define LOCK_NS   (2 * CLK_S)
#define KEEP_NS   (30 * CLK_S) /* to keep one: it would be lost */
#define END       1u

struct marks {
    char *dir, *path, *lock_path;
    struct os_lock *lock;
    uint8_t *bytes;
    size_t n;
};

static const char *marks_home(const char **below)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"XDG_STATE_HOME", "procfleet"},
                  {"LOCALAPPDATA", "procfleet"},
                  {"HOME", ".local/state/procfleet"}};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);

        if (value && *value) {
            *below = places[i].below;
            return value;
        }
    }
    return NULL;
}

static void marks_close(struct marks *m)
{
    os_unlock(m->lock);
    mem_free(m->dir);
    mem_free(m->path);
    mem_free(m->lock_path);
    mem_free(m->bytes);
}

/* Locks and reads; nothing kept is no error. Without `make` ERR_NOTFOUND where nothing ever was. */
static enum err marks_open(struct marks *m, bool make)
{
    const char *below = "", *home = marks_home(&below);
    int64_t until_ns = os_mono_ns() + (make ? KEEP_NS : LOCK_NS);
    enum err e;

    *m = (struct marks){.dir = NULL};
    if (!home) {
        return ERR_NOTFOUND;
    }
    m->dir = os_path_join(home, below);
    m->path = m->dir ? os_path_join(m->dir, "marks") : NULL;
    m->lock_path = m->dir ? os_path_join(m->dir, "marks.lock") : NULL;
    if (!m->path || !m->lock_path) {
        return ERR_NOMEM;
    }
    if (!make && !os_exists(m->path)) {
        return ERR_NOTFOUND;
    }
    e = os_mkdirs(m->dir, true);
    e = e ? e : os_lock(&m->lock, m->lock_path);
    while (e == ERR_BUSY && os_mono_ns() < until_ns) {
        os_sleep_ns(20 * CLK_MS);
        e = os_lock(&m->lock, m->lock_path);
    }
    e = e ? e : os_read_file(&m->bytes, &m->n, m->path, BYTES_MAX);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- records -- */

struct mark_record {
    bool end;
    struct str collector, mark, all; /* all: the record as it stands */
};

/* The next record; false: there is none, or it is damaged. */
static bool record_next(struct cur *c, struct mark_record *out)
{
    const uint8_t *begin = c->p;
    uint32_t n = cur_u32le(c);
    const uint8_t *body = cur_bytes(c, n);
    struct cur in;
    size_t name;

    if (!body || n < 2 + SUM_BYTES ||
        cur_at64le(body + n - SUM_BYTES) != hash_bytes(body, n - SUM_BYTES, 0)) {
        return false;
    }
    in = cur_make(body, n - SUM_BYTES);
    out->end = (cur_u8(&in) & END) != 0;
    name = cur_u8(&in);
    out->collector = (struct str){(const char *)cur_bytes(&in, name), name};
    out->mark.n = cur_left(&in);
    out->mark.p = (const char *)cur_bytes(&in, out->mark.n);
    out->all = (struct str){(const char *)begin, 4 + n};
    return !in.bad;
}

static enum err record_put(struct buf *out, const char *collector, bool end,
                           const struct wire_run_mark *m)
{
    struct buf body;
    size_t name = strlen(collector);
    enum err e;

    buf_init(&body, BYTES_MAX);
    buf_put_u8(&body, end ? END : 0);
    buf_put_u8(&body, (uint8_t)(name < 255 ? name : 255));
    buf_put(&body, collector, name < 255 ? name : 255);
    e = wire_run_encode(&body, WIRE_RUN_MARK, m);
    if (!e && !body.bad) {
        buf_put_u64le(&body, hash_bytes(body.p, body.n, 0));
        buf_put_u32le(out, (uint32_t)body.n);
        buf_put(out, body.p, body.n);
    }
    e = e ? e : body.bad ? body.bad : out->bad;
    buf_fini(&body);
    return e;
}

/* -- keeping and sending -- */

static enum err marks_write(const struct marks *m, const struct buf *b)
{
    if (b->bad) {
        return b->bad;
    }
    return b->n ? os_write_file(m->path, b->p, b->n, true) : os_remove(m->path);
}

enum err marks_keep(const char *collector, bool end, const struct wire_run_mark *mark,
                    struct errmsg *why)
{
    struct marks m;
    struct buf b;
    enum err e = marks_open(&m, true);

    buf_init(&b, BYTES_MAX);
    if (!e) {
        buf_put(&b, m.bytes, m.n);
        e = record_put(&b, collector, end, mark);
        e = e ? e : marks_write(&m, &b);
    }
    e = errmsg_set(why, e, "%s%s%s", m.path ? m.path : "no home directory", e ? ": " : "",
                   e ? err_text(e) : "");
    buf_fini(&b);
    marks_close(&m);
    return e;
}

struct marks_sending {
    const char *collector;
    enum err (*send)(void *ctx, bool end, const struct wire_run_mark *m);
    void *ctx;
    unsigned *sent;
};

/* ERR_END: it stays. */
static enum err record_send(const struct marks_sending *s, const struct mark_record *r)
{
    struct wire_run_mark *m;
    enum err e;

    if (wire_run_decode(&m, WIRE_RUN_MARK, r->mark.p, r->mark.n) != ERR_OK) {
        return ERR_OK;
    }
    if (m->when_ns < os_utc_ns() - AGE_NS) {
        wire_run_free(m);
        return ERR_OK;
    }
    if (!str_eq(r->collector, str_make(s->collector))) {
        wire_run_free(m);
        return ERR_END;
    }
    m->late = true;
    m->now_ns = os_utc_ns();
    e = s->send(s->ctx, r->end, m);
    *s->sent += e == ERR_OK;
    wire_run_free(m);
    return e == ERR_REFUSED ? ERR_OK : e;
}

enum err marks_send(const char *collector,
                    enum err (*send)(void *ctx, bool end, const struct wire_run_mark *m), void *ctx,
                    unsigned *sent)
{
    const struct marks_sending s = {collector, send, ctx, sent};
    struct mark_record r;
    struct marks m;
    struct cur c;
    struct buf rest;
    enum err e = marks_open(&m, false), bad = ERR_OK;

    *sent = 0;
    buf_init(&rest, BYTES_MAX);
    c = cur_make(m.bytes, e ? 0 : m.n);
    while (!e && record_next(&c, &r)) {
        enum err sent_one = bad ? ERR_END : record_send(&s, &r);

        bad = sent_one && sent_one != ERR_END ? sent_one : bad;
        if (sent_one) {
            buf_put(&rest, r.all.p, r.all.n);
        }
    }
    if (!e && rest.n != m.n) {
        e = marks_write(&m, &rest);
    }
    buf_fini(&rest);
    marks_close(&m);
    return e == ERR_NOTFOUND ? ERR_OK : e ? e : bad;
}
