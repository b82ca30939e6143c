#include "tests/support/t.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/sid.h"

static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};

static void a_sid_is_written_the_usual_way(void **state)
{
    static const uint8_t user[] = {1,    5,    0,    0,    0,    0,    0, 5, 21, 0,
                                   0,    0,    0x78, 0x56, 0x34, 0x12, 1, 0, 0,  0,
                                   0xff, 0xff, 0xff, 0xff, 0xe9, 0x03, 0, 0};
    static const uint8_t wide[] = {1, 0, 0x01, 0, 0, 0, 0, 2};
    char text[SID_TEXT_SIZE];
    size_t n;

    assert_int_equal(sid_text(text, sizeof text, system_sid, sizeof system_sid), 8);
    assert_string_equal(text, "S-1-5-18");
    n = sid_text(text, sizeof text, user, sizeof user);
    assert_int_equal(n, strlen(text));
    assert_string_equal(text, "S-1-5-21-305419896-1-4294967295-1001");
    n = sid_text(text, sizeof text, wide, sizeof wide);
    assert_int_equal(n, strlen(text));
    assert_string_equal(text, "S-1-0x10000000002");
}

static void the_longest_sid_fits(void **state)
{
    uint8_t sid[SID_BYTES_MAX];
    char text[SID_TEXT_SIZE];
    size_t n;

    memset(sid, 0xff, sizeof sid);
    sid[0] = 1;
    sid[1] = SID_PARTS_MAX;
    assert_int_equal(sid_bytes(sid, sizeof sid), sizeof sid);
    n = sid_text(text, sizeof text, sid, sizeof sid);
    assert_int_equal(n, strlen(text));
    assert_int_equal(strlen(text), 6 + 12 + 15 * 11);
    assert_int_equal(sid_text(text, sizeof text - 1, sid, sizeof sid), 0);
}

static void people_see_names_and_short_forms(void **state)
{
    static const struct {
        const char *text, *full, *brief; /* NULL: as it is */
    } cases[] = {
        {"S-1-5-18", "SYSTEM", "SYSTEM"},
        {"S-1-5-20", "NETWORK SERVICE", "NETWORK SERVICE"},
        {"S-1-5-90-0-3", "DWM-3", "DWM-3"},
        {"S-1-5-90-0-", NULL, NULL},
        {"S-1-5-90-0-3-4", NULL, "S-1-5-90-\u2026-4"},
        {"S-1-5-21-305419896-1-4294967295-1001", NULL, "S-1-5-21-\u2026-1001"},
        {"S-1-12-1-1-2-3-4", NULL, "S-1-12-1-\u2026-4"},
        {"S-1-5-181", NULL, NULL},
        {"S-1-5-5-0-9", NULL, "S-1-5-5-\u2026-9"},
        {"S-1-5-21-x-1-2-1001", NULL, NULL},
        {"S-1-5-21-\x1b-1-2-1001", NULL, NULL},
        {"root", NULL, NULL},
        {"LAB\\alice", NULL, NULL},
        {"", NULL, NULL},
        {"S-1-", NULL, NULL},
        {"S-1-----", NULL, NULL},
    };

    for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
        const char *text = cases[i / 2].text;
        const char *expected = i % 2 ? cases[i / 2].brief : cases[i / 2].full;
        char *exact = mem_dup(text, strlen(text)), out[SID_TEXT_SIZE] = "";

        assert_int_equal(sid_people(out, exact, strlen(text), i % 2 == 1),
                         expected ? strlen(expected) : 0);
        assert_string_equal(out, expected ? expected : "");
        mem_free(exact);
    }
}

static void what_is_no_sid_gives_none(void **state)
{
    static const struct {
        uint8_t revision, parts;
    } cases[] = {{0, 1}, {2, 1}, {1, 16}, {1, 255}};
    char text[SID_TEXT_SIZE];

    for (size_t n = 0; n < sizeof system_sid; n++) {
        uint8_t *exact = mem_dup(system_sid, n);

        assert_int_equal(sid_bytes(exact, n), 0);
        assert_int_equal(sid_text(text, sizeof text, exact, n), 0);
        mem_free(exact);
    }
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t sid[SID_BYTES_MAX] = {cases[i].revision, cases[i].parts};

        assert_int_equal(sid_text(text, sizeof text, sid, sizeof sid), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sid_is_written_the_usual_way),
        cmocka_unit_test(the_longest_sid_fits),
        cmocka_unit_test(people_see_names_and_short_forms),
        cmocka_unit_test(what_is_no_sid_gives_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
