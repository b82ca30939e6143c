/* A record, all numbers in LEB128, s = zigzag:
 *
 *   s start      from the base's
 *   flags        which of the following are there
 *   about        a text: what is the same for every run of a program (below)
 *   s create_ns  from the base's and what the start tells: nothing, as a rule
 *   s exit_ns    from create_ns
 *   parent_pid
 *   s parent_start, down from start
 *   exit_code
 *   line         the command line, a text
 *
 * What is zero is left out. A start is a creation time in its source's unit: FILETIME counts 100
 * ns, Linux ticks of 10 ms; wherever that holds, create_ns costs nothing, and where it does not
 * (or nothing of what a host says is true) the difference is longer but exact: all arithmetic
 * is modulo 2^64.
 *
 * `about` is interned like a text of its own: have, origin, cpu_origin, session, and the numbers
 * of name, image and user. Some 40 bytes a process remain, 14 of them fixed.
 *
 * Records do not depend on one another, so that one is read without those before it, and a part
 * of a page is copied as it is. */
#include "collector/store/memtable/head_page.h"

#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/search.h"

enum {
    HAS_CREATE_REST = 1 << 0,
    HAS_NO_CREATE = 1 << 1, /* create_ns is 0 */
    HAS_EXIT = 1 << 2,
    HAS_PARENT = 1 << 3,
    HAS_PARENT_START = 1 << 4,
    HAS_EXIT_CODE = 1 << 5,
    HAS_LINE = 1 << 6,
};

#define FILETIME_MIN (UINT64_C(1) << 56) /* below it a FILETIME is before 1830 */
#define ABOUT_MAX    32u
#define PAD          8u

/* Creation as its start tells it, from an epoch that is the same for all of a boot. */
static uint64_t told_by(uint64_t start)
{
    return start * (start >= FILETIME_MIN ? 100 : 10000000);
}

void head_page_unref(struct head_page *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1) {
        mem_free(p);
    }
}

/* -- where things are -- */

static const uint16_t *ends_of(const struct head_page *p)
{
    return (const uint16_t *)(head_page_seen_ns(p) + p->n);
}

static const uint8_t *records_of(const struct head_page *p)
{
    return (const uint8_t *)(ends_of(p) + p->n);
}

static uint32_t record_at(const struct head_page *p, uint32_t i)
{
    return i ? ends_of(p)[i - 1] : 0;
}

static const uint8_t *record_of(const struct head_page *p, uint32_t i)
{
    return records_of(p) + record_at(p, i);
}

size_t head_page_bytes(const struct head_page *p)
{
    return (size_t)(records_of(p) - (const uint8_t *)p) + record_at(p, p->n) + PAD;
}

/* The bytes are our own: there is nothing to check. 8 are read at once, so PAD follow the last. */
static uint64_t get(const uint8_t **p)
{
    unsigned n;
    uint64_t v = cur_varint8(cur_at64le(*p), &n);

    if (n) {
        *p += n;
    } else {
        struct cur c = cur_make(*p, 10);

        v = cur_varint_slow(&c);
        *p = c.p;
    }
    return v;
}

static uint64_t get_signed(const uint8_t **p)
{
    uint64_t v = get(p);

    return v >> 1 ^ (0 - (v & 1));
}

/* -- search -- */

int head_page_compare(const struct head_page *p, uint32_t i, struct proc_id id)
{
    uint32_t pid = p->pid[i];
    const uint8_t *r;
    uint64_t start;

    if (pid != id.pid) {
        return pid < id.pid ? -1 : 1;
    }
    r = record_of(p, i);
    start = p->base.start + get_signed(&r);
    return start < id.start ? -1 : start > id.start;
}

uint32_t head_page_find(const struct head_page *p, struct proc_id id)
{
    size_t i;

    SEARCH_LOWER(i, p->n, head_page_compare(p, (uint32_t)i, id) < 0);
    return (uint32_t)i;
}

static bool page_begins_until(const struct head_page *p, const struct uuid *boot, struct proc_id id)
{
    int c = memcmp(p->base.boot.b, boot->b, sizeof boot->b);

    return c < 0 || (c == 0 && head_page_compare(p, 0, id) <= 0);
}

size_t head_pages_find(struct head_page *const *pages, size_t n, const struct uuid *boot,
                       struct proc_id id)
{
    size_t i;

    SEARCH_LOWER(i, n, page_begins_until(pages[i], boot, id));
    return i > 0 ? i - 1 : 0;
}

/* -- reading -- */

/* Behind a text the owner may be writing the next one: not a byte too many is read. */
static uint32_t get_text(const uint8_t **p)
{
    uint32_t v = 0;

    for (unsigned shift = 0;; shift += 7) {
        uint8_t b = *(*p)++;

        v |= (uint32_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            return v;
        }
    }
}

static void get_about(struct head_known *out, struct head_text_block *const *blocks)
{
    const uint8_t *p = (const uint8_t *)head_text_at(blocks, out->about).p;

    out->info.have = get_text(&p);
    out->info.origin = *p++;
    out->info.cpu_origin = *p++;
    out->info.session_id = get_text(&p);
    out->name = get_text(&p);
    out->image = get_text(&p);
    out->user = get_text(&p);
    out->info.name = head_text_at(blocks, out->name);
    out->info.image = head_text_at(blocks, out->image);
    out->info.user = head_text_at(blocks, out->user);
}

/* What the record itself has: all but texts and what `about` says. */
static void get_record(const struct head_page *p, uint32_t i, struct head_known *out)
{
    const uint8_t *r = record_of(p, i);
    uint64_t start = p->base.start + get_signed(&r);
    uint32_t flags = *r++;
    uint64_t create = (uint64_t)p->base.create_ns + told_by(start);
    struct proc_info *info = &out->info;

    info->id = (struct proc_id){p->pid[i], start};
    out->about = (uint32_t)get(&r);
    create += flags & HAS_CREATE_REST ? get_signed(&r) : 0;
    create = flags & HAS_NO_CREATE ? 0 : create;
    info->create_ns = (int64_t)create;
    info->exit_ns = flags & HAS_EXIT ? (int64_t)(create + get_signed(&r)) : 0;
    info->parent_pid = flags & HAS_PARENT ? (uint32_t)get(&r) : 0;
    info->parent_start = flags & HAS_PARENT_START ? start - get_signed(&r) : 0;
    info->exit_code = flags & HAS_EXIT_CODE ? (uint32_t)get(&r) : 0;
    out->line = flags & HAS_LINE ? (uint32_t)get(&r) : 0;
}

void head_page_known(const struct head_page *p, uint32_t i, struct head_text_block *const *blocks,
                     struct head_known *out)
{
    get_record(p, i, out);
    out->info.command_line = head_text_at(blocks, out->line);
    get_about(out, blocks);
}

void head_page_get(const struct head_page *p, uint32_t i, struct head_text_block *const *blocks,
                   struct proc_info *out)
{
    struct head_known known;

    head_page_known(p, i, blocks, &known);
    *out = known.info;
}

/* -- making -- */

static uint8_t *put(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        *p++ = (uint8_t)(v | 0x80);
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Of a difference modulo 2^64. */
static uint8_t *put_signed(uint8_t *p, uint64_t v)
{
    return put(p, v << 1 ^ (0 - (v >> 63)));
}

void head_page_draft_init(struct head_draft *d, const struct uuid *boot,
                          const struct proc_info *info)
{
    uint64_t start = info->id.start;

    d->base.boot = *boot;
    d->base.start = start;
    d->base.create_ns = (int64_t)((uint64_t)info->create_ns - told_by(start));
    d->n = d->bytes = 0;
}

void head_page_draft_beside(struct head_draft *d, const struct head_page *p)
{
    d->base = p->base;
    d->n = d->bytes = 0;
}

void head_page_draft_copy(struct head_draft *d, const struct head_page *p, uint32_t i, uint32_t n)
{
    uint32_t from = record_at(p, i), bytes = n ? ends_of(p)[i + n - 1] - from : 0;

    memcpy(d->seen_ns + d->n, head_page_seen_ns(p) + i, n * sizeof *d->seen_ns);
    memcpy(d->pid + d->n, p->pid + i, n * sizeof *d->pid);
    memcpy(d->records + d->bytes, records_of(p) + from, bytes);
    for (uint32_t k = 0; k < n; k++) {
        d->end[d->n + k] = (uint16_t)(ends_of(p)[i + k] - from + d->bytes);
    }
    d->n += n;
    d->bytes += bytes;
}

/* Whether all that `about` says is the same. */
static bool same_about(const struct proc_info *a, const struct proc_info *b)
{
    return a->have == b->have && a->origin == b->origin && a->cpu_origin == b->cpu_origin &&
           a->session_id == b->session_id && str_eq(a->name, b->name) &&
           str_eq(a->image, b->image) && str_eq(a->user, b->user);
}

/* To compare is quicker than to look up. */
static enum err intern(struct head_texts *texts, uint32_t *id, struct str s, struct str was,
                       uint32_t was_id)
{
    if (was_id && str_eq(s, was)) {
        *id = was_id;
        return ERR_OK;
    }
    return head_texts_get(texts, id, s);
}

static enum err intern_about(struct head_texts *texts, struct head_known *now,
                             const struct head_known *was)
{
    const struct proc_info *info = &now->info;
    uint8_t about[ABOUT_MAX], *p = put(about, info->have);
    enum err e = intern(texts, &now->name, info->name, was->info.name, was->name);

    if (!e) {
        e = intern(texts, &now->image, info->image, was->info.image, was->image);
    }
    if (!e) {
        e = intern(texts, &now->user, info->user, was->info.user, was->user);
    }
    if (e) {
        return e;
    }
    *p++ = info->origin;
    *p++ = info->cpu_origin;
    p = put(p, info->session_id);
    p = put(p, now->name);
    p = put(p, now->image);
    p = put(p, now->user);
    return head_texts_get(texts, &now->about,
                          (struct str){(const char *)about, (size_t)(p - about)});
}

static uint8_t *put_record(uint8_t *p, const struct head_page_base *base,
                           const struct head_known *known)
{
    const struct proc_info *info = &known->info;
    uint64_t start = info->id.start, create = (uint64_t)info->create_ns;
    uint64_t rest = create ? create - (uint64_t)base->create_ns - told_by(start) : 0;
    uint32_t flags = (rest ? HAS_CREATE_REST : 0u) | (create ? 0u : HAS_NO_CREATE) |
                     (info->exit_ns ? HAS_EXIT : 0u) | (info->parent_pid ? HAS_PARENT : 0u) |
                     (info->parent_start ? HAS_PARENT_START : 0u) |
                     (info->exit_code ? HAS_EXIT_CODE : 0u) | (known->line ? HAS_LINE : 0u);

    p = put_signed(p, start - base->start);
    *p++ = (uint8_t)flags;
    p = put(p, known->about);
    p = rest ? put_signed(p, rest) : p;
    p = info->exit_ns ? put_signed(p, (uint64_t)info->exit_ns - create) : p;
    p = info->parent_pid ? put(p, info->parent_pid) : p;
    p = info->parent_start ? put_signed(p, start - info->parent_start) : p;
    p = info->exit_code ? put(p, info->exit_code) : p;
    return known->line ? put(p, known->line) : p;
}

static void put_known(struct head_draft *d, const struct head_known *known, int64_t seen_ns)
{
    d->seen_ns[d->n] = seen_ns;
    d->pid[d->n] = known->info.id.pid;
    d->bytes = (uint32_t)(put_record(d->records + d->bytes, &d->base, known) - d->records);
    d->end[d->n++] = (uint16_t)d->bytes;
}

void head_page_draft_anew(struct head_draft *d, const struct head_page *p, uint32_t i, uint32_t n)
{
    struct head_known known;

    get_record(p, i, &known);
    head_page_draft_init(d, &p->base.boot, &known.info);
    for (uint32_t k = i; k < i + n; k++) {
        get_record(p, k, &known);
        put_known(d, &known, head_page_seen_ns(p)[k]);
    }
}

enum err head_page_draft_add(struct head_draft *d, struct head_texts *texts, struct head_known *now,
                             const struct head_known *was, int64_t seen_ns)
{
    uint64_t before = texts->bytes;
    enum err e = ERR_OK;

    if (was->about && same_about(&now->info, &was->info)) {
        now->about = was->about;
        now->name = was->name;
        now->image = was->image;
        now->user = was->user;
    } else {
        e = intern_about(texts, now, was);
        texts->about_bytes += texts->bytes - before;
    }
    if (!e) {
        e = intern(texts, &now->line, now->info.command_line, was->info.command_line, was->line);
    }
    if (e) {
        return e;
    }
    put_known(d, now, seen_ns);
    return ERR_OK;
}

enum err head_page_draft_finish(const struct head_draft *d, struct head_page **out)
{
    size_t fixed = sizeof *d->seen_ns + sizeof *d->pid + sizeof *d->end;
    size_t odd = d->n & 1 ? sizeof *d->pid : 0;
    struct head_page *p = mem_alloc(sizeof *p + d->n * fixed + odd + d->bytes + PAD);

    if (!p) {
        return ERR_NOMEM;
    }
    atomic_init(&p->refs, 1);
    p->n = d->n;
    p->base = d->base;
    memcpy(head_page_seen_ns(p), d->seen_ns, d->n * sizeof *d->seen_ns);
    memcpy(p->pid, d->pid, d->n * sizeof *d->pid);
    memcpy((void *)ends_of(p), d->end, d->n * sizeof *d->end);
    memcpy((void *)records_of(p), d->records, d->bytes);
    memset((uint8_t *)records_of(p) + d->bytes, 0, PAD);
    *out = p;
    return ERR_OK;
}

static size_t cost_unless_same(struct str was, struct str is)
{
    return was.n == 0 || str_eq(was, is) ? 0 : head_text_cost(was.n);
}

void head_page_dropped(struct head_dropped *sum, const struct head_known *was,
                       const struct proc_info *is, struct head_text_block *const *blocks)
{
    static const struct proc_info nothing;
    const struct proc_info *a = &was->info, *b = is ? is : &nothing;

    sum->lines += cost_unless_same(a->command_line, b->command_line);
    if (is && same_about(a, b)) {
        return;
    }
    sum->about += cost_unless_same(a->name, b->name);
    sum->about += cost_unless_same(a->image, b->image);
    sum->about += cost_unless_same(a->user, b->user);
    sum->about += was->about ? head_text_cost(head_text_at(blocks, was->about).n) : ABOUT_MAX;
}
