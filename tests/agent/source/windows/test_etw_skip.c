#include "agent/source/windows/etw_skip.h"

#include <string.h>

#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "tests/support/t.h"

static struct raw_event record(const uint8_t guid[16], uint8_t opcode)
{
    struct raw_event raw = {.form = RAW_CLASSIC, .opcode = opcode};

    memcpy(raw.guid, guid, sizeof raw.guid);
    return raw;
}

static bool decoded(const struct decode_class *class, unsigned opcode)
{
    for (size_t i = 0; i < class->n_ops; i++) {
        if (class->ops[i].opcode == opcode) {
            return true;
        }
    }
    return false;
}

/* Decoded for files; of living processes it says what nobody asks for. */
static bool rundown_of_images(const struct decode_class *class, unsigned opcode)
{
    return class == &decode_image_class && (opcode == 3 || opcode == 4);
}

static bool wanted(const struct decode_class *class, unsigned opcode)
{
    return decoded(class, opcode) && !rundown_of_images(class, opcode);
}

static void nothing_that_is_wanted_is_skipped(void **state)
{
    for (size_t i = 0; i < decode_classes_n; i++) {
        const struct decode_class *class = decode_classes[i];

        for (unsigned opcode = 0; opcode < 256 && class->form == RAW_CLASSIC; opcode++) {
            struct raw_event raw = record(class->guid, (uint8_t)opcode);

            assert_false(wanted(class, opcode) && etw_skip(&raw, false));
        }
    }
}

static void what_is_not_wanted_of_the_busy_classes_is_skipped(void **state)
{
    static const struct decode_class *const busy[] = {
        &decode_thread_class,  &decode_perf_info_class, &decode_disk_io_class,
        &decode_process_class, &decode_image_class,     &decode_system_config_class};

    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        for (unsigned opcode = 0; opcode < 256; opcode++) {
            struct raw_event raw = record(busy[i]->guid, (uint8_t)opcode);

            assert_int_equal(etw_skip(&raw, false), !wanted(busy[i], opcode));
        }
    }
}

static void threads_that_another_session_tells_of_are_skipped(void **state)
{
    static const uint8_t thread[16] = ETW_CLASS_THREAD, process[16] = ETW_CLASS_PROCESS;
    static const struct {
        uint8_t opcode;
        bool skipped;
    } rows[] = {{1, true}, {2, true}, {3, true}, {4, true}, {36, false}, {50, false}, {66, true}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_event raw = record(thread, rows[i].opcode);
        struct raw_event other = record(process, 1);

        assert_int_equal(etw_skip(&raw, true), rows[i].skipped);
        assert_false(etw_skip(&other, true));
    }
}

static void other_providers_pass_and_messages_do_not(void **state)
{
    struct raw_event raw = {.form = RAW_MANIFEST, .id = 200};

    assert_false(etw_skip(&raw, false));
    raw.form = RAW_CLASSIC;
    assert_false(etw_skip(&raw, false)); /* of a class nobody knows */
    raw.form = RAW_MESSAGE;
    assert_true(etw_skip(&raw, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_is_wanted_is_skipped),
        cmocka_unit_test(what_is_not_wanted_of_the_busy_classes_is_skipped),
        cmocka_unit_test(threads_that_another_session_tells_of_are_skipped),
        cmocka_unit_test(other_providers_pass_and_messages_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
