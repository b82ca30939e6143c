/* What records count as, and the names these counts have in the loss ledger. */
#include "agent/source/ring/ring.h"

#include <string.h>

#include "agent/source/etw_guid.h"

static bool is_guid(const struct raw_event *raw, const uint8_t guid[16])
{
    return memcmp(raw->guid, guid, 16) == 0;
}

static enum ring_kind thread_kind(uint8_t opcode)
{
    if (opcode >= 1 && opcode <= 4) {
        return RING_THREAD;
    }
    if (opcode == 36 || opcode == 50) {
        return RING_CSWITCH;
    }
    return opcode == 72 ? RING_THREAD : RING_OTHER; /* 72: name */
}

static enum ring_kind manifest_kind(const struct raw_event *raw)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;

    if (!is_guid(raw, kernel_process)) {
        return RING_OTHER;
    }
    switch (raw->id) {
    case 1:
    case 2:
    case 15:
        return RING_PROCESS;
    case 3:
    case 4:
        return RING_THREAD;
    case 5:
    case 6:
        return RING_IMAGE;
    default:
        return RING_OTHER;
    }
}

enum ring_kind ring_kind_of(const struct raw_event *raw)
{
    static const struct {
        uint8_t guid[16];
        uint8_t kind;
    } classes[] = {
        {ETW_CLASS_PROCESS, RING_PROCESS},  {ETW_CLASS_IMAGE, RING_IMAGE},
        {ETW_CLASS_DISK_IO, RING_DISK},     {ETW_CLASS_PAGE_FAULT, RING_FAULT},
        {ETW_CLASS_TCP_IP, RING_NET},       {ETW_CLASS_UDP_IP, RING_NET},
        {ETW_CLASS_PERF_INFO, RING_SAMPLE}, {ETW_CLASS_THREAD, RING_THREAD},
    };

    if (raw->form != RAW_CLASSIC) {
        return manifest_kind(raw);
    }
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!is_guid(raw, classes[i].guid)) {
            continue;
        }
        if (classes[i].kind == RING_THREAD) {
            return thread_kind(raw->opcode);
        }
        if (classes[i].kind == RING_SAMPLE && raw->opcode != 46 && raw->opcode != 47) {
            return RING_OTHER; /* 46: sample, 47: of a performance counter */
        }
        return (enum ring_kind)classes[i].kind;
    }
    return RING_OTHER;
}

const char *ring_full_reason(enum ring_kind kind)
{
    static const char *const names[RING_KIND_COUNT] = {
        [RING_PROCESS] = "full_process", [RING_THREAD] = "full_thread", [RING_IMAGE] = "full_image",
        [RING_CSWITCH] = "full_cswitch", [RING_SAMPLE] = "full_sample", [RING_DISK] = "full_disk",
        [RING_FAULT] = "full_fault",     [RING_NET] = "full_net",       [RING_OTHER] = "full_other",
    };

    return names[kind];
}

size_t ring_ledger(const struct ring *r, struct ledger_row *rows, size_t max)
{
    struct ring_stats s;
    size_t n = 0;

    ring_stats(r, &s);
    const struct {
        const char *reason;
        uint64_t count;
    } first[] = {{"in", s.in}, {"out", s.out}, {"refused", s.refused}};

    for (size_t i = 0; i < sizeof first / sizeof *first && n < max; i++) {
        rows[n++] =
            (struct ledger_row){str_make("ring"), str_make(first[i].reason), first[i].count};
    }
    for (size_t i = 0; i < RING_KIND_COUNT && n < max; i++) {
        rows[n++] = (struct ledger_row){
            str_make("ring"), str_make(ring_full_reason((enum ring_kind)i)), s.dropped[i]};
    }
    return n;
}
