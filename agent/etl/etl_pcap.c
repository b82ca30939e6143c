/* `etl pcap`: the packets of a recording as a capture for Wireshark and its like, and where they
 * were seen. A recording names the components only at its end: it is walked twice, first for names,
 * counters and who has which connection, then for the packets, which are written as they come.
 *
 * A packet is seen several times on its way through the components; every sighting is a packet of
 * the capture, whose interface is the component. Sightings of one packet have one id. Whether two
 * are of one packet is known while fewer than 2 x SEEN_MAX others lie between them.
 *
 * Whose a packet of TCP or UDP is: what network records of the recording say of its ends; if they
 * do not know them, the process in whose thread a packet that goes out was seen first, and the
 * comment says so. The thread that runs when a packet comes in is anybody's.
 * Bounds: COMPONENTS_MAX, INTERFACES_MAX, FLOWS_MAX, TUPLES_MAX and TEXTS_MAX bytes of names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_ends.h"
#include "agent/etl/etl_packets.h"
#include "agent/etl/etl_pcapng.h"
#include "agent/etl/etl_range.h"
#include "agent/source/etw_guid.h"
#include "common/base/arena.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define COMPONENTS_MAX 4096
#define INTERFACES_MAX 4096
#define FLOWS_MAX      16384
#define TUPLES_MAX     16384
#define SEEN_MAX       131072
#define TEXTS_MAX      ((size_t)2 << 20)
#define COMMENT_MAX    1024
#define SYSTEM_PID     4

struct component {
    uint16_t id;
    bool wifi_is_ethernet; /* frames it calls 802.11 were seen as Ethernet, byte for byte */
    struct str name, description;
    size_t n_addresses;
    struct {
        uint8_t n, b[16];
    } addresses[ETL_PCAPNG_ADDRESSES];
};

struct flow { /* packets by component, edge and direction */
    struct str edge;
    uint64_t counted, logged;
};

struct interface {
    struct etl_packets_one like; /* ndis, component, edge, link */
    const struct component *component;
    uint64_t packets, dropped, bytes, cut, in, out;
};

struct tuple { /* compared and hashed as bytes */
    uint8_t protocol, n;
    uint16_t ports[2]; /* of the first and second address */
    uint8_t addresses[2][16];
};

struct owner {
    struct tuple of;
    uint32_t pid; /* EVENT_NO_ID: it was of several */
};

struct etl_pcap {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct etl_pcapng *to; /* NULL: only shown */
    struct etl_packets *packets;
    bool drops_only, once;
    uint16_t wanted[OPT_MANY_MAX];
    size_t n_wanted;

    struct component *components;
    struct flow *flows;
    struct interface *interfaces;
    struct owner *owners;
    size_t n_components, cap_components, n_flows, cap_flows, n_interfaces, cap_interfaces;
    size_t n_owners, cap_owners;
    struct map by_id, by_flow, by_interface, by_tuple;
    struct map seen[2]; /* of packets: the younger ones, the older ones */
    struct arena texts;
    uint64_t seed;

    uint64_t packets_n, different, ungrouped, dropped, bytes, cut, left_out, no_frame, no_room;
    uint64_t flows_full;
    int64_t last_ns;
    struct buf comment;
    struct etl_fields fields;
};

/* -- first pass: components -- */

static struct str text_of(struct etl_pcap *c, const uint8_t *p, size_t units)
{
    struct buf text;
    struct str out = {"", 0};
    char *kept;

    buf_init(&text, COMMENT_MAX);
    buf_put_utf16le(&text, p, units);
    if (!text.bad && text.n) {
        kept = arena_dup(&c->texts, text.p, text.n);
        c->no_room += !kept;
        out = kept ? (struct str){kept, text.n} : out;
    }
    buf_fini(&text);
    return out;
}

/* NULL: no room. */
static struct component *component_of(struct etl_pcap *c, uint16_t id)
{
    uint64_t place = map_get(&c->by_id, id + 1u);

    if (place) {
        return &c->components[place - 1];
    }
    if (VEC_ROOM(&c->components, &c->cap_components, c->n_components + 1, COMPONENTS_MAX) ||
        map_reserve(&c->by_id)) {
        c->no_room++;
        return NULL;
    }
    c->components[c->n_components] = (struct component){.id = id};
    (void)map_put(&c->by_id, id + 1u, ++c->n_components);
    return &c->components[c->n_components - 1];
}

static struct flow *flow_of(struct etl_pcap *c, uint32_t component, uint32_t edge,
                            uint32_t direction)
{
    uint64_t key = (uint64_t)component << 32 | (uint64_t)edge << 16 | direction, place;

    place = map_get(&c->by_flow, key);
    if (place) {
        return &c->flows[place - 1];
    }
    if (VEC_ROOM(&c->flows, &c->cap_flows, c->n_flows + 1, FLOWS_MAX) || map_reserve(&c->by_flow)) {
        c->flows_full++;
        return NULL;
    }
    c->flows[c->n_flows] = (struct flow){.edge = {"", 0}};
    (void)map_put(&c->by_flow, key, ++c->n_flows);
    return &c->flows[c->n_flows - 1];
}

static void on_flow(struct etl_pcap *c, const struct etl_packets_fact *fact)
{
    struct str edge = text_of(c, fact->texts[0].p, fact->texts[0].n);

    for (size_t i = 0; i < 2; i++) {
        struct flow *f = flow_of(c, fact->component, fact->edge, fact->flow[i].direction);

        if (f) {
            f->edge = edge;
            f->counted += fact->flow[i].packets;
        }
    }
    if (edge.n) { /* by its name alone, for packets of another direction */
        struct flow *f = flow_of(c, fact->component, fact->edge, 0);

        if (f) {
            f->edge = edge;
        }
    }
}

static void on_fact(struct etl_pcap *c, const struct etl_packets_fact *fact)
{
    struct component *to;

    if (fact->what == ETL_PACKETS_FLOW) {
        on_flow(c, fact);
        return;
    }
    to = component_of(c, fact->component);
    if (!to) {
        return;
    }
    if (fact->what == ETL_PACKETS_COMPONENT) {
        to->name = text_of(c, fact->texts[0].p, fact->texts[0].n);
        to->description = text_of(c, fact->texts[1].p, fact->texts[1].n);
    } else if (to->n_addresses < ETL_PCAPNG_ADDRESSES &&
               (fact->n == 4 || fact->n == 6 || fact->n == 16)) {
        to->addresses[to->n_addresses].n = (uint8_t)fact->n;
        memcpy(to->addresses[to->n_addresses++].b, fact->bytes, fact->n);
    }
}

/* -- packets seen before -- */

static uint64_t packet_key(const struct etl_pcap *c, const struct etl_packets_one *p)
{
    return (p->group << 16 ^ p->number ^ p->group >> 48) * (c->seed | 1);
}

/* What was kept of the packet, 0: nothing; then `now` is. */
static uint64_t seen_before(struct etl_pcap *c, const struct etl_packets_one *p, uint64_t now)
{
    uint64_t key = packet_key(c, p), was = map_get(&c->seen[0], key);

    was = was ? was : map_get(&c->seen[1], key);
    if (was) {
        return was;
    }
    if (c->seen[0].n == SEEN_MAX) {
        struct map older = c->seen[1];

        c->seen[1] = c->seen[0];
        c->seen[0] = older;
        map_clear(&c->seen[0]);
    }
    if (map_reserve(&c->seen[0]) == ERR_OK) {
        (void)map_put(&c->seen[0], key, now);
    }
    return 0;
}

/* A component may call Ethernet frames 802.11: the same packet's bytes elsewhere tell. */
static void compare_types(struct etl_pcap *c, const struct etl_packets_one *p)
{
    size_t n = p->n < 64 ? p->n : 64;
    uint64_t now, was;

    if (!p->grouped || (p->link != ETL_PACKETS_ETHERNET && p->link != ETL_PACKETS_WIFI)) {
        return;
    }
    now = hash_bytes(p->bytes, n, c->seed) << 32 | p->component << 8 | p->link;
    was = seen_before(c, p, now);
    if (was && was >> 32 == (now >> 32) && (was & 0xFF) != p->link) {
        uint32_t id = p->link == ETL_PACKETS_WIFI ? p->component : (uint32_t)(was >> 8 & 0xFFFF);
        struct component *to = component_of(c, (uint16_t)id);

        if (to) {
            to->wifi_is_ethernet = true;
        }
    }
}

/* -- whose packets are -- */

/* In one order, whichever way the packet goes. */
static void tuple_set(struct tuple *t, uint8_t protocol, size_t n, const uint8_t *a,
                      uint16_t a_port, const uint8_t *b, uint16_t b_port)
{
    int d = memcmp(a, b, n);
    bool swap = d > 0 || (d == 0 && a_port > b_port);

    memset(t, 0, sizeof *t);
    t->protocol = protocol;
    t->n = (uint8_t)n;
    memcpy(t->addresses[0], swap ? b : a, n);
    memcpy(t->addresses[1], swap ? a : b, n);
    t->ports[0] = swap ? b_port : a_port;
    t->ports[1] = swap ? a_port : b_port;
}

static struct owner *owner_find(struct etl_pcap *c, const struct tuple *t, uint64_t *key)
{
    uint64_t place;

    for (*key = hash_bytes(t, sizeof *t, c->seed); (place = map_get(&c->by_tuple, *key)) != 0;
         ++*key) {
        if (memcmp(&c->owners[place - 1].of, t, sizeof *t) == 0) {
            return &c->owners[place - 1];
        }
    }
    return NULL;
}

static void owner_put(struct etl_pcap *c, uint8_t protocol, const struct etl_ends *e)
{
    struct tuple t;
    struct owner *o;
    uint64_t key;

    tuple_set(&t, protocol, e->n, e->local, e->local_port, e->remote, e->remote_port);
    o = owner_find(c, &t, &key);
    if (o) {
        o->pid = o->pid == e->pid ? e->pid : EVENT_NO_ID;
        return;
    }
    if (VEC_ROOM(&c->owners, &c->cap_owners, c->n_owners + 1, TUPLES_MAX) ||
        map_reserve(&c->by_tuple)) {
        c->no_room++;
        return;
    }
    c->owners[c->n_owners++] = (struct owner){t, e->pid};
    (void)map_put(&c->by_tuple, key, c->n_owners);
}

enum { TCP = 6, UDP = 17 };

static void on_network(struct etl_pcap *c, const struct raw_event *raw)
{
    static const uint8_t tcp_ip[16] = ETW_CLASS_TCP_IP, udp_ip[16] = ETW_CLASS_UDP_IP;
    static const uint8_t network[16] = {0x49, 0x2a, 0xd4, 0x7d, 0x29, 0x53, 0x32, 0x48,
                                        0x8d, 0xfd, 0x43, 0xd9, 0x79, 0x15, 0x3a, 0x88};
    static const uint8_t stack[16] = {0xee, 0xe2, 0x07, 0x2f, 0xdb, 0x15, 0xf1, 0x40,
                                      0x90, 0xef, 0x9d, 0x7b, 0xa2, 0x82, 0x18, 0x8a};
    bool classic = raw->form == RAW_CLASSIC, udp = classic && memcmp(raw->guid, udp_ip, 16) == 0;
    unsigned op = classic ? raw->opcode : raw->id;
    struct etl_ends e;
    uint32_t size;

    if (udp || (classic ? memcmp(raw->guid, tcp_ip, 16) : memcmp(raw->guid, network, 16)) == 0) {
        if (!classic && op >= 42) { /* Kernel-Network numbers UDP on */
            udp = true;
            op -= 32;
        }
        if (((op >= 10 && op <= 18 && op != 17) || (op >= ETL_ENDS_V6_FROM && op <= 34)) &&
            etl_ends_kernel(&e, &size, raw, op >= ETL_ENDS_V6_FROM)) {
            owner_put(c, udp ? UDP : TCP, &e);
        }
    } else if (!classic && (op == 1300 || op == 1017) && memcmp(raw->guid, stack, 16) == 0 &&
               etl_fields_read(&c->fields, c->walk, raw) == ERR_OK &&
               etl_ends_fields(&e, &c->fields, op == 1300 ? "Pid" : "ProcessId")) {
        owner_put(c, TCP, &e);
    }
}

/* The ends of a frame; false: it has none that could be known. */
static bool frame_tuple(struct tuple *t, const struct etl_packets_one *p)
{
    struct cur c = cur_make(p->bytes, p->n);
    const uint8_t *ip;
    uint16_t type = 0;
    uint8_t protocol;
    size_t n;

    if (p->link == ETL_PACKETS_ETHERNET) {
        cur_skip(&c, 12);
        type = cur_u16be(&c);
        for (unsigned tags = 0; tags < 2 && (type == 0x8100 || type == 0x88A8); tags++) {
            cur_skip(&c, 2);
            type = cur_u16be(&c);
        }
    } else if (p->link == ETL_PACKETS_IP && p->n) {
        type = p->bytes[0] >> 4 == 6 ? 0x86DD : 0x0800;
    }
    n = type == 0x86DD ? 16 : 4;
    ip = cur_bytes(&c, n == 16 ? 40 : 20);
    if (!ip || (type != 0x86DD && type != 0x0800) || ip[0] >> 4 != (n == 16 ? 6 : 4)) {
        return false;
    }
    protocol = n == 16 ? ip[6] : ip[9];
    if (n == 4) {
        if ((ip[0] & 15) < 5 || (ip[6] & 0x1F) || ip[7]) {
            return false; /* a later fragment has no ports */
        }
        cur_skip(&c, 4 * (size_t)(ip[0] & 15) - 20);
    }
    if (protocol == TCP || protocol == UDP) {
        uint16_t from = cur_u16be(&c), to = cur_u16be(&c);

        tuple_set(t, protocol, n, ip + (n == 16 ? 8 : 12), from, ip + (n == 16 ? 24 : 16), to);
        return !c.bad;
    }
    return false;
}

/* EVENT_NO_ID: no rule tells. *sent: by the thread alone. */
static uint32_t packet_pid(struct etl_pcap *c, const struct etl_packets_one *p,
                           const struct raw_event *raw, bool *sent)
{
    struct owner *o;
    struct tuple t;
    uint64_t key;

    *sent = false;
    if (!frame_tuple(&t, p)) {
        return EVENT_NO_ID; /* the system itself sends many of them, in any thread */
    }
    o = owner_find(c, &t, &key);
    if (o) {
        return o->pid;
    }
    *sent = p->way == ETL_PACKETS_OUT && (p->ndis || p->appearance == 1) && raw->pid != 0 &&
            raw->pid != SYSTEM_PID;
    return *sent ? raw->pid : EVENT_NO_ID;
}

static void on_look(void *ctx, const struct etl_walk_record *r)
{
    struct etl_pcap *c = ctx;
    struct etl_packets_one p;
    struct etl_packets_fact fact;

    if (etl_packets_take(c->packets, r->raw, &p)) {
        struct flow *f = p.ndis ? NULL : flow_of(c, p.component, p.edge, p.direction);

        if (f && !p.dropped) {
            f->logged++;
        }
        compare_types(c, &p);
    } else if (etl_packets_fact(&fact, r->raw)) {
        on_fact(c, &fact);
    } else {
        on_network(c, r->raw);
    }
}

/* -- second pass: packets -- */

static void interface_write(struct etl_pcap *c, const struct interface *i)
{
    const struct component *from = i->component;
    struct etl_pcapng_interface out = {.link = i->like.link};
    char name[80];

    if (!c->to) {
        return;
    }
    if (i->like.ndis) {
        (void)snprintf(name, sizeof name, "interface %u over %u", (unsigned)i->like.component,
                       (unsigned)i->like.edge);
        out.name = str_make(name);
    } else if (from) {
        out.name = from->name;
        out.description = from->description;
        out.n_addresses = from->n_addresses;
        for (size_t k = 0; k < from->n_addresses; k++) {
            out.addresses[k].n = from->addresses[k].n;
            memcpy(out.addresses[k].b, from->addresses[k].b, 16);
        }
    }
    if (!out.name.n) {
        (void)snprintf(name, sizeof name, "component %u", (unsigned)i->like.component);
        out.name = str_make(name);
    }
    etl_pcapng_interface(c->to, &out);
}

/* NULL: no room. */
static struct interface *interface_of(struct etl_pcap *c, const struct etl_packets_one *p)
{
    uint32_t edge = p->ndis ? p->edge : 0;
    uint64_t key = ((uint64_t)p->component << 32 | edge) * (c->seed | 1) + p->link, place;
    struct interface *i;

    for (; (place = map_get(&c->by_interface, key)) != 0; key++) {
        i = &c->interfaces[place - 1];
        if (i->like.component == p->component && i->like.edge == edge && i->like.link == p->link &&
            i->like.ndis == p->ndis) {
            return i;
        }
    }
    if (VEC_ROOM(&c->interfaces, &c->cap_interfaces, c->n_interfaces + 1, INTERFACES_MAX) ||
        map_reserve(&c->by_interface)) {
        return NULL;
    }
    i = &c->interfaces[c->n_interfaces++];
    memset(i, 0, sizeof *i);
    i->like = *p;
    i->like.edge = edge;
    place = p->ndis ? 0 : map_get(&c->by_id, p->component + 1u);
    i->component = place ? &c->components[place - 1] : NULL;
    (void)map_put(&c->by_interface, key, c->n_interfaces);
    interface_write(c, i);
    return i;
}

static void put_reason(struct etl_pcap *c, const struct etl_packets_one *p,
                       const struct raw_event *raw)
{
    struct str reason = {"", 0};

    if (etl_fields_read(&c->fields, c->walk, raw) == ERR_OK) {
        reason = etl_fields_text(&c->fields, "DropReason"); /* the recording's own name */
    }
    while (reason.n && reason.p[reason.n - 1] == ' ') {
        reason.n--;
    }
    buf_put_str(&c->comment, ", dropped: ");
    if (reason.n) {
        buf_put(&c->comment, reason.p, reason.n);
    } else {
        buf_printf(&c->comment, "reason %u", (unsigned)p->reason);
    }
    buf_printf(&c->comment, " at 0x%x", (unsigned)p->location);
}

static void put_comment(struct etl_pcap *c, const struct etl_packets_one *p,
                        const struct raw_event *raw, uint32_t pid, bool sent)
{
    static const char *const ways[] = {"", "In", "Out", "Rx", "Tx", "Ingress", "Egress"};
    const struct instance *owner = pid == EVENT_NO_ID ? NULL : instances_owner(c->walk->table, pid);
    struct flow *edge;

    buf_reset(&c->comment);
    if (!p->ndis) {
        edge = map_get(&c->by_flow, (uint64_t)p->component << 32 | (uint64_t)p->edge << 16)
                   ? flow_of(c, p->component, p->edge, 0)
                   : NULL;
        buf_printf(&c->comment, "component %u, edge %u", (unsigned)p->component, (unsigned)p->edge);
        if (edge && edge->edge.n) {
            buf_printf(&c->comment, " %.*s", (int)edge->edge.n, edge->edge.p);
        }
        if (p->direction && p->direction < sizeof ways / sizeof *ways) {
            buf_printf(&c->comment, ", %s", ways[p->direction]);
        }
        if (p->appearance) {
            buf_printf(&c->comment, ", appearance %u", (unsigned)p->appearance);
        }
    }
    if (p->dropped) {
        put_reason(c, p, raw);
    }
    if (pid != EVENT_NO_ID) {
        buf_printf(&c->comment, "%s%spid %u", c->comment.n ? ", " : "",
                   sent ? "sent in a thread of " : "", (unsigned)pid);
    }
    if (owner) {
        buf_printf(&c->comment, " %.*s", (int)owner->info.name.n, owner->info.name.p);
    }
}

static bool is_wanted(const struct etl_pcap *c, const struct etl_packets_one *p)
{
    bool wanted = !c->n_wanted;

    for (size_t i = 0; i < c->n_wanted && !wanted; i++) {
        wanted = p->component == c->wanted[i];
    }
    return wanted && (p->dropped || !c->drops_only);
}

static void packet_write(struct etl_pcap *c, const struct etl_packets_one *p,
                         const struct raw_event *raw, uint32_t pid, bool sent,
                         const struct interface *i)
{
    struct etl_pcapng_packet out = {.interface = (uint32_t)(i - c->interfaces),
                                    .wall_ns = raw->wall_ns,
                                    .original = p->original,
                                    .bytes = p->bytes,
                                    .n = p->n,
                                    .way = p->way,
                                    .has_id = p->grouped,
                                    .id = p->group};

    put_comment(c, p, raw, pid, sent);
    out.comment = (struct str){(const char *)c->comment.p, c->comment.bad ? 0 : c->comment.n};
    etl_pcapng_packet(c->to, &out);
    if (!etl_pcapng_ok(c->to)) {
        c->job->out_failed = true;
        c->job->out_errno = errno;
        etl_walk_stop(c->walk);
    }
}

static void on_packet(struct etl_pcap *c, struct etl_packets_one *p, const struct raw_event *raw)
{
    uint64_t place = p->ndis ? 0 : map_get(&c->by_id, p->component + 1u);
    struct interface *i;
    uint32_t pid;
    bool again, sent;

    if (p->link == ETL_PACKETS_WIFI && place && c->components[place - 1].wifi_is_ethernet) {
        p->link = ETL_PACKETS_ETHERNET;
    }
    pid = packet_pid(c, p, raw, &sent);
    if (!is_wanted(c, p) ||
        ((c->range.by_pid || c->range.name.n) &&
         !etl_range_process(&c->range, pid, instances_owner(c->walk->table, pid)))) {
        return;
    }
    if (p->link == ETL_PACKETS_NO_LINK) {
        c->no_frame++;
        return;
    }
    again = p->grouped && p->appearance && seen_before(c, p, 1);
    if (again && c->once && !p->dropped) {
        c->left_out++;
        return;
    }
    i = interface_of(c, p);
    if (!i) {
        c->no_room++;
        return;
    }
    c->packets_n++;
    c->different += !again;
    c->ungrouped += p->grouped && !p->appearance;
    c->dropped += p->dropped;
    c->bytes += p->n;
    c->cut += p->original > p->n;
    c->last_ns = raw->wall_ns;
    i->packets++;
    i->dropped += p->dropped;
    i->bytes += p->n;
    i->cut += p->original > p->n;
    i->in += p->way == ETL_PACKETS_IN;
    i->out += p->way == ETL_PACKETS_OUT;
    if (c->to) {
        packet_write(c, p, raw, pid, sent, i);
    }
}

static void on_write(void *ctx, const struct etl_walk_record *r)
{
    struct etl_pcap *c = ctx;
    struct etl_packets_one p;

    if (etl_range_takes(&c->range, c->walk, r) && etl_packets_take(c->packets, r->raw, &p)) {
        on_packet(c, &p, r->raw);
    }
}

/* -- what is shown: where packets were seen -- */

enum {
    FILE_NAME,
    INTERFACE,
    COMPONENT,
    NAME,
    LINK,
    PACKETS,
    IN,
    OUT,
    DROPPED,
    BYTES,
    CUT,
    DESCRIPTION,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [INTERFACE] = {"interface", NULL, TABLE_ID},
    [COMPONENT] = {"component", "COMPONENT", TABLE_ID},
    [NAME] = {"name", "NAME", TABLE_TEXT},
    [LINK] = {"link", "LINK", TABLE_WORD},
    [PACKETS] = {"packets", "PACKETS", TABLE_COUNT},
    [IN] = {"in", "IN", TABLE_COUNT},
    [OUT] = {"out", "OUT", TABLE_COUNT},
    [DROPPED] = {"dropped", "DROPPED", TABLE_COUNT},
    [BYTES] = {"bytes", "BYTES", TABLE_BYTES},
    [CUT] = {"cut", "CUT", TABLE_COUNT},
    [DESCRIPTION] = {"description", "DESCRIPTION", TABLE_TEXT},
};

static enum err put_interface(struct etl_pcap *c, struct table *sheet, const char *file, size_t n)
{
    const struct interface *i = &c->interfaces[n];
    struct table_cell cells[COLUMNS];
    bool wifi = i->like.link == ETL_PACKETS_WIFI, ip = i->like.link == ETL_PACKETS_IP;

    cells[FILE_NAME] = table_string(str_make(file));
    cells[INTERFACE] = table_number(true, (int64_t)n);
    cells[COMPONENT] = table_number(true, i->like.component);
    cells[NAME] = table_string(i->component ? i->component->name : str_make(""));
    cells[LINK] = table_string(str_make(wifi ? "802.11" : ip ? "ip" : "ethernet"));
    cells[PACKETS] = table_count(i->packets);
    cells[IN] = table_count(i->in);
    cells[OUT] = table_count(i->out);
    cells[DROPPED] = table_count(i->dropped);
    cells[BYTES] = table_count(i->bytes);
    cells[CUT] = table_count(i->cut);
    cells[DESCRIPTION] = table_string(i->component ? i->component->description : str_make(""));
    if (c->to) {
        etl_pcapng_statistics(c->to, (uint32_t)n, c->last_ns, i->packets, i->dropped);
    }
    return table_row(sheet, cells);
}

static uint64_t not_recorded(const struct etl_pcap *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->n_flows; i++) {
        n +=
            c->flows[i].counted > c->flows[i].logged ? c->flows[i].counted - c->flows[i].logged : 0;
    }
    return n;
}

static void note_count(struct table *sheet, const char *file, uint64_t n, const char *what)
{
    if (n) {
        etl_job_note(sheet, file, "%llu %s", (unsigned long long)n, what);
    }
}

static void put_notes(struct etl_pcap *c, struct table *sheet, const char *file,
                      const struct etl_packets_stats *stats)
{
    const char *output = opt_value(c->job->args, "output");

    if (!c->packets_n) {
        etl_job_note(sheet, file, "no packets are recorded, or none is meant" ETL_JOB_PROVIDERS);
    } else {
        etl_job_note(sheet, file,
                     "%llu packets, %llu of them different, %llu dropped, %llu interfaces; "
                     "%llu bytes, %llu packets cut%s%s",
                     (unsigned long long)c->packets_n, (unsigned long long)c->different,
                     (unsigned long long)c->dropped, (unsigned long long)c->n_interfaces,
                     (unsigned long long)c->bytes, (unsigned long long)c->cut,
                     output ? "; written to " : "", output ? output : "");
    }
    note_count(sheet, file, c->left_out, "further sightings of packets are left out (--once)");
    note_count(sheet, file, c->ungrouped,
               "sightings do not say which packet they are of: each counts as another");
    note_count(sheet, file, c->no_frame, "records hold a part of a message and no frame");
    note_count(sheet, file, not_recorded(c),
               "packets more are in the components' own counters than are recorded");
    note_count(sheet, file, stats->damaged, "packet records are damaged");
    note_count(sheet, file, stats->unfinished, "fragments of packets without begin or end");
    note_count(sheet, file, c->no_room, "components, connections or packets had no room");
    note_count(sheet, file, c->flows_full,
               "times a component's direction had no room: edges may lack their names, and packets "
               "that are not recorded are not all known");
}

/* -- the command -- */

static void pcap_reset(struct etl_pcap *c)
{
    c->n_components = c->n_flows = c->n_interfaces = c->n_owners = 0;
    c->packets_n = c->different = c->ungrouped = c->dropped = c->bytes = c->cut = 0;
    c->left_out = c->no_frame = c->no_room = c->flows_full = 0;
    map_clear(&c->by_id);
    map_clear(&c->by_flow);
    map_clear(&c->by_interface);
    map_clear(&c->by_tuple);
    arena_fini(&c->texts);
    arena_init(&c->texts, TEXTS_MAX);
}

/* One walk; what came before its end counts. False: there is none. */
static bool walk_once(struct etl_pcap *c, size_t part, bool writes)
{
    struct etl_walk_conf conf = {
        .names = true, .progress = true, .record = writes ? on_write : on_look, .ctx = c};

    map_clear(&c->seen[0]);
    map_clear(&c->seen[1]);
    if (etl_job_open(c->job, part, &conf, &c->walk) != ERR_OK) {
        return false;
    }
    if (writes && c->to) {
        etl_pcapng_section(c->to, str_make(c->walk->source->about.system),
                           str_make(ETL_JOB_PROGRAM " " PROCFLEET_VERSION));
    }
    (void)etl_job_walk(c->job, c->walk);
    return true;
}

static enum err pcap_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    const char *file = etl_job_part_name(job, part);
    struct etl_pcap *c = ctx;
    struct etl_packets_stats stats;
    bool looked;
    enum err e;

    pcap_reset(c);
    if (etl_packets_create(&c->packets)) {
        return ERR_NOMEM;
    }
    looked = walk_once(c, part, false);
    if (looked) {
        etl_walk_close(c->walk);
    }
    etl_packets_destroy(c->packets);
    e = etl_packets_create(&c->packets);
    etl_range_begin(&c->range);
    if (!e && looked && !job->partial && walk_once(c, part, true)) {
        etl_packets_end(c->packets, &stats);
        for (size_t i = 0; i < c->n_interfaces && !e && etl_job_out_ok(job); i++) {
            e = put_interface(c, sheet, file, i);
        }
        put_notes(c, sheet, file, &stats);
        etl_walk_close(c->walk);
    }
    etl_packets_destroy(c->packets);
    c->packets = NULL;
    return e;
}

static enum err pcap_options(struct etl_pcap *c, struct errmsg *why)
{
    const char *output = opt_value(c->job->args, "output"), *ids[OPT_MANY_MAX];
    enum err e = etl_range_parse(&c->range, c->job, why);
    uint64_t id;

    c->drops_only = opt_flag(c->job->args, "drops-only");
    c->once = opt_flag(c->job->args, "once");
    c->n_wanted = opt_values(c->job->args, "component", ids, OPT_MANY_MAX);
    for (size_t i = 0; i < c->n_wanted && !e; i++) {
        e = opt_number(&id, ids[i], UINT16_MAX);
        if (e) {
            return errmsg_set(why, ERR_USAGE, "--component: '%s' is no id of a component", ids[i]);
        }
        c->wanted[i] = (uint16_t)id;
    }
    if (e || !output) {
        return e;
    }
    if (etl_job_is_stdout(output)) { /* the packets go there, so rows do not */
        if (c->job->out_terminal) {
            return errmsg_set(
                why, ERR_USAGE,
                "--output: packets are no text for a terminal; give a file or a pipe");
        }
        c->job->out = stderr;
        c->job->out_terminal = os_is_terminal(2);
        return etl_pcapng_open(&c->to, NULL, why);
    }
    return etl_pcapng_open(&c->to, output, why);
}

static enum err pcap_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"CUT", "FILE", "IN", "OUT", "DESCRIPTION", NULL};
    struct etl_pcap *c = mem_zalloc(sizeof *c);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the packets", pcap_part, c};
    enum err e, closed;

    if (!c) {
        return ERR_NOMEM;
    }
    c->job = job;
    arena_init(&c->texts, TEXTS_MAX);
    buf_init(&c->comment, COMMENT_MAX);
    err_ignore(os_random(&c->seed, sizeof c->seed)); /* without it only slower */
    e = pcap_options(c, why);
    e = e ? e : etl_job_rows(job, &list, why);
    closed = etl_pcapng_close(c->to);
    if (!e && closed) {
        e = errmsg_set(why, closed, "%s could not be written to its end",
                       opt_value(job->args, "output"));
    }
    buf_fini(&c->comment);
    arena_fini(&c->texts);
    map_fini(&c->by_id);
    map_fini(&c->by_flow);
    map_fini(&c->by_interface);
    map_fini(&c->by_tuple);
    map_fini(&c->seen[0]);
    map_fini(&c->seen[1]);
    mem_free(c->components);
    mem_free(c->flows);
    mem_free(c->interfaces);
    mem_free(c->owners);
    mem_free(c);
    return e;
}

static const struct opt opts[] = {
    {"output", 'o', "FILE",
     "the capture (pcapng), - for standard output, rows go to standard error then; without it "
     "packets are only counted",
     false},
    {"drops-only", 0, NULL, "only packets that were dropped", false},
    {"component", 0, "ID", "only packets seen there; may be repeated", true},
    {"once", 0, NULL, "each packet once, where it was seen first, and where it was dropped", false},
    ETL_RANGE_OPTS,
    ETL_JOB_OPT_LIMIT,
    ETL_JOB_OPTS};

static const struct opt_command pcap_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "pcap",
    .brief = "packets (pktmon, netsh trace) as a capture for Wireshark",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl pcap PktMon.etl -o packets.pcapng\n"
                "  procfleet-etl pcap PktMon.etl --drops-only -o dropped.pcapng\n"
                "  procfleet-etl pcap PktMon.etl --once --component 59 -o nic.pcapng\n"
                "  procfleet-etl pcap PktMon.etl -o - | tshark -r -\n",
};

const struct etl_command etl_pcap_command = {&pcap_opts, NULL, pcap_run};
