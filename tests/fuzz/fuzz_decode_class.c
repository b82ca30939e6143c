/* Any bytes as a record of one class, FUZZ_CLASS: once for its fact and once by its layout. Every
 * byte of every text and value is read, so that one that points anywhere else is seen. A record its
 * layout can read to the end is not corrupt to the fact decoder either. */
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/source/etw_guid.h"
#include "tests/fuzz/class_input.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct touch touched;

static void check_process(const struct ev_proc *ev)
{
    touch_text(&touched, ev->info.name);
    touch_text(&touched, ev->info.command_line);
    touch_text(&touched, ev->info.user);
    touch_text(&touched, ev->package);
    if (ev->totals_mask) {
        touch_bytes(&touched, ev->totals, METRIC_COLS * sizeof *ev->totals);
    }
}

static void check_clr(const struct ev_clr *ev)
{
    touch_must(ev->op < CLR_OP_COUNT);
    touch_must(ev->n_sizes <= 5 && ev->took_ns >= -1);
    for (size_t i = 0; i < 3; i++) {
        touch_bytes(&touched, ev->text[i].units, 2 * (size_t)ev->text[i].n);
    }
}

static void check_fact(const struct event *ev, size_t payload_n)
{
    touch_must(ev->kind < EV_KIND_COUNT);
    switch (ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
    case EV_PROC_DEFUNCT:
        check_process(&ev->u.proc);
        break;
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
    case EV_THREAD_NAME:
        touch_text(&touched, ev->u.thread.name);
        break;
    case EV_IMAGE_LOAD:
    case EV_IMAGE_UNLOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        touch_text(&touched, ev->u.image.path);
        break;
    case EV_FILE_OP:
        touch_must(ev->u.file.op < FILE_OP_COUNT);
        touch_text(&touched, ev->u.file.path);
        break;
    case EV_SOFT_FAULT:
        touch_must(ev->u.soft_fault.what < FAULT_COUNT);
        break;
    case EV_NET:
        touch_must(ev->u.net.op <= NET_FAIL);
        break;
    case EV_STACK:
        touch_must(ev->u.stack.n_frames <= payload_n / 4);
        break;
    case EV_CLR:
        check_clr(&ev->u.clr);
        break;
    case EV_DPC:
    case EV_ISR:
        touch_must(ev->u.interrupt.took_ns >= 0);
        break;
    default:
        break;
    }
}

static void on_value(void *ctx, const struct value *v)
{
    touch_value(ctx, v);
    switch (v->kind) {
    case VALUE_TEXT:
    case VALUE_SID:
    case VALUE_GUID:
    case VALUE_ADDRESS:
    case VALUE_BYTES:
        break;
    case VALUE_BOOL:
        touch_must(v->v.u <= 1);
        break;
    default:
        touch_must(v->bits >= 8 && v->bits <= 64);
        break;
    }
}

static enum err by_layout(const struct raw_event *raw)
{
    static struct decode_text text;
    struct value_sink sink = {&touched, on_value, touch_begin, touch_end};
    const struct layout *l =
        layout_find(FUZZ_CLASS.layouts, FUZZ_CLASS.n_layouts, decode_number(raw), raw->version);
    size_t left = 0;
    enum err e;

    if (!l) {
        return ERR_NOTFOUND;
    }
    e = layout_read(l, raw, &sink, &text, &left);
    touch_must(e == ERR_OK || e == ERR_CORRUPT);
    touch_balanced(&touched);
    touch_must(left <= raw->payload_n);
    return e;
}

/* A sampling interval may be read whole and yet be none. */
static bool has_bounds(const struct raw_event *raw)
{
    static const uint8_t perf_info[16] = ETW_CLASS_PERF_INFO;

    return memcmp(raw->guid, perf_info, sizeof perf_info) == 0 && raw->opcode >= 72 &&
           raw->opcode <= 74;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct decode *d;
    struct raw_event raw;
    struct event ev;
    enum err e;

    if ((!d && decode_create(&d)) || !class_input_read(&raw, &FUZZ_CLASS, p, n)) {
        return 0;
    }
    e = decode_event(d, &raw, &ev);
    touch_must(e == ERR_OK || e == ERR_CORRUPT || e == ERR_NOTFOUND);
    if (e == ERR_OK) {
        check_fact(&ev, raw.payload_n);
    }
    touch_must(by_layout(&raw) != ERR_OK || e != ERR_CORRUPT || has_bounds(&raw));
    return 0;
}
