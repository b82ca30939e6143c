#include "agent/source/trace/etl_merge.h"

#include "common/base/mem.h"
#include "common/os/os.h"

/* A heap of streams by (time of the current record, file, position of its buffer). Streams that
 * have not been read yet stand in it with the time the index knows, and are read when they reach
 * the top: files that follow each other do not hold their buffers at once. The top moves rarely,
 * since a CPU's records come in runs; as long as it is earlier than both below it, the heap is left
 * alone. */
struct entry {
    int64_t ns; /* of the stream, beside it: comparing need not look further */
    struct etl_stream *s;
};

struct etl_merge {
    struct etl_stream *streams;
    struct entry *heap;
    size_t n_streams, n_heap;
    struct etl_memory mem;
    struct etl_damage damage;
    bool started;      /* the top's record has been given out */
    int64_t second_ns; /* no other stream is earlier */
};

static size_t run_length(const struct etl_slot *slots, size_t n)
{
    size_t i = 1;

    while (i < n && slots[i].stream == slots[0].stream) {
        i++;
    }
    return i;
}

/* One stream for each run of slots; `streams` NULL only counts. */
static size_t make_streams(struct etl_stream *streams, struct etl_part *parts, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        struct etl_index *x = &parts[i].index;

        for (size_t at = 0, run; at < x->n_slots; at += run, count++) {
            run = run_length(x->slots + at, x->n_slots - at);
            if (streams) {
                streams[count].part = &parts[i];
                streams[count].slots = x->slots + at;
                streams[count].n_slots = run;
            }
        }
    }
    return count;
}

static uint64_t memory_needed(const struct etl_merge *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_streams; i++) {
        uint32_t most = 0;

        for (size_t k = 0; k < m->streams[i].n_slots; k++) {
            if (m->streams[i].slots[k].filled > most) {
                most = m->streams[i].slots[k].filled;
            }
        }
        sum += most;
    }
    return sum;
}

/* Room for what the first pass unpacks; the less the larger the indexes are, and none where it
 * would hold too little of it to be worth its memory. */
static enum err make_room(struct etl_merge *m, const struct etl_part *parts, size_t n)
{
    uint64_t need = 0, index = 0;
    size_t cap;

    for (size_t i = 0; i < n; i++) {
        need += parts[i].index.unpacked_compressed;
        index += parts[i].index.n_slots * sizeof *parts[i].index.slots;
    }
    cap = index < ETL_MERGE_KEEP_MAX && need < 16ull * ETL_MERGE_KEEP_MAX
              ? (size_t)(ETL_MERGE_KEEP_MAX - index)
              : 0;
    cap = need < cap ? (size_t)need : cap;
    if (cap == 0) {
        return ERR_OK;
    }
    m->mem.keep = mem_alloc(cap);
    if (!m->mem.keep) {
        return ERR_NOMEM;
    }
    m->mem.keep_cap = cap;
    os_prefer_large_pages(m->mem.keep, cap);
    return ERR_OK;
}

enum err etl_merge_open(struct etl_merge **out, struct etl_part *parts, size_t n)
{
    struct etl_merge *m = mem_zalloc(sizeof *m);
    enum err e = ERR_NOMEM;

    if (!m) {
        return ERR_NOMEM;
    }
    m->n_streams = make_streams(NULL, parts, n);
    m->streams = mem_array(m->n_streams, sizeof *m->streams);
    m->heap = mem_array(m->n_streams, sizeof *m->heap);
    if (!m->streams || !m->heap) {
        m->n_streams = 0;
        goto fail;
    }
    make_streams(m->streams, parts, n);
    if (memory_needed(m) > ETL_MERGE_MEMORY_MAX) {
        e = ERR_FULL;
        goto fail;
    }
    e = make_room(m, parts, n);
    if (e) {
        goto fail;
    }
    etl_merge_rewind(m, ETL_WANT_ALL);
    *out = m;
    return ERR_OK;

fail:
    etl_merge_close(m);
    return e;
}

void etl_merge_close(struct etl_merge *m)
{
    if (!m) {
        return;
    }
    for (size_t i = 0; i < m->n_streams; i++) {
        etl_stream_release(&m->streams[i]);
    }
    mem_free(m->streams);
    mem_free(m->heap);
    mem_free(m->mem.packed);
    mem_free(m->mem.keep);
    mem_free(m);
}

static bool tie_before(const struct etl_stream *a, const struct etl_stream *b)
{
    if (a->part != b->part) {
        return a->part < b->part;
    }
    if (a->last_ticks != b->last_ticks) { /* clocks finer than a nanosecond */
        return a->last_ticks < b->last_ticks;
    }
    return etl_stream_place(a) < etl_stream_place(b);
}

static bool before(const struct entry *a, const struct entry *b)
{
    return a->ns == b->ns ? tie_before(a->s, b->s) : a->ns < b->ns;
}

static void sift_down(struct etl_merge *m, size_t at)
{
    struct entry x = m->heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= m->n_heap) {
            break;
        }
        if (child + 1 < m->n_heap && before(&m->heap[child + 1], &m->heap[child])) {
            child++;
        }
        if (!before(&m->heap[child], &x)) {
            break;
        }
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = x;
}

void etl_merge_rewind(struct etl_merge *m, enum etl_want want)
{
    for (size_t i = 0; i < m->n_streams; i++) {
        etl_stream_rewind(&m->streams[i], want);
        m->heap[i] = (struct entry){m->streams[i].wall_ns, &m->streams[i]};
    }
    m->n_heap = m->n_streams;
    for (size_t i = m->n_heap / 2; i-- > 0;) {
        sift_down(m, i);
    }
    m->damage = (struct etl_damage){0};
    m->started = false;
    m->mem.filling = want != ETL_WANT_ALL;
    m->mem.dull = (struct etl_dull){.hooks = {0}};
    m->second_ns = INT64_MIN;
}

uint32_t etl_merge_groups(const struct etl_merge *m)
{
    uint32_t groups = 0;

    for (size_t i = 0; i < m->n_streams; i++) {
        groups |= m->streams[i].groups;
    }
    return groups;
}

/* Moves the top stream to its next record, out of the heap at its end. */
static enum err step_top(struct etl_merge *m)
{
    struct entry *top = &m->heap[0];
    enum err e = etl_stream_next(top->s, &m->mem, &m->damage);

    if (e == ERR_END) {
        *top = m->heap[--m->n_heap];
        m->second_ns = INT64_MIN;
        e = ERR_OK;
    }
    top->ns = top->s->wall_ns;
    if (e || m->n_heap == 0 || top->ns < m->second_ns) {
        return e;
    }
    sift_down(m, 0);
    m->second_ns = INT64_MAX;
    for (size_t i = 1; i < 3 && i < m->n_heap; i++) {
        m->second_ns = m->heap[i].ns < m->second_ns ? m->heap[i].ns : m->second_ns;
    }
    return ERR_OK;
}

enum err etl_merge_next(struct etl_merge *m, const struct etl_stream **out)
{
    enum err e = ERR_OK;

    if (m->started && m->n_heap) {
        e = step_top(m);
    }
    /* A stream that stands there with the index's time has no record yet. */
    while (!e && m->n_heap && !m->heap[0].s->at_record) {
        e = step_top(m);
    }
    if (e) {
        return e;
    }
    if (m->n_heap == 0) {
        return ERR_END;
    }
    m->started = true;
    *out = m->heap[0].s;
    return ERR_OK;
}

struct etl_damage etl_merge_damage(const struct etl_merge *m)
{
    return m->damage;
}

enum err etl_merge_span(struct etl_merge *m, int64_t *first_ns, int64_t *last_ns)
{
    int64_t first = INT64_MAX, last = INT64_MIN, t;
    enum err e;

    for (size_t i = 0; i < m->n_streams; i++) {
        struct etl_stream *s = &m->streams[i];

        e = etl_stream_last(s, &m->mem, &t);
        if (e == ERR_END) {
            continue;
        }
        if (e) {
            return e;
        }
        last = t > last ? t : last;
        etl_stream_rewind(s, ETL_WANT_ALL);
        first = s->wall_ns < first ? s->wall_ns : first;
    }
    etl_merge_rewind(m, ETL_WANT_ALL);
    if (first > last) {
        return ERR_END;
    }
    *first_ns = first;
    *last_ns = last;
    return ERR_OK;
}
