/* The consumer's half: see ring_impl.h. */
#include "agent/source/ring/ring.h"

#include <stddef.h>
#include <string.h>

#include "agent/source/ring/ring_impl.h"

#define RELEASE_AT 32 /* records, until their room is given back */

static void release(struct ring *r, uint64_t head)
{
    atomic_store(&r->take.head, head);
    if (atomic_load(&r->want_room)) {
        os_mutex_lock(r->lock);
        os_cond_wake(r->room);
        os_mutex_unlock(r->lock);
    }
}

static void advance(struct ring *r, int64_t wall_ns, int64_t mono_ns,
                    const struct source_sink *sink)
{
    if (r->take.begun && mono_ns <= r->take.advanced_ns) {
        return;
    }
    r->take.begun = true;
    r->take.advanced_ns = mono_ns;
    sink->advance(sink->ctx, wall_ns, mono_ns);
}

static void tell_marks(struct ring *r, const uint8_t *p, size_t n, const struct source_sink *sink)
{
    for (size_t i = 0; i < n; i++) {
        struct ring_mark m;
        struct event ev = {.kind = EV_LOST, .pid = EVENT_NO_ID, .tid = EVENT_NO_ID};

        memcpy(&m, p + i * sizeof m, sizeof m);
        ev.cpu = m.cpu;
        ev.wall_ns = m.wall_ns;
        ev.mono_ns = m.mono_ns;
        ev.u.lost = (struct ev_lost){m.all_cpus, m.events, m.buffers};
        advance(r, m.wall_ns, m.mono_ns, sink);
        sink->fact(sink->ctx, &ev);
    }
}

static void tell_record(struct ring *r, const uint8_t *p, const struct source_sink *sink)
{
    const struct ring_record *rec = (const struct ring_record *)(const void *)p;
    struct raw_event raw;

    p += sizeof *rec;
    if (rec->entry.context) {
        memcpy(&r->take.context, p, sizeof r->take.context);
        p += sizeof r->take.context;
    }
    raw = (struct raw_event){
        .form = rec->form,
        .version = rec->version,
        .opcode = rec->opcode,
        .level = rec->level,
        .pointer_size = rec->pointer_size,
        .early = rec->early,
        .id = rec->id,
        .task = rec->task,
        .cpu = rec->cpu,
        .pid = rec->pid,
        .tid = rec->tid,
        .keyword = r->take.context.keyword,
        .wall_ns = (int64_t)((uint64_t)rec->mono_ns + r->take.context.wall_less_mono),
        .mono_ns = rec->mono_ns,
        .shift_ns = r->take.context.shift_ns,
        .ticks = rec->ticks,
        .frequency = r->take.context.frequency,
        .header = rec->header,
        .counters = rec->counters,
        .place = r->take.context.place,
        .has_sequence = rec->has_sequence,
        .has_component = rec->has_component,
        .sequence = r->take.context.sequence,
        .component = r->take.context.component,
        .payload = p,
        .payload_n = rec->payload_n,
        .ext = rec->ext_n ? p + ring_up8(rec->payload_n) : NULL,
        .ext_n = rec->ext_n,
    };
    memcpy(raw.guid, rec->guid, sizeof raw.guid);
    if (!raw.early) {
        advance(r, raw.wall_ns, raw.mono_ns, sink);
    }
    sink->raw(sink->ctx, &raw);
    ring_add(&r->take.out, 1);
}

/* Gives the entry's size. */
static size_t tell(struct ring *r, const uint8_t *p, const struct source_sink *sink,
                   size_t *records)
{
    struct ring_entry e;
    struct ring_moment m;

    memcpy(&e, p, sizeof e);
    switch (e.what) {
    case RING_RECORD:
        tell_record(r, p, sink);
        (*records)++;
        break;
    case RING_LOST:
        tell_marks(r, p + sizeof e, e.n, sink);
        break;
    case RING_ADVANCE:
        memcpy(&m, p, sizeof m);
        advance(r, m.wall_ns, m.mono_ns, sink);
        break;
    default:
        break;
    }
    return e.size;
}

/* The time of an entry; false: it has none. */
static inline bool entry_ns(const uint8_t *p, const struct ring_entry *e, int64_t *mono_ns)
{
    size_t at;

    switch (e->what) {
    case RING_RECORD:
        at = offsetof(struct ring_record, mono_ns);
        break;
    case RING_LOST:
        at = sizeof *e + offsetof(struct ring_mark, mono_ns);
        break;
    case RING_ADVANCE:
        at = offsetof(struct ring_moment, mono_ns);
        break;
    default:
        return false;
    }
    memcpy(mono_ns, p + at, sizeof *mono_ns);
    return true;
}

bool ring_next_ns(struct ring *r, int64_t *mono_ns)
{
    uint64_t head = atomic_load_explicit(&r->take.head, memory_order_relaxed);
    uint64_t tail = atomic_load(&r->put.tail);

    while (head != tail) {
        const uint8_t *p = r->bytes + (head & (r->size - 1));
        struct ring_entry e;

        memcpy(&e, p, sizeof e);
        if (entry_ns(p, &e, mono_ns)) {
            return true;
        }
        head += e.size;
    }
    return false;
}

/* The producer has gone: what it could not store any more. */
static void tell_last_marks(struct ring *r, const struct source_sink *sink)
{
    size_t n = r->put.n_marks;

    if (n) {
        r->put.n_marks = 0;
        ring_add(&r->put.gaps, 1);
        tell_marks(r, (const uint8_t *)r->put.marks, n, sink);
    }
}

/* Whether the entry's turn has come. */
static inline bool is_due(const uint8_t *p, int64_t until_ns)
{
    struct ring_entry e;
    int64_t mono_ns;

    memcpy(&e, p, sizeof e);
    return !entry_ns(p, &e, &mono_ns) || mono_ns <= until_ns;
}

size_t ring_drain_until(struct ring *r, size_t max, int64_t until_ns,
                        const struct source_sink *sink)
{
    bool closed = atomic_load(&r->closed); /* before tail: nothing comes behind it then */
    uint64_t head = atomic_load_explicit(&r->take.head, memory_order_relaxed);
    uint64_t tail = atomic_load(&r->put.tail);
    size_t records = 0;

    while (head != tail && records < max) {
        const uint8_t *p = r->bytes + (head & (r->size - 1));
        size_t before = records;

        if (until_ns != INT64_MAX && !is_due(p, until_ns)) {
            break;
        }
        head += tell(r, p, sink, &records);
        if (records != before && records % RELEASE_AT == 0) {
            release(r, head);
        }
    }
    release(r, head);
    if (closed && head == tail) {
        tell_last_marks(r, sink);
    }
    return records;
}

size_t ring_drain(struct ring *r, size_t max, const struct source_sink *sink)
{
    return ring_drain_until(r, max, INT64_MAX, sink);
}

enum err ring_wait(struct ring *r, size_t bytes, int64_t until_ns)
{
    uint64_t head = atomic_load_explicit(&r->take.head, memory_order_relaxed);
    uint64_t held;
    enum err e = ERR_OK;

    /* A producer that waits for room has filled more than this: the limit is seven eighths, what
     * it wants to put at most one. */
    bytes = bytes < r->size / 8 * 5 ? bytes : r->size / 8 * 5;
    os_mutex_lock(r->lock);
    for (;;) {
        atomic_store(&r->wake_at, bytes);
        held = atomic_load(&r->put.tail) - head;
        if (held >= bytes || atomic_load(&r->closed) || e) {
            break;
        }
        e = os_cond_wait_until(r->news, until_ns);
    }
    atomic_store(&r->wake_at, 0);
    os_mutex_unlock(r->lock);
    if (held >= bytes) {
        return ERR_OK;
    }
    if (atomic_load(&r->closed)) {
        return held ? ERR_OK : ERR_END;
    }
    return e;
}
