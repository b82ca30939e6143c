/* Format 1, little endian: u8[8] magic, u32 version, u64 number of the file, texts (u16 n and n
 * bytes) name, owner, scope, i64 created, i64 polled, u64 epoch, u64 position, u32 offset, u64
 * floor, lost, end of the lost, dropped, delivered, u32 kinds, u8 flags (1 no events, 2 samples,
 * 4 see below, 8 rules), i64 interval, text program, u8 n and n texts hosts, u8 n and n bytes of
 * metrics, with flag 4 texts provider, event, where; u64 XXH3-64 of all before. */
#include "collector/subscribe/subscriptions_file.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"

#define MAGIC     "PFsubsc\n"
#define VERSION   1u
#define PREFIX    "sub-"
#define SUFFIX    ".state"
#define NEW       ".new"
#define BAD       ".bad"
#define SUM_BYTES 8u
#define GLOB_MAX  256u

enum flags { NO_EVENTS = 1, SAMPLES = 2, PROVIDERS = 4, RULES = 8 };

bool subscriptions_file_name_ok(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-')) {
            return false;
        }
    }
    return name.n >= 1 && name.n <= WIRE_FEED_NAME_MAX;
}

/* -- encode -- */

static void put_text(struct buf *b, struct str s)
{
    buf_put_u16le(b, (uint16_t)s.n);
    buf_put(b, s.p, s.n);
}

static bool has_providers(const struct wire_filter *f)
{
    return wire_events_named(&f->providers) || f->providers.where.n;
}

static void put_filter(struct buf *b, const struct wire_filter *f)
{
    buf_put_u32le(b, f->kinds);
    buf_put_u8(b, (uint8_t)((f->no_events ? NO_EVENTS : 0) | (f->samples ? SAMPLES : 0) |
                            (f->rules ? RULES : 0) | (has_providers(f) ? PROVIDERS : 0)));
    buf_put_u64le(b, (uint64_t)f->min_interval_ns);
    put_text(b, f->program);
    buf_put_u8(b, (uint8_t)f->n_hosts);
    for (size_t i = 0; i < f->n_hosts; i++) {
        put_text(b, f->hosts[i]);
    }
    buf_put_u8(b, f->n_metrics);
    buf_put(b, f->metrics, f->n_metrics);
    if (has_providers(f)) {
        put_text(b, f->providers.provider);
        put_text(b, f->providers.event);
        put_text(b, f->providers.where);
    }
}

void subscriptions_file_encode(struct buf *out, const struct subscriptions_state *s)
{
    size_t begin = out->n;

    buf_put_str(out, MAGIC);
    buf_put_u32le(out, VERSION);
    buf_put_u64le(out, s->number);
    put_text(out, str_make(s->name));
    put_text(out, str_make(s->owner));
    put_text(out, str_make(s->scope));
    buf_put_u64le(out, (uint64_t)s->created_ns);
    buf_put_u64le(out, (uint64_t)s->polled_ns);
    buf_put_u64le(out, s->at.epoch);
    buf_put_u64le(out, s->at.position);
    buf_put_u32le(out, s->at.offset);
    buf_put_u64le(out, s->floor);
    buf_put_u64le(out, s->lost);
    buf_put_u64le(out, s->lost_end);
    buf_put_u64le(out, s->dropped);
    buf_put_u64le(out, s->delivered);
    put_filter(out, &s->filter);
    if (!out->bad) {
        buf_put_u64le(out, hash_bytes(out->p + begin, out->n - begin, 0));
    }
}

/* -- decode -- */

static struct str get_text(struct cur *c, size_t max)
{
    size_t n = cur_u16le(c);
    const uint8_t *p = cur_bytes(c, n);

    if (!p || n > max || memchr(p, 0, n)) {
        c->bad = true;
        return (struct str){"", 0};
    }
    return (struct str){(const char *)p, n};
}

static void get_name(struct cur *c, char *out, size_t size)
{
    struct str s = get_text(c, size - 1);

    memcpy(out, s.p, s.n);
}

static void get_filter(struct cur *c, struct wire_filter *f)
{
    const uint8_t *metrics;
    uint8_t flags;

    f->kinds = cur_u32le(c);
    flags = cur_u8(c);
    f->no_events = (flags & NO_EVENTS) != 0;
    f->samples = (flags & SAMPLES) != 0;
    f->rules = (flags & RULES) != 0;
    f->min_interval_ns = (int64_t)cur_u64le(c);
    f->program = get_text(c, MODEL_TEXT_MAX);
    f->n_hosts = cur_u8(c);
    if (f->n_hosts > WIRE_FEED_HOSTS_MAX || f->min_interval_ns < 0) {
        c->bad = true;
        return;
    }
    for (size_t i = 0; i < f->n_hosts; i++) {
        f->hosts[i] = get_text(c, GLOB_MAX);
    }
    f->n_metrics = cur_u8(c);
    metrics = cur_bytes(c, f->n_metrics);
    if (!metrics || f->n_metrics > WIRE_METRICS_MAX) {
        c->bad = true;
        return;
    }
    memcpy(f->metrics, metrics, f->n_metrics);
    if (flags & PROVIDERS) {
        f->providers.provider = get_text(c, MODEL_TEXT_MAX);
        f->providers.event = get_text(c, MODEL_TEXT_MAX);
        f->providers.where = get_text(c, WIRE_WHERE_MAX);
    }
}

static bool get_state(struct cur *c, struct subscriptions_state *s)
{
    s->number = cur_u64le(c);
    get_name(c, s->name, sizeof s->name);
    get_name(c, s->owner, sizeof s->owner);
    get_name(c, s->scope, sizeof s->scope);
    s->created_ns = (int64_t)cur_u64le(c);
    s->polled_ns = (int64_t)cur_u64le(c);
    s->at.epoch = cur_u64le(c);
    s->at.position = cur_u64le(c);
    s->at.offset = cur_u32le(c);
    s->floor = cur_u64le(c);
    s->lost = cur_u64le(c);
    s->lost_end = cur_u64le(c);
    s->dropped = cur_u64le(c);
    s->delivered = cur_u64le(c);
    get_filter(c, &s->filter);
    return !c->bad && cur_left(c) == 0 && subscriptions_file_name_ok(str_make(s->name));
}

enum err subscriptions_file_decode(struct subscriptions_state *out, const void *p, size_t n)
{
    struct subscriptions_state s = {.number = 0};
    struct cur c;
    const uint8_t *magic;
    uint32_t version;

    if (n <= SUM_BYTES || n > SUBSCRIPTIONS_FILE_MAX) {
        return ERR_CORRUPT;
    }
    s.bytes = mem_dup(p, n);
    if (!s.bytes) {
        return ERR_NOMEM;
    }
    c = cur_make(s.bytes, n - SUM_BYTES);
    magic = cur_bytes(&c, sizeof MAGIC - 1);
    version = cur_u32le(&c);
    if (c.bad || memcmp(magic, MAGIC, sizeof MAGIC - 1) != 0 ||
        hash_bytes(s.bytes, n - SUM_BYTES, 0) != cur_at64le(s.bytes + n - SUM_BYTES)) {
        mem_free(s.bytes);
        return ERR_CORRUPT;
    }
    if (version != VERSION || !get_state(&c, &s)) {
        mem_free(s.bytes);
        return version != VERSION ? ERR_VERSION : ERR_CORRUPT;
    }
    *out = s;
    return ERR_OK;
}

void subscriptions_file_fini(struct subscriptions_state *s)
{
    mem_free(s->bytes);
    s->bytes = NULL;
}

/* -- files -- */

enum err subscriptions_file_write(const struct fio *fio, const char *dir,
                                  const struct subscriptions_state *s)
{
    char *path = fio_name_path(dir, PREFIX, s->number, SUFFIX);
    char *new_path = fio_name_path(dir, PREFIX, s->number, NEW);
    struct buf b;
    enum err e;

    buf_init(&b, SUBSCRIPTIONS_FILE_MAX);
    subscriptions_file_encode(&b, s);
    e = path && new_path ? b.bad : ERR_NOMEM;
    if (!e) {
        e = fio_write_whole(fio, new_path, b.p, b.n);
    }
    if (!e) {
        e = fio->rename(fio->ctx, new_path, path);
    }
    if (!e) {
        e = fio->sync_dir(fio->ctx, dir);
    }
    buf_fini(&b);
    mem_free(path);
    mem_free(new_path);
    return e;
}

enum err subscriptions_file_read(struct subscriptions_state *out, const struct fio *fio,
                                 const char *dir, uint64_t number)
{
    char *path = fio_name_path(dir, PREFIX, number, SUFFIX);
    struct buf b;
    enum err e;

    buf_init(&b, SUBSCRIPTIONS_FILE_MAX);
    e = path ? fio_read_whole(fio, path, &b) : ERR_NOMEM;
    e = e ? e : subscriptions_file_decode(out, b.p, b.n);
    buf_fini(&b);
    mem_free(path);
    if (!e && out->number != number) {
        subscriptions_file_fini(out);
        e = ERR_CORRUPT;
    }
    return e;
}

enum err subscriptions_file_remove(const struct fio *fio, const char *dir, uint64_t number)
{
    char *path = fio_name_path(dir, PREFIX, number, SUFFIX);
    enum err e = path ? fio->remove(fio->ctx, path) : ERR_NOMEM;

    mem_free(path);
    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    return e ? e : fio->sync_dir(fio->ctx, dir);
}

enum err subscriptions_file_aside(const struct fio *fio, const char *dir, uint64_t number)
{
    char *path = fio_name_path(dir, PREFIX, number, SUFFIX);
    char *aside = fio_name_path(dir, PREFIX, number, BAD);
    enum err e = path && aside ? fio->rename(fio->ctx, path, aside) : ERR_NOMEM;

    mem_free(path);
    mem_free(aside);
    return e;
}

struct listing {
    const struct fio *fio;
    const char *dir;
    enum err (*each)(void *ctx, uint64_t number);
    void *ctx;
};

static enum err listed(void *ctx, const char *name)
{
    const struct listing *l = ctx;
    uint64_t number;
    char *path;

    if (fio_name_parse(&number, name, PREFIX, SUFFIX)) {
        return l->each(l->ctx, number);
    }
    if (fio_name_parse(&number, name, PREFIX, NEW)) {
        path = os_path_join(l->dir, name);
        if (path) {
            err_ignore(l->fio->remove(l->fio->ctx, path)); /* the next write does it, else */
        }
        mem_free(path);
    }
    return ERR_OK;
}

enum err subscriptions_files(const struct fio *fio, const char *dir,
                             enum err (*each)(void *ctx, uint64_t number), void *ctx)
{
    struct listing l = {fio, dir, each, ctx};

    return os_list_dir(dir, listed, &l);
}
