#include "collector/store/manifest/manifest.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest_disk.h"
#include "collector/store/segment/seg_file.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/os/os.h"

/* A segment's file, shared by every list that names it. */
struct manifest_file {
    struct manifest *m;
    atomic_uint refs;
    atomic_bool dropped; /* removed from disk with the last reference */
    struct seg_info info;

    struct seg *seg;                     /* NULL = closed; this and below: the manifest's lock */
    unsigned pins;                       /* lists that use it */
    size_t counted;                      /* of its memory in open_bytes */
    struct manifest_file *older, *newer; /* open and in no use */
};

struct manifest_item {
    struct seg_info info;
    struct manifest_file *file;
};

/* What there is at a moment; never changes. */
struct manifest_set {
    atomic_uint refs;
    size_t n;
    struct manifest_item items[]; /* by kind, window, number */
};

struct manifest_list {
    struct manifest *m;
    struct manifest_set *set;
    atomic_bool *pinned; /* of the set's items: their segments stay open; behind this struct */
};

struct manifest {
    struct os_mutex *lock;     /* guards set, stats and open segments; no I/O under it */
    struct manifest_set *set;  /* current */
    struct manifest_set *next; /* durable, not yet published */
    _Atomic uint64_t next_number;
    struct manifest_disk disk; /* the writer's */
    _Atomic uint64_t held_bytes, file_bytes;
    struct manifest_stats stats;

    struct seg_pool *pool;
    uint64_t open_bytes_max;
    struct manifest_file *oldest, *newest; /* open and in no use */
};

/* -- open segments -- */

/* Opened when first wanted, kept open while a list uses them, and after that as long as there is
 * room, the latest used the longest. */
static void idle_remove(struct manifest *m, struct manifest_file *f)
{
    *(f->older ? &f->older->newer : &m->oldest) = f->newer;
    *(f->newer ? &f->newer->older : &m->newest) = f->older;
    f->older = f->newer = NULL;
}

static void idle_add(struct manifest *m, struct manifest_file *f)
{
    f->older = m->newest;
    f->newer = NULL;
    *(m->newest ? &m->newest->newer : &m->oldest) = f;
    m->newest = f;
}

/* What it holds grows while it is read. */
static void file_count_memory(struct manifest_file *f)
{
    size_t now = f->seg ? seg_memory(f->seg) : 0;

    f->m->stats.open_bytes += now - f->counted;
    f->counted = now;
}

/* Takes the segment out of f, to be closed without the lock. */
static struct seg *file_detach_seg(struct manifest_file *f)
{
    struct seg *s = f->seg;

    if (s) {
        assert(f->pins == 0 && f->m->stats.opened > 0);
        idle_remove(f->m, f);
        f->seg = NULL;
        f->m->stats.opened--;
        file_count_memory(f);
    }
    return s;
}

static void file_close_seg(struct manifest_file *f)
{
    struct seg *s;

    os_mutex_lock(f->m->lock);
    s = file_detach_seg(f);
    os_mutex_unlock(f->m->lock);
    seg_close(s);
}

static void manifest_close_over(struct manifest *m)
{
    struct seg *s;

    do {
        s = NULL;
        os_mutex_lock(m->lock);
        if (m->oldest && m->stats.open_bytes > m->open_bytes_max) {
            s = file_detach_seg(m->oldest);
        }
        os_mutex_unlock(m->lock);
        seg_close(s);
    } while (s);
}

/* With the lock: this list uses the open segment. */
static const struct seg *list_pin(const struct manifest_list *l, size_t i)
{
    struct manifest_file *f = l->set->items[i].file;

    if (f->seg && !atomic_exchange(&l->pinned[i], true) && f->pins++ == 0) {
        idle_remove(l->m, f);
    }
    return f->seg;
}

static enum err file_open_seg(const struct manifest_list *l, size_t i, const struct seg **out)
{
    struct manifest *m = l->m;
    struct manifest_file *f = l->set->items[i].file;
    char name[SEG_NAME_MAX];
    struct seg *s = NULL, *extra = NULL;
    enum err e;

    seg_name(name, &f->info);
    e = seg_open_name(&s, m->disk.fio, m->pool, m->disk.dir, name, NULL);
    os_mutex_lock(m->lock);
    if (e) {
        m->stats.unreadable++;
    } else if (f->seg) { /* another reader was faster */
        extra = s;
    } else {
        f->seg = s;
        m->stats.opened++;
        idle_add(m, f);
        file_count_memory(f);
    }
    if (!e) {
        *out = list_pin(l, i);
    }
    os_mutex_unlock(m->lock);
    seg_close(extra);
    return e;
}

enum err manifest_seg(const struct manifest_list *l, size_t i, const struct seg **out)
{
    const struct seg *s;
    enum err e;

    os_mutex_lock(l->m->lock);
    s = list_pin(l, i);
    os_mutex_unlock(l->m->lock);
    if (s) {
        *out = s;
        return ERR_OK;
    }
    e = file_open_seg(l, i, out);
    manifest_close_over(l->m);
    return e;
}

static void list_unpin(const struct manifest_list *l, size_t i)
{
    struct manifest_file *f = l->set->items[i].file;

    if (!atomic_load(&l->pinned[i])) {
        return;
    }
    os_mutex_lock(l->m->lock);
    if (atomic_exchange(&l->pinned[i], false)) {
        assert(f->seg && f->pins > 0);
        file_count_memory(f);
        if (--f->pins == 0) {
            idle_add(l->m, f);
        }
    }
    os_mutex_unlock(l->m->lock);
    manifest_close_over(l->m);
}

void manifest_keep_open(struct manifest *m, uint64_t bytes)
{
    os_mutex_lock(m->lock);
    m->open_bytes_max = bytes;
    os_mutex_unlock(m->lock);
    manifest_close_over(m);
}

void manifest_seg_done(const struct manifest_list *l, size_t i)
{
    list_unpin(l, i);
}

/* -- files -- */

static struct manifest_file *file_create(struct manifest *m, const struct seg_info *info)
{
    struct manifest_file *f = mem_zalloc(sizeof *f);

    if (f) {
        f->m = m;
        f->info = *info;
        atomic_init(&f->refs, 1);
        atomic_init(&f->dropped, false);
    }
    return f;
}

static void file_remove(struct manifest *m, const struct seg_info *info)
{
    const struct fio *fio = m->disk.fio;
    char name[SEG_NAME_MAX];
    char *path;

    seg_name(name, info);
    path = os_path_join(m->disk.dir, name);
    if (path) { /* what stays is removed at the next opening */
        err_ignore(fio->remove(fio->ctx, path));
    }
    mem_free(path);
}

static void file_unref(struct manifest_file *f)
{
    if (atomic_fetch_sub(&f->refs, 1) == 1) {
        file_close_seg(f);
        if (atomic_load(&f->dropped)) {
            file_remove(f->m, &f->info);
            atomic_fetch_sub(&f->m->held_bytes, f->info.bytes);
        }
        mem_free(f);
    }
}

/* -- sets -- */

static struct manifest_set *set_create(size_t cap)
{
    struct manifest_set *s = NULL;

    if (cap <= 2u * MANIFEST_SEGMENTS_MAX) {
        s = mem_zalloc(sizeof *s + cap * sizeof *s->items);
    }
    if (s) {
        atomic_init(&s->refs, 1);
    }
    return s;
}

static void set_unref(struct manifest_set *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            file_unref(s->items[i].file);
        }
        mem_free(s);
    }
}

static int place_compare(const struct seg_info *a, unsigned kind, int64_t window_ns,
                         uint64_t number)
{
    if (a->kind != kind) {
        return a->kind < kind ? -1 : 1;
    }
    if (a->window_ns != window_ns) {
        return a->window_ns < window_ns ? -1 : 1;
    }
    return a->number < number ? -1 : a->number > number;
}

static int set_by_place(const void *a, const void *b)
{
    const struct manifest_item *x = a, *y = b;

    return place_compare(&x->info, y->info.kind, y->info.window_ns, y->info.number);
}

static size_t set_lower(const struct manifest_set *s, unsigned kind, int64_t window_ns,
                        uint64_t number)
{
    size_t i;

    SEARCH_LOWER(i, s->n, place_compare(&s->items[i].info, kind, window_ns, number) < 0);
    return i;
}

static const struct manifest_item *set_find(const struct manifest_set *s,
                                            const struct seg_info *info)
{
    size_t i = set_lower(s, info->kind, info->window_ns, info->number);

    return i < s->n &&
                   place_compare(&s->items[i].info, info->kind, info->window_ns, info->number) == 0
               ? &s->items[i]
               : NULL;
}

static const struct manifest_item *set_find_number(const struct manifest_set *s, uint64_t number)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->items[i].info.number == number) {
            return &s->items[i];
        }
    }
    return NULL;
}

/* -- opening -- */

static enum err manifest_load_set(struct manifest *m, struct errmsg *why)
{
    struct seg_info *segments = NULL;
    size_t n = 0;
    uint64_t next = 0;
    enum err e = manifest_disk_open(&m->disk, &segments, &n, &next, why);

    atomic_init(&m->file_bytes, m->disk.bytes);
    atomic_init(&m->next_number, next);
    m->stats.leftovers = m->disk.found.leftovers;
    m->stats.torn_bytes = m->disk.found.torn_bytes;
    m->stats.missing = m->disk.found.missing;
    m->stats.damaged_records = m->disk.found.damaged_records;
    if (e) {
        return e;
    }
    m->set = set_create(n);
    e = m->set ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n && !e; i++) {
        struct manifest_file *f = file_create(m, &segments[i]);

        if (f) {
            m->set->items[m->set->n++] = (struct manifest_item){segments[i], f};
        } else {
            e = errmsg_set(why, ERR_NOMEM, "out of memory");
        }
    }
    if (!e) {
        qsort(m->set->items, m->set->n, sizeof *m->set->items, set_by_place);
    }
    mem_free(segments);
    return e;
}

static enum err manifest_open_as(struct manifest **out, const struct manifest_conf *conf,
                                 bool read_only, struct errmsg *why)
{
    struct manifest *m = mem_zalloc(sizeof *m);
    enum err e = ERR_NOMEM;

    if (!m) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    m->open_bytes_max = MANIFEST_OPEN_BYTES;
    m->disk = (struct manifest_disk){
        .fio = conf->fio, .dir = mem_strdup(conf->dir), .read_only = read_only};
    if (!m->disk.dir) {
        errmsg_set(why, e, "out of memory");
        goto fail;
    }
    e = os_mutex_create(&m->lock);
    if (e) {
        errmsg_set(why, e, "cannot make a lock: %s", err_text(e));
        goto fail;
    }
    e = seg_file_pool_create(&m->pool, MANIFEST_OPEN_FILES);
    if (e) {
        errmsg_set(why, e, "out of memory");
        goto fail;
    }
    e = manifest_load_set(m, why);
    if (e) {
        goto fail;
    }
    *out = m;
    return ERR_OK;

fail:
    manifest_close(m);
    return e;
}

enum err manifest_open(struct manifest **out, const struct manifest_conf *conf, struct errmsg *why)
{
    return manifest_open_as(out, conf, false, why);
}

enum err manifest_open_reader(struct manifest **out, const struct manifest_conf *conf,
                              struct errmsg *why)
{
    return manifest_open_as(out, conf, true, why);
}

void manifest_close(struct manifest *m)
{
    if (m) {
        set_unref(m->next);
        set_unref(m->set);
        manifest_disk_close(&m->disk);
        seg_file_pool_destroy(m->pool);
        os_mutex_destroy(m->lock);
        mem_free(m->disk.dir);
        mem_free(m);
    }
}

uint64_t manifest_number(struct manifest *m)
{
    return atomic_fetch_add(&m->next_number, 1);
}

/* -- changing -- */

static bool change_lists(const uint64_t *numbers, size_t n, uint64_t number)
{
    for (size_t i = 0; i < n; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

static bool change_is_allowed(const struct manifest *m, const struct manifest_set *before,
                              const struct seg_info *add, size_t n_add, const uint64_t *drop,
                              size_t n_drop)
{
    for (size_t i = 0; i < n_drop; i++) {
        if (!set_find_number(before, drop[i]) || change_lists(drop, i, drop[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < n_add; i++) {
        const struct manifest_item *same = set_find_number(before, add[i].number);

        if (add[i].kind == 0 || add[i].kind >= SEG_KINDS || add[i].n_windows == 0 ||
            add[i].n_windows > SEG_WINDOWS_MAX || add[i].number >= atomic_load(&m->next_number)) {
            return false;
        }
        if (same && (!change_lists(drop, n_drop, add[i].number) || same->info.kind != add[i].kind ||
                     same->info.window_ns != add[i].window_ns)) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            if (add[k].number == add[i].number) {
                return false;
            }
        }
    }
    return true;
}

/* The file of what is dropped and added again stays the same. */
static enum err set_add(struct manifest_set *s, struct manifest *m,
                        const struct manifest_set *before, const struct seg_info *info)
{
    const struct manifest_item *same = set_find_number(before, info->number);
    struct manifest_file *f = same ? same->file : file_create(m, info);

    if (!f) {
        return ERR_NOMEM;
    }
    if (same) {
        atomic_fetch_add(&f->refs, 1);
    }
    s->items[s->n++] = (struct manifest_item){*info, f};
    return ERR_OK;
}

static enum err set_change(struct manifest_set **out, struct manifest *m,
                           const struct manifest_set *before, const struct seg_info *add,
                           size_t n_add, const uint64_t *drop, size_t n_drop)
{
    struct manifest_set *s;
    enum err e = ERR_OK;

    if (!change_is_allowed(m, before, add, n_add, drop, n_drop)) {
        return ERR_INVALID;
    }
    if (before->n - n_drop + n_add > MANIFEST_SEGMENTS_MAX) {
        return ERR_FULL;
    }
    s = set_create(before->n - n_drop + n_add);
    if (!s) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < before->n; i++) {
        if (!change_lists(drop, n_drop, before->items[i].info.number)) {
            s->items[s->n] = before->items[i];
            atomic_fetch_add(&s->items[s->n++].file->refs, 1);
        }
    }
    for (size_t i = 0; i < n_add && !e; i++) {
        e = set_add(s, m, before, &add[i]);
    }
    if (e) {
        set_unref(s);
        return e;
    }
    qsort(s->items, s->n, sizeof *s->items, set_by_place);
    *out = s;
    return ERR_OK;
}

/* Makes the change durable. */
static enum err change_write(struct manifest *m, const struct manifest_set *before,
                             struct manifest_record *change, struct errmsg *why)
{
    struct seg_info *all = NULL;
    enum err e;

    if (manifest_disk_is_long(&m->disk)) {
        all = mem_array(before->n + 1, sizeof *all);
    }
    for (size_t i = 0; all && i < before->n; i++) {
        all[i] = before->items[i].info;
    }
    change->next_number = atomic_load(&m->next_number);
    e = manifest_disk_change(&m->disk, all, before->n, change, why);
    mem_free(all);
    return e;
}

enum err manifest_change(struct manifest *m, const struct seg_info *add, size_t n_add,
                         const uint64_t *drop, size_t n_drop, struct errmsg *why)
{
    const struct manifest_set *before = m->next ? m->next : m->set;
    struct manifest_set *next = NULL, *old;
    struct manifest_record change = {.add = add, .n_add = n_add, .drop = drop, .n_drop = n_drop};
    enum err e =
        m->disk.read_only ? ERR_ACCESS : set_change(&next, m, before, add, n_add, drop, n_drop);

    if (e) {
        return errmsg_set(why, e, "cannot change the list of segments: %s", err_text(e));
    }
    e = change_write(m, before, &change, why);
    atomic_store(&m->file_bytes, m->disk.bytes);
    if (e) {
        set_unref(next);
        return e;
    }
    old = m->next;
    m->next = next;
    set_unref(old);
    return ERR_OK;
}

void manifest_publish(struct manifest *m)
{
    struct manifest_set *old = m->set;

    if (!m->next) {
        return;
    }
    for (size_t i = 0; i < old->n; i++) {
        if (!set_find(m->next, &old->items[i].info)) {
            atomic_fetch_add(&m->held_bytes, old->items[i].file->info.bytes);
            atomic_store(&old->items[i].file->dropped, true);
        }
    }
    os_mutex_lock(m->lock);
    m->set = m->next;
    m->next = NULL;
    os_mutex_unlock(m->lock);
    set_unref(old);
}

void manifest_discard(struct manifest *m, const struct seg_info *info)
{
    file_remove(m, info);
}

/* -- readers -- */

struct manifest_list *manifest_view(struct manifest *m)
{
    struct manifest_set *set;
    struct manifest_list *l;

    os_mutex_lock(m->lock);
    set = m->set;
    atomic_fetch_add(&set->refs, 1);
    os_mutex_unlock(m->lock);
    l = mem_zalloc(sizeof *l + set->n * sizeof *l->pinned);
    if (!l) {
        set_unref(set);
        return NULL;
    }
    l->m = m;
    l->set = set;
    l->pinned = (atomic_bool *)(l + 1);
    return l;
}

void manifest_list_release(struct manifest_list *l)
{
    if (l) {
        for (size_t i = 0; i < l->set->n; i++) {
            list_unpin(l, i);
        }
        set_unref(l->set);
        mem_free(l);
    }
}

size_t manifest_segments(const struct manifest_list *l)
{
    return l->set->n;
}

const struct seg_info *manifest_segment(const struct manifest_list *l, size_t i)
{
    return &l->set->items[i].info;
}

size_t manifest_lower(const struct manifest_list *l, unsigned kind, int64_t window_ns)
{
    return set_lower(l->set, kind, window_ns, 0);
}

void manifest_stats(struct manifest *m, struct manifest_stats *out)
{
    struct manifest_stats stats;

    os_mutex_lock(m->lock);
    stats = m->stats;
    for (size_t i = 0; i < m->set->n; i++) {
        const struct seg_info *s = &m->set->items[i].info;

        if (stats.files[s->kind] == 0 || s->window_ns < stats.oldest_ns[s->kind]) {
            stats.oldest_ns[s->kind] = s->window_ns;
        }
        stats.files[s->kind]++;
        stats.bytes[s->kind] += s->bytes;
        stats.values[s->kind] += s->values;
    }
    os_mutex_unlock(m->lock);
    stats.held_bytes = atomic_load(&m->held_bytes);
    stats.file_bytes = atomic_load(&m->file_bytes);
    *out = stats;
}
