#include "common/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "common/mem.h"
#include "proto/telemetry.pb-c.h"
#include "tests/support/t.h"

#define OUT_MAX (16u << 20)

/* -- a small batch with one of everything -- */

static const int64_t wall[] = {1700000000000000000, 1700000001000000123, 1700000002000000456};
static const int64_t mono[] = {5, 1000000005, 2000000005};
static const int64_t cpu[] = {100, 100, 250, 7, 8, 0, 0, INT64_MAX};
static const int64_t working_set[] = {4096, 8192, 4096, INT64_MIN, INT64_MAX};

#define BOTH (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE))

static const struct batch_run runs[] = {
    {{4, 0}, 0, 3, BOTH, false},
    {{4, 10}, 0, 1, METRIC_BIT(M_CPU_TIME), false},
    {{4, 10}, 2, 1, METRIC_BIT(M_CPU_TIME), false},
    {{UINT32_MAX, UINT64_MAX}, 0, 1, METRIC_BIT(M_CPU_TIME), true},
    {{UINT32_MAX, UINT64_MAX}, 1, 2, BOTH, false},
};

static const struct batch_column columns[] = {
    {M_CPU_TIME, 8, cpu},
    {M_WORKING_SET_SIZE, 5, working_set},
};

static struct batch sample(void)
{
    static struct proc_info infos[2];
    static struct life_event events[3];
    static struct ledger_row ledger[2];
    struct batch b = {.head = {.stream = 77, .seq = 3, .flags = BATCH_POLLED, .cpus = 4}};

    for (unsigned i = 0; i < 16; i++) {
        b.head.host.b[i] = (uint8_t)i;
        b.head.boot.b[i] = (uint8_t)(255 - i);
    }
    b.head.source = str_make("proc");
    infos[0] = (struct proc_info){.id = {4, 10},
                                  .have = INFO_PARENT | INFO_CREATE_TIME | INFO_EXITED |
                                          INFO_COMMAND_LINE_KNOWN,
                                  .origin = ORIGIN_START,
                                  .cpu_origin = CPU_ORIGIN_TIMES,
                                  .parent_start = 9,
                                  .create_ns = -5,
                                  .name = str_make("größe.exe"),
                                  .image = str_make("/usr/bin/größe.exe")};
    infos[1] = (struct proc_info){.id = {UINT32_MAX, UINT64_MAX},
                                  .have = INFO_SESSION | INFO_EXIT_TIME | INFO_EXIT_CODE |
                                          INFO_EXIT_INFERRED | INFO_FINAL_TOTALS |
                                          INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN,
                                  .exit_code = 0xC0000005,
                                  .exit_ns = INT64_MAX,
                                  .session_id = 2,
                                  .command_line = str_make("a b c"),
                                  .user = str_make("S-1-5-18")};
    events[0] = (struct life_event){.kind = LIFE_PROCESS_START, .wall_ns = 1, .info = infos[0]};
    events[1] = (struct life_event){.kind = LIFE_IMAGE_LOAD,
                                    .wall_ns = wall[1],
                                    .mono_ns = mono[1],
                                    .tid = 12,
                                    .info = {.id = {4, 10}, .name = str_make("x")},
                                    .text = str_make("/lib/y.so")};
    events[2] = (struct life_event){
        .kind = LIFE_LEVEL, .wall_ns = wall[1] + 1, .text = str_make("from L2 to L1: why")};
    ledger[0] = (struct ledger_row){str_make("source"), str_make("in"), UINT64_MAX};
    ledger[1] = (struct ledger_row){str_make("queue"), str_make("full"), 0};
    b.n_ticks = 3;
    b.wall_ns = wall;
    b.mono_ns = mono;
    b.n_runs = COUNT_OF(runs);
    b.runs = runs;
    b.n_columns = COUNT_OF(columns);
    b.columns = columns;
    b.n_infos = 2;
    b.infos = infos;
    b.n_events = 3;
    b.events = events;
    b.n_ledger = 2;
    b.ledger = ledger;
    return b;
}

static void assert_str(struct str a, struct str b)
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
    assert_true(a->parent_start == b->parent_start);
    assert_int_equal(a->session_id, b->session_id);
    assert_int_equal(a->exit_code, b->exit_code);
    assert_true(a->create_ns == b->create_ns && a->exit_ns == b->exit_ns);
    assert_str(a->name, b->name);
    assert_str(a->image, b->image);
    assert_str(a->command_line, b->command_line);
    assert_str(a->user, b->user);
}

static void assert_samples(const struct batch *a, const struct batch *b)
{
    assert_int_equal(a->n_ticks, b->n_ticks);
    assert_memory_equal(a->wall_ns, b->wall_ns, a->n_ticks * sizeof *a->wall_ns);
    assert_memory_equal(a->mono_ns, b->mono_ns, a->n_ticks * sizeof *a->mono_ns);
    assert_int_equal(a->n_runs, b->n_runs);
    for (size_t i = 0; i < a->n_runs; i++) {
        assert_true(proc_id_eq(a->runs[i].id, b->runs[i].id));
        assert_int_equal(a->runs[i].first_tick, b->runs[i].first_tick);
        assert_int_equal(a->runs[i].n_ticks, b->runs[i].n_ticks);
        assert_true(a->runs[i].mask == b->runs[i].mask);
        assert_int_equal(a->runs[i].fresh, b->runs[i].fresh);
    }
    assert_int_equal(a->n_columns, b->n_columns);
    for (size_t i = 0; i < a->n_columns; i++) {
        assert_int_equal(a->columns[i].metric, b->columns[i].metric);
        assert_int_equal(a->columns[i].n_values, b->columns[i].n_values);
        assert_memory_equal(a->columns[i].values, b->columns[i].values,
                            a->columns[i].n_values * sizeof(int64_t));
    }
}

static void assert_batch(const struct batch *a, const struct batch *b)
{
    assert_memory_equal(&a->head.host, &b->head.host, 16);
    assert_memory_equal(&a->head.boot, &b->head.boot, 16);
    assert_true(a->head.stream == b->head.stream && a->head.seq == b->head.seq);
    assert_int_equal(a->head.flags, b->head.flags);
    assert_int_equal(a->head.cpus, b->head.cpus);
    assert_str(a->head.source, b->head.source);
    assert_samples(a, b);
    assert_int_equal(a->n_infos, b->n_infos);
    for (size_t i = 0; i < a->n_infos; i++) {
        assert_info(&a->infos[i], &b->infos[i]);
    }
    assert_int_equal(a->n_events, b->n_events);
    for (size_t i = 0; i < a->n_events; i++) {
        assert_int_equal(a->events[i].kind, b->events[i].kind);
        assert_true(a->events[i].wall_ns == b->events[i].wall_ns);
        assert_true(a->events[i].mono_ns == b->events[i].mono_ns);
        assert_int_equal(a->events[i].tid, b->events[i].tid);
        assert_info(&a->events[i].info, &b->events[i].info);
        assert_str(a->events[i].text, b->events[i].text);
    }
    assert_int_equal(a->n_ledger, b->n_ledger);
    for (size_t i = 0; i < a->n_ledger; i++) {
        assert_str(a->ledger[i].stage, b->ledger[i].stage);
        assert_str(a->ledger[i].reason, b->ledger[i].reason);
        assert_true(a->ledger[i].count == b->ledger[i].count);
    }
}

/* Encodes once; the caller releases `out`. */
static enum err encode(struct buf *out, const struct batch *b)
{
    struct wire_encoder *enc;
    enum err e;

    buf_init(out, OUT_MAX);
    assert_ok(wire_encoder_create(&enc));
    e = wire_batch_encode(enc, out, b);
    wire_encoder_destroy(enc);
    return e;
}

static void a_batch_comes_back_as_it_was(void **state)
{
    struct batch in = sample(), *out;
    struct buf b;

    (void)state;
    assert_ok(encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_batch(&in, out);
    assert_in_range(wire_batch_memory(out), sizeof in, 1 << 20);
    wire_batch_free(out);
    buf_fini(&b);
}

static void part_of_the_columns_is_the_same_as_in_the_whole(void **state)
{
    struct batch in = sample(), *out;
    struct buf b;
    size_t whole;

    (void)state;
    assert_ok(encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    whole = wire_batch_memory(out);
    wire_batch_free(out);
    for (size_t k = 0; k <= in.n_columns; k++) { /* each alone, and none */
        uint64_t metrics = k < in.n_columns ? METRIC_BIT(in.columns[k].metric) : 0;

        assert_ok(wire_batch_decode_part(&out, metrics, b.p, b.n));
        assert_int_equal(out->n_columns, metrics != 0);
        assert_int_equal(out->n_runs, in.n_runs);
        for (size_t i = 0; i < in.n_runs; i++) {
            assert_true(out->runs[i].mask == (in.runs[i].mask & metrics));
        }
        if (metrics) {
            assert_int_equal(out->columns[0].n_values, in.columns[k].n_values);
            assert_memory_equal(out->columns[0].values, in.columns[k].values,
                                in.columns[k].n_values * sizeof(int64_t));
        }
        assert_int_equal(out->n_events, in.n_events);
        assert_in_range(wire_batch_memory(out), whole - 64, whole + 64); /* rounding */
        wire_batch_free(out);
    }
    buf_fini(&b);
}

static void an_empty_batch_comes_back_as_it_was(void **state)
{
    struct batch in = {.head = {.stream = 1, .seq = 1}}, *out;
    struct buf b;

    (void)state;
    assert_ok(encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_batch(&in, out);
    wire_batch_free(out);
    buf_fini(&b);
}

static void one_encoder_serves_many_batches(void **state)
{
    struct batch in = sample(), *out;
    struct wire_encoder *enc;
    size_t first = 0;
    struct buf b;

    (void)state;
    buf_init(&b, OUT_MAX);
    assert_ok(wire_encoder_create(&enc));
    for (int i = 0; i < 3; i++) {
        size_t before = b.n;

        assert_ok(wire_batch_encode(enc, &b, &in));
        assert_ok(wire_batch_decode(&out, b.p + before, b.n - before));
        assert_batch(&in, out);
        wire_batch_free(out);
        first = first ? first : b.n;
        assert_int_equal(b.n - before, first); /* the same input gives the same bytes */
    }
    wire_encoder_destroy(enc);
    buf_fini(&b);
}

static void every_shorter_input_is_refused(void **state)
{
    struct batch in = sample(), *out;
    struct buf b;

    (void)state;
    assert_ok(encode(&b, &in));
    for (size_t n = 0; n < b.n; n++) {
        assert_err(wire_batch_decode(&out, b.p, n), ERR_CORRUPT);
    }
    buf_fini(&b);
}

/* The packed message inside an encoded batch; free. */
static uint8_t *unwrap(size_t *n, const struct buf *b)
{
    unsigned long long size = ZSTD_getFrameContentSize(b->p, b->n);
    uint8_t *raw = malloc((size_t)size);

    assert_non_null(raw);
    *n = ZSTD_decompress(raw, (size_t)size, b->p, b->n);
    assert_int_equal(*n, size);
    return raw;
}

/* Decodes a raw message wrapped into a frame. */
static enum err decode_raw(const void *raw, size_t n)
{
    size_t room = ZSTD_compressBound(n);
    uint8_t *frame = malloc(room);
    struct batch *out = NULL;
    enum err e;

    assert_non_null(frame);
    e = wire_batch_decode(&out, frame, ZSTD_compress(frame, room, raw, n, 1));
    if (!e) {
        wire_batch_free(out);
    }
    free(frame);
    return e;
}

static void a_torn_message_inside_a_whole_frame_is_harmless(void **state)
{
    struct batch in = sample();
    struct buf b;
    uint8_t *raw;
    size_t n;

    (void)state;
    assert_ok(encode(&b, &in));
    raw = unwrap(&n, &b);
    for (size_t k = 0; k < n; k++) {
        enum err e = decode_raw(raw, k);

        /* A cut between two optional parts leaves a shorter, valid batch. */
        assert_true(e == ERR_CORRUPT || e == ERR_VERSION || e == ERR_OK);
    }
    assert_ok(decode_raw(raw, n));
    free(raw);
    buf_fini(&b);
}

static void flipped_bytes_never_do_harm(void **state)
{
    struct batch in = sample();
    struct buf b;
    uint8_t *raw;
    size_t n;

    (void)state;
    assert_ok(encode(&b, &in));
    raw = unwrap(&n, &b);
    for (size_t k = 0; k < n; k++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            raw[k] ^= (uint8_t)(1u << bit);
            err_ignore(decode_raw(raw, n));
            raw[k] ^= (uint8_t)(1u << bit);
        }
    }
    for (size_t k = 0; k < b.n; k++) {
        struct batch *out;

        b.p[k] ^= 0x10; /* zstd's own checksum notices what its format does not */
        if (!wire_batch_decode(&out, b.p, b.n)) {
            assert_batch(&in, out); /* an unused bit of the frame's header */
            wire_batch_free(out);
        }
        b.p[k] ^= 0x10;
    }
    free(raw);
    buf_fini(&b);
}

/* -- one rule broken at a time, on the message -- */

typedef void (*breaker)(Procfleet__V1__Batch *m);

#define BREAKER(name, statement)              \
    static void name(Procfleet__V1__Batch *m) \
    {                                         \
        statement;                            \
    }

static uint8_t zeros[64];

BREAKER(format_2, m->format = 2)
BREAKER(no_host, m->has_host = 0)
BREAKER(short_host, m->host.len = 15)
BREAKER(seq_0, m->seq = 0)
BREAKER(nul_in_source, m->source.data = zeros)
BREAKER(tick_repeated, m->wall_ns[1] = 0)
BREAKER(tick_back, m->mono_ns[2] = -1)
BREAKER(tick_overflow, m->wall_ns[2] = INT64_MAX)
BREAKER(ticks_unequal, m->n_mono_ns--)
BREAKER(run_without_ticks, m->runs->n_ticks[0] = 0)
BREAKER(run_behind_ticks, m->runs->n_ticks[4] = 3)
BREAKER(run_starts_late, m->runs->first_tick[0] = 3)
BREAKER(run_wraps, m->runs->n_ticks[4] = UINT32_MAX)
BREAKER(runs_overlap, m->runs->n_ticks[3] = 2)
BREAKER(runs_unsorted, m->runs->start[4] = -1)
BREAKER(pid_overflow, m->runs->pid[4] = 2)
BREAKER(runs_unequal, m->runs->n_mask--)
BREAKER(mask_unknown, m->runs->mask[0] = 9)
BREAKER(fresh_outside, m->runs->fresh[0] = 5)
BREAKER(column_missing, m->n_columns--)
BREAKER(columns_unsorted, m->columns[0]->metric = M_DISK_READ_BYTES)
BREAKER(column_twice, m->columns[1]->metric = m->columns[0]->metric)
BREAKER(column_short, m->columns[0]->data.len--)
BREAKER(column_empty, m->columns[1]->data.len = 0)
BREAKER(more_values_than_data, m->runs->masks[m->runs->mask[1]] |= BOTH)
BREAKER(bad_name, m->infos[0]->name.data[0] = 0xff)
BREAKER(long_user, (m->infos[0]->has_user = 1, m->infos[0]->user = m->infos[0]->image,
                    m->infos[0]->user.len = 1))
BREAKER(event_without_kind, m->events[0]->kind = 0)
BREAKER(event_without_text, m->events[1]->text.len = 0)
BREAKER(ledger_nul, m->ledger[0]->stage.data[1] = 0)
BREAKER(unknown_metric, m->columns[1]->metric = 60)
BREAKER(unknown_metric_255, m->columns[1]->metric = 255)

/* Memory of the messages that are broken on purpose: they could not be released piece by piece. */
static uint8_t pool[65536];
static size_t pool_used;

static void *pool_alloc(void *ctx, size_t n)
{
    uint8_t *p = pool + pool_used;

    (void)ctx;
    pool_used += (n + 15) / 16 * 16;
    return pool_used <= sizeof pool ? p : NULL;
}

static void pool_free(void *ctx, void *p)
{
    (void)ctx;
    (void)p;
}

static void each_broken_rule_is_noticed(void **state)
{
    static const struct {
        breaker apply;
        enum err want;
        const char *name;
    } cases[] = {
#define CASE(name, want) {name, want, #name}
        CASE(format_2, ERR_VERSION),
        CASE(no_host, ERR_CORRUPT),
        CASE(short_host, ERR_CORRUPT),
        CASE(seq_0, ERR_CORRUPT),
        CASE(nul_in_source, ERR_CORRUPT),
        CASE(tick_repeated, ERR_CORRUPT),
        CASE(tick_back, ERR_CORRUPT),
        CASE(tick_overflow, ERR_CORRUPT),
        CASE(ticks_unequal, ERR_CORRUPT),
        CASE(run_without_ticks, ERR_CORRUPT),
        CASE(run_behind_ticks, ERR_CORRUPT),
        CASE(run_starts_late, ERR_CORRUPT),
        CASE(run_wraps, ERR_CORRUPT),
        CASE(runs_overlap, ERR_CORRUPT),
        CASE(runs_unsorted, ERR_CORRUPT),
        CASE(pid_overflow, ERR_CORRUPT),
        CASE(runs_unequal, ERR_CORRUPT),
        CASE(mask_unknown, ERR_CORRUPT),
        CASE(fresh_outside, ERR_CORRUPT),
        CASE(column_missing, ERR_CORRUPT),
        CASE(columns_unsorted, ERR_CORRUPT),
        CASE(column_twice, ERR_CORRUPT),
        CASE(column_short, ERR_CORRUPT),
        CASE(column_empty, ERR_CORRUPT),
        CASE(more_values_than_data, ERR_CORRUPT),
        CASE(bad_name, ERR_CORRUPT),
        CASE(long_user, ERR_OK),
        CASE(event_without_kind, ERR_CORRUPT),
        CASE(event_without_text, ERR_OK),
        CASE(ledger_nul, ERR_CORRUPT),
        CASE(unknown_metric, ERR_CORRUPT), /* its mask bit has no column */
        CASE(unknown_metric_255, ERR_CORRUPT),
    };
    struct batch in = sample();
    struct buf b;
    uint8_t *raw;
    size_t n;

    (void)state;
    assert_ok(encode(&b, &in));
    raw = unwrap(&n, &b);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ProtobufCAllocator from_pool = {pool_alloc, pool_free, NULL};
        Procfleet__V1__Batch *m;
        uint8_t *packed;
        enum err e;

        pool_used = 0;
        m = procfleet__v1__batch__unpack(&from_pool, n, raw);
        assert_non_null(m);
        cases[i].apply(m);
        packed = malloc(procfleet__v1__batch__get_packed_size(m));
        assert_non_null(packed);
        e = decode_raw(packed, procfleet__v1__batch__pack(m, packed));
        if (e != cases[i].want) {
            print_error("%s: %s\n", cases[i].name, err_name(e));
        }
        assert_err(e, cases[i].want);
        free(packed);
    }
    free(raw);
    buf_fini(&b);
}

static void what_an_agent_tells_of_itself_is_of_no_process(void **state)
{
    struct batch in = sample(), *out;
    Procfleet__V1__Batch *m;
    Procfleet__V1__ProcInfo *none;
    struct buf b;
    uint8_t *raw, *packed;
    uint8_t frame[4096];
    size_t n;

    (void)state;
    assert_ok(encode(&b, &in));
    raw = unwrap(&n, &b);
    m = procfleet__v1__batch__unpack(NULL, n, raw);
    assert_non_null(m);
    none = m->events[2]->info;
    assert_null(none);
    m->events[2]->info = m->events[0]->info; /* what a foreign agent might send */
    packed = malloc(procfleet__v1__batch__get_packed_size(m));
    assert_non_null(packed);
    n = procfleet__v1__batch__pack(m, packed);
    m->events[2]->info = none;
    n = ZSTD_compress(frame, sizeof frame, packed, n, 1);
    assert_ok(wire_batch_decode(&out, frame, n));
    assert_int_equal(out->events[2].kind, LIFE_LEVEL);
    assert_int_equal(out->events[2].info.id.pid, 0);
    assert_int_equal(out->events[2].info.name.n, 0);
    assert_str(out->events[2].text, in.events[2].text);
    wire_batch_free(out);
    procfleet__v1__batch__free_unpacked(m, NULL);
    free(packed);
    free(raw);
    buf_fini(&b);
}

static void unknown_metrics_are_left_out(void **state)
{
    struct batch in = sample(), *out;
    Procfleet__V1__Batch *m;
    struct buf b;
    uint8_t *raw, *packed;
    uint8_t frame[4096];
    size_t n;

    (void)state;
    assert_ok(encode(&b, &in));
    raw = unwrap(&n, &b);
    m = procfleet__v1__batch__unpack(NULL, n, raw);
    assert_non_null(m);
    m->columns[1]->metric = 60;
    for (size_t i = 0; i < m->runs->n_masks; i++) {
        if (m->runs->masks[i] & METRIC_BIT(M_WORKING_SET_SIZE)) {
            m->runs->masks[i] ^= METRIC_BIT(M_WORKING_SET_SIZE) | METRIC_BIT(60);
        }
    }
    packed = malloc(procfleet__v1__batch__get_packed_size(m));
    assert_non_null(packed);
    n = procfleet__v1__batch__pack(m, packed);
    n = ZSTD_compress(frame, sizeof frame, packed, n, 1);
    assert_ok(wire_batch_decode(&out, frame, n));
    assert_int_equal(out->n_columns, 1);
    assert_int_equal(out->columns[0].metric, M_CPU_TIME);
    for (size_t i = 0; i < out->n_runs; i++) {
        assert_true(out->runs[i].mask == METRIC_BIT(M_CPU_TIME));
    }
    wire_batch_free(out);
    procfleet__v1__batch__free_unpacked(m, NULL);
    free(packed);
    free(raw);
    buf_fini(&b);
}

/* -- limits -- */

static void amplified_messages_meet_the_budget(void **state)
{
    size_t n = 6u << 20;
    uint8_t *raw = malloc(n);
    static const struct {
        uint8_t bytes[4];
        size_t n;
    } units[] = {
        {{0x72, 0}, 2},       /* empty process infos */
        {{0x7a, 0}, 2},       /* empty events */
        {{0xf8, 0x07, 1}, 3}, /* unknown fields */
        {{0x50, 2}, 2},       /* unpacked ticks */
    };

    (void)state;
    assert_non_null(raw);
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        long live = mem_live();

        for (size_t k = 0; k < n; k++) {
            raw[k] = units[i].bytes[k % units[i].n];
        }
        assert_err(decode_raw(raw, n / units[i].n * units[i].n), ERR_FULL);
        assert_int_equal(mem_live(), live);
    }
    free(raw);
}

static void a_frame_must_declare_an_acceptable_size(void **state)
{
    struct batch *out;
    size_t n = WIRE_BATCH_RAW_MAX + 1;
    uint8_t *bomb = calloc(n, 1), *frame = malloc(ZSTD_compressBound(n));
    ZSTD_CCtx *z = ZSTD_createCCtx();
    size_t k;

    (void)state;
    assert_true(bomb && frame && z);
    k = ZSTD_compressCCtx(z, frame, ZSTD_compressBound(n), bomb, n, 1);
    assert_err(wire_batch_decode(&out, frame, k), ERR_FULL);
    ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
    k = ZSTD_compress2(z, frame, ZSTD_compressBound(n), bomb, 100);
    assert_err(wire_batch_decode(&out, frame, k), ERR_CORRUPT);
    assert_err(wire_batch_decode(&out, bomb, WIRE_BATCH_BYTES_MAX + 1), ERR_FULL);
    ZSTD_freeCCtx(z);
    free(bomb);
    free(frame);
}

static void a_batch_over_the_limits_is_not_encoded(void **state)
{
    enum { TICKS = WIRE_TICKS_MAX, RUNS = WIRE_VALUES_MAX / WIRE_TICKS_MAX + 1 };
    static struct batch_run many[RUNS];
    static int64_t ticks[TICKS + 1];
    int64_t *values = calloc((size_t)TICKS * RUNS, sizeof *values);
    struct batch_column column = {M_CPU_TIME, (size_t)TICKS * RUNS, values};
    struct batch in = {.head = {.seq = 1}, .n_ticks = TICKS, .wall_ns = ticks, .mono_ns = ticks};
    struct buf b;

    (void)state;
    assert_non_null(values);
    for (int i = 0; i <= TICKS; i++) {
        ticks[i] = i;
    }
    for (unsigned i = 0; i < RUNS; i++) {
        many[i] = (struct batch_run){{i, 0}, 0, TICKS, METRIC_BIT(M_CPU_TIME), false};
    }
    in.runs = many;
    in.columns = &column;
    in.n_columns = 1;
    in.n_runs = RUNS;
    assert_err(encode(&b, &in), ERR_FULL);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
    in.n_runs = RUNS - 1;
    column.n_values -= TICKS;
    assert_ok(encode(&b, &in));
    buf_fini(&b);
    in.n_ticks++;
    assert_err(encode(&b, &in), ERR_FULL);
    buf_fini(&b);
    free(values);
}

/* Fills `b` with n of one kind, as small as they get or with texts of `text_n` bytes. */
static void fill(struct batch *b, char kind, size_t n, size_t text_n)
{
    static struct proc_info infos[WIRE_RUNS_MAX];
    static struct life_event events[WIRE_EVENTS_MAX];
    static struct ledger_row ledger[WIRE_LEDGER_MAX];
    static struct batch_run alike[WIRE_RUNS_MAX];
    static char text[4096];
    struct str s = {text, text_n};
    uint32_t seed = 1;

    for (size_t i = 0; i < sizeof text; i++) { /* not to be compressed to nothing */
        seed = seed * 1664525 + 1013904223;
        text[i] = (char)(' ' + (seed >> 24) % 90);
    }
    *b = (struct batch){.head = {.seq = 1}, .n_ticks = 1, .wall_ns = wall, .mono_ns = mono};
    for (size_t i = 0; i < n; i++) {
        struct proc_info info = {.id = {(uint32_t)i, 0}, .name = s, .command_line = s};

        infos[i] = info;
        events[i] = (struct life_event){.kind = LIFE_PROCESS_START, .info = info, .text = s};
        alike[i] = (struct batch_run){.id = info.id, .n_ticks = 1};
        ledger[i % WIRE_LEDGER_MAX] = (struct ledger_row){s, s, 1};
    }
    b->infos = infos;
    b->events = events;
    b->ledger = ledger;
    b->runs = alike;
    b->n_infos = kind == 'i' || kind == 'a' ? n : 0;
    b->n_events = kind == 'e' || kind == 'a' ? n : 0;
    b->n_runs = kind == 'r' || kind == 'a' ? n : 0;
    b->n_ledger = kind != 'l' && kind != 'a' ? 0 : n < WIRE_LEDGER_MAX ? n : WIRE_LEDGER_MAX;
}

/* The sender must not make what no receiver takes: it would be refused again and again. */
static void what_is_encoded_can_be_decoded(void **state)
{
    static const size_t counts[] = {1, 2, 5, 20, 100, 300, 1000, 3000, 10000, 20000, 40000, 65536};
    static const size_t lengths[] = {0, 1, 8, 40, 300};
    struct wire_encoder *enc;
    size_t taken = 0;
    struct buf b;

    (void)state;
    assert_ok(wire_encoder_create(&enc));
    buf_init(&b, OUT_MAX);
    for (const char *kind = "ierla"; *kind; kind++) {
        for (size_t k = 0; k < COUNT_OF(counts) * COUNT_OF(lengths); k++) {
            size_t n = counts[k / COUNT_OF(lengths)], text_n = lengths[k % COUNT_OF(lengths)];
            struct batch in, *out;
            enum err e;

            fill(&in, *kind, n, text_n);
            buf_reset(&b);
            e = wire_batch_encode(enc, &b, &in);
            if (e) {
                assert_err(e, ERR_FULL);
                assert_true(n >= 1000); /* a batch can be split, but not for ever */
                continue;
            }
            e = wire_batch_decode(&out, b.p, b.n);
            if (e) {
                fail_msg("%zu of kind %c with %zu bytes of text: %s", n, *kind, text_n,
                         err_name(e));
            }
            taken++;
            wire_batch_free(out);
        }
    }
    assert_true(taken > 200);
    buf_fini(&b);
    wire_encoder_destroy(enc);
}

static void a_wrong_batch_is_not_encoded(void **state)
{
    struct batch_column reversed[2] = {columns[1], columns[0]};
    struct batch_column short_column[2] = {{M_CPU_TIME, 7, cpu}, columns[1]};
    struct batch_run swapped[2] = {runs[1], runs[0]};
    struct batch in;
    struct buf b;

    (void)state;
    for (int i = 0; i < 5; i++) {
        in = sample();
        in.columns = i == 0 ? reversed : i == 1 ? short_column : in.columns;
        in.n_columns -= i == 2;
        in.runs = i == 3 ? swapped : in.runs;
        in.n_runs = i == 3 ? 2 : in.n_runs;
        in.head.seq = i == 4 ? 0 : in.head.seq;
        assert_err(encode(&b, &in), ERR_INVALID);
        buf_fini(&b);
    }
}

static void bad_text_is_mended_before_it_leaves(void **state)
{
    static char line[MODEL_COMMAND_LINE_MAX + 8];
    struct proc_info info = {.id = {1, 1}, .have = INFO_COMMAND_LINE_KNOWN};
    struct batch in = {.head = {.seq = 1}, .n_infos = 1, .infos = &info}, *out;
    struct buf b;

    (void)state;
    memset(line, 'a', sizeof line);
    memcpy(line + MODEL_COMMAND_LINE_MAX - 1, "\xc3\xa4", 2); /* across the limit */
    info.name = (struct str){"x\0y\xff\xc3", 5};
    info.command_line = (struct str){line, sizeof line};
    assert_ok(encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_str(out->infos[0].name, str_make("x?y??"));
    assert_int_equal(out->infos[0].command_line.n, MODEL_COMMAND_LINE_MAX - 1);
    assert_true(out->infos[0].have & INFO_COMMAND_LINE_CUT);
    wire_batch_free(out);
    buf_fini(&b);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct batch in = sample(), *out;
    long live = mem_live();
    enum err e;
    struct buf b;

    (void)state;
    for (long k = 0, e_last = ERR_NOMEM; e_last; k++) {
        struct wire_encoder *enc = NULL;

        buf_init(&b, OUT_MAX);
        mem_fail_after(k);
        e = wire_encoder_create(&enc);
        if (!e) {
            e = wire_batch_encode(enc, &b, &in);
        }
        if (!e) {
            e = wire_batch_decode(&out, b.p, b.n);
        }
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        if (!e) {
            assert_batch(&in, out);
            wire_batch_free(out);
        }
        wire_encoder_destroy(enc);
        buf_fini(&b);
        assert_int_equal(mem_live(), live);
        assert_true(k < 200);
        e_last = e;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_comes_back_as_it_was),
        cmocka_unit_test(part_of_the_columns_is_the_same_as_in_the_whole),
        cmocka_unit_test(an_empty_batch_comes_back_as_it_was),
        cmocka_unit_test(one_encoder_serves_many_batches),
        cmocka_unit_test(every_shorter_input_is_refused),
        cmocka_unit_test(a_torn_message_inside_a_whole_frame_is_harmless),
        cmocka_unit_test(flipped_bytes_never_do_harm),
        cmocka_unit_test(each_broken_rule_is_noticed),
        cmocka_unit_test(what_an_agent_tells_of_itself_is_of_no_process),
        cmocka_unit_test(unknown_metrics_are_left_out),
        cmocka_unit_test(amplified_messages_meet_the_budget),
        cmocka_unit_test(a_frame_must_declare_an_acceptable_size),
        cmocka_unit_test(a_batch_over_the_limits_is_not_encoded),
        cmocka_unit_test(what_is_encoded_can_be_decoded),
        cmocka_unit_test(a_wrong_batch_is_not_encoded),
        cmocka_unit_test(bad_text_is_mended_before_it_leaves),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
