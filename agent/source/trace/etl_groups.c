#include "agent/source/trace/etl_groups.h"

#include "agent/source/etw_guid.h"
#include "agent/source/event_kind.h"

#define CLASSIC_EVENT 0x100 /* EVENT_HEADER.Flags */

/* Classes whose records are told apart by their opcode: those of a group lie in one range. A class
 * stands here by the byte that kernel records have for it and by its GUID, which others have. */
static const struct {
    uint8_t guid[16];
    uint8_t byte, first, last;
    uint32_t group;
} kernel[] = {
    {ETW_CLASS_THREAD, 0x05, 36, 36, EVENT_GROUP_SWITCH},
    {ETW_CLASS_THREAD, 0x05, 50, 50, EVENT_GROUP_READY},
    {ETW_CLASS_THREAD, 0x05, 1, 1, EVENT_GROUP_THREAD},
    {ETW_CLASS_PERF_INFO, 0x0f, 66, 69, EVENT_GROUP_INTERRUPT},
    {ETW_CLASS_PERF_INFO, 0x0f, 50, 50, EVENT_GROUP_INTERRUPT},
    {ETW_CLASS_PERF_INFO, 0x0f, 51, 51, EVENT_GROUP_SYSCALL},
    {ETW_CLASS_PERF_INFO, 0x0f, 46, 46, EVENT_GROUP_SAMPLE},
    {ETW_CLASS_PAGE_FAULT, 0x02, 32, 32, EVENT_GROUP_FAULT},
    {ETW_CLASS_PAGE_FAULT, 0x02, 98, 99, EVENT_GROUP_VIRTUAL},
    {ETW_CLASS_DISK_IO, 0x01, 10, 11, EVENT_GROUP_DISK},
    {ETW_CLASS_DISK_IO, 0x01, 14, 14, EVENT_GROUP_DISK},
    {ETW_CLASS_FILE_IO, 0x04, 64, 77, EVENT_GROUP_FILE},
    {ETW_CLASS_TCP_IP, 0x06, 0, 255, EVENT_GROUP_NET},
    {ETW_CLASS_UDP_IP, 0x08, 0, 255, EVENT_GROUP_NET},
    {ETW_CLASS_REGISTRY, 0x09, 10, 29, EVENT_GROUP_REGISTRY},
    {ETW_CLASS_IMAGE, 0x14, 10, 10, EVENT_GROUP_IMAGE},
    {ETW_CLASS_IMAGE, 0x03, 10, 10, EVENT_GROUP_IMAGE}, /* loads bear the byte of processes */
};

/* The same of manifest events, by id. */
static const struct {
    uint8_t guid[16];
    uint16_t first, last;
    uint32_t group;
} manifest[] = {
    {ETW_PROVIDER_KERNEL_PROCESS, 3, 3, EVENT_GROUP_THREAD},
    {ETW_PROVIDER_KERNEL_PROCESS, 5, 5, EVENT_GROUP_IMAGE},
    {ETW_PROVIDER_KERNEL_NETWORK, 10, 59, EVENT_GROUP_NET},
    {ETW_PROVIDER_KERNEL_FILE, 12, 34, EVENT_GROUP_FILE},
    {ETW_PROVIDER_KERNEL_REGISTRY, 1, 15, EVENT_GROUP_REGISTRY},
    /* Not Kernel-Disk: its requests are nobody's. */
    {ETW_PROVIDER_CLR, 1, 9, EVENT_GROUP_CLR_GC},
    {ETW_PROVIDER_CLR, 10, 10, EVENT_GROUP_CLR_ALLOC},
    {ETW_PROVIDER_CLR, 55, 55, EVENT_GROUP_CLR_GC},
    {ETW_PROVIDER_CLR, 80, 81, EVENT_GROUP_CLR_GC},
    {ETW_PROVIDER_CLR, 91, 91, EVENT_GROUP_CLR_GC},
    {ETW_PROVIDER_CLR, 145, 145, EVENT_GROUP_CLR_JIT},
};

static uint32_t of_hook(uint8_t byte, uint8_t opcode)
{
    for (size_t i = 0; i < sizeof kernel / sizeof *kernel; i++) {
        if (kernel[i].byte == byte && opcode >= kernel[i].first && opcode <= kernel[i].last) {
            return kernel[i].group;
        }
    }
    return 0;
}

static uint32_t of_class(const uint8_t *guid, uint8_t opcode)
{
    for (size_t i = 0; i < sizeof kernel / sizeof *kernel; i++) {
        if (opcode >= kernel[i].first && opcode <= kernel[i].last &&
            memcmp(kernel[i].guid, guid, sizeof kernel[i].guid) == 0) {
            return kernel[i].group;
        }
    }
    return 0;
}

static uint32_t of_provider(const uint8_t *guid, uint16_t id)
{
    for (size_t i = 0; i < sizeof manifest / sizeof *manifest; i++) {
        if (id >= manifest[i].first && id <= manifest[i].last &&
            memcmp(manifest[i].guid, guid, sizeof manifest[i].guid) == 0) {
            return manifest[i].group;
        }
    }
    return 0;
}

uint32_t etl_groups_of(const struct etl_peek *k, const uint8_t *p)
{
    uint32_t hook = etl_record_hook(k, p);

    if (hook != UINT32_MAX) {
        return of_hook((uint8_t)(hook >> 8), (uint8_t)hook);
    }
    switch (k->type) {
    case ETL_EVENT32:
    case ETL_EVENT64: /* a classic one has its opcode behind id, version, channel and level */
        return cur_at16le(p + 4) & CLASSIC_EVENT ? of_class(p + 0x18, p[0x2d])
                                                 : of_provider(p + 0x18, cur_at16le(p + 0x28));
    case ETL_FULL32:
    case ETL_FULL64:
        return of_class(p + 0x18, p[4]);
    default:
        return 0;
    }
}
