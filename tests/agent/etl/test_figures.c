/* The tables behind the figures: kinds, pids, order of the file. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/etl/etl_buffer_order.h"
#include "agent/etl/etl_kinds.h"
#include "agent/etl/etl_pids.h"
#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_record.h"
#include "common/base/mem.h"

static const uint8_t disk_io[16] = ETW_CLASS_DISK_IO;

static struct raw_event record(const uint8_t guid[16], uint8_t form, uint16_t id, uint8_t opcode)
{
    struct raw_event r = {
        .form = form, .id = id, .opcode = opcode, .version = 2, .pointer_size = 8};

    memcpy(r.guid, guid, 16);
    return r;
}

static void kinds_are_told_apart_and_counted(void **state)
{
    uint8_t other[16] = {1, 2, 3};
    struct raw_event r = record(disk_io, RAW_CLASSIC, 77, 10);
    const struct etl_kinds_provider **providers;
    const struct etl_kinds_event **events;
    struct etl_kinds *k;
    size_t n;

    assert_ok(etl_kinds_create(&k));
    assert_int_equal(etl_kinds_count(k, NULL, &r)->kernel, ETL_KINDS_DISK_IO);
    r.id = 78; /* means nothing in classic records */
    assert_int_equal(etl_kinds_count(k, NULL, &r)->count, 2);
    r.header = ETL_EVENT64; /* the same class through a user's session is no kernel record */
    assert_int_equal(etl_kinds_count(k, NULL, &r)->kernel, ETL_KINDS_OTHER);
    r = record(other, RAW_MANIFEST, 5, 1);
    assert_int_equal(etl_kinds_count(k, NULL, &r)->count, 1);
    r.version = 3;
    assert_int_equal(etl_kinds_count(k, NULL, &r)->count, 1);
    r = record(other, RAW_MESSAGE, 5, 1);
    assert_int_equal(etl_kinds_count(k, NULL, &r)->opcode, 0);

    assert_ok(etl_kinds_sort_providers(k, &providers, &n));
    assert_int_equal(n, 2);
    assert_int_equal(providers[0]->count, 3);
    mem_free(providers);
    assert_ok(etl_kinds_sort_events(k, &events, &n));
    assert_int_equal(n, 5);
    assert_int_equal(events[0]->id, 5); /* 00030201-… comes first */
    assert_int_equal(events[4]->opcode, 10);
    mem_free(events);
    etl_kinds_destroy(k);
}

static void kinds_without_room_are_counted_together(void **state)
{
    struct raw_event r = record(disk_io, RAW_MANIFEST, 0, 0);
    struct etl_kinds *k;
    size_t n;

    assert_ok(etl_kinds_create(&k));
    for (unsigned i = 0; i < ETL_KINDS_MAX + 100; i++) {
        r.id = (uint16_t)i;
        assert_int_equal(etl_kinds_count(k, NULL, &r) != NULL, i < ETL_KINDS_MAX);
    }
    (void)etl_kinds_events(k, &n);
    assert_int_equal(n, ETL_KINDS_MAX);
    assert_int_equal(etl_kinds_dropped(k), 100);
    etl_kinds_destroy(k);

    assert_ok(etl_kinds_create(&k));
    for (unsigned i = 0; i < ETL_KINDS_PROVIDERS_MAX + 100; i++) {
        memcpy(r.guid, &i, sizeof i);
        (void)etl_kinds_count(k, NULL, &r);
    }
    (void)etl_kinds_providers(k, &n);
    assert_int_equal(n, ETL_KINDS_PROVIDERS_MAX);
    assert_int_equal(etl_kinds_dropped(k), 100);
    etl_kinds_destroy(k);
}

static void pids_are_sorted_with_nobody_last(void **state)
{
    const struct etl_pids_row *const *rows;
    struct etl_pids *p;
    size_t n;

    assert_ok(etl_pids_create(&p));
    etl_pids_add(p, 8, ETL_PIDS_SAMPLES, 1);
    etl_pids_add(p, EVENT_NO_ID, ETL_PIDS_IMAGE_RUNDOWN, 2);
    etl_pids_add(p, 0, ETL_PIDS_SAMPLES, 3);
    etl_pids_add(p, 8, ETL_PIDS_SAMPLES, 4);
    rows = etl_pids_sorted(p, &n);
    assert_int_equal(n, 3);
    assert_int_equal(rows[0]->pid, 0);
    assert_int_equal(rows[1]->n[ETL_PIDS_SAMPLES], 5);
    assert_int_equal(rows[2]->pid, EVENT_NO_ID);
    assert_int_equal(rows[2]->n[ETL_PIDS_IMAGE_RUNDOWN], 2);
    for (uint32_t i = 0; i < ETL_PIDS_MAX + 10; i++) {
        etl_pids_add(p, i, ETL_PIDS_SAMPLES, 1);
    }
    assert_int_equal(etl_pids_dropped(p), 10);
    etl_pids_destroy(p);
}

static void times_that_go_back_in_the_file_are_counted(void **state)
{
    /* in order of time; the file's order is that of places: 100: 1 4, 200: 2 3 9, 300: 5 */
    static const struct {
        uint64_t place;
        int64_t ticks;
        uint16_t cpu;
    } table[] = {{100, 1, 0}, {200, 2, 1}, {200, 3, 1}, {100, 4, 0}, {300, 5, 0}, {200, 9, 1}};
    struct etl_buffer_order *o;
    uint64_t n;

    assert_ok(etl_buffer_order_create(&o));
    assert_true(etl_buffer_order_inversions(o, &n));
    assert_int_equal(n, 0);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct raw_event r = {
            .place = table[i].place, .ticks = table[i].ticks, .cpu = table[i].cpu};

        etl_buffer_order_record(o, &r);
    }
    assert_true(etl_buffer_order_inversions(o, &n));
    assert_int_equal(n, 2); /* 4 to 2, 9 to 5 */
    etl_buffer_order_destroy(o);
}

static void many_buffers_are_found_again(void **state)
{
    struct etl_buffer_order *o;
    uint64_t n;

    assert_ok(etl_buffer_order_create(&o));
    for (int64_t t = 0; t < 20000; t++) {
        struct raw_event r = {.place = (uint64_t)(t % 5000) << 16, .ticks = t, .cpu = 0};

        etl_buffer_order_record(o, &r);
    }
    assert_true(etl_buffer_order_inversions(o, &n));
    assert_int_equal(n, 4999); /* each begins long before its neighbour ends */
    etl_buffer_order_destroy(o);
}

static void guids_read_as_people_write_them(void **state)
{
    char text[UUID_TEXT];

    assert_string_equal(value_text_guid(text, disk_io), "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c");
}

static void leftovers_are_what_no_layout_names(void **state)
{
    static uint8_t bytes[200];
    static const struct {
        uint8_t kernel, opcode, version, pointer_size;
        size_t n, left;
    } table[] = {
        {ETL_KINDS_PERF_INFO, 46, 2, 8, 16, 0},  {ETL_KINDS_PERF_INFO, 46, 2, 4, 12, 0},
        {ETL_KINDS_DISK_IO, 10, 3, 8, 52, 0},    {ETL_KINDS_DISK_IO, 11, 2, 4, 42, 2},
        {ETL_KINDS_PAGE_FAULT, 32, 2, 8, 40, 0}, {ETL_KINDS_TCP_IP, 10, 2, 8, 40, 0},
        {ETL_KINDS_TCP_IP, 26, 2, 8, 64, 0},     {ETL_KINDS_UDP_IP, 11, 2, 8, 32, 0},
        {ETL_KINDS_THREAD, 36, 4, 8, 25, 1},     {ETL_KINDS_THREAD, 3, 3, 8, 74, 2},
        {ETL_KINDS_THREAD, 1, 1, 4, 33, 0},      {ETL_KINDS_PROCESS, 1, 2, 8, 60, 29},
        {ETL_KINDS_IMAGE, 10, 2, 8, 58, 0},      {ETL_KINDS_IMAGE, 10, 2, 8, 57, 0}, /* short */
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct etl_kinds_event kind = {.kernel = table[i].kernel, .opcode = table[i].opcode};
        struct raw_event r = {.payload = bytes,
                              .payload_n = table[i].n,
                              .opcode = table[i].opcode,
                              .version = table[i].version,
                              .pointer_size = table[i].pointer_size};

        assert_non_null(etl_kinds_class_name(&kind));
        assert_int_equal(etl_kinds_left_over(&kind, &r), table[i].left);
        for (size_t n = 0; n < table[i].n; n++) { /* every shorter payload is looked at safely */
            r.payload_n = n;
            assert_true(etl_kinds_left_over(&kind, &r) <= n);
        }
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    long live = mem_live();

    for (long n = 0; n < 12; n++) {
        struct raw_event r = record(disk_io, RAW_CLASSIC, 0, 10);
        struct etl_kinds *k = NULL;
        struct etl_pids *p = NULL;
        struct etl_buffer_order *o = NULL;

        mem_fail_after(n);
        if (etl_kinds_create(&k) == ERR_OK && etl_pids_create(&p) == ERR_OK &&
            etl_buffer_order_create(&o) == ERR_OK) {
            (void)etl_kinds_count(k, NULL, &r);
            etl_pids_add(p, 4, ETL_PIDS_SAMPLES, 1);
            etl_buffer_order_record(o, &r);
        }
        mem_fail_after(-1);
        etl_kinds_destroy(k);
        etl_pids_destroy(p);
        etl_buffer_order_destroy(o);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told_apart_and_counted),
        cmocka_unit_test(kinds_without_room_are_counted_together),
        cmocka_unit_test(pids_are_sorted_with_nobody_last),
        cmocka_unit_test(times_that_go_back_in_the_file_are_counted),
        cmocka_unit_test(many_buffers_are_found_again),
        cmocka_unit_test(guids_read_as_people_write_them),
        cmocka_unit_test(leftovers_are_what_no_layout_names),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
