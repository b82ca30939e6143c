/* The producer's half: see ring_impl.h. */
#include "agent/source/ring/ring.h"

#include <string.h>

#include "agent/source/ring/ring_impl.h"

#define ADVANCE_MIN 10000000u /* ns between two stored times */

/* Bytes that may be held when one of the kind has been added. */
static size_t limit_of(const struct ring *r, enum ring_kind kind)
{
    if (kind == RING_PROCESS) {
        return r->size;
    }
    return r->size - r->size / (kind == RING_THREAD || kind == RING_IMAGE ? 16 : 8);
}

/* n contiguous bytes at *at, or false: then more than `limit` would be held. */
static bool reserve(struct ring *r, size_t n, size_t limit, uint64_t *at)
{
    uint64_t tail = atomic_load_explicit(&r->put.tail, memory_order_relaxed);
    size_t to_end = r->size - (size_t)(tail & (r->size - 1));
    uint64_t first = tail + (n > to_end ? to_end : 0);

    if (first + n - r->put.head_seen > limit) {
        r->put.head_seen = atomic_load(&r->take.head);
        if (first + n - r->put.head_seen > limit) {
            return false;
        }
    }
    if (first != tail) {
        struct ring_entry e = {.size = (uint32_t)to_end, .what = RING_FILLING};

        memcpy(r->bytes + (tail & (r->size - 1)), &e, sizeof e);
    }
    *at = first;
    return true;
}

static void publish(struct ring *r, uint64_t tail)
{
    size_t wake_at;

    atomic_store(&r->put.tail, tail);
    wake_at = atomic_load(&r->wake_at);
    if (!wake_at || tail - atomic_load(&r->take.head) < wake_at ||
        !atomic_exchange(&r->wake_at, 0)) {
        return;
    }
    ring_add(&r->put.wakes, 1);
    os_mutex_lock(r->lock);
    os_cond_wake(r->news);
    os_mutex_unlock(r->lock);
}

/* The mark of a CPU in the stretch of loss that is open, begun at `when` if there is none. */
static struct ring_mark *mark_of(struct ring *r, const struct ring_mark *when)
{
    struct ring_mark *m = r->put.marks;

    for (size_t i = 0; i < r->put.n_marks; i++, m++) {
        if (m->all_cpus || (!when->all_cpus && m->cpu == when->cpu)) {
            return m;
        }
    }
    if (r->put.n_marks == RING_MARKS) {
        m--;
        m->all_cpus = true;
        return m;
    }
    r->put.n_marks++;
    *m = *when;
    m->events = m->buffers = 0;
    return m;
}

static void note_loss(struct ring *r, const struct ring_mark *loss)
{
    struct ring_mark *m = mark_of(r, loss);

    m->events += loss->events;
    m->buffers += loss->buffers;
}

static void note_record(struct ring *r, const struct raw_event *raw)
{
    struct ring_mark loss = {
        .wall_ns = raw->wall_ns, .mono_ns = raw->mono_ns, .events = 1, .cpu = raw->cpu};

    if (!raw->early) { /* its time is not now; it comes again */
        note_loss(r, &loss);
    }
}

static size_t marks_size(const struct ring *r)
{
    return r->put.n_marks ? sizeof(struct ring_entry) + r->put.n_marks * sizeof(struct ring_mark)
                          : 0;
}

static uint8_t *put_marks(struct ring *r, uint8_t *p)
{
    size_t n = r->put.n_marks, size = marks_size(r);
    struct ring_entry e = {.size = (uint32_t)size, .what = RING_LOST, .n = (uint16_t)n};

    if (!n) {
        return p;
    }
    memcpy(p, &e, sizeof e);
    memcpy(p + sizeof e, r->put.marks, n * sizeof *r->put.marks);
    r->put.n_marks = 0;
    ring_add(&r->put.gaps, 1);
    return p + size;
}

static bool is_context_of(const struct ring_context *c, const struct raw_event *raw)
{
    return c->keyword == raw->keyword &&
           c->wall_less_mono == (uint64_t)raw->wall_ns - (uint64_t)raw->mono_ns &&
           c->frequency == raw->frequency && c->place == raw->place &&
           c->shift_ns == raw->shift_ns && c->sequence == raw->sequence &&
           c->component == raw->component;
}

static struct ring_context context_of(const struct raw_event *raw)
{
    return (struct ring_context){.keyword = raw->keyword,
                                 .wall_less_mono = (uint64_t)raw->wall_ns - (uint64_t)raw->mono_ns,
                                 .frequency = raw->frequency,
                                 .place = raw->place,
                                 .shift_ns = raw->shift_ns,
                                 .sequence = raw->sequence,
                                 .component = raw->component};
}

/* Straight into the ring, whose entries are aligned as the struct is. */
static void put_record(uint8_t *p, size_t size, const struct raw_event *raw,
                       const struct ring_context *context)
{
    struct ring_record *rec = (struct ring_record *)(void *)p;

    *rec = (struct ring_record){
        .entry = {.size = (uint32_t)size, .what = RING_RECORD, .context = context != NULL},
        .payload_n = (uint32_t)raw->payload_n,
        .ext_n = (uint32_t)raw->ext_n,
        .pid = raw->pid,
        .tid = raw->tid,
        .id = raw->id,
        .task = raw->task,
        .cpu = raw->cpu,
        .form = raw->form,
        .version = raw->version,
        .opcode = raw->opcode,
        .level = raw->level,
        .pointer_size = raw->pointer_size,
        .header = raw->header,
        .counters = raw->counters,
        .early = raw->early,
        .has_sequence = raw->has_sequence,
        .has_component = raw->has_component,
        .mono_ns = raw->mono_ns,
        .ticks = raw->ticks,
    };
    memcpy(rec->guid, raw->guid, sizeof rec->guid);
    p += sizeof *rec;
    if (context) {
        memcpy(p, context, sizeof *context);
        p += sizeof *context;
    }
    if (raw->payload_n) {
        memcpy(p, raw->payload, raw->payload_n);
    }
    if (raw->ext_n) {
        memcpy(p + ring_up8(raw->payload_n), raw->ext, raw->ext_n);
    }
}

/* Sleeps until n bytes fit below the limit; false: the ring was closed. */
static bool wait_for_room(struct ring *r, size_t n, size_t limit, uint64_t *at)
{
    bool fits = false;

    ring_add(&r->put.waits, 1);
    os_mutex_lock(r->lock);
    while (!atomic_load(&r->closed)) {
        atomic_store(&r->want_room, true);
        fits = reserve(r, n, limit, at);
        if (fits) {
            break;
        }
        os_cond_wait(r->room);
    }
    atomic_store(&r->want_room, false);
    os_mutex_unlock(r->lock);
    return fits;
}

static enum err drop(struct ring *r, const struct raw_event *raw, enum ring_kind kind)
{
    if (atomic_load(&r->closed)) {
        ring_add(&r->put.refused, 1);
        return ERR_CLOSED;
    }
    ring_add(&r->put.dropped[kind], 1);
    note_record(r, raw);
    return ERR_FULL;
}

enum err ring_put(struct ring *r, const struct raw_event *raw)
{
    bool same = is_context_of(&r->put.context, raw);
    size_t size = sizeof(struct ring_record) + (same ? 0 : sizeof r->put.context), all;
    uint64_t at;

    ring_add(&r->put.in, 1);
    if (atomic_load_explicit(&r->closed, memory_order_relaxed)) {
        ring_add(&r->put.refused, 1);
        return ERR_CLOSED;
    }
    if (raw->payload_n > r->size / 8 || raw->ext_n > r->size / 8 - size) {
        ring_add(&r->put.refused, 1);
        note_record(r, raw);
        return ERR_INVALID;
    }
    size += ring_up8(raw->payload_n) + ring_up8(raw->ext_n);
    all = marks_size(r) + size;
    if (!reserve(r, all, limit_of(r, RING_OTHER), &at)) { /* the kind counts only from here on */
        enum ring_kind kind = ring_kind_of(raw);
        size_t limit = limit_of(r, kind);

        if (!reserve(r, all, limit, &at) && !(r->wait && wait_for_room(r, all, limit, &at))) {
            return drop(r, raw, kind);
        }
    }
    if (!same) {
        r->put.context = context_of(raw);
    }
    put_record(put_marks(r, r->bytes + (at & (r->size - 1))), size, raw,
               same ? NULL : &r->put.context);
    r->put.told_ns = raw->early ? r->put.told_ns : raw->mono_ns;
    publish(r, at + all);
    return ERR_OK;
}

void ring_lost(struct ring *r, const struct event *ev)
{
    struct ring_mark loss = {.wall_ns = ev->wall_ns,
                             .mono_ns = ev->mono_ns,
                             .events = ev->u.lost.events,
                             .buffers = ev->u.lost.buffers,
                             .cpu = ev->cpu,
                             .all_cpus = ev->u.lost.all_cpus};

    if (ev->kind == EV_LOST && !atomic_load_explicit(&r->closed, memory_order_relaxed)) {
        note_loss(r, &loss);
    }
}

void ring_advance(struct ring *r, int64_t wall_ns, int64_t mono_ns)
{
    struct ring_moment m = {
        .entry = {.size = sizeof m, .what = RING_ADVANCE}, .wall_ns = wall_ns, .mono_ns = mono_ns};
    size_t all = marks_size(r) + sizeof m;
    uint64_t at;

    if (mono_ns < r->put.told_ns || (uint64_t)mono_ns - (uint64_t)r->put.told_ns < ADVANCE_MIN ||
        atomic_load_explicit(&r->closed, memory_order_relaxed) ||
        !reserve(r, all, limit_of(r, RING_OTHER), &at)) {
        return;
    }
    memcpy(put_marks(r, r->bytes + (at & (r->size - 1))), &m, sizeof m);
    r->put.told_ns = mono_ns;
    publish(r, at + all);
}
