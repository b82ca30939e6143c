/* Any bytes as a trace message file and a message: byte 0 flags (bit 0: 64-bit), u16 length of the
 * file's text, the text, then the payload of message 10 of the GUID in the seeds. */
#include "agent/decode/schema/describe_wpp.h"
#include "common/base/cur.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void read_message(const struct tmf_message *m, uint8_t flags, const uint8_t *p, size_t n)
{
    static struct wpp wpp;
    struct raw_event raw = {.form = RAW_MESSAGE, .pointer_size = flags & 1 ? 8 : 4, .payload_n = n};
    struct touch touch = {0};
    const struct value_sink sink = touch_sink(&touch);
    uint8_t *exact = touch_copy(p, n);
    size_t left;

    raw.payload = exact;
    describe_wpp_init(&wpp);
    if (describe_wpp_read(&wpp, m, &raw, &sink, &left) == ERR_OK && left > n) {
        abort();
    }
    describe_wpp_fini(&wpp);
    touch_balanced(&touch);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const uint8_t guid[16] = {1, 0, 0, 0, 2, 0, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11};
    struct cur c = cur_make(p, n);
    uint8_t flags = cur_u8(&c);
    size_t size = cur_u16le(&c);
    const uint8_t *text;
    struct tmf *tmf;
    uint8_t *exact;

    if (c.bad || tmf_create(&tmf)) {
        return 0;
    }
    size = size < cur_left(&c) ? size : cur_left(&c);
    text = cur_bytes(&c, size);
    exact = touch_copy(text, size);
    err_ignore(tmf_read(tmf, (const char *)exact, size));
    free(exact);
    read_message(tmf_find(tmf, guid, 10), flags, c.p, cur_left(&c));
    tmf_destroy(tmf);
    return 0;
}
