#include "tests/agent/decode/payload.h"

#define BASE       "PID size daddr saddr dport sport"
#define CONNECTION " seqnum connid"
#define SPAN       " startime endtime"
#define OPTIONS    " mss sackopt tsopt wsopt rcvwin rcvwinscale sndwinscale"

#define OLD_4      "44iipp", BASE
#define PLAIN_4    "44iipp4P", BASE CONNECTION
#define PLAIN_6    "44IIpp4P", BASE CONNECTION
#define SEND_4     "44iipp444P", BASE SPAN CONNECTION
#define SEND_6     "44IIpp444P", BASE SPAN CONNECTION
#define CONNECT_4  "44iipp22224224P", BASE OPTIONS CONNECTION
#define CONNECT_6  "44IIpp22224224P", BASE OPTIONS CONNECTION
#define OLDEST_TCP "iipp44", "daddr saddr dport sport size PID"
#define OLDEST_UDP "Pip2ip2", "context saddr sport size daddr dport dsize"
#define FAIL       "22", "Proto FailureCode"

static const struct payload_row tcp_rows[] = {
    {10, 2, SEND_4, "SendIPV4", EV_NET},        {11, 2, PLAIN_4, "RecvIPV4", EV_NET},
    {12, 2, CONNECT_4, "ConnectIPV4", EV_NET},  {13, 2, PLAIN_4, "DisconnectIPV4", EV_NET},
    {14, 2, PLAIN_4, "RetransmitIPV4", EV_NET}, {15, 2, CONNECT_4, "AcceptIPV4", EV_NET},
    {16, 2, PLAIN_4, "ReconnectIPV4", EV_NET},  {17, 2, FAIL, "Fail", EV_NET},
    {18, 2, PLAIN_4, "TCPCopyIPV4", EV_NET},    {26, 2, SEND_6, "SendIPV6", EV_NET},
    {27, 2, PLAIN_6, "RecvIPV6", EV_NET},       {28, 2, CONNECT_6, "ConnectIPV6", EV_NET},
    {29, 2, PLAIN_6, "DisconnectIPV6", EV_NET}, {30, 2, PLAIN_6, "RetransmitIPV6", EV_NET},
    {31, 2, CONNECT_6, "AcceptIPV6", EV_NET},   {32, 2, PLAIN_6, "ReconnectIPV6", EV_NET},
    {34, 2, PLAIN_6, "TCPCopyIPV6", EV_NET},    {10, 1, OLD_4, "SendIPV4", EV_NET},
    {11, 1, OLD_4, "RecvIPV4", EV_NET},         {12, 1, OLD_4, "ConnectIPV4", EV_NET},
    {13, 1, OLD_4, "DisconnectIPV4", EV_NET},   {14, 1, OLD_4, "RetransmitIPV4", EV_NET},
    {15, 1, OLD_4, "AcceptIPV4", EV_NET},       {16, 1, OLD_4, "ReconnectIPV4", EV_NET},
    {17, 1, "4", "Proto", "Fail", EV_NET},      {10, 0, OLDEST_TCP, "Send", EV_NET},
    {11, 0, OLDEST_TCP, "Recv", EV_NET},        {12, 0, OLDEST_TCP, "Connect", EV_NET},
    {13, 0, OLDEST_TCP, "Disconnect", EV_NET},  {14, 0, OLDEST_TCP, "Retransmit", EV_NET},
    {15, 0, OLDEST_TCP, "Accept", EV_NET},
};

static const struct payload_row udp_rows[] = {
    {10, 2, PLAIN_4, "SendIPV4", EV_NET}, {11, 2, PLAIN_4, "RecvIPV4", EV_NET},
    {17, 2, FAIL, "Fail", EV_NET},        {26, 2, PLAIN_6, "SendIPV6", EV_NET},
    {27, 2, PLAIN_6, "RecvIPV6", EV_NET}, {10, 1, OLD_4, "SendIPV4", EV_NET},
    {11, 1, OLD_4, "RecvIPV4", EV_NET},   {10, 0, OLDEST_UDP, "Send", EV_NET},
    {11, 0, OLDEST_UDP, "Recv", EV_NET},
};

static void check(const struct event *ev, const struct payload *p, bool udp)
{
    const struct ev_net *net = &ev->u.net;

    assert_int_equal(net->udp, udp);
    assert_int_equal(net->v6, p->form[2] == 'I');
    if (strcmp(p->names[0], "Proto") == 0) {
        assert_int_equal(net->op, NET_FAIL);
        assert_int_equal(net->pid, EVENT_NO_ID);
        assert_int_equal(net->bytes, 0);
        return;
    }
    assert_int_equal(net->pid, (uint32_t)payload_number(
                                   p, strcmp(p->names[0], "context") == 0 ? "context" : "PID"));
    assert_int_equal(net->bytes, payload_number(p, "size"));
}

static void check_tcp(const struct event *ev, const struct payload *p)
{
    check(ev, p, false);
}

static void check_udp(const struct event *ev, const struct payload *p)
{
    check(ev, p, true);
}

static void every_tcp_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_tcp_ip_class, tcp_rows, COUNT_OF(tcp_rows), check_tcp);
}

static void every_udp_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_udp_ip_class, udp_rows, COUNT_OF(udp_rows), check_udp);
}

static void opcodes_are_told_by_what_they_do(void **state)
{
    static const uint8_t op_of[][2] = {
        {0, NET_SEND},   {1, NET_RECV},       {2, NET_CONNECT}, {3, NET_DISCONNECT},
        {5, NET_ACCEPT}, {4, NET_RETRANSMIT}, {8, NET_COPY},    {6, NET_RECONNECT},
    };
    static const uint8_t payload[80];
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(op_of); i++) {
        for (unsigned first = 10; first <= 26; first += 16) {
            struct raw_event raw = {.form = RAW_CLASSIC,
                                    .version = 2,
                                    .opcode = (uint8_t)(first + op_of[i][0]),
                                    .pointer_size = 8,
                                    .payload = payload,
                                    .payload_n = sizeof payload};
            struct event ev;

            memcpy(raw.guid, decode_tcp_ip_class.guid, sizeof raw.guid);
            assert_ok(decode_event(d, &raw, &ev));
            assert_int_equal(ev.u.net.op, op_of[i][1]);
            assert_int_equal(ev.u.net.v6, first == 26);
        }
    }
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tcp_record_is_read_whole_or_refused),
        cmocka_unit_test(every_udp_record_is_read_whole_or_refused),
        cmocka_unit_test(opcodes_are_told_by_what_they_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
