/* Three tables of (instance, hash of what was written of it): `now` for the segment being written,
 * `young` and `old` for what is durable. An entry that is met in `old` moves to `young`; when
 * `young` is full it becomes `old`, and the former `old` is forgotten. Running processes are
 * announced every window, so they stay. Whatever cannot be remembered is as if never written. */
#include <stdlib.h>

#include "collector/store/meta/meta_impl.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define DAY_NS     (24 * INT64_C(3600000000000))
#define ACCOUNTS   (256u << 20) /* packed accounts of one segment */
#define TABLE_LOAD 2            /* slots for each entry, at least */

struct entry {
    uint64_t key, what; /* key 0: empty */
};

struct table {
    struct entry *at;
    size_t cap, n; /* cap: a power of two, or 0 */
};

struct account {
    struct seg_key key;
    size_t from, n;
};

struct meta_written {
    uint64_t seed;
    int64_t day; /* of the segment being written, since 1970 */
    struct table now, young, old;
    bool lost; /* something of `now` could not be remembered */
    struct buf packed;
    struct account *accounts;
    size_t n_accounts, cap;
};

enum err meta_written_create(struct meta_written **out)
{
    struct meta_written *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    e = os_random(&r->seed, sizeof r->seed);
    if (e) {
        mem_free(r);
        return e;
    }
    buf_init(&r->packed, ACCOUNTS);
    *out = r;
    return ERR_OK;
}

void meta_written_destroy(struct meta_written *r)
{
    if (r) {
        mem_free(r->now.at);
        mem_free(r->young.at);
        mem_free(r->old.at);
        mem_free(r->accounts);
        buf_fini(&r->packed);
        mem_free(r);
    }
}

/* -- tables -- */

/* The entry of this key, or the empty one where it belongs; NULL: a table without slots. */
static struct entry *slot(const struct table *t, uint64_t key)
{
    for (size_t i = key & (t->cap - 1), k = 0; k < t->cap; k++, i = (i + 1) & (t->cap - 1)) {
        if (t->at[i].key == key || t->at[i].key == 0) {
            return &t->at[i];
        }
    }
    return NULL;
}

static bool find(const struct table *t, uint64_t key, uint64_t *what)
{
    const struct entry *e = slot(t, key);

    if (!e || e->key == 0) {
        return false;
    }
    *what = e->what;
    return true;
}

static bool grow(struct table *t)
{
    struct table bigger = {.cap = t->cap ? t->cap * 2 : 1024, .n = t->n};

    bigger.at = mem_array(bigger.cap, sizeof *bigger.at);
    if (!bigger.at) {
        return false;
    }
    for (size_t i = 0; i < t->cap; i++) {
        if (t->at[i].key) {
            *slot(&bigger, t->at[i].key) = t->at[i];
        }
    }
    mem_free(t->at);
    *t = bigger;
    return true;
}

/* False: no room. */
static bool put(struct table *t, uint64_t key, uint64_t what)
{
    struct entry *e;

    if ((t->n + 1) * TABLE_LOAD > t->cap && (t->n >= META_KNOWN_MAX || !grow(t))) {
        e = slot(t, key);
        if (!e || e->key == 0) {
            return false;
        }
    }
    e = slot(t, key);
    t->n += e->key == 0;
    *e = (struct entry){key, what};
    return true;
}

static void clear(struct table *t)
{
    if (t->n) {
        memset(t->at, 0, t->cap * sizeof *t->at);
        t->n = 0;
    }
}

/* -- infos -- */

static uint64_t hash_str(struct str s, uint64_t seed)
{
    return hash_bytes(s.n ? s.p : "", s.n, seed);
}

static uint64_t key_of(const struct meta_written *r, const struct uuid *host,
                       const struct uuid *boot, struct proc_id id)
{
    struct {
        struct uuid host, boot;
        int64_t day;
        uint64_t pid, start;
    } k = {*host, *boot, r->day, id.pid, id.start};
    uint64_t key = hash_bytes(&k, sizeof k, r->seed);

    return key ? key : 1;
}

static uint64_t hash_info(const struct meta_written *r, const struct proc_info *i)
{
    const uint64_t plain[] = {
        i->have,       i->origin,    i->cpu_origin,          i->parent_pid,       i->parent_start,
        i->session_id, i->exit_code, (uint64_t)i->create_ns, (uint64_t)i->exit_ns};
    uint64_t h = hash_bytes(plain, sizeof plain, r->seed);

    h = hash_str(i->name, h);
    h = hash_str(i->image, h);
    h = hash_str(i->command_line, h);
    return hash_str(i->user, h);
}

bool meta_written_has(struct meta_written *r, const struct uuid *host, const struct uuid *boot,
                      const struct proc_info *info)
{
    uint64_t key = key_of(r, host, boot, info->id), what = hash_info(r, info), last;

    if ((find(&r->now, key, &last) || find(&r->young, key, &last) || find(&r->old, key, &last)) &&
        last == what && !r->lost) {
        r->lost = !put(&r->now, key, what); /* also so that it stays young */
        return true;
    }
    r->lost = !put(&r->now, key, what) || r->lost;
    return false;
}

static void forget(struct meta_written *r)
{
    clear(&r->now);
    r->lost = false;
    r->n_accounts = 0;
    buf_reset(&r->packed);
}

void meta_written_begin(struct meta_written *r, int64_t window_ns)
{
    forget(r);
    r->day = window_ns / DAY_NS;
}

static void keep_one(struct meta_written *r, const struct entry *e)
{
    if (!put(&r->young, e->key, e->what)) {
        struct table t = r->old;

        r->old = r->young;
        r->young = t;
        clear(&r->young);
        if (!put(&r->young, e->key, e->what)) {
            r->lost = true;
        }
    }
}

void meta_written_keep(struct meta_written *r)
{
    for (size_t i = 0; i < r->now.cap; i++) {
        if (r->now.at[i].key) {
            keep_one(r, &r->now.at[i]);
        }
    }
    if (r->lost) { /* something older may stand where something newer was written */
        clear(&r->young);
        clear(&r->old);
    }
    forget(r);
}

/* -- accounts -- */

enum err meta_written_account(struct meta_written *r, struct packer *p, uint32_t host,
                              uint8_t window, const struct buf *raw)
{
    struct account *a;

    if (r->n_accounts == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        struct account *grown = mem_realloc_array(r->accounts, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        r->accounts = grown;
        r->cap = cap;
    }
    a = &r->accounts[r->n_accounts];
    *a = (struct account){{SEG_PART_ACCOUNT, 0, window, host}, r->packed.n, 0};
    pack_put(p, &r->packed, raw->p, raw->n);
    if (r->packed.bad) {
        return r->packed.bad;
    }
    a->n = r->packed.n - a->from;
    r->n_accounts++;
    return ERR_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct account *x = a, *y = b;

    if (x->key.window != y->key.window) {
        return x->key.window < y->key.window ? -1 : 1;
    }
    return x->key.host < y->key.host ? -1 : x->key.host > y->key.host;
}

enum err meta_written_accounts(struct meta_written *r,
                               enum err (*each)(void *ctx, struct seg_key key, const void *p,
                                                size_t n),
                               void *ctx)
{
    enum err e = ERR_OK;

    if (r->n_accounts) {
        qsort(r->accounts, r->n_accounts, sizeof *r->accounts, by_key);
    }
    for (size_t i = 0; !e && i < r->n_accounts; i++) {
        const struct account *a = &r->accounts[i];

        e = each(ctx, a->key, r->packed.p + a->from, a->n);
    }
    return e;
}
