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
#include "agent/source/ring/ring.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define RING_MARKS       16 /* CPUs of one stretch told apart; beyond: all CPUs */
#define RING_CACHE_LINE  64
#define RING_ADVANCE_MIN 10000000u /* ns between two stored times */
#define RING_RELEASE_AT  32        /* records, until their room is given back */

enum ring_what { RING_FILLING, RING_RECORD, RING_LOST, RING_ADVANCE };

struct ring_entry {
    uint32_t size;
    uint8_t what;
    bool context; /* RING_RECORD: a struct ring_context follows the header */
    uint16_t n;   /* RING_LOST: marks */
};

struct ring_record {
    struct ring_entry entry;
    uint32_t payload_n, ext_n;
    uint32_t pid, tid;
    uint16_t id, task, cpu;
    uint8_t form, version, opcode, level, pointer_size, header, counters;
    bool early, has_sequence, has_component;
    int64_t mono_ns, ticks;
    uint8_t guid[16];
};

struct ring_context {
    uint64_t keyword, wall_less_mono, frequency, place;
    int64_t shift_ns;
    uint32_t sequence, component;
};

struct ring_mark {
    int64_t wall_ns, mono_ns;
    uint64_t events, buffers;
    uint16_t cpu;
    bool all_cpus;
};

struct ring_moment {
    struct ring_entry entry;
    int64_t wall_ns, mono_ns;
};

struct ring {
    uint8_t *bytes;
    size_t size; /* a power of two */
    bool wait;
    atomic_bool closed;

    struct os_mutex *lock; /* guards nothing but sleeping and waking */
    struct os_cond *news, *room;
    uint8_t pad_a[RING_CACHE_LINE];

    struct {
        _Atomic uint64_t tail;
        uint64_t head_seen;
        struct ring_context context;
        int64_t told_ns; /* monotonic: of the last time stored */
        struct ring_mark marks[RING_MARKS];
        size_t n_marks;
        _Atomic uint64_t in, refused, gaps, waits, wakes;
        _Atomic uint64_t dropped[RING_KIND_COUNT];
    } put;
    uint8_t pad_b[RING_CACHE_LINE];

    struct {
        _Atomic uint64_t head;
        struct ring_context context;
        bool begun;
        int64_t advanced_ns; /* monotonic: told to the sink */
        _Atomic uint64_t out;
    } take;
    uint8_t pad_c[RING_CACHE_LINE];

    _Atomic size_t wake_at; /* 0: the consumer is awake */
    atomic_bool want_room;
};

/* Counters have one writer each: no locked instruction is needed. Released, so that whoever sees
 * what has become of a record also sees that it came in. */
static inline void ring_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_release);
}

static inline size_t ring_up8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

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

void ring_close(struct ring *r)
{
    os_mutex_lock(r->lock);
    atomic_store(&r->closed, true);
    os_cond_wake_all(r->news);
    os_cond_wake_all(r->room);
    os_mutex_unlock(r->lock);
}

/* ---- counters ---- */

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

/* ---- what a record counts as ---- */

static bool ring_has_guid(const struct raw_event *raw, const uint8_t guid[16])
{
    return memcmp(raw->guid, guid, 16) == 0;
}

static enum ring_kind ring_thread_kind(uint8_t opcode)
{
    if (opcode >= 1 && opcode <= 4) {
        return RING_THREAD;
    }
    if (opcode == 36 || opcode == 50) {
        return RING_CSWITCH;
    }
    return opcode == 72 ? RING_THREAD : RING_OTHER; /* 72: name */
}

static enum ring_kind ring_manifest_kind(const struct raw_event *raw)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;

    if (!ring_has_guid(raw, kernel_process)) {
        return RING_OTHER;
    }
    switch (raw->id) {
    case 1:
    case 2:
    case 15:
        return RING_PROCESS;
    case 3:
    case 4:
        return RING_THREAD;
    case 5:
    case 6:
        return RING_IMAGE;
    default:
        return RING_OTHER;
    }
}

enum ring_kind ring_kind_of(const struct raw_event *raw)
{
    static const struct {
        uint8_t guid[16];
        uint8_t kind;
    } classes[] = {
        {ETW_CLASS_PROCESS, RING_PROCESS},  {ETW_CLASS_IMAGE, RING_IMAGE},
        {ETW_CLASS_DISK_IO, RING_DISK},     {ETW_CLASS_PAGE_FAULT, RING_FAULT},
        {ETW_CLASS_TCP_IP, RING_NET},       {ETW_CLASS_UDP_IP, RING_NET},
        {ETW_CLASS_PERF_INFO, RING_SAMPLE}, {ETW_CLASS_THREAD, RING_THREAD},
    };

    if (raw->form != RAW_CLASSIC) {
        return ring_manifest_kind(raw);
    }
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!ring_has_guid(raw, classes[i].guid)) {
            continue;
        }
        if (classes[i].kind == RING_THREAD) {
            return ring_thread_kind(raw->opcode);
        }
        if (classes[i].kind == RING_SAMPLE && raw->opcode != 46 && raw->opcode != 47) {
            return RING_OTHER; /* 46: sample, 47: of a performance counter */
        }
        return (enum ring_kind)classes[i].kind;
    }
    return RING_OTHER;
}

const char *ring_full_reason(enum ring_kind kind)
{
    static const char *const names[RING_KIND_COUNT] = {
#define RING_KIND_NAME(id, name) [RING_##id] = "full_" #name,
        RING_KINDS(RING_KIND_NAME)
#undef RING_KIND_NAME
    };

    return names[kind];
}

/* ---- the producer's half ---- */

/* Bytes that may be held when one of the kind has been added. */
static size_t ring_limit(const struct ring *r, enum ring_kind kind)
{
    if (kind == RING_PROCESS) {
        return r->size;
    }
    return r->size - r->size / (kind == RING_THREAD || kind == RING_IMAGE ? 16 : 8);
}

/* n contiguous bytes at *at, or false: then more than `limit` would be held. */
static bool ring_reserve(struct ring *r, size_t n, size_t limit, uint64_t *at)
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

static void ring_publish(struct ring *r, uint64_t tail)
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
static struct ring_mark *ring_mark_of(struct ring *r, const struct ring_mark *when)
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

static void ring_note_loss(struct ring *r, const struct ring_mark *loss)
{
    struct ring_mark *m = ring_mark_of(r, loss);

    m->events += loss->events;
    m->buffers += loss->buffers;
}

static void ring_note_record(struct ring *r, const struct raw_event *raw)
{
    struct ring_mark loss = {
        .wall_ns = raw->wall_ns, .mono_ns = raw->mono_ns, .events = 1, .cpu = raw->cpu};

    if (!raw->early) { /* its time is not now; it comes again */
        ring_note_loss(r, &loss);
    }
}

static size_t ring_marks_size(const struct ring *r)
{
    return r->put.n_marks ? sizeof(struct ring_entry) + r->put.n_marks * sizeof(struct ring_mark)
                          : 0;
}

static uint8_t *ring_put_marks(struct ring *r, uint8_t *p)
{
    size_t n = r->put.n_marks, size = ring_marks_size(r);
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

static bool ring_has_context(const struct ring_context *c, const struct raw_event *raw)
{
    return c->keyword == raw->keyword &&
           c->wall_less_mono == (uint64_t)raw->wall_ns - (uint64_t)raw->mono_ns &&
           c->frequency == raw->frequency && c->place == raw->place &&
           c->shift_ns == raw->shift_ns && c->sequence == raw->sequence &&
           c->component == raw->component;
}

static struct ring_context ring_context_of(const struct raw_event *raw)
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
static void ring_put_record(uint8_t *p, size_t size, const struct raw_event *raw,
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
static bool ring_wait_for_room(struct ring *r, size_t n, size_t limit, uint64_t *at)
{
    bool fits = false;

    ring_add(&r->put.waits, 1);
    os_mutex_lock(r->lock);
    while (!atomic_load(&r->closed)) {
        atomic_store(&r->want_room, true);
        fits = ring_reserve(r, n, limit, at);
        if (fits) {
            break;
        }
        os_cond_wait(r->room);
    }
    atomic_store(&r->want_room, false);
    os_mutex_unlock(r->lock);
    return fits;
}

static enum err ring_drop(struct ring *r, const struct raw_event *raw, enum ring_kind kind)
{
    if (atomic_load(&r->closed)) {
        ring_add(&r->put.refused, 1);
        return ERR_CLOSED;
    }
    ring_add(&r->put.dropped[kind], 1);
    ring_note_record(r, raw);
    return ERR_FULL;
}

enum err ring_put(struct ring *r, const struct raw_event *raw)
{
    bool same = ring_has_context(&r->put.context, raw);
    size_t size = sizeof(struct ring_record) + (same ? 0 : sizeof r->put.context), all;
    uint64_t at;

    ring_add(&r->put.in, 1);
    if (atomic_load_explicit(&r->closed, memory_order_relaxed)) {
        ring_add(&r->put.refused, 1);
        return ERR_CLOSED;
    }
    if (raw->payload_n > r->size / 8 || raw->ext_n > r->size / 8 - size) {
        ring_add(&r->put.refused, 1);
        ring_note_record(r, raw);
        return ERR_INVALID;
    }
    size += ring_up8(raw->payload_n) + ring_up8(raw->ext_n);
    all = ring_marks_size(r) + size;
    if (!ring_reserve(r, all, ring_limit(r, RING_OTHER),
                      &at)) { /* the kind counts only from here on */
        enum ring_kind kind = ring_kind_of(raw);
        size_t limit = ring_limit(r, kind);

        if (!ring_reserve(r, all, limit, &at) &&
            !(r->wait && ring_wait_for_room(r, all, limit, &at))) {
            return ring_drop(r, raw, kind);
        }
    }
    if (!same) {
        r->put.context = ring_context_of(raw);
    }
    ring_put_record(ring_put_marks(r, r->bytes + (at & (r->size - 1))), size, raw,
                    same ? NULL : &r->put.context);
    r->put.told_ns = raw->early ? r->put.told_ns : raw->mono_ns;
    ring_publish(r, at + all);
    return ERR_OK;
}

void ring_lost(struct ring *r, const struct event *ev)
{
    struct ring_mark loss;

    if (ev->kind != EV_LOST || atomic_load_explicit(&r->closed, memory_order_relaxed)) {
        return;
    }
    loss = (struct ring_mark){.wall_ns = ev->wall_ns,
                              .mono_ns = ev->mono_ns,
                              .events = ev->u.lost.events,
                              .buffers = ev->u.lost.buffers,
                              .cpu = ev->cpu,
                              .all_cpus = ev->u.lost.all_cpus};
    ring_note_loss(r, &loss);
}

void ring_advance(struct ring *r, int64_t wall_ns, int64_t mono_ns)
{
    struct ring_moment m = {
        .entry = {.size = sizeof m, .what = RING_ADVANCE}, .wall_ns = wall_ns, .mono_ns = mono_ns};
    size_t all = ring_marks_size(r) + sizeof m;
    uint64_t at;

    if (mono_ns < r->put.told_ns ||
        (uint64_t)mono_ns - (uint64_t)r->put.told_ns < RING_ADVANCE_MIN ||
        atomic_load_explicit(&r->closed, memory_order_relaxed) ||
        !ring_reserve(r, all, ring_limit(r, RING_OTHER), &at)) {
        return;
    }
    memcpy(ring_put_marks(r, r->bytes + (at & (r->size - 1))), &m, sizeof m);
    r->put.told_ns = mono_ns;
    ring_publish(r, at + all);
}

/* ---- the consumer's half ---- */

static void ring_release(struct ring *r, uint64_t head)
{
    assert(head >= atomic_load_explicit(&r->take.head, memory_order_relaxed));
    atomic_store(&r->take.head, head);
    if (atomic_load(&r->want_room)) {
        os_mutex_lock(r->lock);
        os_cond_wake(r->room);
        os_mutex_unlock(r->lock);
    }
}

static void ring_sink_advance(struct ring *r, int64_t wall_ns, int64_t mono_ns,
                              const struct source_sink *sink)
{
    if (r->take.begun && mono_ns <= r->take.advanced_ns) {
        return;
    }
    r->take.begun = true;
    r->take.advanced_ns = mono_ns;
    sink->advance(sink->ctx, wall_ns, mono_ns);
}

static void ring_sink_marks(struct ring *r, const uint8_t *p, size_t n,
                            const struct source_sink *sink)
{
    for (size_t i = 0; i < n; i++) {
        struct ring_mark m;
        struct event ev = {.kind = EV_LOST, .pid = EVENT_NO_ID, .tid = EVENT_NO_ID};

        memcpy(&m, p + i * sizeof m, sizeof m);
        ev.cpu = m.cpu;
        ev.wall_ns = m.wall_ns;
        ev.mono_ns = m.mono_ns;
        ev.u.lost = (struct ev_lost){m.all_cpus, m.events, m.buffers};
        ring_sink_advance(r, m.wall_ns, m.mono_ns, sink);
        sink->fact(sink->ctx, &ev);
    }
}

static void ring_sink_record(struct ring *r, const uint8_t *p, const struct source_sink *sink)
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
        ring_sink_advance(r, raw.wall_ns, raw.mono_ns, sink);
    }
    sink->raw(sink->ctx, &raw);
    ring_add(&r->take.out, 1);
}

/* Gives the entry's size. */
static size_t ring_sink_entry(struct ring *r, const uint8_t *p, const struct source_sink *sink,
                              size_t *records)
{
    struct ring_entry e;
    struct ring_moment m;

    memcpy(&e, p, sizeof e);
    switch (e.what) {
    case RING_RECORD:
        ring_sink_record(r, p, sink);
        (*records)++;
        break;
    case RING_LOST:
        ring_sink_marks(r, p + sizeof e, e.n, sink);
        break;
    case RING_ADVANCE:
        memcpy(&m, p, sizeof m);
        ring_sink_advance(r, m.wall_ns, m.mono_ns, sink);
        break;
    default:
        break;
    }
    return e.size;
}

/* The time of an entry; false: it has none. */
static inline bool ring_entry_ns(const uint8_t *p, const struct ring_entry *e, int64_t *mono_ns)
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
        if (ring_entry_ns(p, &e, mono_ns)) {
            return true;
        }
        head += e.size;
    }
    return false;
}

/* The producer has gone: what it could not store any more. */
static void ring_sink_last_marks(struct ring *r, const struct source_sink *sink)
{
    size_t n = r->put.n_marks;

    if (n) {
        r->put.n_marks = 0;
        ring_add(&r->put.gaps, 1);
        ring_sink_marks(r, (const uint8_t *)r->put.marks, n, sink);
    }
}

/* Whether the entry's turn has come. */
static inline bool ring_entry_due(const uint8_t *p, int64_t until_ns)
{
    struct ring_entry e;
    int64_t mono_ns;

    memcpy(&e, p, sizeof e);
    return !ring_entry_ns(p, &e, &mono_ns) || mono_ns <= until_ns;
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

        if (until_ns != INT64_MAX && !ring_entry_due(p, until_ns)) {
            break;
        }
        head += ring_sink_entry(r, p, sink, &records);
        if (records != before && records % RING_RELEASE_AT == 0) {
            ring_release(r, head);
        }
    }
    ring_release(r, head);
    if (closed && head == tail) {
        ring_sink_last_marks(r, sink);
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
