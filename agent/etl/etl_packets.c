/* PktMon's packet records, all of version 0 (docs of fields: packet 160, 240; dropped 170):
 *
 *   group u64, number u16, appearance u16, direction u16, type u16, component u16, edge u16,
 *   filter u16, reason u32, location u32, original u16, logged u16, bytes
 *
 * 200 and 220 with addresses, 210 and 230 the same dropped, have no group:
 *
 *   direction u16, type u16, component u16, edge u16, filter u16, reason u32, location u32,
 *   both IP addresses (4 bytes; 220, 230: 16), protocol u8, both ports u16, original u16,
 *   logged u16, bytes
 *
 * NDIS-PacketCapture: 1001 miniport u32, lower interface u32, size u32, bytes; 1003 (of a virtual
 * switch) has between the indices and the size: source port u32, three texts, number of
 * destinations u32, and as many of (port u32, three texts). A packet is the fragments of one CPU
 * and thread from the keyword of its start to that of its end. */
#include "agent/etl/etl_packets.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/mem.h"

#define KEY_WWAN     UINT64_C(0x200)
#define KEY_WIFI     UINT64_C(0x10000)
#define KEY_START    UINT64_C(0x40000000)
#define KEY_END      UINT64_C(0x80000000)
#define KEY_SEND     UINT64_C(0x100000000)
#define KEY_RECEIVE  UINT64_C(0x200000000)
#define DESTINATIONS 256

struct open_packet {
    bool used;
    uint32_t tid;
    uint16_t cpu;
    uint64_t order;
    size_t n;
    uint8_t *bytes; /* ETL_PACKETS_MAX */
};

struct etl_packets {
    struct open_packet open[ETL_PACKETS_OPEN];
    size_t n_open; /* slots that were ever used */
    uint64_t order;
    struct etl_packets_stats stats;
};

enum err etl_packets_create(struct etl_packets **out)
{
    *out = mem_zalloc(sizeof **out);
    return *out ? ERR_OK : ERR_NOMEM;
}

void etl_packets_destroy(struct etl_packets *p)
{
    for (size_t i = 0; p && i < p->n_open; i++) {
        mem_free(p->open[i].bytes);
    }
    mem_free(p);
}

/* -- Packet Monitor -- */

static bool is_pktmon(const struct raw_event *raw)
{
    static const uint8_t guid[16] = {0xd9, 0x80, 0x4f, 0x4d, 0xbd, 0xc8, 0x73, 0x4d,
                                     0xbb, 0x5b, 0x19, 0xc9, 0x04, 0x02, 0xc5, 0xac};

    return raw->form == RAW_MANIFEST && memcmp(raw->guid, guid, sizeof guid) == 0;
}

static uint8_t link_of_type(uint16_t type)
{
    static const uint8_t links[] = {ETL_PACKETS_NO_LINK, ETL_PACKETS_ETHERNET, ETL_PACKETS_WIFI,
                                    ETL_PACKETS_IP};

    return type < sizeof links ? links[type] : ETL_PACKETS_NO_LINK;
}

static uint8_t way_of(uint16_t direction)
{
    return direction == 0 || direction > 6 ? ETL_PACKETS_NO_WAY
           : direction % 2                 ? ETL_PACKETS_IN
                                           : ETL_PACKETS_OUT;
}

static void read_group(struct etl_packets_one *out, struct cur *c)
{
    out->grouped = true;
    out->group = cur_u64le(c);
    out->number = cur_u16le(c);
    out->appearance = cur_u16le(c);
}

/* False: the payload is too short for what it says. */
static bool read_pktmon(struct etl_packets_one *out, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    bool grouped = raw->id < 200 || raw->id == 240, v6 = raw->id >= 220;
    uint16_t direction;

    if (grouped) {
        read_group(out, &c);
    }
    direction = cur_u16le(&c);
    out->direction = direction <= UINT8_MAX ? (uint8_t)direction : 0;
    out->way = way_of(direction);
    out->link = link_of_type(cur_u16le(&c));
    out->component = cur_u16le(&c);
    out->edge = cur_u16le(&c);
    cur_skip(&c, 2);
    out->reason = cur_u32le(&c);
    out->location = cur_u32le(&c);
    if (!grouped) {
        cur_skip(&c, (v6 ? 32 : 8) + 5);
    }
    out->original = cur_u16le(&c);
    out->n = cur_u16le(&c);
    out->bytes = cur_bytes(&c, out->n);
    out->original = out->original < out->n ? (uint32_t)out->n : out->original;
    out->dropped = raw->id == 170 || raw->id == 210 || raw->id == 230 || out->reason != 0;
    return !c.bad;
}

static bool is_packet_id(unsigned id)
{
    return id == 160 || id == 170 || id == 200 || id == 210 || id == 220 || id == 230 || id == 240;
}

/* -- NDIS -- */

static bool is_ndis(const struct raw_event *raw)
{
    static const uint8_t guid[16] = {0x6e, 0x00, 0xd6, 0x2e, 0x29, 0x47, 0x09, 0x46,
                                     0xb4, 0x23, 0x3e, 0xe7, 0xbc, 0xd6, 0x78, 0xef};

    return raw->form == RAW_MANIFEST && memcmp(raw->guid, guid, sizeof guid) == 0;
}

static void skip_port(struct cur *c)
{
    size_t n;

    cur_skip(c, 4);
    for (unsigned i = 0; i < 3; i++) {
        (void)cur_wstr(c, &n);
    }
}

static bool read_fragment(struct etl_packets_one *out, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);

    out->ndis = true;
    out->component = cur_u32le(&c);
    out->edge = cur_u32le(&c);
    if (raw->id == 1003) {
        uint32_t n;

        skip_port(&c);
        n = cur_u32le(&c);
        c.bad |= n > DESTINATIONS;
        for (uint32_t i = 0; i < n && !c.bad; i++) {
            skip_port(&c);
        }
    }
    out->n = cur_u32le(&c);
    out->bytes = cur_bytes(&c, out->n);
    out->link = raw->keyword & KEY_WIFI   ? ETL_PACKETS_WIFI
                : raw->keyword & KEY_WWAN ? ETL_PACKETS_IP
                                          : ETL_PACKETS_ETHERNET;
    out->way = raw->keyword & KEY_SEND      ? ETL_PACKETS_OUT
               : raw->keyword & KEY_RECEIVE ? ETL_PACKETS_IN
                                            : ETL_PACKETS_NO_WAY;
    return !c.bad && out->n <= ETL_PACKETS_MAX;
}

static struct open_packet *open_find(struct etl_packets *p, const struct raw_event *raw)
{
    for (size_t i = 0; i < p->n_open; i++) {
        if (p->open[i].used && p->open[i].cpu == raw->cpu && p->open[i].tid == raw->tid) {
            return &p->open[i];
        }
    }
    return NULL;
}

/* A free slot, or that of the oldest. NULL: no memory. */
static struct open_packet *open_make(struct etl_packets *p, const struct raw_event *raw)
{
    struct open_packet *to = &p->open[0];

    for (size_t i = 0; i < p->n_open && to->used; i++) {
        if (!p->open[i].used || p->open[i].order < to->order) {
            to = &p->open[i];
        }
    }
    if ((p->n_open == 0 || to->used) && p->n_open < ETL_PACKETS_OPEN) {
        to = &p->open[p->n_open];
        to->bytes = mem_alloc(ETL_PACKETS_MAX);
        if (!to->bytes) {
            return NULL;
        }
        p->n_open++;
    }
    p->stats.unfinished += to->used;
    to->used = true;
    to->cpu = raw->cpu;
    to->tid = raw->tid;
    to->order = ++p->order;
    to->n = 0;
    return to;
}

/* Whether the packet ends with this fragment. */
static bool join_fragment(struct etl_packets *p, const struct raw_event *raw,
                          struct etl_packets_one *one)
{
    bool start = raw->keyword & KEY_START, end = raw->keyword & KEY_END;
    struct open_packet *to = open_find(p, raw);

    if (start && to) {
        p->stats.unfinished++; /* its end did not come */
        to->used = false;
        to = NULL;
    }
    if (start && end) {
        one->original = (uint32_t)one->n;
        return true;
    }
    to = start ? open_make(p, raw) : to;
    if (!to || one->n > ETL_PACKETS_MAX - to->n) {
        p->stats.unfinished++;
        if (to) {
            to->used = false;
        }
        return false;
    }
    if (one->n) {
        memcpy(to->bytes + to->n, one->bytes, one->n);
    }
    to->n += one->n;
    if (end) {
        one->bytes = to->bytes;
        one->n = to->n;
        one->original = (uint32_t)to->n;
        to->used = false;
    }
    return end;
}

/* -- both -- */

bool etl_packets_take(struct etl_packets *p, const struct raw_event *raw,
                      struct etl_packets_one *out)
{
    bool ndis = is_ndis(raw);

    if (ndis ? raw->id != 1001 && raw->id != 1003 : !is_packet_id(raw->id) || !is_pktmon(raw)) {
        return false;
    }
    memset(out, 0, sizeof *out);
    if (!(ndis ? read_fragment(out, raw) : read_pktmon(out, raw))) {
        p->stats.damaged++;
        return false;
    }
    return !ndis || join_fragment(p, raw, out);
}

void etl_packets_end(struct etl_packets *p, struct etl_packets_stats *out)
{
    for (size_t i = 0; i < p->n_open; i++) {
        p->stats.unfinished += p->open[i].used;
        p->open[i].used = false;
    }
    *out = p->stats;
}

bool etl_packets_fact(struct etl_packets_fact *out, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);

    if (raw->id < 20 || raw->id > 90 || !is_pktmon(raw)) {
        return false;
    }
    memset(out, 0, sizeof *out);
    out->component = cur_u16le(&c);
    switch (raw->id) {
    case 20:
        out->what = ETL_PACKETS_COMPONENT;
        cur_skip(&c, 2);
        out->texts[0].p = cur_wstr(&c, &out->texts[0].n);
        out->texts[1].p = cur_wstr(&c, &out->texts[1].n);
        break;
    case 65:
    case 66:
    case 70:
        out->what = ETL_PACKETS_ADDRESS;
        cur_skip(&c, 2);
        out->n = raw->id == 65 ? 4 : raw->id == 66 ? 16 : cur_u32le(&c);
        out->bytes = cur_bytes(&c, out->n);
        break;
    case 90:
        out->what = ETL_PACKETS_FLOW;
        out->texts[0].p = cur_wstr(&c, &out->texts[0].n);
        out->edge = cur_u16le(&c);
        for (unsigned i = 0; i < 2; i++) {
            out->flow[i].direction = cur_u16le(&c);
            out->flow[i].packets = cur_u64le(&c);
            cur_skip(&c, 8);
        }
        break;
    default:
        return false;
    }
    return !c.bad;
}
