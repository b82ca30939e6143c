#include "tests/support/t.h"

#include <stdio.h>

#include "collector/store/meta/loss_sum.h"
#include "collector/store/meta/meta.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fleetgen.h"
#include "tests/support/support.h"

#define BATCHES 30u
#define DAY_NS  (24 * INT64_C(3600000000000))

static struct {
    struct batch *batches[BATCHES];
    struct window_rest rests[BATCHES];
    struct host_window hw;
    struct arena memory;
    struct buf raw;
} x;

/* 30 batches of ten ticks of a generated host, as a window has them. */
static int setup(void **state)
{
    const struct fleetgen_conf conf = {.seed = 5};
    struct fleetgen *g = fleetgen_create(&conf);
    struct wire_encoder *enc;
    struct buf bytes;

    assert_ok(wire_batch_encoder_create(&enc));
    buf_init(&bytes, 16u << 20);
    for (size_t i = 0; i < BATCHES; i++) {
        struct window_rest *r = &x.rests[i];

        buf_reset(&bytes);
        assert_ok(wire_batch_encode(enc, &bytes, fleetgen_batch(g, 10)));
        assert_ok(wire_batch_decode(&x.batches[i], bytes.p, bytes.n));
        *r = (struct window_rest){*x.batches[i], {true, i % 2, 17 - (int64_t)i, 3}, 0};
        r->batch.n_runs = 0;
        r->batch.n_columns = 0;
        r->received_ns = r->batch.wall_ns[9] + 12345 * (int64_t)i;
    }
    x.hw = (struct host_window){.host = x.batches[0]->head.host, .n_rests = BATCHES};
    x.hw.rests = x.rests;
    buf_fini(&bytes);
    wire_batch_encoder_destroy(enc);
    fleetgen_destroy(g);
    arena_init(&x.memory, 256u << 20);
    buf_init(&x.raw, META_RAW_MAX);
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < BATCHES; i++) {
        wire_batch_free(x.batches[i]);
    }
    arena_fini(&x.memory);
    buf_fini(&x.raw);
    return 0;
}

/* Encodes and decodes everything as one chunk. */
static size_t round_trip(struct meta_written *written, struct window_rest **out)
{
    size_t done, n;
    bool more = true;

    buf_reset(&x.raw);
    arena_reset(&x.memory);
    assert_ok(meta_encode(&x.raw, &x.hw, 0, written, &done));
    assert_int_equal(done, x.hw.n_rests);
    assert_ok(meta_decode(&x.memory, x.raw.p, x.raw.n, &x.hw.host, out, &n, &more));
    assert_false(more);
    return n;
}

static void assert_text(struct str a, struct str b)
{
    assert_int_equal(a.n, b.n);
    if (a.n) {
        assert_memory_equal(a.p, b.p, a.n);
    }
}

static void assert_info(const struct proc_info *a, const struct proc_info *b)
{
    assert_true(proc_id_eq(a->id, b->id));
    assert_int_equal(a->have, b->have);
    assert_int_equal(a->origin, b->origin);
    assert_int_equal(a->cpu_origin, b->cpu_origin);
    assert_int_equal(a->parent_pid, b->parent_pid);
    assert_int_equal(a->parent_start, b->parent_start);
    assert_int_equal(a->session_id, b->session_id);
    assert_int_equal(a->exit_code, b->exit_code);
    assert_int_equal(a->create_ns, b->create_ns);
    assert_int_equal(a->exit_ns, b->exit_ns);
    assert_text(a->name, b->name);
    assert_text(a->image, b->image);
    assert_text(a->command_line, b->command_line);
    assert_text(a->user, b->user);
}

static void assert_head(const struct window_rest *a, const struct window_rest *b)
{
    assert_memory_equal(&a->batch.head.host, &b->batch.head.host, sizeof(struct uuid));
    assert_memory_equal(&a->batch.head.boot, &b->batch.head.boot, sizeof(struct uuid));
    assert_int_equal(a->batch.head.stream, b->batch.head.stream);
    assert_int_equal(a->batch.head.seq, b->batch.head.seq);
    assert_int_equal(a->batch.head.flags, b->batch.head.flags);
    assert_int_equal(a->batch.head.cpus, b->batch.head.cpus);
    assert_text(a->batch.head.source, b->batch.head.source);
    assert_int_equal(a->received_ns, b->received_ns);
    assert_int_equal(a->clock.known, b->clock.known);
    assert_int_equal(a->clock.bounded, b->clock.bounded);
    assert_int_equal(a->clock.offset_ns, b->clock.offset_ns);
    assert_int_equal(a->clock.error_ns, b->clock.error_ns);
}

static void assert_rest(const struct window_rest *a, const struct window_rest *b)
{
    assert_head(a, b);
    assert_int_equal(a->batch.n_ticks, b->batch.n_ticks);
    assert_memory_equal(a->batch.wall_ns, b->batch.wall_ns, a->batch.n_ticks * sizeof(int64_t));
    assert_memory_equal(a->batch.mono_ns, b->batch.mono_ns, a->batch.n_ticks * sizeof(int64_t));
    assert_int_equal(a->batch.n_infos, b->batch.n_infos);
    for (size_t i = 0; i < a->batch.n_infos; i++) {
        assert_info(&a->batch.infos[i], &b->batch.infos[i]);
    }
    assert_int_equal(a->batch.n_events, b->batch.n_events);
    for (size_t i = 0; i < a->batch.n_events; i++) {
        const struct life_event *p = &a->batch.events[i], *q = &b->batch.events[i];

        assert_int_equal(p->kind, q->kind);
        assert_int_equal(p->wall_ns, q->wall_ns);
        assert_int_equal(p->mono_ns, q->mono_ns);
        assert_int_equal(p->tid, q->tid);
        assert_text(p->text, q->text);
        assert_info(&p->info, &q->info);
    }
    assert_int_equal(a->batch.n_ledger, b->batch.n_ledger);
    for (size_t i = 0; i < a->batch.n_ledger; i++) {
        assert_text(a->batch.ledger[i].stage, b->batch.ledger[i].stage);
        assert_text(a->batch.ledger[i].reason, b->batch.ledger[i].reason);
        assert_int_equal(a->batch.ledger[i].count, b->batch.ledger[i].count);
    }
}

static void rests_come_back_as_they_were(void **state)
{
    struct window_rest *back;
    size_t infos = 0, events = 0;

    assert_int_equal(round_trip(NULL, &back), BATCHES);
    for (size_t i = 0; i < BATCHES; i++) {
        assert_rest(&x.rests[i], &back[i]);
        infos += back[i].batch.n_infos;
        events += back[i].batch.n_events;
    }
    assert_true(infos > 150);
    assert_true(events > 50);
}

static void a_batch_without_anything_comes_back(void **state)
{
    struct window_rest *back, bare = {.received_ns = INT64_MIN};

    bare.batch.head = x.batches[0]->head;
    bare.batch.head.seq = UINT64_MAX;
    x.hw.rests = &bare;
    x.hw.n_rests = 1;
    assert_int_equal(round_trip(NULL, &back), 1);
    assert_rest(&bare, &back[0]);
}

static size_t infos_written(struct meta_written *w)
{
    struct window_rest *back;
    size_t n = round_trip(w, &back), infos = 0;

    for (size_t i = 0; i < n; i++) {
        infos += back[i].batch.n_infos;
    }
    return infos;
}

static void what_is_on_disk_is_left_out_until_it_changes_or_the_day_does(void **state)
{
    struct meta_written *w;
    struct proc_info changed;
    size_t all = infos_written(NULL);

    assert_ok(meta_written_create(&w));
    meta_written_begin(w, 5 * DAY_NS);
    assert_int_equal(infos_written(w), all);
    meta_written_begin(w, 5 * DAY_NS); /* the first one was lost */
    assert_int_equal(infos_written(w), all);
    meta_written_keep(w);

    meta_written_begin(w, 5 * DAY_NS + WINDOW_NS);
    assert_int_equal(infos_written(w), 0);
    meta_written_keep(w);

    changed = x.rests[3].batch.infos[0];
    changed.user = str_make("somebody else");
    x.rests[3].batch.infos = &changed;
    x.rests[3].batch.n_infos = 1;
    meta_written_begin(w, 5 * DAY_NS + 2 * WINDOW_NS);
    assert_int_equal(infos_written(w), 1);
    meta_written_keep(w);

    meta_written_begin(w, 6 * DAY_NS);
    assert_true(infos_written(w) > 1);
    meta_written_destroy(w);
}

static void what_was_said_before_last_is_said_again(void **state)
{
    struct proc_info a = {.id = {7, 8}, .name = str_make("a")}, b = a;
    struct uuid host = {{1}}, boot = {{2}};
    struct meta_written *w;

    b.name = str_make("b");
    assert_ok(meta_written_create(&w));
    for (int64_t i = 0; i < 3; i++) {
        meta_written_begin(w, i);
        assert_false(meta_written_has(w, &host, &boot, &a));
        assert_true(meta_written_has(w, &host, &boot, &a));
        assert_false(meta_written_has(w, &host, &boot, &b));
        meta_written_keep(w);
    }
    assert_true(meta_written_has(w, &host, &boot, &b));
    meta_written_destroy(w);
}

static bool has(struct meta_written *w, uint32_t pid)
{
    const struct proc_info p = {.id = {pid, 1}};
    struct uuid host = {{1}}, boot = {{2}};

    return meta_written_has(w, &host, &boot, &p);
}

static void the_instances_longest_unheard_of_are_forgotten_first(void **state)
{
    struct meta_written *w;

    assert_ok(meta_written_create(&w));
    for (uint32_t i = 0; i < 4 * META_KNOWN_MAX; i++) {
        if (i % (META_KNOWN_MAX / 4) == 0) {
            assert_true(i == 0 || has(w, 7)); /* this one goes on living */
            meta_written_keep(w);
            meta_written_begin(w, 0);
        }
        assert_false(has(w, 10 + i) && i > 0);
        (void)has(w, 7);
    }
    meta_written_keep(w);
    meta_written_begin(w, 0);
    assert_true(has(w, 10 + 4 * META_KNOWN_MAX - 1));
    assert_false(has(w, 10));
    meta_written_destroy(w);
}

static void more_than_fits_in_one_segment_is_never_left_out_wrongly(void **state)
{
    struct meta_written *w;
    size_t again = 0;

    assert_ok(meta_written_create(&w));
    for (int round = 0; round < 2; round++) {
        meta_written_begin(w, 0);
        for (uint32_t i = 0; i <= META_KNOWN_MAX; i++) {
            again += has(w, i);
        }
        meta_written_keep(w);
    }
    assert_int_equal(again, 0);
    meta_written_destroy(w);
}

/* Batches with so many long command lines that a value has no more than two of them. */
struct wordy {
    struct proc_info *infos;
    char *text;
};

static void wordy_init(struct wordy *w)
{
    static char line[MODEL_COMMAND_LINE_MAX];

    w->infos = mem_array((size_t)BATCHES * 1000, sizeof *w->infos);
    w->text = mem_alloc(4000 * sizeof line);
    for (size_t i = 0; i < 4000; i++) {
        memset(w->text + i * sizeof line, (int)('a' + i % 26), sizeof line);
        memcpy(w->text + i * sizeof line, &i, sizeof i);
    }
    for (size_t i = 0; i < (size_t)BATCHES * 1000; i++) {
        const char *text = w->text + (i / 1000 * 100 + i % 1000) * sizeof line;

        w->infos[i] =
            (struct proc_info){.id = {(uint32_t)i, 1}, .command_line = {text, sizeof line}};
    }
    for (size_t i = 0; i < BATCHES; i++) {
        x.rests[i].batch.infos = w->infos + i * 1000;
        x.rests[i].batch.n_infos = 1000;
    }
}

static void wordy_fini(struct wordy *w)
{
    mem_free(w->infos);
    mem_free(w->text);
}

static void a_window_too_large_for_one_value_is_several(void **state)
{
    size_t at = 0, chunks = 0, n, done;
    struct window_rest *back;
    struct wordy w;
    bool more = true;

    wordy_init(&w);
    for (; at < BATCHES; at += done, chunks++) {
        buf_reset(&x.raw);
        arena_reset(&x.memory);
        assert_ok(meta_encode(&x.raw, &x.hw, at, NULL, &done));
        assert_ok(meta_decode(&x.memory, x.raw.p, x.raw.n, &x.hw.host, &back, &n, &more));
        assert_int_equal(n, done);
        assert_int_equal(more, at + done < BATCHES);
        for (size_t i = 0; i < n; i++) {
            assert_rest(&x.rests[at + i], &back[i]);
        }
    }
    assert_true(chunks > 1 && chunks < BATCHES);
    wordy_fini(&w);
}

/* -- segments -- */

static void write_segment(const char *dir, struct seg_info *info, struct packer *p)
{
    struct errmsg why = {""};
    struct meta_written *written;
    struct seg_writer *w;
    uint64_t events = 0;
    uint32_t host;

    assert_ok(meta_written_create(&written));
    meta_written_begin(written, info->window_ns);
    assert_ok(seg_writer_create(&w, fio_unsynced(), dir, info, &info->window_ns, &why));
    assert_ok(seg_writer_host(w, &host, &x.hw.host, "gen", 0, 1, 2));
    assert_ok(meta_value_write(w, p, host, 0, &x.hw, written, &events));
    assert_ok(seg_writer_finish(w, events, info, &why));
    meta_written_destroy(written);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    int byte;

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    byte = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    fputc(byte ^ 4, f);
    assert_int_equal(fclose(f), 0);
}

/* Gives how many came, each as it was; *most: the reader's memory. */
static size_t read_segment(const char *dir, const struct seg_info *info, struct packer *p,
                           size_t *most, enum err end)
{
    const struct window_rest *rest;
    struct errmsg why = {""};
    struct meta_reader *r;
    struct seg *s;
    size_t n = 0;
    enum err e;

    *most = 0;
    assert_ok(seg_open(&s, fio_unsynced(), dir, info, &why));
    assert_ok(meta_reader_open(&r, s, p, 0, 0));
    for (; (e = meta_reader_next(r, &rest)) == ERR_OK; n++) {
        size_t held = meta_reader_memory(r);

        assert_rest(&x.rests[n], rest);
        *most = held > *most ? held : *most;
    }
    assert_int_equal(e, end);
    assert_true(meta_reader_next(r, &rest) != ERR_OK);
    meta_reader_close(r);
    seg_close(s);
    return n;
}

static void a_window_is_read_one_value_at_a_time(void **state)
{
    struct seg_info info = {
        .number = 1, .kind = SEG_REST, .n_windows = 1, .span_ns = 300 * INT64_C(1000000000)};
    char dir[256], name[SEG_NAME_MAX], path[sizeof dir + sizeof name];
    struct wordy w;
    struct packer *p;
    size_t most, n;

    support_temp_dir(dir, sizeof dir);
    assert_ok(packer_create(&p));
    wordy_init(&w);
    write_segment(dir, &info, p);
    assert_int_equal(read_segment(dir, &info, p, &most, ERR_END), BATCHES);
    assert_in_range(most, META_CHUNK_BYTES, 3 * META_CHUNK_BYTES);
    seg_name(name, &info);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    flip(path, (long)info.bytes / 2);
    n = read_segment(dir, &info, p, &most, ERR_CORRUPT);
    assert_in_range(n, BATCHES / 4, BATCHES * 3 / 4);
    wordy_fini(&w);
    packer_destroy(p);
    support_remove_dir(dir);
}

/* -- accounts -- */

static void account_of(struct loss_sum *a)
{
    buf_reset(&x.raw);
    assert_ok(loss_sum_encode(&x.raw, &x.hw));
    arena_reset(&x.memory);
    assert_ok(loss_sum_decode(a, &x.memory, x.raw.p, x.raw.n));
}

static uint64_t count_of(const struct loss_sum *a, const char *stage, const char *reason)
{
    for (size_t i = 0; i < a->n_counts; i++) {
        if (str_eq(a->counts[i].stage, str_make(stage)) &&
            str_eq(a->counts[i].reason, str_make(reason))) {
            return a->counts[i].count;
        }
    }
    return UINT64_MAX;
}

static void an_account_sums_its_batches(void **state)
{
    const struct batch *last = &x.rests[BATCHES - 1].batch;
    uint64_t in = 0;
    struct loss_sum a;

    account_of(&a);
    for (size_t i = 0; i < BATCHES; i++) {
        for (size_t k = 0; k < x.rests[i].batch.n_ledger; k++) {
            const struct ledger_row *r = &x.rests[i].batch.ledger[k];

            in += str_eq(r->stage, x.rests[0].batch.ledger[0].stage) &&
                          str_eq(r->reason, x.rests[0].batch.ledger[0].reason)
                      ? r->count
                      : 0;
        }
    }
    assert_true(a.plain);
    assert_int_equal(a.batches, BATCHES);
    assert_int_equal(a.ticks, BATCHES * 10);
    assert_int_equal(a.period_ns, (last->mono_ns[9] - last->mono_ns[0]) / 9);
    assert_int_equal(a.first_ns, x.rests[0].batch.wall_ns[0]);
    assert_int_equal(a.last_ns, x.rests[BATCHES - 1].batch.wall_ns[9]);
    assert_int_equal(a.n_streams, 1);
    assert_int_equal(a.streams[0].first, 1);
    assert_int_equal(a.streams[0].last, BATCHES);
    assert_int_equal(a.streams[0].first_ns, a.first_ns);
    assert_int_equal(a.streams[0].last_ns, a.last_ns);
    assert_true(in > 0);
    assert_int_equal(a.counts[0].count, in);
}

static void an_account_of_losses_or_last_words_alone_is_not_plain(void **state)
{
    static const struct {
        const char *stage, *reason;
        uint64_t count;
        bool plain;
    } rows[] = {
        {"source", "out", 7, true},           {"source", "lost_events", 0, true},
        {"source", "lost_events", 1, false},  {"source", "lost_buffers", 1, false},
        {"agent", "killed", 0, false},        {"table", "late", 1, false},
        {"spool", "ticks_dropped", 0, false}, {"spool", "events_dropped", 1, false},
        {"etw", "anything", 9, true},         {"nobody", "told us", 1, false},
    };
    struct loss_sum a;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ledger_row row = {str_make(rows[i].stage), str_make(rows[i].reason), rows[i].count};

        x.rests[4].batch.ledger = &row;
        x.rests[4].batch.n_ledger = 1;
        account_of(&a);
        assert_int_equal(a.plain, rows[i].plain);
        assert_int_equal(a.batches, BATCHES);
    }
    x.rests[4].batch.n_ledger = 0;
    x.rests[0].batch.n_ticks = 0;
    x.rests[0].batch.n_events = 0;
    account_of(&a);
    assert_false(a.plain);
}

static void what_is_held_is_not_added_up_and_holes_stay(void **state)
{
    struct ledger_row rows[2] = {{str_make("batch"), str_make("held"), 5},
                                 {str_make("source"), str_make("out"), 5}};
    struct loss_sum a;

    for (size_t i = 0; i < BATCHES; i++) {
        x.rests[i].batch.ledger = rows;
        x.rests[i].batch.n_ledger = 2;
    }
    x.rests[9].batch.head.seq = 1000;
    account_of(&a);
    assert_int_equal(count_of(&a, "batch", "held"), 5);
    assert_int_equal(count_of(&a, "source", "out"), 5 * BATCHES);
    assert_int_equal(a.events, 5 * BATCHES);
    assert_int_equal(a.n_streams, 3);
    assert_true(a.plain);
}

static void more_counts_than_fit_are_not_plain(void **state)
{
    static char names[LOSS_SUM_COUNTS_MAX + 1][8];
    static struct ledger_row rows[LOSS_SUM_COUNTS_MAX + 1];
    struct loss_sum a;

    for (size_t i = 0; i <= LOSS_SUM_COUNTS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "r%zu", i);
        rows[i] = (struct ledger_row){str_make("etw"), str_make(names[i]), 1};
    }
    for (size_t i = 0; i < BATCHES; i++) {
        x.rests[i].batch.n_ledger = 0;
    }
    x.rests[1].batch.ledger = rows;
    x.rests[1].batch.n_ledger = LOSS_SUM_COUNTS_MAX;
    account_of(&a);
    assert_true(a.plain);
    assert_int_equal(a.n_counts, LOSS_SUM_COUNTS_MAX);
    x.rests[1].batch.n_ledger = LOSS_SUM_COUNTS_MAX + 1;
    account_of(&a);
    assert_false(a.plain);
    assert_int_equal(a.n_counts, LOSS_SUM_COUNTS_MAX);
}

/* -- hostile bytes -- */

static void every_shorter_value_is_rejected(void **state)
{
    struct window_rest *back;
    struct loss_sum a;
    size_t done, n;
    bool more;

    x.hw.n_rests = 2;
    assert_ok(meta_encode(&x.raw, &x.hw, 0, NULL, &done));
    for (size_t i = 0; i < x.raw.n; i++) {
        arena_reset(&x.memory);
        assert_err(meta_decode(&x.memory, x.raw.p, i, &x.hw.host, &back, &n, &more), ERR_CORRUPT);
    }
    buf_reset(&x.raw);
    assert_ok(loss_sum_encode(&x.raw, &x.hw));
    for (size_t i = 0; i < x.raw.n; i++) {
        arena_reset(&x.memory);
        assert_err(loss_sum_decode(&a, &x.memory, x.raw.p, i), ERR_CORRUPT);
    }
    x.raw.p[0]++;
    assert_err(loss_sum_decode(&a, &x.memory, x.raw.p, x.raw.n), ERR_VERSION);
}

static void counts_beyond_the_bytes_take_no_memory(void **state)
{
    static const uint8_t huge[][12] = {
        {1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},    /* texts */
        {1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, /* rests */
        {1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 'x', 0, 0},        /* a text's length */
    };
    struct window_rest *back;
    size_t n;
    bool more;

    for (size_t i = 0; i < COUNT_OF(huge); i++) {
        arena_reset(&x.memory);
        assert_err(meta_decode(&x.memory, huge[i], sizeof huge[i], &x.hw.host, &back, &n, &more),
                   ERR_CORRUPT);
        assert_true(x.memory.used < 100000);
    }
}

static void running_out_of_memory_leaves_nothing(void **state)
{
    struct window_rest *back;
    struct loss_sum a;
    size_t done, n;
    bool more;
    enum err e = ERR_NOMEM;

    for (long i = 0; e; i++) {
        struct arena memory;
        long before;

        arena_init(&memory, 64u << 20);
        before = mem_live();
        buf_fini(&x.raw);
        buf_init(&x.raw, META_RAW_MAX);
        mem_fail_after(i);
        e = meta_encode(&x.raw, &x.hw, 0, NULL, &done);
        if (!e) {
            e = meta_decode(&memory, x.raw.p, x.raw.n, &x.hw.host, &back, &n, &more);
        }
        if (!e) {
            buf_reset(&x.raw);
            e = loss_sum_encode(&x.raw, &x.hw);
        }
        if (!e) {
            e = loss_sum_decode(&a, &memory, x.raw.p, x.raw.n);
        }
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        arena_fini(&memory);
        buf_fini(&x.raw);
        buf_init(&x.raw, META_RAW_MAX);
        assert_true(mem_live() <= before);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(rests_come_back_as_they_were),
        T(a_batch_without_anything_comes_back),
        T(what_is_on_disk_is_left_out_until_it_changes_or_the_day_does),
        T(what_was_said_before_last_is_said_again),
        T(the_instances_longest_unheard_of_are_forgotten_first),
        T(more_than_fits_in_one_segment_is_never_left_out_wrongly),
        T(a_window_too_large_for_one_value_is_several),
        T(a_window_is_read_one_value_at_a_time),
        T(an_account_sums_its_batches),
        T(an_account_of_losses_or_last_words_alone_is_not_plain),
        T(what_is_held_is_not_added_up_and_holes_stay),
        T(more_counts_than_fit_are_not_plain),
        T(every_shorter_value_is_rejected),
        T(counts_beyond_the_bytes_take_no_memory),
        T(running_out_of_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
