/* Instances stand sorted by (boot, pid, start) in pages that never change (head_page.h), the pages
 * in an array: a flat B-tree. A snapshot is a copy of the array with a reference to every page and
 * to every block of text; so it costs n / HEAD_PAGE references, and a change after it one page.
 *
 * Ids and numbers of texts are all that a page holds, so an instance costs some tens of bytes
 * beside text that is its alone. The price: reading one means unpacking it, and nobody counts who
 * uses a text. What may have lost its last user is added up instead (`dropped`, never too little),
 * and when that is a quarter of everything, all is written anew into a new pool, without it.
 * Snapshots keep the old pages and the old pool.
 *
 * Considered: an object and four counted references for each instance, which was 0.3 KB and three
 * allocations each; texts for all hosts together, which need counts that threads share. */
#include "collector/store/memtable/head_info.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "collector/store/memtable/head_age.h"
#include "collector/store/memtable/head_cut.h"
#include "collector/store/memtable/head_page.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define FILL   (HEAD_PAGE * 3 / 4) /* of pages written anew: room for those to come */
#define RECORD 40u                 /* bytes of an instance without its texts, about */
#define SPARE  16384u              /* bytes */
#define MET    64u                 /* instances */

#define THIN_PAGES 16u /* so few may hold little */

static const struct head_known nothing;

struct head_infos_snap {
    atomic_uint refs;
    size_t n, n_blocks;
    struct head_text_block **blocks; /* behind the pages */
    struct head_page *pages[];
};

struct head_infos {
    uint32_t max;
    size_t count, n, cap;
    struct head_page **pages;
    struct head_texts texts;
    struct head_dropped dropped;  /* text that may have lost its last user */
    struct head_infos_snap *snap; /* the latest, while nothing changed since */
    uint64_t evicted;
    uint64_t bytes_max, page_bytes; /* allowed; of all pages */
    size_t text_max;                /* longer texts are cut */
    uint64_t too_long;              /* times that this became less */
};

struct head_infos_snap *head_infos_snap_ref(struct head_infos_snap *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void head_infos_snap_unref(struct head_infos_snap *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            head_page_unref(s->pages[i]);
        }
        for (size_t i = 0; i < s->n_blocks; i++) {
            head_text_block_unref(s->blocks[i]);
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
    t->bytes_max = UINT64_MAX;
    t->text_max = HEAD_CUT_NONE;
    err_ignore(os_random(&t->texts.seed, sizeof t->texts.seed));
    *out = t;
    return ERR_OK;
}

static void release(struct head_infos *t)
{
    for (size_t i = 0; i < t->n; i++) {
        head_page_unref(t->pages[i]);
    }
    mem_free(t->pages);
    head_infos_snap_unref(t->snap);
    head_texts_fini(&t->texts);
}

void head_infos_destroy(struct head_infos *t)
{
    if (t) {
        release(t);
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

uint64_t head_infos_too_long(const struct head_infos *t)
{
    return t->too_long;
}

uint64_t head_infos_bytes(const struct head_infos *t)
{
    return t->texts.held + t->page_bytes + t->cap * sizeof *t->pages;
}

void head_infos_limit(struct head_infos *t, uint64_t bytes_max)
{
    t->bytes_max = bytes_max;
}

/* -- pages -- */

static void changed(struct head_infos *t)
{
    head_infos_snap_unref(t->snap);
    t->snap = NULL;
}

/* For one page more. */
static enum err reserve_page(struct head_infos *t)
{
    size_t cap = t->cap + t->cap / 4 + 4;
    struct head_page **grown;

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

/* Makes room before; moves p. */
static void put_page(struct head_infos *t, size_t at, struct head_page *p)
{
    memmove(t->pages + at + 1, t->pages + at, (t->n - at) * sizeof *t->pages);
    t->pages[at] = p;
    t->page_bytes += head_page_bytes(p);
    t->n++;
}

/* The page becomes what the draft holds. */
static enum err replace_page(struct head_infos *t, size_t at, const struct head_draft *d)
{
    struct head_page *p;
    enum err e = head_draft_page(d, &p);

    if (!e) {
        changed(t);
        t->page_bytes += head_page_bytes(p) - head_page_bytes(t->pages[at]);
        head_page_unref(t->pages[at]);
        t->pages[at] = p;
    }
    return e;
}

static bool is_of(const struct head_page *p, const struct uuid *boot)
{
    return memcmp(p->base.boot.b, boot->b, sizeof boot->b) == 0;
}

/* Two halves instead of a full page. The upper one counts from its own first, or all pages of a
 * boot would count from whoever came first: on Windows the idle process, whose start is 0. */
static enum err split_page(struct head_infos *t, size_t at, struct head_draft *d)
{
    const struct head_page *p = t->pages[at];
    struct head_page *upper;
    enum err e = reserve_page(t);

    if (!e) {
        head_draft_anew(d, p, HEAD_PAGE / 2, HEAD_PAGE / 2);
        e = head_draft_page(d, &upper);
    }
    if (e) {
        return e;
    }
    head_draft_beside(d, p);
    head_draft_copy(d, p, 0, HEAD_PAGE / 2);
    e = replace_page(t, at, d);
    if (e) {
        head_page_unref(upper);
        return e;
    }
    put_page(t, at + 1, upper);
    return ERR_OK;
}

/* -- writing everything anew -- */

/* A table that is written anew. Instances of the same program are met again and again: those met
 * last, by the old number of `about`, spare most of the looking up. */
struct rewrite {
    struct head_infos to;
    struct head_draft d;
    struct head_known met[MET];
};

/* The draft becomes the last page. */
static enum err finish_page(struct rewrite *r)
{
    enum err e = r->d.n ? reserve_page(&r->to) : ERR_OK;

    if (!e && r->d.n) {
        struct head_page *p;

        e = head_draft_page(&r->d, &p);
        if (!e) {
            put_page(&r->to, r->to.n, p);
        }
        r->d.n = 0;
    }
    return e;
}

static enum err append(struct rewrite *r, const struct uuid *boot, const struct head_known *known,
                       int64_t seen_ns)
{
    struct head_known *met = &r->met[known->about % MET];
    struct head_known now = {.info = known->info};
    struct head_cut_room room;
    bool cut = head_cut(&now.info, r->to.text_max, &room);
    enum err e = ERR_OK;

    if (r->d.n == FILL || (r->d.n && memcmp(r->d.base.boot.b, boot->b, sizeof boot->b) != 0)) {
        e = finish_page(r);
    }
    if (!e && r->d.n == 0) {
        head_draft_init(&r->d, boot, &now.info);
    }
    if (!e) {
        e = head_draft_add(&r->d, &r->to.texts, &now, met, seen_ns);
    }
    if (!e && cut) { /* the room is gone soon */
        now.info.image = head_text_at(r->to.texts.blocks, now.image);
        now.info.command_line = head_text_at(r->to.texts.blocks, now.line);
    }
    if (!e) {
        *met = now;
        r->to.count++;
    }
    return e;
}

static enum err copy_all(const struct head_infos *t, struct rewrite *r)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < t->n; i++) {
        const struct head_page *p = t->pages[i];

        for (uint32_t k = 0; k < p->n && !e; k++) {
            struct head_known known;

            head_page_known(p, k, t->texts.blocks, &known);
            e = append(r, &p->base.boot, &known, head_page_seen_ns(p)[k]);
        }
    }
    return e ? e : finish_page(r);
}

/* Without texts of no use, in full pages, none of its texts longer than text_max.
 * Errors: ERR_NOMEM (nothing changed) */
static enum err rewrite_to(struct head_infos *t, size_t text_max)
{
    struct rewrite *r = mem_zalloc(sizeof *r);
    enum err e = ERR_NOMEM;

    if (!r) {
        return e;
    }
    r->to.max = t->max;
    r->to.evicted = t->evicted;
    r->to.bytes_max = t->bytes_max;
    r->to.text_max = text_max;
    r->to.too_long = t->too_long;
    r->to.texts.seed = t->texts.seed;
    e = copy_all(t, r);
    if (e) {
        release(&r->to);
    } else {
        release(t);
        *t = r->to;
    }
    mem_free(r);
    return e;
}

static enum err rewrite(struct head_infos *t)
{
    return rewrite_to(t, t->text_max);
}

/* Bytes of text that nobody uses, at most. Those of `about` are counted for each that drops them,
 * though most are used by others: no more than all of them can be of no use. */
static uint64_t garbage_of(const struct head_infos *t)
{
    uint64_t lines = t->dropped.lines, about = t->dropped.about;
    uint64_t about_max = t->texts.about_bytes;

    return (lines < t->texts.bytes ? lines : t->texts.bytes) +
           (about < about_max ? about : about_max);
}

/* Some bytes more than it needs are let be, or a table would be written anew all the time. */
static enum err tidy(struct head_infos *t)
{
    if (garbage_of(t) * 4 < t->texts.bytes + t->count * RECORD + SPARE) {
        return ERR_OK;
    }
    return rewrite(t);
}

/* -- the limit -- */

/* The page without those that are over the limit; ages are its instances'. It may be empty then. */
static enum err thin_page(struct head_infos *t, size_t at, const struct head_age *ages,
                          struct head_limit *limit)
{
    const struct head_page *p = t->pages[at];
    struct head_text_block *const *blocks = t->texts.blocks;
    struct head_dropped dropped = t->dropped;
    struct head_draft d;
    struct head_known known;
    uint32_t kept = 0, n = p->n; /* up to `kept` all is seen to */
    enum err e;

    head_draft_beside(&d, p);
    for (uint32_t i = 0; i < n; i++) {
        if (head_age_over(&ages[i], limit)) {
            head_page_known(p, i, blocks, &known);
            head_known_dropped(&dropped, &known, NULL, blocks);
            head_draft_copy(&d, p, kept, i - kept);
            kept = i + 1;
        }
    }
    if (kept == 0) {
        return ERR_OK;
    }
    head_draft_copy(&d, p, kept, n - kept);
    e = replace_page(t, at, &d);
    if (!e) {
        t->dropped = dropped;
        t->count -= n - d.n;
        t->evicted += n - d.n;
    }
    return e;
}

static void remove_empty(struct head_infos *t)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (t->pages[i]->n > 0) {
            t->pages[kept++] = t->pages[i];
        } else {
            t->page_bytes -= head_page_bytes(t->pages[i]);
            head_page_unref(t->pages[i]);
        }
    }
    t->n = kept;
}

static struct head_age *ages_make(const struct head_infos *t, size_t *ended)
{
    struct head_age *ages = mem_array(t->count, sizeof *ages);
    size_t n = 0;

    *ended = 0;
    for (size_t i = 0; ages && i < t->n; i++) {
        for (uint32_t k = 0; k < t->pages[i]->n; k++) {
            struct proc_info info;

            head_page_get(t->pages[i], k, t->texts.blocks, &info);
            ages[n] = head_age_of(&info, head_page_seen_ns(t->pages[i])[k]);
            *ended += !ages[n++].running;
        }
    }
    return ages;
}

/* The k oldest go, from 1 to all. */
static enum err thin(struct head_infos *t, const struct head_age *ages, size_t k)
{
    struct head_limit limit = head_limit_of(ages, t->count, k);
    size_t at = 0;
    enum err e = ERR_OK;

    for (size_t i = 0; i < t->n && !e; i++) {
        uint32_t has = t->pages[i]->n;

        e = thin_page(t, i, ages + at, &limit);
        at += has;
    }
    remove_empty(t);
    return e;
}

static enum err evict(struct head_infos *t)
{
    size_t ended;
    struct head_age *ages = ages_make(t, &ended);
    enum err e = ages ? thin(t, ages, t->max / 8) : ERR_NOMEM;

    mem_free(ages);
    if (!e && t->n > THIN_PAGES && t->count / t->n < HEAD_PAGE / 4) {
        err_ignore(rewrite(t)); /* it is smaller then, and does without */
    }
    return e;
}

/* Something less: half of those that ended; when there are none, all texts cut shorter; when they
 * are short, a quarter of the rest. Each is written anew, so halves cost no more than all at once.
 * ERR_NOTFOUND: there is hardly anything left. */
static enum err give_way(struct head_infos *t)
{
    size_t ended, text_max = t->text_max / 4;
    struct head_age *ages = ages_make(t, &ended);
    enum err e = ages ? ERR_OK : ERR_NOMEM;

    if (!e && ended > 0) {
        e = thin(t, ages, (ended + 1) / 2);
        text_max = t->text_max;
    } else if (!e && t->text_max > HEAD_CUT_LEAST) {
        t->too_long++;
    } else if (!e) {
        e = t->count < 8 ? ERR_NOTFOUND : thin(t, ages, t->count / 4);
        text_max = t->text_max;
    }
    mem_free(ages);
    return e ? e : rewrite_to(t, text_max);
}

enum err head_infos_shrink(struct head_infos *t, uint64_t bytes_max)
{
    uint64_t enough = bytes_max - bytes_max / 4; /* or it would have to be done for every one */
    enum err e = ERR_OK;

    if (head_infos_bytes(t) <= bytes_max) {
        return ERR_OK;
    }
    if (garbage_of(t) > 0) {
        e = rewrite(t);
    }
    while (!e && head_infos_bytes(t) > enough) {
        e = give_way(t);
    }
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- changing -- */

/* A page of its own, where no other of the boot is. */
static enum err add_page(struct head_infos *t, size_t at, struct head_draft *d,
                         const struct uuid *boot, struct head_known *now, int64_t seen_ns)
{
    struct head_page *p;
    enum err e = reserve_page(t);

    head_draft_init(d, boot, &now->info);
    if (!e) {
        e = head_draft_add(d, &t->texts, now, &nothing, seen_ns);
    }
    if (!e) {
        e = head_draft_page(d, &p);
    }
    if (!e) {
        changed(t);
        put_page(t, at, p);
    }
    return e;
}

static enum err put_into(struct head_infos *t, size_t at, struct head_draft *d,
                         struct head_known *now, int64_t seen_ns)
{
    const struct head_page *p = t->pages[at];
    uint32_t i = head_page_find(p, now->info.id);
    enum err e;

    head_draft_beside(d, p);
    head_draft_copy(d, p, 0, i);
    e = head_draft_add(d, &t->texts, now, &nothing, seen_ns);
    if (e) {
        return e;
    }
    head_draft_copy(d, p, i, p->n - i);
    return replace_page(t, at, d);
}

static enum err add_new(struct head_infos *t, struct head_draft *d, const struct uuid *boot,
                        struct head_known *now, int64_t seen_ns)
{
    const struct proc_id id = now->info.id;
    size_t at = head_pages_find(t->pages, t->n, boot, id);
    enum err e = ERR_OK;

    if (at < t->n &&
        !is_of(t->pages[at], boot)) { /* the last of a boot before, or the very first */
        at += memcmp(t->pages[at]->base.boot.b, boot->b, sizeof boot->b) < 0;
    }
    if (at == t->n || !is_of(t->pages[at], boot)) {
        return add_page(t, at, d, boot, now, seen_ns);
    }
    if (t->pages[at]->n == HEAD_PAGE) {
        e = split_page(t, at, d);
        at += !e && head_page_compare(t->pages[at + 1], 0, id) <= 0;
    }
    return e ? e : put_into(t, at, d, now, seen_ns);
}

static enum err add(struct head_infos *t, const struct uuid *boot, const struct proc_info *info,
                    int64_t seen_ns)
{
    struct head_known now = {.info = *info};
    struct head_draft d;
    enum err e = t->count >= t->max ? evict(t) : ERR_OK;

    if (e) {
        return e;
    }
    e = add_new(t, &d, boot, &now, seen_ns);
    if (e) {
        head_known_dropped(&t->dropped, &now, NULL, t->texts.blocks);
        return e;
    }
    t->count++;
    return ERR_OK;
}

/* The page's i-th becomes *now. */
static enum err change(struct head_infos *t, size_t at, uint32_t i, const struct head_known *was,
                       struct head_known *now)
{
    const struct head_page *p = t->pages[at];
    struct head_draft d;
    enum err e;

    head_draft_beside(&d, p);
    head_draft_copy(&d, p, 0, i);
    e = head_draft_add(&d, &t->texts, now, was, head_page_seen_ns(p)[i]);
    if (!e) {
        head_draft_copy(&d, p, i + 1, p->n - i - 1);
        e = replace_page(t, at, &d);
    }
    /* Of no use from here on are the old texts or, when it failed, the new ones. */
    head_known_dropped(&t->dropped, e ? now : was, e ? &was->info : &now->info, t->texts.blocks);
    return e;
}

enum err head_infos_merge(struct head_infos *t, const struct uuid *boot,
                          const struct proc_info *info, int64_t seen_ns)
{
    struct head_known was, now;
    struct head_page *p;
    int64_t *heard_ns;
    size_t page;
    uint32_t at;
    bool newer;
    struct head_cut_room room;
    struct proc_info cut = *info;
    enum err e = tidy(t);

    if (!e) {
        e = head_infos_shrink(t, t->bytes_max);
    }
    if (e) {
        return e;
    }
    if (t->text_max != HEAD_CUT_NONE && head_infos_bytes(t) < t->bytes_max / 8) {
        t->text_max = HEAD_CUT_NONE; /* what is told again comes back whole */
    }
    if (head_cut(&cut, t->text_max, &room)) {
        info = &cut;
    }
    page = head_pages_find(t->pages, t->n, boot, info->id);
    p = page < t->n && is_of(t->pages[page], boot) ? t->pages[page] : NULL;
    at = p ? head_page_find(p, info->id) : 0;
    if (!p || at == p->n || head_page_compare(p, at, info->id) != 0) {
        return add(t, boot, info, seen_ns);
    }
    heard_ns = &head_page_seen_ns(p)[at];
    newer = seen_ns >= *heard_ns;
    *heard_ns = newer ? seen_ns : *heard_ns;
    head_page_known(p, at, t->texts.blocks, &was);
    if (head_info_same(info, &was.info)) { /* told again, as all are from time to time */
        return ERR_OK;
    }
    now = (struct head_known){.info = was.info};
    head_info_join(&now.info, info, newer);
    return head_info_same(&now.info, &was.info) ? ERR_OK : change(t, page, at, &was, &now);
}

/* -- reading -- */

enum err head_infos_snapshot(struct head_infos *t, struct head_infos_snap **out)
{
    size_t n_blocks = t->texts.n_blocks;

    if (!t->snap) {
        struct head_infos_snap *s =
            mem_alloc(sizeof *s + t->n * sizeof *s->pages + n_blocks * sizeof *s->blocks);

        if (!s) {
            return ERR_NOMEM;
        }
        atomic_init(&s->refs, 1);
        s->n = t->n;
        s->n_blocks = n_blocks;
        s->blocks = (struct head_text_block **)(s->pages + t->n);
        for (size_t i = 0; i < t->n; i++) {
            s->pages[i] = head_page_ref(t->pages[i]);
        }
        for (size_t i = 0; i < n_blocks; i++) {
            s->blocks[i] = head_text_block_ref(t->texts.blocks[i]);
        }
        t->snap = s;
    }
    *out = head_infos_snap_ref(t->snap);
    return ERR_OK;
}

bool head_infos_find(const struct head_infos_snap *s, const struct uuid *boot, struct proc_id id,
                     struct proc_info *out)
{
    /* The latest of a pid is the last one not above the highest start. */
    const struct proc_id last = {id.pid, id.start ? id.start : UINT64_MAX};
    size_t page = head_pages_find(s->pages, s->n, boot, last);
    const struct head_page *p = page < s->n ? s->pages[page] : NULL;
    uint32_t at;

    if (!p || !is_of(p, boot)) {
        return false;
    }
    at = head_page_find(p, last);
    if (at == p->n || head_page_compare(p, at, last) != 0) {
        if (id.start || at == 0) {
            return false;
        }
        at--;
    }
    if (p->pid[at] != id.pid) {
        return false;
    }
    head_page_get(p, at, s->blocks, out);
    return true;
}

bool head_infos_latest(const struct head_infos_snap *s, uint32_t pid, struct proc_info *out)
{
    const struct uuid *boot = NULL;

    for (size_t i = 0; i < s->n; i++) {
        const struct head_page *p = s->pages[i];

        for (uint32_t k = 0; k < p->n; k++) {
            struct proc_info info;

            if (p->pid[k] != pid) {
                continue;
            }
            head_page_get(p, k, s->blocks, &info);
            /* Within a boot the order is by start; between boots the creation time decides. */
            if (!boot || is_of(p, boot) || info.create_ns >= out->create_ns) {
                *out = info;
                boot = &p->base.boot;
            }
        }
    }
    return boot != NULL;
}

bool head_infos_peek(const struct head_infos_snap *s, struct head_infos_place *at,
                     const struct uuid **boot, struct proc_info *out)
{
    while (at->page < s->n && at->i >= s->pages[at->page]->n) {
        at->page++;
        at->i = 0;
    }
    if (at->page >= s->n) {
        return false;
    }
    *boot = &s->pages[at->page]->base.boot;
    head_page_get(s->pages[at->page], at->i, s->blocks, out);
    return true;
}
