#include "agent/source/trace/etl_record.h"

#include "agent/source/etw_guid.h"

/* Every record begins with a u32 that tells its kind: byte 3 flags, byte 2 header type, and the low
 * half is the size for some types, the version for the others. What differs between the types is
 * a row in a table; peek uses the table only, so it costs a few loads per record. */

#define FLAG_MESSAGE 0x90 /* both set: WPP */
#define NO_MARKER    UINT32_MAX

#define CLASSIC_EVENT  0x100 /* EVENT_HEADER.Flags: opcode and version count, not the id */
#define HAS_EXTENDED   1     /* EVENT_HEADER.Flags */
#define MESSAGE_HEADER 8

enum message_option {
    MESSAGE_SEQUENCE = 1,
    MESSAGE_GUID = 2,
    MESSAGE_COMPONENT = 4,
    MESSAGE_TIME = 8,
    MESSAGE_IDS = 0x20,
    MESSAGE_32BIT = 0x40,
};

const struct etl_shape etl_record_shapes[ETL_TYPE_COUNT] = {
    [ETL_SYSTEM32] = {ETL_RECORD_SYSTEM_HEADER, 4, 0x10, 4},
    [ETL_SYSTEM64] = {ETL_RECORD_SYSTEM_HEADER, 4, 0x10, 8},
    [ETL_COMPACT32] = {0x18, 4, 0x10, 4},
    [ETL_COMPACT64] = {0x18, 4, 0x10, 8},
    [ETL_FULL32] = {0x30, 0, 0x10, 4},
    [ETL_INSTANCE32] = {0x48, 0, 0x10, 4},
    [ETL_ERROR] = {0x30, 0, 0x10, 8},
    [ETL_PERFINFO32] = {0x10, 4, 8, 4},
    [ETL_PERFINFO64] = {0x10, 4, 8, 8},
    [ETL_EVENT32] = {0x50, 0, 0x10, 4},
    [ETL_EVENT64] = {0x50, 0, 0x10, 8},
    [ETL_FULL64] = {0x30, 0, 0x10, 8},
    [ETL_INSTANCE64] = {0x48, 0, 0x10, 8},
};

static const uint8_t classes[][16] = {
    [0x00] = ETW_CLASS_EVENT_TRACE, [0x01] = ETW_CLASS_DISK_IO,
    [0x02] = ETW_CLASS_PAGE_FAULT,  [0x03] = ETW_CLASS_PROCESS,
    [0x04] = ETW_CLASS_FILE_IO,     [0x05] = ETW_CLASS_THREAD,
    [0x06] = ETW_CLASS_TCP_IP,      [0x07] = ETW_CLASS_JOB,
    [0x08] = ETW_CLASS_UDP_IP,      [0x09] = ETW_CLASS_REGISTRY,
    [0x0a] = ETW_CLASS_DBG_PRINT,   [0x0b] = ETW_CLASS_SYSTEM_CONFIG,
    [0x0d] = ETW_CLASS_WNF,         [0x0e] = ETW_CLASS_POOL,
    [0x0f] = ETW_CLASS_PERF_INFO,   [0x10] = ETW_CLASS_HEAP,
    [0x11] = ETW_CLASS_OBJECT,      [0x12] = ETW_CLASS_POWER,
    [0x14] = ETW_CLASS_IMAGE,       [0x16] = ETW_CLASS_CC,
    [0x17] = ETW_CLASS_CRIT_SEC,    [0x18] = ETW_CLASS_STACK_WALK,
    [0x19] = ETW_CLASS_UMS,         [0x1a] = ETW_CLASS_ALPC,
    [0x1b] = ETW_CLASS_SPLIT_IO,    [0x1c] = ETW_CLASS_THREAD_POOL,
};

/* The class GUID of a kernel group byte, as stored; all zero for an unknown one. */
static const uint8_t *etl_record_class(uint8_t group)
{
    return group < sizeof classes / sizeof classes[0] ? classes[group] : classes[0x0c];
}

/* Optional parts stand in the order of their bits. False: they leave the record. Without a stamp
 * `ticks` stays. */
static bool message_parts(struct raw_event *ev, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *guid;
    uint16_t options;

    cur_skip(&c, 4);
    ev->id = cur_u16le(&c);
    options = cur_u16le(&c);
    if (options & MESSAGE_SEQUENCE) {
        ev->has_sequence = true;
        ev->sequence = cur_u32le(&c);
    }
    if (options & MESSAGE_GUID) {
        guid = cur_bytes(&c, 16);
        if (guid) {
            memcpy(ev->guid, guid, 16);
        }
    } else if (options & MESSAGE_COMPONENT) {
        ev->has_component = true;
        ev->component = cur_u32le(&c);
    }
    if (options & MESSAGE_TIME) {
        ev->ticks = (int64_t)cur_u64le(&c);
    }
    if (options & MESSAGE_IDS) {
        ev->tid = cur_u32le(&c);
        ev->pid = cur_u32le(&c);
    }
    ev->pointer_size = options & MESSAGE_32BIT ? 4 : 8;
    ev->payload = c.p;
    ev->payload_n = cur_left(&c);
    return !c.bad;
}

static enum err peek_message(struct etl_peek *out, const uint8_t *p, size_t n)
{
    struct raw_event parts = {.ticks = ETL_RECORD_NO_TIME};
    uint16_t size = cur_at16le(p);

    if (size < MESSAGE_HEADER || size > n || !message_parts(&parts, p, size)) {
        return ERR_CORRUPT;
    }
    *out = (struct etl_peek){ETL_MESSAGE, size, parts.ticks};
    return ERR_OK;
}

enum err etl_record_peek_other(struct etl_peek *out, const uint8_t *p, size_t n)
{
    uint32_t marker;

    if (n < MESSAGE_HEADER) {
        return ERR_END;
    }
    marker = cur_at32le(p);
    if (marker == 0 || marker == NO_MARKER) {
        return ERR_END;
    }
    if ((p[3] & ETL_RECORD_FLAGS) != ETL_RECORD_FLAGS && (p[3] & FLAG_MESSAGE) == FLAG_MESSAGE) {
        return peek_message(out, p, n);
    }
    return ERR_CORRUPT;
}

#define GROUP_PROCESS  0x03
#define GROUP_THREAD   0x05
#define GROUP_PERFINFO 0x0f
#define GROUP_IMAGE    0x14
#define HOOK_IMAGE     0x030a /* a load is logged in the group of processes */

static bool tells_life(uint8_t group, uint8_t opcode)
{
    switch (group) {
    case GROUP_PROCESS:
        return (opcode >= 1 && opcode <= 4) || opcode == 39;
    case GROUP_THREAD:
        return opcode >= 1 && opcode <= 4;
    case GROUP_PERFINFO:
        return opcode == 73 || opcode == 74;
    default:
        return false;
    }
}

/* Starts, stops and rundown of the manifest provider Kernel-Process. */
static bool provider_tells_life(const uint8_t *p)
{
    static const uint8_t provider[16] = ETW_PROVIDER_KERNEL_PROCESS;
    uint16_t id = cur_at16le(p + 0x28);

    return ((id >= 1 && id <= 4) || id == 15) && !(cur_at16le(p + 4) & CLASSIC_EVENT) &&
           memcmp(p + 0x18, provider, sizeof provider) == 0;
}

bool etl_record_tells_life(const struct etl_peek *k, const uint8_t *p)
{
    static const uint8_t groups[] = {GROUP_PROCESS, GROUP_THREAD, GROUP_PERFINFO};
    uint32_t hook = etl_record_hook(k, p);

    if (hook != UINT32_MAX) {
        return tells_life((uint8_t)(hook >> 8), (uint8_t)hook);
    }
    if (k->type == ETL_EVENT32 || k->type == ETL_EVENT64) {
        return provider_tells_life(p);
    }
    if (k->type != ETL_FULL32 && k->type != ETL_FULL64) {
        return false;
    }
    for (size_t i = 0; i < sizeof groups; i++) {
        if (memcmp(p + 0x18, classes[groups[i]], 16) == 0) {
            return tells_life(groups[i], p[4]);
        }
    }
    return false;
}

#define MANIFEST_ID      0xfffe /* an EventSource sends its manifest under this id */
#define METADATA_OP      32     /* EventInfo; 33: maps */
#define METADATA_OP_LAST 33

bool etl_record_tells_schema(const struct etl_peek *k, const uint8_t *p)
{
    static const uint8_t metadata[16] = ETW_CONTROL_METADATA, own[16] = ETW_PROVIDER_OWN;

    switch (k->type) {
    case ETL_EVENT32:
    case ETL_EVENT64:
        return !(cur_at16le(p + 4) & CLASSIC_EVENT) &&
               (cur_at16le(p + 0x28) == MANIFEST_ID ||
                ((p[0x2d] == METADATA_OP || p[0x2d] == METADATA_OP_LAST) &&
                 memcmp(p + 0x18, own, sizeof own) == 0));
    case ETL_FULL32:
    case ETL_FULL64:
        return p[4] >= METADATA_OP && p[4] <= METADATA_OP_LAST &&
               memcmp(p + 0x18, metadata, sizeof metadata) == 0;
    default:
        return false;
    }
}

/* Counter values between header and payload: their number in bits 8 to 10 of the version word, one
 * more where bit 15 is set. */
static size_t perfinfo_extra(const uint8_t *p)
{
    return 8u * ((p[1] & 7u) + (p[1] >> 7));
}

/* u16 version, u8 type, u8 flags, u16 size, u8 opcode, u8 group; SYSTEM and COMPACT: u32 thread,
 * u32 process; i64 time. */
static void kernel_read(struct raw_event *ev, const uint8_t *p)
{
    uint8_t group = cur_at16le(p + 6) == HOOK_IMAGE ? GROUP_IMAGE : p[7];

    ev->version = p[0];
    ev->opcode = p[6];
    memcpy(ev->guid, etl_record_class(group), 16);
}

static bool perfinfo_read(struct raw_event *ev, const uint8_t *p)
{
    size_t extra = perfinfo_extra(p);

    kernel_read(ev, p);
    if (extra > ev->payload_n) {
        return false;
    }
    ev->counters = (uint8_t)(extra / 8);
    ev->payload += extra;
    ev->payload_n -= extra;
    return true;
}

/* u16 size, u8 type, u8 flags, u8 opcode, u8 level, u16 version, u32 thread, u32 process, i64 time,
 * GUID. */
static void full_read(struct raw_event *ev, const uint8_t *p)
{
    ev->opcode = p[4];
    ev->level = p[5];
    ev->version = p[6];
    ev->tid = cur_at32le(p + 8);
    ev->pid = cur_at32le(p + 12);
    memcpy(ev->guid, p + 0x18, 16);
}

/* Items of u16 whole size, u16 type, u16 (bit 0: another follows), u16 data size, data. */
static bool extended_read(struct raw_event *ev, const uint8_t *p, size_t n)
{
    size_t at = 0;
    bool more = true;

    while (more) {
        size_t item;

        if (n - at < 8) {
            return false;
        }
        item = cur_at16le(p + at);
        if (item < 8 || item > n - at || cur_at16le(p + at + 6) > item - 8) {
            return false;
        }
        more = cur_at16le(p + at + 4) & 1;
        at += item;
    }
    ev->ext = p;
    ev->ext_n = at;
    ev->payload = p + at;
    ev->payload_n = n - at;
    return true;
}

/* EVENT_HEADER: see the etl-format document for the offsets. */
static bool event_read(struct raw_event *ev, const uint8_t *p)
{
    uint16_t flags = cur_at16le(p + 4);

    ev->form = flags & CLASSIC_EVENT ? RAW_CLASSIC : RAW_MANIFEST;
    ev->tid = cur_at32le(p + 8);
    ev->pid = cur_at32le(p + 12);
    memcpy(ev->guid, p + 0x18, 16);
    ev->id = cur_at16le(p + 0x28);
    ev->version = p[0x2a];
    ev->level = p[0x2c];
    ev->opcode = p[0x2d];
    ev->task = cur_at16le(p + 0x2e);
    ev->keyword = cur_at64le(p + 0x30);
    return flags & HAS_EXTENDED ? extended_read(ev, ev->payload, ev->payload_n) : true;
}

/* Straight into the result: a copy of so much that was just written piece by piece would wait for
 * the pieces, longer than all the rest takes. */
static bool parts_read(struct raw_event *ev, const struct etl_peek *k, const uint8_t *p)
{
    switch (k->type) {
    case ETL_PERFINFO32:
    case ETL_PERFINFO64:
        return perfinfo_read(ev, p);
    case ETL_SYSTEM32:
    case ETL_SYSTEM64:
    case ETL_COMPACT32:
    case ETL_COMPACT64:
        kernel_read(ev, p);
        ev->tid = cur_at32le(p + 8);
        ev->pid = cur_at32le(p + 12);
        return true;
    case ETL_EVENT32:
    case ETL_EVENT64:
        return event_read(ev, p);
    case ETL_MESSAGE:
        ev->form = RAW_MESSAGE;
        return message_parts(ev, p, k->size);
    case ETL_ERROR:
        full_read(ev, p);
        memset(ev->guid, 0, sizeof ev->guid);
        return true;
    default:
        full_read(ev, p);
        return true;
    }
}

enum err etl_record_read(struct raw_event *out, const struct etl_peek *k, const uint8_t *p)
{
    const struct etl_shape *s = &etl_record_shapes[k->type];

    /* In two halves, which compilers write out; the whole they would leave to a slow instruction.
     */
    memset(out, 0, sizeof *out / 2);
    memset((uint8_t *)out + sizeof *out / 2, 0, sizeof *out - sizeof *out / 2);
    out->form = RAW_CLASSIC;
    out->header = k->type;
    out->pointer_size = s->pointer_size;
    out->pid = EVENT_NO_ID;
    out->tid = EVENT_NO_ID;
    out->ticks = k->ticks;
    out->payload = p + s->header;
    out->payload_n = k->size - s->header;
    return parts_read(out, k, p) ? ERR_OK : ERR_CORRUPT;
}
