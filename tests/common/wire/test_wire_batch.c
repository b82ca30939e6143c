#include "common/wire/wire_batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/common/wire/wire_sample.h"
#include "tests/support/t.h"

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
    wire_sample_str(a->name, b->name);
    wire_sample_str(a->image, b->image);
    wire_sample_str(a->command_line, b->command_line);
    wire_sample_str(a->user, b->user);
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
    wire_sample_str(a->head.source, b->head.source);
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
        wire_sample_str(a->events[i].text, b->events[i].text);
    }
    assert_int_equal(a->n_ledger, b->n_ledger);
    for (size_t i = 0; i < a->n_ledger; i++) {
        wire_sample_str(a->ledger[i].stage, b->ledger[i].stage);
        wire_sample_str(a->ledger[i].reason, b->ledger[i].reason);
        assert_true(a->ledger[i].count == b->ledger[i].count);
    }
}

static void a_batch_comes_back_as_it_was(void **state)
{
    struct batch in = wire_sample(), *out;
    struct buf b;

    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_batch(&in, out);
    assert_in_range(wire_batch_memory(out), sizeof in, 1 << 20);
    wire_batch_free(out);
    buf_fini(&b);
}

static void part_of_the_columns_is_the_same_as_in_the_whole(void **state)
{
    struct batch in = wire_sample(), *out;
    struct buf b;
    size_t whole;

    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    whole = wire_batch_memory(out);
    wire_batch_free(out);
    for (size_t k = 0; k <= in.n_columns; k++) { /* each alone, and none */
        metric_mask metrics = k < in.n_columns ? METRIC_BIT(in.columns[k].metric) : 0;

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

    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_batch(&in, out);
    wire_batch_free(out);
    buf_fini(&b);
}

static void one_encoder_serves_many_batches(void **state)
{
    struct batch in = wire_sample(), *out;
    struct wire_encoder *enc;
    size_t first = 0;
    struct buf b;

    buf_init(&b, WIRE_SAMPLE_ROOM);
    assert_ok(wire_batch_encoder_create(&enc));
    for (int i = 0; i < 3; i++) {
        size_t before = b.n;

        assert_ok(wire_batch_encode(enc, &b, &in));
        assert_ok(wire_batch_decode(&out, b.p + before, b.n - before));
        assert_batch(&in, out);
        wire_batch_free(out);
        first = first ? first : b.n;
        assert_int_equal(b.n - before, first); /* the same input gives the same bytes */
    }
    wire_batch_encoder_destroy(enc);
    buf_fini(&b);
}

static void one_decoder_serves_many_batches_whatever_came_between(void **state)
{
    struct batch in = wire_sample(), *out;
    struct wire_decoder *dec;
    struct buf b;

    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decoder_create(&dec));
    for (size_t n = b.n; n > b.n - 20; n--) {
        assert_err(wire_batch_decode_next(dec, &out, UINT64_MAX, b.p, n - 1), ERR_CORRUPT);
        assert_ok(wire_batch_decode_next(dec, &out, UINT64_MAX, b.p, b.n));
        assert_batch(&in, out);
        wire_batch_free(out);
    }
    wire_batch_decoder_destroy(dec);
    buf_fini(&b);
}

static void every_shorter_input_is_refused(void **state)
{
    struct batch in = wire_sample(), *out;
    struct buf b;

    assert_ok(wire_sample_encode(&b, &in));
    for (size_t n = 0; n < b.n; n++) {
        assert_err(wire_batch_decode(&out, b.p, n), ERR_CORRUPT);
    }
    buf_fini(&b);
}

static void a_torn_message_inside_a_whole_frame_is_harmless(void **state)
{
    struct batch in = wire_sample();
    struct buf b;
    uint8_t *raw;
    size_t n;

    assert_ok(wire_sample_encode(&b, &in));
    raw = wire_sample_unwrap(&n, &b);
    for (size_t k = 0; k < n; k++) {
        enum err e = wire_sample_decode(raw, k);

        /* A cut between two optional parts leaves a shorter, valid batch. */
        assert_true(e == ERR_CORRUPT || e == ERR_VERSION || e == ERR_OK);
    }
    assert_ok(wire_sample_decode(raw, n));
    free(raw);
    buf_fini(&b);
}

static void flipped_bytes_never_do_harm(void **state)
{
    struct batch in = wire_sample();
    struct buf b;
    uint8_t *raw;
    size_t n;

    assert_ok(wire_sample_encode(&b, &in));
    raw = wire_sample_unwrap(&n, &b);
    for (size_t k = 0; k < n; k++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            raw[k] ^= (uint8_t)(1u << bit);
            err_ignore(wire_sample_decode(raw, n));
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

static void a_wrong_batch_is_not_encoded(void **state)
{
    const struct batch good = wire_sample();
    struct batch_column reversed[2] = {good.columns[1], good.columns[0]};
    struct batch_column short_column[2] = {{M_CPU_TIME, 7, good.columns[0].values},
                                           good.columns[1]};
    struct batch_run swapped[2] = {good.runs[1], good.runs[0]};
    struct batch in;
    struct buf b;

    for (int i = 0; i < 5; i++) {
        in = wire_sample();
        in.columns = i == 0 ? reversed : i == 1 ? short_column : in.columns;
        in.n_columns -= i == 2;
        in.runs = i == 3 ? swapped : in.runs;
        in.n_runs = i == 3 ? 2 : in.n_runs;
        in.head.seq = i == 4 ? 0 : in.head.seq;
        assert_err(wire_sample_encode(&b, &in), ERR_INVALID);
        buf_fini(&b);
    }
}

static void bad_text_is_mended_before_it_leaves(void **state)
{
    static char line[MODEL_COMMAND_LINE_MAX + 8];
    struct proc_info info = {.id = {1, 1}, .have = INFO_COMMAND_LINE_KNOWN};
    struct batch in = {.head = {.seq = 1}, .n_infos = 1, .infos = &info}, *out;
    struct buf b;

    memset(line, 'a', sizeof line);
    memcpy(line + MODEL_COMMAND_LINE_MAX - 1, "\xc3\xa4", 2); /* across the limit */
    info.name = (struct str){"x\0y\xff\xc3", 5};
    info.command_line = (struct str){line, sizeof line};
    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    wire_sample_str(out->infos[0].name, str_make("x?y??"));
    assert_int_equal(out->infos[0].command_line.n, MODEL_COMMAND_LINE_MAX - 1);
    assert_true(out->infos[0].have & INFO_COMMAND_LINE_CUT);
    wire_batch_free(out);
    buf_fini(&b);
}

/* Through the name of an info: what is not text becomes '?', wherever it stands. */
static void one_bad_byte_is_found_at_every_place(void **state)
{
    static const uint8_t bad[] = {0x00, 0x80, 0xff};
    struct proc_info info = {.id = {1, 1}};
    struct batch in = {.head = {.seq = 1}, .n_infos = 1, .infos = &info}, *out;
    char name[25];

    for (size_t at = 0; at < 3 * sizeof name; at++) {
        struct buf b;

        memset(name, at % 2 ? '\x01' : '\x7f', sizeof name);
        name[at / 3] = (char)bad[at % 3];
        info.name = (struct str){name, sizeof name};
        assert_ok(wire_sample_encode(&b, &in));
        assert_ok(wire_batch_decode(&out, b.p, b.n));
        name[at / 3] = '?';
        wire_sample_str(out->infos[0].name, info.name);
        wire_batch_free(out);
        buf_fini(&b);
    }
}

static void every_failed_allocation_is_survived(void **state)
{
    struct batch in = wire_sample(), *out;
    long live = mem_live();
    enum err e;
    struct buf b;

    for (long k = 0, e_last = ERR_NOMEM; e_last; k++) {
        struct wire_encoder *enc = NULL;

        buf_init(&b, WIRE_SAMPLE_ROOM);
        mem_fail_after(k);
        e = wire_batch_encoder_create(&enc);
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
        wire_batch_encoder_destroy(enc);
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
        cmocka_unit_test(one_decoder_serves_many_batches_whatever_came_between),
        cmocka_unit_test(every_shorter_input_is_refused),
        cmocka_unit_test(a_torn_message_inside_a_whole_frame_is_harmless),
        cmocka_unit_test(flipped_bytes_never_do_harm),
        cmocka_unit_test(a_wrong_batch_is_not_encoded),
        cmocka_unit_test(bad_text_is_mended_before_it_leaves),
        cmocka_unit_test(one_bad_byte_is_found_at_every_place),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
