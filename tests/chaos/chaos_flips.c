/* Bits that flip while nobody looks, in every kind of file that a collector keeps: of each kind so
 * many places, one at a time, each time on a fresh copy of the same store. Then `store check` must
 * find it, and whatever is asked must be answered as it was of the undamaged copy, or be without
 * what cannot be read and say so. After that time goes on: windows are sealed, hours made, files
 * joined, and nothing of the damage may have become sound data. In the end the store is
 * repaired and asked once more.
 *
 * The store holds rows, tiers of three ages, hours, what is only in the log, and everything that
 * lives beside them. PROCFLEET_FLIPS (16) places of each kind and PROCFLEET_SEED (1) in the
 * environment; PROCFLEET_KINDS: only kinds with this word in their name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query.h"
#include "collector/store/check/check.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/draw.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define SECOND    1000000000LL
#define MINUTE    (60 * SECOND)
#define HOUR      (60 * MINUTE)
#define HOSTS     2
#define TICK      (10 * SECOND)
#define TICKS     12 /* of a batch: two minutes */
#define BATCH     (TICKS * TICK)
#define LENGTH    (4 * HOUR + 20 * MINUTE)
#define END       (LENGTH + HOUR)
#define SEALED    (4 * HOUR + 10 * MINUTE) /* what comes later is in the log */
#define FILES_MAX 512

static struct rig rig;
static uint64_t rng;

/* -- the store as it was -- */

struct file {
    char name[128]; /* in data_dir */
    uint8_t *p;
    size_t n;
};

static struct file files[FILES_MAX];
static size_t n_files;
static const char *const dirs[] = {"", "wal", "segments", "catalogue", "feed"};

static char *path_of(const char *name)
{
    char *path = os_path_join(rig.dir, name);

    assert_non_null(path);
    return path;
}

static enum err keep_file(void *ctx, const char *name)
{
    struct file *f = &files[n_files];
    char *path;

    assert_true(n_files < FILES_MAX);
    (void)snprintf(f->name, sizeof f->name, "%s%s%s", (const char *)ctx, *(char *)ctx ? "/" : "",
                   name);
    path = path_of(f->name);
    if (strcmp(name, "lock") != 0 && os_read_file(&f->p, &f->n, path, 256u << 20) == ERR_OK) {
        n_files++;
    }
    mem_free(path);
    return ERR_OK;
}

static void keep_all(void)
{
    for (size_t i = 0; i < COUNT_OF(dirs); i++) {
        char *path = path_of(dirs[i]);

        assert_ok(os_mkdirs(path, true));
        assert_ok(os_list_dir(path, keep_file, (void *)dirs[i]));
        mem_free(path);
    }
}

static void put_file(const char *name, const uint8_t *p, size_t n)
{
    char *path = path_of(name);
    FILE *f = fopen(path, "wb"); /* not synced, as os_write_file is */

    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    mem_free(path);
}

static void bring_back(void)
{
    for (size_t i = COUNT_OF(dirs); i > 0; i--) {
        char *path = path_of(dirs[i - 1]);

        if (i > 1) {
            support_empty_dir(path);
        }
        mem_free(path);
    }
    for (size_t i = 0; i < n_files; i++) {
        put_file(files[i].name, files[i].p, files[i].n);
    }
}

/* -- making it -- */

static struct rig_batch next[HOSTS]; /* what comes after all that */

static void fill(void)
{
    static const int64_t kept[SEG_KINDS] = {0, 70 * MINUTE, 130 * MINUTE, 190 * MINUTE};
    struct fleetgen *g[HOSTS];

    rig_init(&rig);
    rig.conf.seal_poll_ns = 100 * HOUR; /* nobody else seals */
    rig.conf.accept_age_ns = 1000 * HOUR;
    memcpy(rig.conf.retain.age_ns, kept, sizeof kept);
    for (uint64_t h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {.seed = h + 1,
                                           .processes = 4,
                                           .metrics = 6,
                                           .starts_per_hour = 90,
                                           .tick_ns = TICK,
                                           .begin_ns = RIG_T0};
        g[h] = fleetgen_create(&conf);
    }
    rig_open(&rig);
    for (int64_t at = 0; at < LENGTH; at += BATCH) {
        for (int h = 0; h < HOSTS; h++) {
            struct rig_batch b;

            rig_batch(&b, g[h], TICKS);
            assert_ok(rig_put(&rig, &b));
            rig_set_now(b.received_ns);
            rig_batch_fini(&b);
        }
        if (at < SEALED) {
            assert_ok(store_seal_now(rig.store, rig_now() - MINUTE));
        }
    }
    for (int h = 0; h < HOSTS; h++) {
        rig_batch(&next[h], g[h], TICKS);
        fleetgen_destroy(g[h]);
    }
    rig_close(&rig);
    memset(rig.conf.retain.age_ns, 0, sizeof kept); /* what goes later depends on what was joined */
    keep_all();
}

/* -- what is asked -- */

struct ask {
    enum query_kind kind;
    int64_t since_ns, until_ns, step_ns; /* since the beginning */
    uint8_t group_by;
    bool folded;
};

static const struct ask asks[] = {
    {QUERY_HISTORY, 4 * HOUR - 31 * MINUTE, END, 0, 0, false},
    {QUERY_HISTORY, 0, END, 10 * SECOND, 0, false},
    {QUERY_HISTORY, 7 * MINUTE, END, MINUTE, 0, false},
    {QUERY_HISTORY, 0, END, HOUR, 0, false},
    {QUERY_TOP, 3 * HOUR + 7 * MINUTE + 33 * SECOND, 4 * HOUR + 2 * MINUTE + 17 * SECOND, 0, 0,
     false},
    {QUERY_TOP, 4 * HOUR - 17 * SECOND, END, 0, 0, false},
    {QUERY_TOP, 0, END, 0, WIRE_GROUP_IMAGE, true},
    {QUERY_PROCESSES, 0, END, 0, 0, false},
    {QUERY_EVENTS, 0, END, 0, 0, false},
    {QUERY_COVERAGE, 0, END, 0, 0, false},
    {QUERY_TREE, 0, END, 0, 0, false},
    {QUERY_HOSTS, 0, END, 0, 0, false},
};

static int64_t data_end_ns;

#define METRICS 4
#define VALUES  8 /* of these so many metrics */

/* A row, an event, a span of coverage: what makes it the same one, and what it says. */
struct said {
    uint64_t key;
    uint64_t have;
    int64_t values[VALUES];
};

struct answer {
    enum err e;
    bool partial;
    size_t n, cap;
    struct said *list;
    char notes[4096];
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

static struct said *say(struct answer *a, uint64_t key)
{
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 1024;
        a->list = mem_realloc_array(a->list, a->cap, sizeof *a->list);
        assert_non_null(a->list);
    }
    a->list[a->n] = (struct said){.key = key};
    return &a->list[a->n++];
}

static void say_value(struct said *s, unsigned i, bool have, int64_t value)
{
    assert_true(i < VALUES);
    s->have |= (uint64_t)have << i;
    s->values[i] = have ? value : 0;
}

static int64_t text_hash(struct str s)
{
    return (int64_t)hash_bytes(s.p, s.n, 0);
}

static void say_row(struct answer *a, const struct ask *ask, const struct wire_answer *w,
                    const struct wire_row *r)
{
    bool grouped = ask->group_by != WIRE_GROUP_NONE;
    uint64_t key = mix(ask->kind, ask->kind == QUERY_HISTORY ? (uint64_t)r->when_ns : 0);
    struct said *s;

    if (!grouped) {
        key = mix(key, hash_bytes(w->hosts[r->host].id.b, 16, 1));
    }
    key = mix(mix(key, r->info.id.pid), r->info.id.start);
    if (grouped || r->instances) {
        key = mix(key, (uint64_t)text_hash(r->info.name));
    }
    s = say(a, key); /* totals of processes are as of what could be read last */
    for (unsigned m = 0; m < w->n_metrics && m < METRICS && ask->kind != QUERY_PROCESSES; m++) {
        say_value(s, m, r->have >> m & 1, r->values[m]);
    }
    say_value(s, 5, r->info.name.n > 0, text_hash(r->info.name));
    say_value(s, 6, r->info.command_line.n > 0, text_hash(r->info.command_line));
    say_value(s, 7, r->info.have & INFO_EXITED, (int64_t)r->info.exit_code);
}

static void say_all(struct answer *a, const struct ask *ask, const struct wire_answer *w)
{
    for (size_t i = 0; i < w->n_rows; i++) {
        say_row(a, ask, w, &w->rows[i]);
    }
    for (size_t i = 0; i < w->n_events; i++) {
        const struct life_event *ev = &w->events[i].event;
        uint64_t key = mix(mix(ev->info.id.pid, ev->kind), (uint64_t)ev->wall_ns);
        struct said *s = say(a, mix(key, hash_bytes(w->hosts[w->events[i].host].id.b, 16, 1)));

        say_value(s, 0, ev->info.name.n > 0, text_hash(ev->info.name));
    }
    for (size_t i = 0; ask->kind == QUERY_COVERAGE && i < w->n_coverage; i++) { /* a sum */
        const struct wire_coverage *c = &w->coverage[i];
        struct said *s = say(a, mix(QUERY_COVERAGE, hash_bytes(w->hosts[c->host].id.b, 16, 1)));

        say_value(s, 0, true, c->ppm);
        say_value(s, 1, true, (int64_t)c->ticks);
        say_value(s, 2, true, (int64_t)c->events);
    }
    for (size_t i = 0; ask->kind == QUERY_HOSTS && i < w->n_hosts; i++) {
        struct said *s = say(a, mix(QUERY_HOSTS, hash_bytes(w->hosts[i].id.b, 16, 1)));

        say_value(s, 0, true, text_hash(w->hosts[i].name));
        say_value(s, 1, true, w->hosts[i].last_ns);
    }
}

static int by_key(const void *a, const void *b)
{
    const struct said *x = a, *y = b;

    return x->key < y->key ? -1 : x->key > y->key;
}

static void ask_one(struct answer *out, const struct ask *ask)
{
    struct wire_query q = {
        .host = str_make("*"),
        .since_ns = RIG_T0 + ask->since_ns,
        .until_ns = RIG_T0 + ask->until_ns,
        .step_ns = ask->step_ns,
        .n_metrics = METRICS,
        .metrics = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT, M_CPU_PERCENT},
        .limit = WIRE_ROWS_MAX,
        .exited = true,
        .group_by = ask->group_by,
        .folded = ask->folded,
        .kinds = UINT32_MAX};
    struct query_env env = {.now_ns = data_end_ns};
    uint8_t cursor[WIRE_CURSOR_MAX];
    struct query_answer a;
    struct store_view *v;
    struct errmsg why;
    bool more = true;

    memset(out, 0, sizeof *out);
    assert_ok(store_view_open(&v, rig.store));
    env.view = v;
    while (more && !out->e) {
        out->e = query_run(&a, ask->kind, &env, &q, &why);
        more = !out->e && a.more;
        if (!out->e) {
            out->partial |= a.data.partial;
            say_all(out, ask, &a.data);
            for (size_t i = 0; i < a.data.n_notes; i++) {
                size_t n = strlen(out->notes);

                (void)snprintf(out->notes + n, sizeof out->notes - n, "%.*s\n",
                               (int)a.data.notes[i].n, a.data.notes[i].p);
            }
        }
        if (more) {
            memcpy(cursor, a.cursor, a.cursor_n);
            q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        }
        query_answer_fini(&a);
    }
    store_view_close(v);
    if (out->n) {
        qsort(out->list, out->n, sizeof *out->list, by_key);
    }
}

static void ask_all(struct answer out[COUNT_OF(asks)])
{
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        ask_one(&out[i], &asks[i]);
    }
}

static void forget(struct answer a[COUNT_OF(asks)])
{
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        mem_free(a[i].list);
    }
}

/* -- what must hold -- */

static struct {
    const char *kind, *file, *when;
    size_t at;
    unsigned bit;
    bool gaps;
} here;

static unsigned failures;

static void complain(size_t i, const struct answer *is, const struct answer *was, const char *what)
{
    print_error("%s: bit %u of byte %zu of %s, %s: question %zu has %zu rows of %zu, partial %d: "
                "%s\n%s",
                here.kind, here.bit, here.at, here.file, here.when, i, is->n, was->n, is->partial,
                what, is->notes);
    if (++failures > 10) {
        fail();
    }
}

static bool is_sum(const struct ask *ask)
{
    return ask->kind == QUERY_TOP || ask->kind == QUERY_COVERAGE || ask->kind == QUERY_HOSTS;
}

/* Every row is one of those that were, without what it may not know. */
static void must_be_among(size_t i, const struct answer *is, const struct answer *was)
{
    size_t k = 0;

    for (size_t r = 0; r < is->n; r++) {
        const struct said *x = &is->list[r], *y;

        while (k < was->n && was->list[k].key < x->key) {
            k++;
        }
        y = &was->list[k];
        if (k == was->n || y->key != x->key) {
            complain(i, is, was, "a row that was not there");
        }
        for (unsigned m = here.gaps ? METRICS : 0; m < VALUES; m++) {
            if ((x->have >> m & 1) && (!(y->have >> m & 1) || x->values[m] != y->values[m])) {
                complain(i, is, was, "a value that is another");
            }
        }
    }
}

static bool is_same(const struct answer *is, const struct answer *was)
{
    return is->n == was->n &&
           (!is->n || memcmp(is->list, was->list, is->n * sizeof *is->list) == 0);
}

/* Whether the answer says that something is missing that was there. */
static bool tells(const struct answer *is)
{
    static const char *const words[] = {"'procfleet-collector store check'", "batches missing",
                                        "catalogue of processes could not be read"};

    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strstr(is->notes, words[i])) {
            return is->partial;
        }
    }
    return false;
}

/* Gives whether it tells of something. */
static bool must_be_right(size_t i, const struct answer *is, const struct answer *was)
{
    if (is->e) {
        if (is->e != ERR_IO) {
            complain(i, is, was, err_name(is->e));
        }
        return true;
    }
    if (!tells(is) && !is_same(is, was)) {
        complain(i, is, was, "something is missing and not told");
    }
    if (!is_sum(&asks[i])) {
        must_be_among(i, is, was);
    }
    return tells(is);
}

static bool compare(const struct answer *is, const struct answer *was)
{
    bool told = false;

    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        told |= must_be_right(i, &is[i], &was[i]);
    }
    return told;
}

/* -- flipping -- */

/* The kinds of files: name begins and ends so; of several the newest alone, or all but it. */
enum which { ALL, NEWEST, OLDER };

struct kind {
    const char *what, *begins, *ends;
    enum which which;
    bool unseen; /* a flip may hit what nothing depends on: check need not find it */
    bool left;   /* a repair mends nothing of it */
    bool gaps;   /* what is lost was never there: the next row has all the growth since */
};

static const struct kind kinds[] = {
    {"rows", "segments/raw-", ".seg", ALL, false, false, false},
    {"10 s", "segments/10s-", ".seg", ALL, false, false, false},
    {"1 min", "segments/1min-", ".seg", ALL, false, false, false},
    {"1 h", "segments/1h-", ".seg", ALL, false, false, false},
    {"rest", "segments/rest-", ".seg", ALL, false, false, false},
    {"manifest", "segments/manifest", "", ALL, true, false, false},
    {"hosts", "hosts", "", ALL, false, false, false},
    {"catalogue", "catalogue/", ".db", ALL, false, false, false},
    {"log's index", "wal/wal-", ".idx", ALL, false, false, false},
    {"older log", "wal/wal-", ".log", OLDER, false, true, true},
    {"newest log", "wal/wal-", ".log", NEWEST, false, true, true},
};

static bool is_of(const struct kind *k, const struct file *f)
{
    size_t n = strlen(f->name), ends = strlen(k->ends);

    return strncmp(f->name, k->begins, strlen(k->begins)) == 0 && n >= ends &&
           strcmp(f->name + n - ends, k->ends) == 0;
}

/* The files of the kind; those of one kind are listed in the order of their numbers. */
static size_t list_files(const struct kind *k, size_t out[FILES_MAX])
{
    size_t n = 0, newest = 0;

    for (size_t i = 0; i < n_files; i++) {
        if (is_of(k, &files[i])) {
            newest = n && strcmp(files[out[newest]].name, files[i].name) > 0 ? newest : n;
            out[n++] = i;
        }
    }
    if (n && k->which == NEWEST) {
        out[0] = out[newest];
        n = 1;
    } else if (n && k->which == OLDER) {
        out[newest] = out[--n];
    }
    return n;
}

static uint64_t draw_wide(void)
{
    return (uint64_t)draw(&rng, 1u << 31) << 31 | draw(&rng, 1u << 31);
}

static uint8_t *flipped; /* the file as it is now */
static size_t flipped_n;

/* One bit of all that the files have, each as likely as another. */
static void flip(const struct kind *k)
{
    size_t list[FILES_MAX], n = list_files(k, list);
    uint64_t all = 0, at;
    const struct file *f;
    uint8_t *copy;

    for (size_t i = 0; i < n; i++) {
        all += files[list[i]].n;
    }
    assert_true(all > 0);
    at = draw_wide() % all;
    for (n = 0; at >= files[list[n]].n; n++) {
        at -= files[list[n]].n;
    }
    f = &files[list[n]];
    here.kind = k->what;
    here.gaps = k->gaps;
    here.file = f->name;
    here.at = (size_t)at;
    here.bit = draw(&rng, 8);
    copy = mem_dup(f->p, f->n);
    assert_non_null(copy);
    copy[at] ^= (uint8_t)(1u << here.bit);
    put_file(f->name, copy, f->n);
    mem_free(flipped);
    flipped = copy;
    flipped_n = f->n;
}

static bool check(bool repair)
{
    const struct check_conf conf = {.data_dir = rig.dir, .fio = rig.conf.fio, .repair = repair};
    struct check_result r;
    struct errmsg why = {""};
    enum err e = check_store(&r, &conf, &why);

    if (e) {
        print_error("%s: byte %zu of %s: check says %s: %s\n", here.kind, here.at, here.file,
                    err_name(e), why.text);
        fail();
    }
    return r.damaged;
}

/* -- one place -- */

static struct answer whole[COUNT_OF(asks)], later[COUNT_OF(asks)];

/* Sealing does its first round at once: before the questions, not beside them. */
static void open_again(void)
{
    data_end_ns = RIG_T0 + LENGTH;
    rig_set_now(data_end_ns);
    rig_open(&rig);
    assert_ok(store_seal_now(rig.store, INT64_MIN));
}

/* More comes, an hour goes by: all is sealed, the hour made, files joined. */
static void go_on(void)
{
    data_end_ns += BATCH;
    for (int h = 0; h < HOSTS; h++) {
        assert_ok(rig_put(&rig, &next[h]));
    }
    rig_set_now(RIG_T0 + LENGTH + 45 * MINUTE);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
}

static struct tally {
    unsigned flips, found, told;
} tallies[COUNT_OF(kinds)];

static void one_flip(const struct kind *k, struct tally *t)
{
    struct answer is[COUNT_OF(asks)];
    bool damaged;

    bring_back();
    flip(k);
    here.when = "at rest";
    damaged = check(false);
    if (!damaged && !k->unseen) {
        complain(0, &whole[0], &whole[0], "check does not find it");
    }
    open_again();
    ask_all(is);
    t->told += compare(is, whole);
    forget(is);
    here.when = "an hour later";
    go_on();
    ask_all(is);
    (void)compare(is, later);
    forget(is);
    rig_close(&rig);

    t->flips++;
    t->found += damaged;
    if (k->left) {
        return;
    }
    here.when = "repaired";
    bring_back();
    put_file(here.file, flipped, flipped_n);
    if (check(true)) {
        complain(0, &whole[0], &whole[0], "a repair leaves damage");
    }
    if (check(false)) {
        complain(0, &whole[0], &whole[0], "there is damage after a repair");
    }
    open_again();
    ask_all(is);
    (void)compare(is, whole);
    forget(is);
    rig_close(&rig);
}

/* Two files of the kind under each other's name: a repair gives all back. */
static void change_names(const struct kind *k)
{
    size_t list[FILES_MAX], n = list_files(k, list);
    const struct file *a, *b;
    struct answer is[COUNT_OF(asks)];

    assert_true(n > 1);
    a = &files[list[draw(&rng, (uint32_t)(n / 2))]];
    b = &files[list[n / 2 + draw(&rng, (uint32_t)(n - n / 2))]];
    here.kind = k->what;
    here.file = a->name;
    here.at = here.bit = 0;
    here.gaps = false;
    here.when = "under another's name";
    bring_back();
    put_file(a->name, b->p, b->n);
    put_file(b->name, a->p, a->n);
    if (!check(false)) {
        complain(0, &whole[0], &whole[0], "check does not find it");
    }
    open_again();
    ask_all(is);
    (void)compare(is, whole);
    forget(is);
    rig_close(&rig);
    bring_back();
    put_file(a->name, b->p, b->n);
    put_file(b->name, a->p, a->n);
    here.when = "with its own name again";
    if (check(true)) {
        complain(0, &whole[0], &whole[0], "a repair leaves damage");
    }
    open_again();
    ask_all(is);
    if (compare(is, whole)) {
        complain(0, &whole[0], &whole[0], "something is missing after a repair");
    }
    forget(is);
    rig_close(&rig);
}

static void a_flipped_bit_changes_no_answer_without_a_word(void **state)
{
    const char *flips = getenv("PROCFLEET_FLIPS"), *seed = getenv("PROCFLEET_SEED");
    const char *only = getenv("PROCFLEET_KINDS");
    unsigned n = flips ? (unsigned)strtoul(flips, NULL, 10) : 16;

    rng = seed ? strtoull(seed, NULL, 10) : 1;
    print_message("seed %llu, %u places of each kind\n", (unsigned long long)rng, n);
    fill();
    bring_back();
    here.kind = here.file = here.when = "nothing";
    assert_false(check(false));
    open_again();
    ask_all(whole);
    go_on();
    ask_all(later);
    rig_close(&rig);
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        assert_ok(whole[i].e);
        print_message("question %zu: %zu rows, partial %d; later %zu, %d\n%s", i, whole[i].n,
                      whole[i].partial, later[i].n, later[i].partial, whole[i].notes);
        assert_true(whole[i].n > 0);
    }
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        for (unsigned i = 0; i < n && (!only || strstr(kinds[k].what, only)); i++) {
            one_flip(&kinds[k], &tallies[k]);
        }
        print_message("%-12s %u flips, %u found by check, %u told by answers\n", kinds[k].what,
                      tallies[k].flips, tallies[k].found, tallies[k].told);
    }
    for (size_t k = 0; kinds[k].which == ALL && strstr(kinds[k].ends, ".seg"); k++) {
        change_names(&kinds[k]);
    }
    assert_int_equal(failures, 0);
    forget(whole);
    forget(later);
    mem_free(flipped);
    for (size_t i = 0; i < n_files; i++) {
        mem_free(files[i].p);
    }
    for (int h = 0; h < HOSTS; h++) {
        rig_batch_fini(&next[h]);
    }
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_changes_no_answer_without_a_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
