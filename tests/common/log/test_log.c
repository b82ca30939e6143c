#include "common/log/log.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/hostile.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];
static char *path;

static int with_file(void **state)
{
    support_temp_dir(dir, sizeof dir);
    path = os_path_join(dir, "log");
    return path ? 0 : -1;
}

static int without_file(void **state)
{
    log_close();
    mem_free(path);
    support_remove_dir(dir);
    return 0;
}

/* How often the needle stands in the log, which is closed for it. */
static size_t in_log(const char *needle)
{
    size_t n, count = 0, len = strlen(needle);
    uint8_t *p;

    log_close();
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (size_t i = 0; i + len <= n; i++) {
        count += memcmp(p + i, needle, len) == 0;
    }
    mem_free(p);
    return count;
}

static void a_line_holds_level_module_event_and_values(void **state)
{
    char value[64];

    assert_ok(log_open(LOG_INFO, LOG_TEXT, path));
    log_line(LOG_DEBUG, "uplink", "quiet", "n=%d", 1);
    log_line(LOG_WARN, "uplink", "refused", "peer=%s n=%d", log_str(value, sizeof value, "a b\"\n"),
             7);
    assert_int_equal(1, in_log("Z warn  uplink refused peer=\"a b\\\"\\u000a\" n=7\n"));
    assert_int_equal(0, in_log("quiet"));
}

static void on_line(void *ctx, unsigned note, enum log_level level, const char *module,
                    const char *event, const char *text)
{
    char *seen = ctx;

    (void)note;
    (void)snprintf(seen, 100, "%d %s %s %s", (int)level, module, event, text);
}

static void what_is_written_is_also_told(void **state)
{
    char seen[100] = "";

    assert_ok(log_open(LOG_INFO, LOG_TEXT, path));
    log_tee(on_line, seen);
    log_line(LOG_WARN, "agent", "level", "from=%s", "L2");
    assert_string_equal(seen, "1 agent level from=L2");
    log_line(LOG_DEBUG, "agent", "quiet", "n=1");
    assert_string_equal(seen, "1 agent level from=L2");
    log_tee(NULL, NULL);
    log_line(LOG_WARN, "agent", "after", "n=1");
    assert_string_equal(seen, "1 agent level from=L2");
}

static void repeats_are_counted_not_written(void **state)
{
    assert_ok(log_open(LOG_INFO, LOG_TEXT, path));
    for (int i = 0; i < 50; i++) {
        log_line(LOG_INFO, "net", "again", "i=%d", i);
    }
    assert_int_equal(in_log("net again"), 10);
}

static void a_line_of_json_has_a_member_for_each_value(void **state)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"a=1 b.c=x-y", "\"fields\":{\"a\":\"1\",\"b.c\":\"x-y\"}}"},
        {"", "\"fields\":{}}"},
        {"empty= q=\"\"", "\"fields\":{\"empty\":\"\",\"q\":\"\"}}"},
        {"why=\"said \\\"so\\\" = \\u000a\" n=2",
         "\"fields\":{\"why\":\"said \\\"so\\\" = \\u000a\",\"n\":\"2\"}}"},
        {"path=C:\\dir", "\"fields\":{\"path\":\"C:\\\\dir\"}}"},
        /* not of the form: whole, as text */
        {"a sentence", "\"text\":\"a sentence\"}"},
        {"a=\"open", "\"text\":\"a=\\\"open\"}"},
        {"a=\"x\"y", "\"text\":\"a=\\\"x\\\"y\"}"},
        {"a=\"\\u00zz\"", "\"text\":\"a=\\\"\\\\u00zz\\\"\"}"},
        {"a=\"\\", "\"text\":\"a=\\\"\\\\\"}"},
    };
    char event[16];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(log_open(LOG_INFO, LOG_JSON, path));
        (void)snprintf(event, sizeof event, "case%zu", i);
        log_line(LOG_INFO, "net", event, "%s", cases[i].text);
        assert_int_equal(in_log(cases[i].json), 1);
    }
}

static void json_lines_are_escaped(void **state)
{
    assert_ok(log_open(LOG_INFO, LOG_JSON, path));
    log_line(LOG_INFO, "net", "json", "v=\"x\\y\"");
    assert_int_equal(
        1, in_log("\"module\":\"net\",\"event\":\"json\",\"text\":\"v=\\\"x\\\\y\\\"\"}"));
}

/* Whole lines of a reader's kind: quotes are closed, and nothing is half a character. */
static void a_line_that_is_cut_still_ends_well(void **state)
{
    char wild[1200], value[2400];

    for (size_t shift = 0; shift < 12; shift++) {
        assert_ok(log_open(LOG_INFO, LOG_TEXT, path));
        memset(wild, 'x', shift);
        for (size_t i = shift; i < sizeof wild - 4; i += 4) {
            memcpy(wild + i, "\"\n\xc3\xa9", 4);
        }
        wild[sizeof wild - 4] = '\0';
        log_line(LOG_INFO, "net", shift % 2 ? "long" : "longer", "v=%s",
                 log_str(value, sizeof value, wild));
        assert_int_equal(in_log("\"\n"), shift + 1);
        assert_int_equal(in_log("\xc3\""), 0);
        assert_int_equal(in_log("\\\"\n"), 0);
    }
}

/* Also where a caller forgot log_str. */
static void no_value_steers_a_terminal(void **state)
{
    char value[512];

    for (size_t i = 0; i < 4 * HOSTILE_TEXTS; i++) {
        const char *text = hostile_texts[i / 4];
        char event[32];
        uint8_t *p;
        size_t n;

        err_ignore(os_remove(path));
        assert_ok(log_open(LOG_INFO, i % 2 ? LOG_JSON : LOG_TEXT, path));
        (void)snprintf(event, sizeof event, "hostile%zu", i);
        log_line(LOG_INFO, "net", event, "v=%s n=1",
                 i % 4 < 2 ? text : log_str(value, sizeof value, text));
        log_close();
        assert_ok(os_read_file(&p, &n, path, 1 << 20));
        assert_false(hostile_shown((const char *)p, n, 1));
        mem_free(p);
    }
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
    char value[64];

    assert_ok(log_open(LOG_INFO, LOG_JSON, path));
    log_line(LOG_INFO, "net", "bytes", "v=%s",
             log_str(value, sizeof value,
                     "a\xff"
                     "b\xc3"));
    assert_int_equal(1, in_log("{\"v\":\"a\\ufffdb\\ufffd\"}"));
    assert_int_equal(0, in_log("\xff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_holds_level_module_event_and_values, with_file,
                                        without_file),
        cmocka_unit_test_setup_teardown(what_is_written_is_also_told, with_file, without_file),
        cmocka_unit_test_setup_teardown(repeats_are_counted_not_written, with_file, without_file),
        cmocka_unit_test_setup_teardown(a_line_of_json_has_a_member_for_each_value, with_file,
                                        without_file),
        cmocka_unit_test_setup_teardown(json_lines_are_escaped, with_file, without_file),
        cmocka_unit_test_setup_teardown(a_line_that_is_cut_still_ends_well, with_file,
                                        without_file),
        cmocka_unit_test_setup_teardown(no_value_steers_a_terminal, with_file, without_file),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_text_are_replaced, with_file,
                                        without_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
