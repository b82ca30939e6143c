#include "tests/agent/decode/payload.h"

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

static const struct payload_row rows[] = {
    {37, 2, "T44P", "EventTimeStamp StackProcess StackThread StackKey", "StackKeyKernel", EV_STACK},
    {38, 2, "T44P", "EventTimeStamp StackProcess StackThread StackKey", "StackKeyUser", EV_STACK},
};

static void check(const struct event *ev, const struct payload *p)
{
    assert_true(ev->u.stack.ticks == (int64_t)payload_number(p, "EventTimeStamp"));
    assert_int_equal(ev->u.stack.pid, payload_number(p, "StackProcess"));
    assert_int_equal(ev->u.stack.tid, payload_number(p, "StackThread"));
    assert_true(ev->u.stack.key == payload_number(p, "StackKey"));
    assert_int_equal(ev->u.stack.n_frames, 0);
}

static void stacks_by_key_are_read_whole_or_refused(void **state)
{
    payload_check(&decode_stack_walk_class, rows, COUNT_OF(rows), check);
}

struct frames {
    uint64_t frame[8];
    size_t n, groups;
};

static void on_value(void *ctx, const struct value *v)
{
    struct frames *f = ctx;

    if (v->name.n == 0) {
        assert_true(f->n < COUNT_OF(f->frame));
        f->frame[f->n++] = v->v.u;
    }
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct frames *f = ctx;

    assert_int_equal(group, VALUE_ARRAY);
    assert_memory_equal(name.p, "Stack", 5);
    f->groups++;
}

static void on_end(void *ctx)
{
    (void)ctx;
}

/* Frames follow a head of 16 bytes; a part of one at the end is none. */
static void check_length(struct decode *d, const struct buf *b, size_t n, unsigned pointer)
{
    uint8_t *part = mem_dup(b->p, n);
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .guid = ETW_CLASS_STACK_WALK,
                            .opcode = 32,
                            .version = 2,
                            .pointer_size = (uint8_t)pointer,
                            .payload = part,
                            .payload_n = n};
    const struct layout *l =
        layout_find(decode_stack_walk_class.layouts, decode_stack_walk_class.n_layouts, 32, 2);
    struct decode_text text;
    struct frames f = {.n = 0};
    const struct value_sink sink = {&f, on_value, on_begin, on_end};
    struct event ev;
    size_t left;

    if (n < 16) {
        assert_err(decode_event(d, &raw, &ev), ERR_CORRUPT);
        assert_err(layout_read(l, &raw, &sink, &text, &left), ERR_CORRUPT);
    } else {
        assert_ok(decode_event(d, &raw, &ev));
        assert_int_equal(ev.u.stack.n_frames, (n - 16) / pointer);
        assert_int_equal(ev.u.stack.ticks, 1234567);
        assert_int_equal(ev.u.stack.pid, 100);
        assert_int_equal(ev.u.stack.tid, 200);
        assert_ok(layout_read(l, &raw, &sink, &text, &left));
        assert_int_equal(left, (n - 16) % pointer);
        assert_int_equal(f.groups, 1);
        assert_int_equal(f.n, ev.u.stack.n_frames);
        for (size_t i = 0; i < f.n; i++) {
            assert_int_equal(f.frame[i], 0x1000 + i);
        }
    }
    mem_free(part);
}

static void a_stack_has_as_many_frames_as_fit(void **state)
{
    struct decode *d;

    assert_ok(decode_create(&d));
    for (unsigned pointer = 4; pointer <= 8; pointer += 4) {
        struct buf b;

        buf_init(&b, 256);
        buf_put_u64le(&b, 1234567);
        buf_put_u32le(&b, 100);
        buf_put_u32le(&b, 200);
        for (uint32_t i = 0; i < 5; i++) {
            buf_put_u32le(&b, 0x1000 + i);
            if (pointer == 8) {
                buf_put_u32le(&b, 0);
            }
        }
        for (size_t n = 0; n <= b.n; n++) {
            check_length(d, &b, n, pointer);
        }
        buf_fini(&b);
    }
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_by_key_are_read_whole_or_refused),
        cmocka_unit_test(a_stack_has_as_many_frames_as_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
