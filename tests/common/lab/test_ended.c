#include "tests/support/t.h"

#include "common/lab/ended.h"

static void ends_are_what_the_table_says(void **state)
{
    static const struct {
        uint32_t code, have;
        enum ended how;
        const char *text;
    } table[] = {
        {0, INFO_EXIT_CODE, ENDED_EXITED, "exit 0"},
        {3, INFO_EXIT_CODE, ENDED_ERROR, "exit 3"},
        {139, INFO_EXIT_CODE, ENDED_ERROR, "exit 139"},
        {139, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGSEGV"},
        {134, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGABRT"},
        {135, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGBUS"},
        {136, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGFPE"},
        {132, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGILL"},
        {133, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGTRAP"},
        {159, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_CRASH, "SIGSYS"},
        {143, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_KILLED, "SIGTERM"},
        {137, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_KILLED, "SIGKILL"},
        {128 + 40, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_KILLED, "signal 40"},
        {5, INFO_EXIT_CODE | INFO_SIGNALLED, ENDED_KILLED, "signal 4294967173"}, /* no such code */
        {0xc0000005, INFO_EXIT_CODE, ENDED_CRASH, "ACCESS_VIOLATION 0xc0000005"},
        {0xc0009999, INFO_EXIT_CODE, ENDED_CRASH, "exit 0xc0009999"},
        {0xc000013a, INFO_EXIT_CODE, ENDED_KILLED, "CONTROL_C_EXIT 0xc000013a"},
        {0x40010004, INFO_EXIT_CODE, ENDED_KILLED, "DBG_TERMINATE_PROCESS 0x40010004"},
        {0x80000003, INFO_EXIT_CODE, ENDED_CRASH, "BREAKPOINT 0x80000003"},
        {0xe0434352, INFO_EXIT_CODE, ENDED_CRASH, NULL}, /* of the CLR */
        {UINT32_MAX, INFO_EXIT_CODE, ENDED_ERROR, "exit 0xffffffff"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct proc_info info = {.have = INFO_EXITED | table[i].have, .exit_code = table[i].code};
        char text[ENDED_TEXT];
        enum ended how;

        assert_true(ended_how(&info, &how));
        if (how != table[i].how ||
            (table[i].text && strcmp(ended_text(text, &info), table[i].text) != 0)) {
            fail_msg("%u: %s, %s", table[i].code, ended_words[how], text);
        }
    }
}

static void what_is_not_known_is_not_told(void **state)
{
    struct proc_info lives = {.have = 0}, gone = {.have = INFO_EXITED};
    char text[ENDED_TEXT];
    enum ended how;

    assert_true(ended_how(&lives, &how));
    assert_int_equal(how, ENDED_RUNNING);
    assert_false(ended_how(&gone, &how));
    assert_string_equal(ended_text(text, &gone), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_what_the_table_says),
        cmocka_unit_test(what_is_not_known_is_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
