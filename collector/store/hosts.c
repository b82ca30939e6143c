/* Format 1, little endian: u8[8] magic, u32 version, u32 hosts, u64 number of a segment, hosts ×
 * { u8[16] id, u8[16] boot, u32 flags, u32 cpus, i64 first, last, made, received stamp, u8 clock (0
 * unknown, 1 known, 2 known within its error), i64 offset, i64 error, u64 batches, lost events,
 * held, too old, no room, u8 n and n bytes of name, u8 n and n bytes of source }, u64 XXH3-64 of
 * all before. */
#include "collector/store/hosts.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"

#define MAGIC     "PFhosts\n"
#define VERSION   1u
#define ENTRY_MIN (2u * 16 + 2 * 4 + 4 * 8 + 1 + 2 * 8 + 5 * 8 + 2)
#define FIXED     (8u + 4 + 4 + 8)
#define SUM_BYTES 8u

/* -- bytes -- */

static void put_text(struct buf *b, const char *text)
{
    size_t n = strlen(text);

    buf_put_u8(b, (uint8_t)n);
    buf_put(b, text, n);
}

static void put_host(struct buf *b, const struct head_record *r)
{
    buf_put(b, r->id.b, sizeof r->id.b);
    buf_put(b, r->boot.b, sizeof r->boot.b);
    buf_put_u32le(b, r->flags);
    buf_put_u32le(b, r->cpus);
    buf_put_u64le(b, (uint64_t)r->first_ns);
    buf_put_u64le(b, (uint64_t)r->last_ns);
    buf_put_u64le(b, (uint64_t)r->made_ns);
    buf_put_u64le(b, (uint64_t)r->received_ns);
    buf_put_u8(b, r->clock.known ? r->clock.bounded ? 2 : 1 : 0);
    buf_put_u64le(b, (uint64_t)r->clock.offset_ns);
    buf_put_u64le(b, (uint64_t)r->clock.error_ns);
    buf_put_u64le(b, r->batches);
    buf_put_u64le(b, r->lost_events);
    buf_put_u64le(b, r->held);
    buf_put_u64le(b, r->too_old);
    buf_put_u64le(b, r->no_room);
    put_text(b, r->name);
    put_text(b, r->source);
}

void hosts_encode(struct buf *out, uint64_t number, const struct head_record *list, size_t n)
{
    size_t begin = out->n;

    buf_put_str(out, MAGIC);
    buf_put_u32le(out, VERSION);
    buf_put_u32le(out, (uint32_t)n);
    buf_put_u64le(out, number);
    for (size_t i = 0; i < n; i++) {
        put_host(out, &list[i]);
    }
    if (!out->bad) {
        buf_put_u64le(out, hash_bytes(out->p + begin, out->n - begin, 0));
    }
}

static void get_uuid(struct cur *c, struct uuid *out)
{
    const uint8_t *p = cur_bytes(c, sizeof out->b);

    if (p) {
        memcpy(out->b, p, sizeof out->b);
    }
}

static void get_text(struct cur *c, char *out, size_t size)
{
    size_t n = cur_u8(c);
    const uint8_t *p = cur_bytes(c, n);

    if (!p || n >= size || memchr(p, 0, n)) {
        c->bad = true;
        return;
    }
    memcpy(out, p, n);
}

static void get_host(struct cur *c, struct head_record *r)
{
    uint8_t clock;

    get_uuid(c, &r->id);
    get_uuid(c, &r->boot);
    r->flags = cur_u32le(c);
    r->cpus = cur_u32le(c);
    r->first_ns = (int64_t)cur_u64le(c);
    r->last_ns = (int64_t)cur_u64le(c);
    r->made_ns = (int64_t)cur_u64le(c);
    r->received_ns = (int64_t)cur_u64le(c);
    clock = cur_u8(c);
    r->clock.known = clock > 0;
    r->clock.bounded = clock > 1;
    r->clock.offset_ns = (int64_t)cur_u64le(c);
    r->clock.error_ns = (int64_t)cur_u64le(c);
    r->batches = cur_u64le(c);
    r->lost_events = cur_u64le(c);
    r->held = cur_u64le(c);
    r->too_old = cur_u64le(c);
    r->no_room = cur_u64le(c);
    get_text(c, r->name, sizeof r->name);
    get_text(c, r->source, sizeof r->source);
}

enum err hosts_decode(const void *p, size_t bytes, uint64_t *number, struct head_record **list,
                      size_t *n)
{
    struct cur c = cur_make(p, bytes > SUM_BYTES ? bytes - SUM_BYTES : 0);
    const uint8_t *magic = cur_bytes(&c, 8);
    uint32_t version = cur_u32le(&c), hosts = cur_u32le(&c);
    uint64_t of = cur_u64le(&c);
    struct head_record *found;

    if (c.bad || memcmp(magic, MAGIC, 8) != 0 ||
        hash_bytes(p, bytes - SUM_BYTES, 0) != cur_at64le((const uint8_t *)p + bytes - SUM_BYTES)) {
        return ERR_CORRUPT;
    }
    if (version != VERSION) {
        return ERR_VERSION;
    }
    if (hosts > cur_left(&c) / ENTRY_MIN) {
        return ERR_CORRUPT;
    }
    found = mem_array(hosts, sizeof *found);
    if (!found) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < hosts && !c.bad; i++) {
        get_host(&c, &found[i]);
    }
    if (c.bad || cur_left(&c) > 0) {
        mem_free(found);
        return ERR_CORRUPT;
    }
    *number = of;
    *list = found;
    *n = hosts;
    return ERR_OK;
}

/* -- files -- */

enum err hosts_write(const struct fio *fio, const char *dir, uint64_t number,
                     const struct head_record *list, size_t n)
{
    char *path = os_path_join(dir, "hosts.new");
    struct buf b;
    enum err e;

    buf_init(&b, HOSTS_BYTES_MAX);
    hosts_encode(&b, number, list, n);
    e = path ? b.bad : ERR_NOMEM;
    if (!e) {
        e = fio_write_whole(fio, path, b.p, b.n);
    }
    if (!e) {
        e = fio->sync_dir(fio->ctx, dir);
    }
    buf_fini(&b);
    mem_free(path);
    return e;
}

enum err hosts_adopt(const struct fio *fio, const char *dir)
{
    char *from = os_path_join(dir, "hosts.new"), *to = os_path_join(dir, "hosts");
    enum err e = from && to ? fio->rename(fio->ctx, from, to) : ERR_NOMEM;

    if (!e) {
        e = fio->sync_dir(fio->ctx, dir);
    }
    mem_free(from);
    mem_free(to);
    return e;
}

/* Errors: ERR_NOTFOUND too */
static enum err read_file(const struct fio *fio, const char *dir, const char *name,
                          uint64_t *number, struct head_record **list, size_t *n)
{
    char *path = os_path_join(dir, name);
    struct buf b;
    enum err e;

    buf_init(&b, HOSTS_BYTES_MAX);
    e = path ? fio_read_whole(fio, path, &b) : ERR_NOMEM;
    e = e ? e : hosts_decode(b.p, b.n, number, list, n);
    buf_fini(&b);
    mem_free(path);
    return e;
}

enum err hosts_read(const struct fio *fio, const char *dir, bool (*has)(void *ctx, uint64_t number),
                    void *ctx, struct head_record **list, size_t *n)
{
    uint64_t number = 0;
    enum err e = read_file(fio, dir, "hosts.new", &number, list, n);

    if (e == ERR_OK && has(ctx, number)) {
        return hosts_adopt(fio, dir);
    }
    if (e == ERR_OK) {
        mem_free(*list);
    } else if (e != ERR_NOTFOUND && e != ERR_CORRUPT) { /* a torn one was never adopted */
        return e;
    }
    e = read_file(fio, dir, "hosts", &number, list, n);
    if (e == ERR_NOTFOUND) {
        *list = NULL;
        *n = 0;
        return ERR_OK;
    }
    return e;
}
