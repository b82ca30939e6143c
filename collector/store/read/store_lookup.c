/* One by one an instance costs a look into every day of the range, the newest first; many of one
 * host are cheaper all at once. So after BULK_AFTER of them everything that the catalogue knows of
 * the host in the range is taken in, and what is not among it is not known. */
#include "collector/store/read/store_lookup.h"

#include "collector/store/read/store_unread.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

#define BULK_AFTER 32u
#define SLOTS_MAX  (1u << 20)

struct known {
    struct known *next; /* in the slot */
    struct uuid host, boot;
    struct proc_id id;
    const struct proc_info *info; /* NULL: asked for, not known */
};

struct asked_host {
    struct asked_host *next;
    struct uuid host;
    unsigned asked;
    bool all; /* taken in */
};

struct store_lookup {
    struct arena memory;
    int64_t since_ns, until_ns;
    struct known **slots;
    size_t n_slots, n;
    struct asked_host *hosts;
    enum err unread; /* a day's, since it was asked for */
};

enum err store_lookup_create(struct store_lookup **out)
{
    struct store_lookup *l = mem_zalloc(sizeof *l);

    if (!l) {
        return ERR_NOMEM;
    }
    arena_init(&l->memory, LOOKUP_MEMORY);
    l->until_ns = INT64_MAX;
    *out = l;
    return ERR_OK;
}

void store_lookup_destroy(struct store_lookup *l)
{
    if (l) {
        arena_fini(&l->memory);
        mem_free(l->slots);
        mem_free(l);
    }
}

void store_lookup_range(struct store_lookup *l, int64_t since_ns, int64_t until_ns)
{
    l->since_ns = since_ns;
    l->until_ns = until_ns;
    for (struct asked_host *h = l->hosts; h; h = h->next) {
        h->all = false;
        h->asked = 0;
    }
}

/* -- what was asked -- */

static struct known **slot_of(const struct store_lookup *l, const struct uuid *host,
                              const struct uuid *boot, struct proc_id id)
{
    struct {
        struct uuid host, boot;
        uint64_t pid, start;
    } key = {*host, *boot, id.pid, id.start};

    return &l->slots[hash_bytes(&key, sizeof key, 0) & (l->n_slots - 1)];
}

static struct known *find(const struct store_lookup *l, const struct uuid *host,
                          const struct uuid *boot, struct proc_id id)
{
    struct known *k = l->n_slots ? *slot_of(l, host, boot, id) : NULL;

    while (k && (!proc_id_eq(k->id, id) || memcmp(&k->host, host, sizeof *host) != 0 ||
                 memcmp(&k->boot, boot, sizeof *boot) != 0)) {
        k = k->next;
    }
    return k;
}

static bool grow(struct store_lookup *l)
{
    size_t n = l->n_slots ? l->n_slots * 4 : 256, old_n = l->n_slots;
    struct known **old = l->slots, **slots = mem_array(n, sizeof(struct known *));

    if (!slots) {
        return false;
    }
    l->slots = slots;
    l->n_slots = n;
    for (size_t i = 0; i < old_n; i++) {
        for (struct known *k = old[i], *next; k; k = next) {
            struct known **at = slot_of(l, &k->host, &k->boot, k->id);

            next = k->next;
            k->next = *at;
            *at = k;
        }
    }
    mem_free(old);
    return true;
}

static const struct proc_info *copy_info(struct arena *memory, const struct proc_info *info)
{
    struct proc_info *copy = arena_dup(memory, info, sizeof *info);
    struct str *texts[4];

    if (!copy) {
        return NULL;
    }
    texts[0] = &copy->name;
    texts[1] = &copy->image;
    texts[2] = &copy->command_line;
    texts[3] = &copy->user;
    for (size_t i = 0; i < 4; i++) {
        texts[i]->p = arena_dup(memory, texts[i]->p, texts[i]->n);
        if (!texts[i]->p) {
            return NULL;
        }
    }
    return copy;
}

/* Without memory it is not remembered. */
static const struct proc_info *add(struct store_lookup *l, const struct uuid *host,
                                   const struct uuid *boot, struct proc_id id,
                                   const struct proc_info *info)
{
    struct known *k, **at;
    bool room = l->n < l->n_slots || l->n_slots >= SLOTS_MAX || grow(l);

    k = room ? arena_alloc(&l->memory, sizeof *k) : NULL;
    if (!k) {
        return NULL;
    }
    if (info) {
        info = copy_info(&l->memory, info);
    }
    *k = (struct known){.host = *host, .boot = *boot, .id = id, .info = info};
    at = slot_of(l, host, boot, id);
    k->next = *at;
    *at = k;
    l->n++;
    return info;
}

/* -- the catalogue -- */

struct answer {
    struct store_lookup *l;
    const struct uuid *host;
    struct proc_id id; /* as it was asked */
    const struct proc_info *info;
};

static enum err take_one(void *ctx, const struct uuid *boot, const struct proc_info *info,
                         int64_t seen_ns)
{
    struct answer *a = ctx;

    (void)seen_ns;
    a->info = add(a->l, a->host, boot, a->id, info); /* the latest comes last */
    return ERR_OK;
}

static enum err take_any(void *ctx, const struct uuid *boot, const struct proc_info *info,
                         int64_t seen_ns)
{
    struct answer *a = ctx;

    (void)seen_ns;
    if (!find(a->l, a->host, boot, info->id)) {
        (void)add(a->l, a->host, boot, info->id, info);
    }
    return a->l->memory.used < LOOKUP_MEMORY / 4 * 3 ? ERR_OK : ERR_FULL;
}

static enum err take_wanted(void *ctx, const struct uuid *boot, const struct proc_info *info,
                            int64_t seen_ns)
{
    struct answer *a = ctx;

    (void)seen_ns;
    (void)add(a->l, a->host, boot, info->id, info);
    return ERR_OK;
}

static struct asked_host *host_of(struct store_lookup *l, const struct uuid *host)
{
    struct asked_host *h = l->hosts;

    while (h && memcmp(&h->host, host, sizeof *host) != 0) {
        h = h->next;
    }
    if (!h) {
        h = arena_alloc(&l->memory, sizeof *h);
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

void store_lookup_want(struct store_lookup *l, struct catalogue *c, const struct uuid *host,
                       const struct proc_key *keys, size_t n)
{
    struct catalogue_ask ask = {.host = host, .since_ns = l->since_ns, .until_ns = l->until_ns};
    struct proc_key *missing = n ? mem_array(n, sizeof *missing) : NULL;
    struct answer a = {.l = l, .host = host};

    for (size_t i = 0; missing && i < n; i++) {
        if (!find(l, host, &keys[i].boot, keys[i].id)) {
            missing[ask.n_only++] = keys[i];
        }
    }
    ask.only = missing;
    if (ask.n_only && look(l, c, &ask, take_wanted, &a) == ERR_OK) {
        for (size_t i = 0; i < ask.n_only; i++) {
            if (!find(l, host, &missing[i].boot, missing[i].id)) {
                (void)add(l, host, &missing[i].boot, missing[i].id, NULL);
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

const struct proc_info *store_lookup_find(struct store_lookup *l, struct catalogue *c,
                                          const struct uuid *host, const struct uuid *boot,
                                          struct proc_id id)
{
    struct catalogue_ask ask = {.host = host, .since_ns = l->since_ns, .until_ns = l->until_ns};
    struct answer a = {.l = l, .host = host, .id = id};
    struct known *k = find(l, host, boot, id);
    struct asked_host *h = k ? NULL : host_of(l, host);

    if (k || !h) {
        return k ? k->info : NULL;
    }
    if (h->asked++ == BULK_AFTER) {
        h->all = look(l, c, &ask, take_any, &a) == ERR_OK;
        k = find(l, host, boot, id);
    }
    if (k || (h->all && id.start)) {
        return k ? k->info : NULL;
    }
    ask.boot = boot;
    ask.has_pid = true;
    ask.pid = id.pid;
    ask.start = id.start;
    if (look(l, c, &ask, take_one, &a) == ERR_OK && !a.info) {
        (void)add(l, host, boot, id, NULL);
    }
    return a.info;
}
