/* What a rest segment tells of instances, into a day's file; and what is carried from day to day.
 */
#include "collector/store/catalogue/catalogue_impl.h"
#include "collector/store/memtable/head_info.h"
#include "collector/store/meta/meta_value.h"
#include "collector/store/store.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* -- a segment -- */

static enum err tell(struct catalogue *c, int64_t host, int64_t boot, const struct day_inst *told)
{
    enum err e = day_tell(c->writing, host, boot, told);

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
            e = tell(c, host, boot, &told);
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
        store_span(b, 0, &first_ns, &last_ns);
    } else if (!b->n_infos) {
        return ERR_OK;
    }
    e = day_boot(c->writing, host, &b->head.boot, first_ns, last_ns, &boot);
    e = e ? e : take_events(c, host, boot, b, last_ns, false);
    for (size_t i = 0; !e && i < b->n_infos; i++) {
        const struct day_inst told = {b->infos[i], first_ns, last_ns};

        e = tell(c, host, boot, &told);
    }
    return e ? e : take_events(c, host, boot, b, last_ns, true);
}

static enum err take_rests(struct catalogue *c, const struct uuid *host, struct meta_reader *r,
                           enum err *unread)
{
    const struct window_rest *rest;
    int64_t id;
    enum err e = day_host(c->writing, host, &id);

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

enum err catalogue_take(struct catalogue *c, const struct seg *s)
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
    e = day_get(x->from, &x->c->memory, k, &inst);
    return e ? e : tell(x->c, x->to_host, x->to_boot, &inst);
}

/* The newest boot's processes of the host whose boots were all seen. */
static enum err carry_host(struct carry *x)
{
    enum err e;

    if (!x->host_id) {
        return ERR_OK;
    }
    e = day_host(x->c->writing, &x->host, &x->to_host);
    if (!e) {
        e = day_boot(x->c->writing, x->to_host, &x->newest.uuid, 1, 0, &x->to_boot);
    }
    return e ? e : day_running(x->from, x->newest.id, carry_one, x);
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

enum err catalogue_carry(struct catalogue *c, int64_t day_ns)
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
    e = day_begin(c->writing);
    if (!e) {
        e = day_each_boot(x.from, see_boot, &x);
        e = e ? e : carry_host(&x);
        if (e) {
            day_rollback(c->writing);
        } else {
            e = day_commit(c->writing);
        }
    }
    catalogue_release(c, before_ns, x.from, round, !e);
    return e;
}
