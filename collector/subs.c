#include "collector/subs.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/wire_query.h"

#define ROWS_BYTES  (768u << 10) /* of one message, estimated; the rest is room for error */
#define EVENT_BYTES 200u
#define ROW_BYTES   80u
#define MEMORY_MAX  ((size_t)32 << 20)

/* A batch that became durable. */
struct note {
    char name[MODEL_HOST_NAME_MAX + 1];
    struct uuid host;
    uint64_t stream, seq;
    int64_t first_ns, last_ns;
};

enum topic { TOPIC_EVENT, TOPIC_SAMPLE, TOPICS };

static const char *const topic_names[TOPICS] = {"event/", "sample/"};

/* Sequence numbers of one host's topics. */
struct channel {
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t seq[TOPICS];
};

struct subs {
    struct subs_conf conf;
    struct store *store;
    struct os_thread *thread;

    struct os_mutex *lock; /* guards what follows, up to the next blank line */
    struct os_cond *wake;
    struct note *queue; /* ring */
    size_t head, n;
    bool stopping;
    bool hole; /* notes were dropped since the publisher last looked */
    struct subs_stats stats;

    /* the publisher's own */
    size_t n_channels;
    struct channel *channels; /* by name */
    struct arena memory;      /* of one batch */
    struct buf body;
    struct note now;
    const struct store_view *view;
    size_t host;
    bool found;
};

enum err subs_create(struct subs **out, const struct subs_conf *conf)
{
    struct subs *s = mem_zalloc(sizeof *s);
    enum err e = ERR_NOMEM;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    arena_init(&s->memory, MEMORY_MAX);
    buf_init(&s->body, SUBS_MESSAGE_MAX);
    s->queue = mem_array(conf->queue, sizeof *s->queue);
    s->channels = mem_array(conf->hosts_max, sizeof *s->channels);
    if (!s->queue || !s->channels) {
        goto fail;
    }
    e = os_mutex_create(&s->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&s->wake, s->lock);
    if (e) {
        goto fail;
    }
    *out = s;
    return ERR_OK;

fail:
    subs_destroy(s);
    return e;
}

void subs_destroy(struct subs *s)
{
    if (!s) {
        return;
    }
    subs_stop(s);
    os_cond_destroy(s->wake);
    os_mutex_destroy(s->lock);
    mem_free(s->queue);
    mem_free(s->channels);
    buf_fini(&s->body);
    arena_fini(&s->memory);
    mem_free(s);
}

/* -- the writer's side -- */

static struct note note_make(const char *host_name, const struct batch *b)
{
    struct note n = {.host = b->head.host, .stream = b->head.stream, .seq = b->head.seq};
    size_t len = strnlen(host_name, sizeof n.name - 1);

    memcpy(n.name, host_name, len);
    store_span(b, 0, &n.first_ns, &n.last_ns);
    return n;
}

void subs_stored(void *ctx, const char *host_name, const struct batch *b)
{
    struct subs *s = ctx;

    if (!s->conf.listeners(s->conf.ctx) || !(b->n_ticks || b->n_events)) {
        return;
    }
    os_mutex_lock(s->lock);
    if (s->n == s->conf.queue) {
        s->stats.dropped++;
        s->hole = true;
    } else {
        s->queue[(s->head + s->n) % s->conf.queue] = note_make(host_name, b);
        s->n++;
        os_cond_wake(s->wake);
    }
    os_mutex_unlock(s->lock);
}

/* -- the publisher's side -- */

static int by_name(const void *key, const void *channel)
{
    return strcmp(key, ((const struct channel *)channel)->name);
}

/* The host's channel; NULL when there are too many hosts. */
static struct channel *channel_get(struct subs *s, const char *name)
{
    struct channel *c =
        s->n_channels ? bsearch(name, s->channels, s->n_channels, sizeof *c, by_name) : NULL;
    size_t at = s->n_channels;

    if (c || s->n_channels == s->conf.hosts_max) {
        return c;
    }
    while (at > 0 && strcmp(s->channels[at - 1].name, name) > 0) {
        s->channels[at] = s->channels[at - 1];
        at--;
    }
    c = &s->channels[at];
    *c = (struct channel){{0}, {0}};
    memcpy(c->name, name, strnlen(name, sizeof c->name - 1));
    s->n_channels++;
    return c;
}

static void count(struct subs *s, uint64_t *counter, uint64_t n)
{
    os_mutex_lock(s->lock);
    *counter += n;
    os_mutex_unlock(s->lock);
}

static void send_answer(struct subs *s, enum topic topic, const struct wire_answer *data)
{
    struct channel *c = channel_get(s, s->now.name);
    struct wire_update u = {.host = s->now.host, .name = str_make(s->now.name), .data = *data};

    if (!c) {
        count(s, &s->stats.dropped, 1);
        return;
    }
    buf_reset(&s->body);
    buf_put_str(&s->body, topic_names[topic]);
    buf_put_str(&s->body, s->now.name);
    buf_put_u8(&s->body, 0);
    buf_put_u64le(&s->body, s->conf.epoch);
    buf_put_u64le(&s->body, ++c->seq[topic]);
    if (wire_update_encode(&s->body, &u) || s->body.bad) {
        count(s, &s->stats.oversize, 1); /* the sequence number is gone: subscribers see a hole */
        return;
    }
    s->conf.send(s->conf.ctx, s->body.p, s->body.n);
    count(s, &s->stats.messages, 1);
    count(s, &s->stats.bytes, s->body.n);
}

static size_t info_bytes(const struct proc_info *info)
{
    return info->name.n + info->image.n + info->command_line.n + info->user.n;
}

static struct wire_host this_host(const struct subs *s)
{
    const struct store_host *h = store_view_host(s->view, s->host);

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

static void publish_events(struct subs *s, const struct batch *b)
{
    struct wire_event *events = arena_array(&s->memory, WIRE_ROWS_MAX, sizeof *events);
    struct wire_host host = this_host(s);
    struct wire_answer data = {.n_hosts = 1, .hosts = &host, .events = events};
    size_t bytes = 0;

    if (!events) {
        count(s, &s->stats.missed, 1);
        return;
    }
    for (size_t i = 0; i < b->n_events; i++) {
        size_t n = EVENT_BYTES + info_bytes(&b->events[i].info) + b->events[i].text.n;

        if (data.n_events == WIRE_ROWS_MAX || (data.n_events && bytes + n > ROWS_BYTES)) {
            send_answer(s, TOPIC_EVENT, &data);
            data.n_events = 0;
            bytes = 0;
        }
        events[data.n_events++] = (struct wire_event){0, b->events[i]};
        bytes += n;
    }
    if (data.n_events) {
        send_answer(s, TOPIC_EVENT, &data);
    }
}

/* The columns of the batch, and per column where the current run's values begin. */
struct columns {
    size_t at[METRIC_COLS];
};

/* The run's row of the last tick; false: it ended earlier. Moves on to the next run's values. */
static bool last_row(const struct batch *b, const struct batch_run *run, struct columns *cols,
                     struct wire_row *row, int64_t *values)
{
    bool last = run->first_tick + run->n_ticks == b->n_ticks;

    row->have = 0;
    for (size_t i = 0; i < b->n_columns; i++) {
        const struct batch_column *c = &b->columns[i];

        if (run->mask & METRIC_BIT(c->metric)) {
            cols->at[i] += run->n_ticks;
            values[i] = c->values[cols->at[i] - 1];
            row->have |= UINT64_C(1) << i;
        }
    }
    row->when_ns = b->wall_ns[b->n_ticks - 1];
    row->values = values;
    return last;
}

static void row_info(const struct subs *s, const struct batch *b, struct proc_id id,
                     struct proc_info *info)
{
    const struct proc_info *known = store_info(s->view, s->host, &b->head.boot, id);

    *info = (struct proc_info){.id = id};
    if (known) { /* long texts come with events and on request */
        *info = *known;
        info->command_line = (struct str){0};
        info->image = (struct str){0};
        info->have &= ~(uint32_t)(INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT);
    }
}

static void publish_samples(struct subs *s, const struct batch *b)
{
    struct wire_row *rows = arena_array(&s->memory, WIRE_ROWS_MAX, sizeof *rows);
    struct wire_host host = this_host(s);
    struct wire_answer data = {.n_hosts = 1, .hosts = &host, .rows = rows};
    struct columns cols = {{0}};
    size_t bytes = 0;

    for (size_t i = 0; i < b->n_columns; i++) {
        data.metrics[data.n_metrics++] = b->columns[i].metric;
    }
    for (size_t r = 0; rows && r < b->n_runs; r++) {
        int64_t *values = arena_array(&s->memory, b->n_columns, sizeof *values);
        struct wire_row *row = &rows[data.n_rows];
        size_t n;

        if (!values) {
            rows = NULL;
            break;
        }
        if (!last_row(b, &b->runs[r], &cols, row, values)) {
            continue;
        }
        row_info(s, b, b->runs[r].id, &row->info);
        n = ROW_BYTES + info_bytes(&row->info) + b->n_columns * 10;
        bytes += n;
        data.n_rows++;
        if (data.n_rows == WIRE_ROWS_MAX || bytes > ROWS_BYTES) {
            send_answer(s, TOPIC_SAMPLE, &data);
            data.n_rows = 0;
            bytes = 0;
        }
    }
    if (!rows) {
        count(s, &s->stats.missed, 1);
    } else if (data.n_rows) {
        send_answer(s, TOPIC_SAMPLE, &data);
    }
}

static enum err publish(void *ctx, const struct batch *b)
{
    struct subs *s = ctx;

    if (b->head.stream != s->now.stream || b->head.seq != s->now.seq) {
        return ERR_OK;
    }
    s->found = true;
    arena_reset(&s->memory);
    publish_events(s, b);
    if (b->n_ticks && b->n_columns <= WIRE_METRICS_MAX) {
        publish_samples(s, b);
    }
    return ERR_END;
}

static void publish_note(struct subs *s)
{
    size_t n = store_view_hosts(s->view);
    enum err e = ERR_NOTFOUND;

    s->found = false;
    for (s->host = 0; s->host < n; s->host++) {
        const struct store_host *h = store_view_host(s->view, s->host);

        if (memcmp(h->id.b, s->now.host.b, sizeof h->id.b) == 0) {
            e = store_scan(s->view, s->host, s->now.first_ns, s->now.last_ns + 1, publish, s);
            break;
        }
    }
    err_ignore(e); /* whatever went wrong: the batch was not published */
    if (!s->found) {
        count(s, &s->stats.missed, 1);
    }
}

/* Every topic skips a number: some of their messages were never made. */
static void holes_tell(struct subs *s)
{
    for (size_t i = 0; i < s->n_channels; i++) {
        for (unsigned t = 0; t < TOPICS; t++) {
            s->channels[i].seq[t]++;
        }
    }
}

/* The next note; false: stop. */
static bool note_take(struct subs *s)
{
    bool hole;

    os_mutex_lock(s->lock);
    while (!s->n && !s->stopping) {
        os_cond_wait(s->wake);
    }
    if (s->stopping) {
        os_mutex_unlock(s->lock);
        return false;
    }
    s->now = s->queue[s->head];
    s->head = (s->head + 1) % s->conf.queue;
    s->n--;
    hole = s->hole;
    s->hole = false;
    os_mutex_unlock(s->lock);
    if (hole) {
        holes_tell(s);
    }
    return true;
}

static void run(void *arg)
{
    struct subs *s = arg;

    while (note_take(s)) {
        struct store_view *view;

        if (store_view_open(&view, s->store)) {
            count(s, &s->stats.missed, 1);
            continue;
        }
        s->view = view;
        publish_note(s);
        s->view = NULL;
        store_view_close(view);
    }
}

enum err subs_start(struct subs *s, struct store *store)
{
    s->store = store;
    return os_thread_start(&s->thread, "subs", run, s);
}

void subs_stop(struct subs *s)
{
    if (!s->thread) {
        return;
    }
    os_mutex_lock(s->lock);
    s->stopping = true;
    os_cond_wake_all(s->wake);
    os_mutex_unlock(s->lock);
    os_thread_join(s->thread);
    s->thread = NULL;
}

void subs_stats(struct subs *s, struct subs_stats *out)
{
    os_mutex_lock(s->lock);
    *out = s->stats;
    os_mutex_unlock(s->lock);
}
