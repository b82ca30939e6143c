/* Any bytes as a TraceLogging event: byte 0 flags (bit 0: 64-bit, bit 1: the bytes are a whole
 * chain of extended items), u16 length of the schema or chain, the schema or chain, the payload. */
#include "agent/decode/describe.h"
#include "common/base/cur.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* Gives memory to be freed. */
static uint8_t *ext_make(struct raw_event *raw, const uint8_t *p, size_t n, bool chain)
{
    const size_t head = chain ? 0 : 8, size = (head + n + 7) / 8 * 8;
    uint8_t *ext;

    if (chain) {
        raw->ext_n = n;
        return touch_copy(p, n);
    }
    ext = calloc(1, size);
    if (!ext || size > UINT16_MAX) {
        free(ext);
        return NULL;
    }
    ext[0] = (uint8_t)size;
    ext[1] = (uint8_t)(size >> 8);
    ext[2] = 11;
    ext[6] = (uint8_t)n;
    ext[7] = (uint8_t)(n >> 8);
    memcpy(ext + head, p, n);
    raw->ext_n = size;
    return ext;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct describe *d;
    struct raw_event raw = {.form = RAW_MANIFEST};
    struct touch touch = {0};
    const struct value_sink sink = touch_sink(&touch);
    struct cur c = cur_make(p, n);
    uint8_t flags = cur_u8(&c), *ext, *payload;
    size_t size = cur_u16le(&c);
    const uint8_t *schema = cur_bytes(&c, size < cur_left(&c) ? size : cur_left(&c));
    struct described out;

    if (c.bad || (!d && describe_create(&d, &(struct describe_conf){0}, NULL))) {
        return 0;
    }
    size = (size_t)(c.p - schema);
    raw.pointer_size = flags & 1 ? 8 : 4;
    ext = ext_make(&raw, schema, size, flags & 2);
    if (!ext) {
        return 0;
    }
    raw.ext = ext;
    raw.payload_n = cur_left(&c);
    raw.payload = payload = touch_copy(c.p, raw.payload_n);
    if (describe_values(d, &raw, &sink, &out) == ERR_OK && out.left > raw.payload_n) {
        abort();
    }
    touch_bytes(&touch, out.provider.p, out.provider.n);
    touch_bytes(&touch, out.name.p, out.name.n);
    touch_balanced(&touch);
    free(payload);
    free(ext);
    return 0;
}
