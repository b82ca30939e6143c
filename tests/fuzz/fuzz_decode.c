/* Any bytes as a payload: byte 0 picks the class, 1 the opcode, 2 the version, 3 the pointer size.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/etw_guid.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile uint8_t sink;

/* Reads every byte, so that a text that points anywhere else is seen. */
static void touch(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        sink = (uint8_t)s.p[i];
    }
}

static void touch_event(const struct event *ev)
{
    if (ev->kind <= EV_PROC_DEFUNCT) {
        touch(ev->u.proc.info.name);
        touch(ev->u.proc.info.command_line);
        touch(ev->u.proc.info.user);
    } else if (ev->kind <= EV_THREAD_LAST) {
        touch(ev->u.thread.name);
    } else if (ev->kind <= EV_IMAGE_LAST) {
        touch(ev->u.image.path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const uint8_t classes[4][16] = {ETW_CLASS_PROCESS, ETW_CLASS_THREAD, ETW_CLASS_IMAGE,
                                           ETW_CLASS_PERF_INFO};
    static const uint8_t opcodes[8] = {1, 2, 3, 4, 10, 39, 46, 73};
    static struct decode *d;
    struct raw_event raw = {.form = RAW_CLASSIC};
    struct event ev;

    if (n < 4 || (!d && decode_create(&d))) {
        return 0;
    }
    memcpy(raw.guid, classes[p[0] % 4], 16);
    raw.opcode = opcodes[p[1] % 8];
    raw.version = p[2] % 7;
    raw.pointer_size = p[3] & 1 ? 8 : 4;
    raw.payload = p + 4;
    raw.payload_n = n - 4;
    if (decode_event(d, &raw, &ev) == ERR_OK) {
        touch_event(&ev);
    }
    return 0;
}
