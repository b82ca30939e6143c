#include "tests/support/t.h"

#include <string.h>
#include <time.h>

#include "collector/cli/times.h"

#define NOW INT64_C(1795782600000000000) /* Friday, 2026-11-27T12:30:00Z */

static void zone(const char *name)
{
    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
}

struct moment {
    const char *text, *want; /* UTC; NULL: refused */
    const char *says;
};

static void all(const struct moment *table, size_t n, bool local)
{
    for (size_t i = 0; i < n; i++) {
        struct errmsg why = {""};
        char got[CLK_TEXT] = "refused";
        int64_t at = 0;
        enum err e = times_parse(&at, table[i].text, NOW, local, &why);

        if (!e) {
            (void)clk_format_utc(got, sizeof got, at, 0);
        }
        if (strcmp(got, table[i].want ? table[i].want : "refused") != 0 ||
            (table[i].says && !strstr(why.text, table[i].says))) {
            fail_msg("%s gives %s: %s", table[i].text, got, why.text);
        }
    }
}

static void times_are_read_in_utc(void **state)
{
    static const struct moment table[] = {
        {"14:02", "2026-11-26T14:02:00Z", NULL}, /* today it has not come yet */
        {"12:30", "2026-11-27T12:30:00Z", NULL},
        {"09:15:07", "2026-11-27T09:15:07Z", NULL},
        {"today", "2026-11-27T00:00:00Z", NULL},
        {"today 14:00", "2026-11-27T14:00:00Z", NULL},
        {"yesterday", "2026-11-26T00:00:00Z", NULL},
        {"yesterday 14:00", "2026-11-26T14:00:00Z", NULL},
        {"mon", "2026-11-23T00:00:00Z", NULL},
        {"fri", "2026-11-27T00:00:00Z", NULL},
        {"fri 13:00", "2026-11-20T13:00:00Z", NULL},
        {"sat 23:59:59", "2026-11-21T23:59:59Z", NULL},
        {"2026-11-23 02:00", "2026-11-23T02:00:00Z", NULL},
        {"2026-11-23 02:00:05", "2026-11-23T02:00:05Z", NULL},
        {"2024-02-29", "2024-02-29T00:00:00Z", NULL},
        {"2026-11-23T02:00:00Z", "2026-11-23T02:00:00Z", NULL},
        {"5m", "2026-11-27T12:25:00Z", NULL},
        {"now", "2026-11-27T12:30:00Z", NULL},
        {"2026-02-29", NULL, "no such day"},
        {"2026-13-01", NULL, "no such day"},
        {"2026-11-23 25:00", NULL, "no time"},
        {"yesterday 14", NULL, "no time"},
        {"24:00", NULL, "neither"},
        {"tomorrow", NULL, "yesterday 14:00"},
        {"monday", NULL, "neither"},
        {"", NULL, "neither"},
    };

    zone("Europe/Berlin"); /* which does not matter */
    all(table, COUNT_OF(table), false);
}

static void times_are_read_in_the_machines_zone(void **state)
{
    static const struct moment table[] = {
        {"13:30", "2026-11-27T12:30:00Z", NULL},
        {"13:31", "2026-11-26T12:31:00Z", NULL},
        {"today", "2026-11-26T23:00:00Z", NULL},
        {"mon", "2026-11-22T23:00:00Z", NULL},
        {"2026-07-01 12:00", "2026-07-01T10:00:00Z", NULL},
        {"2026-11-23T02:00:00Z", "2026-11-23T02:00:00Z", NULL},
        /* clocks go from 02:00 to 03:00 */
        {"2026-03-29 01:59:59", "2026-03-29T00:59:59Z", NULL},
        {"2026-03-29 03:00", "2026-03-29T01:00:00Z", NULL},
        {"2026-03-29 02:30", NULL, "never"},
        {"2026-03-29 02:30", NULL, "2026-03-29T03:30:00+02:00"},
        {"2026-03-29 02:30", NULL, "2026-03-29T01:30:00+01:00"},
        /* and from 03:00 to 02:00 */
        {"2026-10-25 01:59", "2026-10-24T23:59:00Z", NULL},
        {"2026-10-25 03:00", "2026-10-25T02:00:00Z", NULL},
        {"2026-10-25 02:30", NULL, "twice"},
        {"2026-10-25 02:30", NULL, "2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"},
    };

    zone("Europe/Berlin");
    all(table, COUNT_OF(table), true);
    zone("Asia/Kathmandu"); /* five hours and three quarters ahead */
    all(&(struct moment){"18:15", "2026-11-27T12:30:00Z", NULL}, 1, true);
}

static void moments_are_written_in_the_machines_zone(void **state)
{
    char text[CLK_TEXT + 8];

    zone("Europe/Berlin");
    assert_string_equal(times_format_local(text, sizeof text, NOW + 5000000, 3),
                        "2026-11-27T13:30:00.005+01:00");
    zone("America/St_Johns");
    assert_string_equal(times_format_local(text, sizeof text, NOW, 0), "2026-11-27T09:00:00-03:30");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_in_utc),
        cmocka_unit_test(times_are_read_in_the_machines_zone),
        cmocka_unit_test(moments_are_written_in_the_machines_zone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
