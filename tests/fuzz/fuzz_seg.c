/* Segments against hostile files: the input as a whole file; behind a sound header; and as bytes
 * written over a sound segment, of which then only what is right may come back. */
#include <assert.h>
#include <string.h>

#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_scan.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define FILE_MAX (1u << 20)

/* A file in memory, found under any name, and one that is written and takes its place. */
struct fio_file {
    uint8_t p[FILE_MAX];
    size_t n;
};

static struct fio_file now, next;

static enum err do_open(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    (void)path;
    *out = &now;
    return ERR_OK;
}

static enum err do_create(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    (void)path;
    next.n = 0;
    *out = &next;
    return ERR_OK;
}

static enum err do_size(void *ctx, struct fio_file *f, uint64_t *bytes)
{
    (void)ctx;
    *bytes = f->n;
    return ERR_OK;
}

static enum err do_read(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                        size_t *got)
{
    size_t left = offset < f->n ? f->n - (size_t)offset : 0;

    (void)ctx;
    *got = n < left ? n : left;
    memcpy(p, f->p + (left ? offset : 0), *got);
    return ERR_OK;
}

static enum err do_write(void *ctx, struct fio_file *f, uint64_t offset, const void *p, size_t n)
{
    (void)ctx;
    if (offset + n > sizeof f->p) {
        return ERR_NOSPACE;
    }
    memcpy(f->p + offset, p, n);
    f->n = offset + n > f->n ? (size_t)offset + n : f->n;
    return ERR_OK;
}

static enum err do_sync(void *ctx, struct fio_file *f)
{
    (void)ctx;
    (void)f;
    return ERR_OK;
}

static enum err do_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    (void)from;
    (void)to;
    memcpy(now.p, next.p, next.n);
    now.n = next.n;
    return ERR_OK;
}

static enum err do_name(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return ERR_OK;
}

static void do_close(void *ctx, struct fio_file *f)
{
    (void)ctx;
    (void)f;
}

static const struct fio memory = {.create = do_create,
                                  .open = do_open,
                                  .size = do_size,
                                  .read = do_read,
                                  .write = do_write,
                                  .sync = do_sync,
                                  .close = do_close,
                                  .rename = do_rename,
                                  .remove = do_name,
                                  .sync_dir = do_name};

static const struct seg_info plan = {.number = 1, .kind = SEG_RAW, .n_windows = 2};

static enum err each(void *ctx, const struct dedup_stream *st)
{
    (void)ctx;
    assert(st->n_ranges <= DEDUP_RANGES_MAX);
    return ERR_OK;
}

/* Uses all of it; `sound`: a value is its host's and metric's number. */
static void use(bool sound)
{
    uint64_t values, damaged;
    struct seg *s;
    struct arena a;

    if (seg_open_name(&s, &memory, NULL, "d", "f", NULL) != ERR_OK) {
        return;
    }
    arena_init(&a, 4u << 20);
    err_ignore(seg_each_ranges(s, each, NULL));
    for (size_t i = 0; i < seg_values(s) && i < 200; i++) {
        uint32_t length;
        struct seg_key k = seg_key_at(s, i, &length);
        const uint8_t *v;
        size_t n;

        if (k.part && seg_read(s, &a, k, &v, &n) == ERR_OK && sound) {
            assert(n == 2 && v[0] == k.host && v[1] == k.metric);
        }
    }
    for (size_t i = 0; i < seg_hosts(s) && i < 200; i++) {
        assert(seg_find_host(s, &seg_host(s, i)->id) < seg_hosts(s));
    }
    assert(seg_scan_verify(s, &values, &damaged) == ERR_OK);
    arena_fini(&a);
    seg_close(s);
}

static void write_sound(void)
{
    static const int64_t windows[2] = {0, 1};
    static const struct seq_range ranges[2] = {{1, 5}, {8, 9}};
    struct seg_info info = plan;
    struct seg_writer *w;

    assert(seg_writer_create(&w, &memory, "d", &info, windows, NULL) == ERR_OK);
    for (uint8_t h = 0; h < 3; h++) {
        struct uuid id = {{h}};
        uint32_t index;

        assert(seg_writer_host(w, &index, &id, "host", h % 2, h, h + 1) == ERR_OK);
        assert(seg_writer_ranges(w, &id, h, ranges, 2) == ERR_OK);
        for (uint8_t m = 0; m < 4; m++) {
            const uint8_t v[2] = {h, m};

            assert(seg_writer_add(w, (struct seg_key){SEG_PART_COLUMN, m, h % 2, index}, v, 2) ==
                   ERR_OK);
        }
    }
    assert(seg_writer_finish(w, 12, &info, NULL) == ERR_OK);
}

/* The input's first bytes say where it goes. */
static void damage(const uint8_t *p, size_t n)
{
    size_t at = n < 2 ? 0 : (size_t)(p[0] | p[1] << 8) % now.n;

    for (size_t i = 2; i < n && at < now.n; i++) {
        now.p[at++] ^= p[i];
    }
    if (n > 0 && p[n - 1] % 4 == 0) {
        now.n -= p[n - 1] % now.n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct seg_info info = {0};
    uint64_t kept = 0, lost;

    now.n = n < sizeof now.p ? n : sizeof now.p;
    memcpy(now.p, p, now.n);
    use(false);

    write_sound();
    use(true);
    damage(p, n);
    use(true);
    if (seg_scan_salvage(&memory, "d", "f", &info, &kept, &lost, NULL) == ERR_OK) {
        assert(kept <= 12);
    }

    /* tables of the input's choice behind a header that is in order */
    {
        struct seg_head head = {.info = plan, .seed = 3};
        struct seg_foot foot = {.n_entries = n > 0 ? p[0] : 0, .n_hosts = n > 1 ? p[1] : 0};
        struct buf b;

        buf_init(&b, FILE_MAX);
        seg_format_head_put(&b, &head);
        buf_put(&b, p, n);
        foot.ranges_at = foot.directory_at = foot.hosts_at = foot.groups_at = b.n;
        seg_format_head_put(&b, &head);
        seg_format_foot_put(&b, &foot);
        if (!b.bad) {
            memcpy(now.p, b.p, b.n);
            now.n = b.n;
            use(false);
        }
        buf_fini(&b);
    }
    return 0;
}
