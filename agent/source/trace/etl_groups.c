#include "agent/source/trace/etl_groups.h"

#include "agent/source/etw_guid.h"
#include "agent/source/event_kind.h"

#define CLASSIC_EVENT 0x100 /* EVENT_HEADER.Flags */

/* Group bytes of kernel records. */
enum {
    BYTE_DISK_IO = 0x01,
    BYTE_PAGE_FAULT = 0x02,
    BYTE_PROCESS = 0x03,
    BYTE_FILE_IO = 0x04,
    BYTE_THREAD = 0x05,
    BYTE_TCP_IP = 0x06,
    BYTE_UDP_IP = 0x08,
    BYTE_REGISTRY = 0x09,
    BYTE_PERF_INFO = 0x0f,
    BYTE_IMAGE = 0x14,
};

static uint32_t of_perf_info(uint8_t opcode)
{
    switch (opcode) {
    case 46:
        return EVENT_GROUP_SAMPLE;
    case 50:
    case 66:
    case 67:
    case 68:
    case 69:
        return EVENT_GROUP_INTERRUPT;
    case 51:
        return EVENT_GROUP_SYSCALL;
    default:
        return 0;
    }
}

static uint32_t when(bool is, uint32_t group)
{
    return is ? group : 0;
}

/* Of each record of a pass over the whole file: jumps, not a search. */
static uint32_t of_hook(uint8_t byte, uint8_t opcode)
{
    switch (byte) {
    case BYTE_THREAD:
        return when(opcode == 36, EVENT_GROUP_SWITCH) | when(opcode == 50, EVENT_GROUP_READY) |
               when(opcode == 1, EVENT_GROUP_THREAD);
    case BYTE_PERF_INFO:
        return of_perf_info(opcode);
    case BYTE_PAGE_FAULT:
        return when(opcode == 32, EVENT_GROUP_FAULT) |
               when(opcode == 98 || opcode == 99, EVENT_GROUP_VIRTUAL);
    case BYTE_DISK_IO:
        return when(opcode == 10 || opcode == 11 || opcode == 14, EVENT_GROUP_DISK);
    case BYTE_FILE_IO:
        return when(opcode >= 64 && opcode <= 77, EVENT_GROUP_FILE);
    case BYTE_TCP_IP:
    case BYTE_UDP_IP:
        return EVENT_GROUP_NET;
    case BYTE_REGISTRY:
        return when(opcode >= 10 && opcode <= 29, EVENT_GROUP_REGISTRY);
    case BYTE_IMAGE:
    case BYTE_PROCESS: /* loads bear the byte of processes */
        return when(opcode == 10, EVENT_GROUP_IMAGE);
    default:
        return 0;
    }
}

/* The same classes by their GUID, which records of user sessions have; the byte is that above. */
static uint32_t of_class(const uint8_t *guid, uint8_t opcode)
{
    static const struct {
        uint8_t guid[16], byte;
    } classes[] = {
        {ETW_CLASS_THREAD, BYTE_THREAD},         {ETW_CLASS_PERF_INFO, BYTE_PERF_INFO},
        {ETW_CLASS_PAGE_FAULT, BYTE_PAGE_FAULT}, {ETW_CLASS_DISK_IO, BYTE_DISK_IO},
        {ETW_CLASS_FILE_IO, BYTE_FILE_IO},       {ETW_CLASS_TCP_IP, BYTE_TCP_IP},
        {ETW_CLASS_UDP_IP, BYTE_UDP_IP},         {ETW_CLASS_REGISTRY, BYTE_REGISTRY},
        {ETW_CLASS_IMAGE, BYTE_IMAGE},
    };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (memcmp(classes[i].guid, guid, 16) == 0) {
            return of_hook(classes[i].byte, opcode);
        }
    }
    return 0;
}

static uint32_t of_clr(uint16_t id)
{
    switch (id) {
    case 10:
        return EVENT_GROUP_CLR_ALLOC;
    case 55:
    case 80:
    case 81:
    case 91:
        return EVENT_GROUP_CLR_GC;
    case 145:
        return EVENT_GROUP_CLR_JIT;
    default:
        return when(id >= 1 && id <= 9, EVENT_GROUP_CLR_GC);
    }
}

/* Of events with a manifest, by id. Not Kernel-Disk: its requests are nobody's. */
static uint32_t of_provider(const uint8_t *guid, uint16_t id)
{
    static const uint8_t process[16] = ETW_PROVIDER_KERNEL_PROCESS,
                         network[16] = ETW_PROVIDER_KERNEL_NETWORK,
                         file[16] = ETW_PROVIDER_KERNEL_FILE, clr[16] = ETW_PROVIDER_CLR,
                         registry[16] = ETW_PROVIDER_KERNEL_REGISTRY, dxgi[16] = ETW_PROVIDER_DXGI,
                         d3d9[16] = ETW_PROVIDER_D3D9;

    if (memcmp(guid, clr, 16) == 0) {
        return of_clr(id);
    }
    if (memcmp(guid, network, 16) == 0) {
        return when(id >= 10 && id <= 59, EVENT_GROUP_NET);
    }
    if (memcmp(guid, file, 16) == 0) {
        return when(id >= 12 && id <= 34, EVENT_GROUP_FILE);
    }
    if (memcmp(guid, process, 16) == 0) {
        return when(id == 3, EVENT_GROUP_THREAD) | when(id == 5, EVENT_GROUP_IMAGE);
    }
    if (memcmp(guid, dxgi, 16) == 0) {
        return when(id == 42 || id == 55, EVENT_GROUP_PRESENT);
    }
    if (memcmp(guid, d3d9, 16) == 0) {
        return when(id == 1, EVENT_GROUP_PRESENT);
    }
    return when(memcmp(guid, registry, 16) == 0 && id >= 1 && id <= 15, EVENT_GROUP_REGISTRY);
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
