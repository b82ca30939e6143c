/* Classes TcpIp and UdpIp: what goes through sockets, by process. A record's own ids, where it has
 * any, are those of the code that ran (often a DPC); the owner is the pid of the payload.
 *
 *   version 2   base:  u32 pid, u32 bytes, remote and local address (4 or 16 bytes), remote and
 *                      local port (network order)
 *     10, 26    TCP send: base, u32 begin, u32 end, u32 sequence, P connection
 *     12, 28    TCP connect, 15, 31 accept: base, u16 mss, u16 × 3 options, u32 window, i16 × 2
 *               scales, u32 sequence, P connection
 *     11, 13, 14, 16, 18 receive, disconnect, retransmit, reconnect, copy, and 27, 29, 30, 32, 34:
 *               base, u32 sequence, P connection
 *     10, 11, 26, 27 of UDP: the same
 *     17        fail: u16 protocol, u16 code
 *   version 1   base for IPv4 only; fail: u32 protocol
 *   version 0   TCP: addresses, ports, u32 bytes, u32 pid
 *               UDP: P pid, local address and port, u16 bytes, remote address and port, u16 sent
 *
 * Opcodes from 26 are IPv6 in the order of the IPv4 ones from 10. Sequence and connection are 0 in
 * every record seen, so nothing can tell their order. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define OP_IPV4     10
#define OP_IPV6     26
#define PORTS_BYTES (2 + 2)

static const uint8_t op_of[] = {
    NET_SEND,   NET_RECV,      NET_CONNECT, NET_DISCONNECT, NET_RETRANSMIT,
    NET_ACCEPT, NET_RECONNECT, NET_FAIL,    NET_COPY,
};

/* What follows the base of version 2. */
static size_t tail_bytes(uint8_t op, bool udp, unsigned pointer_size)
{
    size_t n = 4 + pointer_size;

    if (!udp && op == NET_SEND) {
        n += 2 * 4;
    } else if (op == NET_CONNECT || op == NET_ACCEPT) {
        n += 4 * 2 + 4 + 2 * 2;
    }
    return n;
}

static void old_tcp(struct cur *c, struct ev_net *ev)
{
    cur_skip(c, 2 * 4 + PORTS_BYTES);
    ev->bytes = cur_u32le(c);
    ev->pid = cur_u32le(c);
}

static void old_udp(struct cur *c, struct ev_net *ev, unsigned pointer_size)
{
    ev->pid = (uint32_t)cur_uptr(c, pointer_size);
    cur_skip(c, 4 + 2);
    ev->bytes = cur_u16le(c);
    cur_skip(c, 4 + 2 + 2);
}

static enum err decode_net(struct event *out, const struct raw_event *raw, bool udp)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_net ev = {.udp = udp, .v6 = raw->opcode >= OP_IPV6};

    ev.op = op_of[raw->opcode - (ev.v6 ? OP_IPV6 : OP_IPV4)];
    if (ev.op == NET_FAIL) {
        ev.pid = EVENT_NO_ID;
        cur_skip(&c, 4);
    } else if (raw->version == 0 && udp) {
        old_udp(&c, &ev, raw->pointer_size);
    } else if (raw->version == 0) {
        old_tcp(&c, &ev);
    } else {
        ev.pid = cur_u32le(&c);
        ev.bytes = cur_u32le(&c);
        cur_skip(&c, (ev.v6 ? 2 * 16 : 2 * 4) + PORTS_BYTES);
        cur_skip(&c, raw->version >= 2 ? tail_bytes(ev.op, udp, raw->pointer_size) : 0);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.net = ev;
    return ERR_OK;
}

static enum err decode_tcp(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    (void)kind;
    (void)text;
    return decode_net(out, raw, false);
}

static enum err decode_udp(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    (void)kind;
    (void)text;
    return decode_net(out, raw, true);
}

static const struct decode_op tcp_ops[] = {
    {10, 0, EV_NET, decode_tcp}, {11, 0, EV_NET, decode_tcp}, {26, 2, EV_NET, decode_tcp},
    {27, 2, EV_NET, decode_tcp}, {18, 2, EV_NET, decode_tcp}, {34, 2, EV_NET, decode_tcp},
    {12, 0, EV_NET, decode_tcp}, {13, 0, EV_NET, decode_tcp}, {14, 0, EV_NET, decode_tcp},
    {15, 0, EV_NET, decode_tcp}, {16, 1, EV_NET, decode_tcp}, {17, 1, EV_NET, decode_tcp},
    {28, 2, EV_NET, decode_tcp}, {29, 2, EV_NET, decode_tcp}, {30, 2, EV_NET, decode_tcp},
    {31, 2, EV_NET, decode_tcp}, {32, 2, EV_NET, decode_tcp},
};

static const struct decode_op udp_ops[] = {
    {10, 0, EV_NET, decode_udp}, {11, 0, EV_NET, decode_udp}, {26, 2, EV_NET, decode_udp},
    {27, 2, EV_NET, decode_udp}, {17, 2, EV_NET, decode_udp},
};

#define BASE(ADDRESS)                                                                         \
    {"PID", LAYOUT_U32, 0, 0, 0}, {"size", LAYOUT_U32, 0, 0, 0}, {"daddr", ADDRESS, 0, 0, 0}, \
        {"saddr", ADDRESS, 0, 0, 0}, {"dport", LAYOUT_PORT, 0, 0, 0},                         \
    {                                                                                         \
        "sport", LAYOUT_PORT, 0, 0, 0                                                         \
    }

#define CONNECTION                                                    \
    {"seqnum", LAYOUT_U32, 2, 0, 0}, {"connid", LAYOUT_PTR, 2, 0, 0}, \
    {                                                                 \
        0                                                             \
    }

#define SPAN                           \
    {"startime", LAYOUT_U32, 2, 0, 0}, \
    {                                  \
        "endtime", LAYOUT_U32, 2, 0, 0 \
    }

#define OPTIONS                                                                \
    {"mss", LAYOUT_U16, 2, 0, 0}, {"sackopt", LAYOUT_U16, 2, 0, 0},            \
        {"tsopt", LAYOUT_U16, 2, 0, 0}, {"wsopt", LAYOUT_U16, 2, 0, 0},        \
        {"rcvwin", LAYOUT_U32, 2, 0, 0}, {"rcvwinscale", LAYOUT_I16, 2, 0, 0}, \
    {                                                                          \
        "sndwinscale", LAYOUT_I16, 2, 0, 0                                     \
    }

static const struct layout_field plain_v4[] = {BASE(LAYOUT_IP4), CONNECTION};
static const struct layout_field plain_v6[] = {BASE(LAYOUT_IP6), CONNECTION};
static const struct layout_field send_v4[] = {BASE(LAYOUT_IP4), SPAN, CONNECTION};
static const struct layout_field send_v6[] = {BASE(LAYOUT_IP6), SPAN, CONNECTION};
static const struct layout_field connect_v4[] = {BASE(LAYOUT_IP4), OPTIONS, CONNECTION};
static const struct layout_field connect_v6[] = {BASE(LAYOUT_IP6), OPTIONS, CONNECTION};

static const struct layout_field fail[] = {
    {"Proto", LAYOUT_U32, 1, 1, 0},
    {"Proto", LAYOUT_U16, 2, 0, 0},
    {"FailureCode", LAYOUT_U16, 2, 0, 0},
    {0},
};

static const struct layout_field tcp_v0[] = {
    {"daddr", LAYOUT_IP4, 0, 0, 0},
    {"saddr", LAYOUT_IP4, 0, 0, 0},
    {"dport", LAYOUT_PORT, 0, 0, 0},
    {"sport", LAYOUT_PORT, 0, 0, 0},
    {"size", LAYOUT_U32, 0, 0, 0},
    {"PID", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field udp_v0[] = {
    {"context", LAYOUT_SIZE, 0, 0, 0}, /* the pid */
    {"saddr", LAYOUT_IP4, 0, 0, 0},
    {"sport", LAYOUT_PORT, 0, 0, 0},
    {"size", LAYOUT_U16, 0, 0, 0},
    {"daddr", LAYOUT_IP4, 0, 0, 0},
    {"dport", LAYOUT_PORT, 0, 0, 0},
    {"dsize", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout tcp_layouts[] = {
    {10, 1, 0, "SendIPV4", send_v4},
    {11, 1, 0, "RecvIPV4", plain_v4},
    {12, 1, 0, "ConnectIPV4", connect_v4},
    {13, 1, 0, "DisconnectIPV4", plain_v4},
    {14, 1, 0, "RetransmitIPV4", plain_v4},
    {15, 1, 0, "AcceptIPV4", connect_v4},
    {16, 1, 0, "ReconnectIPV4", plain_v4},
    {17, 1, 0, "Fail", fail},
    {18, 2, 0, "TCPCopyIPV4", plain_v4},
    {26, 2, 0, "SendIPV6", send_v6},
    {27, 2, 0, "RecvIPV6", plain_v6},
    {28, 2, 0, "ConnectIPV6", connect_v6},
    {29, 2, 0, "DisconnectIPV6", plain_v6},
    {30, 2, 0, "RetransmitIPV6", plain_v6},
    {31, 2, 0, "AcceptIPV6", connect_v6},
    {32, 2, 0, "ReconnectIPV6", plain_v6},
    {34, 2, 0, "TCPCopyIPV6", plain_v6},
    {10, 0, 0, "Send", tcp_v0},
    {11, 0, 0, "Recv", tcp_v0},
    {12, 0, 0, "Connect", tcp_v0},
    {13, 0, 0, "Disconnect", tcp_v0},
    {14, 0, 0, "Retransmit", tcp_v0},
    {15, 0, 0, "Accept", tcp_v0},
};

static const struct layout udp_layouts[] = {
    {10, 1, 0, "SendIPV4", plain_v4}, {11, 1, 0, "RecvIPV4", plain_v4}, {17, 2, 0, "Fail", fail},
    {26, 2, 0, "SendIPV6", plain_v6}, {27, 2, 0, "RecvIPV6", plain_v6}, {10, 0, 0, "Send", udp_v0},
    {11, 0, 0, "Recv", udp_v0},
};

const struct decode_class decode_tcp_ip_class = {
    .guid = ETW_CLASS_TCP_IP,
    .ops = tcp_ops,
    .n_ops = sizeof tcp_ops / sizeof tcp_ops[0],
    .name = "TcpIp",
    .layouts = tcp_layouts,
    .n_layouts = sizeof tcp_layouts / sizeof tcp_layouts[0],
};

const struct decode_class decode_udp_ip_class = {
    .guid = ETW_CLASS_UDP_IP,
    .ops = udp_ops,
    .n_ops = sizeof udp_ops / sizeof udp_ops[0],
    .name = "UdpIp",
    .layouts = udp_layouts,
    .n_layouts = sizeof udp_layouts / sizeof udp_layouts[0],
};
