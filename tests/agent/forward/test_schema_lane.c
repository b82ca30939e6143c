#include "agent/forward/schema_lane.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/t.h"

/* Who is asked: knows each event of even id, and waits at a gate until it is opened. */
struct expert {
    atomic_bool shut;
    atomic_uint asked;
};

static void find(void *ctx, struct schema *out, const struct raw_event *about)
{
    struct expert *x = ctx;
    struct schema_event ev = {
        .form = RAW_MANIFEST, .number = about->id, .provider = str_make("Expert")};

    atomic_fetch_add(&x->asked, 1);
    while (atomic_load(&x->shut)) {
        os_sleep_ns(CLK_MS);
    }
    assert_null(about->payload);
    memcpy(ev.guid, about->guid, sizeof ev.guid);
    if (about->id % 2 == 0) {
        err_ignore(schema_put_event(out, &ev));
    }
}

static struct raw_event event(uint16_t id)
{
    return (struct raw_event){
        .form = RAW_MANIFEST, .id = id, .payload = (const uint8_t *)"x", .payload_n = 1};
}

static void answers_come_in_the_order_of_the_questions(void **state)
{
    struct expert x = {.shut = false};
    struct schema_lane *lane;
    struct raw_event about;
    struct schema *answer;
    uint16_t asked = 0;

    (void)state;
    assert_ok(schema_lane_open(&lane, find, &x));
    for (uint16_t taken = 0; taken < 500;) {
        struct raw_event raw = event(asked);

        if (asked < 500 && schema_lane_ask(lane, &raw)) {
            asked++;
        }
        if (schema_lane_take(lane, &answer, &about)) {
            assert_int_equal(about.id, taken);
            assert_int_equal(schema_find_event(answer, &about) != NULL, taken % 2 == 0);
            schema_destroy(answer);
            taken++;
        }
    }
    assert_false(schema_lane_answered(lane));
    schema_lane_close(lane);
}

static void so_many_questions_are_under_way_and_no_more(void **state)
{
    struct expert x = {.shut = true};
    struct schema_lane *lane;
    struct raw_event raw = event(2), about;
    struct schema *answer;
    unsigned n = 0;

    (void)state;
    assert_ok(schema_lane_open(&lane, find, &x));
    for (unsigned i = 0; i < SCHEMA_LANE_ASKS; i++) {
        assert_true(schema_lane_ask(lane, &raw));
    }
    assert_false(schema_lane_ask(lane, &raw));
    assert_false(schema_lane_take(lane, &answer, &about));
    atomic_store(&x.shut, false);
    while (n < SCHEMA_LANE_ASKS) {
        if (schema_lane_take(lane, &answer, &about)) {
            schema_destroy(answer);
            n++;
        }
    }
    assert_true(schema_lane_ask(lane, &raw));
    schema_lane_close(lane); /* with an answer that nobody took, or a question */
    schema_lane_close(NULL);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct expert x = {.shut = false};
    struct schema_lane *lane;
    struct raw_event raw = event(2), about;
    struct schema *answer;
    enum err e = ERR_NOMEM;

    (void)state;
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = schema_lane_open(&lane, find, &x);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
    }
    mem_fail_after(0); /* the answer has no room */
    assert_true(schema_lane_ask(lane, &raw));
    while (!schema_lane_take(lane, &answer, &about)) {
    }
    mem_fail_after(-1);
    assert_null(answer);
    schema_lane_close(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_the_order_of_the_questions),
        cmocka_unit_test(so_many_questions_are_under_way_and_no_more),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
