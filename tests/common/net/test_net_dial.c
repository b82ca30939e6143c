/* A dialer whose other side is not there: no answer of any kind comes. Linux. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/os.h"
#include "tests/support/net_rig.h"
#include "tests/support/t.h"

#define GIVES_UP_MAX (15 * CLK_S)

static struct certs *pki;
static struct tls_config *collector, *agent;

/* Of this program's socket that is connected to `port`; -1: there is none. */
static int dialled(unsigned port)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in at = {.sin_family = AF_UNSPEC};
        socklen_t at_n = sizeof at;

        if (getpeername(fd, (struct sockaddr *)&at, &at_n) == 0 && at.sin_family == AF_INET &&
            ntohs(at.sin_port) == port) {
            return fd;
        }
    }
    return -1;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t n = sizeof value;

    assert_int_equal(getsockopt(fd, level, name, &value, &n), 0);
    return value;
}

/* As the listener's side does: a minute without a byte, then three questions. */
static void a_connection_whose_other_side_vanished_ends_within_two_minutes(void **state)
{
    struct net_server_conf conf = {.tls = collector, .roles = NET_AGENT};
    struct net_client *c;
    struct net_rig g;
    int fd, idle_s, ask_s;

    net_rig_start(&g, &conf);
    c = net_rig_dial(g.address, agent);
    assert_ok(net_client_wait(c, NET_RIG_LONG_NS, NULL));
    fd = dialled(net_server_port(g.server));
    assert_true(fd >= 0);
    assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    idle_s = option(fd, IPPROTO_TCP, TCP_KEEPIDLE);
    ask_s = option(fd, IPPROTO_TCP, TCP_KEEPINTVL);
    assert_in_range(idle_s + ask_s * option(fd, IPPROTO_TCP, TCP_KEEPCNT), 10, 120);
    assert_in_range(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 10000, 120000);
    net_client_close(c);
    net_rig_stop(&g);
}

/* One that has as many connections waiting as it may have: further requests are dropped, as by a
 * machine that is off. */
static void full_listener(int fds[4], char *address, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    assert_int_equal(getsockname(fds[0], (struct sockaddr *)&at, &n), 0);
    (void)snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    for (unsigned i = 1; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&at, sizeof at);
    }
    /* The queue holds one; until that one is in it, the listener could answer the client, too. That
     * it stands at its own end says less. */
    assert_true(poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 10000) == 1);
}

/* The system alone would go on for two minutes, and its last pause is of one: so long an agent
 * stayed away from a collector that was back. */
static void who_dials_into_nothing_begins_anew_soon(void **state)
{
    struct errmsg problem = {""};
    int64_t begun_ns;
    char address[32];
    struct net_client *c;
    int fds[4];

    full_listener(fds, address, sizeof address);
    begun_ns = os_mono_ns();
    c = net_rig_dial(address, agent);
    do {
        os_sleep_ns(50 * CLK_MS);
        net_client_problem(c, &problem);
    } while (!problem.text[0] && os_mono_ns() - begun_ns < GIVES_UP_MAX + 5 * CLK_S);
    assert_true(os_mono_ns() - begun_ns < GIVES_UP_MAX);
    if (!strstr(problem.text, "no answer")) {
        fail_msg("it says: %s", problem.text);
    }
    net_client_close(c);
    for (unsigned i = 0; i < 4; i++) {
        close(fds[i]);
    }
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
        cmocka_unit_test(a_connection_whose_other_side_vanished_ends_within_two_minutes),
        cmocka_unit_test(who_dials_into_nothing_begins_anew_soon),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
