#include "tests/support/t.h"

#include <string.h>

#include "agent/doctor/doctor_dump.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"

static char dir[256];

static char *read_back(const char *name, size_t *n)
{
    char *path = os_path_join(dir, name);
    uint8_t *p = NULL;

    assert_non_null(path);
    assert_ok(os_read_file(&p, n, path, 1 << 24));
    mem_free(path);
    return (char *)p;
}

/* 16-bit text, as records have it. */
static size_t wide(uint8_t *out, const char *text)
{
    size_t n = strlen(text) + 1;

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = (uint8_t)text[i];
        out[2 * i + 1] = 0;
    }
    return 2 * n;
}

static void names_accounts_and_homes_are_covered_and_lengths_stay(void **state)
{
    static const uint8_t sid[] = {1, 5, 0, 0, 0, 0, 0, 5,  21, 0,  0,    0, 1, 2,
                                  3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xf4, 1, 0, 0};
    uint8_t bytes[400];
    size_t n = 0, got;
    struct doctor_dump *d;
    uint8_t *back;

    (void)state;
    n += wide(bytes + n, "C:\\Users\\Dagny\\a.exe");
    n += wide(bytes + n, "host-17 and HOST-17");
    memcpy(bytes + n, "\\\\HOST-17\\Users\\jo\\x", 21);
    n += 21;
    memcpy(bytes + n, sid, sizeof sid);
    n += sizeof sid;
    assert_ok(doctor_dump_open(&d, dir, true, NULL));
    doctor_dump_cover(d, "host-17");
    doctor_dump_cover(d, "jo"); /* too short to be looked for: covered where it is a home */
    doctor_dump_table(d, 5, 0x7ff612340000, bytes, n);
    assert_ok(doctor_dump_close(d, NULL));
    back = (uint8_t *)read_back("class-5.bin", &got);
    assert_int_equal(got, n);
    assert_int_equal(wide(bytes, "C:\\Users\\xxxxx\\a.exe"), 42);
    wide(bytes + 42, "xxxxxxx and xxxxxxx");
    memcpy(bytes + 82, "\\\\xxxxxxx\\Users\\xx\\x", 21);
    memset(bytes + 82 + 21 + 12, 0, 12);
    assert_memory_equal(back, bytes, n);
    mem_free(back);
    back = (uint8_t *)read_back("tables.jsonl", &got);
    assert_string_equal(back, "{\"class\": 5, \"base\": \"140694844080128\", \"bytes\": 131, "
                              "\"file\": \"class-5.bin\"}\n");
    mem_free(back);
}

/* Letters of other scripts have bytes that are a separator's or the end's in ours. */
static void a_home_in_any_script_is_covered(void **state)
{
    static const uint8_t name[] = {0x5c, 4, 0, 4, 'z', 0, 0x22, 4};
    uint8_t bytes[64], *back;
    struct doctor_dump *d;
    size_t head, n, got;

    (void)state;
    head = wide(bytes, "C:\\Users\\") - 2; /* without its end */
    memcpy(bytes + head, name, sizeof name);
    n = head + sizeof name + wide(bytes + head + sizeof name, "\\a");
    assert_ok(doctor_dump_open(&d, dir, true, NULL));
    doctor_dump_table(d, 57, 0, bytes, n);
    assert_ok(doctor_dump_close(d, NULL));
    back = (uint8_t *)read_back("class-57.bin", &got);
    assert_int_equal(got, wide(bytes, "C:\\Users\\xxxx\\a"));
    assert_memory_equal(back, bytes, got);
    mem_free(back);
}

static void records_and_calls_are_lines_with_everything_in_them(void **state)
{
    struct raw_event raw = {.guid = {0xd0, 0xa8},
                            .form = RAW_CLASSIC,
                            .version = 4,
                            .opcode = 1,
                            .pointer_size = 8,
                            .cpu = 3,
                            .pid = 4,
                            .tid = 8,
                            .ticks = 77,
                            .payload = (const uint8_t *)"\1\2\xff",
                            .payload_n = 3};
    struct doctor_dump *d;
    size_t n;
    char *text;

    (void)state;
    assert_ok(doctor_dump_open(&d, dir, false, NULL));
    for (unsigned i = 0; i < DOCTOR_DUMP_RECORDS + 2; i++) {
        doctor_dump_record(d, 1, &raw);
    }
    doctor_dump_call(d, "query", 5, "\xab", 1);
    assert_ok(doctor_dump_close(d, NULL));
    text = read_back("records-1.jsonl", &n);
    assert_non_null(strstr(text, "\"guid\": \"d0a80000000000000000000000000000\""));
    assert_non_null(strstr(text, "\"opcode\": 1"));
    assert_non_null(strstr(text, "\"payload\": \"0102ff\"}\n{"));
    mem_free(text);
    text = read_back("calls.jsonl", &n);
    assert_string_equal(text, "{\"call\": \"query\", \"code\": 5, \"properties\": \"ab\"}\n"
                              "{\"stream\": 1, \"records_left_out\": 2}\n");
    mem_free(text);
}

static void no_dump_is_no_error_and_an_impossible_directory_is_one(void **state)
{
    struct errmsg why = {""};
    struct doctor_dump *d;
    char *path = os_path_join(dir, "class-5.bin"), *below = os_path_join(path, "x");

    (void)state;
    doctor_dump_table(NULL, 5, 0, "", 0);
    doctor_dump_call(NULL, "start", 0, "", 0);
    assert_ok(doctor_dump_close(NULL, NULL));
    assert_true(doctor_dump_open(&d, below, false, &why) != ERR_OK);
    assert_non_null(strstr(why.text, "class-5.bin"));
    mem_free(below);
    mem_free(path);
}

static void every_failing_allocation_is_survived(void **state)
{
    enum err e = ERR_NOMEM;

    (void)state;
    for (long n = 0; e == ERR_NOMEM && n < 200; n++) {
        struct doctor_dump *d = NULL;

        mem_fail_after(n);
        e = doctor_dump_open(&d, dir, true, NULL);
        if (!e) {
            doctor_dump_table(d, 5, 0, "abc", 3);
            doctor_dump_call(d, "start", 0, "abc", 3);
            e = doctor_dump_close(d, NULL);
        }
        mem_fail_after(-1);
    }
    assert_ok(e);
}

static int set_up(void **state)
{
    return support_temp_dir(dir, sizeof dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_accounts_and_homes_are_covered_and_lengths_stay),
        cmocka_unit_test(a_home_in_any_script_is_covered),
        cmocka_unit_test(records_and_calls_are_lines_with_everything_in_them),
        cmocka_unit_test(no_dump_is_no_error_and_an_impossible_directory_is_one),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
