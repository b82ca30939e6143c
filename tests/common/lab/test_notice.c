#include "common/lab/notice.h"

#include <string.h>

#include "common/wire/wire_query.h"
#include "tests/support/t.h"

static struct notice made(void)
{
    return (struct notice){.n = 7,
                           .id = "00112233445566778899aabbccddeeff",
                           .rule = str_make("antivirus-cpu"),
                           .severity = str_make("warning"),
                           .of = str_make("image"),
                           .subject = str_make("MsMpEng.exe"),
                           .state = NOTICE_FIRING,
                           .before = NOTICE_UNKNOWN,
                           .step_ns = 1000,
                           .since_ns = 900,
                           .has_value = true,
                           .value = 0.31,
                           .has_limit = true,
                           .limit = 0.25,
                           .unit = str_make("share"),
                           .has_coverage = true,
                           .coverage = 0.999,
                           .use = str_make("lab-hook"),
                           .skipped = 2,
                           .say = str_make("MsMpEng.exe takes 31 % of a CPU on lab-33")};
}

static void a_notice_comes_out_of_an_update_as_it_went_in(void **state)
{
    const struct notice in = made();
    const struct wire_host host = {.name = str_make("lab-33")};
    struct wire_event event = {0};
    struct wire_update u = {
        .name = str_make("lab-33"),
        .data = {.n_hosts = 1, .hosts = &host, .n_events = 1, .events = &event}};
    struct wire_update *back;
    struct notice_room room;
    struct notice out;
    struct buf b;

    notice_event(&event.event, &in, &room);
    buf_init(&b, 1u << 20);
    assert_ok(wire_update_encode(&b, &u));
    assert_ok(wire_update_decode(&back, b.p, b.n));
    assert_int_equal(back->data.n_events, 1);
    assert_ok(notice_read(&out, &back->data.events[0].event));
    assert_int_equal(out.n, 7);
    assert_string_equal(out.id, in.id);
    assert_true(str_eq(out.rule, in.rule) && str_eq(out.severity, in.severity));
    assert_true(str_eq(out.of, in.of) && str_eq(out.subject, in.subject));
    assert_int_equal(out.state, NOTICE_FIRING);
    assert_int_equal(out.before, NOTICE_UNKNOWN);
    assert_int_equal(out.step_ns, 1000);
    assert_int_equal(out.since_ns, 900);
    assert_true(out.has_value && out.value == 0.31 && out.has_limit && out.limit == 0.25);
    assert_true(out.has_coverage && out.coverage == 0.999 && str_eq(out.unit, in.unit));
    assert_true(out.reason.n == 0 && out.silenced.n == 0 && str_eq(out.use, in.use));
    assert_int_equal(out.skipped, 2);
    assert_true(str_eq(out.say, in.say));
    wire_update_free(back);
    buf_fini(&b);
}

static void other_events_are_no_notices(void **state)
{
    const struct notice in = made();
    struct event_type other;
    struct notice_room room;
    struct life_event ev;
    struct notice out;

    notice_event(&ev, &in, &room);
    ev.kind = LIFE_PROVIDER;
    assert_err(notice_read(&out, &ev), ERR_INVALID);
    ev.kind = LIFE_RULE;
    assert_ok(notice_read(&out, &ev));
    other = *ev.type;
    other.guid[0] ^= 1;
    ev.type = &other;
    assert_err(notice_read(&out, &ev), ERR_INVALID);
    ev.type = &room.type;
    for (size_t n = 0; n < ev.values.n; n++) { /* a part of its values */
        struct life_event cut = ev;

        cut.values.n = n;
        assert_err(notice_read(&out, &cut), ERR_INVALID);
    }
    ev.type = NULL;
    assert_err(notice_read(&out, &ev), ERR_INVALID);
}

static void what_is_not_known_is_absent(void **state)
{
    const struct notice in = {.id = "00112233445566778899aabbccddeeff",
                              .rule = str_make("r"),
                              .has_value = true,
                              .value = 1.0 / 0.0};
    struct notice_room room;
    struct life_event ev;
    struct notice out;

    notice_event(&ev, &in, &room);
    assert_ok(notice_read(&out, &ev));
    assert_false(out.has_value || out.has_limit || out.has_coverage);
    assert_int_equal(out.since_ns, 0);
    assert_int_equal(out.state, NOTICE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_notice_comes_out_of_an_update_as_it_went_in),
        cmocka_unit_test(other_events_are_no_notices),
        cmocka_unit_test(what_is_not_known_is_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
