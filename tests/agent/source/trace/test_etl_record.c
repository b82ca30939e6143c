#include "tests/support/t.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_record.h"

static const uint8_t guid_process[16] = ETW_CLASS_PROCESS;
static const uint8_t guid_image[16] = ETW_CLASS_IMAGE;
static const uint8_t guid_other[16] =
    ETW_GUID(0x01020304, 0x0506, 0x0708, 9, 10, 11, 12, 13, 14, 15, 16);

/* One record with recognisable fields; sizes are those of its bytes. */
struct sample {
    uint8_t p[0x100];
    size_t n;
};

static void put16(struct sample *s, size_t at, uint16_t v)
{
    memcpy(s->p + at, &v, 2);
}

static void put32(struct sample *s, size_t at, uint32_t v)
{
    memcpy(s->p + at, &v, 4);
}

static struct sample kernel(uint8_t type, size_t header, uint8_t group, uint8_t opcode)
{
    struct sample s = {.n = header + 5};

    s.p[0] = 3; /* version */
    s.p[2] = type;
    s.p[3] = 0xc0;
    put16(&s, 4, (uint16_t)s.n);
    s.p[6] = opcode;
    s.p[7] = group;
    if (header == 0x10) {
        put32(&s, 8, 777);
    } else {
        put32(&s, 8, 8);
        put32(&s, 12, 4);
        put32(&s, 16, 777);
    }
    memcpy(s.p + header, "hello", 5);
    return s;
}

static struct sample full(uint8_t type, size_t header)
{
    struct sample s = {.n = header + 5};

    put16(&s, 0, (uint16_t)s.n);
    s.p[2] = type;
    s.p[3] = 0xc0;
    s.p[4] = 1; /* opcode */
    s.p[6] = 3; /* version */
    put32(&s, 8, 8);
    put32(&s, 12, 4);
    put32(&s, 16, 777);
    memcpy(s.p + 0x18, guid_process, 16);
    memcpy(s.p + header, "hello", 5);
    return s;
}

static struct sample event(uint8_t type, uint16_t flags)
{
    struct sample s = {.n = 0x55};

    put16(&s, 0, (uint16_t)s.n);
    s.p[2] = type;
    s.p[3] = 0xc0;
    put16(&s, 4, flags);
    put32(&s, 8, 8);
    put32(&s, 12, 4);
    put32(&s, 16, 777);
    memcpy(s.p + 0x18, guid_other, 16);
    put16(&s, 0x28, 42); /* id */
    s.p[0x2a] = 3;       /* version */
    s.p[0x2d] = 1;       /* opcode */
    memcpy(s.p + 0x50, "hello", 5);
    return s;
}

static void every_header_type_is_read(void **state)
{
    const struct {
        struct sample s;
        unsigned pointer_size;
        uint32_t pid, tid;
        const uint8_t *guid;
    } rows[] = {
        {kernel(ETL_SYSTEM32, 0x20, 3, 1), 4, 4, 8, guid_process},
        {kernel(ETL_SYSTEM64, 0x20, 3, 1), 8, 4, 8, guid_process},
        {kernel(ETL_COMPACT32, 0x18, 3, 1), 4, 4, 8, guid_process},
        {kernel(ETL_COMPACT64, 0x18, 3, 1), 8, 4, 8, guid_process},
        {kernel(ETL_PERFINFO32, 0x10, 3, 1), 4, EVENT_NO_ID, EVENT_NO_ID, guid_process},
        {kernel(ETL_PERFINFO64, 0x10, 3, 1), 8, EVENT_NO_ID, EVENT_NO_ID, guid_process},
        {full(ETL_FULL32, 0x30), 4, 4, 8, guid_process},
        {full(ETL_FULL64, 0x30), 8, 4, 8, guid_process},
        {full(ETL_INSTANCE32, 0x48), 4, 4, 8, guid_process},
        {full(ETL_INSTANCE64, 0x48), 8, 4, 8, guid_process},
        {event(ETL_EVENT32, 0), 4, 4, 8, guid_other},
        {event(ETL_EVENT64, 0x100), 8, 4, 8, guid_other},
    };
    struct raw_event ev;
    struct etl_peek k;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_ok(etl_record_peek(&k, rows[i].s.p, sizeof rows[i].s.p));
        assert_int_equal(k.size, rows[i].s.n);
        assert_int_equal(etl_record_step(&k), (rows[i].s.n + 7) / 8 * 8);
        assert_int_equal(k.ticks, 777);
        assert_ok(etl_record_read(&ev, &k, rows[i].s.p));
        assert_int_equal(ev.pointer_size, rows[i].pointer_size);
        assert_int_equal(ev.pid, rows[i].pid);
        assert_int_equal(ev.tid, rows[i].tid);
        assert_int_equal(ev.version, 3);
        assert_int_equal(ev.opcode, 1);
        assert_memory_equal(ev.guid, rows[i].guid, 16);
        assert_int_equal(ev.payload_n, 5);
        assert_memory_equal(ev.payload, "hello", 5);
    }
}

static void events_tell_their_form(void **state)
{
    struct sample manifest = event(ETL_EVENT64, 0), classic = event(ETL_EVENT64, 0x100);
    struct raw_event ev;
    struct etl_peek k;

    assert_ok(etl_record_peek(&k, manifest.p, manifest.n));
    assert_ok(etl_record_read(&ev, &k, manifest.p));
    assert_int_equal(ev.form, RAW_MANIFEST);
    assert_int_equal(ev.id, 42);
    assert_ok(etl_record_read(&ev, &k, classic.p));
    assert_int_equal(ev.form, RAW_CLASSIC);
}

static void an_image_load_belongs_to_the_image_class(void **state)
{
    struct sample s = kernel(ETL_SYSTEM64, 0x20, 3, 10);
    struct raw_event ev;
    struct etl_peek k;

    assert_ok(etl_record_peek(&k, s.p, s.n));
    assert_ok(etl_record_read(&ev, &k, s.p));
    assert_memory_equal(ev.guid, guid_image, 16);
    assert_int_equal(ev.opcode, 10);
}

static void counter_values_before_the_payload_are_passed_over(void **state)
{
    struct sample s = kernel(ETL_PERFINFO64, 0x10, 0x0f, 46);
    struct raw_event ev;
    struct etl_peek k;

    s.p[1] = 0x82; /* two values and one more item */
    put16(&s, 4, 0x10 + 24 + 4);
    assert_ok(etl_record_peek(&k, s.p, sizeof s.p));
    assert_ok(etl_record_read(&ev, &k, s.p));
    assert_ptr_equal(ev.payload, s.p + 0x10 + 24);
    assert_int_equal(ev.payload_n, 4);
    put16(&s, 4, 0x10 + 23);
    assert_ok(etl_record_peek(&k, s.p, sizeof s.p));
    assert_err(etl_record_read(&ev, &k, s.p), ERR_CORRUPT);
}

static void the_payload_begins_behind_the_last_extended_item(void **state)
{
    struct sample s = event(ETL_EVENT64, 1);
    struct raw_event ev;
    struct etl_peek k;

    put16(&s, 0, 0x50 + 16 + 8 + 3);
    put16(&s, 0x50, 16); /* item of 16 bytes, 5 of data, another follows */
    put16(&s, 0x54, 1);
    put16(&s, 0x56, 5);
    put16(&s, 0x60, 8); /* the last item, empty */
    put16(&s, 0x64, 0);
    put16(&s, 0x66, 0);
    assert_ok(etl_record_peek(&k, s.p, sizeof s.p));
    assert_ok(etl_record_read(&ev, &k, s.p));
    assert_ptr_equal(ev.ext, s.p + 0x50);
    assert_int_equal(ev.ext_n, 24);
    assert_ptr_equal(ev.payload, s.p + 0x68);
    assert_int_equal(ev.payload_n, 3);
}

static void broken_extended_items_are_rejected(void **state)
{
    static const uint16_t rows[][3] = {
        {0, 0, 0}, {7, 0, 0}, {400, 0, 0}, {8, 1, 0}, {16, 0, 9}, {8, 0, 1},
    };
    struct raw_event ev;
    struct etl_peek k;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sample s = event(ETL_EVENT64, 1);

        put16(&s, 0, 0x50 + 24);
        memset(s.p + 0x50, 0, 24);
        put16(&s, 0x50, rows[i][0]);
        put16(&s, 0x54, rows[i][1]);
        put16(&s, 0x56, rows[i][2]);
        assert_ok(etl_record_peek(&k, s.p, sizeof s.p));
        assert_err(etl_record_read(&ev, &k, s.p), ERR_CORRUPT);
    }
}

static struct sample message(uint16_t options)
{
    struct sample s = {.n = 64};

    put16(&s, 0, 64);
    s.p[3] = 0x90;
    put16(&s, 4, 12);
    put16(&s, 6, options);
    return s;
}

static void messages_have_parts_in_the_order_of_their_bits(void **state)
{
    static const struct {
        uint16_t options;
        size_t time_at, ids_at, payload_at;
        unsigned pointer_size;
    } rows[] = {
        {0xaa, 24, 32, 40, 8}, {0x6a, 24, 32, 40, 4}, {0x2c, 12, 20, 28, 8},
        {0x2b, 28, 36, 44, 8}, {0x00, 0, 0, 8, 8},
    };
    struct raw_event ev;
    struct etl_peek k;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sample s = message(rows[i].options);
        bool has_sequence = rows[i].options & 1;
        bool has_component = (rows[i].options & 6) == 4; /* a GUID stands for it */

        if (has_sequence || has_component) {
            put32(&s, 8, 55);
        }
        if (rows[i].time_at) {
            put32(&s, rows[i].time_at, 777);
            put32(&s, rows[i].ids_at, 8);
            put32(&s, rows[i].ids_at + 4, 4);
        }
        assert_ok(etl_record_peek(&k, s.p, s.n));
        assert_int_equal(k.type, ETL_MESSAGE);
        assert_int_equal(k.ticks, rows[i].time_at ? 777 : ETL_RECORD_NO_TIME);
        assert_ok(etl_record_read(&ev, &k, s.p));
        assert_int_equal(ev.form, RAW_MESSAGE);
        assert_int_equal(ev.id, 12);
        assert_int_equal(ev.pid, rows[i].time_at ? 4 : EVENT_NO_ID);
        assert_int_equal(ev.tid, rows[i].time_at ? 8 : EVENT_NO_ID);
        assert_int_equal(ev.has_sequence, has_sequence);
        assert_int_equal(ev.sequence, has_sequence ? 55 : 0);
        assert_int_equal(ev.has_component, has_component);
        assert_int_equal(ev.component, has_component ? 55 : 0);
        assert_int_equal(ev.pointer_size, rows[i].pointer_size);
        assert_ptr_equal(ev.payload, s.p + rows[i].payload_at);
    }
}

static void sizes_that_leave_the_buffer_are_rejected(void **state)
{
    struct sample all[] = {kernel(ETL_SYSTEM64, 0x20, 3, 1), kernel(ETL_PERFINFO64, 0x10, 3, 1),
                           full(ETL_FULL64, 0x30), event(ETL_EVENT64, 0), message(0xaa)};
    struct etl_peek k;

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        for (size_t n = 8; n < all[i].n; n++) {
            assert_err(etl_record_peek(&k, all[i].p, n), ERR_CORRUPT);
        }
        for (size_t n = 0; n < 8; n++) {
            assert_err(etl_record_peek(&k, all[i].p, n), ERR_END);
        }
    }
}

static void headers_smaller_than_their_type_are_rejected(void **state)
{
    struct sample s = kernel(ETL_SYSTEM64, 0x20, 3, 1);
    struct etl_peek k;

    put16(&s, 4, 0x1f);
    assert_err(etl_record_peek(&k, s.p, s.n), ERR_CORRUPT);
    s = message(0xaa);
    put16(&s, 0, 39);
    assert_err(etl_record_peek(&k, s.p, s.n), ERR_CORRUPT);
}

static void markers_end_a_buffer_and_unknown_types_break_it(void **state)
{
    static const struct {
        uint8_t p[8];
        enum err e;
    } rows[] = {
        {{0, 0, 0, 0, 9}, ERR_END},      {{0xff, 0xff, 0xff, 0xff, 9}, ERR_END},
        {{8, 0, 12, 0xc0}, ERR_CORRUPT}, {{8, 0, 200, 0xc0}, ERR_CORRUPT},
        {{8, 0, 2, 0x40}, ERR_CORRUPT},
    };
    struct etl_peek k;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_err(etl_record_peek(&k, rows[i].p, sizeof rows[i].p), rows[i].e);
    }
}

static void records_of_lives_are_told_from_others(void **state)
{
    const struct {
        struct sample s;
        bool life;
    } rows[] = {
        {kernel(ETL_SYSTEM64, 0x20, 3, 1), true},
        {kernel(ETL_PERFINFO64, 0x10, 3, 39), true},
        {kernel(ETL_SYSTEM64, 0x20, 5, 4), true},
        {kernel(ETL_PERFINFO64, 0x10, 5, 36), false},
        {kernel(ETL_PERFINFO64, 0x10, 15, 73), true},
        {kernel(ETL_PERFINFO64, 0x10, 15, 46), false},
        {kernel(ETL_SYSTEM64, 0x20, 3, 10), false},
        {full(ETL_FULL64, 0x30), true},
        {event(ETL_EVENT64, 0), false},
    };
    struct etl_peek k;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_ok(etl_record_peek(&k, rows[i].s.p, sizeof rows[i].s.p));
        assert_int_equal(etl_record_tells_life(&k, rows[i].s.p), rows[i].life);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_header_type_is_read),
        cmocka_unit_test(events_tell_their_form),
        cmocka_unit_test(an_image_load_belongs_to_the_image_class),
        cmocka_unit_test(counter_values_before_the_payload_are_passed_over),
        cmocka_unit_test(the_payload_begins_behind_the_last_extended_item),
        cmocka_unit_test(broken_extended_items_are_rejected),
        cmocka_unit_test(messages_have_parts_in_the_order_of_their_bits),
        cmocka_unit_test(sizes_that_leave_the_buffer_are_rejected),
        cmocka_unit_test(headers_smaller_than_their_type_are_rejected),
        cmocka_unit_test(markers_end_a_buffer_and_unknown_types_break_it),
        cmocka_unit_test(records_of_lives_are_told_from_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
