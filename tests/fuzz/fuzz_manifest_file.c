/* Any bytes as a manifest in a file: byte 0 says in pieces of which size it comes, byte 1 whether
 * one provider alone counts. What it holds is put and read from the bytes themselves. */
#include "agent/decode/schema/etw_manifest.h"
#include "agent/decode/schema/payload.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const uint8_t guid[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
                                 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};

struct input {
    struct cur c;
    size_t piece;
    struct etw_manifest m;
};

static size_t input_read(void *ctx, void *p, size_t n)
{
    struct input *in = ctx;

    n = n < in->piece ? n : in->piece;
    n = n < cur_left(&in->c) ? n : cur_left(&in->c);
    if (n) {
        memcpy(p, cur_bytes(&in->c, n), n);
    }
    return n;
}

static void input_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct input *in = ctx;

    etw_manifest_begin(&in->m, name, attributes);
}

static void input_end(void *ctx, const char *name)
{
    struct input *in = ctx;

    etw_manifest_end(&in->m, name);
}

static enum err input_stopped(void *ctx)
{
    const struct input *in = ctx;

    return in->m.bad;
}

static void read_payload(const struct schema *s, uint16_t id, const uint8_t *p, size_t n)
{
    static struct payload scratch;
    struct raw_event raw = {.form = RAW_MANIFEST, .id = id, .pointer_size = 8, .payload_n = n};
    struct touch touch = {0};
    const struct value_sink sink = touch_sink(&touch);
    const struct schema_event *ev;
    uint8_t *exact = touch_copy(p, n);
    size_t left;

    raw.payload = exact;
    memcpy(raw.guid, guid, sizeof guid);
    ev = schema_find_event(s, &raw);
    if (ev) {
        err_ignore(payload_read(&scratch, ev, s, &raw, &sink, &left));
        touch_balanced(&touch);
    }
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct input in;
    const struct etw_manifest_sink sink = {.ctx = &in,
                                           .read = input_read,
                                           .begin = input_begin,
                                           .end = input_end,
                                           .stopped = input_stopped};
    struct schema *s;
    uint64_t events;

    in.c = cur_make(p, n);
    in.piece = 1 + (size_t)cur_u8(&in.c) * 16;
    etw_manifest_init(&in.m);
    in.m.origin = SCHEMA_FROM_FILE;
    if (cur_u8(&in.c) & 1) {
        etw_manifest_only(&in.m, guid);
    }
    if (!in.c.bad && schema_create(&s, 200000) == ERR_OK) {
        err_ignore(etw_manifest_stream(&sink));
        err_ignore(etw_manifest_finish(&in.m, guid, s, &events));
        for (uint16_t id = 0; id < 4; id++) {
            read_payload(s, id, p, n);
        }
        schema_destroy(s);
    }
    etw_manifest_fini(&in.m);
    return 0;
}
