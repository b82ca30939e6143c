/* Provider Microsoft-Windows-Kernel-Network: what goes through sockets, by process. As with the
 * classes TcpIp and UdpIp, which the kernel writes from the same places, the owner is the pid of
 * the payload: the header's is whoever ran, often nobody. Version 0 is the only one.
 *
 *   base                  u32 pid, u32 bytes, remote and local address (4 or 16 bytes), remote and
 *                         local port (network order)
 *   10, 26                TCP send: base, u32 begin, u32 end, u32 sequence, P connection
 *   11, 13, 14, 16, 18    TCP receive, disconnect, retransmit, reconnect, copy; from 27 the same
 *   42, 43, 58, 59        over IPv6; UDP send, receive: base, u32 sequence, P connection
 *   12, 15, 28, 31        TCP connect, accept: base, u16 mss, u16 × 3 options, u32 window, u16 × 2
 *                         scales, u32 sequence, P connection
 *   17, 49                failed to connect: u16 protocol, u16 code
 *
 * Manifests that were rebuilt from a running system call the connection a u32 and the IPv6
 * addresses bytes without a length; 8,923 recorded events say what stands here. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define ID_TCP4     10
#define ID_TCP6     26
#define ID_UDP4     42
#define ID_UDP6     58
#define PORTS_BYTES (2 + 2)

static const uint8_t tcp_op_of[] = {
    NET_SEND,   NET_RECV,      NET_CONNECT, NET_DISCONNECT, NET_RETRANSMIT,
    NET_ACCEPT, NET_RECONNECT, NET_FAIL,    NET_COPY,
};

static bool net_is_udp(const struct raw_event *raw)
{
    return raw->id >= ID_UDP4;
}

static bool net_is_v6(const struct raw_event *raw)
{
    return (raw->id >= ID_TCP6 && raw->id < ID_UDP4) || raw->id >= ID_UDP6;
}

static uint8_t net_op_of(const struct raw_event *raw)
{
    if (!net_is_udp(raw)) {
        return tcp_op_of[raw->id - (net_is_v6(raw) ? ID_TCP6 : ID_TCP4)];
    }
    return tcp_op_of[raw->id - (net_is_v6(raw) ? ID_UDP6 : ID_UDP4)]; /* 49 is 17 of UDP */
}

static size_t net_tail_bytes(uint8_t op, bool udp, unsigned pointer_size)
{
    size_t n = 4 + pointer_size;

    if (op == NET_SEND && !udp) {
        n += 2 * 4;
    } else if (op == NET_CONNECT || op == NET_ACCEPT) {
        n += 4 * 2 + 4 + 2 * 2;
    }
    return n;
}

static enum err decode_net(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_net ev = {.manifest = true, .udp = net_is_udp(raw), .v6 = net_is_v6(raw)};

    (void)kind;
    (void)text;
    ev.op = net_op_of(raw);
    if (ev.op == NET_FAIL) {
        ev.pid = EVENT_NO_ID;
        cur_skip(&c, 4);
    } else {
        ev.pid = cur_u32le(&c);
        ev.bytes = cur_u32le(&c);
        cur_skip(&c, (ev.v6 ? 2 * 16 : 2 * 4) + PORTS_BYTES);
        cur_skip(&c, net_tail_bytes(ev.op, ev.udp, raw->pointer_size));
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.net = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {10, 0, EV_NET, decode_net}, {11, 0, EV_NET, decode_net}, {26, 0, EV_NET, decode_net},
    {27, 0, EV_NET, decode_net}, {18, 0, EV_NET, decode_net}, {34, 0, EV_NET, decode_net},
    {42, 0, EV_NET, decode_net}, {43, 0, EV_NET, decode_net}, {58, 0, EV_NET, decode_net},
    {59, 0, EV_NET, decode_net}, {12, 0, EV_NET, decode_net}, {13, 0, EV_NET, decode_net},
    {14, 0, EV_NET, decode_net}, {15, 0, EV_NET, decode_net}, {16, 0, EV_NET, decode_net},
    {17, 0, EV_NET, decode_net}, {28, 0, EV_NET, decode_net}, {29, 0, EV_NET, decode_net},
    {30, 0, EV_NET, decode_net}, {31, 0, EV_NET, decode_net}, {32, 0, EV_NET, decode_net},
    {49, 0, EV_NET, decode_net},
};

#define BASE(ADDRESS)                                                                         \
    {"PID", LAYOUT_U32, 0, 0, 0}, {"size", LAYOUT_U32, 0, 0, 0}, {"daddr", ADDRESS, 0, 0, 0}, \
        {"saddr", ADDRESS, 0, 0, 0}, {"dport", LAYOUT_PORT, 0, 0, 0},                         \
    {                                                                                         \
        "sport", LAYOUT_PORT, 0, 0, 0                                                         \
    }

#define CONNECTION                                                    \
    {"seqnum", LAYOUT_U32, 0, 0, 0}, {"connid", LAYOUT_PTR, 0, 0, 0}, \
    {                                                                 \
        0                                                             \
    }

#define SPAN                           \
    {"startime", LAYOUT_U32, 0, 0, 0}, \
    {                                  \
        "endtime", LAYOUT_U32, 0, 0, 0 \
    }

#define OPTIONS                                                                \
    {"mss", LAYOUT_U16, 0, 0, 0}, {"sackopt", LAYOUT_U16, 0, 0, 0},            \
        {"tsopt", LAYOUT_U16, 0, 0, 0}, {"wsopt", LAYOUT_U16, 0, 0, 0},        \
        {"rcvwin", LAYOUT_U32, 0, 0, 0}, {"rcvwinscale", LAYOUT_U16, 0, 0, 0}, \
    {                                                                          \
        "sndwinscale", LAYOUT_U16, 0, 0, 0                                     \
    }

static const struct layout_field plain_v4[] = {BASE(LAYOUT_IP4), CONNECTION};
static const struct layout_field plain_v6[] = {BASE(LAYOUT_IP6), CONNECTION};
static const struct layout_field send_v4[] = {BASE(LAYOUT_IP4), SPAN, CONNECTION};
static const struct layout_field send_v6[] = {BASE(LAYOUT_IP6), SPAN, CONNECTION};
static const struct layout_field connect_v4[] = {BASE(LAYOUT_IP4), OPTIONS, CONNECTION};
static const struct layout_field connect_v6[] = {BASE(LAYOUT_IP6), OPTIONS, CONNECTION};

static const struct layout_field fail[] = {
    {"Proto", LAYOUT_U16, 0, 0, 0},
    {"FailureCode", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {10, 0, 0, "TcpSendIPV4", send_v4},        {11, 0, 0, "TcpRecvIPV4", plain_v4},
    {12, 0, 0, "TcpConnectIPV4", connect_v4},  {13, 0, 0, "TcpDisconnectIPV4", plain_v4},
    {14, 0, 0, "TcpRetransmitIPV4", plain_v4}, {15, 0, 0, "TcpAcceptIPV4", connect_v4},
    {16, 0, 0, "TcpReconnectIPV4", plain_v4},  {17, 0, 0, "TcpFail", fail},
    {18, 0, 0, "TcpCopyIPV4", plain_v4},       {26, 0, 0, "TcpSendIPV6", send_v6},
    {27, 0, 0, "TcpRecvIPV6", plain_v6},       {28, 0, 0, "TcpConnectIPV6", connect_v6},
    {29, 0, 0, "TcpDisconnectIPV6", plain_v6}, {30, 0, 0, "TcpRetransmitIPV6", plain_v6},
    {31, 0, 0, "TcpAcceptIPV6", connect_v6},   {32, 0, 0, "TcpReconnectIPV6", plain_v6},
    {34, 0, 0, "TcpCopyIPV6", plain_v6},       {42, 0, 0, "UdpSendIPV4", plain_v4},
    {43, 0, 0, "UdpRecvIPV4", plain_v4},       {49, 0, 0, "UdpFail", fail},
    {58, 0, 0, "UdpSendIPV6", plain_v6},       {59, 0, 0, "UdpRecvIPV6", plain_v6},
};

const struct decode_class decode_kernel_network_class = {
    .guid = ETW_PROVIDER_KERNEL_NETWORK,
    .form = RAW_MANIFEST,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Microsoft-Windows-Kernel-Network",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
