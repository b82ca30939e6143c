/* The wall clock is set while calls are under way: limits of time are those of the monotonic clock.
 * Linux. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/net/net.h"
#include "common/os/os.h"
#include "tests/support/net_rig.h"
#include "tests/support/t.h"

#define HOUR_S 3600

static struct certs *pki;
static struct tls_config *agent;
static atomic_llong set_s; /* by how much the wall clock was set */

/* In the place of the C library's, for all of this program. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    int rv = (int)syscall(SYS_clock_gettime, clock, t);

    if (clock == CLOCK_REALTIME) {
        t->tv_sec += (time_t)atomic_load(&set_s);
    }
    return rv;
}

static void on_end(void *ctx)
{
    (void)ctx;
}

static struct net_call *begin(struct net_client *c, int64_t timeout_ns)
{
    struct net_call *call;

    assert_ok(net_client_begin(&call, c, "x", 1, timeout_ns, on_end, NULL));
    return call;
}

/* Calls that find no connection wait for one for as long as they may. */
static void limits_of_time_do_not_move_with_the_wall_clock(void **state)
{
    static const int steps[] = {HOUR_S, -HOUR_S};

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct net_client *c = net_rig_dial("127.0.0.1:1", agent);
        struct net_call *patient = begin(c, 20 * CLK_S), *brief;
        int64_t begun_ns;
        struct buf reply;

        buf_init(&reply, 64);
        os_sleep_ns(20 * CLK_MS); /* its limit is being waited for */
        atomic_fetch_add(&set_s, steps[i]);
        begun_ns = os_mono_ns();
        brief = begin(c, 100 * CLK_MS);
        while (!net_client_ended(brief) && os_mono_ns() - begun_ns < 5 * CLK_S) {
            os_sleep_ns(CLK_MS);
        }
        assert_true(net_client_ended(brief));
        assert_true(os_mono_ns() - begun_ns >= 90 * CLK_MS);
        assert_err(net_client_finish(brief, &reply, NULL), ERR_TIMEOUT);
        assert_false(net_client_ended(patient));
        net_client_hang_up(c);
        assert_err(net_client_finish(patient, &reply, NULL), ERR_CLOSED);
        net_client_close(c);
        buf_fini(&reply);
    }
}

static int set_up(void **state)
{
    net_rig_begin(&pki, NULL);
    agent = certs_tls(pki, PKI_AGENT, "agent");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_time_do_not_move_with_the_wall_clock),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
