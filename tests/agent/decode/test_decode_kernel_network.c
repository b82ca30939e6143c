#include "tests/agent/decode/payload.h"

#define BASE    "PID size daddr saddr dport sport"
#define PLAIN   BASE " seqnum connid"
#define SEND    BASE " startime endtime seqnum connid"
#define CONNECT BASE " mss sackopt tsopt wsopt rcvwin rcvwinscale sndwinscale seqnum connid"

static const struct payload_row rows[] = {
    {10, 0, "44iipp444P", SEND, "TcpSendIPV4", EV_NET},
    {11, 0, "44iipp4P", PLAIN, "TcpRecvIPV4", EV_NET},
    {12, 0, "44iipp22224224P", CONNECT, "TcpConnectIPV4", EV_NET},
    {13, 0, "44iipp4P", PLAIN, "TcpDisconnectIPV4", EV_NET},
    {14, 0, "44iipp4P", PLAIN, "TcpRetransmitIPV4", EV_NET},
    {15, 0, "44iipp22224224P", CONNECT, "TcpAcceptIPV4", EV_NET},
    {16, 0, "44iipp4P", PLAIN, "TcpReconnectIPV4", EV_NET},
    {17, 0, "22", "Proto FailureCode", "TcpFail", EV_NET},
    {18, 0, "44iipp4P", PLAIN, "TcpCopyIPV4", EV_NET},
    {26, 0, "44IIpp444P", SEND, "TcpSendIPV6", EV_NET},
    {27, 0, "44IIpp4P", PLAIN, "TcpRecvIPV6", EV_NET},
    {28, 0, "44IIpp22224224P", CONNECT, "TcpConnectIPV6", EV_NET},
    {29, 0, "44IIpp4P", PLAIN, "TcpDisconnectIPV6", EV_NET},
    {30, 0, "44IIpp4P", PLAIN, "TcpRetransmitIPV6", EV_NET},
    {31, 0, "44IIpp22224224P", CONNECT, "TcpAcceptIPV6", EV_NET},
    {32, 0, "44IIpp4P", PLAIN, "TcpReconnectIPV6", EV_NET},
    {34, 0, "44IIpp4P", PLAIN, "TcpCopyIPV6", EV_NET},
    {42, 0, "44iipp4P", PLAIN, "UdpSendIPV4", EV_NET},
    {43, 0, "44iipp4P", PLAIN, "UdpRecvIPV4", EV_NET},
    {49, 0, "22", "Proto FailureCode", "UdpFail", EV_NET},
    {58, 0, "44IIpp4P", PLAIN, "UdpSendIPV6", EV_NET},
    {59, 0, "44IIpp4P", PLAIN, "UdpRecvIPV6", EV_NET},
};

static size_t at;

/* In the order of the rows, each in two sizes of pointers. */
static void check(const struct event *ev, const struct payload *p)
{
    static const struct {
        uint8_t op;
        bool udp, v6;
    } expected[COUNT_OF(rows)] = {
        {NET_SEND, false, false},       {NET_RECV, false, false},       {NET_CONNECT, false, false},
        {NET_DISCONNECT, false, false}, {NET_RETRANSMIT, false, false}, {NET_ACCEPT, false, false},
        {NET_RECONNECT, false, false},  {NET_FAIL, false, false},       {NET_COPY, false, false},
        {NET_SEND, false, true},        {NET_RECV, false, true},        {NET_CONNECT, false, true},
        {NET_DISCONNECT, false, true},  {NET_RETRANSMIT, false, true},  {NET_ACCEPT, false, true},
        {NET_RECONNECT, false, true},   {NET_COPY, false, true},        {NET_SEND, true, false},
        {NET_RECV, true, false},        {NET_FAIL, true, false},        {NET_SEND, true, true},
        {NET_RECV, true, true},
    };
    const struct ev_net *net = &ev->u.net;

    assert_true(net->manifest);
    assert_int_equal(net->op, expected[at / 2].op);
    assert_int_equal(net->udp, expected[at / 2].udp);
    assert_int_equal(net->v6, expected[at / 2].v6);
    if (net->op == NET_FAIL) {
        assert_int_equal(net->pid, EVENT_NO_ID);
    } else {
        assert_int_equal(net->pid, payload_number(p, "PID"));
        assert_int_equal(net->bytes, payload_number(p, "size"));
    }
    at++;
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_kernel_network_class, rows, COUNT_OF(rows), check);
    assert_int_equal(at, 2 * COUNT_OF(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
