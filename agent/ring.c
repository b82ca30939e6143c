#include "agent/ring.h"

#include <stdatomic.h>
#include <string.h>

#include "common/mem.h"
#include "common/os.h"

/* The memory holds entries one behind the other, each contiguous and a multiple of 8 bytes long;
 * one that does not fit before the end stands at the beginning, behind an entry that only fills.
 * `tail` and `head` count bytes since the ring was made; their difference is what is held. The
 * producer alone writes tail, the consumer alone head, and each keeps a copy of the other's, which
 * it renews only when the copy says full (or empty): the two rarely touch the same cache line.
 *
 * What is the same for nearly all records of a session (keyword, offset of the wall clock,
 * frequency, and what only files and messages have) is an entry's `context`, stored only where it
 * differs from the entry before. Both sides keep the current one; a dropped record changes neither.
 *
 * Sleeping: the consumer says in `wake_at` at how many held bytes it wants to be woken, then looks
 * at tail once more; the producer moves tail, then looks at wake_at. These four are sequentially
 * consistent, so one of the two sees the other. The same holds for `want_room` and head. A lock is
 * taken only around sleeping and waking.
 *
 * Loss is kept by the producer as marks, one for each CPU, and stored before the next record that
 * finds room (the marks of the last stretch are read in place, once the ring is closed). Nothing is
 * handed on between a stretch's first missed record and its marks, so their times are in order. */

#define MARKS_MAX   16 /* CPUs of one stretch told apart; beyond: all CPUs */
#define RELEASE_AT  32 /* records, until their room is given back */
#define CACHE_LINE  64
#define ADVANCE_MIN 10000000u /* ns between two stored times */

enum what { FILLING, RECORD, LOST, ADVANCE };

struct entry {
    uint32_t size;
    uint8_t what;
    bool context; /* RECORD: a struct context follows the header */
    uint16_t n;   /* LOST: marks */
};

struct record {
    struct entry entry;
    uint32_t payload_n, ext_n;
    uint32_t pid, tid;
    uint16_t id, task, cpu;
    uint8_t form, version, opcode, level, pointer_size, header, counters;
    bool early, has_sequence, has_component;
    int64_t mono_ns, ticks;
    uint8_t guid[16];
};

struct context {
    uint64_t keyword, wall_less_mono, frequency, place;
    int64_t shift_ns;
    uint32_t sequence, component;
};

struct mark {
    int64_t wall_ns, mono_ns;
    uint64_t events, buffers;
    uint16_t cpu;
    bool all_cpus;
};

struct moment {
    struct entry entry;
    int64_t wall_ns, mono_ns;
};

struct ring {
    uint8_t *bytes;
    size_t size; /* a power of two */
    bool wait;
    atomic_bool closed;

    struct os_mutex *lock; /* guards nothing but sleeping and waking */
    struct os_cond *news, *room;
    uint8_t pad_a[CACHE_LINE];

    struct {
        _Atomic uint64_t tail;
        uint64_t head_seen;
        struct context context;
        int64_t told_ns; /* monotonic: of the last time stored */
        struct mark marks[MARKS_MAX];
        size_t n_marks;
        _Atomic uint64_t in, refused, gaps, waits, wakes;
        _Atomic uint64_t dropped[RING_KIND_COUNT];
    } put;
    uint8_t pad_b[CACHE_LINE];

    struct {
        _Atomic uint64_t head;
        struct context context;
        bool begun;
        int64_t advanced_ns; /* monotonic: told to the sink */
        _Atomic uint64_t out;
    } take;
    uint8_t pad_c[CACHE_LINE];

    _Atomic size_t wake_at; /* 0: the consumer is awake */
    atomic_bool want_room;
};

/* Counters have one writer each: no locked instruction is needed. */
static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static size_t up8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* ---- create, destroy ---- */

enum err ring_create(struct ring **out, const struct ring_conf *conf)
{
    struct ring *r;
    enum err e;

    if (conf->bytes < RING_BYTES_MIN || conf->bytes > RING_BYTES_MAX) {
        return ERR_RANGE;
    }
    r = mem_zalloc(sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    r->wait = conf->wait;
    for (r->size = RING_BYTES_MIN; r->size < conf->bytes;) {
        r->size *= 2;
    }
    e = ERR_NOMEM;
    r->bytes = mem_alloc(r->size);
    if (!r->bytes) {
        goto fail;
    }
    memset(r->bytes, 0, r->size); /* the callback meets no page fault */
    e = os_mutex_create(&r->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&r->news, r->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&r->room, r->lock);
    if (e) {
        goto fail;
    }
    *out = r;
    return ERR_OK;

fail:
    ring_destroy(r);
    return e;
}

void ring_destroy(struct ring *r)
{
    if (!r) {
        return;
    }
    os_cond_destroy(r->room);
    os_cond_destroy(r->news);
    os_mutex_destroy(r->lock);
    mem_free(r->bytes);
    mem_free(r);
}

/* Bytes that may be held when one of the kind has been added. */
static size_t limit_of(const struct ring *r, enum ring_kind kind)
{
    if (kind == RING_PROCESS) {
        return r->size;
    }
    return r->size - r->size / (kind == RING_THREAD || kind == RING_IMAGE ? 16 : 8);
}

/* ---- producer ---- */

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
        struct entry e = {.size = (uint32_t)to_end, .what = FILLING};

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
    add(&r->put.wakes, 1);
    os_mutex_lock(r->lock);
    os_cond_wake(r->news);
    os_mutex_unlock(r->lock);
}

/* The mark of a CPU in the stretch of loss that is open, begun at `when` if there is none. */
static struct mark *mark_of(struct ring *r, const struct mark *when)
{
    struct mark *m = r->put.marks;

    for (size_t i = 0; i < r->put.n_marks; i++, m++) {
        if (m->all_cpus || (!when->all_cpus && m->cpu == when->cpu)) {
            return m;
        }
    }
    if (r->put.n_marks == MARKS_MAX) {
        m--;
        m->all_cpus = true;
        return m;
    }
    r->put.n_marks++;
    *m = *when;
    m->events = m->buffers = 0;
    return m;
}

static void note_loss(struct ring *r, const struct mark *loss)
{
    struct mark *m = mark_of(r, loss);

    m->events += loss->events;
    m->buffers += loss->buffers;
}

static void note_record(struct ring *r, const struct raw_event *raw)
{
    struct mark loss = {
        .wall_ns = raw->wall_ns, .mono_ns = raw->mono_ns, .events = 1, .cpu = raw->cpu};

    if (!raw->early) { /* its time is not now; it comes again */
        note_loss(r, &loss);
    }
}

static size_t marks_size(const struct ring *r)
{
    return r->put.n_marks ? sizeof(struct entry) + r->put.n_marks * sizeof(struct mark) : 0;
}

static uint8_t *put_marks(struct ring *r, uint8_t *p)
{
    size_t n = r->put.n_marks, size = marks_size(r);
    struct entry e = {.size = (uint32_t)size, .what = LOST, .n = (uint16_t)n};

    if (n) {
        memcpy(p, &e, sizeof e);
        memcpy(p + sizeof e, r->put.marks, n * sizeof *r->put.marks);
        r->put.n_marks = 0;
        add(&r->put.gaps, 1);
    }
    return p + size;
}

static struct context context_of(const struct raw_event *raw)
{
    return (struct context){.keyword = raw->keyword,
                            .wall_less_mono = (uint64_t)raw->wall_ns - (uint64_t)raw->mono_ns,
                            .frequency = raw->frequency,
                            .place = raw->place,
                            .shift_ns = raw->shift_ns,
                            .sequence = raw->sequence,
                            .component = raw->component};
}

static void put_record(uint8_t *p, size_t size, const struct raw_event *raw,
                       const struct context *context)
{
    struct record rec = {
        .entry = {.size = (uint32_t)size, .what = RECORD, .context = context != NULL},
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

    memcpy(rec.guid, raw->guid, sizeof rec.guid);
    memcpy(p, &rec, sizeof rec);
    p += sizeof rec;
    if (context) {
        memcpy(p, context, sizeof *context);
        p += sizeof *context;
    }
    if (raw->payload_n) {
        memcpy(p, raw->payload, raw->payload_n);
    }
    if (raw->ext_n) {
        memcpy(p + up8(raw->payload_n), raw->ext, raw->ext_n);
    }
}

/* Sleeps until n bytes fit below the limit; false: the ring was closed. */
static bool wait_for_room(struct ring *r, size_t n, size_t limit, uint64_t *at)
{
    bool fits = false;

    add(&r->put.waits, 1);
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
        add(&r->put.refused, 1);
        return ERR_CLOSED;
    }
    add(&r->put.dropped[kind], 1);
    note_record(r, raw);
    return ERR_FULL;
}

enum err ring_put(struct ring *r, const struct raw_event *raw)
{
    struct context context = context_of(raw);
    bool same = memcmp(&context, &r->put.context, sizeof context) == 0;
    size_t size = sizeof(struct record) + (same ? 0 : sizeof context), all;
    uint64_t at;

    add(&r->put.in, 1);
    if (atomic_load_explicit(&r->closed, memory_order_relaxed)) {
        add(&r->put.refused, 1);
        return ERR_CLOSED;
    }
    if (raw->payload_n > r->size / 8 || raw->ext_n > r->size / 8 - size) {
        add(&r->put.refused, 1);
        note_record(r, raw);
        return ERR_INVALID;
    }
    size += up8(raw->payload_n) + up8(raw->ext_n);
    all = marks_size(r) + size;
    if (!reserve(r, all, limit_of(r, RING_OTHER), &at)) { /* the kind counts only from here on */
        enum ring_kind kind = ring_kind_of(raw);
        size_t limit = limit_of(r, kind);

        if (!reserve(r, all, limit, &at) && !(r->wait && wait_for_room(r, all, limit, &at))) {
            return drop(r, raw, kind);
        }
    }
    put_record(put_marks(r, r->bytes + (at & (r->size - 1))), size, raw, same ? NULL : &context);
    r->put.context = context;
    r->put.told_ns = raw->early ? r->put.told_ns : raw->mono_ns;
    publish(r, at + all);
    return ERR_OK;
}

void ring_lost(struct ring *r, const struct event *ev)
{
    struct mark loss = {.wall_ns = ev->wall_ns,
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
    struct moment m = {
        .entry = {.size = sizeof m, .what = ADVANCE}, .wall_ns = wall_ns, .mono_ns = mono_ns};
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

void ring_close(struct ring *r)
{
    os_mutex_lock(r->lock);
    atomic_store(&r->closed, true);
    os_cond_wake_all(r->news);
    os_cond_wake_all(r->room);
    os_mutex_unlock(r->lock);
}

/* ---- consumer ---- */

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
        struct mark m;
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
    struct record rec;
    struct raw_event raw;

    memcpy(&rec, p, sizeof rec);
    p += sizeof rec;
    if (rec.entry.context) {
        memcpy(&r->take.context, p, sizeof r->take.context);
        p += sizeof r->take.context;
    }
    raw = (struct raw_event){
        .form = rec.form,
        .version = rec.version,
        .opcode = rec.opcode,
        .level = rec.level,
        .pointer_size = rec.pointer_size,
        .early = rec.early,
        .id = rec.id,
        .task = rec.task,
        .cpu = rec.cpu,
        .pid = rec.pid,
        .tid = rec.tid,
        .keyword = r->take.context.keyword,
        .wall_ns = (int64_t)((uint64_t)rec.mono_ns + r->take.context.wall_less_mono),
        .mono_ns = rec.mono_ns,
        .shift_ns = r->take.context.shift_ns,
        .ticks = rec.ticks,
        .frequency = r->take.context.frequency,
        .header = rec.header,
        .counters = rec.counters,
        .place = r->take.context.place,
        .has_sequence = rec.has_sequence,
        .has_component = rec.has_component,
        .sequence = r->take.context.sequence,
        .component = r->take.context.component,
        .payload = p,
        .payload_n = rec.payload_n,
        .ext = rec.ext_n ? p + up8(rec.payload_n) : NULL,
        .ext_n = rec.ext_n,
    };
    memcpy(raw.guid, rec.guid, sizeof raw.guid);
    if (!raw.early) {
        advance(r, raw.wall_ns, raw.mono_ns, sink);
    }
    sink->raw(sink->ctx, &raw);
    add(&r->take.out, 1);
}

/* Gives the entry's size. */
static size_t tell(struct ring *r, const uint8_t *p, const struct source_sink *sink,
                   size_t *records)
{
    struct entry e;
    struct moment m;

    memcpy(&e, p, sizeof e);
    switch (e.what) {
    case RECORD:
        tell_record(r, p, sink);
        (*records)++;
        break;
    case LOST:
        tell_marks(r, p + sizeof e, e.n, sink);
        break;
    case ADVANCE:
        memcpy(&m, p, sizeof m);
        advance(r, m.wall_ns, m.mono_ns, sink);
        break;
    default:
        break;
    }
    return e.size;
}

/* The producer has gone: what it could not store any more. */
static void tell_last_marks(struct ring *r, const struct source_sink *sink)
{
    size_t n = r->put.n_marks;

    if (n) {
        r->put.n_marks = 0;
        add(&r->put.gaps, 1);
        tell_marks(r, (const uint8_t *)r->put.marks, n, sink);
    }
}

size_t ring_drain(struct ring *r, size_t max, const struct source_sink *sink)
{
    bool closed = atomic_load(&r->closed); /* before tail: nothing comes behind it then */
    uint64_t head = atomic_load_explicit(&r->take.head, memory_order_relaxed);
    uint64_t tail = atomic_load(&r->put.tail);
    size_t records = 0;

    while (head != tail && records < max) {
        size_t before = records;

        head += tell(r, r->bytes + (head & (r->size - 1)), sink, &records);
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

enum err ring_wait(struct ring *r, size_t bytes, int64_t until_ns)
{
    uint64_t head = atomic_load_explicit(&r->take.head, memory_order_relaxed);
    uint64_t held;
    enum err e = ERR_OK;

    /* A producer that waits for room has filled more than this. */
    bytes = bytes < r->size / 4 ? bytes : r->size / 4;
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

/* ---- figures ---- */

size_t ring_bytes(const struct ring *r)
{
    return r->size;
}

unsigned ring_fill_permille(const struct ring *r)
{
    uint64_t head = atomic_load(&r->take.head); /* first, so that it is not ahead of tail */
    uint64_t held = atomic_load(&r->put.tail) - head;

    held = held < r->size ? held : r->size; /* records may have gone through in between */
    return (unsigned)(held * 1000 / r->size);
}

void ring_stats(const struct ring *r, struct ring_stats *out)
{
    uint64_t gone;

    /* `in` last: it is counted first. */
    *out = (struct ring_stats){
        .out = atomic_load(&r->take.out),
        .refused = atomic_load(&r->put.refused),
        .gaps = atomic_load(&r->put.gaps),
        .waits = atomic_load(&r->put.waits),
        .wakes = atomic_load(&r->put.wakes),
    };
    gone = out->out + out->refused;
    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        out->dropped[i] = atomic_load(&r->put.dropped[i]);
        gone += out->dropped[i];
    }
    out->in = atomic_load(&r->put.in);
    out->held = out->in - gone;
}
