/* Two tables.
 *
 * Runtimes lie side by side in `runtimes`; `index` is an open-addressed table over them, keyed by
 * the pid alone, so that all runtimes of a process stand in one run of it, and leave together.
 *
 * Open compilations and contentions lie in `open`. Each is in two lists: of those whose threads
 * hash alike, newest first, which makes the nested ones of a thread a stack; and of all by age, so
 * that the oldest can make room. Places count from 1 in every link: 0 is none. */
#include "agent/clr/clr.h"

#include <assert.h>

#include "common/base/clk.h"
#include "common/base/mem.h"

#define INDEX_SLOTS  (2 * CLR_RUNTIMES_MAX) /* powers of two */
#define BUCKETS      CLR_OPEN_MAX
#define OPEN_GCS     4  /* of a runtime: in the background, in front, and without an end */
#define COUNTS_KNOWN 64 /* collections back from the newest whose starts are recognised */

#define SUSPEND_FOR_GC      1
#define SUSPEND_FOR_GC_PREP 6

struct clr_runtime {
    uint32_t pid; /* free: not in the index */
    uint16_t instance;
    bool suspended, counted;
    uint32_t reason, count; /* of the suspension */
    uint32_t newest;        /* collection */
    uint64_t known;         /* bit n: newest - n has started */
    uint64_t used;          /* the event that was about it last */
    int64_t suspended_ns;
    uint64_t heap_bytes;
    struct {
        uint32_t count;
        bool open;
        int64_t began_ns;
    } gcs[OPEN_GCS];
};

enum clr_what { CLR_JIT, CLR_CONTENTION };

struct clr_open {
    uint64_t method;
    int64_t began_ns;
    uint32_t pid, tid;
    uint16_t below;        /* of the bucket */
    uint16_t newer, older; /* of all */
    uint8_t what;
};

struct clr {
    struct clr_stats stats;
    uint64_t events;
    size_t n_runtimes; /* the first ones of runtimes */
    struct clr_runtime runtimes[CLR_RUNTIMES_MAX];
    uint16_t index[INDEX_SLOTS]; /* place */

    struct clr_open open[CLR_OPEN_MAX];
    uint16_t buckets[BUCKETS];
    uint16_t oldest, newest, free; /* free ones are linked by below */
    size_t touched;                /* places from here on were never used */
};

_Static_assert(CLR_OPEN_MAX < UINT16_MAX && CLR_RUNTIMES_MAX < UINT16_MAX, "places fit");

enum err clr_create(struct clr **out)
{
    struct clr *c = mem_alloc(sizeof *c); /* places are filled when they are taken */

    if (!c) {
        return ERR_NOMEM;
    }
    memset(&c->stats, 0, sizeof c->stats);
    memset(c->index, 0, sizeof c->index);
    memset(c->buckets, 0, sizeof c->buckets);
    c->events = 0;
    c->n_runtimes = c->touched = 0;
    c->oldest = c->newest = c->free = 0;
    *out = c;
    return ERR_OK;
}

void clr_destroy(struct clr *c)
{
    mem_free(c);
}

const struct clr_stats *clr_stats(const struct clr *c)
{
    return &c->stats;
}

bool clr_is_gc(uint32_t reason)
{
    return reason == SUSPEND_FOR_GC || reason == SUSPEND_FOR_GC_PREP;
}

static uint32_t clr_hash(uint32_t id)
{
    return (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* -- runtimes -- */

static struct clr_runtime *clr_at(struct clr *c, size_t slot)
{
    assert(c->index[slot] <= c->n_runtimes);
    return c->index[slot] ? &c->runtimes[c->index[slot] - 1] : NULL;
}

static size_t clr_next(size_t slot)
{
    return (slot + 1) & (INDEX_SLOTS - 1);
}

static size_t clr_home(uint32_t pid)
{
    return clr_hash(pid) & (INDEX_SLOTS - 1);
}

static void clr_index_put(struct clr *c, uint32_t pid, uint16_t place)
{
    size_t slot = clr_home(pid);

    while (c->index[slot]) {
        slot = clr_next(slot);
    }
    c->index[slot] = place;
}

/* Empties a slot; what stood behind it because of it moves up. */
static void clr_index_drop(struct clr *c, size_t slot)
{
    size_t hole = slot;

    for (size_t at = clr_next(slot); c->index[at]; at = clr_next(at)) {
        size_t home = clr_home(clr_at(c, at)->pid);

        if (((at - home) & (INDEX_SLOTS - 1)) >= ((at - hole) & (INDEX_SLOTS - 1))) {
            c->index[hole] = c->index[at];
            hole = at;
        }
    }
    c->index[hole] = 0;
}

static size_t clr_index_slot(const struct clr *c, uint32_t pid, uint16_t place)
{
    size_t slot = clr_home(pid);

    while (c->index[slot] != place) {
        assert(c->index[slot]);
        slot = clr_next(slot);
    }
    return slot;
}

/* The last one takes the place of the removed one. */
static void clr_remove(struct clr *c, size_t slot)
{
    uint16_t place = c->index[slot], last = (uint16_t)c->n_runtimes;

    clr_index_drop(c, slot);
    if (place != last) {
        c->index[clr_index_slot(c, c->runtimes[last - 1].pid, last)] = place;
        c->runtimes[place - 1] = c->runtimes[last - 1];
    }
    c->n_runtimes--;
}

static void clr_make_room(struct clr *c)
{
    size_t longest = 0;

    for (size_t i = 1; i < c->n_runtimes; i++) {
        longest = c->runtimes[i].used < c->runtimes[longest].used ? i : longest;
    }
    clr_remove(c, clr_index_slot(c, c->runtimes[longest].pid, (uint16_t)(longest + 1)));
    c->stats.runtimes_full++;
}

/* The runtime of an event; a new one when it is the first. A process that has more of them than
 * anything real shares its last one. */
static struct clr_runtime *clr_runtime_of(struct clr *c, const struct event *ev)
{
    struct clr_runtime *r;
    size_t n = 0;

    for (size_t at = clr_home(ev->pid); (r = clr_at(c, at)) != NULL; at = clr_next(at)) {
        if (r->pid == ev->pid) {
            n++;
            if (r->instance == ev->u.clr.instance || n == CLR_OF_PROCESS) {
                r->used = ++c->events;
                return r;
            }
        }
    }
    if (c->n_runtimes == CLR_RUNTIMES_MAX) {
        clr_make_room(c);
    }
    r = &c->runtimes[c->n_runtimes++];
    *r = (struct clr_runtime){.pid = ev->pid, .instance = ev->u.clr.instance, .used = ++c->events};
    clr_index_put(c, ev->pid, (uint16_t)c->n_runtimes);
    return r;
}

/* -- collections and pauses -- */

/* Whether the collection has started before. Numbers grow by one; a number far back is of a runtime
 * that began anew. */
static bool clr_count_known(struct clr_runtime *r, uint32_t count)
{
    uint32_t ahead = count - r->newest, back = r->newest - count;

    if (r->counted && back < COUNTS_KNOWN) {
        bool known = (r->known >> back & 1) != 0;

        r->known |= UINT64_C(1) << back;
        return known;
    }
    r->known = r->counted && ahead < COUNTS_KNOWN ? r->known << ahead | 1 : 1;
    r->newest = count;
    r->counted = true;
    return false;
}

static void clr_on_gc_start(struct clr_runtime *r, const struct event *ev, struct clr_step *out)
{
    size_t at = 0;

    out->repeated = clr_count_known(r, ev->u.clr.count);
    if (out->repeated) {
        return;
    }
    for (size_t i = 0; i < OPEN_GCS; i++) { /* a free one, else the oldest */
        if (!r->gcs[i].open || (r->gcs[at].open && r->gcs[i].began_ns < r->gcs[at].began_ns)) {
            at = i;
        }
    }
    r->gcs[at].open = true;
    r->gcs[at].count = ev->u.clr.count;
    r->gcs[at].began_ns = ev->mono_ns;
}

static void clr_end(struct clr_step *out, int64_t began_ns, const struct event *ev)
{
    int64_t took_ns = clk_sub(ev->mono_ns, began_ns);

    out->ended = true;
    out->began_ns = began_ns;
    out->took_ns = took_ns > 0 ? took_ns : 0;
}

static void clr_on_gc_end(struct clr_runtime *r, const struct event *ev, struct clr_step *out)
{
    for (size_t i = 0; i < OPEN_GCS; i++) {
        if (r->gcs[i].open && r->gcs[i].count == ev->u.clr.count) {
            r->gcs[i].open = false;
            clr_end(out, r->gcs[i].began_ns, ev);
            return;
        }
    }
    out->unpaired = true;
}

static void clr_on_suspend(struct clr_runtime *r, const struct event *ev, struct clr_step *out)
{
    out->replaced = r->suspended;
    r->suspended = true;
    r->suspended_ns = ev->mono_ns;
    r->reason = ev->u.clr.reason;
    r->count = ev->u.clr.count;
}

static void clr_on_restart(struct clr_runtime *r, const struct event *ev, struct clr_step *out)
{
    if (!r->suspended) {
        out->unpaired = true;
        return;
    }
    r->suspended = false;
    out->reason = r->reason;
    out->count = r->count;
    clr_end(out, r->suspended_ns, ev);
}

static void clr_on_heap(struct clr *c, struct clr_runtime *r, const struct event *ev,
                        struct clr_step *out)
{
    r->heap_bytes = ev->u.clr.bytes;
    for (size_t at = clr_home(ev->pid); (r = clr_at(c, at)) != NULL; at = clr_next(at)) {
        out->heap_bytes += r->pid == ev->pid ? r->heap_bytes : 0;
    }
}

/* -- what a thread has begun -- */

static uint16_t *clr_bucket(struct clr *c, uint32_t tid)
{
    return &c->buckets[clr_hash(tid) & (BUCKETS - 1)];
}

/* *link is the place of the one to close, in its bucket. */
static void clr_close(struct clr *c, uint16_t *link)
{
    uint16_t place = *link;
    struct clr_open *o = &c->open[place - 1];

    *link = o->below;
    *(o->newer ? &c->open[o->newer - 1].older : &c->newest) = o->older;
    *(o->older ? &c->open[o->older - 1].newer : &c->oldest) = o->newer;
    o->below = c->free;
    c->free = place;
}

static void clr_close_place(struct clr *c, uint16_t place)
{
    uint16_t *link = clr_bucket(c, c->open[place - 1].tid);

    while (*link != place) {
        assert(*link);
        link = &c->open[*link - 1].below;
    }
    clr_close(c, link);
}

static uint16_t clr_open_place(struct clr *c)
{
    uint16_t place;

    if (!c->free && c->touched < CLR_OPEN_MAX) {
        return (uint16_t)++c->touched;
    }
    if (!c->free) {
        clr_close_place(c, c->oldest);
        c->stats.open_full++;
    }
    place = c->free;
    c->free = c->open[place - 1].below;
    return place;
}

static bool clr_is_of(const struct clr_open *o, const struct event *ev, enum clr_what what)
{
    return o->tid == ev->tid && o->pid == ev->pid && o->what == what;
}

/* Makes room on the thread: at most so many stay open; a method that begins again replaces itself.
 */
static void clr_trim(struct clr *c, const struct event *ev, enum clr_what what, size_t max,
                     struct clr_step *out)
{
    uint16_t *link = clr_bucket(c, ev->tid);
    size_t n = 0;

    while (*link) {
        struct clr_open *o = &c->open[*link - 1];
        bool is_of = clr_is_of(o, ev, what);

        if (is_of && o->method == ev->u.clr.method) {
            out->replaced = true;
            clr_close(c, link);
        } else if (is_of && ++n >= max) {
            c->stats.too_deep++;
            clr_close(c, link);
        } else {
            link = &o->below;
        }
    }
}

static void clr_begin(struct clr *c, const struct event *ev, enum clr_what what, size_t max,
                      struct clr_step *out)
{
    struct clr_open *o;
    uint16_t *bucket = clr_bucket(c, ev->tid), place;

    clr_trim(c, ev, what, max, out);
    place = clr_open_place(c); /* may change the bucket */
    o = &c->open[place - 1];
    *o = (struct clr_open){.method = ev->u.clr.method,
                           .began_ns = ev->mono_ns,
                           .pid = ev->pid,
                           .tid = ev->tid,
                           .below = *bucket,
                           .older = c->newest,
                           .what = (uint8_t)what};
    *bucket = place;
    *(c->newest ? &c->open[c->newest - 1].newer : &c->oldest) = place;
    c->newest = place;
}

static bool clr_has(const struct clr *c, uint16_t place, const struct event *ev, enum clr_what what)
{
    for (; place; place = c->open[place - 1].below) {
        if (clr_is_of(&c->open[place - 1], ev, what) &&
            c->open[place - 1].method == ev->u.clr.method) {
            return true;
        }
    }
    return false;
}

/* What the thread began after it has come to nothing. */
static void clr_finish(struct clr *c, const struct event *ev, enum clr_what what,
                       struct clr_step *out)
{
    uint16_t *link = clr_bucket(c, ev->tid);

    out->unpaired = !clr_has(c, *link, ev, what);
    while (!out->unpaired && !out->ended) {
        struct clr_open *o = &c->open[*link - 1];

        if (!clr_is_of(o, ev, what)) {
            link = &o->below;
        } else {
            if (o->method == ev->u.clr.method) {
                clr_end(out, o->began_ns, ev);
            } else {
                c->stats.abandoned++;
            }
            clr_close(c, link);
        }
    }
}

/* -- */

void clr_event(struct clr *c, const struct event *ev, struct clr_step *out)
{
    *out = (struct clr_step){0};
    switch (ev->u.clr.op) {
    case CLR_GC_START:
        clr_on_gc_start(clr_runtime_of(c, ev), ev, out);
        break;
    case CLR_GC_END:
        clr_on_gc_end(clr_runtime_of(c, ev), ev, out);
        break;
    case CLR_SUSPEND:
        clr_on_suspend(clr_runtime_of(c, ev), ev, out);
        break;
    case CLR_RESTART:
        clr_on_restart(clr_runtime_of(c, ev), ev, out);
        break;
    case CLR_HEAP:
        clr_on_heap(c, clr_runtime_of(c, ev), ev, out);
        break;
    case CLR_JIT_START:
        clr_begin(c, ev, CLR_JIT, CLR_NESTED_MAX, out);
        break;
    case CLR_METHOD_LOAD:
        clr_finish(c, ev, CLR_JIT, out);
        break;
    case CLR_CONTENTION_START:
        clr_begin(c, ev, CLR_CONTENTION, 1, out);
        break;
    case CLR_CONTENTION_STOP:
        clr_finish(c, ev, CLR_CONTENTION, out);
        break;
    default:
        break;
    }
}

void clr_forget(struct clr *c, uint32_t pid)
{
    struct clr_runtime *r;

    for (size_t at = clr_home(pid); (r = clr_at(c, at)) != NULL;) {
        if (r->pid == pid) {
            clr_remove(c, at); /* another one may stand there now */
        } else {
            at = clr_next(at);
        }
    }
    for (uint16_t place = c->newest, older; place; place = older) {
        older = c->open[place - 1].older;
        if (c->open[place - 1].pid == pid) {
            clr_close_place(c, place);
        }
    }
}

void clr_lost(struct clr *c)
{
    for (size_t i = 0; i < c->n_runtimes; i++) {
        struct clr_runtime *r = &c->runtimes[i];

        c->stats.lost += r->suspended;
        r->suspended = false;
        for (size_t k = 0; k < OPEN_GCS; k++) {
            r->gcs[k].open = false;
        }
    }
    while (c->oldest) {
        clr_close_place(c, c->oldest);
        c->stats.lost++;
    }
}
