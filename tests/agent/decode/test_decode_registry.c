#include "tests/agent/decode/payload.h"

#define KEY_2 "T44Pw", "InitialTime Status Index KeyHandle KeyName"
#define KEY_1 "PP84w", "Status KeyHandle ElapsedTime Index KeyName"
#define KEY_0 "PP8w", "Status KeyHandle ElapsedTime KeyName"

#define OPERATION(OPCODE, NAME)                                                   \
    {OPCODE, 2, KEY_2, NAME, EV_REGISTRY}, {OPCODE, 1, KEY_1, NAME, EV_REGISTRY}, \
    {                                                                             \
        OPCODE, 0, KEY_0, NAME, EV_REGISTRY                                       \
    }

static const struct payload_row rows[] = {
    OPERATION(10, "Create"),
    OPERATION(11, "Open"),
    OPERATION(12, "Delete"),
    OPERATION(13, "Query"),
    OPERATION(14, "SetValue"),
    OPERATION(15, "DeleteValue"),
    OPERATION(16, "QueryValue"),
    OPERATION(17, "EnumerateKey"),
    OPERATION(18, "EnumerateValueKey"),
    OPERATION(19, "QueryMultipleValue"),
    OPERATION(20, "SetInformation"),
    OPERATION(21, "Flush"),
    {22, 1, KEY_1, "KCBCreate", EV_KIND_COUNT},
    {22, 2, KEY_2, "KCBCreate", EV_KIND_COUNT},
    {23, 2, KEY_2, "KCBDelete", EV_KIND_COUNT},
    {24, 2, KEY_2, "KCBRundownBegin", EV_KIND_COUNT},
    {25, 2, KEY_2, "KCBRundownEnd", EV_KIND_COUNT},
    {26, 2, KEY_2, "Virtualize", EV_REGISTRY},
    {27, 2, KEY_2, "Close", EV_REGISTRY},
    {28, 2, KEY_2, "SetSecurity", EV_REGISTRY},
    {29, 2, KEY_2, "QuerySecurity", EV_REGISTRY},
    {34, 2, "88888888888",
     "Counter1 Counter2 Counter3 Counter4 Counter5 Counter6 Counter7 Counter8 Counter9 Counter10 "
     "Counter11",
     "Counters", EV_KIND_COUNT},
    {35, 2, "4", "CurrentControlSet", "Config", EV_KIND_COUNT},
};

static void check(const struct event *ev, const struct payload *p)
{
    int64_t took = 0;

    if (p->form[0] == 'T') {
        took = PAYLOAD_TICKS - (int64_t)payload_number(p, "InitialTime");
    }
    assert_int_equal(ev->u.registry.status, (uint32_t)payload_number(p, "Status"));
    assert_true(ev->u.registry.took_ns == took);
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_registry_class, rows, COUNT_OF(rows), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
