#include "collector/lab/facts.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/wire/wire_inventory.h"

#define BOOT_SAME_NS (60 * CLK_S) /* the kernel computes it from two clocks */
#define MEMORY_MAX   (64u << 10)
#define FLUSH_MAX    256u /* of one transaction */

/* The newest version of a host. */
struct entry {
    struct uuid host;
    int64_t since_ns, boot_time;
    uint8_t *p; /* encoded */
    size_t n;
    bool unsaved;
};

struct facts_book {
    struct facts_conf conf;
    const char *keys[HOST_CLASS_KEYS + 1];
    struct os_mutex *lock; /* guards what follows */
    size_t n, cap;
    struct entry *entries; /* by host */
    bool unsaved;          /* one of them is */
};

static const char sql_newest[] = "SELECT host, max(since_ns), content FROM host_fact GROUP BY host";
static const char sql_add[] = "INSERT OR REPLACE INTO host_fact(host, since_ns, content) "
                              "VALUES(?1, ?2, ?3)";
static const char sql_trim[] =
    "DELETE FROM host_fact WHERE host = ?1 AND since_ns < (SELECT since_ns FROM host_fact "
    "WHERE host = ?1 ORDER BY since_ns DESC LIMIT 1 OFFSET ?2)";
static const char sql_then[] = "SELECT content FROM host_fact WHERE host = ?1 "
                               "ORDER BY since_ns > ?2, abs(since_ns - ?2) LIMIT 1";

/* -- what is assigned -- */

enum err facts_rules_read(struct facts_rule **rules, const char *const *items, size_t n,
                          size_t *bad)
{
    struct facts_rule *list = mem_array(n ? n : 1, sizeof *list);
    enum err e = list ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !e && i < n; i++) {
        size_t host_n = strcspn(items[i], " ");
        const char *label = items[i] + host_n + strspn(items[i] + host_n, " ");

        *bad = i;
        if (!host_n || !inventory_label_parse(&list[i].label, label)) {
            e = ERR_INVALID;
            break;
        }
        list[i].label.assigned = true;
        list[i].host = mem_strndup(items[i], host_n);
        e = list[i].host ? ERR_OK : ERR_NOMEM;
    }
    if (e) {
        facts_rules_free(list, n);
        return e;
    }
    *rules = list;
    return ERR_OK;
}

void facts_rules_free(struct facts_rule *rules, size_t n)
{
    for (size_t i = 0; rules && i < n; i++) {
        mem_free(rules[i].host);
    }
    mem_free(rules);
}

static void label_set(struct facts *f, const struct label *l)
{
    for (size_t i = 0; i < f->n_labels; i++) {
        if (str_eq(f->labels[i].key, l->key)) {
            f->labels[i] = *l;
            return;
        }
    }
    if (f->n_labels < INVENTORY_LABELS_MAX) {
        f->labels[f->n_labels++] = *l;
    }
}

/* Assigned ones first, so that they have room whatever the host says. */
static void labels_assign(const struct facts_book *b, const char *name, struct facts *f)
{
    struct facts own = *f;

    f->n_labels = 0;
    for (size_t i = 0; i < b->conf.n_rules; i++) {
        if (glob_match(str_make(b->conf.rules[i].host), str_make(name))) {
            label_set(f, &b->conf.rules[i].label);
        }
    }
    for (size_t i = 0; i < own.n_labels; i++) {
        own.labels[i].assigned = false; /* whatever it claims */
        if (!inventory_label(f, own.labels[i].key).p) {
            label_set(f, &own.labels[i]);
        }
    }
}

/* -- what was told -- */

/* Where the host is, or would be. */
static size_t entry_at(const struct facts_book *b, const struct uuid *host)
{
    size_t i;

    SEARCH_LOWER(i, b->n, memcmp(b->entries[i].host.b, host->b, sizeof host->b) < 0);
    return i;
}

static bool entry_is(const struct facts_book *b, size_t at, const struct uuid *host)
{
    return at < b->n && memcmp(b->entries[at].host.b, host->b, sizeof host->b) == 0;
}

/* 0: it does not say. */
static int64_t boot_time_of(const void *p, size_t n)
{
    int64_t when_ns = 0;
    struct arena a;
    struct facts f;

    arena_init(&a, MEMORY_MAX);
    if (wire_facts_decode(&f, p, n, &a) == ERR_OK) {
        when_ns = f.inventory.boot_time;
    }
    arena_fini(&a);
    return when_ns;
}

static enum err entry_set(struct facts_book *b, const struct uuid *host, const void *p, size_t n,
                          int64_t since_ns, bool unsaved)
{
    uint8_t *copy = mem_alloc(n);
    size_t at = entry_at(b, host);

    if (!copy) {
        return ERR_NOMEM;
    }
    memcpy(copy, p, n);
    if (!entry_is(b, at, host)) {
        enum err e = VEC_ROOM(&b->entries, &b->cap, b->n + 1, FACTS_HOSTS);

        if (e) {
            mem_free(copy);
            return e;
        }
        memmove(&b->entries[at + 1], &b->entries[at], (b->n - at) * sizeof *b->entries);
        b->entries[at] = (struct entry){.host = *host};
        b->n++;
    }
    mem_free(b->entries[at].p);
    b->entries[at].p = copy;
    b->entries[at].n = n;
    b->entries[at].boot_time = boot_time_of(p, n);
    b->entries[at].since_ns =
        since_ns > b->entries[at].since_ns ? since_ns : b->entries[at].since_ns + 1;
    b->entries[at].unsaved = unsaved;
    b->unsaved = b->unsaved || unsaved;
    return ERR_OK;
}

/* Both say the same, but perhaps for some seconds of the boot. */
static bool is_same(const struct entry *old, const void *p, size_t n)
{
    struct facts was, is;
    struct arena a;
    struct buf b;
    bool same = old->n == n && memcmp(old->p, p, n) == 0;

    if (same) {
        return true;
    }
    arena_init(&a, MEMORY_MAX);
    buf_init(&b, WIRE_FACTS_MAX);
    if (wire_facts_decode(&was, old->p, old->n, &a) == ERR_OK &&
        wire_facts_decode(&is, p, n, &a) == ERR_OK) {
        int64_t apart_ns = clk_sub(is.inventory.boot_time, was.inventory.boot_time);

        if (apart_ns > -BOOT_SAME_NS && apart_ns < BOOT_SAME_NS) {
            is.inventory.boot_time = was.inventory.boot_time;
            same = wire_facts_encode(&b, &is) == ERR_OK && b.n == old->n &&
                   memcmp(b.p, old->p, b.n) == 0;
        }
    }
    buf_fini(&b);
    arena_fini(&a);
    return same;
}

void facts_told(struct facts_book *b, const struct uuid *host, const void *p, size_t n,
                int64_t now_ns)
{
    size_t at;

    if (n == 0 || n > WIRE_FACTS_MAX) {
        return;
    }
    os_mutex_lock(b->lock);
    at = entry_at(b, host);
    if (!entry_is(b, at, host) || !is_same(&b->entries[at], p, n)) {
        err_ignore(entry_set(b, host, p, n, now_ns, true)); /* its next Hello tells it again */
    }
    os_mutex_unlock(b->lock);
}

/* -- the database -- */

static enum err entries_load(struct facts_book *b)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(b->conf.db, &d, LAB_DB_READ);

    if (e) {
        return e;
    }
    e = lab_db_statement(b->conf.db, &st, sql_newest);
    while (!e && (e = db_row(d, st)) == ERR_OK) {
        struct uuid host;
        const void *p = sqlite3_column_blob(st, 2);
        int n = sqlite3_column_bytes(st, 2);

        if (db_bytes(st, 0, host.b, sizeof host.b) && n > 0 && n <= (int)WIRE_FACTS_MAX) {
            e = entry_set(b, &host, p, (size_t)n, sqlite3_column_int64(st, 1), false);
        }
    }
    return lab_db_end(b->conf.db, e == ERR_END ? ERR_OK : e);
}

static enum err version_save(struct facts_book *b, struct db *d, const struct entry *x)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(b->conf.db, &st, sql_add);

    if (!e) {
        db_bind_bytes(st, 1, x->host.b, sizeof x->host.b);
        db_bind_number(st, 2, x->since_ns);
        db_bind_bytes(st, 3, x->p, x->n);
        e = db_change(d, st);
    }
    e = e ? e : lab_db_statement(b->conf.db, &st, sql_trim);
    if (!e) {
        db_bind_bytes(st, 1, x->host.b, sizeof x->host.b);
        db_bind_number(st, 2, FACTS_VERSIONS - 1);
        e = db_change(d, st);
    }
    return e;
}

/* Copies of at most FLUSH_MAX versions that are not in the database; they count as saved. */
static size_t unsaved_take(struct facts_book *b, struct entry *list)
{
    bool all = true;
    size_t n = 0;

    os_mutex_lock(b->lock);
    for (size_t i = 0; b->unsaved && i < b->n && n < FLUSH_MAX; i++) {
        struct entry *x = &b->entries[i];

        if (x->unsaved) {
            list[n] = *x;
            list[n].p = mem_alloc(x->n);
            if (!list[n].p) {
                all = false;
                break;
            }
            memcpy(list[n++].p, x->p, x->n);
            x->unsaved = false;
        }
    }
    b->unsaved = n == FLUSH_MAX || !all;
    os_mutex_unlock(b->lock);
    return n;
}

static void unsaved_again(struct facts_book *b, const struct entry *list, size_t n)
{
    os_mutex_lock(b->lock);
    for (size_t i = 0; i < n; i++) {
        size_t at = entry_at(b, &list[i].host);

        if (entry_is(b, at, &list[i].host)) {
            b->entries[at].unsaved = b->unsaved = true;
        }
    }
    os_mutex_unlock(b->lock);
}

static enum err versions_save(struct facts_book *b, const struct entry *list, size_t n)
{
    struct db *d;
    enum err e = lab_db_begin(b->conf.db, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = version_save(b, d, &list[i]);
    }
    return lab_db_end(b->conf.db, e);
}

enum err facts_flush(struct facts_book *b)
{
    struct entry list[FLUSH_MAX];
    enum err e = ERR_OK;
    size_t n;

    do {
        n = unsaved_take(b, list);
        e = n ? versions_save(b, list, n) : ERR_OK;
        if (e) {
            unsaved_again(b, list, n);
        }
        for (size_t i = 0; i < n; i++) {
            mem_free(list[i].p);
        }
    } while (!e && n == FLUSH_MAX);
    return e;
}

/* -- opening -- */

enum err facts_open(struct facts_book **out, const struct facts_conf *conf)
{
    struct facts_book *b = mem_zalloc(sizeof *b);
    enum err e = b ? os_mutex_create(&b->lock) : ERR_NOMEM;

    if (!e) {
        b->conf = *conf;
        for (size_t i = 0; i < conf->n_class_keys && i < HOST_CLASS_KEYS; i++) {
            b->keys[i] = host_class_key(str_make(conf->class_keys[i]));
            e = b->keys[i] ? e : ERR_INVALID;
        }
        for (size_t i = 0; !conf->n_class_keys && host_class_default[i]; i++) {
            b->keys[i] = host_class_default[i];
        }
        e = e ? e : entries_load(b);
    }
    if (e) {
        facts_close(b);
        return e;
    }
    *out = b;
    return ERR_OK;
}

void facts_close(struct facts_book *b)
{
    if (!b) {
        return;
    }
    for (size_t i = 0; i < b->n; i++) {
        mem_free(b->entries[i].p);
    }
    mem_free(b->entries);
    os_mutex_destroy(b->lock);
    mem_free(b);
}

/* -- asking -- */

static enum err facts_make(const struct facts_book *b, const void *p, size_t n, const char *name,
                           struct arena *a, const struct facts **out)
{
    struct facts *f = arena_alloc(a, sizeof *f);
    enum err e;

    if (!f) {
        return ERR_FULL;
    }
    *f = (struct facts){.n_labels = 0};
    e = n ? wire_facts_decode(f, p, n, a) : ERR_OK;
    if (!e) {
        labels_assign(b, name, f);
        *out = n || f->n_labels ? f : NULL;
    }
    return e;
}

const struct facts *facts_now(struct facts_book *b, const struct uuid *host, const char *name,
                              struct arena *a)
{
    const struct facts *f = NULL;
    uint8_t copy[WIRE_FACTS_MAX];
    size_t at, n = 0;

    os_mutex_lock(b->lock);
    at = entry_at(b, host);
    if (entry_is(b, at, host)) {
        n = b->entries[at].n;
        memcpy(copy, b->entries[at].p, n);
    }
    os_mutex_unlock(b->lock);
    return facts_make(b, copy, n, name, a, &f) == ERR_OK ? f : NULL;
}

int64_t facts_boot_time(struct facts_book *b, const struct uuid *host)
{
    int64_t when_ns = 0;
    size_t at;

    os_mutex_lock(b->lock);
    at = entry_at(b, host);
    if (entry_is(b, at, host)) {
        when_ns = b->entries[at].boot_time;
    }
    os_mutex_unlock(b->lock);
    return when_ns;
}

enum err facts_then(struct facts_book *b, const struct uuid *host, const char *name,
                    int64_t when_ns, struct arena *a, const struct facts **out)
{
    uint8_t copy[WIRE_FACTS_MAX];
    sqlite3_stmt *st;
    struct db *d;
    size_t n = 0;
    enum err e = facts_flush(b);

    *out = NULL;
    e = e ? e : lab_db_begin(b->conf.db, &d, LAB_DB_READ);
    if (e) {
        return e;
    }
    e = lab_db_statement(b->conf.db, &st, sql_then);
    if (!e) {
        db_bind_bytes(st, 1, host->b, sizeof host->b);
        db_bind_number(st, 2, when_ns);
        e = db_row(d, st);
    }
    if (!e && sqlite3_column_bytes(st, 0) <= (int)sizeof copy) {
        n = (size_t)sqlite3_column_bytes(st, 0);
        memcpy(copy, sqlite3_column_blob(st, 0), n);
    }
    e = lab_db_end(b->conf.db, e == ERR_END ? ERR_OK : e);
    return e ? e : facts_make(b, copy, n, name, a, out);
}

/* -- in other forms -- */

static enum err pair_put(struct run_pair *list, size_t *n, const char *key, struct str value)
{
    if (value.n) {
        list[(*n)++] = (struct run_pair){str_make(key), value};
    }
    return ERR_OK;
}

static enum err pair_number(struct run_pair *list, size_t *n, const char *key, uint64_t v,
                            struct arena *a)
{
    char text[24];
    size_t digits = (size_t)snprintf(text, sizeof text, "%" PRIu64, v);
    const char *copy = v ? arena_dup(a, text, digits) : NULL;

    if (!v) {
        return ERR_OK;
    }
    return copy ? pair_put(list, n, key, (struct str){copy, digits}) : ERR_FULL;
}

enum err facts_pairs(const struct facts *f, struct arena *a, struct run_host *out)
{
    struct run_pair *facts = arena_array(a, RUN_FILE_FACTS_MAX, sizeof *facts);
    struct run_pair *labels = arena_array(a, INVENTORY_LABELS_MAX, sizeof *labels);
    enum err e = facts && labels ? ERR_OK : ERR_FULL;
    size_t n = 0;

#define PUT_ONE(name) e = e ? e : pair_put(facts, &n, #name, f->inventory.name);
    INVENTORY_TEXTS(PUT_ONE)
#undef PUT_ONE
#define PUT_ONE(name) e = e ? e : pair_number(facts, &n, #name, f->inventory.name, a);
    INVENTORY_NUMBERS(PUT_ONE)
#undef PUT_ONE
    for (size_t i = 0; !e && i < f->n_labels; i++) {
        labels[i] = (struct run_pair){f->labels[i].key, f->labels[i].value};
    }
    if (!e) {
        out->facts = facts;
        out->n_facts = n;
        out->labels = labels;
        out->n_labels = f->n_labels;
    }
    return e;
}

static struct str class_words(const char *const *keys, const struct run_pair *facts, size_t n,
                              struct arena *a)
{
    char text[HOST_CLASS_TEXT];
    const char *copy;

    (void)host_class_text(text, facts, n, keys);
    copy = arena_dup(a, text, strlen(text));
    return copy ? (struct str){copy, strlen(text)} : str_make(NULL);
}

struct str facts_class_pairs(const struct facts_book *b, const struct run_pair *facts, size_t n,
                             struct arena *a)
{
    return class_words(b->keys, facts, n, a);
}

struct str facts_class(const struct facts_book *b, const struct facts *f, const char *const *keys,
                       struct arena *a)
{
    struct run_host h = {.n_facts = 0};

    return facts_pairs(f, a, &h) ? str_make(NULL)
                                 : class_words(keys ? keys : b->keys, h.facts, h.n_facts, a);
}

const char *const *facts_class_keys(const struct facts_book *b)
{
    return b->keys;
}
