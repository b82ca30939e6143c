/* What the system is told about the listening socket. Linux. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/net/socket_tune.h"
#include "common/os/os.h"
#include "tests/support/net_rig.h"
#include "tests/support/raw_peer.h"
#include "tests/support/t.h"

static struct certs *pki;
static struct tls_config *collector, *agent;

static void rig_start(struct net_rig *g, unsigned same_address_max)
{
    struct net_server_conf conf = {
        .tls = collector, .roles = NET_AGENT, .same_address_max = same_address_max};

    net_rig_start(g, &conf);
}

static void the_listening_socket_is_found_by_its_port(void **state)
{
    struct net_rig g;
    unsigned port;

    rig_start(&g, 0);
    port = net_server_port(g.server);
    assert_ok(socket_tune(port)); /* again is fine */
    net_rig_stop(&g);
    assert_err(socket_tune(port), ERR_NOTFOUND);
}

/* Of this program's socket that listens at `port`; 0: there is none. */
static unsigned queue_length(unsigned port)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in at = {.sin_family = AF_UNSPEC};
        socklen_t at_n = sizeof at, info_n = sizeof(struct tcp_info);
        struct tcp_info info;

        if (getsockname(fd, (struct sockaddr *)&at, &at_n) == 0 && at.sin_family == AF_INET &&
            ntohs(at.sin_port) == port &&
            getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_n) == 0 &&
            info.tcpi_state == TCP_LISTEN) {
            return info.tcpi_sacked; /* of a listening socket this is its limit */
        }
    }
    return 0;
}

/* Clients give up after ten seconds: a collector that greets 40 a second gets through it in time.
 */
static void no_more_wait_to_be_taken_than_a_slow_collector_greets_in_time(void **state)
{
    struct net_rig g;
    unsigned n;

    rig_start(&g, 0);
    n = queue_length(net_server_port(g.server));
    assert_in_range(n, 128, 400);
    net_rig_stop(&g);
}

/* It would hold the only place of its address. */
static void who_has_not_said_a_word_takes_no_place(void **state)
{
    struct raw_peer *mute;
    struct net_client *c;
    struct net_rig g;

    rig_start(&g, 1);
    assert_ok(raw_peer_connect(&mute, net_server_port(g.server)));
    c = net_rig_dial(g.address, agent);
    assert_ok(net_client_wait(c, NET_RIG_LONG_NS, NULL));
    net_client_close(c);
    raw_peer_close(mute);
    net_rig_stop(&g);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_listening_socket_is_found_by_its_port),
        cmocka_unit_test(no_more_wait_to_be_taken_than_a_slow_collector_greets_in_time),
        cmocka_unit_test(who_has_not_said_a_word_takes_no_place),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
