/* Who was alive: the days whose data may meet the range give the keys of their candidates; sorted,
 * the same instance of several days stands together, and its rows are joined before anything is
 * decided, since a day does not know what the next one does. The newest day is asked first.
 *
 * What of a day cannot be read is passed over, so that the others still answer, and told in the
 * end.
 *
 * An announcement comes up to a window after midnight, so the neighbouring day is asked as well
 * where the range is near one. */
#include <stdlib.h>

#include "collector/store/catalogue/catalogue.h"
#include "collector/store/memtable/head_info.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define NEAR_NS     (600 * CLK_S)
#define FIND_MEMORY (16u << 20) /* boots of a host */
#define ROW_MEMORY  (1u << 20)  /* one instance of several days */

struct asked_day {
    int64_t day_ns;
    struct day_db *db;
    uint64_t round;
    int64_t host;
    struct day_boot *boots; /* by uuid */
    size_t n_boots;
    enum err bad; /* something of it could not be read */
};

/* A candidate. */
struct found {
    const struct day_boot *boot;
    uint32_t pid, day;
    uint64_t start;
};

struct find {
    struct catalogue *c;
    const struct catalogue_ask *ask;
    struct arena memory, row;
    uint64_t round; /* in which the days were listed */
    size_t n_days;
    struct asked_day *days;
    size_t day;    /* being asked */
    bool remaking; /* a day that may know more does not have all of its segments */
    struct found *found;
    size_t n, cap;
    struct uuid newest; /* the host's last boot as far as these days know */
    int64_t newest_ns;
};

/* -- days -- */

/* What runs goes on to the day's end, whether or not there is data to it. */
static bool days_meet(const struct catalogue_day *d, const struct catalogue_ask *ask)
{
    int64_t last_ns = d->day_ns + CATALOGUE_DAY_NS;

    last_ns = d->facts.last_ns > last_ns ? d->facts.last_ns : last_ns;
    return d->n_done && !d->dropped && last_ns >= clk_sub(ask->since_ns, NEAR_NS) &&
           d->facts.first_ns < clk_add(ask->until_ns, NEAR_NS);
}

/* What it has so far says nothing of what it will have. */
static bool is_remaking(const struct catalogue_day *d, const struct catalogue_ask *ask)
{
    return d->remaking && !d->dropped && d->day_ns < clk_add(ask->until_ns, NEAR_NS) &&
           clk_add(d->day_ns, CATALOGUE_DAY_NS) >= clk_sub(ask->since_ns, NEAR_NS);
}

static enum err list_days(struct find *f)
{
    os_mutex_lock(f->c->lock);
    f->round = f->c->round;
    f->days = mem_array(f->c->n_days + 1, sizeof *f->days);
    for (size_t i = 0; f->days && i < f->c->n_days; i++) {
        f->remaking = f->remaking || is_remaking(&f->c->days[i], f->ask);
        if (days_meet(&f->c->days[i], f->ask)) {
            f->days[f->n_days++].day_ns = f->c->days[i].day_ns;
        }
    }
    os_mutex_unlock(f->c->lock);
    return f->days ? ERR_OK : ERR_NOMEM;
}

static bool same_boot(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* Opens the day and looks for the host. A day that was dropped meanwhile has none. */
static enum err open_day(struct find *f, struct asked_day *d)
{
    enum err e = catalogue_borrow(f->c, d->day_ns, &d->db, &d->round);

    if (e) {
        return e == ERR_NOTFOUND && !catalogue_missing(f->c, d->day_ns, f->round) ? ERR_OK : e;
    }
    /* one state of the day for all that is asked of it, and locked once */
    e = catalogue_db_read_begin(d->db);
    e = e ? e
          : catalogue_db_boots(d->db, &f->memory, f->ask->host, &d->host, &d->boots, &d->n_boots);
    for (size_t i = 0; !e && i < d->n_boots; i++) {
        if (d->boots[i].last_ns >= d->boots[i].first_ns && d->boots[i].last_ns > f->newest_ns) {
            f->newest_ns = d->boots[i].last_ns;
            f->newest = d->boots[i].uuid;
        }
    }
    return e;
}

static void release(struct find *f, struct asked_day *d, enum err e)
{
    if (e == ERR_CORRUPT) {
        catalogue_bad(f->c, d->day_ns);
    }
    catalogue_db_read_end(d->db);
    catalogue_release(f->c, d->day_ns, d->db, d->round, !e);
    d->db = NULL;
}

/* Whether it is the day that is at fault, not who asks. */
static bool is_unreadable(enum err e)
{
    return e == ERR_CORRUPT || e == ERR_IO || e == ERR_VERSION || e == ERR_ACCESS ||
           e == ERR_READONLY || e == ERR_BUSY || e == ERR_NOTFOUND;
}

/* Nothing more of the day is asked for, candidates from `keep` on are forgotten. */
static void pass_over(struct find *f, struct asked_day *d, size_t keep, enum err e)
{
    f->n = keep;
    d->n_boots = 0;
    d->bad = e;
    release(f, d, e);
}

/* -- candidates -- */

static const struct day_boot *boot_of(const struct asked_day *d, int64_t id)
{
    for (size_t i = 0; i < d->n_boots; i++) {
        if (d->boots[i].id == id) {
            return &d->boots[i];
        }
    }
    return NULL;
}

static enum err add_found(void *ctx, const struct day_key *k)
{
    struct find *f = ctx;
    const struct day_boot *boot = boot_of(&f->days[f->day], k->boot);
    enum err e;

    if (!boot) {
        return ERR_CORRUPT;
    }
    if (f->ask->boot && !same_boot(f->ask->boot, &boot->uuid)) {
        return ERR_OK;
    }
    e = VEC_ROOM(&f->found, &f->cap, f->n + 1, CATALOGUE_FOUND_MAX);
    if (e) {
        return e;
    }
    f->found[f->n++] = (struct found){boot, k->id.pid, (uint32_t)f->day, k->id.start};
    return ERR_OK;
}

/* Those asked for by name: the day is looked into when they are given. */
static enum err add_only(struct find *f, const struct asked_day *d)
{
    const struct catalogue_ask *ask = f->ask;
    enum err e = ERR_OK;

    for (size_t i = 0; i < ask->n_only && !e; i++) {
        for (size_t k = 0; k < d->n_boots; k++) {
            if (same_boot(&d->boots[k].uuid, &ask->only[i].boot)) {
                e = add_found(f, &(struct day_key){d->boots[k].id, ask->only[i].id});
                break;
            }
        }
    }
    return e;
}

static enum err ask_day(struct find *f, struct asked_day *d)
{
    const struct catalogue_ask *ask = f->ask;
    enum err e = ERR_OK;

    if (ask->n_only) {
        return add_only(f, d);
    }
    if (!ask->has_pid) {
        return d->n_boots
                   ? catalogue_db_alive(d->db, d->host, ask->since_ns, ask->until_ns, add_found, f)
                   : ERR_OK;
    }
    for (size_t i = 0; !e && i < d->n_boots; i++) {
        e = catalogue_db_of_pid(d->db, d->boots[i].id, ask->pid, ask->start, add_found, f);
    }
    return e;
}

static int by_instance(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int d = memcmp(x->boot->uuid.b, y->boot->uuid.b, sizeof x->boot->uuid.b);

    if (d == 0 && x->pid != y->pid) {
        d = x->pid < y->pid ? -1 : 1;
    }
    if (d == 0 && x->start != y->start) {
        d = x->start < y->start ? -1 : 1;
    }
    return d ? d : (x->day > y->day) - (x->day < y->day);
}

static bool same_instance(const struct found *a, const struct found *b)
{
    return a->pid == b->pid && a->start == b->start && same_boot(&a->boot->uuid, &b->boot->uuid);
}

/* -- the answer -- */

/* What the day's row adds; no row is fine. */
static enum err add_row(struct find *f, size_t day, const struct found *x, struct day_inst *all,
                        bool *any, int64_t *boot_last_ns)
{
    struct asked_day *d = &f->days[day];
    const struct day_boot *boot = NULL;
    struct day_inst row;
    enum err e;

    for (size_t i = 0; i < d->n_boots && !boot; i++) {
        boot = same_boot(&d->boots[i].uuid, &x->boot->uuid) ? &d->boots[i] : NULL;
    }
    if (!boot) {
        return ERR_OK;
    }
    *boot_last_ns = boot->last_ns > *boot_last_ns ? boot->last_ns : *boot_last_ns;
    e = catalogue_db_get(d->db, &f->row, &(struct day_key){boot->id, {x->pid, x->start}},
                         f->ask->brief, &row);
    if (e) {
        d->bad = is_unreadable(e) && e != ERR_NOTFOUND ? e : d->bad;
        return is_unreadable(e) ? ERR_OK : e;
    }
    if (!*any) {
        *all = row;
    } else {
        head_info_join(&all->info, &row.info, row.seen_ns >= all->seen_ns);
        all->begin_ns = row.begin_ns < all->begin_ns ? row.begin_ns : all->begin_ns;
        all->seen_ns = row.seen_ns > all->seen_ns ? row.seen_ns : all->seen_ns;
    }
    *any = true;
    return ERR_OK;
}

static bool was_alive(const struct find *f, const struct found *x, const struct day_inst *i,
                      int64_t boot_last_ns)
{
    int64_t end_ns = INT64_MAX;

    if (i->info.have & INFO_EXITED) {
        end_ns = i->info.exit_ns ? i->info.exit_ns : i->seen_ns;
    } else if (!same_boot(&x->boot->uuid, &f->newest)) {
        end_ns = boot_last_ns;
    }
    return i->begin_ns < f->ask->until_ns && end_ns >= f->ask->since_ns;
}

/* Candidates [from, to) are the same instance. */
static enum err give(struct find *f, size_t from, size_t to,
                     enum err (*each)(void *ctx, const struct uuid *boot,
                                      const struct proc_info *info, int64_t seen_ns),
                     void *ctx)
{
    size_t last =
        f->found[to - 1].day + 1u < f->n_days ? f->found[to - 1].day + 1u : f->found[to - 1].day;
    int64_t boot_last_ns = INT64_MIN;
    struct day_inst all;
    bool any = false;
    enum err e = ERR_OK;

    arena_reset(&f->row);
    for (size_t i = from, day = f->found[from].day; !e && day <= last; day++) {
        while (i < to && f->found[i].day < day) {
            i++;
        }
        if (day == last || (i < to && f->found[i].day == day)) {
            e = add_row(f, day, &f->found[from], &all, &any, &boot_last_ns);
        }
    }
    if (e || !any || !was_alive(f, &f->found[from], &all, boot_last_ns)) {
        return e;
    }
    return each(ctx, &f->found[from].boot->uuid, &all.info, all.seen_ns);
}

static enum err run(struct find *f,
                    enum err (*each)(void *ctx, const struct uuid *boot,
                                     const struct proc_info *info, int64_t seen_ns),
                    void *ctx)
{
    /* The last day of an instance knows the most of it: the others need not be asked. */
    bool exact = f->ask->has_pid && f->ask->start && f->ask->boot;
    enum err e = list_days(f);

    for (f->day = f->n_days; !e && f->day-- > 0 && !(exact && f->n);) {
        size_t before = f->n;

        e = open_day(f, &f->days[f->day]);
        if (!e && f->days[f->day].db) {
            e = ask_day(f, &f->days[f->day]);
        }
        if (e) {
            pass_over(f, &f->days[f->day], before, e);
        }
        e = is_unreadable(e) ? ERR_OK : e;
    }
    if (!e && f->n) {
        qsort(f->found, f->n, sizeof *f->found, by_instance);
    }
    for (size_t i = 0, to; !e && i < f->n; i = to) {
        to = i + 1;
        while (to < f->n && same_instance(&f->found[i], &f->found[to])) {
            to++;
        }
        e = give(f, i, to, each, ctx);
    }
    return e;
}

enum err catalogue_find(struct catalogue *c, const struct catalogue_ask *ask,
                        enum err (*each)(void *ctx, const struct uuid *boot,
                                         const struct proc_info *info, int64_t seen_ns),
                        void *ctx)
{
    struct find f = {.c = c, .ask = ask, .newest_ns = INT64_MIN};
    enum err e;

    arena_init(&f.memory, FIND_MEMORY);
    arena_init(&f.row, ROW_MEMORY);
    e = run(&f, each, ctx);
    for (size_t i = 0; i < f.n_days; i++) {
        if (f.days[i].db) {
            release(&f, &f.days[i], f.days[i].bad);
        }
        e = e ? e : f.days[i].bad;
    }
    e = !e && f.remaking ? ERR_BUSY : e;
    mem_free(f.days);
    mem_free(f.found);
    arena_fini(&f.memory);
    arena_fini(&f.row);
    return e;
}
