/* Any bytes as records of packets: a byte each for the id, the keyword, the thread and the length,
 * then the payload; and so on. */
#include "agent/etl/etl_packets.h"
#include "common/base/cur.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const uint8_t guids[2][16] = {{0xd9, 0x80, 0x4f, 0x4d, 0xbd, 0xc8, 0x73, 0x4d, 0xbb,
                                          0x5b, 0x19, 0xc9, 0x04, 0x02, 0xc5, 0xac},
                                         {0x6e, 0x00, 0xd6, 0x2e, 0x29, 0x47, 0x09, 0x46, 0xb4,
                                          0x23, 0x3e, 0xe7, 0xbc, 0xd6, 0x78, 0xef}};
    static const uint16_t ids[16] = {160, 170, 200, 210, 220,  230,  240, 20,
                                     65,  66,  70,  90,  1001, 1003, 80,  30};
    struct touch touch = {0};
    struct cur c = cur_make(p, n);
    struct etl_packets *packets;
    struct etl_packets_stats stats;

    if (etl_packets_create(&packets)) {
        return 0;
    }
    while (cur_left(&c) >= 4) {
        struct raw_event raw = {.form = RAW_MANIFEST, .id = ids[cur_u8(&c) & 15]};
        struct etl_packets_one one;
        struct etl_packets_fact fact;
        uint8_t *payload;

        raw.keyword = (uint64_t)cur_u8(&c) << 30;
        raw.tid = cur_u8(&c) & 7;
        raw.payload_n = cur_u8(&c);
        raw.payload_n = raw.payload_n < cur_left(&c) ? raw.payload_n : cur_left(&c);
        memcpy(raw.guid, guids[raw.id > 1000], 16);
        raw.payload = payload = touch_copy(cur_bytes(&c, raw.payload_n), raw.payload_n);
        if (etl_packets_take(packets, &raw, &one)) {
            touch_must(one.n <= ETL_PACKETS_MAX && one.original >= one.n);
            touch_bytes(&touch, one.bytes, one.n);
        } else if (etl_packets_fact(&fact, &raw)) {
            touch_bytes(&touch, fact.bytes, fact.n);
            touch_bytes(&touch, fact.texts[0].p, 2 * fact.texts[0].n);
            touch_bytes(&touch, fact.texts[1].p, 2 * fact.texts[1].n);
        }
        free(payload);
    }
    etl_packets_end(packets, &stats);
    etl_packets_destroy(packets);
    return 0;
}
