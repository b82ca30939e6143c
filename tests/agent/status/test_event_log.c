#include "tests/support/t.h"

#include <string.h>

#include "agent/status/event_log.h"
#include "common/base/clk.h"

static void a_state_is_told_when_it_begins_and_when_it_ends(void **state)
{
    static const struct {
        enum log_level level;
        enum event_log_note note;
        enum event_log_kind kind;
        const char *says;
    } rows[] = {
        {LOG_INFO, EVENT_LOG_LEVEL, EVENT_LOG_NOT, ""}, /* climbs after the start */
        {LOG_INFO, EVENT_LOG_SOURCE, EVENT_LOG_NOT, ""},
        {LOG_WARN, EVENT_LOG_LEVEL, EVENT_LOG_WARNING, "collects less"},
        {LOG_WARN, EVENT_LOG_LEVEL, EVENT_LOG_NOT, ""}, /* further down */
        {LOG_WARN, EVENT_LOG_SOURCE, EVENT_LOG_WARNING, "compares tables"},
        {LOG_INFO, EVENT_LOG_LEVEL, EVENT_LOG_INFO, "recovered"},
        {LOG_INFO, EVENT_LOG_LEVEL, EVENT_LOG_NOT, ""},
        {LOG_INFO, EVENT_LOG_SOURCE, EVENT_LOG_INFO, "recovered"},
        {LOG_WARN, EVENT_LOG_LEVEL, EVENT_LOG_WARNING, "collects less"},
        {LOG_INFO, EVENT_LOG_CONNECTED, EVENT_LOG_NOT, ""},
        {LOG_WARN, EVENT_LOG_NO_NOTE, EVENT_LOG_NOT, ""}, /* collectors are restarted */
        {LOG_WARN, EVENT_LOG_REFUSED, EVENT_LOG_WARNING, "refuses"},
        {LOG_WARN, EVENT_LOG_REFUSED, EVENT_LOG_NOT, ""},
        {LOG_INFO, EVENT_LOG_CONNECTED, EVENT_LOG_INFO, "again"},
        {LOG_ERROR, EVENT_LOG_FAILED, EVENT_LOG_ERROR, "cannot go on"},
        {LOG_WARN, EVENT_LOG_CERTIFICATE, EVENT_LOG_WARNING, "certificate"},
        {LOG_WARN, EVENT_LOG_CERTIFICATE, EVENT_LOG_WARNING, "certificate"}, /* once a day */
        {LOG_INFO, EVENT_LOG_NO_NOTE, EVENT_LOG_NOT, ""},
        {LOG_WARN, (enum event_log_note)EVENT_LOG_NOTE_COUNT, EVENT_LOG_NOT, ""},
    };
    struct event_log n;
    char text[200];

    memset(&n, 0, sizeof n);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        text[0] = '\0';
        assert_int_equal(
            event_log_judge(&n, rows[i].note, rows[i].level, "why=x", text, sizeof text),
            rows[i].kind);
        assert_non_null(strstr(text, rows[i].says));
        assert_true(!rows[i].says[0] || strstr(text, "why=x"));
    }
}

static void a_long_text_is_cut(void **state)
{
    struct event_log n;
    char text[30];

    memset(&n, 0, sizeof n);
    assert_int_equal(
        event_log_judge(&n, EVENT_LOG_FAILED, LOG_ERROR, "because of this", text, sizeof text),
        EVENT_LOG_ERROR);
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
