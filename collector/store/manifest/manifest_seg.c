/* Open segments: opened when first wanted, kept open while a list uses them, and after that as long
 * as there is room, the latest used the longest. */
#include "collector/store/manifest/manifest_impl.h"

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
static void count(struct manifest_file *f)
{
    size_t now = f->seg ? seg_memory(f->seg) : 0;

    f->m->stats.open_bytes += now - f->counted;
    f->counted = now;
}

/* Takes the segment out of f, to be closed without the lock. */
static struct seg *detach(struct manifest_file *f)
{
    struct seg *s = f->seg;

    if (s) {
        idle_remove(f->m, f);
        f->seg = NULL;
        f->m->stats.opened--;
        count(f);
    }
    return s;
}

void manifest_file_close_seg(struct manifest_file *f)
{
    struct seg *s;

    os_mutex_lock(f->m->lock);
    s = detach(f);
    os_mutex_unlock(f->m->lock);
    seg_close(s);
}

static void close_what_is_over(struct manifest *m)
{
    struct seg *s;

    do {
        s = NULL;
        os_mutex_lock(m->lock);
        if (m->oldest && m->stats.open_bytes > m->open_bytes_max) {
            s = detach(m->oldest);
        }
        os_mutex_unlock(m->lock);
        seg_close(s);
    } while (s);
}

/* With the lock: this list uses the open segment. */
static const struct seg *pin(const struct manifest_list *l, size_t i)
{
    struct manifest_file *f = l->set->items[i].file;

    if (f->seg && !atomic_exchange(&l->pinned[i], true) && f->pins++ == 0) {
        idle_remove(l->m, f);
    }
    return f->seg;
}

static enum err open_seg(const struct manifest_list *l, size_t i, const struct seg **out)
{
    struct manifest *m = l->m;
    struct manifest_file *f = l->set->items[i].file;
    char name[SEG_NAME_MAX];
    struct seg *s = NULL, *extra = NULL;
    enum err e;

    seg_name(name, &f->info);
    e = seg_open_name(&s, m->conf.fio, m->pool, m->dir, name, NULL);
    os_mutex_lock(m->lock);
    if (e) {
        m->stats.unreadable++;
    } else if (f->seg) { /* another reader was faster */
        extra = s;
    } else {
        f->seg = s;
        m->stats.opened++;
        idle_add(m, f);
        count(f);
    }
    if (!e) {
        *out = pin(l, i);
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
    s = pin(l, i);
    os_mutex_unlock(l->m->lock);
    if (s) {
        *out = s;
        return ERR_OK;
    }
    e = open_seg(l, i, out);
    close_what_is_over(l->m);
    return e;
}

void manifest_unpin(const struct manifest_list *l, size_t i)
{
    struct manifest_file *f = l->set->items[i].file;

    if (!atomic_load(&l->pinned[i])) {
        return;
    }
    os_mutex_lock(l->m->lock);
    if (atomic_exchange(&l->pinned[i], false)) {
        count(f);
        if (--f->pins == 0) {
            idle_add(l->m, f);
        }
    }
    os_mutex_unlock(l->m->lock);
    close_what_is_over(l->m);
}

void manifest_keep_open(struct manifest *m, uint64_t bytes)
{
    os_mutex_lock(m->lock);
    m->open_bytes_max = bytes;
    os_mutex_unlock(m->lock);
    close_what_is_over(m);
}

void manifest_seg_done(const struct manifest_list *l, size_t i)
{
    manifest_unpin(l, i);
}
