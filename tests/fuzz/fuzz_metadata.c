/* Any bytes as event metadata: u16 length of a map's record, u16 length of an event's, the two
 * records, then a payload that is read by them. */
#include "agent/decode/describe.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const uint8_t *part(struct cur *c, size_t *n)
{
    *n = *n < cur_left(c) ? *n : cur_left(c);
    return cur_bytes(c, *n);
}

static void learn(struct describe *d, uint8_t opcode, const uint8_t *p, size_t n)
{
    static const uint8_t control[16] = ETW_CONTROL_METADATA;
    struct raw_event raw = {.form = RAW_CLASSIC, .opcode = opcode, .payload_n = n};
    uint8_t *exact = touch_copy(p, n);

    memcpy(raw.guid, control, sizeof control);
    raw.payload = exact;
    describe_learn(d, &raw);
    free(exact);
}

/* The event the second record is about, by its id and by its opcode. */
static void read_event(struct describe *d, uint8_t form, const uint8_t *info, size_t n,
                       const uint8_t *payload, size_t n_payload)
{
    struct raw_event raw = {.form = form, .pointer_size = 8, .payload_n = n_payload};
    struct touch touch = {0};
    const struct value_sink sink = touch_sink(&touch);
    uint8_t *exact = touch_copy(payload, n_payload);
    struct described out;

    if (n >= 38) {
        memcpy(raw.guid, form == RAW_CLASSIC ? info + 16 : info, 16);
        raw.id = (uint16_t)(info[32] | info[33] << 8);
        raw.version = info[34];
        raw.opcode = info[37];
    }
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
    size_t n_map = cur_u16le(&c), n_event = cur_u16le(&c);
    const uint8_t *map, *event;
    struct describe *d;

    if (c.bad || describe_create(&d, &conf, NULL)) {
        return 0;
    }
    map = part(&c, &n_map);
    event = part(&c, &n_event);
    learn(d, 33, map, n_map);
    learn(d, 32, event, n_event);
    read_event(d, RAW_MANIFEST, event, n_event, c.p, cur_left(&c));
    read_event(d, RAW_CLASSIC, event, n_event, c.p, cur_left(&c));
    describe_destroy(d);
    return 0;
}
