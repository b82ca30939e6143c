#include "tests/agent/decode/payload.h"

#include "common/base/mem.h"

static const struct payload_row d3d9[] = {
    {1, 0, "P4", "pSwapchain Flags", "PresentStart", EV_PRESENT},
    {2, 0, "4", "Result", "PresentStop", EV_KIND_COUNT},
};

static void check(const struct event *ev, const struct payload *p)
{
    assert_int_equal(ev->u.present.flags, payload_number(p, "Flags"));
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_d3d9_class, d3d9, COUNT_OF(d3d9), check);
}

/* Not by payload_check, whose second number is a flag that means none here. */
static void a_short_frame_of_dxgi_is_refused(void **state)
{
    static const struct {
        uint16_t id;
        size_t bytes;
    } rows[] = {{42, 16}, {55, 24}};
    struct event ev;
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t n = 0; n <= rows[i].bytes + 4; n++) {
            uint8_t *part = mem_zalloc(n ? n : 1);
            struct raw_event raw = {.form = RAW_MANIFEST,
                                    .id = rows[i].id,
                                    .pointer_size = 8,
                                    .payload = part,
                                    .payload_n = n};

            memcpy(raw.guid, decode_dxgi_class.guid, sizeof raw.guid);
            assert_err(decode_event(d, &raw, &ev), n < rows[i].bytes ? ERR_CORRUPT : ERR_OK);
            mem_free(part);
        }
    }
    decode_destroy(d);
}

/* DXGI's flag 1 asks whether the program can be seen; D3D9's flag 1 waits for nothing. */
static void a_present_that_only_asks_hands_over_nothing(void **state)
{
    static const struct {
        const struct decode_class *class;
        uint16_t id;
        uint32_t flags;
        enum err e;
    } rows[] = {
        {&decode_dxgi_class, 42, 1, ERR_NOTFOUND}, {&decode_dxgi_class, 55, 5, ERR_NOTFOUND},
        {&decode_dxgi_class, 42, 0, ERR_OK},       {&decode_dxgi_class, 42, 0x200, ERR_OK},
        {&decode_d3d9_class, 1, 1, ERR_OK},
    };
    struct decode *d;
    struct decode_counts counts;
    struct event ev;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t payload[24] = {0};
        struct raw_event raw = {.form = RAW_MANIFEST,
                                .id = rows[i].id,
                                .pointer_size = 8,
                                .pid = 7,
                                .payload = payload,
                                .payload_n = sizeof payload};

        memcpy(raw.guid, rows[i].class->guid, sizeof raw.guid);
        memcpy(payload + 8, &rows[i].flags, sizeof rows[i].flags);
        assert_int_equal(decode_event(d, &raw, &ev), rows[i].e);
        if (rows[i].e == ERR_OK) {
            assert_int_equal(ev.kind, EV_PRESENT);
            assert_int_equal(ev.pid, 7);
        }
    }
    decode_stats(d, &counts);
    assert_int_equal(counts.ignored, 2);
    assert_int_equal(counts.decoded, 3);
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(a_short_frame_of_dxgi_is_refused),
        cmocka_unit_test(a_present_that_only_asks_hands_over_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
