#include "tests/agent/decode/payload.h"

#define KEY  "KeyObject Status"
#define DATA " CapturedDataSize CapturedData"

static const struct payload_row rows[] = {
    {1, 0, "PP44ww", "BaseObject KeyObject Status Disposition BaseName RelativeName", "CreateKey",
     EV_REGISTRY},
    {2, 0, "PP44ww", "BaseObject KeyObject Status Disposition BaseName RelativeName", "OpenKey",
     EV_REGISTRY},
    {3, 0, "P4w", KEY " KeyName", "DeleteKey", EV_REGISTRY},
    {4, 0, "P444w2R", KEY " InfoClass DataSize KeyName" DATA, "QueryKey", EV_REGISTRY},
    {5, 0, "P444ww2R", KEY " Type DataSize KeyName ValueName" DATA, "SetValueKey", EV_REGISTRY},
    {6, 0, "P4ww", KEY " KeyName ValueName", "DeleteValueKey", EV_REGISTRY},
    {7, 0, "P444ww2R", KEY " InfoClass DataSize KeyName ValueName" DATA, "QueryValueKey",
     EV_REGISTRY},
    {8, 0, "P4444w2R", KEY " Index InfoClass DataSize KeyName" DATA, "EnumerateKey", EV_REGISTRY},
    {9, 0, "P4444w2R", KEY " Index InfoClass DataSize KeyName" DATA, "EnumerateValueKey",
     EV_REGISTRY},
    {10, 0, "P444w", KEY " EntryCount DataSize KeyName", "QueryMultipleValueKey", EV_REGISTRY},
    {11, 0, "P444w2R", KEY " InfoClass DataSize KeyName" DATA, "SetInformationKey", EV_REGISTRY},
    {12, 0, "P4w", KEY " KeyName", "FlushKey", EV_REGISTRY},
    {13, 0, "P4w", KEY " KeyName", "CloseKey", EV_REGISTRY},
    {14, 0, "P4w", KEY " KeyName", "QuerySecurityKey", EV_REGISTRY},
    {15, 0, "P4w", KEY " KeyName", "SetSecurityKey", EV_REGISTRY},
};

static void check(const struct event *ev, const struct payload *p)
{
    assert_true(ev->u.registry.manifest);
    assert_int_equal(ev->u.registry.status, payload_number(p, "Status"));
    assert_in_range(ev->u.registry.opcode, 10, 29);
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_kernel_registry_class, rows, COUNT_OF(rows), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
