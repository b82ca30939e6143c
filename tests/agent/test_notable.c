#include "tests/support/t.h"

#include <string.h>

#include "agent/status/notable.h"
#include "common/base/clk.h"

static void a_state_is_told_when_it_begins_and_when_it_ends(void **state)
{
    static const struct {
        enum log_level level;
        const char *module, *event;
        enum notable_kind kind;
        const char *says;
    } rows[] = {
        {LOG_INFO, "agent", "level", NOTABLE_NOT, ""}, /* climbs after the start */
        {LOG_INFO, "agent", "source", NOTABLE_NOT, ""},
        {LOG_WARN, "agent", "level", NOTABLE_WARNING, "collects less"},
        {LOG_WARN, "agent", "level", NOTABLE_NOT, ""}, /* further down */
        {LOG_WARN, "agent", "source", NOTABLE_WARNING, "compares tables"},
        {LOG_INFO, "agent", "level", NOTABLE_INFO, "recovered"},
        {LOG_INFO, "agent", "level", NOTABLE_NOT, ""},
        {LOG_INFO, "agent", "source", NOTABLE_INFO, "recovered"},
        {LOG_WARN, "agent", "level", NOTABLE_WARNING, "collects less"},
        {LOG_INFO, "uplink", "connected", NOTABLE_NOT, ""},
        {LOG_WARN, "uplink", "unreachable", NOTABLE_NOT, ""}, /* collectors are restarted */
        {LOG_WARN, "uplink", "refused", NOTABLE_WARNING, "refuses"},
        {LOG_WARN, "uplink", "refused", NOTABLE_NOT, ""},
        {LOG_INFO, "uplink", "connected", NOTABLE_INFO, "again"},
        {LOG_ERROR, "agent", "failed", NOTABLE_ERROR, "cannot go on"},
        {LOG_WARN, "agent", "certificate", NOTABLE_WARNING, "certificate"},
        {LOG_WARN, "agent", "certificate", NOTABLE_WARNING, "certificate"}, /* once a day */
        {LOG_INFO, "agent", "started", NOTABLE_NOT, ""},
        {LOG_WARN, "other", "level", NOTABLE_NOT, ""},
    };
    struct notable n;
    char text[200];

    (void)state;
    memset(&n, 0, sizeof n);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        text[0] = '\0';
        assert_int_equal(notable_judge(&n, rows[i].level, rows[i].module, rows[i].event, "why=x",
                                       text, sizeof text),
                         rows[i].kind);
        assert_non_null(strstr(text, rows[i].says));
        assert_true(!rows[i].says[0] || strstr(text, "why=x"));
    }
}

static void a_long_text_is_cut(void **state)
{
    struct notable n;
    char text[30];

    (void)state;
    memset(&n, 0, sizeof n);
    assert_int_equal(
        notable_judge(&n, LOG_ERROR, "agent", "failed", "because of this", text, sizeof text),
        NOTABLE_ERROR);
    assert_int_equal(strlen(text), sizeof text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_told_when_it_begins_and_when_it_ends),
        cmocka_unit_test(a_long_text_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
