/* Any bytes as an EventSource's manifest: byte 0 the number of chunks it is sent in (1 to 4), u16
 * length of the document, the document, then a payload that events 1 to 8 are read from. */
#include "agent/decode/describe.h"
#include "common/base/cur.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void send_chunk(struct describe *d, unsigned total, unsigned number, const uint8_t *p,
                       size_t n)
{
    struct raw_event raw = {.form = RAW_MANIFEST, .id = 0xfffe, .payload_n = 8 + n};
    uint8_t *payload = malloc(8 + n);

    if (!payload) {
        abort();
    }
    memcpy(payload, "\x01\x01\x00\x5b", 4);
    payload[4] = (uint8_t)total;
    payload[5] = 0;
    payload[6] = (uint8_t)number;
    payload[7] = 0;
    if (n) {
        memcpy(payload + 8, p, n);
    }
    raw.payload = payload;
    describe_learn(d, &raw);
    free(payload);
}

static void read_event(struct describe *d, uint16_t id, const uint8_t *p, size_t n)
{
    struct raw_event raw = {.form = RAW_MANIFEST, .id = id, .pointer_size = 4, .payload_n = n};
    struct touch touch = {0};
    const struct value_sink sink = touch_sink(&touch);
    uint8_t *exact = touch_copy(p, n);
    struct described out;

    raw.payload = exact;
    err_ignore(describe_values(d, &raw, &sink, &out));
    touch_bytes(&touch, out.provider.p, out.provider.n);
    touch_bytes(&touch, out.task.p, out.task.n);
    touch_bytes(&touch, out.name.p, out.name.n);
    touch_balanced(&touch);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct describe_conf conf = {.schema_max = 200000};
    struct cur c = cur_make(p, n);
    unsigned chunks = 1 + cur_u8(&c) % 4;
    size_t size = cur_u16le(&c);
    const uint8_t *xml;
    struct describe *d;

    if (c.bad || describe_create(&d, &conf, NULL)) {
        return 0;
    }
    size = size < cur_left(&c) ? size : cur_left(&c);
    xml = cur_bytes(&c, size);
    for (unsigned i = 0; i < chunks; i++) {
        size_t from = size * i / chunks, to = size * (i + 1) / chunks;

        send_chunk(d, chunks, i, xml + from, to - from);
    }
    for (uint16_t id = 1; id <= 8; id++) {
        read_event(d, id, c.p, cur_left(&c));
    }
    describe_destroy(d);
    return 0;
}
