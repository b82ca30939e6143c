/* Any bytes as a record of one class, FUZZ_CLASS: once for its fact and once by its layout. Every
 * byte of every text and value is read, so that one that points anywhere else is seen. A record its
 * layout can read to the end is not corrupt to the fact decoder either. */
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/etw_guid.h"
#include "tests/fuzz/class_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile uint8_t hole;

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void touch(const void *p, size_t n)
{
    const uint8_t *bytes = p;

    for (size_t i = 0; i < n; i++) {
        hole = bytes[i];
    }
}

static void touch_text(struct str s)
{
    touch(s.p, s.n);
}

static void check_process(const struct ev_proc *ev)
{
    touch_text(ev->info.name);
    touch_text(ev->info.command_line);
    touch_text(ev->info.user);
    touch_text(ev->package);
    if (ev->totals_mask) {
        touch(ev->totals, METRIC_COLS * sizeof *ev->totals);
    }
}

static void check_fact(const struct event *ev, size_t payload_n)
{
    must(ev->kind < EV_KIND_COUNT);
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
        touch_text(ev->u.thread.name);
        break;
    case EV_IMAGE_LOAD:
    case EV_IMAGE_UNLOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        touch_text(ev->u.image.path);
        break;
    case EV_FILE_OP:
        must(ev->u.file.op < FILE_OP_COUNT);
        touch_text(ev->u.file.path);
        break;
    case EV_SOFT_FAULT:
        must(ev->u.soft_fault.what < FAULT_COUNT);
        break;
    case EV_NET:
        must(ev->u.net.op <= NET_FAIL);
        break;
    case EV_STACK:
        must(ev->u.stack.n_frames <= payload_n / 4);
        break;
    case EV_DPC:
    case EV_ISR:
        must(ev->u.interrupt.took_ns >= 0);
        break;
    default:
        break;
    }
}

struct seen {
    size_t depth, values;
};

static void on_value(void *ctx, const struct value *v)
{
    struct seen *s = ctx;

    s->values++;
    touch_text(v->name);
    switch (v->kind) {
    case VALUE_TEXT:
    case VALUE_SID:
        touch_text(v->v.text);
        break;
    case VALUE_GUID:
    case VALUE_ADDRESS:
    case VALUE_BYTES:
        touch(v->v.bytes.p, v->v.bytes.n);
        break;
    case VALUE_BOOL:
        must(v->v.u <= 1);
        break;
    default:
        must(v->kind <= VALUE_BYTES && v->bits >= 8 && v->bits <= 64);
        break;
    }
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct seen *s = ctx;

    (void)group;
    touch_text(name);
    s->depth++;
}

static void on_end(void *ctx)
{
    struct seen *s = ctx;

    must(s->depth > 0);
    s->depth--;
}

static enum err by_layout(const struct raw_event *raw)
{
    static struct decode_text text;
    struct seen seen = {0};
    struct value_sink sink = {&seen, on_value, on_begin, on_end};
    const struct layout *l =
        layout_find(FUZZ_CLASS.layouts, FUZZ_CLASS.n_layouts, decode_number(raw), raw->version);
    size_t left = 0;
    enum err e;

    if (!l) {
        return ERR_NOTFOUND;
    }
    e = layout_read(l, raw, &sink, &text, &left);
    must(e == ERR_OK || e == ERR_CORRUPT);
    must(seen.depth == 0 && left <= raw->payload_n);
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
    must(e == ERR_OK || e == ERR_CORRUPT || e == ERR_NOTFOUND);
    if (e == ERR_OK) {
        check_fact(&ev, raw.payload_n);
    }
    must(by_layout(&raw) != ERR_OK || e != ERR_CORRUPT || has_bounds(&raw));
    return 0;
}
