#include "collector/clickhouse/ch_view_page.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

#define STRINGS_MAX ((size_t)64 << 20) /* the index of one block's strings */
#define NEAR_NS     (60 * CLK_S)       /* windows so close to each other are asked for together */
#define SIZES       32u                /* kinds of statements whose replies are known by size */
#define BYTES_MOST  ((size_t)48 << 20)
#define CORE_LEAST  (60 * CLK_S)
#define NOWHERE     SIZE_MAX
#define SQL_KEY_MAX ((size_t)256 << 10)

/* A host that is expected, and the windows that are read with its own. */
struct expected {
    size_t host;
    int64_t since_ns, until_ns;
    size_t cluster;
};

struct cluster {
    int64_t since_ns[2], until_ns[2]; /* least, most */
    size_t n;
};

struct page_block {
    struct arena memory; /* columns, and what they point to besides the reply */
    struct ch_in_column *columns;
    size_t n_columns, n_rows, first; /* first: number of its first row in the page */
};

struct page_host {
    struct uuid id;
    size_t host, first, n; /* rows */
};

struct page {
    struct buf key, reply;
    size_t n_bounds;
    int64_t bounds[CH_VIEW_ASK_BOUNDS];
    size_t n_blocks, cap_blocks, n_rows;
    struct page_block *blocks;
    size_t n_hosts;
    struct page_host *hosts; /* by id */
    size_t bytes;
    unsigned pins;
    uint64_t used;
};

struct ch_view_pages {
    size_t n, n_clusters;
    struct expected *list;
    size_t *place; /* of each host in the list; NOWHERE */
    struct cluster *clusters;
    struct page *pages[CH_VIEW_PAGES];
    uint64_t clock;
    struct {
        uint64_t key;
        size_t hosts; /* of a reply that fitted */
    } sizes[SIZES];
};

/* -- who is expected -- */

static int by_window(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;

    if (x->until_ns != y->until_ns) {
        return x->until_ns < y->until_ns ? -1 : 1;
    }
    if (x->since_ns != y->since_ns) {
        return x->since_ns < y->since_ns ? -1 : 1;
    }
    return x->host < y->host ? -1 : x->host > y->host;
}

static int by_place(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;

    return x->host < y->host ? -1 : x->host > y->host;
}

static bool is_near(const struct cluster *c, const struct expected *x)
{
    return clk_sub(x->until_ns, c->until_ns[0]) <= NEAR_NS &&
           clk_sub(x->since_ns, c->since_ns[0]) <= NEAR_NS &&
           clk_sub(c->since_ns[1], x->since_ns) <= NEAR_NS;
}

/* Windows that begin and end about at the same time, side by side in the order of their ends. */
static void clusters_make(struct ch_view_pages *p)
{
    qsort(p->list, p->n, sizeof *p->list, by_window);
    for (size_t i = 0; i < p->n; i++) {
        struct expected *x = &p->list[i];
        struct cluster *c = p->n_clusters ? &p->clusters[p->n_clusters - 1] : NULL;

        if (!c || !is_near(c, x)) {
            c = &p->clusters[p->n_clusters++];
            *c = (struct cluster){.since_ns = {x->since_ns, x->since_ns},
                                  .until_ns = {x->until_ns, x->until_ns}};
        }
        c->since_ns[0] = x->since_ns < c->since_ns[0] ? x->since_ns : c->since_ns[0];
        c->since_ns[1] = x->since_ns > c->since_ns[1] ? x->since_ns : c->since_ns[1];
        c->until_ns[1] = x->until_ns;
        c->n++;
        x->cluster = p->n_clusters - 1;
    }
    qsort(p->list, p->n, sizeof *p->list, by_place); /* as they are asked */
}

static void expected_forget(struct ch_view_pages *p)
{
    mem_free(p->list);
    mem_free(p->clusters);
    mem_free(p->place);
    p->list = NULL;
    p->clusters = NULL;
    p->place = NULL;
    p->n = p->n_clusters = 0;
}

/* Without memory nobody is expected. */
void ch_view_page_expect(const struct store_view *view, const struct store_expected *list, size_t n)
{
    struct ch_view *v = ch_view_ask_of(view);
    struct ch_view_pages *p = v->pages;

    expected_forget(p);
    if (n < 2) {
        return;
    }
    p->list = mem_array(n, sizeof *p->list);
    p->clusters = mem_array(n, sizeof *p->clusters);
    p->place = mem_array(v->n + 1, sizeof *p->place);
    if (!p->list || !p->clusters || !p->place) {
        expected_forget(p);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        p->place[i] = NOWHERE;
    }
    for (size_t i = 0; i < n; i++) { /* each once */
        if (p->place[list[i].host] == NOWHERE) {
            p->place[list[i].host] = 0;
            p->list[p->n++] =
                (struct expected){list[i].host, list[i].since_ns, list[i].until_ns, 0};
        }
    }
    clusters_make(p);
    for (size_t i = 0; i < p->n; i++) {
        p->place[p->list[i].host] = i;
    }
}

static const struct expected *expected_of(const struct ch_view *v, size_t host)
{
    const struct ch_view_pages *p = v->pages;

    return p->n && p->place[host] != NOWHERE ? &p->list[p->place[host]] : NULL;
}

bool ch_view_page_many(const struct ch_view *v, size_t host)
{
    const struct expected *x = expected_of(v, host);

    return x && v->pages->clusters[x->cluster].n > 1;
}

bool ch_view_page_core(const struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                       int64_t unit_ns, int64_t *begin_ns, int64_t *end_ns)
{
    const struct expected *x = expected_of(v, host);
    int64_t begin = since_ns, end = until_ns;

    if (x) { /* what is no multiple lies elsewhere for each of them */
        const struct cluster *c = &v->pages->clusters[x->cluster];

        begin = clk_add(begin, begin % unit_ns ? clk_sub(c->since_ns[1], x->since_ns) : 0);
        end = clk_sub(end, end % unit_ns ? clk_sub(x->until_ns, c->until_ns[0]) : 0);
    }
    if (begin <= 0 || end > INT64_MAX - unit_ns) {
        return false;
    }
    begin += unit_ns - 1;
    *begin_ns = begin - begin % unit_ns;
    *end_ns = end - end % unit_ns;
    return *end_ns >= *begin_ns && clk_sub(*end_ns, *begin_ns) >= CORE_LEAST;
}

/* -- pages -- */

static void page_free(struct page *p)
{
    if (!p) {
        return;
    }
    for (size_t i = 0; i < p->n_blocks; i++) {
        arena_fini(&p->blocks[i].memory);
    }
    mem_free(p->blocks);
    mem_free(p->hosts);
    buf_fini(&p->key);
    buf_fini(&p->reply);
    mem_free(p);
}

enum err ch_view_page_init(struct ch_view *v)
{
    v->pages = mem_zalloc(sizeof *v->pages);
    return v->pages ? ERR_OK : ERR_NOMEM;
}

void ch_view_page_fini(struct ch_view *v)
{
    if (v->pages) {
        for (size_t i = 0; i < CH_VIEW_PAGES; i++) {
            page_free(v->pages->pages[i]);
        }
        expected_forget(v->pages);
        mem_free(v->pages);
    }
}

static void key_put(struct buf *key, const struct ch_view_get *g)
{
    buf_printf(key, "%s|%s|%s|%s", g->select, g->from, g->tail ? g->tail : "", g->order);
    for (size_t i = 0; i < g->n_bounds; i++) {
        buf_printf(key, "|%s%c", g->bounds[i].column, g->bounds[i].from ? '>' : '<');
    }
}

static int by_id(const void *a, const void *b)
{
    return memcmp(((const struct page_host *)a)->id.b, ((const struct page_host *)b)->id.b,
                  sizeof(struct uuid));
}

/* NULL: it is not of them. */
static struct page_host *page_host(const struct page *p, const struct uuid *id)
{
    const struct page_host key = {.id = *id};

    return p->n_hosts ? bsearch(&key, p->hosts, p->n_hosts, sizeof key, by_id) : NULL;
}

static bool page_covers(const struct ch_view *v, const struct page *p, size_t host,
                        const struct buf *key, const struct ch_view_get *g)
{
    if (p->key.n != key->n || memcmp(p->key.p, key->p, key->n) != 0) {
        return false;
    }
    for (size_t i = 0; i < g->n_bounds; i++) {
        const struct ch_view_bound *b = &g->bounds[i];

        if (b->from ? p->bounds[i] > b->ns : p->bounds[i] < b->ns) {
            return false;
        }
    }
    return page_host(p, &v->hosts[host].id) != NULL;
}

static struct page *page_find(const struct ch_view *v, size_t host, const struct buf *key,
                              const struct ch_view_get *g)
{
    for (size_t i = 0; i < CH_VIEW_PAGES; i++) {
        struct page *p = v->pages->pages[i];

        if (p && page_covers(v, p, host, key, g)) {
            return p;
        }
    }
    return NULL;
}

/* A place for a further one, after those that nobody reads have gone, the oldest first, until there
 * is room. NULL: all are being read. */
static struct page **page_place(struct ch_view_pages *all)
{
    for (;;) {
        struct page **free_one = NULL, **oldest = NULL;
        size_t bytes = 0;

        for (size_t i = 0; i < CH_VIEW_PAGES; i++) {
            struct page **p = &all->pages[i];

            free_one = *p ? free_one : p;
            bytes += *p ? (*p)->bytes : 0;
            if (*p && !(*p)->pins && (!oldest || (*p)->used < (*oldest)->used)) {
                oldest = p;
            }
        }
        if (free_one && (bytes <= CH_VIEW_PAGES_BYTES || !oldest)) {
            return free_one;
        }
        if (!oldest) {
            return NULL;
        }
        page_free(*oldest);
        *oldest = NULL;
    }
}

/* -- statements -- */

static void hosts_put(struct ch_view *v, const struct page_host *hosts, size_t n)
{
    char text[UUID_TEXT];

    buf_put_str(&v->sql, n == 1 ? "host_id = " : "host_id IN (");
    for (size_t i = 0; i < n; i++) {
        buf_printf(&v->sql, "%stoUUID('%s')", i ? ", " : "", uuid_format(text, &hosts[i].id));
    }
    buf_put_str(&v->sql, n == 1 ? "" : ")");
}

static void text_put(struct ch_view *v, const char *text, const struct page_host *hosts, size_t n)
{
    for (const char *s = text ? text : ""; *s; s++) {
        if (*s == '@') {
            hosts_put(v, hosts, n);
        } else {
            buf_put_u8(&v->sql, (uint8_t)*s);
        }
    }
}

/* page: NULL: of one host, exactly. */
static void statement_put(struct ch_view *v, const struct ch_view_get *g, const struct page *page,
                          const struct page_host *hosts, size_t n)
{
    buf_printf(ch_view_ask_begin(v), "SELECT %s", g->select);
    if (page) {
        buf_put_str(&v->sql, ", host_id");
        for (size_t i = 0; i < g->n_bounds && !g->loose; i++) {
            buf_put_str(&v->sql, ", ");
            ch_schema_ns(&v->sql, v->conf.dialect, g->bounds[i].column);
            buf_printf(&v->sql, " AS bound%zu", i);
        }
    }
    text_put(v, g->from, hosts, n);
    for (size_t i = 0; i < g->n_bounds; i++) {
        ch_view_ask_when(v, g->bounds[i].column, g->bounds[i].from ? ">=" : "<",
                         page ? page->bounds[i] : g->bounds[i].ns);
    }
    text_put(v, g->tail, hosts, n);
    if (page || g->order[0]) {
        buf_printf(&v->sql, " ORDER BY %s%s%s", page ? "host_id" : "",
                   page && g->order[0] ? ", " : "", g->order);
    }
}

/* -- reading one -- */

static enum err block_keep(struct page *p, struct ch_in *in)
{
    struct page_block *b;
    enum err e = VEC_ROOM(&p->blocks, &p->cap_blocks, p->n_blocks + 1, SIZE_MAX / 2 / sizeof *b);

    if (e) {
        return e;
    }
    b = &p->blocks[p->n_blocks];
    *b = (struct page_block){.n_columns = in->n_columns, .n_rows = in->n_rows, .first = p->n_rows};
    b->columns = arena_dup(&in->memory, in->columns, in->n_columns * sizeof *in->columns);
    if (!b->columns) {
        return arena_refused(&in->memory, in->n_columns * sizeof *in->columns);
    }
    b->memory = in->memory;
    arena_init(&in->memory, STRINGS_MAX);
    p->n_blocks++;
    p->n_rows += in->n_rows;
    p->bytes += b->memory.used;
    return ERR_OK;
}

/* Which rows are whose: those of a host stand side by side. */
static enum err block_index(struct page *p, const struct ch_in *in, size_t at,
                            struct page_host **last)
{
    for (size_t i = 0; i < in->n_rows; i++) {
        struct uuid id = ch_native_get_uuid(&in->columns[at], i);
        struct page_host *h = *last;

        if (!h || memcmp(h->id.b, id.b, sizeof id.b) != 0) {
            h = page_host(p, &id);
            if (!h || h->n) {
                return ERR_CORRUPT;
            }
            h->first = p->n_rows + i;
            *last = h;
        }
        h->n++;
    }
    return ERR_OK;
}

static enum err page_read(struct ch_view *v, struct page *p, const struct ch_view_get *g)
{
    size_t columns = g->columns + 1 + (g->loose ? 0 : g->n_bounds);
    struct page_host *last = NULL;
    struct ch_in *in;
    enum err e = ch_view_ask(v, &p->reply, g->deadline);

    if (e) {
        return e;
    }
    in = mem_alloc(sizeof *in);
    if (!in) {
        return ERR_NOMEM;
    }
    p->bytes = p->reply.n;
    ch_native_in_init(in, p->reply.p, p->reply.n, STRINGS_MAX);
    while (!e && !(e = ch_native_next(in))) {
        e = in->n_columns == columns ? block_index(p, in, g->columns, &last) : ERR_CORRUPT;
        e = e ? e : block_keep(p, in);
    }
    ch_native_in_fini(in);
    mem_free(in);
    return e == ERR_END ? ERR_OK : e == ERR_UNSUPPORTED ? ERR_CORRUPT : e;
}

static uint64_t key_hash(const struct buf *key)
{
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < key->n; i++) {
        h = (h ^ key->p[i]) * 0x100000001b3;
    }
    return h;
}

/* How many hosts a reply of that kind had room for lately. */
static size_t *size_of(struct ch_view_pages *all, const struct buf *key)
{
    uint64_t hash = key_hash(key);
    size_t at = (size_t)(hash % SIZES);

    if (all->sizes[at].key != hash) {
        all->sizes[at].key = hash;
        all->sizes[at].hosts = CH_VIEW_AT_ONCE;
    }
    return &all->sizes[at].hosts;
}

/* This host and those of its cluster behind it, at most n. */
static enum err page_hosts(const struct ch_view *v, struct page *p, size_t host, size_t n)
{
    const struct ch_view_pages *all = v->pages;
    size_t cluster = all->list[all->place[host]].cluster;

    p->hosts = mem_array(n, sizeof *p->hosts);
    if (!p->hosts) {
        return ERR_NOMEM;
    }
    for (size_t i = all->place[host]; i < all->n && p->n_hosts < n; i++) {
        const struct expected *x = &all->list[i];

        if (x->cluster == cluster) {
            p->hosts[p->n_hosts++] =
                (struct page_host){.id = v->hosts[x->host].id, .host = x->host};
        }
    }
    qsort(p->hosts, p->n_hosts, sizeof *p->hosts, by_id);
    return ERR_OK;
}

/* As far around each bound as the windows of the cluster lie apart. */
static void page_bounds(const struct ch_view *v, struct page *p, size_t host,
                        const struct ch_view_get *g)
{
    const struct cluster *c = &v->pages->clusters[expected_of(v, host)->cluster];
    int64_t since_ns = clk_sub(c->since_ns[1], c->since_ns[0]),
            until_ns = clk_sub(c->until_ns[1], c->until_ns[0]),
            apart_ns = since_ns > until_ns ? since_ns : until_ns;

    p->n_bounds = g->n_bounds;
    for (size_t i = 0; i < g->n_bounds; i++) {
        const struct ch_view_bound *b = &g->bounds[i];

        p->bounds[i] = b->from ? clk_sub(clk_sub(b->ns, b->slack_ns), apart_ns)
                               : clk_add(clk_add(b->ns, b->slack_ns), apart_ns);
    }
}

/* A page of at most `most` hosts, this one first; *n becomes how many they are. */
static enum err page_make(struct ch_view *v, size_t host, const struct ch_view_get *g,
                          const struct buf *key, size_t *n, struct page **out)
{
    struct page *p = mem_zalloc(sizeof *p);
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    buf_init(&p->key, SQL_KEY_MAX);
    buf_init(&p->reply, CH_VIEW_REPLY_MAX);
    buf_put(&p->key, key->p, key->n);
    page_bounds(v, p, host, g);
    e = p->key.bad ? p->key.bad : page_hosts(v, p, host, *n);
    *n = p->n_hosts;
    if (!e) {
        statement_put(v, g, p, p->hosts, p->n_hosts);
        e = page_read(v, p, g);
    }
    if (e) {
        page_free(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

/* NULL in *out: it has to be asked alone. */
static enum err page_fetch(struct ch_view *v, size_t host, const struct ch_view_get *g,
                           const struct buf *key, struct page **out)
{
    size_t *fits = size_of(v->pages, key);
    enum err e = ERR_OK;

    *out = NULL;
    while (!e && !*out && *fits > 1) {
        struct page **place = page_place(v->pages);
        size_t n = g->bytes_each ? BYTES_MOST / g->bytes_each : *fits;

        n = n < *fits ? n : *fits;
        if (!place || n < 2) {
            return ERR_OK;
        }
        e = page_make(v, host, g, key, &n, out);
        if (!e) {
            *place = *out;
        } else if (e == ERR_FULL ? v->too_large : ch_view_ask_is_hole(e) && !v->down) {
            *fits = n / 2; /* also when the server has no memory for so much */
            e = ERR_OK;
        }
    }
    return e;
}

static enum err page_give(struct page *p, const struct page_host *h, const struct ch_view_get *g,
                          enum err (*row)(void *ctx, const struct ch_in *in, size_t i), void *ctx)
{
    struct ch_in *in = mem_alloc(sizeof *in);
    size_t at, block = SIZE_MAX;
    enum err e = in ? ERR_OK : ERR_NOMEM;

    SEARCH_LOWER(at, p->n_blocks, p->blocks[at].first + p->blocks[at].n_rows <= h->first);
    for (size_t i = h->first; !e && i < h->first + h->n; i++) {
        bool inside = true;
        size_t k;

        at += i >= p->blocks[at].first + p->blocks[at].n_rows;
        k = i - p->blocks[at].first;
        if (block != at) {
            block = at;
            in->n_columns = p->blocks[at].n_columns;
            in->n_rows = p->blocks[at].n_rows;
            memcpy(in->columns, p->blocks[at].columns, in->n_columns * sizeof *in->columns);
        }
        for (size_t b = 0; b < g->n_bounds && !g->loose && inside; b++) {
            int64_t ns = (int64_t)ch_native_get(&in->columns[g->columns + 1 + b], k);

            inside = g->bounds[b].from ? ns >= g->bounds[b].ns : ns < g->bounds[b].ns;
        }
        e = inside ? row(ctx, in, k) : ERR_OK;
    }
    mem_free(in);
    return e == ERR_END ? ERR_OK : e;
}

enum err ch_view_page_one(struct ch_view *v, size_t host, const struct ch_view_get *g,
                          enum err (*row)(void *ctx, const struct ch_in *in, size_t i), void *ctx)
{
    const struct page_host one = {.id = v->hosts[host].id, .host = host};
    struct buf reply;
    enum err e;

    buf_init(&reply, CH_VIEW_REPLY_MAX);
    statement_put(v, g, NULL, &one, 1);
    e = ch_view_ask_rows(v, &reply, g->columns, g->deadline, row, ctx);
    buf_fini(&reply);
    return e;
}

enum err ch_view_page_get(struct ch_view *v, size_t host, const struct ch_view_get *g,
                          enum err (*row)(void *ctx, const struct ch_in *in, size_t i), void *ctx)
{
    struct page *p = NULL;
    struct buf key;
    enum err e = ERR_OK;

    assert(g->n_bounds <= CH_VIEW_ASK_BOUNDS);
    if (!ch_view_page_many(v, host)) {
        return ch_view_page_one(v, host, g, row, ctx);
    }
    buf_init(&key, SQL_KEY_MAX);
    key_put(&key, g);
    e = key.bad;
    if (!e) {
        p = page_find(v, host, &key, g);
        e = p ? ERR_OK : page_fetch(v, host, g, &key, &p);
    }
    if (!e && p) { /* what a row leads to may ask for further pages */
        p->used = ++v->pages->clock;
        p->pins++;
        e = page_give(p, page_host(p, &v->hosts[host].id), g, row, ctx);
        p->pins--;
    } else if (!e) {
        e = ch_view_page_one(v, host, g, row, ctx);
    }
    buf_fini(&key);
    return e;
}
