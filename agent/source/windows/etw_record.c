#include "agent/source/windows/etw_record.h"

#include <string.h>

#define ITEM_HEADER 8

/* The chain of files: u16 whole size, u16 type, u16 (bit 0: another follows), u16 data size, data,
 * filled up to 8 bytes. */
static size_t item_put(uint8_t *p, size_t room, const EVENT_HEADER_EXTENDED_DATA_ITEM *item)
{
    size_t whole = (ITEM_HEADER + (size_t)item->DataSize + 7) & ~(size_t)7;
    uint16_t head[4] = {(uint16_t)whole, item->ExtType, 0, item->DataSize};

    if (whole > room || whole > UINT16_MAX || (item->DataSize && !item->DataPtr)) {
        return 0;
    }
    memset(p, 0, whole);
    memcpy(p, head, sizeof head);
    if (item->DataSize) {
        memcpy(p + ITEM_HEADER, (const void *)(uintptr_t)item->DataPtr, item->DataSize);
    }
    return whole;
}

static unsigned chain(struct raw_event *out, const EVENT_RECORD *r, uint8_t *ext)
{
    size_t n = 0, last = 0;
    unsigned skipped = 0;

    for (USHORT i = 0; r->ExtendedData && i < r->ExtendedDataCount; i++) {
        size_t put = item_put(ext + n, ETW_RECORD_EXT - n, &r->ExtendedData[i]);

        if (!put) {
            skipped++;
            continue;
        }
        if (n) {
            ext[last + 4] |= 1;
        }
        last = n;
        n += put;
    }
    out->ext = n ? ext : NULL;
    out->ext_n = n;
    return skipped;
}

static enum raw_form form_of(USHORT flags)
{
    if (flags & EVENT_HEADER_FLAG_TRACE_MESSAGE) {
        return RAW_MESSAGE;
    }
    return flags & EVENT_HEADER_FLAG_CLASSIC_HEADER ? RAW_CLASSIC : RAW_MANIFEST;
}

unsigned etw_record_read(struct raw_event *out, const EVENT_RECORD *r, uint8_t *ext)
{
    const EVENT_HEADER *h = &r->EventHeader;
    const EVENT_DESCRIPTOR *d = &h->EventDescriptor;

    *out = (struct raw_event){
        .form = (uint8_t)form_of(h->Flags),
        .version = d->Version,
        .opcode = d->Opcode,
        .level = d->Level,
        .pointer_size = h->Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8,
        .id = d->Id,
        .task = d->Task,
        .cpu = h->Flags & EVENT_HEADER_FLAG_PROCESSOR_INDEX ? r->BufferContext.ProcessorIndex
                                                            : r->BufferContext.ProcessorNumber,
        .pid = h->ProcessId,
        .tid = h->ThreadId,
        .keyword = d->Keyword,
        .ticks = h->TimeStamp.QuadPart,
        .payload = r->UserData,
        .payload_n = r->UserData ? r->UserDataLength : 0,
    };
    memcpy(out->guid, &h->ProviderId, sizeof out->guid);
    return chain(out, r, ext);
}
