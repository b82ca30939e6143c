/* Which groups a record belongs to, by the byte of its class, its GUID, or its provider. */
#include "agent/source/trace/etl_groups.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/event_kind.h"
#include "tests/support/t.h"

static uint32_t of_kernel(uint8_t byte, uint8_t opcode)
{
    uint8_t p[0x40] = {[2] = ETL_SYSTEM64, [3] = 0xc0, [6] = opcode, [7] = byte};
    const struct etl_peek k = {.type = ETL_SYSTEM64, .size = sizeof p};

    return etl_groups_of(&k, p);
}

static uint32_t of_guid(const uint8_t *guid, uint8_t opcode)
{
    uint8_t p[0x40] = {[2] = ETL_FULL64, [3] = 0xc0, [4] = opcode};
    const struct etl_peek k = {.type = ETL_FULL64, .size = sizeof p};

    memcpy(p + 0x18, guid, 16);
    return etl_groups_of(&k, p);
}

static uint32_t of_event(const uint8_t *guid, uint16_t id, bool classic)
{
    uint8_t p[0x60] = {[2] = ETL_EVENT64, [3] = 0xc0, [5] = classic};
    const struct etl_peek k = {.type = ETL_EVENT64, .size = sizeof p};

    memcpy(p + 0x18, guid, 16);
    p[classic ? 0x2d : 0x28] = (uint8_t)id;
    return etl_groups_of(&k, p);
}

static void kernel_records_are_told_apart_by_class_and_opcode(void **state)
{
    static const struct {
        uint8_t byte, opcode;
        uint32_t group;
    } rows[] = {
        {0x05, 36, EVENT_GROUP_SWITCH},
        {0x05, 50, EVENT_GROUP_READY},
        {0x05, 1, EVENT_GROUP_THREAD},
        {0x05, 2, 0},
        {0x05, 3, 0},
        {0x0f, 67, EVENT_GROUP_INTERRUPT},
        {0x0f, 68, EVENT_GROUP_INTERRUPT},
        {0x0f, 46, EVENT_GROUP_SAMPLE},
        {0x0f, 51, EVENT_GROUP_SYSCALL},
        {0x0f, 73, 0},
        {0x02, 32, EVENT_GROUP_FAULT},
        {0x02, 10, 0},
        {0x02, 98, EVENT_GROUP_VIRTUAL},
        {0x01, 10, EVENT_GROUP_DISK},
        {0x01, 12, 0},
        {0x04, 64, EVENT_GROUP_FILE},
        {0x04, 36, 0},
        {0x06, 10, EVENT_GROUP_NET},
        {0x08, 26, EVENT_GROUP_NET},
        {0x09, 11, EVENT_GROUP_REGISTRY},
        {0x03, 10, EVENT_GROUP_IMAGE},
        {0x14, 10, EVENT_GROUP_IMAGE},
        {0x14, 3, 0},
        {0x03, 1, 0},
        {0xff, 10, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(of_kernel(rows[i].byte, rows[i].opcode), rows[i].group);
    }
}

static void others_by_guid_or_provider(void **state)
{
    static const uint8_t disk[16] = ETW_CLASS_DISK_IO, process[16] = ETW_CLASS_PROCESS;
    static const uint8_t provider[16] = ETW_PROVIDER_KERNEL_PROCESS;
    static const uint8_t dxgi[16] = ETW_PROVIDER_DXGI, d3d9[16] = ETW_PROVIDER_D3D9;

    assert_int_equal(of_guid(disk, 11), EVENT_GROUP_DISK);
    assert_int_equal(of_guid(process, 1), 0);
    assert_int_equal(of_event(disk, 11, true), EVENT_GROUP_DISK);
    assert_int_equal(of_event(disk, 11, false), 0);
    assert_int_equal(of_event(provider, 3, false), EVENT_GROUP_THREAD);
    assert_int_equal(of_event(provider, 1, false), 0);
    assert_int_equal(of_event(dxgi, 42, false), EVENT_GROUP_PRESENT);
    assert_int_equal(of_event(dxgi, 55, false), EVENT_GROUP_PRESENT);
    assert_int_equal(of_event(dxgi, 43, false), 0);
    assert_int_equal(of_event(d3d9, 1, false), EVENT_GROUP_PRESENT);
    assert_int_equal(of_event(d3d9, 2, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_records_are_told_apart_by_class_and_opcode),
        cmocka_unit_test(others_by_guid_or_provider),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
