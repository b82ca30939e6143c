/* What is too much, for senders and receivers. */
#include "common/wire/wire_batch.h"

#include <stdlib.h>

#include <zstd.h>

#include "common/base/mem.h"
#include "tests/common/wire/wire_sample.h"
#include "tests/support/t.h"

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

    assert_non_null(raw);
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        long live = mem_live();

        for (size_t k = 0; k < n; k++) {
            raw[k] = units[i].bytes[k % units[i].n];
        }
        assert_err(wire_sample_decode(raw, n / units[i].n * units[i].n), ERR_FULL);
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

    assert_non_null(values);
    for (int i = 0; i <= TICKS; i++) {
        ticks[i] = i;
    }
    for (unsigned i = 0; i < RUNS; i++) {
        many[i] = (struct batch_run){{i, 0}, 0, TICKS, false, METRIC_BIT(M_CPU_TIME)};
    }
    in.runs = many;
    in.columns = &column;
    in.n_columns = 1;
    in.n_runs = RUNS;
    assert_err(wire_sample_encode(&b, &in), ERR_FULL);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
    in.n_runs = RUNS - 1;
    column.n_values -= TICKS;
    assert_ok(wire_sample_encode(&b, &in));
    buf_fini(&b);
    in.n_ticks++;
    assert_err(wire_sample_encode(&b, &in), ERR_FULL);
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
    static const int64_t tick = 5;
    struct str s = {text, text_n};
    uint32_t seed = 1;

    for (size_t i = 0; i < sizeof text; i++) { /* not to be compressed to nothing */
        seed = seed * 1664525 + 1013904223;
        text[i] = (char)(' ' + (seed >> 24) % 90);
    }
    *b = (struct batch){.head = {.seq = 1}, .n_ticks = 1, .wall_ns = &tick, .mono_ns = &tick};
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

    assert_ok(wire_batch_encoder_create(&enc));
    buf_init(&b, WIRE_SAMPLE_ROOM);
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
    wire_batch_encoder_destroy(enc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amplified_messages_meet_the_budget),
        cmocka_unit_test(a_frame_must_declare_an_acceptable_size),
        cmocka_unit_test(a_batch_over_the_limits_is_not_encoded),
        cmocka_unit_test(what_is_encoded_can_be_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
