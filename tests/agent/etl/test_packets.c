#include "agent/etl/etl_packets.h"

#include <string.h>

#include "tests/support/t.h"

static const uint8_t pktmon[16] = {0xd9, 0x80, 0x4f, 0x4d, 0xbd, 0xc8, 0x73, 0x4d,
                                   0xbb, 0x5b, 0x19, 0xc9, 0x04, 0x02, 0xc5, 0xac};
static const uint8_t ndis[16] = {0x6e, 0x00, 0xd6, 0x2e, 0x29, 0x47, 0x09, 0x46,
                                 0xb4, 0x23, 0x3e, 0xe7, 0xbc, 0xd6, 0x78, 0xef};

static void every_shorter_packet_is_damaged(void **state)
{
    static const struct {
        uint16_t id;
        size_t head, size_at;
        const uint8_t *guid;
    } kinds[] = {{160, 34, 32, pktmon}, {170, 34, 32, pktmon}, {240, 34, 32, pktmon},
                 {200, 35, 33, pktmon}, {210, 35, 33, pktmon}, {220, 59, 57, pktmon},
                 {230, 59, 57, pktmon}, {1001, 12, 8, ndis},   {1003, 26, 22, ndis}};
    struct etl_packets *p;
    struct etl_packets_one one;
    struct etl_packets_stats stats;
    uint64_t short_ones = 0;

    (void)state;
    assert_ok(etl_packets_create(&p));
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        size_t n = kinds[k].head + 6;
        struct raw_event raw = {
            .form = RAW_MANIFEST, .id = kinds[k].id, .keyword = UINT64_C(0xC0000000)};

        memcpy(raw.guid, kinds[k].guid, 16);
        for (raw.payload_n = 0; raw.payload_n <= n; raw.payload_n++) {
            uint8_t *payload = calloc(1, raw.payload_n + 1), full[80] = {0};

            full[kinds[k].size_at] = 6;
            memcpy(payload, full, raw.payload_n);
            raw.payload = payload;
            assert_int_equal(etl_packets_take(p, &raw, &one), raw.payload_n == n);
            short_ones += raw.payload_n < n;
            if (raw.payload_n == n) {
                assert_int_equal(one.n, 6);
                assert_ptr_equal(one.bytes, payload + kinds[k].head);
            }
            free(payload);
        }
    }
    etl_packets_end(p, &stats);
    assert_int_equal(stats.damaged, short_ones);
    etl_packets_destroy(p);
}

static void packets_whose_end_never_comes_make_room_and_are_counted(void **state)
{
    enum { SURPLUS = 40 };
    static const uint8_t payload[13] = {[8] = 1, [12] = 'x'};
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .id = 1001,
                            .keyword = 0x40000000,
                            .payload = payload,
                            .payload_n = sizeof payload};
    struct etl_packets *p;
    struct etl_packets_one one;
    struct etl_packets_stats stats;

    (void)state;
    memcpy(raw.guid, ndis, 16);
    assert_ok(etl_packets_create(&p));
    for (raw.tid = 0; raw.tid < ETL_PACKETS_OPEN + SURPLUS; raw.tid++) {
        assert_false(etl_packets_take(p, &raw, &one));
    }
    raw.keyword = 0x80000000;
    raw.tid = SURPLUS; /* the oldest that is left */
    assert_true(etl_packets_take(p, &raw, &one));
    assert_int_equal(one.n, 2);
    raw.tid = SURPLUS - 1;
    assert_false(etl_packets_take(p, &raw, &one));
    etl_packets_end(p, &stats);
    assert_int_equal(stats.unfinished, SURPLUS + 1 + ETL_PACKETS_OPEN - 1);
    etl_packets_destroy(p);
}

static void a_packet_never_grows_beyond_its_limit(void **state)
{
    static uint8_t payload[12 + 40000];
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .id = 1001,
                            .keyword = 0x40000000,
                            .payload = payload,
                            .payload_n = sizeof payload};
    struct etl_packets *p;
    struct etl_packets_one one;
    struct etl_packets_stats stats;

    (void)state;
    memcpy(raw.guid, ndis, 16);
    payload[8] = 40000 & 0xFF;
    payload[9] = 40000 >> 8;
    assert_ok(etl_packets_create(&p));
    assert_false(etl_packets_take(p, &raw, &one));
    raw.keyword = 0x80000000;
    assert_false(etl_packets_take(p, &raw, &one));
    etl_packets_end(p, &stats);
    assert_int_equal(stats.unfinished, 1);
    etl_packets_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shorter_packet_is_damaged),
        cmocka_unit_test(packets_whose_end_never_comes_make_room_and_are_counted),
        cmocka_unit_test(a_packet_never_grows_beyond_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
