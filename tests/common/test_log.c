#include "common/log.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/os.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];
static char *path;

static int with_file(void **state)
{
    (void)state;
    support_temp_dir(dir, sizeof dir);
    path = os_path_join(dir, "log");
    return path ? 0 : -1;
}

static int without_file(void **state)
{
    (void)state;
    log_close();
    mem_free(path);
    support_remove_dir(dir);
    return 0;
}

static size_t lines(const char *text, const char *needle)
{
    size_t n = 0;

    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle)) {
        n++;
    }
    return n;
}

static char *content(void)
{
    uint8_t *p;
    size_t n;

    log_close();
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    return (char *)p;
}

static void a_line_holds_level_module_event_and_values(void **state)
{
    char value[64];
    char *text;

    (void)state;
    assert_ok(log_open(LOG_INFO, LOG_TEXT, path));
    log_line(LOG_DEBUG, "uplink", "quiet", "n=%d", 1);
    log_line(LOG_WARN, "uplink", "refused", "peer=%s n=%d", log_str(value, sizeof value, "a b\"\n"),
             7);
    text = content();
    assert_non_null(strstr(text, "Z warn  uplink refused peer=\"a b\\\"\\u000a\" n=7\n"));
    assert_null(strstr(text, "quiet"));
    mem_free(text);
}

static void repeats_are_counted_not_written(void **state)
{
    char *text;

    (void)state;
    assert_ok(log_open(LOG_INFO, LOG_TEXT, path));
    for (int i = 0; i < 50; i++) {
        log_line(LOG_INFO, "net", "again", "i=%d", i);
    }
    text = content();
    assert_int_equal(lines(text, "net again"), 10);
    mem_free(text);
}

static void json_lines_are_escaped(void **state)
{
    char *text;

    (void)state;
    assert_ok(log_open(LOG_INFO, LOG_JSON, path));
    log_line(LOG_INFO, "net", "json", "v=\"x\\y\"");
    text = content();
    assert_non_null(
        strstr(text, "\"module\":\"net\",\"event\":\"json\",\"text\":\"v=\\\"x\\\\y\\\"\"}"));
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_holds_level_module_event_and_values, with_file,
                                        without_file),
        cmocka_unit_test_setup_teardown(repeats_are_counted_not_written, with_file, without_file),
        cmocka_unit_test_setup_teardown(json_lines_are_escaped, with_file, without_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
