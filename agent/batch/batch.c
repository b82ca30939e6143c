/* What is collected so far is in `held`: rows in order of arrival, values packed one
 * behind the other without the absent ones, each instance knowing its first row. Only when the
 * batch closes are instances sorted and columns made. Which instances the collector has heard of is
 * in `known`, a table that lives for one window: at the next window everybody is announced anew,
 * so whoever reads the store from a window's start needs no earlier batch.
 *
 * How large a batch will be is guessed from how large the last ones became per value; a wrong guess
 * costs a second encoding, not data. */
#include "agent/batch/batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/batch/batch_types.h"
#include "agent/process/u32map.h"
#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/model/ledger.h"
#include "common/wire/wire_batch.h"

#define BATCH_NO_ROW UINT32_MAX

struct batch_row {
    metric_mask mask;
    uint32_t next; /* row of the same instance at a later tick */
    uint32_t tick;
    uint32_t value_at; /* its values, lowest metric first */
    bool fresh;
};

struct batch_instance {
    struct proc_id id;
    uint32_t first_row, last_row;
    bool announce; /* info is to travel */
    struct proc_info info;
};

struct batch_life {
    struct life_event ev;
    uint32_t order; /* of arrival */
};

/* Everything of one batch. Arrays grow and are kept from batch to batch. */
struct batch_held {
    int64_t *wall_ns, *mono_ns;
    uint32_t n_ticks, cap_ticks;
    struct batch_row *rows;
    uint32_t n_rows, cap_rows;
    int64_t *values;
    uint32_t n_values, cap_values;
    struct batch_instance *instances;
    uint32_t n_instances, cap_instances;
    struct batch_life *events;
    uint32_t n_events, cap_events;
    struct batch_types types; /* of the events */
};

/* Ranges of ticks, instances and events. */
struct batch_part {
    uint32_t tick0, tick1;
    uint32_t instance0, instance1;
    uint32_t event0, event1;
    bool infos; /* the instances' attributes travel in this part */
};

struct batch_packer {
    struct batch_run *runs;
    uint32_t n_runs, cap_runs;
    int64_t *values;
    uint32_t cap_values;
    struct proc_info *infos;
    uint32_t cap_infos;
    struct life_event *events;
    uint32_t cap_events;
    struct batch_column columns[METRIC_COLS];
};

/* -- what is held, and its columns -- */

static void batch_held_fini(struct batch_held *h)
{
    mem_free(h->wall_ns);
    mem_free(h->mono_ns);
    mem_free(h->rows);
    mem_free(h->values);
    mem_free(h->instances);
    mem_free(h->events);
    *h = (struct batch_held){0};
}

static void batch_packer_fini(struct batch_packer *k)
{
    mem_free(k->runs);
    mem_free(k->values);
    mem_free(k->infos);
    mem_free(k->events);
    *k = (struct batch_packer){0};
}

/* Room for `n` elements of `size` in *array. Errors: ERR_NOMEM (the array stays) */
static enum err batch_room(void *array, uint32_t *cap, uint32_t n, size_t size)
{
    size_t room = *cap;
    enum err e;

    if (n <= *cap) {
        return ERR_OK;
    }
    e = vec_grow(array, &room, n, UINT32_MAX, size); /* batch.h's limits are far below */
    *cap = (uint32_t)room;
    return e;
}

static int batch_by_identity(const void *a, const void *b)
{
    const struct proc_id *x = &((const struct batch_instance *)a)->id;
    const struct proc_id *y = &((const struct batch_instance *)b)->id;

    if (x->pid != y->pid) {
        return x->pid < y->pid ? -1 : 1;
    }
    return (x->start > y->start) - (x->start < y->start);
}

static int batch_by_time(const void *a, const void *b)
{
    const struct batch_life *x = a, *y = b;

    if (x->ev.wall_ns != y->ev.wall_ns) {
        return x->ev.wall_ns < y->ev.wall_ns ? -1 : 1;
    }
    return (x->order > y->order) - (x->order < y->order);
}

/* Puts instances in order of identity and events in order of time; rows keep their places. */
static void batch_held_sort(struct batch_held *h)
{
    if (h->n_instances > 1) {
        qsort(h->instances, h->n_instances, sizeof *h->instances, batch_by_identity);
    }
    if (h->n_events > 1) {
        qsort(h->events, h->n_events, sizeof *h->events, batch_by_time);
    }
}

/* Cuts *part in two, the earlier half staying in it: by ticks, else by instances, else by events.
 * False when nothing is left to cut. */
static bool batch_part_split(struct batch_part *part, struct batch_part *rest)
{
    uint32_t n_events = part->event1 - part->event0;

    *rest = *part;
    if (part->tick1 - part->tick0 > 1) {
        part->tick1 = rest->tick0 = part->tick0 + (part->tick1 - part->tick0) / 2;
        rest->infos = false;
    } else if (part->instance1 - part->instance0 > 1) {
        part->instance1 = rest->instance0 =
            part->instance0 + (part->instance1 - part->instance0) / 2;
    } else if (n_events > 1) {
        rest->instance0 = rest->instance1;
        rest->tick0 = rest->tick1;
    } else {
        return false;
    }
    part->event1 = rest->event0 = part->event0 + n_events / 2;
    return true;
}

/* -- runs -- */

static bool batch_run_continues(const struct batch_run *run, const struct batch_row *row,
                                uint32_t tick)
{
    return run->first_tick + run->n_ticks == tick && run->mask == row->mask && !row->fresh;
}

static enum err batch_add_run(struct batch_packer *k, struct proc_id id,
                              const struct batch_row *row, uint32_t tick)
{
    enum err e = batch_room(&k->runs, &k->cap_runs, k->n_runs + 1, sizeof *k->runs);

    if (e) {
        return e;
    }
    k->runs[k->n_runs++] = (struct batch_run){
        .id = id, .first_tick = tick, .n_ticks = 1, .mask = row->mask, .fresh = row->fresh};
    return ERR_OK;
}

/* The runs of one instance within the part's ticks. */
static enum err batch_add_runs(struct batch_packer *k, const struct batch_held *h,
                               const struct batch_part *part, const struct batch_instance *in)
{
    uint32_t from = k->n_runs;

    for (uint32_t r = in->first_row; r != BATCH_NO_ROW; r = h->rows[r].next) {
        const struct batch_row *row = &h->rows[r];
        uint32_t tick = row->tick - part->tick0;
        enum err e;

        if (row->tick < part->tick0 || row->tick >= part->tick1) {
            continue;
        }
        if (k->n_runs > from && batch_run_continues(&k->runs[k->n_runs - 1], row, tick)) {
            k->runs[k->n_runs - 1].n_ticks++;
            continue;
        }
        e = batch_add_run(k, in->id, row, tick);
        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

/* -- columns -- */

/* Lays the columns out one behind the other in k->values; gives where each begins. */
static enum err batch_lay_out(struct batch_packer *k, struct batch *out, int64_t *at[METRIC_COLS])
{
    uint32_t counts[METRIC_COLS] = {0};
    uint32_t total = 0;
    int64_t *next;
    enum err e;

    for (uint32_t r = 0; r < k->n_runs; r++) {
        for (struct metric_mask_walk each = metric_mask_walk(k->runs[r].mask);
             metric_mask_walk_next(&each);) {
            counts[each.id] += k->runs[r].n_ticks;
            total += k->runs[r].n_ticks;
        }
    }
    e = batch_room(&k->values, &k->cap_values, total, sizeof *k->values);
    if (e) {
        return e;
    }
    next = k->values;
    out->n_columns = 0;
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        at[m] = next;
        if (counts[m] > 0) {
            k->columns[out->n_columns++] =
                (struct batch_column){.metric = (uint8_t)m, .n_values = counts[m], .values = next};
            next += counts[m];
        }
    }
    out->columns = k->columns;
    return ERR_OK;
}

/* In the same order as batch_add_runs made the runs: so every column is in run order. */
static void batch_fill_columns(const struct batch_held *h, const struct batch_part *part,
                               int64_t *at[METRIC_COLS])
{
    for (uint32_t i = part->instance0; i < part->instance1; i++) {
        for (uint32_t r = h->instances[i].first_row; r != BATCH_NO_ROW; r = h->rows[r].next) {
            const struct batch_row *row = &h->rows[r];
            const int64_t *v;

            if (!row->mask || row->tick < part->tick0 || row->tick >= part->tick1) {
                continue;
            }
            v = h->values + row->value_at;
            for (struct metric_mask_walk each = metric_mask_walk(row->mask);
                 metric_mask_walk_next(&each);) {
                *at[each.id]++ = *v++;
            }
        }
    }
}

/* -- infos and events -- */

static enum err batch_pack_infos(struct batch_packer *k, const struct batch_held *h,
                                 const struct batch_part *part, struct batch *out)
{
    uint32_t n = part->instance1 - part->instance0;
    enum err e = batch_room(&k->infos, &k->cap_infos, n, sizeof *k->infos);

    if (e) {
        return e;
    }
    out->n_infos = 0;
    for (uint32_t i = part->instance0; part->infos && i < part->instance1; i++) {
        if (h->instances[i].announce) {
            k->infos[out->n_infos++] = h->instances[i].info;
        }
    }
    out->infos = k->infos;
    return ERR_OK;
}

static enum err batch_pack_events(struct batch_packer *k, const struct batch_held *h,
                                  const struct batch_part *part, struct batch *out)
{
    uint32_t n = part->event1 - part->event0;
    enum err e = batch_room(&k->events, &k->cap_events, n, sizeof *k->events);

    if (e) {
        return e;
    }
    for (uint32_t i = 0; i < n; i++) {
        k->events[i] = h->events[part->event0 + i].ev;
    }
    out->n_events = n;
    out->events = k->events;
    return ERR_OK;
}

/* Fills ticks, runs, columns, infos and events of *out; the rest is left alone. Valid until the
 * next call. Errors: ERR_NOMEM */
static enum err batch_pack(struct batch_packer *k, const struct batch_held *h,
                           const struct batch_part *part, struct batch *out)
{
    int64_t *at[METRIC_COLS];
    enum err e;

    k->n_runs = 0;
    for (uint32_t i = part->instance0; i < part->instance1; i++) {
        e = batch_add_runs(k, h, part, &h->instances[i]);
        if (e) {
            return e;
        }
    }
    e = batch_lay_out(k, out, at);
    if (e) {
        return e;
    }
    batch_fill_columns(h, part, at);
    e = batch_pack_infos(k, h, part, out);
    if (e) {
        return e;
    }
    e = batch_pack_events(k, h, part, out);
    if (e) {
        return e;
    }
    out->n_ticks = part->tick1 - part->tick0;
    out->wall_ns = h->wall_ns ? h->wall_ns + part->tick0 : NULL;
    out->mono_ns = h->mono_ns ? h->mono_ns + part->tick0 : NULL;
    out->n_runs = k->n_runs;
    out->runs = k->runs;
    return ERR_OK;
}

enum {
    KNOWN_MAX = 16384,
    SPLITS_MAX = 64, /* parts waiting: each level of halving leaves one */
    SOURCE_NAME_MAX = 32,
    INFO_BYTES = 96, /* first guesses of encoded sizes */
    EVENT_BYTES = 64,
};
#define FIRST_MILLIBYTES_PER_VALUE 3000

/* What the collector has been told of an instance in this window. */
struct known {
    struct proc_id id;
    uint32_t next;    /* of the same pid + 1; 0 = none */
    uint32_t version; /* of its info */
    uint32_t batch;   /* local is valid in this batch */
    uint32_t local;   /* index into held.instances */
};

struct batch_builder {
    struct batch_conf conf;
    char source[SOURCE_NAME_MAX];
    atomic_size_t limit; /* the collector's, in bytes */
    struct batch_held held;
    struct batch_packer packer;
    struct arena text;
    struct wire_encoder *encoder;
    struct buf encoded;

    struct u32map *by_pid; /* mark = index into known + 1 */
    struct known *known;
    uint32_t n_known, cap_known;

    uint64_t seq;       /* of the next batch */
    uint32_t batch_no;  /* counts closings, for known.batch */
    int64_t window;     /* of what is held */
    bool text_full;     /* close at the next chance */
    size_t guess_bytes; /* of infos and events held */
    int64_t millibytes_per_value;
    uint64_t told[BATCH_LEDGER_MAX]; /* ledger counts that have travelled */
    uint64_t now[BATCH_LEDGER_MAX];
    struct ledger_row ledger[BATCH_LEDGER_MAX];
    uint64_t part_records; /* of the part encoded last */
    struct batch_stats stats;
};

static void batch_name_source(struct batch_builder *b, struct str name)
{
    b->conf.head.source = (struct str){b->source, name.n < sizeof b->source ? name.n : 0};
    if (b->conf.head.source.n > 0) {
        memcpy(b->source, name.p, b->conf.head.source.n);
    }
}

enum err batch_create(struct batch_builder **out, const struct batch_conf *conf)
{
    struct batch_builder *b;
    enum err e;

    if (conf->samples == 0 || conf->samples > WIRE_TICKS_MAX || conf->max_bytes == 0) {
        return ERR_INVALID;
    }
    b = mem_zalloc(sizeof *b);
    if (!b) {
        return ERR_NOMEM;
    }
    b->conf = *conf;
    batch_name_source(b, conf->head.source);
    b->seq = 1;
    b->batch_no = 1;
    b->millibytes_per_value = FIRST_MILLIBYTES_PER_VALUE;
    atomic_init(&b->limit, WIRE_BATCH_BYTES_MAX);
    arena_init(&b->text, 2u * BATCH_TEXT_MAX);
    buf_init(&b->encoded, WIRE_BATCH_BYTES_MAX);
    e = u32map_create(&b->by_pid, KNOWN_MAX, NULL);
    if (e) {
        goto fail;
    }
    e = wire_batch_encoder_create(&b->encoder);
    if (e) {
        goto fail;
    }
    *out = b;
    return ERR_OK;

fail:
    batch_destroy(b);
    return e;
}

void batch_destroy(struct batch_builder *b)
{
    if (!b) {
        return;
    }
    batch_held_fini(&b->held);
    batch_packer_fini(&b->packer);
    arena_fini(&b->text);
    buf_fini(&b->encoded);
    wire_batch_encoder_destroy(b->encoder);
    u32map_destroy(b->by_pid);
    mem_free(b->known);
    mem_free(b);
}

const struct batch_stats *batch_stats(const struct batch_builder *b)
{
    return &b->stats;
}

size_t batch_ledger(const struct batch_builder *b, struct ledger_row *rows, size_t max)
{
    const struct batch_stats *s = &b->stats;
    const struct {
        const char *reason;
        uint64_t count;
    } all[BATCH_LEDGER_ROWS] = {
        {"in", s->in},
        {"out", s->out},
        {"held", s->held},
        {"no_memory", s->nomem},
        {"oversize", s->oversize},
        {"unsent", s->unsent},
        {"text_lost", s->text_lost},
        {"batches", s->batches},
    };
    size_t n = max < BATCH_LEDGER_ROWS ? max : BATCH_LEDGER_ROWS;

    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct ledger_row){str_make("batch"), str_make(all[i].reason), all[i].count};
    }
    return n;
}

void batch_limit(struct batch_builder *b, size_t bytes)
{
    atomic_store(&b->limit, bytes);
}

/* -- sending -- */

static size_t batch_size_limit(const struct batch_builder *b)
{
    size_t limit = atomic_load(&b->limit);

    return limit < b->conf.max_bytes ? limit : b->conf.max_bytes;
}

/* Reads the stages' counters; gives how many there are. */
static size_t batch_read_ledger(struct batch_builder *b, struct ledger_row *rows, size_t *n_changed)
{
    bool waits = b->conf.no_events && atomic_load(b->conf.no_events);
    const struct ledger_kind *kind = NULL;
    size_t n = b->conf.ledger ? b->conf.ledger(b->conf.ctx, rows, BATCH_LEDGER_MAX) : 0;

    *n_changed = 0;
    for (size_t i = 0; i < n; i++) {
        struct ledger_row row = rows[i];

        kind = ledger_kind_after(kind, &row);
        if (waits && str_eq(row.stage, str_make("forward"))) {
            b->now[i] = b->told[i];
            continue;
        }
        b->now[i] = kind->role == LEDGER_HELD ? 0 : row.count;
        row.count -= b->told[i];
        if (row.count > 0) {
            rows[(*n_changed)++] = row;
        }
    }
    return n;
}

static uint64_t batch_records(const struct batch *batch)
{
    uint64_t n = batch->n_events;

    for (size_t i = 0; i < batch->n_runs; i++) {
        n += batch->runs[i].n_ticks;
    }
    return n;
}

/* Encodes one part; ERR_FULL when it is too large. */
static enum err batch_encode_part(struct batch_builder *b, const struct batch_part *part,
                                  bool last_part, bool last, size_t n_ledger)
{
    struct batch batch;
    enum err e;

    if (b->conf.number) {
        b->conf.number(b->conf.ctx, &b->conf.head.stream, &b->seq);
    }
    batch = (struct batch){.head = b->conf.head};
    batch.head.seq = b->seq;
    if (last && last_part) {
        batch.head.flags |= BATCH_LAST;
    }
    if (last_part) {
        batch.ledger = b->ledger;
        batch.n_ledger = n_ledger;
    }
    e = batch_pack(&b->packer, &b->held, part, &batch);
    if (e) {
        return e;
    }
    b->part_records = batch_records(&batch);
    buf_reset(&b->encoded);
    e = wire_batch_encode(b->encoder, &b->encoded, &batch);
    if (!e && b->encoded.n > batch_size_limit(b)) {
        e = ERR_FULL;
    }
    return e;
}

static enum err batch_send_part(struct batch_builder *b)
{
    enum err e = b->conf.out(b->conf.ctx, b->seq, b->encoded.p, b->encoded.n);

    if (e) {
        return e;
    }
    b->seq++;
    b->stats.batches++;
    b->stats.bytes += b->encoded.n;
    b->stats.out += b->part_records;
    b->stats.held -= b->part_records;
    return ERR_OK;
}

/* Encodes and sends everything held, in as many parts as it takes. */
static enum err batch_send_parts(struct batch_builder *b, bool last, size_t n_ledger)
{
    struct batch_part waiting[SPLITS_MAX];
    size_t n = 1;

    waiting[0] = (struct batch_part){.tick1 = b->held.n_ticks,
                                     .instance1 = b->held.n_instances,
                                     .event1 = b->held.n_events,
                                     .infos = true};
    while (n > 0) {
        struct batch_part *part = &waiting[n - 1];
        struct batch_part rest;
        enum err e = batch_encode_part(b, part, n == 1, last, n_ledger);

        if (e == ERR_FULL && n < SPLITS_MAX && batch_part_split(part, &rest)) {
            b->stats.split++;
            waiting[n] = *part; /* the earlier half goes first */
            waiting[n - 1] = rest;
            n++;
            continue;
        }
        if (e == ERR_FULL && b->encoded.n > 0 && b->encoded.n <= atomic_load(&b->limit)) {
            e = ERR_OK; /* indivisible, but the collector takes it */
        }
        if (e == ERR_FULL) {
            b->stats.oversize += b->part_records;
            b->stats.held -= b->part_records;
            n--;
            continue;
        }
        if (!e) {
            e = batch_send_part(b);
        }
        if (e) {
            return e;
        }
        n--;
    }
    return ERR_OK;
}

static void batch_learn_size(struct batch_builder *b, uint64_t bytes)
{
    int64_t per_value;

    if (b->held.n_values == 0) {
        return;
    }
    bytes = bytes > b->guess_bytes ? bytes - b->guess_bytes : 0;
    per_value = (int64_t)(bytes * 1000 / b->held.n_values) + 1;
    b->millibytes_per_value = (b->millibytes_per_value + per_value) / 2;
}

static void batch_forget_held(struct batch_builder *b)
{
    b->held.n_ticks = b->held.n_rows = b->held.n_values = 0;
    b->held.n_instances = b->held.n_events = b->held.types.n = 0;
    arena_reset(&b->text);
    b->text_full = false;
    b->guess_bytes = 0;
    b->batch_no++;
}

static enum err batch_close(struct batch_builder *b, bool last)
{
    uint64_t bytes_before = b->stats.bytes;
    size_t n_ledger, n_rows = batch_read_ledger(b, b->ledger, &n_ledger);
    enum err e;

    batch_held_sort(&b->held);
    e = batch_send_parts(b, last, n_ledger);
    if (!e) {
        memcpy(b->told, b->now, n_rows * sizeof *b->told);
        batch_learn_size(b, b->stats.bytes - bytes_before);
    } else if (e == ERR_NOMEM) {
        b->stats.nomem += b->stats.held;
        b->n_known = 0; /* what it announced has not arrived */
        u32map_clear(b->by_pid);
        e = ERR_OK;
    } else {
        b->stats.unsent += b->stats.held;
    }
    b->stats.held = 0;
    batch_forget_held(b);
    return e;
}

static bool batch_is_empty(const struct batch_builder *b)
{
    return b->held.n_ticks == 0 && b->held.n_events == 0;
}

static int64_t batch_window(int64_t wall_ns)
{
    return wall_ns / BATCH_WINDOW_NS;
}

/* Everything of a new window goes into a batch of its own, and everybody is announced anew. */
static enum err batch_change_window(struct batch_builder *b, int64_t window)
{
    enum err e = ERR_OK;

    if (!batch_is_empty(b)) {
        e = batch_close(b, false);
    }
    b->window = window;
    b->n_known = 0;
    u32map_clear(b->by_pid);
    return e;
}

/* Before a tick: another window, also an earlier one, and a clock set back end the batch. */
static enum err batch_make_way(struct batch_builder *b, const struct sample_tick *tick)
{
    const struct batch_held *h = &b->held;

    if (batch_window(tick->wall_ns) != b->window) {
        return batch_change_window(b, batch_window(tick->wall_ns));
    }
    if (h->n_ticks > 0 && (tick->wall_ns <= h->wall_ns[h->n_ticks - 1] ||
                           tick->mono_ns <= h->mono_ns[h->n_ticks - 1])) {
        return batch_close(b, false);
    }
    return ERR_OK;
}

static bool batch_is_big(const struct batch_builder *b)
{
    size_t guess =
        (size_t)((int64_t)b->held.n_values * b->millibytes_per_value / 1000) + b->guess_bytes;

    return guess >= batch_size_limit(b) / 8 * 7 || b->text_full;
}

/* -- taking in -- */

static struct str batch_keep_text(struct batch_builder *b, struct str s)
{
    char *copy;

    if (s.n == 0) {
        return (struct str){NULL, 0};
    }
    copy = arena_dup(&b->text, s.p, s.n);
    if (!copy) {
        b->stats.text_lost++;
        return (struct str){NULL, 0};
    }
    if (b->text.used > BATCH_TEXT_MAX) {
        b->text_full = true;
    }
    b->guess_bytes += s.n / 2; /* names repeat and compress */
    return (struct str){copy, s.n};
}

/* False: a text is missing, there was no memory or no room for it. */
static bool batch_keep_info(struct batch_builder *b, struct proc_info *to,
                            const struct proc_info *from)
{
    uint64_t missing = b->stats.text_lost;

    privacy_info(b->conf.filter, from, to);
    to->name = batch_keep_text(b, to->name);
    to->image = batch_keep_text(b, to->image);
    to->command_line = batch_keep_text(b, to->command_line);
    to->user = batch_keep_text(b, to->user);
    return b->stats.text_lost == missing;
}

static struct known *batch_find_known(struct batch_builder *b, struct proc_id id)
{
    const struct u32map_entry *e = u32map_get(b->by_pid, id.pid);
    uint32_t i = e ? e->mark : 0;

    while (i > 0 && b->known[i - 1].id.start != id.start) {
        i = b->known[i - 1].next;
    }
    return i > 0 ? &b->known[i - 1] : NULL;
}

/* NULL: no memory. */
static struct known *batch_add_known(struct batch_builder *b, struct proc_id id)
{
    struct u32map_entry *e;
    struct known *k;

    if (batch_room(&b->known, &b->cap_known, b->n_known + 1, sizeof *b->known)) {
        return NULL;
    }
    e = u32map_put(b->by_pid, id.pid);
    if (!e) {
        return NULL;
    }
    k = &b->known[b->n_known++];
    *k = (struct known){.id = id, .next = e->owner ? e->mark : 0};
    e->owner = b;
    e->mark = b->n_known;
    return k;
}

/* The instance's place in this batch; its info is kept where the collector has not got it. */
static enum err batch_place(struct batch_builder *b, const struct sample_row *row, uint32_t *place)
{
    struct known *k = batch_find_known(b, row->info->id);
    bool news = !k || k->version != row->info_version;
    struct batch_instance *in;

    if (!k) {
        k = batch_add_known(b, row->info->id);
        if (!k) {
            return ERR_NOMEM;
        }
    }
    if (k->batch != b->batch_no) {
        if (batch_room(&b->held.instances, &b->held.cap_instances, b->held.n_instances + 1,
                       sizeof *b->held.instances)) {
            return ERR_NOMEM;
        }
        k->batch = b->batch_no;
        k->local = b->held.n_instances++;
        b->held.instances[k->local] = (struct batch_instance){
            .id = k->id, .first_row = BATCH_NO_ROW, .last_row = BATCH_NO_ROW};
    }
    in = &b->held.instances[k->local];
    if (news) {
        bool whole = batch_keep_info(b, &in->info, row->info);

        in->announce = true;
        k->version = whole ? row->info_version : 0; /* 0: once more in the next batch */
        b->guess_bytes += INFO_BYTES;
    }
    *place = k->local;
    return ERR_OK;
}

static enum err batch_add_row(struct batch_builder *b, const struct sample_row *row)
{
    struct batch_held *h = &b->held;
    uint32_t n_values = metric_mask_count(row->mask);
    struct batch_instance *in;
    uint32_t place, at = h->n_values;

    if (batch_room(&h->rows, &h->cap_rows, h->n_rows + 1, sizeof *h->rows) ||
        batch_room(&h->values, &h->cap_values, h->n_values + n_values, sizeof *h->values) ||
        batch_place(b, row, &place)) {
        return ERR_NOMEM;
    }
    for (struct metric_mask_walk each = metric_mask_walk(row->mask);
         metric_mask_walk_next(&each);) {
        h->values[h->n_values++] = row->values[each.id];
    }
    h->rows[h->n_rows] = (struct batch_row){.mask = row->mask,
                                            .next = BATCH_NO_ROW,
                                            .tick = h->n_ticks - 1,
                                            .value_at = at,
                                            .fresh = row->fresh};
    in = &h->instances[place];
    if (in->last_row == BATCH_NO_ROW) {
        in->first_row = h->n_rows;
    } else {
        h->rows[in->last_row].next = h->n_rows;
    }
    in->last_row = h->n_rows++;
    return ERR_OK;
}

static enum err batch_add_tick(struct batch_builder *b, const struct sample_tick *tick)
{
    struct batch_held *h = &b->held;
    uint32_t cap = h->cap_ticks;

    if (batch_room(&h->wall_ns, &cap, h->n_ticks + 1, sizeof *h->wall_ns) ||
        batch_room(&h->mono_ns, &h->cap_ticks, h->n_ticks + 1, sizeof *h->mono_ns)) {
        return ERR_NOMEM;
    }
    h->wall_ns[h->n_ticks] = tick->wall_ns;
    h->mono_ns[h->n_ticks] = tick->mono_ns;
    h->n_ticks++;
    b->stats.ticks++;
    for (size_t i = 0; i < tick->n_rows; i++) {
        if (batch_add_row(b, &tick->rows[i])) {
            b->stats.nomem++;
            continue;
        }
        b->stats.rows++;
        b->stats.held++;
        b->stats.values += metric_mask_count(tick->rows[i].mask);
    }
    return ERR_OK;
}

static bool batch_fits(const struct batch_builder *b, const struct sample_tick *tick)
{
    size_t n_values = b->held.n_values;

    for (size_t i = 0; i < tick->n_rows; i++) {
        n_values += metric_mask_count(tick->rows[i].mask);
    }
    return b->held.n_rows + tick->n_rows <= BATCH_ROWS_MAX && n_values <= BATCH_VALUES_MAX;
}

/* If every row of the tick is of a new instance. */
static bool batch_known_fits(const struct batch_builder *b, const struct sample_tick *tick)
{
    return b->n_known + tick->n_rows <= KNOWN_MAX;
}

static bool batch_is_due(const struct batch_builder *b)
{
    uint32_t n = b->held.n_ticks;

    return n >= b->conf.samples || b->stats.batches == 0 || batch_is_big(b) ||
           b->held.mono_ns[n - 1] - b->held.mono_ns[0] >= b->conf.max_age_ns;
}

enum err batch_tick(struct batch_builder *b, const struct sample_tick *tick)
{
    enum err e = batch_make_way(b, tick);

    if (e) {
        return e;
    }
    if ((!batch_fits(b, tick) || !batch_known_fits(b, tick)) && !batch_is_empty(b)) {
        e = batch_close(b, false);
        if (e) {
            return e;
        }
    }
    if (!batch_known_fits(b, tick)) {
        b->n_known = 0;
        u32map_clear(b->by_pid);
    }
    b->stats.in += tick->n_rows;
    if (batch_add_tick(b, tick)) {
        b->stats.nomem += tick->n_rows;
        return ERR_OK;
    }
    return batch_is_due(b) ? batch_close(b, false) : ERR_OK;
}

/* Type and values, before anything else is taken for the event. */
static bool batch_keep_values(struct batch_builder *b, struct life_event *to,
                              const struct life_event *from)
{
    to->type = from->type ? batch_types_keep(&b->held.types, &b->text, from->type) : NULL;
    to->values = batch_keep_text(b, from->values);
    return !from->type || (to->type && to->values.n == from->values.n);
}

enum err batch_event(struct batch_builder *b, const struct life_event *ev)
{
    struct batch_held *h = &b->held;
    struct batch_life *to;
    enum err e = ERR_OK;

    if (batch_window(ev->wall_ns) > b->window) {
        e = batch_change_window(
            b, batch_window(ev->wall_ns)); /* one told late may be of an earlier one */
    }
    if (!e && ev->type && !batch_types_fits(&h->types, ev->type)) {
        e = batch_close(b, false);
    }
    if (e) {
        return e;
    }
    b->stats.in++;
    if (batch_room(&h->events, &h->cap_events, h->n_events + 1, sizeof *h->events)) {
        b->stats.nomem++;
        return ERR_OK;
    }
    to = &h->events[h->n_events];
    to->ev = *ev;
    if (!batch_keep_values(b, &to->ev, ev)) {
        b->stats.nomem++;
        return ERR_OK;
    }
    to->order = h->n_events++;
    (void)batch_keep_info(b, &to->ev.info, &ev->info);
    to->ev.text = batch_keep_text(b, ev->text);
    b->stats.events++;
    b->stats.held++;
    b->guess_bytes += EVENT_BYTES;
    return h->n_events >= BATCH_EVENTS_MAX || batch_is_big(b) ? batch_close(b, false) : ERR_OK;
}

enum err batch_source(struct batch_builder *b, const char *name, bool polled)
{
    enum err e = batch_is_empty(b) ? ERR_OK : batch_close(b, false);

    batch_name_source(b, str_make(name));
    b->conf.head.flags &= ~(uint32_t)BATCH_POLLED;
    b->conf.head.flags |= polled ? BATCH_POLLED : 0u;
    return e;
}

enum err batch_finish(struct batch_builder *b)
{
    return batch_close(b, true);
}
