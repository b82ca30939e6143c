/* One by one an instance costs a look into every day of the range, the newest first; many of one
 * host are cheaper all at once. So after BULK_AFTER of them everything that the catalogue knows of
 * the host in the range is taken in, and what is not among it is not known.
 *
 * That is what is asked of all who ever lived, to choose among them, so it has to be small: path
 * and command line stay out of it, and names and users repeat. Some 200 bytes an instance are
 * left. When BRIEFS_MEMORY is full, other hosts' are given up; when one host fills it alone, some
 * 200,000 instances, the others of it are looked for one by one and not remembered. That is more
 * than a query's table holds.
 *
 * The rows that are shown are looked up whole, with those of its page. Texts last until the view
 * closes. */
#include "collector/store/read/store_lookup.h"

#include "collector/store/read/store_unread.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

#define BULK_AFTER 32u
#define SLOTS_MAX  (1u << 20)
#define TEXTS      256u /* remembered as the last of their kind; a power of two */

struct known {
    struct known *next; /* in the slot */
    struct uuid host, boot;
    struct proc_id id; /* as it was asked for */
    bool is_known;     /* else asked for, in vain */
    bool whole;        /* there is no more to know */
    struct proc_info info;
};

struct table {
    struct arena memory;
    struct known **slots;
    size_t n_slots, n;
};

struct asked_host {
    struct asked_host *next;
    struct uuid host;
    unsigned asked;
    bool all;   /* taken in */
    bool large; /* there is no room for all, nor will there be */
};

struct store_lookup {
    struct table briefs, wholes;
    struct arena texts;
    struct str last[TEXTS]; /* by hash */
    int64_t since_ns, until_ns;
    struct asked_host *hosts;
    enum err unread; /* a day's, or for want of room, since it was asked for */
};

enum err store_lookup_create(struct store_lookup **out)
{
    struct store_lookup *l = mem_zalloc(sizeof *l);

    if (!l) {
        return ERR_NOMEM;
    }
    arena_init(&l->briefs.memory, LOOKUP_BRIEFS);
    arena_init(&l->wholes.memory, LOOKUP_WHOLES);
    arena_init(&l->texts, LOOKUP_TEXTS);
    l->until_ns = INT64_MAX;
    *out = l;
    return ERR_OK;
}

static void table_fini(struct table *t)
{
    arena_fini(&t->memory);
    mem_free(t->slots);
}

void store_lookup_destroy(struct store_lookup *l)
{
    if (l) {
        table_fini(&l->briefs);
        table_fini(&l->wholes);
        arena_fini(&l->texts);
        mem_free(l);
    }
}

static void forget_hosts(struct store_lookup *l)
{
    for (struct asked_host *h = l->hosts; h; h = h->next) {
        h->all = false;
        h->asked = 0;
    }
}

static void table_empty(struct table *t)
{
    arena_reset(&t->memory);
    for (size_t i = 0; i < t->n_slots; i++) {
        t->slots[i] = NULL;
    }
    t->n = 0;
}

/* What was asked for in vain may be in another range. */
void store_lookup_range(struct store_lookup *l, int64_t since_ns, int64_t until_ns)
{
    if (l->since_ns == since_ns && l->until_ns == until_ns) {
        return;
    }
    l->since_ns = since_ns;
    l->until_ns = until_ns;
    table_empty(&l->briefs);
    table_empty(&l->wholes);
    forget_hosts(l);
    for (struct asked_host *h = l->hosts; h; h = h->next) {
        h->large = false;
    }
}

/* -- what was asked -- */

static struct known **slot_of(const struct table *t, const struct uuid *host,
                              const struct uuid *boot, struct proc_id id)
{
    struct {
        struct uuid host, boot;
        uint64_t pid, start;
    } key = {*host, *boot, id.pid, id.start};

    return &t->slots[hash_bytes(&key, sizeof key, 0) & (t->n_slots - 1)];
}

static const struct known *find(const struct table *t, const struct uuid *host,
                                const struct uuid *boot, struct proc_id id)
{
    const struct known *k = t->n_slots ? *slot_of(t, host, boot, id) : NULL;

    while (k && (!proc_id_eq(k->id, id) || memcmp(&k->host, host, sizeof *host) != 0 ||
                 memcmp(&k->boot, boot, sizeof *boot) != 0)) {
        k = k->next;
    }
    return k;
}

static bool grow(struct table *t)
{
    size_t n = t->n_slots ? t->n_slots * 4 : 256, old_n = t->n_slots;
    struct known **old = t->slots, **slots = mem_array(n, sizeof(struct known *));

    if (!slots) {
        return false;
    }
    t->slots = slots;
    t->n_slots = n;
    for (size_t i = 0; i < old_n; i++) {
        for (struct known *k = old[i], *next; k; k = next) {
            struct known **at = slot_of(t, &k->host, &k->boot, k->id);

            next = k->next;
            k->next = *at;
            *at = k;
        }
    }
    mem_free(old);
    return true;
}

/* Text that lasts; the same again and again takes room once. NULL: there is none left. */
static const char *keep_text(struct store_lookup *l, struct str s)
{
    struct str *last = &l->last[hash_bytes(s.p, s.n, 0) & (TEXTS - 1)];
    const char *p;

    if (last->p && str_eq(*last, s)) {
        return last->p;
    }
    p = arena_dup(&l->texts, s.p, s.n);
    if (p) {
        *last = (struct str){p, s.n};
    }
    return p;
}

/* Makes its texts the lookup's own. False: for want of room nothing is known. */
static bool keep_texts(struct store_lookup *l, struct proc_info *info, bool whole)
{
    struct str *texts[] = {&info->name, &info->image, &info->user, &info->command_line};

    if (!whole) {
        info->image = (struct str){"", 0};
        info->command_line = (struct str){"", 0};
        info->have &= ~(uint32_t)(INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        texts[i]->p = texts[i]->n ? keep_text(l, *texts[i]) : "";
        if (!texts[i]->p) {
            l->unread = arena_refused(&l->texts, texts[i]->n);
            return false;
        }
    }
    return true;
}

/* False: without memory it is not remembered. info  NULL: nothing is known */
static bool add(struct table *t, const struct uuid *host, const struct uuid *boot,
                struct proc_id id, const struct proc_info *info, bool whole)
{
    struct known *k, **at;
    bool room = t->n < t->n_slots || t->n_slots >= SLOTS_MAX || grow(t);

    k = room ? arena_alloc(&t->memory, sizeof *k) : NULL;
    if (!k) {
        return false;
    }
    *k = (struct known){.host = *host, .boot = *boot, .id = id, .whole = whole};
    if (info) {
        k->is_known = true;
        k->info = *info;
    }
    at = slot_of(t, host, boot, id);
    k->next = *at;
    *at = k;
    t->n++;
    return true;
}

/* -- the catalogue -- */

struct answer {
    struct store_lookup *l;
    const struct uuid *host;
    bool whole, found;
    bool refused; /* something was there, but no room for it */
    struct proc_info info;
};

static enum err take_one(void *ctx, const struct uuid *boot, const struct proc_info *info,
                         int64_t seen_ns)
{
    struct answer *a = ctx;

    (void)boot;
    (void)seen_ns;
    a->info = *info; /* the latest comes last */
    a->found = keep_texts(a->l, &a->info, a->whole);
    a->refused = !a->found;
    return ERR_OK;
}

static enum err take_any(void *ctx, const struct uuid *boot, const struct proc_info *info,
                         int64_t seen_ns)
{
    struct answer *a = ctx;
    struct proc_info brief = *info;

    (void)seen_ns;
    if (find(&a->l->briefs, a->host, boot, info->id)) {
        return ERR_OK;
    }
    return keep_texts(a->l, &brief, false) &&
                   add(&a->l->briefs, a->host, boot, info->id, &brief, false)
               ? ERR_OK
               : ERR_FULL;
}

static enum err take_wanted(void *ctx, const struct uuid *boot, const struct proc_info *info,
                            int64_t seen_ns)
{
    struct answer *a = ctx;
    struct proc_info whole = *info;

    (void)seen_ns;
    if (!keep_texts(a->l, &whole, true) ||
        !add(&a->l->wholes, a->host, boot, info->id, &whole, true)) {
        a->refused = true;
    }
    return ERR_OK;
}

static struct asked_host *host_of(struct store_lookup *l, const struct uuid *host)
{
    struct asked_host *h = l->hosts;

    while (h && memcmp(&h->host, host, sizeof *host) != 0) {
        h = h->next;
    }
    if (!h) {
        h = arena_alloc(&l->texts, sizeof *h);
        if (h) {
            *h = (struct asked_host){.next = l->hosts, .host = *host};
            l->hosts = h;
        }
    }
    return h;
}

/* What an unreadable day would have told is not known, and not asked for again. */
static enum err look(struct store_lookup *l, struct catalogue *c, const struct catalogue_ask *ask,
                     enum err (*each)(void *ctx, const struct uuid *boot,
                                      const struct proc_info *info, int64_t seen_ns),
                     struct answer *a)
{
    enum err e = catalogue_find(c, ask, each, a);

    if (!store_unread_is(e)) {
        return e;
    }
    l->unread = e;
    return ERR_OK;
}

/* All that the catalogue knows of the host, in brief. */
static void bulk(struct store_lookup *l, struct catalogue *c, const struct catalogue_ask *ask,
                 struct asked_host *h)
{
    struct catalogue_ask brief = *ask;
    struct answer a = {.l = l, .host = ask->host};
    enum err e;

    brief.brief = true;
    e = look(l, c, &brief, take_any, &a);
    if (e == ERR_FULL) {
        forget_hosts(l);
        table_empty(&l->briefs);
        e = look(l, c, &brief, take_any, &a);
    }
    h->all = e == ERR_OK;
    h->large = !h->all;
}

/* The latest of a pid is not among them: it is known when it is looked for. */
void store_lookup_want(struct store_lookup *l, struct catalogue *c, const struct uuid *host,
                       const struct proc_key *keys, size_t n)
{
    struct catalogue_ask ask = {.host = host, .since_ns = l->since_ns, .until_ns = l->until_ns};
    struct proc_key *missing = n ? mem_array(n, sizeof *missing) : NULL;
    struct answer a = {.l = l, .host = host};

    for (size_t i = 0; missing && i < n; i++) {
        if (keys[i].id.start && !find(&l->wholes, host, &keys[i].boot, keys[i].id)) {
            missing[ask.n_only++] = keys[i];
        }
    }
    ask.only = missing;
    if (ask.n_only && look(l, c, &ask, take_wanted, &a) == ERR_OK) {
        for (size_t i = 0; i < ask.n_only && !a.refused; i++) {
            if (!find(&l->wholes, host, &missing[i].boot, missing[i].id)) {
                (void)add(&l->wholes, host, &missing[i].boot, missing[i].id, NULL, true);
            }
        }
    }
    mem_free(missing);
}

enum err store_lookup_unread(struct store_lookup *l)
{
    enum err e = l->unread;

    l->unread = ERR_OK;
    return e;
}

static bool tell(const struct known *k, struct proc_info *out)
{
    if (k->is_known) {
        *out = k->info;
    }
    return k->is_known;
}

/* What was told before; NULL: it has to be looked for. */
static const struct known *remembered(const struct store_lookup *l, const struct uuid *host,
                                      const struct uuid *boot, struct proc_id id, bool brief)
{
    const struct known *k = find(&l->wholes, host, boot, id);

    if (!k) {
        k = find(&l->briefs, host, boot, id);
    }
    return k && (brief || k->whole || !k->is_known) ? k : NULL;
}

bool store_lookup_find(struct store_lookup *l, struct catalogue *c, const struct uuid *host,
                       const struct uuid *boot, struct proc_id id, bool brief,
                       struct proc_info *out)
{
    struct catalogue_ask ask = {.host = host, .since_ns = l->since_ns, .until_ns = l->until_ns};
    struct answer a = {.l = l, .host = host, .whole = !brief};
    const struct known *k = remembered(l, host, boot, id, brief);
    struct asked_host *h = k ? NULL : host_of(l, host);

    if (h && brief && !h->all && !h->large && ++h->asked > BULK_AFTER) {
        bulk(l, c, &ask, h);
        k = remembered(l, host, boot, id, brief);
    }
    if (k) {
        return tell(k, out);
    }
    if (h && h->all && id.start && !find(&l->briefs, host, boot, id)) {
        return false;
    }
    ask.boot = boot;
    ask.has_pid = true;
    ask.pid = id.pid;
    ask.start = id.start;
    ask.brief = brief;
    if (look(l, c, &ask, take_one, &a) == ERR_OK && !a.refused) {
        (void)add(brief ? &l->briefs : &l->wholes, host, boot, id, a.found ? &a.info : NULL,
                  !brief);
    }
    if (a.found) {
        *out = a.info;
    }
    return a.found;
}
