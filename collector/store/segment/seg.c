/* What is read when: at opening the header and the end of the file (hosts, groups; one or two
 * reads), the entries of a group when a value of it is first wanted, ranges only when asked for. So
 * an open segment of a thousand hosts costs some 100 KB, not its whole directory. */
#include "collector/store/segment/seg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/os/uuid.h"

static const char *const kind_names[SEG_KINDS] = {"none", "raw",  "10s",     "1min",
                                                  "1h",   "rest", "provider"};

const char *seg_kind_name(unsigned kind)
{
    return kind < SEG_KINDS ? kind_names[kind] : kind_names[0];
}

/* "2026-11-21T22:00:00Z" without its punctuation and seconds; of any year. */
static void stamp_put(char *to, size_t size, int64_t utc_ns)
{
    char text[CLK_TEXT];
    size_t n = 0;

    clk_format_utc(text, sizeof text, utc_ns, 0);
    for (const char *p = text; *p && p < text + 16 && n + 2 < size; p++) {
        if (*p != '-' && *p != ':') {
            to[n++] = *p;
        }
    }
    to[n++] = 'Z';
    to[n] = 0;
}

void seg_name(char out[SEG_NAME_MAX], const struct seg_info *info)
{
    char when[CLK_TEXT];

    stamp_put(when, sizeof when, info->window_ns);
    (void)snprintf(out, SEG_NAME_MAX, "%s-%s-%" PRIu64 ".seg", seg_kind_name(info->kind), when,
                   info->number);
}

bool seg_name_is(const char *name)
{
    size_t n = strlen(name);

    if (n < 5 || n >= SEG_NAME_MAX || strcmp(name + n - 4, ".seg") != 0) {
        return false;
    }
    for (unsigned kind = 1; kind < SEG_KINDS; kind++) {
        size_t k = strlen(kind_names[kind]);

        if (n > k && memcmp(name, kind_names[kind], k) == 0 && name[k] == '-') {
            return true;
        }
    }
    return false;
}

#define TAIL_BYTES      (64u << 10)  /* of a small segment everything behind the values */
#define DIRECTORY_WHOLE (128u << 10) /* read at once */
#define LOAD_BYTES      (1u << 20)
#define GAP_BYTES       (16u << 10)
#define RUN_BYTES       (4u << 20)

/* -- opening -- */

/* The end of the file in memory. */
struct tail {
    uint8_t *p;
    uint64_t at; /* where it begins */
    size_t n;
};

static enum err tail_read(struct tail *t, struct seg *s, uint64_t at, uint64_t end)
{
    uint8_t *p = mem_alloc((size_t)(end - at));
    enum err e = p ? seg_file_read(s->file, at, p, (size_t)(end - at)) : ERR_NOMEM;

    if (e) {
        mem_free(p);
        return e;
    }
    mem_free(t->p);
    *t = (struct tail){p, at, (size_t)(end - at)};
    return ERR_OK;
}

static enum err read_head(struct seg *s, uint64_t bytes)
{
    uint8_t p[SEG_HEAD_MAX];
    size_t n = bytes < sizeof p ? (size_t)bytes : sizeof p;
    enum err e = seg_file_read(s->file, 0, p, n);

    return e ? e : seg_format_head_parse(&s->head, p, n);
}

static enum err read_foot(struct seg *s, struct tail *t, uint64_t bytes)
{
    uint64_t from = bytes > TAIL_BYTES ? bytes - TAIL_BYTES : 0;
    enum err e = bytes < SEG_FOOT_BYTES ? ERR_CORRUPT : tail_read(t, s, from, bytes);

    if (!e) {
        e = seg_format_foot_parse(&s->foot, t->p + t->n - SEG_FOOT_BYTES, SEG_FOOT_BYTES,
                                  bytes - SEG_FOOT_BYTES, s->head.info.n_windows);
    }
    if (!e && s->foot.hosts_at < t->at) {
        e = tail_read(t, s, s->foot.hosts_at, bytes);
    }
    s->end = s->foot.ranges_at;
    return e;
}

static int by_id(const void *a, const void *b, void *ctx)
{
    const struct seg *s = ctx;

    return memcmp(s->hosts[*(const uint32_t *)a].id.b, s->hosts[*(const uint32_t *)b].id.b, 16);
}

static enum err parse_hosts(struct seg *s, const uint8_t *p, size_t n)
{
    unsigned n_windows = s->head.info.n_windows;
    struct cur c = cur_make(p, n);
    struct seg_span *spans = s->names;
    char *names = (char *)(spans + (size_t)s->foot.n_hosts * n_windows);

    for (uint32_t i = 0; i < s->foot.n_hosts && !c.bad; i++) {
        struct seg_host *h = &s->hosts[i];
        const uint8_t *id = cur_bytes(&c, sizeof h->id.b);
        uint8_t name_n = cur_u8(&c);
        const uint8_t *name = cur_bytes(&c, name_n);

        if (!name || name_n > MODEL_HOST_NAME_MAX) {
            return ERR_CORRUPT;
        }
        memcpy(h->id.b, id, sizeof h->id.b);
        memcpy(names, name, name_n);
        h->name = names;
        names += name_n + 1u; /* zeroed */
        h->at = spans;
        for (unsigned k = 0; k < n_windows; k++) {
            spans->t0_ns = (int64_t)cur_u64le(&c);
            spans++->t1_ns = (int64_t)cur_u64le(&c);
        }
        s->by_id[i] = i;
    }
    return c.bad || cur_left(&c) ? ERR_CORRUPT : ERR_OK;
}

static enum err load_hosts(struct seg *s, const struct tail *t)
{
    const uint8_t *p = t->p + (s->foot.hosts_at - t->at);
    size_t n = (size_t)(s->foot.groups_at - s->foot.hosts_at);
    enum err e;

    if (hash_bytes(p, n, s->head.seed) != s->foot.hosts_sum) {
        return ERR_CORRUPT;
    }
    s->hosts = mem_array(s->foot.n_hosts, sizeof *s->hosts);
    s->by_id = mem_array(s->foot.n_hosts, sizeof *s->by_id);
    s->names = mem_zalloc(n); /* ids and lengths of names are more than what is added here */
    if (!s->hosts || !s->by_id || !s->names) {
        return ERR_NOMEM;
    }
    e = parse_hosts(s, p, n);
    if (!e) {
        seg_format_span(&s->head.info, s->names, (size_t)s->foot.n_hosts * s->head.info.n_windows);
    }
    if (!e && s->foot.n_hosts > 1) {
        qsort_r(s->by_id, s->foot.n_hosts, sizeof *s->by_id, by_id, s);
    }
    atomic_fetch_add(s->memory, n + s->foot.n_hosts * (sizeof *s->hosts + sizeof *s->by_id));
    return e;
}

static enum err parse_groups(struct seg *s, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    uint64_t before = 0;
    uint32_t first = 0;

    for (uint32_t i = 0; i < s->foot.n_groups; i++) {
        struct seg_group *g = &s->groups[i];
        uint64_t order;

        g->part = cur_u8(&c);
        g->metric = cur_u8(&c);
        g->window = cur_u8(&c);
        cur_skip(&c, 1);
        g->count = cur_u32le(&c);
        g->sum = cur_u64le(&c);
        g->first = first;
        atomic_init(&g->entries, NULL);
        order = (uint64_t)g->part << 16 | (uint64_t)g->metric << 8 | g->window;
        if (g->count == 0 || g->count > s->foot.n_entries - first || g->part == 0 ||
            order <= before || g->window >= s->head.info.n_windows) {
            return ERR_CORRUPT;
        }
        before = order;
        first += g->count;
    }
    return c.bad || first != s->foot.n_entries ? ERR_CORRUPT : ERR_OK;
}

static enum err load_groups(struct seg *s, const struct tail *t)
{
    const uint8_t *p = t->p + (s->foot.groups_at - t->at);
    size_t n = (size_t)s->foot.n_groups * SEG_GROUP_BYTES;

    if (hash_bytes(p, n, s->head.seed) != s->foot.groups_sum) {
        return ERR_CORRUPT;
    }
    s->groups = mem_array(s->foot.n_groups, sizeof *s->groups);
    if (!s->groups) {
        return ERR_NOMEM;
    }
    atomic_fetch_add(s->memory, s->foot.n_groups * sizeof *s->groups);
    return parse_groups(s, p, n);
}

/* The header stands at the end once more. */
static bool head_again(const struct seg *s, const struct tail *t)
{
    size_t n = seg_format_head_bytes(s->head.info.n_windows);
    struct seg_head h;

    return seg_format_head_parse(&h, t->p + t->n - SEG_FOOT_BYTES - n, n) == ERR_OK &&
           h.seed == s->head.seed && h.info.number == s->head.info.number;
}

static enum err read_all(struct seg *s)
{
    struct tail t = {0};
    uint64_t bytes = 0;
    enum err e = seg_file_size(s->file, &bytes);

    if (!e) {
        e = read_head(s, bytes);
    }
    if (!e) {
        e = read_foot(s, &t, bytes);
    }
    if (!e && !head_again(s, &t)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        e = load_hosts(s, &t);
    }
    if (!e) {
        e = load_groups(s, &t);
    }
    mem_free(t.p);
    s->head.info.bytes = bytes;
    s->head.info.values = s->foot.values;
    return e;
}

/* A file under another's name would answer for that one. */
static enum err see_name(const struct seg *s, const char *dir, const char *name, struct errmsg *why)
{
    char own[SEG_NAME_MAX];

    seg_name(own, &s->head.info);
    return !seg_name_is(name) || strcmp(own, name) == 0
               ? ERR_OK
               : errmsg_set(why, ERR_CORRUPT, "%s/%s is by its header %s", dir, name, own);
}

enum err seg_open_name(struct seg **out, const struct fio *fio, struct seg_pool *pool,
                       const char *dir, const char *name, struct errmsg *why)
{
    struct seg *s = mem_zalloc(sizeof *s);
    enum err e = ERR_NOMEM;

    if (s) {
        s->file = mem_zalloc(sizeof *s->file);
        s->memory = mem_alloc(sizeof *s->memory);
    }
    if (s && s->file && s->memory) {
        atomic_init(s->memory, sizeof *s + sizeof *s->file);
        e = seg_file_open(s->file, fio, pool, dir, name);
        e = e ? e : read_all(s);
    }
    if (e) {
        seg_close(s);
        return errmsg_set(why, e, "cannot read %s/%s: %s", dir, name,
                          e == ERR_VERSION
                              ? "a newer version of the collector wrote it: use that one"
                              : err_text(e));
    }
    e = see_name(s, dir, name, why);
    if (e) {
        seg_close(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

enum err seg_open(struct seg **out, const struct fio *fio, const char *dir,
                  const struct seg_info *info, struct errmsg *why)
{
    char name[SEG_NAME_MAX];

    seg_name(name, info);
    return seg_open_name(out, fio, NULL, dir, name, why);
}

void seg_close(struct seg *s)
{
    if (!s) {
        return;
    }
    if (s->file) {
        seg_file_close(s->file);
    }
    for (uint32_t i = 0; s->groups && i < s->foot.n_groups; i++) {
        mem_free(atomic_load(&s->groups[i].entries));
    }
    mem_free(s->groups);
    mem_free(s->hosts);
    mem_free(s->by_id);
    mem_free(s->names);
    mem_free(s->memory);
    mem_free(s->file);
    mem_free(s);
}

/* -- what it says of itself -- */

const struct seg_info *seg_info_of(const struct seg *s)
{
    return &s->head.info;
}

int64_t seg_window(const struct seg *s, unsigned window)
{
    return s->head.windows[window < s->head.info.n_windows ? window : 0];
}

size_t seg_memory(const struct seg *s)
{
    return atomic_load(s->memory);
}

size_t seg_hosts(const struct seg *s)
{
    return s->foot.n_hosts;
}

const struct seg_host *seg_host(const struct seg *s, size_t i)
{
    return &s->hosts[i];
}

static const struct uuid *host_id(const void *ctx, size_t i)
{
    const struct seg *s = ctx;

    return &s->hosts[s->by_id[i]].id;
}

size_t seg_find_host(const struct seg *s, const struct uuid *id)
{
    size_t i = uuid_search(id, s->foot.n_hosts, host_id, s);

    return i < s->foot.n_hosts && memcmp(host_id(s, i)->b, id->b, sizeof id->b) == 0
               ? s->by_id[i]
               : s->foot.n_hosts;
}

static enum err give_ranges(struct cur *c, struct dedup_stream *st,
                            enum err (*each)(void *ctx, const struct dedup_stream *st), void *ctx)
{
    struct seq_range ranges[DEDUP_RANGES_MAX];
    uint32_t left = cur_u32le(c);
    enum err e = ERR_OK;

    st->ranges = ranges;
    while (left > 0 && !e) {
        for (st->n_ranges = 0; left > 0 && st->n_ranges < DEDUP_RANGES_MAX; left--) {
            ranges[st->n_ranges].first = cur_u64le(c);
            ranges[st->n_ranges++].last = cur_u64le(c);
        }
        e = c->bad ? ERR_CORRUPT : each(ctx, st);
    }
    return e;
}

enum err seg_each_ranges(const struct seg *s,
                         enum err (*each)(void *ctx, const struct dedup_stream *st), void *ctx)
{
    size_t n = (size_t)(s->foot.directory_at - s->foot.ranges_at);
    uint8_t *p = mem_alloc(n);
    struct cur c;
    enum err e = p ? seg_file_read(s->file, s->foot.ranges_at, p, n) : ERR_NOMEM;

    if (!e && hash_bytes(p, n, s->head.seed) != s->foot.ranges_sum) {
        e = ERR_CORRUPT;
    }
    c = cur_make(p, e ? 0 : n);
    for (uint32_t i = 0; i < s->foot.n_streams && !e; i++) {
        struct dedup_stream st = {.used_ns = s->head.info.window_ns};
        const uint8_t *id = cur_bytes(&c, sizeof st.host.b);

        st.stream = cur_u64le(&c);
        if (id) {
            memcpy(st.host.b, id, sizeof st.host.b);
        }
        e = c.bad ? ERR_CORRUPT : give_ranges(&c, &st, each, ctx);
    }
    mem_free(p);
    return e;
}

/* -- directory -- */

/* Of a segment that was opened: its file is gone is no word about what is in it. */
static enum err read_opened(const struct seg *s, uint64_t at, void *p, size_t n)
{
    enum err e = seg_file_read(s->file, at, p, n);

    return e == ERR_NOTFOUND ? ERR_IO : e;
}

static bool entries_fit(const struct seg *s, const uint8_t *p, uint32_t count)
{
    uint64_t begin = seg_format_head_bytes(s->head.info.n_windows);

    for (uint32_t i = 0; i < count; i++, p += SEG_ENTRY_BYTES) {
        uint32_t host = cur_at32le(p), length = cur_at32le(p + 4);
        uint64_t at = cur_at64le(p + 8);

        if (host >= s->foot.n_hosts || (i > 0 && host <= cur_at32le(p - SEG_ENTRY_BYTES)) ||
            length > SEG_VALUE_MAX || at < begin || at > s->end ||
            s->end - at < (uint64_t)length + SEG_RECORD_BYTES) {
            return false;
        }
    }
    return true;
}

/* Takes over the entries at p unless they are damaged or there already. */
static enum err group_set(const struct seg *s, struct seg_group *g, const uint8_t *p)
{
    size_t n = (size_t)g->count * SEG_ENTRY_BYTES;
    uint8_t *none = NULL, *copy;

    if (atomic_load(&g->entries)) {
        return ERR_OK;
    }
    if (hash_bytes(p, n, s->head.seed) != g->sum || !entries_fit(s, p, g->count)) {
        return ERR_CORRUPT;
    }
    copy = mem_dup(p, n);
    if (!copy) {
        return ERR_NOMEM;
    }
    if (atomic_compare_exchange_strong(&g->entries, &none, copy)) {
        atomic_fetch_add(s->memory, n);
    } else { /* another reader was faster */
        mem_free(copy);
    }
    return ERR_OK;
}

/* Groups [g, end) with one read. Of several the damaged ones are left for their readers to find. */
static enum err groups_read(const struct seg *s, size_t g, size_t end)
{
    const struct seg_group *last = &s->groups[end - 1];
    size_t first = s->groups[g].first, n = (last->first + last->count - first) * SEG_ENTRY_BYTES;
    uint8_t *p = mem_alloc(n);
    enum err e = ERR_NOMEM;

    if (p) {
        e = read_opened(s, s->foot.directory_at + first * SEG_ENTRY_BYTES, p, n);
    }
    for (size_t i = g; i < end && !e; i++) {
        e = group_set(s, &s->groups[i], p + (s->groups[i].first - first) * SEG_ENTRY_BYTES);
        if (e == ERR_CORRUPT && end - g > 1) {
            e = ERR_OK;
        }
    }
    mem_free(p);
    return e;
}

enum err seg_groups_load(const struct seg *s, size_t g, size_t end)
{
    enum err e = ERR_OK;

    if ((size_t)s->foot.n_entries * SEG_ENTRY_BYTES <= DIRECTORY_WHOLE && s->foot.n_groups > 1 &&
        g < end && !atomic_load(&s->groups[g].entries)) {
        e = groups_read(s, 0, s->foot.n_groups);
        e = e == ERR_IO ? ERR_OK : e; /* a bad sector: perhaps of others */
    }
    while (g < end && !e) {
        size_t stop = g;
        size_t n = 0;

        while (stop < end && !atomic_load(&s->groups[stop].entries) && (n < LOAD_BYTES)) {
            n += (size_t)s->groups[stop++].count * SEG_ENTRY_BYTES;
        }
        if (stop > g) {
            e = groups_read(s, g, stop);
        }
        g = stop > g ? stop : g + 1;
    }
    return e;
}

size_t seg_group_of(const struct seg *s, struct seg_key key)
{
    uint64_t order = seg_key_order(key) >> 40;
    const struct seg_group *g = s->groups;
    size_t i;

    SEARCH_LOWER(i, s->foot.n_groups,
                 ((uint64_t)g[i].part << 16 | (uint64_t)g[i].metric << 8 | g[i].window) < order);
    return i < s->foot.n_groups && g[i].part == key.part && g[i].metric == key.metric &&
                   g[i].window == key.window
               ? i
               : s->foot.n_groups;
}

/* The entry of a host in entries that are there. */
static const uint8_t *entry_of(const struct seg_group *g, const uint8_t *entries, uint32_t host)
{
    size_t i;

    SEARCH_LOWER(i, g->count, cur_at32le(entries + i * SEG_ENTRY_BYTES) < host);
    entries += i * SEG_ENTRY_BYTES;
    return i < g->count && cur_at32le(entries) == host ? entries : NULL;
}

static enum err entries_of(const struct seg *s, size_t g, const uint8_t **out)
{
    enum err e = ERR_OK;

    *out = atomic_load(&s->groups[g].entries);
    if (!*out) {
        e = seg_groups_load(s, g, g + 1);
        *out = atomic_load(&s->groups[g].entries);
    }
    return e ? e : *out ? ERR_OK : ERR_CORRUPT;
}

enum err seg_find(const struct seg *s, struct seg_key key, struct seg_place *out)
{
    size_t g = seg_group_of(s, key);
    const uint8_t *entry;
    enum err e = g < s->foot.n_groups ? entries_of(s, g, &entry) : ERR_NOTFOUND;

    if (e) {
        return e;
    }
    entry = entry_of(&s->groups[g], entry, key.host);
    if (!entry) {
        return ERR_NOTFOUND;
    }
    *out = (struct seg_place){cur_at64le(entry + 8), cur_at32le(entry + 4)};
    return ERR_OK;
}

size_t seg_values(const struct seg *s)
{
    return s->foot.n_entries;
}

enum err seg_load_keys(const struct seg *s)
{
    enum err e = seg_groups_load(s, 0, s->foot.n_groups);

    for (uint32_t g = 0; g < s->foot.n_groups && !e; g++) {
        e = atomic_load(&s->groups[g].entries) ? ERR_OK : ERR_CORRUPT;
    }
    return e;
}

struct seg_key seg_key_at(const struct seg *s, size_t i, uint32_t *length)
{
    const struct seg_group *g;
    const uint8_t *p;
    size_t at;

    SEARCH_LOWER(at, s->foot.n_groups, s->groups[at].first <= i);
    at -= at > 0; /* the last group that begins at i or before */
    *length = 0;
    if (i >= s->foot.n_entries || entries_of(s, at, &p) != ERR_OK) {
        return (struct seg_key){0};
    }
    g = &s->groups[at];
    p += (i - g->first) * SEG_ENTRY_BYTES;
    *length = cur_at32le(p + 4);
    return (struct seg_key){g->part, g->metric, g->window, cur_at32le(p)};
}

/* -- values -- */

bool seg_value_is(const struct seg *s, const uint8_t *p, struct seg_key key, uint32_t length)
{
    struct seg_record r;

    return seg_format_record_parse(&r, p, SEG_RECORD_BYTES) && r.length == length &&
           seg_key_order(r.key) == seg_key_order(key) &&
           seg_format_record_sound(&r, p, s->head.seed);
}

enum err seg_read(const struct seg *s, struct arena *memory, struct seg_key key, const uint8_t **p,
                  size_t *n)
{
    struct seg_place place;
    uint8_t *bytes;
    enum err e = seg_find(s, key, &place);

    if (e) {
        return e;
    }
    bytes = arena_alloc(memory, SEG_RECORD_BYTES + (size_t)place.length);
    if (!bytes) {
        return memory->used + place.length > memory->max_bytes ? ERR_FULL : ERR_NOMEM;
    }
    e = read_opened(s, place.at, bytes, SEG_RECORD_BYTES + (size_t)place.length);
    if (!e && !seg_value_is(s, bytes, key, place.length)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *p = bytes + SEG_RECORD_BYTES;
        *n = place.length;
    }
    return e;
}

/* One of several values wanted. */
struct want {
    uint64_t at;
    uint32_t length;
    size_t i; /* of the key */
};

static int by_at(const void *a, const void *b)
{
    const struct want *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

/* Loads the groups of keys from i on that lie side by side. */
static enum err load_ahead(const struct seg *s, const struct seg_key *keys, size_t i, size_t n)
{
    size_t g = seg_group_of(s, keys[i]), end = g;
    size_t bytes = 0;
    enum err e;

    if (g == s->foot.n_groups || atomic_load(&s->groups[g].entries)) {
        return ERR_OK;
    }
    for (; i < n && bytes < LOAD_BYTES; i++) {
        size_t next = seg_group_of(s, keys[i]);

        if (next == end && next < s->foot.n_groups) {
            bytes += (size_t)s->groups[end++].count * SEG_ENTRY_BYTES;
        } else if (next != s->foot.n_groups && next + 1 != end) {
            break;
        }
    }
    e = seg_groups_load(s, g, end);
    return e == ERR_CORRUPT ? ERR_OK : e; /* found again where it is used */
}

static enum err find_all(const struct seg *s, const struct seg_key *keys, size_t n,
                         const uint8_t **p, size_t *lengths, struct want *wants, size_t *n_wants)
{
    for (size_t i = 0; i < n; i++) {
        struct seg_place place;
        enum err e = load_ahead(s, keys, i, n);

        p[i] = NULL;
        lengths[i] = 0;
        if (!e) {
            e = seg_find(s, keys[i], &place);
        }
        if (!e) {
            wants[(*n_wants)++] = (struct want){place.at, place.length, i};
        } else if (e == ERR_CORRUPT) {
            lengths[i] = SEG_DAMAGED;
        } else if (e != ERR_NOTFOUND) {
            return e;
        }
    }
    return ERR_OK;
}

static uint64_t end_of(const struct want *w)
{
    return w->at + SEG_RECORD_BYTES + w->length;
}

/* With one read, or where that fails value by value: a bad sector may lie between them. */
static enum err read_values(const struct seg *s, uint8_t *buf, size_t bytes, const struct want *w,
                            size_t n)
{
    enum err e = read_opened(s, w[0].at, buf, bytes);

    if (e != ERR_IO || n == 1) {
        return e;
    }
    e = ERR_OK;
    for (size_t k = 0; k < n && !e; k++) {
        e = read_opened(s, w[k].at, buf + (w[k].at - w[0].at), (size_t)(end_of(&w[k]) - w[k].at));
    }
    return e;
}

/* Reads wants [0, n), which lie close together. */
static enum err read_run(const struct seg *s, struct arena *memory, const struct seg_key *keys,
                         const struct want *w, size_t n, uint64_t end, const uint8_t **p,
                         size_t *lengths)
{
    size_t bytes = (size_t)(end - w[0].at);
    uint8_t *buf = arena_alloc(memory, bytes);
    enum err e;

    if (!buf) {
        return memory->used + bytes > memory->max_bytes ? ERR_FULL : ERR_NOMEM;
    }
    e = read_values(s, buf, bytes, w, n);
    if (e && e != ERR_CORRUPT) {
        return e;
    }
    for (size_t k = 0; k < n; k++) {
        const uint8_t *at = buf + (w[k].at - w[0].at);

        if (!e && seg_value_is(s, at, keys[w[k].i], w[k].length)) {
            p[w[k].i] = at + SEG_RECORD_BYTES;
            lengths[w[k].i] = w[k].length;
        } else {
            lengths[w[k].i] = SEG_DAMAGED;
        }
    }
    return ERR_OK;
}

enum err seg_read_many(const struct seg *s, struct arena *memory, const struct seg_key *keys,
                       size_t n, const uint8_t **p, size_t *lengths)
{
    struct want *w = mem_array(n, sizeof *w);
    size_t n_wants = 0;
    enum err e = w ? find_all(s, keys, n, p, lengths, w, &n_wants) : ERR_NOMEM;

    if (!e && n_wants > 1) {
        qsort(w, n_wants, sizeof *w, by_at);
    }
    for (size_t i = 0, stop; i < n_wants && !e; i = stop) {
        uint64_t end = end_of(&w[i]);

        for (stop = i + 1; stop < n_wants && w[stop].at <= end + GAP_BYTES &&
                           (end_of(&w[stop]) <= end || end_of(&w[stop]) - w[i].at <= RUN_BYTES);
             stop++) {
            end = end_of(&w[stop]) > end ? end_of(&w[stop]) : end;
        }
        e = read_run(s, memory, keys, w + i, stop - i, end, p, lengths);
    }
    mem_free(w);
    return e;
}
