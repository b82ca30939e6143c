/* The days of a catalogue, and the writer's side. A segment belongs to the day of its windows, and
 * is taken in by one transaction together with its number, so it is in whole or not at all. Days
 * are filled in order, each by the numbers of its segments: what is made anew equals what was made
 * live, since both are made of the same values in the same order.
 *
 * A file that is damaged, or of another format, is unlinked with all it had; at the next
 * catalogue_follow its segments are not in, and are taken in again. */
#include "collector/store/catalogue/catalogue.h"

#include <stdio.h>
#include <stdlib.h>

#include "collector/store/batch_time.h"
#include "collector/store/memtable/head_info.h"
#include "collector/store/meta/meta.h"
#include "collector/store/segment/pack.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/fio.h"
#include "common/os/os.h"

/* What a rest segment tells of instances, into a day's file; and what is carried from day to day.
 */

/* -- a segment -- */

static enum err take_tell(struct catalogue *c, int64_t host, int64_t boot,
                          const struct day_inst *told)
{
    enum err e = catalogue_db_tell(c->writing, host, boot, told);

    if (e == ERR_FULL) {
        os_mutex_lock(c->lock);
        c->stats.refused++;
        os_mutex_unlock(c->lock);
        e = ERR_OK;
    }
    return e;
}

static enum err take_events(struct catalogue *c, int64_t host, int64_t boot, const struct batch *b,
                            int64_t seen_ns, bool last)
{
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < b->n_events; i++) {
        const struct life_event *ev = &b->events[i];
        const struct day_inst told = {ev->info, ev->wall_ns, head_info_when(ev, seen_ns)};

        if ((ev->kind == LIFE_PROCESS_START || ev->kind == LIFE_PROCESS_STOP) &&
            head_info_is_last(ev) == last) {
            e = take_tell(c, host, boot, &told);
        }
    }
    return e;
}

/* In the order of time (head_info.h). */
enum err catalogue_take_rest(struct catalogue *c, int64_t host, const struct batch *b)
{
    int64_t boot, first_ns = 1, last_ns = 0;
    bool bare = !b->n_ticks && !b->n_events;
    enum err e;

    if (!bare) {
        batch_time_span(b, 0, &first_ns, &last_ns);
    } else if (!b->n_infos) {
        return ERR_OK;
    }
    e = catalogue_db_boot(c->writing, host, &b->head.boot, first_ns, last_ns, &boot);
    e = e ? e : take_events(c, host, boot, b, last_ns, false);
    for (size_t i = 0; !e && i < b->n_infos; i++) {
        const struct day_inst told = {b->infos[i], first_ns, last_ns};

        e = take_tell(c, host, boot, &told);
    }
    return e ? e : take_events(c, host, boot, b, last_ns, true);
}

static enum err take_rests(struct catalogue *c, const struct uuid *host, struct meta_reader *r,
                           enum err *unread)
{
    const struct window_rest *rest;
    int64_t id;
    enum err e = catalogue_db_host(c->writing, host, &id);

    while (!e && !(*unread = meta_reader_next(r, &rest))) {
        e = catalogue_take_rest(c, id, &rest->batch);
    }
    return e;
}

static enum err take_host(struct catalogue *c, const struct seg *s, uint32_t host, uint8_t window)
{
    enum err e, unread = ERR_OK;
    struct meta_reader *r;

    e = meta_reader_open(&r, s, c->packer, host, window);
    if (e) {
        return e;
    }
    e = take_rests(c, &seg_host(s, host)->id, r, &unread);
    meta_reader_close(r);
    if (!e && (unread == ERR_CORRUPT || unread == ERR_FULL || unread == ERR_VERSION)) {
        os_mutex_lock(c->lock);
        c->stats.damaged++; /* the others are sound */
        os_mutex_unlock(c->lock);
        return ERR_OK;
    }
    return e || unread == ERR_NOTFOUND || unread == ERR_END ? e : unread;
}

/* Everything told by one segment, into the writer's day. */
static enum err catalogue_take(struct catalogue *c, const struct seg *s)
{
    enum err e = ERR_OK;

    for (unsigned w = 0; !e && w < seg_info_of(s)->n_windows; w++) {
        for (size_t h = 0; !e && h < seg_hosts(s); h++) {
            e = take_host(c, s, (uint32_t)h, (uint8_t)w);
        }
    }
    return e;
}

/* -- carrying over -- */

struct carry {
    struct catalogue *c;
    struct day_db *from;
    struct uuid host;
    struct day_boot newest;
    int64_t host_id; /* in `from`; 0: none yet */
    int64_t to_host, to_boot;
};

static enum err carry_one(void *ctx, const struct day_key *k)
{
    struct carry *x = ctx;
    struct day_inst inst;
    enum err e;

    arena_reset(&x->c->memory);
    e = catalogue_db_get(x->from, &x->c->memory, k, false, &inst);
    return e ? e : take_tell(x->c, x->to_host, x->to_boot, &inst);
}

/* The newest boot's processes of the host whose boots were all seen. */
static enum err carry_host(struct carry *x)
{
    enum err e;

    if (!x->host_id) {
        return ERR_OK;
    }
    e = catalogue_db_host(x->c->writing, &x->host, &x->to_host);
    if (!e) {
        e = catalogue_db_boot(x->c->writing, x->to_host, &x->newest.uuid, 1, 0, &x->to_boot);
    }
    return e ? e : catalogue_db_running(x->from, x->newest.id, carry_one, x);
}

static enum err see_boot(void *ctx, int64_t host_id, const struct uuid *host,
                         const struct day_boot *b)
{
    struct carry *x = ctx;
    enum err e = host_id != x->host_id ? carry_host(x) : ERR_OK;

    x->host_id = host_id;
    x->host = *host;
    x->newest = *b; /* they come by their ends */
    return e;
}

/* What runs at the end of the day before, into the writer's new day. */
static enum err catalogue_carry(struct catalogue *c, int64_t day_ns)
{
    int64_t before_ns = day_ns - CATALOGUE_DAY_NS;
    struct carry x = {.c = c};
    uint64_t round;
    enum err e;

    if (!catalogue_day(c, before_ns) || !catalogue_day(c, before_ns)->n_done) {
        return ERR_OK;
    }
    e = catalogue_borrow(c, before_ns, &x.from, &round);
    if (e == ERR_CORRUPT) {
        catalogue_bad(c, before_ns);
    } else if (e == ERR_NOTFOUND) { /* one that only cannot be opened now is left as it is */
        (void)catalogue_missing(c, before_ns, round);
    }
    if (e == ERR_CORRUPT || e == ERR_NOTFOUND) { /* announcements will tell */
        return ERR_OK;
    }
    if (e) {
        return e;
    }
    e = catalogue_db_begin(c->writing);
    if (!e) {
        e = catalogue_db_each_boot(x.from, see_boot, &x);
        e = e ? e : carry_host(&x);
        if (e) {
            catalogue_db_rollback(c->writing);
        } else {
            e = catalogue_db_commit(c->writing);
        }
    }
    catalogue_release(c, before_ns, x.from, round, !e);
    return e;
}

#define CARRY_MEMORY (1u << 20)  /* one instance, carried from day to day */
#define OPEN_NS      (2 * CLK_S) /* opening takes so long to import, and a segment's time */

/* -- names -- */

static int64_t day_begin_of(int64_t ns)
{
    return ns - ((ns % CATALOGUE_DAY_NS) + CATALOGUE_DAY_NS) % CATALOGUE_DAY_NS;
}

/* "2026-11-21.db" and what SQLite keeps beside it; mem_free. */
static char *path_of(const struct catalogue *c, int64_t day_ns, const char *suffix)
{
    char day[CLK_TEXT], name[CLK_TEXT + 16];

    (void)clk_format_utc(day, sizeof day, day_ns, 0);
    (void)snprintf(name, sizeof name, "%.10s.db%s", day, suffix);
    return os_path_join(c->dir, name);
}

static bool day_of_name(const char *name, int64_t *day_ns)
{
    char when[CLK_TEXT];

    if (strlen(name) != 13 || strcmp(name + 10, ".db") != 0) {
        return false;
    }
    (void)snprintf(when, sizeof when, "%.10sT00:00:00Z", name);
    return clk_parse_when(day_ns, when, 0) == ERR_OK && *day_ns > 0;
}

static const char *const suffixes[] = {"", "-wal", "-shm"};

static uint64_t size_of_file(const char *path)
{
    const struct fio *fio = fio_os();
    struct fio_file *f;
    uint64_t n = 0;

    if (os_exists(path) && fio->open(fio->ctx, &f, path) == ERR_OK) {
        if (fio->size(fio->ctx, f, &n)) {
            n = 0;
        }
        fio->close(fio->ctx, f);
    }
    return n;
}

static uint64_t size_of_day(const struct catalogue *c, int64_t day_ns)
{
    uint64_t n = 0;

    for (size_t i = 0; i < 2; i++) { /* the third is no more than an index of the second */
        char *path = path_of(c, day_ns, suffixes[i]);

        n += path ? size_of_file(path) : 0;
        mem_free(path);
    }
    return n;
}

static enum err unlink_day(struct catalogue *c, int64_t day_ns)
{
    enum err first = ERR_OK;

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char *path = path_of(c, day_ns, suffixes[i]);
        enum err e = path ? os_remove(path) : ERR_NOMEM;

        first = first || e == ERR_NOTFOUND ? first : e;
        mem_free(path);
    }
    return first;
}

/* -- the list of days -- */

struct catalogue_day *catalogue_day(struct catalogue *c, int64_t day_ns)
{
    for (size_t i = c->n_days; i > 0; i--) {
        if (c->days[i - 1].day_ns == day_ns) {
            return &c->days[i - 1];
        }
    }
    return NULL;
}

static enum err add_day(struct catalogue *c, int64_t day_ns, struct catalogue_day **out)
{
    size_t i = c->n_days;
    enum err e;

    os_mutex_lock(c->lock);
    e = VEC_ROOM(&c->days, &c->cap_days, c->n_days + 1, CATALOGUE_DAYS_MAX);
    if (e) {
        os_mutex_unlock(c->lock);
        return e;
    }
    while (i > 0 && c->days[i - 1].day_ns > day_ns) {
        c->days[i] = c->days[i - 1];
        i--;
    }
    c->days[i] = (struct catalogue_day){.day_ns = day_ns};
    c->n_days++;
    os_mutex_unlock(c->lock);
    *out = &c->days[i];
    return ERR_OK;
}

static void remove_day(struct catalogue *c, struct catalogue_day *d)
{
    size_t i = (size_t)(d - c->days);

    mem_free(d->done);
    os_mutex_lock(c->lock);
    c->n_days--;
    memmove(d, d + 1, (c->n_days - i) * sizeof *d);
    os_mutex_unlock(c->lock);
}

static enum err done_add(void *ctx, uint64_t number)
{
    struct catalogue_day *d = ctx;
    size_t i = d->n_done;
    enum err e = VEC_ROOM(&d->done, &d->cap_done, i + 1, SIZE_MAX); /* a segment each */

    if (e) {
        return e;
    }
    while (i > 0 && d->done[i - 1] > number) {
        d->done[i] = d->done[i - 1];
        i--;
    }
    d->done[i] = number;
    d->n_done++;
    return ERR_OK;
}

/* Beside finds, which look at whether the day has any. */
static enum err done_put(struct catalogue *c, struct catalogue_day *d, uint64_t number)
{
    enum err e;

    os_mutex_lock(c->lock);
    e = done_add(d, number);
    os_mutex_unlock(c->lock);
    return e;
}

static bool is_done(const struct catalogue_day *d, uint64_t number)
{
    size_t i;

    SEARCH_LOWER(i, d->n_done, d->done[i] < number);
    return i < d->n_done && d->done[i] == number;
}

/* -- connections of finds -- */

/* Those that wait are of files that may be gone. */
static void close_idle(struct catalogue *c)
{
    struct day_db *db[CATALOGUE_IDLE];
    size_t n;

    os_mutex_lock(c->lock);
    c->round++;
    n = c->n_idle;
    for (size_t i = 0; i < n; i++) {
        db[i] = c->idle[i].db;
    }
    c->n_idle = 0;
    os_mutex_unlock(c->lock);
    for (size_t i = 0; i < n; i++) {
        catalogue_db_close(db[i]);
    }
}

enum err catalogue_borrow(struct catalogue *c, int64_t day_ns, struct day_db **out, uint64_t *round)
{
    struct day_db *db = NULL;
    enum err e = ERR_NOMEM;
    char *path;

    os_mutex_lock(c->lock);
    *round = c->round;
    for (size_t i = 0; i < c->n_idle && !db; i++) {
        if (c->idle[i].day_ns == day_ns) {
            db = c->idle[i].db;
            c->idle[i] = c->idle[--c->n_idle];
        }
    }
    os_mutex_unlock(c->lock);
    if (db) {
        *out = db;
        return ERR_OK;
    }
    path = path_of(c, day_ns, "");
    if (path) {
        e = catalogue_db_open(out, path, DAY_READ);
    }
    mem_free(path);
    return e;
}

void catalogue_release(struct catalogue *c, int64_t day_ns, struct day_db *d, uint64_t round,
                       bool sound)
{
    struct day_db *victim = d;

    if (!d) {
        return;
    }
    os_mutex_lock(c->lock);
    if (sound && round == c->round) {
        victim = NULL;
        if (c->n_idle == CATALOGUE_IDLE) { /* the one that waits longest goes */
            victim = c->idle[0].db;
            memmove(&c->idle[0], &c->idle[1], (CATALOGUE_IDLE - 1) * sizeof c->idle[0]);
            c->n_idle--;
        }
        c->idle[c->n_idle].db = d;
        c->idle[c->n_idle++].day_ns = day_ns;
    }
    os_mutex_unlock(c->lock);
    catalogue_db_close(victim);
}

void catalogue_bad(struct catalogue *c, int64_t day_ns)
{
    struct catalogue_day *d;

    os_mutex_lock(c->lock);
    d = catalogue_day(c, day_ns);
    if (d) {
        d->bad = true;
    }
    os_mutex_unlock(c->lock);
}

bool catalogue_missing(struct catalogue *c, int64_t day_ns, uint64_t round)
{
    char *path = path_of(c, day_ns, "");
    bool gone = path && !os_exists(path), same;
    struct catalogue_day *d;

    os_mutex_lock(c->lock);
    same = round == c->round; /* nothing was unlinked meanwhile */
    d = same && gone ? catalogue_day(c, day_ns) : NULL;
    if (d) {
        d->bad = true;
    }
    os_mutex_unlock(c->lock);
    mem_free(path);
    return same;
}

/* -- the writer's file -- */

static void stop_writing(struct catalogue *c)
{
    catalogue_db_close(c->writing);
    c->writing = NULL;
}

/* Forgets the day with all it has: it will be made anew. */
static void catalogue_discard(struct catalogue *c, int64_t day_ns)
{
    struct catalogue_day *d = catalogue_day(c, day_ns);

    if (c->writing && c->writing_ns == day_ns) {
        stop_writing(c);
    }
    if (d) { /* from now on no find lists it */
        os_mutex_lock(c->lock);
        d->remaking = d->remaking || d->n_done > 0;
        d->n_done = 0;
        os_mutex_unlock(c->lock);
    }
    close_idle(c);
    err_ignore(unlink_day(c, day_ns)); /* what cannot be unlinked cannot be opened either */
    if (d) {
        os_mutex_lock(c->lock);
        d->facts = (struct day_facts){0};
        d->bytes = 0;
        c->stats.rebuilt++;
        os_mutex_unlock(c->lock);
    }
}

static enum err catalogue_look(struct catalogue *c, struct catalogue_day *d)
{
    struct day_facts facts;
    enum err e = catalogue_db_facts(c->writing, &facts);
    uint64_t bytes;

    catalogue_db_settle(c->writing);
    bytes = size_of_day(c, d->day_ns);
    if (!e) {
        os_mutex_lock(c->lock);
        d->facts = facts;
        d->bytes = bytes;
        os_mutex_unlock(c->lock);
    }
    return e;
}

static enum err open_file(struct catalogue *c, int64_t day_ns)
{
    char *path = path_of(c, day_ns, "");
    enum err e = path ? catalogue_db_open(&c->writing, path, DAY_WRITE) : ERR_NOMEM;

    mem_free(path);
    c->writing_ns = day_ns;
    return e;
}

/* Makes the day's file the writer's. */
static enum err write_to(struct catalogue *c, int64_t day_ns)
{
    struct catalogue_day *d = catalogue_day(c, day_ns);
    enum err e = ERR_OK;
    bool fresh = !d;

    if (c->writing && c->writing_ns == day_ns) {
        return ERR_OK;
    }
    stop_writing(c);
    if (!d) {
        e = add_day(c, day_ns, &d);
    }
    if (!e) {
        fresh = fresh || d->n_done == 0;
        e = open_file(c, day_ns);
    }
    if (e == ERR_CORRUPT) {
        catalogue_discard(c, day_ns);
        e = open_file(c, day_ns);
    }
    if (!e && fresh && d->n_done == 0) {
        e = catalogue_carry(c, day_ns);
    }
    return e;
}

/* -- taking in -- */

static enum err import_into(struct catalogue *c, const struct seg *s, uint64_t number,
                            int64_t day_ns)
{
    enum err e = write_to(c, day_ns);

    if (!e) {
        e = catalogue_db_begin(c->writing);
    }
    if (e) {
        return e;
    }
    e = catalogue_take(c, s);
    if (!e) {
        e = catalogue_db_done(c->writing, number);
    }
    if (e) {
        catalogue_db_rollback(c->writing);
        return e;
    }
    e = catalogue_db_commit(c->writing);
    return e ? e : done_put(c, catalogue_day(c, day_ns), number);
}

static void catalogue_count(struct catalogue *c, uint64_t *counter)
{
    os_mutex_lock(c->lock);
    (*counter)++;
    os_mutex_unlock(c->lock);
}

/* A segment whose instances are not in yet. */
struct missing {
    int64_t day_ns;
    uint64_t number;
    size_t i;
};

static int by_day(const void *a, const void *b)
{
    const struct missing *x = a, *y = b;

    if (x->day_ns != y->day_ns) {
        return x->day_ns < y->day_ns ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

/* *out is the caller's (mem_free). */
static enum err list_missing(struct catalogue *c, const struct manifest_list *l,
                             struct missing **out, size_t *n)
{
    size_t from = manifest_lower(l, SEG_REST, INT64_MIN);
    struct missing *all = mem_array(manifest_segments(l) - from + 1, sizeof *all);
    const struct catalogue_day *d = NULL;

    if (!all) {
        return ERR_NOMEM;
    }
    *n = 0;
    for (size_t i = from; i < manifest_segments(l) && manifest_segment(l, i)->kind == SEG_REST;
         i++) {
        const struct seg_info *s = manifest_segment(l, i);
        int64_t day_ns = day_begin_of(s->window_ns);

        if (!d || d->day_ns != day_ns) {
            d = catalogue_day(c, day_ns);
        }
        if (!d || !is_done(d, s->number)) {
            all[(*n)++] = (struct missing){day_ns, s->number, i};
        }
    }
    qsort(all, *n, sizeof *all, by_day);
    *out = all;
    return ERR_OK;
}

/* Until a day has what it lacks at the start, what it tells is not all. */
static enum err note_missing(struct catalogue *c, const struct manifest_list *l)
{
    struct missing *missing;
    size_t n;
    enum err e = list_missing(c, l, &missing, &n);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < n && !e; i++) {
        struct catalogue_day *d = catalogue_day(c, missing[i].day_ns);

        if (!d) {
            e = add_day(c, missing[i].day_ns, &d);
        }
        if (!e) {
            d->remaking = true;
        }
    }
    mem_free(missing);
    return e;
}

/* All that the day lacked is in. */
static void day_made(struct catalogue *c, int64_t day_ns)
{
    os_mutex_lock(c->lock);
    catalogue_day(c, day_ns)->remaking = false;
    os_mutex_unlock(c->lock);
}

static enum err import_one(struct catalogue *c, const struct manifest_list *l,
                           const struct missing *t)
{
    const struct seg *s;
    enum err e = manifest_seg(l, t->i, &s);

    if (!e) {
        e = import_into(c, s, t->number, t->day_ns);
        if (e == ERR_CORRUPT) { /* the day, since the segment was opened */
            catalogue_discard(c, t->day_ns);
        }
    }
    catalogue_count(c, e ? &c->stats.failed : &c->stats.imported);
    return e;
}

static void discard_bad(struct catalogue *c)
{
    for (size_t i = 0; i < c->n_days; i++) {
        bool bad;

        os_mutex_lock(c->lock);
        bad = c->days[i].bad;
        c->days[i].bad = false;
        os_mutex_unlock(c->lock);
        if (bad) {
            catalogue_discard(c, c->days[i].day_ns);
        }
    }
}

/* At least one, then until the time is over. *more: something is left. */
static enum err import_until(struct catalogue *c, const struct manifest_list *l,
                             int64_t until_mono_ns, bool *more)
{
    struct missing *missing;
    size_t n, i = 0, failed = 0; /* of the day */
    enum err first = list_missing(c, l, &missing, &n);

    if (first) {
        return first;
    }
    while (i < n && (i == 0 || os_mono_ns() < until_mono_ns)) {
        const struct missing *t = &missing[i++];
        enum err e = import_one(c, l, t);

        failed += e != ERR_OK;
        if (i == n || t[1].day_ns != t->day_ns) {
            if (!failed) {
                day_made(c, t->day_ns);
            }
            failed = 0;
            e = e ? e : catalogue_look(c, catalogue_day(c, t->day_ns));
        }
        first = first ? first : e;
        if (c->on_progress) {
            c->on_progress(c->ctx, i, n);
        }
    }
    if (i < n && c->writing) {
        err_ignore(catalogue_look(c, catalogue_day(c, c->writing_ns)));
    }
    *more = i < n && !first;
    mem_free(missing);
    return first;
}

enum err catalogue_step(struct catalogue *c, struct manifest_list *segments, int64_t until_mono_ns,
                        bool *more)
{
    uint64_t rebuilt;
    enum err e;

    discard_bad(c);
    rebuilt = c->stats.rebuilt;
    e = import_until(c, segments, until_mono_ns, more);
    if (rebuilt != c->stats.rebuilt) { /* what a day had that turned out to be damaged */
        e = import_until(c, segments, until_mono_ns, more);
    }
    return e;
}

enum err catalogue_follow(struct catalogue *c, struct manifest_list *segments)
{
    bool more;

    return catalogue_step(c, segments, INT64_MAX, &more);
}

void catalogue_replaced(struct catalogue *c, const uint64_t *old, size_t n,
                        const struct seg_info *add)
{
    int64_t day_ns = day_begin_of(add->window_ns);
    struct catalogue_day *d = catalogue_day(c, day_ns);
    enum err e = ERR_OK;

    if (add->kind != SEG_REST || !d) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_done(d, old[i])) {
            return;
        }
    }
    e = write_to(c, day_ns);
    if (!e) {
        e = catalogue_db_done(c->writing, add->number); /* a transaction of its own */
    }
    if (!e) {
        err_ignore(done_put(c, d, add->number)); /* else it is imported, which is only slow */
    }
}

enum err catalogue_drop_before(struct catalogue *c, int64_t day_ns, uint64_t *bytes)
{
    *bytes = 0;
    day_ns = day_begin_of(day_ns);
    while (c->n_days && c->days[0].day_ns < day_ns) {
        enum err e;

        if (c->writing && c->writing_ns == c->days[0].day_ns) {
            stop_writing(c);
        }
        os_mutex_lock(c->lock);
        c->days[0].dropped = true;
        os_mutex_unlock(c->lock);
        close_idle(c);
        e = unlink_day(c, c->days[0].day_ns);
        if (e) {
            return e;
        }
        *bytes += c->days[0].bytes;
        remove_day(c, &c->days[0]);
    }
    return ERR_OK;
}

/* -- opening -- */

static enum err find_day(void *ctx, const char *name)
{
    struct catalogue *c = ctx;
    struct catalogue_day *d;
    int64_t day_ns;

    return day_of_name(name, &day_ns) ? add_day(c, day_ns, &d) : ERR_OK;
}

/* What the day's file says of itself; a damaged one goes. */
static enum err catalogue_load(struct catalogue *c, struct catalogue_day *d)
{
    char *path = path_of(c, d->day_ns, "");
    enum err e = path ? catalogue_db_open(&c->writing, path, DAY_WRITE) : ERR_NOMEM;

    mem_free(path);
    c->writing_ns = d->day_ns;
    if (!e) {
        e = catalogue_db_each_done(c->writing, done_add, d);
    }
    if (!e) {
        e = catalogue_look(c, d);
    }
    stop_writing(c);
    if (e == ERR_CORRUPT) {
        catalogue_discard(c, d->day_ns);
        e = ERR_OK;
    }
    return e;
}

static enum err load_all(struct catalogue *c, struct errmsg *why)
{
    enum err e = os_mkdirs(c->dir, true);

    if (!e) {
        e = os_list_dir(c->dir, find_day, c);
    }
    for (size_t i = 0; !e && i < c->n_days; i++) {
        e = catalogue_load(c, &c->days[i]);
    }
    return e ? errmsg_set(why, e, "the catalogue in %s cannot be opened: %s", c->dir, err_text(e))
             : ERR_OK;
}

enum err catalogue_open(struct catalogue **out, const struct catalogue_conf *conf,
                        struct manifest_list *segments, struct errmsg *why)
{
    struct catalogue *c = mem_zalloc(sizeof *c);
    enum err e = ERR_NOMEM;

    if (!c) {
        return ERR_NOMEM;
    }
    arena_init(&c->memory, CARRY_MEMORY);
    c->dir = mem_strdup(conf->dir);
    if (!c->dir) {
        goto fail;
    }
    e = os_mutex_create(&c->lock);
    if (!e) {
        e = packer_create(&c->packer);
    }
    if (!e) {
        e = load_all(c, why);
    }
    if (e) {
        goto fail;
    }
    c->on_progress = conf->on_progress;
    c->ctx = conf->ctx;
    if (segments) {
        bool more;

        e = note_missing(c, segments);
        if (e) {
            goto fail;
        }
        /* counted, and tried again */
        err_ignore(catalogue_step(c, segments, os_mono_ns() + OPEN_NS, &more));
    }
    c->on_progress = NULL;
    *out = c;
    return ERR_OK;

fail:
    catalogue_close(c);
    return e;
}

void catalogue_close(struct catalogue *c)
{
    if (!c) {
        return;
    }
    stop_writing(c);
    if (c->lock) {
        close_idle(c);
    }
    for (size_t i = 0; i < c->n_days; i++) {
        mem_free(c->days[i].done);
    }
    mem_free(c->days);
    packer_destroy(c->packer);
    arena_fini(&c->memory);
    os_mutex_destroy(c->lock);
    mem_free(c->dir);
    mem_free(c);
}

/* -- figures -- */

uint64_t catalogue_bytes(struct catalogue *c)
{
    uint64_t n = 0;

    os_mutex_lock(c->lock);
    for (size_t i = 0; i < c->n_days; i++) {
        n += c->days[i].bytes;
    }
    os_mutex_unlock(c->lock);
    return n;
}

int64_t catalogue_oldest_day(struct catalogue *c)
{
    int64_t day_ns;

    os_mutex_lock(c->lock);
    day_ns = c->n_days ? c->days[0].day_ns : 0;
    os_mutex_unlock(c->lock);
    return day_ns;
}

void catalogue_stats(struct catalogue *c, struct catalogue_stats *out)
{
    os_mutex_lock(c->lock);
    *out = c->stats;
    out->days = c->n_days;
    for (size_t i = 0; i < c->n_days; i++) {
        out->bytes += c->days[i].bytes;
        out->instances += c->days[i].facts.instances;
        out->running = c->days[i].facts.running;
    }
    os_mutex_unlock(c->lock);
}
