/* One rule of PROTOCOL.md broken at a time, on the message. */
#include "common/wire/wire_batch.h"

#include <stdlib.h>

#include <zstd.h>

#include "proto/telemetry.pb-c.h"
#include "tests/common/wire/wire_sample.h"
#include "tests/support/t.h"

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
BREAKER(more_values_than_data, m->runs->masks[m->runs->mask[1]] |= WIRE_SAMPLE_BOTH)
BREAKER(bad_name, m->infos[0]->name.data[0] = 0xff)
BREAKER(long_user, (m->infos[0]->has_user = 1, m->infos[0]->user = m->infos[0]->image,
                    m->infos[0]->user.len = 1))
BREAKER(event_without_kind, m->events[0]->kind = 0)
BREAKER(event_without_text, m->events[1]->text.len = 0)
BREAKER(ledger_nul, m->ledger[0]->stage.data[1] = 0)
BREAKER(unknown_metric, m->columns[1]->metric = M_CPU_PERCENT + 20)
BREAKER(masks_unequal, (m->runs->n_masks_high = 1, m->runs->masks_high = (uint64_t *)(void *)zeros))
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
        CASE(masks_unequal, ERR_CORRUPT),
    };
    struct batch in = wire_sample();
    struct buf b;
    uint8_t *raw;
    size_t n;

    assert_ok(wire_sample_encode(&b, &in));
    raw = wire_sample_unwrap(&n, &b);
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
        e = wire_sample_decode(packed, procfleet__v1__batch__pack(m, packed));
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
    struct batch in = wire_sample(), *out;
    Procfleet__V1__Batch *m;
    Procfleet__V1__ProcInfo *none;
    struct buf b;
    uint8_t *raw, *packed;
    uint8_t frame[4096];
    size_t n;

    assert_ok(wire_sample_encode(&b, &in));
    raw = wire_sample_unwrap(&n, &b);
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
    wire_sample_str(out->events[2].text, in.events[2].text);
    wire_batch_free(out);
    procfleet__v1__batch__free_unpacked(m, NULL);
    free(packed);
    free(raw);
    buf_fini(&b);
}

/* The second metric of the sample becomes `unknown`. */
static void try_unknown(unsigned unknown)
{
    metric_mask bit = METRIC_BIT(unknown);
    struct batch in = wire_sample(), *out;
    Procfleet__V1__Batch *m;
    uint64_t high[8] = {0};
    struct buf b;
    uint8_t *raw, *packed;
    uint8_t frame[4096];
    size_t n;

    assert_ok(wire_sample_encode(&b, &in));
    raw = wire_sample_unwrap(&n, &b);
    m = procfleet__v1__batch__unpack(NULL, n, raw);
    assert_non_null(m);
    m->columns[1]->metric = unknown;
    assert_in_range(m->runs->n_masks, 1, 8);
    assert_int_equal(m->runs->n_masks_high, 0);
    for (size_t i = 0; i < m->runs->n_masks; i++) {
        if (m->runs->masks[i] & METRIC_BIT(M_WORKING_SET_SIZE)) {
            m->runs->masks[i] ^= metric_mask_low(METRIC_BIT(M_WORKING_SET_SIZE) | bit);
            high[i] = metric_mask_high(bit);
        }
    }
    if (metric_mask_high(bit)) {
        m->runs->n_masks_high = m->runs->n_masks;
        m->runs->masks_high = high;
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
    m->runs->n_masks_high = 0;
    m->runs->masks_high = NULL;
    procfleet__v1__batch__free_unpacked(m, NULL);
    free(packed);
    free(raw);
    buf_fini(&b);
}

static void unknown_metrics_are_left_out(void **state)
{
    assert_null(metric_by_id(63 + 64));
    try_unknown(M_CPU_PERCENT + 20); /* no column */
    try_unknown(63 + 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_broken_rule_is_noticed),
        cmocka_unit_test(what_an_agent_tells_of_itself_is_of_no_process),
        cmocka_unit_test(unknown_metrics_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
