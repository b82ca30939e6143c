#include "collector/subscribe/update_builder.h"

#include <assert.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/model/event_values.h"

#define EVENT_BYTES 200u
#define ROW_BYTES   80u
#define VALUE_BYTES 10u
#define TEXT_BYTES  256u /* of a row, before it is known */
#define MEMORY_MAX  ((size_t)64 << 20)
#define HELD_MAX    ((size_t)8 << 20) /* of decoded batches and rows, before messages are made */

/* A message that grows. */
struct pending {
    struct journal_record about;
    size_t n, bytes;
    bool parted; /* its beginning is a message already */
    uint8_t n_metrics;
    uint8_t metrics[WIRE_COLUMNS_MAX];
    union {
        struct wire_event *events;
        struct wire_row *rows;
    };
};

struct held {
    struct held *next;
    struct batch *batch;
};

struct update_builder {
    struct publisher *to;
    struct wire_decoder *decoder;
    struct arena memory; /* of the messages under way */
    struct held *held;   /* what they borrow from */
    size_t held_bytes;
    struct pending events, samples;
    const struct store_view *view;
    size_t place; /* of the host in it; behind the last: not there */
    const char *name;
    struct uuid id;
    struct wire_host host;
};

enum err update_builder_create(struct update_builder **out, struct publisher *to)
{
    struct update_builder *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    m->to = to;
    arena_init(&m->memory, MEMORY_MAX);
    m->events.events = mem_array(WIRE_ROWS_MAX, sizeof *m->events.events);
    m->samples.rows = mem_array(WIRE_ROWS_MAX, sizeof *m->samples.rows);
    if (!m->events.events || !m->samples.rows || wire_batch_decoder_create(&m->decoder)) {
        update_builder_destroy(m);
        return ERR_NOMEM;
    }
    *out = m;
    return ERR_OK;
}

static void held_free(struct update_builder *m)
{
    for (struct held *h = m->held; h; h = h->next) {
        wire_batch_free(h->batch);
    }
    m->held = NULL;
    m->held_bytes = 0;
    arena_reset(&m->memory);
}

void update_builder_destroy(struct update_builder *m)
{
    if (m) {
        held_free(m);
        wire_batch_decoder_destroy(m->decoder);
        arena_fini(&m->memory);
        mem_free(m->events.events);
        mem_free(m->samples.rows);
        mem_free(m);
    }
}

static struct wire_host host_make(const struct store_host *h)
{
    return (struct wire_host){
        .id = h->id,
        .name = str_make(h->name),
        .source = str_make(h->source),
        .boot = h->boot,
        .connected = true,
        .polled = (h->flags & BATCH_POLLED) != 0,
        .replay = (h->flags & BATCH_REPLAY) != 0,
        .ended = (h->flags & BATCH_LAST) != 0,
        .cpus = h->cpus,
        .last_ns = h->last_ns,
    };
}

void update_builder_begin(struct update_builder *m, const struct store_view *view, const char *name,
                          const struct uuid *host)
{
    m->view = view;
    m->name = name;
    m->id = *host;
    m->place = store_view_find(view, name, host);
    m->host = m->place < store_view_hosts(view)
                  ? host_make(store_view_host(view, m->place))
                  : (struct wire_host){.id = *host, .name = str_make(name), .connected = true};
}

/* -- messages -- */

static void pending_send(struct update_builder *m, struct pending *p, bool more)
{
    bool events = p == &m->events;
    struct wire_update u = {.host = m->id, .name = str_make(m->name)};

    if (p->n == 0) {
        return;
    }
    u.data.n_hosts = 1;
    u.data.hosts = &m->host;
    if (events) {
        u.data.n_events = p->n;
        u.data.events = p->events;
    } else {
        u.data.n_metrics = p->n_metrics;
        memcpy(u.data.metrics, p->metrics, sizeof u.data.metrics);
        u.data.n_rows = p->n;
        u.data.rows = p->rows;
    }
    p->about.more = more;
    p->parted = more;
    publisher_put(m->to, &p->about, &u);
    p->n = p->bytes = 0;
}

/* The last part of a batch goes with the others: between batches all are whole. */
static void pending_close(struct update_builder *m, struct pending *p)
{
    if (p->parted) {
        pending_send(m, p, false);
    }
}

/* Begins a message with this batch, or goes on with the one before it. */
static void pending_take(struct pending *p, const struct update_builder *m,
                         const struct feed_note *note, enum feed_topic topic)
{
    if (p->n > 0) {
        p->about.last_batch = note->seq;
        p->about.stored_ns = note->received_ns;
        return;
    }
    p->about = (struct journal_record){.topic = topic,
                                       .host = m->id,
                                       .stream = note->stream,
                                       .batch = note->seq,
                                       .last_batch = note->seq,
                                       .stored_ns = note->received_ns,
                                       .first_ns = INT64_MAX,
                                       .last_ns = INT64_MIN};
    memcpy(p->about.name, m->name, strnlen(m->name, sizeof p->about.name - 1));
}

static void pending_stamp(struct pending *p, int64_t ns)
{
    p->about.first_ns = ns < p->about.first_ns ? ns : p->about.first_ns;
    p->about.last_ns = ns > p->about.last_ns ? ns : p->about.last_ns;
}

/* A message covers whole batches in a row, or a part of one. */
static bool pending_can_join(const struct pending *p, const struct feed_note *note, size_t n,
                             size_t bytes)
{
    return p->n > 0 && p->about.stream == note->stream && p->about.last_batch + 1 == note->seq &&
           p->n + n <= WIRE_ROWS_MAX && p->bytes + bytes <= FEED_ROWS_BYTES;
}

static size_t info_bytes(const struct proc_info *info)
{
    return info->name.n + info->image.n + info->command_line.n + info->user.n;
}

/* -- events -- */

static size_t event_bytes(const struct life_event *e)
{
    return EVENT_BYTES + info_bytes(&e->info) + e->text.n + e->values.n +
           (e->type ? event_values_type_bytes(e->type) : 0);
}

static void events_add(struct update_builder *m, const struct feed_note *note,
                       const struct batch *b)
{
    struct pending *p = &m->events;
    size_t bytes = 0;

    for (size_t i = 0; i < b->n_events; i++) {
        bytes += event_bytes(&b->events[i]);
    }
    if (!pending_can_join(p, note, b->n_events, bytes)) {
        pending_send(m, p, false);
    }
    for (size_t i = 0; i < b->n_events; i++) {
        size_t n = event_bytes(&b->events[i]);

        if (p->n == WIRE_ROWS_MAX || (p->n && p->bytes + n > FEED_ROWS_BYTES)) {
            pending_send(m, p, true);
        }
        pending_take(p, m, note, FEED_EVENT);
        pending_stamp(p, b->events[i].wall_ns);
        assert(p->n < WIRE_ROWS_MAX);
        p->events[p->n++] = (struct wire_event){.event = b->events[i]};
        p->bytes += n;
    }
    pending_close(m, p);
}

/* -- samples -- */

static bool run_is_last(const struct batch *b, const struct batch_run *run)
{
    return run->first_tick + run->n_ticks == b->n_ticks;
}

/* The last tick's values of all runs that reach it, row by row, and which of them there are. Column
 * by column, as they stand in memory: each is read once, from its begin to its end. */
static void rows_last_values(const struct batch *b, int64_t *values, metric_mask *have)
{
    memset(have, 0, b->n_runs * sizeof *have);
    for (size_t i = 0; i < b->n_columns; i++) {
        const int64_t *at = b->columns[i].values;
        metric_mask bit = METRIC_BIT(b->columns[i].metric);

        for (size_t r = 0; r < b->n_runs; r++) {
            const struct batch_run *run = &b->runs[r];

            if (!(run->mask & bit)) {
                continue;
            }
            at += run->n_ticks;
            if (run_is_last(b, run)) {
                values[r * b->n_columns + i] = at[-1];
                have[r] |= METRIC_BIT(i);
            }
        }
    }
}

static void row_info(const struct update_builder *m, const struct batch *b, struct proc_id id,
                     struct proc_info *info)
{
    if (m->place < store_view_hosts(m->view) &&
        store_info_brief(m->view, m->place, &b->head.boot, id, info)) {
        info->command_line = (struct str){0}; /* long texts come with events and on request */
        info->image = (struct str){0};
        info->have &= ~(uint32_t)(INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT);
    } else {
        *info = (struct proc_info){.id = id};
    }
}

static bool pending_same_metrics(const struct pending *p, const struct batch *b)
{
    bool same = p->n_metrics == b->n_columns;

    for (size_t i = 0; i < b->n_columns && same; i++) {
        same = p->metrics[i] == b->columns[i].metric;
    }
    return same;
}

static void pending_set_metrics(struct pending *p, const struct batch *b)
{
    p->n_metrics = (uint8_t)b->n_columns;
    for (size_t i = 0; i < b->n_columns; i++) {
        p->metrics[i] = b->columns[i].metric;
    }
}

static enum err rows_add(struct update_builder *m, const struct feed_note *note,
                         const struct batch *b)
{
    struct pending *p = &m->samples;
    int64_t *values = arena_array(&m->memory, b->n_runs * b->n_columns + 1, sizeof *values);
    metric_mask *have = arena_array(&m->memory, b->n_runs + 1, sizeof *have);
    int64_t when_ns = b->wall_ns[b->n_ticks - 1];

    if (!values || !have) {
        return ERR_NOMEM;
    }
    m->held_bytes += b->n_runs * (b->n_columns + 2) * sizeof *values;
    rows_last_values(b, values, have);
    for (size_t r = 0; r < b->n_runs; r++, values += b->n_columns) {
        struct wire_row *row;
        size_t n;

        if (!run_is_last(b, &b->runs[r])) {
            continue;
        }
        if (p->n == WIRE_ROWS_MAX) {
            pending_send(m, p, true);
        }
        assert(p->n < WIRE_ROWS_MAX);
        row = &p->rows[p->n]; /* filled where it stays: its other members are 0 since the begin */
        row_info(m, b, b->runs[r].id, &row->info);
        n = ROW_BYTES + info_bytes(&row->info) + b->n_columns * VALUE_BYTES;
        if (p->n && p->bytes + n > FEED_ROWS_BYTES) {
            pending_send(m, p, true);
            p->rows[0] = *row;
            row = p->rows;
        }
        row->when_ns = when_ns;
        row->have = metric_mask_low(have[r]);
        row->have_high = metric_mask_high(have[r]);
        row->values = values;
        pending_take(p, m, note, FEED_SAMPLE);
        pending_stamp(p, when_ns);
        p->n++;
        p->bytes += n;
    }
    pending_close(m, p);
    return ERR_OK;
}

static enum err samples_add(struct update_builder *m, const struct feed_note *note,
                            const struct batch *b)
{
    struct pending *p = &m->samples;
    size_t most = b->n_runs < MODEL_PROCESSES_MAX ? b->n_runs : MODEL_PROCESSES_MAX;

    if (!pending_same_metrics(p, b) ||
        !pending_can_join(p, note, most,
                          most * (ROW_BYTES + TEXT_BYTES + b->n_columns * VALUE_BYTES))) {
        pending_send(m, p, false);
    }
    pending_set_metrics(p, b);
    return rows_add(m, note, b);
}

/* -- batches -- */

static enum err held_add(struct update_builder *m, struct batch *b)
{
    struct held *h = arena_alloc(&m->memory, sizeof *h);

    if (!h) {
        wire_batch_free(b);
        return ERR_NOMEM;
    }
    *h = (struct held){m->held, b};
    m->held = h;
    m->held_bytes += wire_batch_room(b);
    return ERR_OK;
}

static enum err batch_add_topics(struct update_builder *m, const struct feed_note *note,
                                 const struct batch *b)
{
    bool events = note->topics[FEED_EVENT] && b->n_events > 0;
    bool samples = note->topics[FEED_SAMPLE] && b->n_ticks > 0 && b->n_runs > 0;

    if (events) {
        events_add(m, note, b);
    }
    if (samples) {
        return samples_add(m, note, b);
    }
    return events ? ERR_OK : ERR_END;
}

/* As the store had it, or decoded again. */
static enum err batch_take(struct update_builder *m, struct batch **out,
                           const struct feed_note *note)
{
    if (note->batch) {
        *out = wire_batch_hold(note->batch);
        return ERR_OK;
    }
    return wire_batch_decode_next(m->decoder, out, note->topics[FEED_SAMPLE] ? METRIC_ALL : 0,
                                  note->bytes, note->n);
}

/* The topic would have had a message of it: damage, or no memory. */
static void note_leave_out(struct update_builder *m, const struct feed_note *note,
                           enum feed_topic topic)
{
    if (note->topics[topic]) {
        publisher_begin(m->to, note->received_ns);
        publisher_skip(m->to, topic, note->name, 1);
    }
}

enum err update_builder_add(struct update_builder *m, const struct feed_note *note)
{
    struct batch *b;
    enum err e;

    if (m->held_bytes > HELD_MAX) {
        update_builder_end(m);
    }
    e = batch_take(m, &b, note);
    if (!e) {
        e = held_add(m, b);
    }
    if (e) {
        note_leave_out(m, note, FEED_EVENT);
        note_leave_out(m, note, FEED_SAMPLE);
    } else {
        e = batch_add_topics(m, note, b);
        if (e && e != ERR_END) { /* rows: events need no memory of their own */
            note_leave_out(m, note, FEED_SAMPLE);
        }
    }
    publisher_flush(m->to, false);
    return e;
}

void update_builder_end(struct update_builder *m)
{
    pending_send(m, &m->events, false);
    pending_send(m, &m->samples, false);
    assert(m->events.n == 0 && m->samples.n == 0); /* they borrow what is freed now */
    held_free(m);
}
