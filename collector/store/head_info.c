/* Instances stand sorted by (boot, pid, start) in pages of PAGE, the pages in an array: a flat
 * B-tree. A snapshot is a copy of the array with a reference to every page. The owner changes a
 * page in place only while nobody else refers to it, else a copy of it; so a snapshot costs n /
 * PAGE references, and a change after it one page. Instances are immutable and shared in the same
 * way, but for `seen_ns`, which is the owner's. */
#include "collector/store/head_info.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "collector/store/head_text.h"
#include "common/mem.h"

#define PAGE  64u
#define TEXTS 4u

struct inst {
    atomic_uint refs;
    struct uuid boot;
    struct proc_info info; /* its text points into texts */
    struct head_text *texts[TEXTS];
    int64_t seen_ns;
};

struct page {
    atomic_uint refs;
    uint32_t n;
    struct inst *at[PAGE];
};

struct head_infos_snap {
    atomic_uint refs;
    size_t n;
    struct page *pages[];
};

struct head_infos {
    uint32_t max;
    size_t count, n, cap;
    struct page **pages;
    struct head_texts texts;
    struct head_infos_snap *snap; /* the latest, while nothing changed since */
    uint64_t evicted;
};

static void inst_unref(struct inst *i)
{
    if (i && atomic_fetch_sub(&i->refs, 1) == 1) {
        for (size_t k = 0; k < TEXTS; k++) {
            head_text_unref(i->texts[k]);
        }
        mem_free(i);
    }
}

static void page_unref(struct page *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1) {
        for (uint32_t i = 0; i < p->n; i++) {
            inst_unref(p->at[i]);
        }
        mem_free(p);
    }
}

struct head_infos_snap *head_infos_snap_ref(struct head_infos_snap *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void head_infos_snap_unref(struct head_infos_snap *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            page_unref(s->pages[i]);
        }
        mem_free(s);
    }
}

enum err head_infos_create(struct head_infos **out, uint32_t max)
{
    struct head_infos *t = mem_zalloc(sizeof *t);

    if (!t) {
        return ERR_NOMEM;
    }
    t->max = max;
    *out = t;
    return ERR_OK;
}

void head_infos_destroy(struct head_infos *t)
{
    if (t) {
        for (size_t i = 0; i < t->n; i++) {
            page_unref(t->pages[i]);
        }
        mem_free(t->pages);
        head_infos_snap_unref(t->snap);
        head_texts_fini(&t->texts);
        mem_free(t);
    }
}

size_t head_infos_count(const struct head_infos *t)
{
    return t->count;
}

uint64_t head_infos_evicted(const struct head_infos *t)
{
    return t->evicted;
}

/* -- order and search -- */

struct key {
    struct uuid boot;
    struct proc_id id;
};

static int compare(const struct inst *i, const struct key *k)
{
    int c = memcmp(i->boot.b, k->boot.b, sizeof k->boot.b);

    if (c == 0 && i->info.id.pid != k->id.pid) {
        c = i->info.id.pid < k->id.pid ? -1 : 1;
    }
    if (c == 0 && i->info.id.start != k->id.start) {
        c = i->info.id.start < k->id.start ? -1 : 1;
    }
    return c;
}

/* The page where k is or belongs: the last one that does not begin above it. */
static size_t find_page(struct page *const *pages, size_t n, const struct key *k)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (compare(pages[mid]->at[0], k) <= 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo > 0 ? lo - 1 : 0;
}

/* Index of the first instance not below k. */
static uint32_t find_in_page(const struct page *p, const struct key *k)
{
    uint32_t lo = 0, hi = p->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (compare(p->at[mid], k) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* -- joining what two sources say -- */

static void join_exit(struct proc_info *known, const struct proc_info *news)
{
    bool exact = (news->have & INFO_EXIT_TIME) && !(news->have & INFO_EXIT_INFERRED);
    bool was_exact = (known->have & INFO_EXIT_TIME) && !(known->have & INFO_EXIT_INFERRED);

    if ((news->have & INFO_EXIT_TIME) && (exact || !was_exact)) {
        known->exit_ns = news->exit_ns;
        known->have &= ~(uint32_t)INFO_EXIT_INFERRED;
        known->have |= INFO_EXIT_TIME | (news->have & INFO_EXIT_INFERRED);
    }
    if (news->have & INFO_EXIT_CODE) {
        known->exit_code = news->exit_code;
    }
    known->have |= news->have & (INFO_EXIT_CODE | INFO_EXITED | INFO_FINAL_TOTALS);
}

static void join_text(struct proc_info *known, const struct proc_info *news, bool newer)
{
    const uint32_t line = INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN;

    if (news->name.n && (newer || !known->name.n)) {
        known->name = news->name;
    }
    if (news->image.n && (newer || !known->image.n)) {
        known->image = news->image;
    }
    if (news->user.n && (newer || !known->user.n)) {
        known->user = news->user;
    }
    if ((news->have & INFO_COMMAND_LINE_KNOWN) &&
        (newer || !(known->have & INFO_COMMAND_LINE_KNOWN))) {
        known->command_line = news->command_line;
        known->have = (known->have & ~line) | (news->have & line);
    }
}

void head_info_join(struct proc_info *known, const struct proc_info *news, bool newer)
{
    const uint32_t rest = INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME;

    if (news->origin && (!known->origin || news->origin < known->origin)) {
        known->origin = news->origin; /* the list goes from sure to inferred */
    }
    if (news->cpu_origin && (newer || !known->cpu_origin)) {
        known->cpu_origin = news->cpu_origin;
    }
    if ((news->have & INFO_PARENT) && !(known->have & INFO_PARENT)) {
        known->parent_pid = news->parent_pid;
    }
    if (news->parent_start && !known->parent_start) {
        known->parent_start = news->parent_start;
    }
    if ((news->have & INFO_SESSION) && !(known->have & INFO_SESSION)) {
        known->session_id = news->session_id;
    }
    if ((news->have & INFO_CREATE_TIME) && !(known->have & INFO_CREATE_TIME)) {
        known->create_ns = news->create_ns;
    }
    known->have |= news->have & rest;
    join_exit(known, news);
    join_text(known, news, newer);
}

bool head_info_same(const struct proc_info *a, const struct proc_info *b)
{
    return proc_id_eq(a->id, b->id) && a->have == b->have && a->origin == b->origin &&
           a->cpu_origin == b->cpu_origin && a->parent_pid == b->parent_pid &&
           a->parent_start == b->parent_start && a->session_id == b->session_id &&
           a->exit_code == b->exit_code && a->create_ns == b->create_ns &&
           a->exit_ns == b->exit_ns && str_eq(a->name, b->name) && str_eq(a->image, b->image) &&
           str_eq(a->command_line, b->command_line) && str_eq(a->user, b->user);
}

/* -- changing -- */

static enum err inst_create(struct head_infos *t, struct inst **out, const struct uuid *boot,
                            const struct proc_info *info, int64_t seen_ns)
{
    struct inst *i = mem_zalloc(sizeof *i);
    struct str *text[TEXTS];

    if (!i) {
        return ERR_NOMEM;
    }
    atomic_init(&i->refs, 1);
    i->boot = *boot;
    i->info = *info;
    i->seen_ns = seen_ns;
    text[0] = &i->info.name;
    text[1] = &i->info.image;
    text[2] = &i->info.command_line;
    text[3] = &i->info.user;
    for (size_t k = 0; k < TEXTS; k++) {
        enum err e = head_texts_get(&t->texts, &i->texts[k], *text[k]);

        if (e) {
            inst_unref(i);
            return e;
        }
        *text[k] = head_text_str(i->texts[k]);
    }
    *out = i;
    return ERR_OK;
}

static void changed(struct head_infos *t)
{
    head_infos_snap_unref(t->snap);
    t->snap = NULL;
}

static struct page *page_create(struct inst *const *from, uint32_t n)
{
    struct page *p = mem_zalloc(sizeof *p);

    if (p) {
        atomic_init(&p->refs, 1);
        for (uint32_t i = 0; i < n; i++) {
            p->at[i] = from[i];
            atomic_fetch_add_explicit(&p->at[i]->refs, 1, memory_order_relaxed);
        }
        p->n = n;
    }
    return p;
}

/* Page i, owned by the table alone; NULL: out of memory. */
static struct page *own_page(struct head_infos *t, size_t i)
{
    struct page *old = t->pages[i], *copy;

    changed(t);
    if (atomic_load(&old->refs) == 1) {
        return old;
    }
    copy = page_create(old->at, old->n);
    if (copy) {
        t->pages[i] = copy;
        page_unref(old);
    }
    return copy;
}

static enum err reserve_pages(struct head_infos *t)
{
    size_t cap = t->cap ? t->cap * 2 : 8;
    struct page **grown;

    if (t->n < t->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(t->pages, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    t->pages = grown;
    t->cap = cap;
    return ERR_OK;
}

static void put_page(struct head_infos *t, size_t at, struct page *p)
{
    memmove(t->pages + at + 1, t->pages + at, (t->n - at) * sizeof *t->pages);
    t->pages[at] = p;
    t->n++;
}

/* Makes page `at` writable with room for one more; *out is the page where k belongs then. */
static enum err page_with_room(struct head_infos *t, size_t at, const struct key *k,
                               struct page **out)
{
    struct page *p, *upper;
    enum err e = reserve_pages(t);

    if (e) {
        return e;
    }
    if (t->n == 0) {
        p = page_create(NULL, 0);
        if (!p) {
            return ERR_NOMEM;
        }
        put_page(t, 0, p);
    }
    p = own_page(t, at);
    if (!p) {
        return ERR_NOMEM;
    }
    if (p->n == PAGE) {
        upper = page_create(p->at + PAGE / 2, PAGE / 2);
        if (!upper) {
            return ERR_NOMEM;
        }
        while (p->n > PAGE / 2) {
            inst_unref(p->at[--p->n]);
        }
        put_page(t, at + 1, upper);
        p = compare(upper->at[0], k) <= 0 ? upper : p;
    }
    *out = p;
    return ERR_OK;
}

/* -- the limit -- */

struct age {
    int running;
    int64_t ns;
};

static struct age age_of(const struct inst *i)
{
    bool exited = i->info.have & INFO_EXITED;
    struct age a = {!exited, exited && i->info.exit_ns ? i->info.exit_ns : i->seen_ns};

    return a;
}

static int by_age(const void *a, const void *b)
{
    const struct age *x = a, *y = b;

    if (x->running != y->running) {
        return x->running - y->running;
    }
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Removes instances of page i not younger than `limit`, at most *left. */
static enum err evict_from(struct head_infos *t, size_t i, const struct age *limit, size_t *left)
{
    struct page *p = own_page(t, i);
    uint32_t kept = 0;

    if (!p) {
        return ERR_NOMEM;
    }
    for (uint32_t k = 0; k < p->n; k++) {
        struct age a = age_of(p->at[k]);

        if (*left > 0 && by_age(&a, limit) <= 0) {
            inst_unref(p->at[k]);
            t->count--;
            t->evicted++;
            (*left)--;
        } else {
            p->at[kept++] = p->at[k];
        }
    }
    p->n = kept;
    return ERR_OK;
}

static enum err evict(struct head_infos *t)
{
    struct age *ages = mem_array(t->count, sizeof *ages);
    size_t n = 0, kept = 0, left = t->max / 8;
    enum err e = ERR_OK;

    if (!ages) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < t->n; i++) {
        for (uint32_t k = 0; k < t->pages[i]->n; k++) {
            ages[n++] = age_of(t->pages[i]->at[k]);
        }
    }
    qsort(ages, n, sizeof *ages, by_age);
    for (size_t i = 0; i < t->n && !e; i++) {
        e = evict_from(t, i, &ages[left - 1], &left);
        if (left == 0) {
            break;
        }
    }
    mem_free(ages);
    for (size_t i = 0; i < t->n; i++) {
        if (t->pages[i]->n > 0) {
            t->pages[kept++] = t->pages[i];
        } else {
            page_unref(t->pages[i]);
        }
    }
    t->n = kept;
    head_texts_sweep(&t->texts);
    return e;
}

static enum err add_new(struct head_infos *t, const struct key *k, const struct proc_info *info,
                        int64_t seen_ns)
{
    struct inst *i;
    struct page *p;
    uint32_t at;
    enum err e = t->count >= t->max ? evict(t) : ERR_OK;

    if (e) {
        return e;
    }
    e = inst_create(t, &i, &k->boot, info, seen_ns);
    if (e) {
        return e;
    }
    e = page_with_room(t, find_page(t->pages, t->n, k), k, &p);
    if (e) {
        inst_unref(i);
        return e;
    }
    at = find_in_page(p, k);
    memmove(p->at + at + 1, p->at + at, (p->n - at) * sizeof(struct inst *));
    p->at[at] = i;
    p->n++;
    t->count++;
    changed(t);
    return ERR_OK;
}

enum err head_infos_merge(struct head_infos *t, const struct uuid *boot,
                          const struct proc_info *info, int64_t seen_ns)
{
    struct key k = {*boot, info->id};
    size_t page = find_page(t->pages, t->n, &k);
    uint32_t at = t->n ? find_in_page(t->pages[page], &k) : 0;
    struct proc_info joined;
    struct inst *old, *i;
    struct page *p;
    bool newer;
    enum err e;

    if (t->n == 0 || at == t->pages[page]->n || compare(t->pages[page]->at[at], &k) != 0) {
        return add_new(t, &k, info, seen_ns);
    }
    old = t->pages[page]->at[at];
    newer = seen_ns >= old->seen_ns;
    old->seen_ns = newer ? seen_ns : old->seen_ns;
    joined = old->info;
    head_info_join(&joined, info, newer);
    if (head_info_same(&joined, &old->info)) {
        return ERR_OK;
    }
    e = inst_create(t, &i, boot, &joined, old->seen_ns);
    if (e) {
        return e;
    }
    p = own_page(t, page);
    if (!p) {
        inst_unref(i);
        return ERR_NOMEM;
    }
    inst_unref(p->at[at]);
    p->at[at] = i;
    return ERR_OK;
}

/* -- reading -- */

enum err head_infos_snapshot(struct head_infos *t, struct head_infos_snap **out)
{
    if (!t->snap) {
        struct head_infos_snap *s = mem_alloc(sizeof *s + t->n * sizeof(struct page *));

        if (!s) {
            return ERR_NOMEM;
        }
        atomic_init(&s->refs, 1);
        s->n = t->n;
        for (size_t i = 0; i < t->n; i++) {
            s->pages[i] = t->pages[i];
            atomic_fetch_add_explicit(&s->pages[i]->refs, 1, memory_order_relaxed);
        }
        t->snap = s;
    }
    *out = head_infos_snap_ref(t->snap);
    return ERR_OK;
}

const struct proc_info *head_infos_find(const struct head_infos_snap *s, const struct uuid *boot,
                                        struct proc_id id)
{
    /* The latest of a pid is the last one not above the highest start. */
    struct key k = {*boot, {id.pid, id.start ? id.start : UINT64_MAX}};
    const struct page *p;
    const struct inst *i;
    uint32_t at;

    if (s->n == 0) {
        return NULL;
    }
    p = s->pages[find_page(s->pages, s->n, &k)];
    at = find_in_page(p, &k);
    if (at == p->n || compare(p->at[at], &k) != 0) {
        if (id.start || at == 0) {
            return NULL;
        }
        at--;
    }
    i = p->at[at];
    return i->info.id.pid == id.pid && memcmp(i->boot.b, boot->b, sizeof boot->b) == 0 ? &i->info
                                                                                       : NULL;
}

const struct proc_info *head_infos_latest(const struct head_infos_snap *s, uint32_t pid)
{
    const struct proc_info *latest = NULL;
    const struct uuid *boot = NULL;
    int64_t latest_ns = 0;

    for (size_t i = 0; i < s->n; i++) {
        for (uint32_t k = 0; k < s->pages[i]->n; k++) {
            const struct inst *x = s->pages[i]->at[k];
            bool same_boot = boot && memcmp(boot->b, x->boot.b, sizeof boot->b) == 0;

            /* Within a boot the order is by start; between boots the creation time decides. */
            if (x->info.id.pid == pid && (!latest || same_boot || x->info.create_ns >= latest_ns)) {
                latest = &x->info;
                latest_ns = x->info.create_ns;
                boot = &x->boot;
            }
        }
    }
    return latest;
}

const struct proc_info *head_infos_peek(const struct head_infos_snap *s,
                                        struct head_infos_place *at, const struct uuid **boot)
{
    while (at->page < s->n && at->i >= s->pages[at->page]->n) {
        at->page++;
        at->i = 0;
    }
    if (at->page >= s->n) {
        return NULL;
    }
    *boot = &s->pages[at->page]->at[at->i]->boot;
    return &s->pages[at->page]->at[at->i]->info;
}
